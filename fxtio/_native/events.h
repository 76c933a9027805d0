/* Programs, and reading one record: the first inner loop of events.c. */
#ifndef FXTIO_EVENTS_H
#define FXTIO_EVENTS_H
#include "constants.h"
#include "kernels.h"
#include <string.h>

#if defined(__GNUC__)
#define ALWAYS_INLINE inline __attribute__((always_inline))
#else
#define ALWAYS_INLINE inline
#endif

typedef struct {
    int64_t op, a, b, column, slot;
} Step;

typedef struct {
    const Step *steps;
    Py_ssize_t count, registers;
    uint64_t mask;
} Program;

typedef struct {
    void *data;
    int64_t count;
    int width;
} Column;

typedef struct {
    Py_buffer *views;
    Column *of;
    Py_ssize_t count;
} Columns;

typedef struct {
    Program program;
    const int64_t *entry, *jumps;
    Py_ssize_t jump_count;
    const uint8_t *data;
    int64_t at, end, base;
    uint64_t registers[MAX_REGISTERS];
    Column *columns;
    int64_t *rows;
    int fault, overrun, times;
} Reader;

/* Return the size of the next number if it has up to eight bytes, without a branch for each, and these bytes; 0 where that
 * is not possible. */
static ALWAYS_INLINE int short_size(const Reader *r, uint64_t *word) {
#if defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (r->end - r->at < 8)
        return 0;
    memcpy(word, r->data + r->at, sizeof *word);
    uint64_t last = ~*word & 0x8080808080808080u;
    return last ? (__builtin_ctzll(last) >> 3) + 1 : 0;
#else
    (void)r, (void)word;
    return 0;
#endif
}

typedef struct {
    uint64_t value;
    int64_t after;
    int fault;
} Number;

/* Read a number of any length, byte by byte; the last one continues the sign of a signed number. */
static Number long_number(const uint8_t *data, int64_t at, int64_t end, int is_signed) {
    uint64_t value = 0;
    int shift = 0;
    while (at < end) {
        uint8_t byte = data[at++];
        value |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
        if (byte < 0x80) {
            int too_long = is_signed ? shift > 64 && byte != 0 && byte != 0x7f : shift > 63 && byte > 1;
            if (is_signed && shift < 64 && byte & 0x40)
                value |= ~(uint64_t)0 << shift;
            return (Number){value, at, too_long ? FAULT_TOO_LONG : FAULT_NONE};
        }
        if (shift == 70)
            return (Number){0, at, FAULT_TOO_LONG};
    }
    return (Number){0, at, FAULT_CUT};
}

/* Read a number; unless it is needed, the result is anything. */
static ALWAYS_INLINE uint64_t leb(Reader *r, int is_signed, int is_needed) {
    uint64_t word;
    int bytes = short_size(r, &word);
    if (bytes == 0) {
        Number number = long_number(r->data, r->at, r->end, is_signed);
        r->at = number.after;
        if (number.fault != FAULT_NONE)
            r->fault = number.fault;
        return number.value;
    }
    r->at += bytes;
    if (!is_needed)
        return 0;
    word &= ~(uint64_t)0 >> (64 - 8 * bytes);
    word = (word & 0x007f007f007f007fu) | (word & 0x7f007f007f007f00u) >> 1;
    word = (word & 0x00003fff00003fffu) | (word & 0x3fff00003fff0000u) >> 2;
    word = (word & 0x000000000fffffffu) | (word & 0x0fffffff00000000u) >> 4;
    uint64_t sign = is_signed ? (uint64_t)1 << (7 * bytes - 1) : 0;
    return (word ^ sign) - sign;
}

static ALWAYS_INLINE uint8_t one_byte(Reader *r) {
    if (r->at >= r->end) {
        r->fault = FAULT_CUT;
        return 0;
    }
    return r->data[r->at++];
}

static ALWAYS_INLINE void put(Reader *r, int64_t number, int64_t row, uint64_t value) {
    if (number < 0)
        return;
    const Column *column = &r->columns[number];
    if (column->data == NULL)
        return;
    if (row >= column->count)
        r->overrun = 1;
    else if (column->width == 8)
        ((uint64_t *)column->data)[row] = value;
    else
        ((uint8_t *)column->data)[row] = (uint8_t)value;
}

static ALWAYS_INLINE void text(Reader *r, const Step *step, int64_t row, int filling) {
    if (step->a) {
        uint8_t mark = one_byte(r);
        if (mark > 1)
            r->fault = FAULT_FORM;
        if (r->fault != FAULT_NONE || mark == 0)
            return;
    }
    const uint8_t *stop = r->at < r->end ? memchr(r->data + r->at, 0, (size_t)(r->end - r->at)) : NULL;
    if (stop == NULL) {
        r->fault = FAULT_NO_END;
        return;
    }
    int64_t after = stop - r->data;
    if (filling) {
        put(r, step->column, row, (uint64_t)r->at);
        put(r, step->column + (step->column >= 0), row, (uint64_t)(after - r->at));
    }
    r->at = after + 1;
}

