/* The file of the recording: where its chunks are, and how they get there. */
#ifndef FXTIO_FILE_H
#define FXTIO_FILE_H

#include "common.h"

/* ---- How records and filler lie in a chunk: the mapped pages that one thread fills.
 *
 * A chunk can be walked in two ways, and its first word says in which.  Visible: that word is a filler of one word, the
 * records of the first page follow, then at the page's last word a filler of two words, which steps over the first word
 * of the next page, and so on.  Hidden: the first word of every page is a filler of a whole page, so that the walk goes
 * from page to page and sees no record.  One store of one word thus shows or hides a chunk.
 *
 *      page 0              page 1              page 2
 *      1|r r r r . . . .|2 P|r r r . . . . .|2 P|. . .        visible: 1, records, 2 (and P with it), records, ...
 *      P|               |   P|             |   P|             hidden: P, P, P */
enum {
    PAGE_WORDS = 512,
    CHUNK_PAGES = 32,
    CHUNK_WORDS = PAGE_WORDS * CHUNK_PAGES,
    CHUNK_BYTES = CHUNK_WORDS * 8,
    PAGE_BYTES = PAGE_WORDS * 8,
};
_Static_assert(PAGE_WORDS <= MAX_RECORD_WORDS, "one filler can cover a page");

/* Return the header of a filler of this many words. */
static inline uint64_t filler(uint64_t words) {
    return FILLER_HEADER + words * SIZE_UNIT;
}

/* Return the header of a filler that begins at a word and ends in front of a later one, of the same page. */
static inline uint64_t filler_between(const uint64_t *word, const uint64_t *end) {
    return FILLER_HEADER + ((uintptr_t)end - (uintptr_t)word) * (SIZE_UNIT / sizeof(uint64_t));
}

/* Show or hide a chunk, given its first word. */
static inline void chunk_show(uint64_t *first_word, int visible) {
    __atomic_store_n(first_word, filler(visible ? 1 : PAGE_WORDS), __ATOMIC_RELEASE);
}

HIDDEN void chunk_clear(uint64_t *chunk);
HIDDEN unsigned chunk_used_pages(const uint64_t *chunk);

/* ---- The file. ---- */

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
