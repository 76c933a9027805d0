"""The writers of a profile: from columns of samples, chunks as they are given, or records exactly as they are.

With a header the writer sees to the form: it pads the header, puts samples in chunks and adds up the footer.  Without
one it puts records, whatever they are.  Everything is checked before a byte of it is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import numpy as np

from fxtio.codec.record import Opaque
from fxtio.dcpi.header import Header, check_header, digits_of, lines_of
from fxtio.dcpi.layout import HEAD_WORDS, HEX, KEYWORDS, MAX_COUNT, NUMBER, OFFSET, STEP, WORD_TYPE
from fxtio.dcpi.records import Chunk, Footer, Line, Record, Terminator, encode
from fxtio.errors import EncodeError
from fxtio.finding import Findings
from fxtio.io.writing import FileWriter

Array = np.ndarray[Any, Any]

GAP = 2
"""So many addresses without samples are written as zeros: the head of another chunk is no shorter."""

LONGEST = 1 << 20
"""The most counts in a chunk that is made here; the number of them stands before them."""

_AT_ONCE = 1 << 17  # samples that are put in chunks together: as many as the processor's caches hold
_BUFFER = 1 << 20
_PLACE = {Line: 0, Terminator: 1, Chunk: 2, Footer: 3}  # what may not come before what

Value = str | int | datetime


class DcpiWriter(FileWriter):
    """Writes a DCPI profile.  With a header, the last chunk and the footer come when it is closed.

    Args:
        target: where to, see `fxtio.create`.
        header: words and values, or lines whose order is kept; see `layout.KEYWORDS`.  Numbers are written as the
            word's form wants them, a time in UTC.  Without it, only `put` writes.

    Raises:
        EncodeError: a line is missing or cannot be said.
        OSError: the target cannot be created.
    """

    format = "dcpi"

    def __init__(self, target: Any, *, header: Mapping[str, Value] | Iterable[Line] | None = None) -> None:
        begin = None if header is None else _header_bytes(header)
        self._free = begin is None
        self._place = 0  # of the last record that was put
        self._pending = np.empty((2, 0), np.int64)  # offsets and counts of the last chunk, which may grow
        self._end = 0  # the offset behind all that was taken
        self._addresses = self._samples = 0
        super().__init__(target, bytearray(begin or b""))

    def put(self, record: Record) -> None:
        """Append a record as it is; the footer is one of them.

        Raises:
            EncodeError: the format cannot say it, or not here; or the writer was made with a header.
        """
        if not self._free:
            raise EncodeError("a writer that was given a header takes samples, no records", "record")
        data = encode(record)
        place = _PLACE.get(type(record), self._place)
        if place < self._place:
            raise EncodeError(f"{type(record).__name__} cannot stand here", "record")
        if place >= _PLACE[Chunk] and self._place == 0 and not isinstance(record, Opaque):
            raise EncodeError("the header has no end yet", "record")
        self._append(data)
        self._place = place

    def put_all(self, records: Iterable[Record]) -> None:
        """Append records as they are, see `put`."""
        for record in records:
            self.put(record)

    def write(self, offset: Any, count: Any) -> int:
        """Write samples from columns; chunks are picked so that the file is small.

        Args:
            offset: bytes from the beginning of the text, rising, and behind all that was written.
            count: samples there; zeros are left out.

        Returns:
            How many addresses with samples there were.

        Raises:
            EncodeError: something cannot be said; nothing of it was written.
        """
        offsets, counts = self._checked(offset, count)
        kept = counts > 0
        offsets, counts = offsets[kept], counts[kept]
        if not len(offsets):
            return 0
        self._count(offsets, counts)
        for begin in range(0, len(offsets), _AT_ONCE):
            some = np.stack([offsets[begin : begin + _AT_ONCE], counts[begin : begin + _AT_ONCE]])
            self._pending = np.concatenate([self._pending, some], axis=1)
            self._chunks(last=False)
        return len(offsets)

    def chunk(self, offset: int, count: Any) -> None:
        """Write a chunk as it is given.

        Args:
            offset: bytes from the beginning of the text to its first address, behind all that was written.
            count: samples there and at the addresses that follow; at least one number.

        Raises:
            EncodeError: it cannot be said; nothing of it was written.
        """
        offsets, counts = self._checked(offset + STEP * np.arange(np.size(count), dtype=np.int64), count)
        data = encode(Chunk(offset, tuple(counts.tolist())))
        self._count(offsets, counts)
        self._chunks(last=True)
        self._append(data)

    def _checked(self, offset: Any, count: Any) -> tuple[Array, Array]:
        """Two columns of numbers that can be said, in their order."""
        if self._closed:
            raise ValueError("the writer is closed")
        if self._free:
            raise EncodeError("the writer was given no header", "header")
        offsets, counts = _numbers(offset, "offset"), _numbers(count, "count")
        if offsets.shape != counts.shape or offsets.ndim != 1:
            raise EncodeError("as many offsets are needed as counts", "offset")
        if len(offsets) and (int(offsets[0]) < self._end or (np.diff(offsets) < STEP).any()):
            raise EncodeError(f"must rise by {STEP} at least, from {self._end:,} on", "offset")
        if self._samples + int(counts.sum()) > MAX_COUNT:
            raise EncodeError(f"the sum is more than {MAX_COUNT:,}, which the footer cannot tell", "count")
        return offsets, counts

    def _count(self, offsets: Array, counts: Array) -> None:
        self._samples += int(counts.sum())
        self._addresses += int((counts > 0).sum())
        if len(offsets):
            self._end = int(offsets[-1]) + STEP

    def _chunks(self, *, last: bool) -> None:
        """Write what is pending, but for the last chunk if that may still grow."""
        offsets, counts = self._pending
        if not len(offsets):
            return
        steps = np.diff(offsets)
        begins = np.flatnonzero(np.concatenate([[True], (steps > (GAP + 1) * STEP) | (steps % STEP != 0)]))
        ends = np.append(begins[1:], len(offsets))
        part = (offsets - np.repeat(offsets[begins], ends - begins)) // (STEP * LONGEST)
        cut = np.diff(part) != 0
        cut[begins[1:] - 1] = True
        begins = np.append(0, np.flatnonzero(cut) + 1)
        stop = len(offsets) if last else int(begins[-1])
        self._scatter(offsets[:stop], counts[:stop], begins[begins < stop])
        self._pending = self._pending[:, stop:]

    def _scatter(self, offsets: Array, counts: Array, begins: Array) -> None:
        """Write chunks whose first samples are those at `begins`."""
        if not len(offsets):
            return
        lengths = np.diff(np.append(begins, len(offsets)))
        first = offsets[begins]
        number = (offsets[begins + lengths - 1] - first) // STEP + 1
        at = np.cumsum(number + HEAD_WORDS) - number - HEAD_WORDS
        words = np.zeros(int((number + HEAD_WORDS).sum()), WORD_TYPE)
        words[at + OFFSET] = first
        words[at + NUMBER] = number
        places = (offsets - np.repeat(first, lengths)) // STEP + np.repeat(at + HEAD_WORDS, lengths)
        words[places] = counts
        self._append(words.tobytes())

    def _append(self, data: bytes) -> None:
        if self._closed:
            raise ValueError("the writer is closed")
        self._out += data
        if len(self._out) > _BUFFER:
            self.flush()

    def _finish(self) -> None:
        if not self._free:
            self._chunks(last=True)
            self._append(encode(Footer(self._addresses, self._samples)))


def _numbers(values: Any, where: str) -> Array:
    """A column of whole numbers from 0 to the largest that the body can say."""
    array = np.asarray(values)
    if array.size == 0:
        return np.empty(array.shape, np.int64)
    if array.dtype.kind not in "iu":
        raise EncodeError(f"{array.dtype} are no whole numbers", where)
    if int(array.min()) < 0 or int(array.max()) > MAX_COUNT:
        raise EncodeError(f"from {array.min():,} to {array.max():,} does not fit 32 bits", where)
    return array.astype(np.int64)


def _header_bytes(header: Mapping[str, Value] | Iterable[Line]) -> bytes:
    """A whole header, padded so that the body begins at a multiple of four bytes."""
    if isinstance(header, Mapping):
        lines = lines_of((word, _text(word, value)) for word, value in header.items())
    else:
        lines = [*header]
    data = b"".join(encode(line) for line in lines)
    checked = Header()
    for line in lines:
        checked.add(line, 0)
    if (checked.major or 0) >= 1:
        raise EncodeError("the layout of the body from version 1 on was never published", "version")
    missing = -(len(data) + len(encode(Terminator()))) % WORD_TYPE.itemsize
    checked.end = len(data) + missing + len(encode(Terminator()))
    _refuse(checked)
    return data + encode(Terminator(" " * missing))


def _refuse(header: Header) -> None:
    """Raise where a reader would find an error."""
    findings = Findings()
    check_header(header, findings)
    for finding in findings:
        if finding.level == "error":
            raise EncodeError(finding.message, "header")


def _text(word: str, value: Value) -> str:
    if isinstance(value, datetime):
        return digits_of(value)
    if isinstance(value, int) and word in KEYWORDS and KEYWORDS[word].form is HEX:
        return f"{value:x}"
    return str(value)
