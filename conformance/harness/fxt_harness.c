// A reader and writer of the Fuchsia trace format with the header of `fxtio generate c`, as a harness in exec mode:
//     fxtio generate c -o fxt.h && cc -O2 -I. -o fxt_harness fxt_harness.c
//     fxtio conformance run --format fxt -- ./fxt_harness
// It knows no record: macros of the header list them with their fields.  It writes inline what a scenario leaves open.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "fxt.h"

static void stop(int status, const char *reason) { fprintf(stderr, "%s\n", reason); exit(status); }
static void *allocate(size_t size) { // all that is allocated stays reachable until the end
    static void **last;
    void **p = calloc(1, size + sizeof last);
    if (!p) stop(2, "no memory");
    return *p = last, last = p, p + 1;
}

// ---- JSON: an array or object is a node with children; every other value is a node with its text.
typedef struct Node { char *key, *text; size_t length; struct Node *child, *next; } Node;
static const char *at;
static char *json_string(size_t *length) {
    char *text = allocate(strlen(at)), *end = text;
    for (at++; *at && *at != '"'; at++) {
        const char *escape = *at == '\\' ? strchr("b\bf\fn\nr\rt\tu", *++at) : NULL;
        unsigned code = escape ? (unsigned char)escape[1] : (unsigned char)*at;
        if (escape && *escape == 'u') {
            if (sscanf(at + 1, "%4x", &code) != 1 || code > 127) stop(77, "only ASCII escapes");
            at += 4;
        }
        *end++ = (char)code;
    }
    if (*at++ != '"') stop(2, "a text of the scenario does not end");
    return *length = (size_t)(end - text), text;
}
static Node *json(void) {
    Node *node = allocate(sizeof *node), **last = &node->child;
    at += strspn(at, " \n\r\t:,");
    if (*at == '{' || *at == '[') {
        char open = *at++, *key = NULL;
        size_t length;
        for (at += strspn(at, " \n\r\t,"); *at && *at != '}' && *at != ']'; at += strspn(at, " \n\r\t,")) {
            if (open == '{') key = json_string(&length);
            *last = json(), (*last)->key = key, last = &(*last)->next;
        }
        if (!*at++) stop(2, "the scenario does not end");
    } else if (*at == '"') node->text = json_string(&node->length);
    else {
        node->length = strcspn(at, " \n\r\t,]}"), node->text = memcpy(allocate(node->length + 1), at, node->length);
        at += node->length;
    }
    return node;
}
static Node *find(Node *object, const char *key) { // "extension.scope" is in the object "extension"
    size_t length = strcspn(key, ".");
    Node *n = object->child;
    while (n && !(n->key && strlen(n->key) == length && !strncmp(n->key, key, length))) n = n->next;
    return n && key[length] ? find(n, key + length + 1) : n;
}
static Node *need(Node *n, const char *key) { if (!(n = find(n, key))) stop(77, key); return n; }

// ---- Writing: each type of the header's fields from JSON, then arguments and records by their lists of fields.
#define INTEGER(type, base) static void get_##type(Node *n, const char *key, type##_t *value) { \
        const char *text = need(n, key)->text; \
        base number = *text == '-' ? (base)strtoll(text, NULL, 10) : (base)strtoull(text, NULL, 10); \
        *value = (type##_t)number; \
        if (*value != number) stop(1, key); \
    }
