/* Definitions: strings, threads and the names of both.
 *
 * Unused room of the region is filler.  A filler has a largest size, so the region consists of blocks of that size,
 * and no definition crosses the border of two blocks. */
#include "definition.h"
#include "file.h"

enum { BLOCK_BYTES = MAX_RECORD_WORDS * 8 };

static struct {
    uint64_t begin, next, end; /* of the region, and where in it the next definition goes (bytes) */
    uint64_t used_slots;       /* of the string table */
} region;

/* Begin with an empty region. */
void definition_start(uint64_t begin, uint64_t end) {
    region.begin = region.next = begin;
    region.end = end;
    region.used_slots = 0;
}

/* Write a definition, a record of `size` bytes.  Returns -1 if there is no room: then texts go inline. */
int definition_write(const void *record, size_t size) {
    static uint64_t image[MAX_RECORD_WORDS + 1]; /* not on the stack, which may be small; the lock is held */
    uint64_t words = size / 8, block, rest, offset = region.next;
    if (!words || words > MAX_RECORD_WORDS)
        return -1;
    for (;;) {
        if (offset + size > region.end)
            return -1;
        block = region.begin + (offset - region.begin) / BLOCK_BYTES * BLOCK_BYTES;
        rest = (block + BLOCK_BYTES < region.end ? block + BLOCK_BYTES : region.end) - offset;
        if (rest >= size)
            break;
        offset += rest;
    }
    rest = rest / 8 - words;
    memcpy(image, record, size);
    image[words] = filler(rest);
    /* The header last: until it is written, the old filler covers the record. */
    if (file_write(image + 1, (words - 1 + (rest != 0)) * 8, offset + 8) || file_write(image, 8, offset))
        return -1;
    region.next = offset + size;
    return 0;
}

/* Return the next free slot of the string table, 0 if all are taken. */
uint64_t definition_next_slot(void) {
    return region.used_slots < MAX_STRING_SLOT ? region.used_slots + 1 : 0;
}

/* Mark the next free slot of the string table as used. */
void definition_take_slot(void) {
    region.used_slots++;
}
