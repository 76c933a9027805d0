"""The part of the C header that no record changes: its values, and how words, texts and references are put and taken.

`c_header` adds to it all that follows from the declarations; the names in capitals are defined there.
"""

VALUES = r"""
/* ---- Values */

#if defined(__GNUC__)
#define FXT_APART __attribute__((noinline, unused)) static
#else
#define FXT_APART static inline
#endif

/* Where records are written: `at` moves, `end` is after the last byte.  A function that fails changes nothing. */
typedef struct fxt_out {
    uint8_t *at;
    uint8_t *end;
} fxt_out;

/* What is read.  Nothing is copied: texts and bytes that are read point into it. */
typedef struct fxt_in {
    const uint8_t *at;
    const uint8_t *end;
    bool swapped; /* the trace has the other byte order */
} fxt_in;

/* A word that a record may have at its end. */
typedef struct fxt_optional {
    bool is_set;
    uint64_t value;
} fxt_optional;

/* UTF-8, which is not checked.  It does not end with a zero, and may have some. */
typedef struct fxt_text {
    const char *data;
    size_t size;
} fxt_text;

typedef struct fxt_bytes {
    const void *data;
    size_t size;
} fxt_bytes;

/* Words in a row, at any address: fxt_word_of returns one. */
typedef struct fxt_words {
    const void *data;
    size_t count;
    bool swapped;
} fxt_words;

/* A string: inline if `text.data` is not NULL, else a slot of the string table; 0 is the empty string.
 * spec: String references */
typedef struct fxt_string_ref {
    fxt_text text;
    uint16_t slot;
} fxt_string_ref;

/* A thread: a slot of the thread table, or if that is 0 the koids.  Only profiler records may have a process alone.
 * spec: Thread references */
typedef struct fxt_thread_ref {
    uint64_t process;
    uint64_t thread;
    uint8_t slot;
    bool process_only;
} fxt_thread_ref;

/* A process: a slot of the thread table, or if that is 0 the koid. */
typedef struct fxt_process_ref {
    uint64_t process;
    uint8_t slot;
} fxt_process_ref;

static inline fxt_text fxt_text_of(const char *data)
{
    fxt_text text = {data, strlen(data)};
    return text;
}

static inline fxt_string_ref fxt_inline_string(const char *data)
{
    fxt_string_ref ref = {{data, strlen(data)}, 0};
    return ref;
}

static inline fxt_string_ref fxt_string_slot(uint16_t slot)
{
    fxt_string_ref ref = {{NULL, 0}, slot};
    return ref;
}

static inline fxt_thread_ref fxt_inline_thread(uint64_t process, uint64_t thread)
{
    fxt_thread_ref ref = {process, thread, 0, false};
    return ref;
}

static inline fxt_thread_ref fxt_thread_slot(uint8_t slot)
{
    fxt_thread_ref ref = {0, 0, slot, false};
    return ref;
}

static inline uint64_t fxt_swap(uint64_t word)
{
    uint64_t swapped = 0;
    for (int i = 0; i < 8; i++, word >>= 8) swapped = swapped << 8 | (word & 0xff);
    return swapped;
}

static inline uint64_t fxt_word_of(fxt_words words, size_t index)
{
    uint64_t word;
    memcpy(&word, (const uint8_t *)words.data + 8 * index, 8);
    return words.swapped ? fxt_swap(word) : word;
}

/* ---- For the functions below: to fit is to add to a size in words and to fill a field of the header */

static inline uint64_t fxt_words_for(uint64_t bytes) { return bytes / 8 + (bytes % 8 != 0); }

static inline bool fxt_fit_data(uint64_t size, uint64_t most, uint64_t *field, uint64_t *words)
{
    *field = size;
    *words += fxt_words_for(size);
    return size <= most;
}

static inline bool fxt_fit_text(fxt_text text, uint64_t most, uint64_t *field, uint64_t *words)
{
    return fxt_fit_data(text.size, most, field, words);
}

static inline bool fxt_fit_bytes(fxt_bytes bytes, uint64_t most, uint64_t *field, uint64_t *words)
{
    return fxt_fit_data(bytes.size, most, field, words);
}

static inline bool fxt_fit_sized(fxt_bytes bytes, uint64_t most, uint64_t *words)
{
    uint64_t size;
    return ++*words && fxt_fit_data(bytes.size, most, &size, words);
}

static inline bool fxt_fit_words(fxt_words list, uint64_t most, uint64_t *field, uint64_t *words)
{
    *field = list.count;
    *words += list.count;
    return list.count <= most;
}

static inline bool fxt_fit_string(fxt_string_ref ref, uint64_t *field, uint64_t *words)
{
    *field = ref.slot;
    if (!ref.text.data) return ref.slot <= FXT_MAX_STRING_SLOT;
    if (!fxt_fit_data(ref.text.size, FXT_MAX_TEXT_BYTES, field, words)) return false;
    *field |= FXT_STRING_INLINE;
    return true;
}

static inline bool fxt_fit_thread(fxt_thread_ref ref, bool may_be_short, uint64_t *field, uint64_t *words)
{
    *field = ref.slot;
    *words += ref.slot ? 0 : ref.process_only ? 1 : 2;
    return may_be_short || ref.slot || !ref.process_only;
}

static inline bool fxt_fit_process(fxt_process_ref ref, uint64_t *field, uint64_t *words)
{
    *field = ref.slot;
    *words += ref.slot ? 0 : 1;
    return true;
}

static inline bool fxt_fit_optional(fxt_optional value, uint64_t *words)
{
    *words += value.is_set;
    return true;
}

static inline bool fxt_has_room(const fxt_out *out, uint64_t words)
{
    return words <= (uint64_t)(out->end - out->at) / 8;
}

static inline uint8_t *fxt_put_word(uint8_t *at, uint64_t word)
{
    memcpy(at, &word, 8);
    return at + 8;
}

static inline uint8_t *fxt_put_int64(uint8_t *at, int64_t value) { return fxt_put_word(at, (uint64_t)value); }

static inline uint8_t *fxt_put_double(uint8_t *at, double value)
{
    memcpy(at, &value, 8);
    return at + 8;
}

static inline uint8_t *fxt_put_optional(uint8_t *at, fxt_optional value)
{
    return value.is_set ? fxt_put_word(at, value.value) : at;
}

static inline uint8_t *fxt_put_data(uint8_t *at, const void *data, size_t size)
{
    uint8_t *after = at + 8 * fxt_words_for(size);
    if (size) {
        memset(after - 8, 0, 8);
        memcpy(at, data, size);
    }
    return after;
}

static inline uint8_t *fxt_put_text(uint8_t *at, fxt_text text) { return fxt_put_data(at, text.data, text.size); }

static inline uint8_t *fxt_put_bytes(uint8_t *at, fxt_bytes bytes) { return fxt_put_data(at, bytes.data, bytes.size); }

static inline uint8_t *fxt_put_sized(uint8_t *at, fxt_bytes bytes)
{
    return fxt_put_bytes(fxt_put_word(at, bytes.size), bytes);
}

static inline uint8_t *fxt_put_words(uint8_t *at, fxt_words list)
{
    for (size_t i = 0; i < list.count; i++) at = fxt_put_word(at, fxt_word_of(list, i));
    return at;
}

static inline uint8_t *fxt_put_string(uint8_t *at, fxt_string_ref ref)
{
    return ref.text.data ? fxt_put_text(at, ref.text) : at;
}

static inline uint8_t *fxt_put_thread(uint8_t *at, fxt_thread_ref ref)
{
    if (ref.slot) return at;
    at = fxt_put_word(at, ref.process);
    return ref.process_only ? at : fxt_put_word(at, ref.thread);
}

static inline uint8_t *fxt_put_process(uint8_t *at, fxt_process_ref ref)
{
    return ref.slot ? at : fxt_put_word(at, ref.process);
}

/* ---- For the functions below: to take is to read and to move on; false if the record ends before */

static inline uint64_t fxt_left(const fxt_in *in) { return (uint64_t)(in->end - in->at) / 8; }

static inline bool fxt_take_word(fxt_in *in, uint64_t *word)
{
    if (!fxt_left(in)) return false;
    memcpy(word, in->at, 8);
    if (in->swapped) *word = fxt_swap(*word);
    in->at += 8;
    return true;
}

static inline bool fxt_take_int64(fxt_in *in, int64_t *value)
{
    uint64_t word;
    if (!fxt_take_word(in, &word)) return false;
    memcpy(value, &word, 8);
    return true;
}

static inline bool fxt_take_double(fxt_in *in, double *value)
{
    uint64_t word;
    if (!fxt_take_word(in, &word)) return false;
    memcpy(value, &word, 8);
    return true;
}

static inline bool fxt_take_optional(fxt_in *in, fxt_optional *value)
{
    value->value = 0;
    value->is_set = fxt_take_word(in, &value->value);
    return true;
}

static inline bool fxt_take_bytes(fxt_in *in, uint64_t size, fxt_bytes *bytes)
{
    if (fxt_words_for(size) > fxt_left(in)) return false;
    bytes->data = in->at;
    bytes->size = (size_t)size;
    in->at += 8 * fxt_words_for(size);
    return true;
}

static inline bool fxt_take_sized(fxt_in *in, fxt_bytes *bytes)
{
    uint64_t size;
    return fxt_take_word(in, &size) && fxt_take_bytes(in, size, bytes);
}

static inline bool fxt_take_text(fxt_in *in, uint64_t size, fxt_text *text)
{
    fxt_bytes bytes;
    if (!fxt_take_bytes(in, size, &bytes)) return false;
    text->data = (const char *)bytes.data;
    text->size = bytes.size;
    return true;
}

static inline bool fxt_take_words(fxt_in *in, uint64_t count, fxt_words *list)
{
    fxt_bytes bytes;
    if (count > fxt_left(in) || !fxt_take_bytes(in, 8 * count, &bytes)) return false;
    list->data = bytes.data;
    list->count = (size_t)count;
    list->swapped = in->swapped;
    return true;
}

static inline bool fxt_take_string(fxt_in *in, uint64_t field, fxt_string_ref *ref)
{
    bool is_inline = (field & FXT_STRING_INLINE) != 0;
    ref->slot = is_inline ? 0 : (uint16_t)field;
    ref->text.data = NULL;
    ref->text.size = 0;
    return !is_inline || fxt_take_text(in, field & FXT_MAX_STRING_SLOT, &ref->text);
}

static inline bool fxt_take_thread(fxt_in *in, uint64_t field, bool is_short, fxt_thread_ref *ref)
{
    ref->process = ref->thread = 0;
    ref->slot = (uint8_t)field;
    ref->process_only = !field && is_short;
    return field || (fxt_take_word(in, &ref->process) && (is_short || fxt_take_word(in, &ref->thread)));
}

static inline bool fxt_take_process(fxt_in *in, uint64_t field, fxt_process_ref *ref)
{
    ref->process = 0;
    ref->slot = (uint8_t)field;
    return field || fxt_take_word(in, &ref->process);
}
"""
"""The values, and the functions that the functions of records call."""

