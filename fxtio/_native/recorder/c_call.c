/* Calls of C functions.
 *
 * From CPython 3.12 on CALL, C_RETURN and C_RAISE of `sys.monitoring` report them, before that the profile function
 * does.  A C function is known by its definition.  As a definition may be freed and another one come to its place,
 * its name and its function pointer are compared, too. */
#include "c_call.h"
#include "call.h"
#include "code.h"

enum { CACHE_SIZE = 1024 };

typedef struct {
    const PyMethodDef *definition;
    PyCFunction function;
    const char *name;
    Site *site; /* borrowed from `sites`; NULL for what is not recorded */
} CFunction;

static CFunction cache[CACHE_SIZE];
static PyObject *c_hook; /* returns the site of a callable, or None; NULL if no C function is recorded */
static PyObject *sites;  /* dict: (definition, function, name), as numbers, to site or None */

/* Forget all sites. */
void c_call_clear(void) {
    for (size_t index = 0; index < CACHE_SIZE; index++)
        cache[index] = (CFunction){NULL, NULL, NULL, NULL};
    Py_CLEAR(sites);
}

/* Set the function that is asked for the sites of C functions; None for no function. */
void c_call_set_hook(PyObject *hook) {
    c_call_clear();
    Py_XSETREF(c_hook, hook == Py_None ? NULL : Py_NewRef(hook));
}

/* Return the definition of a callable, NULL if it has none. */
static inline const PyMethodDef *definition_of(PyObject *callable) {
    PyTypeObject *type = Py_TYPE(callable);
    if (type == &PyCFunction_Type || type == &PyCMethod_Type)
        return ((PyCFunctionObject *)callable)->m_ml;
    return type == &PyMethodDescr_Type ? ((PyMethodDescrObject *)callable)->d_method : NULL;
}

/* Ask the hook for the site of a callable.  Returns None also if the hook fails, NULL if the recording has ended. */
static PyObject *ask_hook(PyObject *callable) {
    State *state = thread_state();
    if (!state)
        return NULL;
    Pause pause = thread_pause(state);
    PyObject *site = session_call_hook(c_hook, callable);
    if (!site || !Py_IS_TYPE(site, &SiteType)) {
        Py_XDECREF(site);
        site = Py_NewRef(Py_None);
    }
    if (thread_resume(state, &pause))
        return site;
    Py_DECREF(site);
    return NULL;
}

/* Find or ask for the site of a callable, and put it in an entry of the cache.  Returns NULL if that is impossible
 * now. */
static CFunction *fill_entry(PyObject *callable, const PyMethodDef *definition, CFunction *entry) {
    PyCFunction function = definition->ml_meth;
    const char *name = definition->ml_name;
    PyObject *key = Py_BuildValue("KKK", (unsigned long long)(uintptr_t)definition,
                                  (unsigned long long)(uintptr_t)function, (unsigned long long)(uintptr_t)name);
    PyObject *site = NULL;
    if (key && (sites || (sites = PyDict_New())))
        site = Py_XNewRef(PyDict_GetItemWithError(sites, key));
    if (key && sites && !site && (site = ask_hook(callable)) && (!sites || PyDict_SetItem(sites, key, site)))
        Py_CLEAR(site);
    Py_XDECREF(key);
    if (!site)
        return NULL;
    *entry = (CFunction){definition, function, name, site == Py_None ? NULL : (Site *)site};
    Py_DECREF(site); /* the dict has a reference */
    return entry;
}

/* Return the entry of the cache in which a C function may be. */
static inline CFunction *cache_entry(const PyMethodDef *definition) {
    return &cache[((uintptr_t)definition >> 5) % CACHE_SIZE];
}

/* Return whether an entry is that of a definition. */
static inline int is_of(const CFunction *entry, const PyMethodDef *definition) {
    return LIKELY(entry->definition == definition && entry->function == definition->ml_meth &&
                  entry->name == definition->ml_name);
}

/* Record the begin or end of a call if both the calling code and the callable are cached: then no limit applies.
 * Returns whether it was recorded. */
static inline int record_fast(PyObject *code, PyObject *callable, enum EventKind kind, const void *key) {
    const PyMethodDef *definition = definition_of(callable);
    if (UNLIKELY(!definition || code_cache_entry(code)->code != code))
        return 0;
    const CFunction *entry = cache_entry(definition);
    const Site *site = entry->site;
    if (UNLIKELY(!is_of(entry, definition) || !site || site->generation != session.generation || !site->is_fast))
        return 0;
    return call_record_fast(site, kind, key);
}

/* Return the site of a C function, NULL if it is not recorded. */
static Site *site_of_callable(PyObject *callable) {
    const PyMethodDef *definition = definition_of(callable);
    if (!definition || !c_hook || !session.active || current->paused)
        return NULL;
    CFunction *entry = cache_entry(definition);
    if (UNLIKELY(!is_of(entry, definition))) {
        SavedError error = error_save();
        entry = fill_entry(callable, definition, entry);
        error_restore_unless_escaped(error);
    }
    return entry ? entry->site : NULL;
}

/* An answer that may be impossible to give now. */
enum Answer { NO, YES, UNKNOWN_NOW };

/* Return whether calls within a code object are recorded. */
static inline enum Answer is_recorded(PyObject *code) {
    if (LIKELY(code_cache_entry(code)->code == code))
        return YES;
    const CodeInfo *info = code_info_or_ask(code);
    return !info ? UNKNOWN_NOW : info->site || info->is_decorated ? YES : NO;
}

/* Return the key of the call that a frame makes: of C functions it makes one at a time. */
static inline const void *key_of(const void *frame) {
    return (const char *)frame + 1;
}

/* Record that this code, in a frame, calls a C function.  Returns 0 if the code is not recorded at all. */
int c_call_begin(PyObject *code, PyObject *callable, const void *frame) {
    const void *key = key_of(frame);
    if (LIKELY(PyFunction_Check(callable) || record_fast(code, callable, EVENT_BEGIN, key)))
        return 1;
    enum Answer answer = is_recorded(code);
    Site *site = answer == YES ? site_of_callable(callable) : NULL;
    if (site) {
        Py_INCREF((PyObject *)site);
        call_begin(site, key);
        Py_DECREF((PyObject *)site);
    }
    return answer != NO;
}

/* Record that a C function has returned to this code, in a frame, or has raised. */
void c_call_end(PyObject *code, PyObject *callable, const void *frame) {
    const void *key = key_of(frame);
    if (LIKELY(record_fast(code, callable, EVENT_END, key)))
        return;
    Site *site = is_recorded(code) == YES ? site_of_callable(callable) : NULL;
    if (site) {
        Py_INCREF((PyObject *)site);
        call_end(site, key);
        Py_DECREF((PyObject *)site);
    }
}
