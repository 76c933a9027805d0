"""Item kinds: how each kind of item stands in a line, declared once with the name that the specification gives it.

A record is a list of items (`records`).  Each kind has a pattern, takes a value out of characters and puts one back in
the style of a file.  Patterns never go back over what they took (`++`, `*+`), so that a hostile line costs no more than
its length.

spec: Format rules
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, ClassVar

import msgspec

from fxtio.coreprofiler.style import Style
from fxtio.errors import EncodeError

MAX_32, MAX_63, MAX_64 = 2**32 - 1, 2**63 - 1, 2**64 - 1

UNDEFINED = -1
"""An instruction pointer that the file tells as `?`."""


class QuoteError(ValueError):
    """A text in quotes that does not begin, or does not end."""


class OsThread(msgspec.Struct, frozen=True, gc=False, order=True):
    """A thread told by its number in the operating system, where newer writers have that in place of an Internal ID.

    Attributes:
        number: the decimal number.
    """

    number: int


@dataclass(frozen=True, slots=True)
class Item:
    """One kind of item.

    Attributes:
        name: what the specification calls it.
        glue: what stands before it, a space or, within a compound item, a colon.
        optional: it may be missing, glue included; its value is None then.
    """

    name: str
    glue: str = " "
    optional: bool = False

    body: ClassVar[str] = ""
    "The pattern of the item without glue; of tails, which take the rest of the line, it stays empty."

    tail: ClassVar[bool] = False
    "Whether the item takes all that is left of the line, glue included."

    @property
    def pattern(self) -> str:
        """The pattern with glue and one group."""
        whole = f"{re.escape(self.glue)}({self.body})"
        return f"(?:{whole})?+" if self.optional else whole

    def parse(self, raw: bytes) -> Any:
        """The value of characters that match the pattern.

        Raises:
            ValueError: there is no such value.
        """
        raise NotImplementedError

    def show(self, value: Any, style: Style, where: str) -> str:
        """A value's characters without glue.

        Raises:
            EncodeError: the format cannot say it.
        """
        raise NotImplementedError

    def told(self, value: Any) -> str:
        """A value for people."""
        return str(value)


def _whole_number(value: Any, low: int, high: int, where: str) -> int:
    if type(value) is not int:
        raise EncodeError(f"{value!r} is no whole number", where)
    if not low <= value <= high:
        raise EncodeError(f"{value:,} is not from {low:,} to {high:,}", where)
    return value


def _within(value: int, low: int, high: int) -> int:
    if not low <= value <= high:
        raise ValueError(f"{value:,} is not from {low:,} to {high:,}")
    return value


def _digits(raw: bytes, base: int, most: int) -> int:
    if len(raw) > most:
        raise ValueError(f"a number of {len(raw):,} characters")
    return int(raw, base)


@dataclass(frozen=True, slots=True)
class Decimal(Item):
    """A decimal number.

    Attributes:
        low: the least.
        high: the most.
    """

    low: int = 0
    high: int = MAX_63

    body: ClassVar[str] = "-?+[0-9]++"

    def parse(self, raw: bytes) -> int:
        return _within(_digits(raw, 10, 40), self.low, self.high)

    def show(self, value: Any, style: Style, where: str) -> str:
        return str(_whole_number(value, self.low, self.high, where))


@dataclass(frozen=True, slots=True)
class Hexadecimal(Item):
    """A hexadecimal number with 0x.

    Attributes:
        form: which of the style's forms it has.
        high: the most.
        unknown: it may be `?`, which is None.
    """

    form: str = "hex"
    high: int = MAX_64
    unknown: bool = False

    @property
    def body(self) -> str:  # type: ignore[override]
        return r"0x[0-9A-Fa-f]++" + (r"|\?" if self.unknown else "")

    def parse(self, raw: bytes) -> int | None:
        return None if raw == b"?" else _within(_digits(raw, 16, 40), 0, self.high)

    def show(self, value: Any, style: Style, where: str) -> str:
        if value is None and self.unknown:
            return "?"
        return style.form(self.form) % _whole_number(value, 0, self.high, where)

    def told(self, value: Any) -> str:
        return "?" if value is None else f"{value:#x}"


@dataclass(frozen=True, slots=True)
class Pointer(Item):
    """An instruction pointer: with 0x, or bare in older dialects; `?` where it is undefined."""

    body: ClassVar[str] = r"(?:0x)?+[0-9A-Fa-f]++|\?"

    def parse(self, raw: bytes) -> int:
        return UNDEFINED if raw == b"?" else _within(_digits(raw, 16, 40), 0, MAX_64)

    def show(self, value: Any, style: Style, where: str) -> str:
        if value == UNDEFINED:
            return "?"
        return style.form("ip") % _whole_number(value, 0, MAX_64, where)

    def told(self, value: Any) -> str:
        return "?" if value == UNDEFINED else f"{value:#x}"


@dataclass(frozen=True, slots=True)
class ThreadNumber(Item):
    """A thread: its Internal ID, or (from 2018 on) its decimal number in the operating system."""

    body: ClassVar[str] = r"0x[0-9A-Fa-f]++|\?|[0-9]++"

    def parse(self, raw: bytes) -> int | OsThread | None:
        if raw == b"?":
            return None
        if raw.startswith(b"0x"):
            return _within(_digits(raw, 16, 40), 0, MAX_32)
        return OsThread(_within(_digits(raw, 10, 40), 0, MAX_63))

    def show(self, value: Any, style: Style, where: str) -> str:
        if value is None:
            return "?"
        if isinstance(value, OsThread):
            return str(_whole_number(value.number, 0, MAX_63, where))
        return style.form("hex32") % _whole_number(value, 0, MAX_32, where)

    def told(self, value: Any) -> str:
        return f"os thread {value.number}" if isinstance(value, OsThread) else "?" if value is None else f"{value:#x}"


@dataclass(frozen=True, slots=True)
class Count(Decimal):
    """A decimal number, or in the oldest dialect `?`, which is None."""

    body: ClassVar[str] = r"[0-9]++|\?"

    def parse(self, raw: bytes) -> int | None:  # type: ignore[override]
        return None if raw == b"?" else Decimal.parse(self, raw)

    def show(self, value: Any, style: Style, where: str) -> str:
        return "?" if value is None else Decimal.show(self, value, style, where)


@dataclass(frozen=True, slots=True)
class Word(Item):
    """Characters without spaces."""

    body: ClassVar[str] = r"[^ \r\n:]++"

    def parse(self, raw: bytes) -> str:
        return raw.decode("utf-8", "surrogateescape")

    def show(self, value: Any, style: Style, where: str) -> str:
        text = _text(value, where)
        if not re.fullmatch(r"[^ \r\n:\0]+", text):
            raise EncodeError(f"{value!r} is no word: it is empty, or has spaces, colons, line ends or NUL", where)
        return text


@dataclass(frozen=True, slots=True)
class Time(Item):
    """Local time to the millisecond, in newer dialects with its distance from UTC."""

    body: ClassVar[str] = r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}(?: [+-][0-9]{2}:[0-9]{2})?+"

    def parse(self, raw: bytes) -> datetime:
        text = raw.decode("ascii")
        made = datetime.strptime(text[:23], "%Y-%m-%d %H:%M:%S.%f")  # noqa: DTZ007  # without a zone it is local time
        if len(text) == 23:
            return made
        away = timedelta(hours=int(text[25:27]), minutes=int(text[28:30]))
        if int(text[28:30]) > 59:
            raise ValueError(f"{text[24:]} is no distance from UTC")
        return made.replace(tzinfo=timezone(-away if text[24] == "-" else away))

    def show(self, value: Any, style: Style, where: str) -> str:
        if not isinstance(value, datetime):
            raise EncodeError(f"{value!r} is no time", where)
        if value.microsecond % 1000:
            raise EncodeError(f"{value} is finer than a millisecond", where)
        text = f"{value.year:04}-{value:%m-%d %H:%M:%S}.{value.microsecond // 1000:03}"
        away = value.utcoffset()
        if away is None:
            return text
        minutes, rest = divmod(abs(away), timedelta(minutes=1))
        if rest:
            raise EncodeError(f"{away} is no distance from UTC in whole minutes", where)
        return f"{text} {'-' if away < timedelta() else '+'}{minutes // 60:02}:{minutes % 60:02}"


def utc(value: datetime) -> datetime:
    """A time with its zone; one that tells none is taken as if it were UTC."""
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value


@dataclass(frozen=True, slots=True)
class Rest(Item):
    """Whatever is left of the line."""

    tail: ClassVar[bool] = True

    def parse(self, raw: bytes) -> str:
        if raw[:1] != b" ":
            raise ValueError("it is missing")
        return raw[1:].decode("utf-8", "surrogateescape")

    def show(self, value: Any, style: Style, where: str) -> str:
        return " " + _line_text(value, where)


@dataclass(frozen=True, slots=True)
class Quoted(Item):
    """Texts between quotes, up to the end of the line.  There is no escaping: what is in a name stands as it is.

    With one text, everything from the first quote to the last belongs to it.  With several, the last places where
    `" "` stands divide them.

    Attributes:
        texts: how many; with several, each has a field, the further ones are `Same`.
    """

    texts: int = 1

    tail: ClassVar[bool] = True

    def parse(self, raw: bytes) -> str | tuple[str, ...]:
        if raw[:2] != b' "':
            raise QuoteError("no quote begins it")
        if len(raw) < 3 or raw[-1:] != b'"':
            raise QuoteError("no quote ends it")
        found = [part.decode("utf-8", "surrogateescape") for part in raw[2:-1].rsplit(b'" "', self.texts - 1)]
        if len(found) < self.texts:
            raise ValueError(f"{self.texts} texts in quotes are needed")
        return found[0] if self.texts == 1 else tuple(found)

    def show(self, value: Any, style: Style, where: str) -> str:
        texts = (value,) if self.texts == 1 else value
        made = "".join(f' "{_line_text(text, where)}"' for text in texts)
        if '"' in "".join(texts) and self.parse(made.encode("utf-8", "surrogateescape")) != value:
            raise EncodeError("with its quotes it would be read as other texts", where)
        return made


@dataclass(frozen=True, slots=True)
class Flags(Item):
    """True and false as `t` and `f`: together, or with spaces between them, which is how the specification reads."""

    tail: ClassVar[bool] = True

    def parse(self, raw: bytes) -> tuple[bool, ...]:
        if not re.fullmatch(rb"(?: [tf]++)*+", raw):
            raise ValueError("not all of it is t and f")
        return tuple(flag == ord("t") for flag in raw.replace(b" ", b""))

    def show(self, value: Any, style: Style, where: str) -> str:
        if not all(isinstance(flag, bool) for flag in value):
            raise EncodeError(f"{value!r} are not true and false", where)
        letters = ["t" if flag else "f" for flag in value]
        between = "" if style.glued_flags else " "
        return f" {between.join(letters)}" if letters else ""


@dataclass(frozen=True, slots=True)
class Several(Item):
    """Compound items up to the end of the line: of one kind, or of several kinds with different numbers of parts.

    Attributes:
        members: the classes of the compounds; with several, each has a field, the further ones are `Same`.
    """

    members: tuple[type[Any], ...] = ()

    tail: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Same(Item):
    """A further value of the item before, for a field of its own."""


def _text(value: Any, where: str) -> str:
    if type(value) is not str:
        raise EncodeError(f"{value!r} is no text", where)
    try:
        value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise EncodeError(f"{value!r} is no text in UTF-8", where) from None
    return value


def _line_text(value: Any, where: str) -> str:
    text = _text(value, where)
    for character, name in (("\n", "a line end"), ("\r", "a carriage return"), ("\0", "NUL")):
        if character in text:
            raise EncodeError(f"{value!r} has {name}, which a line cannot hold", where)
    return text
