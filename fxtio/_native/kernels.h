/* The functions of the module: kernels.c puts them in its table.  python.py documents every argument. */
#ifndef FXTIO_KERNELS_H
#define FXTIO_KERNELS_H

#include "arrays.h"

/* calls.c */
PyObject *walk_payloads(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *pair(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *distinct(PyObject *module, PyObject *const *args, Py_ssize_t nargs);

/* chunks.c */
PyObject *walk_chunks(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *sum_rows(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *unroll(PyObject *module, PyObject *const *args, Py_ssize_t nargs);

/* events.c */
PyObject *scan_stream(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *fill_stream(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *encode_stream(PyObject *module, PyObject *const *args, Py_ssize_t nargs);

/* plain.c */
PyObject *find_uses(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *read_plain(PyObject *module, PyObject *const *args, Py_ssize_t nargs);

/* spans.c */
PyObject *late(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *list_slices(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *match(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *nest(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *tally(PyObject *module, PyObject *const *args, Py_ssize_t nargs);

/* strings.c */
PyObject *interleave(PyObject *module, PyObject *const *args, Py_ssize_t nargs);

#endif
