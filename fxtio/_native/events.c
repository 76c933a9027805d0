/* The kernels for byte streams in C: run a program over blocks of records, from bytes to columns and back.
 *
 * fxtio.codec.stream.steps makes programs from declarations, and constants.py describes each step.  Nothing here knows a
 * record.  The bytes may be hostile: every read is checked against the end of its block, every write against its column.
 * Programs come from this package, but each is checked once. */
#include "events_encode.h"

/* The arguments that `scan_stream` and `fill_stream` share. */
#define READING \
    READS("data", 1), READS("begin", 8), READS("end", 8), READS("registers", 8), READS("steps", 8), READS("places", 8), \
    UNSIGNED("mask")
enum { DATA, BEGINS, ENDS, REGISTERED, STEPPED, PLACES, MASK, READING_COUNT };

/* Check a program once, so that running it needs no checks of its own. */
static int program_open(Program *program, const Value *steps, Py_ssize_t registers, Py_ssize_t owners, uint64_t mask) {
    program->steps = steps->view.buf;
    program->count = steps->count / STEP_FIELDS;
    program->registers = registers;
    program->mask = mask;
    int sound = program->count > 0 && program->count * STEP_FIELDS == steps->count && registers <= MAX_REGISTERS;
    for (Py_ssize_t i = 0; sound && i < program->count; i++) {
        const Step *step = &program->steps[i];
        sound = step->op >= 0 && step->op < OP_MEMBERS && step->slot >= -1 && step->slot < MAX_SLOTS &&
                step->column >= -1;
        if (step->op == OP_CLOCK || step->op == OP_NOW || step->op == OP_RELATIVE || step->op == OP_RUNNING)
            sound = sound && step->a >= 0 && step->a < registers;
        if (step->op == OP_BEGIN || step->op == OP_LOOP)
            sound = sound && step->a >= 0 && step->a < owners;
        if (step->op == OP_BEGIN || step->op == OP_UNLESS || step->op == OP_JUMP || step->op == OP_LOOP ||
            step->op == OP_NEXT)
            sound = sound && step->b >= 0 && step->b < program->count;
        if (step->op == OP_UNLESS)
            sound = sound && step->slot >= 0;
        else if (step->op != OP_BYTE && step->op != OP_ULEB && step->op != OP_LOOP)
            sound = sound && step->slot < 0; /* only these set a slot */
        if (step->op == OP_RELATIVE)
            sound = sound && step->b >= 0 && step->b < 64;
        if (i == program->count - 1)
            sound = sound && step->op == OP_END;
    }
    if (!sound)
        PyErr_SetString(PyExc_ValueError, "the program is not sound");
    return sound ? 0 : -1;
}

static int places_sound(const Value *places, Py_ssize_t count) {
    const int64_t *place = places->view.buf;
    for (Py_ssize_t i = 0; i < places->count; i++)
        if (place[i] < -1 || place[i] >= count)
            return refuse_with("the program is not sound");
    return 0;
}

