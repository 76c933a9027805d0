/* Calls that the interpreter reports.
 *
 * From CPython 3.12 on `sys.monitoring` calls the objects of this file, before that a profile function does.  A call
 * of a generator or coroutine consists of slices: one from each resumption to the next suspension. */
#include "methods.h"
#include "c_call.h"
#include "call.h"
#include "code.h"
#include "operation.h"
#include "task.h"

#include <stddef.h>
#if PY_VERSION_HEX < 0x030C0000
#define Py_BUILD_CORE
#include <internal/pycore_code.h>
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE
#include <opcode.h>
#endif

static PyObject *disable; /* sys.monitoring.DISABLE */
#if PY_VERSION_HEX < 0x030C0000
static int has_c_hook;
#endif

/* ---- Begin. ---- */

#if PY_VERSION_HEX < 0x030C0000
/* Return a local variable of a frame, a new reference, NULL if it has none of this name.  `f_locals` would have it, too,
 * but keeps all variables alive. */
static PyObject *PyFrame_GetVar(PyFrameObject *frame, PyObject *name) {
    const PyCodeObject *code = frame->f_frame->f_code;
    for (int index = 0; index < code->co_nlocalsplus; index++) {
        if (PyTuple_GET_ITEM(code->co_localsplusnames, index) != name)
            continue;
        PyObject *value = frame->f_frame->localsplus[index];
        if (value && PyBytes_AS_STRING(code->co_localspluskinds)[index] & CO_FAST_CELL && PyCell_Check(value))
            value = PyCell_GET(value);
        return Py_XNewRef(value);
    }
    return NULL;
}
#endif

/* Get local variables of the function that begins, None for those that it does not have. */
static void get_locals(PyObject *names, unsigned count, PyObject **values) {
    PyFrameObject *frame = PyEval_GetFrame();
    for (unsigned index = 0; index < count; index++) {
        values[index] = frame ? PyFrame_GetVar(frame, PyTuple_GET_ITEM(names, index)) : NULL;
        if (!values[index]) {
            PyErr_Clear();
            values[index] = Py_NewRef(Py_None);
        }
    }
}

/* Record a begin with local variables as arguments.  Returns whether it was recorded. */
static int record_with_locals(Site *site, enum EventKind kind, PyObject *names, const uint64_t *id) {
    PyObject *values[MAX_ARGUMENTS];
    SavedError error = error_save();
    Py_INCREF(names);
    get_locals(names, site->count, values);
    int is_recorded = record_event(site, kind, values, id);
    for (unsigned index = 0; index < site->count; index++)
        Py_DECREF(values[index]);
    Py_DECREF(names);
    error_restore_unless_escaped(error);
    return is_recorded;
}

/* Record the start of a call or slice, within the limits, and the flows that end there. */
static void record_begin(const CodeInfo *info, Site *site, int is_first, const void *frame) {
    int is_recorded = 0;
    if (info->is_coroutine) {
        uint64_t track = task_track_at(is_first ? frame : NULL);
        Site *operation = track && is_first ? site_of_operation(site) : NULL;
        if (operation && !operation_begin(frame, track, operation) &&
            !(info->names ? record_with_locals(operation, EVENT_ASYNC_BEGIN, info->names, &track)
                          : record_bare_with_id(operation, EVENT_ASYNC_BEGIN, &track)))
            operation_end(frame);
    }
    if (call_is_within_depth(current)) {
        if (info->names && is_first)
            is_recorded = record_with_locals(site, EVENT_BEGIN, info->names, NULL);
        else if ((is_recorded = record_bare(site, EVENT_BEGIN)))
            call_note_begin(current);
        if (UNLIKELY(current->flows != NULL))
            task_end_flows(current);
    }
    if (current->generation == session.generation) /* otherwise this thread could not join */
        call_push_site(current, frame, site, is_recorded);
}

/* Python code of the tracer, and other threads meanwhile, may run in this and in end_slow(): the info keeps the site
 * alive. */
