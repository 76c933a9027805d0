"""What only CoreProfiler's lines have: dialects, the style of a file, times, and kinds of items of its own.

spec: Format rules
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import numpy as np

from fxtio.arrays import Array
from fxtio.codec.integers import MAX_UINT64, checked_integer
from fxtio.codec.text import items
from fxtio.codec.text.items import (
    Characters,
    ColumnAndValid,
    FixedItem,
    MarkedColumn,
    decimals,
    has_prefix,
    hexadecimals,
    is_unknown,
    none_if_negative,
    parse_integer,
)
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

ABSENT, UNDEFINED_IP, PRESENT = range(3)
"""The marks of instruction pointers in columns: not in the file; given as `?`; given."""


def undefined_column(name: str) -> str:
    """Return the name of the table's column that marks the instruction pointers which the file gives as `?`."""
    return f"{name}_undefined"


NUMBER_KINDS = ("hex32", "hex", "pointer", "ip", "sample")
"""Kinds of hexadecimal numbers that a file may write differently: of 32 bits; of any size; pointers and identifiers;
instruction pointers; Internal IDs within samples."""


@dataclass(slots=True)
class Style(items.Style):
    """The style of a file.

    A file shows its style line by line.  What it has not shown yet is as in the given specification.  Once detected, a
    trait does not change, so records that were read and a writer that has the same style agree.

    Attributes:
        mark: whether the file begins with a byte-order mark.
        destroyed: type and subtype of the record for a destroyed thread; the given specification misprints it.
        stack: type and subtype of a stack sample.
        detected: the traits that the file has shown so far.
    """

    mark: bool = False
    destroyed: str = "thr crt"
    stack: str = "sam str"
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


class OsThread(msgspec.Struct, frozen=True, gc=False, order=True):
    """A thread by its number in the operating system, which newer writers give in place of an Internal ID.

    Attributes:
        number: the decimal number.
    """

    number: int


@dataclass(frozen=True, slots=True)
class Pointer(FixedItem):
    """An instruction pointer: with 0x, or without it in older dialects; `?` where it is undefined."""

    @property
    def kind(self) -> str:
        """The key of its format in the style of a file."""
        return "ip"

    @property
    def body(self) -> str:
        return r"(?:0x)?+[0-9A-Fa-f]++|\?"

    def parse(self, raw: bytes) -> int:
        return UNDEFINED if raw == b"?" else parse_integer(raw, 16, 0, MAX_UINT64)

    def format(self, value: Any, style: Style, where: str) -> str:
        if value == UNDEFINED:
            return "?"
        return style.formats[self.kind] % checked_integer(value, where)

    def describe(self, value: Any) -> str:
        return "?" if value == UNDEFINED else f"{value:#x}"

    def read(self, text: Characters, begin: Array, end: Array, present: Array | None) -> ColumnAndValid:
        assert present is not None  # every pointer is optional
        state = np.full(len(begin), ABSENT, np.int8)
        rows = np.flatnonzero(present)
        value, valid = np.zeros(len(begin), np.uint64), np.ones(len(begin), bool)
        if len(rows):
            begin, end = begin[rows], end[rows]
            number, fits = hexadecimals(text, begin + 2 * has_prefix(text, begin), end)
            unknown = is_unknown(text, begin, end)
            number[unknown] = 0
            value[rows], valid[rows] = number, fits | unknown
            state[rows] = np.where(unknown, UNDEFINED_IP, PRESENT)
        return MarkedColumn(value, state), valid

    def column(self, values: list[Any]) -> MarkedColumn:
        state = [ABSENT if value is None else UNDEFINED_IP if value == UNDEFINED else PRESENT for value in values]
        return MarkedColumn(np.array([max(value or 0, 0) for value in values], np.uint64), np.array(state, np.int8))

    def values(self, column: Any) -> list[Any]:
        values: list[Any] = column.values.tolist()
        for row in np.flatnonzero(column.marks != PRESENT).tolist():
            values[row] = None if column.marks[row] == ABSENT else UNDEFINED
        return values


@dataclass(frozen=True, slots=True)
class ThreadNumber(FixedItem):
    """A thread: its Internal ID, or (from 2018 on) its decimal number in the operating system.

    A column marks the numbers of the operating system.
    """

    @property
    def body(self) -> str:
        return r"0x[0-9A-Fa-f]++|\?|[0-9]++"

    def parse(self, raw: bytes) -> int | OsThread | None:
        if raw == b"?":
            return None
        if raw.startswith(b"0x"):
            return parse_integer(raw, 16, 0, MAX_32)
        return OsThread(parse_integer(raw, 10, 0, MAX_63))

    def format(self, value: Any, style: Style, where: str) -> str:
        if value is None:
            return "?"
        if isinstance(value, OsThread):
            return str(checked_integer(value.number, where, 0, MAX_63))
        return style.formats["hex32"] % checked_integer(value, where, 0, MAX_32)

    def describe(self, value: Any) -> str:
        return f"os thread {value.number}" if isinstance(value, OsThread) else "?" if value is None else f"{value:#x}"

    def read(self, text: Characters, begin: Array, end: Array, present: Array | None) -> ColumnAndValid:
        unknown = is_unknown(text, begin, end)
        value, valid = hexadecimals(text, begin + 2, end)
        number, is_number = decimals(text, begin, end)
        valid &= value <= np.uint64(MAX_32)
        os = ~has_prefix(text, begin) & ~unknown
        values = np.where(os, number, np.where(unknown, -1, value.astype(np.int64)))
        return MarkedColumn(values, os), np.where(os, is_number, unknown | valid)

    def column(self, values: list[Any]) -> MarkedColumn:
        os = [isinstance(value, OsThread) for value in values]
        numbers = [value.number if isinstance(value, OsThread) else -1 if value is None else value for value in values]
        return MarkedColumn(np.array(numbers, np.int64), np.array(os, bool))

    def values(self, column: Any) -> list[Any]:
        values: list[Any] = none_if_negative(column.values)
        for row in np.flatnonzero(column.marks).tolist():
            values[row] = OsThread(values[row])
        return values


@dataclass(frozen=True, slots=True)
class LocalTime(FixedItem):
    """Local time to the millisecond; in newer dialects with its distance from UTC."""

    @property
    def body(self) -> str:
        return r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}(?: [+-][0-9][0-9]:[0-9][0-9])?+"

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
