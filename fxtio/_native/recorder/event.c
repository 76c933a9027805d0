/* Events with arguments, and log records. */
#include "recorder.h"

enum { MOST_TEXT = 1000, MOST_MESSAGE = 4000 }; /* bytes of a text argument, and of a log message */

/* ---- Arguments. ---- */

/* A value as what the recorder writes by itself: None, bool, int, float or str.  Others are described by Python code,
 * which may run the program's own.  A new reference, NULL if that failed. */
static PyObject *plain(PyObject *value) {
    if (value == Py_None || PyLong_Check(value) || PyUnicode_Check(value) || PyFloat_Check(value))
        return Py_NewRef(value);
    State *state = current;
    if (!session.value_hook)
        return NULL;
    Pause pause = store_pause(state);
    PyObject *made = PyObject_CallOneArg(session.value_hook, value);
    if (made && !PyUnicode_Check(made))
        Py_CLEAR(made);
    store_resume(state, &pause);
    return made;
}

/* An argument in the making: its type, what its header holds of the value, and where its next word goes. */
typedef struct {
    enum Argument type;
    uint64_t value;
    uint64_t *to;
    const uint64_t *end;
} Draft;

static int put_word(Draft *draft, uint64_t word) {
    if (draft->to >= draft->end)
        return -1;
    *draft->to++ = word;
    return 0;
}

/* Put a text behind the header; its reference, 0 if it is empty or does not fit (then `to` is NULL). */
static uint64_t put_inline(Draft *draft, PyObject *text, size_t most) {
    PyObject *made;
    size_t size;
    const char *data = utf8(text, &size, &made);
    if (!data)
        return 0;
    size = cut_to(data, size, most);
    if (draft->to + words_of(size) > draft->end)
        draft->to = NULL;
    else
        draft->to = put_text(draft->to, data, size);
    Py_XDECREF(made);
    return size ? layout.text_inline + size : 0;
}

static int put_double(Draft *draft, double number) {
    uint64_t word;
    memcpy(&word, &number, sizeof word);
    draft->type = ARG_DOUBLE;
    return put_word(draft, word);
}

static int put_int(Draft *draft, PyObject *value) {
    int overflow;
    long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (!overflow && number >= INT32_MIN && number <= INT32_MAX) {
        draft->type = ARG_INT32;
        draft->value = (uint32_t)number;
        return 0;
    }
    if (!overflow) {
        draft->type = ARG_INT64;
        return put_word(draft, (uint64_t)number);
    }
    draft->type = ARG_UINT64; /* `narrow` has seen to the rest */
    return put_word(draft, PyLong_AsUnsignedLongLong(value));
}

static int put_value(Draft *draft, PyObject *value) {
    if (PyUnicode_Check(value)) {
        draft->type = ARG_STRING;
        draft->value = put_inline(draft, value, MOST_TEXT);
        return draft->to ? 0 : -1;
    }
    if (PyBool_Check(value)) {
        draft->type = ARG_BOOL;
        draft->value = value == Py_True;
        return 0;
    }
    if (PyLong_Check(value))
        return put_int(draft, value);
    if (PyFloat_Check(value))
        return put_double(draft, PyFloat_AS_DOUBLE(value));
    return 0;
}

/* Write an argument in front of `end`; without a slot (`key` 0) its name goes inline.  What is behind it, or NULL if it
 * does not fit. */
static uint64_t *put_argument(uint64_t *to, const uint64_t *end, uint64_t key, PyObject *name, PyObject *value) {
    Draft draft = {ARG_NULL, 0, to + 1, end};
    if (to >= end)
        return NULL;
    if (!key) {
        key = put_inline(&draft, name, MOST_NAME) * layout.argument_name_unit;
        if (!draft.to)
            return NULL;
    }
    if (put_value(&draft, value))
        return NULL;
    *to = layout.argument[draft.type] + key + draft.value * layout.argument_value_unit +
          (uint64_t)(draft.to - to) * layout.size_unit;
    return draft.to;
}

/* What an event says: names, those with a slot as they are in headers, plain values (NULL for what nobody knows). */
typedef struct {
    unsigned count;
    const uint64_t *keys;
    PyObject *const *names, *const *values;
    const uint64_t *tail;
} Said;

/* ---- Events. ---- */

