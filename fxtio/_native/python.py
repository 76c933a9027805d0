"""The kernels in Python and numpy: they stand in where the C extension is missing, and the tests compare both."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any

import numpy as np

from fxtio._native.constants import MAX_SEARCH, UNWIND, PayloadWalkEnd, SliceState, SpanFault, SpanStep, WalkEnd
from fxtio._native.python_copying import copy_rows, interleave

Array = np.ndarray[Any, Any]

_STRING = -1
"""The step of a payload's program that stands for a string."""

_RUN = 16
"""After this many records of the same size, many headers are examined at once."""


def walk(
    words: Array, start: int, rules: Array, table: Array, at: Array, size: Array, kind: Array
) -> tuple[int, int, int]:
    """Walk records from the word `start` on.

    Args:
        words: the words (uint64).
        start: index of the first header.
        rules: how headers are read, uint64 of shape (types, 5): shift and mask of the size, shift and mask of the
            selector, and the index in `table` for selector 0.  The type is the lowest bits of the header.
        table: kinds by selector (int8).
        at: filled with the index of every header (int64).
        size: filled with every size in words (int64).
        kind: filled with every kind (int8).

    Returns:
        The number of records, the index behind the last one, and why the walk stopped, see `WalkEnd`.
    """
    source = np.ascontiguousarray(words).data.cast("B").cast("Q")
    sizes = [(int(shift), int(mask)) for shift, mask in rules[:, :2]]
    last_type, total, room, here, why = len(rules) - 1, len(source), len(at), start, WalkEnd.END
    indices: list[int] = []
    same, before = 0, 0  # how many records in a row had the size `before`
    while here < total:
        word = source[here]
        shift, mask = sizes[word & last_type]
        length = word >> shift & mask
        if length == 0 or here + length > total:
            why = WalkEnd.ZERO if length == 0 else WalkEnd.PARTIAL
            break
        if len(indices) == room:
            why = WalkEnd.FULL
            break
        if length != before:
            same, before = 0, length
        same += 1
        if same == _RUN:
            same, run = 0, _run(words[here::length], rules, length)[: room - len(indices)]
            indices.extend(range(here, here + len(run) * length, length))
            here += len(run) * length
            continue
        indices.append(here)
        here += length
    count = len(indices)
    at[:count] = indices
    header = words[at[:count]]
    rule = rules[(header & np.uint64(last_type)).astype(np.intp)]
    size[:count] = header >> rule[:, 0] & rule[:, 1]
    kind[:count] = table[(rule[:, 4] + (header >> rule[:, 2] & rule[:, 3])).astype(np.intp)]
    return count, here, why


def _run(heads: Array, rules: Array, length: int) -> Array:
    """Return the headers up to the first of another size.  The first header is of this size."""
    window = 2 * _RUN
    while True:
        headers = heads[:window]
        rule = rules[(headers & np.uint64(len(rules) - 1)).astype(np.intp)]
        differs = (headers >> rule[:, 0] & rule[:, 1]) != length
        if differs.any():
            return headers[: int(differs.argmax())]
        if len(headers) < window:
            return headers[:-1] if len(headers) > 1 else headers  # the last record may go beyond the end
        window *= 8


def gather(words: Array, at: Array, delta: int | Array, out: Array) -> None:
    """Copy `words[at + delta]` to `out`; an index beyond either end takes the nearest word.

    Args:
        words: the words (uint64), at least one.
        at: indices (int64).
        delta: what to add to each: one int, or int64 of the same length.
        out: filled (uint64, same length).
    """
    index: Array = at + delta
    words.take(index, out=out, mode="clip")


def walk_chunks(
    numbers: Array, start: int, size: int, count_place: int, value_place: int, at: Array, count: Array, value: Array
) -> tuple[int, int]:
    """Walk chunks that begin with a head, which has the count of the numbers that follow it.

    Args:
        numbers: the numbers (uint32).
        start: index of the first head.
        size: numbers of a head.
        count_place: the place of the count in the head.
        value_place: the place of another number in the head, which is copied.
        at: filled with the index behind every complete head that has a number behind it (int64).
        count: filled with the count of each (int64); the numbers of the last chunk may lie beyond the end.
        value: filled with the other number of each (int64).

    Returns:
        The number of chunks, and the index behind the last one, which may lie beyond the end.
    """
    source = np.ascontiguousarray(numbers).data
    stop, room, index = len(source) - size, min(len(at), len(count), len(value)), start
    indices: list[int] = []
    while index < stop and len(indices) < room:
        indices.append(index)
        index += size + source[index + count_place]
    heads = np.array(indices, np.int64)
    chunks = len(heads)
    at[:chunks], count[:chunks], value[:chunks] = (
        heads + size,
        numbers[heads + count_place],
        numbers[heads + value_place],
    )
    return chunks, index


