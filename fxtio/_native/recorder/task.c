/* Tasks of asyncio: tracks, and flows from a task to those that it waits for. */
#include "task.h"
#include "known_task.h"

static Site *await_site;
static PyObject *asyncio_category, *task_name, *label_keys; /* "asyncio", "task", ("coroutine",) */
static PyObject *asyncio_name, *greenlet_name; /* of their parts in C */

/* Make the site of the flows, and names of modules.  Returns -1 with an exception set on failure. */
int task_init(void) {
    asyncio_name = PyUnicode_InternFromString("_asyncio");
    greenlet_name = PyUnicode_InternFromString("greenlet._greenlet");
    if (!asyncio_name || !greenlet_name)
        return -1;
    asyncio_category = PyUnicode_InternFromString("asyncio");
    task_name = PyUnicode_InternFromString("task");
    label_keys = Py_BuildValue("(s)", "coroutine");
    PyObject *name = PyUnicode_InternFromString("await");
    await_site = asyncio_category && name ? site_new(asyncio_category, name, NULL) : NULL;
    Py_XDECREF(name);
    return await_site && task_name && label_keys ? 0 : -1;
}

/* ---- The running task. ---- */

/* Functions and types of asyncio's part in C, which programs do not patch; NULL until it is imported. */
typedef struct {
    PyObject *running_loop, *task_of_loop, *name_of_task, *coroutine_of_task, *task_type, *future_type;
} Asyncio;

static Asyncio asyncio;

/* know_asyncio(running_loop, task_of_loop, name_of_task, coroutine_of_task, task_type, future_type): set how to find the
 * running task: the running loop of the thread, the task that runs in a loop, its name, the coroutine that it runs, and
 * the types of tasks and of futures that wait for no task. */
PyObject *task_know_asyncio(PyObject *module, PyObject *args) {
    PyObject *running_loop, *task_of_loop, *name_of_task, *coroutine_of_task, *task_type, *future_type;
    Trash trash = {0};
    (void)module;
    if (!PyArg_ParseTuple(args, "OOOOO!O!", &running_loop, &task_of_loop, &name_of_task, &coroutine_of_task,
                          &PyType_Type, &task_type, &PyType_Type, &future_type))
        return NULL;
    world_stop();
    Asyncio old = asyncio;
    asyncio = (Asyncio){Py_NewRef(running_loop),      Py_NewRef(task_of_loop), Py_NewRef(name_of_task),
                        Py_NewRef(coroutine_of_task), Py_NewRef(task_type),    Py_NewRef(future_type)};
    world_start();
    trash_add(&trash, old.running_loop);
    trash_add(&trash, old.task_of_loop);
    trash_add(&trash, old.name_of_task);
    trash_add(&trash, old.coroutine_of_task);
    trash_add(&trash, old.task_type);
    trash_add(&trash, old.future_type);
    trash_empty(&trash);
    Py_RETURN_NONE;
}

/* Return whether the program has imported a module. */
static int is_imported(PyObject *name) {
    PyObject *modules = PyImport_GetModuleDict();
    return modules && PyDict_Check(modules) && PyDict_GetItemWithError(modules, name);
}

/* Return the running task, or NULL. */
static PyObject *running_task(void) {
    PyObject *loop = session_call_hook(asyncio.running_loop, NULL);
    PyObject *task = loop && loop != Py_None ? session_call_hook(asyncio.task_of_loop, loop) : NULL;
    Py_XDECREF(loop);
    if (task == Py_None)
        Py_CLEAR(task);
    return task;
}

/* Return an id that no other process of the machine uses. */
static uint64_t new_id(const State *state) {
    static uint64_t count;
    return state->identity.process * 1000000000u + __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
}

/* The name of a track that is new: that of its task, and the function that the task runs; NULL for what is not known. */
typedef struct {
    PyObject *name, *function;
} Label;

/* Return the function that a task runs, NULL without an exception if that is none of ours or Python's. */
static PyObject *function_of(PyObject *task) {
    static const char OURS[] = "fxtio._native._recorder.";
    PyObject *coroutine = session_call_hook(asyncio.coroutine_of_task, task), *name = NULL;
    if (coroutine && (PyCoro_CheckExact(coroutine) || !strncmp(Py_TYPE(coroutine)->tp_name, OURS, sizeof OURS - 1)))
        name = PyObject_GetAttrString(coroutine, "__qualname__");
    Py_XDECREF(coroutine);
    PyErr_Clear();
    return name;
}

/* Return the label of a task.  The task's own class is not asked: its methods may be the program's. */
static Label label_of(PyObject *task) {
    if (!PyObject_TypeCheck(task, (PyTypeObject *)asyncio.task_type))
        return (Label){Py_NewRef(task_name), NULL};
    PyObject *name = session_call_hook(asyncio.name_of_task, task);
    PyErr_Clear();
    return (Label){name, function_of(task)};
}

/* Record the name of a track with an instant at its begin, since viewers name a track after its first event.  The name
 * need not be of use again, so it is kept out of the table of strings. */
static void record_label(Label label, uint64_t track) {
    SavedError error = error_save();
    Site *site = label.name && PyUnicode_Check(label.name) && PyUnicode_GET_LENGTH(label.name)
                     ? site_new(asyncio_category, label.name, label.function ? label_keys : NULL)
                     : NULL;
    if (site) {
        site->is_unique = 1;
        record_event(site, EVENT_ASYNC_INSTANT, &label.function, &track);
    }
    error_restore_unless_escaped(error);
    Py_XDECREF((PyObject *)site);
    Py_XDECREF(label.name);
    Py_XDECREF(label.function);
}

