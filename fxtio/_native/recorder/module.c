/* The module object, begin and end of a recording: what fxtio/tracer calls. */
#include "definition.h"
#include "event.h"
#include "file.h"
#include "function.h"
#include "mark.h"
#include "order.h"
#include "session.h"
#include "site.h"
#include "snapshot.h"
#include "span.h"
#include "strand.h"
#include "task.h"
#include "thread.h"
#include "traced.h"

/* ---- Begin and end of a recording. ---- */

/* Return a new reference, or NULL for None. */
static PyObject *new_ref_or_null(PyObject *object) {
    return object == Py_None ? NULL : Py_NewRef(object);
}

/* Get a set of plain strings, NULL for None: to look up strings of a class of the program would run code of the
 * program.  Returns -1 with an exception set on failure. */
static int plain_set(PyObject *texts, PyObject **result) {
    PyObject *iterator = NULL, *text, *plain;
    *result = NULL;
    if (texts == Py_None)
        return 0;
    if (!(*result = PySet_New(NULL)) || !(iterator = PyObject_GetIter(texts)))
        return -1;
    int failed = 0;
    while (!failed && (text = PyIter_Next(iterator))) {
        plain = PyUnicode_FromObject(text);
        failed = !plain || PySet_Add(*result, plain);
        Py_DECREF(text);
        Py_XDECREF(plain);
    }
    Py_DECREF(iterator);
    return failed || PyErr_Occurred() ? -1 : 0;
}

/* Release the threads' chunks and the file. */
static void stop_writing(void) {
    threads_stop();
    file_stop();
}

/* Prepare to write to a file.  Returns -1 with an exception set on failure. */
static int start_writing(int fd, uint64_t end, uint64_t limit, uint64_t ring) {
    if (session.active) {
        PyErr_SetString(PyExc_RuntimeError, "the recorder runs already");
        return -1;
    }
    stop_writing(); /* after a fork, this releases what the parent process had */
    return threads_start() || file_start(fd, end, limit, ring) ? -1 : 0;
}

/* Begin to record, with these objects. */
static void begin(SessionObjects objects) {
    session.lost = session.lost_since = 0;
    session.cut_texts = session.dropped_arguments = session.inline_names = session.flushed_chunks = 0;
    session.generation++;
    session.place_kind = EVENT_BEGIN;
    function_clear();
    session.active = 1;
    session_set_objects(objects);
}

/* start(*, fd, ...): begin to record to an open file that has the first records and room for definitions.
 *
 *   fd                       the file
 *   definitions, end         begin and end of the room for definitions (bytes); chunks follow
 *   limit                    the file does not grow beyond (bytes), 0 for no limit
 *   ring                     bytes of full chunks that are kept before the oldest is overwritten, 0 to keep all
 *   has_counter, base        whether the clock is the tick counter, and what it shows at tick 0
 *   step                     least ticks between two records of a thread
 *   only, without            sets of categories, or None
 *   thread_hook, value_hook, task_hook
 *   slow, slow_hook          spans that take more ticks are reported, 0 for none
 *   interrupt_hook           returns whether an exception interrupts the program */
