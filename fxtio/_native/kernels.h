/* What the kernels share: buffers of known items, opened and checked together. */
#ifndef FXTIO_KERNELS_H
#define FXTIO_KERNELS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

typedef struct {
    Py_buffer view;
    Py_ssize_t count;
} Array;

/* Open a contiguous buffer of items of the given width. */
static inline int array_open(Array *array, PyObject *object, Py_ssize_t width, int writable, const char *name) {
    array->view.obj = NULL;
    if (PyObject_GetBuffer(object, &array->view, writable ? PyBUF_CONTIG : PyBUF_CONTIG_RO) < 0)
        return -1;
    if (array->view.itemsize != width) {
        PyErr_Format(PyExc_TypeError, "%s: items of %zd bytes, not %zd", name, width, array->view.itemsize);
        PyBuffer_Release(&array->view);
        array->view.obj = NULL;
        return -1;
    }
    array->count = array->view.len / width;
    return 0;
}

static inline void arrays_close(Array *arrays, int count) {
    for (int i = 0; i < count; i++)
        if (arrays[i].view.obj != NULL)
            PyBuffer_Release(&arrays[i].view);
}

typedef struct {
    const char *name;
    Py_ssize_t width;
    int writable;
} Wanted;

/* Open one buffer for each wanted argument; all or none. */
static inline int arrays_open(Array *arrays, PyObject *const *objects, const Wanted *wanted, int count) {
    for (int i = 0; i < count; i++)
        arrays[i].view.obj = NULL;
    for (int i = 0; i < count; i++)
        if (array_open(&arrays[i], objects[i], wanted[i].width, wanted[i].writable, wanted[i].name) < 0) {
            arrays_close(arrays, count);
            return -1;
        }
    return 0;
}

/* calls.c */
PyObject *walk_payloads(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *pair(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *distinct(PyObject *module, PyObject *const *args, Py_ssize_t nargs);

/* chunks.c */
PyObject *walk_chunks(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *tally(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *unroll(PyObject *module, PyObject *const *args, Py_ssize_t nargs);

/* events.c */
PyObject *scan_stream(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *fill_stream(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *encode_stream(PyObject *module, PyObject *const *args, Py_ssize_t nargs);

#endif
