"""Stand-ins for the recorder where the C extension is missing: marks do nothing, `squeeze` and `merge` are slower."""

from __future__ import annotations

from heapq import heapify, heappop, heapreplace
from typing import Any

from fxtio.fxt.enums import RecordType
from fxtio.fxt.layout import MAX_RECORD_WORDS, RecordWord, StringWord
from fxtio.noop import Span, counter, instant, span

__all__ = [
    "Site",
    "Span",
    "active",
    "counter",
    "instant",
    "mark",
    "merge",
    "message",
    "record",
    "span",
    "squeeze",
    "value_of",
]

_SIZE, _TYPE = RecordWord.fields["size"], RecordWord.fields["type"]
_SIZE_BITS = _SIZE.mask << _SIZE.lo
_FILLER = StringWord.pattern("tag", "const")[1]  # slot 0.  spec: String record
_TIMED = (RecordType.EVENT, RecordType.LOG)


class Site:
    """A place in a program that marks something."""

    __slots__ = ()

    def __init__(self, category: str, name: str, keys: tuple[str, ...] = (), /, *, once: bool = False) -> None: ...


def active() -> int:
    """Return 0: nothing is recorded."""
    return 0


def record(kind: int, site: Site, values: tuple[Any, ...], id: int | None, /) -> bool:
    """Return False: nothing is recorded."""
    return False


def mark(kind: int, id: int, session: int, name: str, category: str, /, **args: object) -> int:
    """Return 0: nothing is recorded."""
    return 0


def message(text: str, /) -> bool:
    """Return False: nothing is recorded."""
    return False


def value_of(pairs: object, key: bytes, /) -> Any:
    """Return the second item of the first pair in a list whose first item is these bytes, or None."""
    known = [pair for pair in pairs if type(pair) in (tuple, list)] if type(pairs) is list else []
    return next((pair[1] for pair in known if len(pair) == 2 and type(pair[0]) is bytes and pair[0] == key), None)


def squeeze(buffer: Any, /) -> tuple[int, int]:
    """Move the records in a buffer together, over the fillers, in place.

    Args:
        buffer: a writable buffer of whole words that begins with a record.

    Returns:
        The number of words examined and the number of words left.  The examination ends before a record that does not
        end in the buffer, and before a word that is no header.
    """
    words = _words(buffer)
    lowest, mask = _SIZE.lo, _SIZE.mask
    position = target = run_start = 0  # the records from run_start to position have still to be moved
    while position < len(words):
        header = words[position]
        size = header >> lowest & mask
        if not size or position + size > len(words):
            break
        if _is_filler(header):
            run = position - run_start
            words[target : target + run] = words[run_start:position]
            target += run
            run_start = position + size
        position += size
    run = position - run_start
    words[target : target + run] = words[run_start:position]
    return position, target + run


def merge(buffers: tuple[Any, ...], positions: Any, limit: int, output: Any, /) -> tuple[int, int]:
    """Merge the records of buffers in the order of time, those of equal times in the order of the buffers.

    A record without a time follows the one before it.  Fillers are left out.

    Args:
        buffers: the records.
        positions: the word in each buffer where its next record begins (uint64); they are moved on, at most to the
            first word that begins no whole record.
        limit: the latest tick that is merged.
        output: a writable buffer, which is filled as far as whole records fit; it has room for the largest one.

    Returns:
        The number of words and of events written.
    """
    out = _words(output)
    if len(out) < MAX_RECORD_WORDS or len(positions) < len(buffers):
        raise ValueError("the output holds a record, and each buffer has a position")
    words = [_words(buffer) for buffer in buffers]
    written = events = 0
    heap = [entry for index in range(len(words)) if (entry := _next(words[index], positions, index, 0))]
    heapify(heap)
    while heap and heap[0][0] <= limit:
        tick, index, size = heap[0]
        if written + size > len(out):
            break
        at = positions[index]
        out[written : written + size] = words[index][at : at + size]
        written += size
        events += _TYPE.get(words[index][at]) == RecordType.EVENT
        positions[index] = at + size
        following = _next(words[index], positions, index, tick)
        if following:
            heapreplace(heap, following)
        else:
            heappop(heap)
    return written, events


def _words(buffer: Any) -> memoryview[int]:
    """Return the whole words of a buffer."""
    data = memoryview(buffer).cast("B")
    return data[: len(data) // 8 * 8].cast("Q")


def _next(words: memoryview[int], positions: Any, index: int, tick: int) -> tuple[int, int, int] | None:
    """Return the time of the next record of a buffer, the number of the buffer, and the record's size in words."""
    while positions[index] < len(words):
        at = positions[index]
        size = _SIZE.get(words[at])
        if not size or at + size > len(words):
            break
        if not _is_filler(words[at]):
            is_timed = size > 1 and _TYPE.get(words[at]) in _TIMED
            return words[at + 1] if is_timed else tick, index, size
        positions[index] += size
    return None


def _is_filler(header: int) -> bool:
    """Return whether a record is one that every reader skips."""
    return header & ~_SIZE_BITS == _FILLER