INTEGER(uint8, uint64_t) INTEGER(uint16, uint64_t) INTEGER(uint32, uint64_t) INTEGER(uint64, uint64_t)
INTEGER(int32, int64_t) INTEGER(int64, int64_t)
static void get_optional(Node *n, const char *key, fxt_optional *value) {
    if (find(n, key)) value->is_set = true, get_uint64(n, key, &value->value);
}
static void get_bool(Node *n, const char *key, bool *value) { *value = *need(n, key)->text == 't'; }
static void get_double(Node *n, const char *key, double *value) {
    uint64_t bits = strtoull(need(n, key)->text + 4, NULL, 16);
    memcpy(value, &bits, 8);
}
static void get_text(Node *n, const char *key, fxt_text *value) {
    Node *text = need(need(n, key), "text");
    value->data = text->text, value->size = text->length;
}
static void get_bytes(Node *n, const char *key, fxt_bytes *value) {
    Node *hex = need(n, key);
    unsigned char *data = allocate(hex->length / 2 + 8);
    value->data = data, value->size = hex->length / 2;
    for (size_t i = 0; i < value->size; i++) sscanf(hex->text + 2 * i, "%2hhx", &data[i]);
}
static void get_words(Node *n, const char *key, fxt_words *value) {
    fxt_bytes bytes;
    get_bytes(n, key, &bytes), value->data = bytes.data, value->count = (bytes.size + 7) / 8;
}
static void get_string_ref(Node *n, const char *key, fxt_string_ref *value) {
    if (find(need(n, key), "slot")) get_uint16(need(n, key), "slot", &value->slot);
    else get_text(n, key, &value->text);
}
static void get_process_ref(Node *n, const char *key, fxt_process_ref *value) {
    if (find(need(n, key), "slot")) get_uint8(need(n, key), "slot", &value->slot);
    else get_uint64(need(n, key), "process", &value->process);
}
static void get_thread_ref(Node *n, const char *key, fxt_thread_ref *value) {
    Node *ref = need(n, key), *thread = find(ref, "thread");
    if (find(ref, "slot")) get_uint8(ref, "slot", &value->slot);
    else if (get_uint64(ref, "process", &value->process), !(value->process_only = !thread || *thread->text == 'n'))
        get_uint64(ref, "thread", &value->thread);
}
#define GET_FIELD(type, member, key) if (*key != '_') get_##type(n, key, &value->member);
#define GET(name, number, tag) static void get_##name(Node *n, fxt_##name *value) { \
        (void)n, (void)value; \
        FXT_FIELDS_##name(GET_FIELD) \
    }
#define GET_KIND(name, number, tag) \
    if (!strcmp(need(n, "type")->text, tag)) value->kind = number, get_##name(n, &value->as.name);
FXT_ARGUMENTS(GET)
static void get_arguments(Node *n, const char *key, fxt_arguments *list) {
    fxt_argument *value = allocate(64 * sizeof *value);
    list->items = value;
    for (n = need(n, key)->child; n; n = n->next, value++, list->count++) {
        if (list->count == 64) stop(1, "too many arguments");
        value->kind = FXT_UNKNOWN_ARGUMENT;
        FXT_ARGUMENTS(GET_KIND)
    }
}
FXT_RECORDS(GET)
static int write_trace(const char *scenario, FILE *file) {
    static uint8_t memory[1 << 24];
    fxt_out out = {memory, memory + sizeof memory};
    const char *provider = NULL;
    at = scenario;
    Node *n = need(json(), "write")->child;
    if (strcmp(need(n, "type")->text, "magic")) fxt_write_magic(&out, &(fxt_magic){0});
    for (; n; n = n->next) {
        Node *own = find(n, "provider_id") ? NULL : find(n, "provider");
        fxt_record *value = allocate(sizeof *value);
        fxt_provider_section section = {own ? (uint32_t)strtoul(own->text, NULL, 10) : 0};
        if (own && (!provider || strcmp(own->text, provider))) {
            fxt_write_provider_section(&out, &section);
            provider = own->text;
        }
        if (find(n, "provider_id")) provider = find(n, "provider_id")->text;
        value->kind = FXT_UNKNOWN_RECORD;
        FXT_RECORDS(GET_KIND)
        if (value->kind == FXT_UNKNOWN_RECORD) stop(77, need(n, "type")->text);
        if (!fxt_write_record(&out, value)) stop(1, "a record does not fit");
    }
    return fwrite(memory, 1, (size_t)(out.at - memory), file) == (size_t)(out.at - memory) ? 0 : 2;
}

