/* The recorder: FXT records written in their final form, into a file that is valid at every instant.
 *
 *   store.c   threads: a chunk of mapped pages for each, full chunks appended
 *   file.c    the file in which they lie
 *   define.c  the definitions
 *   site.c    texts and call sites
 *   event.c   events with arguments, and log records
 *   task.c    tasks of asyncio
 *   held.c    spans that outlive the functions in which they were opened
 *   span.c    span objects
 *   point.c   instants, counters: what else a program calls
 *   code.c    functions: what the interpreter calls
 *   known.c   what is known of their code
 *   calls.c   calls of C functions
 *   traced.c  callables that stand for others
 *   steps.c   generators and coroutines that do
 *   flight.c  what is told of the last moments: copies of the file, slow spans
 *   module.c  the module
 *
 * C knows no layout: `Layout` comes from the declarations in fxtio/fxt/layout.py, by fxtio/tracer/layout.py.  All
 * functions need the interpreter lock, which is what keeps threads apart; there is no other lock. */
#ifndef FXTIO_RECORDER_H
#define FXTIO_RECORDER_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <time.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define HIDDEN __attribute__((visibility("hidden")))
#if defined(__GLIBC__)
#define FAST_TLS __attribute__((tls_model("initial-exec"), visibility("hidden")))
#else
#define FAST_TLS HIDDEN
#endif

/* ---- What the declarations say.  Units are the value 1 in the place of a field. ---- */

enum Kind {
    INSTANT, COUNTER, BEGIN, END, ASYNC_BEGIN, ASYNC_INSTANT, ASYNC_END, FLOW_BEGIN, FLOW_STEP, FLOW_END, KINDS
};
enum Argument { ARG_NULL, ARG_INT32, ARG_INT64, ARG_UINT64, ARG_DOUBLE, ARG_STRING, ARG_BOOL, ARGUMENTS };
enum { MAX_ARGS = 15 };

typedef struct {
    uint64_t size_unit;    /* of every record and argument */
    uint64_t filler;       /* a string record with slot 0 and size 0: to be skipped */
    uint64_t string, string_slot_unit, string_size_unit, string_slots;
    uint64_t thread, thread_slot_unit, thread_slots;
    uint64_t event[KINDS]; /* headers */
    uint64_t event_args_unit, event_thread_unit, event_category_unit, event_name_unit;
    uint64_t argument[ARGUMENTS]; /* headers */
    uint64_t argument_name_unit, argument_value_unit;
    uint64_t text_inline;  /* a string reference that says: the text is here */
    uint64_t log, log_size_unit, log_thread_unit;
} Layout;

extern HIDDEN Layout layout;

/* ---- The store. ---- */

enum {
    MAX_FILLER = 4095, /* words that one record can have */
    PAGE_WORDS = 512,
    CHUNK_PAGES = 32,
    CHUNK_WORDS = PAGE_WORDS * CHUNK_PAGES,
    CHUNK_BYTES = CHUNK_WORDS * 8,
};

enum { BEGUN = 512 }; /* so deep can calls be that are taken back */

typedef struct {
    uint64_t *p, tick;
} Begun;

typedef struct Site Site;

/* A span that is open: only to be recognized, it may be gone. */
typedef struct {
    const void *span;
    Site *site;
    unsigned depth;
} Open;

/* The thread that an event belongs to. */
typedef struct {
    uint64_t process, thread;
    uint64_t bits;     /* its reference in an event's header, 0 if it is inline */
    unsigned extra;    /* words that it takes inline */
} Identity;

typedef struct State {
    uint64_t *p;       /* where the next record goes */
    uint64_t *end;     /* the last word of its page, which is no room; both NULL if nothing can be recorded */
    uint64_t *swift_end; /* the same for the short ways, which know nothing of inline threads: NULL for those */
    PyThreadState *python; /* of a thread that Python began: it lives as long as the thread; else NULL */
    uint64_t next;     /* the earliest tick of the next record */
    Identity identity;
    unsigned busy;     /* the recorder's own Python code runs: nothing is recorded */
    unsigned depth;    /* functions that began and have not ended */
    uint64_t *chunk;
    uint64_t session;
    uint64_t lost;     /* records for which there was no room */
    uint64_t context;  /* how often the thread had changed its context when `track` was found: each step of a task does */
    uint64_t track;    /* the id of the running task's track, 0 for none */
    PyObject *arrows;  /* ids of flows that end in the next stretch of this task, a tuple, or NULL */
    uint64_t waited;   /* the step (as `context` counts) in which the task said what it waits for */
    Open *open;        /* spans that are open within functions, innermost last */
    unsigned opened;   /* how many */
    unsigned top;      /* how deep in functions the innermost was opened */
    Begun *begun;      /* by depth: the last calls that began; NULL unless short ones are taken back */
    int over;          /* the thread has ended */
    int escaped;       /* an exception of a signal handler came out of our Python code: it is set, and the program's */
    struct State *other;
} State;