/* Return the track of a task, in `*flow_ids` a tuple of the ids of the flows that end there, or NULL, and in `*label`
 * the name of the track if that is new. */
static uint64_t track_of_task(State *state, PyObject *task, PyObject **flow_ids, Label *label) {
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
static uint64_t find_track(State *state, PyObject **flow_ids, Label *label) {
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
    PyObject *ids = NULL;
    Label label = {NULL, NULL};
    Pause pause = thread_pause(state);
    uint64_t track = find_track(state, &ids, &label);
    if (thread_resume(state, &pause)) {
        state->context_version = version;
        state->track = track;
        Py_XSETREF(state->flow_ids, ids);
    } else
        Py_XDECREF(ids);
    if (UNLIKELY(label.name || label.function))
        record_label(label, track);
    return track;
}

/* ---- Flows that end. ---- */

/* End the flows that lead to the running task.  To be called behind the begin of a slice, in which they end. */
void task_end_flows(State *state) {
    PyObject *ids = state->flow_ids;
    state->flow_ids = NULL;
    for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(ids); index++) {
        uint64_t id = PyLong_AsUnsignedLongLongMask(PyTuple_GET_ITEM(ids, index));
        record_event(await_site, EVENT_FLOW_END, NULL, &id);
    }
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

/* Forget all operations, in a stopped world. */
void task_forget(void) {
    PyMem_RawFree(operations.entries);
    memset(&operations, 0, sizeof operations);
}

/* Note that the operation of the coroutine in a frame has begun on a track.  Returns -1 without memory. */
int task_begin_operation(const void *frame, uint64_t track) {
    guard_lock();
    int failed = 2 * operations.count >= operations.mask && grow_operations();
    if (!failed) {
        Operation *entry = find_operation(frame);
        operations.count += !entry->frame;
        *entry = (Operation){frame, track};
    }
    guard_unlock();
    return failed ? -1 : 0;
}

/* Remove an entry, and move those behind it to the hole that may lie there. */
static void remove_operation(Operation *entry) {
    size_t hole = (size_t)(entry - operations.entries), place = hole;
    operations.count--;
    for (;;) {
        operations.entries[hole] = (Operation){NULL, 0};
        do {
            place = (place + 1) & operations.mask;
            if (!operations.entries[place].frame)
                return;
        } while (((place - place_of(operations.entries[place].frame)) & operations.mask) <
                 ((place - hole) & operations.mask));
        operations.entries[hole] = operations.entries[place];
        hole = place;
    }
}

/* Return the track on which the operation of the coroutine in a frame is open, and forget it; 0 if it is not open. */
uint64_t task_end_operation(const void *frame) {
    uint64_t track = 0;
    guard_lock();
    Operation *entry = operations.count ? find_operation(frame) : NULL;
    if (entry && entry->frame) {
        track = entry->track;
        remove_operation(entry);
    }
    guard_unlock();
    return track;
}

/* ---- Flows to tasks. ---- */

/* Return a tuple of the tasks that an awaited object stands for, NULL if there are none, or if that is not known. */
static PyObject *awaited_tasks(PyObject *awaited) {
    if (asyncio.task_type && PyObject_TypeCheck(awaited, (PyTypeObject *)asyncio.task_type))
        return PyTuple_Pack(1, awaited);
    PyObject *tasks = session_call_hook(session.objects.wait_hook, awaited);
    if (tasks && !PyTuple_Check(tasks))
        Py_CLEAR(tasks);
    return tasks;
}

/* Let a flow lead to a task.  Returns -1 without memory. */
static int add_flow(PyObject *task, uint64_t id) {
    PyObject *number = PyLong_FromUnsignedLongLong(id), *ids = number ? PyTuple_Pack(1, number) : NULL, *more;
    Py_XDECREF(number);
    KnownTask *known = ids ? known_task(task) : NULL;
    if (known && known->flow_ids) {
        more = PySequence_Concat(known->flow_ids, ids);
        Py_SETREF(ids, more);
        known = more ? known_task(task) : NULL; /* a garbage collection may have run other code */
    }
    if (!known) {
        PyErr_Clear();
        Py_XDECREF(ids);
        return -1;
    }
    Py_XSETREF(known->flow_ids, ids);
    return 0;
}

/* Begin a flow to each task that the running task is about to wait for, once per step. */
void task_begin_flows(PyObject *awaited) {
    State *state = current;
    PyAsyncMethods *methods = Py_TYPE(awaited)->tp_as_async;
    if (!methods || !methods->am_await || (PyObject *)Py_TYPE(awaited) == asyncio.future_type)
        return;
    if (!session.objects.wait_hook || !task_track() || state->await_version == state->context_version)
        return;
    Pause pause = thread_pause(state);
    PyObject *tasks = awaited_tasks(awaited);
    int goes_on = thread_resume(state, &pause);
    if (goes_on)
        state->await_version = state->context_version;
    for (Py_ssize_t index = 0; goes_on && tasks && index < PyTuple_GET_SIZE(tasks); index++) {
        uint64_t id = new_id(state);
        if (!add_flow(PyTuple_GET_ITEM(tasks, index), id))
            record_event(await_site, EVENT_FLOW_BEGIN, NULL, &id);
    }
    Py_XDECREF(tasks);
}
