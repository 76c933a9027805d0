/* The file of the recording: where its chunks lie, and how they get there. */
#ifndef FXTIO_FILE_H
#define FXTIO_FILE_H

#include "chunk.h"

/* What is appended to the file. */
enum ChunkRole {
    LIVE_CHUNK,  /* an empty chunk, to which a thread will record */
    FULL_CHUNK,  /* a copy of a live chunk; it may overwrite the oldest one of a ring */
    LAST_CHUNK,  /* likewise, but the last one of a live chunk, for which room was kept */
};

HIDDEN int file_start(int fd, uint64_t end, uint64_t limit, uint64_t ring);
HIDDEN void file_stop(void);
HIDDEN void file_in_child(void);
HIDDEN uint64_t file_end(void);
HIDDEN int file_descriptor(void);
HIDDEN int file_write(const void *data, size_t size, uint64_t offset);
HIDDEN uint64_t *file_map(uint64_t offset);
HIDDEN uint64_t *file_word(uint64_t offset);
HIDDEN int file_is_ring(void);
HIDDEN uint64_t file_ring_chunks(void);
HIDDEN uint64_t file_append(const uint64_t *chunk, unsigned pages, enum ChunkRole role);

#endif
