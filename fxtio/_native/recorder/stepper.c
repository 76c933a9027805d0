/* Generators and coroutines that traced callables return: a span for each slice, from a resumption to the next
 * suspension, and for a coroutine its whole operation on the track of the task.
 *
 * A stepper stands for a generator, coroutine or async generator.  Each kind has a type of its own, because what a
 * program may do with one it may not do with another.  A stepper reports the class of the object that it stands for,
 * and takes from that object every attribute that it does not have itself. */
#include "call.h"
#include "open_track.h"
#include "task.h"

#include <stddef.h>
#include <structmember.h>

/* The kinds are those of ReturnKind, and this one: the awaitable for one step of an async generator. */
enum { STEP_OF_ASYNC_GENERATOR = RETURN_KINDS, STEPPER_KINDS };

typedef struct {
    PyObject_HEAD
    PyObject *inner;  /* the object that this one stands for */
    PyObject *values; /* tuple of arguments for the first begin, or NULL */
    PyObject *weak_references;
    Site *site;
    uint64_t track, generation; /* the task's track on which the operation is open, 0 for none, and in which session */
    int kind, with_result, has_started, is_running, has_ended;
} Stepper;

static PyTypeObject types[STEPPER_KINDS];

/* A slice that has begun. */
typedef struct {
    uint64_t generation;
    int is_recorded;
} Slice;

/* Record the start of a slice, and of the operation if it is the first slice. */
static Slice begin(Stepper *stepper) {
    uint64_t track;
    Site *operation;
    int is_first = !stepper->has_started;
    Slice slice = {.generation = session.generation};
    stepper->has_started = 1;
    if (!session.active)
        return slice;
    if (stepper->kind == RETURNS_COROUTINE && (track = task_track()) && is_first &&
        (operation = site_of_operation(stepper->site)) &&
        record_event(operation, EVENT_ASYNC_BEGIN, stepper->values ? &PyTuple_GET_ITEM(stepper->values, 0) : NULL,
                     &track)) {
        stepper->track = track;
        stepper->generation = session.generation;
        open_track_begin(track, stepper, operation, NULL);
    }
    slice.is_recorded = is_first && stepper->values
                            ? record_event(stepper->site, EVENT_BEGIN, &PyTuple_GET_ITEM(stepper->values, 0), NULL)
                            : record_bare(stepper->site, EVENT_BEGIN);
    if (LIKELY(slice.is_recorded))
        call_push_site(current, stepper, stepper->site, 1);
    if (UNLIKELY(current->flows != NULL))
        task_end_flows(current);
    return slice;
}

/* Record that a slice, or the operation, ends with the exception that is set, and keep that set.  The exceptions that
 * end an iteration in the ordinary way are not recorded. */
static void record_failure(Site *site, enum EventKind kind, const uint64_t *track) {
    SavedError error = error_save();
    if (!error.type || PyErr_GivenExceptionMatches(error.type, PyExc_GeneratorExit) ||
        PyErr_GivenExceptionMatches(error.type, PyExc_StopIteration) ||
        PyErr_GivenExceptionMatches(error.type, PyExc_StopAsyncIteration))
        record_bare_with_id(site, kind, track);
    else
        record_end_raised(site, kind, error.type, track);
    error_restore_unless_escaped(error);
}

/* Record an end of a kind, perhaps on a track; `result` is as arguments hold it, NULL if it is not recorded. */
static void record_end(Site *site, enum EventKind kind, PySendResult status, PyObject *result, const uint64_t *track) {
    if (UNLIKELY(status == PYGEN_ERROR))
        record_failure(site, kind, track);
    else if (UNLIKELY(result != NULL))
        record_end_with(site, kind, result_name, result, track);
    else
        record_bare_with_id(site, kind, track);
}

/* Record the end of the operation on the track of the task, if it is open. */
static void end_on_track(Stepper *stepper, PySendResult status, PyObject *result) {
    uint64_t track = stepper->track;
    stepper->track = 0;
    if (!track || stepper->generation != session.generation)
        return;
    const size_t suspended = task_suspend(track, stepper);
    record_end(site_of_operation(stepper->site), EVENT_ASYNC_END, status, result, &track);
    if (UNLIKELY(suspended) && LIKELY(stepper->generation == session.generation)) {
        open_track_end(track, stepper);
        task_resume(track, suspended);
    }
}

