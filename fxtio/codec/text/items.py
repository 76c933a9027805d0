"""Kinds of items: how each value is in a line, one by one and for many lines at once.

A record is a list of items.  Each kind of item has a pattern, parses characters to a value, formats a value as
characters in the style of a file, and reads the items of many lines as a column.  A format may define kinds of its own.
Patterns are possessive (`++`, `*+`): they never backtrack, so a hostile line costs no more than its length.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, get_type_hints

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.integers import MAX_INT64, MAX_UINT64, checked_integer, text_bytes
from fxtio.codec.record import once
from fxtio.errors import EncodeError, LayoutError

# ---- conversion of many numbers at once, without a Python loop, given where each begins and ends
#
# Eight characters are loaded as one 64-bit word, and their digits are combined in parallel lanes.  Characters that are
# not a number are reported by a mask, never by an exception.

PADDING = 24
"""Bytes that must precede the text, since words of eight bytes that end in it may begin before it."""

MAX_DECIMAL = 18
"""The most decimal digits: every number of this length fits 63 bits."""

MAX_HEXADECIMAL = 16

_U = np.uint64


def _every(byte: int) -> np.uint64:
    return _U(int.from_bytes(bytes([byte]) * 8, "little"))


_ALL_BITS = 2**64 - 1

# Indexed by the number of significant characters, the last ones of a word in memory: a mask of them, and zeros (the
# digit) for the other characters.
_MASK = np.array([_ALL_BITS >> 8 * (8 - n) << 8 * (8 - n) for n in range(9)], np.uint64)
_FILL = ~_MASK & _every(0x30)


class Characters:
    """A text as bytes, and as words of eight bytes that begin at each of them.

    Args:
        data: the text, preceded by `PADDING` bytes.

    Attributes:
        data: the text.
        bytes: likewise (uint8).
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.bytes = np.frombuffer(data, np.uint8)
        self._words = np.ndarray((max(len(data) - 7, 0),), np.dtype("<u8"), data, strides=(1,))

    def before(self, end: Array, count: Array) -> Array:
        """Return the last `count` (0 to 8) characters before `end` as a word, with zeros in place of the others."""
        word: Array = self._words[end - 8]
        return word & _MASK[count] | _FILL[count]

    def key(self, at: Array, size: int) -> Array:
        """Return the `size` (at most 8) characters from `at` on as a number, to be compared with `key_of`."""
        word: Array = self._words[at]
        return word & _U((1 << 8 * size) - 1)


def key_of(text: bytes) -> int:
    """Return the number that `Characters.key` gives for these characters."""
    return int.from_bytes(text, "little")


def decimals(text: Characters, begin: Array, end: Array) -> tuple[Array, Array]:
    """Convert unsigned decimal numbers of at most `MAX_DECIMAL` digits.

    Args:
        text: the text.
        begin: the index of each number's first character.
        end: the index after its last character.

    Returns:
        The numbers (int64), and which of them are valid (bool).
    """
    size = end - begin
    valid = (size > 0) & (size <= MAX_DECIMAL)
    value = np.zeros(len(size), np.uint64)
    scale = 1
    for done in range(0, MAX_DECIMAL, 8):
        if done and not (size > done).any():
            break
        word = text.before(end - done, np.clip(size - done, 0, 8))
        high = word & _every(0xF0)
        valid &= (high == _every(0x30)) & ((word + _every(0x06)) & _every(0xF0) == _every(0x30))
        word = (word & _every(0x0F)) * _U(10 * 2**8 + 1) >> _U(8)
        word = (word & _U(0x00FF00FF00FF00FF)) * _U(100 * 2**16 + 1) >> _U(16)
        word = (word & _U(0x0000FFFF0000FFFF)) * _U(10_000 * 2**32 + 1) >> _U(32)
        value += word * _U(scale)
        scale *= 10**8
    return value.astype(np.int64), valid


