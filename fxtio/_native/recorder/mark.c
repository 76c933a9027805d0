/* Instants, counters, and other events that a program or the tracer asks for. */
#include "methods.h"
#include "event.h"
#include "task.h"

static PyObject *value_keys; /* ("value",) */

/* ---- Instants and counters. ---- */

/* Record any instant. */
static __attribute__((noinline)) PyObject *any_instant(PyObject *const *args, Py_ssize_t count, PyObject *keys) {
    int failed;
    uint64_t track = session.active ? task_track() : 0;
    Site *site = site_of_call(args, count, 1, keys, &failed);
    if (failed)
        return NULL;
    if (site) {
        if (UNLIKELY(track != 0))
            task_record_instant(site, args + count, track);
        else if (site->count)
            record_event_fast(site, EVENT_INSTANT, args + count, NULL);
        else
            record_bare(site, EVENT_INSTANT);
    }
    return unless_escaped(Py_NewRef(Py_None));
}

/* instant(name, category='', /, **args): record an instant.  One without arguments outside of tasks is recorded here in
 * a few instructions, without calls. */
static PyObject *instant(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count, PyObject *keys) {
    State *state = current;
    const Site *site = keys ? NULL : site_of_known_call(args, count, 1, NULL);
    if (LIKELY(site && site_is_simple(site) && session.has_counter && task_is_none(state)) &&
        record_two_words(state, 1, site->own.refs, EVENT_INSTANT))
        Py_RETURN_NONE;
    return any_instant(args, count, keys);
}

/* Return the value of a counter, a new reference, as an int or float if it can be converted. */
static PyObject *counter_value(PyObject *value) {
    if (PyLong_CheckExact(value) || PyFloat_CheckExact(value))
        return Py_NewRef(value);
    State *state = current;
    if (!thread_room(&state, 2))
        return Py_NewRef(value);
    Pause pause = thread_pause(state);
    PyObject *number = PyIndex_Check(value) ? PyNumber_Index(value) : PyNumber_Float(value);
    if (number && PyBool_Check(number))
        Py_SETREF(number, PyLong_FromLong(number == Py_True));
    thread_resume(state, &pause);
    return number ? number : Py_NewRef(value);
}

/* Record a counter; values that are no numbers are converted first. */
static void record_counter(Site *site, PyObject *const *values) {
    PyObject *numbers[MAX_ARGUMENTS];
    const uint64_t id = 0;
    unsigned index = 0;
    while (index < site->count && (PyLong_CheckExact(values[index]) || PyFloat_CheckExact(values[index])))
        index++;
    if (LIKELY(index == site->count)) {
        record_event_fast(site, EVENT_COUNTER, values, &id);
        return;
    }
    Py_INCREF(site); /* a conversion may drop the last reference */
    for (index = 0; index < site->count; index++)
        numbers[index] = current->escaped ? Py_NewRef(values[index]) : counter_value(values[index]);
    record_event(site, EVENT_COUNTER, numbers, &id);
    for (index = 0; index < site->count; index++)
        Py_DECREF(numbers[index]);
    Py_DECREF(site);
}

/* counter(name, value=None, category='', /, **series): record a sample of one value or of several series. */
static PyObject *counter(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count, PyObject *keys) {
    int failed, has_value = count > 1 && args[1] != Py_None;
    if (UNLIKELY(has_value == (keys != NULL)))
        return PyErr_Format(PyExc_TypeError, "counter() takes a value, or series by name");
    Site *site = site_of_call(args, count, 2, has_value ? value_keys : keys, &failed);
    if (failed)
        return NULL;
    if (site)
        record_counter(site, has_value ? args + 1 : args + count);
    return unless_escaped(Py_NewRef(Py_None));
}

/* ---- Events for the tracer. ---- */

/* begin(site, *values): record a begin on the track of the thread.  Returns whether it was recorded. */
static PyObject *begin(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    Site *site = count > 0 && Py_IS_TYPE(args[0], &SiteType) ? (Site *)args[0] : NULL;
    if (!site || (count > 1 && count - 1 < (Py_ssize_t)site->count))
        return PyErr_Format(PyExc_TypeError, "begin() takes a site and a value for each of its keys");
    int recorded = count > 1 ? record_event(site, EVENT_BEGIN, args + 1, NULL) : record_bare(site, EVENT_BEGIN);
    return unless_escaped(PyBool_FromLong(recorded));
}

/* end(site), end(site, name, value): record an end, perhaps with an argument.  Returns whether it was recorded. */
static PyObject *end(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    if ((count != 1 && count != 3) || !Py_IS_TYPE(args[0], &SiteType) || (count == 3 && !PyUnicode_Check(args[1])))
        return PyErr_Format(PyExc_TypeError, "end() takes a site, and perhaps a name and a value");
    Site *site = (Site *)args[0];
    int recorded =
        count == 3 ? record_event_with(site, EVENT_END, args[1], args[2], NULL) : record_bare(site, EVENT_END);
    return unless_escaped(PyBool_FromLong(recorded));
}

