/* The kernel that puts rows of text together from columns of byte strings. */
#include <string.h>

#include "kernels.h"

/* The arrays of a column: bytes, and for each row where its string begins and its size; or one string for all rows. */
enum { DATA, START, SIZE, PER_COLUMN };

enum { OUT, ENDS, FIRST_COLUMN };

/* Open the arrays of all columns.  Returns how many columns are open, with an exception set if not all are. */
static Py_ssize_t columns_open(Value *columns, PyObject *const *args, Py_ssize_t count, Py_ssize_t rows) {
    static const Argument takes[] = {READS("data", 1), READS("start", 8), READS("size", 8)};
    for (Py_ssize_t i = 0; i < count; i++) {
        Value *column = columns + PER_COLUMN * i;
        if (call_open(column, "a column", takes, PER_COLUMN, args + PER_COLUMN * i, PER_COLUMN) < 0)
            return i;
        if (column[START].count != column[SIZE].count || (column[START].count != rows && column[START].count != 1)) {
            refuse("lengths differ");
            return i + 1;
        }
    }
    return count;
}

/* Copy the strings of all rows.  Returns the number of bytes, or -1 if a range is not within its buffer. */
static int64_t copy_strings(const Value *columns, Py_ssize_t count, const Value *out, const Value *ends) {
    uint8_t *bytes = out->view.buf;
    int64_t *end = ends->view.buf, position = 0;
    for (Py_ssize_t row = 0; row < ends->count; row++) {
        for (const Value *column = columns; column < columns + PER_COLUMN * count; column += PER_COLUMN) {
            Py_ssize_t place = column[START].count == 1 ? 0 : row;
            int64_t start = ((const int64_t *)column[START].view.buf)[place];
            int64_t size = ((const int64_t *)column[SIZE].view.buf)[place];
            if (size == 0)
                continue;
            if (start < 0 || size < 0 || start > column[DATA].count || size > column[DATA].count - start ||
                size > out->count - position)
                return -1;
            memcpy(bytes + position, (const uint8_t *)column[DATA].view.buf + start, (size_t)size);
            position += size;
        }
        end[row] = position;
    }
    return position;
}

/* Put rows together. */
KERNEL(interleave) {
    static const Argument takes[] = {WRITES("out", 1), WRITES("ends", 8)};
    if (nargs < FIRST_COLUMN || (nargs - FIRST_COLUMN) % PER_COLUMN)
        return PyErr_Format(PyExc_TypeError, "interleave takes 2 arguments, and 3 for each column");
    Value a[FIRST_COLUMN];
    if (call_open(a, __func__, takes, FIRST_COLUMN, args, FIRST_COLUMN) < 0)
        return NULL;
    Py_ssize_t count = (nargs - FIRST_COLUMN) / PER_COLUMN, opened = 0;
    int64_t written = -1;
    Value *columns = PyMem_Calloc((size_t)(nargs + 1), sizeof(Value));
    if (columns == NULL)
        PyErr_NoMemory();
    else
        opened = columns_open(columns, args + FIRST_COLUMN, count, a[ENDS].count);
    if (!PyErr_Occurred()) {
        Py_BEGIN_ALLOW_THREADS
        written = copy_strings(columns, count, &a[OUT], &a[ENDS]);
        Py_END_ALLOW_THREADS
        if (written < 0)
            refuse("a string is not within its buffer, or there is no room for it");
    }
    for (Py_ssize_t i = 0; i < opened; i++)
        call_close(columns + PER_COLUMN * i, PER_COLUMN, NULL);
    PyMem_Free(columns);
    return call_close(a, FIRST_COLUMN, written < 0 ? NULL : PyLong_FromLongLong(written));
}
