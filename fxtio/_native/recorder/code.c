/* Functions: what the interpreter calls.
 *
 * From CPython 3.12 on `sys.monitoring` calls the objects of this file; before, a profile function does.  Begins and ends
 * balance: an end whose begin was not seen, as of functions that ran already at the start, is left out. */
#include "code.h"

#include <stddef.h>

static PyObject *disable;
static int calls_wanted;
static unsigned max_depth;
static uint64_t min_ticks;

/* ---- Begin and end. ---- */

/* The local variables of the function that begins. */
static void capture(PyObject *names, unsigned count, PyObject **values) {
    PyFrameObject *frame = PyEval_GetFrame();
    for (unsigned index = 0; index < count; index++) {
        values[index] = NULL;
#if PY_VERSION_HEX >= 0x030C0000
        if (frame)
            values[index] = PyFrame_GetVar(frame, PyTuple_GET_ITEM(names, index));
#endif
        if (!values[index]) {
            PyErr_Clear();
            values[index] = Py_NewRef(Py_None);
        }
    }
    (void)frame, (void)names;
}

static void begin_with(Site *site, PyObject *names) {
    PyObject *type, *value, *trace, *values[MAX_ARGS];
    PyErr_Fetch(&type, &value, &trace);
    capture(names, site->count, values);
    event(site, BEGIN, values, NULL);
    for (unsigned index = 0; index < site->count; index++)
        Py_DECREF(values[index]);
    if (!current->escaped)
        PyErr_Restore(type, value, trace);
    else
        drop(type, value, trace);
}

static void remember(State *state) {
    if (!state->begun)
        state->begun = PyMem_RawCalloc(BEGUN, sizeof *state->begun);
    if (state->begun && state->depth < BEGUN && state->end && !state->identity.extra)
        state->begun[state->depth] = (Begun){state->p - 2, state->p[-1]};
}

/* From now on the short way serves for this code. */
static void bring_near(const Code *code) {
    if (!code->site || code->site->generation != session.generation || !code->site->swift)
        return;
    if (code->names || code->result || code->task || max_depth || min_ticks)
        return;
    *near_code(code->object) = (NearCode){code->object, code->site};
}

static void put_begin(const Code *code, Site *site, int first) {
    if (code->task) {
        uint64_t track = task_track();
        if (track && first)
            bare_with(site, ASYNC_BEGIN, &track);
    }
    if (max_depth && current->depth >= max_depth)
        return;
    if (code->names && first)
        begin_with(site, code->names);
    else if (bare(site, BEGIN) && min_ticks)
        remember(current);
    if (UNLIKELY(current->arrows != NULL))
        task_arrives(current);
}

/* Python code of ours, and other threads meanwhile, may run in these: the site is held. */
static __attribute__((noinline)) int begin_slow(PyObject *object, int first) {
    Code *code = code_of(object);
    if (!code || !session.active || current->busy)
        return 1;
    if (!code->site)
        return 0;
    Site *site = (Site *)Py_NewRef(code->site);
    put_begin(code, site, first);
    bring_near(code);
    if (current->session == session.generation) /* or else this thread could not join */
        current->depth++;
    Py_DECREF(site);
    return 1;
}

static inline int put_near(PyObject *object, enum Kind kind) {
    const NearCode *near = near_code(object);
    return LIKELY(near->object == object) && put_swift(near->site, kind);
}

/* A call begins.  0 if the code is left out. */
static inline int begin(PyObject *object, int first) {
    return LIKELY(put_near(object, BEGIN)) || begin_slow(object, first);
}

/* A call of something else than Python code begins. */
void call_begins(Site *site) {
    if ((!max_depth || current->depth < max_depth) && bare(site, BEGIN) && min_ticks)
        remember(current);
    if (current->session == session.generation)
        current->depth++;
}

/* If the call was short and its begin is the last that was recorded, take that back. */
static int taken_back(State *state, const Site *site) {
    Begun *begun = state->begun ? &state->begun[state->depth] : NULL;
    if (!begun || state->depth >= BEGUN || state->p != begun->p + 2 || begun->p[1] != begun->tick || site->extra)
        return 0;
    if (raw_clock(session.tsc) - session.base - begun->tick >= min_ticks)
        return 0;
    __atomic_store_n(begun->p, filler((uint64_t)(state->end - begun->p)), __ATOMIC_RELEASE);
    state->p = begun->p;
    return 1;
}

