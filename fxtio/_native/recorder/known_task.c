/* What is known of tasks whose coroutines are not recorded: a table by address.  Entries of tasks that have been freed are dropped as it grows. */
#include "known_task.h"

static struct {
    KnownTask *entries;
    size_t mask, used; /* a power of two less 1; entries that are not free */
} table;

/* Return whether an entry is that of an object which is still there. */
static int is_alive(const KnownTask *entry) {
#if PY_VERSION_HEX >= 0x030D0000
    PyObject *object;
    if (PyWeakref_GetRef(entry->reference, &object) <= 0)
        return 0;
    Py_DECREF(object); /* not the last reference: the caller of known_task() has one, or other code that runs later */
    return object == entry->task;
#else
    return PyWeakref_GET_OBJECT(entry->reference) == entry->task;
#endif
}

/* Drop what an entry holds. */
static void release(KnownTask *entry) {
    Py_CLEAR(entry->reference);
    PyMem_RawFree(entry->flows);
    entry->flows = NULL;
}

/* Return the entry of a task, or the free one where it would be. */
static KnownTask *find(PyObject *task) {
    size_t place = ((uintptr_t)task >> 4) * 0x9E3779B97F4A7C15u >> 20 & table.mask;
    while (table.entries[place].task && table.entries[place].task != task)
        place = (place + 1) & table.mask;
    return &table.entries[place];
}

/* Make room, and drop the entries of tasks that have been freed.  Returns -1 without memory. */
static int make_room(void) {
    enum { FIRST_ROOM = 64 };
    KnownTask *old = table.entries;
    size_t old_room = old ? table.mask + 1 : 0, alive = 0, room = FIRST_ROOM;
    for (size_t index = 0; index < old_room; index++)
        alive += old[index].task && is_alive(&old[index]);
    while (room < 4 * alive)
        room *= 2;
    KnownTask *entries = PyMem_RawCalloc(room, sizeof *entries);
    if (!entries)
        return -1;
    table.entries = entries;
    table.mask = room - 1;
    table.used = 0;
    for (size_t index = 0; index < old_room; index++) {
        if (!old[index].task)
            continue;
        if (is_alive(&old[index])) {
            *find(old[index].task) = old[index];
            table.used++;
        } else
            release(&old[index]);
    }
    PyMem_RawFree(old);
    return 0;
}

/* Return a weak reference to a task, NULL without an exception on failure.
 *
 * There may be very many tasks.  A new reference refers to nothing that the garbage collector must see, so the collector
 * need not visit it. */
static PyObject *reference_to(PyObject *task) {
    PyObject *reference = PyWeakref_NewRef(task, NULL);
    if (!reference)
        PyErr_Clear();
    else if (Py_REFCNT(reference) == 1)
        PyObject_GC_UnTrack(reference);
    return reference;
}

/* Return what is known of a task, or NULL if that is nothing. */
KnownTask *known_task_if_any(PyObject *task) {
    KnownTask *entry = table.used ? find(task) : NULL;
    return entry && entry->task && is_alive(entry) ? entry : NULL;
}

/* Return what is known of a task, valid until the next call.  Returns NULL without memory, or if there are no weak
 * references to such a task. */
KnownTask *known_task(PyObject *task) {
    KnownTask *entry = known_task_if_any(task);
    if (entry)
        return entry;
    PyObject *reference = reference_to(task);
    if (!reference || ((!table.entries || 2 * table.used >= table.mask) && make_room())) {
        Py_XDECREF(reference);
        return NULL;
    }
    entry = find(task); /* a garbage collection may have run other code */
    release(entry);
    table.used += !entry->task;
    *entry = (KnownTask){.task = task, .reference = reference};
    return entry;
}

/* Forget all tasks. */
void known_tasks_forget(void) {
    size_t room = table.entries ? table.mask + 1 : 0;
    for (size_t index = 0; index < room; index++)
        release(&table.entries[index]);
    PyMem_RawFree(table.entries);
    memset(&table, 0, sizeof table);
}