def sum_rows(numbers: Array, at: Array, count: Array) -> tuple[int, int, int]:
    """Add up rows of numbers, which lie behind each other.

    Args:
        numbers: the numbers (uint32).
        at: where each row begins (int64).
        count: how many numbers each has (int64).

    Returns:
        The sum, the count of numbers other than zero, and the count of rows without numbers or with a zero at an end.

    Raises:
        ValueError: a row begins in the one before it, or goes beyond the numbers.
    """
    values = _row_values(numbers, at, count)
    has_values = count > 0
    firsts, lasts = numbers[at[has_values]], numbers[(at + count - 1)[has_values]]
    padded = len(at) - int(np.count_nonzero((firsts != 0) & (lasts != 0)))
    return int(values.sum(dtype=np.uint64)), int(np.count_nonzero(values)), padded


def unroll(numbers: Array, at: Array, count: Array, first: Array, step: int, places: Array, hits: Array) -> int:
    """Unroll rows of numbers, each for the place behind that of the one before: list the places with a nonzero number.

    Args:
        numbers: the numbers (uint32).
        at: where each row begins (int64); rows lie behind each other.
        count: how many numbers each has (int64).
        first: the place of each row's first number (int64).
        step: the distance of two places.
        places: filled with the places of numbers other than zero (int64); sums wrap around.
        hits: filled with these numbers (uint32).

    Returns:
        How many were listed: no more than there is room for.

    Raises:
        ValueError: a row begins in the one before it, or goes beyond the numbers.
    """
    values = _row_values(numbers, at, count, first)
    has_values = count > 0
    first, last = first[has_values], (first + (count - 1) * step)[has_values]
    unrolled = np.full(len(values), step, np.int64)  # the difference to the place before, then the place
    unrolled[(np.cumsum(count) - count)[has_values]] = first - np.concatenate([[0], last[:-1]])[: len(first)]
    np.cumsum(unrolled, out=unrolled)
    nonzero = values != 0
    if not nonzero.all():
        unrolled, values = unrolled[nonzero], values[nonzero]
    listed = min(len(values), len(places), len(hits))
    places[:listed], hits[:listed] = unrolled[:listed], values[:listed]
    return listed


def _row_values(numbers: Array, at: Array, count: Array, *others: Array) -> Array:
    """Return the numbers of all rows, after checking the rows."""
    if any(len(other) != len(at) for other in (count, *others)):
        raise ValueError("lengths differ")
    before = np.concatenate([[0], (at + count)[:-1]])[: len(at)]
    if ((at < before) | (at > len(numbers)) | (count < 0) | (count > len(numbers) - at)).any():
        raise ValueError("a row begins in the one before it, or goes beyond the numbers")
    lengths = np.zeros(2 * len(at) + 1, np.int64)  # of what lies before each row, and of the row, and so on
    lengths[:-1:2], lengths[1::2], lengths[-1] = at - before, count, len(numbers) - int((at + count)[-1:].sum())
    values: Array = numbers[np.repeat(np.arange(len(lengths)) % 2 == 1, lengths)]
    return values


