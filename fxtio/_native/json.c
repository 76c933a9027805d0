/* Kernels for JSON: the places of the members of many objects, and numbers with a decimal point.
 *
 * What they leave aside is for Python: here, only what certainly is JSON is taken. */
#include <string.h>

#include "kernels.h"

enum { MAX_DEPTH = 1 << 14, MAX_DIGITS = 18, MAX_GUESSES = 32 };

/* Bytes that are to be read; `at` becomes NULL where they are not as they should be, or end too early. */
typedef struct {
    const uint8_t *at, *end;
} Text;

#define EVERY(byte) (0x0101010101010101u * (byte))

/* Return whether one of eight bytes is zero; what follows the first that is may count as zero, too. */
static inline uint64_t has_zero(uint64_t word) { return (word - EVERY(1)) & ~word & EVERY(0x80); }

/* Return how many of eight bytes certainly are before the first that was found. */
static inline int plain_bytes(uint64_t found) {
#if defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return found ? __builtin_ctzll(found) >> 3 : 8;
#else
    return found ? 0 : 8;
#endif
}

static inline int fail(Text *text) {
    text->at = NULL;
    return 0;
}

/* Return the next byte after spaces, without passing it; 0 at the end. */
static inline uint8_t next_byte(Text *text) {
    while (text->at < text->end && *text->at <= ' ' &&
           (*text->at == ' ' || *text->at == '\n' || *text->at == '\r' || *text->at == '\t'))
        text->at++;
    return text->at < text->end ? *text->at : 0;
}

static inline int is_digit(uint8_t byte) { return byte >= '0' && byte <= '9'; }

static inline int is_hexadecimal(uint8_t byte) { return is_digit(byte) || ((byte | 32) >= 'a' && (byte | 32) <= 'f'); }

/* Pass an escape, after its backslash. */
static int pass_escape(Text *text) {
    uint8_t kind = text->at < text->end ? *text->at++ : 0;
    if (kind == 0 || strchr("\"\\/bfnrtu", kind) == NULL)
        return fail(text);
    for (int digits = kind == 'u' ? 4 : 0; digits > 0; digits--)
        if (text->at == text->end || !is_hexadecimal(*text->at++))
            return fail(text);
    return 1;
}

/* Pass a string, after its opening quote.  Returns whether it is one; notes whether it has escapes. */
static int pass_string(Text *text, int *has_escapes) {
    for (;;) {
        uint64_t word, found = 0;
        for (; !found && text->end - text->at >= 8; text->at += plain_bytes(found)) {
            memcpy(&word, text->at, 8);
            found = has_zero(word ^ EVERY('"')) | has_zero(word ^ EVERY('\\')) |
                    ((word - EVERY(0x20)) & ~word & EVERY(0x80));
        }
        uint8_t byte = ' ';
        while (text->at < text->end && (byte = *text->at) != '"' && byte != '\\' && byte >= 0x20)
            text->at++;
        if (text->at == text->end || byte < 0x20)
            return fail(text);
        text->at++;
        if (byte == '"')
            return 1;
        *has_escapes = 1;
        if (!pass_escape(text))
            return 0;
    }
}

/* Pass digits, of which there must be some. */
static int pass_digits(Text *text) {
    const uint8_t *begin = text->at;
    while (text->at < text->end && is_digit(*text->at))
        text->at++;
    return text->at > begin ? 1 : fail(text);
}

/* Pass a number; one that reaches to the end may go on after it. */
static int pass_number(Text *text) {
    text->at += *text->at == '-';
    if (text->at < text->end && *text->at == '0')
        text->at++;
    else if (!pass_digits(text))
        return 0;
    if (text->at < text->end && *text->at == '.') {
        text->at++;
        if (!pass_digits(text))
            return 0;
    }
    if (text->at < text->end && (*text->at | 32) == 'e') {
        text->at++;
        text->at += text->at < text->end && (*text->at == '+' || *text->at == '-');
        if (!pass_digits(text))
            return 0;
    }
    return text->at < text->end ? 1 : fail(text);
}

static int pass_word(Text *text, const char *word) {
    size_t size = strlen(word);
    if ((size_t)(text->end - text->at) < size || memcmp(text->at, word, size))
        return fail(text);
    text->at += size;
    return 1;
}

