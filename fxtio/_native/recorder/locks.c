/* Locks of threads: what waits for one, and for how long a lock is held for which somebody has waited.
 *
 * The methods of the types stay what they are, and so do the types: only the C functions in their definitions are replaced
 * by others that record and call them.  So all locks are seen, also those made before, and through bound methods.
 *
 * A lock that is free is taken at once, and nothing is recorded.  Otherwise the wait is a span of the thread.  From then on
 * the lock is watched: that it is held is an operation on a track of its own. */
#include "methods.h"
#include "event.h"

enum Type { LOCK, RLOCK, TYPES };
enum Slot {
    ACQUIRE, ACQUIRE_LOCK, ENTER, RELEASE, RELEASE_LOCK, EXIT, ACQUIRE_RESTORE, RELEASE_SAVE, SLOTS
};

static const char *const NAMES[SLOTS] = {"acquire",      "acquire_lock", "__enter__",        "release",
                                         "release_lock", "__exit__",     "_acquire_restore", "_release_save"};

/* A method of one of the types: its definition, NULL if it has no such method, and its own function. */
typedef struct {
    PyMethodDef *definition;
    PyCFunction own;
} Method;

static Method methods[TYPES][SLOTS];
static PyObject *no_wait;        /* (False,) */
static PyObject *threading_file; /* the file of functions that take locks for others */
static PyInterpreterState *interpreter;
static PyObject *sites_of;       /* returns the sites of waits and of holds for the function that is called */
static PyObject *sites;          /* dict: by a hash of a place, a tuple of its code and these sites; None for what is not recorded */

enum { MAX_SITES = 10000, WATCHED = 1024, MAX_PROBES = 8 };

/* A lock that is watched.  Only who holds it, or has it released, changes the rest. */
typedef struct {
    PyObject *lock; /* its address; NULL for an entry that is free */
    const State *owner;
    Py_ssize_t depth;
    uint64_t track;
    int is_open; /* whether the operation has begun: who sets that to 0 records its end */
    uint64_t generation;
    Site *site;
} Watched;

static Watched watched[WATCHED];
static int has_watched;

/* ---- Calls of a method's own function. ---- */

typedef struct {
    enum Type type;
    enum Slot slot;
    PyObject *lock, *args; /* `args` is what the convention says: NULL, an object, a tuple */
    PyObject *const *vector;
    Py_ssize_t count;
    PyObject *keys;
} Call;

enum { CONVENTION = METH_VARARGS | METH_KEYWORDS | METH_NOARGS | METH_O | METH_FASTCALL };

static PyObject *call_own(const Call *call) {
    const Method *method = &methods[call->type][call->slot];
    void (*own)(void) = (void (*)(void))method->own;
    switch (method->definition->ml_flags & CONVENTION) {
    case METH_VARARGS | METH_KEYWORDS:
        return ((PyCFunctionWithKeywords)own)(call->lock, call->args, call->keys);
    case METH_FASTCALL | METH_KEYWORDS:
        return ((PyObject * (*)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *)) own)(call->lock, call->vector,
                                                                                             call->count, call->keys);
    case METH_FASTCALL:
        return ((PyObject * (*)(PyObject *, PyObject *const *, Py_ssize_t)) own)(call->lock, call->vector, call->count);
    default:
        return method->own(call->lock, call->args);
    }
}

/* Take a lock if that is possible at once: return True or False, a new reference, NULL with an exception. */
static PyObject *take_at_once(enum Type type, PyObject *lock) {
    Call call = {.type = type, .slot = ACQUIRE, .lock = lock, .args = no_wait};
    call.vector = &PyTuple_GET_ITEM(no_wait, 0);
    call.count = 1;
    return call_own(&call);
}

/* Return whether a call has arguments. */
static int has_arguments(const Call *call) {
    return call->count || call->keys || (call->args && PyTuple_Check(call->args) && PyTuple_GET_SIZE(call->args));
}

/* Return whether a call says in the usual way that it does not wait. */
static int does_not_wait(const Call *call) {
    const Py_ssize_t count = call->count ? call->count : call->args && PyTuple_Check(call->args) ? PyTuple_GET_SIZE(call->args) : 0;
    PyObject *const *items = call->count ? call->vector : count ? &PyTuple_GET_ITEM(call->args, 0) : NULL;
    PyObject *keys = call->keys;
    int overflow = 0;
    if (items && count)
        return items[0] == Py_False ||
               (PyLong_CheckExact(items[0]) && !PyLong_AsLongAndOverflow(items[0], &overflow) && !overflow);
    if (keys && PyDict_Check(keys))
        return PyDict_GetItemString(keys, "blocking") == Py_False;
    return keys && PyTuple_Check(keys) && PyTuple_GET_SIZE(keys) == 1 && call->vector[0] == Py_False;
}

