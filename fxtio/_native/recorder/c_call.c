/* Calls of C functions.
 *
 * From CPython 3.12 on CALL, C_RETURN and C_RAISE of `sys.monitoring` report them, before that the profile function
 * does.  A C function is known by its definition.  As a definition may be freed and another one come to its place,
 * its name and its function pointer are compared, too. */
#include "c_call.h"
#include "call.h"
#include "code.h"

CFunction c_call_cache[C_CALL_CACHE_SIZE];
static PyObject *c_hook; /* returns the site of a callable, or None; NULL if no C function is recorded */
static PyObject *sites;  /* dict: (definition, function, name), as numbers, to site or None */

/* Forget all sites. */
void c_call_clear(void) {
    memset(c_call_cache, 0, sizeof c_call_cache);
    Py_CLEAR(sites);
}

/* Set the function that is asked for the sites of C functions; None for no function. */
void c_call_set_hook(PyObject *hook) {
    c_call_clear();
    Py_XSETREF(c_hook, hook == Py_None ? NULL : Py_NewRef(hook));
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
    *entry = (CFunction){definition, function, name, NOT_RECORDED, site == Py_None ? NULL : (Site *)site};
    Py_DECREF(site); /* the dict has a reference */
    return entry;
}

/* Return the site of a C function, NULL if it is not recorded. */
static Site *site_of_callable(PyObject *callable) {
    const PyMethodDef *definition = c_call_definition(callable);
    if (!definition || !c_hook || !session.active || current->paused)
        return NULL;
    CFunction *entry = c_call_entry(definition);
    if (UNLIKELY(!c_call_is_of(entry, definition))) {
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

/* Let further events of a C function be recorded in the simplest way, if that is possible. */
static void note_ready(PyObject *callable, const Site *site) {
    const PyMethodDef *definition = c_call_definition(callable);
    CFunction *entry = c_call_entry(definition);
    if (c_call_is_of(entry, definition) && entry->site == site && site->generation == session.generation &&
        site->is_fast)
        entry->refs = site->refs;
}

/* Record that this code, in a frame, calls a C function.  Returns 0 if the code is not recorded at all. */
int c_call_begin(PyObject *code, PyObject *callable, const void *frame) {
    if (c_call_record_fast(current, session.has_counter, code, callable, EVENT_BEGIN, frame))
        return 1;
    enum Answer answer = is_recorded(code);
    Site *site = answer == YES ? site_of_callable(callable) : NULL;
    if (site) {
        Py_INCREF((PyObject *)site);
        call_begin(site, c_call_key(frame));
        note_ready(callable, site);
        Py_DECREF((PyObject *)site);
    }
    return answer != NO;
}

/* Record that a C function has returned to this code, in a frame, or has raised. */
void c_call_end(PyObject *code, PyObject *callable, const void *frame) {
    if (c_call_record_fast(current, session.has_counter, code, callable, EVENT_END, frame))
        return;
    Site *site = is_recorded(code) == YES ? site_of_callable(callable) : NULL;
    if (site) {
        Py_INCREF((PyObject *)site);
        call_end(site, c_call_key(frame));
        Py_DECREF((PyObject *)site);
    }
}