/* Return whether a slice is open, see call_is_open(). */
static int is_open(const Stepper *stepper, Slice slice) {
    return LIKELY(slice.is_recorded && slice.generation == session.generation) && call_is_open(current, stepper);
}

/* Record the end of a slice on the track of the thread. */
static void end_slice(Stepper *stepper, Slice slice, PySendResult status, PyObject *result) {
    State *state = current;
    int is_now = LIKELY(slice.is_recorded && slice.generation == session.generation);
    int suspended = is_now ? call_leave(state, stepper) : -1;
    if (UNLIKELY(suspended < 0))
        return;
    record_end(stepper->site, EVENT_END, status, result, NULL);
    open_spans_resume(state, suspended);
}

/* Return the result of a call as arguments hold it, a new reference, if it is to be recorded, else NULL. */
static PyObject *result_of(const Stepper *stepper, Slice slice, PySendResult status, PyObject *value) {
    int has_result = stepper->with_result && status == PYGEN_RETURN && stepper->kind != STEP_OF_ASYNC_GENERATOR;
    int is_on_track = stepper->track && stepper->generation == session.generation;
    return UNLIKELY(has_result) && (is_on_track || is_open(stepper, slice)) ? event_value(value) : NULL;
}

/* Record the end of a slice, and of the operation if the slice is the last. */
static void end(Stepper *stepper, Slice slice, PySendResult status, PyObject *value) {
    if (UNLIKELY(status == PYGEN_NEXT && stepper->kind == RETURNS_COROUTINE && is_open(stepper, slice)))
        task_begin_flows(value);
    PyObject *result = result_of(stepper, slice, status, value);
    end_slice(stepper, slice, status, result);
    if (status != PYGEN_NEXT) {
        WRITE(stepper->has_ended, 1);
        end_on_track(stepper, status, result);
    }
    Py_XDECREF(result);
}

/* Return the status of a step, unless a signal handler raised meanwhile: its exception takes the place of the value. */
static PySendResult status_unless_escaped(PySendResult status, PyObject **value) {
    if (LIKELY(!current->escaped))
        return status;
    current->escaped = 0;
    Py_CLEAR(*value);
    return PYGEN_ERROR;
}

/* Return whether a step of the stepper is to be recorded now, by this thread: then what follows is left to it, up to
 * release(). */
static int claim(Stepper *stepper) {
    if (READ(stepper->has_ended))
        return 0;
#ifdef Py_GIL_DISABLED
    return !__atomic_exchange_n(&stepper->is_running, 1, __ATOMIC_ACQUIRE);
#else
    int is_free = !stepper->is_running;
    stepper->is_running = 1;
    return is_free;
#endif
}

static void release(Stepper *stepper) {
    __atomic_store_n(&stepper->is_running, 0, ORDER_RELEASE);
}

/* Run the inner object up to its next suspension, and record that as a slice. */
static PySendResult stepper_am_send(PyObject *self, PyObject *argument, PyObject **value) {
    Stepper *stepper = (Stepper *)self;
    *value = NULL;
    if (UNLIKELY(!stack_has_room()))
        return PYGEN_ERROR;
    if (UNLIKELY(!claim(stepper)))
        return PyIter_Send(stepper->inner, argument, value);
    Slice slice = begin(stepper);
    if (UNLIKELY(current->escaped)) {
        end_slice(stepper, slice, PYGEN_ERROR, NULL);
        release(stepper);
        return status_unless_escaped(PYGEN_ERROR, value);
    }
    PySendResult status = PyIter_Send(stepper->inner, argument, value);
    end(stepper, slice, status, *value);
    release(stepper);
    return status_unless_escaped(status, value);
}

/* Return what send() and next() return for a step.  next() ends an iteration without an exception if the value is
 * None. */
static PyObject *step_result(PySendResult status, PyObject *value, int is_next) {
    if (status != PYGEN_RETURN)
        return value;
    if (is_next && value == Py_None) {
        Py_DECREF(value);
        return NULL;
    }
    PyObject *stop = PyObject_CallOneArg(PyExc_StopIteration, value);
    Py_DECREF(value);
    if (stop)
        PyErr_SetObject(PyExc_StopIteration, stop);
    Py_XDECREF(stop);
    return NULL;
}

static PyObject *stepper_next(PyObject *self) {
    PyObject *value;
    PySendResult status = stepper_am_send(self, Py_None, &value);
    return step_result(status, value, 1);
}

