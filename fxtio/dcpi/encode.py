"""Columns to bytes: header lines to a padded header, and columns of samples to chunks; the inverse of `tables`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.integers import checked_integer
from fxtio.dcpi.consistency import check_header
from fxtio.dcpi.layout import HEAD_WORDS, HEX, KEYWORDS, MAX_COUNT, NUMBER, OFFSET, STEP, WORD_TYPE
from fxtio.dcpi.records import Line, Terminator, encode
from fxtio.dcpi.state import Header, format_time, sorted_lines
from fxtio.errors import EncodeError, shown
from fxtio.finding import Findings

MAX_GAP = 2
"""The most addresses without samples that are written as zeros; the head of another chunk has as many words."""

MAX_LENGTH = 1 << 20
"""The most counts in a chunk; a reader needs the number before the counts."""

BATCH = 1 << 17
"""Samples that are encoded together: as many as fit the processor's caches."""

Value = str | int | datetime

DEFAULT_HEADER: dict[str, Value] = {
    "image": "0",
    "epoch": "7001010000",
    "platform": "unknown",
    "event": "unknown",
    "period": 1,
    "tstart": 0,
    "tsize": MAX_COUNT + 1,
    "cpuspeed": 0,
}
"""Placeholders for the required lines, and a text that holds every offset."""


def lines_of(header: Mapping[str, Value] | Iterable[Line]) -> list[Line]:
    """Convert a header to lines; those of a mapping are sorted as in the specification.

    Raises:
        EncodeError: it is something else, or a value of a mapping cannot be converted.
    """
    if isinstance(header, Mapping):
        return sorted_lines((word, _format_value(word, value)) for word, value in header.items())
    if not isinstance(header, Iterable):
        raise EncodeError(f"{header!r} is neither a mapping nor lines", "header")
    lines = [*header]
    for line in lines:
        if not isinstance(line, Line):
            raise EncodeError(f"{line!r} is not a Line", "header")
    return lines


def _format_value(word: str, value: Value) -> str:
    if isinstance(value, datetime):
        return format_time(value)
    if isinstance(value, str):
        return value
    try:
        number = checked_integer(value, word, most=None)
    except EncodeError:
        message = f"{shown(value)} is neither a text nor an unsigned integer nor a datetime"
        raise EncodeError(message, word) from None
    return f"{number:x}" if word in KEYWORDS and KEYWORDS[word].syntax is HEX else str(number)


def header_bytes(lines: Iterable[Line]) -> tuple[bytes, Header]:
    """Encode a whole header, padded so that the body begins at a multiple of four bytes.

    Returns:
        The bytes, and the header as a reader has it.

    Raises:
        EncodeError: a line cannot be encoded, or a reader would find a fault in the header.  A line `tstart` may be
            missing.
    """
    header = Header()
    for line in lines:
        header.add(line, 0)
    data = b"".join(encode(line) for line in header.lines)
    if (header.major or 0) >= 1:
        raise EncodeError("the layout of the body from version 1 on was never published", "version")
    padding = -(len(data) + len(encode(Terminator()))) % WORD_TYPE.itemsize
    terminator = encode(Terminator(" " * padding))
    header.end = len(data) + len(terminator)
    findings = Findings("dcpi")
    check_header(header, findings)
    for finding in findings:
        if finding.rule != "dcpi.header.no-text-start":  # one edition of the specification does not have the line
            raise EncodeError(finding.message, "header")
    return data + terminator, header


def integers(values: Any, where: str) -> Array:
    """Return an array, a column or a sequence as int64.

    Raises:
        EncodeError: it does not hold integers from 0 to `MAX_COUNT`.
    """
    try:
        is_column = hasattr(values, "tolist") and not isinstance(values, np.ndarray)
        array = np.asarray(values.tolist() if is_column else values)
    except (ValueError, OverflowError):  # lists of different lengths
        raise EncodeError("the values are not a sequence of integers", where) from None
    if array.shape == (0,):
        return np.empty(0, np.int64)
    if array.dtype.kind not in "iu":
        raise EncodeError(f"values of type {array.dtype} are not integers", where)
    if int(array.min()) < 0 or int(array.max()) > MAX_COUNT:
        raise EncodeError(f"from {array.min():,} to {array.max():,} does not fit 32 bits", where)
    return array.astype(np.int64)


class ChunkEncoder:
    """Encodes columns of samples as chunks, so that the file is small.  The last chunk is held back: it may grow."""

    def __init__(self) -> None:
        self._pending = np.empty((2, 0), np.int64)  # offsets and counts that are not yet written

    def add(self, offsets: Array, counts: Array) -> Iterator[bytes]:
        """Take in samples, and yield the bytes of chunks that are complete.

        Args:
            offsets: bytes from the beginning of the text, multiples of `STEP`, rising, and beyond all that was taken in
                before (int64).
            counts: samples at each offset, above zero (int64).
        """
        for begin in range(0, len(offsets), BATCH):
            batch = np.stack([offsets[begin : begin + BATCH], counts[begin : begin + BATCH]])
            self._pending = np.concatenate([self._pending, batch], axis=1)
            yield self._encode(last=False)

    def finish(self) -> bytes:
        """Return the bytes of the last chunk."""
        return self._encode(last=True)

    def _encode(self, *, last: bool) -> bytes:
        offsets, counts = self._pending
        if not len(offsets):
            return b""
        steps = np.diff(offsets)
        begins = np.flatnonzero(np.concatenate([[True], steps > (MAX_GAP + 1) * STEP]))
        ends = np.append(begins[1:], len(offsets))
        part = (offsets - np.repeat(offsets[begins], ends - begins)) // (STEP * MAX_LENGTH)
        cut = np.diff(part) != 0
        cut[begins[1:] - 1] = True
        begins = np.append(0, np.flatnonzero(cut) + 1)
        stop = len(offsets) if last else int(begins[-1])
        self._pending = self._pending[:, stop:]
        return _chunk_bytes(offsets[:stop], counts[:stop], begins[begins < stop])


def _chunk_bytes(offsets: Array, counts: Array, begins: Array) -> bytes:
    """Encode chunks whose first samples are those at the indices `begins`."""
    if not len(offsets):
        return b""
    lengths = np.diff(np.append(begins, len(offsets)))
    first = offsets[begins]
    number = (offsets[begins + lengths - 1] - first) // STEP + 1
    at = np.cumsum(number + HEAD_WORDS) - number - HEAD_WORDS
    words = np.zeros(int((number + HEAD_WORDS).sum()), WORD_TYPE)
    words[at + OFFSET] = first
    words[at + NUMBER] = number
    words[(offsets - np.repeat(first, lengths)) // STEP + np.repeat(at + HEAD_WORDS, lengths)] = counts
    return words.tobytes()
