/* The begin and the end of a call.
 *
 * Begins and ends balance: an end whose begin was not seen, as of functions that already ran at the start of the
 * recording, is left out. */
#include "call.h"
#include "open_span.h"

CallLimits call_limits;

/* Note the begin of a call that was just recorded, if short calls are to be taken back. */
void call_note_begin(State *state) {
    if (!call_limits.min_ticks)
        return;
    if (!state->open_calls)
        state->open_calls = PyMem_RawCalloc(MAX_OPEN_CALLS, sizeof *state->open_calls);
    if (state->open_calls && state->depth < MAX_OPEN_CALLS && state->page_end && !state->identity.inline_words)
        state->open_calls[state->depth] = (OpenCall){state->cursor - 2, state->cursor[-1]};
}

/* Take back the begin of a call if the call was short and nothing was recorded since.  Returns whether that was
 * done. */
int call_take_back(State *state, const Site *site) {
    if (!call_limits.min_ticks || !state->open_calls || state->depth >= MAX_OPEN_CALLS || site->inline_words)
        return 0;
    const OpenCall *begin = &state->open_calls[state->depth];
    if (state->cursor != begin->record + 2 || begin->record[1] != begin->tick)
        return 0;
    if (session_ticks() - begin->tick >= call_limits.min_ticks)
        return 0;
    __atomic_store_n(begin->record, filler((uint64_t)(state->page_end - begin->record)), __ATOMIC_RELEASE);
    state->cursor = begin->record;
    return 1;
}

/* Record the begin of a call that has no arguments. */
void call_begin(Site *site) {
    if (call_is_within_depth(current) && record_bare(site, EVENT_BEGIN))
        call_note_begin(current);
    if (current->generation == session.generation)
        current->depth++;
}

/* Record the end of a call that has no result. */
void call_end(Site *site) {
    State *state = current;
    if (!state->depth || state->generation != session.generation)
        return;
    unsigned suspended = open_spans_suspend(state);
    state->depth--;
    if (call_is_within_depth(state) && !call_take_back(state, site))
        record_bare(site, EVENT_END);
    open_spans_resume(state, suspended);
}
