/* Events and log records.
 *
 * record_event() writes any event.  record_event_fast() and record_bare() write events of the usual shape with fewer
 * checks, and leave everything else to it. */
#include "event.h"

enum { MAX_TEXT_ARGUMENT = 1000, MAX_LOG_MESSAGE = 4000 }; /* bytes: longer texts are cut */

PyObject *result_name, *exception_name, *file_name, *line_name;

/* Make the names of arguments.  Returns -1 with an exception set on failure. */
int event_init(void) {
    result_name = PyUnicode_InternFromString("result");
    exception_name = PyUnicode_InternFromString("exception");
    file_name = PyUnicode_InternFromString("source.file_name");
    line_name = PyUnicode_InternFromString("source.line_number");
    return result_name && exception_name && file_name && line_name ? 0 : -1;
}

/* ---- Values of arguments. ---- */

/* Return an integer as it is if 64 bits hold it, else the nearest float. */
static PyObject *narrow(PyObject *value) {
    int overflow;
    PyLong_AsLongLongAndOverflow(value, &overflow);
    if (LIKELY(!overflow))
        return Py_NewRef(value);
    SavedError error = error_save();
    PyLong_AsUnsignedLongLong(value);
    PyObject *result = PyErr_Occurred() ? NULL : Py_NewRef(value);
    if (!result) {
        PyErr_Clear();
        double nearest = PyLong_AsDouble(value);
        if (PyErr_Occurred())
            nearest = overflow < 0 ? -Py_HUGE_VAL : Py_HUGE_VAL;
        result = PyFloat_FromDouble(nearest);
    }
    error_restore(error);
    return result;
}

/* Return a text that describes a value, by the value hook; NULL if that fails. */
static PyObject *describe(PyObject *value) {
    State *state = current;
    if (!session.objects.value_hook)
        return NULL;
    Pause pause = thread_pause(state);
    PyObject *text = session_call_hook(session.objects.value_hook, value);
    if (text && !PyUnicode_Check(text))
        Py_CLEAR(text);
    thread_resume(state, &pause);
    return text;
}

/* Return a value, new reference, as one that arguments hold: None, bool, int, float or str; NULL if that fails. */
static PyObject *simplify(PyObject *value) {
    if (PyLong_Check(value))
        return narrow(value);
    if (value == Py_None || PyUnicode_Check(value) || PyFloat_Check(value))
        return Py_NewRef(value);
    return describe(value);
}

/* Return a value, new reference, as arguments hold it; NULL if nobody can describe it.  That may run any code: even the
 * recording may be another one afterwards. */
PyObject *event_value(PyObject *value) {
    return current->escaped ? NULL : simplify(value);
}

/* Simplify values, see event_value(). */
static void simplify_all(PyObject *const *values, unsigned count, PyObject **results) {
    for (unsigned index = 0; index < count; index++)
        results[index] = event_value(values[index]);
}

/* ---- Arguments. ---- */

/* An argument that is being written: its type, the value in its header, where its next word goes, and how many of its
 * texts are cut. */
typedef struct {
    enum ArgumentType type;
    uint64_t value;
    uint64_t *next;
    const uint64_t *end;
    unsigned cut_texts;
} Draft;

/* The arguments of an event that are written, those of their texts that are cut, and those of their names that are
 * inline. */
typedef struct {
    unsigned arguments, cut_texts, inline_names;
} Tally;

static const Text NO_NAME = {NULL, 0};

/* Write the next word.  Returns -1 if it does not fit. */
static int write_word(Draft *draft, uint64_t word) {
    if (draft->next >= draft->end)
        return -1;
    *draft->next++ = word;
    return 0;
}

/* Write a text after the header.  Returns its reference: 0 if it is empty, or does not fit, in which case `next`
 * becomes NULL. */
static uint64_t write_inline(Draft *draft, PyObject *text, size_t limit) {
    PyObject *owner;
    size_t whole;
    const char *data = text_utf8(text, &whole, &owner);
    if (!data)
        return 0;
    size_t size = text_cut(data, whole, limit);
    draft->cut_texts += size < whole;
    if (draft->next + words_of(size) > draft->end)
        draft->next = NULL;
    else
        draft->next = text_write(draft->next, data, size);
    Py_XDECREF(owner);
    return size ? STRING_REF_INLINE_UNIT + size : 0;
}

