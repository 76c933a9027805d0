/* Records of finished files: without fillers, in the order of time.
 *
 * The chunks of a file are streams of records, each in the order of time but for few.  They are merged with a heap of
 * streams: the first stream gives records as long as these are not later than the next record of any other. */
#include "methods.h"

static const uint64_t size_mask = MAX_RECORD_WORDS * SIZE_UNIT;

/* Return the size of a record in words. */
static inline uint64_t size_of(uint64_t header) {
    return (header & size_mask) / SIZE_UNIT;
}

/* Return whether a record is filler. */
static inline int is_filler(uint64_t header) {
    return (header & ~size_mask) == FILLER_HEADER;
}

/* squeeze(words): move the records in a buffer of words together, over the fillers.  Returns how many words were looked
 * at and how many are left.  A record that goes beyond the end of the buffer is not looked at. */
static PyObject *squeeze(PyObject *Py_UNUSED(module), PyObject *buffer) {
    Py_buffer view;
    if (PyObject_GetBuffer(buffer, &view, PyBUF_WRITABLE))
        return NULL;
    uint64_t *words = view.buf, count = (uint64_t)view.len / 8, index = 0, left = 0;
    while (index < count) {
        uint64_t size = size_of(words[index]);
        if (!size || index + size > count)
            break;
        if (!is_filler(words[index])) {
            memmove(words + left, words + index, size * 8);
            left += size;
        }
        index += size;
    }
    PyBuffer_Release(&view);
    return Py_BuildValue("KK", (unsigned long long)index, (unsigned long long)left);
}

/* ---- Merging. ---- */

/* Records that follow each other: the next one is at the word `at`, of the time `tick`. */
typedef struct {
    const uint64_t *words;
    uint64_t at, count, tick;
} Stream;

/* Look at the next record, beyond fillers.  Returns 0 if there is none, or it does not end in the buffer.  A record
 * without a time has that of the one before it. */
static inline int look(Stream *stream) {
    while (stream->at < stream->count) {
        uint64_t header = stream->words[stream->at], size = size_of(header), type = header & TYPE_MASK;
        if (!size || size > stream->count - stream->at)
            return 0;
        if (LIKELY(!is_filler(header))) {
            if (size > 1 && (type == EVENT_HEADER || type == LOG_HEADER))
                stream->tick = stream->words[stream->at + 1];
            return 1;
        }
        stream->at += size;
    }
    return 0;
}

/* Return whether the next record of a stream goes before that of another one; of equal ones that of the first stream. */
static inline int precedes(const Stream *stream, const Stream *other) {
    return stream->tick != other->tick ? stream->tick < other->tick : stream < other;
}

/* Let the stream at a place of the heap go down to where it belongs. */
static void sift_down(Stream **heap, size_t count, size_t place) {
    for (size_t child; (child = 2 * place + 1) < count; place = child) {
        if (child + 1 < count && precedes(heap[child + 1], heap[child]))
            child++;
        if (precedes(heap[place], heap[child]))
            return;
        Stream *stream = heap[place];
        heap[place] = heap[child];
        heap[child] = stream;
    }
}

/* Where merged records go, and how many of them are events. */
typedef struct {
    uint64_t *words, count, room, events;
} Output;

/* Append words to the output. */
static void append(Output *output, const uint64_t *words, uint64_t count) {
    memcpy(output->words + output->count, words, count * 8);
    output->count += count;
}

/* Copy records of a stream until another one has earlier ones, or later ones than `limit` follow, or the output is full,
 * which `is_full` then says.  Returns whether the stream has more records. */
static int copy_run(Stream *stream, const Stream *other, uint64_t limit, Output *output, int *is_full) {
    uint64_t begin = stream->at, end = begin, size;
    int has_more = 1;
    do {
        if (stream->at != end) { /* over fillers */
            append(output, stream->words + begin, end - begin);
            begin = end = stream->at;
        }
        size = size_of(stream->words[end]);
        if ((*is_full = output->count + (end - begin) + size > output->room))
            break;
        output->events += (stream->words[end] & TYPE_MASK) == EVENT_HEADER;
        stream->at = end += size;
        has_more = look(stream);
    } while (has_more && stream->tick <= limit && (!other || precedes(stream, other)));
    append(output, stream->words + begin, end - begin);
    return has_more;
}

