/* The module, and its kernels that walk record boundaries and gather words.
 *
 * The functions know no layout: shifts, masks and tables come from the declarations.  python.py, the stand-in,
 * documents every argument.  Every index is checked against its buffer, since the words may be hostile; the tables come
 * from our own package and are checked all the same. */
#include "constants.h"
#include "kernels.h"

/* The five numbers of the rule for records of a type. */
typedef struct {
    uint64_t size_shift, size_mask, selector_shift, selector_mask, kinds;
} Rule;
enum { RULE_FIELDS = sizeof(Rule) / sizeof(uint64_t) };

/* The rules by which header words are read: one for each type, and a table of kinds. */
typedef struct {
    const Rule *rules;
    const int8_t *kinds;
    uint64_t last_type;
} Headers;

/* Take rules and table.  Returns -1 with an exception set if a selector could point beyond the table. */
static int headers_open(Headers *headers, const Array *rules, const Array *table) {
    Py_ssize_t types = rules->count / RULE_FIELDS;
    headers->rules = rules->view.buf;
    headers->kinds = table->view.buf;
    headers->last_type = (uint64_t)types - 1;
    int valid = types > 0 && (types & (types - 1)) == 0 && types * RULE_FIELDS == rules->count;
    for (Py_ssize_t type = 0; valid && type < types; type++) {
        const Rule *rule = &headers->rules[type];
        valid = rule->size_shift < 64 && rule->selector_shift < 64 && rule->selector_mask < (uint64_t)table->count &&
                rule->kinds < (uint64_t)table->count - rule->selector_mask;
    }
    if (!valid)
        PyErr_SetString(PyExc_ValueError, "rules and table do not fit each other");
    return valid ? 0 : -1;
}

/* Return the size of a record in words. */
static inline uint64_t record_size(const Headers *headers, uint64_t word) {
    const Rule *rule = &headers->rules[word & headers->last_type];
    return word >> rule->size_shift & rule->size_mask;
}

/* Return the kind of a record. */
static inline int8_t record_kind(const Headers *headers, uint64_t word) {
    const Rule *rule = &headers->rules[word & headers->last_type];
    return headers->kinds[rule->kinds + (word >> rule->selector_shift & rule->selector_mask)];
}