typedef struct {
    uint64_t generation;
    int active;
    int tsc;
    uint64_t base;     /* what the clock showed at tick 0 */
    uint64_t step;     /* the least distance of two ticks of a thread */
    PyObject *texts;   /* dict: text to slot */
    PyObject *only, *except; /* sets of categories, or NULL */
    PyObject *thread_hook, *value_hook, *task_hook, *wait_hook, *slow_hook;
    uint64_t slow;     /* spans that take more ticks are told to the hook */
    uint64_t lost, lost_since, cut, dropped, inlined, flushed;
} Session;

extern HIDDEN Session session;
extern HIDDEN __thread State *current FAST_TLS;

HIDDEN int store_init(void);
HIDDEN int store_start(int fd, uint64_t end, uint64_t limit, uint64_t ring);
HIDDEN void store_seal(void);
HIDDEN int file_write(const void *data, size_t size, uint64_t at);
HIDDEN void define_start(uint64_t begin, uint64_t end);
HIDDEN void store_stop(void);
HIDDEN State *store_states(void);
HIDDEN uint64_t file_end(void);
HIDDEN int file_descriptor(void);
HIDDEN PyObject *copy_to(PyObject *module, PyObject *descriptor);
HIDDEN PyObject *unrecorded(PyObject *module, PyObject *callable);
HIDDEN uint64_t store_lost(void);
HIDDEN int store_define(const void *words, size_t size);
HIDDEN State *store_here(void);
HIDDEN uint64_t *store_room(State **state, unsigned words);
HIDDEN uint64_t *store_page(State *state);
HIDDEN uint64_t store_slot(void);
HIDDEN void store_slot_taken(void);

/* Filler of so many words. */
static inline uint64_t filler(uint64_t words) {
    return layout.filler + words * layout.size_unit;
}

