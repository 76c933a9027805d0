/* How calls of a code object are recorded: kept in the code object itself, the simple cases also in a cache. */
#include "code.h"
#include "thread.h"

CachedCode code_cache[CODE_CACHE_SIZE];
Py_ssize_t code_extra_index;

/* Returns the site of a code object, None, or a tuple: the site, the names of local variables to record at the begin or
 * None, and whether to record the result.  NULL if only decorated code is recorded. */
static PyObject *code_hook;

/* Empty the cache. */
void code_cache_clear(void) {
    memset(code_cache, 0, sizeof code_cache);
}

/* Set the function that is asked for the sites of code that no decorator has marked; None for no function. */
void code_set_hook(PyObject *hook) {
    code_cache_clear();
    Py_XSETREF(code_hook, hook == Py_None ? NULL : Py_NewRef(hook));
}

/* Remove a code object from the cache if it is there. */
static void remove_from_cache(PyObject *code) {
    CachedCode *entry = code_cache_entry(code);
    if (entry->code == code)
        entry->code = NULL;
}

/* Free what a code object holds; the interpreter calls this when the code object is freed. */
static void free_info(void *pointer) {
    CodeInfo *info = pointer;
    if (!info)
        return;
    remove_from_cache(info->code);
    Py_XDECREF((PyObject *)info->site);
    Py_XDECREF(info->names);
    PyMem_Free(info);
}

/* Ask the interpreter for a place in code objects.  Returns -1 if there is none. */
int code_init(void) {
    code_extra_index = PyUnstable_Eval_RequestCodeExtraIndex(free_info);
    return code_extra_index < 0 ? -1 : 0;
}

/* How the interpreter keeps what its users attach to a code object; its headers do not declare it. */
typedef struct {
    Py_ssize_t size;
    void *items[1];
} Extras;

/* Attach what a code object holds.  Returns -1 with an exception set on failure.
 *
 * When a code object is freed, the interpreter calls the function of each user that the array has room for, even if
 * that has attached nothing.  The code of such a function may be gone at exit, so where the array is new it has no
 * room for those that came after us. */
static int attach(PyObject *code, CodeInfo *info) {
    int is_new = !((PyCodeObject *)code)->co_extra;
    if (PyUnstable_Code_SetExtra(code, code_extra_index, info))
        return -1;
    Extras *extras = ((PyCodeObject *)code)->co_extra;
    if (is_new && extras && extras->size > code_extra_index + 1)
        extras->size = code_extra_index + 1;
    return 0;
}

/* Set what is to be recorded of a code object.  What it holds already is changed in place, as it may be in use.
 * Returns NULL with an exception set on failure. */
CodeInfo *code_set_info(PyObject *code, PyObject *site, PyObject *names, int with_result, int is_decorated) {
    CodeInfo *info = code_any_info(code);
    if (!info) {
        info = PyMem_Calloc(1, sizeof *info);
        if (!info) {
            PyErr_NoMemory();
            return NULL;
        }
        info->code = code;
        if (attach(code, info)) {
            PyMem_Free(info);
            return NULL;
        }
    }
    remove_from_cache(code);
    info->with_result = with_result;
    info->is_coroutine = (((PyCodeObject *)code)->co_flags & CO_COROUTINE) != 0;
    info->is_decorated = is_decorated;
    info->generation = session.generation;
    Py_XSETREF(info->names, names && names != Py_None ? Py_NewRef(names) : NULL);
    Py_XSETREF(info->site, site == Py_None ? NULL : (Site *)Py_NewRef(site));
    return info;
}

/* Set what is to be recorded of a code object as the hook has answered. */
static CodeInfo *set_answer(PyObject *code, PyObject *answer) {
    if (!PyTuple_Check(answer))
        return code_set_info(code, answer, NULL, 0, 0);
    PyObject *names = PyTuple_GET_ITEM(answer, 1);
    return code_set_info(code, PyTuple_GET_ITEM(answer, 0), names, PyTuple_GET_ITEM(answer, 2) == Py_True, 0);
}

/* Return whether the code hook may answer so. */
static int is_answer(PyObject *answer) {
    if (!answer || !PyTuple_Check(answer))
        return answer && (answer == Py_None || Py_IS_TYPE(answer, &SiteType));
    if (PyTuple_GET_SIZE(answer) != 3 || !Py_IS_TYPE(PyTuple_GET_ITEM(answer, 0), &SiteType))
        return 0;
    PyObject *names = PyTuple_GET_ITEM(answer, 1);
    Py_ssize_t count = ((Site *)PyTuple_GET_ITEM(answer, 0))->count;
    return names == Py_None || (PyTuple_Check(names) && PyTuple_GET_SIZE(names) >= count);
}

/* Ask the code hook for the site of a code object.  If the hook fails, as with a full stack, the site has the plain
 * name of the code.  Returns NULL if the hook cannot be asked now. */
CodeInfo *code_ask_hook(PyObject *code) {
    if (!code_hook || !session.active || current->paused)
        return NULL;
    State *state = thread_state(); /* it does not join yet: the thread may be too young to have a name */
    if (!state)
        return NULL;
    Pause pause = thread_pause(state);
    PyObject *answer = session_call_hook(code_hook, code);
    if (!is_answer(answer)) {
        Py_XDECREF(answer);
        PyCodeObject *object = (PyCodeObject *)code;
        answer = Py_XNewRef((PyObject *)site_lookup(object->co_qualname, object->co_filename, NULL));
    }
    CodeInfo *info = answer ? set_answer(code, answer) : NULL;
    Py_XDECREF(answer);
    return thread_resume(state, &pause) ? info : NULL;
}