/* Take the arguments that `scan_stream` and `fill_stream` share. */
static int reader_open(Reader *reader, const Value *a, Py_ssize_t owners) {
    Py_ssize_t blocks = a[BEGINS].count;
    if (a[ENDS].count != blocks || a[PLACES].count < 256 || (blocks && a[REGISTERED].count % blocks))
        return refuse_with("lengths differ");
    const int64_t *begin = a[BEGINS].view.buf, *end = a[ENDS].view.buf;
    for (Py_ssize_t i = 0; i < blocks; i++)
        if (begin[i] < 0 || end[i] < begin[i] || end[i] > a[DATA].count)
            return refuse_with("a block is outside of the data");
    Py_ssize_t registers = blocks ? a[REGISTERED].count / blocks : 0;
    Program *program = &reader->program;
    if (program_open(program, &a[STEPPED], registers, owners, (uint64_t)a[MASK].number) < 0 ||
        places_sound(&a[PLACES], program->count) < 0)
        return -1;
    for (Py_ssize_t i = 0; i < program->count; i++)
        if (program->steps[i].op == OP_SUBTYPE && (program->steps[i].a < 0 || program->steps[i].a > a[PLACES].count - 256))
            return refuse_with("the program is not sound");
    reader->actions = PyMem_Calloc((size_t)(a[PLACES].count + program->count + 1), sizeof *reader->actions);
    if (reader->actions == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    reader->data = a[DATA].view.buf;
    return 0;
}

/* Read all records of a block; return where it stopped.  A copy of the reader, of which no function outside takes the
 * address, is in registers: each number begins where the one before it ends, and memory would be too slow for this. */
static ALWAYS_INLINE int64_t block(Reader *reader, const uint64_t *registers, int64_t begin, int64_t end, int filling) {
    Reader r = *reader;
    for (Py_ssize_t i = 0; i < r.program.registers; i++)
        r.registers[i] = registers[i];
    r.at = begin;
    r.end = end;
    r.last_word = end - 8;
    r.fault = FAULT_NONE;
    r.times = r.back = 0;
    while (r.at < end) {
        begin = r.at;
        record(&r, filling);
        if (r.fault != FAULT_NONE)
            break;
    }
    reader->fault = r.fault;
    reader->times = r.times;
    reader->back = r.back;
    reader->overrun = r.overrun;
    return r.fault != FAULT_NONE ? begin : r.at;
}

KERNEL_TAKING(scan_stream, READING, WRITES("counts", 8), WRITES("stop", 8), WRITES("fault", 1), WRITES("times", 1)) {
    enum { COUNTS = READING_COUNT, STOP, FAULT, TIMES };
    Py_ssize_t blocks = a[BEGINS].count, owners = blocks ? a[COUNTS].count / blocks : 0;
    Reader reader = {0};
    if (owners * blocks != a[COUNTS].count || a[STOP].count != blocks || a[FAULT].count != blocks ||
        a[TIMES].count != blocks)
        return refuse("lengths differ");
    if (reader_open(&reader, a, owners) < 0)
        return NULL;
    prepare(&reader, a[PLACES].view.buf, a[PLACES].count, NULL);
    const int64_t *begin = a[BEGINS].view.buf, *end = a[ENDS].view.buf;
    const uint64_t *registers = a[REGISTERED].view.buf;
    int64_t *counts = a[COUNTS].view.buf, *stop = a[STOP].view.buf;
    uint8_t *fault = a[FAULT].view.buf, *times = a[TIMES].view.buf;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < blocks; i++) {
        const uint64_t *first = registers + i * reader.program.registers;
        reader.rows = counts + i * owners;
        memset(reader.rows, 0, (size_t)owners * sizeof *counts);
        stop[i] = block(&reader, first, begin[i], end[i], 0);
        fault[i] = (uint8_t)reader.fault;
        if (reader.fault != FAULT_NONE) { /* again, without the rows of the broken record */
            memset(reader.rows, 0, (size_t)owners * sizeof *counts);
            block(&reader, first, begin[i], stop[i], 0);
        }
        times[i] = (uint8_t)((reader.times >> 63 ? TIME_LATE : 0) | (reader.back ? TIME_BACK : 0));
    }
    Py_END_ALLOW_THREADS
    PyMem_Free(reader.actions);
    return Py_NewRef(Py_None);
}

/* Open the columns of a tuple; those that are None stay without data. */
static int columns_open(Columns *columns, PyObject *tuple, int writable) {
    columns->count = 0;
    columns->views = NULL;
    if (!PyTuple_Check(tuple)) {
        PyErr_SetString(PyExc_TypeError, "columns: a tuple is needed");
        return -1;
    }
    Py_ssize_t count = PyTuple_GET_SIZE(tuple);
    columns->views = PyMem_Calloc((size_t)count + 1, sizeof(Py_buffer));
    columns->of = PyMem_Calloc((size_t)count + 1, sizeof(Column));
    if (columns->views == NULL || columns->of == NULL) {
        PyMem_Free(columns->views);
        PyMem_Free(columns->of);
        columns->views = NULL;
        PyErr_NoMemory();
        return -1;
    }
    for (; columns->count < count; columns->count++) {
        PyObject *object = PyTuple_GET_ITEM(tuple, columns->count);
        Py_buffer *view = &columns->views[columns->count];
        if (object == Py_None)
            continue;
        if (PyObject_GetBuffer(object, view, writable ? PyBUF_CONTIG : PyBUF_CONTIG_RO) < 0)
            return -1;
        columns->of[columns->count] = (Column){view->buf, view->len / view->itemsize, (int)view->itemsize};
        if (view->itemsize != 1 && view->itemsize != 8) {
            columns->count++;
            PyErr_SetString(PyExc_TypeError, "columns: items of 1 or 8 bytes are needed");
            return -1;
        }
    }
    return 0;
}

static void columns_close(Columns *columns) {
    if (columns->views == NULL)
        return;
    for (Py_ssize_t i = 0; i < columns->count; i++)
        if (columns->views[i].obj != NULL)
            PyBuffer_Release(&columns->views[i]);
    PyMem_Free(columns->views);
    PyMem_Free(columns->of);
    columns->views = NULL;
}

