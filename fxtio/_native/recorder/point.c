/* What a program calls besides spans: instants, counters, flows, log messages. */
#include "recorder.h"

PyObject *result_name, *exception_name;
static PyObject *value_keys;

static PyObject *instant(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keys) {
    int wrong;
    uint64_t track = session.active ? task_track() : 0;
    Site *site = site_called(args, count, 1, keys, &wrong);
    (void)module;
    if (wrong)
        return NULL;
    if (site) {
        if (LIKELY(!track))
            site->count ? swift(site, INSTANT, args + count, NULL) : bare(site, INSTANT);
        else
            swift(site, ASYNC_INSTANT, args + count, &track);
    }
    return unless_escaped(Py_NewRef(Py_None));
}

/* A counter's value as an int or a float, if it can be one; a new reference. */
static PyObject *number_of(PyObject *value) {
    if (PyLong_CheckExact(value) || PyFloat_CheckExact(value))
        return Py_NewRef(value);
    State *state = current;
    if (!store_room(&state, 2))
        return Py_NewRef(value);
    Pause pause = store_pause(state);
    PyObject *made = PyIndex_Check(value) ? PyNumber_Index(value) : PyNumber_Float(value);
    if (made && PyBool_Check(made))
        Py_SETREF(made, PyLong_FromLong(made == Py_True));
    if (!made && PyErr_ExceptionMatches(PyExc_Exception))
        PyErr_Clear();
    store_resume(state, &pause);
    return made ? made : Py_NewRef(value);
}

static void put_counter(Site *site, PyObject *const *values) {
    PyObject *numbers[MAX_ARGS];
    const uint64_t id = 0;
    unsigned index = 0;
    while (index < site->count && (PyLong_CheckExact(values[index]) || PyFloat_CheckExact(values[index])))
        index++;
    if (LIKELY(index == site->count)) {
        swift(site, COUNTER, values, &id);
        return;
    }
    Py_INCREF(site); /* what runs meanwhile may let go of it */
    for (index = 0; index < site->count; index++)
        numbers[index] = number_of(values[index]);
    event(site, COUNTER, numbers, &id);
    for (index = 0; index < site->count; index++)
        Py_DECREF(numbers[index]);
    Py_DECREF(site);
}

static PyObject *counter(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keys) {
    int wrong, single = count > 1 && args[1] != Py_None;
    (void)module;
    if (UNLIKELY(single == (keys != NULL))) {
        PyErr_SetString(PyExc_TypeError, "counter() takes a value, or series by name");
        return NULL;
    }
    Site *site = site_called(args, count, 2, single ? value_keys : keys, &wrong);
    if (wrong)
        return NULL;
    if (site)
        put_counter(site, single ? args + 1 : args + count);
    return unless_escaped(Py_NewRef(Py_None));
}

/* begin(site, *values): a function begins.  Whether it was recorded. */
static PyObject *begin(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    if (count < 1 || !Py_IS_TYPE(args[0], &SiteType) || (count > 1 && count - 1 < (Py_ssize_t)((Site *)args[0])->count)) {
        PyErr_SetString(PyExc_TypeError, "begin() takes a site and a value for each of its keys");
        return NULL;
    }
    Site *site = (Site *)args[0];
    return unless_escaped(PyBool_FromLong(count > 1 ? event(site, BEGIN, args + 1, NULL) : bare(site, BEGIN)));
}

/* end(site, name, value): it ends, perhaps with an argument. */
static PyObject *end(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    if ((count != 1 && count != 3) || !Py_IS_TYPE(args[0], &SiteType) || (count == 3 && !PyUnicode_Check(args[1]))) {
        PyErr_SetString(PyExc_TypeError, "end() takes a site, and perhaps a name and a value");
        return NULL;
    }
    Site *site = (Site *)args[0];
    return unless_escaped(PyBool_FromLong(count == 3 ? event_with(site, END, args[1], args[2], NULL) : bare(site, END)));
}

/* record(kind, site, values, id): an event of any kind.  Whether it was recorded. */
static PyObject *record(PyObject *module, PyObject *args) {
    int kind;
    Site *site;
    PyObject *values, *id;
    (void)module;
    if (!PyArg_ParseTuple(args, "iO!O!O", &kind, &SiteType, &site, &PyTuple_Type, &values, &id))
        return NULL;
    if (kind < 0 || kind >= KINDS || PyTuple_GET_SIZE(values) < (Py_ssize_t)site->count) {
        PyErr_SetString(PyExc_ValueError, "no such kind of event, or fewer values than the site has keys");
        return NULL;
    }
    uint64_t tail = id == Py_None ? 0 : PyLong_AsUnsignedLongLongMask(id);
    if (PyErr_Occurred())
        return NULL;
    PyObject *const *items = site->count ? &PyTuple_GET_ITEM(values, 0) : NULL;
    return unless_escaped(PyBool_FromLong(event(site, (enum Kind)kind, items, id == Py_None ? NULL : &tail)));
}

static PyObject *message(PyObject *module, PyObject *text) {
    (void)module;
    if (!PyUnicode_Check(text)) {
        PyErr_SetString(PyExc_TypeError, "a message is a string");
        return NULL;
    }
    return unless_escaped(PyBool_FromLong(session.active && log_record(text)));
}

static PyObject *track_of_task(PyObject *module, PyObject *nothing_given) {
    (void)module, (void)nothing_given;
    return unless_escaped(PyLong_FromUnsignedLongLong(session.active ? task_track() : 0));
}

PyMethodDef point_methods[] = {
    {"span", (PyCFunction)(void (*)(void))span, METH_FASTCALL | METH_KEYWORDS,
     "span(name, category='', /, **args)\n--\n\nA span of time, used by `with`."},
    {"instant", (PyCFunction)(void (*)(void))instant, METH_FASTCALL | METH_KEYWORDS,
     "instant(name, category='', /, **args)\n--\n\nA moment."},
    {"counter", (PyCFunction)(void (*)(void))counter, METH_FASTCALL | METH_KEYWORDS,
     "counter(name, value=None, category='', /, **series)\n--\n\nA sample of a value, or of several series."},
    {"begin", (PyCFunction)(void (*)(void))begin, METH_FASTCALL, "begin(site, *values): whether it was recorded."},
    {"end", (PyCFunction)(void (*)(void))end, METH_FASTCALL, "end(site, name, value): whether it was recorded."},
    {"record", record, METH_VARARGS, "record(kind, site, values, id)\n--\n\nAn event; whether it was recorded."},
    {"collection", (PyCFunction)(void (*)(void))collection, METH_FASTCALL,
     "collection(begin, end, phase, info): a garbage collection begins or ends."},
    {"message", message, METH_O, "message(text)\n--\n\nA log record; whether it was recorded."},
    {"task_track", track_of_task, METH_NOARGS, "task_track()\n--\n\nThe id of the running task's track, or 0."},
    {NULL, NULL, 0, NULL},
};

int point_init(void) {
    result_name = PyUnicode_InternFromString("result");
    exception_name = PyUnicode_InternFromString("exception");
    value_keys = Py_BuildValue("(s)", "value");
    return result_name && exception_name && value_keys ? 0 : -1;
}
