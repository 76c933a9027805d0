/* What keeps threads apart. */
#include "guard.h"

/* Keep a reference for trash_empty().  Without memory it is never dropped. */
void trash_add(Trash *trash, PyObject *object) {
    enum { FIRST_ROOM = 64 };
    if (!object)
        return;
    if (trash->count == trash->room) {
        size_t room = trash->room ? 2 * trash->room : FIRST_ROOM;
        PyObject **objects = PyMem_RawRealloc(trash->objects, room * sizeof *objects);
        if (!objects)
            return;
        trash->objects = objects;
        trash->room = room;
    }
    trash->objects[trash->count++] = object;
}

/* Drop all references, which may run code of the program; an exception that is set stays. */
void trash_empty(Trash *trash) {
    if (!trash->count)
        return;
    SavedError error = error_save();
    while (trash->count)
        Py_DECREF(trash->objects[--trash->count]);
    PyMem_RawFree(trash->objects);
    *trash = (Trash){0};
    error_restore(error);
}

#ifdef Py_GIL_DISABLED
#include <pthread.h>

/* Of the interpreter, which has no public names for them.  CPython 3.13 does not export them; there the interpreter lock
 * has to be on. */
extern void _PyEval_StopTheWorld(PyInterpreterState *interpreter) __attribute__((weak));
extern void _PyEval_StartTheWorld(PyInterpreterState *interpreter) __attribute__((weak));

static pthread_mutex_t lock;

/* Prepare the lock, once per process.  Returns -1 on failure. */
int guard_init(void) {
    return pthread_mutex_init(&lock, NULL) ? -1 : 0;
}

/* Make the lock anew, which a thread may have held that is not there after a fork. */
void guard_in_child(void) {
    (void)guard_init();
}

/* Wait for the lock, without giving other threads the occasion to stop the world. */
void guard_lock(void) {
    pthread_mutex_lock(&lock);
}

/* Let another thread have the lock. */
void guard_unlock(void) {
    pthread_mutex_unlock(&lock);
}

/* Return whether the world can be stopped. */
int world_can_stop(void) {
    return _PyEval_StopTheWorld && _PyEval_StartTheWorld;
}

/* Wait until all other threads are where the world can be stopped, and keep them there. */
void world_stop(void) {
    if (world_can_stop())
        _PyEval_StopTheWorld(PyInterpreterState_Get());
}

/* Let other threads go on. */
void world_start(void) {
    if (world_can_stop())
        _PyEval_StartTheWorld(PyInterpreterState_Get());
}
#endif
