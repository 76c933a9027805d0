/* Greenlets: each records to a track of its own. */
#ifndef FXTIO_STRAND_H
#define FXTIO_STRAND_H

#include "common.h"

enum { FIRST_GREENLET_TRACK = 1 << 30 }; /* ids of tracks, above those that the system gives to threads */

HIDDEN extern PyMethodDef strand_methods[];

#endif
