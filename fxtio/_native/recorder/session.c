/* Settings and counters of the present recording, and its clock. */
#include "session.h"

Session session;

/* Replace the Python objects.  What the old ones refer to may have finalizers that start or stop a recording, so they
 * are freed when nothing refers to them any more. */
void session_set_objects(SessionObjects objects) {
    SessionObjects old = session.objects;
    session.objects = objects;
    session_free_objects(old);
}

/* Drop references to Python objects. */
void session_free_objects(SessionObjects objects) {
    Py_XDECREF(objects.text_slots);
    Py_XDECREF(objects.only_categories);
    Py_XDECREF(objects.not_categories);
    Py_XDECREF(objects.unseen_categories);
    Py_XDECREF(objects.placed);
    Py_XDECREF(objects.thread_hook);
    Py_XDECREF(objects.value_hook);
    Py_XDECREF(objects.task_hook);
    Py_XDECREF(objects.wait_hook);
    Py_XDECREF(objects.slow_hook);
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
