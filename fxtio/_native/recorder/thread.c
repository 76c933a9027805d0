/* The state of each thread, and room for its records: a chunk of mapped pages for each, full chunks appended.
 *
 * When a chunk is full its pages are copied after the end of the file, hidden.  Every page begins with a filler of
 * a whole page, so the file is valid even if the copy is cut between pages.  Then the copy is shown, and the mapped
 * chunk is hidden, cleared and shown again.  The mapped pages stay warm, which is what makes a record cheap: to
 * touch a fresh page costs more than to write the records that fill it.  (A kill between the two stores of which one
 * shows the copy and the other hides the original leaves a chunk twice.) */
#define _GNU_SOURCE
#include "thread.h"
#include "definition.h"
#include "file.h"

#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef Py_GIL_DISABLED
static Caches no_caches; /* nobody writes to them */
static State no_state = {.caches = &no_caches}; /* of a thread that was not seen yet: nothing fits into it */
#else
Caches all_caches;
static State no_state; /* of a thread that was not seen yet: nothing fits into it */
#endif
__thread State *current = &no_state;

static struct {
    uint64_t used_slots; /* of the thread table */
    uint64_t *blank;     /* the pages of an empty chunk, hidden */
    uint64_t settled;    /* up to this size of the file, hardly any thread has records in its chunk */
    uint64_t since_renewal; /* full chunks since the renewal hook was called */
    int needs_renewal;      /* whether it is to be called */
    void (*renewal_hook)(Trash *trash); /* called for every half of a ring, in a stopped world; stays when a recording ends */
    State *states;       /* of all threads that were ever seen and have not ended; outlives a recording */
} threads;

static pthread_key_t state_key;
static __thread State *own_state;

/* Leave no room for records. */
static void close_state(State *state) {
    state->cursor = state->page_end = state->fast_end = NULL;
}

/* Set where the next record goes and where its page ends. */
static void set_room(State *state, uint64_t *cursor, uint64_t *page_end) {
    state->cursor = cursor;
    state->page_end = page_end;
    state->fast_end = state->identity.inline_words ? NULL : page_end;
}

/* After a fork: the child must not write to the file of its parent, and has no other thread. */
static void in_child(void) {
    for (State *state = threads.states; state; state = state->next) {
        close_state(state);
        state->ended = state != own_state;
    }
    file_in_child();
    guard_in_child();
    session.active = 0;
}

/* Forget what is open, and keep the memory. */
void open_set_forget(OpenSet *open, Trash *trash) {
    while (open->span_count)
        trash_add(trash, open->spans[--open->span_count].site);
    open->span_depth = 0;
    open->depth = 0;
}

/* Free what is open on a track. */
void open_set_free(OpenSet *open, Trash *trash) {
    open_set_forget(open, trash);
    PyMem_RawFree(open->frames);
    PyMem_RawFree(open->spans);
    PyMem_RawFree(open->calls);
    *open = (OpenSet){0};
}

/* Free a state and what it holds. */
static void free_state(State *state, Trash *trash) {
    PyMem_RawFree(state->flows);
    TRASH(trash, state->strands);
    open_set_free(&state->open, trash);
#ifdef Py_GIL_DISABLED
    caches_clear(state->caches, trash);
    free(state->caches);
#endif
    free(state);
}

/* Make a state.  Returns NULL without memory. */
static State *new_state(void) {
    State *state = calloc(1, sizeof *state);
#ifdef Py_GIL_DISABLED
    if (state && !(state->caches = calloc(1, sizeof *state->caches))) {
        free(state);
        return NULL;
    }
#endif
    return state;
}

/* Empty the caches of all threads, in a stopped world. */
void threads_clear_caches(void (*clear)(Caches *caches, Trash *trash), Trash *trash) {
#ifdef Py_GIL_DISABLED
    for (State *state = threads.states; state; state = state->next)
        clear(state->caches, trash);
#else
    clear(&all_caches, trash);
#endif
}

