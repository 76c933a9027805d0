/* Tables of entries by their keys.  An entry is a struct that begins with its key, a uint64_t other than 0. */
#ifndef FXTIO_TABLE_H
#define FXTIO_TABLE_H

#include "guard.h"

/* Entries are at the place that the key gives or after it, without a free one between.  A free one is all zeros. */
typedef struct {
    const size_t entry_size;
    char *entries;
    size_t mask, count; /* a power of two less 1; of the entries that are used */
} Table;

HIDDEN void *table_find(const Table *table, uint64_t key);
HIDDEN void *table_next(const Table *table, const void *entry);
HIDDEN int table_is_full(const Table *table);
HIDDEN int table_make_room(Table *table);
HIDDEN void *table_add(Table *table, uint64_t key);
HIDDEN void table_remove(Table *table, void *entry);
HIDDEN void table_free(Table *table);

#endif
