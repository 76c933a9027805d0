/* The list of kernels.  A new one is a line here, a function in any of the files, and a stand-in in Python, which says
 * what its arguments are. */
#ifndef FXTIO_KERNELS_H
#define FXTIO_KERNELS_H

#include "arguments.h"

#define KERNELS(X) \
    X(copy_rows) \
    X(distinct) \
    X(distinct_texts) \
    X(encode_stream) \
    X(fill_stream) \
    X(gather) \
    X(group_rows) \
    X(interleave) \
    X(late) \
    X(list_slices) \
    X(match) \
    X(read_decimals) \
    X(read_fields) \
    X(read_plain) \
    X(scan_stream) \
    X(sum_rows) \
    X(tally) \
    X(unroll) \
    X(walk) \
    X(walk_arrays) \
    X(walk_chunks) \
    X(walk_many) \
    X(walk_objects) \
    X(walk_payloads)

/* The head of the function of a kernel. */
#define KERNEL(name) PyObject *name(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)

/* The head of the function of a kernel after the list of its arguments: it gets their values as `a`, which are released
 * when it returns. */
#define KERNEL_TAKING(name, ...)                                      \
    static PyObject *name##_of(Value *a);                             \
    KERNEL(name) {                                                    \
        static const Argument takes[] = {__VA_ARGS__};                \
        enum { COUNT = sizeof takes / sizeof *takes };                \
        Value values[COUNT];                                          \
        if (call_open(values, #name, takes, COUNT, args, nargs) < 0)  \
            return NULL;                                              \
        return call_close(values, COUNT, name##_of(values));          \
    }                                                                 \
    static PyObject *name##_of(Value *a)

#define DECLARE_KERNEL(name) KERNEL(name);
KERNELS(DECLARE_KERNEL)

#endif
