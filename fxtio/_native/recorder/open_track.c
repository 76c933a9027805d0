/* Tracks of tasks on which operations are open: a table by the ids of the tracks, of those that are open on each, and of
 * the flows that began there and have not ended.
 *
 * Where there is no memory an operation is not noted.  Then instants within it have operations of their own, as those
 * outside of any have. */
#include "open_track.h"
#include "table.h"

enum { FIRST_ROOM = 4 };

typedef struct {
    uint64_t key, track;
    OpenOperation first;       /* most tracks have one operation at a time, for which nothing is allocated */
    OpenOperation *operations; /* the innermost last; NULL if there was never more than the first */
    size_t count, room;
    uint64_t *flows; /* NULL if there were none */
    size_t flow_count;
} OpenTrack;

static Table table = {.entry_size = sizeof(OpenTrack)};

/* Return the key of a track: ids follow each other, and their entries would all follow each other. */
static uint64_t key_of(uint64_t track) {
    return track * GOLDEN_RATIO; /* odd, so that no two tracks have one key */
}

/* Return the entry of a track, NULL if there is none. */
static OpenTrack *find(uint64_t track) {
    return table_find(&table, key_of(track));
}

/* Return the operations of a track, the innermost last. */
static OpenOperation *operations_of(OpenTrack *entry) {
    return entry->operations ? entry->operations : &entry->first;
}

/* Return the place for one more operation on a track, NULL without memory. */
static OpenOperation *next_place(OpenTrack *entry) {
    if (entry->count == (entry->operations ? entry->room : 1)) {
        const size_t room = entry->operations ? 2 * entry->room : FIRST_ROOM;
        OpenOperation *operations = PyMem_RawRealloc(entry->operations, room * sizeof *operations);
        if (!operations)
            return NULL;
        if (!entry->operations)
            operations[0] = entry->first;
        entry->operations = operations;
        entry->room = room;
    }
    return &operations_of(entry)[entry->count];
}

/* Forget a track. */
static void forget(OpenTrack *entry) {
    PyMem_RawFree(entry->flows);
    PyMem_RawFree(entry->operations);
    table_remove(&table, entry);
}

/* Note that an operation has begun on a track: `key` tells it from others, and `name` is its own, or that of its site if
 * it is NULL. */
void open_track_begin(uint64_t track, const void *key, Site *site, const Text *name) {
    char *copy = name ? PyMem_RawMalloc(name->size) : NULL;
    if (copy)
        memcpy(copy, name->data, name->size);
    guard_lock();
    OpenTrack *entry = table_add(&table, key_of(track));
    OpenOperation *operation = entry && (copy || !name) ? next_place(entry) : NULL;
    if (operation) {
        entry->track = track;
        *operation = (OpenOperation){key, (Site *)Py_NewRef((PyObject *)site), {copy, name ? name->size : 0}};
        entry->count++;
    } else if (entry && !entry->count)
        forget(entry);
    guard_unlock();
    if (!operation)
        PyMem_RawFree(copy);
}

/* Return the place after the last operation with a key, 0 if there is none. */
static size_t place_of(OpenTrack *entry, const void *key) {
    size_t place = entry ? entry->count : 0;
    while (place && operations_of(entry)[place - 1].key != key)
        place--;
    return place;
}

/* Return the site of an open operation, a new reference: 0 is the innermost.  NULL if there is none, or if it has a name
 * of its own. */
Site *open_track_site(uint64_t track, size_t index) {
    guard_lock();
    OpenTrack *entry = find(track);
    const OpenOperation *operation =
        entry && index < entry->count ? &operations_of(entry)[entry->count - 1 - index] : NULL;
    PyObject *site = operation && !operation->name.data ? Py_NewRef((PyObject *)operation->site) : NULL;
    guard_unlock();
    return (Site *)site;
}

/* Forget an operation that ends: that after which a place is.  Returns what is known of it, for open_operation_free(). */
static OpenOperation take(OpenTrack *entry, size_t place) {
    OpenOperation *taken = &operations_of(entry)[place - 1];
    const OpenOperation operation = *taken;
    memmove(taken, taken + 1, (entry->count - place) * sizeof operation);
    if (!--entry->count)
        forget(entry);
    return operation;
}

/* Free what was known of an operation. */
void open_operation_free(OpenOperation operation) {
    PyMem_RawFree((char *)operation.name.data);
    Py_XDECREF((PyObject *)operation.site);
}

/* Forget an operation on a track if it is the innermost.  Returns how many have begun since otherwise; 0 also if it is not
 * open. */
size_t open_track_leave(uint64_t track, const void *key) {
    OpenOperation operation = {0};
    guard_lock();
    OpenTrack *entry = find(track);
    const size_t place = place_of(entry, key), above = place ? entry->count - place : 0;
    if (place && !above)
        operation = take(entry, place);
    guard_unlock();
    open_operation_free(operation);
    return above;
}

/* Forget the innermost operation with a key on a track.  Returns what was known of it, for open_operation_free(); its site is
 * NULL if it was not open. */
OpenOperation open_track_take(uint64_t track, const void *key) {
    OpenOperation operation = {0};
    guard_lock();
    OpenTrack *entry = find(track);
    const size_t place = place_of(entry, key);
    if (place)
        operation = take(entry, place);
    guard_unlock();
    return operation;
}

/* Forget an innermost operation of any track, which `*track` then is; see open_track_take(). */
OpenOperation open_track_take_any(uint64_t *track) {
    OpenOperation operation = {0};
    guard_lock();
    OpenTrack *entry = table_next(&table, NULL);
    if (entry) {
        *track = entry->track;
        operation = take(entry, entry->count);
    }
    guard_unlock();
    return operation;
}

/* Note that an operation has ended on a track. */
void open_track_end(uint64_t track, const void *key) {
    open_operation_free(open_track_take(track, key));
}

/* Return how many operations are open. */
size_t open_tracks_count(void) {
    size_t count = 0;
    guard_lock();
    for (const OpenTrack *entry = table_next(&table, NULL); entry; entry = table_next(&table, entry))
        count += entry->count;
    guard_unlock();
    return count;
}

/* Return how many operations are open on a track. */
size_t open_track_count(uint64_t track) {
    guard_lock();
    const OpenTrack *entry = find(track);
    const size_t count = entry ? entry->count : 0;
    guard_unlock();
    return count;
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

/* Forget flows that began on any track, of many only some.  Returns how many, and their ids. */
size_t open_tracks_take_flows(uint64_t *ids, size_t room) {
    size_t count = 0;
    guard_lock();
    for (OpenTrack *entry = table_next(&table, NULL); entry && count < room; entry = table_next(&table, entry))
        while (entry->flow_count && count < room)
            ids[count++] = entry->flows[--entry->flow_count];
    guard_unlock();
    return count;
}

/* Forget all tracks, in a stopped world. */
void open_tracks_forget(Trash *trash) {
    for (OpenTrack *entry = table_next(&table, NULL); entry; entry = table_next(&table, entry)) {
        for (size_t index = 0; index < entry->count; index++) {
            PyMem_RawFree((char *)operations_of(entry)[index].name.data);
            trash_add(trash, (PyObject *)operations_of(entry)[index].site);
        }
        PyMem_RawFree(entry->operations);
        PyMem_RawFree(entry->flows);
    }
    table_free(&table);
}