/* Walk records; see python.py. */
static PyObject *walk(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    (void)module;
    static const ArraySpec specs[] = {{"words", 8, 0}, {"rules", 8, 0}, {"table", 1, 0},
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
    Headers headers;
    if (arrays_open(a, buffers, specs, COUNT) < 0)
        return NULL;
    if (headers_open(&headers, &a[RULES], &a[TABLE]) < 0) {
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
        uint64_t word = words[here], length = record_size(&headers, word);
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
        kind[count++] = record_kind(&headers, word);
        here += (Py_ssize_t)length;
    }
    Py_END_ALLOW_THREADS
    arrays_close(a, COUNT);
    return Py_BuildValue("nni", count, here, why);
}

/* Return the index, or the nearest one that lies within `count` items. */
static inline int64_t clip(int64_t index, int64_t count) {
    return index < 0 ? 0 : index < count ? index : count - 1;
}

/* Copy words from given places; see python.py. */
static PyObject *gather(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    (void)module;
    static const ArraySpec specs[] = {{"words", 8, 0}, {"at", 8, 0}, {"out", 8, 1}, {"delta", 8, 0}};
    enum { WORDS, AT, OUT, DELTA, COUNT };
    if (nargs != 4) {
        PyErr_SetString(PyExc_TypeError, "gather takes 4 arguments");
        return NULL;
    }
    PyObject *const buffers[] = {args[0], args[1], args[3], args[2]};
    int is_single = PyLong_Check(args[2]), opened = is_single ? COUNT - 1 : COUNT;
    long long delta = is_single ? PyLong_AsLongLong(args[2]) : 0;
    if (delta == -1 && PyErr_Occurred())
        return NULL;
    Array a[COUNT];
    if (arrays_open(a, buffers, specs, opened) < 0)
        return NULL;
    const uint64_t *words = a[WORDS].view.buf;
    const int64_t *at = a[AT].view.buf;
    uint64_t *out = a[OUT].view.buf;
    Py_ssize_t count = a[AT].count, total = a[WORDS].count;
    if (a[OUT].count != count || (!is_single && a[DELTA].count != count) || (count > 0 && total == 0)) {
        arrays_close(a, opened);
        PyErr_SetString(PyExc_ValueError, "lengths differ, or there are no words");
        return NULL;
    }
    const int64_t *deltas = is_single ? NULL : a[DELTA].view.buf;
    Py_BEGIN_ALLOW_THREADS
    if (is_single)
        for (Py_ssize_t i = 0; i < count; i++)
            out[i] = words[clip(at[i] + delta, total)];
    else
        for (Py_ssize_t i = 0; i < count; i++)
            out[i] = words[clip(at[i] + deltas[i], total)];
    Py_END_ALLOW_THREADS
    arrays_close(a, opened);
    Py_RETURN_NONE;
}

/* Sort rows by their kinds; see python.py. */
static PyObject *group_rows(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    (void)module;
    static const ArraySpec specs[] = {{"kind", 1, 0}, {"order", 8, 1}, {"begins", 8, 1}};
    enum { KIND, ORDER, BEGINS, COUNT };
    if (nargs != COUNT) {
        PyErr_SetString(PyExc_TypeError, "group_rows takes 3 arguments");
        return NULL;
    }
    Array a[COUNT];
    if (arrays_open(a, args, specs, COUNT) < 0)
        return NULL;
    const int8_t *kind = a[KIND].view.buf;
    int64_t *order = a[ORDER].view.buf, *begins = a[BEGINS].view.buf;
    Py_ssize_t rows = a[KIND].count, kinds = a[BEGINS].count - 1;
    int64_t next[INT8_MAX + 2] = {0}; /* by kind + 1, negative ones together in the first */
    int valid = a[ORDER].count == rows && kinds >= 0 && kinds <= INT8_MAX + 1;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t row = 0; valid && row < rows; row++) {
        next[kind[row] < 0 ? 0 : kind[row] + 1]++;
        valid = kind[row] < kinds;
    }
    if (valid) {
        int64_t total = 0;
        for (Py_ssize_t group = 0; group <= kinds; group++) {
            int64_t count = next[group];
            next[group] = total;
            total += count;
            begins[group] = total;
        }
        for (Py_ssize_t row = 0; row < rows; row++)
            order[next[kind[row] < 0 ? 0 : kind[row] + 1]++] = row;
    }
    Py_END_ALLOW_THREADS
    arrays_close(a, COUNT);
    if (!valid) {
        PyErr_SetString(PyExc_ValueError, "lengths differ, or a kind has no begin");
        return NULL;
    }
    Py_RETURN_NONE;
}

/* Find the rows of some kinds; see python.py. */
static PyObject *choose_rows(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    (void)module;
    static const ArraySpec specs[] = {{"kind", 1, 0}, {"chosen", 1, 0}, {"rows", 8, 1}};
    enum { KIND, CHOSEN, ROWS, COUNT };
    if (nargs != COUNT) {
        PyErr_SetString(PyExc_TypeError, "choose_rows takes 3 arguments");
        return NULL;
    }
    Array a[COUNT];
    if (arrays_open(a, args, specs, COUNT) < 0)
        return NULL;
    const int8_t *kind = a[KIND].view.buf, *chosen = a[CHOSEN].view.buf;
    int64_t *out = a[ROWS].view.buf;
    Py_ssize_t rows = a[KIND].count, kinds = a[CHOSEN].count, found = 0;
    uint8_t is_chosen[UINT8_MAX + 1] = {0}; /* by kind, negative ones behind the others */
    for (Py_ssize_t each = 0; each < kinds && each <= INT8_MAX; each++)
        is_chosen[each] = chosen[each] != 0;
    int valid = a[ROWS].count == rows;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t row = 0; valid && row < rows; row++) {
        out[found] = row; /* without a branch, which would often be foretold wrongly */
        found += is_chosen[(uint8_t)kind[row]];
    }
    Py_END_ALLOW_THREADS
    arrays_close(a, COUNT);
    if (!valid) {
        PyErr_SetString(PyExc_ValueError, "lengths differ");
        return NULL;
    }
    return PyLong_FromSsize_t(found);
}

