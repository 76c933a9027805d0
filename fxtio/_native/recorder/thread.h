/* The state of each thread, and room for its records. */
#ifndef FXTIO_THREAD_H
#define FXTIO_THREAD_H

#include "cache.h"
#include "file.h"
#include "session.h"

/* How a record names the thread that it belongs to. */
typedef struct {
    uint64_t process, thread;
    uint64_t thread_ref;   /* its reference in the header of an event, 0 if the ids are inline */
    unsigned inline_words; /* words of inline ids */
} Identity;

enum { MAX_OPEN_CALLS = 512 };

/* The start of a call that has not ended: short calls are taken back. */
typedef struct {
    uint64_t *record, tick;
} OpenCall;

/* A call that has begun and has not ended. */
typedef struct {
    const void *key; /* tells it from all others that are open: the frame of a function, or something in its place */
    uint64_t refs;   /* the names in the header of its end; NOT_RECORDED if its begin is not recorded */
} OpenFrame;

#define NOT_RECORDED UINT64_MAX

/* A span that was opened within a function and is open.  `span` serves to recognize it, and may be freed already. */
typedef struct {
    const void *span;
    PyObject *site;
    unsigned depth;
} OpenSpan;

/* What is open on a track, of a thread or of a greenlet. */
typedef struct {
    unsigned depth;      /* calls that have begun and have not ended */
    unsigned frame_room; /* how many of them `frames` can hold */
    unsigned span_count;
    unsigned span_depth; /* `depth` where the innermost was opened */
    OpenFrame *frames;   /* the innermost last */
    OpenSpan *spans;     /* the innermost last */
    OpenCall *calls;     /* by depth; NULL unless short calls are taken back */
} OpenSet;

typedef struct State {
    uint64_t *cursor;   /* where the next record goes; NULL if nothing can be recorded */
    uint64_t *page_end; /* the last word of its page, where no record begins; NULL if nothing can be recorded */
    uint64_t *fast_end; /* `page_end` for the fast paths, which cannot write inline threads: NULL for those */
    PyThreadState *python_thread; /* of a thread that Python started: this stays valid until it ends; else NULL */
    uint64_t earliest_tick;       /* of the next record */
    Identity identity;
    unsigned paused;          /* whether code of the tracer runs, how deeply nested: then nothing is recorded */
    OpenSet open;             /* what is open on the present track */
    PyObject *strands;        /* dict: identity of a greenlet to what it has open; NULL without greenlets */
    uint64_t *chunk;
    uint64_t chunk_since;     /* the size of the file when the chunk was last empty */
    uint64_t generation;      /* of the session that the thread has joined */
    uint64_t lost;            /* events for which there was no room */
    uint64_t context_version; /* of the thread's context when `track` was determined: each step of a task changes it */
    uint64_t track;           /* the id of the running task's track, 0 for none */
    const void *root;         /* the frame of the coroutine that the running task runs, if that is an open operation */
    struct Flows *flows;      /* those that end at the next begin in this task, or NULL */
    uint64_t await_version;   /* of the context when flows to awaited tasks were last recorded */
    int iteration;            /* of an event loop that the thread runs, see loop.c */
    unsigned iteration_depth; /* the calls that were open before it */
    int ended;                /* whether the thread has ended */
    int escaped;              /* whether an exception interrupted code of the tracer that is the program's; it is set */
#ifdef Py_GIL_DISABLED
    int has_duty;             /* whether there is work that stops the world, at the end of the present call */
    Caches *caches;
#endif
    struct State *next;
} State;

extern HIDDEN __thread State *current FAST_TLS;

HIDDEN int threads_init(void);
HIDDEN void threads_start(uint64_t *blank);
HIDDEN uint64_t *threads_blank_chunk(void);
HIDDEN void threads_stop(Trash *trash);
HIDDEN void threads_clear_caches(void (*clear)(Caches *caches, Trash *trash), Trash *trash);
HIDDEN void threads_seal(void);
HIDDEN int threads_settle(void);
HIDDEN uint64_t threads_lost(void);
HIDDEN State *threads_first(void);

HIDDEN State *thread_state(void);
HIDDEN uint64_t *thread_room(State **state, unsigned words);
HIDDEN uint64_t *thread_next_page(State *state);
HIDDEN void thread_set_identity(State *state, Identity identity);
HIDDEN void thread_define_track(State *state, uint64_t id);
HIDDEN void open_set_forget(OpenSet *open, Trash *trash);
HIDDEN void open_set_free(OpenSet *open, Trash *trash);

/* Code of the tracer runs between these two: it is not recorded, and the program's exception is kept. */
typedef struct {
    SavedError error;
    uint64_t *cursor, *page_end, generation;
    int escaped;
} Pause;

HIDDEN Pause thread_pause(State *state);
HIDDEN int thread_resume(State *state, Pause *pause);
HIDDEN int thread_is_interrupted(void);
HIDDEN void threads_set_interrupt_hook(PyObject *hook, Trash *trash);
HIDDEN void threads_set_renewal_hook(void (*hook)(Trash *trash));

#ifdef Py_GIL_DISABLED

HIDDEN void threads_do_duty(State *state);

/* Return the caches of a thread. */
static inline Caches *caches_of(const State *state) {
    return state->caches;
}

/* Do what was put off to the end of the call. */
static inline void do_duty(State *state) {
    if (UNLIKELY(state->has_duty))
        threads_do_duty(state);
}

#else

extern HIDDEN Caches all_caches;

/* Return the caches of a thread: all threads have the same ones. */
static inline Caches *caches_of(const State *state) {
    (void)state;
    return &all_caches;
}

static inline void do_duty(State *state) {
    (void)state;
}

#endif

/* Return the tick of a record that is written now: later than that of the last one of the thread by at least the least
 * step.  `has_counter` is that of the session, or 1 where it is known to be set, so that the compiler leaves out the
 * other clock, whose call would cost all callers the saving of registers. */
static inline uint64_t next_tick_by(State *state, int has_counter) {
    uint64_t now = raw_clock(has_counter) - session.base;
    if (UNLIKELY(now < state->earliest_tick))
        now = state->earliest_tick;
    state->earliest_tick = now + session.min_step;
    return now;
}

/* Return the tick of a record that is written now. */
static inline uint64_t next_tick(State *state) {
    return next_tick_by(state, session.has_counter);
}

/* Make a record of this many words, of which all but the header is written, part of the trace.  The header is stored
 * last: before, the filler that begins there covers the record. */
static inline void commit(State *state, uint64_t *record, size_t words, uint64_t header) {
    uint64_t *rest = record + words;
    *rest = rest == state->page_end ? *rest : filler_between(rest, state->page_end);
    __atomic_store_n(record, header, __ATOMIC_RELEASE);
    state->cursor = rest;
}

/* Return a result to the program, unless an exception interrupts it: then return NULL, that is set. */
static inline PyObject *unless_escaped(PyObject *result) {
    do_duty(current);
    if (LIKELY(!current->escaped))
        return result;
    current->escaped = 0;
    Py_XDECREF(result);
    return NULL;
}

/* Restore an exception of the program, unless one that has interrupted the program since takes its place. */
static inline void error_restore_unless_escaped(SavedError saved) {
    if (current->escaped && PyErr_Occurred())
        error_discard(saved);
    else
        error_restore(saved);
}

#endif