static __attribute__((noinline)) int begin_slow(PyObject *code, int is_first, const void *frame) {
    if (session_is_full())
        return 0;
    CodeInfo *info = code_info_or_ask(code);
    if (!info)
        return 1;
    int is_recorded = info->site != NULL, is_now = session.active && !current->paused;
    if (is_recorded && is_now) {
        record_begin(info, info->site, is_first, frame);
        if (!call_limits_exist())
            code_cache(info);
    }
    Py_DECREF((PyObject *)info);
    return is_recorded || !is_now;
}

/* Record the start or end of a call of cached code.  Returns whether it was recorded. */
static inline int record_cached(PyObject *code, enum EventKind kind, const void *frame) {
    const CachedCode *entry = code_cache_entry(current, code);
    return LIKELY(entry->code == code) && call_record_fast(current, session.has_counter, entry->refs, kind, frame);
}

/* Record the start of a call, or of a further slice of it.  Returns 0 if the code is not recorded, or nothing is any
 * more. */
static inline int begin(PyObject *code, int is_first, const void *frame) {
    return LIKELY(record_cached(code, EVENT_BEGIN, frame)) || begin_slow(code, is_first, frame);
}

/* ---- End. ---- */

/* What the interpreter reports of the end of a call or slice. */
typedef struct {
    const void *frame;
    int is_last; /* whether the call ends, and not only a slice of it */
    PyObject *result, *exception;
} Ending;

/* Record an end of a kind, perhaps on a track, with the exception, or with the result as arguments hold it. */
static void record_end(Site *site, enum EventKind kind, PyObject *result, PyObject *exception, const uint64_t *track) {
    if (UNLIKELY(exception && !PyErr_GivenExceptionMatches(exception, PyExc_GeneratorExit)))
        record_end_raised(site, kind, (PyObject *)Py_TYPE(exception), track);
    else if (UNLIKELY(result != NULL))
        record_end_with(site, kind, result_name, result, track);
    else
        record_bare_with_id(site, kind, track);
}

/* Record the end of the operation of a coroutine on the track of its task, if it is open, and of the task if it is its. */
static void record_operation_end(Site *site, const Ending *ending, PyObject *result) {
    uint64_t track = operation_track(ending->frame);
    if (!track)
        return;
    const size_t suspended = task_suspend(track, ending->frame);
    const uint64_t generation = session.generation;
    record_end(site_of_operation(site), EVENT_ASYNC_END, result, ending->exception, &track);
    if (session.generation != generation)
        return;
    operation_end(ending->frame);
    task_resume(track, suspended);
    task_end_life(track, ending->frame);
}

/* Record the end of a call or slice, within the limits, and the flows that begin there. */
static void record_slice_end(const CodeInfo *info, Site *site, const Ending *ending) {
    State *state = current;
    if (UNLIKELY(info->is_coroutine && !ending->is_last && ending->result) && session.active &&
        state->generation == session.generation && call_is_open(state, ending->frame) && call_is_shallow(state))
        task_begin_flows(ending->result);
    if (UNLIKELY(!session.active || state->generation != session.generation)) {
        if (ending->is_last)
            operation_end(ending->frame);
        return;
    }
    const int suspended = call_leave(state, ending->frame), is_whole = info->is_coroutine && ending->is_last;
    const uint64_t generation = session.generation;
    int is_recorded = LIKELY(suspended >= 0) && call_is_within_depth(state) && !call_take_back(state, site);
    PyObject *result = NULL;
    if (UNLIKELY(info->with_result && ending->is_last && ending->result && (is_recorded || is_whole)))
        result = event_value(ending->result);
    is_recorded &= session.generation == generation; /* another recording may have begun meanwhile */
    if (LIKELY(is_recorded))
        record_end(site, EVENT_END, result, ending->exception, NULL);
    open_spans_resume(state, suspended);
    if (UNLIKELY(is_whole))
        record_operation_end(site, ending, result);
    Py_XDECREF(result);
}

/* Record the end of a call or slice of code that is not cached.  Returns 0 if the code is not recorded, or nothing is any
 * more. */