/* ---- Places. ---- */

/* The sites of a place that takes locks, references or NULL. */
typedef struct {
    Site *wait, *hold;
} Sites;

static void sites_drop(Sites pair) {
    Py_XDECREF((PyObject *)pair.wait);
    Py_XDECREF((PyObject *)pair.hold);
}

static Sites sites_in(PyObject *entry) {
    PyObject *wait = PyTuple_GET_ITEM(entry, 1), *hold = PyTuple_GET_ITEM(entry, 2);
    return (Sites){wait == Py_None ? NULL : (Site *)Py_NewRef(wait), hold == Py_None ? NULL : (Site *)Py_NewRef(hold)};
}

static int is_site_or_none(PyObject *object) {
    return object == Py_None || Py_IS_TYPE(object, &SiteType);
}

/* Ask for the sites of a place, and remember them. */
static Sites learn(enum Type type, PyObject *key, PyObject *code) {
    Sites pair = {0};
    State *state = current;
    Pause pause = thread_pause(state);
    PyObject *answer = PyObject_CallFunction(sites_of, "s", type == LOCK ? "Lock" : "RLock"), *wait, *hold, *entry = NULL;
    if (answer && PyArg_ParseTuple(answer, "OO", &wait, &hold) && is_site_or_none(wait) && is_site_or_none(hold))
        entry = PyTuple_Pack(3, code, wait, hold);
    if (entry) {
        pair = sites_in(entry);
        if (PyDict_GET_SIZE(sites) < MAX_SITES)
            PyDict_SetDefault(sites, key, entry); /* what is there stays, as other threads may look at it */
    }
    Py_XDECREF(entry);
    Py_XDECREF(answer);
    thread_resume(state, &pause);
    return pair;
}

/* Return whether code takes locks for the functions that call it, as all of `threading` does. */
static int takes_for_others(const PyCodeObject *code) {
    return code->co_filename == threading_file || !PyUnicode_Compare(code->co_filename, threading_file);
}

/* Return the frame of the function that takes a lock, a new reference; NULL if there is none, as where a thread begins,
 * whose name is not known yet.  `*inner` becomes the address of the code that calls the method. */
static PyFrameObject *taking_frame(uintptr_t *inner) {
    PyFrameObject *frame = PyEval_GetFrame();
    *inner = 0;
    Py_XINCREF(frame);
    while (frame) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        const int goes_on = takes_for_others(code);
        *inner = *inner ? *inner : (uintptr_t)code;
        Py_DECREF(code);
        if (!goes_on)
            break;
        Py_SETREF(frame, PyFrame_GetBack(frame));
    }
    return frame;
}

/* Return the sites of the place that takes a lock of a type; none if it is not recorded, or an exception interrupts. */
static Sites sites_here(enum Type type) {
    Sites pair = {0};
    State *state = current;
    uintptr_t inner;
    if (!thread_room(&state, 2)) /* before the lock is taken, as a thread that joins the recording calls a hook */
        return pair;
    SavedError error = error_save();
    PyFrameObject *frame = taking_frame(&inner);
    if (frame) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        const uint64_t at = (uint64_t)PyFrame_GetLasti(frame);
        const uint64_t hash = ((uintptr_t)code ^ at << 1 ^ (uint64_t)type) * GOLDEN_RATIO ^ inner;
        PyObject *key = PyLong_FromUnsignedLongLong(hash);
        PyObject *entry = key ? PyDict_GetItemWithError(sites, key) : NULL;
        if (entry && PyTuple_GET_ITEM(entry, 0) == (PyObject *)code)
            pair = sites_in(entry);
        else if (key)
            pair = learn(type, key, (PyObject *)code);
        Py_XDECREF(key);
        Py_DECREF(code);
        Py_DECREF(frame);
    }
    error_restore_unless_escaped(error);
    return pair;
}

/* Return whether this thread can record: not while code of the tracer runs, nor in another interpreter, whose locks have
 * the same definitions of methods. */
