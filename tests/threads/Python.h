/* As much of a free-threaded interpreter as the recorder's modules up to `thread` need, for stress.c: objects that only
 * count their references, no exceptions, and a world that can be stopped.
 *
 * A thread is attached while it holds the lock of the world for reading.  Who stops the world holds it for writing. */
#ifndef STRESS_PYTHON_H
#define STRESS_PYTHON_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define Py_GIL_DISABLED 1
#define PY_VERSION_HEX 0x030E0000

typedef ptrdiff_t Py_ssize_t;
typedef struct PyObject {
    int references;
} PyObject;
typedef struct {
    int unused;
} PyInterpreterState, PyThreadState;
typedef PyObject *(*PyCFunction)(PyObject *, PyObject *);
typedef struct {
    const char *ml_name;
    PyCFunction ml_meth;
} PyMethodDef;

extern PyObject none;
#define Py_None (&none)
#define Py_True (&none)
#define PyExc_OSError (&none)
#define PyExc_RecursionError (&none)
#define PyExc_MemoryError (&none)
#define PyExc_KeyboardInterrupt (&none)

static inline void Py_INCREF(PyObject *object) {
    __atomic_fetch_add(&object->references, 1, __ATOMIC_RELAXED);
}
static inline void Py_DECREF(PyObject *object) {
    __atomic_fetch_sub(&object->references, 1, __ATOMIC_RELAXED);
}
static inline void Py_XDECREF(PyObject *object) {
    if (object)
        Py_DECREF(object);
}
static inline PyObject *Py_NewRef(PyObject *object) {
    Py_INCREF(object);
    return object;
}

#define PyMem_RawRealloc realloc
#define PyMem_RawFree free

static inline PyObject *PyErr_Occurred(void) {
    return NULL;
}
static inline int PyErr_ExceptionMatches(PyObject *exception) {
    return exception != &none;
}
static inline int PyErr_GivenExceptionMatches(PyObject *exception, PyObject *other) {
    return exception == other;
}
#define PyErr_Clear() ((void)0)
#define PyErr_SetString(exception, text) ((void)(text))
#define PyErr_Fetch(type, value, trace) (*(type) = *(value) = *(trace) = NULL)
#define PyErr_Restore(type, value, trace) ((void)(type), (void)(value), (void)(trace))
#define PyErr_NormalizeException(type, value, trace) ((void)(type))
#define PyException_SetTraceback(value, trace) ((void)(value))

static inline PyObject *PyLong_FromUnsignedLongLong(unsigned long long number) {
    (void)number;
    return Py_NewRef(&none);
}
static inline unsigned long PyThread_get_thread_native_id(void) {
    return (unsigned long)(uintptr_t)pthread_self();
}

PyObject *PyObject_CallOneArg(PyObject *callable, PyObject *argument);
PyObject *PyObject_CallNoArgs(PyObject *callable);
PyThreadState *PyThreadState_Get(void);
PyInterpreterState *PyInterpreterState_Get(void);

#endif
