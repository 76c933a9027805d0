/* Kernels for records of function calls: walk records whose payload depends on the called function, number
 * distinct words and texts.
 *
 * As in records.c, no layout is known here, and every index is checked against its buffer: the bytes may be hostile. */
#include "constants.h"
#include "kernels.h"
#include <stdlib.h>
#include <string.h>

enum { CHECK_MASK, CHECK_VALUE, TYPE_SHIFT, TYPE_MASK, MORE_SHIFT, ADDRESS_SHIFT, ENTRY, EXIT, EVENT, BIG, HEAD };
enum { STRING = -1 };

/* Programs for payloads by ranges of addresses. */
typedef struct {
    const uint64_t *begin, *end;
    const int32_t *programs, *code;
    int64_t ranges, code_size;
    int64_t recent; /* the range of the previous record, which is likely to be the next one's */
} Programs;

/* Return the program of a record's payload, -1 if the address has none. */
static int32_t program_of(Programs *programs, uint64_t address, int is_exit) {
    int64_t i = programs->recent;
    if (i >= programs->ranges || address < programs->begin[i] || address >= programs->end[i]) {
        int64_t low = 0, high = programs->ranges;
        while (low < high) {
            int64_t middle = low + (high - low) / 2;
            if (programs->begin[middle] <= address)
                low = middle + 1;
            else
                high = middle;
        }
        i = low - 1;
        if (i < 0 || address >= programs->end[i])
            return -1;
        programs->recent = i;
    }
    return programs->programs[2 * i + is_exit];
}

/* Return the size in bytes of the payload at `at`, padding included; -1 if it goes beyond `total`. */
static int64_t payload_size(const Programs *programs, int32_t step, const uint8_t *bytes, int64_t at, int64_t total,
                            int big) {
    int64_t here = at;
    for (; step >= 0 && step < programs->code_size && programs->code[step] != 0; step++) {
        int64_t size = programs->code[step];
        if (size == STRING) {
            if (total - here < 2)
                return -1;
            size = 2 + (big ? bytes[here] << 8 | bytes[here + 1] : bytes[here + 1] << 8 | bytes[here]);
        }
        if (size < 0 || size > total - here)
            return -1;
        here += (size + 3) / 4 * 4;
    }
    int64_t padded = (here - at + 7) / 8 * 8;
    return padded > total - at ? -1 : padded;
}

/* Walk records of two words with payloads. */
KERNEL_TAKING(walk_payloads, READS("words", 8), READS("bytes", 1), READS("head", 8), READS("begin", 8), READS("end", 8),
              READS("programs", 4), READS("code", 4), WRITES("at", 8), WRITES("size", 8), INDEX("start"),
              UNSIGNED("latest")) {
    enum { WORDS, BYTES, HEADS, BEGIN, STOP, PROGRAMS, CODE, AT, SIZE, START, LATEST };
    const uint64_t *words = a[WORDS].view.buf, *head = a[HEADS].view.buf;
    const uint8_t *bytes = a[BYTES].view.buf;
    int64_t *at = a[AT].view.buf, *size = a[SIZE].view.buf;
    int64_t here = a[START].number, total = a[WORDS].count;
    uint64_t latest = (uint64_t)a[LATEST].number;
    Py_ssize_t room = Py_MIN(a[AT].count, a[SIZE].count), count = 0;
    Programs programs = {a[BEGIN].view.buf, a[STOP].view.buf, a[PROGRAMS].view.buf, a[CODE].view.buf,
                         a[BEGIN].count, a[CODE].count, 0};
    int why = PAYLOAD_WALK_END;
    if (here < 0 || a[HEADS].count != HEAD || a[BYTES].count != total * 8 || a[STOP].count != programs.ranges ||
        a[PROGRAMS].count != 2 * programs.ranges || head[TYPE_SHIFT] > 63 || head[MORE_SHIFT] > 63 ||
        head[ADDRESS_SHIFT] > 63)
        return refuse("the arguments do not fit each other");
    Py_BEGIN_ALLOW_THREADS
    while (here < total) {
        if (total - here < 2) {
            why = PAYLOAD_WALK_PARTIAL;
            break;
        }
        uint64_t word = words[here + 1];
        if ((word & head[CHECK_MASK]) != head[CHECK_VALUE]) {
            why = PAYLOAD_WALK_BAD;
            break;
        }
        if (words[here] > latest) {
            why = PAYLOAD_WALK_LATER;
            break;
        }
        if (count == room) {
            why = PAYLOAD_WALK_FULL;
            break;
        }
        int64_t length = 0;
        if (word >> head[MORE_SHIFT] & 1) {
            uint64_t type = word >> head[TYPE_SHIFT] & head[TYPE_MASK];
            int32_t program = type == head[EVENT] ? 0 : type == head[ENTRY] || type == head[EXIT]
                              ? program_of(&programs, word >> head[ADDRESS_SHIFT], type == head[EXIT]) : -1;
            if (program < 0) {
                why = PAYLOAD_WALK_UNKNOWN;
                break;
            }
            length = payload_size(&programs, program, bytes, (here + 2) * 8, total * 8, (int)head[BIG]);
            if (length < 0) {
                why = PAYLOAD_WALK_PARTIAL;
                break;
            }
        }
        at[count] = here;
        size[count++] = 2 + length / 8;
        here += 2 + length / 8;
    }
    Py_END_ALLOW_THREADS
    return Py_BuildValue("nLi", count, (long long)here, why);
}

/* Return a hash that nobody can foresee without the seed. */
static inline uint64_t hash_of(uint64_t value, uint64_t seed) {
    value = (value ^ seed) * 0x9E3779B97F4A7C15u;
    value = (value ^ value >> 32) * 0xD6E8FEB86659FD93u;
    return value ^ value >> 32;
}

