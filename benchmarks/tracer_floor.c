/* The least that recording can cost: what the interpreter does for it, a read of the clock and two stores.
 *
 * The same calls as those of the recorder, but each only reads the clock and puts two words into a small buffer, over
 * and over.  Nothing is looked up, nothing is kept, no file is written.  `tracer_cases.py` builds and measures it. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

enum { WORDS = 1 << 12 };

static volatile uint64_t buffer[WORDS];
static size_t at;

static inline uint64_t now(void) {
#if defined(__x86_64__)
    return __rdtsc();
#else
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
#endif
}

static inline void put(void) {
    buffer[at] = at;
    buffer[at + 1] = now();
    at = (at + 2) % WORDS;
}

/* What the interpreter calls: an object that can be called, in three ways. */
typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *inner; /* of a stand-in: the function */
} Called;

static PyObject *get(PyObject *slot, PyObject *span, PyObject *owner) {
    (void)owner;
    return Py_NewRef(span ? span : slot);
}

static void let_go(Called *called) {
    Py_XDECREF(called->inner);
    PyObject_Free(called);
}

static PyTypeObject CalledType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "tracer_floor.Called",
    .tp_basicsize = sizeof(Called),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_vectorcall_offset = offsetof(Called, call),
    .tp_call = PyVectorcall_Call,
    .tp_dealloc = (destructor)let_go,
    .tp_descr_get = get, /* as a class's `__enter__` and `__exit__` it gives the span */
};

static Called *called_new(vectorcallfunc call, PyObject *inner) {
    Called *called = PyObject_New(Called, &CalledType);
    if (called) {
        called->call = call;
        called->inner = Py_XNewRef(inner);
    }
    return called;
}

/* A callback of sys.monitoring. */
static PyObject *callback(PyObject *self, PyObject *const *args, size_t flags, PyObject *keys) {
    (void)self, (void)args, (void)flags, (void)keys;
    put();
    Py_RETURN_NONE;
}

/* A stand-in for a function. */
static PyObject *stand_in(PyObject *self, PyObject *const *args, size_t flags, PyObject *keys) {
    put();
    PyObject *result = PyObject_Vectorcall(((Called *)self)->inner, args, flags, keys);
    put();
    return result;
}

/* A span: without arguments it begins, with three it ends. */
static PyObject *span_call(PyObject *self, PyObject *const *args, size_t flags, PyObject *keys) {
    (void)args, (void)keys;
    put();
    return Py_NewRef(PyVectorcall_NARGS(flags) ? Py_None : self);
}

static PyObject *stands_for(PyObject *module, PyObject *function) {
    (void)module;
    return (PyObject *)called_new(stand_in, function);
}

static PyObject *span(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keys) {
    (void)module, (void)args, (void)count, (void)keys;
    return (PyObject *)called_new(span_call, NULL);
}

static PyObject *event(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keys) {
    (void)module, (void)args, (void)count, (void)keys;
    put();
    Py_RETURN_NONE;
}

/* What CPython 3.11 calls of functions; of those in C only with `calls`. */
static int calls;

static int profiled(PyObject *self, PyFrameObject *frame, int what, PyObject *arg) {
    (void)self, (void)frame, (void)arg;
    if (calls || what == PyTrace_CALL || what == PyTrace_RETURN)
        put();
    return 0;
}

static PyObject *profile(PyObject *module, PyObject *with_calls) {
    (void)module;
    calls = with_calls == Py_True;
    PyEval_SetProfile(profiled, NULL);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"profile", profile, METH_O, NULL},
    {"stands_for", stands_for, METH_O, NULL},
    {"span", (PyCFunction)(void (*)(void))span, METH_FASTCALL | METH_KEYWORDS, NULL},
    {"event", (PyCFunction)(void (*)(void))event, METH_FASTCALL | METH_KEYWORDS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "tracer_floor", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_tracer_floor(void) {
    PyObject *module = PyModule_Create(&definition);
    if (!module || PyType_Ready(&CalledType))
        return NULL;
    static const char *const names[] = {"__enter__", "__exit__"};
    for (int index = 0; index < 2; index++) {
        Called *slot = called_new(callback, NULL);
        if (!slot || PyDict_SetItemString(CalledType.tp_dict, names[index], (PyObject *)slot))
            return NULL;
        Py_DECREF(slot);
    }
    PyType_Modified(&CalledType);
    Called *made = called_new(callback, NULL);
    if (!made || PyModule_AddObjectRef(module, "callback", (PyObject *)made))
        return NULL;
    Py_DECREF(made);
    return module;
}
