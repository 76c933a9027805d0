"""Kinds of items, and the style of a file: how each value stands in a line.

A record is a list of items (see `records`).  Each kind of item has a pattern, parses characters to a value and formats
a value as characters, in the style of a file.  Patterns are possessive (`++`, `*+`): they never backtrack, so a hostile
line costs no more than its length.

spec: Format rules
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, ClassVar

import msgspec

from fxtio.arrays import Array
from fxtio.codec.integers import MAX_UINT64, checked_integer
from fxtio.errors import EncodeError

_BOOLEAN, _DECIMAL = re.compile("[TF]"), re.compile("-?[0-9]+")

PARAMETERS: dict[str, re.Pattern[str]] = {
    "SamplingTimeoutMs": _DECIMAL,
    "CpuTraceTimeoutMs": _DECIMAL,
    "HighGranularityEnabled": _BOOLEAN,
    "TracingSuspendedOnStart": _BOOLEAN,
    "LineTraceEnabled": _BOOLEAN,
    "CpuTraceProcessEnabled": _BOOLEAN,
    "CpuTraceThreadEnabled": _BOOLEAN,
    "ExecutionTraceEnabled": _BOOLEAN,
    "MemoryTraceEnabled": _BOOLEAN,
    "StackTrackingEnabled": _BOOLEAN,
}
"""The patterns of the values of parameters that are numbers or Boolean.  spec: Profiler Configuration"""

MAX_32, MAX_63 = 2**32 - 1, 2**63 - 1

NS_PER_MS = 1_000_000
"""Times in a file are milliseconds; fxtio gives nanoseconds."""

MIN_63 = -(2**63)

MIN_MS, MAX_MS = -(2**63 // NS_PER_MS), MAX_63 // NS_PER_MS
"""The earliest and the latest time whose nanoseconds fit 64 bits: 292 years before and after the start."""


def nanoseconds(milliseconds: int) -> int:
    """Convert a time of a file to nanoseconds; what does not fit 64 bits becomes the nearest time that does."""
    time = milliseconds * NS_PER_MS
    return time if MIN_63 <= time <= MAX_63 else MAX_63 if time > 0 else MIN_63


def nanoseconds_of(milliseconds: Array) -> Array:
    """Convert many times (int64) as `nanoseconds` does."""
    times: Array = milliseconds * NS_PER_MS  # those that do not fit wrap around, and are replaced
    if has_overflow(milliseconds):
        times[milliseconds > MAX_MS] = MAX_63
        times[milliseconds < MIN_MS] = MIN_63
    return times


def has_overflow(milliseconds: Array) -> bool:
    """Return whether there are times (int64) whose nanoseconds do not fit 64 bits."""
    return len(milliseconds) > 0 and not MIN_MS <= int(milliseconds.min()) <= int(milliseconds.max()) <= MAX_MS


TAG_SIZE = 7
"""Characters of a record's type and subtype, with the space between them."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

UNDEFINED = -1
"""The value of an instruction pointer that the file gives as `?`."""

NUMBER_KINDS = ("hex32", "hex", "pointer", "ip", "sample")
"""Kinds of hexadecimal numbers that a file may write differently: of 32 bits; of any size; pointers and identifiers;
instruction pointers; Internal IDs within samples."""


@dataclass(slots=True)
class Style:
    """The style of a file: a choice for everything that can be written in several ways.

    A file shows its style line by line.  What it has not shown yet is as in the given specification.  Once detected, a
    trait does not change, so records that were read and a writer that has the same style agree.

    Attributes:
        formats: the printf format of each of `NUMBER_KINDS`.
        newline: the line end.
        mark: whether the file begins with a byte-order mark.
        destroyed: type and subtype of the record for a destroyed thread; the given specification misprints it.
        stack: type and subtype of a stack sample.
        glued_flags: whether the flags of a collection stand together, without spaces.
        detected: the traits that the file has shown so far.
    """

    formats: dict[str, str]
    newline: str = "\n"
    mark: bool = False
    destroyed: str = "thr crt"
    stack: str = "sam str"
    glued_flags: bool = True
    detected: set[str] = field(default_factory=set)

    def copy(self) -> Style:
        """Return an independent copy."""
        return replace(self, formats=dict(self.formats), detected=set(self.detected))