MEMBERS = r"""
/* The {plural} of a record, at most FXT_MAX_{PLURAL}: to write, `items` and `count`.
 * What is read has no items; fxt_next_{name} returns one after the other. */
typedef struct fxt_{plural} {{
    const fxt_{name} *items;
    size_t count;
    fxt_in in;
}} fxt_{plural};

static inline fxt_{plural} fxt_{plural}_of(const fxt_{name} *items, size_t count)
{{
    fxt_{plural} list = {{items, count, {{NULL, NULL, false}}}};
    return list;
}}

/* Return one {name} of a list: an item, or what is next in `in`, which is read into `space`; NULL if that fails. */
static inline const fxt_{name} *fxt_pick_{name}(const fxt_{plural} *list, size_t index, fxt_in *in, fxt_{name} *space)
{{
    if (list->items) return list->items + index;
    return fxt_read_{name}(in, space) ? space : NULL;
}}

/* Take the next {name}; false after the last one. */
static inline bool fxt_next_{name}(fxt_{plural} *left, fxt_{name} *{name})
{{
    if (!left->count) return false;
    left->count--;
    if (!left->items) return fxt_read_{name}(&left->in, {name});
    *{name} = *left->items++;
    return true;
}}

/* Add the sizes of {plural}; a function of its own keeps records without any short. */
FXT_APART bool fxt_fit_each_{name}(const fxt_{plural} *list, uint64_t *words)
{{
    fxt_in in = list->in;
    fxt_{name} space;
    for (size_t i = 0; i < list->count; i++) {{
        const fxt_{name} *each = fxt_pick_{name}(list, i, &in, &space);
        uint64_t size = each ? fxt_size_{name}(each) : 0;
        if (!size) return false;
        *words += size;
    }}
    return true;
}}

static inline bool fxt_fit_{plural}(const fxt_{plural} *list, uint64_t most, uint64_t *field, uint64_t *words)
{{
    *field = list->count;
    return !list->count || (list->count <= most && fxt_fit_each_{name}(list, words));
}}

FXT_APART uint8_t *fxt_put_each_{name}(uint8_t *at, uint8_t *end, const fxt_{plural} *list)
{{
    fxt_out out = {{at, end}};
    fxt_in in = list->in;
    fxt_{name} space;
    for (size_t i = 0; i < list->count; i++) fxt_write_{name}(&out, fxt_pick_{name}(list, i, &in, &space));
    return out.at;
}}

static inline uint8_t *fxt_put_{plural}(uint8_t *at, uint8_t *end, const fxt_{plural} *list)
{{
    return list->count ? fxt_put_each_{name}(at, end, list) : at;
}}

/* After one whose size is wrong, what follows is found from the end of the record, if its size `tail` is known. */
static inline bool fxt_take_{plural}(fxt_in *in, uint64_t count, int tail, fxt_{plural} *list)
{{
    fxt_in one;
    list->items = NULL;
    list->in = *in;
    for (list->count = 0; list->count < count; list->count++) {{
        if (fxt_frame_{name}(in, &one)) continue;
        if (tail < 0 || fxt_left(&list->in) < (uint64_t)tail) return false;
        in->at = in->end - 8 * tail;
        break;
    }}
    return true;
}}
"""
"""What records have that contain small records, to be formatted with their name and its plural."""

READING = r"""
/* ---- Reading a trace */

/* Begin to read: the magic number tells the byte order.  Bytes after the last whole word are no record. */
static inline fxt_in fxt_reader(const void *data, size_t size)
{
    const uint8_t *at = (const uint8_t *)data; /* may be NULL if there is nothing, and nothing is added to that */
    fxt_in in = {at, size ? at + size / 8 * 8 : at, false}, peek = in;
    uint64_t word;
    in.swapped = fxt_take_word(&peek, &word) && fxt_swap(word) == FXT_MAGIC_WORD;
    return in;
}
"""
"""How reading begins."""