static PyObject *start(PyObject *module, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"fd", "definitions", "end", "limit", "ring", "has_counter", "base", "step", "only", "without",
                            "thread_hook", "value_hook", "task_hook", "slow", "slow_hook", "interrupt_hook", NULL};
    int fd, has_counter;
    unsigned long long definitions, end, limit, ring, base, step, slow;
    PyObject *only, *without, *thread_hook, *value_hook, *task_hook, *slow_hook, *interrupt_hook;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "$iKKKKpKKOOOOOKOO", names, &fd, &definitions, &end, &limit, &ring,
                                     &has_counter, &base, &step, &only, &without, &thread_hook, &value_hook, &task_hook,
                                     &slow, &slow_hook, &interrupt_hook))
        return NULL;
    SessionObjects objects = {
        .text_slots = PyDict_New(),
        .placed = ring ? PyList_New(0) : NULL,
        .thread_hook = new_ref_or_null(thread_hook),
        .value_hook = new_ref_or_null(value_hook),
        .task_hook = new_ref_or_null(task_hook),
        .slow_hook = new_ref_or_null(slow_hook),
    };
    if (!objects.text_slots || (ring && !objects.placed) || plain_set(only, &objects.only_categories) ||
        (objects.only_categories && !(objects.unseen_categories = PySet_New(objects.only_categories))) ||
        plain_set(without, &objects.not_categories) || start_writing(fd, end, limit, ring)) {
        session_free_objects(objects);
        return NULL;
    }
    definition_start(definitions, end);
    session.has_counter = has_counter;
    session.base = base;
    session.min_step = step;
    session.slow_ticks = slow ? slow : UINT64_MAX;
    threads_set_interrupt_hook(interrupt_hook);
    begin(objects);
    Py_RETURN_NONE;
}

/* stop(): end the recording.  Returns a dict of counters. */
static PyObject *stop(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    uint64_t end = file_end();
    session.active = 0;
    stop_writing();
    session.generation++; /* no site is prepared for this one */
    sites_clear();
    function_clear();
    SessionObjects objects = session.objects;
    session.objects = (SessionObjects){0};
    PyObject *counters = Py_BuildValue("{s:K,s:K,s:K,s:K,s:K,s:K}", "lost", session.lost, "cut", session.cut_texts, "dropped",
                         session.dropped_arguments, "inlined", session.inline_names, "chunks", session.flushed_chunks,
                         "end", end);
    session_free_objects(objects);
    return counters;
}

/* seal(): record no more events; definitions can still be written. */
static PyObject *seal(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    threads_seal();
    Py_RETURN_NONE;
}

/* settle(): after seal(), put the records of each thread in order: the latest behind the earlier ones.  Returns False if
 * there is no room for that, or the file is a ring. */
static PyObject *settle(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return PyBool_FromLong(!session.active && !threads_settle());
}

/* ---- The state of the recording. ---- */

/* active(): return whether the recorder runs. */
static PyObject *active(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return PyBool_FromLong(session.active);
}

/* lost(): return how many events found no room and the tick of the first of them, or None. */
static PyObject *lost(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    uint64_t count = threads_lost();
    return count ? Py_BuildValue("KK", count, session.lost_since) : Py_NewRef(Py_None);
}

/* unseen_categories(): return those of the categories to record that no event had so far, a list. */
static PyObject *unseen_categories(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    PyObject *unseen = session.objects.unseen_categories;
    return unseen ? PySequence_List(unseen) : PyList_New(0);
}

/* define(record): write a record among the definitions.  Returns False if there is no room. */
static PyObject *define(PyObject *module, PyObject *record) {
    char *data;
    Py_ssize_t size;
    (void)module;
    if (PyBytes_AsStringAndSize(record, &data, &size))
        return NULL;
    return PyBool_FromLong(size % 8 == 0 && !definition_write(data, (size_t)size));
}

/* reference(text): return the slot of a text, 0 if it has none. */
static PyObject *reference(PyObject *module, PyObject *text) {
    (void)module;
    if (!PyUnicode_Check(text)) {
        PyErr_SetString(PyExc_TypeError, "a text is a string");
        return NULL;
    }
    return PyLong_FromUnsignedLongLong(session.objects.text_slots && PyUnicode_GET_LENGTH(text) ? text_slot(text) : 0);
}

/* clocks(has_counter): return what the clock of the recorder and CLOCK_MONOTONIC show at the same moment, as near as a few
 * attempts come. */
static PyObject *clocks(PyObject *module, PyObject *of_counter) {
    enum { ATTEMPTS = 20 };
    uint64_t least = UINT64_MAX, raw = 0, ns = 0;
    int has_counter = PyObject_IsTrue(of_counter);
    (void)module;
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        uint64_t before = raw_clock(has_counter), between = monotonic(), after = raw_clock(has_counter);
        if (after - before < least) {
            least = after - before;
            raw = before + (after - before) / 2;
            ns = between;
        }
    }
    return Py_BuildValue("KK", raw, ns);
}