def _formats(hex32: str, pointer: str, ip: str, sample: str) -> dict[str, str]:
    return {"hex32": hex32, "hex": "0x%x", "pointer": pointer, "ip": ip, "sample": sample}


DIALECTS: dict[str, Style] = {
    "D0": Style(
        _formats("0x%08x", "0x%08X", "%08X", "0x%x"), destroyed="thr dst", stack="str sam",
    ),
    "D1": Style(_formats("0x%08x", "0x%08X", "%08X", "0x%x"), destroyed="thr dst"),
    "D2": Style(_formats("0x%08X", "0x%016X", "0x%016X", "0x%08X")),
    "D3": Style(_formats("0x%08x", "0x%08X", "0x%08X", "0x%x"), destroyed="thr dst"),
    "D4": Style(_formats("0x%08x", "0x%08X", "0x%08X", "0x%x"), newline="\r\n", mark=True, destroyed="thr dst"),
}  # fmt: skip
"""The dialects by name.  D2 is the given specification; the others are inferred, for a 32-bit device."""


def dialect(name: str) -> Style:
    """Return a new style with the traits of a dialect.

    Raises:
        KeyError: there is no such dialect.
    """
    if name not in DIALECTS:
        raise KeyError(f"no dialect {name!r}; the dialects are {', '.join(DIALECTS)}")
    return DIALECTS[name].copy()


class QuoteError(ValueError):
    """A text in quotes without its first or its last quote."""


class OsThread(msgspec.Struct, frozen=True, gc=False, order=True):
    """A thread by its number in the operating system, which newer writers give in place of an Internal ID.

    Attributes:
        number: the decimal number.
    """

    number: int


@dataclass(frozen=True, slots=True)
class Item:
    """The declaration of a field's item.

    Attributes:
        name: its name in the specification.
    """

    name: str


@dataclass(frozen=True, slots=True)
class ValueItem(Item, ABC):
    """An item that stands for one value, or for the values of several fields: it is converted as a whole."""

    @abstractmethod
    def parse(self, raw: bytes) -> Any:
        """Convert characters to a value.

        Raises:
            ValueError: they stand for no value.
        """

    @abstractmethod
    def format(self, value: Any, style: Style, where: str) -> str:
        """Convert a value to characters.

        Raises:
            EncodeError: the format cannot express it; the message names `where`.
        """

    def describe(self, value: Any) -> str:
        """Convert a value to text for people."""
        return str(value)


@dataclass(frozen=True, slots=True)
class FixedItem(ValueItem):
    """An item that has a pattern; its characters are given and returned without the separator.

    Attributes:
        separator: the character before it: a space or, within a compound item, a colon.
        optional: whether it may be missing together with its separator; the value is None then.
    """

    separator: str = " "
    optional: bool = False

    body: ClassVar[str] = ""
    "The pattern of the item without its separator."

    @property
    def pattern(self) -> str:
        """The pattern of the item with its separator; the item is the only group."""
        whole = f"{re.escape(self.separator)}({self.body})"
        return f"(?:{whole})?+" if self.optional else whole


@dataclass(frozen=True, slots=True)
class RestItem(ValueItem):
    """An item that takes the rest of the line; its characters begin with the separator."""


def _parse_integer(raw: bytes, base: int, low: int, high: int) -> int:
    if len(raw) > 40:  # conversion of long decimal numbers is slow
        raise ValueError(f"a number of {len(raw):,} characters")
    value = int(raw, base)
    if not low <= value <= high:
        raise ValueError(f"{value:,} is not from {low:,} to {high:,}")
    return value


@dataclass(frozen=True, slots=True)
class Decimal(FixedItem):
    """A decimal number.

    Attributes:
        low: the smallest value.
        high: the largest value.
    """

    low: int = 0
    high: int = MAX_63

    body: ClassVar[str] = "-?+[0-9]++"

    def parse(self, raw: bytes) -> int:
        return _parse_integer(raw, 10, self.low, self.high)

    def format(self, value: Any, style: Style, where: str) -> str:
        return str(checked_integer(value, where, self.low, self.high))