// ---- Reading: what slots mean for each provider, then each type as JSON, then arguments and records.
typedef struct Provider {
    uint32_t id;
    uint64_t rate;
    fxt_text strings[FXT_MAX_STRING_SLOT + 1];
    fxt_thread_record threads[FXT_MAX_THREAD_SLOT + 1];
    struct Provider *next;
} Provider;
static Provider *providers, nobody = {.rate = 1000000000, .strings = {{"", 0}}}, *current = &nobody;
static FILE *out;
static bool is_extended;
static void enter(uint32_t id) {
    for (current = providers; current && current->id != id;) current = current->next;
    if (current) return;
    current = allocate(sizeof *current), current->id = id, current->rate = nobody.rate;
    current->strings[0] = nobody.strings[0];
    current->next = providers, providers = current;
}
static bool is_utf8(const unsigned char *s, size_t size) {
    for (const unsigned char *end = s + size; s < end; s++) {
        int more = *s < 0x80 ? 0 : *s < 0xc2 ? 9 : *s < 0xe0 ? 1 : *s < 0xf0 ? 2 : *s < 0xf5 ? 3 : 9;
        uint32_t code = more ? *s & (0x3f >> more) : *s;
        if (end - s <= more) return false;
        for (int k = more; k; k--, code = code << 6 | (*s & 0x3f)) if (*++s >> 6 != 2) return false;
        if (more == 2 && (code < 0x800 || code >> 11 == 0x1b)) return false; // too long, or half of a pair
        if (more == 3 && (code < 0x10000 || code > 0x10ffff)) return false;
    }
    return true;
}
static void hex(const void *data, size_t size) {
    putc('"', out);
    for (size_t i = 0; i < size; i++) fprintf(out, "%02x", ((const unsigned char *)data)[i]);
    putc('"', out);
}
static void text(fxt_text value) {
    bool is_text = is_utf8((const unsigned char *)value.data, value.size);
    fputs(is_text ? "\"text\": \"" : "\"hex\": ", out);
    if (!is_text) { hex(value.data, value.size); return; }
    for (size_t i = 0; i < value.size; i++)
        if ((unsigned char)value.data[i] < ' ' || strchr("\"\\", value.data[i])) fprintf(out, "\\u%04x", value.data[i]);
        else putc(value.data[i], out);
    putc('"', out);
}
static void show_uint64(const char *key, uint64_t value) {
    fprintf(out, ", \"%s\": \"%" PRIu64 "\"", key, value);
    if (!strcmp(key, "timestamp")) show_uint64("rate", current->rate);
}
static void show_int64(const char *key, int64_t value) { fprintf(out, ", \"%s\": \"%" PRId64 "\"", key, value); }
#define show_uint8 show_uint64
#define show_uint16 show_uint64
#define show_uint32 show_uint64
#define show_int32 show_int64
static void show_optional(const char *key, fxt_optional value) {
    if (!value.is_set) return;
    fputs(is_extended ? ", " : ", \"extension\": {", out);
    fprintf(out, "\"%s\": \"%" PRIu64 "\"", strchr(key, '.') + 1, value.value);
    is_extended = true;
}
static void show_bool(const char *key, bool value) { fprintf(out, ", \"%s\": %s", key, value ? "true" : "false"); }
static void show_double(const char *key, double value) {
    uint64_t bits;
    memcpy(&bits, &value, 8), fprintf(out, ", \"%s\": \"f64:%016" PRIx64 "\"", key, bits);
}
static void show_text(const char *key, fxt_text value) {
    fprintf(out, ", \"%s\": {", key), text(value), putc('}', out);
}
static void show_bytes(const char *key, fxt_bytes value) {
    fprintf(out, ", \"%s\": ", key), hex(value.data, value.size);
}
static void show_words(const char *key, fxt_words value) {
    fxt_bytes bytes = {value.data, 8 * value.count};
    show_bytes(key, bytes);
}
static void form(const char *key, bool is_slot, unsigned slot) {
    fprintf(out, ", \"%s\": {", key);
    if (is_slot) fprintf(out, "\"slot\": \"%u\"", slot); else fputs("\"inline\": true", out);
}
static void show_string_ref(const char *key, fxt_string_ref value) {
    fxt_text known = value.text.data ? value.text : current->strings[value.slot];
    form(key, !value.text.data, value.slot), fputs(", ", out);
    if (known.data) text(known); else fputs("\"text\": null", out);
    putc('}', out);
}
static void show_koid(const char *key, uint64_t koid, bool is_known) {
    if (is_known) show_uint64(key, koid); else fprintf(out, ", \"%s\": null", key);
}
static void show_ref(const char *key, uint8_t slot, bool is_process, fxt_thread_ref value) {
    bool is_known = !slot || current->threads[slot].index;
    if (slot) value.process = current->threads[slot].process, value.thread = current->threads[slot].thread;
    form(key, slot, slot);
    show_koid("process", value.process, is_known);
    if (!is_process) show_koid("thread", value.thread, is_known && !value.process_only);
    putc('}', out);
}
static void show_thread_ref(const char *key, fxt_thread_ref value) { show_ref(key, value.slot, false, value); }
static void show_process_ref(const char *key, fxt_process_ref value) {
    show_ref(key, value.slot, true, fxt_inline_thread(value.process, 0));
}
#define SHOW_FIELD(type, member, key) if (*key != '_') show_##type(key, value->member);
#define SHOW(name, number, tag) static void show_##name(const fxt_##name *value) { \
        (void)value; \
        FXT_FIELDS_##name(SHOW_FIELD) \
    }
