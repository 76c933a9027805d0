/* Definitions: strings, threads and the names of both, in front of the file, before all that refers to them. */
#include "recorder.h"

static struct {
    uint64_t begin, next, end; /* of the region, and where in it the next one goes (bytes) */
    uint64_t slots;            /* of the string table that are taken */
} definitions;

void define_start(uint64_t begin, uint64_t end) {
    definitions.begin = definitions.next = begin;
    definitions.end = end;
    definitions.slots = 0;
}

/* Write a definition, a record of so many bytes.  Returns -1 if there is no room: then texts go inline. */
int store_define(const void *record, size_t size) {
    uint64_t words = size / 8, block, rest, at = definitions.next;
    uint64_t image[MAX_FILLER + 1];
    if (!words || words > MAX_FILLER)
        return -1;
    for (;;) { /* the definitions lie in blocks, each as long as a filler can be */
        if (at + size > definitions.end)
            return -1;
        block = definitions.begin + (at - definitions.begin) / (MAX_FILLER * 8) * (MAX_FILLER * 8);
        rest = (block + MAX_FILLER * 8 < definitions.end ? block + MAX_FILLER * 8 : definitions.end) - at;
        if (rest >= size)
            break;
        at += rest;
    }
    rest = rest / 8 - words;
    memcpy(image, record, size);
    image[words] = filler(rest);
    /* The header last, so that the record is there whole or not at all. */
    if (file_write(image + 1, (words - 1 + (rest != 0)) * 8, at + 8) || file_write(image, 8, at))
        return -1;
    definitions.next = at + size;
    return 0;
}

/* The next slot of the string table, 0 if all are taken. */
uint64_t store_slot(void) {
    return definitions.slots < layout.string_slots ? definitions.slots + 1 : 0;
}

void store_slot_taken(void) {
    definitions.slots++;
}
