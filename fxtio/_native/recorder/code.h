/* What is known of code: code.c uses it, known.c keeps it. */
#ifndef FXTIO_CODE_H
#define FXTIO_CODE_H

#include "recorder.h"

#if PY_VERSION_HEX < 0x030C0000
#define PyUnstable_Eval_RequestCodeExtraIndex _PyEval_RequestCodeExtraIndex
#define PyUnstable_Code_GetExtra _PyCode_GetExtra
#define PyUnstable_Code_SetExtra _PyCode_SetExtra
#endif

typedef struct {
    PyObject *object;    /* the code object, which this hangs on */
    Site *site;          /* NULL for code that is left out */
    PyObject *names;     /* tuple of str: local variables to record at the begin, or NULL */
    int result;          /* whether the result is recorded */
    int task;            /* whether a call is also an operation of the running task */
    int chosen;          /* by a decorator; it is not asked for again */
    uint64_t generation; /* the session in which the code hook was asked */
} Code;

enum { NEAR_CODES = 1024 };

/* The site of code that is recorded without further ado in this session: no arguments, no limits. */
typedef struct {
    PyObject *object;
    Site *site;
} NearCode;

extern HIDDEN NearCode near_codes[NEAR_CODES];
extern HIDDEN Py_ssize_t code_index;

HIDDEN int codes_init(void);
HIDDEN void codes_start(PyObject *hook);
HIDDEN Code *code_set(PyObject *object, PyObject *site, PyObject *names, int result, int chosen);
HIDDEN Code *code_ask(PyObject *object);

static inline NearCode *near_code(PyObject *object) {
    return &near_codes[((uintptr_t)object >> 4 ^ (uintptr_t)object >> 12) % NEAR_CODES];
}

/* Two words in the thread's page for a call that begins or ends, if there is room.  Whether it was recorded. */
static inline int put_swift(const Site *site, enum Kind kind) {
    State *state = current;
    uint64_t *p = state->p;
    if (UNLIKELY(p + 2 > state->swift_end || (kind == END && state->depth <= state->top)))
        return 0;
    p[1] = tick(state);
    commit(state, p, 2, layout.event[kind] + 2 * layout.size_unit + state->identity.bits + site->refs);
    state->depth += kind == BEGIN ? 1 : -1u;
    return 1;
}

static inline Code *code_known(PyObject *object) {
    void *extra = NULL;
    PyUnstable_Code_GetExtra(object, code_index, &extra);
    return extra;
}

/* What is known of a code object in this session. */
static inline Code *code_valid(PyObject *object) {
    Code *code = code_known(object);
    return LIKELY(code && (code->chosen || code->generation == session.generation)) ? code : NULL;
}

/* The same, asking for what is not known yet; NULL if that cannot be told now. */
static inline Code *code_of(PyObject *object) {
    Code *code = code_valid(object);
    return LIKELY(code != NULL) ? code : code_ask(object);
}

#endif
