/* Span objects.
 *
 * `with span(...)` looks up `__enter__` and `__exit__` and would bind each to the span, which allocates.  Here both are
 * descriptors that return the span itself, which can be called: without arguments to enter, with three to exit. */
#include "methods.h"
#include "event.h"
#include "open_span.h"
#include "open_track.h"
#include "site.h"
#include "task.h"

#include <stddef.h>

enum { MAX_FREE = 64 };

typedef struct Span {
    PyObject_HEAD
    vectorcallfunc call;
    Site *site;          /* NULL for the span that is returned while nothing is recorded */
    uint64_t generation; /* of the session in which it began */
    uint64_t track;      /* where it began: the id of a task's track, or 0 for that of the thread */
    uint64_t begin_tick; /* the earliest tick after its last begin */
    Identity identity;   /* of the thread in which it began */
    unsigned open_count; /* begins without an end */
    int is_shared;       /* whether several threads have entered it: each ends it for itself */
    int is_noted;        /* whether it was noted among the open ones of a thread */
    int is_tracked;      /* by the garbage collector */
    unsigned count;
    PyObject *end_keys;   /* names of arguments for its end, a tuple as calls have it, or NULL if there are none */
    PyObject *end_values; /* their values, a tuple as long */
    struct Span *next_freed;
    PyObject *values[MAX_ARGUMENTS];
} Span;

static PyTypeObject SpanType, EnterExitType;
#ifndef Py_GIL_DISABLED
static Span *free_spans[MAX_FREE]; /* memory to be used again */
static int free_count;
#endif
static Span *no_span;

static PyObject *span_call(PyObject *callable, PyObject *const *args, size_t flags, PyObject *keys);

/* ---- Memory. ---- */

/* Return memory for a span, or NULL.  On a free-threaded build the interpreter has such a store for each thread. */
static inline Span *span_memory(void) {
#ifndef Py_GIL_DISABLED
    if (free_count) {
        Span *span = free_spans[--free_count];
#if defined(Py_TRACE_REFS)
        (void)PyObject_INIT((PyObject *)span, &SpanType);
#else
        Py_SET_REFCNT((PyObject *)span, 1); /* it has its type already */
#endif
        return span;
    }
#endif
    return PyObject_GC_New(Span, &SpanType);
}

/* Make a span of a site, or the one without a site that does nothing. */
static Span *span_new(Site *site) {
    Py_XINCREF((PyObject *)site); /* a garbage collection may end the recording, and free its sites */
    Span *span = span_memory();
    if (!span) {
        Py_XDECREF((PyObject *)site);
        return NULL;
    }
    span->call = span_call;
    span->site = site;
    span->open_count = 0;
    span->generation = 0;
    span->is_noted = 0;
    span->is_tracked = 0;
    span->count = 0;
    span->end_keys = span->end_values = NULL;
    return span;
}

/* Drop what a span holds, and keep its memory for the next one if there is room. */
static void span_free(Span *span) {
    for (unsigned index = 0; index < span->count; index++)
        Py_DECREF(span->values[index]);
    span->count = 0;
    Py_CLEAR(span->end_keys);
    Py_CLEAR(span->end_values);
    Py_CLEAR(span->site);
#ifndef Py_GIL_DISABLED
    if (free_count < MAX_FREE) {
        free_spans[free_count++] = span;
        return;
    }
#endif
    PyObject_GC_Del(span);
}

static int span_traverse(Span *span, visitproc visit, void *arg) {
    for (unsigned index = 0; index < span->count; index++)
        Py_VISIT(span->values[index]);
    Py_VISIT(span->end_keys);
    Py_VISIT(span->end_values);
    return 0;
}

/* Break reference cycles.  The number of values stays, as a finalizer may still use the span. */
static int span_clear(Span *span) {
    for (unsigned index = 0; index < span->count; index++)
        Py_SETREF(span->values[index], Py_NewRef(Py_None));
    Py_CLEAR(span->end_keys);
    Py_CLEAR(span->end_values);
    return 0;
}

/* Let the garbage collector know of a span that holds objects which can refer to it. */
static void span_track(Span *span) {
    if (span->is_tracked)
        return;
    PyObject_GC_Track(span);
    span->is_tracked = 1;
}

/* Free a span.  Its values may hold a span, whose values hold a span, and so on: one that is freed while another one is
 * being freed is put in a list, so that this does not recurse. */
