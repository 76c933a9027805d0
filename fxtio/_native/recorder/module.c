/* The module: what fxtio/tracer calls. */
#include "recorder.h"

/* The order in which configure() takes what the declarations say. */
static const char *const layout_names[] = {
    "size", "filler", "string", "string_slot", "string_size", "string_slots", "thread", "thread_slot", "thread_slots",
    "instant", "counter", "begin", "end", "async_begin", "async_instant", "async_end", "flow_begin", "flow_step",
    "flow_end", "event_args", "event_thread", "event_category", "event_name", "null", "int32", "int64", "uint64",
    "double", "text", "bool", "argument_name", "argument_value", "text_inline", "log", "log_size", "log_thread",
};
enum { LAYOUT_WORDS = sizeof layout_names / sizeof *layout_names };
_Static_assert(sizeof(Layout) == LAYOUT_WORDS * 8, "a name for each word of the layout");

static PyObject *configure(PyObject *module, PyObject *words) {
    uint64_t values[LAYOUT_WORDS];
    (void)module;
    if (!PyDict_Check(words)) {
        PyErr_SetString(PyExc_TypeError, "configure() takes a dict");
        return NULL;
    }
    for (int index = 0; index < LAYOUT_WORDS; index++) {
        PyObject *value = PyDict_GetItemString(words, layout_names[index]);
        if (!value)
            return PyErr_Format(PyExc_KeyError, "%s", layout_names[index]);
        values[index] = PyLong_AsUnsignedLongLong(value);
        if (PyErr_Occurred())
            return NULL;
    }
    memcpy(&layout, values, sizeof layout);
    Py_RETURN_NONE;
}

static PyObject *or_null(PyObject *object) {
    return object == Py_None ? NULL : Py_NewRef(object);
}

static void forget(void) {
    Py_CLEAR(session.texts);
    Py_CLEAR(session.only);
    Py_CLEAR(session.except);
    Py_CLEAR(session.thread_hook);
    Py_CLEAR(session.value_hook);
    Py_CLEAR(session.task_hook);
    Py_CLEAR(session.wait_hook);
    Py_CLEAR(session.slow_hook);
}

static PyObject *start(PyObject *module, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"fd", "definitions", "end", "limit", "ring", "tsc", "base", "step", "only", "without",
                            "thread_hook", "value_hook", "task_hook", "wait_hook", "slow", "slow_hook", NULL};
    int fd, tsc;
    unsigned long long definitions, end, limit, ring, base, step, slow;
    PyObject *only, *without, *thread_hook, *value_hook, *task_hook, *wait_hook, *slow_hook;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "$iKKKKpKKOOOOOOKO", names, &fd, &definitions, &end, &limit, &ring, &tsc,
                                     &base, &step, &only, &without, &thread_hook, &value_hook, &task_hook, &wait_hook, &slow,
                                     &slow_hook))
        return NULL;
    if (session.active || !layout.size_unit) {
        PyErr_SetString(PyExc_RuntimeError, session.active ? "the recorder runs already" : "configure() comes first");
        return NULL;
    }
    store_stop(); /* what a parent process left */
    if (store_start(fd, end, limit, ring))
        return NULL;
    define_start(definitions, end);
    forget();
    if (!(session.texts = PyDict_New()))
        return NULL;
    session.tsc = tsc;
    session.base = base;
    session.step = step;
    session.only = or_null(only);
    session.except = or_null(without);
    session.thread_hook = or_null(thread_hook);
    session.value_hook = or_null(value_hook);
    session.task_hook = or_null(task_hook);
    session.wait_hook = or_null(wait_hook);
    session.slow_hook = or_null(slow_hook);
    session.slow = slow ? slow : UINT64_MAX;
    session.lost = session.cut = session.dropped = session.inlined = session.flushed = session.lost_since = 0;
    session.generation++;
    codes_forget();
    session.active = 1;
    Py_RETURN_NONE;
}

static PyObject *stop(PyObject *module, PyObject *nothing) {
    (void)module, (void)nothing;
    uint64_t end = file_end();
    session.active = 0;
    store_stop();
    session.generation++; /* no site is ready any more */
    sites_forget();
    codes_forget();
    forget();
    return Py_BuildValue("{s:K,s:K,s:K,s:K,s:K,s:K}", "lost", session.lost, "cut", session.cut, "dropped",
                         session.dropped, "inlined", session.inlined, "chunks", session.flushed, "end", end);
}

static PyObject *seal(PyObject *module, PyObject *nothing) {
    (void)module, (void)nothing;
    store_seal();
    Py_RETURN_NONE;
}

static PyObject *active(PyObject *module, PyObject *nothing) {
    (void)module, (void)nothing;
    return PyBool_FromLong(session.active);
}

/* lost(): None, or how many events found no room, and the tick since when. */
static PyObject *lost(PyObject *module, PyObject *nothing) {
    (void)module, (void)nothing;
    uint64_t count = store_lost();
    return count ? Py_BuildValue("KK", count, session.lost_since) : Py_NewRef(Py_None);
}

