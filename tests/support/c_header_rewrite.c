/* Reads traces with the header of `fxtio generate c`, writes each record again, and reads damaged copies.
 *
 *     rewrite ROUNDS FILE...     prints a count and a name for each kind of records and arguments that were written again
 *
 * A record that is read and written again must have the same bytes, must fit a buffer of its size, and must be refused by
 * one that is a word smaller, which stays as it is.  Damaged copies are read with everything in them, for the sanitizers. */
#include "fxt.h"
#include <stdio.h>
#include <stdlib.h>

static size_t records[256], arguments[256], sum;

static void fail(const char *reason) { printf("%s\n", reason); exit(3); }

static void touch(const void *data, size_t size)
{
    for (size_t i = 0; i < size; i++) sum += ((const unsigned char *)data)[i];
}

#define touch_uint8(value) sum += (size_t)(value);
#define touch_uint16 touch_uint8
#define touch_uint32 touch_uint8
#define touch_uint64 touch_uint8
#define touch_int32 touch_uint8
#define touch_int64 touch_uint8
#define touch_bool touch_uint8
#define touch_double(value) sum += (value) > 0;
#define touch_optional(field) sum += (size_t)(field).value + (field).is_set;
#define touch_text(value) touch((value).data, (value).size);
#define touch_bytes touch_text
#define touch_words(value) for (size_t i = 0; i < (value).count; i++) sum += (size_t)fxt_word_of(value, i);
#define touch_string_ref(value) sum += (value).slot; touch_text((value).text)
#define touch_thread_ref(value) sum += (size_t)((value).process + (value).thread) + (value).slot + (value).process_only;
#define touch_process_ref(value) sum += (size_t)(value).process + (value).slot;
#define touch_arguments(value) touch_list(value);
#define FIELD(type, member, key) touch_##type(one.member)
#define TOUCH(name, number, tag) static void touch_##name(fxt_##name one) { (void)one; FXT_FIELDS_##name(FIELD) }
#define CASE(name, number, tag) case number: touch_##name(any.as.name); break;

FXT_ARGUMENTS(TOUCH)
static void touch_list(fxt_arguments list)
{
    fxt_argument any;
    while (fxt_next_argument(&list, &any)) switch (any.kind) { FXT_ARGUMENTS(CASE) default: touch_bytes(any.raw) }
}
FXT_RECORDS(TOUCH)
static void touch_record(fxt_record any)
{
    switch (any.kind) { FXT_RECORDS(CASE) default: touch_bytes(any.raw) }
}

/* Make a list of arguments of what was read, so that both forms of lists are written. */
static fxt_arguments listed(fxt_arguments list)
{
    static fxt_argument items[FXT_MAX_ARGUMENTS];
    size_t count = 0;
    while (fxt_next_argument(&list, &items[count])) arguments[items[count++].kind]++;
    return fxt_arguments_of(items, count);
}

static void write_again(fxt_record *record)
{
    size_t size = record->raw.size;
    uint8_t *memory = malloc(size), *before = malloc(size);
    fxt_out out = {memory, memory + size}, small = {memory, memory + size - 8};
    if (fxt_size_record(record) * 8 != size) fail("another size");
    memset(memory, 0xa5, size), memset(before, 0xa5, size);
    if (fxt_write_record(&small, record)) fail("a record was written without room");
    if (memcmp(memory, before, size) || small.at != memory) fail("a record that was refused was written");
    if (!fxt_write_record(&out, record) || out.at != out.end) fail("a record was refused");
    if (memcmp(memory, record->raw.data, size)) fail("other bytes");
    free(memory), free(before), records[record->kind]++;
}

static void write_all_again(const uint8_t *data, size_t size)
{
    fxt_in in = fxt_reader(data, size);
    fxt_record record;
    while (fxt_read_record(&in, &record)) {
        if (record.kind == FXT_UNKNOWN_RECORD) fail("a record is unknown");
        write_again(&record);
        if (record.kind == FXT_INSTANT && record.as.instant.args.count) {
            record.as.instant.args = listed(record.as.instant.args);
            write_again(&record);
        }
    }
    if (in.at != in.end) fail("a record has a wrong size");
}

static void read_damaged(const uint8_t *data, size_t size, uint64_t seed)
{
    uint8_t *copy = malloc(size);
    memcpy(copy, data, size);
    for (int i = 0; i < 24; i++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
        copy[(seed >> 24) % size] ^= (uint8_t)(1 << (seed >> 61));
    }
    fxt_in in = fxt_reader(copy, size);
    for (;; in.at += 8) { /* after a wrong size, go on with the next word */
        fxt_record record;
        while (fxt_read_record(&in, &record)) {
            touch_record(record);
            uint8_t memory[512];
            fxt_out out = {memory, memory + sizeof memory};
            fxt_write_record(&out, &record);
        }
        if (in.at == in.end) break;
    }
    free(copy);
}

#define PRINT_RECORD(name, number, tag) printf("%zu " tag "\n", records[number]);
#define PRINT_ARGUMENT(name, number, tag) printf("%zu argument " tag "\n", arguments[number]);

int main(int argc, char **argv)
{
    for (int i = 2; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        static uint8_t data[1 << 23];
        size_t size = file ? fread(data, 1, sizeof data, file) : 0;
        if (!size || size == sizeof data) fail("a file cannot be read");
        fclose(file);
        if (!atoi(argv[1])) write_all_again(data, size);
        for (int round = 0; round < atoi(argv[1]); round++) read_damaged(data, size / 8 * 8, (uint64_t)(round + 1000 * i));
    }
    FXT_RECORDS(PRINT_RECORD)
    FXT_ARGUMENTS(PRINT_ARGUMENT)
    return 0;
}
