/* What is known of each task of asyncio: its track, and the flows that lead to it. */
#ifndef FXTIO_KNOWN_TASK_H
#define FXTIO_KNOWN_TASK_H

#include "cache.h"

HIDDEN KnownTask *known_task(PyObject *task);

#endif
