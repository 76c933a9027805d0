/* Operations that are open: a table by the frames of coroutines.
 *
 * The flows that lead to a task wait there, too, under the frame of the coroutine that the task runs.  If that has not
 * begun yet, another coroutine may take its place, should it never begin.  Then the one that waits for it has ended as
 * well, as with its event loop.
 *
 * The functions without `operation` in their names are called with the lock. */
#include "operation.h"
#include "open_track.h"
#include "table.h"

typedef struct {
    uint64_t frame;
    uint64_t track; /* 0 if it has not begun */
    Flows *flows;   /* or NULL */
} Operation;

static Table table = {.entry_size = sizeof(Operation)};

/* Return the entry of a frame, NULL if there is none. */
static Operation *find(const void *frame) {
    return table_find(&table, (uintptr_t)frame);
}

/* Return the track on which the operation of the coroutine in a frame is open, 0 if it is not open. */
static uint64_t track_of(const void *frame) {
    const Operation *entry = find(frame);
    return entry ? entry->track : 0;
}

/* Return the track on which the operation of the coroutine in a frame is open, 0 if it is not open. */
uint64_t operation_track(const void *frame) {
    guard_lock();
    uint64_t track = track_of(frame);
    guard_unlock();
    return track;
}

/* Return whether the flows of an operation that has not begun can still be its own. */
static int are_awaited(const Flows *flows) {
    return flows && flows->waiter && track_of(flows->waiter) == flows->waiter_track;
}

/* Forget an operation. */
static void forget(Operation *entry) {
    PyMem_RawFree(entry->flows);
    table_remove(&table, entry);
}

/* Forget what has not begun and is not awaited any more. */
static void forget_abandoned(void) {
    Operation *entry = table_next(&table, NULL), *next;
    for (; entry; entry = next) {
        if (entry->track || are_awaited(entry->flows)) {
            next = table_next(&table, entry);
            continue;
        }
        forget(entry);
        next = entry->frame ? entry : table_next(&table, entry); /* another one may have taken its place */
    }
}

/* Return the entry of a frame, which may be a new one; NULL without memory. */
static Operation *entry_for(const void *frame) {
    if (table_is_full(&table)) {
        forget_abandoned();
        (void)table_make_room(&table); /* or it might be full again soon */
    }
    return table_add(&table, (uintptr_t)frame);
}

/* Note that the operation of the coroutine in a frame, of a site, has begun on a track.  Returns -1 without memory. */
int operation_begin(const void *frame, uint64_t track, Site *site) {
    guard_lock();
    Operation *entry = entry_for(frame);
    uint64_t former = entry ? entry->track : 0; /* its end was not seen */
    if (entry)
        entry->track = track;
    guard_unlock();
    if (former)
        open_track_end(former, frame);
    if (!entry)
        return -1;
    open_track_begin(track, frame, site, NULL);
    return 0;
}

/* Return the track on which the operation of the coroutine in a frame is open, and forget it; 0 if it is not open. */
uint64_t operation_end(const void *frame) {
    guard_lock();
    Operation *entry = find(frame);
    uint64_t track = entry ? entry->track : 0;
    if (entry)
        forget(entry);
    guard_unlock();
    if (track)
        open_track_end(track, frame);
    return track;
}

/* Let a flow lead to the task whose coroutine has a frame.  Returns -1 without memory. */
int operation_add_flow(const void *frame, const Flows *waiter, Flow flow) {
    guard_lock();
    Operation *entry = entry_for(frame);
    if (entry && !entry->track && !are_awaited(entry->flows)) {
        PyMem_RawFree(entry->flows);
        entry->flows = NULL;
    }
    int failed = entry ? flows_add(&entry->flows, waiter, flow) : -1;
    guard_unlock();
    return failed;
}

/* Return the flows that lead to the task whose coroutine has a frame, which are then the caller's, or NULL. */
Flows *operation_take_flows(const void *frame) {
    guard_lock();
    Operation *entry = find(frame);
    Flows *flows = entry ? entry->flows : NULL;
    if (flows && !entry->track && !are_awaited(flows)) {
        PyMem_RawFree(flows);
        flows = NULL;
    }
    if (entry)
        entry->flows = NULL;
    guard_unlock();
    return flows;
}

/* Forget all operations, in a stopped world. */
void operations_forget(void) {
    for (Operation *entry = table_next(&table, NULL); entry; entry = table_next(&table, entry))
        PyMem_RawFree(entry->flows);
    table_free(&table);
}

/* Add a flow to others; `*flows` is NULL if there are none.  Of those that wait, the first is kept.  Returns -1 without
 * memory. */
int flows_add(Flows **flows, const Flows *waiter, Flow flow) {
    uint64_t count = *flows ? (*flows)->count : 0;
    Flows *more = PyMem_RawRealloc(*flows, sizeof *more + (count + 1) * sizeof flow);
    if (!more)
        return -1;
    if (!count)
        *more = *waiter;
    more->count = count + 1;
    more->flows[count] = flow;
    *flows = more;
    return 0;
}
