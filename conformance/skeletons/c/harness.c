// A harness for the conformance kit, in exec mode:
//     harness read IN OUT           read the trace IN, write what was read to OUT as canonical JSON
//     harness write SCENARIO OUT    write the trace that the scenario asks for to OUT
// The kit's PROTOCOL.md and CANONICAL.md describe the arguments and files.
#include <stdio.h>
#include <string.h>

// The shortest trace of FXT, the case fxt/valid/magic, which passes as an example of what a harness does.
static const char MAGIC[] = "\x10\x00\x04\x46\x78\x54\x16\x00";
static const char RESULT[] = "{\"format\": \"fxt\", \"records\": [{\"type\": \"magic\"}]}";

enum { DONE = 0, REFUSED = 1, USAGE = 2, UNSUPPORTED = 77 };

static int read_trace(const char *in, const char *out) {
    // Call your reader here.  Return REFUSED if it says that the trace is not valid.
    char trace[9];
    FILE *file = fopen(in, "rb");
    size_t size = file ? fread(trace, 1, sizeof trace, file) : 0;
    if (file) fclose(file);
    if (size == 8 && memcmp(trace, MAGIC, 8) == 0) {
        if (!(file = fopen(out, "wb"))) return USAGE;
        fputs(RESULT, file);
        return fclose(file) ? USAGE : DONE;
    }
    fputs("reading is not implemented\n", stderr);  // the reason, shown in reports
    return UNSUPPORTED;
}

static int write_trace(const char *scenario, const char *out) {
    // Call your writer here.  Return REFUSED if the format cannot express the scenario.
    (void)scenario, (void)out;
    fputs("writing is not implemented\n", stderr);
    return UNSUPPORTED;
}

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[1], "read") == 0) return read_trace(argv[2], argv[3]);
    if (argc == 4 && strcmp(argv[1], "write") == 0) return write_trace(argv[2], argv[3]);
    fputs("usage: harness read IN OUT | write SCENARIO OUT\n", stderr);
    return USAGE;
}
