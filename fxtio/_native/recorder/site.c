/* Texts and call sites: what is the same in all events of one place in the program, looked up once. */
#include "recorder.h"

enum { CACHE = 1024, MOST_SITES = 40000, MOST_DEFINED = 32000 };

/* ---- Texts. ---- */

/* At most so many bytes of UTF-8, cut where a character begins. */
size_t cut_to(const char *text, size_t size, size_t most) {
    if (size <= most)
        return size;
    session.cut++;
    while (most && ((unsigned char)text[most] & 0xC0) == 0x80)
        most--;
    return most;
}

/* Copy a text to words, with zeros behind it. */
uint64_t *put_text(uint64_t *to, const char *text, size_t size) {
    size_t words = words_of(size);
    if (words)
        to[words - 1] = 0;
    memcpy(to, text, size);
    return to + words;
}

/* The UTF-8 bytes of a text; `*made` has to be released when they are no longer needed.  NULL on failure. */
const char *utf8(PyObject *text, size_t *size, PyObject **made) {
    *made = NULL;
    if (PyUnicode_IS_COMPACT_ASCII(text)) {
        *size = (size_t)PyUnicode_GET_LENGTH(text);
        return (const char *)PyUnicode_DATA(text);
    }
    *made = PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace");
    if (!*made) {
        PyErr_Clear();
        return NULL;
    }
    *size = (size_t)PyBytes_GET_SIZE(*made);
    return PyBytes_AS_STRING(*made);
}

/* The slot of a text, defining it when it is new; 0 where it has to go inline. */
uint64_t text_slot(PyObject *text) {
    PyObject *known = PyDict_GetItemWithError(session.texts, text);
    if (known)
        return PyLong_AsUnsignedLongLong(known);
    PyErr_Clear();
    PyObject *bytes = PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace");
    if (!bytes) {
        PyErr_Clear();
        return 0;
    }
    uint64_t slot = 0, size = (uint64_t)PyBytes_GET_SIZE(bytes), words = (size + 7) / 8;
    uint64_t record[1 + MOST_DEFINED / 8];
    if (store_slot() && size <= MOST_DEFINED) {
        record[0] = layout.string + store_slot() * layout.string_slot_unit + size * layout.string_size_unit +
                    (words + 1) * layout.size_unit;
        if (words)
            record[words] = 0;
        memcpy(record + 1, PyBytes_AS_STRING(bytes), size);
        if (words && !store_define(record, (words + 1) * 8)) {
            slot = store_slot();
            store_slot_taken();
            PyObject *number = PyLong_FromUnsignedLongLong(slot);
            if (!number || PyDict_SetItem(session.texts, text, number))
                PyErr_Clear();
            Py_XDECREF(number);
        }
    }
    Py_DECREF(bytes);
    return slot;
}

/* ---- Sites. ---- */

static int wanted(PyObject *category) {
    if (session.only && PySet_Contains(session.only, category) != 1)
        return 0;
    return !(session.except && PySet_Contains(session.except, category) == 1);
}

/* The reference of a name, and the bytes that go with it if it is inline. */
static uint64_t reference(PyObject *text, PyObject **bytes, unsigned *extra) {
    Py_CLEAR(*bytes);
    if (!PyUnicode_GET_LENGTH(text))
        return 0;
    uint64_t slot = text_slot(text);
    if (slot)
        return slot;
    PyObject *made;
    size_t size;
    const char *data = utf8(text, &size, &made);
    if (data) {
        size = cut_to(data, size, MOST_NAME);
        *bytes = PyBytes_FromStringAndSize(data, (Py_ssize_t)size);
        Py_XDECREF(made);
    }
    if (!*bytes) {
        PyErr_Clear();
        return 0;
    }
    session.inlined++;
    *extra += (unsigned)words_of(size);
    return layout.text_inline + size;
}

/* Make a site ready for the session.  Whether it can be recorded. */
int site_bind(Site *site) {
    PyObject *type, *value, *trace;
    if (!session.active || current->busy)
        return 0;
    PyErr_Fetch(&type, &value, &trace);
    int ready = wanted(site->category);
    if (ready) {
        site->extra = 0;
        site->refs = reference(site->category, &site->inline_category, &site->extra) * layout.event_category_unit;
        site->refs += reference(site->name, &site->inline_name, &site->extra) * layout.event_name_unit;
        site->swift = !site->extra && !site->over;
        for (unsigned index = 0; index < site->count; index++) {
            site->keys_at[index] = text_slot(PyTuple_GET_ITEM(site->keys, index)) * layout.argument_name_unit;
            site->swift &= site->keys_at[index] != 0;
        }
        site->generation = session.generation;
    }
    PyErr_Restore(type, value, trace);
    return ready;
}

/* A new tuple of plain strings: those of the program's own classes would run its code when they are looked up. */
static PyObject *exact_all(PyObject *texts) {
    PyObject *made = PyTuple_New(PyTuple_GET_SIZE(texts));
    for (Py_ssize_t index = 0; made && index < PyTuple_GET_SIZE(texts); index++) {
        PyObject *text = PyUnicode_FromObject(PyTuple_GET_ITEM(texts, index));
        if (text)
            PyTuple_SET_ITEM(made, index, text);
        else
            Py_CLEAR(made);
    }
    return made;
}

