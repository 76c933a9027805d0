/* Callables that stand for others: for what has no code object, and for functions before CPython 3.12.
 *
 * Unlike a function such a callable takes C stack; in a deep recursion it raises RecursionError before there is none. */
#define _GNU_SOURCE
#include "recorder.h"

#include <pthread.h>
#include <stddef.h>
#include <structmember.h>

static PyTypeObject TracedType;

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *wrapped, *dict, *weak;
    Site *site;
    PyObject *places; /* tuple of (position or -1, keyword, default) of the arguments to record, or what
                         * tells their values from `(args, kwargs)`, or NULL */
    int result;
    enum Stepped kind; /* of what a call gives */
} Traced;

enum { LEAST_STACK = 256 << 10 }; /* or a quarter of a small one */
__thread char *stack_low;

int stack_left_slow(const char *here) {
    if (!stack_low) {
        pthread_attr_t attributes;
        void *low = NULL;
        size_t size = 0;
        if (!pthread_getattr_np(pthread_self(), &attributes)) {
            pthread_attr_getstack(&attributes, &low, &size);
            pthread_attr_destroy(&attributes);
        }
        stack_low = low ? (char *)low + (size / 4 < LEAST_STACK ? size / 4 : LEAST_STACK) : (char *)here - LEAST_STACK;
    }
    if (here > stack_low)
        return 1;
    PyErr_SetString(PyExc_RecursionError, "no C stack left for a traced call");
    return 0;
}

/* What an argument is that a call does not give, borrowed: a function's default may have changed since it was wrapped. */
static PyObject *not_given(const Traced *traced, PyObject *place, Py_ssize_t position, PyObject *keyword) {
    PyObject *function = traced->wrapped, *value = NULL;
    if (!PyFunction_Check(function))
        return PyTuple_GET_ITEM(place, 2);
    PyObject *defaults = PyFunction_GET_DEFAULTS(function), *named = PyFunction_GET_KW_DEFAULTS(function);
    Py_ssize_t count = defaults ? PyTuple_GET_SIZE(defaults) : 0;
    Py_ssize_t index = position - (((PyCodeObject *)PyFunction_GET_CODE(function))->co_argcount - count);
    if (position < 0)
        value = named ? PyDict_GetItem(named, keyword) : NULL;
    else if (index >= 0 && index < count)
        value = PyTuple_GET_ITEM(defaults, index);
    return value ? value : Py_None;
}

/* The values of the arguments that are to be recorded, borrowed. */
static void given(const Traced *traced, PyObject *const *args, Py_ssize_t count, PyObject *keys, PyObject **values) {
    for (unsigned index = 0; index < traced->site->count; index++) {
        PyObject *place = PyTuple_GET_ITEM(traced->places, index), *keyword = PyTuple_GET_ITEM(place, 1);
        Py_ssize_t position = PyLong_AsSsize_t(PyTuple_GET_ITEM(place, 0));
        values[index] = position >= 0 && position < count ? args[position] : not_given(traced, place, position, keyword);
        for (Py_ssize_t key = 0; keys && key < PyTuple_GET_SIZE(keys); key++)
            if (PyTuple_GET_ITEM(keys, key) == keyword || PyUnicode_Compare(PyTuple_GET_ITEM(keys, key), keyword) == 0)
                values[index] = args[count + key];
    }
}

/* The same where Python code has to tell: of functions with `*args` and `**kwargs`.  A tuple, NULL if it cannot. */
static PyObject *bound(const Traced *traced, PyObject *const *args, Py_ssize_t count, PyObject *keys) {
    State *state = current;
    if (!store_room(&state, 2))
        return NULL;
    Pause pause = store_pause(state);
    PyObject *all = PyTuple_New(count), *named = PyDict_New(), *result = NULL;
    for (Py_ssize_t index = 0; all && index < count; index++)
        PyTuple_SET_ITEM(all, index, Py_NewRef(args[index]));
    for (Py_ssize_t key = 0; named && keys && key < PyTuple_GET_SIZE(keys); key++)
        PyDict_SetItem(named, PyTuple_GET_ITEM(keys, key), args[count + key]);
    if (all && named)
        result = PyObject_CallFunctionObjArgs(traced->places, all, named, NULL);
    if (result && (!PyTuple_Check(result) || PyTuple_GET_SIZE(result) < (Py_ssize_t)traced->site->count))
        Py_CLEAR(result);
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_TypeError))
        PyErr_Clear(); /* the call itself will say so */
    Py_XDECREF(all);
    Py_XDECREF(named);
    store_resume(state, &pause);
    return result;
}

static int begin_with(const Traced *traced, PyObject *const *args, Py_ssize_t count, PyObject *keys) {
    PyObject *values[MAX_ARGS];
    given(traced, args, count, keys, values);
    for (unsigned index = 0; index < traced->site->count; index++)
        Py_INCREF(values[index]); /* a default may be replaced while the values are described */
    int begun = event(traced->site, BEGIN, values, NULL);
    for (unsigned index = 0; index < traced->site->count; index++)
        Py_DECREF(values[index]);
    return begun;
}