/* Mark the state of a thread that ends.  Destructors that run later in this thread get a new one. */
static void thread_ended(void *state) {
    own_state = NULL;
    current = &no_state;
    __atomic_store_n(&((State *)state)->ended, 1, __ATOMIC_RELEASE);
}

/* Prepare for threads to be seen, once per process.  Returns -1 with an exception set on failure. */
int threads_init(void) {
    if (guard_init() || pthread_key_create(&state_key, thread_ended) || pthread_atfork(NULL, NULL, in_child)) {
        PyErr_SetString(PyExc_OSError, "no thread-specific data");
        return -1;
    }
    return 0;
}

/* Return a chunk for threads_start(), NULL without memory. */
uint64_t *threads_blank_chunk(void) {
    uint64_t *blank = aligned_alloc(sizeof(uint64_t) * PAGE_WORDS, CHUNK_BYTES);
    if (blank) {
        memset(blank, 0, CHUNK_BYTES);
        chunk_clear(blank);
        chunk_show(blank, 0);
    }
    return blank;
}

/* Begin a recording, and take over a blank chunk. */
void threads_start(uint64_t *blank) {
    memset(&threads, 0, offsetof(__typeof__(threads), renewal_hook));
    threads.blank = blank;
}

/* End a recording: no thread writes any more, and the chunks stay in the file as they are. */
void threads_stop(Trash *trash) {
    State **link = &threads.states, *state;
    while ((state = *link)) {
        session.lost += state->lost;
        state->lost = 0;
        close_state(state);
        if (state->chunk)
            munmap(state->chunk, CHUNK_BYTES);
        state->chunk = NULL;
        state->context_version = state->track = state->await_version = 0;
        state->root = NULL;
        PyMem_RawFree(state->flows);
        state->flows = NULL;
        TRASH(trash, state->strands);
        open_set_forget(&state->open, trash);
        state->generation = 0;
        if (__atomic_load_n(&state->ended, __ATOMIC_ACQUIRE)) {
            *link = state->next;
            free_state(state, trash);
        } else
            link = &state->next;
    }
    free(threads.blank);
    memset(&threads, 0, offsetof(__typeof__(threads), renewal_hook));
}

/* Record nothing more.  Definitions can still be written. */
void threads_seal(void) {
    session.active = 0;
    for (State *state = threads.states; state; state = state->next)
        close_state(state);
}

/* Return how many events were lost. */
uint64_t threads_lost(void) {
    uint64_t count = session.lost;
    for (State *state = threads.states; state; state = state->next)
        count += state->lost;
    return count;
}

/* Return the first of all states. */
State *threads_first(void) {
    return threads.states;
}

/* Set the function that has records written again which would be overwritten in a ring. */
void threads_set_renewal_hook(void (*hook)(Trash *trash)) {
    threads.renewal_hook = hook;
}

/* ---- Chunks. ---- */

/* Let the next record be the first of a page. */
static void use_page(State *state, uint64_t *page) {
    set_room(state, page + 1, page + PAGE_WORDS - 1);
}

/* Take the chunk of a thread that has ended; the caller frees `*dead`, a list.  Returns -1 if there is none. */
static int inherit_chunk(State *state, State **dead) {
    State **link = &threads.states, *other;
    while (!state->chunk && (other = *link)) {
        if (!__atomic_load_n(&other->ended, __ATOMIC_ACQUIRE)) {
            link = &other->next;
            continue;
        }
        state->chunk = other->chunk;
        state->chunk_since = other->chunk_since;
        set_room(state, other->cursor, other->page_end);
        count_more(&session.lost, other->lost);
        *link = other->next;
        other->next = *dead;
        *dead = other;
    }
    return state->chunk ? 0 : -1;
}

