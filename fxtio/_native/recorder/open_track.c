/* Tracks of tasks on which operations are open: a table by the ids of the tracks, of how many are open on each, and of
 * the flows that began there and have not ended.
 *
 * Where there is no memory an operation is not counted.  Then instants within it have operations of their own, as those
 * outside of any have. */
#include "open_track.h"

typedef struct {
    uint64_t track; /* 0 for an entry that is free */
    uint64_t count;
    uint64_t *flows; /* NULL if there were none */
    size_t flow_count;
} OpenTrack;

/* Entries lie at the place that the id gives or behind it, without a free one between. */
typedef struct {
    OpenTrack *entries;
    size_t mask, count; /* a power of two less 1; of the entries that are used */
} Table;

static Table table;

/* Return the place that an id gives.  The ids of a process are numbers that follow each other. */
static size_t place_of(const Table *in, uint64_t track) {
    return (size_t)track & in->mask;
}

/* Return the entry of a track, or the free one where it would be. */
static OpenTrack *find(const Table *in, uint64_t track) {
    size_t place = place_of(in, track);
    while (in->entries[place].track && in->entries[place].track != track)
        place = (place + 1) & in->mask;
    return &in->entries[place];
}

/* Return the entry of a track, NULL if there is none. */
static OpenTrack *find_used(uint64_t track) {
    OpenTrack *entry = table.count ? find(&table, track) : NULL;
    return entry && entry->track ? entry : NULL;
}

/* Make room for one more.  Returns -1 without memory. */
static int grow(void) {
    enum { FIRST_ROOM = 64 };
    size_t old_room = table.entries ? table.mask + 1 : 0, room = old_room ? 2 * old_room : FIRST_ROOM;
    Table bigger = {PyMem_RawCalloc(room, sizeof(OpenTrack)), room - 1, table.count};
    if (!bigger.entries)
        return -1;
    for (size_t index = 0; index < old_room; index++)
        if (table.entries[index].track)
            *find(&bigger, table.entries[index].track) = table.entries[index];
    PyMem_RawFree(table.entries);
    table = bigger;
    return 0;
}

/* Note that an operation has begun on a track. */
void open_track_begin(uint64_t track) {
    guard_lock();
    if (2 * table.count < table.mask || !grow()) {
        OpenTrack *entry = find(&table, track);
        table.count += !entry->track;
        entry->track = track;
        entry->count++;
    }
    guard_unlock();
}

/* Remove an entry, and move those behind it to the hole that may lie there. */
static void remove_entry(OpenTrack *entry) {
    size_t hole = (size_t)(entry - table.entries), place = hole;
    PyMem_RawFree(entry->flows);
    table.count--;
    for (;;) {
        table.entries[hole] = (OpenTrack){0};
        do {
            place = (place + 1) & table.mask;
            if (!table.entries[place].track)
                return;
        } while (((place - place_of(&table, table.entries[place].track)) & table.mask) < ((place - hole) & table.mask));
        table.entries[hole] = table.entries[place];
        hole = place;
    }
}

/* Note that an operation has ended on a track. */
void open_track_end(uint64_t track) {
    guard_lock();
    OpenTrack *entry = find_used(track);
    if (entry && !--entry->count)
        remove_entry(entry);
    guard_unlock();
}

/* Return whether an operation is open on a track. */
int open_track_is_open(uint64_t track) {
    guard_lock();
    int is_open = find_used(track) != NULL;
    guard_unlock();
    return is_open;
}

/* Note that a flow has begun on a track with an open operation.  Returns -1 if there is none, or without memory. */
int open_track_add_flow(uint64_t track, uint64_t id) {
    int failed = -1;
    guard_lock();
    OpenTrack *entry = find_used(track);
    uint64_t *flows = entry ? PyMem_RawRealloc(entry->flows, (entry->flow_count + 1) * sizeof *flows) : NULL;
    if (flows) {
        entry->flows = flows;
        flows[entry->flow_count++] = id;
        failed = 0;
    }
    guard_unlock();
    return failed;
}

/* Forget a flow that ends.  Returns whether it was known, and has not ended otherwise. */
int open_track_drop_flow(uint64_t track, uint64_t id) {
    int is_known = 0;
    guard_lock();
    OpenTrack *entry = find_used(track);
    for (size_t index = 0; entry && !is_known && index < entry->flow_count; index++)
        if ((is_known = entry->flows[index] == id))
            entry->flows[index] = entry->flows[--entry->flow_count];
    guard_unlock();
    return is_known;
}

/* Forget flows that began on a track, the last ones if there is not room for all.  Returns how many, and their ids. */
size_t open_track_take_flows(uint64_t track, uint64_t *ids, size_t room) {
    size_t count = 0;
    guard_lock();
    OpenTrack *entry = find_used(track);
    while (entry && entry->flow_count && count < room)
        ids[count++] = entry->flows[--entry->flow_count];
    guard_unlock();
    return count;
}

/* Forget all tracks, in a stopped world. */
void open_tracks_forget(void) {
    size_t room = table.entries ? table.mask + 1 : 0;
    for (size_t index = 0; index < room; index++)
        PyMem_RawFree(table.entries[index].flows);
    PyMem_RawFree(table.entries);
    table = (Table){NULL, 0, 0};
}
