/* Operations that are open: whole calls of coroutines on the tracks of tasks; and the flows that lead to tasks. */
#ifndef FXTIO_OPERATION_H
#define FXTIO_OPERATION_H

#include "site.h"

/* A flow, and the track on which it began, unless that has forgotten it. */
typedef struct {
    uint64_t id, track; /* 0 */
} Flow;

/* Flows that end where a task next runs. */
typedef struct Flows {
    const void *waiter;    /* the operation that waits for the task, by its frame, and its track; NULL if that is unknown */
    uint64_t waiter_track;
    uint64_t count;
    Flow flows[];
} Flows;

HIDDEN int operation_begin(const void *frame, uint64_t track, Site *site);
HIDDEN uint64_t operation_end(const void *frame);
HIDDEN uint64_t operation_track(const void *frame);
HIDDEN int operation_add_flow(const void *frame, const Flows *waiter, Flow flow);
HIDDEN Flows *operation_take_flows(const void *frame);
HIDDEN void operations_forget(void);
HIDDEN int flows_add(Flows **flows, const Flows *waiter, Flow flow);

/* ---- What is known of tasks whose coroutines are not recorded: their tracks, and the flows that lead to them. ---- */

HIDDEN KnownTask *known_task(PyObject *task);
HIDDEN KnownTask *known_task_if_any(PyObject *task);

#endif
