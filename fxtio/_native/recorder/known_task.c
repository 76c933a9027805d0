/* What is known of tasks whose coroutines are not recorded: a table by address.  Entries of tasks that have been freed are dropped as it grows.
 *
 * Weak references may be looked at and dropped only where the table may be emptied meanwhile, as when another thread ends
 * the recording: then it is looked at again. */
#include "operation.h"

/* Return the object that a weak reference refers to, a new reference, or NULL if that has been freed.  It may be the last
 * reference. */
static PyObject *referent(PyObject *reference) {
#if PY_VERSION_HEX >= 0x030D0000
    PyObject *object = NULL;
    return PyWeakref_GetRef(reference, &object) > 0 ? object : NULL;
#else
    PyObject *object = PyWeakref_GET_OBJECT(reference);
    return object == Py_None ? NULL : Py_NewRef(object);
#endif
}

/* Return the entry of a task, or the free one where it would be. */
static KnownTask *find(const TaskTable *table, PyObject *task) {
    size_t place = ((uintptr_t)task >> 4) * GOLDEN_RATIO >> 20 & table->mask;
    while (table->entries[place].task && table->entries[place].task != task)
        place = (place + 1) & table->mask;
    return &table->entries[place];
}

/* Return the entry of a task, or NULL if it has none. */
static KnownTask *find_known(const TaskTable *table, PyObject *task) {
    KnownTask *entry = table->entries ? find(table, task) : NULL;
    return entry && entry->task ? entry : NULL;
}

/* Make a table of the entries of another one whose tasks are still there, of which `objects` has references.  Returns an
 * empty table without memory. */
static TaskTable copy_alive(const TaskTable *old, PyObject *const *objects) {
    enum { FIRST_ROOM = 64 };
    size_t old_room = old->entries ? old->mask + 1 : 0, room = FIRST_ROOM;
    TaskTable table = {NULL, 0, 0};
    for (size_t index = 0; index < old_room; index++)
        table.used += old->entries[index].task && objects[index] == old->entries[index].task;
    while (room < 4 * table.used)
        room *= 2;
    if (!(table.entries = PyMem_RawCalloc(room, sizeof *table.entries)))
        return (TaskTable){NULL, 0, 0};
    table.mask = room - 1;
    for (size_t index = 0; index < old_room; index++)
        if (old->entries[index].task && objects[index] == old->entries[index].task) {
            *find(&table, old->entries[index].task) = old->entries[index];
            old->entries[index] = (KnownTask){0};
        }
    return table;
}

/* Make room, and drop the entries of tasks that have been freed.  Returns -1 without memory. */
static int make_room(Caches *caches) {
    TaskTable old = caches->tasks, table = {NULL, 0, 0};
    size_t old_room = old.entries ? old.mask + 1 : 0;
    PyObject **objects = PyMem_RawCalloc(old_room + 1, sizeof *objects);
    uint64_t generation = session.generation;
    Trash trash = {0};
    if (!objects)
        return -1;
    caches->tasks = table; /* nobody else has it now */
    for (size_t index = 0; index < old_room; index++)
        if (old.entries[index].task)
            objects[index] = referent(old.entries[index].reference);
    if (session.generation == generation)
        caches->tasks = table = copy_alive(&old, objects);
    for (size_t index = 0; index < old_room; index++) {
        trash_add(&trash, old.entries[index].reference);
        PyMem_RawFree(old.entries[index].flows);
        trash_add(&trash, objects[index]);
    }
    PyMem_RawFree(old.entries);
    PyMem_RawFree(objects);
    trash_empty(&trash);
    return table.entries ? 0 : -1;
}

/* Let a task have a new entry. */
static void add(TaskTable *table, PyObject *task, PyObject *reference) {
    KnownTask *entry = find(table, task), old = *entry;
    table->used += !entry->task;
    *entry = (KnownTask){.task = task, .reference = reference};
    PyMem_RawFree(old.flows);
    Py_XDECREF(old.reference);
}

/* Return what a table knows of a task that is there, or NULL. */
static KnownTask *find_alive(const TaskTable *table, PyObject *task) {
    KnownTask *entry = find_known(table, task);
    if (!entry)
        return NULL;
    PyObject *reference = Py_NewRef(entry->reference), *object = referent(reference);
    Py_XDECREF(object);
    Py_DECREF(reference);
    return object == task ? find_known(table, task) : NULL;
}

/* Return what is known of a task, valid until the next call, or NULL if that is nothing. */
KnownTask *known_task_if_any(PyObject *task) {
    State *state = thread_state();
    return state ? find_alive(&caches_of(state)->tasks, task) : NULL;
}

/* Return what is known of a task, valid until the next call.  Returns NULL without memory, or if there are no weak
 * references to such a task. */
KnownTask *known_task(PyObject *task) {
    State *state = thread_state();
    TaskTable *table = state ? &caches_of(state)->tasks : NULL;
    KnownTask *entry = table ? find_alive(table, task) : NULL;
    if (entry)
        return entry;
    PyObject *reference = table ? PyWeakref_NewRef(task, NULL) : NULL;
    if (!reference) {
        PyErr_Clear();
        return NULL;
    }
    if ((table->entries && 2 * table->used < table->mask) || !make_room(caches_of(state))) {
        if (table->entries) {
            add(table, task, reference);
            return find_known(table, task);
        }
    }
    Py_DECREF(reference);
    return NULL;
}
