/* Settings and counters of the present recording, and its clock. */
#include "session.h"

Session session;

/* Drop the references to Python objects. */
void session_clear_objects(void) {
    Py_CLEAR(session.text_slots);
    Py_CLEAR(session.only_categories);
    Py_CLEAR(session.not_categories);
    Py_CLEAR(session.thread_hook);
    Py_CLEAR(session.value_hook);
    Py_CLEAR(session.task_hook);
    Py_CLEAR(session.wait_hook);
    Py_CLEAR(session.slow_hook);
}
