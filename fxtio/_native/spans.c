/* Kernels for spans on tracks: whether times grow, how spans nest, and which end belongs to which begin.
 *
 * As in records.c, no layout is known here, and every index is checked against its buffer. */
#include "constants.h"
#include "kernels.h"

/* List the rows that are earlier than one before them on their track. */
KERNEL_TAKING(late, READS("track", 4), READS("time", 8), WRITES("latest", 8), WRITES("rows", 8)) {
    enum { TRACK, TIME, LATEST, ROWS };
    const int32_t *track = a[TRACK].view.buf;
    const uint64_t *time = a[TIME].view.buf;
    uint64_t *latest = a[LATEST].view.buf;
    int64_t *rows = a[ROWS].view.buf;
    Py_ssize_t total = a[TRACK].count, tracks = a[LATEST].count, room = a[ROWS].count, count = 0;
    if (a[TIME].count != total)
        return refuse("lengths differ");
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t row = 0; row < total; row++) {
        int32_t k = track[row];
        if (k < 0 || k >= tracks)
            continue;
        if (time[row] >= latest[k]) {
            latest[k] = time[row];
        } else {
            if (count < room)
                rows[count] = row;
            count++;
        }
    }
    Py_END_ALLOW_THREADS
    return PyLong_FromSsize_t(count);
}

/* The rows of `match`: what they do, the spans around them, and the columns that are filled.  `key`, `depth`, `inner` and
   `state` are NULL where they are not asked for, `inner` and `state` together. */
typedef struct {
    const int8_t *step;
    const int64_t *time;
    const uint64_t *key;
    int64_t *end, *parent, *closer, *inner;
    int32_t *depth, *level;
    int8_t *state;
    int64_t unmatched, child_first;
} Match;

static inline int is_closed(const Match *match, int64_t row) {
    return match->step[row] == SPAN_COMPLETE || match->closer[row] >= 0;
}

/* Add to the time within other spans; it wraps around, since hostile spans may sum up to any number. */
static inline void add_time(Match *match, int64_t row, uint64_t time) {
    match->inner[row] = (int64_t)((uint64_t)match->inner[row] + time);
}

/* Count the time of a span whose end is known now for the span around it. */
static inline void add_to_parent(Match *match, int64_t row) {
    int64_t outer = match->parent[row], end = match->end[row];
    if (outer < 0 || match->inner == NULL)
        return;
    if (is_closed(match, outer) && match->end[outer] < end) {
        match->state[row] = SLICE_OVERLAPPING;
        end = Py_MAX(match->end[outer], match->time[row]);
    }
    add_time(match, outer, (uint64_t)end - (uint64_t)match->time[row]);
}

/* Return the stack without the closed spans on top of it that do not last longer than `time`. */
static inline int64_t settled(const Match *match, int64_t stack, int64_t time) {
    while (stack >= 0 && is_closed(match, stack) && match->end[stack] <= time)
        stack = match->parent[stack];
    return stack;
}

/* End a span without an end of its own. */
static inline void cut_slice(Match *match, int64_t span, int64_t time) {
    if (is_closed(match, span))
        return;
    match->end[span] = time;
    if (match->state != NULL)
        match->state[span] = SLICE_OPEN;
    add_to_parent(match, span);
}

/* Return the stack without the spans that end before a row of this time or level. */
static inline int64_t stack_before(Match *match, int64_t stack, int64_t time, int64_t level) {
    if (level < 0)
        return settled(match, stack, time);
    for (; stack >= 0 && match->level[stack] >= level; stack = match->parent[stack])
        cut_slice(match, stack, time);
    return stack;
}

/* Put a span on the stack, or leave it out if it should fit and does not.  Returns the new stack. */
static inline int64_t push_slice(Match *match, int64_t stack, int64_t row, int is_carried) {
    int64_t level = match->level[row];
    match->parent[row] = stack;
    if (match->depth != NULL)
        match->depth[row] = stack < 0 ? 0 : match->depth[stack] + 1;
    if (level == FITTING && stack >= 0 && match->step[stack] == SPAN_COMPLETE && match->end[stack] < match->end[row])
        return stack;
    if (level < 0)
        match->level[row] = stack < 0 ? 0 : match->level[stack] + (level != UNWIND);
    if (match->step[row] != SPAN_COMPLETE || is_carried)
        return row;
    if (stack >= 0 && match->step[stack] == SPAN_COMPLETE && level < 0)
        match->child_first += match->time[stack] == match->time[row] && match->end[stack] < match->end[row];
    add_to_parent(match, row);
    return row;
}