static PyObject *stepper_send(PyObject *self, PyObject *argument) {
    PyObject *value;
    PySendResult status = stepper_am_send(self, argument, &value);
    return step_result(status, value, 0);
}

/* Call a method of the inner object, and record that as a slice.  A StopIteration of it is the end of the operation. */
static PyObject *call_as_slice(Stepper *stepper, const char *name, PyObject *args) {
    PyObject *method = PyObject_GetAttrString(stepper->inner, name);
    if (!method)
        return NULL;
    if (!stack_has_room() || !claim(stepper)) {
        PyObject *value = PyErr_Occurred() ? NULL : PyObject_Call(method, args, NULL);
        Py_DECREF(method);
        return value;
    }
    Slice slice = begin(stepper);
    PyObject *value = current->escaped ? NULL : PyObject_Call(method, args, NULL), *returned = NULL;
    PySendResult status = value ? PYGEN_NEXT : PYGEN_ERROR;
    if (!value && PyErr_ExceptionMatches(PyExc_StopIteration)) {
        SavedError stop = error_save();
        PyErr_NormalizeException(&stop.type, &stop.value, &stop.trace);
        returned = stop.value ? PyObject_GetAttrString(stop.value, "value") : NULL;
        error_restore(stop);
        status = returned ? PYGEN_RETURN : PYGEN_ERROR;
    }
    end(stepper, slice, status, returned ? returned : value);
    release(stepper);
    Py_XDECREF(returned);
    Py_DECREF(method);
    return unless_escaped(value);
}

static PyObject *stepper_throw(PyObject *self, PyObject *args) {
    return call_as_slice((Stepper *)self, "throw", args);
}

static PyObject *stepper_close(PyObject *self, PyObject *args) {
    Stepper *stepper = (Stepper *)self;
    if (!stepper->has_started)
        stepper->has_ended = 1; /* no code runs, so there is no slice */
    PyObject *result = call_as_slice(stepper, "close", args);
    if (result && !stepper->has_ended) {
        stepper->has_ended = 1;
        end_on_track(stepper, PYGEN_RETURN, NULL);
    }
    return result;
}

/* ---- Async generators: each step is an awaitable, for which another stepper stands. ---- */

/* Return the stepper for a step.  Only the first one records the arguments. */
static PyObject *step_of(Stepper *stepper, PyObject *awaitable) {
    PyObject *values = __atomic_exchange_n(&stepper->values, NULL, __ATOMIC_ACQ_REL);
    PyObject *step = awaitable ? stepper_new(awaitable, stepper->site, values, 0, STEP_OF_ASYNC_GENERATOR) : NULL;
    Py_XDECREF(values);
    Py_XDECREF(awaitable);
    return step;
}

static PyObject *stepper_anext(PyObject *self) {
    Stepper *stepper = (Stepper *)self;
    return step_of(stepper, Py_TYPE(stepper->inner)->tp_as_async->am_anext(stepper->inner));
}

#define AWAITED(name)                                                               \
    static PyObject *stepper_##name(PyObject *self, PyObject *args) {               \
        PyObject *method = PyObject_GetAttrString(((Stepper *)self)->inner, #name); \
        PyObject *awaitable = method ? PyObject_Call(method, args, NULL) : NULL;    \
        Py_XDECREF(method);                                                         \
        return step_of((Stepper *)self, awaitable);                                 \
    }
AWAITED(asend)
AWAITED(athrow)
AWAITED(aclose)

/* ---- The types. ---- */

/* Make a stepper of a kind for `inner`.  `values` is a tuple of arguments for the first begin, or NULL. */
PyObject *stepper_new(PyObject *inner, Site *site, PyObject *values, int with_result, int kind) {
    Stepper *stepper = PyObject_GC_New(Stepper, &types[kind]);
    if (!stepper)
        return NULL;
    stepper->inner = Py_NewRef(inner);
    stepper->values = Py_XNewRef(values);
    stepper->weak_references = NULL;
    stepper->site = (Site *)Py_NewRef(site);
    stepper->track = stepper->generation = 0;
    stepper->kind = kind;
    stepper->with_result = with_result;
    stepper->has_started = stepper->is_running = stepper->has_ended = 0;
    PyObject_GC_Track(stepper);
    return (PyObject *)stepper;
}

static int stepper_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(((Stepper *)self)->inner);
    Py_VISIT(((Stepper *)self)->values);
    return 0;
}

