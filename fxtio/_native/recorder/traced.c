/* Callables that stand for others and record their calls: for callables without a code object, and before CPython
 * 3.12 for functions. */
#include "methods.h"
#include "call.h"

#include <stddef.h>
#include <structmember.h>

static PyTypeObject TracedType;

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *wrapped, *dict, *weak_references;
    Site *site;
    PyObject *places; /* how to get the arguments to record: a tuple of (position or -1, keyword, default); a function
                       * of (args, kwargs) that returns their values; or NULL if none are recorded */
    int with_result;
    enum ReturnKind kind;
} Traced;

/* ---- Arguments to record. ---- */

/* Return the value of an argument that a call does not pass, a new reference.  A function is asked for its present
 * defaults, as these may have changed since it was decorated. */
static PyObject *default_value(const Traced *traced, PyObject *place, Py_ssize_t position, PyObject *keyword) {
    PyObject *function = traced->wrapped, *value;
    if (!PyFunction_Check(function))
        return Py_NewRef(PyTuple_GET_ITEM(place, 2));
    PyObject *defaults = PyFunction_GET_DEFAULTS(function), *keyword_defaults = PyFunction_GET_KW_DEFAULTS(function);
    Py_ssize_t count = defaults ? PyTuple_GET_SIZE(defaults) : 0;
    Py_ssize_t index = position - (((PyCodeObject *)PyFunction_GET_CODE(function))->co_argcount - count);
    if (position >= 0)
        return Py_NewRef(index >= 0 && index < count ? PyTuple_GET_ITEM(defaults, index) : Py_None);
    Py_XINCREF(keyword_defaults); /* a key of a class of the program may replace them when it is compared */
    value = keyword_defaults ? PyDict_GetItem(keyword_defaults, keyword) : NULL;
    value = Py_NewRef(value ? value : Py_None);
    Py_XDECREF(keyword_defaults);
    return value;
}

/* Get the values of the arguments to record by their places. */
static void get_values(const Traced *traced, PyObject *const *args, Py_ssize_t count, PyObject *keys,
                       PyObject **values) {
    for (unsigned index = 0; index < traced->site->count; index++) {
        PyObject *place = PyTuple_GET_ITEM(traced->places, index), *keyword = PyTuple_GET_ITEM(place, 1);
        Py_ssize_t position = PyLong_AsSsize_t(PyTuple_GET_ITEM(place, 0));
        PyObject *value = position >= 0 && position < count ? Py_NewRef(args[position]) : NULL;
        for (Py_ssize_t key = 0; keys && key < PyTuple_GET_SIZE(keys); key++)
            if (PyTuple_GET_ITEM(keys, key) == keyword || PyUnicode_Compare(PyTuple_GET_ITEM(keys, key), keyword) == 0)
                Py_XSETREF(value, Py_NewRef(args[count + key]));
        values[index] = value ? value : default_value(traced, place, position, keyword);
    }
}

/* Return the values of the arguments to record by calling the function in `places`, as for `*args` and `**kwargs`: a
 * tuple, or NULL if it fails. */
static PyObject *bind_values(const Traced *traced, PyObject *const *args, Py_ssize_t count, PyObject *keys) {
    State *state = current;
    if (!thread_room(&state, 2))
        return NULL;
    Pause pause = thread_pause(state);
    PyObject *positional = PyTuple_New(count), *by_name = PyDict_New(), *result = NULL;
    for (Py_ssize_t index = 0; positional && index < count; index++)
        PyTuple_SET_ITEM(positional, index, Py_NewRef(args[index]));
    for (Py_ssize_t key = 0; by_name && keys && key < PyTuple_GET_SIZE(keys); key++)
        PyDict_SetItem(by_name, PyTuple_GET_ITEM(keys, key), args[count + key]);
    if (positional && by_name)
        result = PyObject_CallFunctionObjArgs(traced->places, positional, by_name, NULL);
    if (result && (!PyTuple_Check(result) || PyTuple_GET_SIZE(result) < (Py_ssize_t)traced->site->count))
        Py_CLEAR(result);
    Py_XDECREF(positional);
    Py_XDECREF(by_name);
    thread_resume(state, &pause);
    return result;
}

