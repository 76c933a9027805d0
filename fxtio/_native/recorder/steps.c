/* Generators and coroutines of callables that stand for others: a span for each stretch in which they run, and for a
 * coroutine its whole operation on the track of the task.
 *
 * An object of this file stands for a generator, coroutine or async generator; each of these has a type of its own,
 * because what a program may do with one it may not do with another.  It says that it is of the class of what it stands
 * for, and whatever it has not itself is taken from there. */
#include "recorder.h"

#include <stddef.h>
#include <structmember.h>

typedef struct {
    PyObject_HEAD
    PyObject *inner, *values, *weak; /* what is stepped; a tuple of arguments for the first begin, or NULL */
    Site *site;
    uint64_t track, generation;      /* the task's track on which it is open, 0 for none, and in which session */
    enum Stepped kind;
    int result, started, running, over;
} Steps;

/* What STEPPED_NEXT is: one step of an async generator, which is itself awaited. */
static PyTypeObject types[STEPPED_KINDS];

/* A stretch: from the begin of a step to its end. */
typedef struct {
    uint64_t generation;
    int begun;
} Stretch;

static Stretch begin(Steps *steps) {
    uint64_t track;
    int first = !steps->started;
    Stretch stretch = {.generation = session.generation};
    steps->started = 1;
    if (!session.active)
        return stretch;
    if (steps->kind == STEPPED_COROUTINE && (track = task_track()) && first &&
        bare_with(steps->site, ASYNC_BEGIN, &track)) {
        steps->track = track;
        steps->generation = session.generation;
    }
    stretch.begun = first && steps->values ? event(steps->site, BEGIN, &PyTuple_GET_ITEM(steps->values, 0), NULL)
                                           : bare(steps->site, BEGIN);
    if (LIKELY(stretch.begun))
        current->depth++;
    if (UNLIKELY(current->arrows != NULL))
        task_arrives(current);
    return stretch;
}

static void end_on_track(Steps *steps) {
    uint64_t track = steps->track;
    steps->track = 0;
    if (track && steps->generation == session.generation)
        bare_with(steps->site, ASYNC_END, &track);
}

/* The stretch ends with an exception, which stays set. */
static void failed(const Steps *steps) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    int quiet = !type || PyErr_GivenExceptionMatches(type, PyExc_GeneratorExit) ||
                PyErr_GivenExceptionMatches(type, PyExc_StopIteration) ||
                PyErr_GivenExceptionMatches(type, PyExc_StopAsyncIteration);
    PyObject *name = quiet ? NULL : PyUnicode_FromString(((PyTypeObject *)type)->tp_name);
    if (!quiet && !name)
        PyErr_Clear();
    if (!name || !event_with(steps->site, END, exception_name, name, NULL))
        bare(steps->site, END);
    Py_XDECREF(name);
    if (!current->escaped)
        PyErr_Restore(type, value, trace);
    else
        drop(type, value, trace);
}

static void end(Steps *steps, Stretch stretch, PySendResult status, PyObject *value) {
    int whole = steps->kind != STEPPED_NEXT; /* else what comes back is no result */
    if (UNLIKELY(stretch.begun && status == PYGEN_NEXT && steps->kind == STEPPED_COROUTINE))
        task_waits(value);
    if (LIKELY(stretch.begun && stretch.generation == session.generation && current->depth)) {
        State *state = current;
        unsigned held = UNLIKELY(state->depth <= state->top) ? held_end(state) : 0;
        state->depth--;
        if (UNLIKELY(status == PYGEN_ERROR))
            failed(steps);
        else if (UNLIKELY(status == PYGEN_RETURN && steps->result && whole))
            event_with(steps->site, END, result_name, value, NULL);
        else
            bare(steps->site, END);
        if (UNLIKELY(held))
            held_again(state, held);
    }
    if (status != PYGEN_NEXT) {
        steps->over = 1;
        end_on_track(steps);
    }
}

/* What a step gives back; an exception of a signal handler that came meanwhile takes its place. */
static PySendResult given_back(PySendResult status, PyObject **value) {
    if (LIKELY(!current->escaped))
        return status;
    current->escaped = 0;
    Py_CLEAR(*value);
    return PYGEN_ERROR;
}

