"""The kernels that nothing stands in for here: where the C extension is missing, their callers work in another way.

The functions are there for their signatures and documents, and raise NotImplementedError.
"""

from __future__ import annotations

from fxtio.arrays import Array


def scan_stream(
    data: Array, begin: Array, end: Array, registers: Array, steps: Array, entry: Array, jumps: Array, mask: int,
    counts: Array, stop: Array, fault: Array, late: Array,
) -> None:  # fmt: skip
    """Count the rows of blocks, see `fxtio.codec.stream.kernels.Kernels.scan`.

    Args:
        data: the bytes (uint8).
        begin: where each block begins (int64).
        end: where it ends (int64).
        registers: the registers at the beginning of each block (uint64, a row each).
        steps: the table of the steps, see `Op` (int64, of shape (steps, 5)).
        entry: the first step for each first byte, or -1 (int64).
        jumps: the steps for subtypes, or -1 (int64).
        mask: the largest address.
        counts: filled with the number of rows by owner (int64, a row for each block).
        stop: filled with the offset behind the last whole record (int64).
        fault: filled with what is wrong there, see `Fault` (uint8).
        late: filled with 1 where a time does not fit in 63 bits, or else with 0 (uint8).

    Raises:
        ValueError: the steps are not sound, or the arguments do not fit each other.
    """
    raise NotImplementedError


def fill_stream(
    data: Array, begin: Array, stop: Array, registers: Array, steps: Array, entry: Array, jumps: Array, mask: int,
    base: int, first: Array, columns: tuple[Array | None, ...],
) -> None:  # fmt: skip
    """Read blocks to columns, see `fxtio.codec.stream.kernels.Kernels.fill`.

    Args:
        data: as for `scan_stream`, likewise `begin`, `registers`, `steps`, `entry`, `jumps` and `mask`.
        begin: see `data`.
        stop: where each block ends, as `scan_stream` found it (int64).
        registers: see `data`.
        steps: see `data`.
        entry: see `data`.
        jumps: see `data`.
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
    """Write the records of a block until the output is full, see `fxtio.codec.stream.kernels.Kernels.encode`.

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
    """Read the events of a batch and their arguments if all are plain, see `fxtio.fxt.plain`.

    Args:
        words: the words (uint64).
        at: the index of the header of each record (int64).
        size: the size of each record in words (int64).
        kind: the kind of each record (int8).
        header: where the fields of an event's header lie, see `fxtio.fxt.plain.header_fields` (uint64).
        rules: where the fields of arguments lie, see `fxtio.fxt.plain.argument_rules` (uint64).
        steps: by kind, what events do, see `SpanStep` (int8).
        tails: by kind, the number of words behind the arguments, or -1 for what is no event (int8).
        strings: the value of each slot of strings, or -1 (int32).
        strings_since: the row from which on each slot has its value (int64).
        threads: likewise for threads.
        threads_since: likewise.
        step: filled with what each row does, NONE for records that are no events (int8).
        track: filled with the value of the thread, -1 where the row does nothing (int32).
        ticks: filled with the time, 0 where the row does nothing (uint64).
        category: filled with the value of the category, or -1 (int32).
        name: filled with the value of the name, or -1 (int32).
        tail: filled with the word behind the arguments, 0 without one (uint64).
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