/* Return the values of the arguments to record: a tuple, or NULL. */
static PyObject *values_of(const Traced *traced, PyObject *const *args, Py_ssize_t count, PyObject *keys) {
    PyObject *values[MAX_ARGUMENTS];
    if (!traced->places)
        return NULL;
    if (!PyTuple_Check(traced->places))
        return bind_values(traced, args, count, keys);
    PyObject *result = PyTuple_New(traced->site->count);
    if (!result) {
        PyErr_Clear();
        return NULL;
    }
    get_values(traced, args, count, keys, values);
    for (unsigned index = 0; index < traced->site->count; index++)
        PyTuple_SET_ITEM(result, index, values[index]);
    return result;
}

/* ---- Calls. ---- */

/* Record a begin with the arguments at their places. */
static int record_begin_at_places(const Traced *traced, PyObject *const *args, Py_ssize_t count, PyObject *keys) {
    PyObject *values[MAX_ARGUMENTS];
    get_values(traced, args, count, keys, values);
    int is_recorded = record_event(traced->site, EVENT_BEGIN, values, NULL);
    for (unsigned index = 0; index < traced->site->count; index++)
        Py_DECREF(values[index]);
    return is_recorded;
}

/* Record a begin, with arguments if these are recorded. */
static int record_begin(const Traced *traced, PyObject *const *args, Py_ssize_t count, PyObject *keys) {
    if (LIKELY(traced->places == NULL))
        return record_bare(traced->site, EVENT_BEGIN);
    if (PyTuple_Check(traced->places))
        return record_begin_at_places(traced, args, count, keys);
    PyObject *values = bind_values(traced, args, count, keys);
    int is_recorded = values ? record_event(traced->site, EVENT_BEGIN, &PyTuple_GET_ITEM(values, 0), NULL)
                             : record_bare(traced->site, EVENT_BEGIN);
    Py_XDECREF(values);
    return is_recorded;
}

/* Record that the call ends with the exception that is set, and keep that set. */
static void record_failure(const Traced *traced) {
    SavedError error = error_save();
    if (error.type)
        record_end_raised(traced->site, EVENT_END, error.type, NULL);
    else
        record_bare(traced->site, EVENT_END);
    error_restore_unless_escaped(error);
}

/* Call the wrapped callable. */
static inline PyObject *call_wrapped(Traced *traced, PyObject *const *args, size_t flags, PyObject *keys) {
    vectorcallfunc wrapped = PyVectorcall_Function(traced->wrapped);
    return LIKELY(wrapped != NULL) ? wrapped(traced->wrapped, args, flags, keys)
                                   : PyObject_Vectorcall(traced->wrapped, args, flags, keys);
}

/* Call what returns a plain value, and record that as a span. */
static PyObject *call_as_span(Traced *traced, PyObject *const *args, size_t flags, PyObject *keys) {
    uint64_t generation = session.generation;
    const void *key = __builtin_frame_address(0);
    if (UNLIKELY(!stack_has_room()))
        return NULL;
    int is_recorded = record_begin(traced, args, PyVectorcall_NARGS(flags), keys);
    if (LIKELY(is_recorded))
        call_push_site(current, key, traced->site, 1);
    PyObject *result = LIKELY(!current->escaped) ? call_wrapped(traced, args, flags, keys) : unless_escaped(NULL);
    State *state = current;
    int suspended = LIKELY(is_recorded && generation == session.generation) ? call_leave(state, key) : -1;
    if (UNLIKELY(suspended < 0))
        return result;
    PyObject *value = UNLIKELY(result && traced->with_result) ? event_value(result) : NULL;
    if (UNLIKELY(!result))
        record_failure(traced);
    else if (UNLIKELY(value != NULL && generation == session.generation))
        record_end_with(traced->site, EVENT_END, result_name, value, NULL);
    else if (LIKELY(generation == session.generation)) /* unless another recording has begun meanwhile */
        record_bare(traced->site, EVENT_END);
    Py_XDECREF(value);
    open_spans_resume(state, suspended);
    return unless_escaped(result);
}

