"""The kernels in Python and numpy: they stand in where the C extension is missing, and the tests compare both."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from fxtio._native.constants import PayloadWalkEnd, WalkEnd
from fxtio._native.python_json import *
from fxtio._native.python_messages import *
from fxtio._native.python_spans import *
from fxtio.arrays import Array

_STRING = -1
"""The step of a payload's program that stands for a string."""


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
        The number of records, the index after the last one, and why the walk stopped, see `WalkEnd`.
    """
    source = np.ascontiguousarray(words).data.cast("B").cast("Q")
    sizes = [(int(shift), int(mask)) for shift, mask in rules[:, :2]]
    last_type, total, room, here, why = len(rules) - 1, len(source), len(at), start, WalkEnd.END
    indices: list[int] = []
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
        indices.append(here)
        here += length
    count = len(indices)
    at[:count] = indices
    header = words[at[:count]]
    rule = rules[(header & np.uint64(last_type)).astype(np.intp)]
    size[:count] = header >> rule[:, 0] & rule[:, 1]
    kind[:count] = table[(rule[:, 4] + (header >> rule[:, 2] & rule[:, 3])).astype(np.intp)]
    return count, here, why


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


def group_rows(kind: Array, order: Array, begins: Array) -> None:
    """Sort rows by their kinds; rows of a kind stay in order.

    Args:
        kind: the kind of each row (int8).
        order: filled with the numbers of the rows (int64, same length); those of negative kinds come first, mixed.
        begins: filled with where the rows of each kind begin in `order`, for one kind more than there are (int64).

    Raises:
        ValueError: lengths differ, or a kind has no begin.
    """
    if len(order) != len(kind) or not len(begins) or int(kind.max(initial=-1)) >= len(begins) - 1:
        raise ValueError("lengths differ, or a kind has no begin")
    order[:] = np.argsort(np.maximum(kind, -1), kind="stable")
    begins[:] = kind[order].searchsorted(np.arange(len(begins)))


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
        at: filled with the index after every complete head that has a number after it (int64).
        count: filled with the count of each (int64); the numbers of the last chunk may be beyond the end.
        value: filled with the other number of each (int64).

    Returns:
        The number of chunks, and the index after the last one, which may be beyond the end.
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
    """Add up rows of numbers, which follow each other.

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
    """Unroll rows of numbers, each for the next place: list the places with a nonzero number.

    Args:
        numbers: the numbers (uint32).
        at: where each row begins (int64); rows follow each other.
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
    lengths = np.zeros(2 * len(at) + 1, np.int64)  # of what is before each row, and of the row, and so on
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
        stop: for every row, the index after its last word (int64).
        counts: for every row, how many there should be (int64).
        rules: as for `walk`.
        table: as for `walk`.
        at: filled with the index of every header, row by row (int64, room for the sum of `counts`).
        size: filled with every size (int64).
        kind: filled with every kind (int8).
        counted: for every row, filled with how many there are (int64).
        after: for every row, filled with the index after the last one, or -1 if a size was unusable (int64).

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
        # Round n takes the nth record of each row that has n or more; rows with an unusable size leave.
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
    # A row that has left had its records in the first rounds, so the nth one of a row has the place `begins + n`.
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
        The number of records, the index after the last one, and why the walk stopped, see `PayloadWalkEnd`.
    """
    check, value, type_shift, type_mask, more, shift, entry, leave, event, big = head.tolist()
    source, view = words.data, data.data  # views, since many calls may take a few records each
    firsts, lasts, table, steps = begin.data, end.data, programs.data, code.data
    places, sizes = at.data, size.data
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
        places[count], sizes[count] = here, 2 + length // 8
        count += 1
        here += 2 + length // 8
    return count, here, PayloadWalkEnd.END


def _payload_size(view: memoryview, steps: memoryview, program: int, first: int, *, big: bool) -> int:
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


def copy_rows(words: Array, at: Array, size: Array, chosen: Array, out: Array) -> int:
    """Copy the runs of words that are chosen (bool), one after the other, to `out`; return how many words they have.

    A run has `size` words from index `at` on (int64).  ValueError: one is not within the words, or there is no room.
    """
    at, size = at[chosen], size[chosen]
    ends = np.cumsum(size)
    total = int(size.sum())
    if (at < 0).any() or (size < 0).any() or (at + size > len(words)).any() or total > len(out):
        raise ValueError("a run is not within the words, or there is no room")
    out[:total] = words[np.repeat(at - ends + size, size) + np.arange(total)]
    return total


def interleave(out: Array, ends: Array, /, *columns: Array) -> int:
    """Put rows together from columns of byte strings: the string of each column, in the order of the columns.

    Args:
        out: filled with the bytes of all rows (uint8).
        ends: filled with the end of each row in `out` (int64).
        columns: three arrays for each column: bytes (uint8), where the string of each row begins, and its size
            (int64); one string stands for all rows.

    Returns:
        The number of bytes.

    Raises:
        ValueError: lengths differ, a string is not within its bytes, or `out` has no room for all.
    """
    rows, count = len(ends), len(columns) // 3
    start, size = np.zeros((2, rows, count), np.int64)
    for place in range(count):
        data, first, length = columns[3 * place : 3 * place + 3]
        if len(first) != len(length) or len(first) not in (1, rows):
            raise ValueError("lengths differ")
        start[:, place], size[:, place] = first, length
        is_within = (start[:, place] >= 0) & (size[:, place] >= 0) & (size[:, place] <= len(data) - start[:, place])
        if not (is_within | (size[:, place] == 0)).all():
            raise ValueError("a string is not within its buffer, or there is no room for it")
    stop = np.cumsum(size.ravel()).reshape(size.shape)
    if size.size and int(stop[-1, -1]) > len(out):
        raise ValueError("a string is not within its buffer, or there is no room for it")
    for begin in range(0, rows, _ROWS):
        block = slice(begin, begin + _ROWS)
        for place in range(count):
            length = size[block, place]
            within = np.arange(int(length.sum())) - np.repeat(np.cumsum(length) - length, length)
            source = np.repeat(start[block, place], length) + within
            out[np.repeat(stop[block, place] - length, length) + within] = np.asarray(columns[3 * place])[source]
    ends[:] = stop[:, -1] if count else 0
    return int(ends[-1]) if rows else 0