/* Write a float.  Returns -1 if it does not fit. */
static int write_double(Draft *draft, double number) {
    uint64_t word;
    memcpy(&word, &number, sizeof word);
    draft->type = ARGUMENT_DOUBLE;
    return write_word(draft, word);
}

/* Write an integer, which 64 bits hold. */
static int write_int(Draft *draft, PyObject *value) {
    int overflow;
    long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (!overflow && number >= INT32_MIN && number <= INT32_MAX) {
        draft->type = ARGUMENT_INT32;
        draft->value = (uint32_t)number;
        return 0;
    }
    if (!overflow) {
        draft->type = ARGUMENT_INT64;
        return write_word(draft, (uint64_t)number);
    }
    draft->type = ARGUMENT_UINT64;
    return write_word(draft, PyLong_AsUnsignedLongLong(value));
}

/* Write a simple value.  Returns -1 if it does not fit. */
static int write_value(Draft *draft, PyObject *value) {
    if (PyUnicode_Check(value)) {
        draft->type = ARGUMENT_STRING;
        draft->value = write_inline(draft, value, MAX_TEXT_ARGUMENT);
        return draft->next ? 0 : -1;
    }
    if (PyBool_Check(value)) {
        draft->type = ARGUMENT_BOOL;
        draft->value = value == Py_True;
        return 0;
    }
    if (PyLong_Check(value))
        return write_int(draft, value);
    if (PyFloat_Check(value))
        return write_double(draft, PyFloat_AS_DOUBLE(value));
    return 0;
}

/* Write an argument in front of `end`, and count it; without a slot (`key_ref` 0) its name goes inline.  Returns the
 * word after it, or NULL if it does not fit. */
static uint64_t *write_argument(uint64_t *header, const uint64_t *end, uint64_t key_ref, PyObject *key,
                                PyObject *value, Tally *tally) {
    Draft draft = {ARGUMENT_NULL, 0, header + 1, end, 0};
    unsigned inline_names = 0;
    if (header >= end)
        return NULL;
    if (!key_ref) {
        key_ref = write_inline(&draft, key, MAX_INLINE_NAME) * ARGUMENT_NAME_UNIT;
        if (!draft.next)
            return NULL;
        inline_names = key_ref != 0;
    }
    if (write_value(&draft, value))
        return NULL;
    tally->arguments++;
    tally->cut_texts += draft.cut_texts;
    tally->inline_names += inline_names;
    *header = ARGUMENT_HEADERS[draft.type] + key_ref + draft.value * ARGUMENT_VALUE_UNIT +
              (uint64_t)(draft.next - header) * SIZE_UNIT;
    return draft.next;
}

/* The content of an event besides its site: keys, their references, simple values (NULL for those that nobody could
 * describe), perhaps an id, and perhaps a name in place of the empty one of the site. */
typedef struct {
    unsigned count;
    const uint64_t *key_refs;
    PyObject *const *keys, *const *values;
    const uint64_t *id;
    Text name;
} Content;

/* Write arguments from `*next` on, up to `end`, and count them.  Returns how many do not fit; they are left out. */
static unsigned write_arguments(uint64_t **next, const uint64_t *end, const Content *content, Tally *tally) {
    unsigned left_out = 0;
    *tally = (Tally){0};
    for (unsigned index = 0; index < content->count; index++) {
        if (!content->values[index])
            continue;
        uint64_t *after =
            write_argument(*next, end, content->key_refs[index], content->keys[index], content->values[index], tally);
        if (after)
            *next = after;
        else
            left_out++;
    }
    return left_out;
}

/* ---- Events. ---- */