/* Return whether a result is of the expected kind: a wrapped function may be replaced. */
static int is_of_kind(PyObject *result, enum ReturnKind kind) {
    return kind == RETURNS_GENERATOR   ? PyGen_CheckExact(result)
           : kind == RETURNS_COROUTINE ? PyCoro_CheckExact(result)
                                       : PyAsyncGen_CheckExact(result);
}

/* Call what returns a generator or a coroutine.  It is recorded when it runs, by the stepper that is returned. */
static PyObject *call_for_stepper(Traced *traced, PyObject *const *args, size_t flags, PyObject *keys) {
    PyObject *values = values_of(traced, args, PyVectorcall_NARGS(flags), keys);
    PyObject *inner = LIKELY(!current->escaped) ? call_wrapped(traced, args, flags, keys) : NULL, *result = inner;
    if (LIKELY(inner && is_of_kind(inner, traced->kind))) {
        result = stepper_new(inner, traced->site, values, traced->with_result, (int)traced->kind);
        Py_DECREF(inner);
    }
    Py_XDECREF(values);
    return unless_escaped(result);
}

/* Call the wrapped callable, and record that if the recorder runs. */
static PyObject *traced_call(PyObject *callable, PyObject *const *args, size_t flags, PyObject *keys) {
    Traced *traced = (Traced *)callable;
    if (UNLIKELY(!session.active))
        return call_wrapped(traced, args, flags, keys);
    return LIKELY(traced->kind == RETURNS_VALUE) ? call_as_span(traced, args, flags, keys)
                                                 : call_for_stepper(traced, args, flags, keys);
}

/* ---- The type. ---- */

static int traced_traverse(Traced *traced, visitproc visit, void *arg) {
    Py_VISIT(traced->wrapped);
    Py_VISIT(traced->dict);
    Py_VISIT(traced->places);
    return 0;
}

/* Break reference cycles.  The wrapped callable stays: this one can still be called, and that one breaks its own
 * cycles. */
static int traced_clear(Traced *traced) {
    Py_CLEAR(traced->dict);
    Py_CLEAR(traced->places);
    return 0;
}

static void traced_dealloc(Traced *traced) {
    PyObject_GC_UnTrack(traced);
    if (traced->weak_references)
        PyObject_ClearWeakRefs((PyObject *)traced);
    traced_clear(traced);
    Py_CLEAR(traced->wrapped);
    Py_CLEAR(traced->site);
    PyObject_GC_Del(traced);
}

static PyObject *traced_new(PyTypeObject *Py_UNUSED(type), PyObject *args, PyObject *keys) {
    PyObject *wrapped, *site, *places;
    int with_result, kind;
    if (keys && PyDict_GET_SIZE(keys))
        return PyErr_Format(PyExc_TypeError, "Traced() takes no keyword arguments");
    if (!PyArg_ParseTuple(args, "OO!Opi", &wrapped, &SiteType, &site, &places, &with_result, &kind))
        return NULL;
    if (kind < RETURNS_VALUE || kind >= RETURN_KINDS)
        return PyErr_Format(PyExc_ValueError, "Traced(): unknown kind");
    if (places != Py_None && !PyCallable_Check(places) &&
        (!PyTuple_Check(places) || PyTuple_GET_SIZE(places) < ((Site *)site)->count))
        return PyErr_Format(PyExc_ValueError, "Traced(): places must have an entry for each of the site's keys");
    Traced *traced = PyObject_GC_New(Traced, &TracedType);
    if (!traced)
        return NULL;
    traced->call = traced_call;
    traced->wrapped = Py_NewRef(wrapped);
    traced->dict = traced->weak_references = NULL;
    traced->site = (Site *)Py_NewRef(site);
    traced->places = places == Py_None ? NULL : Py_NewRef(places);
    traced->with_result = with_result;
    traced->kind = (enum ReturnKind)kind;
    PyObject_GC_Track(traced);
    return (PyObject *)traced;
}

