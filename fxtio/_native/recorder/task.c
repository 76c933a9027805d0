/* Tasks of asyncio: tracks, and flows from a task to those that it waits for. */
#include "task.h"
#include "known_task.h"

static Site *await_site, *label_site;
static PyObject *task_name;                    /* "task" */
static PyObject *asyncio_name, *greenlet_name; /* of their parts in C */
static PyObject *qualname_name, *children_name;

/* Return a site in the category of asyncio, with one key or none if that is NULL. */
static Site *new_site(const char *name, const char *key) {
    PyObject *keys = key ? Py_BuildValue("(s)", key) : NULL, *text = PyUnicode_InternFromString(name);
    PyObject *category = PyUnicode_InternFromString("asyncio");
    Site *site = category && text && (keys || !key) ? site_new(category, text, keys) : NULL;
    Py_XDECREF(category);
    Py_XDECREF(text);
    Py_XDECREF(keys);
    return site;
}

/* Make the sites of flows and labels, and names.  Returns -1 with an exception set on failure. */
int task_init(void) {
    asyncio_name = PyUnicode_InternFromString("_asyncio");
    greenlet_name = PyUnicode_InternFromString("greenlet._greenlet");
    qualname_name = PyUnicode_InternFromString("__qualname__");
    children_name = PyUnicode_InternFromString("_children");
    task_name = PyUnicode_InternFromString("task");
    await_site = new_site("await", NULL);
    label_site = new_site("", "coroutine");
    return asyncio_name && greenlet_name && qualname_name && children_name && task_name && await_site && label_site
               ? 0
               : -1;
}

/* ---- The running task. ---- */

/* Functions and types of asyncio, most of its part in C, which programs do not patch; NULL until it is imported. */
static struct {
    PyObject *running_loop, *task_of_loop, *name_of_task, *coroutine_of_task, *is_done;
    PyTypeObject *task_type, *gathering_type;
    size_t name_offset; /* where a task has its name, 0 if that is not known */
} asyncio;

/* Return the offset at which the tasks of a type have their names, 0 if that cannot be found.
 *
 * A task that was given no name has a number there, and the text is made when the name is asked for.  That takes
 * longer than all else that is recorded of a task. */
static size_t find_name_offset(PyTypeObject *type) {
    PyObject *no_args = PyTuple_New(0), *task = no_args ? type->tp_new(type, no_args, NULL) : NULL;
    PyObject *name = PyUnicode_FromString("a name that nothing else has");
    PyObject *answer = task && name ? PyObject_CallMethod(task, "set_name", "O", name) : NULL;
    size_t offset = 0, found = 0;
    for (size_t place = sizeof(PyObject); answer && place < (size_t)type->tp_basicsize; place += sizeof name)
        if (!memcmp((char *)task + place, &name, sizeof name)) {
            offset = place;
            found++;
        }
    PyErr_Clear();
    Py_XDECREF(answer);
    Py_XDECREF(name);
    Py_XDECREF(task);
    Py_XDECREF(no_args);
    return found == 1 ? offset : 0;
}

/* know_asyncio(running_loop, task_of_loop, name_of_task, coroutine_of_task, is_done, task_type, gathering_type): set how
 * to find the running task: the running loop of the thread, the task that runs in a loop, its name, the coroutine that it
 * runs, and whether it has ended; the types of tasks, and of what asyncio.gather() returns. */
PyObject *task_know_asyncio(PyObject *module, PyObject *args) {
    PyObject *running_loop, *task_of_loop, *name_of_task, *coroutine_of_task, *is_done, *task_type, *gathering_type;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOOOOO!O!", &running_loop, &task_of_loop, &name_of_task, &coroutine_of_task, &is_done,
                          &PyType_Type, &task_type, &PyType_Type, &gathering_type))
        return NULL;
    asyncio.name_offset = find_name_offset((PyTypeObject *)task_type);
    Py_XSETREF(asyncio.name_of_task, Py_NewRef(name_of_task));
    Py_XSETREF(asyncio.coroutine_of_task, Py_NewRef(coroutine_of_task));
    Py_XSETREF(asyncio.is_done, Py_NewRef(is_done));
    Py_XSETREF(asyncio.running_loop, Py_NewRef(running_loop));
    Py_XSETREF(asyncio.task_of_loop, Py_NewRef(task_of_loop));
    Py_XSETREF(asyncio.gathering_type, (PyTypeObject *)Py_NewRef(gathering_type));
    Py_XSETREF(asyncio.task_type, (PyTypeObject *)Py_NewRef(task_type));
    Py_RETURN_NONE;
}

