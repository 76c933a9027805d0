/* The module object, begin and end of a recording: what fxtio/tracer calls. */
#include "definition.h"
#include "event.h"
#include "file.h"
#include "methods.h"
#include "session.h"
#include "site.h"
#include "task.h"
#include "text.h"
#include "thread.h"

#include <errno.h>

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

/* Release the threads' chunks and the file, and forget what was looked up for the recording. */
static void stop_writing(Trash *trash) {
    threads_stop(trash);
    texts_stop(trash);
    file_stop();
}

/* Forget what is known of the program. */
static void forget_program(Trash *trash) {
    threads_clear_caches(caches_clear, trash);
    function_clear(trash);
}

/* The settings of a recording that are not Python objects. */
typedef struct {
    uint64_t definitions, end, limit, ring, base, step, slow, blocking;
    int fd, has_counter;
} Settings;

enum Outcome { BEGUN, RUNS_ALREADY, NO_MEMORY, NO_FILE };

/* Begin to record, in a stopped world; `blank` and `objects` are taken over if that succeeds. */
static enum Outcome begin(const Settings *settings, SessionObjects objects, uint64_t *blank, Trash *trash) {
    if (session.active)
        return RUNS_ALREADY;
    stop_writing(trash); /* after a fork, this releases what the parent process had */
    if (texts_start())
        return NO_MEMORY;
    if (file_start(settings->fd, settings->end, settings->limit, settings->ring))
        return NO_FILE;
    threads_start(blank);
    definition_start(settings->definitions, settings->end);
    session.has_counter = settings->has_counter;
    session.base = settings->base;
    session.min_step = settings->step;
    session.slow_ticks = settings->slow ? settings->slow : UINT64_MAX;
    session.blocking_ticks = settings->blocking ? settings->blocking : UINT64_MAX;
    session.lost = session.lost_since = session.full_since = 0;
    session.cut_texts = session.dropped_arguments = session.inline_names = session.flushed_chunks = 0;
    session.generation++;
    session.place_kind = EVENT_BEGIN;
    function_clear(trash);
    session.active = 1;
    session_set_objects(objects, trash);
    return BEGUN;
}

/* Raise what an outcome calls for.  Returns NULL. */
static PyObject *raise(enum Outcome outcome) {
    if (outcome == RUNS_ALREADY)
        PyErr_SetString(PyExc_RuntimeError, "the recorder runs already");
    else if (outcome == NO_FILE)
        PyErr_SetFromErrno(PyExc_OSError);
    else
        PyErr_NoMemory();
    return NULL;
}

/* start(*, fd, ...): begin to record to an open file that has the first records and room for definitions.
 *
 *   owner                    any object, which define() takes
 *   fd                       the file
 *   definitions, end         begin and end of the room for definitions (bytes); chunks follow
 *   limit                    the file does not grow beyond (bytes), 0 for no limit
 *   ring                     bytes of full chunks that are kept before the oldest is overwritten, 0 to keep all
 *   has_counter, base        whether the clock is the tick counter, and what it shows at tick 0
 *   step                     least ticks between two records of a thread
 *   only, without            sets of categories, or None
 *   thread_hook, value_hook, task_hook
 *   slow, blocking           spans, and steps of event loops, that take more ticks are reported, 0 for none
 *   slow_hook                takes which of the two, and the name; returns an instant to record as (site, values), or None
 *   interrupt_hook           returns whether an exception interrupts the program */