/* Give the state a chunk.  Returns -1 if there is no room for one. */
static int open_chunk(State *state, State **dead) {
    if (!inherit_chunk(state, dead))
        return 0;
    uint64_t offset = file_append(threads.blank, CHUNK_PAGES, LIVE_CHUNK), *chunk = offset ? file_map(offset) : NULL;
    if (!chunk)
        return -1;
    chunk_show(chunk, 1);
    state->chunk = chunk;
    state->chunk_since = file_end();
    use_page(state, chunk);
    return 0;
}

/* Copy the records of a chunk to where they stay, and make it empty.  Returns -1 if there is no room for the copy. */
static int move_records(State *state, unsigned pages, enum ChunkRole role) {
    uint64_t *chunk = state->chunk, offset = file_append(chunk, pages, role), *copy = offset ? file_word(offset) : NULL;
    if (!copy)
        return -1;
    chunk_show(copy, 1);
    chunk_show(chunk, 0);
    chunk_clear(chunk);
    chunk_show(chunk, 1);
    state->chunk_since = file_end();
    count_more(&session.flushed_chunks, 1);
    return 0;
}

/* Return whether the file has grown much since records of all threads were moved. */
static int is_time_to_move(void) {
    enum { LEAST_CHUNKS = 32 };
    uint64_t chunks = 0, grown = (file_end() - threads.settled) / CHUNK_BYTES;
    if (grown < LEAST_CHUNKS || file_is_ring())
        return 0;
    for (State *state = threads.states; state; state = state->next)
        chunks += state->chunk != NULL;
    return grown >= chunks; /* each of them may cost a page that is hardly used */
}

/* Move the records of threads that seldom record, if the file has grown much since they began to fill their chunks: so
 * the events of all threads are in the file in the order of time, but for a bounded part of it. */
static void move_late_records(void) {
    for (State *state = threads.states; state; state = state->next) {
        unsigned pages = state->chunk && state->cursor ? chunk_used_pages(state->chunk) : 0;
        if (pages && state->chunk_since <= threads.settled && !move_records(state, pages, FULL_CHUNK))
            use_page(state, state->chunk);
    }
    threads.settled = file_end();
}

/* Do what a full chunk makes necessary, in a stopped world. */
static void tend_to_others(Trash *trash) {
    if (session_is_full())
        threads_seal();
    if (threads.needs_renewal && threads.renewal_hook) {
        threads.needs_renewal = 0;
        threads.renewal_hook(trash);
    }
    if (session.active && is_time_to_move())
        move_late_records();
}

#ifdef Py_GIL_DISABLED
/* Do what is due, see tend_to_others(). */
void threads_do_duty(State *state) {
    Trash trash = {0};
    state->has_duty = 0;
    SavedError error = error_save();
    world_stop();
    tend_to_others(&trash);
    world_start();
    error_restore(error);
    trash_empty(&trash);
}
#endif

/* See to it that what a full chunk makes necessary is done: now, or where the world can be stopped. */
static void plan_duty(State *state) {
    if (file_is_ring() && 2 * ++threads.since_renewal >= file_ring_chunks()) {
        threads.since_renewal = 0;
        threads.needs_renewal = 1;
    }
#ifdef Py_GIL_DISABLED
    state->has_duty |= threads.needs_renewal || is_time_to_move();
#else
    Trash trash = {0};
    (void)state;
    tend_to_others(&trash);
    trash_empty(&trash);
#endif
}

/* Move the records of a full chunk.  Returns -1 if there is no room for them. */
static int flush_chunk(State *state) {
    guard_lock();
    int failed = move_records(state, CHUNK_PAGES, FULL_CHUNK);
    if (!failed) {
        use_page(state, state->chunk);
        plan_duty(state);
    }
    guard_unlock();
    return failed;
}

/* When nothing is recorded any more, move the records of all threads after those that they recorded before.  Returns
 * -1 if there is no room for all of them, or the file is a ring. */
int threads_settle(void) {
    if (file_is_ring())
        return -1;
    for (State *state = threads.states; state; state = state->next) {
        unsigned pages = state->chunk ? chunk_used_pages(state->chunk) : 0;
        if (pages && move_records(state, pages, LAST_CHUNK))
            return -1;
    }
    return 0;
}

