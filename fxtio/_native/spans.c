/* Kernels for spans on tracks: whether times grow, and how spans nest.
 *
 * As in kernels.c, no layout is known here, python.py documents every argument, and every index is checked against its
 * buffer. */
#include "constants.h"
#include "kernels.h"

/* List the rows that are earlier than one before them on their track; see python.py. */
PyObject *late(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    (void)module;
    static const ArraySpec specs[] = {{"track", 4, 0}, {"time", 8, 0}, {"latest", 8, 1}, {"rows", 8, 1}};
    enum { TRACK, TIME, LATEST, ROWS, COUNT };
    if (nargs != COUNT) {
        PyErr_SetString(PyExc_TypeError, "late takes 4 arguments");
        return NULL;
    }
    Array a[COUNT];
    if (arrays_open(a, args, specs, COUNT) < 0)
        return NULL;
    const int32_t *track = a[TRACK].view.buf;
    const uint64_t *time = a[TIME].view.buf;
    uint64_t *latest = a[LATEST].view.buf;
    int64_t *rows = a[ROWS].view.buf;
    Py_ssize_t total = a[TRACK].count, tracks = a[LATEST].count, room = a[ROWS].count, count = 0;
    if (a[TIME].count != total) {
        arrays_close(a, COUNT);
        PyErr_SetString(PyExc_ValueError, "lengths differ");
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t row = 0; row < total; row++) {
        int32_t k = track[row];
        if (k < 0 || k >= tracks)
            continue;
        if (time[row] >= latest[k]) {
            latest[k] = time[row];
        } else {
            if (count < room)
                rows[count] = row;
            count++;
        }
    }
    Py_END_ALLOW_THREADS
    arrays_close(a, COUNT);
    return PyLong_FromSsize_t(count);
}

/* The rows of spans, the stack of each track (a list of rows, linked by `below`), and the faults. */
typedef struct {
    const int8_t *step;
    const uint64_t *begin, *end, *key;
    int64_t *below, *depth, *fault_row, *fault_other, *counts;
    int8_t *fault_kind;
    int64_t room, listed, deepest;
} Nest;

/* Count a fault of a row, and list it if there is room. */
static inline void add_fault(Nest *nest, int kind, int64_t row, int64_t other) {
    nest->counts[kind]++;
    if (nest->listed < nest->room) {
        nest->fault_kind[nest->listed] = (int8_t)kind;
        nest->fault_row[nest->listed] = row;
        nest->fault_other[nest->listed++] = other;
    }
}

/* Return the stack without the complete spans on top of it that ended before `time`. */
static inline int64_t without_past(const Nest *nest, int64_t stack, uint64_t time) {
    while (stack >= 0 && nest->step[stack] == SPAN_COMPLETE && nest->end[stack] < time)
        stack = nest->below[stack];
    return stack;
}

/* Return the stack without the complete spans on top of it that ended at `time` or before. */
static inline int64_t without_ended(const Nest *nest, int64_t stack, uint64_t time) {
    while (stack >= 0 && nest->step[stack] == SPAN_COMPLETE && nest->end[stack] <= time)
        stack = nest->below[stack];
    return stack;
}

/* Put a span on the stack.  Returns the new stack. */
static inline int64_t push(Nest *nest, int64_t stack, int64_t row) {
    nest->below[row] = stack;
    nest->depth[row] = stack < 0 ? 1 : nest->depth[stack] + 1;
    if (nest->depth[row] > nest->deepest)
        add_fault(nest, SPAN_FAULT_DEEP, row, stack);
    return row;
}

/* End the innermost span that has begun.  Returns the new stack. */
static inline int64_t end_span(Nest *nest, int64_t stack, int64_t row) {
    uint64_t time = nest->begin[row];
    int64_t span = stack = without_ended(nest, stack, time);
    while (span >= 0 && nest->step[span] == SPAN_COMPLETE)
        span = nest->below[span];
    nest->below[row] = span;
    if (span < 0) {
        add_fault(nest, SPAN_FAULT_UNMATCHED, row, stack);
        return stack;
    }
    if (span != stack)
        add_fault(nest, SPAN_FAULT_OVERLAP, row, stack);
    if (nest->key[row] != nest->key[span] && nest->key[row] != 0)
        add_fault(nest, SPAN_FAULT_NAME, row, span);
    int64_t outer = nest->below[span];
    if (outer >= 0 && nest->step[outer] == SPAN_COMPLETE && nest->end[outer] < time)
        add_fault(nest, SPAN_FAULT_OVERLAP, row, outer);
    return outer;
}