def walk_many(
    words: Array, first: Array, stop: Array, counts: Array, rules: Array, table: Array,
    at: Array, size: Array, kind: Array, counted: Array, after: Array,
) -> int:  # fmt: skip
    """Walk small records inside of records.

    Args:
        words: the words (uint64).
        first: for every row, the index of its first small record (int64).
        stop: for every row, the index behind its last word (int64).
        counts: for every row, how many there should be (int64).
        rules: as for `walk`.
        table: as for `walk`.
        at: filled with the index of every header, row by row (int64, room for the sum of `counts`).
        size: filled with every size (int64).
        kind: filled with every kind (int8).
        counted: for every row, filled with how many there are (int64).
        after: for every row, filled with the index behind the last one, or -1 if a size was unusable (int64).

    Returns:
        How many there are in all rows.
    """
    after[:] = first
    counted[:] = 0
    last_type = np.uint64(len(rules) - 1)
    rounds: list[tuple[Array, Array, Array]] = []
    rows = np.flatnonzero(counts > 0)
    number = 0
    while len(rows):
        here = after[rows]
        inside = here < stop[rows]
        header = np.take(words, here, mode="clip")
        rule = rules[(header & last_type).astype(np.intp)]
        length = np.where(inside, header >> rule[:, 0] & rule[:, 1], 0).astype(np.int64)
        good = (length > 0) & (here + length <= stop[rows])
        after[rows[~good]] = -1
        rows, here, header, length, rule = rows[good], here[good], header[good], length[good], rule[good]
        selected = (rule[:, 4] + (header >> rule[:, 2] & rule[:, 3])).astype(np.intp)
        rounds.append((rows, here, np.stack([length, table[selected].astype(np.int64)])))
        after[rows] = here + length
        counted[rows] += 1
        number += 1
        rows = rows[counts[rows] > number]
    begins = np.cumsum(counted) - counted
    for depth, (members, here, facts) in enumerate(rounds):
        place = begins[members] + depth
        at[place], size[place], kind[place] = here, facts[0], facts[1]
    return int(counted.sum())


def walk_payloads(
    words: Array, data: Array, head: Array, begin: Array, end: Array, programs: Array, code: Array,
    at: Array, size: Array, start: int, latest: int,
) -> tuple[int, int, int]:  # fmt: skip
    """Walk records of two words, followed by a payload whose size depends on the address in the record.

    Args:
        words: the words (uint64): of each record a time, then a header.
        data: the same words as bytes in the order of the file (uint8).
        head: how a header is read (uint64): mask and value of what every header holds; shift and mask of the type;
            shift of the bit for a payload; shift of the address; the types entry, exit and event; and whether lengths
            are big-endian.
        begin: where ranges of addresses begin (uint64, ascending).
        end: where they end.
        programs: for every range the program of entries, then that of exits: an index into `code`, or -1 (int32).
        code: programs, each ended by a 0: sizes in bytes, or -1 for two bytes of length and as many bytes as they say
            (int32).  The program of events is at 0.  Each value is padded to 4 bytes, the whole to 8.
        at: filled with the index of every record (int64).
        size: filled with every size in words (int64).
        start: index of the first record.
        latest: stop before a record of a later time.

    Returns:
        The number of records, the index behind the last one, and why the walk stopped, see `PayloadWalkEnd`.
    """
    check, value, type_shift, type_mask, more, shift, entry, leave, event, big = head.tolist()
    source, view = words.tolist(), data.data
    firsts, lasts, table, steps = begin.tolist(), end.tolist(), programs.tolist(), code.tolist()
    here, count, total, room = start, 0, len(source), len(at)

    while here < total:
        if total - here < 2:
            return count, here, PayloadWalkEnd.PARTIAL
        word = source[here + 1]
        if word & check != value:
            return count, here, PayloadWalkEnd.BAD
        if source[here] > latest:
            return count, here, PayloadWalkEnd.LATER
        if count == room:
            return count, here, PayloadWalkEnd.FULL
        length = 0
        if word >> more & 1:
            kind, program = word >> type_shift & type_mask, -1
            if kind == event:
                program = 0
            elif kind in (entry, leave):
                index = bisect_right(firsts, word >> shift) - 1
                if index >= 0 and word >> shift < lasts[index]:
                    program = table[2 * index + (kind == leave)]
            if program < 0:
                return count, here, PayloadWalkEnd.UNKNOWN
            length = _payload_size(view, steps, program, here * 8 + 16, big=bool(big))
            if length < 0:
                return count, here, PayloadWalkEnd.PARTIAL
        at[count], size[count] = here, 2 + length // 8
        count += 1
        here += 2 + length // 8
    return count, here, PayloadWalkEnd.END