/* Merge streams up to a tick, or until the output is full. */
static void merge_streams(Stream *streams, Stream **heap, size_t count, uint64_t limit, Output *output) {
    size_t left = 0;
    int is_full = 0;
    for (size_t index = 0; index < count; index++)
        if (look(&streams[index]))
            heap[left++] = &streams[index];
    for (size_t place = left / 2; place-- > 0;)
        sift_down(heap, left, place);
    while (left && !is_full && heap[0]->tick <= limit) {
        const Stream *other = left > 2 && precedes(heap[2], heap[1]) ? heap[2] : left > 1 ? heap[1] : NULL;
        if (!copy_run(heap[0], other, limit, output, &is_full))
            heap[0] = heap[--left];
        sift_down(heap, left, 0);
    }
}

/* Release buffers. */
static void release(Py_buffer *views, Py_ssize_t count) {
    while (count-- > 0)
        PyBuffer_Release(&views[count]);
}

/* Merge the records of a tuple of buffers, see merge().  The output and the positions come after their views. */
static PyObject *merge_buffers(PyObject *buffers, uint64_t *positions, uint64_t limit, Output *output) {
    Py_ssize_t count = PyTuple_GET_SIZE(buffers), index = 0;
    PyObject *result = NULL;
    Stream *streams = PyMem_Calloc((size_t)count + 1, sizeof *streams);
    Stream **heap = PyMem_Calloc((size_t)count + 1, sizeof *heap);
    Py_buffer *views = PyMem_Calloc((size_t)count + 1, sizeof *views);
    if (!streams || !heap || !views)
        PyErr_NoMemory();
    else
        for (; index < count; index++) {
            if (PyObject_GetBuffer(PyTuple_GET_ITEM(buffers, index), &views[index], PyBUF_SIMPLE))
                break;
            streams[index] = (Stream){views[index].buf, positions[index], (uint64_t)views[index].len / 8, 0};
        }
    if (views && index == count && !PyErr_Occurred()) {
        Py_BEGIN_ALLOW_THREADS
        merge_streams(streams, heap, (size_t)count, limit, output);
        Py_END_ALLOW_THREADS
        for (Py_ssize_t stream = 0; stream < count; stream++)
            positions[stream] = streams[stream].at;
        result = Py_BuildValue("KK", (unsigned long long)output->count, (unsigned long long)output->events);
    }
    if (views)
        release(views, index);
    PyMem_Free(views);
    PyMem_Free(heap);
    PyMem_Free(streams);
    return result;
}

/* merge(buffers, positions, limit, output): merge the records of a tuple of buffers, without the fillers, from their
 * positions (words) on, in the order of time, up to the tick `limit`, until the output is full.  The positions are moved
 * on, to the first word that begins no whole record at most.  Returns how many words were written, and how many events
 * they hold. */
static PyObject *merge(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *buffers, *result = NULL;
    Py_buffer positions, output;
    unsigned long long limit;
    if (!PyArg_ParseTuple(args, "O!w*Kw*", &PyTuple_Type, &buffers, &positions, &limit, &output))
        return NULL;
    if (output.len / 8 < MAX_RECORD_WORDS || positions.len / 8 < PyTuple_GET_SIZE(buffers))
        PyErr_SetString(PyExc_ValueError, "the output holds a record, and each buffer has a position");
    else
        result = merge_buffers(buffers, positions.buf, limit, &(Output){output.buf, 0, (uint64_t)output.len / 8, 0});
    PyBuffer_Release(&positions);
    PyBuffer_Release(&output);
    return result;
}

PyMethodDef order_methods[] = {
    {"squeeze", squeeze, METH_O, NULL},
    {"merge", merge, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
