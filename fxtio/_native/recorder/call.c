/* The start and the end of a call.
 *
 * Begins and ends balance: each end is compared with what is open.  One whose begin was not seen is left out: that of
 * a function that already ran at the start of the recording, that was interrupted at its first instruction, or into
 * which an exception was thrown in a way that the interpreter does not report.  An end that is missing is written when
 * the call around it ends. */
#define _GNU_SOURCE
#include "call.h"

#include <pthread.h>

CallLimits call_limits;

/* Note the start of a call that was just recorded, if short calls are to be taken back. */
void call_note_begin(State *state) {
    if (!call_limits.min_ticks)
        return;
    if (!state->open.calls)
        state->open.calls = PyMem_RawCalloc(MAX_OPEN_CALLS, sizeof *state->open.calls);
    if (state->open.calls && state->open.depth < MAX_OPEN_CALLS && state->page_end && !state->identity.inline_words)
        state->open.calls[state->open.depth] = (OpenCall){state->cursor - 2, state->cursor[-1]};
}

/* Take back the start of a call if the call was short and nothing was recorded since.  Returns whether that was
 * done. */
int call_take_back(State *state, const Site *site) {
    if (!call_limits.min_ticks || !state->open.calls || state->open.depth >= MAX_OPEN_CALLS || site->own.inline_words)
        return 0;
    const OpenCall *begin = &state->open.calls[state->open.depth];
    if (state->cursor != begin->record + 2 || begin->record[1] != begin->tick)
        return 0;
    if (session_ticks() - begin->tick >= call_limits.min_ticks)
        return 0;
    __atomic_store_n(begin->record, filler((uint64_t)(state->page_end - begin->record)), __ATOMIC_RELEASE);
    state->cursor = begin->record;
    return 1;
}

/* Make room for one more open call.  Returns -1 without memory. */
int call_make_room(State *state) {
    enum { FIRST_ROOM = 256 };
    OpenSet *open = &state->open;
    unsigned room = open->frame_room ? 2 * open->frame_room : FIRST_ROOM;
    OpenFrame *frames = PyMem_RawRealloc(open->frames, room * sizeof *frames);
    if (!frames)
        return -1;
    open->frames = frames;
    open->frame_room = room;
    return 0;
}

/* End the calls within an open one, whose ends are missing.  Returns 0 if the call is not open, also if the recording
 * has ended meanwhile: then nothing is open. */
int call_end_missing(State *state, const void *key) {
    OpenSet *open = &state->open;
    unsigned depth = open->depth;
    while (depth && open->frames[depth - 1].key != key)
        depth--;
    if (!depth)
        return 0;
    while (open->depth > depth) {
        int suspended = open_spans_suspend(state);
        if (!open->depth)
            return 0;
        uint64_t refs = open->frames[--open->depth].refs;
        if (refs != NOT_RECORDED && call_is_within_depth(state))
            record_missing_end(refs);
        open_spans_resume(state, suspended);
    }
    return open->depth == depth;
}

/* Record the start of a call that has no arguments. */
void call_begin(Site *site, const void *key) {
    int is_recorded = call_is_within_depth(current) && record_bare(site, EVENT_BEGIN);
    if (is_recorded)
        call_note_begin(current);
    if (current->generation == session.generation)
        call_push_site(current, key, site, is_recorded);
}

/* Record the end of a call that has no result. */
void call_end(Site *site, const void *key) {
    State *state = current;
    int suspended = state->generation == session.generation ? call_leave(state, key) : -1;
    if (suspended < 0)
        return;
    if (call_is_within_depth(state) && !call_take_back(state, site))
        record_bare(site, EVENT_END);
    open_spans_resume(state, suspended);
}

/* ---- How much C stack is left. ---- */

enum { RESERVED = 256 << 10 }; /* bytes that are left for others, or a quarter of a small stack */
__thread char *stack_limit;

/* Return the lowest address of the stack of this thread, and its size in bytes; NULL if the system does not say. */
static char *find_stack(size_t *size) {
#if defined(__APPLE__)
    *size = pthread_get_stacksize_np(pthread_self());
    return (char *)pthread_get_stackaddr_np(pthread_self()) - *size; /* that of its other end */
#elif defined(__linux__)
    pthread_attr_t attributes;
    void *low = NULL;
    if (!pthread_getattr_np(pthread_self(), &attributes)) {
        pthread_attr_getstack(&attributes, &low, size);
        pthread_attr_destroy(&attributes);
    }
    return low;
#else
    (void)size;
    return NULL;
#endif
}

/* Return the lowest address of the stack of this thread that may be used. */
static char *find_limit(const char *here) {
    size_t size = 0;
    char *low = find_stack(&size);
    return low ? low + (size / 4 < RESERVED ? size / 4 : RESERVED) : (char *)here - RESERVED;
}

/* Return whether there is C stack for one more call; if not, RecursionError is set. */
int stack_has_room_slow(const char *here) {
    if (!stack_limit)
        stack_limit = find_limit(here);
    if (here > stack_limit)
        return 1;
    PyErr_SetString(PyExc_RecursionError, "no C stack left for a traced call");
    return 0;
}