static void put_end(Site *site, int with_result, PyObject *result, PyObject *exception) {
    if (UNLIKELY(exception && !PyErr_GivenExceptionMatches(exception, PyExc_GeneratorExit))) {
        PyObject *name = PyUnicode_FromString(Py_TYPE(exception)->tp_name);
        if (!name)
            PyErr_Clear();
        if (name && event_with(site, END, exception_name, name, NULL))
            Py_CLEAR(name);
        else {
            Py_CLEAR(name);
            bare(site, END);
        }
    } else if (UNLIKELY(with_result && result))
        event_with(site, END, result_name, result, NULL);
    else
        bare(site, END);
}

static void put_ends(const Code *code, Site *site, int last, PyObject *result, PyObject *exception) {
    State *state = current;
    if (UNLIKELY(code->task && !last && result))
        task_waits(result);
    if (UNLIKELY(!session.active || !state->depth || state->session != session.generation))
        return;
    unsigned held = UNLIKELY(state->depth <= state->top) ? held_end(state) : 0;
    state->depth--;
    if (LIKELY((!max_depth || state->depth < max_depth) && !(min_ticks && taken_back(state, site))))
        put_end(site, code->result && last, result, exception);
    if (UNLIKELY(held))
        held_again(state, held);
    if (UNLIKELY(code->task && last)) {
        uint64_t track = task_track();
        if (track)
            bare_with(site, ASYNC_END, &track);
    }
}

static __attribute__((noinline)) int end_slow(PyObject *object, int last, PyObject *result, PyObject *exception) {
    Code *code = code_valid(object);
    if (UNLIKELY(!code || !session.active || current->busy))
        return 1;
    if (!code->site)
        return 0;
    Site *site = (Site *)Py_NewRef(code->site);
    put_ends(code, site, last, result, exception);
    Py_DECREF(site);
    return 1;
}

/* A call of something else than Python code ends. */
void call_ends(Site *site) {
    State *state = current;
    if (!state->depth || state->session != session.generation)
        return;
    unsigned held = UNLIKELY(state->depth <= state->top) ? held_end(state) : 0;
    state->depth--;
    if ((!max_depth || state->depth < max_depth) && !(min_ticks && taken_back(state, site)))
        bare(site, END);
    if (UNLIKELY(held))
        held_again(state, held);
}

/* A call ends.  0 if the code is left out. */
static inline int end(PyObject *object, int last, PyObject *result, PyObject *exception) {
    return LIKELY(!exception && put_near(object, END)) || end_slow(object, last, result, exception);
}

/* ---- CPython 3.12 on: callbacks of sys.monitoring. ---- */

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

/* What a callback answers: nothing, or that it need not be called again for this place. */
static inline PyObject *answer(int wanted) {
    return Py_NewRef(LIKELY(wanted) ? Py_None : disable);
}

#define CALLBACK(name, expression)                                                                   \
    static PyObject *name(PyObject *self, PyObject *const *args, size_t flags, PyObject *keys) {     \
        (void)self, (void)flags, (void)keys;                                                         \
        return unless_escaped(expression);                                                           \
    }
CALLBACK(on_start, answer(begin(args[0], 1)))
CALLBACK(on_resume, answer(begin(args[0], 0)))
CALLBACK(on_throw, (begin(args[0], 0), Py_NewRef(Py_None)))
CALLBACK(on_return, answer(end(args[0], 1, args[2], NULL)))
CALLBACK(on_yield, answer(end(args[0], 0, args[2], NULL)))
CALLBACK(on_unwind, (end(args[0], 1, NULL, args[2]), Py_NewRef(Py_None)))
CALLBACK(on_call, answer(call_starts(args[0], args[2])))
CALLBACK(on_call_over, (call_is_over(args[0], args[2]), Py_NewRef(Py_None)))

static int add_callback(PyObject *module, const char *name, vectorcallfunc call) {
    Callback *callback = PyObject_New(Callback, &CallbackType);
    if (!callback)
        return -1;
    callback->call = call;
    int failed = PyModule_AddObjectRef(module, name, (PyObject *)callback);
    Py_DECREF(callback);
    return failed;
}

/* ---- Before: a profile function. ---- */