/* Get the value of an integer of one digit, as nearly all are.  Returns 0 for others. */
static inline int small_int(PyObject *value, int64_t *number) {
#if PY_VERSION_HEX >= 0x030C0000
    if (!PyUnstable_Long_IsCompact((PyLongObject *)value))
        return 0;
    *number = PyUnstable_Long_CompactValue((PyLongObject *)value);
#else
    Py_ssize_t digits = Py_SIZE(value);
    if (digits < -1 || digits > 1)
        return 0;
    *number = digits * (int64_t)((PyLongObject *)value)->ob_digit[0];
#endif
    return 1;
}

/* Return the bytes of a text of at most 8 as a word. */
static inline uint64_t text_word(const unsigned char *text, size_t size) {
    uint64_t word = 0;
    for (size_t index = 0; index < size; index++)
        word |= (uint64_t)text[index] << 8 * index;
    return word;
}

enum { FAST_TEXT_WORDS = 4, FAST_TEXT = 8 * FAST_TEXT_WORDS }; /* bytes: longer texts are left to record_event() */

/* Record an event with the site's arguments if all texts have slots and the values are small integers, floats or short
 * texts; leave others to record_event(). */
int record_event_fast(Site *site, enum EventKind kind, PyObject *const *values, const uint64_t *id) {
    State *state = current;
    uint64_t *record = state->cursor, *next = record + 2;
    int64_t number;
    if (UNLIKELY(!site_is_simple(site) || record + 3 + (1 + FAST_TEXT_WORDS) * site->count > state->fast_end))
        return record_event(site, kind, values, id);
    for (unsigned index = 0; index < site->count; index++) {
        PyObject *value = values[index];
        if (PyLong_CheckExact(value) && small_int(value, &number)) {
            *next++ = ARGUMENT_HEADERS[ARGUMENT_INT32] + SIZE_UNIT + site->own.key_refs[index] +
                      (uint32_t)number * ARGUMENT_VALUE_UNIT;
        } else if (PyUnicode_CheckExact(value) && PyUnicode_IS_COMPACT_ASCII(value) &&
                   (size_t)PyUnicode_GET_LENGTH(value) - 1 < FAST_TEXT) {
            size_t size = (size_t)PyUnicode_GET_LENGTH(value);
            *next++ = ARGUMENT_HEADERS[ARGUMENT_STRING] + (1 + words_of(size)) * SIZE_UNIT + site->own.key_refs[index] +
                      (STRING_REF_INLINE_UNIT + size) * ARGUMENT_VALUE_UNIT;
            if (size <= 8)
                *next++ = text_word(PyUnicode_1BYTE_DATA(value), size);
            else
                next = text_write(next, (const char *)PyUnicode_1BYTE_DATA(value), size);
        } else if (PyFloat_CheckExact(value)) {
            *next++ = ARGUMENT_HEADERS[ARGUMENT_DOUBLE] + 2 * SIZE_UNIT + site->own.key_refs[index];
            memcpy(next++, &((PyFloatObject *)value)->ob_fval, 8);
        } else
            return record_event(site, kind, values, id);
    }
    if (id)
        *next++ = *id;
    record[1] = next_tick(state);
    size_t words = (size_t)(next - record);
    uint64_t counts = words * SIZE_UNIT + site->count * EVENT_ARGUMENTS_UNIT;
    commit(state, record, words, EVENT_HEADERS[kind] + counts + state->identity.thread_ref + site->own.refs);
    return 1;
}

/* Write the inline ids of the thread.  Returns the word after them. */
static uint64_t *write_identity(uint64_t *next, const State *state) {
    if (state->identity.inline_words) {
        *next++ = state->identity.process;
        *next++ = state->identity.thread;
    }
    return next;
}

/* Write the bytes of an inline name, if there are any.  Returns the word after them. */
static uint64_t *write_name(uint64_t *next, PyObject *bytes) {
    return bytes ? text_write(next, PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes)) : next;
}

/* Write what is between the time and the arguments.  Returns the word after it. */
static uint64_t *write_names(uint64_t *next, const State *state, const Site *site, Text name) {
    next = write_identity(next, state);
    next = write_name(next, site->own.inline_category);
    return name.size ? text_write(next, name.data, name.size) : write_name(next, site->own.inline_name);
}

