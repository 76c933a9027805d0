/* Calls of C functions.
 *
 * From CPython 3.12 on CALL, C_RETURN and C_RAISE of `sys.monitoring` report them, before that the profile function
 * does.  A C function is known by its definition.  As a definition may be freed and another one come to its place,
 * its name and its function pointer are compared, too. */
#include "c_call.h"
#include "call.h"
#include "code.h"

static PyObject *c_hook; /* returns the site of a callable, or None; NULL if no C function is recorded */
static PyObject *sites;  /* dict: (definition, function, name), as numbers, to site or None; NULL before the first */

/* Forget all sites, in a stopped world, in which the caches of code and C functions are emptied, too. */
void c_call_clear(Trash *trash) {
    TRASH(trash, sites);
}

/* Set the function that is asked for the sites of C functions, in a stopped world; None for no function. */
void c_call_set_hook(PyObject *hook, Trash *trash) {
    c_call_clear(trash);
    trash_add(trash, c_hook);
    c_hook = hook == Py_None ? NULL : Py_NewRef(hook);
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

/* Return the dict of sites, a new reference, NULL without memory. */
static PyObject *sites_dict(void) {
    guard_lock();
    PyObject *dict = Py_XNewRef(sites);
    guard_unlock();
    if (dict || !(dict = PyDict_New()))
        return dict;
    guard_lock();
    PyObject *own = dict;
    if (sites) /* another thread has made it meanwhile */
        dict = Py_NewRef(sites);
    else
        sites = Py_NewRef(dict);
    guard_unlock();
    if (dict != own)
        Py_DECREF(own);
    return dict;
}

/* Find or ask for the site of a callable, and put it in an entry of the cache.  Returns NULL if that is impossible
 * now. */
static CFunction *fill_entry(PyObject *callable, const PyMethodDef *definition) {
    PyCFunction function = definition->ml_meth;
    const char *name = definition->ml_name;
    State *state = thread_state();
    PyObject *key = Py_BuildValue("KKK", (unsigned long long)(uintptr_t)definition,
                                  (unsigned long long)(uintptr_t)function, (unsigned long long)(uintptr_t)name);
    PyObject *dict = state && key ? sites_dict() : NULL, *site = dict ? PyDict_GetItemWithError(dict, key) : NULL, *answer;
    if (dict && !site && (answer = ask_hook(callable))) {
        site = PyDict_SetDefault(dict, key, answer); /* another thread may have been faster */
        Py_DECREF(answer);
    }
    CFunction *entry = site && dict == sites ? c_call_entry(state, definition) : NULL;
    if (entry) /* the dict has a reference */
        *entry = (CFunction){definition, function, name, NOT_RECORDED, site == Py_None ? NULL : (Site *)site};
    Py_XDECREF(key);
    Py_XDECREF(dict);
    return entry;
}

/* Return the site of a C function, NULL if it is not recorded. */
static Site *site_of_callable(PyObject *callable) {
    const PyMethodDef *definition = c_call_definition(callable);
    if (!definition || !c_hook || !session.active || current->paused)
        return NULL;
    CFunction *entry = c_call_entry(current, definition);
    if (UNLIKELY(!c_call_is_of(entry, definition))) {
        SavedError error = error_save();
        entry = fill_entry(callable, definition);
        error_restore_unless_escaped(error);
    }
    return entry ? entry->site : NULL;
}

/* An answer that may be impossible to give now. */
enum Answer { NO, YES, UNKNOWN_NOW };

/* Return whether calls within a code object are recorded. */
static inline enum Answer is_recorded(PyObject *code) {
    if (LIKELY(code_cache_entry(current, code)->code == code))
        return YES;
    CodeInfo *info = code_info_or_ask(code);
    enum Answer answer = !info ? UNKNOWN_NOW : info->site || info->is_decorated ? YES : NO;
    Py_XDECREF((PyObject *)info);
    return answer;
}

/* Let further events of a C function be recorded in the simplest way, if that is possible. */
static void note_ready(PyObject *callable, const Site *site) {
    const PyMethodDef *definition = c_call_definition(callable);
    CFunction *entry = c_call_entry(current, definition);
    if (c_call_is_of(entry, definition) && entry->site == site && site_is_simple(site))
        entry->refs = site->own.refs;
}

/* Record that this code, in a frame, calls a C function.  Returns 0 if the code is not recorded at all, or any more. */
int c_call_begin(PyObject *code, PyObject *callable, const void *frame) {
    if (c_call_record_fast(current, session.has_counter, code, callable, EVENT_BEGIN, frame))
        return 1;
    if (session_is_full())
        return 0;
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
