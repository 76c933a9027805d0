/* Tasks of asyncio: whose step it is that runs, and arrows from a task to those it waits for. */
#include "recorder.h"

static Site *await_site;

int task_init(void) {
    PyObject *category = PyUnicode_InternFromString("asyncio"), *name = PyUnicode_InternFromString("await");
    await_site = category && name ? site_new(category, name, NULL) : NULL;
    Py_XDECREF(category);
    Py_XDECREF(name);
    return await_site ? 0 : -1;
}

/* Ask which task it is: its track, and the arrows that end in it. */
uint64_t task_track_slow(State *state, PyThreadState *thread) {
    if (!session.task_hook || !store_room(&state, 2))
        return 0;
    uint64_t context = thread->context_ver, track = 0;
    Pause pause = store_pause(state);
    PyObject *made = PyObject_CallNoArgs(session.task_hook), *arrows = NULL;
    if (made && PyTuple_Check(made) && PyTuple_GET_SIZE(made) == 2) {
        track = PyLong_AsUnsignedLongLongMask(PyTuple_GET_ITEM(made, 0));
        arrows = PyTuple_GET_ITEM(made, 1);
    }
    arrows = arrows && PyTuple_Check(arrows) && PyTuple_GET_SIZE(arrows) ? Py_NewRef(arrows) : NULL;
    Py_XDECREF(made);
    if (store_resume(state, &pause)) {
        state->context = context;
        state->track = track;
        Py_XSETREF(state->arrows, arrows);
    } else
        Py_XDECREF(arrows);
    return track;
}

static void put_arrows(PyObject *ids, enum Kind kind) {
    for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(ids); index++) {
        uint64_t id = PyLong_AsUnsignedLongLongMask(PyTuple_GET_ITEM(ids, index));
        event(await_site, kind, NULL, &id);
    }
}

/* A stretch of the task has begun: arrows end in it. */
void task_arrives(State *state) {
    PyObject *arrows = state->arrows;
    state->arrows = NULL;
    put_arrows(arrows, FLOW_END);
    Py_DECREF(arrows);
}

/* The task is about to wait for something.  If those are tasks, arrows lead from this stretch to theirs. */
void task_waits(PyObject *awaited) {
    State *state = current;
    PyAsyncMethods *methods = Py_TYPE(awaited)->tp_as_async;
    if (!methods || !methods->am_await || !session.wait_hook || !task_track() || state->waited == state->context)
        return;
    Pause pause = store_pause(state);
    PyObject *ids = PyObject_CallOneArg(session.wait_hook, awaited);
    if (store_resume(state, &pause)) {
        state->waited = state->context;
        if (ids && PyTuple_Check(ids))
            put_arrows(ids, FLOW_BEGIN);
    }
    Py_XDECREF(ids);
}
