/* Generators and coroutines that traced callables return. */
#ifndef FXTIO_STEPPER_H
#define FXTIO_STEPPER_H

#include "site.h"

HIDDEN int stepper_init(void);
HIDDEN PyObject *stepper_new(PyObject *inner, Site *site, PyObject *values, int with_result, int kind);

#endif
