/* Kernels for files of numbers in chunks: a head of a few numbers, one of which is the count of those that follow.
 *
 * The functions know no layout: the size of a head, places in it and steps are arguments.
 * Neither the content of a file nor the rows that are passed in are trusted. */
#include "kernels.h"

/* Walk chunks that begin with a head. */
KERNEL_TAKING(walk_chunks, READS("numbers", 4), INDEX("start"), INDEX("size"), INDEX("count_place"),
              INDEX("value_place"), WRITES("at", 8), WRITES("count", 8), WRITES("value", 8)) {
    enum { NUMBERS, START, SIZE, COUNT_PLACE, VALUE_PLACE, AT, COUNT, VALUE };
    int64_t index = a[START].number, size = a[SIZE].number;
    int64_t count_place = a[COUNT_PLACE].number, value_place = a[VALUE_PLACE].number;
    if (index < 0 || count_place < 0 || value_place < 0 || size <= count_place || size <= value_place)
        return refuse("negative places, or a place is outside of the head");
    const uint32_t *numbers = a[NUMBERS].view.buf;
    int64_t *at = a[AT].view.buf, *count = a[COUNT].view.buf, *value = a[VALUE].view.buf;
    int64_t stop = a[NUMBERS].count - size;
    Py_ssize_t chunks = 0, room = Py_MIN(a[AT].count, Py_MIN(a[COUNT].count, a[VALUE].count));
    Py_BEGIN_ALLOW_THREADS
    while (index < stop && chunks < room) {
        const uint32_t *head = numbers + index;
        index += size;
        at[chunks] = index;
        count[chunks] = head[count_place];
        value[chunks++] = head[value_place];
        index += head[count_place];
    }
    Py_END_ALLOW_THREADS
    return Py_BuildValue("nL", chunks, (long long)index);
}

/* Check that rows follow each other within the numbers.  Returns -1 with an exception set if they do not. */
static int check_rows(const Value *numbers, const Value *at, const Value *count) {
    const int64_t *first = at->view.buf, *length = count->view.buf;
    int64_t total = numbers->count, end = 0;
    if (at->count != count->count)
        return refuse_with("lengths differ");
    for (Py_ssize_t row = 0; row < at->count; row++) {
        if (first[row] < end || first[row] > total || length[row] < 0 || length[row] > total - first[row])
            return refuse_with("a row begins in the one before it, or goes beyond the numbers");
        end = first[row] + length[row];
    }
    return 0;
}

/* Add up rows of numbers. */
KERNEL_TAKING(sum_rows, READS("numbers", 4), READS("at", 8), READS("count", 8)) {
    enum { NUMBERS, AT, COUNT };
    if (check_rows(&a[NUMBERS], &a[AT], &a[COUNT]) < 0)
        return NULL;
    const uint32_t *numbers = a[NUMBERS].view.buf;
    const int64_t *at = a[AT].view.buf, *count = a[COUNT].view.buf;
    uint64_t sum = 0, nonzero = 0;
    Py_ssize_t padded = 0;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t row = 0; row < a[AT].count; row++) {
        const uint32_t *values = numbers + at[row];
        int64_t length = count[row];
        for (int64_t i = 0; i < length; i++) {
            sum += values[i];
            nonzero += values[i] != 0;
        }
        padded += length == 0 || values[0] == 0 || values[length - 1] == 0;
    }
    Py_END_ALLOW_THREADS
    return Py_BuildValue("KKn", (unsigned long long)sum, (unsigned long long)nonzero, padded);
}

/* List the places with a nonzero number. */
KERNEL_TAKING(unroll, READS("numbers", 4), READS("at", 8), READS("count", 8), READS("first", 8), NUMBER("step"),
              WRITES("places", 8), WRITES("hits", 4)) {
    enum { NUMBERS, AT, COUNT, FIRST, STEP, PLACES, HITS };
    if (check_rows(&a[NUMBERS], &a[AT], &a[COUNT]) < 0)
        return NULL;
    if (a[FIRST].count != a[AT].count)
        return refuse("lengths differ");
    const uint32_t *numbers = a[NUMBERS].view.buf;
    const int64_t *at = a[AT].view.buf, *count = a[COUNT].view.buf;
    const uint64_t *first = a[FIRST].view.buf; /* unsigned, as the sums may wrap around */
    uint64_t *places = a[PLACES].view.buf, step = (uint64_t)a[STEP].number;
    uint32_t *hits = a[HITS].view.buf;
    Py_ssize_t room = Py_MIN(a[PLACES].count, a[HITS].count), written = 0;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t row = 0; row < a[AT].count; row++) {
        const uint32_t *values = numbers + at[row];
        int64_t length = count[row];
        uint64_t place = first[row];
        for (int64_t i = 0; i < length && written < room; i++, place += step) {
            places[written] = place; /* instead of a branch: the next value overwrites a zero */
            hits[written] = values[i];
            written += values[i] != 0;
        }
    }
    Py_END_ALLOW_THREADS
    return PyLong_FromSsize_t(written);
}
