/* The kernel for plain events, whose references are all to slots: records of a header word, a word of time, small records,
 * and at most one more word.
 *
 * As in records.c, no layout is known here: where fields lie comes from the declarations, see fxtio/fxt/plain.py.  Every
 * index is checked against its buffer. */
#include "constants.h"
#include "kernels.h"

/* A field of a word. */
typedef struct {
    uint64_t shift, mask;
} Bits;

/* The fields of the header of an event. */
typedef struct {
    Bits argument_count, thread, category, name;
    uint64_t reserved;
} EventHeader;

/* The argument of a type: its size in words (0 if events with it are not plain), and where its value is. */
typedef struct {
    uint64_t words, kind, source;
    Bits size, name, value;
    uint64_t sign, reserved;
} ArgumentRule;

/* The values of slots, each valid from a row on. */
typedef struct {
    const int32_t *values;
    const int64_t *since;
    uint64_t count;
} Slots;

/* The columns that are filled. */
typedef struct {
    int8_t *step;
    int32_t *track, *category, *name;
    uint64_t *ticks, *tail;
    int64_t *owner;
    int32_t *argument_name, *argument_kind, *argument_text;
    uint64_t *argument_bits;
    Py_ssize_t room, arguments;
} Filled;

/* What the records are read by. */
typedef struct {
    const uint64_t *words;
    Py_ssize_t total;
    const EventHeader *header;
    const ArgumentRule *rules;
    uint64_t last_type;
    Slots strings, threads;
} Source;

static inline uint64_t bits_of(Bits bits, uint64_t word) { return word >> bits.shift & bits.mask; }

/* Return the value of a slot at a row, -1 if it has none there. */
static inline int32_t value_of(const Slots *slots, uint64_t slot, int64_t row) {
    return slot < slots->count && slots->since[slot] <= row ? slots->values[slot] : -1;
}

/* Read an argument, and move `here` after it.  Returns 0 if it is not plain. */
static inline int read_argument(const Source *source, int64_t *here, int64_t end, int64_t row, int64_t owner, Filled *to) {
    if (*here >= end)
        return 0;
    uint64_t word = source->words[*here];
    const ArgumentRule *rule = &source->rules[word & source->last_type];
    if (rule->words == 0 || bits_of(rule->size, word) != rule->words || (uint64_t)(end - *here) < rule->words ||
        word & rule->reserved)
        return 0;
    uint64_t value = bits_of(rule->value, word);
    int32_t name = value_of(&source->strings, bits_of(rule->name, word), row), text = -1;
    if (rule->source == PLAIN_TEXT) {
        text = value_of(&source->strings, value, row);
        value = 0;
        if (text < 0)
            return 0;
    } else if (rule->source == PLAIN_WORD) {
        value = source->words[*here + 1];
    }
    if (name < 0)
        return 0;
    *here += (int64_t)rule->words;
    Py_ssize_t at = to->arguments++;
    if (at < to->room) {
        to->owner[at] = owner;
        to->argument_name[at] = name;
        to->argument_kind[at] = (int32_t)rule->kind;
        to->argument_bits[at] = (value ^ rule->sign) - rule->sign;
        to->argument_text[at] = text;
    }
    return 1;
}

/* Read an event with this many words after its arguments.  Returns 0 if it is not plain. */
static inline int read_event(const Source *source, int64_t here, int64_t size, int64_t row, int64_t owner, int tail,
                             Filled *to) {
    if (here < 0 || size < 2 + tail || here >= source->total || size > source->total - here)
        return 0;
    uint64_t word = source->words[here];
    int64_t end = here + size - tail;
    to->track[row] = value_of(&source->threads, bits_of(source->header->thread, word), row);
    to->category[row] = value_of(&source->strings, bits_of(source->header->category, word), row);
    to->name[row] = value_of(&source->strings, bits_of(source->header->name, word), row);
    if (to->track[row] < 0 || to->category[row] < 0 || to->name[row] < 0 || word & source->header->reserved)
        return 0;
    to->ticks[row] = source->words[here + 1];
    to->tail[row] = tail ? source->words[end] : 0;
    here += 2;
    for (uint64_t left = bits_of(source->header->argument_count, word); left > 0; left--)
        if (!read_argument(source, &here, end, row, owner, to))
            return 0;
    return here == end;
}