/* The file and line of a function, as they are written; the slots are 0 unless they are to be recorded. */
typedef struct {
    uint64_t file_key, line_key, file;
} Place;

/* Return where a function is defined, unless the event has too many arguments to say so. */
static Place place_of(const Site *site, const Content *content) {
    if (content->count + 2 > MAX_ARGUMENTS)
        return (Place){0, 0, 0};
    return (Place){text_slot(file_name), text_slot(line_name), text_slot(site->file)};
}

/* Write where a function is defined.  Returns how many arguments do not fit. */
static unsigned write_place(uint64_t **next, const uint64_t *end, Place place, const Site *site, Tally *tally) {
    enum { ARGUMENTS = 2 };
    if (LIKELY(!place.file_key || !place.line_key || !place.file))
        return 0;
    if (*next + ARGUMENTS > end)
        return ARGUMENTS;
    *(*next)++ = ARGUMENT_HEADERS[ARGUMENT_STRING] + SIZE_UNIT + place.file_key * ARGUMENT_NAME_UNIT +
                 place.file * ARGUMENT_VALUE_UNIT;
    *(*next)++ = ARGUMENT_HEADERS[ARGUMENT_INT32] + SIZE_UNIT + place.line_key * ARGUMENT_NAME_UNIT +
                 site->line * ARGUMENT_VALUE_UNIT;
    tally->arguments += ARGUMENTS;
    return 0;
}

/* Write an event, on a fresh page if it does not fit on this one; arguments that do not fit there either are left
 * out. */
static int write_event(Site *site, enum EventKind kind, const Content *content) {
    enum { WITHOUT_ARGUMENTS = 5 }; /* words: header, time, two of a thread, an id */
    State *state = current;
    /* Before there is room: making it may have all places recorded again, from the next event on. */
    const int is_first = UNLIKELY(!READ(site->has_place)) && kind == session.place_kind;
    const Place place = is_first ? place_of(site, content) : (Place){0, 0, 0};
    const unsigned name_words = (unsigned)words_of(content->name.size);
    uint64_t *record = thread_room(&state, WITHOUT_ARGUMENTS + site->own.inline_words + name_words), *next;
    const unsigned id_words = content->id != NULL;
    Tally tally;
    if (!record)
        return 0;
    next = write_names(record + 2, state, site, content->name);
    if (write_arguments(&next, state->page_end - id_words, content, &tally) ||
        write_place(&next, state->page_end - id_words, place, site, &tally)) {
        if (!(record = thread_next_page(state))) {
            state->lost++;
            return 0;
        }
        next = write_names(record + 2, state, site, content->name);
        count_more(&session.dropped_arguments, write_arguments(&next, state->page_end - id_words, content, &tally));
        write_place(&next, state->page_end - id_words, place, site, &tally);
    }
    count_more(&session.cut_texts, site->own.cut_names + tally.cut_texts);
    count_more(&session.inline_names, site->own.inline_names + tally.inline_names);
    if (content->id)
        *next++ = *content->id;
    record[1] = next_tick(state);
    size_t words = (size_t)(next - record);
    uint64_t counts = words * SIZE_UNIT + tally.arguments * EVENT_ARGUMENTS_UNIT;
    uint64_t refs = site->own.refs;
    if (name_words)
        refs += (STRING_REF_INLINE_UNIT + content->name.size) * EVENT_NAME_UNIT;
    commit(state, record, words, EVENT_HEADERS[kind] + counts + state->identity.thread_ref + refs);
    if (is_first)
        site_note_place(site);
    return 1;
}

/* Return whether this thread can record an event of this site; it joins the session if it has not yet. */
static int is_ready(Site *site) {
    State *state = current;
    if (!session.active || (state->generation != session.generation && !thread_room(&state, 2)))
        return 0;
    return site_is_ready(site);
}

/* Record an event of a site whose name is empty by a name of at most MAX_INLINE_NAME bytes that is kept out of the
 * table of strings, as it need not be of use again.  Otherwise like record_event(). */