static PyObject *traced_bind(PyObject *traced, PyObject *instance, PyObject *Py_UNUSED(owner)) {
    return instance && instance != Py_None ? PyMethod_New(traced, instance) : Py_NewRef(traced);
}

static PyObject *traced_repr(Traced *traced) {
    return PyUnicode_FromFormat("<traced %R>", traced->wrapped);
}

/* Pickle by name, as functions are pickled.  A callable without a name is pickled as the wrapped one. */
static PyObject *traced_reduce(Traced *traced, PyObject *Py_UNUSED(unused)) {
    PyObject *name = PyObject_GetAttrString((PyObject *)traced, "__qualname__");
    if (name || !PyErr_ExceptionMatches(PyExc_AttributeError))
        return name;
    PyErr_Clear();
    PyObject *module = PyImport_ImportModule("fxtio.tracer.decorate");
    PyObject *same = module ? PyObject_GetAttrString(module, "same") : NULL;
    PyObject *result = same ? Py_BuildValue("O(O)", same, traced->wrapped) : NULL;
    Py_XDECREF(module);
    Py_XDECREF(same);
    return result;
}

/* Set an attribute of this callable, or of the wrapped function if it determines what a call does. */
static int traced_setattr(PyObject *object, PyObject *name, PyObject *value) {
    static const char *const forwarded[] = {"__code__", "__defaults__", "__kwdefaults__"};
    for (size_t index = 0; index < sizeof forwarded / sizeof *forwarded; index++)
        if (PyUnicode_CompareWithASCIIString(name, forwarded[index]) == 0)
            return PyObject_SetAttr(((Traced *)object)->wrapped, name, value);
    return PyObject_GenericSetAttr(object, name, value);
}

/* Get an attribute of this callable, or else of the wrapped one. */
static PyObject *traced_getattr(PyObject *object, PyObject *name) {
    PyObject *value = PyObject_GenericGetAttr(object, name);
    if (value || !PyErr_ExceptionMatches(PyExc_AttributeError))
        return value;
    PyErr_Clear();
    return PyObject_GetAttr(((Traced *)object)->wrapped, name);
}

static PyMethodDef traced_methods[] = {
    {"__reduce__", (PyCFunction)traced_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef traced_members[] = {
    {"__wrapped__", T_OBJECT, offsetof(Traced, wrapped), READONLY, NULL},
    {"__dictoffset__", T_PYSSIZET, offsetof(Traced, dict), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Traced, weak_references), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

/* Return the class that this callable reports: that of a function for which it stands, as tools look at functions. */
static PyObject *traced_class(PyObject *self, void *Py_UNUSED(closure)) {
    PyObject *wrapped = ((Traced *)self)->wrapped;
    return Py_NewRef(PyFunction_Check(wrapped) ? Py_TYPE(wrapped) : Py_TYPE(self));
}

static PyGetSetDef traced_getset[] = {
    {"__class__", traced_class, NULL, NULL, NULL},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyTypeObject TracedType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "fxtio._native._recorder.Traced",
    .tp_doc = "Traced(wrapped, site, places, result, kind): calls `wrapped` and records that; by its kind, also what a "
              "returned generator or coroutine does.",
    .tp_basicsize = sizeof(Traced),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_vectorcall_offset = offsetof(Traced, call),
    .tp_dictoffset = offsetof(Traced, dict),
    .tp_weaklistoffset = offsetof(Traced, weak_references),
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

/* Make the types.  Returns -1 with an exception set on failure. */
int traced_init(PyObject *module) {
    if (PyType_Ready(&TracedType) || stepper_init())
        return -1;
    return PyModule_AddObjectRef(module, "Traced", (PyObject *)&TracedType);
}