/* Return whether fields can be read by shifting, values are within arguments, and the types are a power of two. */
static int rules_fit(const EventHeader *header, const ArgumentRule *rules, Py_ssize_t types) {
    int fit = types > 0 && (types & (types - 1)) == 0 && header->argument_count.shift < 64 &&
              header->thread.shift < 64 && header->category.shift < 64 && header->name.shift < 64;
    for (Py_ssize_t type = 0; fit && type < types; type++) {
        const ArgumentRule *rule = &rules[type];
        fit = rule->size.shift < 64 && rule->name.shift < 64 && rule->value.shift < 64 &&
              (rule->source != PLAIN_WORD || rule->words != 1);
    }
    return fit;
}

/* Read plain events. */
KERNEL_TAKING(read_plain, READS("words", 8), READS("at", 8), READS("size", 8), READS("kind", 1), READS("header", 8),
              READS("rules", 8), READS("steps", 1), READS("tails", 1), READS("strings", 4), READS("strings_since", 8),
              READS("threads", 4), READS("threads_since", 8), WRITES("step", 1), WRITES("track", 4), WRITES("ticks", 8),
              WRITES("category", 4), WRITES("name", 4), WRITES("tail", 8), WRITES("owner", 8),
              WRITES("argument_name", 4), WRITES("argument_kind", 4), WRITES("argument_bits", 8),
              WRITES("argument_text", 4), NUMBER("first")) {
    enum {
        WORDS, AT, SIZE, KIND, HEADER, RULES, STEPS, TAILS, STRINGS, STRINGS_SINCE, THREADS, THREADS_SINCE, STEP, TRACK,
        TICKS, CATEGORY, NAME, TAIL, OWNER, ARGUMENT_NAME, ARGUMENT_KIND, ARGUMENT_BITS, ARGUMENT_TEXT, FIRST
    };
    Py_ssize_t rows = a[AT].count, kinds = a[STEPS].count, types = a[RULES].view.len / (Py_ssize_t)sizeof(ArgumentRule);
    Source source = {a[WORDS].view.buf, a[WORDS].count, a[HEADER].view.buf, a[RULES].view.buf, (uint64_t)types - 1,
                     {a[STRINGS].view.buf, a[STRINGS_SINCE].view.buf, (uint64_t)a[STRINGS].count},
                     {a[THREADS].view.buf, a[THREADS_SINCE].view.buf, (uint64_t)a[THREADS].count}};
    Filled to = {a[STEP].view.buf, a[TRACK].view.buf, a[CATEGORY].view.buf, a[NAME].view.buf, a[TICKS].view.buf,
                 a[TAIL].view.buf, a[OWNER].view.buf, a[ARGUMENT_NAME].view.buf, a[ARGUMENT_KIND].view.buf,
                 a[ARGUMENT_TEXT].view.buf, a[ARGUMENT_BITS].view.buf, a[OWNER].count, 0};
    int valid = a[HEADER].view.len == (Py_ssize_t)sizeof(EventHeader) && a[TAILS].count == kinds &&
                a[RULES].view.len == types * (Py_ssize_t)sizeof(ArgumentRule) &&
                a[STRINGS_SINCE].count == a[STRINGS].count && a[THREADS_SINCE].count == a[THREADS].count &&
                a[SIZE].count == rows && a[KIND].count == rows;
    for (int i = STEP; i <= TAIL; i++)
        valid = valid && a[i].count == rows;
    for (int i = OWNER; i <= ARGUMENT_TEXT; i++)
        valid = valid && a[i].count == to.room;
    valid = valid && rules_fit(source.header, source.rules, types);
    const int64_t *at = a[AT].view.buf, *size = a[SIZE].view.buf;
    const int8_t *kind = a[KIND].view.buf, *steps = a[STEPS].view.buf, *tails = a[TAILS].view.buf;
    int plain = valid;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t row = 0; plain && row < rows; row++) {
        if (kind[row] >= 0 && kind[row] < kinds && tails[kind[row]] >= 0) {
            to.step[row] = steps[kind[row]];
            plain = read_event(&source, at[row], size[row], row, (int64_t)((uint64_t)a[FIRST].number + (uint64_t)row),
                               tails[kind[row]], &to);
            if (to.step[row] == SPAN_NONE) {
                to.track[row] = -1;
                to.ticks[row] = 0; /* whatever reads the record reports a time that is too late */
            }
            plain = plain && (to.step[row] != SPAN_COMPLETE || to.ticks[row] <= to.tail[row]);
        } else {
            to.step[row] = SPAN_NONE;
            to.track[row] = to.category[row] = to.name[row] = -1;
            to.ticks[row] = to.tail[row] = 0;
        }
    }
    Py_END_ALLOW_THREADS
    return valid ? PyLong_FromSsize_t(plain ? to.arguments : -1) : refuse("lengths differ, or the rules do not fit");
}
