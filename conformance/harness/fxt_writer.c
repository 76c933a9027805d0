// A producer of the Fuchsia trace format, written from its specification, as an example of a harness in exec mode:
//     cc -O2 -o fxt_writer fxt_writer.c && fxtio conformance run --format fxt -- ./fxt_writer
// It writes all but profiler, scheduling and large records, and inline what the scenario leaves open.  Little-endian.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void stop(int status, const char *reason) { fprintf(stderr, "%s\n", reason); exit(status); }
static void *allocate(size_t size) { void *p = calloc(1, size); if (!p) stop(2, "no memory"); return p; }
// ---- JSON: an array or object is a node with children; every other value is a node with its text.
typedef struct Node { char *key, *text; size_t length; struct Node *child, *next; } Node;
static const char *at;
static char *json_string(size_t *length) {
    char *text = allocate(strlen(at)), *end = text;
    for (at++; *at && *at != '"'; at++) {
        const char *escape = *at == '\\' ? strchr("b\bf\fn\nr\rt\tu", *++at) : NULL;
        unsigned code = escape ? (unsigned char)escape[1] : (unsigned char)*at;
        if (escape && *escape == 'u' && (sscanf(at + 1, "%4x", &code) != 1 || code > 127)) stop(77, "only ASCII escapes");
        if (escape && *escape == 'u') at += 4;
        *end++ = (char)code;
    }
    if (*at++ != '"') stop(2, "a text of the scenario does not end");
    *length = (size_t)(end - text);
    return text;
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
    else node->length = strcspn(at, " \n\r\t,]}"), node->text = strndup(at, node->length), at += node->length;
    return node;
}

static Node *get(Node *object, const char *key) {
    for (Node *n = object->child; n; n = n->next) if (n->key && !strcmp(n->key, key)) return n;
    return NULL;
}
static Node *need(Node *object, const char *key) { Node *n = get(object, key); if (!n) stop(77, key); return n; }
static uint64_t number(Node *object, const char *key) {
    const char *text = need(object, key)->text;
    return *text == '-' ? (uint64_t)strtoll(text, NULL, 10) : strtoull(text, NULL, 10);
}

// ---- The record that is being made.  Fields of the header are added to its first word, and the rest is appended.
static uint64_t words[4096];
static size_t count;
static void put(uint64_t word) { if (count == 4095) stop(1, "a record is too long"); words[count++] = word; }
static void stream(const char *data, size_t length) {
    for (size_t i = 0; i < length; i += 8) put(0), memcpy(&words[count - 1], data + i, length - i < 8 ? length - i : 8);
}
static uint64_t text(Node *value) {  // returns the length
    Node *content = need(value, "text");
    stream(content->text, content->length);
    return content->length;
}
static uint64_t bytes(Node *object, const char *key) {  // returns the length
    Node *hex = need(object, key);
    char *data = allocate(hex->length / 2 + 4);
    for (size_t i = 0; i < hex->length / 2; i++) sscanf(hex->text + 2 * i, "%2hhx", (unsigned char *)&data[i]);
    stream(data, hex->length / 2);
    return hex->length / 2;
}
static uint64_t string_ref(Node *object, const char *key) {
    Node *ref = need(object, key);
    return get(ref, "slot") ? number(ref, "slot") : 0x8000 | text(ref);
}
static uint64_t thread_ref(Node *record) {
    Node *ref = need(record, "thread");
    if (!get(ref, "slot")) put(number(ref, "process")), put(number(ref, "thread"));
    return get(ref, "slot") ? number(ref, "slot") : 0;
}
static uint64_t arguments(Node *record) {  // returns their number
    static const char *types[] = {"null", "int32", "uint32", "int64", "uint64", "double", "string", "pointer", "koid",
                                  "bool", "blob"};
    uint64_t total = 0;
    for (Node *a = need(record, "arguments")->child; a; a = a->next, total++) {
        size_t start = count;
        uint64_t type = 0;
        while (strcmp(types[type], need(a, "type")->text)) if (++type > 10) stop(77, "an unknown type of arguments");
        put(type), words[start] |= string_ref(a, "name") << 16;
        if (type == 1 || type == 2) words[start] |= number(a, "value") << 32;
        if (type == 3 || type == 4 || type == 7 || type == 8) put(number(a, "value"));
        if (type == 5) put(strtoull(need(a, "value")->text + 4, NULL, 16));
        if (type == 6) words[start] |= string_ref(a, "value") << 32;
        if (type == 9) words[start] |= (uint64_t)(*need(a, "value")->text == 't') << 32;
        if (type == 10) words[start] |= bytes(a, "value") << 32;
        words[start] |= (uint64_t)(count - start) << 4;
    }
    return total > 15 ? stop(1, "a record has more than 15 arguments"), 0 : total;
}

