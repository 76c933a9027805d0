/* What keeps threads apart.
 *
 * With the interpreter lock only one thread runs, and another one goes on only where that thread gives the lock up: where
 * Python code runs, or in a few calls of the interpreter: without it, also where a reference is dropped to an object that
 * another thread has made, as that may wait for a lock.  On a free-threaded build of CPython threads run at the same
 * time.  There is a likeness on which everything here rests: between two such places a thread is *attached*, and
 * stopping the world waits until no other thread is.  So what a thread does between two such places is never
 * interrupted by what another one does in a stopped world, and what is read there stays as it is.
 *
 * Each piece of state has one of these guards:
 *
 *   the thread    State of thread.h and Caches of cache.h belong to one thread, the only one that reads and writes them in
 *                 a world that runs.  Nothing on the way of a usual event belongs to anything else, but what follows.
 *   the world     what changes seldom is written while the world is stopped, and read without more: `session` but for
 *                 its counters, `call_limits`, the hooks (of code, of C functions, of interrupts), `asyncio`, the table of
 *                 C functions.  In a stopped world any state of any thread may be written, too: at the end of
 *                 a recording, to move records that are late, to forget code.
 *   the lock      guard_lock(): the file, the region of definitions, the table of texts, the list and the number of
 *                 threads, operations of coroutines and on tracks, tracks of greenlets, the list of retired CodeInfos.
 *                 Who holds it or waits for it stays attached, calls nothing that might not, and neither makes nor
 *                 frees a Python object that has a finalizer.  So nobody holds it in a stopped world.
 *   atomics       counters of `session`, and since when the file is full; of a Site what is prepared for a session, which is written
 *                 once per session under the lock, before its generation; `is_fast`, `has_place`, which several threads
 *                 may set; its `operation`; the CodeInfo of a code object, which never changes: it is replaced, and
 *                 the old one is kept until the world is stopped; who runs a stepper.
 *   the object    spans: a critical section of the interpreter.
 *
 * What Python objects refer to is dropped when the world runs again, as that may run code of the program: Trash.
 *
 * A child of fork() has one thread, so nothing needs a guard there, and the lock is made anew. */
#ifndef FXTIO_GUARD_H
#define FXTIO_GUARD_H

#include "common.h"

/* References to be dropped later. */
typedef struct {
    PyObject **objects;
    size_t count, room;
} Trash;

HIDDEN void trash_add(Trash *trash, PyObject *object);
HIDDEN void trash_empty(Trash *trash);

/* Move a reference to the trash. */
#define TRASH(trash, reference)                      \
    do {                                             \
        PyObject *unused_ = (PyObject *)(reference); \
        (reference) = NULL;                          \
        trash_add(trash, unused_);                   \
    } while (0)

#ifdef Py_GIL_DISABLED

HIDDEN int guard_init(void);
HIDDEN void guard_in_child(void);
HIDDEN void guard_lock(void);
HIDDEN void guard_unlock(void);
HIDDEN int world_can_stop(void);
HIDDEN void world_stop(void);
HIDDEN void world_start(void);

#define THREAD_LOCAL __thread
#define ORDER_ACQUIRE __ATOMIC_ACQUIRE
#define ORDER_RELEASE __ATOMIC_RELEASE
#define BEGIN_OBJECT(object) Py_BEGIN_CRITICAL_SECTION(object)
#define END_OBJECT() Py_END_CRITICAL_SECTION()

/* Add to a counter. */
static inline void count_more(uint64_t *counter, uint64_t number) {
    if (number)
        __atomic_fetch_add(counter, number, __ATOMIC_RELAXED);
}

#else

static inline int guard_init(void) {
    return 0;
}
static inline void guard_in_child(void) {
}
static inline void guard_lock(void) {
}
static inline void guard_unlock(void) {
}
static inline void world_stop(void) {
}
static inline void world_start(void) {
}

#define THREAD_LOCAL
#define ORDER_ACQUIRE __ATOMIC_RELAXED
#define ORDER_RELEASE __ATOMIC_RELAXED
#define BEGIN_OBJECT(object) {
#define END_OBJECT() }

/* Add to a counter. */
static inline void count_more(uint64_t *counter, uint64_t number) {
    *counter += number;
}

#endif

/* Read or write a word or an int that other threads may write or read meanwhile. */
#define READ(place) __atomic_load_n(&(place), __ATOMIC_RELAXED)
#define WRITE(place, value) __atomic_store_n(&(place), (value), __ATOMIC_RELAXED)

#endif
