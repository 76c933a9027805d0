/* Programs, and reading one record: the first inner loop of events.c. */
#ifndef FXTIO_EVENTS_H
#define FXTIO_EVENTS_H
#include "constants.h"
#include "kernels.h"
#include <string.h>

#if defined(__GNUC__)
#define ALWAYS_INLINE inline __attribute__((always_inline))
#define UNREACHABLE __builtin_unreachable()
#else
#define ALWAYS_INLINE inline
#define UNREACHABLE break
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

/* A step made ready for reading.  A step with nothing to do is as the one after it. */
typedef struct Action {
    const struct Action *next, *other; /* what comes after it, NULL for nothing; where it may lead instead */
    Column column;                     /* without data if there is none to fill */
    int64_t a, b;
    int op, slot;
} Action;

/* Read numbers that nobody needs, `a` of them; the bits of `b`, the lowest for the first, say which ones have a sign.
 * A CLOCK before it reads them, too, if it can: as many as its `b`. */
enum { OP_SKIP = OP_MEMBERS };

typedef struct {
    Program program;
    Action *actions; /* the first ones of records, by their first byte or their subtype, then those of all steps */
    const Action *next;
    const Column *columns;
    const uint8_t *data;
    int64_t at, end, last_word, base; /* the last place where there are eight bytes is `last_word` */
    uint64_t registers[MAX_REGISTERS], slots[MAX_SLOTS];
    int64_t *rows, row, record_row;   /* the next rows; that of the item or record, and that of the record around it */
    uint64_t items, item, total;      /* of a list: how many there are, and were read; the sum of those */
    uint64_t times, back;             /* the bits of all times, and how many of them go back */
    int fault, overrun;
} Reader;

/* Stop at a fault. */
static ALWAYS_INLINE void fail(Reader *r, int fault) {
    r->fault = fault;
    r->next = NULL;
}

/* Get the next eight bytes; return the top bits of those that end a number, 0 if none does or there are not so many. */
static ALWAYS_INLINE uint64_t ends(const Reader *r, uint64_t *word) {
#if defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (r->at > r->last_word)
        return 0;
    memcpy(word, r->data + r->at, sizeof *word);
    return ~*word & 0x8080808080808080u;
#else
    (void)r, (void)word;
    return 0;
#endif
}