/* Add a complete span.  Returns the new stack. */
static inline int64_t add_complete(Nest *nest, int64_t stack, int64_t row) {
    uint64_t time = nest->begin[row];
    if (nest->end[row] < time)
        return stack;
    stack = without_ended(nest, stack, time);
    if (stack >= 0 && nest->step[stack] == SPAN_COMPLETE && nest->end[stack] < nest->end[row]) {
        add_fault(nest, nest->begin[stack] == time ? SPAN_FAULT_CHILD_FIRST : SPAN_FAULT_OVERLAP, row, stack);
        return stack;
    }
    return push(nest, stack, row);
}

/* Examine how spans nest; see python.py. */
PyObject *nest(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    (void)module;
    static const ArraySpec specs[] = {{"step", 1, 0},  {"track", 4, 0},      {"begin", 8, 0},       {"end", 8, 0},
                                      {"key", 8, 0},   {"top", 8, 1},        {"marked", 1, 1},      {"below", 8, 1},
                                      {"depth", 8, 1}, {"fault_kind", 1, 1}, {"fault_row", 8, 1},   {"fault_other", 8, 1},
                                      {"counts", 8, 1}};
    enum { STEP, TRACK, BEGIN, END, KEY, TOP, MARKED, BELOW, DEPTH, KIND, ROW, OTHER, COUNTS, COUNT };
    if (nargs != COUNT + 1) {
        PyErr_SetString(PyExc_TypeError, "nest takes 14 arguments");
        return NULL;
    }
    Py_ssize_t deepest = PyLong_AsSsize_t(args[COUNT]);
    if (deepest == -1 && PyErr_Occurred())
        return NULL;
    Array a[COUNT];
    if (arrays_open(a, args, specs, COUNT) < 0)
        return NULL;
    Py_ssize_t total = a[STEP].count, tracks = a[TOP].count;
    int valid = a[TRACK].count == total && a[BEGIN].count == total && a[END].count == total &&
                a[KEY].count == total && a[BELOW].count == total && a[DEPTH].count == total &&
                a[MARKED].count == tracks && a[COUNTS].count == SPAN_FAULT_MEMBERS;
    Nest nest = {a[STEP].view.buf, a[BEGIN].view.buf, a[END].view.buf, a[KEY].view.buf, a[BELOW].view.buf,
                 a[DEPTH].view.buf, a[ROW].view.buf, a[OTHER].view.buf, a[COUNTS].view.buf, a[KIND].view.buf,
                 Py_MIN(a[KIND].count, Py_MIN(a[ROW].count, a[OTHER].count)), 0, deepest};
    const int32_t *track = a[TRACK].view.buf;
    int64_t *top = a[TOP].view.buf;
    int8_t *marked = a[MARKED].view.buf;
    for (Py_ssize_t k = 0; valid && k < tracks; k++)
        valid = top[k] == -1;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t row = 0; valid && row < total; row++) {
        int32_t k = track[row];
        if (k < 0 || k >= tracks)
            continue;
        switch (nest.step[row]) {
        case SPAN_BEGIN:
            top[k] = push(&nest, without_ended(&nest, top[k], nest.begin[row]), row);
            break;
        case SPAN_END:
            top[k] = end_span(&nest, top[k], row);
            break;
        case SPAN_COMPLETE:
            top[k] = add_complete(&nest, top[k], row);
            break;
        case SPAN_INSTANT:
            marked[k] = 1;
            continue;
        case SPAN_FLOW:
            if (marked[k]) {
                add_fault(&nest, SPAN_FAULT_ON_INSTANT, row, -1);
            } else {
                top[k] = without_past(&nest, top[k], nest.begin[row]);
                if (top[k] < 0)
                    add_fault(&nest, SPAN_FAULT_NO_SPAN, row, -1);
            }
            nest.below[row] = top[k];
            continue;
        default:
            continue;
        }
        marked[k] = 0;
    }
    Py_END_ALLOW_THREADS
    int64_t listed = nest.listed;
    arrays_close(a, COUNT);
    if (!valid) {
        PyErr_SetString(PyExc_ValueError, "lengths differ, or a stack is not empty");
        return NULL;
    }
    return PyLong_FromLongLong(listed);
}
