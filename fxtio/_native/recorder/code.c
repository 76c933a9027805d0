/* How calls of a code object are recorded: kept in the code object itself, the simple cases also in a cache. */
#include "code.h"
#include "thread.h"

Py_ssize_t code_extra_index;

/* Returns the site of a code object, None, or a tuple: the site, the names of local variables to record at the start or
 * None, and whether to record the result.  NULL if only decorated code is recorded. */
static PyObject *code_hook;

/* Those that others may look at still, until the world is stopped. */
static struct {
    CodeInfo *first;
    size_t count;
} retired;

/* Empty the caches of all threads, in a stopped world. */
void code_cache_clear(Trash *trash) {
    threads_clear_caches(caches_clear_codes, trash);
    while (retired.first) {
        CodeInfo *info = retired.first;
        retired.first = info->next_retired;
        trash_add(trash, (PyObject *)info);
    }
    WRITE(retired.count, 0);
}

/* Set the function that is asked for the sites of code that no decorator has marked, in a stopped world; None for no
 * function. */
void code_set_hook(PyObject *hook, Trash *trash) {
    code_cache_clear(trash);
    trash_add(trash, code_hook);
    code_hook = hook == Py_None ? NULL : Py_NewRef(hook);
}

/* Put code in the cache of the fast path if it can be recorded in the simplest way. */
void code_cache(const CodeInfo *info) {
    if (!code_is_known(info))
        return; /* another recording has begun meanwhile, which may leave it out */
    if (!info->site || !site_is_simple(info->site) || info->names || info->with_result || info->is_coroutine)
        return;
#ifdef Py_GIL_DISABLED
    if (code_any_info(info->code) != info)
        return; /* another thread has replaced it */
    CachedCode *entry = code_cache_entry(current, info->code);
    PyObject *old = entry->code;
    *entry = (CachedCode){Py_NewRef(info->code), info->site->own.refs};
    Py_XDECREF(old);
#else
    *code_cache_entry(current, info->code) = (CachedCode){info->code, info->site->own.refs};
#endif
}

/* ---- What code objects hold. ---- */

static void info_dealloc(PyObject *self) {
    CodeInfo *info = (CodeInfo *)self;
    Py_XDECREF((PyObject *)info->site);
    Py_XDECREF(info->names);
    PyObject_Free(self);
}

static PyTypeObject CodeInfoType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "fxtio._native._recorder.CodeInfo",
    .tp_basicsize = sizeof(CodeInfo),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = info_dealloc,
};

/* Remove a code object from the cache if it is there.  On a free-threaded build code in a cache is not freed. */
static void remove_from_cache(PyObject *code) {
#ifdef Py_GIL_DISABLED
    (void)code;
#else
    CachedCode *entry = code_cache_entry(current, code);
    if (entry->code == code)
        entry->code = NULL;
#endif
}

/* Free what a code object holds; the interpreter calls this when the code object is freed or holds something else. */
static void free_info(void *pointer) {
    CodeInfo *info = pointer;
    if (!info)
        return;
    remove_from_cache(info->code);
    Py_DECREF((PyObject *)info);
}

/* Ask the interpreter for a place in code objects.  Returns -1 if there is none. */
int code_init(void) {
    code_extra_index = PyUnstable_Eval_RequestCodeExtraIndex(free_info);
    return code_extra_index < 0 ? -1 : PyType_Ready(&CodeInfoType);
}

#ifdef Py_GIL_DISABLED
/* Return room for what is attached to a code object, NULL without memory. */
static Extras *new_extras(const Extras *old) {
    size_t items = (size_t)code_extra_index + 1;
    Extras *extras = PyMem_Calloc(1, sizeof *extras + (items - 1) * sizeof(void *));
    if (!extras)
        return NULL;
    extras->size = (Py_ssize_t)items;
    for (Py_ssize_t index = 0; old && index < old->size; index++)
        extras->items[index] = old->items[index];
    return extras;
}

/* Give a code object room for what we attach.  Where another user of the interpreter has attached something before us,
 * the room is replaced in a stopped world.  Returns -1 without memory. */
static int make_room(PyObject *code) {
    Extras **place = (Extras **)&((PyCodeObject *)code)->co_extra, *old = __atomic_load_n(place, __ATOMIC_ACQUIRE);
    if (old && old->size > code_extra_index)
        return 0;
    if (old)
        world_stop();
    Extras *extras = new_extras(*place);
    if (extras) {
        old = *place;
        __atomic_store_n(place, extras, __ATOMIC_RELEASE);
    }
    if (old) {
        world_start();
        if (extras)
            PyMem_Free(old);
    }
    return extras ? 0 : -1;
}

