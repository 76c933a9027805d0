/* Calls that the interpreter reports: sys.monitoring, or a profile function. */
#ifndef FXTIO_FUNCTION_H
#define FXTIO_FUNCTION_H

#include "guard.h"

HIDDEN extern PyMethodDef function_methods[];
HIDDEN int function_init(PyObject *module);
HIDDEN void function_clear(Trash *trash);

#endif