int record_event_named(Site *site, enum EventKind kind, Text name, PyObject *const *values, const uint64_t *id) {
    PyObject *simple[MAX_ARGUMENTS];
    unsigned count = values ? site->count : 0;
    Py_INCREF(site); /* code that runs from here on, as when a thread joins, may drop the last reference */
    if (!is_ready(site)) {
        Py_DECREF(site);
        return 0;
    }
    simplify_all(values, count, simple);
    PyObject *const *keys = site->count ? &PyTuple_GET_ITEM(site->keys, 0) : NULL;
    SavedError error = error_save(); /* a signal handler may have raised meanwhile */
    int recorded = is_ready(site) && write_event(site, kind, &(Content){count, site->own.key_refs, keys, simple, id, name});
    if (recorded && values)
        count_more(&session.dropped_arguments, site->excess_keys);
    for (unsigned index = 0; index < count; index++)
        Py_XDECREF(simple[index]);
    Py_DECREF(site);
    error_restore(error);
    return recorded;
}

/* Record an event with the site's arguments, or with none if `values` is NULL. */
int record_event(Site *site, enum EventKind kind, PyObject *const *values, const uint64_t *id) {
    return record_event_named(site, kind, NO_NAME, values, id);
}

/* Record an event with one argument that is none of the site's. */
int record_event_with(Site *site, enum EventKind kind, PyObject *key, PyObject *value, const uint64_t *id) {
    PyObject *simple;
    Py_INCREF(site);
    if (!is_ready(site)) {
        Py_DECREF(site);
        return 0;
    }
    simplify_all(&value, 1, &simple);
    int recorded = 0;
    SavedError error = error_save();
    if (is_ready(site)) {
        uint64_t key_ref = text_slot(key) * ARGUMENT_NAME_UNIT;
        recorded = write_event(site, kind, &(Content){1, &key_ref, &key, &simple, id, NO_NAME});
    }
    Py_XDECREF(simple);
    Py_DECREF(site);
    error_restore(error);
    return recorded;
}

/* Record an end with an argument, without it if that fails. */
void record_end_with(Site *site, enum EventKind kind, PyObject *key, PyObject *value, const uint64_t *id) {
    if (!value || !record_event_with(site, kind, key, value, id))
        record_bare_with_id(site, kind, id);
}

/* Record that a call ends with an exception of a type, by its name if possible. */
void record_end_raised(Site *site, enum EventKind kind, PyObject *type, const uint64_t *id) {
    PyObject *name = PyUnicode_FromString(((PyTypeObject *)type)->tp_name);
    if (!name)
        PyErr_Clear();
    record_end_with(site, kind, exception_name, name, id);
    Py_XDECREF(name);
}

/* Record the end of a call whose own end is missing, by the names in the header of an event. */
void record_missing_end(uint64_t refs) {
    State *state = current;
    uint64_t *record = thread_room(&state, 4);
    if (!record)
        return;
    size_t words = (size_t)(write_identity(record + 2, state) - record);
    record[1] = next_tick(state);
    commit(state, record, words, EVENT_HEADERS[EVENT_END] + words * SIZE_UNIT + state->identity.thread_ref + refs);
}

/* Record a log message. */
int record_log(PyObject *message) {
    State *state = current;
    PyObject *owner;
    size_t whole, size = 0;
    const char *text = text_utf8(message, &whole, &owner);
    uint64_t *record = NULL;
    if (text) {
        size = text_cut(text, whole, MAX_LOG_MESSAGE);
        record = thread_room(&state, (unsigned)words_of(size) + 4);
    }
    if (record) {
        uint64_t *end = text_write(write_identity(record + 2, state), text, size);
        size_t words = (size_t)(end - record);
        uint64_t thread_ref = state->identity.thread_ref / EVENT_THREAD_UNIT * LOG_THREAD_UNIT;
        count_more(&session.cut_texts, size < whole);
        record[1] = next_tick(state);
        commit(state, record, words, LOG_HEADER + words * SIZE_UNIT + size * LOG_SIZE_UNIT + thread_ref);
    }
    Py_XDECREF(owner);
    return record != NULL;
}
