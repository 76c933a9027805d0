"""The records of a profile in the order of the file: header lines, the line that ends the header, chunks, the footer.

Each goes to bytes with `encode`, which refuses what the format cannot say, and comes from bytes with `decode_line`,
`decode_chunk` and `decode_footer`.  What would not be written back the same is `Opaque`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from fxtio.codec.record import Opaque
from fxtio.dcpi.layout import CHUNK_HEAD, FOOTER, KEYWORDS, MAX_COUNT, REST, TERMINATOR, WORD_TYPE
from fxtio.errors import EncodeError

PIECE = 1 << 16
"""The most counts that a record has; a longer chunk goes on in `More` records, so that memory stays bounded."""

_WORD = re.compile(r"[^ \t\n]+")
_BLANKS = re.compile(r"[ \t]+")
_LINE = re.compile(r"([^ \t\n]+)([ \t]+)([^ \t\n][^\n]*)\n")
_END = re.compile(rf"{TERMINATOR}([ \t]*)\n")


class Line(msgspec.Struct, frozen=True, gc=False):
    """A line of the header.  spec: line

    Attributes:
        word: what it is about; see `layout.KEYWORDS`, but any word may come.
        value: the rest of the line; bytes that are not ASCII are surrogate escapes.
        blanks: spaces and tabs between the two.
    """

    word: str
    value: str
    blanks: str = " "


class Terminator(msgspec.Struct, frozen=True, gc=False):
    """The line that ends the header.  spec: terminator

    Attributes:
        padding: spaces and tabs behind the word.
    """

    padding: str = ""


class Chunk(msgspec.Struct, frozen=True, gc=False):
    """Counts at addresses in a row.  spec: chunk

    Attributes:
        offset: bytes from the beginning of the text to the first address.
        counts: samples at each address, as many as `PIECE` at most when it was read.
        behind: how many more counts follow in `More` records.
    """

    offset: int
    counts: tuple[int, ...]
    behind: int = 0


class More(msgspec.Struct, frozen=True, gc=False):
    """Further counts of a long chunk.

    Attributes:
        counts: samples at each address.
    """

    counts: tuple[int, ...]


class Footer(msgspec.Struct, frozen=True, gc=False):
    """The totals.  spec: footer

    Attributes:
        total_offsets: how many addresses have a sample.
        total_samples: how many samples there are, modulo 2**32.
    """

    total_offsets: int
    total_samples: int


Record = Line | Terminator | Chunk | More | Footer | Opaque

RECORDS: tuple[type[Any], ...] = (Line, Terminator, Chunk, More, Footer)


def encode(record: Record) -> bytes:
    """A record's bytes.

    Raises:
        EncodeError: the format cannot say it.
    """
    make = _ENCODERS.get(type(record))
    if make is None:
        raise EncodeError(f"{type(record).__name__} is no record", "record")
    return make(record)


def _encode_line(line: Line) -> bytes:
    if not _WORD.fullmatch(line.word):
        raise EncodeError(f"{line.word!r} is no word: it is empty, or has blanks or line ends", "Line.word")
    if not _BLANKS.fullmatch(line.blanks):
        raise EncodeError(f"{line.blanks!r} are no spaces and tabs", "Line.blanks")
    form = KEYWORDS[line.word].form if line.word in KEYWORDS else REST
    if not REST.pattern.fullmatch(line.value):
        raise EncodeError(f"{line.value!r} is not {REST.told}", f"Line.value of {line.word}")
    if not form.pattern.fullmatch(line.value):
        raise EncodeError(f"{line.value!r} is not {form.told}", f"Line.value of {line.word}")
    return _octets(f"{line.word}{line.blanks}{line.value}\n", f"Line.value of {line.word}")


def _encode_terminator(line: Terminator) -> bytes:
    if line.padding and not _BLANKS.fullmatch(line.padding):
        raise EncodeError(f"{line.padding!r} are no spaces and tabs", "Terminator.padding")
    return f"{TERMINATOR}{line.padding}\n".encode("ascii")


def _octets(text: str, where: str) -> bytes:
    try:
        return text.encode("ascii", "surrogateescape")
    except UnicodeEncodeError:
        raise EncodeError(f"{text!r} has characters that are not ASCII", where) from None


def _encode_chunk(chunk: Chunk) -> bytes:
    number = len(chunk.counts) + chunk.behind
    for name, value in (("offset", chunk.offset), ("behind", chunk.behind), ("counts", number)):
        _require(value, f"Chunk.{name}")
    if number == 0:
        raise EncodeError("a chunk has at least one count", "Chunk.counts")
    head: bytes = CHUNK_HEAD.build({"offset": chunk.offset, "number": number})
    return head + _words(chunk.counts, "Chunk.counts")


def _encode_more(more: More) -> bytes:
    if not more.counts:
        raise EncodeError("there is no count", "More.counts")
    return _words(more.counts, "More.counts")


def _words(counts: tuple[int, ...], where: str) -> bytes:
    for count in (min(counts, default=0), max(counts, default=0)):
        _require(count, where)
    return np.array(counts, WORD_TYPE).tobytes()


def _encode_footer(footer: Footer) -> bytes:
    values = msgspec.structs.asdict(footer)
    for name, value in values.items():
        _require(value, f"Footer.{name}")
    data: bytes = FOOTER.build(values)
    return data


def _require(value: int, where: str) -> None:
    if not 0 <= value <= MAX_COUNT:
        raise EncodeError(f"{value:,} does not fit 32 bits", where)


_ENCODERS: dict[type, Callable[[Any], bytes]] = {
    Line: _encode_line,
    Terminator: _encode_terminator,
    Chunk: _encode_chunk,
    More: _encode_more,
    Footer: _encode_footer,
    Opaque: lambda record: record.raw,
}


def decode_line(raw: bytes) -> Line | Terminator | Opaque:
    """A line of the header, its line end included; `Opaque` where it has not the form of one."""
    text = raw.decode("ascii", "surrogateescape")
    if match := _LINE.fullmatch(text):
        return Line(match[1], match[3], match[2])
    if match := _END.fullmatch(text):
        return Terminator(match[1])
    return Opaque(raw)


def decode_chunk(raw: bytes) -> Chunk:
    """A whole chunk, by construct.

    Raises:
        construct.ConstructError: there are fewer counts than it tells.
    """
    from fxtio.dcpi.layout import CHUNK

    made = CHUNK.parse(raw)
    return Chunk(made.offset, tuple(made.counts))


def decode_footer(raw: bytes) -> Footer:
    """The footer.

    Raises:
        construct.ConstructError: there are fewer than 8 bytes.
    """
    made = FOOTER.parse(raw)
    return Footer(made.total_offsets, made.total_samples)
