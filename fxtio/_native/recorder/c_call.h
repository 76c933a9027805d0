/* Calls of C functions, where these are asked for: of functions and methods that are defined by a `PyMethodDef`. */
#ifndef FXTIO_C_CALL_H
#define FXTIO_C_CALL_H

#include "call.h"
#include "code.h"

HIDDEN void c_call_set_hook(PyObject *hook, Trash *trash);
HIDDEN void c_call_clear(Trash *trash);
HIDDEN int c_call_begin(PyObject *code, PyObject *callable, const void *frame);
HIDDEN void c_call_end(PyObject *code, PyObject *callable, const void *frame);

/* Return the definition of a callable, NULL if it has none. */
static inline const PyMethodDef *c_call_definition(PyObject *callable) {
    PyTypeObject *type = Py_TYPE(callable);
    if (type == &PyCFunction_Type || type == &PyCMethod_Type)
        return ((PyCFunctionObject *)callable)->m_ml;
    return type == &PyMethodDescr_Type ? ((PyMethodDescrObject *)callable)->d_method : NULL;
}

/* Return the entry of the cache in which a C function may be. */
static inline CFunction *c_call_entry(const State *state, const PyMethodDef *definition) {
    return &caches_of(state)->c_functions[((uintptr_t)definition >> 5) % C_CALL_CACHE_SIZE];
}

/* Return whether an entry is that of a definition. */
static inline int c_call_is_of(const CFunction *entry, const PyMethodDef *definition) {
    return LIKELY(entry->definition == definition && entry->function == definition->ml_meth &&
                  entry->name == definition->ml_name);
}

/* Return the key of the call that a frame makes: of C functions it makes one at a time. */
static inline const void *c_call_key(const void *frame) {
    return (const char *)frame + 1;
}

/* Record the start or end of a call if both the calling code and the callable are cached: then no limit applies.  Calls
 * of Python functions and of classes are reported too, and have no record.  Returns whether no more is to be done. */
static inline __attribute__((always_inline)) int c_call_record_fast(State *state, int has_counter, PyObject *code,
                                                                    PyObject *callable, enum EventKind kind,
                                                                    const void *frame) {
    const PyMethodDef *definition = c_call_definition(callable);
    if (UNLIKELY(code_cache_entry(state, code)->code != code))
        return 0;
    if (!definition)
        return 1;
    const CFunction *entry = c_call_entry(state, definition);
    return LIKELY(c_call_is_of(entry, definition) && entry->refs != NOT_RECORDED) &&
           call_record_fast(state, has_counter, entry->refs, kind, c_call_key(frame));
}

#endif
