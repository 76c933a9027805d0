/* The end of the process by os._exit(). */
#ifndef FXTIO_HARD_EXIT_H
#define FXTIO_HARD_EXIT_H

#include "session.h"

extern HIDDEN PyMethodDef hard_exit_methods[];

#endif