def _payload_size(view: memoryview, steps: list[int], program: int, first: int, *, big: bool) -> int:
    """Return the size in bytes of the payload at `first`, padding included; -1 if it goes beyond the end."""
    place = first
    while steps[program]:
        step = steps[program]
        if step == _STRING:
            if len(view) - place < 2:
                return -1
            step = 2 + int.from_bytes(view[place : place + 2], "big" if big else "little")
        if step > len(view) - place:
            return -1
        place += (step + 3) // 4 * 4
        program += 1
    padded = (place - first + 7) // 8 * 8
    return padded if padded <= len(view) - first else -1


def pair(
    step: Array, depth: Array, address: Array, stack_depth: Array, stack_address: Array, stack_begin: Array,
    begin: Array, end: Array, how: Array, height: int,
) -> tuple[int, int]:  # fmt: skip
    """Pair the entries of calls with their exits.

    An entry ends the calls that are open at its own or a greater depth.  An exit ends the call at its depth if this has
    its address, or else the innermost call at a greater depth with its address, and all calls inside of it.  If there
    is no such call, it ends all calls at its own or a greater depth, and is a call without an entry itself.

    Args:
        step: for every record 1 for an entry, -1 for an exit, 0 for neither (int8).
        depth: the depths (int64).
        address: the addresses (uint64), which are equal in entry and exit of a call.
        stack_depth: the depths of the open calls (int64), `height` of them; changed, with room for more.
        stack_address: likewise their addresses (uint64).
        stack_begin: likewise the rows of their entries (int64); the caller numbers those of earlier batches below 0.
        begin: filled with the row of every call's entry (int64), in the order in which they end.
        end: filled with the row that ended it (int64).
        how: filled with 0 for a complete call, 1 for a call without an exit, 2 for a call without an entry (uint8).
        height: how many calls are open.

    Returns:
        How many calls ended, and how many are open.
    """
    stack = list(zip(stack_depth[:height].tolist(), stack_address[:height].tolist(), stack_begin[:height].tolist(),
                     strict=True))  # fmt: skip
    calls: list[tuple[int, int, int]] = []
    records = zip(step.tolist(), depth.tolist(), address.tolist(), strict=True)
    for row, (direction, level, target) in enumerate(records):
        if direction == 0:
            continue
        outer = len(stack)
        if stack and stack[-1][0] >= level:
            outer = bisect_left(stack, level, key=_depth)
        left, whole = outer, False
        if direction < 0 and outer < len(stack):
            found = outer if stack[outer][:2] == (level, target) else _innermost(stack, outer, level, target)
            left, whole = (outer, False) if found < 0 else (found, True)
        calls += [(entered, row, 1) for _, _, entered in reversed(stack[left + whole :])]
        if direction > 0:
            stack[left:] = [(level, target, row)]
        else:
            calls.append((stack[left][2], row, 0) if whole else (row, row, 2))
            del stack[left:]
    for number, column in enumerate((begin, end, how)):
        column[: len(calls)] = [call[number] for call in calls]
    for number, column in enumerate((stack_depth, stack_address, stack_begin)):
        column[: len(stack)] = np.array([frame[number] for frame in stack], column.dtype)
    return len(calls), len(stack)


def _depth(call: tuple[int, int, int]) -> int:
    return call[0]


def _innermost(stack: list[tuple[int, int, int]], outer: int, level: int, target: int) -> int:
    """Return the index of the innermost call from `outer` on with an address and another depth, or -1."""
    for index in range(len(stack) - 1, outer - 1, -1):
        if stack[index][0] != level and stack[index][1] == target:
            return index
    return -1


def distinct(values: Array, codes: Array, first: Array, seed: int) -> int:
    """Number the distinct values in the order in which they come.

    Args:
        values: the values (uint64).
        codes: filled with each row's number (int32).
        first: filled with the first row of each distinct value (int64, room for as many as there are).
        seed: a number that nobody can guess, for hashing.

    Returns:
        The number of distinct values.
    """
    del seed  # sorting needs no hash
    _, rows, inverse = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(rows)
    number = np.empty(len(rows), np.int32)
    number[order] = np.arange(len(rows), dtype=np.int32)
    codes[:] = number[inverse]
    first[: len(rows)] = rows[order]
    return len(rows)


