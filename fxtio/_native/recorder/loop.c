/* Event loops of asyncio: methods that stand for those of asyncio which run an iteration and a step, and record both.
 *
 * An iteration is recorded from its first step to the end of its last one: what comes before is waiting.  Where asyncio's
 * own function is recorded, which ends earlier, there is none.  The methods are in C so that nothing of ours is on the
 * stack of the program. */
#include "methods.h"
#include "event.h"
#include "task.h"

#include <stddef.h>

enum { MAX_SITES = 10000 }; /* of different functions that steps run */

/* The iteration that a thread runs, in `iteration` of State. */
enum { NO_ITERATION, NO_STEP_YET, HAS_STEPS };

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *wrapped; /* the method of asyncio */
    Site *iteration;   /* the site of iterations */
    PyObject *site_of; /* a function that returns the site of what a step runs; NULL for the method that runs iterations */
    PyObject *sites;   /* dict: by the address of what a step runs, a tuple of that, which so stays there, and its site */
} LoopMethod;

static PyTypeObject LoopMethodType;
static PyObject *callback_name, *self_name, *func_name; /* "_callback", "__self__", "func" */

/* ---- What a step runs. ---- */

/* Return whether an object is of a type of this name; on CPython 3.11 some types in C have no module. */
static int is_named(PyObject *object, const char *module, const char *type) {
    const char *name = Py_TYPE(object)->tp_name;
    const size_t size = strlen(module);
    return !strcmp(!strncmp(name, module, size) ? name + size : name, type);
}

/* Return what a callback calls or goes on with, a new reference: NULL if that is not known or is the callback itself. */
static PyObject *inside(PyObject *callback) {
    if (PyMethod_Check(callback))
        return Py_NewRef(PyMethod_GET_FUNCTION(callback));
    if (is_named(callback, "functools.", "partial"))
        return PyObject_GenericGetAttr(callback, func_name);
    if (is_named(callback, "_asyncio.", "TaskStepMethWrapper"))
        return PyObject_GenericGetAttr(callback, self_name);
    return PyCFunction_Check(callback) ? Py_XNewRef(PyCFunction_GET_SELF(callback)) : NULL;
}

/* Return what tells apart what a callback runs, a new reference: the code of a function or of the coroutine of a task, the
 * name of a function in C, or a type. */
static PyObject *what_runs(PyObject *callback) {
    enum { MAX_DEPTH = 10 }; /* of partials within one another */
    Py_INCREF(callback);
    for (int depth = 0; depth < MAX_DEPTH; depth++) {
        PyObject *found = PyFunction_Check(callback) ? Py_NewRef(PyFunction_GET_CODE(callback)) : task_code(callback);
        PyObject *inner = found ? NULL : inside(callback);
        PyErr_Clear();
        if (!found && inner && PyCFunction_Check(callback) && !(found = task_code(inner)))
            found = PyUnicode_InternFromString(((PyCFunctionObject *)callback)->m_ml->ml_name);
        if (found) {
            Py_XDECREF(inner);
            Py_DECREF(callback);
            return found;
        }
        if (!inner)
            break;
        Py_SETREF(callback, inner);
    }
    PyObject *type = Py_NewRef((PyObject *)Py_TYPE(callback));
    Py_DECREF(callback);
    return type;
}

/* Ask for the site of what a step runs, and remember it.  Returns a new reference, or NULL. */
static Site *learn(LoopMethod *method, PyObject *key, PyObject *runs) {
    State *state = current;
    if (!thread_room(&state, 2))
        return NULL;
    Pause pause = thread_pause(state);
    PyObject *site = PyObject_CallOneArg(method->site_of, runs);
    if (site && !Py_IS_TYPE(site, &SiteType))
        Py_CLEAR(site);
    PyObject *entry = site && PyDict_GET_SIZE(method->sites) < MAX_SITES ? PyTuple_Pack(2, runs, site) : NULL;
    if (entry)
        PyDict_SetDefault(method->sites, key, entry); /* what is there stays, as other threads may look at it */
    Py_XDECREF(entry);
    thread_resume(state, &pause);
    return (Site *)site;
}

/* Return the site of what a handle runs, a new reference; NULL if it is not recorded. */
static Site *site_of_handle(LoopMethod *method, PyObject *handle) {
    if (!session.active || Py_TYPE(handle)->tp_getattro != PyObject_GenericGetAttr)
        return NULL;
    SavedError error = error_save();
    PyObject *callback = PyObject_GenericGetAttr(handle, callback_name);
    PyObject *runs = callback ? what_runs(callback) : NULL;
    PyObject *key = runs ? PyLong_FromVoidPtr(runs) : NULL;
    PyObject *entry = key ? PyDict_GetItemWithError(method->sites, key) : NULL;
    Site *site = entry ? (Site *)Py_NewRef(PyTuple_GET_ITEM(entry, 1)) : key ? learn(method, key, runs) : NULL;
    Py_XDECREF(key);
    Py_XDECREF(runs);
    Py_XDECREF(callback);
    error_restore_unless_escaped(error);
    return site;
}

/* ---- Iterations and steps. ---- */

static PyObject *call_wrapped(const LoopMethod *method, PyObject *const *args, size_t flags, PyObject *keys) {
    return PyObject_Vectorcall(method->wrapped, args, flags, keys);
}

