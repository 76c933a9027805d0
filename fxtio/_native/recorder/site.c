/* Texts, and call sites: the common part of all events of one place in the program, looked up once. */
#include "site.h"
#include "definition.h"
#include "thread.h"

enum { MAX_SITES = 40000 };

/* ---- Texts. ---- */

/* Return how many of `size` bytes of UTF-8 to use: at most `limit`, without cutting a character. */
size_t text_cut(const char *text, size_t size, size_t limit) {
    if (size <= limit)
        return size;
    while (limit && ((unsigned char)text[limit] & 0xC0) == 0x80)
        limit--;
    return limit;
}

/* Copy a text to words, padded with zeros.  Returns the word behind it. */
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

/* Write a string record for the next slot.  Returns the slot, or 0 if there is no room or the text is too long. */
static uint64_t define_text(const char *text, size_t size) {
    static uint64_t record[1 + MAX_TEXT_BYTES / 8]; /* not on the stack, which may be small; the GIL is held */
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

/* Return the slot of a plain text, which is defined when it is new; 0 if it has to go inline.  This runs no code of the
 * program, as looking up a text of a class of the program would. */
static uint64_t plain_text_slot(PyObject *text) {
    if (!session.objects.text_slots)
        return 0;
    PyObject *number = PyDict_GetItemWithError(session.objects.text_slots, text);
    if (number)
        return PyLong_AsUnsignedLongLong(number);
    PyErr_Clear();
    PyObject *bytes = encode(text);
    if (!bytes) {
        PyErr_Clear();
        return 0;
    }
    uint64_t slot = define_text(PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes));
    Py_DECREF(bytes);
    if (slot) {
        number = PyLong_FromUnsignedLongLong(slot);
        if (!number || PyDict_SetItem(session.objects.text_slots, text, number))
            PyErr_Clear();
        Py_XDECREF(number);
    }
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

/* ---- Sites. ---- */

/* Return whether the options include a category. */
static int is_category_recorded(PyObject *category) {
    if (session.objects.only_categories && PySet_Contains(session.objects.only_categories, category) != 1)
        return 0;
    if (session.objects.unseen_categories && PySet_Discard(session.objects.unseen_categories, category) < 0)
        PyErr_Clear();
    return !(session.objects.not_categories && PySet_Contains(session.objects.not_categories, category) == 1);
}

/* Return the reference of a name of a site.  If it goes inline, `*bytes` gets its bytes. */
static uint64_t name_ref(Site *site, PyObject *text, PyObject **bytes) {
    Py_CLEAR(*bytes);
    if (!PyUnicode_GET_LENGTH(text))
        return 0;
    uint64_t slot = text_slot(text);
    if (slot)
        return slot;
    PyObject *owner;
    size_t whole = 0, size = 0;
    const char *data = text_utf8(text, &whole, &owner);
    if (data) {
        size = text_cut(data, whole, MAX_INLINE_NAME);
        *bytes = PyBytes_FromStringAndSize(data, (Py_ssize_t)size);
        Py_XDECREF(owner);
    }
    if (!*bytes) {
        PyErr_Clear();
        return 0;
    }
    site->inline_names++;
    site->cut_names += size < whole;
    site->inline_words += (unsigned)words_of(size);
    return STRING_REF_INLINE_UNIT + size;
}

/* Prepare a site for the session.  Returns whether it can be recorded. */
int site_prepare(Site *site) {
    if (!session.active || current->paused)
        return 0;
    SavedError error = error_save();
    int is_recorded = is_category_recorded(site->category);
    if (is_recorded) {
        site->inline_words = site->inline_names = site->cut_names = 0;
        site->refs = name_ref(site, site->category, &site->inline_category) * EVENT_CATEGORY_UNIT;
        site->refs += name_ref(site, site->name, &site->inline_name) * EVENT_NAME_UNIT;
        site->has_slots = !site->inline_words && !site->excess_keys;
        for (unsigned index = 0; index < site->count; index++) {
            site->key_refs[index] = text_slot(PyTuple_GET_ITEM(site->keys, index)) * ARGUMENT_NAME_UNIT;
            site->has_slots &= site->key_refs[index] != 0;
        }
        site_set_place_recorded(site, !site->file);
        site->generation = session.generation;
    }
    error_restore(error);
    return is_recorded;
}

/* Note whether an event of this session has the place of the function. */
void site_set_place_recorded(Site *site, int is_recorded) {
    site->has_place = is_recorded;
    site->is_fast = site->has_slots && is_recorded;
}

/* Return the site of whole calls of a coroutine, on the track of a task: `await` and the name of the function.  What
 * runs of such a call, on the track of a thread, has the name alone, so that nobody counts the one with the other.
 * Returns NULL without memory. */
Site *site_of_operation(Site *site) {
    if (LIKELY(site->operation != NULL))
        return site->operation;
    SavedError error = error_save();
    PyObject *name = PyUnicode_FromFormat("await %U", site->name);
    site->operation = name ? site_new(site->category, name, site->keys) : NULL;
    Py_XDECREF(name);
    error_restore(error);
    return site->operation;
}

/* Return a tuple of plain strings: to look up strings of a class of the program would run code of the program. */
static PyObject *plain_strings(PyObject *texts) {
    PyObject *result = PyTuple_New(PyTuple_GET_SIZE(texts));
    for (Py_ssize_t index = 0; result && index < PyTuple_GET_SIZE(texts); index++) {
        PyObject *text = PyUnicode_FromObject(PyTuple_GET_ITEM(texts, index));
        if (text)
            PyTuple_SET_ITEM(result, index, text);
        else
            Py_CLEAR(result);
    }
    return result;
}

/* Make a site.  `keys` is a tuple of str, or NULL. */
Site *site_new(PyObject *category, PyObject *name, PyObject *keys) {
    Site *site = PyObject_New(Site, &SiteType);
    if (!site)
        return NULL;
    site->category = PyUnicode_FromObject(category);
    site->name = PyUnicode_FromObject(name);
    site->keys = keys ? plain_strings(keys) : NULL;
    Py_ssize_t count = keys ? PyTuple_GET_SIZE(keys) : 0;
    site->count = count > MAX_ARGUMENTS ? MAX_ARGUMENTS : (unsigned)count;
    site->excess_keys = (unsigned)count - site->count;
    site->generation = 0;
    site->inline_words = site->inline_names = site->cut_names = 0;
    site->is_fast = site->has_slots = 0;
    site->has_place = 1;
    site->file = NULL;
    site->line = 0;
    site->operation = NULL;
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
    Py_XDECREF(site->file);
    Py_XDECREF((PyObject *)site->operation);
    PyObject_Free(site);
}

/* Site(category, name, keys=(), *, file=None, line=0): make a site. */
static PyObject *site_make(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"", "", "", "file", "line", NULL};
    PyObject *category, *name, *keys = NULL, *file = Py_None;
    unsigned line = 0;
    (void)type;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "UU|O!$OI", names, &category, &name, &PyTuple_Type, &keys, &file,
                                     &line))
        return NULL;
    Site *site = site_new(category, name, keys);
    if (!site)
        return NULL;
    site->line = line;
    if (file != Py_None && !(site->file = PyUnicode_FromObject(file)))
        Py_CLEAR(site);
    return (PyObject *)site;
}

