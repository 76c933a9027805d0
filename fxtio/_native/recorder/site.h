/* Call sites: the common part of all events of one place in the program, looked up once. */
#ifndef FXTIO_SITE_H
#define FXTIO_SITE_H

#include "session.h"
#include "text.h"
#include "thread.h"

enum { MAX_INLINE_NAME = 250 }; /* bytes of an inline name: longer ones are cut */

/* What a site has in a session. */
typedef struct {
    uint64_t refs;                    /* category and name as they are in the header of an event */
    unsigned inline_words;            /* words of inline category and name */
    unsigned inline_names, cut_names; /* those of category and name that are inline, and those that are cut */
    PyObject *inline_category, *inline_name; /* bytes or NULL */
    int has_slots;                    /* whether all texts have slots */
    uint64_t key_refs[MAX_ARGUMENTS]; /* the keys as they are in headers of arguments, 0 for those without a slot */
} Preparation;

typedef struct Site {
    PyObject_HEAD
    PyObject *category, *name, *keys; /* str, str, tuple of str or NULL */
    PyObject *file;                   /* str: where the function is defined, NULL if this is no function */
    unsigned line;
    int is_once;                      /* whether its name hardly occurs again: then it is kept out of the table of strings */
    struct Site *operation;           /* the site of whole calls of a coroutine, NULL until it is asked for */
    uint64_t generation;              /* of the session for which `own` was prepared */
    int has_place;                    /* whether an event has the file and the line already, or there are none */
    unsigned count, excess_keys;      /* keys that are recorded, and keys beyond the limit of the format */
    int is_fast;                      /* whether all texts have slots and the place is recorded, as fast paths require */
    Preparation own;
} Site;

extern HIDDEN PyTypeObject SiteType;
extern HIDDEN PyObject *site_no_category; /* the category of a call that omits it */

HIDDEN int sites_init(void);
HIDDEN Site *site_new(PyObject *category, PyObject *name, PyObject *keys);
HIDDEN Site *site_lookup(PyObject *name, PyObject *category, PyObject *keys);
HIDDEN Site *site_of_new_call(PyObject *const *args, Py_ssize_t count, Py_ssize_t category_index, PyObject *keys,
                              int *failed);
HIDDEN int site_prepare(Site *site);
HIDDEN Site *site_of_operation(Site *site);
HIDDEN void site_note_place(Site *site);
HIDDEN void sites_forget_places(Trash *trash);

/* Return the entry of the cache in which a site may be.  The keys count, not their tuple: `f(**args)` makes a new one. */
static inline CachedSite *site_cache_entry(PyObject *name, PyObject *category, PyObject *keys) {
    uintptr_t hash = ((uintptr_t)name >> 4) ^ ((uintptr_t)category >> 3) * 5;
    for (Py_ssize_t index = 0; keys && index < PyTuple_GET_SIZE(keys); index++)
        hash = hash * 11 ^ (uintptr_t)PyTuple_GET_ITEM(keys, index) >> 4;
    return &caches_of(current)->sites[(hash ^ hash >> 10) % SITE_CACHE_SIZE];
}

/* Return whether an entry of the cache has the site with this name, category and keys. */
static inline int site_is_cached(const CachedSite *entry, PyObject *name, PyObject *category, PyObject *keys) {
    if (UNLIKELY(entry->name != name || entry->category != category))
        return 0;
    if (LIKELY(entry->keys == keys))
        return 1;
    return entry->keys && keys && PyTuple_GET_SIZE(entry->keys) == PyTuple_GET_SIZE(keys) &&
           !memcmp(&PyTuple_GET_ITEM(entry->keys, 0), &PyTuple_GET_ITEM(keys, 0),
                   (size_t)PyTuple_GET_SIZE(keys) * sizeof keys);
}

/* Return the site, borrowed, of a call `f(name, ..., category, **keys)` in which the category may be omitted, if the
 * cache has it: then the arguments are right. */
static inline Site *site_of_known_call(PyObject *const *args, Py_ssize_t count, Py_ssize_t category_index,
                                       PyObject *keys) {
    if (UNLIKELY((size_t)(count - 1) > (size_t)category_index || !session.active))
        return NULL;
    PyObject *category = count > category_index ? args[category_index] : site_no_category;
    const CachedSite *entry = site_cache_entry(args[0], category, keys);
    return LIKELY(site_is_cached(entry, args[0], category, keys)) ? entry->site : NULL;
}

/* Return the site, borrowed, of a call.  Returns NULL without an exception if nothing is recorded, or NULL with one and
 * `*failed` set if the arguments are wrong. */
static inline Site *site_of_call(PyObject *const *args, Py_ssize_t count, Py_ssize_t category_index, PyObject *keys,
                                 int *failed) {
    Site *site = site_of_known_call(args, count, category_index, keys);
    *failed = 0;
    return LIKELY(site != NULL) ? site : site_of_new_call(args, count, category_index, keys, failed);
}

/* Return whether the site is prepared for the session: then what was prepared stays as it is until that ends. */
static inline int site_is_prepared(const Site *site) {
    return __atomic_load_n(&site->generation, ORDER_ACQUIRE) == session.generation;
}

/* Return whether events of the site can be written in the simplest way. */
static inline int site_is_simple(const Site *site) {
    return LIKELY(site_is_prepared(site) && READ(site->is_fast));
}

/* Return whether the site can be recorded now. */
static inline int site_is_ready(Site *site) {
    return LIKELY(site_is_prepared(site)) || site_prepare(site);
}

HIDDEN void report_slow(const char *trigger, Site *site, uint64_t ticks) __attribute__((cold));

#endif
