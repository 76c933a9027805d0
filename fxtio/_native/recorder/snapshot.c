/* Copies of the running recording, and spans that are slow enough to ask for one.
 *
 * The file is valid at every instant, but a copy takes longer than that: a chunk could be shown or hidden
 * meanwhile.  So the interpreter lock is kept, or the world is stopped, and nobody records until the copy is complete. */
#define _GNU_SOURCE
#include "site.h"
#include "methods.h"
#include "event.h"
#include "file.h"

#include <errno.h>
#include <unistd.h>

enum { BLOCK_BYTES = 1 << 18 }; /* stays in the cache of the processor between reading and writing */

/* Copy the next block, of at most `left` bytes.  Returns how many were copied, or -1 with errno set. */
static ssize_t copy_block(int from, int to, char *block, uint64_t offset, uint64_t left) {
    ssize_t size, done = 0, written;
    do
        size = pread(from, block, left < BLOCK_BYTES ? left : BLOCK_BYTES, (off_t)offset);
    while (size < 0 && errno == EINTR);
    while (done < size) {
        written = pwrite(to, block + done, (size_t)(size - done), (off_t)offset + done);
        if (written < 0 && errno != EINTR)
            return -1;
        done += written > 0 ? written : 0;
    }
    return size;
}

/* copy(fd): copy the file as it is now.  Returns the bytes copied; raises OSError. */
static PyObject *copy(PyObject *Py_UNUSED(module), PyObject *descriptor) {
    int to = PyObject_AsFileDescriptor(descriptor);
    uint64_t offset = 0;
    ssize_t copied = 1;
    if (to < 0)
        return NULL;
    char *block = PyMem_RawMalloc(BLOCK_BYTES);
    if (!block)
        return PyErr_NoMemory();
    world_stop();
    int from = file_descriptor();
    uint64_t end = file_end();
    if (from < 0) {
        errno = EBADF;
        copied = -1;
    }
    while (offset < end && copied > 0 && (copied = copy_block(from, to, block, offset, end - offset)) > 0)
        offset += (uint64_t)copied;
    int error = errno;
    world_start();
    PyMem_RawFree(block);
    errno = error;
    return copied < 0 ? PyErr_SetFromErrno(PyExc_OSError) : PyLong_FromUnsignedLongLong(offset);
}

/* unrecorded(callable): call it, and record nothing of this thread meanwhile.  Returns and raises what it does. */
static PyObject *unrecorded(PyObject *Py_UNUSED(module), PyObject *callable) {
    State *state = thread_state();
    if (!state)
        return PyErr_NoMemory();
    Pause pause = thread_pause(state);
    PyObject *result = PyObject_CallNoArgs(callable);
    SavedError error = error_save();
    thread_resume(state, &pause);
    error_restore(error);
    return result;
}

/* guarded(function, *args): call it.  Returns None, and raises only what interrupts the program.  It is in C because
 * Python code that calls the function could itself fail where the stack is full. */
static PyObject *guarded(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    if (count < 1)
        return PyErr_Format(PyExc_TypeError, "guarded() takes a function");
    PyObject *result = PyObject_Vectorcall(args[0], args + 1, (size_t)count - 1, NULL);
    Py_XDECREF(result);
    return thread_is_interrupted() ? NULL : Py_NewRef(Py_None);
}

/* Record an instant, given as (site, values). */
static void record_instant(PyObject *instant) {
    if (!PyTuple_Check(instant) || PyTuple_GET_SIZE(instant) != 2)
        return;
    Site *site = (Site *)PyTuple_GET_ITEM(instant, 0);
    PyObject *values = PyTuple_GET_ITEM(instant, 1);
    if (Py_IS_TYPE(site, &SiteType) && PyTuple_Check(values) && PyTuple_GET_SIZE(values) >= (Py_ssize_t)site->count)
        record_event(site, EVENT_INSTANT, site->count ? &PyTuple_GET_ITEM(values, 0) : NULL, NULL);
}

/* Call the slow hook for a span that took this many ticks, with the trigger that calls for a dump, and record the instant
 * that it returns, if it does.
 *
 * A negative time, which is huge as an unsigned number, means that the thread has recorded nothing since the start. */
void report_slow(const char *trigger, Site *site, uint64_t ticks) {
    State *state = current;
    if (!session.active || ticks > INT64_MAX || state->paused || state->escaped || !session.objects.slow_hook)
        return;
    PyObject *hook = Py_NewRef(session.objects.slow_hook);
    Pause pause = thread_pause(state);
    PyObject *instant = PyObject_CallFunction(hook, "sO", trigger, site->name);
    if (thread_resume(state, &pause) && instant)
        record_instant(instant);
    Py_XDECREF(instant);
    Py_DECREF(hook);
}

PyMethodDef snapshot_methods[] = {
    {"copy", copy, METH_O, NULL},
    {"guarded", (PyCFunction)(void (*)(void))guarded, METH_FASTCALL, NULL},
    {"unrecorded", unrecorded, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
