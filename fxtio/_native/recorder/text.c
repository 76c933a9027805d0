/* Texts: as UTF-8, cut to size, and in the string table.
 *
 * The table of texts is our own, since it is looked up under the lock, where nothing may happen but what we do. */
#include "text.h"
#include "definition.h"

/* Return how many of `size` bytes of UTF-8 to use: at most `limit`, without cutting a character. */
size_t text_cut(const char *text, size_t size, size_t limit) {
    if (size <= limit)
        return size;
    while (limit && ((unsigned char)text[limit] & 0xC0) == 0x80)
        limit--;
    return limit;
}

/* Copy a text to words, padded with zeros.  Returns the word after it. */
uint64_t *text_write(uint64_t *words, const char *text, size_t size) {
    size_t count = words_of(size);
    if (count)
        words[count - 1] = 0;
    memcpy(words, text, size);
    return words + count;
}

/* Return the UTF-8 bytes of a text; lone surrogates are escaped. */
static PyObject *encode(PyObject *text) {
    return PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace");
}

/* Return the UTF-8 bytes of a text, and in `*owner` the object to release when they are no longer needed.  Returns
 * NULL, without an exception, on failure. */
const char *text_utf8(PyObject *text, size_t *size, PyObject **owner) {
    *owner = NULL;
    if (PyUnicode_IS_COMPACT_ASCII(text)) {
        *size = (size_t)PyUnicode_GET_LENGTH(text);
        return (const char *)PyUnicode_DATA(text);
    }
    *owner = encode(text);
    if (!*owner) {
        PyErr_Clear();
        return NULL;
    }
    *size = (size_t)PyBytes_GET_SIZE(*owner);
    return PyBytes_AS_STRING(*owner);
}

/* ---- The slots of texts. ---- */

/* A text and its slot in the string table. */
typedef struct {
    PyObject *text; /* a plain string; NULL for an entry that is free */
    uint64_t slot;
} Entry;

/* Entries are at the place that the hash of the text gives or after it, without a free one between. */
static struct {
    Entry *entries; /* NULL while nothing is recorded */
    size_t mask, used; /* a power of two less 1; entries that are not free */
} table;

enum { FIRST_ROOM = 1024 };

/* Begin with an empty table, in a stopped world.  Returns -1 without memory. */
int texts_start(void) {
    table.entries = PyMem_RawCalloc(FIRST_ROOM, sizeof *table.entries);
    table.mask = FIRST_ROOM - 1;
    table.used = 0;
    return table.entries ? 0 : -1;
}

/* Forget all texts, in a stopped world. */
void texts_stop(Trash *trash) {
    for (size_t index = 0; table.entries && index <= table.mask; index++)
        trash_add(trash, table.entries[index].text);
    PyMem_RawFree(table.entries);
    memset(&table, 0, sizeof table);
}

/* Return the entry of a text, or the free one where it would be. */
static Entry *find(PyObject *text, Py_hash_t hash) {
    size_t place = (size_t)hash & table.mask;
    while (table.entries[place].text && table.entries[place].text != text &&
           PyUnicode_Compare(table.entries[place].text, text) != 0)
        place = (place + 1) & table.mask;
    return &table.entries[place];
}

/* Double the room of the table.  Returns -1 without memory. */
static int grow(void) {
    Entry *old = table.entries;
    size_t old_room = table.mask + 1;
    Entry *entries = PyMem_RawCalloc(2 * old_room, sizeof *entries);
    if (!entries)
        return -1;
    table.entries = entries;
    table.mask = 2 * old_room - 1;
    for (size_t index = 0; index < old_room; index++)
        if (old[index].text)
            *find(old[index].text, PyObject_Hash(old[index].text)) = old[index];
    PyMem_RawFree(old);
    return 0;
}

/* Write a string record for the next slot.  Returns the slot, or 0 if there is no room or the text is too long. */
static uint64_t define_text(const char *text, size_t size) {
    static uint64_t record[1 + MAX_TEXT_BYTES / 8]; /* not on the stack, which may be small */
    uint64_t slot = definition_next_slot();
    size_t words = 1 + words_of(size);
    if (!slot || !size || size > MAX_TEXT_BYTES)
        return 0;
    record[0] = STRING_HEADER + slot * STRING_SLOT_UNIT + size * STRING_SIZE_UNIT + words * SIZE_UNIT;
    text_write(record + 1, text, size);
    if (definition_write(record, words * 8))
        return 0;
    definition_take_slot();
    return slot;
}

/* Return the slot of a text, whose bytes are given if it may be defined; 0 if it has none. */
static uint64_t find_or_define(PyObject *text, Py_hash_t hash, const char *data, size_t size) {
    uint64_t slot = 0;
    guard_lock();
    Entry *entry = table.entries ? find(text, hash) : NULL;
    if (entry && entry->text)
        slot = entry->slot;
    else if (entry && data && (slot = define_text(data, size)) && (2 * table.used < table.mask || !grow())) {
        *find(text, hash) = (Entry){Py_NewRef(text), slot};
        table.used++;
    }
    guard_unlock();
    return slot;
}

/* Return the slot of a plain text, which is defined when it is new; 0 if it has to go inline.  This runs no code of the
 * program, as looking up a text of a class of the program would. */
static uint64_t plain_text_slot(PyObject *text) {
    Py_hash_t hash = PyObject_Hash(text);
    uint64_t slot = find_or_define(text, hash, NULL, 0);
    if (slot)
        return slot;
    PyObject *bytes = encode(text);
    if (!bytes) {
        PyErr_Clear();
        return 0;
    }
    slot = find_or_define(text, hash, PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes));
    Py_DECREF(bytes);
    return slot;
}

/* Return the slot of any text, see plain_text_slot(). */
uint64_t text_slot(PyObject *text) {
    if (LIKELY(PyUnicode_CheckExact(text)))
        return plain_text_slot(text);
    PyObject *plain = PyUnicode_FromObject(text);
    uint64_t slot = plain ? plain_text_slot(plain) : 0;
    PyErr_Clear();
    Py_XDECREF(plain);
    return slot;
}
