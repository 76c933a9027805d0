/* The last moments: a copy of the recording as it is at one instant, and spans that take so long that one is wanted.
 *
 * The file is valid at every instant, but a copy takes longer than that: a chunk could be shown or hidden meanwhile.  So
 * the interpreter lock is kept, and nobody records until the copy is there. */
#define _GNU_SOURCE
#include "recorder.h"

#include <errno.h>
#include <unistd.h>

enum { PIECE = 1 << 18 }; /* stays in the cache between its two copies */

/* Copy the next piece of `left` bytes; how many were copied, or -1 and errno. */
static ssize_t copy_piece(int from, int to, char *piece, uint64_t at, uint64_t left) {
    ssize_t got, done = 0, put;
    do
        got = pread(from, piece, left < PIECE ? left : PIECE, (off_t)at);
    while (got < 0 && errno == EINTR);
    while (done < got) {
        put = pwrite(to, piece + done, (size_t)(got - done), (off_t)at + done);
        if (put < 0 && errno != EINTR)
            return -1;
        done += put > 0 ? put : 0;
    }
    return got;
}

PyObject *copy_to(PyObject *module, PyObject *descriptor) {
    int to = PyObject_AsFileDescriptor(descriptor), from = file_descriptor();
    uint64_t at = 0, end = file_end();
    ssize_t done = 1;
    (void)module;
    if (to < 0)
        return NULL;
    if (from < 0) {
        errno = EBADF;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    char *piece = PyMem_RawMalloc(PIECE);
    if (!piece)
        return PyErr_NoMemory();
    while (at < end && (done = copy_piece(from, to, piece, at, end - at)) > 0)
        at += (uint64_t)done;
    PyMem_RawFree(piece);
    return done < 0 ? PyErr_SetFromErrno(PyExc_OSError) : PyLong_FromUnsignedLongLong(at);
}

PyObject *unrecorded(PyObject *module, PyObject *callable) {
    State *state = store_here();
    PyObject *type, *value, *trace;
    (void)module;
    if (!state)
        return PyErr_NoMemory();
    Pause pause = store_pause(state);
    PyObject *result = PyObject_CallNoArgs(callable);
    PyErr_Fetch(&type, &value, &trace); /* which is the caller's to have */
    store_resume(state, &pause);
    PyErr_Restore(type, value, trace);
    return result;
}

static void put_said(PyObject *said) {
    if (!PyTuple_Check(said) || PyTuple_GET_SIZE(said) != 2)
        return;
    Site *site = (Site *)PyTuple_GET_ITEM(said, 0);
    PyObject *values = PyTuple_GET_ITEM(said, 1);
    if (Py_IS_TYPE(site, &SiteType) && PyTuple_Check(values) && PyTuple_GET_SIZE(values) >= (Py_ssize_t)site->count)
        event(site, INSTANT, site->count ? &PyTuple_GET_ITEM(values, 0) : NULL, NULL);
}

/* Tell of a span that took so many ticks.  The hook gives a site and the values of an instant to be recorded, or None. */
void tell_slow(Site *site, uint64_t took) {
    State *state = current;
    if (!session.active || took > INT64_MAX || state->busy || state->escaped || !session.slow_hook)
        return; /* the second: there is no end, for the thread has recorded nothing since */
    PyObject *hook = Py_NewRef(session.slow_hook);
    Pause pause = store_pause(state);
    PyObject *said = PyObject_CallFunction(hook, "OK", site->name, (unsigned long long)took);
    if (store_resume(state, &pause) && said)
        put_said(said);
    Py_XDECREF(said);
    Py_DECREF(hook);
}
