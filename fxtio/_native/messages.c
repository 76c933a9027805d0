/* The kernel that reads fields of many messages of protobuf.
 *
 * It knows no message: a table says what becomes of a field by its tag.  The content of a file is not trusted. */
#include <string.h>

#include "constants.h"
#include "kernels.h"

enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5, MAX_VARINT = 10 };

/* Read a number.  Returns how many bytes it has, 0 if it is cut or too long. */
static inline int64_t varint(const uint8_t *at, const uint8_t *end, uint64_t *value) {
    if (at < end && *at < 0x80) {
        *value = *at;
        return 1;
    }
    uint64_t result = 0;
    int64_t room = Py_MIN(end - at, MAX_VARINT);
    for (int64_t i = 0; i < room; i++) {
        result |= (uint64_t)(at[i] & 0x7F) << 7 * i;
        if (at[i] < 0x80) {
            *value = result;
            return i + 1;
        }
    }
    return 0;
}

/* Read a field: its tag and its value, of bytes their size.  Returns where its value ends (of bytes: where they begin),
 * NULL if it is no field or cut. */
static inline const uint8_t *field_read(const uint8_t *at, const uint8_t *end, uint64_t *tag, uint64_t *value) {
    int64_t size = varint(at, end, tag);
    if (size == 0 || *tag >> 3 == 0)
        return NULL;
    at += size;
    int64_t width = (*tag & 7) == WIRE_FIXED64 ? 8 : 4;
    switch (*tag & 7) {
    case WIRE_VARINT:
        size = varint(at, end, value);
        return size == 0 ? NULL : at + size;
    case WIRE_BYTES:
        size = varint(at, end, value);
        return size == 0 || *value > (uint64_t)(end - at - size) ? NULL : at + size;
    case WIRE_FIXED64:
    case WIRE_FIXED32:
        if (width > end - at)
            return NULL;
        *value = 0;
        memcpy(value, at, (size_t)width); /* on machines whose lowest byte is the first one, as everywhere here */
        return at + width;
    }
    return NULL;
}

typedef struct {
    const uint8_t *data;
    const int8_t *table;
    uint64_t tags; /* the length of the table */
    uint64_t *values, *mark, *listed;
    int64_t *listed_row;
    Py_ssize_t rows, room, written;
} Reading;

/* Read the fields of a message.  Returns where it ends, or the field that is damaged, or NULL if there is no room. */
static const uint8_t *message_read(Reading *r, Py_ssize_t row, const uint8_t *at, const uint8_t *end) {
    uint64_t mark = 0, tag, value;
    while (at < end) {
        const uint8_t *next = field_read(at, end, &tag, &value);
        if (next == NULL) {
            mark |= 1ULL << MARK_DAMAGED;
            break;
        }
        at = next;
        if ((tag & 7) == WIRE_BYTES) {
            at += value;
            value = (uint64_t)(next - r->data) | value << 32;
        }
        int8_t use = tag < r->tags ? r->table[tag] : USE_OTHER;
        if (use >= 0) {
            mark |= mark >> use & 1 ? 1ULL << MARK_REPEATED : 1ULL << use;
            r->values[use * r->rows + row] = value;
        } else if (use == USE_LISTED) {
            if (r->written == r->room)
                return NULL;
            r->listed_row[r->written] = row;
            r->listed[r->written++] = value;
        } else if (use == USE_OTHER)
            mark |= 1ULL << MARK_OTHER;
    }
    r->mark[row] = mark;
    return at;
}

/* Read fields of messages to columns. */
KERNEL_TAKING(read_fields, READS("data", 1), READS("begin", 8), READS("end", 8), READS("table", 1), WRITES("values", 8),
              WRITES("marks", 8), WRITES("listed_row", 8), WRITES("listed", 8)) {
    enum { DATA, BEGIN, END, TABLE, VALUES, MARKS, LISTED_ROW, LISTED };
    const int64_t *begin = a[BEGIN].view.buf, *end = a[END].view.buf;
    const int8_t *table = a[TABLE].view.buf;
    Py_ssize_t rows = a[BEGIN].count, columns = rows ? a[VALUES].count / rows : MARK_REPEATED;
    if (a[END].count != rows || a[MARKS].count != rows || a[LISTED_ROW].count != a[LISTED].count)
        return refuse("lengths differ");
    if (a[DATA].count > UINT32_MAX || columns > MARK_REPEATED)
        return refuse("too many bytes or columns");
    for (Py_ssize_t i = 0; i < a[TABLE].count; i++)
        if (table[i] >= columns)
            return refuse("a field has no column");
    for (Py_ssize_t i = 0; i < rows; i++)
        if (begin[i] < 0 || begin[i] > end[i] || end[i] > a[DATA].count)
            return refuse("a message is not within the bytes");
    Reading r = {a[DATA].view.buf, table, (uint64_t)a[TABLE].count, a[VALUES].view.buf, a[MARKS].view.buf,
                 a[LISTED].view.buf, a[LISTED_ROW].view.buf, rows, a[LISTED].count, 0};
    const uint8_t *at = r.data;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < rows && at != NULL; i++)
        at = message_read(&r, i, r.data + begin[i], r.data + end[i]);
    Py_END_ALLOW_THREADS
    return at == NULL ? refuse("there is no room") : Py_BuildValue("nn", r.written, (Py_ssize_t)(at - r.data));
}
