/* Settings and counters of the present recording, and its clock. */
#ifndef FXTIO_SESSION_H
#define FXTIO_SESSION_H

#include "guard.h"

#include <time.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

typedef struct {
    PyObject *owner; /* what began the recording, and alone writes definitions for it */
    PyObject *only_categories, *not_categories; /* sets of the categories to record and to leave out, or NULL */
    PyObject *unseen_categories; /* set: those of `only_categories` that nothing had so far, or NULL */
    PyObject *placed; /* list: the sites whose places are recorded, if the file is a ring, or NULL */
    PyObject *thread_hook, *value_hook, *task_hook, *slow_hook; /* Python functions, or NULL */
} SessionObjects;

typedef struct {
    uint64_t generation; /* changes at each begin and end: what was prepared for another generation is out of date */
    int active;
    int has_counter;     /* whether the clock is the processor's tick counter */
    uint64_t base;       /* what the clock showed at tick 0 */
    uint64_t min_step;   /* ticks between two records of a thread at least */
    SessionObjects objects;
    enum EventKind place_kind; /* the kind of event with which the place of a function is recorded */
    uint64_t slow_ticks, blocking_ticks; /* spans and steps of event loops that take more are reported to `slow_hook` */
    uint64_t lost;       /* events for which there was no room, apart from those that threads count themselves */
    uint64_t lost_since; /* the tick of the first of them, 0 for none */
    uint64_t full_since; /* the tick at which the file was full: nothing is recorded any more; 0 if it is not */
    uint64_t cut_texts, dropped_arguments, inline_names, flushed_chunks;
} Session;

extern HIDDEN Session session;

HIDDEN void session_init(void);
HIDDEN void session_set_objects(SessionObjects objects, Trash *trash);
HIDDEN void session_free_objects(SessionObjects objects, Trash *trash);
HIDDEN PyObject *session_call_hook(PyObject *hook, PyObject *argument);

/* Return CLOCK_MONOTONIC in nanoseconds. */
static inline uint64_t monotonic(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The processor's tick counter: its name among the clock sources of the kernel, "" if it has none, how to read it, and
 * its ticks per second, 0 if the processor does not know them. */
#if defined(__x86_64__)
#define TICK_COUNTER "tsc"
static inline uint64_t tick_counter(void) {
    return __rdtsc();
}
static inline uint64_t tick_rate(void) {
    return 0;
}
#elif defined(__aarch64__)
#define TICK_COUNTER "arch_sys_counter"
extern HIDDEN unsigned tick_shift;
static inline uint64_t tick_counter(void) {
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks << tick_shift;
}
static inline uint64_t tick_rate(void) {
    uint64_t rate;
    __asm__("mrs %0, cntfrq_el0" : "=r"(rate));
    return rate << tick_shift;
}
#else
#define TICK_COUNTER ""
static inline uint64_t tick_counter(void) {
    return 0;
}
static inline uint64_t tick_rate(void) {
    return 0;
}
#endif

/* Return the processor's tick counter, or CLOCK_MONOTONIC. */
static inline uint64_t raw_clock(int has_counter) {
    return LIKELY(has_counter) ? tick_counter() : monotonic();
}

/* Return whether the file is full, so that nothing is recorded any more. */
static inline int session_is_full(void) {
    return UNLIKELY(READ(session.full_since) != 0);
}

/* Return the ticks since the start of the recording. */
static inline uint64_t session_ticks(void) {
    return raw_clock(session.has_counter) - session.base;
}

#endif
