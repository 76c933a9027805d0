/* Tasks of asyncio: tracks, and flows from a task to those that it waits for. */
#ifndef FXTIO_TASK_H
#define FXTIO_TASK_H

#include "event.h"

HIDDEN int task_init(void);
HIDDEN void task_forget(Trash *trash);
HIDDEN void task_end_all(void);
HIDDEN void task_end_life(uint64_t track, const void *frame);
HIDDEN size_t task_suspend(uint64_t track, const void *key);
HIDDEN void task_resume(uint64_t track, size_t count);
HIDDEN PyObject *task_know_asyncio(PyObject *module, PyObject *args);
HIDDEN void task_end_flows(State *state);
HIDDEN PyObject *task_code(PyObject *object);
HIDDEN void task_begin_flows(PyObject *awaited);
HIDDEN int task_record_instant(Site *site, PyObject *const *values, uint64_t track);
HIDDEN uint64_t task_find_track(State *state, PyThreadState *thread, const void *beginning);

/* Return whether it is known that no task runs. */
static inline int task_is_none(const State *state) {
    const PyThreadState *thread = state->python_thread;
    return LIKELY(thread && thread->context_ver == state->context_version && !state->track);
}

/* Return the id of the track of the running task, 0 outside of tasks.  Every step of a task changes the version of the
 * thread's context, so a track is asked for once per step.  `beginning` is the frame of a coroutine
 * that begins, or NULL. */
static inline uint64_t task_track_at(const void *beginning) {
    State *state = current;
    PyThreadState *thread = LIKELY(state->python_thread != NULL) ? state->python_thread : PyThreadState_Get();
    return LIKELY(thread->context_ver == state->context_version) ? state->track
                                                                   : task_find_track(state, thread, beginning);
}

/* Return the id of the track of the running task, 0 outside of tasks. */
static inline uint64_t task_track(void) {
    return task_track_at(NULL);
}

#endif