/* Return whether an END may close a span. */
static inline int is_closed_by(const Match *match, int64_t span, int64_t row) {
    const uint64_t *key = match->key;
    return !is_closed(match, span) && (key == NULL || key[row] == 0 || key[row] == key[span]);
}

/* Return the span of an END with a level: that of the level, or else the innermost deeper one; -1 for none. */
static inline int64_t span_of_level(const Match *match, int64_t stack, int64_t row) {
    int64_t span = stack, deeper = -1, searched = 0;
    for (; span >= 0 && match->level[span] > match->level[row]; span = match->parent[span], searched++)
        if (deeper < 0 && is_closed_by(match, span, row))
            deeper = span;
    if (span >= 0 && match->level[span] == match->level[row] && is_closed_by(match, span, row))
        return span;
    return searched <= MAX_SEARCH ? deeper : -1;
}

/* Close the span that belongs to an END.  Returns the new stack. */
static inline int64_t close_slice(Match *match, int64_t stack, int64_t row) {
    int64_t span = stack, inside = -1, time = match->time[row], level = match->level[row];
    if (level >= 0)
        span = span_of_level(match, stack, row);
    else
        for (int searched = 0; span >= 0 && !is_closed_by(match, span, row); searched++) {
            inside = span;
            span = searched == MAX_SEARCH - 1 ? -1 : match->parent[span];
        }
    if (span < 0) {
        match->unmatched++;
        return level >= 0 ? stack_before(match, stack, time, level) : stack;
    }
    match->parent[row] = span;
    match->closer[span] = row;
    match->end[span] = time;
    if (match->state != NULL && match->state[row] != SLICE_CLOSED)
        match->state[span] = match->state[row];
    for (; level != -1 && stack != span; stack = match->parent[stack])
        cut_slice(match, stack, time);
    if (match->inner != NULL && inside >= 0 && is_closed(match, inside) && match->end[inside] > time) {
        match->state[inside] = SLICE_OVERLAPPING;
        add_time(match, span, (uint64_t)Py_MAX(time, match->time[inside]) - (uint64_t)match->end[inside]);
    }
    add_to_parent(match, span);
    return span == stack ? match->parent[span] : stack;
}

/* Return the innermost span that has not ended at `time`; for a flow, one that ends now counts. */
static inline int64_t span_around(const Match *match, int64_t stack, int64_t time, int is_flow) {
    for (int searched = 0; searched < MAX_SEARCH; searched++) {
        if (stack < 0 || is_flow || !is_closed(match, stack) || match->end[stack] > time)
            return stack;
        stack = match->parent[stack];
    }
    return -1;
}

/* Let a row change the stack of its track.  Returns the new stack. */
static inline int64_t enter_row(Match *match, int64_t stack, int64_t row, int is_carried) {
    int64_t time = match->time[row], level = match->level[row];
    switch (match->step[row]) {
    case SPAN_BEGIN:
    case SPAN_COMPLETE:
        return push_slice(match, is_carried ? stack : stack_before(match, stack, time, level), row, is_carried);
    case SPAN_END:
        return close_slice(match, level >= 0 ? stack : settled(match, stack, time), row);
    case SPAN_INSTANT:
    case SPAN_FLOW:
        while (stack >= 0 && is_closed(match, stack) && match->end[stack] < time)
            stack = match->parent[stack];
        match->parent[row] = span_around(match, stack, time, match->step[row] == SPAN_FLOW);
        return stack;
    case SPAN_RESET:
        return stack_before(match, stack, time, level);
    default:
        return stack;
    }
}

