/* The file: definitions in front, a chunk of mapped pages for each thread, full chunks appended.
 *
 * A chunk can be walked in two ways, and its first word says in which.  Visible: that word is a filler of one word, the
 * records of the first page follow, then at the page's last word a filler of two words, which steps over the first word
 * of the next page, and so on.  Hidden: the first word of every page is a filler of a whole page, so that the walk goes
 * from page to page and sees nothing.  One store of one word thus shows or hides a chunk.
 *
 *      page 0              page 1              page 2
 *      1|r r r r . . . .|2 P|r r r . . . . .|2 P|. . .        visible: 1, records, 2 (and P with it), records, ...
 *      P|               |   P|             |   P|             hidden: P, P, P
 *
 * When a chunk is full its pages are copied behind the end of the file, hidden; as P is at every page's begin, the file
 * is valid even if the copy is cut between pages.  Then the copy is shown, and the live chunk is hidden, cleared and
 * shown again.  The live pages stay mapped and warm, which is what makes a record cheap: a fresh page costs more than
 * the records that fill it.  (A kill between the two neighbouring stores that show the one and hide the other leaves a
 * chunk twice.) */
#define _GNU_SOURCE
#include "store.h"

#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

Layout layout;
Session session;
static State nobody;
__thread State *current = &nobody;

static struct {
    uint64_t threads;  /* of the thread table */
    uint64_t *blank;   /* the pages of an empty chunk, hidden */
    int full;          /* no more room: nothing is recorded any more */
    State *states;     /* of all threads that were ever seen and have not ended */
} store;

static pthread_key_t key;
static __thread State *own;

static uint64_t last_word(int page) {
    return filler(page + 1 < CHUNK_PAGES ? 2 : 1);
}

/* Pages as they are when nothing is in them, whatever the first word of the first one says. */
static void clear(uint64_t *chunk) {
    for (int page = 0; page < CHUNK_PAGES; page++) {
        uint64_t *words = chunk + page * PAGE_WORDS;
        words[1] = filler(PAGE_WORDS - 2);
        words[PAGE_WORDS - 1] = last_word(page);
        if (page)
            words[0] = filler(PAGE_WORDS);
    }
}

static void close_state(State *state) {
    state->p = state->end = state->swift_end = NULL;
}

static void place_state(State *state, uint64_t *p, uint64_t *end) {
    state->p = p;
    state->end = end;
    state->swift_end = state->identity.extra ? NULL : end;
}

/* After a fork the child has no business in its parent's file, and the other threads are not there. */
static void in_child(void) {
    for (State *state = store.states; state; state = state->other) {
        close_state(state);
        state->over = state != own;
    }
    file_in_child();
    session.active = 0;
}

static void discard(State *state) {
    Py_CLEAR(state->arrows);
    held_clear(state);
    PyMem_RawFree(state->open);
    PyMem_RawFree(state->begun);
    free(state);
}

static void thread_ended(void *state) {
    own = NULL; /* what the thread may still call, as destructors of others, begins anew */
    current = &nobody;
    __atomic_store_n(&((State *)state)->over, 1, __ATOMIC_RELEASE);
}

int store_init(void) {
    if (pthread_key_create(&key, thread_ended) || pthread_atfork(NULL, NULL, in_child)) {
        PyErr_SetString(PyExc_OSError, "no thread-specific data");
        return -1;
    }
    return 0;
}

int store_start(int fd, uint64_t end, uint64_t limit, uint64_t ring) {
    memset(&store, 0, offsetof(__typeof__(store), states));
    store.blank = aligned_alloc(sizeof(uint64_t) * PAGE_WORDS, CHUNK_BYTES);
    if (!store.blank) {
        PyErr_NoMemory();
        return -1;
    }
    memset(store.blank, 0, CHUNK_BYTES);
    clear(store.blank);
    show(store.blank, 0);
    return file_start(fd, end, limit, ring);
}

/* No state is used any more; their chunks stay in the file as they are. */
void store_stop(void) {
    State **link = &store.states, *state;
    while ((state = *link)) {
        session.lost += state->lost;
        state->lost = 0;
        state->depth = 0;
        close_state(state);
        if (state->chunk)
            munmap(state->chunk, CHUNK_BYTES);
        state->chunk = NULL;
        state->context = state->track = state->waited = 0;
        Py_CLEAR(state->arrows);
        held_clear(state);
        state->session = 0;
        if (__atomic_load_n(&state->over, __ATOMIC_ACQUIRE)) {
            *link = state->other;
            discard(state);
        } else
            link = &state->other;
    }
    file_stop();
    free(store.blank);
    memset(&store, 0, offsetof(__typeof__(store), states));
}

/* Record nothing more, while the recording is brought to its end. */
void store_seal(void) {
    session.active = 0;
    for (State *state = store.states; state; state = state->other)
        close_state(state);
}

uint64_t store_lost(void) {
    uint64_t count = session.lost;
    for (State *state = store.states; state; state = state->other)
        count += state->lost;
    return count;
}

State *store_states(void) {
    return store.states;
}

/* ---- Chunks. ---- */

static void to_page(State *state, uint64_t *page) {
    place_state(state, page + 1, page + PAGE_WORDS - 1);
}