def hexadecimals(text: Characters, begin: Array, end: Array) -> tuple[Array, Array]:
    """Convert hexadecimal numbers of at most `MAX_HEXADECIMAL` digits, without a prefix.

    Args:
        text: the text.
        begin: the index of each number's first character.
        end: the index after its last character.

    Returns:
        The numbers (uint64), and which of them are valid (bool).
    """
    size = end - begin
    valid = (size > 0) & (size <= MAX_HEXADECIMAL)
    value = np.zeros(len(size), np.uint64)
    for done in (0, 8):
        if done and not (size > done).any():
            break
        word = text.before(end - done, np.clip(size - done, 0, 8))
        valid &= _are_hexadecimal(word)
        word = (word & _every(0x0F)) + (word >> _U(6) & _every(0x01)) * _U(9)
        word = (word & _U(0x000F000F000F000F)) << _U(4) | word >> _U(8) & _U(0x000F000F000F000F)
        word = (word & _U(0x000000FF000000FF)) << _U(8) | word >> _U(16) & _U(0x000000FF000000FF)
        word = (word & _U(0xFFFF)) << _U(16) | word >> _U(32)
        value |= word << _U(4 * done)
    return value, valid


def _are_hexadecimal(word: Array) -> Array:
    """Return whether all eight characters are digits of either case; the highest bit of each lane is its result."""
    top = _every(0x80)
    plain = word & ~top
    lower = plain | _every(0x20)

    def reaches(lanes: Array, byte: int) -> Array:
        return lanes + _every(0x80 - byte)

    digit = reaches(plain, 0x30) & ~reaches(plain, 0x3A)
    letter = reaches(lower, 0x61) & ~reaches(lower, 0x67)
    result: Array = (digit | letter) & ~word & top == top
    return result


# ---- kinds of items

ColumnAndValid = tuple[Any, Array]
"""A column, and which of its rows are valid (bool); the values of the others mean nothing."""

MINUS, ZERO, X, UNKNOWN = b"-0x?"


@dataclass(slots=True)
class MarkedColumn:
    """Numbers with a mark each, for what else an item can say.

    Attributes:
        values: the numbers.
        marks: the mark of each; those of an optional number say whether it is present (bool).
    """

    values: Array
    marks: Array

    def __getitem__(self, rows: Array) -> MarkedColumn:
        return MarkedColumn(self.values[rows], self.marks[rows])


@dataclass(slots=True)
class Style:
    """The style of a file: a choice for what can be written in several ways.

    Attributes:
        formats: the printf format of each kind of hexadecimal numbers.
        newline: the line end.
        glued_flags: whether flags stand together, without spaces.
    """

    formats: dict[str, str]
    newline: str = "\n"
    glued_flags: bool = True


class QuoteError(ValueError):
    """A text in quotes without its first or its last quote."""


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
    def format(self, value: Any, style: Any, where: str) -> str:
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

    @property
    @abstractmethod
    def body(self) -> str:
        """The pattern of the item without its separator."""

    @property
    def pattern(self) -> str:
        """The pattern of the item with its separator; the item is the only group."""
        whole = f"{re.escape(self.separator)}({self.body})"
        return f"(?:{whole})?+" if self.optional else whole

    def read(self, text: Characters, begin: Array, end: Array, present: Array | None) -> ColumnAndValid:
        """Convert many items to a column; by default one by one.

        Args:
            text: the characters of all lines.
            begin: where each item begins.
            end: where it ends.
            present: which lines have it; None for all.
        """
        pattern = re.compile(self.body.encode("ascii"))
        values: list[Any] = []
        valid = np.ones(len(begin), bool)
        for row, (a, b) in enumerate(zip(begin.tolist(), end.tolist(), strict=True)):
            raw = text.data[a:b]
            try:
                if not pattern.fullmatch(raw):
                    raise ValueError
                values.append(self.parse(raw))
            except ValueError:
                values.append(None)
                valid[row] = False
        return self.column(values), valid

    def column(self, values: list[Any]) -> Any:
        """Convert values as records have them to a column."""
        return object_array(values)

    def values(self, column: Any) -> list[Any]:
        """Convert a column to values as records have them."""
        values: list[Any] = column.tolist()
        return values


@dataclass(frozen=True, slots=True)
class RestItem(ValueItem):
    """An item that takes the rest of the line; its characters begin with the separator."""


def object_array(values: list[Any]) -> Array:
    """Convert values of any type to a column; tuples stay tuples."""
    return np.fromiter(values, object, len(values))


def parse_integer(raw: bytes, base: int, low: int, high: int) -> int:
    """Convert digits to an integer.

    Raises:
        ValueError: it does not fit.
    """
    if len(raw) > 40:  # conversion of long decimal numbers is slow
        raise ValueError(f"a number of {len(raw):,} characters")
    value = int(raw, base)
    if not low <= value <= high:
        raise ValueError(f"{value:,} is not from {low:,} to {high:,}")
    return value


