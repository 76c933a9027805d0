"""The writer of a profile: a header, then chunks, then the footer.

The header comes from the argument `header`, from the table `header`, or line by line with `put`.  The body comes from
columns of samples, from counts of single chunks, or record by record with `put`, in any mixture.  `close` adds the
footer, unless it was put, or everything was put record by record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, ClassVar

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.integers import checked_integer
from fxtio.codec.record import Opaque
from fxtio.dcpi.layout import HEAD_WORDS, HEX, KEYWORDS, MAX_COUNT, NUMBER, OFFSET, STEP, WORD_TYPE
from fxtio.dcpi.records import Chunk, Footer, Line, MoreCounts, Record, Terminator, encode
from fxtio.dcpi.state import Header, check_header, format_time, sorted_lines
from fxtio.dcpi.tables import WRITABLE
from fxtio.errors import EncodeError, shown
from fxtio.finding import Findings
from fxtio.io.writing import FileWriter
from fxtio.table import WritableTable

__all__ = ["DcpiWriter", "Value"]

_BUFFER = 1 << 20

_HEADER, _BODY, _END = "header", "body", "end"


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
        # A chunk begins after a gap that is too long for one, and where one would be too long; the last may still grow.
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


class DcpiWriter(FileWriter):
    """A writer of DCPI profiles.

    The sum of all samples may be more than 32 bits: the footer has it modulo 2**32, and a reader reports it as
    `dcpi.footer.overflow`.  What `chunk` and `write_table` accept has no other findings; `put` writes what is odd.

    Without a header, the first samples are preceded by one of placeholders (`encode.DEFAULT_HEADER`).

    Args:
        target: what to write to, see `fxtio.create`.
        header: words and values, or lines whose order is kept; see `layout.KEYWORDS`.  A value may be an integer, which
            is formatted as the word requires, or a datetime.

    Raises:
        EncodeError: a required line is missing, or a line does not fit.
        OSError: the target cannot be created.
    """

    format: ClassVar[str] = "dcpi"
    writable_tables: ClassVar[dict[str, WritableTable]] = WRITABLE

    def __init__(self, target: Any, *, header: Mapping[str, Value] | Iterable[Line] | None = None) -> None:
        begin, self._header = (b"", Header()) if header is None else header_bytes(lines_of(header))
        self._stage = _HEADER if header is None else _BODY
        self._adds_footer = header is not None
        self._encoder = ChunkEncoder()
        self._missing = 0  # counts that must follow in `MoreCounts`
        self._end = 0  # the largest end of a chunk, as an offset in the text
        self._addresses = self._samples = 0
        super().__init__(target, bytearray(begin))

    def put(self, record: Record) -> None:
        """Append a record as it is.

        Lines and the terminator belong before the body, chunks and the footer after the terminator (or after a header
        that was given otherwise).  `Opaque` may be put anywhere.  Chunks may overlap: only their form is checked.

        Raises:
            EncodeError: it is not a record, the format cannot express it, or it cannot follow what was written; nothing
                was written.
            ValueError: the writer is closed.
        """
        self._check_open()
        data = encode(record)
        self._check_place(record)
        self._append(self._encoder.finish())
        if isinstance(record, Line):
            self._header.add(record, 0)
        elif isinstance(record, Terminator):
            self._stage = _BODY
        elif isinstance(record, Chunk):
            self._end = max(self._end, record.text_offset + STEP * (len(record.counts) + record.remaining))
            self._missing = record.remaining
        elif isinstance(record, MoreCounts):
            self._missing -= len(record.counts)
        elif isinstance(record, Footer):
            self._stage = _END
        if isinstance(record, Chunk | MoreCounts):
            self._addresses += sum(count > 0 for count in record.counts)
            self._samples += sum(record.counts)
        self._append(data)

    def chunk(self, text_offset: int, counts: Any) -> None:
        """Write a single chunk; nothing is added to it or left out.

        Args:
            text_offset: bytes from the beginning of the text to the first address, beyond all that was written.
            counts: samples at this and the following addresses; at least one number, 0 included.

        Raises:
            EncodeError: it does not fit, or cannot follow what was written; nothing was written.
            ValueError: the writer is closed.
        """
        self._check_open()
        values = integers(counts, "counts")
        text_offset = checked_integer(text_offset, "text_offset", most=MAX_COUNT)
        offsets = text_offset + STEP * np.arange(values.size, dtype=np.int64)
        offsets, values = self._checked_samples(offsets, values)
        data = encode(Chunk(text_offset, tuple(values.tolist())))
        self._begin_body()
        self._append(self._encoder.finish())
        self._count(offsets, values)
        self._append(data)

    def _copy(self, trace: Any) -> None:
        if self.position:
            raise EncodeError("a copy must be the first thing that is written", "trace")
        self._stage = _END
        for record in trace.records(resolve=False):
            self._append(encode(record))

    def _write_rows(self, name: str, columns: dict[str, Any], rows: int) -> None:
        if name == "header":
            self._write_header(columns)
            return
        offsets, counts = self._checked_samples(columns["text_offset"], columns["count"])
        self._begin_body()
        has_samples = counts > 0
        offsets, counts = offsets[has_samples], counts[has_samples]
        self._count(offsets, counts)
        for data in self._encoder.add(offsets, counts):
            self._append(data)

    def _write_header(self, columns: dict[str, Any]) -> None:
        if self.position:
            raise EncodeError("a header must be the first thing that is written", "table header")
        texts = [columns[name].tolist() for name in Line.__struct_fields__ if name in columns]
        data, self._header = header_bytes(Line(*row) for row in zip(*texts, strict=True))
        self._stage, self._adds_footer = _BODY, True
        self._append(data)

    def _check_place(self, record: Record) -> None:
        """Raise EncodeError if the record cannot follow what was written."""
        if isinstance(record, Opaque):
            return
        name = type(record).__name__
        needed = _HEADER if isinstance(record, Line | Terminator) else _BODY
        if self._stage != needed:
            where = {
                _HEADER: "before the end of the header",
                _BODY: "after the end of the header",
                _END: "after the end",
            }
            raise EncodeError(f"{name} cannot be {where[self._stage]}", "record")
        if isinstance(record, MoreCounts):
            if len(record.counts) > self._missing:
                raise EncodeError(
                    f"{len(record.counts):,} counts follow a chunk that lacks {self._missing:,}", "record"
                )
        else:
            self._check_complete()

    def _check_complete(self) -> None:
        """Raise EncodeError if the last chunk lacks counts."""
        if self._missing:
            raise EncodeError(f"{self._missing:,} counts of the last chunk must come first", "record")

    def _checked_samples(self, offset: Any, count: Any) -> tuple[Array, Array]:
        """Return two columns of numbers that can follow what was written."""
        self._check_complete()
        if self._stage == _END:
            raise EncodeError("nothing can follow the footer", "samples")
        if self._stage == _HEADER and self.position:
            raise EncodeError("the header has no end yet; put a Terminator first", "samples")
        offsets, counts = integers(offset, "text_offset"), integers(count, "count")
        if offsets.shape != counts.shape or offsets.ndim != 1:
            raise EncodeError("there must be a count for each offset", "count")
        if not len(offsets):
            return offsets, counts
        if int(offsets[0]) < self._end or (np.diff(offsets) < STEP).any():
            raise EncodeError(f"must rise by {STEP} at least, from {self._end:,} on", "text_offset")
        if (offsets % STEP).any():
            raise EncodeError(f"has values that are not multiples of {STEP}", "text_offset")
        text_size = self._header.text_size
        if text_size is not None and int(offsets[-1]) + STEP > text_size:
            raise EncodeError(f"reaches beyond the text, which has {text_size:,} bytes (`tsize`)", "text_offset")
        return offsets, counts

    def _begin_body(self) -> None:
        """Write the default header if there is none."""
        self._adds_footer = True
        if self._stage == _HEADER:
            self._stage = _BODY
            self._append(header_bytes(lines_of(DEFAULT_HEADER))[0])

    def _count(self, offsets: Array, counts: Array) -> None:
        self._samples += int(counts.sum())
        self._addresses += int((counts > 0).sum())
        if len(offsets):
            self._end = int(offsets[-1]) + STEP

    def _append(self, data: bytes) -> None:
        self._out += data
        if len(self._out) > _BUFFER:
            self.flush()

    def _finish(self) -> None:
        self._append(self._encoder.finish())
        if self._adds_footer and self._stage == _BODY and not self._missing:
            self._append(encode(Footer(self._addresses, self._samples % (MAX_COUNT + 1))))