PyTypeObject SiteType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "fxtio._native._recorder.Site",
    .tp_doc = "Site(category, name, keys=(), *, file=None, line=0): the common part of all events of one place in the program.",
    .tp_basicsize = sizeof(Site),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = site_make,
    .tp_dealloc = (destructor)site_dealloc,
};

CachedSite site_cache[SITE_CACHE_SIZE];
PyObject *site_no_category;
static PyObject *all_sites; /* dict: (name, category, keys) to site, up to a limit */

/* Make the type.  Returns -1 with an exception set on failure. */
int sites_init(void) {
    site_no_category = PyUnicode_InternFromString("");
    return site_no_category ? PyType_Ready(&SiteType) : -1;
}

/* Forget all sites.  The dict itself stays: a finalizer may end the recording while a site is looked up in it. */
void sites_clear(void) {
    for (int index = 0; index < SITE_CACHE_SIZE; index++) {
        CachedSite *entry = &site_cache[index];
        Py_CLEAR(entry->name);
        Py_CLEAR(entry->category);
        Py_CLEAR(entry->keys);
        Py_CLEAR(entry->site);
    }
    if (all_sites)
        PyDict_Clear(all_sites);
}

/* Return the site, a new reference, from the dict of all sites, or make it. */
static Site *find_site(PyObject *name, PyObject *category, PyObject *keys) {
    if (!all_sites && !(all_sites = PyDict_New()))
        return NULL;
    PyObject *key = PyTuple_Pack(3, name, category, keys ? keys : Py_None);
    if (!key)
        return NULL;
    Site *site = (Site *)Py_XNewRef(PyDict_GetItemWithError(all_sites, key));
    if (!site && !PyErr_Occurred() && (site = site_new(category, name, keys)) && PyDict_GET_SIZE(all_sites) < MAX_SITES)
        if (PyDict_SetItem(all_sites, key, (PyObject *)site))
            PyErr_Clear();
    Py_DECREF(key);
    return site;
}