def is_unknown(text: Characters, begin: Array, end: Array) -> Array:
    """Return which items are `?`."""
    result: Array = (end - begin == 1) & (text.bytes[begin] == UNKNOWN)
    return result


def has_prefix(text: Characters, begin: Array) -> Array:
    """Return which items begin with 0x."""
    result: Array = (text.bytes[begin] == ZERO) & (text.bytes[begin + 1] == X)
    return result


def none_if_negative(column: Array) -> list[Any]:
    """Convert numbers to a list, with None in place of -1."""
    values: list[Any] = column.tolist()
    return [None if value < 0 else value for value in values] if len(column) and column.min() < 0 else values


@dataclass(frozen=True, slots=True)
class Number(FixedItem):
    """A number.

    Attributes:
        low: the smallest value.
        high: the largest value.
        unknown: whether it may be `?`: None in records, -1 in columns.
    """

    low: int = 0
    high: int = MAX_INT64
    unknown: bool = False

    def column(self, values: list[Any]) -> Any:
        if self.optional:
            present = np.array([value is not None for value in values], bool)
            return MarkedColumn(np.array([value or 0 for value in values], np.uint64), present)
        dtype = np.uint64 if self.high == MAX_UINT64 else np.int64
        return np.array([-1 if value is None else value for value in values], dtype)

    def values(self, column: Any) -> list[Any]:
        if self.optional:
            pairs = zip(column.values.tolist(), column.marks.tolist(), strict=True)
            return [value if has else None for value, has in pairs]
        if self.unknown:
            return none_if_negative(column)
        values: list[Any] = column.tolist()
        return values


@dataclass(frozen=True, slots=True)
class Decimal(Number):
    """A decimal number."""

    @property
    def body(self) -> str:
        return r"-?+[0-9]++" + (r"|\?" if self.unknown else "")

    def parse(self, raw: bytes) -> int | None:
        return None if raw == b"?" else parse_integer(raw, 10, self.low, self.high)

    def format(self, value: Any, style: Any, where: str) -> str:
        if value is None and self.unknown:
            return "?"
        return str(checked_integer(value, where, self.low, self.high))

    def read(self, text: Characters, begin: Array, end: Array, present: Array | None) -> ColumnAndValid:
        negative = text.bytes[begin] == MINUS
        any_negative = bool(negative.any())
        value, valid = decimals(text, begin + negative if any_negative else begin, end)
        if any_negative:
            value = np.where(negative, -value, value)
            valid &= value >= self.low
        if self.high < 10**MAX_DECIMAL:
            valid &= value <= self.high
        if self.unknown:
            unknown = is_unknown(text, begin, end)
            value[unknown] = -1
            return value, valid | unknown
        return value.astype(np.uint64) if self.high == MAX_UINT64 else value, valid


@dataclass(frozen=True, slots=True)
class Hexadecimal(Number):
    """A hexadecimal number with 0x.

    Attributes:
        kind: the key of its format in the style of a file.
        one_width: whether all such numbers of a file have the same number of digits.
    """

    high: int = MAX_UINT64
    kind: str = "hex"
    one_width: bool = False

    @property
    def body(self) -> str:
        return r"0x[0-9A-Fa-f]++" + (r"|\?" if self.unknown else "")

    def parse(self, raw: bytes) -> int | None:
        return None if raw == b"?" else parse_integer(raw, 16, self.low, self.high)

    def format(self, value: Any, style: Any, where: str) -> str:
        if value is None and self.unknown:
            return "?"
        text: str = style.formats[self.kind] % checked_integer(value, where, self.low, self.high)
        return text

    def describe(self, value: Any) -> str:
        return "?" if value is None else f"{value:#x}"

    def read(self, text: Characters, begin: Array, end: Array, present: Array | None) -> ColumnAndValid:
        value, valid = hexadecimals(text, begin + 2, end)
        valid &= has_prefix(text, begin)
        if present is not None:
            return MarkedColumn(value, present), valid
        if self.high == MAX_UINT64:
            return value, valid
        valid &= value <= np.uint64(self.high)
        value = value.astype(np.int64)
        if self.unknown:
            unknown = is_unknown(text, begin, end)
            if unknown.any():
                value[unknown] = -1
                valid |= unknown
        return value, valid