/* Pass a value that has no values within it. */
static int pass_scalar(Text *text) {
    int has_escapes;
    switch (*text->at) {
    case '"':
        text->at++;
        return pass_string(text, &has_escapes);
    case 't':
        return pass_word(text, "true");
    case 'f':
        return pass_word(text, "false");
    case 'n':
        return pass_word(text, "null");
    default:
        return pass_number(text);
    }
}

/* Pass the key of a member, after its opening quote, and its colon; tell where the key ends. */
static int pass_key(Text *text, int *has_escapes, const uint8_t **end) {
    if (!pass_string(text, has_escapes))
        return 0;
    *end = text->at - 1;
    if (next_byte(text) != ':')
        return fail(text);
    text->at++;
    return 1;
}

/* Pass the key of a member of any object, and its colon. */
static int pass_any_key(Text *text) {
    const uint8_t *end;
    int has_escapes;
    if (next_byte(text) != '"')
        return fail(text);
    text->at++;
    return pass_key(text, &has_escapes, &end);
}

/* Pass a value and all that is within it. */
static int pass_value(Text *text) {
    uint8_t closing[MAX_DEPTH]; /* the bracket that ends what is open at each level */
    int depth = 0;
    for (;;) {
        uint8_t first = next_byte(text);
        if (first == 0)
            return fail(text);
        if (first == '{' || first == '[') {
            text->at++;
            if (next_byte(text) != first + 2) { /* its closing bracket */
                if (depth == MAX_DEPTH)
                    return fail(text);
                closing[depth++] = first + 2;
                if (first == '{' && !pass_any_key(text))
                    return 0;
                continue;
            }
            text->at++;
        } else if (!pass_scalar(text)) {
            return 0;
        }
        for (;; depth--, text->at++) { /* what ends here */
            if (depth == 0)
                return 1;
            uint8_t next = next_byte(text);
            if (next == ',')
                break;
            if (next != closing[depth - 1])
                return fail(text);
        }
        text->at++;
        if (closing[depth - 1] == '}' && !pass_any_key(text))
            return 0;
    }
}

/* The names of the members that are wanted. */
typedef struct {
    const uint8_t *text;
    const int64_t *ends;
    Py_ssize_t count;
    int8_t latest[MAX_GUESSES]; /* of the first members of the latest object, the numbers, -1 for one that is not wanted:
                                 * those of the next are likely the same */
} Names;

static void start_names(Names *names, const Value *text, const Value *ends) {
    *names = (Names){text->view.buf, ends->view.buf, ends->count, {0}};
    memset(names->latest, -1, sizeof names->latest);
}

static inline const uint8_t *name_of(const Names *names, Py_ssize_t number, int64_t *size) {
    int64_t begin = number ? names->ends[number - 1] : 0;
    *size = names->ends[number] - begin;
    return names->text + begin;
}

/* Return the number of a name, -1 for one that is not wanted. */
static Py_ssize_t number_of(Names *names, Py_ssize_t place, const uint8_t *key, int64_t size) {
    Py_ssize_t number = names->count - 1;
    for (; number >= 0; number--) {
        int64_t named;
        const uint8_t *name = name_of(names, number, &named);
        if (named == size && memcmp(name, key, (size_t)size) == 0)
            break;
    }
    if (place < MAX_GUESSES)
        names->latest[place] = (int8_t)number;
    return number;
}

/* Pass the key that the latest object has at this place, after its opening quote, and its colon.  Returns its number; -1
 * for another key, which is not passed.  A key that was taken before has no escapes. */
static inline Py_ssize_t pass_latest(Text *text, const Names *names, Py_ssize_t place) {
    Py_ssize_t number = place < MAX_GUESSES ? names->latest[place] : -1;
    if (number < 0)
        return -1;
    int64_t size;
    const uint8_t *name = name_of(names, number, &size);
    if (text->end - text->at < size + 2 || memcmp(name, text->at, (size_t)size) || text->at[size] != '"' ||
        text->at[size + 1] != ':')
        return -1;
    text->at += size + 2;
    return number;
}

