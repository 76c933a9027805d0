/* Settings and counters of the present recording, and its clock. */
#ifndef FXTIO_SESSION_H
#define FXTIO_SESSION_H

#include "common.h"

#include <time.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

typedef struct {
    PyObject *text_slots;                       /* dict: text to slot of the string table */
    PyObject *only_categories, *not_categories; /* sets of the categories to record and to leave out, or NULL */
    PyObject *unseen_categories; /* set: those of `only_categories` that nothing had so far, or NULL */
    PyObject *placed; /* list: the sites whose places are recorded, if the file is a ring, or NULL */
    PyObject *thread_hook, *value_hook, *task_hook, *wait_hook, *slow_hook; /* Python functions, or NULL */
} SessionObjects;

typedef struct {
    uint64_t generation; /* changes at each begin and end: what was prepared for another generation is out of date */
    int active;
    int tsc;             /* whether the clock is the processor's tick counter */
    uint64_t base;       /* what the clock showed at tick 0 */
    uint64_t min_step;   /* ticks between two records of a thread at least */
    SessionObjects objects;
    enum EventKind place_kind; /* the kind of event with which the place of a function is recorded */
    uint64_t slow_ticks; /* spans that take more ticks are reported to `slow_hook` */
    uint64_t lost;       /* events for which there was no room, apart from those that threads count themselves */
    uint64_t lost_since; /* the tick of the first of them, 0 for none */
    uint64_t cut_texts, dropped_arguments, inline_names, flushed_chunks;
} Session;

extern HIDDEN Session session;

HIDDEN void session_set_objects(SessionObjects objects);
HIDDEN void session_free_objects(SessionObjects objects);
HIDDEN PyObject *session_call_hook(PyObject *hook, PyObject *argument);

/* Return CLOCK_MONOTONIC in nanoseconds. */
static inline uint64_t monotonic(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Return the processor's tick counter if `tsc` is set, else CLOCK_MONOTONIC. */
static inline uint64_t raw_clock(int tsc) {
#if defined(__x86_64__)
    if (LIKELY(tsc))
        return __rdtsc();
#else
    (void)tsc;
#endif
    return monotonic();
}

/* Return the ticks since the begin of the recording. */
static inline uint64_t session_ticks(void) {
    return raw_clock(session.tsc) - session.base;
}

#endif
