/* The start and the end of a call. */
#ifndef FXTIO_CALL_H
#define FXTIO_CALL_H

#include "open_span.h"

/* Limits of the calls that the interpreter reports; 0 for none. */
typedef struct {
    unsigned max_depth; /* calls within this many others are not recorded */
    uint64_t min_ticks; /* calls that take less are taken back if nothing was recorded within them */
} CallLimits;

extern HIDDEN CallLimits call_limits;

HIDDEN void call_note_begin(State *state);
HIDDEN int call_take_back(State *state, const Site *site);
HIDDEN void call_begin(Site *site, const void *key);
HIDDEN void call_end(Site *site, const void *key);
HIDDEN int call_make_room(State *state);
HIDDEN int call_end_missing(State *state, const void *key);

/* Return the frame that runs in a thread, which serves as the key of its call. */
static inline const void *call_frame_of(const PyThreadState *thread) {
#if PY_VERSION_HEX >= 0x030D0000
    return thread->current_frame;
#else
    return thread->cframe->current_frame;
#endif
}

/* Return the frame that runs.  Python's threads are asked in the quickest way. */
static inline const void *call_running_frame(const State *state) {
    return call_frame_of(LIKELY(state->python_thread != NULL) ? state->python_thread : PyThreadState_Get());
}

/* Note that a call has begun. */
static inline void call_push(State *state, const void *key, uint64_t refs) {
    if (UNLIKELY(state->open.depth == state->open.frame_room && call_make_room(state)))
        return;
    state->open.frames[state->open.depth++] = (OpenFrame){key, refs};
}

/* Note that a call of a site has begun. */
static inline void call_push_site(State *state, const void *key, const Site *site, int is_recorded) {
    call_push(state, key, !is_recorded ? NOT_RECORDED : site->own.inline_words ? 0 : site->own.refs);
}

/* Return whether a call is open, which is then the innermost: those within it whose ends are missing are ended. */
static inline int call_is_open(State *state, const void *key) {
    unsigned depth = state->open.depth;
    return depth && (LIKELY(state->open.frames[depth - 1].key == key) || call_end_missing(state, key));
}

/* Leave an open call, when the spans that were opened in it have been ended.  Returns how many: open_spans_resume() takes
 * it; -1 if the call is not open, also if the recording has ended meanwhile. */
static inline int call_leave(State *state, const void *key) {
    if (UNLIKELY(!call_is_open(state, key)))
        return -1;
    int suspended = open_spans_suspend(state);
    if (UNLIKELY(!state->open.depth))
        return -1;
    state->open.depth--;
    return suspended;
}

/* Return whether any limit is set. */
static inline int call_limits_exist(void) {
    return call_limits.max_depth || call_limits.min_ticks;
}

/* Return whether a call at the present depth is recorded. */
static inline int call_is_within_depth(const State *state) {
    return !call_limits.max_depth || state->open.depth < call_limits.max_depth;
}

/* Return whether the innermost open call is recorded. */
static inline int call_is_shallow(const State *state) {
    return !call_limits.max_depth || state->open.depth <= call_limits.max_depth;
}

/* Write the start or end of a call, two words, by the names in its header, if no limit and no open span matters, an end
 * is that of the innermost open call, and the record is not the last one of its page.  Returns whether it was
 * recorded.
 *
 * This runs for nearly every event, so each instruction counts: what is rare is left to others, and `has_counter` is
 * that of next_tick_by(). */
static inline __attribute__((always_inline)) int call_record_fast(State *state, int has_counter, uint64_t refs,
                                                                  enum EventKind kind, const void *key) {
    OpenSet *open = &state->open;
    unsigned depth = open->depth;
    if (kind == EVENT_BEGIN ? UNLIKELY(depth == open->frame_room)
                            : UNLIKELY(depth <= open->span_depth || open->frames[depth - 1].key != key))
        return 0;
    if (UNLIKELY(!record_two_words(state, has_counter, refs, kind)))
        return 0;
    if (kind == EVENT_BEGIN)
        open->frames[depth] = (OpenFrame){key, refs};
    open->depth = kind == EVENT_BEGIN ? depth + 1 : depth - 1;
    return 1;
}

/* ---- How much C stack is left.  Unlike a Python function, a callable or generator that stands for another one takes C
 * stack for each call; in a deep recursion it raises RecursionError before the stack overflows. ---- */

extern HIDDEN __thread char *stack_limit FAST_TLS; /* NULL until it is needed first */
HIDDEN int stack_has_room_slow(const char *here);

/* Return whether there is C stack for one more call; if not, RecursionError is set. */
static inline int stack_has_room(void) {
    const char *here = __builtin_frame_address(0);
    return LIKELY(stack_limit && here > stack_limit) || stack_has_room_slow(here);
}

/* ---- Generators and coroutines that traced callables return. ---- */

HIDDEN int stepper_init(void);
HIDDEN PyObject *stepper_new(PyObject *inner, Site *site, PyObject *values, int with_result, int kind);

#endif