/* Where the places of an item and of its members are noted: its row, in columns for the begin and the end of each. */
typedef struct {
    int32_t *row;
    Py_ssize_t rows;
} Places;

static inline void note_place(Places places, Py_ssize_t number, const uint8_t *data, const uint8_t *begin,
                              const Text *text) {
    places.row[2 * number * places.rows] = (int32_t)(begin - data);
    places.row[(2 * number + 1) * places.rows] = (int32_t)(text->at - data);
}

/* Pass an object, and note the places of its members.  Returns whether it is one without escapes in its keys. */
static int pass_object(Text *text, const uint8_t *data, Names *names, Places places) {
    const uint8_t *begin = text->at++;
    uint8_t next = next_byte(text);
    for (Py_ssize_t member = 0; next != '}'; member++) {
        int has_escapes = 0;
        text->at += member > 0; /* a comma */
        if (next_byte(text) != '"')
            return 0;
        text->at++;
        Py_ssize_t number = pass_latest(text, names, member);
        if (number < 0) {
            const uint8_t *key = text->at, *key_end;
            if (!pass_key(text, &has_escapes, &key_end) || has_escapes)
                return 0;
            number = number_of(names, member, key, key_end - key);
        }
        next_byte(text);
        const uint8_t *value = text->at;
        if (!pass_value(text))
            return 0;
        if (number >= 0)
            note_place(places, 1 + number, data, value, text);
        next = next_byte(text);
        if (next != ',' && next != '}')
            return 0;
    }
    text->at++;
    note_place(places, 0, data, begin, text);
    return 1;
}

/* Pass any value that a comma or a bracket follows. */
static int pass_listed(Text *text, const uint8_t *data, Places places) {
    const uint8_t *begin = text->at;
    if (!pass_value(text))
        return 0;
    note_place(places, 0, data, begin, text);
    Text after = *text;
    uint8_t next = next_byte(&after);
    return next == ',' || next == ']';
}

/* Where names end, and how many rows of `columns` places there are.  Returns -1 where they do not fit. */
static Py_ssize_t rows_of(const Value *data, const Value *names, const Value *ends, const Value *places) {
    const int64_t *end = ends->view.buf;
    Py_ssize_t columns = (1 + ends->count) * 2;
    for (Py_ssize_t i = 0; i < ends->count; i++)
        if (end[i] < (i ? end[i - 1] : 0) || end[i] > names->count) {
            refuse("names do not fit their ends");
            return -1;
        }
    if (ends->count > INT8_MAX || places->count % columns || data->count > INT32_MAX) {
        refuse("lengths differ, or there is too much data");
        return -1;
    }
    return places->count / columns;
}

/* Pass objects, or any values if there are no names, from a row on, up to the first that is not as it should be.
 * Returns the row after the last; tells where the last one ends. */
static Py_ssize_t pass_items(Text text, const uint8_t *data, Names *names, Places places, Py_ssize_t row,
                             const uint8_t **used) {
    Py_ssize_t columns = (1 + names->count) * 2;
    for (places.row += row; row < places.rows; row++, places.row++) {
        while (next_byte(&text) == ',')
            text.at++;
        for (Py_ssize_t column = 0; column < columns; column++)
            places.row[column * places.rows] = 0;
        if (text.at == text.end || (names->count == 0 ? !pass_listed(&text, data, places)
                                                      : *text.at != '{' || !pass_object(&text, data, names, places)))
            break;
        *used = text.at;
    }
    return row;
}

/* Walk objects, or any values. */
KERNEL_TAKING(walk_objects, READS("data", 1), READS("names", 1), READS("ends", 8), WRITES("places", 4)) {
    enum { DATA, NAMES, ENDS, PLACES };
    const uint8_t *data = a[DATA].view.buf, *used = data;
    Names names;
    start_names(&names, &a[NAMES], &a[ENDS]);
    Places places = {a[PLACES].view.buf, rows_of(&a[DATA], &a[NAMES], &a[ENDS], &a[PLACES])};
    if (places.rows < 0)
        return NULL;
    Py_ssize_t count;
    Py_BEGIN_ALLOW_THREADS
    count = pass_items((Text){data, data + a[DATA].count}, data, &names, places, 0, &used);
    Py_END_ALLOW_THREADS
    return Py_BuildValue("nn", count, used - data);
}

