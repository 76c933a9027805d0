/* Kernels that walk record boundaries, gather words, and sort and copy rows.
 *
 * The functions know no layout: shifts, masks and tables come from the declarations.  Every index is checked against its
 * buffer, since the words may be hostile; the tables come from our own package and are checked all the same. */
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
static int headers_open(Headers *headers, const Value *rules, const Value *table) {
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
    return valid ? 0 : refuse_with("rules and table do not fit each other");
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

/* Walk records. */
KERNEL_TAKING(walk, READS("words", 8), INDEX("start"), READS("rules", 8), READS("table", 1), WRITES("at", 8),
              WRITES("size", 8), WRITES("kind", 1)) {
    enum { WORDS, START, RULES, TABLE, AT, SIZE, KIND };
    Headers headers;
    if (a[START].number < 0)
        return refuse("start is negative");
    if (headers_open(&headers, &a[RULES], &a[TABLE]) < 0)
        return NULL;
    const uint64_t *words = a[WORDS].view.buf;
    int64_t *at = a[AT].view.buf, *size = a[SIZE].view.buf;
    int8_t *kind = a[KIND].view.buf;
    int64_t here = a[START].number, total = a[WORDS].count;
    Py_ssize_t count = 0;
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
        here += (int64_t)length;
    }
    Py_END_ALLOW_THREADS
    return Py_BuildValue("nLi", count, (long long)here, why);
}

/* Return the index, or the nearest one that is within `count` items. */
static inline int64_t clip(int64_t index, int64_t count) {
    return index < 0 ? 0 : index < count ? index : count - 1;
}

/* Copy words from given places. */
KERNEL_TAKING(gather, READS("words", 8), READS("at", 8), READS_OR_NUMBER("delta", 8), WRITES("out", 8)) {
    enum { WORDS, AT, DELTA, OUT };
    const uint64_t *words = a[WORDS].view.buf;
    const int64_t *at = a[AT].view.buf;
    uint64_t *out = a[OUT].view.buf;
    int is_single = a[DELTA].view.obj == NULL;
    Py_ssize_t count = a[AT].count, total = a[WORDS].count;
    if (a[OUT].count != count || (!is_single && a[DELTA].count != count) || (count > 0 && total == 0))
        return refuse("lengths differ, or there are no words");
    const int64_t *deltas = is_single ? NULL : a[DELTA].view.buf;
    int64_t delta = a[DELTA].number;
    Py_BEGIN_ALLOW_THREADS
    if (is_single)
        for (Py_ssize_t i = 0; i < count; i++)
            out[i] = words[clip(at[i] + delta, total)];
    else
        for (Py_ssize_t i = 0; i < count; i++)
            out[i] = words[clip(at[i] + deltas[i], total)];
    Py_END_ALLOW_THREADS
    return Py_NewRef(Py_None);
}

/* Sort rows by their kinds. */
KERNEL_TAKING(group_rows, READS("kind", 1), WRITES("order", 8), WRITES("begins", 8)) {
    enum { KIND, ORDER, BEGINS };
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
    return valid ? Py_NewRef(Py_None) : refuse("lengths differ, or a kind has no begin");
}

/* Copy runs of words one after the other. */
KERNEL_TAKING(copy_rows, READS("words", 8), READS("at", 8), READS("size", 8), READS("chosen", 1), WRITES("out", 8)) {
    enum { WORDS, AT, SIZE, CHOSEN, OUT };
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
    const char *why = "lengths differ, or a run is not within the words, or there is no room";
    return valid ? PyLong_FromLongLong(filled) : refuse(why);
}

/* Walk small records inside of records. */
KERNEL_TAKING(walk_many, READS("words", 8), READS("first", 8), READS("stop", 8), READS("counts", 8), READS("rules", 8),
              READS("table", 1), WRITES("at", 8), WRITES("size", 8), WRITES("kind", 1), WRITES("counted", 8),
              WRITES("after", 8)) {
    enum { WORDS, FIRST, STOP, COUNTS, RULES, TABLE, AT, SIZE, KIND, COUNTED, AFTER };
    Headers headers;
    Py_ssize_t rows = a[FIRST].count, total = a[WORDS].count, filled = 0;
    Py_ssize_t room = Py_MIN(a[AT].count, Py_MIN(a[SIZE].count, a[KIND].count));
    if (headers_open(&headers, &a[RULES], &a[TABLE]) < 0)
        return NULL;
    if (a[STOP].count != rows || a[COUNTS].count != rows || a[COUNTED].count != rows || a[AFTER].count != rows)
        return refuse("lengths differ");
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
    return PyLong_FromSsize_t(filled);
}