/* Break reference cycles.  The inner object stays, as it breaks its own cycles. */
static int stepper_clear(PyObject *self) {
    Py_CLEAR(((Stepper *)self)->values);
    return 0;
}

static void stepper_dealloc(PyObject *self) {
    Stepper *stepper = (Stepper *)self;
    PyObject_GC_UnTrack(self);
    if (stepper->weak_references)
        PyObject_ClearWeakRefs(self);
    SavedError error = error_save();
    Py_CLEAR(stepper->inner);
    Py_CLEAR(stepper->values);
    end_on_track(stepper, PYGEN_RETURN, NULL);
    if (current->escaped) { /* a destructor cannot raise */
        current->escaped = 0;
        PyErr_WriteUnraisable(NULL);
    }
    error_restore(error);
    Py_CLEAR(stepper->site);
    PyObject_GC_Del(self);
}

static PyObject *stepper_repr(PyObject *self) {
    return PyObject_Repr(((Stepper *)self)->inner);
}

static PyObject *stepper_getattr(PyObject *self, PyObject *name) {
    PyObject *value = PyObject_GenericGetAttr(self, name);
    if (value || !PyErr_ExceptionMatches(PyExc_AttributeError))
        return value;
    PyErr_Clear();
    return PyObject_GetAttr(((Stepper *)self)->inner, name);
}

static int stepper_setattr(PyObject *self, PyObject *name, PyObject *value) {
    return PyObject_SetAttr(((Stepper *)self)->inner, name, value);
}

static PyObject *stepper_class(PyObject *self, void *Py_UNUSED(closure)) {
    return Py_NewRef(Py_TYPE(((Stepper *)self)->inner));
}

static PyGetSetDef getset[] = {
    {"__class__", stepper_class, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Stepper, weak_references), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef methods[] = {
    {"send", stepper_send, METH_O, NULL},
    {"throw", stepper_throw, METH_VARARGS, NULL},
    {"close", stepper_close, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMethodDef async_methods[] = {
    {"asend", stepper_asend, METH_VARARGS, NULL},
    {"athrow", stepper_athrow, METH_VARARGS, NULL},
    {"aclose", stepper_aclose, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyAsyncMethods as_generator = {.am_send = stepper_am_send};
static PyAsyncMethods as_coroutine = {.am_await = PyObject_SelfIter, .am_send = stepper_am_send};
static PyAsyncMethods as_async_generator = {.am_aiter = PyObject_SelfIter, .am_anext = stepper_anext};

#define COMMON(name)                                                                          \
    PyVarObject_HEAD_INIT(NULL, 0)                                                            \
    .tp_name = "fxtio._native._recorder." name,                                               \
    .tp_basicsize = sizeof(Stepper),                                                          \
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,  \
    .tp_weaklistoffset = offsetof(Stepper, weak_references),                                  \
    .tp_traverse = stepper_traverse, .tp_clear = stepper_clear,                               \
    .tp_dealloc = stepper_dealloc, .tp_repr = stepper_repr,                                   \
    .tp_getattro = stepper_getattr, .tp_setattro = stepper_setattr,                           \
    .tp_getset = getset, .tp_members = members

static PyTypeObject types[STEPPER_KINDS] = {
    [RETURNS_GENERATOR] = {COMMON("Generator"), .tp_as_async = &as_generator, .tp_iter = PyObject_SelfIter,
                           .tp_iternext = stepper_next, .tp_methods = methods},
    [RETURNS_COROUTINE] = {COMMON("Coroutine"), .tp_as_async = &as_coroutine, .tp_iternext = stepper_next,
                           .tp_methods = methods},
    [RETURNS_ASYNC_GENERATOR] = {COMMON("AsyncGenerator"), .tp_as_async = &as_async_generator,
                                 .tp_methods = async_methods},
    [STEP_OF_ASYNC_GENERATOR] = {COMMON("Next"), .tp_as_async = &as_coroutine, .tp_iter = PyObject_SelfIter,
                                 .tp_iternext = stepper_next, .tp_methods = methods},
};

/* Make the types.  Returns -1 with an exception set on failure. */
int stepper_init(void) {
    for (int kind = RETURNS_GENERATOR; kind < STEPPER_KINDS; kind++)
        if (PyType_Ready(&types[kind]))
            return -1;
    return 0;
}