/* Copy runs of words one behind the other; see python.py. */
static PyObject *copy_rows(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    (void)module;
    static const ArraySpec specs[] = {
        {"words", 8, 0}, {"at", 8, 0}, {"size", 8, 0}, {"chosen", 1, 0}, {"out", 8, 1}};
    enum { WORDS, AT, SIZE, CHOSEN, OUT, COUNT };
    if (nargs != COUNT) {
        PyErr_SetString(PyExc_TypeError, "copy_rows takes 5 arguments");
        return NULL;
    }
    Array a[COUNT];
    if (arrays_open(a, args, specs, COUNT) < 0)
        return NULL;
    const uint64_t *words = a[WORDS].view.buf;
    const int64_t *at = a[AT].view.buf, *size = a[SIZE].view.buf;
    const int8_t *chosen = a[CHOSEN].view.buf;
    uint64_t *out = a[OUT].view.buf;
    Py_ssize_t rows = a[AT].count, row = 0;
    int64_t total = a[WORDS].count, room = a[OUT].count, filled = 0;
    int valid = a[SIZE].count == rows && a[CHOSEN].count == rows;
    Py_BEGIN_ALLOW_THREADS
    while (valid && row < rows) {
        if (!chosen[row]) {
            row++;
            continue;
        }
        int64_t first = at[row], end = first;
        for (; row < rows && chosen[row] && at[row] == end; row++) {
            valid = end >= 0 && size[row] >= 0 && size[row] <= total - end;
            if (!valid)
                break;
            end += size[row];
        }
        valid = valid && end - first <= room - filled;
        if (valid)
            memcpy(out + filled, words + first, (size_t)(end - first) * sizeof *out);
        filled += end - first;
    }
    Py_END_ALLOW_THREADS
    arrays_close(a, COUNT);
    if (!valid) {
        PyErr_SetString(PyExc_ValueError, "lengths differ, or a run is not within the words, or there is no room");
        return NULL;
    }
    return PyLong_FromLongLong(filled);
}

/* Walk small records inside of records; see python.py. */
static PyObject *walk_many(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    (void)module;
    static const ArraySpec specs[] = {{"words", 8, 0}, {"first", 8, 0},   {"stop", 8, 0}, {"counts", 8, 0},
                                      {"rules", 8, 0}, {"table", 1, 0},   {"at", 8, 1},   {"size", 8, 1},
                                      {"kind", 1, 1},  {"counted", 8, 1}, {"after", 8, 1}};
    enum { WORDS, FIRST, STOP, COUNTS, RULES, TABLE, AT, SIZE, KIND, COUNTED, AFTER, COUNT };
    if (nargs != COUNT) {
        PyErr_SetString(PyExc_TypeError, "walk_many takes 11 arguments");
        return NULL;
    }
    Array a[COUNT];
    Headers headers;
    if (arrays_open(a, args, specs, COUNT) < 0)
        return NULL;
    Py_ssize_t rows = a[FIRST].count, total = a[WORDS].count, filled = 0;
    Py_ssize_t room = Py_MIN(a[AT].count, Py_MIN(a[SIZE].count, a[KIND].count));
    int valid = headers_open(&headers, &a[RULES], &a[TABLE]) == 0;
    if (valid && (a[STOP].count != rows || a[COUNTS].count != rows || a[COUNTED].count != rows ||
                  a[AFTER].count != rows)) {
        PyErr_SetString(PyExc_ValueError, "lengths differ");
        valid = 0;
    }
    if (!valid) {
        arrays_close(a, COUNT);
        return NULL;
    }
    const uint64_t *words = a[WORDS].view.buf;
    const int64_t *first = a[FIRST].view.buf, *stop = a[STOP].view.buf, *counts = a[COUNTS].view.buf;
    int64_t *at = a[AT].view.buf, *size = a[SIZE].view.buf, *counted = a[COUNTED].view.buf, *after = a[AFTER].view.buf;
    int8_t *kind = a[KIND].view.buf;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t row = 0; row < rows; row++) {
        int64_t here = first[row], end = Py_MIN(stop[row], (int64_t)total), number = 0;
        for (; number < counts[row]; number++) {
            uint64_t word = here >= 0 && here < end ? words[here] : 0;
            uint64_t length = here >= 0 && here < end ? record_size(&headers, word) : 0;
            if (length == 0 || length > (uint64_t)(end - here) || filled == room)
                break;
            at[filled] = here;
            size[filled] = (int64_t)length;
            kind[filled++] = record_kind(&headers, word);
            here += (int64_t)length;
        }
        counted[row] = number;
        after[row] = number < counts[row] ? -1 : here;
    }
    Py_END_ALLOW_THREADS
    arrays_close(a, COUNT);
    return PyLong_FromSsize_t(filled);
}