#define SHOW_KIND(name, number, tag) \
    case number: fputs("\"type\": \"" tag "\"", out), show_##name(&value->as.name); break;
FXT_ARGUMENTS(SHOW)
static void show_arguments(const char *key, fxt_arguments list) {
    fxt_argument argument, *value = &argument;
    const char *open = "{";
    fprintf(out, ", \"%s\": [", key);
    while (fxt_next_argument(&list, value)) {
        if (value->kind == FXT_UNKNOWN_ARGUMENT) continue;
        fputs(open, out);
        switch (value->kind) { FXT_ARGUMENTS(SHOW_KIND) default: break; }
        putc('}', out), open = ", {";
    }
    putc(']', out);
}
FXT_RECORDS(SHOW)
static void define(const fxt_record *record) { // what later records mean
    if (record->kind == FXT_PROVIDER_INFO) enter(record->as.provider_info.provider_id);
    if (record->kind == FXT_PROVIDER_SECTION) enter(record->as.provider_section.provider_id);
    if (record->kind == FXT_INITIALIZATION) current->rate = record->as.initialization.ticks_per_second;
    if (record->kind == FXT_STRING) current->strings[record->as.string.index] = record->as.string.text;
    if (record->kind == FXT_THREAD_RECORD) current->threads[record->as.thread_record.index] = record->as.thread_record;
}
static int read_trace(const void *data, size_t size) {
    fxt_in in = fxt_reader(data, size);
    fxt_record record, *value = &record;
    const char *open = "{\"format\": \"fxt\", \"records\": [\n{";
    for (size_t number = 0; fxt_read_record(&in, value); number++) {
        if (!number && value->kind != FXT_MAGIC) stop(1, "there is no magic number");
        bool is_filler = (value->kind == FXT_STRING && !value->as.string.index) ||
                         (value->kind == FXT_THREAD_RECORD && !value->as.thread_record.index);
        if (value->kind == FXT_UNKNOWN_RECORD || value->kind == FXT_TRACE_INFO || is_filler) continue;
        fputs(open, out), open = ",\n{";
        define(value), is_extended = false;
        switch (value->kind) { FXT_RECORDS(SHOW_KIND) default: break; }
        if (is_extended) putc('}', out);
        if (value->kind > FXT_PROVIDER_EVENT) {
            if (current == &nobody) fputs(", \"provider\": null", out); else show_uint64("provider", current->id);
        }
        putc('}', out);
    }
    if (in.at != in.end || *open == '{') stop(1, "there is no record, or one with a wrong size");
    fputs("]}\n", out);
    return 0;
}

int main(int argc, char **argv) {
    static char content[1 << 24];
    FILE *in = argc == 4 ? fopen(argv[2], "rb") : NULL;
    out = argc == 4 ? fopen(argv[3], "wb") : NULL;
    size_t size = in && out ? fread(content, 1, sizeof content, in) : 0;
    if (!in || !out || size == sizeof content) stop(77, "usage: fxt_harness read|write IN OUT, of up to 16 MiB");
    int status = strcmp(argv[1], "write") ? read_trace(content, size) : write_trace(content, out);
    return fclose(out) ? 2 : status;
}
