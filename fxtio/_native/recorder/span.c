/* Spans.
 *
 * `with span(...)` looks `__enter__` and `__exit__` up and would bind each to the span, which allocates.  Here both are
 * descriptors that give the span itself, which can be called: with nothing to enter, with three arguments to exit. */
#include "recorder.h"

#include <stddef.h>

enum { SPARE = 64 };

typedef struct Span {
    PyObject_HEAD
    vectorcallfunc call;
    Site *site;         /* NULL for the span of a time when nothing is recorded */
    uint64_t session;   /* in which it began */
    uint64_t track;     /* where it began: a task's track, or 0 and the thread's */
    uint64_t begun;     /* the tick after its last begin */
    Identity identity;
    unsigned open;      /* how often it began without an end */
    int shared;         /* several threads have begun it: each ends it for itself */
    int tracked;        /* by the garbage collector */
    unsigned count;
    PyObject *late;     /* dict of arguments for its end, or NULL */
    struct Span *next;  /* of those that are let go */
    PyObject *values[MAX_ARGS];
} Span;

static PyTypeObject SpanType, SlotType;
static Span *spare[SPARE];
static int spares;
static Span *no_span;

static PyObject *span_call(PyObject *callable, PyObject *const *args, size_t flags, PyObject *keys);

static Span *span_new(Site *site) {
    Span *span;
    Py_XINCREF((PyObject *)site); /* a collection may end the recording, and with it what knows the site */
    if (spares) {
        span = spare[--spares];
        (void)PyObject_INIT((PyObject *)span, &SpanType);
    } else if (!(span = PyObject_GC_New(Span, &SpanType))) {
        Py_XDECREF((PyObject *)site);
        return NULL;
    }
    span->call = span_call;
    span->site = site;
    span->open = 0;
    span->session = 0;
    span->tracked = 0;
    span->count = 0;
    span->late = NULL;
    return span;
}

static void let_go(Span *span) {
    for (unsigned index = 0; index < span->count; index++)
        Py_DECREF(span->values[index]);
    span->count = 0;
    Py_CLEAR(span->late);
    Py_CLEAR(span->site);
    if (spares < SPARE)
        spare[spares++] = span;
    else
        PyObject_GC_Del(span);
}

static int span_traverse(Span *span, visitproc visit, void *arg) {
    for (unsigned index = 0; index < span->count; index++)
        Py_VISIT(span->values[index]);
    Py_VISIT(span->late);
    return 0;
}

/* The values stay as many: a finalizer may still use the span. */
static int span_clear(Span *span) {
    for (unsigned index = 0; index < span->count; index++)
        Py_SETREF(span->values[index], Py_NewRef(Py_None));
    Py_CLEAR(span->late);
    return 0;
}

/* Tell the garbage collector of it: it holds something that can hold the span. */
static void track(Span *span) {
    if (span->tracked)
        return;
    PyObject_GC_Track(span);
    span->tracked = 1;
}

/* A span may hold a span that holds a span, ...: what ends while another one is let go waits for its turn. */
static void span_dealloc(Span *span) {
    static Span *waiting;
    static int busy;
    if (UNLIKELY(span->tracked))
        PyObject_GC_UnTrack(span);
    span->next = waiting;
    waiting = span;
    if (busy)
        return;
    for (busy = 1; waiting;) {
        Span *one = waiting;
        waiting = one->next;
        let_go(one);
    }
    busy = 0;
}

PyObject *span(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keys) {
    int wrong;
    Site *site = site_called(args, count, 1, keys, &wrong);
    (void)module;
    if (!site)
        return wrong ? NULL : Py_NewRef((PyObject *)no_span);
    Span *made = span_new(site);
    if (!made)
        return NULL;
    made->count = site->count;
    int holds = 0;
    for (unsigned index = 0; index < site->count; index++) {
        made->values[index] = Py_NewRef(args[count + index]);
        holds |= PyObject_IS_GC(args[count + index]);
    }
    if (UNLIKELY(holds))
        track(made);
    return (PyObject *)made;
}

static void enter(Span *span) {
    uint64_t track = task_track();
    int begun;
    if (LIKELY(!track))
        begun = span->count ? swift(span->site, BEGIN, span->values, NULL) : bare(span->site, BEGIN);
    else
        begun = swift(span->site, ASYNC_BEGIN, span->values, &track);
    if (!begun)
        return;
    if (span->session != session.generation)
        span->open = 0; /* what a recording before has left open */
    span->shared = span->open && (span->shared || span->identity.thread != current->identity.thread);
    span->open++;
    span->session = session.generation;
    span->track = track;
    span->begun = current->next;
    span->identity = current->identity;
    if (UNLIKELY(current->depth && !track))
        held_push(current, span, span->site);
}

/* The arguments that were set while the span was open, and the name of an exception. */
static void leave_with(Span *span, PyObject *late, PyObject *exception) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *all = PyDict_Copy(late), *keys = NULL, *values = NULL;
    if (all && exception)
        PyDict_SetItem(all, exception_name, exception);
    if (all && (keys = PySequence_Tuple(all)))
        values = PyDict_Values(all);
    Site *site = values ? site_of(span->site->name, span->site->category, keys) : NULL;
    const uint64_t *tail = span->track ? &span->track : NULL;
    PyErr_Clear();
    if (!site || !event(site, tail ? ASYNC_END : END, PySequence_Fast_ITEMS(values), tail))
        bare_on(span->site, END, ASYNC_END, span->track);
    Py_XDECREF(values);
    Py_XDECREF(keys);
    Py_XDECREF(all);
    if (!current->escaped)
        PyErr_Restore(type, value, trace);
    else
        drop(type, value, trace);
}