static __attribute__((noinline)) int end_slow(PyObject *code, const Ending *ending) {
    if (session_is_full())
        return 0;
    CodeInfo *info = code_info(code);
    if (UNLIKELY(!info || !session.active || current->paused) && ending->is_last)
        operation_end(ending->frame); /* the frame may soon be that of another call */
    if (UNLIKELY(!info))
        return 1;
    int is_recorded = info->site != NULL, is_now = session.active && !current->paused;
    if (is_recorded && is_now)
        record_slice_end(info, info->site, ending);
    Py_DECREF((PyObject *)info);
    return is_recorded || !is_now;
}

/* Record the end of a call, or of a slice of it that is not the last.  Returns 0 if the code is not recorded. */
static inline int end(PyObject *code, int is_last, PyObject *result, PyObject *exception, const void *frame) {
    if (LIKELY(!exception && record_cached(code, EVENT_END, frame)))
        return 1;
    const Ending ending = {frame, is_last, result, exception};
    return end_slow(code, &ending);
}

/* ---- From CPython 3.12 on: callbacks of sys.monitoring. ---- */

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
} Callback;

static PyTypeObject CallbackType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "fxtio._native._recorder.Callback",
    .tp_basicsize = sizeof(Callback),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_vectorcall_offset = offsetof(Callback, call),
    .tp_call = PyVectorcall_Call,
};

/* Return what a callback returns: None, or DISABLE so that it is not called again for this place. */
static inline PyObject *none_or_disable(int is_recorded) {
    return Py_NewRef(LIKELY(is_recorded) ? Py_None : disable);
}

/* Record what is usual: cached code, in a thread that Python started, with the processor's tick counter as clock.  The
 * compiler makes a few instructions of this, without calls.  Returns whether it was recorded. */
static inline __attribute__((always_inline)) int record_usual(PyObject *code, enum EventKind kind) {
    State *state = current;
    const PyThreadState *thread = state->python_thread;
    const CachedCode *entry = code_cache_entry(state, code);
    return LIKELY(thread && session.has_counter && entry->code == code) &&
           call_record_fast(state, 1, entry->refs, kind, call_frame_of(thread));
}

/* Record the start or end of a C function as record_usual() does. */
static inline __attribute__((always_inline)) int record_usual_c(PyObject *const *args, enum EventKind kind) {
    State *state = current;
    const PyThreadState *thread = state->python_thread;
    return LIKELY(thread && session.has_counter) &&
           c_call_record_fast(state, 1, args[0], args[2], kind, call_frame_of(thread));
}

/* A callback: `usual` is whether an event was recorded in the usual way, otherwise `expression` is returned.  That has a
 * function of its own, as its calls need registers to be saved. */
#define CALLBACK(name, usual, expression)                                                        \
    static __attribute__((noinline)) PyObject *name##_otherwise(PyObject *const *args) {         \
        const void *frame = call_running_frame(current);                                         \
        return unless_escaped(expression);                                                       \
    }                                                                                            \
    static PyObject *name(PyObject *self, PyObject *const *args, size_t flags, PyObject *keys) { \
        (void)self, (void)flags, (void)keys;                                                     \
        if (LIKELY(usual))                                                                       \
            Py_RETURN_NONE;                                                                      \
        return name##_otherwise(args);                                                           \
    }
CALLBACK(on_start, record_usual(args[0], EVENT_BEGIN), none_or_disable(begin(args[0], 1, frame)))
CALLBACK(on_resume, record_usual(args[0], EVENT_BEGIN), none_or_disable(begin(args[0], 0, frame)))
CALLBACK(on_throw, 0, (begin(args[0], 0, frame), Py_NewRef(Py_None)))
CALLBACK(on_return, record_usual(args[0], EVENT_END), none_or_disable(end(args[0], 1, args[2], NULL, frame)))
CALLBACK(on_yield, record_usual(args[0], EVENT_END), none_or_disable(end(args[0], 0, args[2], NULL, frame)))
CALLBACK(on_unwind, 0, (end(args[0], 1, NULL, args[2], frame), Py_NewRef(Py_None)))
CALLBACK(on_call, record_usual_c(args, EVENT_BEGIN), none_or_disable(c_call_begin(args[0], args[2], frame)))
CALLBACK(on_call_over, record_usual_c(args, EVENT_END), (c_call_end(args[0], args[2], frame), Py_NewRef(Py_None)))

