/* What is remembered of the program, so that it is looked up once. */
#include "cache.h"

/* Forget code and C functions. */
void caches_clear_codes(Caches *caches, Trash *trash) {
#ifdef Py_GIL_DISABLED
    for (int index = 0; index < CODE_CACHE_SIZE; index++)
        trash_add(trash, caches->codes[index].code);
#else
    (void)trash;
#endif
    memset(caches->codes, 0, sizeof caches->codes);
    memset(caches->c_functions, 0, sizeof caches->c_functions);
}

/* Forget everything. */
void caches_clear(Caches *caches, Trash *trash) {
    caches_clear_codes(caches, trash);
    for (int index = 0; index < SITE_CACHE_SIZE; index++) {
        CachedSite *entry = &caches->sites[index];
        TRASH(trash, entry->name);
        TRASH(trash, entry->category);
        TRASH(trash, entry->keys);
        trash_add(trash, (PyObject *)entry->site);
        entry->site = NULL;
    }
    TRASH(trash, caches->all_sites);
    size_t room = caches->tasks.entries ? caches->tasks.mask + 1 : 0;
    for (size_t index = 0; index < room; index++) {
        TRASH(trash, caches->tasks.entries[index].reference);
        PyMem_RawFree(caches->tasks.entries[index].flows);
    }
    PyMem_RawFree(caches->tasks.entries);
    caches->tasks = (TaskTable){0};
}
