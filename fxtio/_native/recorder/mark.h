/* Instants, counters, and other events that a program or the tracer asks for. */
#ifndef FXTIO_MARK_H
#define FXTIO_MARK_H

#include "common.h"

HIDDEN extern PyMethodDef mark_methods[];
HIDDEN int mark_init(void);

#endif
