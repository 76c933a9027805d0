/* What modules add to the module object: their methods, and functions that make their types and constants, which return
 * nonzero with an exception set on failure. */
#ifndef FXTIO_METHODS_H
#define FXTIO_METHODS_H

#include "guard.h"

enum { FIRST_GREENLET_TRACK = 1 << 30 }; /* ids of tracks, above those that the system gives to threads */

extern HIDDEN PyMethodDef function_methods[], hard_exit_methods[], lock_methods[], mark_methods[], order_methods[], snapshot_methods[],
    span_methods[], strand_methods[];

HIDDEN int function_init(PyObject *module);
HIDDEN void function_clear(Trash *trash);
HIDDEN int loop_init(PyObject *module);
HIDDEN int mark_init(void);
HIDDEN int span_init(PyObject *module);
HIDDEN int traced_init(PyObject *module);

#endif
