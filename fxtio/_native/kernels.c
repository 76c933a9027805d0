/* The kernels in C: walk record boundaries, gather words.
 *
 * The functions know no layout: shifts, masks and tables come from the declarations (see python.py, the twin, for the
 * contract of every argument).  Every index is checked against its buffer; the words may be hostile, and the tables come
 * from our own package but are checked all the same. */
#include "constants.h"
#include "kernels.h"

enum { RULE = 5 };

typedef struct {
    const uint64_t *rules;
    const int8_t *table;
    uint64_t last_type;
    Py_ssize_t table_size;
} Family;

/* Take the rules of a family; refuse a table that the selectors could leave. */
static int family_open(Family *family, const Array *rules, const Array *table) {
    Py_ssize_t types = rules->count / RULE;
    family->rules = rules->view.buf;
    family->table = table->view.buf;
    family->last_type = (uint64_t)types - 1;
    family->table_size = table->count;
    int sound = types > 0 && (types & (types - 1)) == 0 && types * RULE == rules->count;
    for (Py_ssize_t type = 0; sound && type < types; type++) {
        const uint64_t *rule = family->rules + type * RULE;
        sound = rule[0] < 64 && rule[2] < 64 && rule[3] < (uint64_t)table->count &&
                rule[4] < (uint64_t)table->count - rule[3];
    }
    if (!sound)
        PyErr_SetString(PyExc_ValueError, "rules and table do not fit each other");
    return sound ? 0 : -1;
}

static inline uint64_t family_size(const Family *family, uint64_t word) {
    const uint64_t *rule = family->rules + (word & family->last_type) * RULE;
    return word >> rule[0] & rule[1];
}

static inline int8_t family_kind(const Family *family, uint64_t word) {
    const uint64_t *rule = family->rules + (word & family->last_type) * RULE;
    return family->table[rule[4] + (word >> rule[2] & rule[3])];
}

static PyObject *walk(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    (void)module;
    static const Wanted wanted[] = {{"words", 8, 0}, {"rules", 8, 0}, {"table", 1, 0},
                                    {"at", 8, 1},    {"size", 8, 1},  {"kind", 1, 1}};
    enum { WORDS, RULES, TABLE, AT, SIZE, KIND, COUNT };
    if (nargs != 7) {
        PyErr_SetString(PyExc_TypeError, "walk takes 7 arguments");
        return NULL;
    }
    PyObject *const buffers[] = {args[0], args[2], args[3], args[4], args[5], args[6]};
    Py_ssize_t here = PyLong_AsSsize_t(args[1]);
    if (here < 0) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "start is negative");
        return NULL;
    }
    Array a[COUNT];
    Family family;
    if (arrays_open(a, buffers, wanted, COUNT) < 0)
        return NULL;
    if (family_open(&family, &a[RULES], &a[TABLE]) < 0) {
        arrays_close(a, COUNT);
        return NULL;
    }
    const uint64_t *words = a[WORDS].view.buf;
    int64_t *at = a[AT].view.buf, *size = a[SIZE].view.buf;
    int8_t *kind = a[KIND].view.buf;
    Py_ssize_t total = a[WORDS].count, count = 0;
    Py_ssize_t room = Py_MIN(a[AT].count, Py_MIN(a[SIZE].count, a[KIND].count));
    int why = WALK_END;
    Py_BEGIN_ALLOW_THREADS
    while (here < total) {
        uint64_t word = words[here], length = family_size(&family, word);
        if (length == 0 || length > (uint64_t)(total - here)) {
            why = length == 0 ? WALK_ZERO : WALK_PARTIAL;
            break;
        }
        if (count == room) {
            why = WALK_FULL;
            break;
        }
        at[count] = here;
        size[count] = (int64_t)length;
        kind[count++] = family_kind(&family, word);
        here += (Py_ssize_t)length;
    }
    Py_END_ALLOW_THREADS
    arrays_close(a, COUNT);
    return Py_BuildValue("nni", count, here, why);
}

static inline int64_t clip(int64_t index, int64_t count) {
    return index < 0 ? 0 : index < count ? index : count - 1;
}

static PyObject *gather(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    (void)module;
    static const Wanted wanted[] = {{"words", 8, 0}, {"at", 8, 0}, {"out", 8, 1}, {"delta", 8, 0}};
    enum { WORDS, AT, OUT, DELTA, COUNT };
    if (nargs != 4) {
        PyErr_SetString(PyExc_TypeError, "gather takes 4 arguments");
        return NULL;
    }
    PyObject *const buffers[] = {args[0], args[1], args[3], args[2]};
    int single = PyLong_Check(args[2]), opened = single ? COUNT - 1 : COUNT;
    long long delta = single ? PyLong_AsLongLong(args[2]) : 0;
    if (delta == -1 && PyErr_Occurred())
        return NULL;
    Array a[COUNT];
    if (arrays_open(a, buffers, wanted, opened) < 0)
        return NULL;
    const uint64_t *words = a[WORDS].view.buf;
    const int64_t *at = a[AT].view.buf;
    uint64_t *out = a[OUT].view.buf;
    Py_ssize_t count = a[AT].count, total = a[WORDS].count;
    if (a[OUT].count != count || (!single && a[DELTA].count != count) || (count > 0 && total == 0)) {
        arrays_close(a, opened);
        PyErr_SetString(PyExc_ValueError, "lengths differ, or there are no words");
        return NULL;
    }
    const int64_t *deltas = single ? NULL : a[DELTA].view.buf;
    Py_BEGIN_ALLOW_THREADS
    if (single)
        for (Py_ssize_t i = 0; i < count; i++)
            out[i] = words[clip(at[i] + delta, total)];
    else
        for (Py_ssize_t i = 0; i < count; i++)
            out[i] = words[clip(at[i] + deltas[i], total)];
    Py_END_ALLOW_THREADS
    arrays_close(a, opened);
    Py_RETURN_NONE;
}