/* Add a callback to the module.  Returns -1 with an exception set on failure. */
static int add_callback(PyObject *module, const char *name, vectorcallfunc call) {
    Callback *callback = PyObject_New(Callback, &CallbackType);
    if (!callback)
        return -1;
    callback->call = call;
    int failed = PyModule_AddObjectRef(module, name, (PyObject *)callback);
    Py_DECREF(callback);
    return failed;
}

/* ---- Before CPython 3.12: a profile function. ---- */

#if PY_VERSION_HEX < 0x030C0000
/* Return the instruction at which a frame is. */
static inline _Py_CODEUNIT instruction_of(PyFrameObject *frame, PyCodeObject *code) {
    return _PyCode_CODE(code)[PyFrame_GetLasti(frame) / (int)sizeof(_Py_CODEUNIT)];
}

/* Return whether a call may consist of several slices. */
static inline int has_slices(const PyCodeObject *code) {
    return UNLIKELY(code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR));
}

/* Return whether a slice that begins is the first one of its call: it begins with a RESUME that says so.  One into which
 * an exception is thrown begins where the last one was suspended. */
static inline int is_first_slice(PyFrameObject *frame, PyCodeObject *code) {
    enum { AT_START = 0 };
    if (!has_slices(code))
        return 1;
    _Py_CODEUNIT instruction = instruction_of(frame, code);
    int is_resume = _Py_OPCODE(instruction) == RESUME || _Py_OPCODE(instruction) == RESUME_QUICK;
    return is_resume && _Py_OPARG(instruction) == AT_START;
}

/* Return whether a slice that ends, with a result or NULL for an exception, is the last one of its call. */
static inline int is_last_slice(PyFrameObject *frame, PyCodeObject *code, const PyObject *result) {
    return !has_slices(code) || !result || _Py_OPCODE(instruction_of(frame, code)) == RETURN_VALUE;
}

/* Record what the interpreter reports to a profile function. */
static int profile(PyObject *Py_UNUSED(self), PyFrameObject *frame, int what, PyObject *arg) {
    if (session_is_full()) {
        if (_PyEval_SetProfile(PyThreadState_Get(), NULL, NULL))
            PyErr_Clear();
        return 0;
    }
    int is_python = what == PyTrace_CALL || what == PyTrace_RETURN;
    if (!is_python && !has_c_hook)
        return 0;
    PyCodeObject *code = PyFrame_GetCode(frame);
    if (LIKELY((what == PyTrace_CALL && record_cached((PyObject *)code, EVENT_BEGIN, frame)) ||
               (what == PyTrace_RETURN && record_cached((PyObject *)code, EVENT_END, frame)))) {
        Py_DECREF(code);
        return 0;
    }
    if (what == PyTrace_CALL)
        begin((PyObject *)code, is_first_slice(frame, code), frame);
    else if (what == PyTrace_RETURN)
        end((PyObject *)code, is_last_slice(frame, code, arg), arg, NULL, frame);
    else if (what == PyTrace_C_CALL)
        c_call_begin((PyObject *)code, arg, frame);
    else
        c_call_end((PyObject *)code, arg, frame);
    Py_DECREF(code);
    if (LIKELY(!current->escaped))
        return 0;
    current->escaped = 0;
    return -1;
}

/* profile_threads(on): set or remove the profile function of all threads. */
static PyObject *profile_threads(PyObject *Py_UNUSED(module), PyObject *on) {
    int is_on = PyObject_IsTrue(on);
    PyThreadState *thread = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
    for (; thread; thread = PyThreadState_Next(thread))
        if (is_on ? !thread->c_profilefunc : thread->c_profilefunc == profile)
            if (_PyEval_SetProfile(thread, is_on ? profile : NULL, NULL))
                return NULL;
    Py_RETURN_NONE;
}

/* profile_here(frame, event, arg): the function for threading.setprofile(), which a new thread calls at its first
 * event.  It sets the profile function in C in its own place. */
