/* Tasks of asyncio: tracks, and flows from a task to those that it waits for. */
#include "task.h"

static Site *await_site;

/* Make the site of the flows.  Returns -1 with an exception set on failure. */
int task_init(void) {
    PyObject *category = PyUnicode_InternFromString("asyncio"), *name = PyUnicode_InternFromString("await");
    await_site = category && name ? site_new(category, name, NULL) : NULL;
    Py_XDECREF(category);
    Py_XDECREF(name);
    return await_site ? 0 : -1;
}

/* Ask the task hook for the running task: its track, and the ids of the flows that end in it.  Returns the track. */
uint64_t task_find_track(State *state, PyThreadState *thread) {
    if (!session.objects.task_hook || !thread_room(&state, 2))
        return 0;
    uint64_t version = thread->context_ver, track = 0;
    Pause pause = thread_pause(state);
    PyObject *answer = session_call_hook(session.objects.task_hook, NULL), *ids = NULL;
    if (answer && PyTuple_Check(answer) && PyTuple_GET_SIZE(answer) == 2) {
        track = PyLong_AsUnsignedLongLongMask(PyTuple_GET_ITEM(answer, 0));
        ids = PyTuple_GET_ITEM(answer, 1);
    }
    ids = ids && PyTuple_Check(ids) && PyTuple_GET_SIZE(ids) ? Py_NewRef(ids) : NULL;
    Py_XDECREF(answer);
    if (thread_resume(state, &pause)) {
        state->context_version = version;
        state->track = track;
        Py_XSETREF(state->flow_ids, ids);
    } else
        Py_XDECREF(ids);
    return track;
}

/* Record an event of each flow. */
static void record_flows(PyObject *ids, enum EventKind kind) {
    for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(ids); index++) {
        uint64_t id = PyLong_AsUnsignedLongLongMask(PyTuple_GET_ITEM(ids, index));
        record_event(await_site, kind, NULL, &id);
    }
}

/* End the flows that lead to the running task.  To be called behind the begin of a slice, in which they end. */
void task_end_flows(State *state) {
    PyObject *ids = state->flow_ids;
    state->flow_ids = NULL;
    record_flows(ids, EVENT_FLOW_END);
    Py_DECREF(ids);
}

/* Begin a flow to each task that the running task is about to wait for, once per step. */
void task_begin_flows(PyObject *awaited) {
    State *state = current;
    PyAsyncMethods *methods = Py_TYPE(awaited)->tp_as_async;
    if (!methods || !methods->am_await || !session.objects.wait_hook || !task_track() ||
        state->await_version == state->context_version)
        return;
    Pause pause = thread_pause(state);
    PyObject *ids = session_call_hook(session.objects.wait_hook, awaited);
    if (thread_resume(state, &pause)) {
        state->await_version = state->context_version;
        if (ids && PyTuple_Check(ids))
            record_flows(ids, EVENT_FLOW_BEGIN);
    }
    Py_XDECREF(ids);
}