/* Return whether the next number is 0, which ends a list; only then it is read. */
static ALWAYS_INLINE int list_ends(Reader *r) {
    int64_t here = r->at;
    if (leb(r, 0, 1) == 0)
        return 1;
    r->at = here;
    return 0;
}

/* Read the record at `at`, up to its end or a fault.  `filling` is a constant at each call. */
static ALWAYS_INLINE void record(Reader *r, const int filling) {
    const Step *const steps = r->program.steps;
    int64_t here = r->at, place = r->entry[r->data[here]], kind = 0, row = 0;
    uint64_t left = 0, number = 0, total = 0, value, slots[MAX_SLOTS] = {0};
    int fresh = 0;
    r->at++;
    if (place < 0)
        r->fault = FAULT_UNKNOWN;
    while (r->fault == FAULT_NONE) {
        const Step *step = &steps[place++];
        const int is_needed = filling || step->slot >= 0; /* counting needs only the values that are tested */
        switch (step->op) {
        case OP_END:
            r->rows[kind]++;
            return;
        case OP_BEGIN:
            kind = step->a;
            row = r->rows[kind];
            if (filling)
                put(r, step->column, row, (uint64_t)(here + r->base));
            else
                place = step->b; /* counting needs no values that are not read */
            continue;
        case OP_SUBTYPE: {
            int64_t jump = step->a + one_byte(r);
            place = jump >= 0 && jump < r->jump_count ? r->jumps[jump] : -1;
            if (place < 0 && r->fault == FAULT_NONE)
                r->fault = FAULT_UNKNOWN;
            continue;
        }
        case OP_CLOCK: {
            uint64_t before = r->registers[step->a], time = r->registers[step->a] = before + leb(r, 0, 1);
            if (!filling)
                r->times |= (time >> 63 ? TIME_LATE : 0) | (time < before ? TIME_BACK : 0);
            continue;
        }
        case OP_NOW:
            if (filling)
                put(r, step->column, row, r->registers[step->a]);
            continue;
        case OP_PUT:
            if (filling)
                put(r, step->column, row, (uint64_t)step->a);
            continue;
        case OP_UNLESS:
            if (slots[step->slot] != (uint64_t)step->a)
                place = step->b;
            continue;
        case OP_NEXT:
        case OP_JUMP:
            place = step->b;
            continue;
        case OP_FAIL:
            r->fault = FAULT_FORM;
            continue;
        case OP_COUNT:
            number = total = 0;
            fresh = 1;
            left = step->a ? 0 : leb(r, 0, 1);
            if (filling && !step->a)
                put(r, step->column, row, left);
            continue;
        case OP_LOOP: {
            int done;
            if (step->slot == 1) {
                done = list_ends(r);
            } else {
                if (fresh && left > (uint64_t)(r->end - r->at))
                    r->fault = FAULT_BEYOND;
                fresh = 0;
                done = left == number;
            }
            if (done) {
                row = r->rows[kind];
                place = step->b;
                if (filling && step->slot == 1)
                    put(r, step->column, row, number);
                continue;
            }
            number++;
            row = r->rows[step->a]++;
            continue;
        }
        case OP_TEXT:
            text(r, step, row, filling);
            continue;
        case OP_DOUBLE:
            if (r->end - r->at < 8) {
                r->fault = FAULT_CUT;
                continue;
            }
            value = 0;
            for (int i = 7; i >= 0; i--)
                value = value << 8 | r->data[r->at + i];
            r->at += 8;
            if (filling)
                put(r, step->column, row, value);
            continue;
        case OP_BYTE:
            value = one_byte(r);
            goto store;
        case OP_ULEB:
            value = leb(r, 0, is_needed);
            goto store;
        case OP_SUMMED:
            value = total += leb(r, 0, is_needed);
            goto store;
        case OP_SLEB:
            value = leb(r, 1, is_needed);
            if (step->a)
                value &= r->program.mask;
            goto store;
        case OP_RELATIVE:
            value = (r->registers[step->a] + leb(r, 1, is_needed)) << step->b & r->program.mask;
            goto store;
        case OP_RUNNING:
            value = r->registers[step->a] = (r->registers[step->a] + leb(r, 1, is_needed)) & r->program.mask;
        store:
            if (step->slot >= 0)
                slots[step->slot] = value;
            if (filling)
                put(r, step->column, row, value);
            continue;
        default:
            continue; /* the reader has read it already */
        }
    }
}

#endif
