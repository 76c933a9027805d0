"""The records of a profile: header lines, the line that ends the header, chunks and the footer; their codec.

`encode` converts a record to bytes and refuses what the format cannot express.  `decode_line` and `decode_footer`
convert bytes to records; `reader` makes those of chunks from columns.  What would not be written back the same is
`Opaque`.  Tags and names of fields are those of `fxtio.codec.canonical`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import field

from fxtio.codec.canonical import Identifier
from fxtio.codec.integers import checked_integer
from fxtio.codec.record import Opaque
from fxtio.dcpi.layout import CHUNK_HEAD, FOOTER, KEYWORDS, MAX_COUNT, REST, TERMINATOR, WORD_TYPE
from fxtio.errors import EncodeError

MAX_COUNTS = 1 << 16
"""The most counts of a record that was read; a longer chunk continues in `MoreCounts`, so that memory stays bounded."""

_WORD = re.compile(r"[^ \t\n]+")
_BLANKS = re.compile(r"[ \t]+")
_LINE = re.compile(r"([^ \t\n]+)([ \t]+)([^ \t\n][^\n]*)\n")
_END = re.compile(rf"{TERMINATOR}([ \t]*)\n")


class Line(msgspec.Struct, frozen=True, gc=False, tag="line"):
    """A line of the header.  spec: line

    Attributes:
        word: the first word, see `layout.KEYWORDS`; other words are allowed.
        value: the rest of the line; bytes that are not ASCII are surrogate escapes.
        blanks: the spaces and tabs between the two.
    """

    word: Identifier
    value: str
    blanks: str = field(default=" ", name="_blanks")


class Terminator(msgspec.Struct, frozen=True, gc=False, tag="terminator"):
    """The line that ends the header.  spec: terminator

    Attributes:
        padding: the spaces and tabs after the word.
    """

    padding: str = field(default="", name="_padding")


class Chunk(msgspec.Struct, frozen=True, gc=False, tag="chunk"):
    """Counts at consecutive addresses.  spec: chunk

    Attributes:
        text_offset: bytes from the beginning of the text to the first address.
        counts: samples at each address; `MAX_COUNTS` at most when it was read.
        remaining: number of counts that follow in `MoreCounts` records.
    """

    text_offset: Annotated[int, "hexadecimal"] = field(name="offset")
    counts: tuple[int, ...]
    remaining: int = field(default=0, name="_remaining")


class MoreCounts(msgspec.Struct, frozen=True, gc=False, tag="more-counts"):
    """Further counts of a long chunk.  spec: chunk

    Attributes:
        counts: samples at each address.
    """

    counts: tuple[int, ...]


class Footer(msgspec.Struct, frozen=True, gc=False, tag="footer"):
    """The totals.  spec: footer

    Attributes:
        total_offsets: number of addresses with samples.
        total_samples: number of samples, modulo 2**32.
    """

    total_offsets: int
    total_samples: int


Record = Line | Terminator | Chunk | MoreCounts | Footer | Opaque

RECORDS: tuple[type[Any], ...] = (Line, Terminator, Chunk, MoreCounts, Footer)


def encode(record: Record) -> bytes:
    """Encode a record.

    Raises:
        EncodeError: it is not a record, or the format cannot express it.
    """
    encoder = _ENCODERS.get(type(record))
    if encoder is None:
        raise EncodeError(f"{type(record).__name__} is not a record of the format", "record")
    return encoder(record)


def _require_texts(record: Line | Terminator) -> None:
    for name, value in msgspec.structs.asdict(record).items():
        if type(value) is not str:
            raise EncodeError(f"{value!r} is not a text", f"{type(record).__name__}.{name}")


def _encode_line(line: Line) -> bytes:
    _require_texts(line)
    if not _WORD.fullmatch(line.word):
        raise EncodeError(f"{line.word!r} is not a word: it is empty or has blanks or line ends", "Line.word")
    if not _BLANKS.fullmatch(line.blanks):
        raise EncodeError(f"{line.blanks!r} has other characters than spaces and tabs, or none", "Line.blanks")
    syntax = KEYWORDS[line.word].syntax if line.word in KEYWORDS else REST
    for each in (REST, syntax):
        if not each.pattern.fullmatch(line.value):
            raise EncodeError(f"{line.value!r} is not {each.description}", f"Line.value of {line.word}")
    return _ascii_bytes(f"{line.word}{line.blanks}{line.value}\n", f"Line.value of {line.word}")


def _encode_terminator(line: Terminator) -> bytes:
    _require_texts(line)
    if line.padding and not _BLANKS.fullmatch(line.padding):
        raise EncodeError(f"{line.padding!r} has other characters than spaces and tabs", "Terminator.padding")
    return f"{TERMINATOR}{line.padding}\n".encode("ascii")


def _ascii_bytes(text: str, where: str) -> bytes:
    try:
        return text.encode("ascii", "surrogateescape")
    except UnicodeEncodeError:
        raise EncodeError(f"{text!r} has characters that are not ASCII", where) from None


def _encode_chunk(chunk: Chunk) -> bytes:
    counts = _words(chunk.counts, "Chunk.counts")
    offset, remaining = (_checked_word(getattr(chunk, name), f"Chunk.{name}") for name in ("text_offset", "remaining"))
    number = _checked_word(len(chunk.counts) + remaining, "Chunk.counts")
    if number == 0:
        raise EncodeError("a chunk has at least one count", "Chunk.counts")
    head: bytes = CHUNK_HEAD.build({"offset": offset, "number": number})
    return head + counts


def _encode_more(more: MoreCounts) -> bytes:
    counts = _words(more.counts, "MoreCounts.counts")
    if not counts:
        raise EncodeError("there is no count", "MoreCounts.counts")
    return counts


def _words(counts: Any, where: str) -> bytes:
    if not isinstance(counts, tuple | list) or not {*map(type, counts)} <= {int}:
        raise EncodeError("the counts are not a tuple of integers", where)
    for count in (min(counts, default=0), max(counts, default=0)):
        _checked_word(count, where)
    return np.array(counts, WORD_TYPE).tobytes()


def _encode_footer(footer: Footer) -> bytes:
    values = {name: _checked_word(value, f"Footer.{name}") for name, value in msgspec.structs.asdict(footer).items()}
    data: bytes = FOOTER.build(values)
    return data


def _checked_word(value: Any, where: str) -> int:
    return checked_integer(value, where, most=MAX_COUNT)


def _encode_opaque(record: Opaque) -> bytes:
    if not isinstance(record.raw, bytes):
        raise EncodeError(f"{record.raw!r} is not bytes", "Opaque.raw")
    return record.raw


_ENCODERS: dict[type, Callable[[Any], bytes]] = {
    Line: _encode_line,
    Terminator: _encode_terminator,
    Chunk: _encode_chunk,
    MoreCounts: _encode_more,
    Footer: _encode_footer,
    Opaque: _encode_opaque,
}


def decode_line(raw: bytes) -> Line | Terminator | Opaque:
    """Decode a line of the header, line end included; return `Opaque` if it does not have the form of a line."""
    text = raw.decode("ascii", "surrogateescape")
    if match := _LINE.fullmatch(text):
        return Line(match[1], match[3], match[2])
    if match := _END.fullmatch(text):
        return Terminator(match[1])
    return Opaque(raw)


def decode_footer(raw: bytes) -> Footer:
    """Decode the footer.

    Raises:
        construct.ConstructError: there are fewer than 8 bytes.
    """
    values = FOOTER.parse(raw)
    return Footer(values.total_offsets, values.total_samples)


def empty_chunk(text_offset: int) -> Opaque:
    """Return the bytes of a chunk without counts, which the format does not allow."""
    return Opaque(CHUNK_HEAD.build({"offset": text_offset, "number": 0}))