static PySendResult steps_send(PyObject *self, PyObject *argument, PyObject **value) {
    Steps *steps = (Steps *)self;
    *value = NULL;
    if (UNLIKELY(!stack_left()))
        return PYGEN_ERROR;
    if (UNLIKELY(steps->over || steps->running))
        return PyIter_Send(steps->inner, argument, value);
    Stretch stretch = begin(steps);
    if (UNLIKELY(current->escaped))
        return given_back(PYGEN_ERROR, value);
    steps->running = 1;
    PySendResult status = PyIter_Send(steps->inner, argument, value);
    steps->running = 0;
    end(steps, stretch, status, *value);
    return given_back(status, value);
}

/* What send(), throw() and next() are to answer. */
static PyObject *answer(PySendResult status, PyObject *value, int plain) {
    if (status != PYGEN_RETURN)
        return value;
    if (plain && value == Py_None) {
        Py_DECREF(value); /* the end of an iteration, without a word */
        return NULL;
    }
    PyObject *stop = PyObject_CallOneArg(PyExc_StopIteration, value);
    Py_DECREF(value);
    if (stop)
        PyErr_SetObject(PyExc_StopIteration, stop);
    Py_XDECREF(stop);
    return NULL;
}

static PyObject *steps_next(PyObject *self) {
    PyObject *value;
    PySendResult status = steps_send(self, Py_None, &value);
    return answer(status, value, 1);
}

static PyObject *steps_send_method(PyObject *self, PyObject *argument) {
    PyObject *value;
    PySendResult status = steps_send(self, argument, &value);
    return answer(status, value, 0);
}

/* Call a method of what is stepped, as a stretch.  Its StopIteration is the end of it. */
static PyObject *through(Steps *steps, const char *name, PyObject *args) {
    PyObject *method = PyObject_GetAttrString(steps->inner, name);
    if (!method)
        return NULL;
    if (steps->over || steps->running || !stack_left()) {
        PyObject *value = PyErr_Occurred() ? NULL : PyObject_Call(method, args, NULL);
        Py_DECREF(method);
        return value;
    }
    Stretch stretch = begin(steps);
    steps->running = 1;
    PyObject *value = current->escaped ? NULL : PyObject_Call(method, args, NULL), *returned = NULL;
    steps->running = 0;
    PySendResult status = value ? PYGEN_NEXT : PYGEN_ERROR;
    if (!value && PyErr_ExceptionMatches(PyExc_StopIteration)) {
        PyObject *type, *error, *trace;
        PyErr_Fetch(&type, &error, &trace);
        PyErr_NormalizeException(&type, &error, &trace);
        returned = error ? PyObject_GetAttrString(error, "value") : NULL;
        PyErr_Restore(type, error, trace);
        status = returned ? PYGEN_RETURN : PYGEN_ERROR;
    }
    end(steps, stretch, status, returned);
    Py_XDECREF(returned);
    Py_DECREF(method);
    return unless_escaped(value);
}

static PyObject *steps_throw(PyObject *self, PyObject *args) {
    return through((Steps *)self, "throw", args);
}

static PyObject *steps_close(PyObject *self, PyObject *args) {
    Steps *steps = (Steps *)self;
    if (!steps->started)
        steps->over = 1; /* there is nothing that could run */
    PyObject *done = through(steps, "close", args);
    if (done && !steps->over) {
        steps->over = 1;
        end_on_track(steps);
    }
    return done;
}

/* ---- Async generators: what they give is stepped in turn. ---- */

static PyObject *step_of(Steps *steps, PyObject *awaitable) {
    PyObject *made = awaitable ? steps_new(awaitable, steps->site, steps->values, 0, STEPPED_NEXT) : NULL;
    Py_CLEAR(steps->values); /* only the first one tells them */
    Py_XDECREF(awaitable);
    return made;
}

static PyObject *steps_anext(PyObject *self) {
    Steps *steps = (Steps *)self;
    return step_of(steps, Py_TYPE(steps->inner)->tp_as_async->am_anext(steps->inner));
}

#define AWAITED(name)                                                                      \
    static PyObject *steps_##name(PyObject *self, PyObject *args) {                        \
        PyObject *method = PyObject_GetAttrString(((Steps *)self)->inner, #name);          \
        PyObject *awaitable = method ? PyObject_Call(method, args, NULL) : NULL;           \
        Py_XDECREF(method);                                                                \
        return step_of((Steps *)self, awaitable);                                          \
    }
AWAITED(asend)
AWAITED(athrow)
AWAITED(aclose)

/* ---- The types. ---- */

