/* What is known of tasks of asyncio whose coroutines are not recorded: their tracks, and the flows that lead to them. */
#ifndef FXTIO_KNOWN_TASK_H
#define FXTIO_KNOWN_TASK_H

#include "operation.h"

typedef struct {
    PyObject *task;      /* borrowed; NULL for an entry that is free */
    PyObject *reference; /* weak: tells whether that object still is the one at this address */
    uint64_t track;      /* 0 while it is not known */
    Flows *flows;        /* those that end where the task next runs, or NULL */
} KnownTask;

HIDDEN KnownTask *known_task(PyObject *task);
HIDDEN KnownTask *known_task_if_any(PyObject *task);
HIDDEN void known_tasks_forget(void);

#endif