static int begin(const Traced *traced, PyObject *const *args, Py_ssize_t count, PyObject *keys) {
    if (LIKELY(traced->places == NULL))
        return bare(traced->site, BEGIN);
    if (PyTuple_Check(traced->places))
        return begin_with(traced, args, count, keys);
    PyObject *all = bound(traced, args, count, keys);
    int begun = all ? event(traced->site, BEGIN, &PyTuple_GET_ITEM(all, 0), NULL) : bare(traced->site, BEGIN);
    Py_XDECREF(all);
    return begun;
}

static void traced_failed(Traced *traced) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *name = type ? PyUnicode_FromString(((PyTypeObject *)type)->tp_name) : NULL;
    if (name)
        event_with(traced->site, END, exception_name, name, NULL);
    Py_XDECREF(name);
    if (!current->escaped)
        PyErr_Restore(type, value, trace);
    else
        drop(type, value, trace);
}

static inline PyObject *call_inner(Traced *traced, PyObject *const *args, size_t flags, PyObject *keys) {
    vectorcallfunc inner = PyVectorcall_Function(traced->wrapped);
    return LIKELY(inner != NULL) ? inner(traced->wrapped, args, flags, keys)
                                 : PyObject_Vectorcall(traced->wrapped, args, flags, keys);
}

static PyObject *traced_run(Traced *traced, PyObject *const *args, size_t flags, PyObject *keys) {
    uint64_t generation = session.generation;
    if (UNLIKELY(!stack_left()))
        return NULL;
    int begun = begin(traced, args, PyVectorcall_NARGS(flags), keys);
    if (LIKELY(begun))
        current->depth++;
    PyObject *result = LIKELY(!current->escaped) ? call_inner(traced, args, flags, keys) : unless_escaped(NULL);
    State *state = current;
    if (UNLIKELY(!begun || generation != session.generation || !state->depth))
        return result;
    unsigned held = UNLIKELY(state->depth <= state->top) ? held_end(state) : 0;
    state->depth--;
    if (UNLIKELY(!result))
        traced_failed(traced);
    else if (UNLIKELY(traced->result))
        event_with(traced->site, END, result_name, result, NULL);
    else
        bare(traced->site, END);
    if (UNLIKELY(held))
        held_again(state, held);
    return unless_escaped(result);
}

/* The arguments to record when what a call gives begins to run: a tuple, or NULL. */
static PyObject *kept(const Traced *traced, PyObject *const *args, Py_ssize_t count, PyObject *keys) {
    PyObject *values[MAX_ARGS];
    if (!traced->places)
        return NULL;
    if (!PyTuple_Check(traced->places))
        return bound(traced, args, count, keys);
    PyObject *all = PyTuple_New(traced->site->count);
    if (!all) {
        PyErr_Clear();
        return NULL;
    }
    given(traced, args, count, keys, values);
    for (unsigned index = 0; index < traced->site->count; index++)
        PyTuple_SET_ITEM(all, index, Py_NewRef(values[index]));
    return all;
}

static int gives(enum Stepped kind, PyObject *made) {
    return kind == STEPPED_GENERATOR   ? PyGen_CheckExact(made)
           : kind == STEPPED_COROUTINE ? PyCoro_CheckExact(made)
                                       : PyAsyncGen_CheckExact(made);
}

/* A call that gives a generator or a coroutine, which is recorded when it runs. */
static PyObject *traced_stepped(Traced *traced, PyObject *const *args, size_t flags, PyObject *keys) {
    PyObject *values = kept(traced, args, PyVectorcall_NARGS(flags), keys);
    PyObject *inner = LIKELY(!current->escaped) ? call_inner(traced, args, flags, keys) : NULL, *made = inner;
    if (LIKELY(inner && gives(traced->kind, inner))) {
        made = steps_new(inner, traced->site, values, traced->result, traced->kind);
        Py_DECREF(inner);
    }
    Py_XDECREF(values);
    return unless_escaped(made);
}

static PyObject *traced_call(PyObject *callable, PyObject *const *args, size_t flags, PyObject *keys) {
    Traced *traced = (Traced *)callable;
    if (UNLIKELY(!session.active))
        return call_inner(traced, args, flags, keys);
    return LIKELY(!traced->kind) ? traced_run(traced, args, flags, keys) : traced_stepped(traced, args, flags, keys);
}

static int traced_traverse(Traced *traced, visitproc visit, void *arg) {
    Py_VISIT(traced->wrapped);
    Py_VISIT(traced->dict);
    Py_VISIT(traced->places);
    return 0;
}

/* It can still be called: what it calls, which breaks its own cycles, has to stay. */
static int traced_clear(Traced *traced) {
    Py_CLEAR(traced->dict);
    Py_CLEAR(traced->places);
    return 0;
}

static void traced_dealloc(Traced *traced) {
    PyObject_GC_UnTrack(traced);
    if (traced->weak)
        PyObject_ClearWeakRefs((PyObject *)traced);
    traced_clear(traced);
    Py_CLEAR(traced->wrapped);
    Py_CLEAR(traced->site);
    PyObject_GC_Del(traced);
}