/* Pair the begins and ends of spans. */
KERNEL(match) {
    static const Argument takes[] = {
        READS("step", 1), READS("track", 4), READS("time", 8), WRITES("end", 8), READS("key", 8), WRITES("level", 4),
        WRITES("top", 8), WRITES("parent", 8), WRITES("depth", 4), WRITES("closer", 8), WRITES("inner", 8),
        WRITES("state", 1), WRITES("on_stack", 1), INDEX("carried")};
    enum { STEP, TRACK, TIME, END, KEY, LEVEL, TOP, PARENT, DEPTH, CLOSER, INNER, STATE, ON_STACK, CARRIED, COUNT };
    Value a[COUNT];
    if (call_open(a, __func__, takes, COUNT, args, nargs) < 0)
        return NULL;
    int64_t total = a[STEP].count, tracks = a[TOP].count, carried = a[CARRIED].number;
    int valid = carried >= 0 && carried <= total && a[INNER].count == a[STATE].count;
    void *column[COUNT];
    for (int i = STEP; i <= ON_STACK; i++) {
        int is_optional = i == KEY || i == DEPTH || i == INNER || i == STATE;
        valid = valid && (i == TOP || a[i].count == total || (is_optional && a[i].count == 0));
        column[i] = is_optional && a[i].count == 0 ? NULL : a[i].view.buf;
    }
    Match all = {column[STEP], column[TIME], column[KEY], column[END], column[PARENT], column[CLOSER], column[INNER],
                 column[DEPTH], column[LEVEL], column[STATE], 0, 0};
    const int32_t *track = a[TRACK].view.buf;
    int64_t *top = a[TOP].view.buf;
    int8_t *on_stack = a[ON_STACK].view.buf;
    for (Py_ssize_t k = 0; valid && k < tracks; k++)
        valid = top[k] == -1;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t row = 0; valid && row < total; row++) {
        all.parent[row] = all.closer[row] = -1;
        if (all.depth != NULL)
            all.depth[row] = 0;
    }
    for (Py_ssize_t row = 0; valid && row < total; row++)
        if (track[row] >= 0 && track[row] < tracks)
            top[track[row]] = enter_row(&all, top[track[row]], row, row < carried);
    for (Py_ssize_t k = 0; valid && k < tracks; k++)
        for (int64_t row = top[k]; row >= 0; row = all.parent[row])
            on_stack[row] = 1;
    Py_END_ALLOW_THREADS
    if (!valid)
        return call_close(a, COUNT, refuse("lengths differ, or a stack is not empty"));
    return call_close(a, COUNT, Py_BuildValue("LL", (long long)all.unmatched, (long long)all.child_first));
}

/* The rows of `list_slices`. */
typedef struct {
    const int8_t *step, *state, *on_stack;
    const int32_t *track, *category, *name, *depth;
    const int64_t *time, *event, *end, *parent, *closer, *inner;
    const uint64_t *ticks;
    int64_t *ids, *closing;
    int64_t total, carried;
} Spans;

/* The columns of slices that `list_slices` fills. */
typedef struct {
    int64_t *id, *start, *duration, *self_time, *parent, *event, *end_event;
    int32_t *depth, *track, *category, *name, *state;
    uint64_t *ticks;
    int64_t room, count;
} Slices;

static inline int is_span(const Spans *spans, int64_t row) {
    return spans->step[row] == SPAN_BEGIN || spans->step[row] == SPAN_COMPLETE;
}

/* Number the spans, and note the events that end them.  Returns the latest time. */
static int64_t number_spans(const Spans *spans, int64_t *next_id, int64_t latest) {
    for (int64_t row = 0; row < spans->total; row++) {
        int64_t closer = spans->closer[row];
        int64_t closing = closer >= 0 && closer < spans->total ? spans->event[closer] : -1;
        if (row < spans->carried) {
            spans->closing[row] = Py_MAX(spans->closing[row], closing);
        } else {
            spans->closing[row] = Py_MAX(closing, -1);
            spans->ids[row] = is_span(spans, row) ? (*next_id)++ : -1;
        }
        if (spans->track[row] >= 0)
            latest = Py_MAX(latest, spans->time[row]);
        if (spans->step[row] == SPAN_COMPLETE)
            latest = Py_MAX(latest, spans->end[row]);
    }
    return latest;
}

/* Fill a row of the columns of slices. */
static inline void list_slice(const Spans *spans, int64_t row, int64_t latest, Slices *to) {
    int64_t at = to->count++, end = spans->end[row], parent = spans->parent[row], state = spans->state[row];
    if (spans->step[row] == SPAN_BEGIN && spans->closing[row] < 0 && end == INT64_MAX) {
        end = latest;
        state = SLICE_OPEN;
    }
    uint64_t duration = (uint64_t)end - (uint64_t)spans->time[row];
    to->id[at] = spans->ids[row];
    to->start[at] = spans->time[row];
    to->duration[at] = (int64_t)duration;
    to->self_time[at] = Py_MAX((int64_t)(duration - (uint64_t)spans->inner[row]), 0);
    to->depth[at] = spans->depth[row];
    to->parent[at] = parent >= 0 && parent < spans->total ? spans->ids[parent] : -1;
    to->track[at] = spans->track[row];
    to->category[at] = spans->category[row];
    to->name[at] = spans->name[row];
    to->state[at] = (int32_t)state;
    to->event[at] = spans->event[row];
    to->end_event[at] = spans->closing[row];
    to->ticks[at] = spans->ticks[row];
}