static void span_dealloc(Span *span) {
    static THREAD_LOCAL Span *pending;
    static THREAD_LOCAL int is_busy;
    if (LIKELY(!span->is_tracked)) { /* what it holds can hold no span */
        span_free(span);
        return;
    }
    PyObject_GC_UnTrack(span);
    span->next_freed = pending;
    pending = span;
    if (is_busy)
        return;
    for (is_busy = 1; pending;) {
        Span *first = pending;
        pending = first->next_freed;
        span_free(first);
    }
    is_busy = 0;
}

/* span(name, category='', /, **args): make a span, or return the one that does nothing. */
static PyObject *make_span(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count, PyObject *keys) {
    int failed;
    Site *site = site_of_call(args, count, 1, keys, &failed);
    if (!site)
        return failed ? NULL : Py_NewRef((PyObject *)no_span);
    Span *span = span_new(site);
    if (!span)
        return NULL;
    span->count = site->count;
    int has_containers = 0;
    for (unsigned index = 0; index < site->count; index++) {
        span->values[index] = Py_NewRef(args[count + index]);
        has_containers |= PyObject_IS_GC(args[count + index]);
    }
    if (UNLIKELY(has_containers))
        span_track(span);
    return (PyObject *)span;
}

/* ---- Begin and end. ---- */

/* Record the start, on the track of the running task or of the thread. */
static inline __attribute__((always_inline)) void enter(Span *span) {
    uint64_t track = task_track();
    int is_recorded;
    if (LIKELY(!track && !span->count && session.has_counter && site_is_simple(span->site)) &&
        record_two_words(current, 1, span->site->own.refs, EVENT_BEGIN))
        is_recorded = 1;
    else if (LIKELY(!track))
        is_recorded = span->count ? record_event_fast(span->site, EVENT_BEGIN, span->values, NULL)
                                  : record_bare(span->site, EVENT_BEGIN);
    else
        is_recorded = record_event_fast(span->site, EVENT_ASYNC_BEGIN, span->values, &track);
    if (!is_recorded)
        return;
    if (span->generation != session.generation)
        span->open_count = 0; /* an earlier recording ended while it was open */
    span->is_shared =
        span->open_count && (span->is_shared || span->identity.thread != current->identity.thread);
    span->open_count++;
    span->generation = session.generation;
    span->track = track;
    span->begin_tick = current->earliest_tick;
    span->identity = current->identity;
    if (UNLIKELY(track))
        open_track_begin(track, span, span->site, NULL);
    else if (UNLIKELY(current->open.depth)) {
        span->is_noted = 1;
        open_span_add(current, span, span->site);
    }
}

/* Return the id of the task's track for the end, NULL on the track of a thread. */
static inline const uint64_t *track_id(const Span *span) {
    return span->track ? &span->track : NULL;
}

/* Return the kind of event that ends the span. */
static inline enum EventKind end_kind(const Span *span) {
    return LIKELY(!span->track) ? EVENT_END : EVENT_ASYNC_END;
}

/* Put arguments into a dict.  Returns -1 with an exception set on failure. */
static int put_arguments(PyObject *all, PyObject *keys, PyObject *values) {
    int failed = 0;
    for (Py_ssize_t index = 0; !failed && index < PyTuple_GET_SIZE(keys); index++)
        failed = PyDict_SetItem(all, PyTuple_GET_ITEM(keys, index), PyTuple_GET_ITEM(values, index));
    return failed;
}

/* Add arguments to others; one with the same name takes its place.  All names and values are tuples, of which those to
 * be added are taken over.  Returns -1 with an exception set on failure, and then nothing is added. */
static int add_arguments(PyObject **keys, PyObject **values, PyObject *more_keys, PyObject *more_values) {
    if (more_keys && more_values && *keys && *keys != more_keys) { /* otherwise none of the others is left */
        PyObject *all = PyDict_New(), *list = NULL, *all_keys = NULL, *all_values = NULL;
        /* Names may run code, which may set others. */
        PyObject *old_keys = Py_NewRef(*keys), *old_values = Py_NewRef(*values);
        if (all && !put_arguments(all, old_keys, old_values) && !put_arguments(all, more_keys, more_values) &&
            (all_keys = PySequence_Tuple(all)) && (list = PyDict_Values(all)))
            all_values = PyList_AsTuple(list);
        Py_DECREF(old_keys);
        Py_DECREF(old_values);
        Py_XDECREF(all);
        Py_XDECREF(list);
        Py_SETREF(more_keys, all_keys);
        Py_SETREF(more_values, all_values);
    }
    if (!more_keys || !more_values) {
        Py_XDECREF(more_keys);
        Py_XDECREF(more_values);
        return -1;
    }
    PyObject *old_keys = *keys, *old_values = *values;
    *keys = more_keys;
    *values = more_values;
    Py_XDECREF(old_keys);
    Py_XDECREF(old_values);
    return 0;
}

