"""A recording that grows, read from another process: at each poll what is new, each event once.

See `fxtio.fxt.live_file` for the file.  A chunk is known by its first event, wherever it is: the copy of a full
chunk continues where the reading of the live chunk stopped.  A chunk counts only if its first words are the same before
and after its records are read, since it may be moved meanwhile.

An event may be seen before an earlier one of another thread is.  So what a poll finds is delivered up to the latest
time of the poll before, and the rest by the next one.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import NamedTuple

import numpy as np

from fxtio import _native
from fxtio.arrays import Array
from fxtio.codec.columns import tables_of
from fxtio.errors import FormatError
from fxtio.finding import Findings
from fxtio.fxt import constants as c
from fxtio.fxt.frames import FrameReader
from fxtio.fxt.live_file import HEAD_BYTES, Chunks, filler_header
from fxtio.fxt.records import RECORDS
from fxtio.fxt.state import Batch, Reading
from fxtio.io.source import Source

_SCAN_BYTES = 1 << 20
_DEFINITION_BYTES = 1 << 16
_KEY_WORDS = 5
"""The first words of a chunk, at most: one that shows it, and the start of its first event, with time and thread."""

_FIRST_BYTES = 1 << 13
_SETTLED_POLLS = 3
_SETTLED_AT_ONCE = 2048
_FIRST_RECORD = 8
_POLL_BYTES = 1 << 25
"""The bytes after which a poll reads no further chunk."""

_EMPTY = np.empty(0, np.uint64)
_LATEST = 2**64 - 1
_GRACE_S = 0.01
"""The time between two polls of which the second one delivers what the first one has seen."""


@dataclass(slots=True)
class _Chunk:
    """A chunk of the file.

    Attributes:
        offset: its byte offset.
        size: its bytes.
        tick: all its events before this time have been read.
        key: its first words when it was read last.
        idle: the number of polls that found nothing new in it.
    """

    offset: int
    size: int
    tick: int
    key: bytes = b""
    idle: int = 0


class _Segment(NamedTuple):
    """Records that were read and are not delivered yet.

    Attributes:
        words: their words.
        at: the index of the word where each record begins.
        ticks: the time of each record; of one without a time, that of the record before.
    """

    words: Array
    at: Array
    ticks: Array


class Follower:
    """Reads a recording while it is written.

    Args:
        fd: the file.

    Raises:
        FormatError: the file is not a recording, or it is finished.
        OSError: it cannot be read.
    """

    def __init__(self, fd: int) -> None:
        chunks = Chunks.of(os.pread(fd, HEAD_BYTES, 0))
        if chunks is None:
            raise FormatError("it is not a recording, or it is finished")
        self._fd = fd
        self._begin, self._page = chunks
        self._defined = 0  # the offset up to which definitions were read
        self._scanned = self._begin  # the offset up to which the chunks are known
        self._is_scanned = False  # records of other processes follow
        self._hidden: list[int] = []  # the offsets of pages that belong to no chunk that is shown
        self._chunks: list[_Chunk] = []
        self._settled: list[_Chunk] = []  # chunks to which hardly anything will be added; some are read at each poll
        self._consumed: dict[bytes, int] = {}  # by key: the bytes of the chunk that were read
        self._pending: list[_Segment] = []
        self._latest = 0
        self.delivered = 0
        """The tick up to which everything was delivered."""
        self.is_behind = False
        """Whether the latest poll has left something, since there was much."""
        rules, table = tables_of(RECORDS)
        self._rules, self._table = rules, table
        self._room = _SCAN_BYTES // 8
        self._at, self._size = np.empty(self._room, np.int64), np.empty(self._room, np.int64)
        self._kind = np.empty(self._room, np.int8)

    @property
    def is_finished(self) -> bool:
        """Whether the recording has been finished, or its file replaced."""
        status = os.fstat(self._fd)
        return not status.st_nlink or Chunks.of(os.pread(self._fd, HEAD_BYTES, 0)) is None

    def poll(self, *, last: bool = False) -> Iterator[bytes]:
        """Read what is new.

        Args:
            last: nothing is written any more; deliver all.

        Yields:
            Blocks of whole records: definitions, then events by the time of their block.
        """
        for blocks in self.news(last=last):
            yield from blocks

    def news(self, *, last: bool = False, since: int = 0) -> tuple[list[bytes], list[bytes]]:
        """Read what is new, see `poll`.

        Args:
            last: nothing is written any more; deliver all.
            since: leave out events before this tick.

        Returns:
            Blocks of definitions, and blocks of events by their time.
        """
        limit = _LATEST if last else self._latest
        limit = self.delivered = min(limit, self._gather(every=last))
        definitions = [*self._definitions()]  # after the events, which they must not come later than
        ready: list[tuple[int, bytes]] = []
        pending: list[_Segment] = []
        for segment in self._pending:
            count = len(segment.ticks) if int(segment.ticks.max()) <= limit else int((segment.ticks > limit).argmax())
            end = int(segment.at[count]) if count < len(segment.at) else len(segment.words)
            is_wanted = segment.ticks[:count] >= since
            if is_wanted.any():
                first = int(is_wanted.argmax())
                begin = int(segment.at[first])
                ready.append((int(segment.ticks[first]), segment.words[begin:end].tobytes()))
            if count < len(segment.at):
                rest = _Segment(segment.words[end:], segment.at[count:] - end, segment.ticks[count:])
                pending.append(rest)
        self._pending = pending
        ready.sort(key=lambda entry: entry[0])
        return definitions, [block for _, block in ready]

    # ---- Definitions.

    def _definitions(self) -> Iterator[bytes]:
        """Read new definitions."""
        while self._defined < self._begin:
            size = min(_DEFINITION_BYTES, self._begin - self._defined)
            words, at, _, _ = self._final_records(self._defined, size)
            if len(at):
                self._defined += len(words) * 8
                yield words.tobytes()
                continue
            following = self._defined + self._word(self._defined) // c.SIZE_UNIT % c.SIZE_VALUES * 8
            if following in (self._defined, self._begin) or _is_filler(self._word(following)):
                return
            self._defined = following  # the rest of a block that has no room for the next definition

    def _word(self, offset: int) -> int:
        return int.from_bytes(os.pread(self._fd, 8, offset), sys.byteorder)

    # ---- Chunks.

    def _gather(self, *, every: bool) -> int:
        """Read the new records of all chunks, the earlier ones first, until enough is pending.

        Args:
            every: of those to which hardly anything is added as well.

        Returns:
            The time up to which nothing was left.
        """
        self._discover(every=every)
        self._show_hidden()
        count = len(self._settled) if every else _SETTLED_AT_ONCE
        turn, self._settled = self._settled[:count], self._settled[count:]
        bound, size = _LATEST, 0
        for chunk in sorted(self._chunks + turn, key=lambda chunk: chunk.tick):
            if size > _POLL_BYTES:
                bound = max(chunk.tick - 1, 0)
                break
            read = self._read(chunk)
            chunk.idle = 0 if read else chunk.idle + 1
            size += read
        self.is_behind = bound < _LATEST
        is_settled = [chunk.idle > _SETTLED_POLLS for chunk in self._chunks]
        self._settled += [chunk for chunk in turn if chunk.idle]
        self._settled += [chunk for chunk, settled in zip(self._chunks, is_settled, strict=True) if settled]
        self._chunks = [chunk for chunk, settled in zip(self._chunks, is_settled, strict=True) if not settled]
        self._chunks += [chunk for chunk in turn if not chunk.idle]
        return bound

    def _discover(self, *, every: bool) -> None:
        """Find chunks after those that are known.

        Args:
            every: also one at the end of the file that is not whole.  While the file grows, such a chunk has been read
                in part only, since a reading may end at an earlier end of the file although it has later words.
        """
        size = os.fstat(self._fd).st_size  # which may grow faster than it is read
        while not self._is_scanned and self._scanned < size:
            data = os.pread(self._fd, _SCAN_BYTES, self._scanned)
            pages = np.frombuffer(data[: len(data) // self._page * self._page], np.uint64).reshape(-1, self._page // 8)
            first, last = pages[:, 0].tolist(), pages[:, -1].tolist()
            page = 0
            while page < len(first):
                count = self._pages_from(first, last, page)
                if count is None:
                    self._is_scanned = True
                    break
                goes_on = page + count >= len(first) and last[-1] == filler_header(2)
                if goes_on and (page if len(data) == _SCAN_BYTES else not every):
                    break  # after what was read
                if first[page] == filler_header(1):
                    tick = int(pages[page, 2])
                    self._chunks.append(_Chunk(self._scanned + page * self._page, count * self._page, tick))
                else:
                    self._hidden.append(self._scanned + page * self._page)
                page += count
            self._scanned += page * self._page
            if len(data) < _SCAN_BYTES:
                return

    def _pages_from(self, first: list[int], last: list[int], page: int) -> int | None:
        """Return the pages of the chunk that begins on a page, 1 for a hidden one; None if it is no page of a chunk."""
        if first[page] == filler_header(self._page // 8):
            return 1
        if first[page] != filler_header(1):
            return None
        end = page + 1
        while end < len(first) and last[end - 1] == filler_header(2):
            end += 1
        return end - page

    def _show_hidden(self) -> None:
        """Look whether chunks that were hidden are shown by now."""
        hidden, behind = [], 0
        for offset in self._hidden:  # which are in the order of the file
            if offset < behind:
                continue
            if self._word(offset) == filler_header(1):
                behind = self._end_of_chunk(offset)
                self._chunks.append(_Chunk(offset, behind - offset, self._word(offset + 16)))
            else:
                hidden.append(offset)
        self._hidden = hidden

    def _end_of_chunk(self, offset: int) -> int:
        """Return the offset after a chunk that is shown; its pages but the last one say that it goes on."""
        end = offset + self._page
        while end - offset < _SCAN_BYTES and self._word(end - 8) == filler_header(2):
            end += self._page
        return end

    def _read(self, chunk: _Chunk) -> int:
        """Read the new records of a chunk; return their bytes."""
        key = self._key(chunk.offset)
        if not key:
            return 0
        position = self._consumed.get(key, _FIRST_RECORD)
        whole = chunk.size - position
        size = min(whole, _FIRST_BYTES) if key == chunk.key else whole
        words, at, ticks, is_whole = self._final_records(chunk.offset + position, size)
        if size < whole and (not is_whole or len(words) * 8 > size - self._page):
            words, at, ticks, _ = self._final_records(chunk.offset + position, whole)
        if not len(at) or self._key(chunk.offset) != key:
            return 0
        chunk.key, chunk.tick = key, int(ticks[-1])
        self._consumed[key] = position + len(words) * 8
        self._pending.append(_Segment(words, at, ticks))
        self._latest = max(self._latest, int(ticks.max()))
        return words.nbytes

    def _key(self, offset: int) -> bytes:
        """Return the first words of a chunk, up to the end of its first event; nothing if it has none, or is hidden."""
        data = os.pread(self._fd, _KEY_WORDS * 8, offset)
        words = np.frombuffer(data[: len(data) // 8 * 8], np.uint64).tolist()
        if len(words) < _KEY_WORDS or words[0] != filler_header(1):
            return b""
        if words[1] // c.TYPE_UNIT % c.TYPE_VALUES not in (c.EVENT_TYPE, c.LOG_TYPE):
            return b""
        return data[: (1 + words[1] // c.SIZE_UNIT % c.SIZE_VALUES) * 8]

    def _final_records(self, offset: int, size: int) -> tuple[Array, Array, Array, bool]:
        """Read the records at an offset, see `_records`, as they will stay.

        Reading takes time, in which records are added: what was read first may be older than what was read last, and
        have filler where records are by then.  But when a record is seen, all before it are in place, so they are read
        once more.
        """
        words, at, ticks, is_whole = self._records(os.pread(self._fd, size, offset))
        if len(at):
            words, at, ticks, _ = self._records(os.pread(self._fd, len(words) * 8, offset))
        return words, at, ticks, is_whole

    def _records(self, data: bytes) -> tuple[Array, Array, Array, bool]:
        """Find the records at the beginning of some bytes.

        Returns:
            The words up to the end of the last record that is no filler, where its records begin, their times, and
            whether no record that goes on after the bytes follows.
        """
        words = np.frombuffer(data[: len(data) // 8 * 8], np.uint64)
        count, stop, _ = _native.walk(words, 0, self._rules, self._table, self._at, self._size, self._kind)
        is_whole = stop >= len(words) or _is_filler(int(words[stop]))
        at, size = self._at[:count], self._size[:count]
        headers = words[at]
        is_filler = headers == (size * c.SIZE_UNIT + c.FILLER_HEADER).view(np.uint64)
        used = np.flatnonzero(~is_filler)
        if not len(used):
            return _EMPTY, self._at[:0], _EMPTY, is_whole
        end = int(at[used[-1]] + size[used[-1]])
        at, headers = at[: used[-1] + 1].copy(), headers[: used[-1] + 1]
        types = headers // np.uint64(c.TYPE_UNIT) % np.uint64(c.TYPE_VALUES)
        is_timed = (types == c.EVENT_TYPE) | (types == c.LOG_TYPE)
        ticks = np.zeros(len(at), np.uint64)
        ticks[is_timed] = words[at[is_timed] + 1]
        return words[:end], at, np.maximum.accumulate(ticks), is_whole


def _is_filler(header: int) -> bool:
    """Return whether a record with this header is filler."""
    return header == filler_header(header // c.SIZE_UNIT % c.SIZE_VALUES)


def _batches(data: bytes, name: str, reading: Reading, findings: Findings) -> Iterator[Batch]:
    """Read whole records as the next ones of a recording."""
    for frame in FrameReader(Source(BytesIO(data), name), findings):
        yield reading.enter(frame)


class LatestEvents:
    """Collects the latest events of a recording that is still written; the room `timeline` takes it as a trace.

    Args:
        name: the name of the recording.
        fd: its file.

    Raises:
        FormatError: the file is not a recording, or it is finished.
        OSError: it cannot be read.
    """

    share = 0.0

    def __init__(self, name: str, fd: int) -> None:
        self.name = name
        self._follower = Follower(fd)
        self._definitions: list[bytes] = []
        self._events: list[bytes] = []
        self._since = 0

    def read(self, since: int, until: int) -> None:
        """Read what has been recorded between two ticks, and perhaps some of what came later.

        Nothing of the file is read twice.

        Args:
            since: that of the call before, or a tick after all that was read.
            until: a tick that has passed.
        """
        if since != self._since:
            self._events, self._since = [], since
        polls = 0
        while polls < 2 and self._follower.delivered < until:  # the second one delivers what the first one has seen
            definitions, events = self._follower.news(since=since)
            self._definitions += definitions
            self._events += events
            polls += not self._follower.is_behind

    def record_batches(self, *, forget: bool) -> Iterator[Batch]:
        """Return what was read; see `FxtTrace.record_batches`."""
        findings = Findings("fxt")
        data = b"".join([*self._definitions, *self._events])
        yield from _batches(data, self.name, Reading(findings, forget=forget), findings)


class LiveTrace:
    """A recording that grows, as the room `timeline` of the format reads a trace.

    Args:
        name: its name.
        fd: the file.
        wait: waits for more; returns whether the recording has ended, so that nothing comes after the next reading.
    """

    def __init__(self, name: str, fd: int, wait: Callable[[], bool]) -> None:
        self.name = name
        self.share = 0.0
        self._fd = fd
        self._wait = wait

    def record_batches(self, *, forget: bool) -> Iterator[Batch]:
        """Read the recording from its beginning to its end, which may be long to come; see `FxtTrace.record_batches`.

        Raises:
            FormatError: it is not a recording, or is finished.
            OSError: it cannot be read.
        """
        follower = Follower(self._fd)
        findings = Findings("fxt")
        reading = Reading(findings, forget=forget)
        is_over = has_paused = False
        while True:
            if data := b"".join(follower.poll(last=is_over)):
                yield from _batches(data, self.name, reading, findings)
            if follower.is_behind:
                continue
            if is_over:
                return
            if has_paused := not has_paused:  # the next poll delivers what this one has seen
                time.sleep(_GRACE_S)
            else:
                is_over = self._wait() or follower.is_finished