static PyObject *define(PyObject *module, PyObject *record) {
    char *data;
    Py_ssize_t size;
    (void)module;
    if (PyBytes_AsStringAndSize(record, &data, &size))
        return NULL;
    return PyBool_FromLong(size % 8 == 0 && !store_define(data, (size_t)size));
}

static PyObject *reference(PyObject *module, PyObject *text) {
    (void)module;
    if (!PyUnicode_Check(text)) {
        PyErr_SetString(PyExc_TypeError, "a text is a string");
        return NULL;
    }
    return PyLong_FromUnsignedLongLong(session.texts && PyUnicode_GET_LENGTH(text) ? text_slot(text) : 0);
}

/* clocks(tsc): the recorder's clock and CLOCK_MONOTONIC, read as near to each other as a few tries give. */
static PyObject *clocks(PyObject *module, PyObject *which) {
    uint64_t best = UINT64_MAX, raw = 0, now = 0;
    int tsc = PyObject_IsTrue(which);
    (void)module;
    for (int attempt = 0; attempt < 20; attempt++) {
        uint64_t before = raw_clock(tsc), between = monotonic(), after = raw_clock(tsc);
        if (after - before < best) {
            best = after - before;
            raw = before + (after - before) / 2;
            now = between;
        }
    }
    return Py_BuildValue("KK", raw, now);
}

static PyObject *now(PyObject *module, PyObject *nothing) {
    (void)module, (void)nothing;
    return PyLong_FromUnsignedLongLong(raw_clock(session.tsc) - session.base);
}

/* squeeze(words): move the records of a buffer of words together, over the fillers.  Returns how many words were looked
 * at and how many are left; the rest is a record that goes beyond the end. */
static PyObject *squeeze(PyObject *module, PyObject *buffer) {
    Py_buffer view;
    (void)module;
    if (PyObject_GetBuffer(buffer, &view, PyBUF_WRITABLE))
        return NULL;
    uint64_t *words = view.buf, count = (uint64_t)view.len / 8, here = 0, left = 0;
    uint64_t size_mask = MAX_FILLER * layout.size_unit;
    while (here < count) {
        uint64_t size = (words[here] & size_mask) / layout.size_unit;
        if (!size || here + size > count)
            break;
        if ((words[here] & ~size_mask) != layout.filler) {
            memmove(words + left, words + here, size * 8);
            left += size;
        }
        here += size;
    }
    PyBuffer_Release(&view);
    return Py_BuildValue("KK", (unsigned long long)here, (unsigned long long)left);
}

static PyMethodDef methods[] = {
    {"configure", configure, METH_O, "configure(layout): headers and field places, from the declarations."},
    {"start", (PyCFunction)(void (*)(void))start, METH_VARARGS | METH_KEYWORDS, "Begin to record to a file."},
    {"seal", seal, METH_NOARGS, "Record nothing more; definitions can still be made."},
    {"stop", stop, METH_NOARGS, "End; a dict of what was counted."},
    {"active", active, METH_NOARGS, "Whether the recorder runs."},
    {"lost", lost, METH_NOARGS, "How many events found no room and since when, or None."},
    {"define", define, METH_O, "define(record): put a record among the definitions; False if there is no room."},
    {"reference", reference, METH_O, "reference(text): the slot of a text, 0 if there is none."},
    {"clocks", clocks, METH_O, "clocks(tsc): the clock (TSC or not) and CLOCK_MONOTONIC, at the same moment."},
    {"now", now, METH_NOARGS, "The present tick."},
    {"copy", copy_to, METH_O, "copy(fd): copy the file as it is now; nobody records meanwhile.  The bytes copied."},
    {"unrecorded", unrecorded, METH_O, "unrecorded(call): call it, while nothing is recorded of this thread."},
    {"squeeze", squeeze, METH_O, "squeeze(words): take fillers out, in place; words looked at, and words left."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "fxtio._native._recorder", .m_doc = "The recorder in C.", .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__recorder(void) {
    PyObject *module = PyModule_Create(&definition);
    if (!module)
        return NULL;
    PyObject *names = PyTuple_New(LAYOUT_WORDS);
    for (int index = 0; names && index < LAYOUT_WORDS; index++)
        PyTuple_SET_ITEM(names, index, PyUnicode_FromString(layout_names[index]));
    if (!names || PyModule_AddObjectRef(module, "LAYOUT", names) || store_init() || sites_init() ||
        PyModule_AddObjectRef(module, "Site", (PyObject *)&SiteType) || PyModule_AddFunctions(module, point_methods) ||
        task_init() || point_init() || span_init(module) || PyModule_AddFunctions(module, code_methods) ||
        code_init(module) || traced_init(module)) {
        Py_XDECREF(names);
        Py_DECREF(module);
        return NULL;
    }
    Py_DECREF(names);
#if defined(__x86_64__)
    int tsc = 1;
#else
    int tsc = 0;
#endif
    if (PyModule_AddIntConstant(module, "TSC", tsc) || PyModule_AddIntConstant(module, "CHUNK_BYTES", CHUNK_BYTES)) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
