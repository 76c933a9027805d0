/* Functions: what the interpreter calls.
 *
 * From CPython 3.12 on `sys.monitoring` calls the objects of this file; before, a profile function does.  What is known of a code object hangs on the code object itself.  Begins and ends
 * balance: an end whose begin was not seen, as of functions that ran already at the start, is left out. */
#include "recorder.h"

#include <stddef.h>

#if PY_VERSION_HEX < 0x030C0000
#define PyUnstable_Eval_RequestCodeExtraIndex _PyEval_RequestCodeExtraIndex
#define PyUnstable_Code_GetExtra _PyCode_GetExtra
#define PyUnstable_Code_SetExtra _PyCode_SetExtra
#endif

typedef struct {
    PyObject *object;    /* the code object, which this hangs on */
    Site *site;          /* NULL for code that is left out */
    PyObject *names;     /* tuple of str: local variables to record at the begin, or NULL */
    int result;          /* whether the result is recorded */
    int task;            /* whether a call is also an operation of the running task */
    int chosen;          /* by a decorator; it is not asked for again */
    uint64_t generation; /* the session in which the code hook was asked */
} Code;

enum { NEAR = 1024 };

static Py_ssize_t code_index;
static PyObject *code_hook, *disable;
static unsigned max_depth;
static uint64_t min_ticks;

/* ---- What is known of code. ---- */

/* The site of code that is recorded without further ado in this session: no arguments, no limits. */
static struct {
    PyObject *object;
    Site *site;
} near[NEAR];

static inline size_t near_index(PyObject *object) {
    return ((uintptr_t)object >> 4 ^ (uintptr_t)object >> 12) % NEAR;
}

void codes_forget(void) {
    memset(near, 0, sizeof near);
}

static void code_free(void *pointer) {
    Code *code = pointer;
    if (!code)
        return;
    if (near[near_index(code->object)].object == code->object)
        near[near_index(code->object)].object = NULL;
    Py_XDECREF((PyObject *)code->site);
    Py_XDECREF(code->names);
    PyMem_Free(code);
}

static inline Code *code_known(PyObject *object) {
    void *extra = NULL;
    PyUnstable_Code_GetExtra(object, code_index, &extra);
    return extra;
}

static Code *code_set(PyObject *object, PyObject *site, PyObject *names, int result, int chosen) {
    Code *code = PyMem_Calloc(1, sizeof *code);
    if (!code) {
        PyErr_NoMemory();
        return NULL;
    }
    code->object = object;
    code->site = site == Py_None ? NULL : (Site *)Py_NewRef(site);
    code->names = names && names != Py_None ? Py_NewRef(names) : NULL;
    code->result = result;
    code->task = (((PyCodeObject *)object)->co_flags & CO_COROUTINE) != 0;
    code->chosen = chosen;
    code->generation = session.generation;
    if (PyUnstable_Code_SetExtra(object, code_index, code)) { /* which frees what was there */
        code_free(code);
        return NULL;
    }
    return code;
}

/* Ask Python code for the site of a code object.  If it cannot answer (the stack may be full), its plain name serves. */
static Code *code_ask(PyObject *object) {
    State *state = store_here(); /* nothing is recorded yet: the thread may be too young to have a name */
    if (!state)
        return NULL;
    Pause pause = store_pause(state);
    PyObject *site = PyObject_CallOneArg(code_hook, object);
    if (!site || (site != Py_None && !Py_IS_TYPE(site, &SiteType))) {
        Py_XDECREF(site);
        PyCodeObject *code = (PyCodeObject *)object;
        site = Py_XNewRef((PyObject *)site_of(code->co_qualname, code->co_filename, NULL));
    }
    Code *code = site ? code_set(object, site, NULL, 0, 0) : NULL;
    Py_XDECREF(site);
    return store_resume(state, &pause) ? code : NULL;
}