/* Record the end with the arguments that were set while the span was open, and with the name of an exception. */
static void record_end_with_arguments(Span *span, PyObject *exception) {
    SavedError error = error_save();
    PyObject *keys = Py_NewRef(span->end_keys), *values = Py_NewRef(span->end_values); /* others may be set meanwhile */
    if (exception && add_arguments(&keys, &values, PyTuple_Pack(1, exception_name), PyTuple_Pack(1, exception)))
        PyErr_Clear();
    Site *site = site_lookup(span->site->name, span->site->category, keys);
    if (!site || !record_event_fast(site, end_kind(span), &PyTuple_GET_ITEM(values, 0), track_id(span)))
        record_bare_with_id(span->site, end_kind(span), track_id(span));
    Py_DECREF(keys);
    Py_DECREF(values);
    error_restore_unless_escaped(error);
}

/* Record the end.  `exception` is the type of an exception, or None. */
static void record_any_end(Span *span, PyObject *exception) {
    PyObject *name = NULL;
    if (UNLIKELY(exception != Py_None && PyType_Check(exception)) &&
        !(name = PyUnicode_FromString(((PyTypeObject *)exception)->tp_name)))
        PyErr_Clear();
    if (UNLIKELY(span->end_keys != NULL))
        record_end_with_arguments(span, name);
    else if (UNLIKELY(name != NULL))
        record_event_with(span->site, end_kind(span), exception_name, name, track_id(span));
    else if (LIKELY(!span->track))
        record_bare(span->site, EVENT_END);
    else
        record_bare_with_id(span->site, EVENT_ASYNC_END, &span->track);
    Py_XDECREF(name);
}

/* Record the end; the usual one in a few instructions. */
static inline void record_end(Span *span, PyObject *exception) {
    if (LIKELY(exception == Py_None && !span->track && !span->end_keys && session.has_counter &&
               site_is_simple(span->site)) &&
        record_two_words(current, 1, span->site->own.refs, EVENT_END))
        return;
    record_any_end(span, exception);
}

/* Forget that the span is open on the track of a thread. */
static void forget(State *state, const Span *span) {
    Trash trash = {0};
    open_span_remove(state, span, &trash);
    trash_empty(&trash);
}

/* Record the end on the track where the span began, which may be that of another thread. */
static inline void record_end_where_begun(Span *span, PyObject *exception) {
    State *state = current;
    if (LIKELY(state->identity.thread == span->identity.thread || span->is_shared)) {
        record_end(span, exception);
        if (UNLIKELY(state->open.span_count && !span->track))
            forget(state, span);
        return;
    }
    uint64_t generation = session.generation;
    if (span->is_noted)
        open_span_remove_from(span->identity.thread, span);
    if (generation != session.generation || !thread_room(&state, 2))
        return;
    Identity own = state->identity;
    thread_set_identity(state, span->identity);
    record_end(span, exception);
    if (generation == session.generation)
        thread_set_identity(state, own);
}

/* Record the end, and report a slow span. */
static void leave(Span *span, PyObject *exception) {
    if (!span->open_count)
        return;
    span->open_count--;
    if (UNLIKELY(span->generation != session.generation))
        return;
    const size_t suspended = UNLIKELY(span->track) ? task_suspend(span->track, span) : 0;
    record_end_where_begun(span, exception);
    if (UNLIKELY(suspended) && LIKELY(span->generation == session.generation)) {
        open_track_end(span->track, span);
        task_resume(span->track, suspended);
    }
    if (UNLIKELY(current->earliest_tick - span->begin_tick > session.slow_ticks))
        report_slow("slow", span->site, current->earliest_tick - span->begin_tick);
}

/* ---- The types. ---- */

/* Enter the span if there are no arguments, leave it if there are three. */
static PyObject *span_call(PyObject *callable, PyObject *const *args, size_t flags, PyObject *keys) {
    Span *span = (Span *)callable;
    Py_ssize_t count = PyVectorcall_NARGS(flags);
    if (LIKELY(!keys && count == 0)) {
        BEGIN_OBJECT(callable);
        if (span->site)
            enter(span);
        if (UNLIKELY(current->escaped && span->open_count))
            leave(span, Py_None);
        END_OBJECT();
        return unless_escaped(Py_NewRef(callable));
    }
    if (LIKELY(!keys && count == 3)) {
        BEGIN_OBJECT(callable);
        if (span->site)
            leave(span, args[0]);
        END_OBJECT();
        return unless_escaped(Py_NewRef(Py_None));
    }
    return PyErr_Format(PyExc_TypeError, "a span is used by `with`");
}

