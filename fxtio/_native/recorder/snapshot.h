/* Copies of the running recording, and spans that are slow enough to ask for one. */
#ifndef FXTIO_SNAPSHOT_H
#define FXTIO_SNAPSHOT_H

#include "site.h"

HIDDEN void report_slow_span(Site *site, uint64_t ticks) __attribute__((cold));

#endif
