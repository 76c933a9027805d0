/* Operations that are open: a table by the frames of coroutines.
 *
 * The flows that lead to a task wait there, too, under the frame of the coroutine that the task runs.  If that has not
 * begun yet, another coroutine may take its place, should it never begin.  Then the one that waits for it has ended as
 * well, as with its event loop.
 *
 * The functions without `operation` in their names are called with the lock. */
#include "operation.h"
#include "open_track.h"

typedef struct {
    const void *frame; /* NULL for an entry that is free */
    uint64_t track;    /* 0 if it has not begun */
    Flows *flows;      /* or NULL */
} Operation;

/* Entries lie at the place that the frame gives or behind it, without a free one between. */
typedef struct {
    Operation *entries;
    size_t mask, count; /* a power of two less 1; of the entries that are used */
} Table;

static Table table;

/* Return the place that a frame gives.  Coroutines that are made one after the other lie side by side in large blocks of
 * memory, and so do their entries, since what a processor's cache does not hold costs most of a look. */
static size_t place_of(const Table *in, const void *frame) {
    return ((uintptr_t)frame >> 6 ^ ((uintptr_t)frame >> 20) * 0x9E3779B97F4A7C15u >> 32) & in->mask;
}

/* Return the entry of a frame, or the free one where it would be. */
static Operation *find(const Table *in, const void *frame) {
    size_t place = place_of(in, frame);
    while (in->entries[place].frame && in->entries[place].frame != frame)
        place = (place + 1) & in->mask;
    return &in->entries[place];
}

/* Return the entry of a frame, NULL if there is none. */
static Operation *find_used(const void *frame) {
    Operation *entry = table.count ? find(&table, frame) : NULL;
    return entry && entry->frame ? entry : NULL;
}

/* Return the track on which the operation of the coroutine in a frame is open, 0 if it is not open. */
static uint64_t track_of(const void *frame) {
    const Operation *entry = find_used(frame);
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

/* Make room for one more, and drop what has not begun and is not awaited any more.  Returns -1 without memory. */
static int grow(void) {
    enum { FIRST_ROOM = 64 };
    size_t old_room = table.entries ? table.mask + 1 : 0, room = old_room ? 2 * old_room : FIRST_ROOM;
    Table bigger = {PyMem_RawCalloc(room, sizeof(Operation)), room - 1, 0};
    if (!bigger.entries)
        return -1;
    for (size_t index = 0; index < old_room; index++) {
        const Operation *entry = &table.entries[index];
        if (!entry->frame)
            continue;
        if (entry->track || are_awaited(entry->flows)) {
            *find(&bigger, entry->frame) = *entry;
            bigger.count++;
        }
    }
    for (size_t index = 0; index < old_room; index++) {
        const Operation *entry = &table.entries[index];
        if (entry->frame && find(&bigger, entry->frame)->frame != entry->frame)
            PyMem_RawFree(entry->flows);
    }
    PyMem_RawFree(table.entries);
    table = bigger;
    return 0;
}

/* Return the entry of a frame, which may be a new one; NULL without memory. */
static Operation *entry_for(const void *frame) {
    if (2 * table.count >= table.mask && grow())
        return NULL;
    Operation *entry = find(&table, frame);
    table.count += !entry->frame;
    entry->frame = frame;
    return entry;
}

/* Note that the operation of the coroutine in a frame has begun on a track.  Returns -1 without memory. */
int operation_begin(const void *frame, uint64_t track) {
    guard_lock();
    Operation *entry = entry_for(frame);
    uint64_t former = entry ? entry->track : 0; /* its end was not seen */
    if (entry)
        entry->track = track;
    guard_unlock();
    if (former)
        open_track_end(former);
    if (!entry)
        return -1;
    open_track_begin(track);
    return 0;
}

/* Remove an entry, and move those behind it to the hole that may lie there. */
static void remove_entry(Operation *entry) {
    size_t hole = (size_t)(entry - table.entries), place = hole;
    PyMem_RawFree(entry->flows);
    table.count--;
    for (;;) {
        table.entries[hole] = (Operation){NULL, 0, NULL};
        do {
            place = (place + 1) & table.mask;
            if (!table.entries[place].frame)
                return;
        } while (((place - place_of(&table, table.entries[place].frame)) & table.mask) < ((place - hole) & table.mask));
        table.entries[hole] = table.entries[place];
        hole = place;
    }
}

/* Return the track on which the operation of the coroutine in a frame is open, and forget it; 0 if it is not open. */
uint64_t operation_end(const void *frame) {
    guard_lock();
    Operation *entry = find_used(frame);
    uint64_t track = entry ? entry->track : 0;
    if (entry)
        remove_entry(entry);
    guard_unlock();
    if (track)
        open_track_end(track);
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
    Operation *entry = find_used(frame);
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
    size_t room = table.entries ? table.mask + 1 : 0;
    for (size_t index = 0; index < room; index++)
        PyMem_RawFree(table.entries[index].flows);
    PyMem_RawFree(table.entries);
    table = (Table){NULL, 0, 0};
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
