/* Writing one record: the second inner loop of events.c. */
#ifndef FXTIO_EVENTS_ENCODE_H
#define FXTIO_EVENTS_ENCODE_H
#include "events.h"

typedef struct {
    Program program;
    const Column *columns;
    const uint8_t *texts;
    int64_t text_count;
    uint64_t *registers;
    int64_t *rows;
    Py_ssize_t owners;
    uint8_t *out;
    int64_t room, used;
    int64_t *rows_before; /* the rows before the record that is being written */
    const char *error;
    int full;
} Writer;

static ALWAYS_INLINE void write_byte(Writer *w, uint8_t byte) {
    if (w->used == w->room)
        w->full = 1;
    else
        w->out[w->used++] = byte;
}

static ALWAYS_INLINE void write_uleb(Writer *w, uint64_t value) {
    for (; value > 0x7f; value >>= 7)
        write_byte(w, (uint8_t)(value | 0x80));
    write_byte(w, (uint8_t)value);
}

/* A signed number.  C does not promise that a shift to the right keeps the sign, hence the complement. */
static ALWAYS_INLINE void write_sleb(Writer *w, uint64_t value) {
    uint64_t sign = value >> 63 ? ~(uint64_t)0 : 0;
    while ((value ^ sign) > 0x3f) {
        write_byte(w, (uint8_t)(value | 0x80));
        value = ((value ^ sign) >> 7) ^ sign;
    }
    write_byte(w, (uint8_t)(value & 0x7f));
}

static ALWAYS_INLINE uint64_t get(Writer *w, int64_t number, int64_t row) {
    const Column *column = number < 0 ? NULL : &w->columns[number];
    if (column == NULL || column->data == NULL || row < 0 || row >= column->count) {
        w->error = "a column or a row of it is missing";
        return 0;
    }
    return column->width == 8 ? ((const uint64_t *)column->data)[row] : ((const uint8_t *)column->data)[row];
}

static void write_text(Writer *w, const Step *step, int64_t row) {
    int64_t place = (int64_t)get(w, step->column, row), length = (int64_t)get(w, step->column + 1, row);
    if (w->error != NULL)
        return;
    if (step->a) {
        write_byte(w, place >= 0);
        if (place < 0)
            return;
    }
    if (place < 0 || length < 0 || place > w->text_count || length > w->text_count - place) {
        w->error = "a text is outside of all texts";
        return;
    }
    if (length > w->room - w->used) {
        w->full = 1;
        return;
    }
    memcpy(w->out + w->used, w->texts + place, (size_t)length);
    w->used += length;
    write_byte(w, 0);
}

/* An address as a difference, wrapped to the size of an address. */
static ALWAYS_INLINE void write_address(Writer *w, uint64_t value, int64_t shift, uint64_t base) {
    uint64_t mask = w->program.mask, half = (mask >> 1) + 1;
    if (value > mask || value >> shift << shift != value)
        w->error = "an address that does not fit";
    write_sleb(w, (((value >> shift) - base + half) & mask) - half);
}

static ALWAYS_INLINE void write_record(Writer *w, int64_t place, int64_t kind) {
    int64_t row = w->rows[kind];
    uint64_t left = 0, total = 0, value, slots[MAX_SLOTS] = {0};
    while (w->error == NULL && !w->full) {
        const Step *step = &w->program.steps[place++];
        switch (step->op) {
        case OP_END:
            w->rows[kind]++;
            return;
        case OP_CONST:
            write_byte(w, (uint8_t)step->a);
            continue;
        case OP_CLOCK:
            value = get(w, step->column, row);
            write_uleb(w, value - w->registers[step->a]);
            w->registers[step->a] = value;
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
            w->error = "the encoding of a value is not known";
            return;
        case OP_COUNT:
            left = get(w, step->column, row);
            total = 0;
            if (left >> 63)
                w->error = "a list of less than no items";
            if (!step->a)
                write_uleb(w, left);
            continue;
        case OP_LOOP:
            if (left == 0) {
                row = w->rows[kind];
                place = step->b;
                if (step->slot == 1)
                    write_byte(w, 0);
                continue;
            }
            left--;
            row = w->rows[step->a]++;
            continue;
        case OP_TEXT:
            write_text(w, step, row);
            continue;
        case OP_BEGIN:
        case OP_NOW:
        case OP_PUT:
        case OP_SUBTYPE:
            continue;
        default:
            break;
        }
        value = get(w, step->column, row);
        if (step->slot >= 0)
            slots[step->slot] = value;
        switch (step->op) {
        case OP_BYTE:
            write_byte(w, (uint8_t)value);
            break;
        case OP_ULEB:
            write_uleb(w, value);
            break;
        case OP_SUMMED:
            write_uleb(w, value - total);
            total = value;
            break;
        case OP_DOUBLE:
            for (int i = 0; i < 8; i++)
                write_byte(w, (uint8_t)(value >> 8 * i));
            break;
        case OP_SLEB:
            if (step->a)
                write_address(w, value, 0, 0);
            else
                write_sleb(w, value);
            break;
        case OP_RELATIVE:
            write_address(w, value, step->b, w->registers[step->a]);
            break;
        default: /* RUNNING */
            write_address(w, value, 0, w->registers[step->a]);
            w->registers[step->a] = value;
        }
    }
}

/* Write records until there is no room for one; return its number. */
static int64_t encode_all(Writer *w, const uint8_t *order, int64_t number, int64_t count,
                             const int64_t *starts, const int64_t *kinds, Py_ssize_t lines) {
    uint64_t registers[MAX_REGISTERS];
    for (; number < count; number++) {
        uint8_t line = order[number];
        if (line >= lines || starts[line] < 0 || kinds[line] < 0) {
            w->error = "a record without a line";
            break;
        }
        memcpy(registers, w->registers, sizeof *registers * (size_t)w->program.registers);
        memcpy(w->rows_before, w->rows, sizeof *w->rows * (size_t)w->owners);
        int64_t used = w->used;
        write_record(w, starts[line], kinds[line]);
        if (w->full) {
            w->used = used;
            memcpy(w->registers, registers, sizeof *registers * (size_t)w->program.registers);
            memcpy(w->rows, w->rows_before, sizeof *w->rows * (size_t)w->owners);
            break;
        }
        if (w->error != NULL)
            break;
    }
    return number;
}

#endif
