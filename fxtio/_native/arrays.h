/* Arrays that Python passes to kernels: buffers of items of a known width, opened and checked together. */
#ifndef FXTIO_ARRAYS_H
#define FXTIO_ARRAYS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

typedef struct {
    Py_buffer view;
    Py_ssize_t count; /* items */
} Array;

/* The requirements for one argument: its name for messages, the bytes of an item, and whether it is written. */
typedef struct {
    const char *name;
    Py_ssize_t width;
    int writable;
} ArraySpec;

/* Open one contiguous buffer.  Returns -1 with an exception set if it is not as required. */
static inline int array_open(Array *array, PyObject *object, const ArraySpec *spec) {
    array->view.obj = NULL;
    if (PyObject_GetBuffer(object, &array->view, spec->writable ? PyBUF_CONTIG : PyBUF_CONTIG_RO) < 0)
        return -1;
    if (array->view.itemsize != spec->width) {
        PyErr_Format(PyExc_TypeError, "%s: items of %zd bytes, not %zd", spec->name, spec->width, array->view.itemsize);
        PyBuffer_Release(&array->view);
        array->view.obj = NULL;
        return -1;
    }
    array->count = array->view.len / spec->width;
    return 0;
}

/* Release the buffers that are open. */
static inline void arrays_close(Array *arrays, int count) {
    for (int i = 0; i < count; i++)
        if (arrays[i].view.obj != NULL)
            PyBuffer_Release(&arrays[i].view);
}

/* Open a buffer for each spec, all or none.  Returns -1 with an exception set on failure. */
static inline int arrays_open(Array *arrays, PyObject *const *objects, const ArraySpec *specs, int count) {
    for (int i = 0; i < count; i++)
        arrays[i].view.obj = NULL;
    for (int i = 0; i < count; i++)
        if (array_open(&arrays[i], objects[i], &specs[i]) < 0) {
            arrays_close(arrays, count);
            return -1;
        }
    return 0;
}

#endif