static int can_record(void) {
    return session.active && !current->paused && !current->escaped && PyInterpreterState_Get() == interpreter;
}

/* ---- Locks that are watched. ---- */

/* Return the entry of a lock, NULL if it is not watched; with `is_new` watch it, if there is room. */
static Watched *entry_of(PyObject *lock, int is_new) {
    if (LIKELY(!READ(has_watched) && !is_new))
        return NULL;
    size_t place = ((uintptr_t)lock >> 4) * GOLDEN_RATIO >> 40;
    for (int probe = 0; probe < MAX_PROBES; probe++) {
        Watched *entry = &watched[(place + (size_t)probe) % WATCHED];
        PyObject *other = READ(entry->lock);
        if (!other && !is_new)
            return NULL;
        if (!other && __atomic_compare_exchange_n(&entry->lock, &other, lock, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            WRITE(has_watched, 1);
            return entry;
        }
        if (other == lock)
            return entry;
    }
    return NULL;
}

/* Record that the caller, who has just taken a lock, holds it. */
static void begin_hold(Watched *entry, Site *site, Py_ssize_t depth) {
    entry->owner = current;
    entry->depth = depth;
    entry->track = ((uintptr_t)entry->lock ^ current->identity.process << 40) | (uint64_t)1 << 63; /* no task has this */
    SavedError error = error_save();
    if (site && can_record() && record_bare_with_id(site, EVENT_ASYNC_BEGIN, &entry->track)) {
        Site *old = entry->site;
        entry->site = (Site *)Py_NewRef(site);
        entry->generation = session.generation;
        __atomic_store_n(&entry->is_open, 1, __ATOMIC_RELEASE);
        Py_XDECREF((PyObject *)old);
    }
    error_restore(error);
}

/* Record that a lock is no longer held. */
static void end_hold(Watched *entry) {
    if (!__atomic_exchange_n(&entry->is_open, 0, __ATOMIC_ACQ_REL) || entry->generation != session.generation || !can_record())
        return;
    SavedError error = error_save();
    record_bare_with_id(entry->site, EVENT_ASYNC_END, &entry->track);
    error_restore(error);
}

/* Note that a lock was taken. */
static void took(const Call *call, Watched *entry, Site *site, Py_ssize_t depth) {
    if (call->type == RLOCK && entry->depth && entry->owner == current) {
        entry->depth++;
        return;
    }
    end_hold(entry); /* one of which nobody has told us the end */
    begin_hold(entry, site, depth);
}

/* ---- Actions. ---- */

/* Wait for a lock that is taken; then watch it. */
static PyObject *wait_for(const Call *call, Sites pair, Py_ssize_t depth) {
    const uint64_t generation = session.generation;
    const int is_recorded = pair.wait && record_bare(pair.wait, EVENT_BEGIN);
    PyObject *result = call_own(call);
    if (is_recorded && generation == session.generation) {
        SavedError error = error_save();
        record_bare(pair.wait, EVENT_END);
        error_restore(error);
    }
    Watched *entry = result && result != Py_False && pair.hold ? entry_of(call->lock, 1) : NULL;
    if (entry)
        took(call, entry, pair.hold, depth);
    return result;
}

/* Get the sites of the place that takes a lock.  Returns 0 if an exception interrupts the program: then it gets that in
 * place of the lock. */
static int find_sites(enum Type type, Sites *pair) {
    *pair = sites_here(type);
    if (LIKELY(!current->escaped))
        return 1;
    sites_drop(*pair);
    return 0;
}

/* Take a lock.  What is watched has its sites before that, as to ask for them may raise what interrupts the program. */
static PyObject *acquire(const Call *call) {
    Watched *entry = entry_of(call->lock, 0);
    if (UNLIKELY(!session.active || does_not_wait(call)) && !entry)
        return call_own(call);
    Sites pair = {0};
    if (UNLIKELY(entry != NULL) && can_record() && !find_sites(call->type, &pair))
        return unless_escaped(NULL);
    PyObject *result;
    if (does_not_wait(call))
        result = call_own(call);
    else {
        result = take_at_once(call->type, call->lock);
        if (UNLIKELY(result == Py_True && has_arguments(call))) { /* which may be wrong */
            const Call release = {.type = call->type, .slot = RELEASE, .lock = call->lock};
            Py_XDECREF(call_own(&release));
            Py_SETREF(result, call_own(call));
        } else if (UNLIKELY(result == Py_False)) {
            Py_DECREF(result);
            if (!pair.wait && can_record() && !find_sites(call->type, &pair))
                return unless_escaped(NULL);
            result = wait_for(call, pair, 1);
            entry = NULL;
        }
    }
    if (UNLIKELY(entry && result == Py_True))
        took(call, entry, pair.hold, 1);
    sites_drop(pair);
    return result;
}

/* Take a lock again that Condition.wait() has released, as often as it was taken. */
static PyObject *acquire_again(const Call *call) {
    const int is_recorded = can_record();
    Sites pair = is_recorded ? sites_here(call->type) : (Sites){0};
    SavedError error = error_save(); /* which interrupts the program: not before it has the lock */
    PyObject *state = call->args, *count = NULL;
    while (state && PyTuple_Check(state) && PyTuple_GET_SIZE(state))
        state = count = PyTuple_GET_ITEM(state, 0);
    const Py_ssize_t depth = count && PyLong_Check(count) ? PyLong_AsSsize_t(count) : 1;
    PyErr_Clear(); /* of a number that no lock has given */
    PyObject *is_free = take_at_once(call->type, call->lock), *result;
    if (is_free == Py_True) {
        const Call release = {.type = call->type, .slot = RELEASE, .lock = call->lock};
        Py_XDECREF(call_own(&release));
        result = call_own(call);
        Watched *entry = result ? entry_of(call->lock, 0) : NULL;
        if (entry)
            took(call, entry, pair.hold, depth);
    } else
        result = wait_for(call, pair, depth);
    Py_XDECREF(is_free);
    sites_drop(pair);
    if (error.type)
        error_restore(error);
    return is_recorded ? unless_escaped(result) : result;
}

/* Release a lock: its hold ends before, as another thread may take it at once. */
static PyObject *release(const Call *call) {
    Watched *entry = entry_of(call->lock, 0);
    if (UNLIKELY(entry && entry->depth && (call->type == LOCK || entry->owner == current))) {
        entry->depth = call->slot == RELEASE_SAVE ? 0 : entry->depth - 1;
        if (!entry->depth)
            end_hold(entry);
    }
    return call_own(call);
}

/* ---- A function for each method and each calling convention. ---- */

#define FUNCTIONS(TYPE, SLOT, action)                                                                                 \
    static PyObject *TYPE##_##SLOT##_plain(PyObject *lock, PyObject *args) {                                          \
        const Call call = {.type = TYPE, .slot = SLOT, .lock = lock, .args = args};                                   \
        return action(&call);                                                                                         \
    }                                                                                                                 \
    static PyObject *TYPE##_##SLOT##_keys(PyObject *lock, PyObject *args, PyObject *keys) {                           \
        const Call call = {.type = TYPE, .slot = SLOT, .lock = lock, .args = args, .keys = keys};                     \
        return action(&call);                                                                                         \
    }                                                                                                                 \
    static PyObject *TYPE##_##SLOT##_fast(PyObject *lock, PyObject *const *args, Py_ssize_t count) {                  \
        const Call call = {.type = TYPE, .slot = SLOT, .lock = lock, .vector = args, .count = count};                 \
        return action(&call);                                                                                         \
    }                                                                                                                 \
    static PyObject *TYPE##_##SLOT##_fast_keys(PyObject *lock, PyObject *const *args, Py_ssize_t count, PyObject *keys) { \
        const Call call = {.type = TYPE, .slot = SLOT, .lock = lock, .vector = args, .count = count, .keys = keys};   \
        return action(&call);                                                                                         \
    }