/* Attach what a code object holds, in place of what it held, unless `is_answer` and another thread has attached such an
 * answer.  Returns -1 without memory. */
static int attach(PyObject *code, CodeInfo *info, int is_answer) {
    int failed;
    Py_BEGIN_CRITICAL_SECTION(code);
    failed = make_room(code);
    if (!failed) {
        guard_lock();
        CodeInfo *old = code_any_info(code);
        if (!is_answer || !code_is_known(old)) {
            Extras *extras = ((PyCodeObject *)code)->co_extra;
            __atomic_store_n((CodeInfo **)&extras->items[code_extra_index], (CodeInfo *)Py_NewRef((PyObject *)info),
                             __ATOMIC_RELEASE);
            if (old) {
                old->next_retired = retired.first;
                retired.first = old;
                WRITE(retired.count, retired.count + 1);
            }
        }
        guard_unlock();
    }
    Py_END_CRITICAL_SECTION();
    return failed;
}

#else

/* Attach what a code object holds.  Returns -1 with an exception set on failure.
 *
 * When a code object is freed, the interpreter calls the function of each user that the array has room for, even if
 * that has attached nothing.  The code of such a function may be gone at exit, so where the array is new it has no
 * room for those that came after us. */
static int attach(PyObject *code, CodeInfo *info, int is_answer) {
    int is_new = !((PyCodeObject *)code)->co_extra;
    (void)is_answer;
    Py_INCREF((PyObject *)info);
    if (PyUnstable_Code_SetExtra(code, code_extra_index, info)) {
        Py_DECREF((PyObject *)info);
        return -1;
    }
    remove_from_cache(code);
    Extras *extras = ((PyCodeObject *)code)->co_extra;
    if (is_new && extras && extras->size > code_extra_index + 1)
        extras->size = code_extra_index + 1;
    return 0;
}
#endif

/* Make what a code object holds.  Returns NULL with an exception set on failure. */
static CodeInfo *new_info(PyObject *code, PyObject *site, PyObject *names, int with_result, int is_decorated) {
    CodeInfo *info = PyObject_New(CodeInfo, &CodeInfoType);
    if (!info)
        return NULL;
    info->code = code;
    info->site = site == Py_None ? NULL : (Site *)Py_NewRef(site);
    info->names = names && names != Py_None ? Py_NewRef(names) : NULL;
    info->with_result = with_result;
    info->is_coroutine = (((PyCodeObject *)code)->co_flags & CO_COROUTINE) != 0;
    info->is_decorated = is_decorated;
    info->generation = session.generation;
    info->next_retired = NULL;
    return info;
}

/* Set what is to be recorded of a code object that a decorator has marked; with None as site nothing.  Returns -1 with an
 * exception set on failure. */
int code_watch(PyObject *code, PyObject *site, PyObject *names, int with_result) {
    CodeInfo *info = new_info(code, site, names, with_result, 1);
    int failed = !info || attach(code, info, 0);
    Py_XDECREF((PyObject *)info);
    if (failed && !PyErr_Occurred())
        PyErr_NoMemory();
#ifdef Py_GIL_DISABLED
    if (!failed && READ(retired.count)) { /* what it held may be in caches */
        Trash trash = {0};
        world_stop();
        code_cache_clear(&trash);
        world_start();
        trash_empty(&trash);
    }
#endif
    return failed ? -1 : 0;
}

/* Set what is to be recorded of a code object as the hook has answered.  Returns NULL with an exception set on failure. */
static CodeInfo *set_answer(PyObject *code, PyObject *answer) {
    CodeInfo *info = PyTuple_Check(answer) ? new_info(code, PyTuple_GET_ITEM(answer, 0), PyTuple_GET_ITEM(answer, 1),
                                                      PyTuple_GET_ITEM(answer, 2) == Py_True, 0)
                                           : new_info(code, answer, NULL, 0, 0);
    if (info && attach(code, info, 1))
        Py_CLEAR(info);
    return info;
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
 * name of the code.  Returns a new reference, NULL if the hook cannot be asked now. */
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
    if (!thread_resume(state, &pause))
        Py_CLEAR(info);
    return info;
}
