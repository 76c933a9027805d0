/* What is remembered of the program, so that it is looked up once: call sites, code, C functions, tasks.
 *
 * On a free-threaded build each thread has caches of its own, and even call sites of its own for the names that a
 * program passes: to count references to a site that threads share would cost more than to record an event. */
#ifndef FXTIO_CACHE_H
#define FXTIO_CACHE_H

#include "guard.h"

enum { SITE_CACHE_SIZE = 1024, CODE_CACHE_SIZE = 1024, C_CALL_CACHE_SIZE = 1024 };

struct Site;
struct Flows;

/* A recently used site, by the identity of the plain strings that the caller passed; of the keys, each counts. */
typedef struct {
    PyObject *name, *category, *keys;
    struct Site *site;
} CachedSite;

/* The names, as in the header of an event, of code that is recorded in the simplest way: no arguments, no result, no
 * limits.  With the interpreter lock `code` is borrowed, and removed when the code object is freed. */
typedef struct {
    PyObject *code;
    uint64_t refs;
} CachedCode;

/* How a C function is recorded. */
typedef struct {
    const PyMethodDef *definition;
    PyCFunction function;
    const char *name;
    uint64_t refs;     /* the names in the header of its events; NOT_RECORDED before its first one, and if the record is
                        * not of the simplest kind */
    struct Site *site; /* borrowed; NULL for what is not recorded */
} CFunction;

/* What is known of a task of asyncio whose coroutine is not recorded. */
typedef struct {
    PyObject *task;      /* borrowed; NULL for an entry that is free */
    PyObject *reference; /* weak: tells whether that object still is the one at this address */
    uint64_t track;      /* 0 while it is not known */
    struct Flows *flows; /* those that end where the task next runs, or NULL */
} KnownTask;

/* Tasks, by address. */
typedef struct {
    KnownTask *entries;
    size_t mask, used; /* a power of two less 1; entries that are not free */
} TaskTable;

typedef struct {
    CachedCode codes[CODE_CACHE_SIZE]; /* first, since it is looked at most often */
    CachedSite sites[SITE_CACHE_SIZE];
    CFunction c_functions[C_CALL_CACHE_SIZE];
    PyObject *all_sites; /* dict: (name, category, keys) to site, up to a limit; NULL before the first */
    TaskTable tasks;
} Caches;

HIDDEN void caches_clear(Caches *caches, Trash *trash);
HIDDEN void caches_clear_codes(Caches *caches, Trash *trash);

#endif