#define OF_TYPE(TYPE)                             \
    FUNCTIONS(TYPE, ACQUIRE, acquire)             \
    FUNCTIONS(TYPE, ACQUIRE_LOCK, acquire)        \
    FUNCTIONS(TYPE, ENTER, acquire)               \
    FUNCTIONS(TYPE, RELEASE, release)             \
    FUNCTIONS(TYPE, RELEASE_LOCK, release)        \
    FUNCTIONS(TYPE, EXIT, release)                \
    FUNCTIONS(TYPE, ACQUIRE_RESTORE, acquire_again) \
    FUNCTIONS(TYPE, RELEASE_SAVE, release)

OF_TYPE(LOCK)
OF_TYPE(RLOCK)

typedef struct {
    PyCFunction plain, keys, fast, fast_keys;
} Functions;

#define ENTRY(TYPE, SLOT)                                                                                 \
    [SLOT] = {TYPE##_##SLOT##_plain, (PyCFunction)(void (*)(void))TYPE##_##SLOT##_keys,                   \
              (PyCFunction)(void (*)(void))TYPE##_##SLOT##_fast, (PyCFunction)(void (*)(void))TYPE##_##SLOT##_fast_keys}
#define ENTRIES(TYPE)                                                                                                \
    [TYPE] = {ENTRY(TYPE, ACQUIRE), ENTRY(TYPE, ACQUIRE_LOCK), ENTRY(TYPE, ENTER),           ENTRY(TYPE, RELEASE), \
              ENTRY(TYPE, RELEASE_LOCK), ENTRY(TYPE, EXIT),    ENTRY(TYPE, ACQUIRE_RESTORE), ENTRY(TYPE, RELEASE_SAVE)}

static const Functions functions[TYPES][SLOTS] = {ENTRIES(LOCK), ENTRIES(RLOCK)};

/* Return our function for a method of a calling convention, NULL if that is not known. */
static PyCFunction function_for(const Functions *ours, int flags) {
    switch (flags & CONVENTION) {
    case METH_VARARGS | METH_KEYWORDS:
        return ours->keys;
    case METH_FASTCALL | METH_KEYWORDS:
        return ours->fast_keys;
    case METH_FASTCALL:
        return ours->fast;
    case METH_VARARGS:
    case METH_NOARGS:
    case METH_O:
        return ours->plain;
    default:
        return NULL;
    }
}

/* ---- Begin and end. ---- */

/* Replace the functions of a type's methods. */
static void watch_type(enum Type type, PyObject *class) {
    for (enum Slot slot = 0; slot < SLOTS; slot++) {
        PyObject *name = PyUnicode_InternFromString(NAMES[slot]);
        PyObject *descriptor = name ? PyObject_GetAttr(class, name) : NULL;
        Py_XDECREF(name);
        PyErr_Clear();
        if (descriptor && Py_IS_TYPE(descriptor, &PyMethodDescr_Type)) {
            PyMethodDef *definition = ((PyMethodDescrObject *)descriptor)->d_method;
            const PyCFunction ours = function_for(&functions[type][slot], definition->ml_flags);
            if (ours && definition->ml_meth != ours) {
                methods[type][slot] = (Method){definition, definition->ml_meth};
                __atomic_store_n(&definition->ml_meth, ours, __ATOMIC_RELEASE);
            }
        }
        Py_XDECREF(descriptor);
    }
}

/* watch_locks(lock, rlock, file, sites_of): record waits for locks of these two types, and holds.  Functions in the file take
 * locks for those that call them; sites_of(name) returns the sites for the function that is called. */
static PyObject *watch_locks(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *lock, *rlock, *file, *function;
    if (!PyArg_ParseTuple(args, "O!O!UO", &PyType_Type, &lock, &PyType_Type, &rlock, &file, &function))
        return NULL;
    if ((!no_wait && !(no_wait = PyTuple_Pack(1, Py_False))) || (!sites && !(sites = PyDict_New())))
        return NULL;
    Trash trash = {0};
    world_stop();
    for (Watched *entry = watched; entry < watched + WATCHED; entry++) {
        TRASH(&trash, entry->site);
        *entry = (Watched){0};
    }
    has_watched = 0;
    TRASH(&trash, threading_file);
    TRASH(&trash, sites_of);
    threading_file = Py_NewRef(file);
    sites_of = Py_NewRef(function);
    interpreter = PyInterpreterState_Get();
    world_start();
    watch_type(LOCK, lock);
    watch_type(RLOCK, rlock);
    trash_empty(&trash);
    Py_RETURN_NONE;
}

/* unwatch_locks(): record no more, and end the holds that are open. */
static PyObject *unwatch_locks(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused)) {
    for (int type = 0; type < TYPES; type++)
        for (int slot = 0; slot < SLOTS; slot++)
            if (methods[type][slot].definition)
                __atomic_store_n(&methods[type][slot].definition->ml_meth, methods[type][slot].own, __ATOMIC_RELEASE);
    for (Watched *entry = watched; entry < watched + WATCHED; entry++)
        if (entry->site)
            end_hold(entry);
    return unless_escaped(Py_NewRef(Py_None));
}

PyMethodDef lock_methods[] = {
    {"watch_locks", watch_locks, METH_VARARGS, NULL},
    {"unwatch_locks", unwatch_locks, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
