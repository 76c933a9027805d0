/* Kernels for files of numbers in chunks: a head of a few numbers, one of which tells how many follow it.
 *
 * The functions know no layout: the size of a head, places in it and steps are arguments (see python.py, the twin, for
 * the contract of every argument).  What a file tells is never trusted, and neither are the rows that are handed in. */
#include "kernels.h"

PyObject *walk_chunks(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    (void)module;
    static const Wanted wanted[] = {{"numbers", 4, 0}, {"at", 8, 1}, {"count", 8, 1}, {"value", 8, 1}};
    enum { NUMBERS, AT, COUNT, VALUE, ARRAYS };
    if (nargs != 8) {
        PyErr_SetString(PyExc_TypeError, "walk_chunks takes 8 arguments");
        return NULL;
    }
    Py_ssize_t facts[4];
    for (int i = 0; i < 4; i++) {
        facts[i] = PyLong_AsSsize_t(args[i + 1]);
        if (facts[i] == -1 && PyErr_Occurred())
            return NULL;
    }
    Py_ssize_t here = facts[0], size = facts[1], place = facts[2], other = facts[3];
    if (here < 0 || place < 0 || other < 0 || size <= place || size <= other) {
        PyErr_SetString(PyExc_ValueError, "negative places, or a place lies outside of the head");
        return NULL;
    }
    PyObject *const buffers[] = {args[0], args[5], args[6], args[7]};
    Array a[ARRAYS];
    if (arrays_open(a, buffers, wanted, ARRAYS) < 0)
        return NULL;
    const uint32_t *numbers = a[NUMBERS].view.buf;
    int64_t *at = a[AT].view.buf, *count = a[COUNT].view.buf, *value = a[VALUE].view.buf;
    Py_ssize_t stop = a[NUMBERS].count - size, found = 0;
    Py_ssize_t room = Py_MIN(a[AT].count, Py_MIN(a[COUNT].count, a[VALUE].count));
    Py_BEGIN_ALLOW_THREADS
    while (here < stop && found < room) {
        const uint32_t *head = numbers + here;
        here += size;
        at[found] = here;
        count[found] = head[place];
        value[found++] = head[other];
        here += (Py_ssize_t)head[place];
    }
    Py_END_ALLOW_THREADS
    arrays_close(a, ARRAYS);
    return Py_BuildValue("nn", found, here);
}

/* Refuse rows that do not lie one behind the other within the numbers. */
static int rows_sound(const Array *numbers, const Array *at, const Array *count) {
    const int64_t *first = at->view.buf, *many = count->view.buf;
    int64_t total = numbers->count, end = 0;
    if (at->count != count->count) {
        PyErr_SetString(PyExc_ValueError, "lengths differ");
        return -1;
    }
    for (Py_ssize_t row = 0; row < at->count; row++) {
        if (first[row] < end || first[row] > total || many[row] < 0 || many[row] > total - first[row]) {
            PyErr_SetString(PyExc_ValueError, "a row begins in the one before it, or goes beyond the numbers");
            return -1;
        }
        end = first[row] + many[row];
    }
    return 0;
}

PyObject *tally(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    (void)module;
    static const Wanted wanted[] = {{"numbers", 4, 0}, {"at", 8, 0}, {"count", 8, 0}};
    enum { NUMBERS, AT, COUNT, ARRAYS };
    if (nargs != ARRAYS) {
        PyErr_SetString(PyExc_TypeError, "tally takes 3 arguments");
        return NULL;
    }
    Array a[ARRAYS];
    if (arrays_open(a, args, wanted, ARRAYS) < 0)
        return NULL;
    if (rows_sound(&a[NUMBERS], &a[AT], &a[COUNT]) < 0) {
        arrays_close(a, ARRAYS);
        return NULL;
    }
    const uint32_t *numbers = a[NUMBERS].view.buf;
    const int64_t *at = a[AT].view.buf, *count = a[COUNT].view.buf;
    uint64_t sum = 0, hits = 0;
    Py_ssize_t bare = 0;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t row = 0; row < a[AT].count; row++) {
        const uint32_t *some = numbers + at[row];
        int64_t many = count[row];
        for (int64_t i = 0; i < many; i++) {
            sum += some[i];
            hits += some[i] != 0;
        }
        bare += many == 0 || some[0] == 0 || some[many - 1] == 0;
    }
    Py_END_ALLOW_THREADS
    arrays_close(a, ARRAYS);
    return Py_BuildValue("KKn", (unsigned long long)sum, (unsigned long long)hits, bare);
}

PyObject *unroll(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    (void)module;
    static const Wanted wanted[] = {{"numbers", 4, 0}, {"at", 8, 0},      {"count", 8, 0},
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
    if (arrays_open(a, buffers, wanted, ARRAYS) < 0)
        return NULL;
    int sound = rows_sound(&a[NUMBERS], &a[AT], &a[COUNT]) == 0;
    if (sound && a[FIRST].count != a[AT].count) {
        PyErr_SetString(PyExc_ValueError, "lengths differ");
        sound = 0;
    }
    if (!sound) {
        arrays_close(a, ARRAYS);
        return NULL;
    }
    const uint32_t *numbers = a[NUMBERS].view.buf;
    const int64_t *at = a[AT].view.buf, *count = a[COUNT].view.buf;
    const uint64_t *first = a[FIRST].view.buf; /* unsigned: sums of what a file tells may wrap around */
    uint64_t *places = a[PLACES].view.buf;
    uint32_t *hits = a[HITS].view.buf;
    Py_ssize_t room = Py_MIN(a[PLACES].count, a[HITS].count), made = 0;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t row = 0; row < a[AT].count; row++) {
        const uint32_t *some = numbers + at[row];
        int64_t many = count[row];
        uint64_t place = first[row];
        for (int64_t i = 0; i < many && made < room; i++, place += (uint64_t)step) {
            places[made] = place; /* without a branch: the next one takes the place of a zero */
            hits[made] = some[i];
            made += some[i] != 0;
        }
    }
    Py_END_ALLOW_THREADS
    arrays_close(a, ARRAYS);
    return PyLong_FromSsize_t(made);
}
