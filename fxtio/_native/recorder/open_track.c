/* Tracks of tasks on which operations are open: a table by the ids of the tracks, of how many are open on each, and of
 * the flows that began there and have not ended.
 *
 * Where there is no memory an operation is not counted.  Then instants within it have operations of their own, as those
 * outside of any have. */
#include "open_track.h"
#include "table.h"

typedef struct {
    uint64_t key;
    uint64_t count;
    uint64_t *flows; /* NULL if there were none */
    size_t flow_count;
} OpenTrack;

static Table table = {.entry_size = sizeof(OpenTrack)};

/* Return the key of a track: ids follow each other, and their entries would all lie behind each other. */
static uint64_t key_of(uint64_t track) {
    return track * GOLDEN_RATIO; /* odd, so that no two tracks have one key */
}

/* Return the entry of a track, NULL if there is none. */
static OpenTrack *find(uint64_t track) {
    return table_find(&table, key_of(track));
}

/* Note that an operation has begun on a track. */
void open_track_begin(uint64_t track) {
    guard_lock();
    OpenTrack *entry = table_add(&table, key_of(track));
    if (entry)
        entry->count++;
    guard_unlock();
}

/* Note that an operation has ended on a track. */
void open_track_end(uint64_t track) {
    guard_lock();
    OpenTrack *entry = find(track);
    if (entry && !--entry->count) {
        PyMem_RawFree(entry->flows);
        table_remove(&table, entry);
    }
    guard_unlock();
}

/* Return whether an operation is open on a track. */
int open_track_is_open(uint64_t track) {
    guard_lock();
    int is_open = find(track) != NULL;
    guard_unlock();
    return is_open;
}

/* Note that a flow has begun on a track with an open operation.  Returns -1 if there is none, or without memory. */
int open_track_add_flow(uint64_t track, uint64_t id) {
    int failed = -1;
    guard_lock();
    OpenTrack *entry = find(track);
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
    OpenTrack *entry = find(track);
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
    OpenTrack *entry = find(track);
    while (entry && entry->flow_count && count < room)
        ids[count++] = entry->flows[--entry->flow_count];
    guard_unlock();
    return count;
}

/* Forget all tracks, in a stopped world. */
void open_tracks_forget(void) {
    for (OpenTrack *entry = table_next(&table, NULL); entry; entry = table_next(&table, entry))
        PyMem_RawFree(entry->flows);
    table_free(&table);
}