@dataclass(frozen=True, slots=True)
class Word(FixedItem):
    """Characters without spaces."""

    @property
    def body(self) -> str:
        return r"[^ \r\n:]++"

    def parse(self, raw: bytes) -> str:
        return raw.decode("utf-8", "surrogateescape")

    def format(self, value: Any, style: Any, where: str) -> str:
        text_bytes(value, where)
        if not re.fullmatch(r"[^ \r\n:\0]+", value):
            raise EncodeError(f"{value!r} is not a word: it is empty or has spaces, colons, line ends or NUL", where)
        word: str = value
        return word


def _line_text(value: Any, where: str) -> str:
    """Return a text that a line can hold."""
    text_bytes(value, where)
    for character, name in (("\n", "a line end"), ("\r", "a carriage return"), ("\0", "NUL")):
        if character in value:
            raise EncodeError(f"{value!r} has {name}, which a line cannot hold", where)
    text: str = value
    return text


@dataclass(frozen=True, slots=True)
class Rest(RestItem):
    """The rest of the line as text."""

    def parse(self, raw: bytes) -> str:
        if raw[:1] != b" ":
            raise ValueError("it is missing")
        return raw[1:].decode("utf-8", "surrogateescape")

    def format(self, value: Any, style: Any, where: str) -> str:
        return " " + _line_text(value, where)


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

    def format(self, value: Any, style: Any, where: str) -> str:
        texts = (value,) if self.texts == 1 else value
        line = "".join(f' "{_line_text(text, where)}"' for text in texts)
        if '"' in "".join(texts) and self.parse(line.encode("utf-8", "surrogateescape")) != value:
            raise EncodeError("with its quotes it would be read as other texts", where)
        return line


@dataclass(frozen=True, slots=True)
class Flags(RestItem):
    """True and false as `t` and `f`: together, or with spaces between them."""

    def parse(self, raw: bytes) -> tuple[bool, ...]:
        if not re.fullmatch(rb"(?: [tf]++)*+", raw):
            raise ValueError("only t and f may be here")
        return tuple(flag == ord("t") for flag in raw.replace(b" ", b""))

    def format(self, value: Any, style: Any, where: str) -> str:
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


# ---- declarations


@dataclass(frozen=True, slots=True)
class ItemField:
    """A field of a record or compound, with its item."""

    name: str
    item: FixedItem


@dataclass(frozen=True, slots=True)
class Layout:
    """The items of a record or compound class: some of fixed number, then perhaps one that takes the rest of the line.

    Attributes:
        cls: the class.
        fields: the fields with an item each, in order, without those of the tail.
        tail: the item that takes the rest of the line, or None.
        tail_fields: the fields that the tail fills.
        members: the fields that hold lists of compound items, with the classes of the items.
        pattern: the pattern of all items of `fields`; a group for each.
    """

    cls: type[Any]
    fields: tuple[ItemField, ...]
    tail: RestItem | Repeated | None
    tail_fields: tuple[str, ...]
    members: dict[str, type[Any]]
    pattern: re.Pattern[bytes]


@once
def layout_of(cls: type[Any]) -> Layout:
    """Return the items of a record or compound class.

    Raises:
        LayoutError: an item comes after one that takes the rest of the line.
    """
    hints = get_type_hints(cls, include_extras=True)
    fields: list[ItemField] = []
    tail: RestItem | Repeated | None = None
    tail_fields: list[str] = []
    for name in cls.__struct_fields__:
        item = next(mark for mark in hints[name].__metadata__ if isinstance(mark, Item))
        if isinstance(item, FixedItem):
            if tail is not None:
                raise LayoutError(f"{cls.__name__}.{name} comes after the rest of the line")
            fields.append(ItemField(name, item))
            continue
        if isinstance(item, Continued) == (tail is None):
            raise LayoutError(f"{cls.__name__}.{name} must be the first or a continued item of the line's rest")
        if isinstance(item, RestItem | Repeated):
            tail = item
        tail_fields.append(name)
    pattern = re.compile("".join(field.item.pattern for field in fields).encode("ascii"))
    members = dict(zip(tail_fields, tail.members, strict=True)) if isinstance(tail, Repeated) else {}
    return Layout(cls, tuple(fields), tail, tuple(tail_fields), members, pattern)