/* Walk the objects in arrays, up to the first array that has something else, or for which there are not enough rows. */
KERNEL_TAKING(walk_arrays, READS("data", 1), READS("begin", 4), READS("end", 4), READS("names", 1), READS("ends", 8),
              WRITES("places", 4), WRITES("arrays", 8)) {
    enum { DATA, BEGINS, STOPS, NAMES, ENDS, PLACES, ARRAYS };
    const uint8_t *data = a[DATA].view.buf;
    const int32_t *begin = a[BEGINS].view.buf, *stop = a[STOPS].view.buf;
    int64_t *arrays = a[ARRAYS].view.buf;
    Names names;
    start_names(&names, &a[NAMES], &a[ENDS]);
    Places places = {a[PLACES].view.buf, rows_of(&a[DATA], &a[NAMES], &a[ENDS], &a[PLACES])};
    if (places.rows < 0)
        return NULL;
    if (a[BEGINS].count != a[STOPS].count || a[ARRAYS].count != places.rows)
        return refuse("lengths differ");
    Py_ssize_t array = 0, count = 0;
    for (; array < a[BEGINS].count; array++) {
        if (begin[array] < 0 || stop[array] < begin[array] + 2 || stop[array] > a[DATA].count)
            return refuse("an array is not within the data");
        Text rest = {data + begin[array] + 1, data + stop[array] - 1};
        Py_ssize_t row = pass_items(rest, data, &names, places, count, &rest.at);
        while (next_byte(&rest) == ',')
            rest.at++;
        if (rest.at != rest.end)
            break;
        for (; count < row; count++)
            arrays[count] = array;
    }
    return Py_BuildValue("nn", array, count);
}

/* Read a number without sign and exponent as an integer that counts units of 10 to the power of -`digits`, rounded half
 * to even.  Returns -1 for any other, or if that is too large. */
static int64_t read_decimal(const uint8_t *at, const uint8_t *end, int64_t digits) {
    int64_t value = 0;
    if (at == end || !is_digit(*at))
        return -1;
    for (; at < end && is_digit(*at); at++) {
        if (value > (INT64_MAX - 9) / 10)
            return -1;
        value = value * 10 + (*at - '0');
    }
    if (at < end && (*at++ != '.' || at == end))
        return -1;
    for (; digits > 0; digits--) {
        if (value > (INT64_MAX - 9) / 10)
            return -1;
        value *= 10;
        if (at < end && is_digit(*at))
            value += *at++ - '0';
    }
    if (at == end)
        return value;
    int half = (int)*at - '5', is_more = 0; /* the rest, compared with half of a unit */
    for (const uint8_t *rest = at; rest < end; rest++) {
        if (!is_digit(*rest))
            return -1;
        is_more |= rest > at && *rest > '0';
    }
    return value + (half > 0 || (half == 0 && (is_more || (value & 1))));
}

/* Read numbers, or strings of them. */
KERNEL_TAKING(read_decimals, READS("data", 1), READS("begin", 4), READS("end", 4), INDEX("digits"), WRITES("out", 8)) {
    enum { DATA, BEGINS, ENDS, DIGITS, OUT };
    const uint8_t *data = a[DATA].view.buf;
    const int32_t *begin = a[BEGINS].view.buf, *end = a[ENDS].view.buf;
    int64_t *out = a[OUT].view.buf;
    Py_ssize_t rows = a[OUT].count, read = 0;
    if (a[BEGINS].count != rows || a[ENDS].count != rows || a[DIGITS].number < 0 || a[DIGITS].number > MAX_DIGITS)
        return refuse("lengths differ, or there are too many digits");
    for (Py_ssize_t row = 0; row < rows; row++) {
        int32_t from = begin[row], to = end[row];
        if (from < 0 || from > to || to > a[DATA].count)
            return refuse("a number is not within the data");
        int is_string = to - from >= 2 && data[from] == '"' && data[to - 1] == '"';
        out[row] = read_decimal(data + from + is_string, data + to - is_string, a[DIGITS].number);
        read += out[row] >= 0;
    }
    return PyLong_FromSsize_t(read);
}