_ROWS = 1024
"""This many rows are put together at once, since indices of all their bytes are needed."""


# ---- kernels without a stand-in: where the C extension is missing, their callers work in another way


def scan_stream(
    data: Array, begin: Array, end: Array, registers: Array, steps: Array, places: Array, mask: int,
    counts: Array, stop: Array, fault: Array, times: Array,
) -> None:  # fmt: skip
    """Count the rows that each block of a byte stream gives, up to its first fault.

    Args:
        data: the bytes (uint8).
        begin: where each block begins (int64).
        end: where it ends (int64).
        registers: the registers at the beginning of each block (uint64, a row each).
        steps: the table of the steps, see `Op` (int64, of shape (steps, 5)).
        places: the first step for each first byte, then for all subtypes of each first byte that has them; -1 for none
            (int64).
        mask: the largest address.
        counts: filled with the number of rows by owner (int64, a row for each block).
        stop: filled with the offset after the last whole record (int64).
        fault: filled with what is wrong there, see `Fault` (uint8).
        times: filled with the sum of what is odd about the times of whole records, see `TimeFault` (uint8).

    Raises:
        ValueError: the steps are not sound, or the arguments do not fit each other.
    """
    raise NotImplementedError


def fill_stream(
    data: Array, begin: Array, stop: Array, registers: Array, steps: Array, places: Array, mask: int,
    base: int, first: Array, columns: tuple[Array | None, ...],
) -> None:  # fmt: skip
    """Read the values of all records of blocks to columns.

    Args:
        data: see `scan_stream`, as for all arguments that are not described here.
        begin: see `data`.
        stop: where each block ends, as `scan_stream` found it (int64).
        registers: see `data`.
        steps: see `data`.
        places: see `data`.
        mask: see `data`.
        base: added to the offsets of records.
        first: the first row of each block by owner (int64, a row for each block).
        columns: filled, those of 1 or 8 bytes for each item; None for one that is not needed.

    Raises:
        ValueError: as for `scan_stream`, or a block does not give the rows that it counted.
    """
    raise NotImplementedError


def encode_stream(
    order: Array, start: int, starts: Array, kinds: Array, registers: Array, steps: Array, mask: int,
    columns: tuple[Array | None, ...], texts: Array, rows: Array, out: Array,
) -> tuple[int, int]:  # fmt: skip
    """Write the records of a block until the output is full.

    Args:
        order: for every record the number of its line (uint8).
        start: the first record to write.
        starts: for every line its first step, or -1 (int64).
        kinds: for every line the kind of its records, or -1 (int64).
        registers: the registers, updated (uint64).
        steps: the table of the steps, see `Op` (int64, of shape (steps, 5)).
        mask: the largest address.
        columns: an array of 1 or 8 bytes for each item, or None for one that no line uses.
        texts: the bytes that offsets of texts refer to (uint8).
        rows: the next row of each owner, updated (int64).
        out: filled (uint8).

    Returns:
        The number of the first record for which there was no room, and how many bytes were written.

    Raises:
        ValueError: the steps are not sound, a value does not fit, or a column or a row of one is missing.
    """
    raise NotImplementedError


def read_plain(
    words: Array, at: Array, size: Array, kind: Array, header: Array, rules: Array, steps: Array, tails: Array,
    strings: Array, strings_since: Array, threads: Array, threads_since: Array, step: Array, track: Array,
    ticks: Array, category: Array, name: Array, tail: Array, owner: Array, argument_name: Array,
    argument_kind: Array, argument_bits: Array, argument_text: Array, first: int,
) -> int:  # fmt: skip
    """Read the events of a batch, with their arguments, if all are of the usual kinds, see `fxtio.fxt.plain`.

    Args:
        words: the words (uint64).
        at: the index of the header of each record (int64).
        size: the size of each record in words (int64).
        kind: the kind of each record (int8).
        header: where the fields of an event's header are, see `fxtio.fxt.plain.header_fields` (uint64).
        rules: where the fields of arguments are, see `fxtio.fxt.plain.argument_rules` (uint64).
        steps: by kind, what events do, see `SpanStep` (int8).
        tails: by kind, the number of words after the arguments, or -1 for what is no event (int8).
        strings: the value of each slot of strings, or -1 (int32).
        strings_since: the row from which on each slot has its value (int64).
        threads: likewise for threads.
        threads_since: likewise.
        step: filled with what each row does, NONE for records that are no events (int8).
        track: filled with the value of the thread, -1 where the row does nothing (int32).
        ticks: filled with the time, 0 where the row does nothing (uint64).
        category: filled with the value of the category, or -1 (int32).
        name: filled with the value of the name, or -1 (int32).
        tail: filled with the word after the arguments, 0 without one (uint64).
        owner: filled with the number of the record of each argument (int64).
        argument_name: filled with the value of each argument's name (int32).
        argument_kind: filled with the kind that the rules have for its type (int32).
        argument_bits: filled with its number, 0 for a text (uint64).
        argument_text: filled with the value of its text, or -1 (int32).
        first: the number of the first record.

    Returns:
        The number of arguments, also those for which there is no room; -1 if an event is not plain.

    Raises:
        ValueError: lengths differ, or the rules do not fit.
    """
    raise NotImplementedError