static PyMethodDef methods[] = {
    {"walk", (PyCFunction)(void (*)(void))walk, METH_FASTCALL, "See fxtio._native.python.walk."},
    {"gather", (PyCFunction)(void (*)(void))gather, METH_FASTCALL, "See fxtio._native.python.gather."},
    {"group_rows", (PyCFunction)(void (*)(void))group_rows, METH_FASTCALL, "See fxtio._native.python.group_rows."},
    {"choose_rows", (PyCFunction)(void (*)(void))choose_rows, METH_FASTCALL, "See fxtio._native.python.choose_rows."},
    {"copy_rows", (PyCFunction)(void (*)(void))copy_rows, METH_FASTCALL, "See fxtio._native.python.copy_rows."},
    {"walk_many", (PyCFunction)(void (*)(void))walk_many, METH_FASTCALL, "See fxtio._native.python.walk_many."},
    {"walk_payloads", (PyCFunction)(void (*)(void))walk_payloads, METH_FASTCALL,
     "See fxtio._native.python.walk_payloads."},
    {"pair", (PyCFunction)(void (*)(void))pair, METH_FASTCALL, "See fxtio._native.python.pair."},
    {"walk_chunks", (PyCFunction)(void (*)(void))walk_chunks, METH_FASTCALL, "See fxtio._native.python.walk_chunks."},
    {"sum_rows", (PyCFunction)(void (*)(void))sum_rows, METH_FASTCALL, "See fxtio._native.python.sum_rows."},
    {"unroll", (PyCFunction)(void (*)(void))unroll, METH_FASTCALL, "See fxtio._native.python.unroll."},
    {"distinct", (PyCFunction)(void (*)(void))distinct, METH_FASTCALL, "See fxtio._native.python.distinct."},
    {"late", (PyCFunction)(void (*)(void))late, METH_FASTCALL, "See fxtio._native.python_spans.late."},
    {"list_slices", (PyCFunction)(void (*)(void))list_slices, METH_FASTCALL,
     "See fxtio._native.python_spans.list_slices."},
    {"match", (PyCFunction)(void (*)(void))match, METH_FASTCALL, "See fxtio._native.python_spans.match."},
    {"nest", (PyCFunction)(void (*)(void))nest, METH_FASTCALL, "See fxtio._native.python_spans.nest."},
    {"tally", (PyCFunction)(void (*)(void))tally, METH_FASTCALL, "See fxtio._native.python_spans.tally."},
    {"find_uses", (PyCFunction)(void (*)(void))find_uses, METH_FASTCALL, "See fxtio.fxt.cut.uses.Uses."},
    {"read_plain", (PyCFunction)(void (*)(void))read_plain, METH_FASTCALL, "See fxtio.fxt.plain.PlainReader."},
    {"interleave", (PyCFunction)(void (*)(void))interleave, METH_FASTCALL, "See fxtio._native.python.interleave."},
    {"scan_stream", (PyCFunction)(void (*)(void))scan_stream, METH_FASTCALL,
     "See fxtio.mono.stream.kernels.Kernels.scan."},
    {"fill_stream", (PyCFunction)(void (*)(void))fill_stream, METH_FASTCALL,
     "See fxtio.mono.stream.kernels.Kernels.fill."},
    {"encode_stream", (PyCFunction)(void (*)(void))encode_stream, METH_FASTCALL,
     "See fxtio.mono.stream.kernels.Kernels.encode."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_kernels", "Walking, gathering, pairing; see fxtio._native.", 0, methods,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__kernels(void) {
    PyObject *module = PyModule_Create(&definition);
#ifdef Py_GIL_DISABLED
    if (module) /* kernels have no state and work on arrays of the caller, which no one else changes meanwhile */
        PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED);
#endif
    return module;
}