def late(track: Array, time: Array, latest: Array, rows: Array) -> int:
    """List the rows that are earlier than one before them on their track.

    Args:
        track: the track of each row (int32); rows of a track that `latest` does not have are left out.
        time: the times (uint64).
        latest: the latest time of each track so far (uint64); changed.
        rows: filled with the rows that are listed (int64), as far as there is room.

    Returns:
        How many rows are earlier, also those for which there is no room.
    """
    times, count = latest.tolist(), 0
    for row, (number, when) in enumerate(zip(track.tolist(), time.tolist(), strict=True)):
        if not 0 <= number < len(times):
            continue
        if when >= times[number]:
            times[number] = when
        else:
            if count < len(rows):
                rows[count] = row
            count += 1
    latest[:] = times
    return count


def nest(
    step: Array, track: Array, begin: Array, end: Array, key: Array, top: Array, marked: Array, below: Array,
    depth: Array, fault_kind: Array, fault_row: Array, fault_other: Array, counts: Array, deepest: int,
) -> int:  # fmt: skip
    """Examine how the spans of each track nest.  The rows of a track are in the order of time.

    A complete span is open until its end, and a span that begins until an END row.  A complete span that ends behind
    the complete span in which it begins is left out.

    Args:
        step: what each row does, see `SpanStep` (int8).
        track: the track of each row (int32); rows of a track that `top` does not have are left out.
        begin: the time of each row (uint64).
        end: the end of each complete span (uint64).
        key: stands for the name of each row of BEGIN and END (uint64); 0 is equal to every name.
        top: -1 for each track (int64); filled with the row of its innermost open span, -1 without any.
        marked: whether the last row of each track is an instant (int8); changed.
        below: filled with the row of the next outer span for each row of `top`, and so on, with that of the begin for
            each END row, and with that of the innermost open span for each FLOW row; -1 for none (int64).
        depth: filled with the number of open spans for the rows of `top`, and so on (int64).
        fault_kind: filled with faults, see `SpanFault` (int8), as far as there is room.
        fault_row: filled with the rows that have them (int64).
        fault_other: filled with the rows of the other spans, -1 for none (int64).
        counts: the number of faults of each kind (int64); changed.
        deepest: more open spans than this are a fault.

    Returns:
        How many faults are listed.

    Raises:
        ValueError: lengths differ, or a stack is not empty.
    """
    columns = (track, begin, end, key, below, depth)
    if any(len(column) != len(step) for column in columns) or len(marked) != len(top) or (top != -1).any():
        raise ValueError("lengths differ, or a stack is not empty")
    stacks = _Stacks(begin.tolist(), end.tolist(), key.tolist(), step.tolist(), deepest)
    stacks.rows = [[] for _ in top]
    for row, (what, number) in enumerate(zip(stacks.step, track.tolist(), strict=True)):
        if not 0 <= number < len(top):
            continue
        if what == SpanStep.INSTANT:
            marked[number] = 1
        elif what == SpanStep.FLOW:
            stacks.flow(row, stacks.rows[number], bool(marked[number]))
            below[row] = stacks.rows[number][-1] if stacks.rows[number] else -1
        elif what in (SpanStep.BEGIN, SpanStep.END, SpanStep.COMPLETE):
            begin_row = stacks.span(row, stacks.rows[number])
            if what == SpanStep.END:
                below[row] = begin_row
            marked[number] = 0
    for number, rows in enumerate(stacks.rows):
        top[number] = rows[-1] if rows else -1
        below[rows], depth[rows] = [-1, *rows[:-1]][: len(rows)], np.arange(1, len(rows) + 1)
    for kind, _, _ in stacks.faults:
        counts[kind] += 1
    listed = stacks.faults[: min(len(fault_kind), len(fault_row), len(fault_other))]
    for place, column in enumerate((fault_kind, fault_row, fault_other)):
        column[: len(listed)] = [fault[place] for fault in listed]
    return len(listed)


