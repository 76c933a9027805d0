/* How calls of a code object are recorded: kept in the code object itself, the simple cases also in a cache. */
#ifndef FXTIO_CODE_H
#define FXTIO_CODE_H

#include "site.h"

#if PY_VERSION_HEX < 0x030C0000
#define PyUnstable_Eval_RequestCodeExtraIndex _PyEval_RequestCodeExtraIndex
#define PyUnstable_Code_GetExtra _PyCode_GetExtra
#define PyUnstable_Code_SetExtra _PyCode_SetExtra
#endif

/* Never changes but for `next_retired`: what is to be recorded is changed by another one in its place. */
typedef struct CodeInfo {
    PyObject_HEAD
    PyObject *code;      /* borrowed: the code object, which owns this */
    Site *site;          /* NULL for code that is not recorded */
    PyObject *names;     /* tuple of str: local variables to record at the start, or NULL */
    int with_result;     /* whether the result is recorded */
    int is_coroutine;    /* whether a call is also an operation on the track of the running task */
    int is_decorated;    /* a decorator has set this, and the code hook is not asked */
    uint64_t generation; /* the session in which the code hook was asked */
    struct CodeInfo *next_retired;
} CodeInfo;

/* How the interpreter keeps what its users attach to a code object; its headers do not declare it. */
typedef struct {
    Py_ssize_t size;
    void *items[1];
} Extras;

extern HIDDEN Py_ssize_t code_extra_index;

HIDDEN int code_init(void);
HIDDEN void code_set_hook(PyObject *hook, Trash *trash);
HIDDEN void code_cache_clear(Trash *trash);
HIDDEN void code_cache(const CodeInfo *info);
HIDDEN int code_watch(PyObject *code, PyObject *site, PyObject *names, int with_result);
HIDDEN CodeInfo *code_ask_hook(PyObject *code);

/* Return the entry of the cache in which a code object may be. */
static inline CachedCode *code_cache_entry(const State *state, PyObject *code) {
    return &caches_of(state)->codes[((uintptr_t)code >> 4 ^ (uintptr_t)code >> 12) % CODE_CACHE_SIZE];
}

/* Return what a code object holds, borrowed, which may be of an earlier session, or NULL. */
static inline CodeInfo *code_any_info(PyObject *code) {
#ifdef Py_GIL_DISABLED
    Extras *extras = __atomic_load_n((Extras **)&((PyCodeObject *)code)->co_extra, __ATOMIC_ACQUIRE);
    if (!extras || extras->size <= code_extra_index)
        return NULL;
    return __atomic_load_n((CodeInfo **)&extras->items[code_extra_index], __ATOMIC_ACQUIRE);
#else
    void *extra = NULL;
    PyUnstable_Code_GetExtra(code, code_extra_index, &extra);
    return extra;
#endif
}

/* Return whether it is known in this session what is to be recorded. */
static inline int code_is_known(const CodeInfo *info) {
    return LIKELY(info && (info->is_decorated || info->generation == session.generation));
}

/* Return what is to be recorded of a code object, a new reference, or NULL if that is not known in this session. */
static inline CodeInfo *code_info(PyObject *code) {
    CodeInfo *info = code_any_info(code);
    return code_is_known(info) ? (CodeInfo *)Py_NewRef((PyObject *)info) : NULL;
}

/* Return what is to be recorded of a code object, a new reference, and ask the code hook if that is not known; NULL if
 * it cannot be asked now. */
static inline CodeInfo *code_info_or_ask(PyObject *code) {
    CodeInfo *info = code_info(code);
    return LIKELY(info != NULL) ? info : code_ask_hook(code);
}

#endif
