/* Events and log records. */
#ifndef FXTIO_EVENT_H
#define FXTIO_EVENT_H

#include "site.h"
#include "thread.h"

/* All functions that record return whether they did.  `id` points to the last word of an event that has one (an
 * async or flow event, a counter), else it is NULL. */

/* A text in UTF-8, not ended by a zero. */
typedef struct {
    const char *data;
    size_t size;
} Text;

extern HIDDEN PyObject *result_name, *exception_name; /* "result", "exception" */
extern HIDDEN PyObject *file_name, *line_name;        /* "source.file_name", "source.line_number", as Perfetto has it */

HIDDEN int event_init(void);
HIDDEN int record_event(Site *site, enum EventKind kind, PyObject *const *values, const uint64_t *id);
HIDDEN int record_event_fast(Site *site, enum EventKind kind, PyObject *const *values, const uint64_t *id);
HIDDEN int record_event_named(Site *site, enum EventKind kind, Text name, PyObject *const *values, const uint64_t *id);
HIDDEN int record_event_with(Site *site, enum EventKind kind, PyObject *key, PyObject *value, const uint64_t *id);
HIDDEN PyObject *event_value(PyObject *value);
HIDDEN void record_end_with(Site *site, enum EventKind kind, PyObject *key, PyObject *value, const uint64_t *id);
HIDDEN void record_end_raised(Site *site, enum EventKind kind, PyObject *type, const uint64_t *id);
HIDDEN void record_missing_end(uint64_t refs);
HIDDEN int record_log(PyObject *message);

/* Write an event without arguments, two words, by the names in its header, if there is room for it that ends before the
 * end of the page.  `has_counter` is that of next_tick_by().  Returns whether it was recorded. */
static inline __attribute__((always_inline)) int record_two_words(State *state, int has_counter, uint64_t refs,
                                                                  enum EventKind kind) {
    uint64_t *record = state->cursor, *rest = record + 2, *end = state->fast_end;
    if (UNLIKELY(rest >= end))
        return 0;
    record[1] = next_tick_by(state, has_counter);
    *rest = filler_between(rest, end);
    __atomic_store_n(record, EVENT_HEADERS[kind] + 2 * SIZE_UNIT + state->identity.thread_ref + refs, __ATOMIC_RELEASE);
    state->cursor = rest;
    return 1;
}

/* Record an event without arguments: two words, or three with an id. */
static inline int record_bare_with_id(Site *site, enum EventKind kind, const uint64_t *id) {
    State *state = current;
    uint64_t *record = state->cursor;
    const size_t words = id ? 3 : 2;
    if (UNLIKELY(record + words > state->fast_end || !site_is_simple(site)))
        return record_event(site, kind, NULL, id);
    if (id)
        record[2] = *id;
    record[1] = next_tick(state);
    commit(state, record, words, EVENT_HEADERS[kind] + words * SIZE_UNIT + state->identity.thread_ref + site->own.refs);
    return 1;
}

/* Record an event without arguments and without an id. */
static inline int record_bare(Site *site, enum EventKind kind) {
    return record_bare_with_id(site, kind, NULL);
}

#endif