static PyObject *traced_new(PyTypeObject *type, PyObject *args, PyObject *keys) {
    PyObject *wrapped, *site, *places;
    int result, kind;
    (void)type;
    if (keys && PyDict_GET_SIZE(keys)) {
        PyErr_SetString(PyExc_TypeError, "Traced() takes no keyword arguments");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "OO!Opi", &wrapped, &SiteType, &site, &places, &result, &kind))
        return NULL;
    if (kind < STEPPED_NOT || kind >= STEPPED_NEXT) {
        PyErr_SetString(PyExc_ValueError, "there is no such kind");
        return NULL;
    }
    if (places != Py_None && !PyCallable_Check(places) &&
        (!PyTuple_Check(places) || PyTuple_GET_SIZE(places) < ((Site *)site)->count)) {
        PyErr_SetString(PyExc_ValueError, "a place for each of the site's keys");
        return NULL;
    }
    Traced *traced = PyObject_GC_New(Traced, &TracedType);
    if (!traced)
        return NULL;
    traced->call = traced_call;
    traced->wrapped = Py_NewRef(wrapped);
    traced->dict = traced->weak = NULL;
    traced->site = (Site *)Py_NewRef(site);
    traced->places = places == Py_None ? NULL : Py_NewRef(places);
    traced->result = result;
    traced->kind = (enum Stepped)kind;
    PyObject_GC_Track(traced);
    return (PyObject *)traced;
}

static PyObject *traced_bind(PyObject *traced, PyObject *instance, PyObject *owner) {
    (void)owner;
    return instance && instance != Py_None ? PyMethod_New(traced, instance) : Py_NewRef(traced);
}

static PyObject *traced_repr(Traced *traced) {
    return PyUnicode_FromFormat("<traced %R>", traced->wrapped);
}

static PyObject *traced_reduce(Traced *traced, PyObject *nothing) {
    (void)nothing;
    PyObject *name = PyObject_GetAttrString((PyObject *)traced, "__qualname__");
    if (name || !PyErr_ExceptionMatches(PyExc_AttributeError))
        return name;
    PyErr_Clear(); /* without a name it is the other callable that is pickled */
    PyObject *module = PyImport_ImportModule("fxtio.tracer.decorate");
    PyObject *same = module ? PyObject_GetAttrString(module, "same") : NULL;
    PyObject *made = same ? Py_BuildValue("O(O)", same, traced->wrapped) : NULL;
    Py_XDECREF(module);
    Py_XDECREF(same);
    return made;
}

/* What changes the function that is called changes that one. */
static int traced_setattr(PyObject *object, PyObject *name, PyObject *value) {
    static const char *const forwarded[] = {"__code__", "__defaults__", "__kwdefaults__"};
    for (size_t index = 0; index < sizeof forwarded / sizeof *forwarded; index++)
        if (PyUnicode_CompareWithASCIIString(name, forwarded[index]) == 0)
            return PyObject_SetAttr(((Traced *)object)->wrapped, name, value);
    return PyObject_GenericSetAttr(object, name, value);
}

/* What the callable itself has not is taken from what it stands for. */
static PyObject *traced_getattr(PyObject *object, PyObject *name) {
    PyObject *found = PyObject_GenericGetAttr(object, name);
    if (found || !PyErr_ExceptionMatches(PyExc_AttributeError))
        return found;
    PyErr_Clear();
    return PyObject_GetAttr(((Traced *)object)->wrapped, name);
}

static PyMethodDef traced_methods[] = {
    {"__reduce__", (PyCFunction)traced_reduce, METH_NOARGS, "Pickled by its name, as functions are."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef traced_members[] = {
    {"__wrapped__", T_OBJECT, offsetof(Traced, wrapped), READONLY, NULL},
    {"__dictoffset__", T_PYSSIZET, offsetof(Traced, dict), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Traced, weak), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef traced_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyTypeObject TracedType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "fxtio._native._recorder.Traced",
    .tp_doc = "Traced(wrapped, site, places, result, kind): calls `wrapped` and records a span; by its kind, what that gives.",
    .tp_basicsize = sizeof(Traced),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_vectorcall_offset = offsetof(Traced, call),
    .tp_dictoffset = offsetof(Traced, dict),
    .tp_weaklistoffset = offsetof(Traced, weak),
    .tp_call = PyVectorcall_Call,
    .tp_new = traced_new,
    .tp_dealloc = (destructor)traced_dealloc,
    .tp_traverse = (traverseproc)traced_traverse,
    .tp_clear = (inquiry)traced_clear,
    .tp_repr = (reprfunc)traced_repr,
    .tp_getattro = traced_getattr,
    .tp_setattro = traced_setattr,
    .tp_methods = traced_methods,
    .tp_members = traced_members,
    .tp_getset = traced_getset,
    .tp_descr_get = traced_bind,
};

int traced_init(PyObject *module) {
    return PyType_Ready(&TracedType) || steps_init() || PyModule_AddObjectRef(module, "Traced", (PyObject *)&TracedType);
}
