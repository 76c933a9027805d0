/* Spans that outlive the function in which they were opened: most of all in generators that are context managers, which
 * are suspended by the `yield`. */
#ifndef FXTIO_OPEN_SPAN_H
#define FXTIO_OPEN_SPAN_H

#include "event.h"

HIDDEN void open_span_add(State *state, const void *span, Site *site);
HIDDEN void open_span_remove(State *state, const void *span, Trash *trash);
HIDDEN void open_span_remove_from(uint64_t thread, const void *span);
HIDDEN unsigned open_spans_end(State *state);
HIDDEN void open_spans_begin(State *state, unsigned count);

/* End the spans that were opened in the function that is about to end.  Returns how many: open_spans_resume() takes
 * it. */
static inline int open_spans_suspend(State *state) {
    return UNLIKELY(state->open.depth <= state->open.span_depth) ? (int)open_spans_end(state) : 0;
}

/* Begin the innermost `count` spans again, outside of the function that has ended; none if that is negative. */
static inline void open_spans_resume(State *state, int count) {
    if (UNLIKELY(count > 0))
        open_spans_begin(state, (unsigned)count);
}

#endif