/* Return how many bytes there are up to the first end. */
static ALWAYS_INLINE uint32_t bytes_to(uint64_t ends) {
#if defined(__GNUC__)
    return ((uint32_t)__builtin_ctzll(ends) >> 3) + 1;
#else
    return (void)ends, 0;
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

static ALWAYS_INLINE uint64_t any_number(Reader *r, int is_signed) {
    Number number = long_number(r->data, r->at, r->end, is_signed);
    r->at = number.after;
    if (number.fault != FAULT_NONE)
        fail(r, number.fault);
    return number.value;
}

/* Put the lower 7 bits of four bytes together. */
static ALWAYS_INLINE uint64_t four_groups(uint32_t word) {
    word = (word & 0x7f7f7f7fu) - ((word & 0x7f007f00u) >> 1);
    return (word & 0x3fffu) | (word & 0x3fff0000u) >> 2;
}

/* Read a number; `word` and `last` are what `ends` found. */
static ALWAYS_INLINE uint64_t number(Reader *r, uint64_t word, uint64_t last, int is_signed) {
    if (last == 0)
        return any_number(r, is_signed);
    uint32_t bytes = bytes_to(last);
    r->at += bytes;
    word &= last ^ (last - 1);
    uint64_t value = four_groups((uint32_t)word), sign = is_signed ? (uint64_t)1 << (7 * bytes - 1) : 0;
    if (bytes > 4)
        value |= four_groups((uint32_t)(word >> 32)) << 28;
    return (value ^ sign) - sign;
}

static ALWAYS_INLINE uint64_t leb(Reader *r, int is_signed) {
    uint64_t word, last = ends(r, &word);
    return number(r, word, last, is_signed);
}

/* Go past the number at `from` and `count` more at once, without a branch for each size.  Return whether this is
 * possible: whether `last`, which `ends` found at `from`, has the ends of all of them. */
static ALWAYS_INLINE int skip_at_once(Reader *r, int64_t from, uint64_t last, int64_t count) {
    for (; count > 0 && last != 0; count--)
        last &= last - 1;
    if (last != 0)
        r->at = from + bytes_to(last);
    return last != 0;
}

static ALWAYS_INLINE void skip(Reader *r, int64_t count, int64_t is_signed) {
    uint64_t word, last = ends(r, &word);
    if (skip_at_once(r, r->at, last, count - 1))
        return;
    for (; count > 0 && r->fault == FAULT_NONE; count--, is_signed >>= 1)
        leb(r, is_signed & 1);
}

static ALWAYS_INLINE uint8_t one_byte(Reader *r) {
    if (r->at >= r->end) {
        fail(r, FAULT_CUT);
        return 0;
    }
    return r->data[r->at++];
}

static ALWAYS_INLINE uint64_t eight_bytes(Reader *r) {
    uint64_t value = 0;
    if (r->end - r->at < 8) {
        fail(r, FAULT_CUT);
        return 0;
    }
    for (int i = 7; i >= 0; i--)
        value = value << 8 | r->data[r->at + i];
    r->at += 8;
    return value;
}

static ALWAYS_INLINE void put(Reader *r, Column column, uint64_t value) {
    if ((uint64_t)r->row < (uint64_t)column.count)
        ((uint64_t *)column.data)[r->row] = value;
    else if (column.data != NULL)
        r->overrun = 1;
}

static ALWAYS_INLINE void put_byte(Reader *r, Column column, uint8_t value) {
    if ((uint64_t)r->row < (uint64_t)column.count)
        ((uint8_t *)column.data)[r->row] = value;
    else if (column.data != NULL)
        r->overrun = 1;
}

static ALWAYS_INLINE void text(Reader *r, const Action *action, int filling) {
    if (action->a) {
        uint8_t mark = one_byte(r);
        if (mark > 1)
            fail(r, FAULT_FORM);
        if (r->fault != FAULT_NONE || mark == 0)
            return;
    }
    const uint8_t *stop = r->at < r->end ? memchr(r->data + r->at, 0, (size_t)(r->end - r->at)) : NULL;
    if (stop == NULL) {
        fail(r, FAULT_NO_END);
        return;
    }
    int64_t after = stop - r->data;
    if (filling && action->b >= 0) {
        put(r, r->columns[action->b], (uint64_t)r->at);
        put(r, r->columns[action->b + 1], (uint64_t)(after - r->at));
    }
    r->at = after + 1;
}

/* Return whether the next number is 0, which ends a list; only then it is read. */
static ALWAYS_INLINE int list_ends(Reader *r) {
    int64_t here = r->at;
    if (leb(r, 0) == 0)
        return 1;
    r->at = here;
    return 0;
}

/* Go on with the next item of a list, a row of its own, or past the list. */
static ALWAYS_INLINE void loop(Reader *r, const Action *action) {
    int ends_with_zero = action->slot == 1, done = ends_with_zero ? list_ends(r) : r->item == r->items;
    if (!ends_with_zero && r->item == 0 && r->items > (uint64_t)(r->end - r->at))
        fail(r, FAULT_BEYOND);
    if (r->fault != FAULT_NONE)
        return;
    if (!done) {
        r->item++;
        r->row = r->rows[action->a]++;
        return;
    }
    r->row = r->record_row;
    r->next = action->other;
    if (ends_with_zero)
        put(r, action->column, r->item);
}

/* Go on with the case below if it is that of the next step; most records begin with the same ones. */
#define GO_ON_WITH(usual)                        \
    if (r->next == NULL || r->next->op != usual) \
        continue;                                \
    action = r->next;                            \
    r->next = action->next

/* Read the record at `at`, up to its end or a fault.  `filling` is a constant at each call. */
static ALWAYS_INLINE void record(Reader *r, const int filling) {
    const int64_t here = r->at++;
    uint64_t value;
    r->next = &r->actions[r->data[here]];
    do {
        const Action *action = r->next;
        r->next = action->next;
        switch (action->op) {
        case OP_END:
            r->next = NULL;
            continue;
        case OP_BEGIN:
            r->row = r->rows[action->a]++;
            if (filling)
                put(r, action->column, (uint64_t)(here + r->base));
            GO_ON_WITH(OP_CLOCK); /* fall through */
        case OP_CLOCK: {
            const int64_t from = r->at;
            uint64_t word, last = ends(r, &word);
            value = r->registers[action->a];
            r->registers[action->a] = value + number(r, word, last, 0);
            if (!filling) {
                r->times |= r->registers[action->a];
                r->back += r->registers[action->a] < value;
                if (action->b && skip_at_once(r, from, last, action->b))
                    r->next = action->other;
                continue;
            }
            GO_ON_WITH(OP_NOW);
        } /* fall through */
        case OP_NOW:
            put(r, action->column, r->registers[action->a]);
            GO_ON_WITH(OP_PUT); /* fall through */
        case OP_PUT:
            put_byte(r, action->column, (uint8_t)action->a);
            continue;
        case OP_SUBTYPE:
            value = one_byte(r);
            if (r->fault == FAULT_NONE)
                r->next = &r->actions[action->a + (int64_t)value];
            continue;
        case OP_UNLESS:
            if (r->slots[action->slot] != (uint64_t)action->a)
                r->next = action->other;
            continue;
        case OP_NEXT:
        case OP_JUMP:
            r->next = action->other;
            continue;
        case OP_FAIL:
            fail(r, (int)action->a);
            continue;
        case OP_COUNT:
            r->record_row = r->row;
            r->item = r->total = 0;
            if (action->a)
                continue;
            r->items = leb(r, 0);
            put(r, action->column, r->items);
            continue;
        case OP_LOOP:
            loop(r, action);
            continue;
        case OP_TEXT:
            text(r, action, filling);
            continue;
        case OP_DOUBLE:
            value = eight_bytes(r);
            put(r, action->column, value);
            continue;
        case OP_SKIP:
            skip(r, action->a, action->b);
            continue;
        case OP_BYTE:
            value = one_byte(r);
            if (action->slot >= 0)
                r->slots[action->slot] = value;
            put_byte(r, action->column, (uint8_t)value);
            continue;
        case OP_ULEB:
            value = leb(r, 0);
            if (action->slot >= 0)
                r->slots[action->slot] = value;
            put(r, action->column, value);
            continue;
        case OP_SUMMED:
            r->total += leb(r, 0);
            put(r, action->column, r->total);
            continue;
        case OP_SLEB:
            value = leb(r, 1);
            put(r, action->column, action->a ? value & r->program.mask : value);
            continue;
        case OP_RELATIVE:
            value = (r->registers[action->a] + leb(r, 1)) << action->b & r->program.mask;
            put(r, action->column, value);
            continue;
        case OP_RUNNING:
            value = r->registers[action->a] = (r->registers[action->a] + leb(r, 1)) & r->program.mask;
            put(r, action->column, value);
            continue;
        default:
            UNREACHABLE;
        }
    } while (r->next != NULL);
}

/* Return whether a step reads a number with a sign. */
static int is_signed(int64_t op) {
    return op == OP_SLEB || op == OP_RELATIVE || op == OP_RUNNING;
}

/* Return whether a number may be skipped, if nobody needs it.  To count, running values are not needed either. */
static int may_skip(int64_t op, int filling) {
    return op == OP_ULEB || op == OP_SUMMED || (is_signed(op) && (op != OP_RUNNING || !filling));
}

/* Make a step ready; the one after it is already.  There are no columns to count. */
static void prepare_step(Action *actions, const Step *step, Action *action, const Column *columns) {
    const Action *after = action + 1;
    *action = (Action){.next = after, .a = step->a, .b = step->b, .op = (int)step->op, .slot = (int)step->slot};
    if (columns != NULL && step->column >= 0)
        action->column = columns[step->column];
    const int is_needed = action->column.data != NULL || step->slot >= 0;
    switch (step->op) {
    case OP_CONST: /* the reader has read it already */
        *action = *after;
        break;
    case OP_NOW:
    case OP_PUT:
        if (!is_needed)
            *action = *after;
        break;
    case OP_CLOCK:
        if (columns == NULL && after->op == OP_SKIP) {
            action->b = after->a;
            action->other = after->next;
        }
        break;
    case OP_UNLESS:
    case OP_JUMP:
    case OP_LOOP:
    case OP_NEXT:
        action->other = &actions[step->b];
        break;
    case OP_FAIL:
        action->a = FAULT_FORM;
        break;
    case OP_TEXT: /* which has two columns */
        action->b = columns != NULL ? step->column : -1;
        break;
    default:
        if (!is_needed && may_skip(step->op, columns != NULL)) {
            *action = after->op == OP_SKIP && after->a < 63 ? *after : (Action){.next = after, .op = OP_SKIP};
            action->a++;
            action->b = action->b << 1 | is_signed(step->op);
        }
    }
}

/* Make a program ready: to fill columns, or to count if there are none. */
static void prepare(Reader *reader, const int64_t *place, Py_ssize_t places, const Column *columns) {
    const Program *program = &reader->program;
    Action *actions = reader->actions + places;
    reader->columns = columns;
    for (Py_ssize_t i = program->count - 1; i >= 0; i--)
        prepare_step(actions, &program->steps[i], &actions[i], columns);
    for (Py_ssize_t i = 0; i < program->count; i++) { /* leave out steps that only lead elsewhere */
        Action *action = &actions[i];
        if (action->op == OP_NEXT)
            *action = *action->other;
        if (action->next != NULL && action->next->op == OP_END)
            action->next = NULL;
        if (action->other != NULL && action->other->op == OP_END)
            action->other = NULL;
    }
    for (Py_ssize_t i = 0; i < places; i++)
        reader->actions[i] = place[i] < 0 ? (Action){.op = OP_FAIL, .a = FAULT_UNKNOWN} : actions[place[i]];
}

#endif