/* List the spans that are not on a stack any more. */
KERNEL(list_slices) {
    static const Argument takes[] = {
        READS("step", 1), READS("track", 4), READS("time", 8), READS("end", 8), READS("parent", 8), READS("depth", 4),
        READS("closer", 8), READS("inner", 8), READS("state", 1), READS("on_stack", 1), READS("category", 4),
        READS("name", 4), READS("event", 8), READS("ticks", 8), WRITES("ids", 8), WRITES("closing", 8), WRITES("id", 8),
        WRITES("start", 8), WRITES("duration", 8), WRITES("self_time", 8), WRITES("depth", 4), WRITES("parent", 8),
        WRITES("track", 4), WRITES("category", 4), WRITES("name", 4), WRITES("state", 4), WRITES("event", 8),
        WRITES("end_event", 8), WRITES("ticks", 8), NUMBER("carried"), NUMBER("next_id"), NUMBER("latest")};
    enum {
        STEP, TRACK, TIME, END, PARENT, DEPTH, CLOSER, INNER, STATE, ON_STACK, CATEGORY, NAME, EVENT, TICKS, IDS,
        CLOSING, OUT_ID, OUT_START, OUT_DURATION, OUT_SELF_TIME, OUT_DEPTH, OUT_PARENT, OUT_TRACK, OUT_CATEGORY,
        OUT_NAME, OUT_STATE, OUT_EVENT, OUT_END_EVENT, OUT_TICKS, CARRIED, NEXT_ID, LATEST, COUNT
    };
    if (nargs != 7 || !PyTuple_Check(args[0]) || PyTuple_GET_SIZE(args[0]) != IDS || !PyTuple_Check(args[3]) ||
        PyTuple_GET_SIZE(args[3]) != CARRIED - OUT_ID) {
        PyErr_SetString(PyExc_TypeError, "list_slices takes 14 columns, 2 columns, 13 columns, and 3 numbers");
        return NULL;
    }
    PyObject *objects[COUNT];
    for (int i = 0; i < COUNT; i++)
        objects[i] = i < IDS       ? PyTuple_GET_ITEM(args[0], i)
                     : i < OUT_ID  ? args[1 + i - IDS]
                     : i < CARRIED ? PyTuple_GET_ITEM(args[3], i - OUT_ID)
                                   : args[4 + i - CARRIED];
    Value a[COUNT];
    if (call_open(a, __func__, takes, COUNT, objects, COUNT) < 0)
        return NULL;
    int64_t carried = a[CARRIED].number, next = a[NEXT_ID].number, latest = a[LATEST].number, listed = 0;
    Spans spans = {a[STEP].view.buf, a[STATE].view.buf, a[ON_STACK].view.buf, a[TRACK].view.buf, a[CATEGORY].view.buf,
                   a[NAME].view.buf, a[DEPTH].view.buf, a[TIME].view.buf, a[EVENT].view.buf, a[END].view.buf,
                   a[PARENT].view.buf, a[CLOSER].view.buf, a[INNER].view.buf, a[TICKS].view.buf, a[IDS].view.buf,
                   a[CLOSING].view.buf, a[STEP].count, carried};
    Slices to = {a[OUT_ID].view.buf, a[OUT_START].view.buf, a[OUT_DURATION].view.buf, a[OUT_SELF_TIME].view.buf,
                 a[OUT_PARENT].view.buf, a[OUT_EVENT].view.buf, a[OUT_END_EVENT].view.buf, a[OUT_DEPTH].view.buf,
                 a[OUT_TRACK].view.buf, a[OUT_CATEGORY].view.buf, a[OUT_NAME].view.buf, a[OUT_STATE].view.buf,
                 a[OUT_TICKS].view.buf, a[OUT_ID].count, 0};
    int valid = carried >= 0 && carried <= spans.total;
    for (int i = STEP; i < CARRIED; i++)
        valid = valid && a[i].count == (i < OUT_ID ? spans.total : to.room);
    for (int64_t row = 0; valid && row < spans.total; row++)
        listed += is_span(&spans, row) && !spans.on_stack[row];
    valid = valid && listed == to.room;
    Py_BEGIN_ALLOW_THREADS
    if (valid)
        latest = number_spans(&spans, &next, latest);
    for (int64_t row = 0; valid && row < spans.total; row++)
        if (is_span(&spans, row) && !spans.on_stack[row])
            list_slice(&spans, row, latest, &to);
    Py_END_ALLOW_THREADS
    return call_close(a, COUNT, valid ? Py_BuildValue("LL", (long long)next, (long long)latest) : refuse("lengths differ, or the spans are not as many as there is room for"));
}

