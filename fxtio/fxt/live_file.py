"""The file of a recording that has not ended, or was killed: how it is recognized, and the order of its events.

Each thread records to a *live chunk* of the file, and full chunks follow after it, so the latest events of a thread
are before its earlier ones.  A mark at the front of the file says so, and where the chunks are; it is the text in a
filler, a record that every reader skips.  A chunk consists of pages.  Its first word is a filler of one word; the first
word of each of its other pages, and of every page that is not in use, is a filler of a page.  So the chunks can be
found, and they are read in the order of their first events.  `fxtio/_native/recorder/file.h` has the details.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterator
from itertools import zip_longest
from operator import sub
from typing import NamedTuple

from fxtio.fxt import constants as c

HEAD_BYTES = 512
"""The first bytes of a recording, which are enough to recognize it."""

_TEXT = "fxtio: unfinished recording, pages of {} bytes from byte {}"
_MIN_PAGE_BYTES = 4096
_MAX_BEGIN = 1 << 48  # bytes, more than any file has
_MAX_RECORDS_BEFORE = 8
_SCAN_BYTES = 1 << 18
_TIMED = (c.EVENT_TYPE, c.LOG_TYPE)
_LATEST = 2**64 - 1

Read = Callable[[int, memoryview], int]
"""Reads bytes from an offset of the file on; returns how many, which are fewer only at its end."""


class Chunks(NamedTuple):
    """The place of the chunks in an unfinished recording.

    Attributes:
        begin: the byte offset of the first page; everything before it is read first.
        page: bytes of a page.
    """

    begin: int
    page: int

    def mark(self) -> bytes:
        """Return the record that says this in the file."""
        text = _TEXT.format(self.page, self.begin).encode()
        words = 1 + -(-len(text) // 8)
        return filler(words) + text.ljust((words - 1) * 8, b"\0")

    def records_of(self, page: int) -> range:
        """Return the bytes of a page that hold records, all but the words that join it with the others.

        Args:
            page: the byte offset of the page.
        """
        return range(page + 8, page + self.page - 8)

    def chunk_of(self, records: bytes) -> bytes:
        """Return a chunk of one page that holds some records, to be written after the others."""
        rest = self.page // 8 - 1 - len(records) // 8
        return (filler(1) + records + filler(rest)).ljust(self.page, b"\0")

    @classmethod
    def of(cls, head: bytes) -> Chunks | None:
        """Return the chunks of a file that begins with these bytes; None if it is no unfinished recording."""
        words = memoryview(head)[: len(head) // 8 * 8].cast("Q")
        offset = 0
        for _ in range(_MAX_RECORDS_BEFORE):
            if offset >= len(words) or not (size := size_of(words[offset])):
                break
            if (
                _type_of(words[offset]) == c.STRING_TYPE
                and not words[offset] // c.STRING_SLOT_UNIT % c.STRING_SLOT_VALUES
            ):
                return cls._marked(head[offset * 8 : (offset + size) * 8])
            offset += size
        return None

    @classmethod
    def _marked(cls, mark: bytes) -> Chunks | None:
        """Return the chunks of which a record is the mark, or None if it is none, or no recording has such pages."""
        numbers = [int(word) for word in mark[8:].rstrip(b"\0").split() if word.isdigit()]
        if len(numbers) != 2:
            return None
        page, begin = numbers
        is_possible = _MIN_PAGE_BYTES <= page <= c.MAX_RECORD_WORDS * 8 and page % 8 == 0 and begin % page == 0
        chunks = cls(begin, page)
        return chunks if is_possible and 0 < begin < _MAX_BEGIN and chunks.mark() == mark else None


class Chunk(NamedTuple):
    """A chunk, with the pages without events that follow it.

    Attributes:
        offset: its byte offset.
        size: its bytes.
        tick: the time of its first event in ticks; the largest number if it has none.
        is_cut: the file ends within it, where there may be an incomplete record.
    """

    offset: int
    size: int
    tick: int
    is_cut: bool = False


def filler_header(words: int) -> int:
    """Return the header of a record of this many words that every reader skips: a string in slot 0.

    spec: String record
    """
    return c.FILLER_HEADER + words * c.SIZE_UNIT


def filler(words: int) -> bytes:
    """Return the bytes of a header of `filler_header`."""
    return filler_header(words).to_bytes(8, "little")


def size_of(header: int) -> int:
    """Return the words of the record with this header."""
    return header // c.SIZE_UNIT % c.SIZE_VALUES


def _type_of(header: int) -> int:
    return header // c.TYPE_UNIT % c.TYPE_VALUES


def in_order(chunks: Chunks, read: Read) -> Iterator[Chunk]:
    """Find the chunks of a recording.

    A program that is killed while it copies a full chunk may leave both copies; only one of them is returned.

    Args:
        chunks: where they are.
        read: reads the file.

    Yields:
        The chunks by the time of their first event, those without events last.
    """
    offsets, sizes, ticks = _scan(chunks, read)
    excess = sizes[-1] % chunks.page if sizes else 0
    is_cut = excess > 0 and _is_shown(offsets[-1], sizes[-1], chunks.page, read)
    if excess and not is_cut:  # the copy of a full chunk was not complete
        sizes[-1] -= excess
    before: Chunk | None = None
    for index in sorted(range(len(offsets)), key=lambda index: (ticks[index], offsets[index])):
        chunk = Chunk(offsets[index], sizes[index], ticks[index], is_cut and index == len(offsets) - 1)
        if before is not None and not _are_copies(before, chunk, chunks, read):
            yield before
        before = chunk
    if before is not None:
        yield before


def _scan(chunks: Chunks, read: Read) -> tuple[array[int], array[int], array[int]]:
    """Return offsets, sizes and first ticks of all chunks, as they follow in the file."""
    offsets, ticks = array("Q"), array("Q")
    step = chunks.page // 8
    buffer = bytearray(_SCAN_BYTES // chunks.page * chunks.page)
    offset = chunks.begin
    while size := read(offset, memoryview(buffer)):
        words = memoryview(buffer)[: size // 8 * 8].cast("Q")
        begins = _begins(words[::step].tolist() if words else [], is_first=not offsets)
        if ticks and ticks[-1] == _LATEST:
            ticks[-1] = _first_tick(words, 0, begins[0] * step if begins else len(words), step)
        for page, following in zip_longest(begins, begins[1:]):
            stop = len(words) if following is None else following * step
            offsets.append(offset + page * chunks.page)
            ticks.append(_first_tick(words, page * step, stop, step))
        offset += size
    ends = offsets[1:] + array("Q", [offset])
    return offsets, array("Q", map(sub, ends, offsets)), ticks


def _begins(first_words: list[int], *, is_first: bool) -> list[int]:
    """Return the pages on which chunks begin.

    Args:
        first_words: the first word of each page.
        is_first: the first page begins a chunk in any case.
    """
    shown = filler_header(1)
    begins = [0] if is_first and first_words else []
    page = len(begins) - 1
    for _ in range(first_words.count(shown) - (bool(begins) and first_words[0] == shown)):
        page = first_words.index(shown, page + 1)
        begins.append(page)
    return begins


def _first_tick(words: memoryview[int], begin: int, stop: int, step: int) -> int:
    """Return the time of the first event of the pages between two words; the largest number if they have none."""
    for page in range(begin, min(stop, len(words) - 2), step):
        if _type_of(words[page + 1]) in _TIMED:
            return words[page + 2]
    return _LATEST


def _is_shown(offset: int, size: int, page: int, read: Read) -> bool:
    """Return whether readers see the last page of a chunk, and not only the filler with which it begins.

    They see each page from the first one on, up to one whose last word does not step over the first word after it.
    """
    last = bytearray(8)
    for end in range(offset + page, offset + size, page):
        read(end - 8, memoryview(last))
        if int.from_bytes(last, sys.byteorder) != filler_header(2):
            return False
    return True


def _are_copies(first: Chunk, second: Chunk, chunks: Chunks, read: Read) -> bool:
    """Return whether two chunks hold the same events."""
    if first.tick != second.tick or first.tick == _LATEST:
        return False
    size = min(first.size, second.size)
    for begin in range(0, size, chunks.page):
        pages = []
        for chunk in (first, second):
            page = bytearray(min(chunks.page, size - begin))
            del page[read(chunk.offset + begin, memoryview(page)) :]
            pages.append(page)
        place = chunks.records_of(0)
        if pages[0][place.start : place.stop] != pages[1][place.start : place.stop]:
            return False
    return True