/* Return whether all texts are plain strings. */
static int are_plain(PyObject *name, PyObject *category, PyObject *keys) {
    int result = PyUnicode_CheckExact(name) && PyUnicode_CheckExact(category);
    for (Py_ssize_t index = 0; keys && result && index < PyTuple_GET_SIZE(keys); index++)
        result = PyUnicode_CheckExact(PyTuple_GET_ITEM(keys, index));
    return result;
}

/* Look up a site by texts of which some are of a class of the program, whose methods this does not call. */
static Site *lookup_plainly(PyObject *name, PyObject *category, PyObject *keys) {
    SavedError error = error_save();
    PyObject *plain_name = PyUnicode_FromObject(name), *plain_category = PyUnicode_FromObject(category);
    PyObject *plain_keys = keys ? plain_strings(keys) : NULL;
    int failed = !plain_name || !plain_category || (keys && !plain_keys);
    error_restore(error);
    Site *site = failed ? NULL : site_lookup(plain_name, plain_category, plain_keys);
    Py_XDECREF(plain_name);
    Py_XDECREF(plain_category);
    Py_XDECREF(plain_keys);
    return site;
}

/* Return the site with this name, category and keys, borrowed: the cache owns it until other code runs.  Returns NULL,
 * without an exception, on failure.  The cache holds plain strings only, whose release runs no code of the program. */
Site *site_lookup(PyObject *name, PyObject *category, PyObject *keys) {
    CachedSite *entry = site_cache_entry(name, category, keys);
    if (LIKELY(entry->name == name && entry->category == category && entry->keys == keys))
        return entry->site;
    if (!are_plain(name, category, keys))
        return lookup_plainly(name, category, keys);
    SavedError error = error_save();
    Site *site = find_site(name, category, keys);
    error_restore(error);
    if (!site)
        return NULL;
    const CachedSite old = *entry;
    *entry = (CachedSite){Py_NewRef(name), Py_NewRef(category), Py_XNewRef(keys), site}; /* takes over the reference */
    Py_XDECREF(old.name);
    Py_XDECREF(old.category);
    Py_XDECREF(old.keys);
    Py_XDECREF(old.site);
    return site;
}

/* Check the arguments of a call for site_of_call(), and find its site. */
Site *site_of_new_call(PyObject *const *args, Py_ssize_t count, Py_ssize_t category_index, PyObject *keys, int *failed) {
    *failed = 0;
    if (count < 1 || count > category_index + 1) {
        PyErr_Format(PyExc_TypeError, "takes a name%s and a category by position, the rest by name",
                     category_index > 1 ? ", a value" : "");
        *failed = 1;
        return NULL;
    }
    PyObject *category = count > category_index ? args[category_index] : site_no_category;
    if (UNLIKELY(!PyUnicode_Check(args[0]) || !PyUnicode_Check(category))) {
        PyErr_SetString(PyExc_TypeError, "name and category are strings");
        *failed = 1;
        return NULL;
    }
    return session.active ? site_lookup(args[0], category, keys) : NULL;
}
