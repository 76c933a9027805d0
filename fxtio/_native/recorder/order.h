/* Records of finished files: without fillers, in the order of time. */
#ifndef FXTIO_ORDER_H
#define FXTIO_ORDER_H

#include "common.h"

extern HIDDEN PyMethodDef order_methods[];

#endif