@dataclass(frozen=True, slots=True)
class Hexadecimal(FixedItem):
    """A hexadecimal number with 0x.

    Attributes:
        kind: which of `NUMBER_KINDS` it is.
        high: the largest value.
        unknown: whether it may be `?`, which is None.
    """

    kind: str = "hex"
    high: int = MAX_UINT64
    unknown: bool = False

    @property
    def body(self) -> str:  # type: ignore[override]
        return r"0x[0-9A-Fa-f]++" + (r"|\?" if self.unknown else "")

    def parse(self, raw: bytes) -> int | None:
        return None if raw == b"?" else _parse_integer(raw, 16, 0, self.high)

    def format(self, value: Any, style: Style, where: str) -> str:
        if value is None and self.unknown:
            return "?"
        return style.formats[self.kind] % checked_integer(value, where, 0, self.high)

    def describe(self, value: Any) -> str:
        return "?" if value is None else f"{value:#x}"


@dataclass(frozen=True, slots=True)
class Pointer(FixedItem):
    """An instruction pointer: with 0x, or without it in older dialects; `?` where it is undefined."""

    kind: ClassVar[str] = "ip"
    body: ClassVar[str] = r"(?:0x)?+[0-9A-Fa-f]++|\?"

    def parse(self, raw: bytes) -> int:
        return UNDEFINED if raw == b"?" else _parse_integer(raw, 16, 0, MAX_UINT64)

    def format(self, value: Any, style: Style, where: str) -> str:
        if value == UNDEFINED:
            return "?"
        return style.formats[self.kind] % checked_integer(value, where)

    def describe(self, value: Any) -> str:
        return "?" if value == UNDEFINED else f"{value:#x}"


@dataclass(frozen=True, slots=True)
class ThreadNumber(FixedItem):
    """A thread: its Internal ID, or (from 2018 on) its decimal number in the operating system."""

    body: ClassVar[str] = r"0x[0-9A-Fa-f]++|\?|[0-9]++"

    def parse(self, raw: bytes) -> int | OsThread | None:
        if raw == b"?":
            return None
        if raw.startswith(b"0x"):
            return _parse_integer(raw, 16, 0, MAX_32)
        return OsThread(_parse_integer(raw, 10, 0, MAX_63))

    def format(self, value: Any, style: Style, where: str) -> str:
        if value is None:
            return "?"
        if isinstance(value, OsThread):
            return str(checked_integer(value.number, where, 0, MAX_63))
        return style.formats["hex32"] % checked_integer(value, where, 0, MAX_32)

    def describe(self, value: Any) -> str:
        return f"os thread {value.number}" if isinstance(value, OsThread) else "?" if value is None else f"{value:#x}"


@dataclass(frozen=True, slots=True)
class Count(Decimal):
    """A decimal number, or in the oldest dialect `?`, which is None."""

    body: ClassVar[str] = r"[0-9]++|\?"

    def parse(self, raw: bytes) -> int | None:  # type: ignore[override]
        return None if raw == b"?" else Decimal.parse(self, raw)

    def format(self, value: Any, style: Style, where: str) -> str:
        return "?" if value is None else Decimal.format(self, value, style, where)


@dataclass(frozen=True, slots=True)
class Word(FixedItem):
    """Characters without spaces."""

    body: ClassVar[str] = r"[^ \r\n:]++"

    def parse(self, raw: bytes) -> str:
        return raw.decode("utf-8", "surrogateescape")

    def format(self, value: Any, style: Style, where: str) -> str:
        text = _require_text(value, where)
        if not re.fullmatch(r"[^ \r\n:\0]+", text):
            raise EncodeError(f"{value!r} is not a word: it is empty or has spaces, colons, line ends or NUL", where)
        return text


@dataclass(frozen=True, slots=True)
class LocalTime(FixedItem):
    """Local time to the millisecond; in newer dialects with its distance from UTC."""

    body: ClassVar[str] = (
        r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}(?: [+-][0-9][0-9]:[0-9][0-9])?+"
    )

    def parse(self, raw: bytes) -> datetime:
        text = raw.decode("ascii")
        local = datetime.strptime(text[:23], "%Y-%m-%d %H:%M:%S.%f")  # noqa: DTZ007  # without a zone it is local time
        if len(text) == 23:
            return local
        offset = timedelta(hours=int(text[25:27]), minutes=int(text[28:30]))
        if int(text[28:30]) > 59:
            raise ValueError(f"{text[24:]} is not a distance from UTC")
        return local.replace(tzinfo=timezone(-offset if text[24] == "-" else offset))

    def format(self, value: Any, style: Style, where: str) -> str:
        if not isinstance(value, datetime):
            raise EncodeError(f"{value!r} is not a datetime", where)
        if value.microsecond % 1000:
            raise EncodeError(f"{value} is finer than a millisecond", where)
        text = f"{value.year:04}-{value:%m-%d %H:%M:%S}.{value.microsecond // 1000:03}"
        offset = value.utcoffset()
        if offset is None:
            return text
        minutes, rest = divmod(abs(offset), timedelta(minutes=1))
        if rest:
            raise EncodeError(f"{offset} is not a distance from UTC in whole minutes", where)
        return f"{text} {'-' if offset < timedelta() else '+'}{minutes // 60:02}:{minutes % 60:02}"

    def describe(self, value: Any) -> str:
        text: str = value.isoformat(sep=" ", timespec="milliseconds")
        return text


