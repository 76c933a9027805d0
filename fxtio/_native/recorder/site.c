/* Call sites: the common part of all events of one place in the program, looked up once. */
#include "site.h"
#include "thread.h"

enum { MAX_SITES = 40000 };

/* Return whether the options include a category. */
static int is_category_recorded(PyObject *category) {
    PyObject *only = Py_XNewRef(session.objects.only_categories), *without = Py_XNewRef(session.objects.not_categories);
    PyObject *unseen = Py_XNewRef(session.objects.unseen_categories);
    int result = !only || PySet_Contains(only, category) == 1;
    if (result && unseen && PySet_Discard(unseen, category) < 0)
        PyErr_Clear();
    result = result && !(without && PySet_Contains(without, category) == 1);
    Py_XDECREF(only);
    Py_XDECREF(without);
    Py_XDECREF(unseen);
    return result;
}

/* Return the reference of a name of a site.  If it goes inline, also since that is wanted, `*bytes` gets its bytes. */
static uint64_t name_ref(Preparation *made, PyObject *text, int is_wanted, PyObject **bytes) {
    if (!PyUnicode_GET_LENGTH(text))
        return 0;
    uint64_t slot = is_wanted ? 0 : text_slot(text);
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
    made->inline_names += !is_wanted;
    made->cut_names += size < whole;
    made->inline_words += (unsigned)words_of(size);
    return STRING_REF_INLINE_UNIT + size;
}

/* Find the references to the texts of a site. */
static Preparation find_refs(const Site *site) {
    Preparation made = {0};
    int is_inline = site->is_once && PyUnicode_IS_COMPACT_ASCII(site->name) &&
                    PyUnicode_GET_LENGTH(site->name) <= MAX_INLINE_NAME; /* a longer one would be cut */
    made.refs = name_ref(&made, site->category, 0, &made.inline_category) * EVENT_CATEGORY_UNIT;
    made.refs += name_ref(&made, site->name, is_inline, &made.inline_name) * EVENT_NAME_UNIT;
    made.has_slots = !made.inline_words && !site->excess_keys;
    for (unsigned index = 0; index < site->count; index++) {
        made.key_refs[index] = text_slot(PyTuple_GET_ITEM(site->keys, index)) * ARGUMENT_NAME_UNIT;
        made.has_slots &= made.key_refs[index] != 0;
    }
    return made;
}

/* Note whether an event of this session has the place of the function. */
static void set_place_recorded(Site *site, int is_recorded) {
    WRITE(site->has_place, is_recorded);
    WRITE(site->is_fast, site->own.has_slots && is_recorded);
}

/* Prepare a site for the session.  Returns whether it can be recorded. */
int site_prepare(Site *site) {
    if (!session.active || current->paused)
        return 0;
    uint64_t generation = session.generation;
    SavedError error = error_save();
    int is_recorded = is_category_recorded(site->category);
    if (is_recorded) {
        Preparation made = find_refs(site);
        guard_lock();
        is_recorded = session.generation == generation;
        if (is_recorded && !site_is_prepared(site)) { /* unless another thread has prepared it meanwhile */
            const Preparation before = site->own;
            site->own = made;
            made = before; /* whose references are dropped below */
            set_place_recorded(site, !site->file);
            __atomic_store_n(&site->generation, generation, ORDER_RELEASE);
        }
        guard_unlock();
        Py_XDECREF(made.inline_category);
        Py_XDECREF(made.inline_name);
    }
    error_restore(error);
    return is_recorded && session.generation == generation;
}

/* Note that the place of a function is recorded.  In a ring it is recorded again before it can be overwritten, also if
 * the list that this appends to is emptied meanwhile. */
void site_note_place(Site *site) {
    PyObject *placed = Py_XNewRef(session.objects.placed);
    set_place_recorded(site, 1);
    if (placed && PyList_Append(placed, (PyObject *)site))
        PyErr_Clear();
    if (placed != session.objects.placed)
        set_place_recorded(site, 0);
    Py_XDECREF(placed);
}

/* Have the places of all functions recorded again, in a stopped world. */
void sites_forget_places(Trash *trash) {
    PyObject *placed = session.objects.placed;
    for (Py_ssize_t index = 0; placed && index < PyList_GET_SIZE(placed); index++)
        set_place_recorded((Site *)PyList_GET_ITEM(placed, index), 0);
    session.objects.placed = placed ? PyList_New(0) : NULL;
    PyErr_Clear();
    trash_add(trash, placed);
}

/* Return the site of whole calls of a coroutine, on the track of a task: `await` and the name of the function.  What
 * runs of such a call, on the track of a thread, has the name alone, so that nobody counts the one with the other.
 * Returns NULL without memory. */