static PyObject *profile_here(PyObject *module, PyObject *args) {
    (void)module, (void)args;
    PyEval_SetProfile(session.active ? profile : NULL, NULL);
    Py_RETURN_NONE;
}
#endif

/* ---- The functions of the module. ---- */

/* watch(code, site, names, result): set how the calls of a code object are recorded; with None as site they never
 * are. */
static PyObject *watch(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *code, *site, *names;
    int with_result;
    if (!PyArg_ParseTuple(args, "O!OOp", &PyCode_Type, &code, &site, &names, &with_result))
        return NULL;
    if (site != Py_None && !Py_IS_TYPE(site, &SiteType)) {
        PyErr_Format(PyExc_TypeError, "watch() argument 2 must be Site, not %s", Py_TYPE(site)->tp_name);
        return NULL;
    }
    Py_ssize_t count = site == Py_None ? 0 : ((Site *)site)->count;
    if (names != Py_None && (!PyTuple_Check(names) || PyTuple_GET_SIZE(names) < count))
        return PyErr_Format(PyExc_ValueError, "names must be a tuple with a name for each of the site's keys");
    return code_watch(code, site, names, with_result) ? NULL : Py_NewRef(Py_None);
}

/* functions(hook, c_hook, max_depth, min_ticks): set which code and which C functions are recorded, and the limits. */
static PyObject *functions(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *hook, *c_hook;
    CallLimits limits;
    unsigned long long min_ticks;
    if (!PyArg_ParseTuple(args, "OOIK", &hook, &c_hook, &limits.max_depth, &min_ticks))
        return NULL;
#if PY_VERSION_HEX < 0x030C0000
    has_c_hook = c_hook != Py_None;
#endif
    limits.min_ticks = min_ticks;
    Trash trash = {0};
    world_stop();
    call_limits = limits;
    session.place_kind = min_ticks ? EVENT_END : EVENT_BEGIN; /* begins of short calls are taken back */
    code_set_hook(hook, &trash);
    c_call_set_hook(c_hook, &trash);
    world_start();
    trash_empty(&trash);
    Py_RETURN_NONE;
}

PyMethodDef function_methods[] = {
    {"watch", watch, METH_VARARGS, NULL},
    {"functions", functions, METH_VARARGS, NULL},
#if PY_VERSION_HEX < 0x030C0000
    {"profile_threads", profile_threads, METH_O, NULL},
    {"profile_here", profile_here, METH_VARARGS, NULL},
#endif
    {NULL, NULL, 0, NULL},
};

/* Forget what is known of the program, as the session changes, in a stopped world. */
void function_clear(Trash *trash) {
    code_cache_clear(trash);
    c_call_clear(trash);
    task_forget(trash);
}

/* Have the places of all functions recorded again, in a stopped world: half of the ring is full since the last time. */
static void renew_places(Trash *trash) {
    code_cache_clear(trash);
    sites_forget_places(trash);
}

/* Make the callbacks.  Returns -1 with an exception set on failure. */
int function_init(PyObject *module) {
    static const struct {
        const char *name;
        vectorcallfunc call;
    } callbacks[] = {{"on_start", on_start},   {"on_resume", on_resume}, {"on_throw", on_throw},
                     {"on_return", on_return}, {"on_yield", on_yield},   {"on_unwind", on_unwind},
                     {"on_call", on_call},     {"on_call_over", on_call_over}};
    if (code_init())
        return -1;
    threads_set_renewal_hook(renew_places);
    disable = Py_NewRef(Py_None);
#if PY_VERSION_HEX >= 0x030C0000
    PyObject *monitoring = PySys_GetObject("monitoring");
    Py_SETREF(disable, monitoring ? PyObject_GetAttrString(monitoring, "DISABLE") : NULL);
    if (!disable)
        return -1;
#endif
    if (PyType_Ready(&CallbackType))
        return -1;
    for (size_t index = 0; index < sizeof callbacks / sizeof *callbacks; index++)
        if (add_callback(module, callbacks[index].name, callbacks[index].call))
            return -1;
    return 0;
}