static void put_leave(Span *span, PyObject *exception) {
    PyObject *name = NULL;
    if (UNLIKELY(exception != Py_None && PyType_Check(exception)) &&
        !(name = PyUnicode_FromString(((PyTypeObject *)exception)->tp_name)))
        PyErr_Clear();
    if (UNLIKELY(span->late != NULL))
        leave_with(span, span->late, name);
    else if (UNLIKELY(name != NULL))
        event_with(span->site, span->track ? ASYNC_END : END, exception_name, name, span->track ? &span->track : NULL);
    else
        bare_on(span->site, END, ASYNC_END, span->track);
    Py_XDECREF(name);
}

/* End it where it began, which may be another thread's track. */
static void leave_here(Span *span, PyObject *exception) {
    State *state = current;
    if (LIKELY(state->identity.thread == span->identity.thread || span->shared)) {
        put_leave(span, exception);
        if (UNLIKELY(state->opened && !span->track))
            held_pop(state, span);
        return;
    }
    held_forget(span, span->identity.thread);
    if (!store_room(&state, 2))
        return;
    Identity own = state->identity;
    uint64_t generation = session.generation;
    store_pose(state, span->identity);
    put_leave(span, exception);
    if (generation == session.generation)
        store_pose(state, own);
}

static void leave(Span *span, PyObject *exception) {
    if (!span->open)
        return;
    span->open--;
    if (UNLIKELY(span->session != session.generation))
        return;
    leave_here(span, exception);
    if (UNLIKELY(current->next - span->begun > session.slow))
        tell_slow(span->site, current->next - span->begun);
}

static PyObject *span_call(PyObject *callable, PyObject *const *args, size_t flags, PyObject *keys) {
    Span *span = (Span *)callable;
    Py_ssize_t count = PyVectorcall_NARGS(flags);
    if (LIKELY(!keys && count == 0)) {
        if (span->site)
            enter(span);
        if (UNLIKELY(current->escaped && span->open))
            leave(span, Py_None);
        return unless_escaped(Py_NewRef(callable));
    }
    if (LIKELY(!keys && count == 3)) {
        if (span->site)
            leave(span, args[0]);
        return unless_escaped(Py_NewRef(Py_None));
    }
    PyErr_SetString(PyExc_TypeError, "a span is used by `with`");
    return NULL;
}

static PyObject *span_set(Span *span, PyObject *const *args, Py_ssize_t count, PyObject *keys) {
    if (count) {
        PyErr_SetString(PyExc_TypeError, "set() takes its arguments by name");
        return NULL;
    }
    if (span->site && span->open && keys) {
        if (!span->late && !(span->late = PyDict_New()))
            return NULL;
        track(span);
        for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(keys); index++)
            if (PyDict_SetItem(span->late, PyTuple_GET_ITEM(keys, index), args[index]))
                return NULL;
    }
    Py_RETURN_NONE;
}

static PyMethodDef span_type_methods[] = {
    {"set", (PyCFunction)(void (*)(void))span_set, METH_FASTCALL | METH_KEYWORDS,
     "set(**args): arguments that are known when the span ends."},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject SpanType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "fxtio.Span",
    .tp_doc = "What span() gives: a context manager.",
    .tp_basicsize = sizeof(Span),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_vectorcall_offset = offsetof(Span, call),
    .tp_call = PyVectorcall_Call,
    .tp_dealloc = (destructor)span_dealloc,
    .tp_traverse = (traverseproc)span_traverse,
    .tp_clear = (inquiry)span_clear,
    .tp_methods = span_type_methods,
};

static PyObject *slot_get(PyObject *slot, PyObject *span, PyObject *owner) {
    (void)owner;
    return Py_NewRef(span ? span : slot);
}

/* `type(span).__enter__(span)`, as contextlib.ExitStack has it. */
static PyObject *slot_call(PyObject *slot, PyObject *args, PyObject *keys) {
    (void)slot;
    if (keys || PyTuple_GET_SIZE(args) < 1 || !Py_IS_TYPE(PyTuple_GET_ITEM(args, 0), &SpanType)) {
        PyErr_SetString(PyExc_TypeError, "needs a span");
        return NULL;
    }
    size_t count = (size_t)PyTuple_GET_SIZE(args) - 1;
    return span_call(PyTuple_GET_ITEM(args, 0), count ? &PyTuple_GET_ITEM(args, 1) : NULL, count, NULL);
}

static PyTypeObject SlotType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "fxtio._native._recorder.Slot",
    .tp_basicsize = sizeof(PyObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_descr_get = slot_get,
    .tp_call = slot_call,
};

int span_init(PyObject *module) {
    if (PyType_Ready(&SlotType) || PyType_Ready(&SpanType))
        return -1;
    static const char *const names[] = {"__enter__", "__exit__"};
    for (int index = 0; index < 2; index++) {
        PyObject *slot = PyObject_New(PyObject, &SlotType);
        if (!slot || PyDict_SetItemString(SpanType.tp_dict, names[index], slot))
            return -1;
        Py_DECREF(slot);
    }
    PyType_Modified(&SpanType);
    no_span = span_new(NULL);
    return no_span && !PyModule_AddObjectRef(module, "Span", (PyObject *)&SpanType) ? 0 : -1;
}