/* What is known of a code object in this session. */
static inline Code *code_valid(PyObject *object) {
    Code *code = code_known(object);
    return LIKELY(code && (code->chosen || code->generation == session.generation)) ? code : NULL;
}

static inline Code *code_of(PyObject *object) {
    Code *code = code_valid(object);
    if (LIKELY(code != NULL))
        return code;
    return code_hook && session.active && !current->busy ? code_ask(object) : NULL;
}

/* ---- Begin and end. ---- */

static void capture(Code *code, PyObject **values) {
    PyFrameObject *frame = PyEval_GetFrame();
    for (unsigned index = 0; index < code->site->count; index++) {
        values[index] = NULL;
#if PY_VERSION_HEX >= 0x030C0000
        if (frame)
            values[index] = PyFrame_GetVar(frame, PyTuple_GET_ITEM(code->names, index));
#endif
        if (!values[index]) {
            PyErr_Clear();
            values[index] = Py_NewRef(Py_None);
        }
    }
    (void)frame;
}

static void begin_with(Code *code) {
    PyObject *type, *value, *trace, *values[MAX_ARGS];
    PyErr_Fetch(&type, &value, &trace);
    capture(code, values);
    event(code->site, BEGIN, values, NULL);
    for (unsigned index = 0; index < code->site->count; index++)
        Py_DECREF(values[index]);
    PyErr_Restore(type, value, trace);
}

static void remember(State *state) {
    if (!state->begun)
        state->begun = PyMem_RawCalloc(BEGUN, sizeof *state->begun);
    if (state->begun && state->depth < BEGUN && state->end && !state->identity.extra)
        state->begun[state->depth] = (Begun){state->p - 2, state->p[-1]};
}

/* From now on the short way serves for this code. */
static void bring_near(const Code *code) {
    if (code->site->generation != session.generation || !code->site->swift)
        return;
    if (code->names || code->result || code->task || max_depth || min_ticks)
        return;
    size_t index = near_index(code->object);
    near[index].object = code->object;
    near[index].site = code->site;
}

static void put_begin(Code *code, int first) {
    if (code->task && first) {
        uint64_t track = task_track();
        if (track)
            event(code->site, ASYNC_BEGIN, NULL, &track);
    }
    if (max_depth && current->depth >= max_depth)
        return;
    if (code->names && first)
        begin_with(code);
    else if (bare(code->site, BEGIN) && min_ticks)
        remember(current);
}

static __attribute__((noinline)) int begin_slow(PyObject *object, int first) {
    Code *code = code_of(object);
    if (!code || !session.active || current->busy)
        return 1;
    if (!code->site)
        return 0;
    put_begin(code, first);
    bring_near(code);
    if (current->session == session.generation) /* or else this thread could not join */
        current->depth++;
    return 1;
}

/* What is near: two words in the thread's page, if there is room. */
static inline int put_near(PyObject *object, enum Kind kind) {
    State *state = current;
    size_t index = near_index(object);
    uint64_t *p = state->p;
    if (UNLIKELY(near[index].object != object || p + 2 > state->swift_end || (kind == END && !state->depth)))
        return 0;
    p[1] = tick(state);
    commit(state, p, 2, layout.event[kind] + 2 * layout.size_unit + state->identity.bits + near[index].site->refs);
    state->depth += kind == BEGIN ? 1 : -1u;
    return 1;
}

/* A call begins.  0 if the code is left out. */
static inline int begin(PyObject *object, int first) {
    return LIKELY(put_near(object, BEGIN)) || begin_slow(object, first);
}

/* If the call was short and its begin is the last that was recorded, take that back. */
static int taken_back(State *state, const Code *code) {
    Begun *begun = state->begun ? &state->begun[state->depth] : NULL;
    if (!begun || state->depth >= BEGUN || state->p != begun->p + 2 || begun->p[1] != begun->tick || code->site->extra)
        return 0;
    if (raw_clock(session.tsc) - session.base - begun->tick >= min_ticks)
        return 0;
    __atomic_store_n(begun->p, filler((uint64_t)(state->end - begun->p)), __ATOMIC_RELEASE);
    state->p = begun->p;
    return 1;
}

