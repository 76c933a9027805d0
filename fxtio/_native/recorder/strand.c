/* Greenlets: each records to a track of its own.
 *
 * Greenlets share a thread, and switch in the middle of functions, so that their calls and spans do not nest.  At each
 * switch the track of the thread's state and what is open there are exchanged.  The greenlet that runs when the first
 * switch is seen, nearly always the one with which the thread began, keeps the track of the thread.  The track of a
 * greenlet that has ended is used again, so there are as many tracks as greenlets at a time. */
#include "methods.h"
#include "thread.h"

/* What a greenlet has open, and its track, while another one runs. */
typedef struct {
    Identity identity;
    OpenSet open;
} Strand;

static const char STRAND[] = "fxtio strand";
enum { MAX_FREE_TRACKS = 1024 };

/* Tracks of greenlets in this session: how many there are, and those whose greenlets have ended. */
static struct {
    uint64_t generation, used;
    size_t free_count;
    Identity free[MAX_FREE_TRACKS];
} tracks;

static PyObject *is_dead; /* returns whether a greenlet has ended */

static void free_strand(PyObject *capsule) {
    Strand *strand = PyCapsule_GetPointer(capsule, STRAND);
    Trash trash = {0};
    open_set_free(&strand->open, &trash);
    PyMem_RawFree(strand);
    trash_empty(&trash);
}

/* Return the strand of a greenlet, or NULL if it has none.  Greenlets are told apart by their addresses. */
static Strand *find_strand(State *state, PyObject *greenlet) {
    PyObject *key = PyLong_FromVoidPtr(greenlet);
    PyObject *capsule = key ? PyDict_GetItemWithError(state->strands, key) : NULL;
    Py_XDECREF(key);
    return capsule ? PyCapsule_GetPointer(capsule, STRAND) : NULL;
}

/* Return a new strand of a greenlet, NULL without memory. */
static Strand *add_strand(State *state, PyObject *greenlet) {
    Strand *strand = PyMem_RawCalloc(1, sizeof *strand);
    PyObject *key = PyLong_FromVoidPtr(greenlet);
    PyObject *capsule = strand && key ? PyCapsule_New(strand, STRAND, free_strand) : NULL;
    if (!capsule)
        PyMem_RawFree(strand);
    if (!capsule || PyDict_SetItem(state->strands, key, capsule))
        strand = NULL; /* the capsule frees it */
    Py_XDECREF(capsule);
    Py_XDECREF(key);
    return strand;
}

/* Keep what the greenlet that ran until now has open.  Returns -1 without memory. */
static int leave(State *state, PyObject *greenlet) {
    Strand *strand = find_strand(state, greenlet);
    if (!strand && !(strand = add_strand(state, greenlet)))
        return -1;
    Trash trash = {0};
    open_set_free(&strand->open, &trash);
    *strand = (Strand){state->identity, state->open};
    state->open = (OpenSet){0};
    trash_empty(&trash);
    return 0;
}

/* Forget a greenlet that has ended; its track can be used again. */
static void forget(State *state, PyObject *greenlet) {
    Strand *strand = find_strand(state, greenlet);
    PyObject *key = PyLong_FromVoidPtr(greenlet);
    guard_lock();
    int is_free = key && strand && strand->identity.thread >= FIRST_GREENLET_TRACK && tracks.free_count < MAX_FREE_TRACKS;
    if (is_free)
        tracks.free[tracks.free_count++] = strand->identity;
    guard_unlock();
    if (is_free)
        (void)PyDict_DelItem(state->strands, key);
    Py_XDECREF(key);
}

/* Go on with what a greenlet has open, on its own track. */
static void enter(State *state, PyObject *greenlet) {
    Strand *strand = find_strand(state, greenlet);
    if (strand) {
        state->open = strand->open;
        strand->open = (OpenSet){0};
        thread_set_identity(state, strand->identity);
        return;
    }
    guard_lock();
    int is_used_again = tracks.free_count != 0;
    Identity identity = is_used_again ? tracks.free[--tracks.free_count] : (Identity){0};
    uint64_t number = is_used_again ? 0 : tracks.used++;
    guard_unlock();
    if (is_used_again)
        thread_set_identity(state, identity);
    else
        thread_define_track(state, FIRST_GREENLET_TRACK + number);
}

/* switched(event, (origin, target)): exchange the tracks of two greenlets; for greenlet.settrace(). */
static PyObject *switched(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *event, *origin, *target;
    State *state = current;
    if (!PyArg_ParseTuple(args, "O(OO)", &event, &origin, &target))
        return NULL;
    if (!session.active || state->generation != session.generation || origin == target)
        Py_RETURN_NONE;
    guard_lock();
    if (tracks.generation != session.generation) {
        tracks.generation = session.generation;
        tracks.used = tracks.free_count = 0;
    }
    guard_unlock();
    SavedError error = error_save();
    if ((state->strands || (state->strands = PyDict_New())) && !leave(state, origin)) {
        PyObject *answer = session_call_hook(is_dead, origin);
        if (answer == Py_True && state->strands)
            forget(state, origin);
        Py_XDECREF(answer);
        if (state->strands) /* the recording has not ended meanwhile */
            enter(state, target);
    }
    error_restore_unless_escaped(error);
    return unless_escaped(Py_NewRef(Py_None));
}

/* know_greenlets(is_dead): set the function that returns whether a greenlet has ended. */
static PyObject *know_greenlets(PyObject *Py_UNUSED(module), PyObject *function) {
    world_stop();
    PyObject *old = is_dead;
    is_dead = Py_NewRef(function);
    world_start();
    Py_XDECREF(old);
    Py_RETURN_NONE;
}

PyMethodDef strand_methods[] = {
    {"switched", switched, METH_VARARGS, NULL},
    {"know_greenlets", know_greenlets, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