static PyObject *start(PyObject *Py_UNUSED(module), PyObject *args, PyObject *kwargs) {
    static char *names[] = {"owner", "fd", "definitions", "end", "limit", "ring", "has_counter", "base", "step", "only",
                            "without", "thread_hook", "value_hook", "task_hook", "slow", "blocking", "slow_hook",
                            "interrupt_hook", NULL};
    Settings settings;
    Trash trash = {0};
    PyObject *owner, *only, *without, *thread_hook, *value_hook, *task_hook, *slow_hook, *interrupt_hook;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "$OiKKKKpKKOOOOOKKOO", names, &owner, &settings.fd, &settings.definitions,
                                     &settings.end, &settings.limit, &settings.ring, &settings.has_counter,
                                     &settings.base, &settings.step, &only, &without, &thread_hook, &value_hook,
                                     &task_hook, &settings.slow, &settings.blocking, &slow_hook, &interrupt_hook))
        return NULL;
    SessionObjects objects = {
        .owner = Py_NewRef(owner),
        .placed = settings.ring ? PyList_New(0) : NULL,
        .thread_hook = new_ref_or_null(thread_hook),
        .value_hook = new_ref_or_null(value_hook),
        .task_hook = new_ref_or_null(task_hook),
        .slow_hook = new_ref_or_null(slow_hook),
    };
    uint64_t *blank = threads_blank_chunk();
    enum Outcome outcome = NO_MEMORY;
    int error = 0;
    if (blank && (!settings.ring || objects.placed) && !plain_set(only, &objects.only_categories) &&
        (!objects.only_categories || (objects.unseen_categories = PySet_New(objects.only_categories))) &&
        !plain_set(without, &objects.not_categories)) {
        world_stop();
        outcome = begin(&settings, objects, blank, &trash);
        error = errno;
        if (outcome == BEGUN)
            threads_set_interrupt_hook(interrupt_hook, &trash);
        world_start();
    }
    if (outcome != BEGUN) {
        session_free_objects(objects, &trash);
        free(blank);
    }
    trash_empty(&trash);
    errno = error;
    return outcome == BEGUN ? Py_NewRef(Py_None) : PyErr_Occurred() ? NULL : raise(outcome);
}

/* stop(): end the recording.  Returns a dict of counters. */
static PyObject *stop(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused)) {
    Trash trash = {0};
    world_stop();
    uint64_t end = file_end();
    session.active = 0;
    stop_writing(&trash);
    session.generation++; /* no site is prepared for this one */
    forget_program(&trash);
    session_set_objects((SessionObjects){0}, &trash);
    const Session counts = session;
    world_start();
    PyObject *counters = Py_BuildValue("{s:K,s:K,s:K,s:K,s:K,s:K}", "lost", counts.lost, "cut", counts.cut_texts,
                                       "dropped", counts.dropped_arguments, "inlined", counts.inline_names, "chunks",
                                       counts.flushed_chunks, "end", end);
    trash_empty(&trash);
    return counters;
}

/* seal(): end the operations that are open, and record no more events; definitions can still be written. */
static PyObject *seal(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused)) {
    task_end_all();
    world_stop();
    threads_seal();
    world_start();
    Py_RETURN_NONE;
}

/* settle(): after seal(), put the records of each thread in order: the latest after the earlier ones.  Returns False if
 * there is no room for that, or the file is a ring. */
static PyObject *settle(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused)) {
    world_stop();
    int is_settled = !session.active && !threads_settle();
    world_start();
    return PyBool_FromLong(is_settled);
}

/* ---- The state of the recording. ---- */

/* active(): return the number of the session that runs, 0 for none. */
static PyObject *active(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused)) {
    return PyLong_FromUnsignedLongLong(session.active ? session.generation : 0);
}

/* lost(): return how many events found no room, the tick of the first of them, and the tick at which the file was full, 0 if
 * it is not; None if all found room.  Those that come after a file is full are not counted. */
static PyObject *lost(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused)) {
    world_stop();
    uint64_t count = threads_lost(), since = session.lost_since, full = session.full_since;
    world_start();
    return count ? Py_BuildValue("KKK", count, since, full) : Py_NewRef(Py_None);
}

/* unseen_categories(): return those of the categories to record that no event had so far, a list. */
static PyObject *unseen_categories(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused)) {
    PyObject *unseen = Py_XNewRef(session.objects.unseen_categories);
    PyObject *list = unseen ? PySequence_List(unseen) : PyList_New(0);
    Py_XDECREF(unseen);
    return list;
}

