/* How calls of a code object are recorded: kept in the code object itself, the simple cases also in a cache. */
#ifndef FXTIO_CODE_H
#define FXTIO_CODE_H

#include "site.h"

#if PY_VERSION_HEX < 0x030C0000
#define PyUnstable_Eval_RequestCodeExtraIndex _PyEval_RequestCodeExtraIndex
#define PyUnstable_Code_GetExtra _PyCode_GetExtra
#define PyUnstable_Code_SetExtra _PyCode_SetExtra
#endif

typedef struct {
    PyObject *code;      /* the code object, which owns this */
    Site *site;          /* NULL for code that is not recorded */
    PyObject *names;     /* tuple of str: local variables to record at the begin, or NULL */
    int with_result;     /* whether the result is recorded */
    int is_coroutine;    /* whether a call is also an operation on the track of the running task */
    int is_decorated;    /* a decorator has set this, and the code hook is not asked */
    uint64_t generation; /* the session in which the code hook was asked */
} CodeInfo;

enum { CODE_CACHE_SIZE = 1024 };

/* The names, as in the header of an event, of code that is recorded in the simplest way: no arguments, no result, no
 * limits. */
typedef struct {
    PyObject *code;
    uint64_t refs;
} CachedCode;

extern HIDDEN CachedCode code_cache[CODE_CACHE_SIZE];
extern HIDDEN Py_ssize_t code_extra_index;

HIDDEN int code_init(void);
HIDDEN void code_set_hook(PyObject *hook);
HIDDEN void code_cache_clear(void);
HIDDEN CodeInfo *code_set_info(PyObject *code, PyObject *site, PyObject *names, int with_result, int is_decorated);
HIDDEN CodeInfo *code_ask_hook(PyObject *code);

/* Return the entry of the cache in which a code object may be. */
static inline CachedCode *code_cache_entry(PyObject *code) {
    return &code_cache[((uintptr_t)code >> 4 ^ (uintptr_t)code >> 12) % CODE_CACHE_SIZE];
}

/* Return what a code object holds, which may be of an earlier session, or NULL. */
static inline CodeInfo *code_any_info(PyObject *code) {
    void *extra = NULL;
    PyUnstable_Code_GetExtra(code, code_extra_index, &extra);
    return extra;
}

/* Return what is to be recorded of a code object, or NULL if that is not known in this session. */
static inline CodeInfo *code_info(PyObject *code) {
    CodeInfo *info = code_any_info(code);
    return LIKELY(info && (info->is_decorated || info->generation == session.generation)) ? info : NULL;
}

/* Return what is to be recorded of a code object, and ask the code hook if that is not known; NULL if it cannot be
 * asked now. */
static inline CodeInfo *code_info_or_ask(PyObject *code) {
    CodeInfo *info = code_info(code);
    return LIKELY(info != NULL) ? info : code_ask_hook(code);
}

#endif