PyObject *steps_new(PyObject *inner, Site *site, PyObject *values, int result, enum Stepped kind) {
    Steps *steps = PyObject_GC_New(Steps, &types[kind]);
    if (!steps)
        return NULL;
    steps->inner = Py_NewRef(inner);
    steps->values = Py_XNewRef(values);
    steps->weak = NULL;
    steps->site = (Site *)Py_NewRef(site);
    steps->track = steps->generation = 0;
    steps->kind = kind;
    steps->result = result;
    steps->started = steps->running = steps->over = 0;
    PyObject_GC_Track(steps);
    return (PyObject *)steps;
}

static int steps_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(((Steps *)self)->inner);
    Py_VISIT(((Steps *)self)->values);
    return 0;
}

static int steps_clear(PyObject *self) {
    Py_CLEAR(((Steps *)self)->values);
    return 0; /* what is stepped breaks its own cycles */
}

static void steps_dealloc(PyObject *self) {
    Steps *steps = (Steps *)self;
    PyObject_GC_UnTrack(self);
    if (steps->weak)
        PyObject_ClearWeakRefs(self);
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    Py_CLEAR(steps->inner);
    Py_CLEAR(steps->values);
    end_on_track(steps);
    if (current->escaped) { /* there is nobody to tell */
        current->escaped = 0;
        PyErr_WriteUnraisable(NULL);
    }
    PyErr_Restore(type, value, trace);
    Py_CLEAR(steps->site);
    PyObject_GC_Del(self);
}

static PyObject *steps_repr(PyObject *self) {
    return PyObject_Repr(((Steps *)self)->inner);
}

static PyObject *steps_getattr(PyObject *self, PyObject *name) {
    PyObject *found = PyObject_GenericGetAttr(self, name);
    if (found || !PyErr_ExceptionMatches(PyExc_AttributeError))
        return found;
    PyErr_Clear();
    return PyObject_GetAttr(((Steps *)self)->inner, name);
}

static int steps_setattr(PyObject *self, PyObject *name, PyObject *value) {
    return PyObject_SetAttr(((Steps *)self)->inner, name, value);
}

static PyObject *class_of(PyObject *self, void *closure) {
    (void)closure;
    return Py_NewRef(Py_TYPE(((Steps *)self)->inner));
}

static PyGetSetDef getset[] = {
    {"__class__", class_of, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Steps, weak), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef methods[] = {
    {"send", steps_send_method, METH_O, NULL},
    {"throw", steps_throw, METH_VARARGS, NULL},
    {"close", steps_close, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMethodDef async_methods[] = {
    {"asend", steps_asend, METH_VARARGS, NULL},
    {"athrow", steps_athrow, METH_VARARGS, NULL},
    {"aclose", steps_aclose, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyAsyncMethods as_generator = {.am_send = steps_send};
static PyAsyncMethods as_coroutine = {.am_await = PyObject_SelfIter, .am_send = steps_send};
static PyAsyncMethods as_async_generator = {.am_aiter = PyObject_SelfIter, .am_anext = steps_anext};

#define COMMON(name)                                                                                        \
    PyVarObject_HEAD_INIT(NULL, 0)                                                                          \
    .tp_name = "fxtio._native._recorder." name,                                                             \
    .tp_basicsize = sizeof(Steps),                                                                          \
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,                \
    .tp_weaklistoffset = offsetof(Steps, weak),                                                             \
    .tp_traverse = steps_traverse, .tp_clear = steps_clear, .tp_dealloc = steps_dealloc,                    \
    .tp_repr = steps_repr, .tp_getattro = steps_getattr, .tp_setattro = steps_setattr, .tp_getset = getset, \
    .tp_members = members

static PyTypeObject types[STEPPED_KINDS] = {
    [STEPPED_GENERATOR] = {COMMON("Generator"), .tp_as_async = &as_generator, .tp_iter = PyObject_SelfIter,
                           .tp_iternext = steps_next, .tp_methods = methods},
    [STEPPED_COROUTINE] = {COMMON("Coroutine"), .tp_as_async = &as_coroutine, .tp_iternext = steps_next,
                           .tp_methods = methods},
    [STEPPED_ASYNC_GENERATOR] = {COMMON("AsyncGenerator"), .tp_as_async = &as_async_generator,
                                 .tp_methods = async_methods},
    [STEPPED_NEXT] = {COMMON("Next"), .tp_as_async = &as_coroutine, .tp_iter = PyObject_SelfIter,
                      .tp_iternext = steps_next, .tp_methods = methods},
};

int steps_init(void) {
    for (int kind = STEPPED_GENERATOR; kind < STEPPED_KINDS; kind++)
        if (PyType_Ready(&types[kind]))
            return -1;
    return 0;
}
