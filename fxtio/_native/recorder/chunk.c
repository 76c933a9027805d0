/* How records and filler lie in a chunk. */
#include "chunk.h"

/* Empty all pages of a chunk.  The first word of the chunk, which shows or hides it, stays as it is. */
void chunk_clear(uint64_t *chunk) {
    for (int page = 0; page < CHUNK_PAGES; page++) {
        uint64_t *words = chunk + page * PAGE_WORDS;
        words[1] = filler(PAGE_WORDS - 2);
        words[PAGE_WORDS - 1] = filler(page + 1 < CHUNK_PAGES ? 2 : 1);
        if (page)
            words[0] = filler(PAGE_WORDS);
    }
}

/* Return how many pages of a chunk, from the first one on, have records or stand before one that has. */
unsigned chunk_used_pages(const uint64_t *chunk) {
    unsigned pages = CHUNK_PAGES;
    while (pages && chunk[(pages - 1) * PAGE_WORDS + 1] == filler(PAGE_WORDS - 2))
        pages--;
    return pages;
}
