/* Settings and counters of the present recording, its clock, and the end of the process by os._exit(). */
#include "session.h"
#include "methods.h"

Session session;

#if defined(__aarch64__)
/* The counter is slow, of 24 MHz for instance.  Its value is shifted to a rate of at least a gigahertz, so that events
 * of which several are recorded within one of its ticks get times of their own that are less than a nanosecond off. */
unsigned tick_shift;
#endif

/* Determine the rate of the clock, once per process. */
void session_init(void) {
#if defined(__aarch64__)
    enum { LEAST_RATE = 1000000000 };
    while (tick_rate() && tick_rate() < LEAST_RATE)
        tick_shift++;
#endif
}

/* Replace the Python objects.  What the old ones refer to may have finalizers that start or stop a recording, so they
 * are dropped later. */
void session_set_objects(SessionObjects objects, Trash *trash) {
    SessionObjects old = session.objects;
    session.objects = objects;
    session_free_objects(old, trash);
}

/* Drop references to Python objects later. */
void session_free_objects(SessionObjects objects, Trash *trash) {
    trash_add(trash, objects.owner);
    trash_add(trash, objects.only_categories);
    trash_add(trash, objects.not_categories);
    trash_add(trash, objects.unseen_categories);
    trash_add(trash, objects.placed);
    trash_add(trash, objects.thread_hook);
    trash_add(trash, objects.value_hook);
    trash_add(trash, objects.task_hook);
    trash_add(trash, objects.slow_hook);
}

/* Call a hook, which may be replaced meanwhile, with an argument, or without one if that is NULL.  Returns NULL without
 * an exception if there is no hook any more. */
PyObject *session_call_hook(PyObject *hook, PyObject *argument) {
    if (!hook)
        return NULL;
    Py_INCREF(hook);
    PyObject *result = argument ? PyObject_CallOneArg(hook, argument) : PyObject_CallNoArgs(hook);
    Py_DECREF(hook);
    return result;
}

/* ---- The end of the process by os._exit(), which calls no exit functions: a hook of the tracer is called before it.
 * The function stays the same object with the same hash, also where a program has kept it: only how the interpreter
 * enters it is replaced. ---- */

static vectorcallfunc exit_process; /* how the interpreter entered os._exit(), NULL before it is replaced */
static PyObject *exit_hook;         /* stays for as long as the process lives */

/* Return whether os._exit() accepts these arguments: with others it raises an exception, and the program goes on. */
static int is_accepted(PyObject *const *args, size_t flags, PyObject *keys) {
    const Py_ssize_t key_count = keys ? PyTuple_GET_SIZE(keys) : 0;
    int overflow;
    if (PyVectorcall_NARGS(flags) + key_count != 1 || !PyLong_Check(args[0]))
        return 0;
    if (key_count && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(keys, 0), "status"))
        return 0;
    const long status = PyLong_AsLongAndOverflow(args[0], &overflow);
    return !overflow && status >= INT_MIN && status <= INT_MAX;
}

/* Call the hook, whose failure concerns nobody any more, and end the process. */
static PyObject *exit_after_hook(PyObject *function, PyObject *const *args, size_t flags, PyObject *keys) {
    if (is_accepted(args, flags, keys)) {
        Py_XDECREF(session_call_hook(exit_hook, NULL));
        PyErr_Clear();
    }
    return exit_process(function, args, flags, keys);
}

/* before_hard_exit(hook): have os._exit() call the hook first.  Returns False if it cannot. */
static PyObject *before_hard_exit(PyObject *Py_UNUSED(module), PyObject *hook) {
    PyObject *posix = PyImport_ImportModule("posix");
    PyObject *function = posix ? PyObject_GetAttrString(posix, "_exit") : NULL;
    PyErr_Clear();
    Py_XDECREF(posix);
    const int can = function && PyCFunction_CheckExact(function) && ((PyCFunctionObject *)function)->vectorcall;
    if (can) {
        vectorcallfunc *place = &((PyCFunctionObject *)function)->vectorcall;
        Py_XSETREF(exit_hook, Py_NewRef(hook));
        if (!exit_process) {
            exit_process = *place;
            __atomic_store_n(place, exit_after_hook, __ATOMIC_RELEASE);
        }
    }
    Py_XDECREF(function); /* the module keeps it */
    return PyBool_FromLong(can);
}

PyMethodDef hard_exit_methods[] = {
    {"before_hard_exit", before_hard_exit, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