/* record(kind, site, values, id): record an event of any kind; `id` may be None.  Returns whether it was recorded. */
static PyObject *record(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    if (count != 4 || !Py_IS_TYPE(args[1], &SiteType) || !PyTuple_Check(args[2]))
        return PyErr_Format(PyExc_TypeError, "record() takes a kind, a site, a tuple of values and an id");
    Site *site = (Site *)args[1];
    const long kind = PyLong_AsLong(args[0]);
    if (kind == -1 && PyErr_Occurred()) /* an id may run code */
        return NULL;
    const uint64_t id = args[3] == Py_None ? 0 : PyLong_AsUnsignedLongLongMask(args[3]);
    if (PyErr_Occurred())
        return NULL;
    if (kind < 0 || kind >= EVENT_KINDS || PyTuple_GET_SIZE(args[2]) < (Py_ssize_t)site->count)
        return PyErr_Format(PyExc_ValueError, "unknown kind of event, or fewer values than the site has keys");
    const uint64_t *last = args[3] == Py_None ? NULL : &id;
    int recorded = site->count ? record_event(site, (enum EventKind)kind, &PyTuple_GET_ITEM(args[2], 0), last)
                               : record_bare_with_id(site, (enum EventKind)kind, last);
    return unless_escaped(PyBool_FromLong(recorded));
}

/* mark(kind, id, session, name, category, /, **args): record an event of any kind that has an id, unless it belongs to
 * another session than the present one; 0 is any.  Returns the number of the session, 0 if nothing was recorded. */
static PyObject *mark(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count, PyObject *keys) {
    enum { BEFORE_NAME = 3 };
    if (count != BEFORE_NAME + 2)
        return PyErr_Format(PyExc_TypeError, "mark() takes a kind, an id, a session, a name and a category");
    const unsigned long kind = PyLong_AsUnsignedLong(args[0]);
    const uint64_t id = PyLong_AsUnsignedLongLongMask(args[1]), wanted = PyLong_AsUnsignedLongLongMask(args[2]);
    if (PyErr_Occurred())
        return NULL;
    if (kind >= EVENT_KINDS)
        return PyErr_Format(PyExc_ValueError, "unknown kind of event");
    int failed;
    Site *site = site_of_call(args + BEFORE_NAME, count - BEFORE_NAME, 1, keys, &failed);
    if (failed)
        return NULL;
    const uint64_t generation = session.generation;
    int recorded = site && (!wanted || wanted == generation) &&
                   record_event_fast(site, (enum EventKind)kind, args + count, &id);
    return unless_escaped(PyLong_FromUnsignedLongLong(recorded ? generation : 0));
}

/* instant_of(site, values): record an instant, on the track of the running task or of the thread.  Returns whether it was
 * recorded. */
static PyObject *instant_of(PyObject *Py_UNUSED(module), PyObject *args) {
    Site *site;
    PyObject *values;
    if (!PyArg_ParseTuple(args, "O!O!", &SiteType, &site, &PyTuple_Type, &values))
        return NULL;
    if (PyTuple_GET_SIZE(values) < (Py_ssize_t)site->count)
        return PyErr_Format(PyExc_ValueError, "fewer values than the site has keys");
    PyObject *const *items = site->count ? &PyTuple_GET_ITEM(values, 0) : NULL;
    uint64_t track = session.active ? task_track() : 0;
    int recorded =
        track ? task_record_instant(site, items, track) : record_event(site, EVENT_INSTANT, items, NULL);
    return unless_escaped(PyBool_FromLong(recorded));
}

/* message(text): record a log message.  Returns whether it was recorded. */
static PyObject *message(PyObject *Py_UNUSED(module), PyObject *text) {
    if (!PyUnicode_Check(text))
        return PyErr_Format(PyExc_TypeError, "a message is a string");
    return unless_escaped(PyBool_FromLong(session.active && record_log(text)));
}

/* task_track(): return the id of the running task's track, 0 outside of tasks. */
static PyObject *running_task_track(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused)) {
    return unless_escaped(PyLong_FromUnsignedLongLong(session.active ? task_track() : 0));
}

/* ---- Headers of requests. ---- */

