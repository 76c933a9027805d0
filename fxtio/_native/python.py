"""The kernels in Python and numpy: what `kernels.c` does, for machines without a compiler and as its oracle."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_RUN = 16
"""After so many records of the same size, look ahead for more of them at once."""


def walk(
    words: Array, start: int, rules: Array, table: Array, at: Array, size: Array, kind: Array
) -> tuple[int, int, int]:
    """Walk records from the word `start` on.

    Args:
        words: the words (uint64).
        start: index of the first header.
        rules: what the headers say, uint64 of shape (types, 5): shift and mask of the size, shift and mask of the
            selector, and where the type's part of `table` begins.  The type is the lowest bits of the header.
        table: kinds by selector (int8).
        at: filled with the index of every header (int64).
        size: filled with every size in words (int64).
        kind: filled with every kind (int8).

    Returns:
        The number of records, the index behind the last one, and why the walk stopped (END, ZERO, PARTIAL, FULL).
    """
    source = np.ascontiguousarray(words).data.cast("B").cast("Q")
    sizes = [(int(shift), int(mask)) for shift, mask in rules[:, :2]]
    last_type, total, room, here, why = len(rules) - 1, len(source), len(at), start, 0
    found: list[int] = []
    same, before = 0, 0  # how many records in a row had the size `before`
    while here < total:
        word = source[here]
        shift, mask = sizes[word & last_type]
        length = word >> shift & mask
        if length == 0 or here + length > total:
            why = 1 if length == 0 else 2
            break
        if len(found) == room:
            why = 3
            break
        if length != before:
            same, before = 0, length
        same += 1
        if same == _RUN:
            same, run = 0, _run(words[here::length], rules, length)[: room - len(found)]
            found.extend(range(here, here + len(run) * length, length))
            here += len(run) * length
            continue
        found.append(here)
        here += length
    count = len(found)
    at[:count] = found
    header = words[at[:count]]
    rule = rules[(header & np.uint64(last_type)).astype(np.intp)]
    size[:count] = header >> rule[:, 0] & rule[:, 1]
    kind[:count] = table[(rule[:, 4] + (header >> rule[:, 2] & rule[:, 3])).astype(np.intp)]
    return count, here, why


def _run(heads: Array, rules: Array, length: int) -> Array:
    """The headers up to the first one of another size; the first is known to have it."""
    window = 2 * _RUN
    while True:
        some = heads[:window]
        rule = rules[(some & np.uint64(len(rules) - 1)).astype(np.intp)]
        other = (some >> rule[:, 0] & rule[:, 1]) != length
        if other.any():
            return some[: int(other.argmax())]
        if len(some) < window:
            return some[:-1] if len(some) > 1 else some  # the last one may go beyond the end
        window *= 8


def gather(words: Array, at: Array, delta: int | Array, out: Array) -> None:
    """Take `words[at + delta]` to `out`; an index beyond either end takes the nearest word.

    Args:
        words: the words (uint64), at least one.
        at: indices (int64).
        delta: what to add to each: one int, or int64 of the same length.
        out: filled (uint64, same length).
    """
    index: Array = at + delta
    words.take(index, out=out, mode="clip")


def walk_many(
    words: Array, first: Array, stop: Array, counts: Array, rules: Array, table: Array,
    at: Array, size: Array, kind: Array, found: Array, after: Array,
) -> int:  # fmt: skip
    """Walk the small records inside of records.

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
        found: for every row, filled with how many were found (int64).
        after: for every row, filled with the index behind the last one, or -1 where one had no usable size (int64).

    Returns:
        How many were found in all.
    """
    after[:] = first
    found[:] = 0
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
        found[rows] += 1
        number += 1
        rows = rows[counts[rows] > number]
    begins = np.cumsum(found) - found
    for depth, (members, here, facts) in enumerate(rounds):
        place = begins[members] + depth
        at[place], size[place], kind[place] = here, facts[0], facts[1]
    return int(found.sum())
