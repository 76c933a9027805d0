/* Definitions: strings, threads and the names of both.  They are in a region in front of the file, before every record
 * that refers to them. */
#ifndef FXTIO_DEFINITION_H
#define FXTIO_DEFINITION_H

#include "guard.h"

HIDDEN void definition_start(uint64_t begin, uint64_t end);
HIDDEN int definition_write(const void *record, size_t size);
HIDDEN uint64_t definition_next_slot(void);
HIDDEN void definition_take_slot(void);

#endif