/* Run an iteration; its first step begins it, so one without any is not recorded. */
static PyObject *run_iteration(LoopMethod *method, PyObject *const *args, size_t flags, PyObject *keys) {
    State *state = thread_state();
    if (!state || !session.active)
        return call_wrapped(method, args, flags, keys);
    const uint64_t generation = session.generation;
    const int outer = state->iteration;
    const unsigned outer_depth = state->iteration_depth;
    state->iteration = NO_STEP_YET;
    state->iteration_depth = state->open.depth;
    PyObject *result = call_wrapped(method, args, flags, keys);
    state = current;
    if (state->iteration == HAS_STEPS && generation == session.generation) {
        SavedError error = error_save();
        record_bare(method->iteration, EVENT_END);
        error_restore_unless_escaped(error);
    }
    state->iteration = outer;
    state->iteration_depth = outer_depth;
    return unless_escaped(result);
}

/* Begin the iteration if this is its first step. */
static void begin_iteration(Site *site) {
    State *state = current;
    if (state->iteration == NO_STEP_YET && state->open.depth == state->iteration_depth && record_bare(site, EVENT_BEGIN))
        current->iteration = HAS_STEPS;
}

/* Record the end of a step, and report one that took long. */
static void end_step(Site *site, uint64_t begin_tick) {
    SavedError error = error_save();
    record_bare(site, EVENT_END);
    const uint64_t ticks = current->earliest_tick - begin_tick;
    if (UNLIKELY(ticks > session.blocking_ticks))
        report_slow("blocking", site, ticks);
    error_restore_unless_escaped(error);
}

/* Run a step. */
static PyObject *run_step(LoopMethod *method, PyObject *const *args, size_t flags, PyObject *keys) {
    Site *site = PyVectorcall_NARGS(flags) ? site_of_handle(method, args[0]) : NULL;
    const uint64_t generation = session.generation;
    int is_recorded = 0;
    if (LIKELY(site && !current->escaped)) {
        begin_iteration(method->iteration);
        is_recorded = record_bare(site, EVENT_BEGIN);
    }
    const uint64_t begin_tick = current->earliest_tick;
    PyObject *result = LIKELY(!current->escaped) ? call_wrapped(method, args, flags, keys) : NULL;
    if (LIKELY(is_recorded && generation == session.generation))
        end_step(site, begin_tick);
    Py_XDECREF((PyObject *)site);
    return unless_escaped(result);
}

static PyObject *method_call(PyObject *callable, PyObject *const *args, size_t flags, PyObject *keys) {
    LoopMethod *method = (LoopMethod *)callable;
    return method->site_of ? run_step(method, args, flags, keys) : run_iteration(method, args, flags, keys);
}

/* ---- The type. ---- */

/* LoopMethod(wrapped, iteration, site_of): make a method that runs iterations, or, if `site_of` is not None, steps. */
static PyObject *method_new(PyTypeObject *Py_UNUSED(type), PyObject *args, PyObject *Py_UNUSED(keys)) {
    PyObject *wrapped, *iteration, *site_of;
    if (!PyArg_ParseTuple(args, "OO!O", &wrapped, &SiteType, &iteration, &site_of))
        return NULL;
    PyObject *sites = PyDict_New();
    LoopMethod *method = sites ? PyObject_GC_New(LoopMethod, &LoopMethodType) : NULL;
    if (!method) {
        Py_XDECREF(sites);
        return NULL;
    }
    method->call = method_call;
    method->wrapped = Py_NewRef(wrapped);
    method->iteration = (Site *)Py_NewRef(iteration);
    method->site_of = site_of == Py_None ? NULL : Py_NewRef(site_of);
    method->sites = sites;
    PyObject_GC_Track(method);
    return (PyObject *)method;
}

static int method_traverse(LoopMethod *method, visitproc visit, void *arg) {
    Py_VISIT(method->wrapped);
    Py_VISIT(method->site_of);
    Py_VISIT(method->sites);
    return 0;
}

static void method_dealloc(LoopMethod *method) {
    PyObject_GC_UnTrack(method);
    Py_CLEAR(method->wrapped);
    Py_CLEAR(method->iteration);
    Py_CLEAR(method->site_of);
    Py_CLEAR(method->sites);
    PyObject_GC_Del(method);
}

static PyObject *method_bind(PyObject *method, PyObject *instance, PyObject *Py_UNUSED(owner)) {
    return instance && instance != Py_None ? PyMethod_New(method, instance) : Py_NewRef(method);
}

/* Get an attribute of the method that this one stands for. */
static PyObject *method_getattr(PyObject *method, PyObject *name) {
    return PyObject_GetAttr(((LoopMethod *)method)->wrapped, name);
}

static PyTypeObject LoopMethodType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "fxtio._native._recorder.LoopMethod",
    .tp_doc = "LoopMethod(wrapped, iteration, site_of): stands for a method of an event loop, and records what it runs.",
    .tp_basicsize = sizeof(LoopMethod),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_vectorcall_offset = offsetof(LoopMethod, call),
    .tp_call = PyVectorcall_Call,
    .tp_new = method_new,
    .tp_dealloc = (destructor)method_dealloc,
    .tp_traverse = (traverseproc)method_traverse,
    .tp_getattro = method_getattr,
    .tp_descr_get = method_bind,
};

/* Make the type and constants.  Returns -1 with an exception set on failure. */
int loop_init(PyObject *module) {
    callback_name = PyUnicode_InternFromString("_callback");
    self_name = PyUnicode_InternFromString("__self__");
    func_name = PyUnicode_InternFromString("func");
    if (!callback_name || !self_name || !func_name || PyType_Ready(&LoopMethodType))
        return -1;
    return PyModule_AddObjectRef(module, "LoopMethod", (PyObject *)&LoopMethodType);
}