static inline uint64_t monotonic(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t raw_clock(int tsc) {
#if defined(__x86_64__)
    if (LIKELY(tsc))
        return __rdtsc();
#else
    (void)tsc;
#endif
    return monotonic();
}

/* The tick of the next record: never before the last one of the thread, and never so near that they could meet. */
static inline uint64_t tick(State *state) {
    uint64_t now = raw_clock(session.tsc) - session.base;
    if (UNLIKELY(now < state->next))
        now = state->next;
    state->next = now + session.step;
    return now;
}

/* Let the record of so many words at `p`, all but its header written, be there from this instant on. */
static inline void commit(State *state, uint64_t *p, size_t words, uint64_t header) {
    uint64_t *rest = p + words;
    *rest = rest == state->end ? *rest : filler((uint64_t)(state->end - rest));
    __atomic_store_n(p, header, __ATOMIC_RELEASE);
    state->p = rest;
}

/* The recorder's own Python code runs between these two: nothing is recorded, no exception is lost. */
typedef struct {
    PyObject *type, *value, *trace;
    uint64_t *p, *end, generation;
} Pause;

HIDDEN void store_pose(State *state, Identity identity);
HIDDEN Pause store_pause(State *state);
HIDDEN int store_resume(State *state, Pause *pause);

/* Let go of an exception that was fetched. */
static inline void drop(PyObject *type, PyObject *value, PyObject *trace) {
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
}

/* What a function that may have run Python code returns. */
static inline PyObject *unless_escaped(PyObject *result) {
    if (LIKELY(!current->escaped))
        return result;
    current->escaped = 0;
    Py_XDECREF(result);
    return NULL;
}

/* ---- Texts and call sites. ---- */

enum { MOST_NAME = 250 }; /* bytes of a name that goes inline */

HIDDEN size_t cut_to(const char *text, size_t size, size_t most);
HIDDEN uint64_t *put_text(uint64_t *to, const char *text, size_t size);
HIDDEN const char *utf8(PyObject *text, size_t *size, PyObject **made);

static inline size_t words_of(size_t size) {
    return (size + 7) / 8;
}

struct Site {
    PyObject_HEAD
    PyObject *category, *name, *keys; /* str, str, tuple of str or NULL */
    uint64_t generation;              /* the session that what follows belongs to */
    uint64_t refs;                    /* category and name in an event's header */
    unsigned extra;                   /* words of inline texts */
    PyObject *inline_category, *inline_name; /* bytes or NULL */
    unsigned count, over;             /* keys that are recorded, and those that are too many */
    int swift;                        /* whether all texts have slots */
    uint64_t keys_at[MAX_ARGS];       /* the keys in arguments' headers, 0 for those that have no slot */
};

extern HIDDEN PyTypeObject SiteType;

HIDDEN int site_bind(Site *site);
HIDDEN Site *site_new(PyObject *category, PyObject *name, PyObject *keys);
HIDDEN Site *site_of(PyObject *name, PyObject *category, PyObject *keys);
HIDDEN Site *site_called(PyObject *const *args, Py_ssize_t count, Py_ssize_t category_at, PyObject *keys, int *wrong);
HIDDEN int sites_init(void);
HIDDEN void sites_forget(void);
HIDDEN void codes_forget(void);
HIDDEN int code_wanted(PyObject *code);
HIDDEN void call_begins(Site *site);
HIDDEN void call_ends(Site *site);
HIDDEN void calls_start(PyObject *hook);
HIDDEN void calls_forget(void);
HIDDEN int call_starts(PyObject *code, PyObject *callable);
HIDDEN void call_is_over(PyObject *code, PyObject *callable);
HIDDEN int event(Site *site, enum Kind kind, PyObject *const *values, const uint64_t *tail);
HIDDEN int swift(Site *site, enum Kind kind, PyObject *const *values, const uint64_t *tail);
HIDDEN int event_with(Site *site, enum Kind kind, PyObject *key, PyObject *value, const uint64_t *tail);
HIDDEN int log_record(PyObject *message);
HIDDEN PyObject *collection(PyObject *module, PyObject *const *args, Py_ssize_t count);
HIDDEN void tell_slow(Site *site, uint64_t took) __attribute__((cold));
HIDDEN uint64_t text_slot(PyObject *text);
HIDDEN void held_push(State *state, const void *span, Site *site);
HIDDEN void held_pop(State *state, const void *span);
HIDDEN void held_clear(State *state);
HIDDEN unsigned held_end(State *state);
HIDDEN void held_again(State *state, unsigned count);
HIDDEN void held_forget(const void *span, uint64_t thread);
HIDDEN void task_waits(PyObject *awaited);
HIDDEN void task_arrives(State *state);
HIDDEN uint64_t task_track_slow(State *state, PyThreadState *thread);

/* Whether the site can be recorded now. */
static inline int site_ready(Site *site) {
    return LIKELY(site->generation == session.generation) || site_bind(site);
}

/* An event without arguments, of two words or with a tail three: that everything else is measured by.  Whether it was
 * recorded. */
static inline int bare_with(Site *site, enum Kind kind, const uint64_t *tail) {
    State *state = current;
    uint64_t *p = state->p;
    const size_t words = tail ? 3 : 2;
    if (UNLIKELY(p + words > state->swift_end || site->generation != session.generation || !site->swift))
        return event(site, kind, NULL, tail);
    if (tail)
        p[2] = *tail;
    p[1] = tick(state);
    commit(state, p, words, layout.event[kind] + words * layout.size_unit + state->identity.bits + site->refs);
    return 1;
}

static inline int bare(Site *site, enum Kind kind) {
    return bare_with(site, kind, NULL);
}

/* The same on a task's track, if there is one. */
static inline int bare_on(Site *site, enum Kind kind, enum Kind on_track, uint64_t track) {
    return LIKELY(!track) ? bare(site, kind) : bare_with(site, on_track, &track);
}

/* The track of the asyncio task that runs, 0 outside of tasks. */
static inline uint64_t task_track(void) {
    State *state = current;
    PyThreadState *thread = LIKELY(state->python != NULL) ? state->python : PyThreadState_Get();
    return LIKELY(thread->context_ver == state->context) ? state->track : task_track_slow(state, thread);
}

extern HIDDEN PyObject *result_name, *exception_name; /* "result", "exception" */

/* ---- What stands for something else. ---- */

extern HIDDEN __thread char *stack_low FAST_TLS;
HIDDEN int stack_left_slow(const char *here);

/* Whether there is C stack left for one more call: unlike a Python function, what stands for one takes some.  If not,
 * RecursionError is set. */
static inline int stack_left(void) {
    const char *here = __builtin_frame_address(0);
    return LIKELY(stack_low && here > stack_low) || stack_left_slow(here);
}

enum Stepped { STEPPED_NOT, STEPPED_GENERATOR, STEPPED_COROUTINE, STEPPED_ASYNC_GENERATOR, STEPPED_NEXT, STEPPED_KINDS };

HIDDEN PyObject *steps_new(PyObject *inner, Site *site, PyObject *values, int result, enum Stepped kind);
HIDDEN int steps_init(void);

HIDDEN int task_init(void);
HIDDEN PyObject *span(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keys);
HIDDEN int span_init(PyObject *module);
HIDDEN int point_init(void);
HIDDEN int code_init(PyObject *module);
HIDDEN int traced_init(PyObject *module);
HIDDEN extern PyMethodDef point_methods[], code_methods[];

#endif
