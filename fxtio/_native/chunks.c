/* Kernels for files of numbers in chunks: a head of a few numbers, one of which is the count of those that follow.
 *
 * The functions know no layout: the size of a head, places in it and steps are arguments, which python.py documents.
 * Neither the content of a file nor the rows that are passed in are trusted. */
#include "kernels.h"

/* Walk chunks that begin with a head; see python.py. */
PyObject *walk_chunks(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    (void)module;
    static const ArraySpec specs[] = {{"numbers", 4, 0}, {"at", 8, 1}, {"count", 8, 1}, {"value", 8, 1}};
    enum { NUMBERS, AT, COUNT, VALUE, ARRAYS };
    if (nargs != 8) {
        PyErr_SetString(PyExc_TypeError, "walk_chunks takes 8 arguments");
        return NULL;
    }
    Py_ssize_t parameters[4];
    for (int i = 0; i < 4; i++) {
        parameters[i] = PyLong_AsSsize_t(args[i + 1]);
        if (parameters[i] == -1 && PyErr_Occurred())
            return NULL;
    }
    Py_ssize_t index = parameters[0], size = parameters[1];
    Py_ssize_t count_place = parameters[2], value_place = parameters[3];
    if (index < 0 || count_place < 0 || value_place < 0 || size <= count_place || size <= value_place) {
        PyErr_SetString(PyExc_ValueError, "negative places, or a place lies outside of the head");
        return NULL;
    }
    PyObject *const buffers[] = {args[0], args[5], args[6], args[7]};
    Array a[ARRAYS];
    if (arrays_open(a, buffers, specs, ARRAYS) < 0)
        return NULL;
    const uint32_t *numbers = a[NUMBERS].view.buf;
    int64_t *at = a[AT].view.buf, *count = a[COUNT].view.buf, *value = a[VALUE].view.buf;
    Py_ssize_t stop = a[NUMBERS].count - size, chunks = 0;
    Py_ssize_t room = Py_MIN(a[AT].count, Py_MIN(a[COUNT].count, a[VALUE].count));
    Py_BEGIN_ALLOW_THREADS
    while (index < stop && chunks < room) {
        const uint32_t *head = numbers + index;
        index += size;
        at[chunks] = index;
        count[chunks] = head[count_place];
        value[chunks++] = head[value_place];
        index += (Py_ssize_t)head[count_place];
    }
    Py_END_ALLOW_THREADS
    arrays_close(a, ARRAYS);
    return Py_BuildValue("nn", chunks, index);
}

/* Check that rows lie behind each other within the numbers.  Returns -1 with an exception set if they do not. */
static int check_rows(const Array *numbers, const Array *at, const Array *count) {
    const int64_t *first = at->view.buf, *length = count->view.buf;
    int64_t total = numbers->count, end = 0;
    if (at->count != count->count) {
        PyErr_SetString(PyExc_ValueError, "lengths differ");
        return -1;
    }
    for (Py_ssize_t row = 0; row < at->count; row++) {
        if (first[row] < end || first[row] > total || length[row] < 0 || length[row] > total - first[row]) {
            PyErr_SetString(PyExc_ValueError, "a row begins in the one before it, or goes beyond the numbers");
            return -1;
        }
        end = first[row] + length[row];
    }
    return 0;
}

/* Add up rows of numbers; see python.py. */
PyObject *sum_rows(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    (void)module;
    static const ArraySpec specs[] = {{"numbers", 4, 0}, {"at", 8, 0}, {"count", 8, 0}};
    enum { NUMBERS, AT, COUNT, ARRAYS };
    if (nargs != ARRAYS) {
        PyErr_SetString(PyExc_TypeError, "sum_rows takes 3 arguments");
        return NULL;
    }
    Array a[ARRAYS];
    if (arrays_open(a, args, specs, ARRAYS) < 0)
        return NULL;
    if (check_rows(&a[NUMBERS], &a[AT], &a[COUNT]) < 0) {
        arrays_close(a, ARRAYS);
        return NULL;
    }
    const uint32_t *numbers = a[NUMBERS].view.buf;
    const int64_t *at = a[AT].view.buf, *count = a[COUNT].view.buf;
    uint64_t sum = 0, nonzero = 0;
    Py_ssize_t padded = 0;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t row = 0; row < a[AT].count; row++) {
        const uint32_t *values = numbers + at[row];
        int64_t length = count[row];
        for (int64_t i = 0; i < length; i++) {
            sum += values[i];
            nonzero += values[i] != 0;
        }
        padded += length == 0 || values[0] == 0 || values[length - 1] == 0;
    }
    Py_END_ALLOW_THREADS
    arrays_close(a, ARRAYS);
    return Py_BuildValue("KKn", (unsigned long long)sum, (unsigned long long)nonzero, padded);
}

/* List the places with a nonzero number; see python.py. */
PyObject *unroll(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    (void)module;
    static const ArraySpec specs[] = {{"numbers", 4, 0}, {"at", 8, 0},     {"count", 8, 0},
                                      {"first", 8, 0},   {"places", 8, 1}, {"hits", 4, 1}};
    enum { NUMBERS, AT, COUNT, FIRST, PLACES, HITS, ARRAYS };
    if (nargs != 7) {
        PyErr_SetString(PyExc_TypeError, "unroll takes 7 arguments");
        return NULL;
    }
    long long step = PyLong_AsLongLong(args[4]);
    if (step == -1 && PyErr_Occurred())
        return NULL;
    PyObject *const buffers[] = {args[0], args[1], args[2], args[3], args[5], args[6]};
    Array a[ARRAYS];
    if (arrays_open(a, buffers, specs, ARRAYS) < 0)
        return NULL;
    int valid = check_rows(&a[NUMBERS], &a[AT], &a[COUNT]) == 0;
    if (valid && a[FIRST].count != a[AT].count) {
        PyErr_SetString(PyExc_ValueError, "lengths differ");
        valid = 0;
    }
    if (!valid) {
        arrays_close(a, ARRAYS);
        return NULL;
    }
    const uint32_t *numbers = a[NUMBERS].view.buf;
    const int64_t *at = a[AT].view.buf, *count = a[COUNT].view.buf;
    const uint64_t *first = a[FIRST].view.buf; /* unsigned, as the sums may wrap around */
    uint64_t *places = a[PLACES].view.buf;
    uint32_t *hits = a[HITS].view.buf;
    Py_ssize_t room = Py_MIN(a[PLACES].count, a[HITS].count), written = 0;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t row = 0; row < a[AT].count; row++) {
        const uint32_t *values = numbers + at[row];
        int64_t length = count[row];
        uint64_t place = first[row];
        for (int64_t i = 0; i < length && written < room; i++, place += (uint64_t)step) {
            places[written] = place; /* instead of a branch: the next value overwrites a zero */
            hits[written] = values[i];
            written += values[i] != 0;
        }
    }
    Py_END_ALLOW_THREADS
    arrays_close(a, ARRAYS);
    return PyLong_FromSsize_t(written);
}