def utc(value: datetime) -> datetime:
    """Return the time with a zone; a time without one is taken as UTC."""
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value


@dataclass(frozen=True, slots=True)
class Rest(RestItem):
    """The rest of the line as text."""

    def parse(self, raw: bytes) -> str:
        if raw[:1] != b" ":
            raise ValueError("it is missing")
        return raw[1:].decode("utf-8", "surrogateescape")

    def format(self, value: Any, style: Style, where: str) -> str:
        return " " + _require_line_text(value, where)


@dataclass(frozen=True, slots=True)
class Quoted(RestItem):
    """Texts between quotes, up to the end of the line.  Nothing in them is escaped.

    A single text goes from the first quote to the last.  Several texts are divided at the last places where `" "`
    stands.

    Attributes:
        texts: how many texts; each of several has a field, of which the further ones are `Continued`.
    """

    texts: int = 1

    def parse(self, raw: bytes) -> str | tuple[str, ...]:
        if raw[:2] != b' "':
            raise QuoteError("it does not begin with a quote")
        if len(raw) < 3 or raw[-1:] != b'"':
            raise QuoteError("it does not end with a quote")
        texts = [part.decode("utf-8", "surrogateescape") for part in raw[2:-1].rsplit(b'" "', self.texts - 1)]
        if len(texts) < self.texts:
            raise ValueError(f"{self.texts} texts in quotes are needed")
        return texts[0] if self.texts == 1 else tuple(texts)

    def format(self, value: Any, style: Style, where: str) -> str:
        texts = (value,) if self.texts == 1 else value
        line = "".join(f' "{_require_line_text(text, where)}"' for text in texts)
        if '"' in "".join(texts) and self.parse(line.encode("utf-8", "surrogateescape")) != value:
            raise EncodeError("with its quotes it would be read as other texts", where)
        return line


@dataclass(frozen=True, slots=True)
class Flags(RestItem):
    """True and false as `t` and `f`: together, or with spaces between them, as the specification reads."""

    def parse(self, raw: bytes) -> tuple[bool, ...]:
        if not re.fullmatch(rb"(?: [tf]++)*+", raw):
            raise ValueError("only t and f may stand here")
        return tuple(flag == ord("t") for flag in raw.replace(b" ", b""))

    def format(self, value: Any, style: Style, where: str) -> str:
        if not isinstance(value, tuple | list) or not all(isinstance(flag, bool) for flag in value):
            raise EncodeError(f"{value!r} is not a tuple of True and False", where)
        text = ("" if style.glued_flags else " ").join(self.describe(value))
        return f" {text}" if text else ""

    def describe(self, value: Any) -> str:
        return "".join("t" if flag else "f" for flag in value)


@dataclass(frozen=True, slots=True)
class Repeated(Item):
    """Compound items up to the end of the line: of one class, or of several with different numbers of parts.

    Attributes:
        members: the classes of the compounds; each of several has a field, of which the further ones are `Continued`.
    """

    members: tuple[type[Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Continued(Item):
    """A further value of the item before, for a field of its own."""


def _require_text(value: Any, where: str) -> str:
    if type(value) is not str:
        raise EncodeError(f"{value!r} is not a text", where)
    try:
        value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise EncodeError(f"{value!r} cannot be encoded as UTF-8", where) from None
    return value


def _require_line_text(value: Any, where: str) -> str:
    text = _require_text(value, where)
    for character, name in (("\n", "a line end"), ("\r", "a carriage return"), ("\0", "NUL")):
        if character in text:
            raise EncodeError(f"{value!r} has {name}, which a line cannot hold", where)
    return text