static PyObject *walk_many(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    (void)module;
    static const Wanted wanted[] = {{"words", 8, 0}, {"first", 8, 0}, {"stop", 8, 0}, {"counts", 8, 0},
                                    {"rules", 8, 0}, {"table", 1, 0}, {"at", 8, 1},   {"size", 8, 1},
                                    {"kind", 1, 1},  {"found", 8, 1}, {"after", 8, 1}};
    enum { WORDS, FIRST, STOP, COUNTS, RULES, TABLE, AT, SIZE, KIND, FOUND, AFTER, COUNT };
    if (nargs != COUNT) {
        PyErr_SetString(PyExc_TypeError, "walk_many takes 11 arguments");
        return NULL;
    }
    Array a[COUNT];
    Family family;
    if (arrays_open(a, args, wanted, COUNT) < 0)
        return NULL;
    Py_ssize_t rows = a[FIRST].count, total = a[WORDS].count, filled = 0;
    Py_ssize_t room = Py_MIN(a[AT].count, Py_MIN(a[SIZE].count, a[KIND].count));
    int sound = family_open(&family, &a[RULES], &a[TABLE]) == 0;
    if (sound && (a[STOP].count != rows || a[COUNTS].count != rows || a[FOUND].count != rows || a[AFTER].count != rows)) {
        PyErr_SetString(PyExc_ValueError, "lengths differ");
        sound = 0;
    }
    if (!sound) {
        arrays_close(a, COUNT);
        return NULL;
    }
    const uint64_t *words = a[WORDS].view.buf;
    const int64_t *first = a[FIRST].view.buf, *stop = a[STOP].view.buf, *counts = a[COUNTS].view.buf;
    int64_t *at = a[AT].view.buf, *size = a[SIZE].view.buf, *found = a[FOUND].view.buf, *after = a[AFTER].view.buf;
    int8_t *kind = a[KIND].view.buf;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t row = 0; row < rows; row++) {
        int64_t here = first[row], end = Py_MIN(stop[row], (int64_t)total), number = 0;
        for (; number < counts[row]; number++) {
            uint64_t word = here >= 0 && here < end ? words[here] : 0;
            uint64_t length = here >= 0 && here < end ? family_size(&family, word) : 0;
            if (length == 0 || length > (uint64_t)(end - here) || filled == room)
                break;
            at[filled] = here;
            size[filled] = (int64_t)length;
            kind[filled++] = family_kind(&family, word);
            here += (int64_t)length;
        }
        found[row] = number;
        after[row] = number < counts[row] ? -1 : here;
    }
    Py_END_ALLOW_THREADS
    arrays_close(a, COUNT);
    return PyLong_FromSsize_t(filled);
}

static PyMethodDef methods[] = {
    {"walk", (PyCFunction)(void (*)(void))walk, METH_FASTCALL, "See fxtio._native.python.walk."},
    {"gather", (PyCFunction)(void (*)(void))gather, METH_FASTCALL, "See fxtio._native.python.gather."},
    {"walk_many", (PyCFunction)(void (*)(void))walk_many, METH_FASTCALL, "See fxtio._native.python.walk_many."},
    {"walk_payloads", (PyCFunction)(void (*)(void))walk_payloads, METH_FASTCALL, "See fxtio._native.python.walk_payloads."},
    {"pair", (PyCFunction)(void (*)(void))pair, METH_FASTCALL, "See fxtio._native.python.pair."},
    {"walk_chunks", (PyCFunction)(void (*)(void))walk_chunks, METH_FASTCALL, "See fxtio._native.python.walk_chunks."},
    {"tally", (PyCFunction)(void (*)(void))tally, METH_FASTCALL, "See fxtio._native.python.tally."},
    {"unroll", (PyCFunction)(void (*)(void))unroll, METH_FASTCALL, "See fxtio._native.python.unroll."},
    {"distinct", (PyCFunction)(void (*)(void))distinct, METH_FASTCALL, "See fxtio._native.python.distinct."},
    {"scan_stream", (PyCFunction)(void (*)(void))scan_stream, METH_FASTCALL, "See fxtio.mono.stream.kernels.Kernels.scan."},
    {"fill_stream", (PyCFunction)(void (*)(void))fill_stream, METH_FASTCALL, "See fxtio.mono.stream.kernels.Kernels.fill."},
    {"encode_stream", (PyCFunction)(void (*)(void))encode_stream, METH_FASTCALL, "See fxtio.mono.stream.kernels.Kernels.encode."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_kernels", "Walking, gathering, pairing; see fxtio._native.", 0, methods,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__kernels(void) { return PyModule_Create(&definition); }
