/* Where chunks lie: file.c, for store.c. */
#ifndef FXTIO_STORE_H
#define FXTIO_STORE_H

#include "recorder.h"

HIDDEN int file_start(int fd, uint64_t end, uint64_t limit, uint64_t ring);
HIDDEN void file_stop(void);
HIDDEN void file_in_child(void);
HIDDEN uint64_t *file_map(uint64_t at);
HIDDEN uint64_t *file_word(uint64_t at);
HIDDEN uint64_t file_place(const uint64_t *chunk, int may_overwrite);

/* Show or hide a chunk, by its first word. */
static inline void show(uint64_t *word, int visible) {
    __atomic_store_n(word, filler(visible ? 1 : PAGE_WORDS), __ATOMIC_RELEASE);
}

#endif