/* Note the present tick unless an earlier one is noted. */
static void note_tick(uint64_t *place) {
    uint64_t none = 0;
    __atomic_compare_exchange_n(place, &none, session_ticks(), 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* Record nothing more, as the file is full.  Other threads that run meanwhile see that at the end of their page. */
static void close_all(State *state) {
    note_tick(&session.lost_since);
    note_tick(&session.full_since);
#ifdef Py_GIL_DISABLED
    close_state(state);
    state->has_duty = 1;
#else
    (void)state;
    threads_seal();
#endif
}

/* Go on to an empty page.  Returns where its first record goes, or NULL if there is no room. */
uint64_t *thread_next_page(State *state) {
    uint64_t *page = state->page_end + 1;
    if (session_is_full())
        close_state(state);
    else if (page < state->chunk + CHUNK_WORDS)
        use_page(state, page);
    else if (flush_chunk(state))
        close_all(state);
    return state->cursor;
}

/* ---- Threads. ---- */

/* Let the thread record in the name of another one. */
void thread_set_identity(State *state, Identity identity) {
    state->identity = identity;
    set_room(state, state->cursor, state->page_end);
}

static PyObject *interrupt_hook; /* returns whether an exception interrupts the program; stays when a recording ends */

/* Set the function that tells exceptions that interrupt the program from failures of what the tracer calls. */
void threads_set_interrupt_hook(PyObject *hook, Trash *trash) {
    trash_add(trash, interrupt_hook);
    interrupt_hook = Py_NewRef(hook);
}

/* Stop recording this thread and put the program's exception aside. */
Pause thread_pause(State *state) {
    Pause pause = {.cursor = state->cursor, .page_end = state->page_end, .generation = session.generation};
    pause.error = error_save();
    pause.escaped = state->escaped;
    state->escaped = 0;
    state->paused++;
    close_state(state);
    return pause;
}

/* Return whether the exception that is set, raised by code of the tracer or by what that called, interrupts the
 * program; otherwise drop it.
 *
 * A RecursionError or MemoryError concerns only the tracer, which may not even be able to ask about it. */
int thread_is_interrupted(void) {
    if (LIKELY(!PyErr_Occurred()))
        return 0;
    if (PyErr_ExceptionMatches(PyExc_RecursionError) || PyErr_ExceptionMatches(PyExc_MemoryError)) {
        PyErr_Clear();
        return 0;
    }
    SavedError error = error_save();
    PyErr_NormalizeException(&error.type, &error.value, &error.trace);
    if (error.trace && error.value)
        PyException_SetTraceback(error.value, error.trace);
    PyObject *answer = error.value ? session_call_hook(interrupt_hook, error.value) : NULL;
    int is_failure = !answer && PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_RecursionError) &&
                     !PyErr_ExceptionMatches(PyExc_MemoryError);
    int result = answer ? answer == Py_True : PyErr_GivenExceptionMatches(error.type, PyExc_KeyboardInterrupt);
    Py_XDECREF(answer);
    if (is_failure) { /* the hook itself was interrupted */
        error_discard(error);
        return 1;
    }
    PyErr_Clear();
    if (result)
        error_restore(error);
    else
        error_discard(error);
    return result;
}

/* Undo thread_pause().  Returns 0 if the recording has ended in the meantime.
 *
 * An exception of the code between that interrupts the program stays set, any other one is dropped. */
int thread_resume(State *state, Pause *pause) {
    state->escaped = thread_is_interrupted();
    if (state->escaped) {
        error_discard(pause->error);
    } else {
        state->escaped = pause->escaped;
        error_restore(pause->error);
    }
    int goes_on = session.active && session.generation == pause->generation;
    state->paused--;
    if (goes_on && !session_is_full())
        set_room(state, pause->cursor, pause->page_end);
    return goes_on;
}

/* Call the thread hook, which records the name of the thread.  Returns whether Python started it. */
static int call_thread_hook(State *state) {
    Pause pause = thread_pause(state);
    PyObject *id = PyLong_FromUnsignedLongLong(state->identity.thread);
    PyObject *is_python = id ? session_call_hook(session.objects.thread_hook, id) : NULL;
    Py_XDECREF(id);
    int result = is_python == Py_True;
    Py_XDECREF(is_python);
    thread_resume(state, &pause);
    return result;
}

/* Return the state of the calling thread, whether it has joined the session or not; NULL without memory. */
State *thread_state(void) {
    if (!own_state) {
        State *state = new_state();
        if (!state || pthread_setspecific(state_key, state)) {
            Trash nothing = {0};
            if (state)
                free_state(state, &nothing);
            return NULL;
        }
        own_state = current = state;
        guard_lock();
        state->next = threads.states;
        threads.states = state;
        guard_unlock();
    }
    return own_state;
}

/* Write a thread record, so that events can refer to the thread.  If there is no room, its ids go inline. */
static void define_thread(State *state) {
    enum { WORDS = 3 };
    if (threads.used_slots == MAX_THREAD_SLOT)
        return;
    uint64_t slot = threads.used_slots + 1;
    uint64_t record[WORDS] = {THREAD_HEADER + slot * THREAD_SLOT_UNIT + WORDS * SIZE_UNIT, state->identity.process,
                              state->identity.thread};
    if (definition_write(record, sizeof record))
        return;
    threads.used_slots = slot;
    state->identity.thread_ref = slot * EVENT_THREAD_UNIT;
    state->identity.inline_words = 0;
    set_room(state, state->cursor, state->page_end);
}

/* Let the thread record to a track with an id of its own, which is defined and gets a name. */
void thread_define_track(State *state, uint64_t id) {
    state->identity = (Identity){.process = state->identity.process, .thread = id, .inline_words = 2};
    set_room(state, state->cursor, state->page_end);
    guard_lock();
    define_thread(state);
    guard_unlock();
    call_thread_hook(state);
}

/* Let the calling thread take part in the session.  Returns NULL if there is no room; other threads may still have
 * some. */
static State *join_session(void) {
    State *state = thread_state(), *dead = NULL, *next;
    Trash trash = {0};
    if (!state)
        return NULL;
    state->generation = session.generation;
    state->identity.process = (uint64_t)getpid();
    state->identity.thread = PyThread_get_thread_native_id();
    state->identity.thread_ref = 0;
    state->identity.inline_words = 2;
    open_set_forget(&state->open, &trash);
    state->earliest_tick = 0;
    guard_lock();
    int failed = open_chunk(state, &dead);
    if (!failed)
        define_thread(state);
    guard_unlock();
    for (; dead; dead = next) {
        next = dead->next;
        free_state(dead, &trash);
    }
    trash_empty(&trash);
    if (failed) {
        note_tick(&session.lost_since);
        return NULL;
    }
    state->python_thread = call_thread_hook(state) ? PyThreadState_Get() : NULL;
    return state;
}

/* Return where a record of this many words can be written, or NULL; the thread joins the session if it has not yet.
 * `*pointer` becomes the state of the thread. */
uint64_t *thread_room(State **pointer, unsigned words) {
    State *state = current;
    if (!session.active || state->paused)
        return NULL;
    if (state->generation != session.generation || state == &no_state) {
        state = session_is_full() ? NULL : join_session();
        if (!state) {
            count_more(&session.lost, 1);
            return NULL;
        }
        *pointer = state;
    }
    if (!state->page_end) {
        state->lost++;
        return NULL;
    }
    if (state->cursor + words <= state->page_end)
        return state->cursor;
    if (words > PAGE_WORDS - 2 || !thread_next_page(state)) {
        state->lost++;
        return NULL;
    }
    return state->cursor;
}
