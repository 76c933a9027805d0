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

#endif