def match(
    step: Array, track: Array, time: Array, end: Array, key: Array, level: Array, top: Array, parent: Array,
    depth: Array, closer: Array, inner: Array, state: Array, kept: Array, carried: int,
) -> tuple[int, int]:  # fmt: skip
    """Pair the begins and ends of spans, and find the span around each row.  The rows of a track are in order of time.

    A span is open from its begin on.  It is closed if its end is known: that of a complete span is from the start, that
    of another one from the END row on.  The stack of a track has the spans that are open, and closed ones until a row
    comes that is not before their end.

    Args:
        step: what each row does, see `SpanStep` (int8).
        track: the track of each row (int32); rows of a track that `top` does not have are left out.
        time: the time of each row (int64).
        end: the end of each complete span (int64); filled with that of the spans that get one.
        key: an END closes the innermost open span with its key, or any if its key is 0 (uint64).
        level: the depth that a row demands, or -1 (int32): a span ends all spans of this depth or deeper before it
            begins, likewise a RESET; an END the deeper ones, or with `UNWIND` those within its span.
        top: -1 for each track (int64); filled with the row of its innermost span on the stack, -1 without any.
        parent: filled with the span around each span, instant and flow, and for each END with the span that it closes;
            -1 without any (int64).
        depth: filled with the number of spans around each span (int32).
        closer: filled with the END row of each span that has one, or -1 (int64).
        inner: the time within other spans of the first `carried` rows, 0 for all others (int64 ns); filled.
        state: the state of each span if it is closed, or the one that an END gives to its span, 0 for none (int8);
            changed for other spans, see `SliceState`.
        kept: 0 for each row (int8); set to 1 for the spans that are on a stack in the end.
        carried: so many rows at the beginning are spans on the stacks of an earlier part, the outermost first.

    Returns:
        The number of ENDs without a span, and the number of complete spans that begin together with a shorter one that
        comes before them: such rows should be exchanged.

    Raises:
        ValueError: lengths differ, or a stack is not empty.
    """
    columns = (track, time, end, key, level, parent, depth, closer, inner, state, kept)
    if any(len(column) != len(step) for column in columns) or (top != -1).any() or not 0 <= carried <= len(step):
        raise ValueError("lengths differ, or a stack is not empty")
    matching = _Matching([column.tolist() for column in (step, time, end, key, level, inner, state)], len(top))
    for row, number in enumerate(track.tolist()):
        if 0 <= number < len(top):
            matching.enter(row, number, is_carried=row < carried)
    filled = (end, parent, depth, closer, inner, state)
    times_within = [(each + 2**63) % 2**64 - 2**63 for each in matching.inner]  # hostile spans may sum up to any number
    values = (matching.end, matching.parent, matching.depth, matching.closer, times_within, matching.state)
    for column, numbers in zip(filled, values, strict=True):
        column[:] = numbers
    top[:] = matching.top
    for row in matching.top:
        while row >= 0:
            kept[row] = 1
            row = matching.parent[row]
    return matching.unmatched, matching.child_first


def tally(
    track: Array, group: Array, start: Array, duration: Array, own: Array, calls: Array, total: Array, self: Array,
    shortest: Array, longest: Array,
) -> None:  # fmt: skip
    """Sum up the calls and times of groups of spans that nest.  The rows of a track are in the order of begins.

    Args:
        track: the track of each row (int32).
        group: the group of each row (int64); rows of groups that `calls` does not have are left out.
        start: the begin of each row (int64).
        duration: the length of each row (int64); a negative one lasts longer than all rows, and is not summed up.
        own: the time of each row without that of the spans within it (int64).
        calls: the number of rows of each group (int64); increased.
        total: the time of each group (int64), without that of rows within another row of the group on the track;
            increased.  All sums end at the largest number.
        self: the sum of `own` of each group (int64); increased.
        shortest: the least duration of each group (int64); lowered.
        longest: the greatest duration of each group (int64); raised.

    Raises:
        ValueError: lengths differ.
    """
    rows = any(len(column) != len(track) for column in (group, start, duration, own))
    if rows or any(len(column) != len(calls) for column in (total, self, shortest, longest)):
        raise ValueError("lengths differ")
    sums = [column.tolist() for column in (calls, total, self, shortest, longest)]
    covers: dict[tuple[int, int], int] = {}
    largest = 2**63 - 1
    for place, number, begin, time, rest in zip(
        *(column.tolist() for column in (track, group, start, duration, own)), strict=True
    ):
        if not 0 <= number < len(calls):
            continue
        if time < 0:
            covers[place, number] = largest
            continue
        cover = covers.get((place, number), -largest - 1)
        if begin >= cover:
            sums[1][number] = min(sums[1][number] + time, largest)
        covers[place, number] = max(cover, min(begin + time, largest))
        sums[0][number] += 1
        sums[2][number] = min(sums[2][number] + max(rest, 0), largest)
        sums[3][number] = min(sums[3][number], time)
        sums[4][number] = max(sums[4][number], time)
    for column, values in zip((calls, total, self, shortest, longest), sums, strict=True):
        column[:] = values


