/* Spans that stay open when the function ends in which they were opened: in generators that manage a context, most of
 * all, whose stretch ends at the `yield`.
 *
 * On one track the span cannot outlive the function.  So it ends just before the function does, and goes on just behind
 * it, as a span of the same name without arguments. */
#include "recorder.h"

enum { MOST_OPEN = 64 };

/* A span has begun within functions. */
void held_push(State *state, const void *span, Site *site) {
    if (!state->open && !(state->open = PyMem_RawCalloc(MOST_OPEN, sizeof *state->open)))
        return;
    if (state->opened == MOST_OPEN)
        return;
    state->open[state->opened++] = (Open){span, (Site *)Py_NewRef(site), state->depth};
    state->top = state->depth;
}

static void settle(State *state) {
    state->top = state->opened ? state->open[state->opened - 1].depth : 0;
}

/* A span has ended. */
void held_pop(State *state, const void *span) {
    for (unsigned index = state->opened; index-- > 0;) {
        if (state->open[index].span != span)
            continue;
        Site *site = state->open[index].site;
        state->opened--;
        memmove(&state->open[index], &state->open[index + 1], (state->opened - index) * sizeof *state->open);
        settle(state);
        Py_DECREF(site);
        return;
    }
}

/* A span has ended elsewhere than in its thread. */
void held_forget(const void *span, uint64_t thread) {
    for (State *state = store_states(); state; state = state->other)
        if (state->identity.thread == thread)
            held_pop(state, span);
}

void held_clear(State *state) {
    while (state->opened)
        Py_DECREF(state->open[--state->opened].site);
    state->top = 0;
}

/* End the spans that were opened at this depth or deeper, as the function there is about to end.  How many. */
unsigned held_end(State *state) {
    unsigned count = 0;
    while (count < state->opened && state->open[state->opened - 1 - count].depth >= state->depth)
        bare(state->open[state->opened - 1 - count++].site, END);
    return count;
}

/* Let them go on, outside of it, if the recording goes on. */
void held_again(State *state, unsigned count) {
    if (count > state->opened)
        return;
    for (unsigned index = state->opened - count; index < state->opened; index++) {
        bare(state->open[index].site, BEGIN);
        state->open[index].depth = state->depth;
    }
    settle(state);
}
