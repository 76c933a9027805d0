"""Which formats there are, and which one a file has: by content first, then by suffix.

A format is an object with the attributes of `Format`; other packages add theirs by the entry point group
`fxtio.formats`.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Protocol

from fxtio.errors import FormatError

if TYPE_CHECKING:
    from fxtio.io.source import Source

BUILT_IN = {"fxt": "fxtio.fxt"}
"""Name and module of the formats that come with the package."""

_PACKED = (".gz", ".zst", ".xz")


class Format(Protocol):
    """What a format gives.

    Attributes:
        name: its name, for example `fxt`.
        suffixes: what its files are called, for example `.fxt`.
    """

    name: str
    suffixes: tuple[str, ...]

    def sniff(self, head: bytes) -> bool:
        """Whether a file that begins with these bytes is of this format."""

    def open(self, target: Any, *, source: Source, **options: Any) -> Any:
        """A reader."""

    def create(self, target: Any, **options: Any) -> Any:
        """A writer."""


def formats() -> dict[str, Format]:
    """All formats by name."""
    found: dict[str, Format] = {name: import_module(module).FORMAT for name, module in BUILT_IN.items()}
    for point in entry_points(group="fxtio.formats"):
        if point.name not in found:
            found[point.name] = point.load()
    return found


def by_name(name: str) -> Format:
    """The format of this name.

    Raises:
        FormatError: there is none.
    """
    known = formats()
    if name not in known:
        raise FormatError(f"no format {name!r}; there are {', '.join(sorted(known))}")
    return known[name]


def by_suffix(name: str) -> Format | None:
    """The format whose files are called like this; a suffix of a compression is looked through."""
    for packed in _PACKED:
        name = name.removesuffix(packed)
    for one in formats().values():
        if name.endswith(one.suffixes):
            return one
    return None


def of_source(source: Source) -> Format:
    """The format of opened data.

    Raises:
        FormatError: it is none that is known.
    """
    for one in formats().values():
        if one.sniff(source.head):
            return one
    named = by_suffix(source.name)
    if named is not None:
        return named
    if not source.head:
        raise FormatError(f"{source.name} is empty")
    begin = source.head[:16]
    shown = repr(begin.decode("ascii")) if begin.isascii() and begin.decode("ascii").isprintable() else begin.hex(" ")
    raise FormatError(f"{source.name} is no trace of a known format ({', '.join(formats())}); it begins with {shown}")