Site *site_of_operation(Site *site) {
    Site *operation = __atomic_load_n(&site->operation, ORDER_ACQUIRE), *none = NULL;
    if (LIKELY(operation != NULL))
        return operation;
    SavedError error = error_save();
    PyObject *name = PyUnicode_FromFormat("await %U", site->name);
    operation = name ? site_new(site->category, name, site->keys) : NULL;
    Py_XDECREF(name);
    if (operation && !__atomic_compare_exchange_n(&site->operation, &none, operation, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        Py_SETREF(operation, none); /* another thread has made it meanwhile */
    error_restore(error);
    return operation;
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
    site->own = (Preparation){0};
    site->is_fast = 0;
    site->has_place = 1;
    site->file = NULL;
    site->line = 0;
    site->is_once = 0;
    site->operation = NULL;
    if (!site->category || !site->name || (keys && !site->keys))
        Py_CLEAR(site);
    return site;
}

static void site_dealloc(Site *site) {
    Py_XDECREF(site->category);
    Py_XDECREF(site->name);
    Py_XDECREF(site->keys);
    Py_XDECREF(site->own.inline_category);
    Py_XDECREF(site->own.inline_name);
    Py_XDECREF(site->file);
    Py_XDECREF((PyObject *)site->operation);
    PyObject_Free(site);
}

/* Site(category, name, keys=(), *, file=None, line=0, once=False): make a site. */
static PyObject *site_make(PyTypeObject *Py_UNUSED(type), PyObject *args, PyObject *kwargs) {
    static char *names[] = {"", "", "", "file", "line", "once", NULL};
    PyObject *category, *name, *keys = NULL, *file = Py_None;
    unsigned line = 0;
    int is_once = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "UU|O!$OIp", names, &category, &name, &PyTuple_Type, &keys, &file,
                                     &line, &is_once))
        return NULL;
    Site *site = site_new(category, name, keys);
    if (!site)
        return NULL;
    site->line = line;
    site->is_once = is_once;
    if (file != Py_None && !(site->file = PyUnicode_FromObject(file)))
        Py_CLEAR(site);
    return (PyObject *)site;
}

PyTypeObject SiteType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "fxtio._native._recorder.Site",
    .tp_doc = "Site(category, name, keys=(), *, file=None, line=0, once=False): the common part of all events of one place in the program.",
    .tp_basicsize = sizeof(Site),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = site_make,
    .tp_dealloc = (destructor)site_dealloc,
};

PyObject *site_no_category;

/* Make the type.  Returns -1 with an exception set on failure. */
int sites_init(void) {
    site_no_category = PyUnicode_InternFromString("");
    return site_no_category ? PyType_Ready(&SiteType) : -1;
}

/* Return the site, a new reference, from the dict of all sites, or make it.  The dict is kept alive: a finalizer may end
 * the recording while a site is looked up in it. */
static Site *find_site(Caches *caches, PyObject *name, PyObject *category, PyObject *keys) {
    if (!caches->all_sites && !(caches->all_sites = PyDict_New()))
        return NULL;
    PyObject *all_sites = Py_NewRef(caches->all_sites), *key = PyTuple_Pack(3, name, category, keys ? keys : Py_None);
    Site *site = NULL;
    if (key) {
        site = (Site *)Py_XNewRef(PyDict_GetItemWithError(all_sites, key));
        if (!site && !PyErr_Occurred() && (site = site_new(category, name, keys)) && PyDict_GET_SIZE(all_sites) < MAX_SITES)
            if (PyDict_SetItem(all_sites, key, (PyObject *)site))
                PyErr_Clear();
        Py_DECREF(key);
    }
    Py_DECREF(all_sites);
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
    uint64_t generation = session.generation;
    Site *site = failed ? NULL : site_lookup(plain_name, plain_category, plain_keys);
    Py_XDECREF(plain_name);
    Py_XDECREF(plain_category);
    Py_XDECREF(plain_keys);
    return session.generation == generation ? site : NULL; /* the cache is emptied at the end of a recording */
}

/* Return the site with this name, category and keys, borrowed: the cache owns it until other code runs.  Returns NULL,
 * without an exception, on failure.  The cache holds plain strings only, whose release runs no code of the program. */
Site *site_lookup(PyObject *name, PyObject *category, PyObject *keys) {
    CachedSite *entry = site_cache_entry(name, category, keys);
    if (LIKELY(site_is_cached(entry, name, category, keys)))
        return entry->site;
    if (!are_plain(name, category, keys))
        return lookup_plainly(name, category, keys);
    State *state = thread_state();
    if (!state)
        return NULL;
    SavedError error = error_save();
    Site *site = find_site(caches_of(state), name, category, keys);
    error_restore(error);
    if (!site)
        return NULL;
    entry = site_cache_entry(name, category, keys); /* of this thread, which may have had none */
    const CachedSite old = *entry;
    *entry = (CachedSite){NULL, NULL, NULL, NULL};
    Py_XDECREF(old.name); /* before the cache owns the site: other threads may end the recording meanwhile */
    Py_XDECREF(old.category);
    Py_XDECREF(old.keys);
    Py_XDECREF(old.site);
    *entry = (CachedSite){Py_NewRef(name), Py_NewRef(category), Py_XNewRef(keys), site}; /* takes over the reference */
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
