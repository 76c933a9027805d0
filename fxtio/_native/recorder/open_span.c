/* Spans that outlive the function in which they were opened.
 *
 * On one track a span cannot outlive the slice that encloses it.  So it ends just before the function does, and goes on
 * just behind it, as a span of the same name without arguments. */
#include "open_span.h"

enum { MAX_OPEN_SPANS = 64 };

/* Set the depth of the innermost open span. */
static void update_depth(State *state) {
    state->open_span_depth = state->open_span_count ? state->open_spans[state->open_span_count - 1].depth : 0;
}

/* Note a span that has begun within functions. */
void open_span_add(State *state, const void *span, Site *site) {
    if (!state->open_spans && !(state->open_spans = PyMem_RawCalloc(MAX_OPEN_SPANS, sizeof *state->open_spans)))
        return;
    if (state->open_span_count == MAX_OPEN_SPANS)
        return;
    state->open_spans[state->open_span_count++] = (OpenSpan){span, Py_NewRef((PyObject *)site), state->depth};
    update_depth(state);
}

/* Forget a span that has ended. */
void open_span_remove(State *state, const void *span) {
    for (unsigned index = state->open_span_count; index-- > 0;) {
        OpenSpan *entry = &state->open_spans[index];
        if (entry->span != span)
            continue;
        PyObject *site = entry->site;
        state->open_span_count--;
        memmove(entry, entry + 1, (state->open_span_count - index) * sizeof *entry);
        update_depth(state);
        Py_DECREF(site);
        return;
    }
}

/* Forget a span that has ended in another thread than the one in which it began. */
void open_span_remove_from(uint64_t thread, const void *span) {
    for (State *state = threads_first(); state; state = state->next)
        if (state->identity.thread == thread)
            open_span_remove(state, span);
}

/* End the spans that were opened at this depth or deeper.  Returns how many. */
unsigned open_spans_end(State *state) {
    unsigned count = 0;
    while (count < state->open_span_count &&
           state->open_spans[state->open_span_count - 1 - count].depth >= state->depth)
        record_bare((Site *)state->open_spans[state->open_span_count - 1 - count++].site, EVENT_END);
    return count;
}

/* Begin the innermost `count` spans again, unless the recording has ended meanwhile. */
void open_spans_begin(State *state, unsigned count) {
    if (count > state->open_span_count)
        return;
    for (unsigned index = state->open_span_count - count; index < state->open_span_count; index++) {
        record_bare((Site *)state->open_spans[index].site, EVENT_BEGIN);
        state->open_spans[index].depth = state->depth;
    }
    update_depth(state);
}
