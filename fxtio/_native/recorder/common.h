/* The common ground of all modules of the recorder: Python, the generated constants of the format, macros, saved
 * exceptions.
 *
 * The recorder writes FXT records in their final form into a file that is valid at every instant.  These are its
 * modules from the ground up.  Most have a header of the same name with what other modules may use, and each includes only
 * headers of modules that are above it in this list (tests/project/test_architecture.py compares the list with the
 * #include lines):
 *
 *   layout       the constants of the format, generated from fxtio/fxt/layout.py
 *   common       this header
 *   guard        what keeps threads apart
 *   methods      what modules add to the module object, which have no header of their own
 *   cache        what is remembered of the program: call sites, code, C functions, tasks
 *   session      settings and counters of the present recording, the clock
 *   file         the file of the recording: its chunks, how they get there, and how records and filler are in them
 *   definition   the region of strings and threads in front of the file
 *   thread       the state of each thread, and room for its records
 *   strand       greenlets: each records to a track of its own
 *   text         texts: as UTF-8, cut to size, and in the string table
 *   site         call sites: the common part of all events of one place in the program
 *   event        events and log records
 *   table        tables of entries by their keys
 *   open_track   tracks of tasks on which operations are open
 *   operation    whole calls of coroutines that are open, and flows that lead to tasks
 *   known_task   what is known of tasks of asyncio whose coroutines are not recorded
 *   task         tasks of asyncio: tracks, and flows from a task to those that it waits for
 *   open_span    spans that outlive the function in which they were opened
 *   call         the start and the end of a call; how much C stack is left
 *   code         how calls of a code object are recorded
 *   c_call       calls of C functions
 *   function     calls that the interpreter reports: sys.monitoring, or a profile function
 *   stepper      generators and coroutines that traced callables return
 *   traced       callables that stand for others and record their calls
 *   snapshot     copies of the running recording, and spans that are slow enough to ask for one
 *   span         span objects
 *   locks        waits for locks of threads, and holds
 *   loop         iterations and steps of event loops
 *   mark         instants, counters, and other events that a program or the tracer asks for
 *   order        records of finished files: without fillers, in the order of time
 *   hard_exit    the end of the process by os._exit()
 *   module       the module object, begin and end of a recording
 *
 * All functions need a thread that is attached to the interpreter; guard.h says what keeps threads apart. */
#ifndef FXTIO_COMMON_H
#define FXTIO_COMMON_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

#include "layout.h"

#define GOLDEN_RATIO 0x9E3779B97F4A7C15u /* of 64 bits; a product with it scatters numbers */
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define HIDDEN __attribute__((visibility("hidden")))
#if defined(__GLIBC__)
#define FAST_TLS __attribute__((tls_model("initial-exec"), visibility("hidden")))
#else
#define FAST_TLS HIDDEN
#endif

/* An exception of the program, put aside while code runs that may raise and clear others. */
typedef struct {
    PyObject *type, *value, *trace;
} SavedError;

/* Take the exception that is set, if one is. */
static inline SavedError error_save(void) {
    SavedError saved;
    PyErr_Fetch(&saved.type, &saved.value, &saved.trace);
    return saved;
}

/* Set the exception again, in place of any other. */
static inline void error_restore(SavedError saved) {
    PyErr_Restore(saved.type, saved.value, saved.trace);
}

/* Drop an exception for good. */
static inline void error_discard(SavedError saved) {
    Py_XDECREF(saved.type);
    Py_XDECREF(saved.value);
    Py_XDECREF(saved.trace);
}

#endif