class _Matching:
    """The columns of `match` as lists, and the stack of each track."""

    def __init__(self, columns: list[list[int]], tracks: int) -> None:
        self.step, self.time, self.end, self.key, self.level, self.inner, self.state = columns
        self.parent, self.closer = [-1] * len(self.step), [-1] * len(self.step)
        self.depth, self.top = [0] * len(self.step), [-1] * tracks
        self.unmatched = self.child_first = 0

    def enter(self, row: int, track: int, *, is_carried: bool) -> None:
        """Let a row change the stack of its track."""
        step, time, level = self.step[row], self.time[row], self.level[row]
        if step in (SpanStep.BEGIN, SpanStep.COMPLETE):
            if not is_carried:
                self.top[track] = self._before(self.top[track], time, level)
            self._push(row, track, is_carried=is_carried)
        elif step == SpanStep.END:
            self.top[track] = self._before(self.top[track], time, level + 1 if level >= 0 else -1)
            self._close(row, track)
        elif step == SpanStep.RESET:
            self.top[track] = self._before(self.top[track], time, level)
        elif step in (SpanStep.INSTANT, SpanStep.FLOW):
            self.top[track] = self._settled(self.top[track], time - 1)  # a flow may end with its span
            self.parent[row] = self._around(self.top[track], time, step == SpanStep.FLOW)

    def _is_closed(self, row: int) -> bool:
        return self.step[row] == SpanStep.COMPLETE or self.closer[row] >= 0

    def _before(self, stack: int, time: int, level: int) -> int:
        """Return the stack without the spans that end before a row of this time or level."""
        if level < 0:
            return self._settled(stack, time)
        while stack >= 0 and self.depth[stack] >= level:
            self._cut(stack, time)
            stack = self.parent[stack]
        return stack

    def _cut(self, span: int, time: int) -> None:
        """End a span without an end of its own."""
        if not self._is_closed(span):
            self.end[span], self.state[span] = time, SliceState.OPEN
            self._add_to_parent(span)

    def _settled(self, stack: int, time: int) -> int:
        """Return the stack without the closed spans on top of it that do not last longer than this."""
        while stack >= 0 and self._is_closed(stack) and self.end[stack] <= time:
            stack = self.parent[stack]
        return stack

    def _push(self, row: int, track: int, *, is_carried: bool) -> None:
        top = self.top[track]
        self.parent[row], self.depth[row] = top, 0 if top < 0 else self.depth[top] + 1
        self.top[track] = row
        if self.step[row] != SpanStep.COMPLETE or is_carried:
            return
        if top >= 0 and self.step[top] == SpanStep.COMPLETE and self.level[row] < 0:
            self.child_first += self.time[top] == self.time[row] and self.end[top] < self.end[row]
        self._add_to_parent(row)

    def _add_to_parent(self, row: int) -> None:
        """Count the time of a span whose end is known now for the span around it."""
        outer, end = self.parent[row], self.end[row]
        if outer < 0:
            return
        if self._is_closed(outer) and self.end[outer] < end:
            self.state[row] = SliceState.OVERLAPPING
            end = max(self.end[outer], self.time[row])
        self.inner[outer] += end - self.time[row]

    def _close(self, row: int, track: int) -> None:
        top, time = self.top[track], self.time[row]
        span, inside = self._open_span(top, self.key[row])
        if span < 0:
            self.unmatched += 1
            return
        self.parent[row], self.closer[span], self.end[span] = span, row, time
        self.state[span] = self.state[row] or self.state[span]
        while self.level[row] == UNWIND and top != span:
            self._cut(top, time)
            self.top[track] = top = self.parent[top]
        if inside >= 0 and self._is_closed(inside) and self.end[inside] > time:
            self.state[inside] = SliceState.OVERLAPPING
            self.inner[span] -= self.end[inside] - max(time, self.time[inside])
        self._add_to_parent(span)
        if span == top:
            self.top[track] = self.parent[span]

    def _open_span(self, top: int, key: int) -> tuple[int, int]:
        """Return the innermost open span with a key, and the span that is on the stack next to it, each -1 for none."""
        span, inside = top, -1
        for _ in range(MAX_SEARCH):
            if span < 0 or (not self._is_closed(span) and key in (0, self.key[span])):
                return span, inside
            span, inside = self.parent[span], span
        return -1, -1

    def _around(self, stack: int, time: int, is_flow: bool) -> int:
        """Return the innermost span that has not ended at this time; for a flow, one that ends now counts."""
        for _ in range(MAX_SEARCH):
            if stack < 0 or is_flow or not self._is_closed(stack) or self.end[stack] > time:
                return stack
            stack = self.parent[stack]
        return -1