/* Take the chunk of a thread that has ended. */
static int inherit(State *state) {
    State **link = &store.states, *other;
    while (!state->chunk && (other = *link)) {
        if (!__atomic_load_n(&other->over, __ATOMIC_ACQUIRE)) {
            link = &other->other;
            continue;
        }
        state->chunk = other->chunk;
        place_state(state, other->p, other->end);
        session.lost += other->lost;
        *link = other->other;
        discard(other);
    }
    return state->chunk ? 0 : -1;
}

/* Give the state a chunk. */
static int open_chunk(State *state) {
    if (!inherit(state))
        return 0;
    uint64_t at = file_place(store.blank, 0), *chunk = at ? file_map(at) : NULL;
    if (!chunk)
        return -1;
    show(chunk, 1);
    state->chunk = chunk;
    to_page(state, chunk);
    return 0;
}

/* Copy a full chunk to where it stays, and make it empty. */
static int flush(State *state) {
    uint64_t *chunk = state->chunk, at = file_place(chunk, 1), *word = at ? file_word(at) : NULL;
    if (!word)
        return -1;
    show(word, 1);
    show(chunk, 0);
    clear(chunk);
    show(chunk, 1);
    to_page(state, chunk);
    session.flushed++;
    return 0;
}

/* From now on something is lost. */
static void lose(void) {
    if (!session.lost_since)
        session.lost_since = raw_clock(session.tsc) - session.base;
}

/* Nothing can be recorded any more; what is there stays. */
static void close_all(void) {
    store.full = 1;
    lose();
    for (State *state = store.states; state; state = state->other)
        close_state(state);
}

/* An empty page for the state, NULL if there is none. */
uint64_t *store_page(State *state) {
    uint64_t *page = state->end + 1;
    if (page < state->chunk + CHUNK_WORDS)
        to_page(state, page);
    else if (flush(state)) {
        close_all();
        return NULL;
    }
    return state->p;
}

/* ---- Threads. ---- */

/* Let the thread record for another one. */
void store_pose(State *state, Identity identity) {
    state->identity = identity;
    place_state(state, state->p, state->end);
}

Pause store_pause(State *state) {
    Pause pause = {.p = state->p, .end = state->end, .generation = session.generation};
    PyErr_Fetch(&pause.type, &pause.value, &pause.trace);
    state->busy++;
    close_state(state);
    return pause;
}

/* Go on.  0 if the recording has ended in the meantime.  That the stack or the memory is full is our own affair; any
 * other exception comes from a signal handler that ran meanwhile, and must reach the program. */
int store_resume(State *state, Pause *pause) {
    int same = session.active && session.generation == pause->generation;
    state->busy--;
    if (same && !store.full)
        place_state(state, pause->p, pause->end);
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_RecursionError) && !PyErr_ExceptionMatches(PyExc_MemoryError)) {
        state->escaped = 1;
        drop(pause->type, pause->value, pause->trace);
    } else
        PyErr_Restore(pause->type, pause->value, pause->trace);
    return same;
}

/* Tell Python code that a thread was seen, so that it can name it; it says whether it is one of Python's. */
static void call_hook(State *state) {
    if (!session.thread_hook)
        return;
    Pause pause = store_pause(state);
    PyObject *ours = PyObject_CallFunction(session.thread_hook, "K", (unsigned long long)state->identity.thread);
    state->python = ours == Py_True ? PyThreadState_Get() : NULL;
    Py_XDECREF(ours);
    store_resume(state, &pause);
}

/* What is known of this thread, which may not take part in the session yet; NULL without memory. */
State *store_here(void) {
    if (!own) {
        State *state = calloc(1, sizeof *state);
        if (!state || pthread_setspecific(key, state)) {
            free(state);
            return NULL;
        }
        own = current = state;
        state->other = store.states;
        store.states = state;
    }
    return own;
}

/* The thread takes part from now on. */
static State *join(void) {
    State *state = store_here();
    if (!state)
        return NULL;
    state->session = session.generation;
    state->identity.process = (uint64_t)getpid();
    state->identity.thread = (uint64_t)syscall(SYS_gettid);
    state->identity.bits = 0;
    state->identity.extra = 2;
    state->depth = 0;
    state->next = 0;
    if (open_chunk(state)) {
        lose(); /* but those go on that have a chunk */
        return NULL;
    }
    if (store.threads < layout.thread_slots) {
        uint64_t slot = store.threads + 1;
        uint64_t record[3] = {layout.thread + slot * layout.thread_slot_unit + 3 * layout.size_unit, state->identity.process,
                              state->identity.thread};
        if (!store_define(record, sizeof record)) {
            store.threads = slot;
            state->identity.bits = slot * layout.event_thread_unit;
            state->identity.extra = 0;
            place_state(state, state->p, state->end);
        }
    }
    call_hook(state);
    return state;
}

/* Room for a record of so many words, in the state that comes back; NULL if there is none. */
uint64_t *store_room(State **pointer, unsigned words) {
    State *state = current;
    if (!session.active || state->busy)
        return NULL;
    if (state->session != session.generation || state == &nobody) {
        state = store.full ? NULL : join();
        if (!state) {
            session.lost++;
            return NULL;
        }
        *pointer = state;
    }
    if (!state->end) {
        state->lost++;
        return NULL;
    }
    if (state->p + words <= state->end)
        return state->p;
    if (words > PAGE_WORDS - 2 || !store_page(state)) {
        state->lost++;
        return NULL;
    }
    return state->p;
}
