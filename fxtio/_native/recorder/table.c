/* Tables of entries by their keys. */
#include "table.h"

/* Return the number of the place that a key gives.  Keys are mostly addresses of objects that are made one after the other:
 * these lie side by side in large blocks of memory, and so do their entries, since what a processor's cache does not hold
 * costs most of a look. */
static size_t place_of(const Table *table, uint64_t key) {
    return (key >> 6 ^ (key >> 20) * GOLDEN_RATIO >> 32) & table->mask;
}

/* Return the entry at a place. */
static void *entry_at(const Table *table, size_t place) {
    return table->entries + place * table->entry_size;
}

/* Return the key of the entry at a place, 0 if that is free. */
static uint64_t key_at(const Table *table, size_t place) {
    return *(const uint64_t *)entry_at(table, place);
}

/* Return how many entries there is memory for. */
static size_t room_of(const Table *table) {
    return table->entries ? table->mask + 1 : 0;
}

/* Return the entry of a key, or the free one where it would be. */
static void *find(const Table *table, uint64_t key) {
    size_t place = place_of(table, key);
    while (key_at(table, place) && key_at(table, place) != key)
        place = (place + 1) & table->mask;
    return entry_at(table, place);
}

/* Return the entry of a key, NULL if there is none. */
void *table_find(const Table *table, uint64_t key) {
    uint64_t *entry = table->count ? find(table, key) : NULL;
    return entry && *entry ? entry : NULL;
}

/* Return the first entry that is used, or the next one after an entry; NULL if there is none. */
void *table_next(const Table *table, const void *entry) {
    size_t place = entry ? ((size_t)((const char *)entry - table->entries)) / table->entry_size + 1 : 0;
    for (; place < room_of(table); place++)
        if (key_at(table, place))
            return entry_at(table, place);
    return NULL;
}

/* Return whether more memory is needed for one more. */
int table_is_full(const Table *table) {
    return 2 * table->count >= table->mask;
}

/* Make room for many more, unless there is.  Returns -1 without memory. */
int table_make_room(Table *table) {
    enum { FIRST_ROOM = 64 };
    if (4 * table->count < table->mask)
        return 0;
    size_t room = table->entries ? 2 * room_of(table) : FIRST_ROOM;
    Table bigger = {table->entry_size, PyMem_RawCalloc(room, table->entry_size), room - 1, table->count};
    if (!bigger.entries)
        return -1;
    for (uint64_t *entry = table_next(table, NULL); entry; entry = table_next(table, entry))
        memcpy(find(&bigger, *entry), entry, table->entry_size);
    PyMem_RawFree(table->entries);
    table->entries = bigger.entries;
    table->mask = bigger.mask;
    return 0;
}

/* Return the entry of a key, all zeros but for the key if there was none; NULL without memory.  Other entries move. */
void *table_add(Table *table, uint64_t key) {
    if (table_is_full(table) && table_make_room(table))
        return NULL;
    uint64_t *entry = find(table, key);
    table->count += !*entry;
    *entry = key;
    return entry;
}

/* Remove an entry, and move those after it to the hole that may be there. */
void table_remove(Table *table, void *entry) {
    size_t hole = (size_t)((char *)entry - table->entries) / table->entry_size, place = hole;
    table->count--;
    for (;;) {
        memset(entry_at(table, hole), 0, table->entry_size);
        do {
            place = (place + 1) & table->mask;
            if (!key_at(table, place))
                return;
        } while (((place - place_of(table, key_at(table, place))) & table->mask) < ((place - hole) & table->mask));
        memcpy(entry_at(table, hole), entry_at(table, place), table->entry_size);
        hole = place;
    }
}

/* Remove all entries, and give back the memory. */
void table_free(Table *table) {
    PyMem_RawFree(table->entries);
    table->entries = NULL;
    table->mask = table->count = 0;
}
