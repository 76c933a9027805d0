/* Spans that outlive the function in which they were opened.
 *
 * On one track a span cannot outlive the slice that encloses it.  So it ends just before the function does, and goes on
 * just after it, as a span of the same name without arguments. */
#include "open_span.h"

enum { MAX_OPEN_SPANS = 64 };

/* Set the depth of the innermost open span. */
static void update_depth(OpenSet *open) {
    open->span_depth = open->span_count ? open->spans[open->span_count - 1].depth : 0;
}

/* Note a span that has begun within functions. */
void open_span_add(State *state, const void *span, Site *site) {
    OpenSet *open = &state->open;
    if (!open->spans && !(open->spans = PyMem_RawCalloc(MAX_OPEN_SPANS, sizeof *open->spans)))
        return;
    if (open->span_count == MAX_OPEN_SPANS)
        return;
    open->spans[open->span_count++] = (OpenSpan){span, Py_NewRef((PyObject *)site), open->depth};
    update_depth(open);
}

/* Forget a span that has ended. */
void open_span_remove(State *state, const void *span, Trash *trash) {
    OpenSet *open = &state->open;
    for (unsigned index = open->span_count; index-- > 0;) {
        OpenSpan *entry = &open->spans[index];
        if (entry->span != span)
            continue;
        PyObject *site = entry->site;
        open->span_count--;
        memmove(entry, entry + 1, (open->span_count - index) * sizeof *entry);
        update_depth(open);
        trash_add(trash, site);
        return;
    }
}

/* Forget a span that has ended in another thread than the one in which it began. */
void open_span_remove_from(uint64_t thread, const void *span) {
    Trash trash = {0};
    world_stop();
    for (State *state = threads_first(); state; state = state->next)
        if (state->identity.thread == thread)
            open_span_remove(state, span, &trash);
    world_start();
    trash_empty(&trash);
}

/* End the spans that were opened at this depth or deeper.  Returns how many. */
unsigned open_spans_end(State *state) {
    OpenSet *open = &state->open;
    unsigned count = 0;
    while (count < open->span_count && open->spans[open->span_count - 1 - count].depth >= open->depth)
        record_bare((Site *)open->spans[open->span_count - 1 - count++].site, EVENT_END);
    return count;
}

/* Begin the innermost `count` spans again, unless the recording has ended meanwhile. */
void open_spans_begin(State *state, unsigned count) {
    OpenSet *open = &state->open;
    if (count > open->span_count)
        return;
    for (unsigned index = open->span_count - count; index < open->span_count; index++) {
        record_bare((Site *)open->spans[index].site, EVENT_BEGIN);
        open->spans[index].depth = open->depth;
    }
    update_depth(open);
}
