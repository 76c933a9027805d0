/* Calls of C functions, where these are asked for: of functions and methods that are defined by a `PyMethodDef`.
 *
 * From CPython 3.12 on CALL, C_RETURN and C_RAISE of `sys.monitoring` tell of them, before the profile function does.
 * The definition is what a site is known by; as it may be freed and another one come to its place, its name and its
 * function are compared, too. */
#include "code.h"

enum { NEAR = 1024 };

typedef struct {
    const PyMethodDef *definition;
    PyCFunction function;
    const char *name;
    Site *site; /* NULL for what is left out */
} Called;

static Called near[NEAR];
static PyObject *hook, *sites; /* what gives a site, or None; a dict: definition, function and name to site or None */

void calls_forget(void) {
    for (size_t index = 0; index < NEAR; index++)
        near[index] = (Called){NULL, NULL, NULL, NULL}; /* the dict has the references */
    Py_CLEAR(sites);
}

void calls_start(PyObject *new_hook) {
    calls_forget();
    Py_XSETREF(hook, new_hook == Py_None ? NULL : Py_NewRef(new_hook));
}

static inline const PyMethodDef *definition_of(PyObject *callable) {
    PyTypeObject *type = Py_TYPE(callable);
    if (type == &PyCFunction_Type || type == &PyCMethod_Type)
        return ((PyCFunctionObject *)callable)->m_ml;
    return type == &PyMethodDescr_Type ? ((PyMethodDescrObject *)callable)->d_method : NULL;
}

/* Ask Python code for the site of a callable; None also if it cannot answer. */
static PyObject *ask(PyObject *callable) {
    State *state = store_here();
    if (!state)
        return NULL;
    Pause pause = store_pause(state);
    PyObject *site = PyObject_CallOneArg(hook, callable);
    if (!site || !Py_IS_TYPE(site, &SiteType)) {
        Py_XDECREF(site);
        site = Py_NewRef(Py_None);
    }
    if (store_resume(state, &pause))
        return site;
    Py_DECREF(site);
    return NULL;
}

/* Find a callable that is not near.  NULL if that is impossible now. */
static Called *find(PyObject *callable, const PyMethodDef *definition, Called *place) {
    PyCFunction function = definition->ml_meth;
    const char *name = definition->ml_name;
    PyObject *key = Py_BuildValue("KKK", (unsigned long long)(uintptr_t)definition,
                                  (unsigned long long)(uintptr_t)function, (unsigned long long)(uintptr_t)name);
    PyObject *site = NULL;
    if (key && (sites || (sites = PyDict_New())))
        site = Py_XNewRef(PyDict_GetItemWithError(sites, key));
    if (key && sites && !site && (site = ask(callable)) && (!sites || PyDict_SetItem(sites, key, site)))
        Py_CLEAR(site);
    Py_XDECREF(key);
    if (!site)
        return NULL;
    *place = (Called){definition, function, name, site == Py_None ? NULL : (Site *)site};
    Py_DECREF(site); /* the dict has it */
    return place;
}

static inline Called *near_call(const PyMethodDef *definition) {
    return &near[((uintptr_t)definition >> 5) % NEAR];
}

static inline int is_of(const Called *called, const PyMethodDef *definition) {
    return LIKELY(called->definition == definition && called->function == definition->ml_meth &&
                  called->name == definition->ml_name);
}

/* A call of what is near, by code that is near: there are no limits then.  Whether it was recorded. */
static inline int put_call(PyObject *code, PyObject *callable, enum Kind kind) {
    const PyMethodDef *definition = definition_of(callable);
    if (UNLIKELY(!definition || near_code(code)->object != code))
        return 0;
    const Called *called = near_call(definition);
    const Site *site = called->site;
    if (UNLIKELY(!is_of(called, definition) || !site || site->generation != session.generation || !site->swift))
        return 0;
    return put_swift(site, kind);
}

/* The site of a C function, NULL for what is none or is left out. */
static Site *site_of_call(PyObject *callable) {
    const PyMethodDef *definition = definition_of(callable);
    if (!definition || !hook || !session.active || current->busy)
        return NULL;
    Called *called = near_call(definition);
    if (UNLIKELY(!is_of(called, definition))) {
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace);
        called = find(callable, definition, called);
        if (!current->escaped)
            PyErr_Restore(type, value, trace);
        else
            drop(type, value, trace);
    }
    return called ? called->site : NULL;
}

static inline int wanted_of(PyObject *code) {
    return LIKELY(near_code(code)->object == code) ? 1 : code_wanted(code);
}

/* A C function is called by this code.  0 if that code is left out. */
int call_starts(PyObject *code, PyObject *callable) {
    if (LIKELY(PyFunction_Check(callable) || put_call(code, callable, BEGIN)))
        return 1;
    int wanted = wanted_of(code);
    Site *site = wanted == 1 ? site_of_call(callable) : NULL;
    if (site)
        call_begins(site);
    return wanted != 0;
}

/* It has returned, in whichever way. */
void call_is_over(PyObject *code, PyObject *callable) {
    if (LIKELY(put_call(code, callable, END)))
        return;
    Site *site = wanted_of(code) == 1 ? site_of_call(callable) : NULL;
    if (site)
        call_ends(site);
}