/* Set arguments for the end.  Returns -1 with an exception set on failure. */
static int set_arguments(Span *span, PyObject *const *values, PyObject *keys) {
    if (!span->site || !span->open_count || !keys)
        return 0;
    PyObject *tuple = PyTuple_New(PyTuple_GET_SIZE(keys));
    if (!tuple)
        return -1;
    for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(keys); index++) {
        if (PyObject_IS_GC(values[index]))
            span_track(span);
        PyTuple_SET_ITEM(tuple, index, Py_NewRef(values[index]));
    }
    return add_arguments(&span->end_keys, &span->end_values, Py_NewRef(keys), tuple);
}

/* set(**args): set arguments for the end. */
static PyObject *span_set(Span *span, PyObject *const *args, Py_ssize_t count, PyObject *keys) {
    int failed;
    if (count)
        return PyErr_Format(PyExc_TypeError, "set() takes its arguments by name");
    BEGIN_OBJECT(span);
    failed = set_arguments(span, args, keys);
    END_OBJECT();
    return failed ? NULL : Py_NewRef(Py_None);
}

static PyMethodDef span_type_methods[] = {
    {"set", (PyCFunction)(void (*)(void))span_set, METH_FASTCALL | METH_KEYWORDS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject SpanType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "fxtio.Span",
    .tp_doc = "A span of time that is recorded: a context manager, returned by span().",
    .tp_basicsize = sizeof(Span),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_vectorcall_offset = offsetof(Span, call),
    .tp_call = PyVectorcall_Call,
    .tp_dealloc = (destructor)span_dealloc,
    .tp_traverse = (traverseproc)span_traverse,
    .tp_clear = (inquiry)span_clear,
    .tp_methods = span_type_methods,
};

static PyObject *enter_exit_get(PyObject *descriptor, PyObject *span, PyObject *Py_UNUSED(owner)) {
    return Py_NewRef(span ? span : descriptor);
}

/* Call `type(span).__enter__(span)`, as contextlib.ExitStack does. */
static PyObject *enter_exit_call(PyObject *Py_UNUSED(descriptor), PyObject *args, PyObject *keys) {
    if (keys || PyTuple_GET_SIZE(args) < 1 || !Py_IS_TYPE(PyTuple_GET_ITEM(args, 0), &SpanType))
        return PyErr_Format(PyExc_TypeError, "the first argument must be a span");
    size_t count = (size_t)PyTuple_GET_SIZE(args) - 1;
    return span_call(PyTuple_GET_ITEM(args, 0), count ? &PyTuple_GET_ITEM(args, 1) : NULL, count, NULL);
}

static PyTypeObject EnterExitType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "fxtio._native._recorder.EnterExit",
    .tp_basicsize = sizeof(PyObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_descr_get = enter_exit_get,
    .tp_call = enter_exit_call,
};

PyMethodDef span_methods[] = {
    {"span", (PyCFunction)(void (*)(void))make_span, METH_FASTCALL | METH_KEYWORDS,
     "span(name, category='', /, **args)\n--\n\nReturn a span of time, for use by `with`."},
    {NULL, NULL, 0, NULL},
};

/* Let nobody count the references to an object, which all threads would do at the same place. */
static void make_immortal(PyObject *object) {
#ifdef Py_GIL_DISABLED
    object->ob_tid = 0;
    object->ob_ref_local = UINT32_MAX;
    object->ob_ref_shared = 0;
#else
    (void)object;
#endif
}

/* Make the types and the span that does nothing.  Returns -1 with an exception set on failure. */
int span_init(PyObject *module) {
    if (PyType_Ready(&EnterExitType) || PyType_Ready(&SpanType))
        return -1;
    static const char *const names[] = {"__enter__", "__exit__"};
    for (int index = 0; index < 2; index++) {
        PyObject *descriptor = PyObject_New(PyObject, &EnterExitType);
        if (!descriptor || PyDict_SetItemString(SpanType.tp_dict, names[index], descriptor))
            return -1;
        Py_DECREF(descriptor);
    }
    PyType_Modified(&SpanType);
    no_span = span_new(NULL);
    if (!no_span)
        return -1;
    make_immortal((PyObject *)no_span);
    return !PyModule_AddObjectRef(module, "Span", (PyObject *)&SpanType) ? 0 : -1;
}