/* The latest end of the spans of a group on a track so far. */
typedef struct {
    int64_t group, end;
    int32_t track, is_used;
} Cover;

/* A hash table of covers; `mask` + 1 places, a power of two, of which at most half are used. */
typedef struct {
    Cover *places;
    uint64_t mask, used;
} Covers;

/* Return the place of a group on a track, which may be free. */
static inline Cover *place_of(const Covers *covers, int32_t track, int64_t group) {
    uint64_t hash = (uint64_t)group * UINT64_C(0x9E3779B97F4A7C15) ^ (uint32_t)track * UINT64_C(0xC2B2AE3D27D4EB4F);
    for (uint64_t at = hash ^ hash / (UINT64_C(1) << 32);; at++) {
        Cover *cover = &covers->places[at & covers->mask];
        if (!cover->is_used || (cover->group == group && cover->track == track))
            return cover;
    }
}

/* Double the places.  Returns -1 without memory. */
static int covers_grow(Covers *covers) {
    Covers larger = {PyMem_RawCalloc(2 * (covers->mask + 1), sizeof(Cover)), 2 * covers->mask + 1, covers->used};
    if (larger.places == NULL)
        return -1;
    for (uint64_t at = 0; at <= covers->mask; at++) {
        const Cover *cover = &covers->places[at];
        if (cover->is_used)
            *place_of(&larger, cover->track, cover->group) = *cover;
    }
    PyMem_RawFree(covers->places);
    *covers = larger;
    return 0;
}

/* Return the cover of a group on a track, a new one if it is new; NULL without memory. */
static inline Cover *cover_of(Covers *covers, int32_t track, int64_t group) {
    Cover *cover = place_of(covers, track, group);
    if (cover->is_used)
        return cover;
    if (2 * ++covers->used > covers->mask) {
        if (covers_grow(covers) < 0)
            return NULL;
        cover = place_of(covers, track, group);
    }
    *cover = (Cover){group, INT64_MIN, track, 1};
    return cover;
}

/* Add a time to a sum, which ends at the largest number. */
static inline void add_capped(int64_t *sum, int64_t time) { *sum = time > INT64_MAX - *sum ? INT64_MAX : *sum + time; }

/* Sum up the calls and times of groups of spans. */
KERNEL_TAKING(tally, READS("track", 4), READS("group", 8), READS("start", 8), READS("duration", 8), READS("own", 8),
              WRITES("calls", 8), WRITES("total", 8), WRITES("self", 8), WRITES("shortest", 8), WRITES("longest", 8)) {
    enum { TRACK, GROUP, START, DURATION, OWN, CALLS, TOTAL, SELF, SHORTEST, LONGEST, COUNT };
    Py_ssize_t rows = a[TRACK].count, groups = a[CALLS].count;
    int valid = 1;
    for (int i = 0; i < COUNT; i++)
        valid = valid && a[i].count == (i < CALLS ? rows : groups);
    enum { PLACES = 16 };
    Covers covers = {valid ? PyMem_RawCalloc(PLACES, sizeof(Cover)) : NULL, PLACES - 1, 0};
    if (covers.places == NULL)
        return valid ? PyErr_NoMemory() : refuse("lengths differ");
    const int32_t *track = a[TRACK].view.buf;
    const int64_t *group = a[GROUP].view.buf, *start = a[START].view.buf, *duration = a[DURATION].view.buf;
    const int64_t *own = a[OWN].view.buf;
    int64_t *calls = a[CALLS].view.buf, *total = a[TOTAL].view.buf, *self = a[SELF].view.buf;
    int64_t *shortest = a[SHORTEST].view.buf, *longest = a[LONGEST].view.buf;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t row = 0; row < rows; row++) {
        int64_t k = group[row], time = duration[row];
        if (k < 0 || k >= groups)
            continue;
        Cover *cover = cover_of(&covers, track[row], k);
        if (cover == NULL) {
            valid = 0;
            break;
        }
        if (time < 0) {
            cover->end = INT64_MAX;
            continue;
        }
        int64_t end = time > INT64_MAX - Py_MAX(start[row], 0) ? INT64_MAX : start[row] + time;
        if (start[row] >= cover->end)
            add_capped(&total[k], time);
        cover->end = Py_MAX(cover->end, end);
        calls[k]++;
        add_capped(&self[k], Py_MAX(own[row], 0));
        shortest[k] = Py_MIN(shortest[k], time);
        longest[k] = Py_MAX(longest[k], time);
    }
    Py_END_ALLOW_THREADS
    PyMem_RawFree(covers.places);
    return valid ? Py_NewRef(Py_None) : PyErr_NoMemory();
}
