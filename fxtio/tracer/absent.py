"""Stand-ins for the recorder where the C extension is missing: marks do nothing, and `squeeze` is slower.

The marks take the same arguments as the recorder's and allocate nothing.
"""

from __future__ import annotations

from typing import Any

from fxtio.fxt.layout import RecordWord, StringWord

_SIZE = RecordWord.fields["size"]
_FILLER = StringWord.pattern("tag", "const")[1]  # slot 0.  spec: String record


class Site:
    """A place in a program that marks something."""

    __slots__ = ()

    def __init__(self, category: str, name: str, keys: tuple[str, ...] = (), /) -> None: ...


class Span:
    """A context manager that does nothing; all `with` blocks share one."""

    __slots__ = ()

    def __enter__(self) -> Span:
        return self

    def __exit__(self, *exception: object) -> None: ...

    def set(self, **args: object) -> None:
        """Ignore the arguments."""


_SPAN = Span()


def span(name: str, category: str = "", /, **args: object) -> Span:
    """Return a span that is not recorded."""
    return _SPAN


def instant(name: str, category: str = "", /, **args: object) -> None:
    """Do nothing."""


def counter(name: str, value: Any = None, category: str = "", /, **series: object) -> None:
    """Do nothing."""


def record(kind: int, site: Site, values: tuple[Any, ...], id: int | None, /) -> bool:
    """Return False: nothing is recorded."""
    return False


def message(text: str, /) -> bool:
    """Return False: nothing is recorded."""
    return False


def squeeze(buffer: Any, /) -> tuple[int, int]:
    """Move the records in a buffer together, over the fillers, in place.

    Args:
        buffer: a writable buffer of whole words that begins with a record.

    Returns:
        The number of words examined and the number of words left.  The examination ends before a record that does not
        end in the buffer, and before a word that is no header.
    """
    words = memoryview(buffer).cast("B")
    words = words[: len(words) // 8 * 8].cast("Q")
    lowest, mask, in_place = _SIZE.lo, _SIZE.mask, _SIZE.mask << _SIZE.lo
    position = target = run_start = 0  # the records from run_start to position have still to be moved
    while position < len(words):
        header = words[position]
        size = header >> lowest & mask
        if not size or position + size > len(words):
            break
        if header & ~in_place == _FILLER:
            run = position - run_start
            words[target : target + run] = words[run_start:position]
            target += run
            run_start = position + size
        position += size
    run = position - run_start
    words[target : target + run] = words[run_start:position]
    return position, target + run
