/* Callables that stand for others and record their calls. */
#ifndef FXTIO_TRACED_H
#define FXTIO_TRACED_H

#include "common.h"

HIDDEN int traced_init(PyObject *module);

#endif
