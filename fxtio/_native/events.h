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
    int fault, overrun, late;
} Reader;

/* Read a number of up to eight bytes at once, without a branch for each byte.  `bits` is set to the number of bits read,
 * 0 where that is not possible. */
#if defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
static ALWAYS_INLINE uint64_t short_number(Reader *r, int *bits) {
    *bits = 0;
    if (r->end - r->at < 8)
        return 0;
    uint64_t word;
    memcpy(&word, r->data + r->at, sizeof word);
    uint64_t last = ~word & 0x8080808080808080u;
    if (last == 0)
        return 0;
    int bytes = (__builtin_ctzll(last) >> 3) + 1;
    word &= ~(uint64_t)0 >> (64 - 8 * bytes);
    word = (word & 0x007f007f007f007fu) | (word & 0x7f007f007f007f00u) >> 1;
    word = (word & 0x00003fff00003fffu) | (word & 0x3fff00003fff0000u) >> 2;
    r->at += bytes;
    *bits = 7 * bytes;
    return (word & 0x000000000fffffffu) | (word & 0x0fffffff00000000u) >> 4;
}
#else
static ALWAYS_INLINE uint64_t short_number(Reader *r, int *bits) {
    (void)r;
    *bits = 0;
    return 0;
}
#endif

/* Read a number of any length, byte by byte; the last one continues the sign of a signed number. */
static uint64_t long_number(Reader *r, int is_signed) {
    uint64_t value = 0;
    int shift = 0;
    while (r->at < r->end) {
        uint8_t byte = r->data[r->at++];
        value |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
        if (byte < 0x80) {
            if (is_signed ? shift > 64 && byte != 0 && byte != 0x7f : shift > 63 && byte > 1)
                r->fault = FAULT_TOO_LONG;
            if (is_signed && shift < 64 && byte & 0x40)
                value |= ~(uint64_t)0 << shift;
            return value;
        }
        if (shift == 70) {
            r->fault = FAULT_TOO_LONG;
            return 0;
        }
    }
    r->fault = FAULT_CUT;
    return 0;
}

static ALWAYS_INLINE uint64_t uleb(Reader *r) {
    int bits;
    uint64_t value = short_number(r, &bits);
    return bits ? value : long_number(r, 0);
}

static ALWAYS_INLINE uint64_t sleb(Reader *r) {
    int bits;
    uint64_t value = short_number(r, &bits);
    if (!bits)
        return long_number(r, 1);
    uint64_t sign = (uint64_t)1 << (bits - 1);
    return (value ^ sign) - sign;
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
    if (uleb(r) == 0)
        return 1;
    r->at = here;
    return 0;
}

/* Read the record at `at`.  `filling` is a constant at each call. */
static ALWAYS_INLINE void record(Reader *r, const int filling) {
    int64_t here = r->at, place = r->entry[r->data[here]], kind = 0, row = 0;
    uint64_t left = 0, number = 0, total = 0, value, slots[MAX_SLOTS] = {0};
    int fresh = 0;
    r->at++;
    for (;;) {
        if (place < 0) {
            r->fault = FAULT_UNKNOWN;
            return;
        }
        const Step *step = &r->program.steps[place++];
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
            if (r->fault != FAULT_NONE)
                return;
            place = jump >= 0 && jump < r->jump_count ? r->jumps[jump] : -1;
            continue;
        }
        case OP_CLOCK:
            r->registers[step->a] += uleb(r);
            if (!filling && r->registers[step->a] >> 63)
                r->late = 1; /* the time needs more than 63 bits */
            if (r->fault != FAULT_NONE)
                return;
            continue;
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
            return;
        case OP_COUNT:
            number = total = 0;
            fresh = 1;
            left = step->a ? 0 : uleb(r);
            if (filling && !step->a)
                put(r, step->column, row, left);
            break;
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
            if (r->fault != FAULT_NONE)
                return;
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
            break;
        case OP_DOUBLE:
            if (r->end - r->at < 8) {
                r->fault = FAULT_CUT;
                return;
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
            value = uleb(r);
            goto store;
        case OP_SUMMED:
            value = total += uleb(r);
            goto store;
        case OP_SLEB:
            value = sleb(r);
            if (step->a)
                value &= r->program.mask;
            goto store;
        case OP_RELATIVE:
            value = (r->registers[step->a] + sleb(r)) << step->b & r->program.mask;
            goto store;
        case OP_RUNNING:
            value = r->registers[step->a] = (r->registers[step->a] + sleb(r)) & r->program.mask;
        store:
            if (r->fault != FAULT_NONE)
                return;
            if (step->slot >= 0)
                slots[step->slot] = value;
            if (filling)
                put(r, step->column, row, value);
            continue;
        default:
            continue; /* the reader has read it already */
        }
        if (r->fault != FAULT_NONE)
            return;
    }
}

#endif
