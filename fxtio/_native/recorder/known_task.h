/* What is known of tasks of asyncio whose coroutines are not recorded: their tracks, and the flows that lead to them. */
#ifndef FXTIO_KNOWN_TASK_H
#define FXTIO_KNOWN_TASK_H

#include "operation.h"
#include "thread.h"

HIDDEN KnownTask *known_task(PyObject *task);
HIDDEN KnownTask *known_task_if_any(PyObject *task);

#endif