#if PY_VERSION_HEX < 0x030C0000
static int profile(PyObject *self, PyFrameObject *frame, int what, PyObject *arg) {
    (void)self;
    int python = what == PyTrace_CALL || what == PyTrace_RETURN;
    if (!python && !calls_wanted)
        return 0;
    PyCodeObject *code = PyFrame_GetCode(frame);
    int whole = !(code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)); /* else this is one stretch */
    if (what == PyTrace_CALL)
        begin((PyObject *)code, whole);
    else if (what == PyTrace_RETURN)
        end((PyObject *)code, whole, whole ? arg : NULL, NULL);
    else if (what == PyTrace_C_CALL)
        call_starts((PyObject *)code, arg);
    else
        call_is_over((PyObject *)code, arg);
    Py_DECREF(code);
    if (LIKELY(!current->escaped))
        return 0;
    current->escaped = 0;
    return -1;
}

/* profile_threads(on): let the profile function be called, or not, in all threads that there are. */
static PyObject *profile_threads(PyObject *module, PyObject *on) {
    int wanted = PyObject_IsTrue(on);
    (void)module;
    PyThreadState *thread = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
    for (; thread; thread = PyThreadState_Next(thread))
        if (wanted ? !thread->c_profilefunc : thread->c_profilefunc == profile)
            if (_PyEval_SetProfile(thread, wanted ? profile : NULL, NULL))
                return NULL;
    Py_RETURN_NONE;
}

/* profile_here(...): what threading.setprofile() gets; puts the C function in its own place. */
static PyObject *profile_here(PyObject *module, PyObject *args) {
    (void)module, (void)args;
    PyEval_SetProfile(session.active ? profile : NULL, NULL);
    Py_RETURN_NONE;
}
#endif

/* ---- The module's functions. ---- */

/* watch(code, site, names, result): what the events of a code object are recorded as; no site: they never are. */
static PyObject *watch(PyObject *module, PyObject *args) {
    PyObject *code, *site, *names;
    int result;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!OOp", &PyCode_Type, &code, &site, &names, &result))
        return NULL;
    if (site != Py_None && !Py_IS_TYPE(site, &SiteType)) {
        PyErr_Format(PyExc_TypeError, "watch() argument 2 must be Site, not %s", Py_TYPE(site)->tp_name);
        return NULL;
    }
    Py_ssize_t keys = site == Py_None ? 0 : ((Site *)site)->count;
    if (names != Py_None && (!PyTuple_Check(names) || PyTuple_GET_SIZE(names) < keys)) {
        PyErr_SetString(PyExc_ValueError, "a name for each of the site's keys");
        return NULL;
    }
    return code_set(code, site, names, result, 1) ? Py_NewRef(Py_None) : NULL;
}

/* functions(hook, c_hook, max_depth, min_ticks): which code and which C functions are recorded (the hooks give a site,
 * or None), and how much of it. */
static PyObject *functions(PyObject *module, PyObject *args) {
    PyObject *hook, *c_hook;
    unsigned long long ticks;
    unsigned depth;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOIK", &hook, &c_hook, &depth, &ticks))
        return NULL;
    codes_start(hook);
    calls_start(c_hook);
    calls_wanted = c_hook != Py_None;
    max_depth = depth;
    min_ticks = ticks;
    Py_RETURN_NONE;
}

PyMethodDef code_methods[] = {
    {"watch", watch, METH_VARARGS, "watch(code, site, names, result): record the calls of this code object."},
    {"functions", functions, METH_VARARGS, "functions(hook, c_hook, max_depth, min_ticks): record the calls of any code."},
#if PY_VERSION_HEX < 0x030C0000
    {"profile_threads", profile_threads, METH_O, "profile_threads(on): have the functions of all threads recorded."},
    {"profile_here", profile_here, METH_VARARGS, "What threading.setprofile() gets."},
#endif
    {NULL, NULL, 0, NULL},
};

int code_init(PyObject *module) {
    static const struct {
        const char *name;
        vectorcallfunc call;
    } callbacks[] = {{"on_start", on_start},   {"on_resume", on_resume}, {"on_throw", on_throw},
                     {"on_return", on_return}, {"on_yield", on_yield},   {"on_unwind", on_unwind},
                     {"on_call", on_call},     {"on_call_over", on_call_over}};
    if (codes_init())
        return -1;
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
