"""Cut a source into frames, runs of whole records, with bounded memory and whatever the bytes are.

A header that cannot be right (size 0, or more than what is left) is a finding; reading continues at the next place from
which several records follow each other.  The bytes between are a gap, which frames cover on request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import CodeType

import numpy as np

from fxtio import _native
from fxtio._native.constants import WalkEnd
from fxtio.arrays import Array
from fxtio.codec.columns import Block, tables_of
from fxtio.codec.generate import Codec, Order, codec_of, decode, encode_buffers
from fxtio.codec.parts import Many, Part, Sized
from fxtio.codec.record import Opaque, Record, layout_of
from fxtio.errors import DecodeError, EncodeError
from fxtio.finding import Findings
from fxtio.fxt.layout import MAGIC, MAX_ARGUMENTS, MAX_RECORD_WORDS
from fxtio.fxt.records import ARGUMENTS, RECORDS, LargeBlob, LargeBlobNoMetadata
from fxtio.io.source import Source
from fxtio.report import counted

BATCH_WORDS = 1 << 18
"""How many words are read at once (2 MiB)."""

BATCH_RECORDS = 1 << 16
"""The most records of a frame."""

MAX_RECORD_BYTES = 1 << 28
"""The largest size in bytes that any header may claim; more is a fault, unless it is the size of a large blob."""

MAX_DECOMPRESSED_RECORD_BYTES = 1 << 30
"""The largest record in bytes that is read from a compressed trace, where few bytes may claim any amount of memory."""

MAX_HEAD_WORDS = (MAX_ARGUMENTS + 3) * (MAX_RECORD_WORDS + 1)
"""The payload of a large record begins, if it has one, before this many of its words."""

UNKNOWN = -1
"""The kind of records of unknown types."""

GAP = -2
"""The kind of a gap in the frames that cover gaps."""

_CHAIN = 4  # records that must follow each other at the place where reading continues after a fault
_LOOKAHEAD = 2 * _CHAIN * (MAX_RECORD_WORDS + 1)  # words to have in the buffer when looking for such a place
_MOST_DECODED = 32  # words that are decoded in search of good records, for each word that was read
_WINDOW = 64  # words that are searched first
_WORDS_AT_ONCE = 1 << 12  # words that are converted to Python integers at once


class OpaqueGap(Opaque, frozen=True, tag="opaque-gap"):
    """Bytes between records or after the last one, which are not a record: not even a size tells how long they are.

    Attributes:
        raw: the bytes, any number of them.
    """


@dataclass(frozen=True, slots=True)
class Frame:
    """A run of whole records.

    Attributes:
        block: the words that hold them.
        base: the byte offset of the first word in the trace.
        at: the index of the word where each record begins (int64).
        size: its size in words (int64).
        kind: its index in `RECORDS.classes` (int8), or `UNKNOWN`, or `GAP` for a gap.
        big_endian: the trace is big-endian.
    """

    block: Block
    base: int
    at: Array
    size: Array
    kind: Array
    big_endian: bool

    @property
    def order(self) -> Order:
        """The byte order as `int.to_bytes` names it."""
        return "big" if self.big_endian else "little"

    @property
    def offsets(self) -> Array:
        """The byte offsets of all records in the trace (int64)."""
        return self.at * 8 + self.base

    def offset(self, row: int) -> int:
        """Return the byte offset of a record in the trace."""
        return self.base + int(self.at[row]) * 8

    def raw(self, row: int) -> bytes:
        """Return the bytes of a record."""
        begin = int(self.at[row]) * 8
        return bytes(self.block.data[begin : begin + int(self.size[row]) * 8])


@dataclass(slots=True)
class _BadHeader:
    """A header that cannot be right, as long as no good record has been found after it.

    Attributes:
        offset: its byte offset in the trace.
        size: the size in words that it claims.
        left: the number of words that are left, if it claims more; None if the fault is another one, already reported.
    """

    offset: int
    size: int
    left: int | None


class FrameReader:
    """Cuts a source into frames; iterate over it.

    The frames share their memory: each is valid until the next one is requested.

    Args:
        source: where the bytes come from.
        findings: takes the faults.
        on_read: called with all bytes that are read, part by part.
        max_record_bytes: the largest record in bytes that is read; None for no limit, except in a compressed trace.
        gaps: the frames cover all words: those that are not of a record are rows of the kind `GAP`.
        words: how many words are read at once, instead of `BATCH_WORDS`, and four times as many as records of a frame.

    Attributes:
        big_endian: the trace is big-endian.
        tail: the bytes at the end that are not a whole word, when the last frame was read.
    """

    def __init__(
        self,
        source: Source,
        findings: Findings,
        *,
        on_read: Callable[[memoryview], object] | None = None,
        max_record_bytes: int | None = None,
        gaps: bool = False,
        words: int | None = None,
    ) -> None:
        self.source = source
        self.findings = findings
        self.tail = b""
        if max_record_bytes is None and source.compression:
            max_record_bytes = MAX_DECOMPRESSED_RECORD_BYTES
        self._max_record_bytes = max_record_bytes
        self._gaps = gaps
        self._on_read = on_read
        self.big_endian = source.head[:8] == MAGIC[::-1]
        self._base = 0  # byte offset of the first word in the buffer
        self._store = np.empty(0, np.uint64)
        self._buffer = self._store  # the part of the store that is still to be walked
        self._words = self._store  # the same words as native integers
        self._batch = BATCH_WORDS if words is None else words
        most = BATCH_RECORDS if words is None else words // 4
        self._at = np.empty(most, np.int64)
        self._size = np.empty(most, np.int64)
        self._kind = np.empty(most, np.int8)
        self._ended = False
        self._decoded = 0  # the words of all records that were decoded in search of good ones
        self._truncated = False  # a finding says that the end is missing
        self._bad_header: _BadHeader | None = None
        self._zeros = 0  # the zero words before the buffer that are not reported yet

    def __iter__(self) -> Iterator[Frame]:
        target = self._batch
        while self._fill(target):
            target = self._batch
            block = Block(self._words, self._buffer)
            if self._zeros and int(block.words[0]):
                self._report_zeros(self._base)
            start, searched = self._recover(block) if self._bad_header else (0, 0)
            if start is None:
                yield from self._gap(block, 0, searched)
                self._drop(searched)
                target = max(self._batch, _LOOKAHEAD)
                continue
            frame, used, reason = self._walk(block, start)
            if self._gaps:
                frame = _covering(frame, used)
            if len(frame.at):
                yield frame
            if reason == WalkEnd.ZERO and self._bad_header is None:
                end, used = used, self._skip_zero_size(block, used)
                yield from self._gap(block, end, used)
            if self._bad_header:
                target = _LOOKAHEAD
            elif reason == WalkEnd.PARTIAL:
                target = self._read_further(block, used)
            self._drop(used)
        self._check_end()

    def _gap(self, block: Block, begin: int, end: int) -> Iterator[Frame]:
        """Yield the frame of a gap, if the frames cover gaps and it has any words."""
        if self._gaps and begin < end:
            at, size = np.array([begin], np.int64), np.array([end - begin], np.int64)
            yield Frame(block, self._base, at, size, np.array([GAP], np.int8), self.big_endian)

    def _fill(self, target: int) -> bool:
        """Read until the buffer has `target` words or the source ends; return whether the buffer has any words."""
        have = len(self._buffer)
        if have < target and not self._ended:
            store = self._store
            if not target <= len(store) <= 4 * max(target, self._batch):  # also after a large record
                store = np.empty(target, np.uint64)
            store[:have] = self._buffer
            self._store = store
            view = store[:target].data.cast("B")[have * 8 :]
            count = self.source.readinto(view)
            if self._on_read is not None:
                self._on_read(view[:count])
            self._ended = count < (target - have) * 8
            self.tail = bytes(view[count // 8 * 8 : count])
            self._buffer = self._store[: have + count // 8]
            self._words = self._buffer.byteswap() if self.big_endian else self._buffer
        return len(self._buffer) > 0

    def _drop(self, count: int) -> None:
        """Remove words from the front of the buffer."""
        self._buffer, self._words = self._buffer[count:], self._words[count:]
        self._base += count * 8

    def _walk(self, block: Block, start: int) -> tuple[Frame, int, int]:
        """Walk the buffer from the word `start` on, beyond headers that cannot be right if good records follow them.

        Returns:
            The frame, the index of the word after it, and the reason why the walk ended.
        """
        rules, table = tables_of(RECORDS)
        at, size, kind = self._at, self._size, self._kind
        count, used, reason = 0, start, int(WalkEnd.ZERO)
        while self._bad_header is None:
            more, used, reason = _native.walk(block.words, used, rules, table, at[count:], size[count:], kind[count:])
            count += more
            if self.findings.strict:  # the records before a fault are delivered before the error is raised
                break
            if reason == WalkEnd.ZERO:
                used = self._skip_zero_size(block, used)
                continue
            index = self._skip_bad_size(block, used) if reason == WalkEnd.PARTIAL else None
            if index is None:
                break
            used = index
        return Frame(block, self._base, at[:count], size[:count], kind[:count], self.big_endian), used, reason

    def _skip_zero_size(self, block: Block, used: int) -> int:
        """Report a record of size 0, and return the index of the word where to continue."""
        offset = self._base + used * 8
        header = int(block.words[used])
        if header == 0:
            stop = used + _leading_zeros(block.words[used:])
            self._zeros += stop - used
            if stop < len(block.words) or self.findings.strict:
                self._report_zeros(self._base + stop * 8)
            return stop
        self.findings.add("framing.zero-size", offset, f"a record of size 0 with the header {header:#018x}")
        index = self._resync(block, used + 1, short=self._ended)
        if index is None:
            self._bad_header = _BadHeader(offset, 0, None)
            return used + 1
        return index

    def _report_zeros(self, end: int) -> None:
        """Report a run of zero words that ends at a byte offset; it may have been longer than the buffer."""
        offset = end - self._zeros * 8
        message = "a zero word" if self._zeros == 1 else f"{self._zeros:,} zero words"
        self.findings.add("framing.zero-words", offset, f"{message} between records")
        self._zeros = 0

    def _skip_bad_size(self, block: Block, used: int) -> int | None:
        """Return the index of the next good record after a header that claims too much; None if it needs more words.

        The words in the buffer decide only if they are as many as `_recover` would search.
        """
        if not self._ended and len(block.words) - used < _LOOKAHEAD:
            return None
        self._read_further(block, used)
        bad = self._bad_header
        if bad is None:
            return None
        index = self._resync(block, used + 1, short=self._ended and bad.left is None)
        if index is not None:
            self._report_beyond_end(bad)
            self._bad_header = None
        return index

    def _report_beyond_end(self, bad: _BadHeader) -> None:
        """Report a header that claims more than what is left, if that is its fault."""
        if bad.left is not None:
            rule, subject = (
                ("framing.truncated", "the last record") if self._truncated else ("framing.size-beyond-end", "a record")
            )
            message = f"{subject} should have {counted(bad.size, 'word')}, {bad.left:,} left"
            self.findings.add(rule, bad.offset, message)

    def _read_further(self, block: Block, used: int) -> int:
        """Decide about a record that goes beyond the buffer; return how many words the buffer should have next."""
        size = RECORDS.size_of(int(block.words[used]))
        offset = self._base + used * 8
        have = len(block.words) - used
        if size * 8 > MAX_RECORD_BYTES and have < MAX_HEAD_WORDS and not self._ended:
            return max(self._batch, MAX_HEAD_WORDS)
        limit = self._max_record_bytes
        if size * 8 > MAX_RECORD_BYTES and not _is_large_blob(block, used, size):
            limit = MAX_RECORD_BYTES
        if limit is not None and size * 8 > limit:
            self.findings.add(
                "framing.too-large", offset, f"a record of {size * 8:,} bytes, over the limit of {limit:,}"
            )
            self._bad_header = _BadHeader(offset, size, None)
            return _LOOKAHEAD
        remaining = 0 if self._ended else self.source.remaining
        left = None if remaining is None else have + remaining // 8
        if left is not None and size > left:
            self._bad_header = _BadHeader(offset, size, left)
            return _LOOKAHEAD
        if left is not None:
            return max(self._batch, size)
        # Allocation is bounded by the bytes that arrive: the buffer doubles, instead of growing to the claimed size.
        return max(self._batch, min(size, 2 * have))

    def _recover(self, block: Block) -> tuple[int | None, int]:
        """Return the index of the next good record after a bad header, or None and how many words can be dropped.

        A record that claims more than what is left is the last record, cut off, unless several good records follow:
        the arguments of a record can look like records.
        """
        bad = self._bad_header
        assert bad is not None
        start = 1 if bad.offset == self._base and bad.size else 0
        index = self._resync(block, start, short=self._ended and bad.left is None)
        searched = 0
        if index is None:
            keep = _CHAIN * (MAX_RECORD_WORDS + 1)
            searched = len(self._buffer) if self._ended else max(len(self._buffer) - keep, start)
            if not self._ended:
                return None, searched
        self._truncated = bad.left is not None and index is None
        self._report_beyond_end(bad)
        self._bad_header = None
        return index, searched

    def _resync(self, block: Block, start: int, *, short: bool) -> int | None:
        """Return the index of the next word from which several good records follow each other, or None.

        Args:
            block: the words.
            start: the first word to consider.
            short: accept fewer records if they reach the end.
        """
        width, total = _WINDOW, len(block.words)
        exact: dict[int, bool] = {}
        while True:
            stop = min(start + width, total)
            candidates, undecided = _chains(block.words[start:stop], short=short and stop == total)
            index = next((start + place for place in candidates if self._is_good(block, start + place, exact)), None)
            if index is not None and index < start + undecided:
                return index
            if stop == total:  # too few words to decide: more are read first
                return index if self._ended or total - start >= _LOOKAHEAD - 1 else None
            width *= 8

    def _is_good(self, block: Block, at: int, exact: dict[int, bool]) -> bool:
        """Return whether the records from here on would be encoded to the same bytes.

        Args:
            block: the words.
            at: the index of the first record.
            exact: whether the record at an index would; takes what was found out.
        """
        for _ in range(_CHAIN):
            if at == len(block.words):
                return True
            stop = at + RECORDS.size_of(int(block.words[at]))
            if at not in exact:
                exact[at] = self._is_exact(block, at, stop)
            if not exact[at]:
                return False
            at = stop
        return True

    def _is_exact(self, block: Block, at: int, stop: int) -> bool:
        """Return whether a record would be encoded to the same bytes.

        Records that overlap could make this cost the square of the trace's size.  When much more was decoded than was
        read, the headers alone must do.
        """
        if self._decoded > _MOST_DECODED * (self._base // 8 + len(block.words)):
            return True
        self._decoded += stop - at
        return isinstance(decode_exactly(block, at, stop, self.big_endian), Record)

    @property
    def is_cut(self) -> bool:
        """Whether the last record or word is not complete, when all frames were read."""
        return bool(self.tail) or self._truncated

    def _check_end(self) -> None:
        if self._zeros:
            self._report_zeros(self._base)
        if self.tail and not self._truncated:
            message = f"the end is not a whole word, but {counted(len(self.tail), 'byte')}"
            self.findings.add("framing.odd-length", self._base, message)


def _leading_zeros(words: Array) -> int:
    """Return the number of zero words before the first other word."""
    begin, width = 0, 64
    while begin < len(words):
        nonzero = np.flatnonzero(words[begin : begin + width])
        if len(nonzero):
            return begin + int(nonzero[0])
        begin, width = begin + width, width * 2
    return len(words)


def _chains(words: Array, *, short: bool) -> tuple[list[int], int]:
    """Return the indices from which `_CHAIN` headers lead to each other, and the first one that leads beyond the words.

    Args:
        words: the words to search.
        short: accept fewer headers if they lead to the end.
    """
    rules, table = tables_of(RECORDS)
    total = len(words)
    rule = rules[(words & np.uint64(len(rules) - 1)).astype(np.intp)]
    size = (words >> rule[:, 0] & rule[:, 1]).astype(np.int64)
    declared = table[(rule[:, 4] + (words >> rule[:, 2] & rule[:, 3])).astype(np.intp)] >= 0
    after = np.where(declared & (size > 0), np.arange(total) + size, -1)
    ends = after
    for _ in range(_CHAIN - 1):
        inside = (ends >= 0) & (ends < total)
        ends = np.where(inside, after[np.where(inside, ends, 0)], ends if short else np.where(ends < 0, -1, total + 1))
    undecided = np.flatnonzero(ends > total)
    return np.flatnonzero((ends >= 0) & (ends <= total)).tolist(), int(undecided[0]) if len(undecided) else total


def decode_exactly(block: Block, at: int, stop: int, big_endian: bool) -> Record | Opaque:
    """Decode the record at the words `at` to `stop`, with references as they are.

    Returns:
        The record, or `Opaque` if the record would not be encoded to the same bytes.
    """
    place = np.array([at]), np.array([stop - at]), np.array([RECORDS.kind_of(int(block.words[at]))])
    return next(exact_records(Frame(block, 0, *place, big_endian)))


def exact_records(frame: Frame) -> Iterator[Record | Opaque]:
    """Yield the records of a frame, as `decode_exactly` returns them, and its gaps as `OpaqueGap`."""
    block, order = frame.block, frame.order
    codecs = _codecs()
    words: list[int] = []
    data, begin, end = b"", 0, 0  # the bytes of `words`, and where these are in the block
    last = int(frame.at[-1] + frame.size[-1])
    for at, size, kind in zip(frame.at.tolist(), frame.size.tolist(), frame.kind.tolist(), strict=True):
        stop = at + size
        if kind < 0 or size > MAX_RECORD_WORDS:
            raw = block.data[at * 8 : stop * 8]
            if kind < 0:
                yield OpaqueGap(bytes(raw)) if kind == GAP else Opaque(bytes(raw))
            else:
                yield _decode_large(block.words[at : min(stop, at + MAX_HEAD_WORDS)].tolist(), raw, order)
            continue
        if stop > end:
            begin, end = at, max(stop, min(at + _WORDS_AT_ONCE, last))
            words, data = block.words[begin:end].tolist(), bytes(block.data[begin * 8 : end * 8])
        at, stop = at - begin, stop - begin
        exact = data[at * 8 : stop * 8]
        codec = codecs[kind]
        try:
            record = codec.decode(words, data, at, stop, [])
            yield record if codec.encode(record, order) == exact else Opaque(exact)
        except (DecodeError, EncodeError):
            yield Opaque(exact)


@cache
def _codecs() -> list[Codec]:
    """Return the codecs of all records by kind."""
    return [codec_of(cls) for cls in RECORDS.classes]


def _decode_large(words: list[int], raw: memoryview, order: Order) -> Record | Opaque:
    """Decode a record with as little memory as possible; the words are at least those before its payload."""
    try:
        record: Record = decode(RECORDS, words, raw, 0, len(raw) // 8, [])
        if _is_same(encode_buffers(record, order), raw):
            return record
    except (DecodeError, EncodeError):
        pass
    return Opaque(bytes(raw))


def _is_same(buffers: Sequence[bytes | memoryview], data: memoryview) -> bool:
    """Return whether buffers that follow each other hold the same bytes as one; they are not copied."""
    begin = 0
    for buffer in buffers:
        if data[begin : begin + len(buffer)] != buffer:
            return False
        begin += len(buffer)
    return begin == len(data)


def _is_large_blob(block: Block, at: int, size: int) -> bool:
    """Return whether the words begin a large blob whose payload ends where the record ends; they may be fewer.

    Only headers and sizes are read, so the cost does not depend on the sizes that they state.
    """
    kind = RECORDS.kind_of(int(block.words[at]))
    if kind < 0 or not issubclass(RECORDS.classes[kind], LargeBlob | LargeBlobNoMetadata):
        return False
    layout = layout_of(RECORDS.classes[kind])
    words = block.words[at : at + MAX_HEAD_WORDS]
    if len(words) < len(layout.words):
        return False
    header = {f"{field.name}_": field.get(int(words[number])) for number, field in layout.header_fields()}
    end = len(layout.words)
    for _, part in layout.parts:
        for _ in range(header[f"{part.count}_"] if isinstance(part, Many) else 0):
            argument = ARGUMENTS.size_of(int(words[end])) if end < len(words) else 0
            if argument == 0:
                return False
            end += argument
        if isinstance(part, Sized):
            return end < len(words) and end + 1 + (int(words[end]) + 7) // 8 == size
        if not isinstance(part, Many):
            end += eval(_size_of_part(part), {}, header)
    return False


@cache
def _size_of_part(part: Part) -> CodeType:
    """Return the code of the size in words of a part that the header tells."""
    source = part.header_words()
    assert source is not None, "a large blob has no other parts"
    return compile(source, "<fxtio size of a part>", "eval")


def _covering(frame: Frame, end: int) -> Frame:
    """Return the frame with gaps as rows, so that it covers all words of its block before the index `end`."""
    if int(frame.size.sum()) == end:
        return frame
    begin = np.append(0, frame.at + frame.size)
    after = np.append(frame.at, end)
    rows = np.flatnonzero(begin < after)
    at, size = np.insert(frame.at, rows, begin[rows]), np.insert(frame.size, rows, (after - begin)[rows])
    return replace(frame, at=at, size=size, kind=np.insert(frame.kind, rows, GAP))
