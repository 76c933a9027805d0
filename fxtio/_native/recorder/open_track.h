/* Tracks of tasks on which operations are open, and the flows that began there and have not ended. */
#ifndef FXTIO_OPEN_TRACK_H
#define FXTIO_OPEN_TRACK_H

#include "guard.h"

HIDDEN void open_track_begin(uint64_t track);
HIDDEN void open_track_end(uint64_t track);
HIDDEN int open_track_is_open(uint64_t track);
HIDDEN int open_track_add_flow(uint64_t track, uint64_t id);
HIDDEN int open_track_drop_flow(uint64_t track, uint64_t id);
HIDDEN size_t open_track_take_flows(uint64_t track, uint64_t *ids, size_t room);
HIDDEN void open_tracks_forget(void);

#endif
