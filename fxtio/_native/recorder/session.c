/* Settings and counters of the present recording, and its clock. */
#include "session.h"

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
