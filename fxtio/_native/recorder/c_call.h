/* Calls of C functions, where these are asked for: of functions and methods that are defined by a `PyMethodDef`. */
#ifndef FXTIO_C_CALL_H
#define FXTIO_C_CALL_H

#include "common.h"

HIDDEN void c_call_set_hook(PyObject *hook);
HIDDEN void c_call_clear(void);
HIDDEN int c_call_begin(PyObject *code, PyObject *callable, const void *frame);
HIDDEN void c_call_end(PyObject *code, PyObject *callable, const void *frame);

#endif