/* Return whether the program has imported a module. */
static int is_imported(PyObject *name) {
    PyObject *modules = PyImport_GetModuleDict();
    return modules && PyDict_Check(modules) && PyDict_GetItemWithError(modules, name);
}

/* Return the running task, or NULL. */
static PyObject *running_task(void) {
    PyObject *loop = PyObject_CallNoArgs(asyncio.running_loop);
    PyObject *task = loop && loop != Py_None ? PyObject_CallOneArg(asyncio.task_of_loop, loop) : NULL;
    Py_XDECREF(loop);
    if (task == Py_None)
        Py_CLEAR(task);
    return task;
}

/* Return an id that no other process of the machine uses. */
static uint64_t new_id(const State *state) {
    static uint64_t count;
    return state->identity.process * 1000000000u + ++count;
}

/* The name of a track that is new: that of its task, a text or the number of one without a name, and the function that
 * the task runs; NULL for what is not known. */
typedef struct {
    PyObject *name, *function;
} Label;

/* Return the function that a task runs, NULL without an exception if that is none of ours or Python's. */
static PyObject *function_of(PyObject *task) {
    static const char OURS[] = "fxtio._native._recorder.";
    PyObject *coroutine = PyObject_CallOneArg(asyncio.coroutine_of_task, task), *name = NULL;
    if (coroutine && (PyCoro_CheckExact(coroutine) || !strncmp(Py_TYPE(coroutine)->tp_name, OURS, sizeof OURS - 1)))
        name = PyObject_GetAttr(coroutine, qualname_name);
    Py_XDECREF(coroutine);
    PyErr_Clear();
    return name;
}

/* Return the name or number of a task, NULL without an exception if it has none. */
static PyObject *name_of(PyObject *task) {
    PyObject *name = NULL;
    if (asyncio.name_offset)
        memcpy(&name, (char *)task + asyncio.name_offset, sizeof name);
    if (name && (PyUnicode_CheckExact(name) || PyLong_CheckExact(name)))
        return Py_NewRef(name);
    name = PyObject_CallOneArg(asyncio.name_of_task, task);
    PyErr_Clear();
    return name;
}

/* Return the label of a task.  The task's own class is not asked: its methods may be the program's. */
static Label label_of(PyObject *task) {
    if (!PyObject_TypeCheck(task, asyncio.task_type))
        return (Label){Py_NewRef(task_name), NULL};
    return (Label){name_of(task), function_of(task)};
}

/* Record the name of a track with an instant at its begin, since viewers name a track after its first event. */
static void record_label_text(Text name, PyObject *function, uint64_t track) {
    const size_t size = text_cut(name.data, name.size, MAX_INLINE_NAME);
    const Text cut = {name.data, size};
    if (size && record_event_named(label_site, EVENT_ASYNC_INSTANT, cut, function ? &function : NULL, &track))
        session.cut_texts += size < name.size;
}

/* Record the name of a track: `Task-7` for a task with a number. */
static void record_label(Label label, uint64_t track) {
    SavedError error = error_save();
    if (label.name && PyLong_CheckExact(label.name)) {
        char text[sizeof "Task-" + 20];
        int size = snprintf(text, sizeof text, "Task-%llu", PyLong_AsUnsignedLongLongMask(label.name));
        record_label_text((Text){text, (size_t)size}, label.function, track);
    } else if (label.name && PyUnicode_Check(label.name)) {
        PyObject *owner;
        Text text;
        text.data = text_utf8(label.name, &text.size, &owner);
        if (text.data)
            record_label_text(text, label.function, track);
        Py_XDECREF(owner);
    }
    error_restore_unless_escaped(error);
    Py_XDECREF(label.name);
    Py_XDECREF(label.function);
}

/* Return the track of a task, in `*flow_ids` the flows that end there, or NULL, and in `*label` the
 * name of the track if that is new. */
static uint64_t track_of_task(State *state, PyObject *task, uint64_t **flow_ids, Label *label) {
    KnownTask *known = known_task(task);
    if (!known)
        return 0;
    uint64_t track = known->track;
    if (!track)
        track = known->track = new_id(state);
    else
        task = NULL;
    *flow_ids = known->flow_ids;
    known->flow_ids = NULL;
    if (task)
        *label = label_of(task);
    return track;
}

