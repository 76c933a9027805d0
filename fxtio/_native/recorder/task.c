/* Tasks of asyncio: tracks, and flows from a task to those that it waits for. */
#include "task.h"
#include "operation.h"
#include "open_track.h"

enum { MAX_FLOWS = 100 }; /* that begin at once */

static Site *await_site, *label_site;
static PyObject *task_name;                    /* "task" */
static PyObject *asyncio_name, *greenlet_name; /* of their parts in C */
static PyObject *qualname_name, *children_name, *code_name;

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
    code_name = PyUnicode_InternFromString("cr_code");
    task_name = PyUnicode_InternFromString("task");
    await_site = new_site("await", NULL);
    label_site = new_site("", "coroutine");
    return asyncio_name && greenlet_name && qualname_name && children_name && code_name && task_name && await_site && label_site
               ? 0
               : -1;
}

/* ---- The running task. ---- */

/* Functions and types of asyncio, most of its part in C, which programs do not patch; NULL until it is imported. */
typedef struct {
    PyObject *args; /* the tuple that has references to all of them */
    PyObject *running_loop, *task_of_loop, *name_of_task, *coroutine_of_task, *is_done;
    PyTypeObject *task_type, *gathering_type;
    size_t name_offset; /* where a task has its name, 0 if that is not known */
} Asyncio;

static Asyncio asyncio;

/* Return the offset at which the tasks of a type have their names, 0 if that cannot be found.
 *
 * A task that was given no name has a number there, and the text is made when the name is asked for.  That takes
 * longer than all else that is recorded of a task.  Without the interpreter lock another thread may do so meanwhile. */
static size_t find_name_offset(PyTypeObject *type) {
#ifdef Py_GIL_DISABLED
    (void)type;
    return 0;
#else
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
#endif
}

/* know_asyncio(running_loop, task_of_loop, name_of_task, coroutine_of_task, is_done, task_type, gathering_type): set how
 * to find the running task: the running loop of the thread, the task that runs in a loop, its name, the coroutine that it
 * runs, and whether it has ended; the types of tasks, and of what asyncio.gather() returns. */