class _Stacks:
    """The stacks of open spans of `nest`, and the faults so far: kind, row and other row of each."""

    def __init__(self, begin: list[int], end: list[int], key: list[int], step: list[int], deepest: int) -> None:
        self.begin, self.end, self.key, self.step, self.deepest = begin, end, key, step, deepest
        self.rows: list[list[int]] = []
        self.faults: list[tuple[int, int, int]] = []

    def span(self, row: int, stack: list[int]) -> int:
        """Let a row that is a span, or the begin or the end of one, change the stack of its track.

        Returns:
            The row of the begin that a row of END closes, -1 for none.
        """
        what, time = self.step[row], self.begin[row]
        if what == SpanStep.COMPLETE and self.end[row] < time:
            return -1
        self._pop_until(stack, time)
        top = stack[-1] if stack else -1
        if what == SpanStep.END:
            return self._end(row, stack)
        is_inside = top < 0 or self.step[top] != SpanStep.COMPLETE or what == SpanStep.BEGIN
        if is_inside or self.end[top] >= self.end[row]:
            stack.append(row)
            if len(stack) > self.deepest:
                self.faults.append((SpanFault.DEEP, row, top))
        else:
            kind = SpanFault.CHILD_FIRST if self.begin[top] == time else SpanFault.OVERLAP
            self.faults.append((kind, row, top))
        return -1

    def _pop_until(self, stack: list[int], time: int) -> None:
        while stack and self.step[stack[-1]] == SpanStep.COMPLETE and self.end[stack[-1]] <= time:
            stack.pop()

    def _end(self, row: int, stack: list[int]) -> int:
        place = len(stack) - 1
        while place >= 0 and self.step[stack[place]] == SpanStep.COMPLETE:
            place -= 1
        if place < 0:
            self.faults.append((SpanFault.UNMATCHED, row, stack[-1] if stack else -1))
            return -1
        if place < len(stack) - 1:
            self.faults.append((SpanFault.OVERLAP, row, stack[-1]))
        if self.key[row] not in (0, self.key[stack[place]]):
            self.faults.append((SpanFault.NAME, row, stack[place]))
        begin_row = stack[place]
        del stack[place:]
        outer = stack[-1] if stack else -1
        if outer >= 0 and self.step[outer] == SpanStep.COMPLETE and self.end[outer] < self.begin[row]:
            self.faults.append((SpanFault.OVERLAP, row, outer))
        return begin_row

    def flow(self, row: int, stack: list[int], is_marked: bool) -> None:
        """Let a row that is an arrow look for the span that encloses it."""
        if is_marked:
            self.faults.append((SpanFault.ON_INSTANT, row, -1))
            return
        while stack and self.step[stack[-1]] == SpanStep.COMPLETE and self.end[stack[-1]] < self.begin[row]:
            stack.pop()
        if not stack:
            self.faults.append((SpanFault.NO_SPAN, row, -1))


__all__ = [
    "copy_rows",
    "distinct",
    "gather",
    "interleave",
    "late",
    "match",
    "nest",
    "pair",
    "sum_rows",
    "tally",
    "unroll",
    "walk",
    "walk_chunks",
    "walk_many",
    "walk_payloads",
]