Site *site_new(PyObject *category, PyObject *name, PyObject *keys) {
    Site *site = PyObject_New(Site, &SiteType);
    if (!site)
        return NULL;
    site->category = PyUnicode_FromObject(category);
    site->name = PyUnicode_FromObject(name);
    site->keys = keys ? exact_all(keys) : NULL;
    Py_ssize_t count = keys ? PyTuple_GET_SIZE(keys) : 0;
    site->count = count > MAX_ARGS ? MAX_ARGS : (unsigned)count;
    site->over = (unsigned)count - site->count;
    site->generation = 0;
    site->extra = 0;
    site->swift = 0;
    site->inline_category = site->inline_name = NULL;
    if (!site->category || !site->name || (keys && !site->keys))
        Py_CLEAR(site);
    return site;
}

static void site_dealloc(Site *site) {
    Py_XDECREF(site->category);
    Py_XDECREF(site->name);
    Py_XDECREF(site->keys);
    Py_XDECREF(site->inline_category);
    Py_XDECREF(site->inline_name);
    PyObject_Free(site);
}

static PyObject *site_make(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *category, *name, *keys = NULL;
    (void)type;
    if (kwargs && PyDict_GET_SIZE(kwargs)) {
        PyErr_SetString(PyExc_TypeError, "Site() takes no keyword arguments");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "UU|O!", &category, &name, &PyTuple_Type, &keys))
        return NULL;
    return (PyObject *)site_new(category, name, keys);
}

PyTypeObject SiteType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "fxtio._native._recorder.Site",
    .tp_doc = "Site(category, name, keys=()): what is the same in all events of one place in the program.",
    .tp_basicsize = sizeof(Site),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = site_make,
    .tp_dealloc = (destructor)site_dealloc,
};

/* Sites by the identity of what the caller gave (fast, some), and by its value (all, up to a limit). */
static struct {
    PyObject *name, *category, *keys;
    Site *site;
} cache[CACHE];
static PyObject *sites, *no_category;

int sites_init(void) {
    no_category = PyUnicode_InternFromString("");
    return no_category ? PyType_Ready(&SiteType) : -1;
}

void sites_forget(void) {
    for (int index = 0; index < CACHE; index++) {
        Py_CLEAR(cache[index].name);
        Py_CLEAR(cache[index].category);
        Py_CLEAR(cache[index].keys);
        Py_CLEAR(cache[index].site);
    }
    if (sites)
        PyDict_Clear(sites); /* it stays: a finalizer or a hash may end the recording while a site is looked for */
}

static Site *find_site(PyObject *name, PyObject *category, PyObject *keys) {
    if (!sites && !(sites = PyDict_New()))
        return NULL;
    PyObject *key = PyTuple_Pack(3, name, category, keys ? keys : Py_None);
    if (!key)
        return NULL;
    Site *site = (Site *)Py_XNewRef(PyDict_GetItemWithError(sites, key));
    if (!site && !PyErr_Occurred() && (site = site_new(category, name, keys)) && PyDict_GET_SIZE(sites) < MOST_SITES)
        if (PyDict_SetItem(sites, key, (PyObject *)site))
            PyErr_Clear();
    Py_DECREF(key);
    return site;
}

/* The site of these, borrowed; NULL if there is none (no error is set). */
Site *site_of(PyObject *name, PyObject *category, PyObject *keys) {
    uintptr_t hash = ((uintptr_t)name >> 4) ^ ((uintptr_t)category >> 3) * 5 ^ ((uintptr_t)keys >> 4) * 11;
    size_t index = (hash ^ hash >> 10) % CACHE;
    if (LIKELY(cache[index].name == name && cache[index].category == category && cache[index].keys == keys))
        return cache[index].site;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    Site *site = find_site(name, category, keys);
    PyErr_Restore(type, value, trace);
    if (!site)
        return NULL;
    PyObject *old_name = cache[index].name, *old_category = cache[index].category, *old_keys = cache[index].keys;
    Site *old = cache[index].site;
    cache[index].name = Py_NewRef(name);
    cache[index].category = Py_NewRef(category);
    cache[index].keys = Py_XNewRef(keys);
    cache[index].site = site; /* the reference that find_site gave */
    Py_XDECREF(old_name);
    Py_XDECREF(old_category);
    Py_XDECREF(old_keys);
    Py_XDECREF(old);
    return cache[index].site;
}

/* The name and the category that a call gave, and its site.  NULL without an error if nothing can be recorded. */
Site *site_called(PyObject *const *args, Py_ssize_t count, Py_ssize_t category_at, PyObject *keys, int *wrong) {
    *wrong = 0;
    if (count < 1 || count > category_at + 1) {
        PyErr_Format(PyExc_TypeError, "takes a name%s and a category by position, the rest by name",
                     category_at > 1 ? ", a value" : "");
        *wrong = 1;
        return NULL;
    }
    PyObject *category = count > category_at ? args[category_at] : no_category;
    if (UNLIKELY(!PyUnicode_Check(args[0]) || !PyUnicode_Check(category))) {
        PyErr_SetString(PyExc_TypeError, "name and category are strings");
        *wrong = 1;
        return NULL;
    }
    return session.active ? site_of(args[0], category, keys) : NULL;
}