/* define(owner, record): write a record among the definitions.  Returns False if there is no room, or the recording is not
 * the owner's: another one may have begun since the record was made, and its texts have other slots. */
static PyObject *define(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *owner, *record;
    if (!PyArg_ParseTuple(args, "OS", &owner, &record))
        return NULL;
    const size_t size = (size_t)PyBytes_GET_SIZE(record);
    guard_lock();
    int is_written =
        session.objects.owner == owner && size % 8 == 0 && !definition_write(PyBytes_AS_STRING(record), size);
    guard_unlock();
    return PyBool_FromLong(is_written);
}

/* reference(text): return the slot of a text, 0 if it has none. */
static PyObject *reference(PyObject *Py_UNUSED(module), PyObject *text) {
    if (!PyUnicode_Check(text))
        return PyErr_Format(PyExc_TypeError, "a text is a string");
    return PyLong_FromUnsignedLongLong(PyUnicode_GET_LENGTH(text) ? text_slot(text) : 0);
}

/* clocks(has_counter): return what the clock of the recorder and CLOCK_MONOTONIC show at the same moment, as near as a few
 * attempts come. */
static PyObject *clocks(PyObject *Py_UNUSED(module), PyObject *of_counter) {
    enum { ATTEMPTS = 20 };
    uint64_t least = UINT64_MAX, raw = 0, ns = 0;
    int has_counter = PyObject_IsTrue(of_counter);
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
static PyObject *now(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused)) {
    return PyLong_FromUnsignedLongLong(session_ticks());
}

/* ---- The module. ---- */

static PyMethodDef methods[] = {
    {"start", (PyCFunction)(void (*)(void))start, METH_VARARGS | METH_KEYWORDS, NULL},
    {"seal", seal, METH_NOARGS, NULL},
    {"settle", settle, METH_NOARGS, NULL},
    {"stop", stop, METH_NOARGS, NULL},
    {"active", active, METH_NOARGS, NULL},
    {"lost", lost, METH_NOARGS, NULL},
    {"unseen_categories", unseen_categories, METH_NOARGS, NULL},
    {"define", define, METH_VARARGS, NULL},
    {"reference", reference, METH_O, NULL},
    {"clocks", clocks, METH_O, NULL},
    {"now", now, METH_NOARGS, NULL},
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
           loop_init(module) || mark_init() || PyModule_AddFunctions(module, function_methods) ||
           PyModule_AddFunctions(module, snapshot_methods) || PyModule_AddFunctions(module, strand_methods) ||
           PyModule_AddFunctions(module, span_methods) || PyModule_AddFunctions(module, mark_methods) ||
           PyModule_AddFunctions(module, order_methods) || PyModule_AddFunctions(module, hard_exit_methods) ||
           PyModule_AddFunctions(module, lock_methods) ||
           add_constants(module);
}

#ifdef Py_GIL_DISABLED
/* Make sure that the interpreter lock is held: the interpreter turns it on for a module that does not say that it can do
 * without, unless its user forbids that.  Returns -1 with an exception set if it is off. */
static int require_lock(void) {
    PyObject *answer = PyObject_CallMethod(PyImport_AddModule("sys"), "_is_gil_enabled", NULL);
    int is_on = answer ? answer == Py_True : -1;
    Py_XDECREF(answer);
    if (is_on > 0)
        return 0;
    if (!is_on)
        PyErr_SetString(PyExc_ImportError, "before CPython 3.14 it needs the interpreter lock: start Python without "
                                           "PYTHON_GIL=0 and -X gil=0");
    return -1;
}
#endif

/* Say that threads need no interpreter lock here, if that is so.  Returns nonzero with an exception set on failure. */
static int declare_free_threading(PyObject *module) {
#ifdef Py_GIL_DISABLED
    return world_can_stop() ? PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED) : require_lock();
#else
    (void)module;
    return 0;
#endif
}

PyMODINIT_FUNC PyInit__recorder(void) {
    PyObject *module = PyModule_Create(&definition);
    if (module && (declare_free_threading(module) || init(module)))
        Py_CLEAR(module);
    return module;
}