/* No step may name a column that is not in the tuple, or has items of another size: only bytes are stored as bytes. */
static int columns_sound(const Program *program, const Columns *columns) {
    for (Py_ssize_t i = 0; i < program->count; i++) {
        const Step *step = &program->steps[i];
        int width = step->op == OP_BYTE || step->op == OP_PUT ? 1 : 8;
        int64_t last = step->column + (step->op == OP_TEXT);
        if (last >= columns->count)
            return refuse_with("the program has more columns");
        for (int64_t number = step->column; number >= 0 && number <= last; number++)
            if (columns->of[number].data != NULL && columns->of[number].width != width)
                return refuse_with("a column has items of another size");
    }
    return 0;
}

KERNEL_TAKING(fill_stream, READING, NUMBER("base"), READS("first", 8), OBJECT("columns")) {
    enum { BASE = READING_COUNT, FIRST, COLUMNS };
    Columns columns = {0};
    Py_ssize_t blocks = a[BEGINS].count, owners = blocks ? a[FIRST].count / blocks : 0;
    Reader reader = {0};
    int64_t *rows = PyMem_Calloc((size_t)owners + 1, sizeof *rows);
    int sound = rows != NULL && reader_open(&reader, a, owners) == 0 &&
                columns_open(&columns, a[COLUMNS].object, 1) == 0 && columns_sound(&reader.program, &columns) == 0;
    int faulty = 0;
    if (sound) {
        const int64_t *begin = a[BEGINS].view.buf, *stop = a[ENDS].view.buf, *first = a[FIRST].view.buf;
        const uint64_t *registers = a[REGISTERED].view.buf;
        prepare(&reader, a[PLACES].view.buf, a[PLACES].count, columns.of);
        reader.rows = rows;
        reader.base = a[BASE].number;
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t i = 0; i < blocks && !faulty; i++) {
            memcpy(rows, first + i * owners, (size_t)owners * sizeof *rows);
            block(&reader, registers + i * reader.program.registers, begin[i], stop[i], 1);
            faulty = reader.fault != FAULT_NONE || reader.overrun;
        }
        Py_END_ALLOW_THREADS
        if (faulty)
            PyErr_SetString(PyExc_ValueError, "a fault, or more rows than the columns have room for");
    }
    PyMem_Free(reader.actions);
    PyMem_Free(rows);
    columns_close(&columns);
    if (!sound && !PyErr_Occurred())
        PyErr_NoMemory();
    return sound && !faulty ? Py_NewRef(Py_None) : NULL;
}

KERNEL_TAKING(encode_stream, READS("order", 1), INDEX("start"), READS("starts", 8), READS("kinds", 8),
              WRITES("registers", 8), READS("steps", 8), UNSIGNED("mask"), OBJECT("columns"), READS("texts", 1),
              WRITES("rows", 8), WRITES("out", 1)) {
    enum { ORDER, START, STARTS, KINDS, REGISTERS, STEPS, ADDRESS_MASK, COLUMNS, TEXTS, ROWS, OUT };
    int64_t number = a[START].number;
    Columns columns = {0};
    Writer writer = {0};
    int64_t *rows_before = PyMem_Calloc((size_t)a[ROWS].count + 1, sizeof *rows_before);
    int sound = rows_before != NULL &&
                program_open(&writer.program, &a[STEPS], a[REGISTERS].count, a[ROWS].count,
                             (uint64_t)a[ADDRESS_MASK].number) == 0 &&
                places_sound(&a[STARTS], writer.program.count) == 0 && places_sound(&a[KINDS], a[ROWS].count) == 0 &&
                columns_open(&columns, a[COLUMNS].object, 0) == 0 && columns_sound(&writer.program, &columns) == 0;
    if (sound && (number < 0 || a[STARTS].count != a[KINDS].count)) {
        PyErr_SetString(PyExc_ValueError, "lengths differ");
        sound = 0;
    }
    if (sound) {
        writer.columns = columns.of;
        writer.texts = a[TEXTS].view.buf;
        writer.text_count = a[TEXTS].count;
        writer.registers = a[REGISTERS].view.buf;
        writer.rows = a[ROWS].view.buf;
        writer.owners = a[ROWS].count;
        writer.rows_before = rows_before;
        writer.out = a[OUT].view.buf;
        writer.room = a[OUT].count;
        Py_BEGIN_ALLOW_THREADS
        number = encode_all(&writer, a[ORDER].view.buf, number, a[ORDER].count, a[STARTS].view.buf, a[KINDS].view.buf,
                          a[STARTS].count);
        Py_END_ALLOW_THREADS
        if (writer.error != NULL)
            PyErr_SetString(PyExc_ValueError, writer.error);
    }
    PyMem_Free(rows_before);
    columns_close(&columns);
    if (!sound && !PyErr_Occurred())
        PyErr_NoMemory();
    return sound && writer.error == NULL ? Py_BuildValue("LL", (long long)number, (long long)writer.used) : NULL;
}
