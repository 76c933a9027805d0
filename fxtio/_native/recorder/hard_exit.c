/* The end of the process by os._exit(), which calls no exit functions: a hook of the tracer is called before it.
 *
 * The function stays the same object with the same hash, also where a program has kept it: only how the interpreter
 * enters it is replaced. */
#include "methods.h"
#include "session.h"

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
