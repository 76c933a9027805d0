/* The list of kernels.  A new one is a line here, a function in any of the files, and a stand-in in Python, which says
 * what its arguments are. */
#ifndef FXTIO_KERNELS_H
#define FXTIO_KERNELS_H

#include "arguments.h"

#define KERNELS(X) \
    X(copy_rows) \
    X(distinct) \
    X(encode_stream) \
    X(fill_stream) \
    X(gather) \
    X(group_rows) \
    X(interleave) \
    X(late) \
    X(list_slices) \
    X(match) \
    X(read_plain) \
    X(scan_stream) \
    X(sum_rows) \
    X(tally) \
    X(unroll) \
    X(walk) \
    X(walk_chunks) \
    X(walk_many) \
    X(walk_payloads)

/* The head of the function of a kernel. */
#define KERNEL(name) PyObject *name(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)

#define DECLARE_KERNEL(name) KERNEL(name);
KERNELS(DECLARE_KERNEL)

#endif
