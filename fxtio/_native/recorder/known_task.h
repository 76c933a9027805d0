/* What is known of each task of asyncio: its track, and the flows that lead to it. */
#ifndef FXTIO_KNOWN_TASK_H
#define FXTIO_KNOWN_TASK_H

#include "common.h"

typedef struct {
    PyObject *task;      /* borrowed; NULL for an entry that is free */
    PyObject *reference; /* weak: tells whether that object still is the one at this address */
    uint64_t track;      /* 0 while it is not known */
    uint64_t *flow_ids;  /* how many flows end where the task next runs, and their ids; NULL for none */
} KnownTask;

HIDDEN KnownTask *known_task(PyObject *task);
HIDDEN void known_tasks_forget(void);

#endif
