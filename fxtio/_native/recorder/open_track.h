/* Tracks of tasks on which operations are open, and the flows that began there and have not ended. */
#ifndef FXTIO_OPEN_TRACK_H
#define FXTIO_OPEN_TRACK_H

#include "event.h"

/* An operation that is open on a track. */
typedef struct {
    const void *key; /* tells it from all others that are open */
    Site *site;
    Text name; /* its own, NULL if it has that of its site */
} OpenOperation;

HIDDEN void open_track_begin(uint64_t track, const void *key, Site *site, const Text *name);
HIDDEN void open_track_end(uint64_t track, const void *key);
HIDDEN OpenOperation open_track_take(uint64_t track, const void *key);
HIDDEN OpenOperation open_track_take_any(uint64_t *track);
HIDDEN void open_operation_free(OpenOperation operation);
HIDDEN size_t open_track_leave(uint64_t track, const void *key);
HIDDEN Site *open_track_site(uint64_t track, size_t index);
HIDDEN size_t open_tracks_count(void);
HIDDEN size_t open_track_count(uint64_t track);
HIDDEN int open_track_add_flow(uint64_t track, uint64_t id);
HIDDEN int open_track_drop_flow(uint64_t track, uint64_t id);
HIDDEN size_t open_track_take_flows(uint64_t track, uint64_t *ids, size_t room);
HIDDEN size_t open_tracks_take_flows(uint64_t *ids, size_t room);
HIDDEN void open_tracks_forget(Trash *trash);

#endif
