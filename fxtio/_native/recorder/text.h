/* Texts: as UTF-8, cut to size, and in the string table. */
#ifndef FXTIO_TEXT_H
#define FXTIO_TEXT_H

#include "guard.h"

HIDDEN int texts_start(void);
HIDDEN void texts_stop(Trash *trash);
HIDDEN uint64_t text_slot(PyObject *text);
HIDDEN const char *text_utf8(PyObject *text, size_t *size, PyObject **owner);
HIDDEN size_t text_cut(const char *text, size_t size, size_t limit);
HIDDEN uint64_t *text_write(uint64_t *words, const char *text, size_t size);

/* Return how many words hold this many bytes. */
static inline size_t words_of(size_t size) {
    return (size + 7) / 8;
}

/* ---- Definitions: strings, threads and the names of both.  They are in a region in front of the file, before every
 * record that refers to them. ---- */

HIDDEN void definition_start(uint64_t begin, uint64_t end);
HIDDEN int definition_write(const void *record, size_t size);
HIDDEN uint64_t definition_next_slot(void);
HIDDEN void definition_take_slot(void);

#endif