static void put_end(Code *code, PyObject *result, PyObject *exception) {
    if (UNLIKELY(exception && !PyErr_GivenExceptionMatches(exception, PyExc_GeneratorExit))) {
        PyObject *name = PyUnicode_FromString(Py_TYPE(exception)->tp_name);
        if (!name)
            PyErr_Clear();
        if (name && event_with(code->site, END, exception_name, name, NULL))
            Py_CLEAR(name);
        else {
            Py_CLEAR(name);
            bare(code->site, END);
        }
    } else if (UNLIKELY(code->result && result))
        event_with(code->site, END, result_name, result, NULL);
    else
        bare(code->site, END);
}

static __attribute__((noinline)) int end_slow(PyObject *object, int last, PyObject *result, PyObject *exception) {
    Code *code = code_valid(object);
    State *state = current;
    if (UNLIKELY(!code || !session.active || state->busy))
        return 1;
    if (!code->site)
        return 0;
    if (UNLIKELY(!state->depth || state->session != session.generation))
        return 1;
    state->depth--;
    if (LIKELY((!max_depth || state->depth < max_depth) && !(min_ticks && taken_back(state, code))))
        put_end(code, last ? result : NULL, exception);
    if (UNLIKELY(code->task && last)) {
        uint64_t track = task_track();
        if (track)
            event(code->site, ASYNC_END, NULL, &track);
    }
    return 1;
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
CALLBACK(on_yield, answer(end(args[0], 0, NULL, NULL)))
CALLBACK(on_unwind, (end(args[0], 1, NULL, args[2]), Py_NewRef(Py_None)))

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
    if (what != PyTrace_CALL && what != PyTrace_RETURN)
        return 0;
    PyCodeObject *code = PyFrame_GetCode(frame);
    int whole = !(code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)); /* else this is one stretch */
    if (what == PyTrace_CALL)
        begin((PyObject *)code, whole);
    else
        end((PyObject *)code, whole, arg, NULL);
    Py_DECREF(code);
    if (LIKELY(!session.escaped))
        return 0;
    session.escaped = 0;
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

/* watch(code, site, names, result): what the events of a code object are recorded as. */
static PyObject *watch(PyObject *module, PyObject *args) {
    PyObject *code, *site, *names;
    int result;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!Op", &PyCode_Type, &code, &SiteType, &site, &names, &result))
        return NULL;
    if (names != Py_None && (!PyTuple_Check(names) || PyTuple_GET_SIZE(names) < ((Site *)site)->count)) {
        PyErr_SetString(PyExc_ValueError, "a name for each of the site's keys");
        return NULL;
    }
    return code_set(code, site, names, result, 1) ? Py_NewRef(Py_None) : NULL;
}

/* functions(hook, max_depth, min_ticks): which code is recorded (the hook gives a site, or None) and how much of it. */
static PyObject *functions(PyObject *module, PyObject *args) {
    PyObject *hook;
    unsigned long long ticks;
    unsigned depth;
    (void)module;
    if (!PyArg_ParseTuple(args, "OIK", &hook, &depth, &ticks))
        return NULL;
    Py_XSETREF(code_hook, hook == Py_None ? NULL : Py_NewRef(hook));
    max_depth = depth;
    min_ticks = ticks;
    codes_forget();
    Py_RETURN_NONE;
}

PyMethodDef code_methods[] = {
    {"watch", watch, METH_VARARGS, "watch(code, site, names, result): record the calls of this code object."},
    {"functions", functions, METH_VARARGS, "functions(hook, max_depth, min_ticks): record the calls of any code."},
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
                     {"on_return", on_return}, {"on_yield", on_yield},   {"on_unwind", on_unwind}};
    code_index = PyUnstable_Eval_RequestCodeExtraIndex(code_free);
    if (code_index < 0)
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