PyObject *task_know_asyncio(PyObject *Py_UNUSED(module), PyObject *args) {
    Asyncio new = {.args = args};
    Trash trash = {0};
    if (!PyArg_ParseTuple(args, "OOOOOO!O!", &new.running_loop, &new.task_of_loop, &new.name_of_task,
                          &new.coroutine_of_task, &new.is_done, &PyType_Type, &new.task_type, &PyType_Type,
                          &new.gathering_type))
        return NULL;
    new.name_offset = find_name_offset(new.task_type);
    Py_INCREF(args);
    world_stop();
    Asyncio old = asyncio;
    asyncio = new;
    world_start();
    trash_add(&trash, old.args);
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

/* The name of a track that is new: that of its task, a text or the number of one without a name, and the function that
 * the task runs; NULL for what is not known. */
typedef struct {
    PyObject *name, *function;
} Label;

/* Return an attribute of a coroutine, NULL without an exception if that is none of ours or Python's. */
static PyObject *attribute_of(PyObject *coroutine, PyObject *name) {
    static const char OURS[] = "fxtio._native._recorder.";
    PyObject *value = NULL;
    if (coroutine && (PyCoro_CheckExact(coroutine) || !strncmp(Py_TYPE(coroutine)->tp_name, OURS, sizeof OURS - 1)))
        value = PyObject_GetAttr(coroutine, name);
    PyErr_Clear();
    return value;
}

/* Return the name or number of a task, NULL without an exception if it has none. */
static PyObject *name_of(PyObject *task) {
    PyObject *name = NULL;
    if (asyncio.name_offset)
        memcpy(&name, (char *)task + asyncio.name_offset, sizeof name);
    if (name && (PyUnicode_CheckExact(name) || PyLong_CheckExact(name)))
        return Py_NewRef(name);
    name = session_call_hook(asyncio.name_of_task, task);
    PyErr_Clear();
    return name;
}

/* Return the label of a task.  The task's own class is not asked: its methods may be the program's. */
static Label label_of(PyObject *task, PyObject *coroutine) {
    if (!PyObject_TypeCheck(task, asyncio.task_type))
        return (Label){Py_NewRef(task_name), NULL};
    return (Label){name_of(task), attribute_of(coroutine, qualname_name)};
}

/* Record an event without arguments on a track; an empty name is that of the site. */
static int record_bare_on_track(Site *site, enum EventKind kind, Text name, uint64_t track) {
    return name.size ? record_event_named(site, kind, name, NULL, &track) : record_bare_with_id(site, kind, &track);
}

/* Record the ends of the innermost operations on a track, this many. */
static void end_innermost(uint64_t track, size_t count) {
    for (size_t index = 0; index < count; index++) {
        Site *site = open_track_site(track, index);
        if (site)
            record_bare_with_id(site, EVENT_ASYNC_END, &track);
        Py_XDECREF((PyObject *)site);
    }
}

/* Prepare the end of an operation: those that have begun since end before it, as they nest on a track.  Returns how many:
 * then the caller forgets the operation, and task_resume() takes the number.  One without any is forgotten here. */
size_t task_suspend(uint64_t track, const void *key) {
    const size_t count = open_track_leave(track, key);
    end_innermost(track, count);
    return count;
}

/* Begin the operations again that task_suspend() has ended: those that are innermost now. */
void task_resume(uint64_t track, size_t count) {
    while (count) {
        Site *site = open_track_site(track, --count);
        if (site)
            record_bare_with_id(site, EVENT_ASYNC_BEGIN, &track);
        Py_XDECREF((PyObject *)site);
    }
}

/* Return what tells the operation that is the life of a task from that of its coroutine, which has a frame. */
static const void *key_of_life(const void *frame) {
    return (const char *)frame + 1;
}

/* Record that a task ends, whose coroutine has a frame, if its begin is recorded. */
void task_end_life(uint64_t track, const void *frame) {
    const OpenOperation life = open_track_take(track, key_of_life(frame));
    if (life.site) {
        const size_t suspended = open_track_count(track);
        end_innermost(track, suspended);
        record_bare_on_track(life.site, EVENT_ASYNC_END, life.name, track);
        task_resume(track, suspended);
    }
    open_operation_free(life);
}

/* Record the ends of flows that lead nowhere, since a task waits for one that has not ended: in a slice of their own. */
static void end_all_flows(void) {
    uint64_t ids[MAX_FLOWS];
    size_t count = open_tracks_take_flows(ids, MAX_FLOWS);
    if (!count || !record_bare(await_site, EVENT_BEGIN))
        return;
    for (; count; count = open_tracks_take_flows(ids, MAX_FLOWS))
        for (size_t index = 0; index < count; index++)
            record_bare_with_id(await_site, EVENT_FLOW_END, &ids[index]);
    record_bare(await_site, EVENT_END);
}

/* Record the ends of all operations and flows that are open, since the recording ends. */
void task_end_all(void) {
    uint64_t track;
    end_all_flows();
    for (size_t left = open_tracks_count(); left; left--) {
        const OpenOperation operation = open_track_take_any(&track);
        if (operation.site)
            record_bare_on_track(operation.site, EVENT_ASYNC_END, operation.name, track);
        open_operation_free(operation);
    }
}

/* Forget all operations, in a stopped world. */
void task_forget(Trash *trash) {
    operations_forget();
    open_tracks_forget(trash);
}

/* Record an instant on a track.  Outside of operations it has one of its own, of the same name and category.
 * spec: Async instant event */
static int record_instant(Site *site, Text name, PyObject *const *values, uint64_t track) {
    const uint64_t generation = session.generation;
    Py_INCREF(site); /* code that describes values may drop the last reference */
    const int is_alone = !open_track_count(track) && record_bare_on_track(site, EVENT_ASYNC_BEGIN, name, track);
    int is_recorded = name.size ? record_event_named(site, EVENT_ASYNC_INSTANT, name, values, &track)
                                : record_event_fast(site, EVENT_ASYNC_INSTANT, values, &track);
    if (is_alone && session.generation == generation)
        record_bare_on_track(site, EVENT_ASYNC_END, name, track);
    Py_DECREF(site);
    return is_recorded;
}

/* Record an instant on the track of a task. */
int task_record_instant(Site *site, PyObject *const *values, uint64_t track) {
    return record_instant(site, (Text){NULL, 0}, values, track);
}

/* Record the name of a track at its begin, since viewers name a track after its first event: as an operation, which is
 * the life of the task, if its coroutine has a frame whose end will be seen, otherwise as an instant. */
static void record_label_text(Text name, PyObject *function, uint64_t track, const void *frame) {
    const size_t size = text_cut(name.data, name.size, MAX_INLINE_NAME);
    const Text cut = {name.data, size};
    PyObject *const *values = function ? &function : NULL;
    if (!size)
        return;
    const int is_recorded = frame ? record_event_named(label_site, EVENT_ASYNC_BEGIN, cut, values, &track)
                                  : record_instant(label_site, cut, values, track);
    if (is_recorded && frame)
        open_track_begin(track, key_of_life(frame), label_site, &cut);
    if (is_recorded)
        count_more(&session.cut_texts, size < name.size);
}

enum { MAX_NUMBERED_NAME = 25 };

/* Return the name of a task that has only a number: `Task-7`.  asyncio makes the same; snprintf() takes ten times as
 * long. */
static Text numbered_name(char *buffer, unsigned long long number) {
    static const char PREFIX[] = "Task-";
    char *const end = buffer + MAX_NUMBERED_NAME, *start = end;
    do
        *--start = (char)('0' + number % 10);
    while (number /= 10);
    start -= sizeof PREFIX - 1;
    memcpy(start, PREFIX, sizeof PREFIX - 1);
    return (Text){start, (size_t)(end - start)};
}

/* Record the name of a track; `frame` is that of the task's coroutine if that is recorded, or NULL. */
static void record_label(Label label, uint64_t track, const void *frame) {
    SavedError error = error_save();
    if (label.name && PyLong_CheckExact(label.name)) {
        char buffer[MAX_NUMBERED_NAME];
        record_label_text(numbered_name(buffer, PyLong_AsUnsignedLongLongMask(label.name)), label.function, track, frame);
    } else if (label.name && PyUnicode_Check(label.name)) {
        PyObject *owner;
        Text text;
        text.data = text_utf8(label.name, &text.size, &owner);
        if (text.data)
            record_label_text(text, label.function, track, frame);
        Py_XDECREF(owner);
    }
    error_restore_unless_escaped(error);
    Py_XDECREF(label.name);
    Py_XDECREF(label.function);
}

/* What is found of what runs in a thread: its track, 0 outside of tasks; the frame of the coroutine that the task runs, if
 * that is an open operation; the flows that end there, or NULL; and the name of the track if that is new. */
typedef struct {
    uint64_t track;
    const void *root;
    Flows *flows;
    Label label;
} Found;

/* Return the coroutine that a task runs, NULL without an exception if it is not known. */
static PyObject *coroutine_of(PyObject *task) {
    PyObject *coroutine =
        PyObject_TypeCheck(task, asyncio.task_type) ? session_call_hook(asyncio.coroutine_of_task, task) : NULL;
    PyErr_Clear();
    return coroutine;
}

/* Return the code of the coroutine that a task runs, NULL without an exception if it is not known, or this is no task. */
PyObject *task_code(PyObject *object) {
    PyObject *coroutine = asyncio.task_type ? coroutine_of(object) : NULL;
    PyObject *code = attribute_of(coroutine, code_name);
    Py_XDECREF(coroutine);
    return code;
}

/* Return the frame of a coroutine, NULL if it is not known.  From CPython 3.12 on it is within the coroutine, always
 * at the same place, which shows when the coroutine of a task begins in a frame. */
static const void *frame_of(PyObject *coroutine, const void *beginning) {
    static size_t learned;
    size_t offset = READ(learned);
    if (!coroutine || !PyCoro_CheckExact(coroutine))
        return NULL;
    size_t distance = (size_t)((uintptr_t)beginning - (uintptr_t)coroutine);
    if (!offset && distance < (size_t)PyCoro_Type.tp_basicsize)
        WRITE(learned, offset = distance);
    return offset ? (char *)coroutine + offset : NULL;
}

/* Find the track of a task whose coroutine is recorded, as that of its operation.  A coroutine that begins makes the
 * task a new one.  So nothing need be known of the task itself, nor of when it is freed. */
static void find_by_operation(State *state, PyObject *task, PyObject *coroutine, const void *beginning, Found *found) {
    const void *frame = frame_of(coroutine, beginning);
    int is_new = frame && frame == beginning;
    if (frame)
        found->flows = operation_take_flows(frame);
    found->track = is_new ? new_id(state) : frame ? operation_track(frame) : 0;
    found->root = found->track ? frame : NULL;
    if (is_new)
        found->label = label_of(task, coroutine);
}

/* Find the track of any other task by what is known of it, and flows to it. */
static void find_by_task(State *state, PyObject *task, PyObject *coroutine, Found *found) {
    KnownTask *known = found->track ? known_task_if_any(task) : known_task(task);
    if (!known)
        return;
    if (!found->flows) {
        found->flows = known->flows;
        known->flows = NULL;
    }
    if (found->track)
        return;
    found->track = known->track;
    if (!found->track) {
        found->track = known->track = new_id(state);
        found->label = label_of(task, coroutine);
    }
}

/* Find the track of what runs in the thread; `beginning` is the frame of a coroutine that begins there, or NULL.  The task
 * hook is called when asyncio is seen first, and where greenlets are used. */
static Found find_track(State *state, const void *beginning) {
    Found found = {0};
    if (is_imported(greenlet_name) || (!asyncio.running_loop && is_imported(asyncio_name)))
        Py_XDECREF(session_call_hook(session.objects.task_hook, NULL));
    PyObject *task = asyncio.running_loop ? running_task() : NULL;
    if (!task)
        return found;
    PyObject *coroutine = coroutine_of(task);
    find_by_operation(state, task, coroutine, beginning, &found);
    find_by_task(state, task, coroutine, &found);
    Py_XDECREF(coroutine);
    Py_DECREF(task);
    return found;
}

/* Let the flows that began where the task waited, and that ended nowhere meanwhile, end where it goes on: those for which
 * it waits may have ended without a slice. */
static void take_own_flows(Found *found) {
    uint64_t ids[MAX_FLOWS];
    size_t count = found->track ? open_track_take_flows(found->track, ids, MAX_FLOWS) : 0;
    for (size_t index = 0; index < count; index++)
        flows_add(&found->flows, &(Flows){0}, (Flow){ids[index], 0});
}

/* Find the track of the running task, and the flows that end in it.  Returns the track. */
uint64_t task_find_track(State *state, PyThreadState *thread, const void *beginning) {
    if (!session.objects.task_hook || !thread_room(&state, 2))
        return 0;
    uint64_t version = thread->context_ver;
    Pause pause = thread_pause(state);
    Found found = find_track(state, beginning);
    if (thread_resume(state, &pause)) {
        state->context_version = version;
        state->track = found.track;
        state->root = found.root;
        PyMem_RawFree(state->flows);
        take_own_flows(&found);
        state->flows = found.flows;
    } else
        PyMem_RawFree(found.flows);
    if (UNLIKELY(found.label.name || found.label.function))
        record_label(found.label, found.track, found.root);
    return found.track;
}

/* ---- Flows that end. ---- */

/* End the flows that lead to the running task.  To be called after the start of a slice, in which they end. */
void task_end_flows(State *state) {
    Flows *flows = state->flows;
    state->flows = NULL;
    for (uint64_t index = 0; index < flows->count; index++) {
        Flow flow = flows->flows[index];
        if (!flow.track || open_track_drop_flow(flow.track, flow.id))
            record_bare_with_id(await_site, EVENT_FLOW_END, &flow.id);
    }
    PyMem_RawFree(flows);
}

/* ---- Flows to tasks. ---- */

/* Let a flow lead from the running task to another one.  Returns -1 without memory. */
static int add_flow(const State *state, PyObject *task, Flow flow) {
    const Flows waiter = {state->root, state->track, 0};
    PyObject *coroutine = state->root ? coroutine_of(task) : NULL;
    const void *frame = frame_of(coroutine, NULL);
    Py_XDECREF(coroutine); /* the task has it */
    if (frame)
        return operation_add_flow(frame, &waiter, flow);
    KnownTask *known = known_task(task);
    return known ? flows_add(&known->flows, &waiter, flow) : -1;
}

/* Begin a flow to a task, from within an operation of the running one. */
static void begin_flow(State *state, PyObject *task) {
    const Flow flow = {new_id(state), state->track};
    if (open_track_add_flow(flow.track, flow.id))
        return;
    if (add_flow(state, task, flow) || !record_bare_with_id(await_site, EVENT_FLOW_BEGIN, &flow.id))
        open_track_drop_flow(flow.track, flow.id);
}

/* Return whether an object is a task that has not ended.  Returns 0 for tasks of other kinds than asyncio's. */
static int is_task_that_runs(PyObject *object) {
    if (!PyObject_TypeCheck(object, asyncio.task_type))
        return 0;
    PyObject *answer = session_call_hook(asyncio.is_done, object);
    Py_XDECREF(answer);
    return answer == Py_False;
}

/* Begin a flow to each of the tasks that asyncio.gather() waits for, of many only the first. */
static void begin_flows_to_gathered(State *state, PyObject *gathering) {
    PyObject *children = PyObject_GetAttr(gathering, children_name);
    for (Py_ssize_t index = 0; children && PyList_CheckExact(children) && index < MAX_FLOWS; index++) {
        PyObject *child = PySequence_GetItem(children, index);
        if (!child)
            break;
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