/* Replace a table by one of twice its size with the same content.  Returns NULL without memory. */
static int32_t *grow(int32_t *table, uint64_t *mask, const uint64_t *values, const int64_t *first, int32_t count,
                     uint64_t seed) {
    uint64_t size = (*mask + 1) * 2;
    int32_t *larger = malloc(size * sizeof *larger);
    if (larger != NULL) {
        memset(larger, -1, size * sizeof *larger);
        for (int32_t code = 0; code < count; code++) {
            uint64_t place = hash_of(values[first[code]], seed) & (size - 1);
            while (larger[place] >= 0)
                place = (place + 1) & (size - 1);
            larger[place] = code;
        }
        *mask = size - 1;
    }
    free(table);
    return larger;
}

enum { NO_MEMORY = -1, NO_ROOM = -2 };

/* Number the values in the order in which they come.  Returns how many are distinct, or NO_MEMORY, or NO_ROOM if
 * `first` is too small. */
static int32_t number_values(const uint64_t *values, Py_ssize_t rows, uint64_t seed, int32_t *codes, int64_t *first,
                             Py_ssize_t room) {
    uint64_t mask = 255;
    int32_t count = 0;
    int32_t *table = malloc((mask + 1) * sizeof *table);
    if (table == NULL)
        return NO_MEMORY;
    memset(table, -1, (mask + 1) * sizeof *table);
    for (Py_ssize_t row = 0; row < rows; row++) {
        uint64_t place = hash_of(values[row], seed) & mask;
        while (table[place] >= 0 && values[first[table[place]]] != values[row])
            place = (place + 1) & mask;
        if (table[place] < 0) {
            if (count == room) {
                free(table);
                return NO_ROOM;
            }
            first[count] = row;
            table[place] = count++;
            codes[row] = count - 1;
            if ((uint64_t)count * 2 > mask && (table = grow(table, &mask, values, first, count, seed)) == NULL)
                return NO_MEMORY;
        } else {
            codes[row] = table[place];
        }
    }
    free(table);
    return count;
}

/* Return the result of a kernel that numbers. */
static PyObject *numbered(int32_t count) {
    if (count == NO_MEMORY)
        return PyErr_NoMemory();
    return count == NO_ROOM ? refuse("lengths differ, or there is no room") : PyLong_FromLong(count);
}

/* Number distinct values. */
KERNEL_TAKING(distinct, READS("values", 8), WRITES("codes", 4), WRITES("first", 8), WRAPPED("seed")) {
    enum { VALUES, CODES, FIRST, SEED };
    int32_t count = NO_ROOM;
    if (a[CODES].count == a[VALUES].count && a[VALUES].count < INT32_MAX) {
        Py_BEGIN_ALLOW_THREADS
        count = number_values(a[VALUES].view.buf, a[VALUES].count, (uint64_t)a[SEED].number, a[CODES].view.buf,
                              a[FIRST].view.buf, a[FIRST].count);
        Py_END_ALLOW_THREADS
    }
    return numbered(count);
}

/* Return a hash of bytes that nobody can foresee without the seed. */
static uint64_t hash_of_bytes(const uint8_t *bytes, int64_t size, uint64_t seed) {
    uint64_t hash = hash_of((uint64_t)size, seed), word;
    for (; size >= 8; bytes += 8, size -= 8) {
        memcpy(&word, bytes, 8);
        hash = hash_of(word, hash);
    }
    word = 0;
    memcpy(&word, bytes, (size_t)size);
    return hash_of(word, hash);
}

/* Return whether each text is equal to the first one of its number. */
static int are_equal(const uint8_t *data, const int32_t *begin, const int32_t *end, Py_ssize_t rows,
                     const int32_t *codes, const int64_t *first) {
    for (Py_ssize_t row = 0; row < rows; row++) {
        int64_t other = first[codes[row]], size = end[row] - begin[row];
        if (end[other] - begin[other] != size || memcmp(data + begin[other], data + begin[row], (size_t)size))
            return 0;
    }
    return 1;
}

/* Number distinct texts: those of equal hashes, if these texts are equal; else with another seed. */
KERNEL_TAKING(distinct_texts, READS("data", 1), READS("begin", 4), READS("end", 4), WRITES("codes", 4),
              WRITES("first", 8), WRAPPED("seed")) {
    enum { DATA, BEGINS, ENDS, CODES, FIRST, SEED };
    const int32_t *begin = a[BEGINS].view.buf, *end = a[ENDS].view.buf;
    Py_ssize_t rows = a[CODES].count;
    uint64_t seed = (uint64_t)a[SEED].number, *hashes;
    if (a[BEGINS].count != rows || a[ENDS].count != rows || rows >= INT32_MAX)
        return refuse("lengths differ, or there is no room");
    for (Py_ssize_t row = 0; row < rows; row++)
        if (begin[row] < 0 || begin[row] > end[row] || end[row] > a[DATA].count)
            return refuse("a text is not within the data");
    if ((hashes = malloc((size_t)(rows + 1) * sizeof *hashes)) == NULL)
        return PyErr_NoMemory();
    int32_t count;
    Py_BEGIN_ALLOW_THREADS
    do {
        seed = hash_of(seed, seed);
        for (Py_ssize_t row = 0; row < rows; row++)
            hashes[row] = hash_of_bytes((const uint8_t *)a[DATA].view.buf + begin[row], end[row] - begin[row], seed);
        count = number_values(hashes, rows, seed, a[CODES].view.buf, a[FIRST].view.buf, a[FIRST].count);
    } while (count >= 0 && !are_equal(a[DATA].view.buf, begin, end, rows, a[CODES].view.buf, a[FIRST].view.buf));
    Py_END_ALLOW_THREADS
    free(hashes);
    return numbered(count);
}