/* Return the second item of a pair, a new reference, if the first one is these bytes; else NULL. */
static PyObject *value_if(PyObject *pair, PyObject *key) {
    PyObject *items = PyList_CheckExact(pair) ? PyList_AsTuple(pair) : Py_NewRef(pair), *name, *value = NULL;
    if (!items)
        PyErr_Clear();
    else if (PyTuple_CheckExact(items) && PyTuple_GET_SIZE(items) == 2 && (name = PyTuple_GET_ITEM(items, 0)) &&
             PyBytes_CheckExact(name) && PyBytes_GET_SIZE(name) == PyBytes_GET_SIZE(key) &&
             !memcmp(PyBytes_AS_STRING(name), PyBytes_AS_STRING(key), (size_t)PyBytes_GET_SIZE(key)))
        value = Py_NewRef(PyTuple_GET_ITEM(items, 1));
    Py_XDECREF(items);
    return value;
}

/* value_of(pairs, key): return the second item of the first pair whose first one is these bytes, or None.  What is no
 * list has no pairs: others may be there to be read once.  No method of what is in the list is called. */
static PyObject *value_of(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    if (count != 2 || !PyBytes_CheckExact(args[1]))
        return PyErr_Format(PyExc_TypeError, "value_of() takes pairs and bytes");
    PyObject *pairs = args[0], *value = NULL;
    if (PyList_CheckExact(pairs)) {
        BEGIN_OBJECT(pairs);
        for (Py_ssize_t index = 0; !value && index < PyList_GET_SIZE(pairs); index++) {
            PyObject *pair = Py_NewRef(PyList_GET_ITEM(pairs, index));
            value = value_if(pair, args[1]);
            Py_DECREF(pair);
        }
        END_OBJECT();
    }
    return value ? value : Py_NewRef(Py_None);
}

/* ---- Garbage collections. ---- */

/* Return the value of a key, borrowed, or None. */
static PyObject *item_or_none(PyObject *dict, const char *key) {
    PyObject *value = PyDict_GetItemString(dict, key);
    return value ? value : Py_None;
}

/* collection(begin, end, phase, info): record the start or end of a garbage collection.  With the two sites bound it
 * is a callback for gc.callbacks.  It is in C because an exception that Python code raises in such a callback is
 * lost: an interrupt that comes meanwhile, or a full stack. */
static PyObject *collection(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    static THREAD_LOCAL uint64_t begin_generation; /* the session in which the present collection began; 0 if it was not recorded */
    if (count != 4 || !Py_IS_TYPE(args[0], &SiteType) || !Py_IS_TYPE(args[1], &SiteType) || !PyDict_Check(args[3]) ||
        !PyUnicode_Check(args[2]) || ((Site *)args[0])->count != 1 || ((Site *)args[1])->count != 2)
        return PyErr_Format(PyExc_TypeError, "collection() takes a site with one key, one with two, a phase and a dict");
    PyObject *info = args[3];
    if (PyUnicode_CompareWithASCIIString(args[2], "start") == 0) {
        PyObject *generation = item_or_none(info, "generation");
        begin_generation = record_event((Site *)args[0], EVENT_BEGIN, &generation, NULL) ? session.generation : 0;
    } else if (begin_generation) {
        PyObject *values[] = {item_or_none(info, "collected"), item_or_none(info, "uncollectable")};
        if (begin_generation == session.generation)
            record_event((Site *)args[1], EVENT_END, values, NULL);
        begin_generation = 0;
    }
    return unless_escaped(Py_NewRef(Py_None));
}

PyMethodDef mark_methods[] = {
    {"instant", (PyCFunction)(void (*)(void))instant, METH_FASTCALL | METH_KEYWORDS,
     "instant(name, category='', /, **args)\n--\n\nRecord an instant."},
    {"counter", (PyCFunction)(void (*)(void))counter, METH_FASTCALL | METH_KEYWORDS,
     "counter(name, value=None, category='', /, **series)\n--\n\nRecord a sample of a value, or of several series."},
    {"begin", (PyCFunction)(void (*)(void))begin, METH_FASTCALL, NULL},
    {"end", (PyCFunction)(void (*)(void))end, METH_FASTCALL, NULL},
    {"record", (PyCFunction)(void (*)(void))record, METH_FASTCALL, NULL},
    {"mark", (PyCFunction)(void (*)(void))mark, METH_FASTCALL | METH_KEYWORDS, NULL},
    {"instant_of", instant_of, METH_VARARGS, NULL},
    {"message", message, METH_O, NULL},
    {"task_track", running_task_track, METH_NOARGS, NULL},
    {"know_asyncio", task_know_asyncio, METH_VARARGS, NULL},
    {"collection", (PyCFunction)(void (*)(void))collection, METH_FASTCALL, NULL},
    {"value_of", (PyCFunction)(void (*)(void))value_of, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

/* Make constants.  Returns -1 with an exception set on failure. */
int mark_init(void) {
    value_keys = Py_BuildValue("(s)", "value");
    return value_keys ? 0 : -1;
}
