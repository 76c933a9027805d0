/* Span objects. */
#ifndef FXTIO_SPAN_H
#define FXTIO_SPAN_H

#include "common.h"

HIDDEN extern PyMethodDef span_methods[];
HIDDEN int span_init(PyObject *module);

#endif
