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

/* Record the name of a track, with an instant at its begin, since viewers name a track after its first event.  `label`
 * is a tuple: a site, and a value for each of its keys. */
static void record_label(PyObject *label, uint64_t track) {
    Py_ssize_t count = PyTuple_GET_SIZE(label);
    Site *site = count && Py_IS_TYPE(PyTuple_GET_ITEM(label, 0), &SiteType) ? (Site *)PyTuple_GET_ITEM(label, 0) : NULL;
    if (site && count - 1 >= (Py_ssize_t)site->count)
        record_event(site, EVENT_ASYNC_INSTANT, &PyTuple_GET_ITEM(label, 0) + 1, &track);
}

/* Ask the task hook for the running task: its track, the ids of the flows that end in it, and the name of the track if
 * it is a new one.  Returns the track. */
uint64_t task_find_track(State *state, PyThreadState *thread) {
    if (!session.objects.task_hook || !thread_room(&state, 2))
        return 0;
    uint64_t version = thread->context_ver, track = 0;
    Pause pause = thread_pause(state);
    PyObject *answer = session_call_hook(session.objects.task_hook, NULL), *ids = NULL, *label = NULL;
    if (answer && PyTuple_Check(answer) && PyTuple_GET_SIZE(answer) == 3) {
        track = PyLong_AsUnsignedLongLongMask(PyTuple_GET_ITEM(answer, 0));
        ids = PyTuple_GET_ITEM(answer, 1);
        label = PyTuple_GET_ITEM(answer, 2);
    }
    ids = ids && PyTuple_Check(ids) && PyTuple_GET_SIZE(ids) ? Py_NewRef(ids) : NULL;
    if (thread_resume(state, &pause)) {
        state->context_version = version;
        state->track = track;
        Py_XSETREF(state->flow_ids, ids);
        if (label && PyTuple_Check(label))
            record_label(label, track);
    } else
        Py_XDECREF(ids);
    Py_XDECREF(answer);
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

/* ---- Operations: whole calls of coroutines on the tracks of tasks. ---- */

/* The track on which the operation of a coroutine, known by its frame, is open. */
typedef struct {
    const void *frame; /* NULL for an entry that is free */
    uint64_t track;
} Operation;

/* Entries lie at the place that the frame gives or behind it, without a free one between. */
static struct {
    Operation *entries;
    size_t mask, count; /* a power of two less 1; of the entries that are used */
} operations;

static size_t place_of(const void *frame) {
    return ((uintptr_t)frame >> 4) * 0x9E3779B97F4A7C15u >> 20 & operations.mask;
}

/* Return the entry of a frame, or the free one where it would be. */
static Operation *find_operation(const void *frame) {
    size_t place = place_of(frame);
    while (operations.entries[place].frame && operations.entries[place].frame != frame)
        place = (place + 1) & operations.mask;
    return &operations.entries[place];
}

/* Make room for one more.  Returns -1 without memory. */
static int grow_operations(void) {
    enum { FIRST_ROOM = 64 };
    Operation *old = operations.entries;
    size_t old_room = old ? operations.mask + 1 : 0, room = old ? 2 * old_room : FIRST_ROOM;
    Operation *entries = PyMem_RawCalloc(room, sizeof *entries);
    if (!entries)
        return -1;
    operations.entries = entries;
    operations.mask = room - 1;
    for (size_t index = 0; index < old_room; index++)
        if (old[index].frame)
            *find_operation(old[index].frame) = old[index];
    PyMem_RawFree(old);
    return 0;
}

/* Forget all operations. */
void task_forget_operations(void) {
    PyMem_RawFree(operations.entries);
    memset(&operations, 0, sizeof operations);
}

/* Note that the operation of the coroutine in a frame has begun on a track.  Returns -1 without memory. */
int task_begin_operation(const void *frame, uint64_t track) {
    if (2 * operations.count >= operations.mask && grow_operations())
        return -1;
    Operation *entry = find_operation(frame);
    operations.count += !entry->frame;
    *entry = (Operation){frame, track};
    return 0;
}

/* Return the track on which the operation of the coroutine in a frame is open, and forget it; 0 if it is not open. */
uint64_t task_end_operation(const void *frame) {
    if (!operations.count)
        return 0;
    Operation *entry = find_operation(frame);
    uint64_t track = entry->track;
    if (!entry->frame)
        return 0;
    size_t hole = (size_t)(entry - operations.entries), place = hole;
    operations.count--;
    for (;;) { /* move those behind to the hole that may lie there */
        operations.entries[hole] = (Operation){NULL, 0};
        do {
            place = (place + 1) & operations.mask;
            if (!operations.entries[place].frame)
                return track;
        } while (((place - place_of(operations.entries[place].frame)) & operations.mask) <
                 ((place - hole) & operations.mask));
        operations.entries[hole] = operations.entries[place];
        hole = place;
    }
}

/* ---- Flows to tasks. ---- */

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
