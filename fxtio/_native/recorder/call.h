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
HIDDEN void call_begin(Site *site);
HIDDEN void call_end(Site *site);

/* Return whether any limit is set. */
static inline int call_limits_exist(void) {
    return call_limits.max_depth || call_limits.min_ticks;
}

/* Return whether a call at the present depth is recorded. */
static inline int call_is_within_depth(const State *state) {
    return !call_limits.max_depth || state->depth < call_limits.max_depth;
}

/* Write the begin or end of a call, two words, if the site is known to be ready and no limit and no open span matters.
 * Returns whether it was recorded. */
static inline int call_record_fast(const Site *site, enum EventKind kind) {
    State *state = current;
    uint64_t *record = state->cursor;
    if (UNLIKELY(record + 2 > state->fast_end || (kind == EVENT_END && state->depth <= state->open_span_depth)))
        return 0;
    record[1] = next_tick(state);
    commit(state, record, 2, EVENT_HEADERS[kind] + 2 * SIZE_UNIT + state->identity.thread_ref + site->refs);
    state->depth += kind == EVENT_BEGIN ? 1 : -1u;
    return 1;
}

#endif