/* Find the track of what runs in the thread, the flows that end there, and its name if it is new.  The task hook is
 * called when asyncio is seen first, and where greenlets are used. */
static uint64_t find_track(State *state, uint64_t **flow_ids, Label *label) {
    if (is_imported(greenlet_name) || (!asyncio.running_loop && is_imported(asyncio_name)))
        Py_XDECREF(session_call_hook(session.objects.task_hook, NULL));
    if (!asyncio.running_loop)
        return 0;
    PyObject *task = running_task();
    uint64_t track = task ? track_of_task(state, task, flow_ids, label) : 0;
    Py_XDECREF(task);
    return track;
}

/* Find the track of the running task, and the ids of the flows that end in it.  Returns the track. */
uint64_t task_find_track(State *state, PyThreadState *thread) {
    if (!session.objects.task_hook || !thread_room(&state, 2))
        return 0;
    uint64_t version = thread->context_ver;
    uint64_t *ids = NULL;
    Label label = {NULL, NULL};
    Pause pause = thread_pause(state);
    uint64_t track = find_track(state, &ids, &label);
    if (thread_resume(state, &pause)) {
        state->context_version = version;
        state->track = track;
        PyMem_RawFree(state->flow_ids);
        state->flow_ids = ids;
    } else
        PyMem_RawFree(ids);
    if (UNLIKELY(label.name || label.function))
        record_label(label, track);
    return track;
}

/* ---- Flows that end. ---- */

/* End the flows that lead to the running task.  To be called behind the begin of a slice, in which they end. */
void task_end_flows(State *state) {
    uint64_t *ids = state->flow_ids;
    state->flow_ids = NULL;
    for (uint64_t index = 1; index <= ids[0]; index++)
        record_bare_with_id(await_site, EVENT_FLOW_END, &ids[index]);
    PyMem_RawFree(ids);
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

/* Forget all tasks and operations. */
void task_forget(void) {
    known_tasks_forget();
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

/* Let a flow lead to a task.  Returns -1 without memory. */
static int add_flow(PyObject *task, uint64_t id) {
    KnownTask *known = known_task(task);
    if (!known)
        return -1;
    uint64_t count = known->flow_ids ? known->flow_ids[0] : 0;
    uint64_t *ids = PyMem_RawRealloc(known->flow_ids, (count + 2) * sizeof *ids);
    if (!ids)
        return -1;
    ids[0] = count + 1;
    ids[count + 1] = id;
    known->flow_ids = ids;
    return 0;
}

/* Begin a flow to a task. */
static void begin_flow(State *state, PyObject *task) {
    uint64_t id = new_id(state);
    if (!add_flow(task, id))
        record_bare_with_id(await_site, EVENT_FLOW_BEGIN, &id);
}

/* Return whether an object is a task that has not ended.  Returns 0 for tasks of other kinds than asyncio's. */
static int is_task_that_runs(PyObject *object) {
    if (!PyObject_TypeCheck(object, asyncio.task_type))
        return 0;
    PyObject *answer = PyObject_CallOneArg(asyncio.is_done, object);
    Py_XDECREF(answer);
    return answer == Py_False;
}

/* Begin a flow to each of the tasks that asyncio.gather() waits for, of many only the first. */
static void begin_flows_to_gathered(State *state, PyObject *gathering) {
    enum { MAX_FLOWS = 100 };
    PyObject *children = PyObject_GetAttr(gathering, children_name);
    for (Py_ssize_t index = 0; children && PyList_Check(children) && index < MAX_FLOWS; index++) {
        if (index >= PyList_GET_SIZE(children))
            break;
        PyObject *child = Py_NewRef(PyList_GET_ITEM(children, index));
        if (is_task_that_runs(child))
            begin_flow(state, child);
        Py_DECREF(child);
    }
    Py_XDECREF(children);
}

/* Begin a flow to each task that the running task is about to wait for, once per step. */
void task_begin_flows(PyObject *awaited) {
    State *state = current;
    if (!asyncio.task_type)
        return;
    int is_gathering = Py_IS_TYPE(awaited, asyncio.gathering_type);
    if (!is_gathering && !PyObject_TypeCheck(awaited, asyncio.task_type))
        return;
    if (!session.objects.task_hook || !task_track() || state->await_version == state->context_version)
        return;
    state->await_version = state->context_version;
    SavedError error = error_save();
    if (is_gathering)
        begin_flows_to_gathered(state, awaited);
    else
        begin_flow(state, awaited);
    PyErr_Clear();
    error_restore(error);
}