/* An integer of one digit, as nearly all are. */
static inline int small(PyObject *value, int64_t *number) {
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

/* The bytes of a short text as a word. */
static inline uint64_t word_of(const unsigned char *text, size_t size) {
    uint64_t word = 0;
    for (size_t index = 0; index < size; index++)
        word |= (uint64_t)text[index] << 8 * index;
    return word;
}

/* An event whose texts all have slots and whose values are small integers, floats and short texts: the short way of
 * `event`, which takes all that this one refuses.  Whether it was recorded. */
int swift(Site *site, enum Kind kind, PyObject *const *values, const uint64_t *tail) {
    State *state = current;
    uint64_t *p = state->p, *to = p + 2;
    int64_t number;
    if (UNLIKELY(site->generation != session.generation || !site->swift || p + 3 + 2 * site->count > state->swift_end))
        return event(site, kind, values, tail);
    for (unsigned index = 0; index < site->count; index++) {
        PyObject *value = values[index];
        if (PyLong_CheckExact(value) && small(value, &number)) {
            *to++ = layout.argument[ARG_INT32] + layout.size_unit + site->keys_at[index] +
                    (uint32_t)number * layout.argument_value_unit;
        } else if (PyUnicode_CheckExact(value) && PyUnicode_IS_COMPACT_ASCII(value) &&
                   (size_t)PyUnicode_GET_LENGTH(value) - 1 < 8) {
            size_t size = (size_t)PyUnicode_GET_LENGTH(value);
            *to++ = layout.argument[ARG_STRING] + 2 * layout.size_unit + site->keys_at[index] +
                    (layout.text_inline + size) * layout.argument_value_unit;
            *to++ = word_of(PyUnicode_1BYTE_DATA(value), size);
        } else if (PyFloat_CheckExact(value)) {
            *to++ = layout.argument[ARG_DOUBLE] + 2 * layout.size_unit + site->keys_at[index];
            memcpy(to++, &((PyFloatObject *)value)->ob_fval, 8);
        } else
            return event(site, kind, values, tail);
    }
    if (tail)
        *to++ = *tail;
    p[1] = tick(state);
    size_t words = (size_t)(to - p);
    commit(state, p, words,
           layout.event[kind] + words * layout.size_unit + site->count * layout.event_args_unit + state->identity.bits + site->refs);
    return 1;
}

/* What every event begins with, behind its header and its time. */
static uint64_t *put_front(uint64_t *to, const State *state, const Site *site) {
    if (state->identity.extra) {
        *to++ = state->identity.process;
        *to++ = state->identity.thread;
    }
    if (site->inline_category)
        to = put_text(to, PyBytes_AS_STRING(site->inline_category), (size_t)PyBytes_GET_SIZE(site->inline_category));
    if (site->inline_name)
        to = put_text(to, PyBytes_AS_STRING(site->inline_name), (size_t)PyBytes_GET_SIZE(site->inline_name));
    return to;
}

/* Put the arguments between `to` and `end`; one that does not fit is left out and counted.  Whether all fit. */
static int put_arguments(uint64_t **to, const uint64_t *end, const Said *said, unsigned *put) {
    unsigned given = 0;
    *put = 0;
    for (unsigned index = 0; index < said->count; index++) {
        if (!said->values[index])
            continue;
        given++;
        uint64_t *after = put_argument(*to, end, said->keys[index], said->names[index], said->values[index]);
        if (after) {
            *to = after;
            ++*put;
        }
    }
    return *put == given;
}

/* Write an event, on a fresh page if it does not fit on this one; what does not fit there either is left out. */
static int put_event(Site *site, enum Kind kind, const Said *said) {
    State *state = current;
    uint64_t *p = store_room(&state, 5 + site->extra), *to; /* without arguments: 2, a thread of 2, a tail */
    unsigned put;
    uint64_t cut = session.cut;
    if (!p)
        return 0;
    to = put_front(p + 2, state, site);
    if (!put_arguments(&to, state->end - (said->tail != NULL), said, &put)) {
        if (!(p = store_page(state))) {
            state->lost++;
            return 0;
        }
        session.cut = cut;
        to = put_front(p + 2, state, site);
        put_arguments(&to, state->end - (said->tail != NULL), said, &put);
        session.dropped += said->count - put;
    }
    if (said->tail)
        *to++ = *said->tail;
    p[1] = tick(state);
    size_t words = (size_t)(to - p);
    uint64_t counts = words * layout.size_unit + put * layout.event_args_unit;
    commit(state, p, words, layout.event[kind] + counts + state->identity.bits + site->refs);
    return 1;
}

/* Whether this thread can record an event of this site; joins the session if it has not yet. */
static int ready(Site *site) {
    State *state = current;
    if (!session.active || (state->session != session.generation && !store_room(&state, 2)))
        return 0;
    return site_ready(site);
}

static int is_plain(PyObject *value) {
    return PyUnicode_CheckExact(value) || PyFloat_CheckExact(value) || value == Py_None;
}

/* Between these two an exception waits that a signal handler has raised in the meantime. */
typedef struct {
    PyObject *type, *value, *trace;
} Waiting;

static Waiting set_aside(void) {
    Waiting waiting;
    PyErr_Fetch(&waiting.type, &waiting.value, &waiting.trace);
    return waiting;
}

static void set_again(Waiting waiting) {
    PyErr_Restore(waiting.type, waiting.value, waiting.trace);
}

/* An integer as it is if 64 bits hold it, else as near as a double comes. */
static PyObject *narrow(PyObject *value) {
    int overflow;
    PyLong_AsLongLongAndOverflow(value, &overflow);
    if (LIKELY(!overflow))
        return Py_NewRef(value);
    Waiting waiting = set_aside();
    PyLong_AsUnsignedLongLong(value);
    PyObject *made = PyErr_Occurred() ? NULL : Py_NewRef(value);
    if (!made) {
        PyErr_Clear();
        double near = PyLong_AsDouble(value);
        if (PyErr_Occurred())
            near = overflow < 0 ? -Py_HUGE_VAL : Py_HUGE_VAL;
        made = PyFloat_FromDouble(near);
    }
    set_again(waiting);
    return made;
}

/* Describe the values that are not plain.  That may run any code: even the recording may be another one afterwards. */
static void make_plain(PyObject *const *values, unsigned count, PyObject **made) {
    for (unsigned index = 0; index < count; index++)
        made[index] = is_plain(values[index])      ? Py_NewRef(values[index])
                      : PyLong_Check(values[index]) ? narrow(values[index])
                                                    : plain(values[index]);
}

/* Record an event with the site's arguments (or none, if `values` is NULL).  Whether it was recorded. */
int event(Site *site, enum Kind kind, PyObject *const *values, const uint64_t *tail) {
    PyObject *made[MAX_ARGS];
    unsigned count = values ? site->count : 0;
    Py_INCREF(site); /* what runs from here on, as when a thread joins, may let go of it */
    if (!ready(site)) {
        Py_DECREF(site);
        return 0;
    }
    make_plain(values, count, made);
    if (values)
        session.dropped += site->over;
    PyObject *const *names = site->count ? &PyTuple_GET_ITEM(site->keys, 0) : NULL;
    Waiting waiting = set_aside();
    int done = ready(site) && put_event(site, kind, &(Said){count, site->keys_at, names, made, tail});
    for (unsigned index = 0; index < count; index++)
        Py_XDECREF(made[index]);
    Py_DECREF(site);
    set_again(waiting);
    return done;
}

/* Record an event with one argument that is none of the site's. */
int event_with(Site *site, enum Kind kind, PyObject *name, PyObject *value, const uint64_t *tail) {
    PyObject *made;
    Py_INCREF(site);
    if (!ready(site)) {
        Py_DECREF(site);
        return 0;
    }
    make_plain(&value, 1, &made);
    int done = 0;
    Waiting waiting = set_aside();
    if (ready(site)) {
        uint64_t key = text_slot(name) * layout.argument_name_unit;
        done = put_event(site, kind, &(Said){1, &key, &name, &made, tail});
    }
    Py_XDECREF(made);
    Py_DECREF(site);
    set_again(waiting);
    return done;
}

/* Record a log message. */
int log_record(PyObject *message) {
    State *state = current;
    PyObject *made;
    size_t size;
    const char *text = utf8(message, &size, &made);
    int done = 0;
    if (text) {
        size = cut_to(text, size, MOST_MESSAGE);
        uint64_t words = 2 + words_of(size);
        uint64_t *p = store_room(&state, (unsigned)words + 2), *to;
        if (p) {
            to = p + 2;
            if (state->identity.extra) {
                *to++ = state->identity.process;
                *to++ = state->identity.thread;
                words += 2;
            }
            put_text(to, text, size);
            p[1] = tick(state);
            commit(state, p, words,
                   layout.log + words * layout.size_unit + size * layout.log_size_unit +
                       state->identity.bits / layout.event_thread_unit * layout.log_thread_unit);
            done = 1;
        }
    }
    Py_XDECREF(made);
    return done;
}

/* ---- Collections. ---- */

static PyObject *said_in(PyObject *info, const char *key) {
    PyObject *value = PyDict_GetItemString(info, key);
    return value ? value : Py_None;
}

/* collection(begin, end, phase, info): what the garbage collector calls, behind two sites.  In C, because what Python
 * code raises there would be lost: an interrupt that came meanwhile, or that the stack is full. */
PyObject *collection(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    static uint64_t begun; /* the session in which the present collection began; there is never more than one */
    (void)module;
    if (count != 4 || !Py_IS_TYPE(args[0], &SiteType) || !Py_IS_TYPE(args[1], &SiteType) || !PyDict_Check(args[3]) ||
        !PyUnicode_Check(args[2]) || ((Site *)args[0])->count != 1 || ((Site *)args[1])->count != 2) {
        PyErr_SetString(PyExc_TypeError, "collection() takes a site with one key, one with two, a phase and a dict");
        return NULL;
    }
    PyObject *info = args[3];
    if (PyUnicode_CompareWithASCIIString(args[2], "start") == 0) {
        PyObject *generation = said_in(info, "generation");
        begun = event((Site *)args[0], BEGIN, &generation, NULL) ? session.generation : 0;
    } else if (begun) {
        PyObject *values[] = {said_in(info, "collected"), said_in(info, "uncollectable")};
        if (begun == session.generation)
            event((Site *)args[1], END, values, NULL);
        begun = 0;
    }
    return unless_escaped(Py_NewRef(Py_None));
}
