/* What is known of code: it hangs on the code object itself, and what is simple is kept near. */
#include "code.h"

NearCode near_codes[NEAR_CODES];
Py_ssize_t code_index;

static PyObject *code_hook; /* gives the site of code, or None */

void codes_forget(void) {
    calls_forget();
    memset(near_codes, 0, sizeof near_codes);
}

/* Whom to ask for code that no decorator has chosen; None for nobody. */
void codes_start(PyObject *hook) {
    Py_XSETREF(code_hook, hook == Py_None ? NULL : Py_NewRef(hook));
    codes_forget();
}

static void forget_near(PyObject *object) {
    if (near_code(object)->object == object)
        near_code(object)->object = NULL;
}

static void code_free(void *pointer) {
    Code *code = pointer;
    if (!code)
        return;
    forget_near(code->object);
    Py_XDECREF((PyObject *)code->site);
    Py_XDECREF(code->names);
    PyMem_Free(code);
}

int codes_init(void) {
    code_index = PyUnstable_Eval_RequestCodeExtraIndex(code_free);
    return code_index < 0 ? -1 : 0;
}

/* Note it, where it stays as long as the code object: others may be using it. */
Code *code_set(PyObject *object, PyObject *site, PyObject *names, int result, int chosen) {
    Code *code = code_known(object);
    if (!code) {
        code = PyMem_Calloc(1, sizeof *code);
        if (!code) {
            PyErr_NoMemory();
            return NULL;
        }
        code->object = object;
        if (PyUnstable_Code_SetExtra(object, code_index, code)) {
            PyMem_Free(code);
            return NULL;
        }
    }
    forget_near(object);
    code->result = result;
    code->task = (((PyCodeObject *)object)->co_flags & CO_COROUTINE) != 0;
    code->chosen = chosen;
    code->generation = session.generation;
    Py_XSETREF(code->names, names && names != Py_None ? Py_NewRef(names) : NULL);
    Py_XSETREF(code->site, site == Py_None ? NULL : (Site *)Py_NewRef(site));
    return code;
}

/* Ask Python code for the site of a code object.  If it cannot answer (the stack may be full), its plain name serves. */
Code *code_ask(PyObject *object) {
    if (!code_hook || !session.active || current->busy)
        return NULL;
    State *state = store_here(); /* nothing is recorded yet: the thread may be too young to have a name */
    if (!state)
        return NULL;
    Pause pause = store_pause(state);
    PyObject *site = PyObject_CallOneArg(code_hook, object);
    if (!site || (site != Py_None && !Py_IS_TYPE(site, &SiteType))) {
        Py_XDECREF(site);
        PyCodeObject *code = (PyCodeObject *)object;
        site = Py_XNewRef((PyObject *)site_of(code->co_qualname, code->co_filename, NULL));
    }
    Code *code = site ? code_set(object, site, NULL, 0, 0) : NULL;
    Py_XDECREF(site);
    return store_resume(state, &pause) ? code : NULL;
}

/* Whether what code does is recorded: 1, 0 if it is left out, -1 if that cannot be told now. */
int code_wanted(PyObject *object) {
    Code *code = code_of(object);
    return code ? code->site || code->chosen : -1;
}