static void record(Node *r, FILE *out) {
    static const char *events[] = {"instant", "counter", "duration-begin", "duration-end", "duration-complete",
                                   "async-begin", "async-instant", "async-end", "flow-begin", "flow-step", "flow-end"};
    static const char *last[] = {"counter_id", "end_time", "async_correlation_id", "flow_correlation_id"};
    const char *type = need(r, "type")->text;
    uint64_t *h = words, event = 0;
    memset(words, 0, sizeof words), count = 1;
#define IS(name) (!strcmp(type, name))
    while (event < 11 && !IS(events[event])) event++;
    if (IS("magic")) *h = 0x0016547846040000;
    else if (IS("provider-info")) *h = 1 << 16 | number(r, "provider_id") << 20, *h |= text(need(r, "name")) << 52;
    else if (IS("provider-section")) *h = 2 << 16 | number(r, "provider_id") << 20;
    else if (IS("provider-event")) *h = 3 << 16 | number(r, "provider_id") << 20 | number(r, "event_id") << 52;
    else if (IS("initialization")) *h = 1, put(number(r, "ticks_per_second"));
    else if (IS("string")) *h = 2 | number(r, "index") << 16, *h |= text(need(r, "value")) << 32;
    else if (IS("thread")) *h = 3 | number(r, "index") << 16, put(number(r, "process")), put(number(r, "thread"));
    else if (event < 11) {
        *h = 4 | event << 16, put(number(r, "timestamp")), *h |= thread_ref(r) << 24;
        *h |= string_ref(r, "category") << 32, *h |= string_ref(r, "name") << 48, *h |= arguments(r) << 20;
        for (int i = 0; i < 4; i++) if (get(r, last[i])) put(number(r, last[i]));
    } else if (IS("blob")) {
        *h = 5 | number(r, "blob_type") << 48, *h |= string_ref(r, "name") << 16, *h |= bytes(r, "payload") << 32;
    } else if (IS("kernel-object")) {
        *h = 7 | number(r, "object_type") << 16, put(number(r, "koid"));
        *h |= string_ref(r, "name") << 24, *h |= arguments(r) << 40;
    } else if (IS("log")) {
        *h = 9, put(number(r, "timestamp")), *h |= thread_ref(r) << 32, *h |= text(need(r, "message")) << 16;
    } else stop(77, type);
    for (Node *more = get(r, "extension") ? get(r, "extension")->child : NULL; more; more = more->next)
        put(strtoull(more->text, NULL, 10));
    *h |= (uint64_t)count << 4, fwrite(words, 8, count, out);
}

int main(int argc, char **argv) {
    if (argc != 4 || strcmp(argv[1], "write")) stop(77, "this is a writer");
    FILE *in = fopen(argv[2], "rb"), *out = fopen(argv[3], "wb");
    char *scenario = allocate((1 << 24) + 1), *provider = NULL;
    if (!in || !out || fread(scenario, 1, 1 << 24, in) == 1 << 24) stop(2, "a file cannot be opened, or is too large");
    at = scenario;
    Node magic = {.child = &(Node){.key = "type", .text = "magic"}}, *first = need(json(), "write")->child;
    for (Node *r = strcmp(need(first, "type")->text, "magic") ? magic.next = first, &magic : first; r; r = r->next) {
        Node *own = get(r, "provider") ? get(r, "provider") : get(r, "provider_id");
        if (own && provider && strcmp(own->text, provider) && !get(r, "provider_id")) stop(77, "no provider sections");
        provider = own ? own->text : provider;
        record(r, out);
    }
    return fclose(out) ? 2 : 0;
}
