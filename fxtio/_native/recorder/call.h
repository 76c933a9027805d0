/* The begin and the end of a call. */
#ifndef FXTIO_CALL_H
#define FXTIO_CALL_H

#include "event.h"

/* Limits of the calls that the interpreter reports; 0 for none. */
typedef struct {
    unsigned max_depth; /* calls within so many others are not recorded */
    uint64_t min_ticks; /* calls that take less are taken back if nothing was recorded within them */
} CallLimits;

extern HIDDEN CallLimits call_limits;

HIDDEN void call_note_begin(State *state);
HIDDEN int call_take_back(State *state, const Site *site);
HIDDEN void call_begin(Site *site, const void *key);
HIDDEN void call_end(Site *site, const void *key);
HIDDEN int call_make_room(State *state);
HIDDEN int call_end_missing(State *state, const void *key);

/* Return the frame that runs, which serves as the key of its call.  Python's threads are asked in the quickest way. */
static inline const void *call_running_frame(const State *state) {
    PyThreadState *thread = LIKELY(state->python_thread != NULL) ? state->python_thread : PyThreadState_Get();
#if PY_VERSION_HEX >= 0x030D0000
    return thread->current_frame;
#else
    return thread->cframe->current_frame;
#endif
}

/* Note that a call has begun. */
static inline void call_push(State *state, const void *key, uint64_t refs) {
    if (UNLIKELY(state->open.depth == state->open.frame_room && call_make_room(state)))
        return;
    state->open.frames[state->open.depth++] = (OpenFrame){key, refs};
}

/* Note that a call of a site has begun. */
static inline void call_push_site(State *state, const void *key, const Site *site, int is_recorded) {
    call_push(state, key, !is_recorded ? NOT_RECORDED : site->inline_words ? 0 : site->refs);
}

/* Return whether a call is open, which is then the innermost: those within it whose ends are missing are ended. */
static inline int call_is_open(State *state, const void *key) {
    unsigned depth = state->open.depth;
    return depth && (LIKELY(state->open.frames[depth - 1].key == key) || call_end_missing(state, key));
}

/* Return whether any limit is set. */
static inline int call_limits_exist(void) {
    return call_limits.max_depth || call_limits.min_ticks;
}

/* Return whether a call at the present depth is recorded. */
static inline int call_is_within_depth(const State *state) {
    return !call_limits.max_depth || state->open.depth < call_limits.max_depth;
}

/* Write the begin or end of a call, two words, if the site is known to be ready, no limit and no open span matters, and
 * an end is that of the innermost open call.  Returns whether it was recorded. */
static inline int call_record_fast(const Site *site, enum EventKind kind, const void *key) {
    State *state = current;
    uint64_t *record = state->cursor;
    OpenSet *open = &state->open;
    if (UNLIKELY(record + 2 > state->fast_end))
        return 0;
    if (kind == EVENT_BEGIN ? UNLIKELY(open->depth == open->frame_room)
                            : UNLIKELY(open->depth <= open->span_depth || open->frames[open->depth - 1].key != key))
        return 0;
    record[1] = next_tick(state);
    commit(state, record, 2, EVENT_HEADERS[kind] + 2 * SIZE_UNIT + state->identity.thread_ref + site->refs);
    if (kind == EVENT_BEGIN)
        open->frames[open->depth++] = (OpenFrame){key, site->refs};
    else
        open->depth--;
    return 1;
}

#endif
