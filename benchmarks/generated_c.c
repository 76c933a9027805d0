/* Measures the header of `fxtio generate c`: prints nanoseconds of processor time and a label, best of several rounds. */
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "fxt.h"

enum { EVENTS = 100000, ROUNDS = 30, BYTES = EVENTS * 128 };
static uint8_t memory[BYTES];
static volatile uint64_t used;

/* Each is a function of its own, as in a tracer: the compiler must not make one loop of all events. */
#if defined(__GNUC__)
#define APART __attribute__((noinline))
#else
#define APART
#endif

static fxt_duration_complete span(uint64_t i)
{
    fxt_duration_complete span = {.timestamp = 100 * i, .end = 100 * i + 50, .thread = fxt_thread_slot((uint8_t)(1 + i % 8)),
                                  .category = fxt_string_slot(1), .name = fxt_string_slot((uint16_t)(2 + i % 64))};
    return span;
}

APART static bool plain(fxt_out *out, uint64_t i)
{
    fxt_duration_complete one = span(i);
    return fxt_write_duration_complete(out, &one);
}

APART static bool inline_name(fxt_out *out, uint64_t i)
{
    fxt_duration_complete one = span(i);
    one.name = fxt_inline_string("load a table");
    return fxt_write_duration_complete(out, &one);
}

APART static bool one_argument(fxt_out *out, uint64_t i)
{
    fxt_argument args[] = {fxt_make_int32_argument(fxt_string_slot(70), (int32_t)(i % 1000))};
    fxt_duration_complete one = span(i);
    one.args = fxt_arguments_of(args, 1);
    return fxt_write_duration_complete(out, &one);
}

APART static bool two_arguments(fxt_out *out, uint64_t i)
{
    fxt_argument args[] = {fxt_make_int32_argument(fxt_string_slot(70), (int32_t)(i % 1000)),
                           fxt_make_string_argument(fxt_string_slot(71), fxt_string_slot((uint16_t)(2 + i % 64)))};
    fxt_duration_complete one = span(i);
    one.args = fxt_arguments_of(args, 2);
    return fxt_write_duration_complete(out, &one);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void measure(const char *label, bool (*write)(fxt_out *, uint64_t))
{
    double writing = 1e9, reading = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        fxt_out out = {memory, memory + sizeof memory};
        double begin = now(), middle;
        for (uint64_t i = 0; i < EVENTS; i++)
            if (!write(&out, i)) abort();
        middle = now();
        fxt_in in = fxt_reader(memory, (size_t)(out.at - memory));
        fxt_record record;
        while (fxt_read_record(&in, &record)) used += record.as.duration_complete.end;
        if (now() - middle < reading) reading = now() - middle;
        if (middle - begin < writing) writing = middle - begin;
    }
    printf("%.2f\twrite %s\n%.2f\tread %s\n", writing / EVENTS, label, reading / EVENTS, label);
}

int main(void)
{
    measure("a span", plain);
    measure("a span with an inline name", inline_name);
    measure("a span with an argument", one_argument);
    measure("a span with two arguments", two_arguments);
    return 0;
}