/* now(): return the present tick. */
static PyObject *now(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return PyLong_FromUnsignedLongLong(session_ticks());
}

/* ---- The module. ---- */

static PyMethodDef methods[] = {
    {"start", (PyCFunction)(void (*)(void))start, METH_VARARGS | METH_KEYWORDS, "Begin to record to a file."},
    {"seal", seal, METH_NOARGS, "Record no more events; definitions can still be written."},
    {"settle", settle, METH_NOARGS,
     "After seal(), put the records of each thread in order; return False if there is no room for that."},
    {"stop", stop, METH_NOARGS, "End the recording; return a dict of counters."},
    {"active", active, METH_NOARGS, "Return whether the recorder runs."},
    {"lost", lost, METH_NOARGS, "Return how many events found no room and the tick of the first, or None."},
    {"unseen_categories", unseen_categories, METH_NOARGS,
     "Return those of the categories to record that no event had so far."},
    {"define", define, METH_O,
     "define(record): write a record among the definitions; return False if there is no room."},
    {"reference", reference, METH_O, "reference(text): return the slot of a text, 0 if it has none."},
    {"clocks", clocks, METH_O, "clocks(has_counter): return what the clock and CLOCK_MONOTONIC show at the same moment."},
    {"now", now, METH_NOARGS, "Return the present tick."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "fxtio._native._recorder", .m_doc = "The recorder.", .m_size = -1,
    .m_methods = methods,
};

/* Add the constants of the module.  Returns nonzero with an exception set on failure. */
static int add_constants(PyObject *module) {
    PyObject *rate = PyLong_FromUnsignedLongLong(tick_rate());
    int failed = !rate || PyModule_AddObjectRef(module, "TICK_RATE", rate);
    Py_XDECREF(rate);
    return failed || PyModule_AddStringConstant(module, "TICK_COUNTER", TICK_COUNTER) ||
           PyModule_AddIntConstant(module, "PAGE_BYTES", PAGE_BYTES) ||
           PyModule_AddIntConstant(module, "CHUNK_BYTES", CHUNK_BYTES) ||
           PyModule_AddIntConstant(module, "FIRST_GREENLET_TRACK", FIRST_GREENLET_TRACK);
}

/* Make the content of the module.  Returns nonzero with an exception set on failure. */
static int init(PyObject *module) {
    session_init();
    return threads_init() || sites_init() || PyModule_AddObjectRef(module, "Site", (PyObject *)&SiteType) ||
           event_init() || task_init() || function_init(module) || traced_init(module) || span_init(module) ||
           mark_init() || PyModule_AddFunctions(module, function_methods) ||
           PyModule_AddFunctions(module, snapshot_methods) || PyModule_AddFunctions(module, strand_methods) ||
           PyModule_AddFunctions(module, span_methods) || PyModule_AddFunctions(module, mark_methods) ||
           PyModule_AddFunctions(module, order_methods) || add_constants(module);
}

/* Make sure that the interpreter lock is held.  A free-threaded interpreter turns it on for this module, unless its
 * user forbids that.  Returns -1 with an exception set if it is off. */
static int require_lock(void) {
#ifdef Py_GIL_DISABLED
    PyObject *answer = PyObject_CallMethod(PyImport_AddModule("sys"), "_is_gil_enabled", NULL);
    int is_on = answer ? answer == Py_True : -1;
    Py_XDECREF(answer);
    if (is_on > 0)
        return 0;
    if (!is_on)
        PyErr_SetString(PyExc_ImportError, "it needs the interpreter lock: start Python without PYTHON_GIL=0 and -X gil=0");
    return -1;
#else
    return 0;
#endif
}

PyMODINIT_FUNC PyInit__recorder(void) {
    if (require_lock())
        return NULL;
    PyObject *module = PyModule_Create(&definition);
    if (module && init(module))
        Py_CLEAR(module);
    return module;
}
