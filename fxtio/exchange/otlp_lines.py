"""Decodes lines of OTLP JSON of the form that nearly all have, and what their attributes say.

Such a line is decoded into structures, whose attributes stay JSON; equal attributes are decoded once, and those that
nobody asks for never.  Any other line is left to the decoder of any JSON, see `fxtio.exchange.otlp_reader`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import msgspec
import numpy as np

from fxtio.arrays import Array
from fxtio.exchange.json_events import UNREADABLE
from fxtio.table import MAX_TIME

_NULL = msgspec.Raw(b"null")
_DIGITS = 20
_MAX_KNOWN = 100_000
"""The most attributes that are remembered."""


class LineAttribute(msgspec.Struct, gc=False):
    """An attribute, whose value is JSON."""

    key: str
    value: msgspec.Raw = _NULL

    def decoded(self) -> dict[str, Any]:
        """Return it as another decoder would: with its value, None if that cannot be decoded."""
        return {"key": self.key, "value": _value(self.value)}


def _value(raw: msgspec.Raw) -> Any:
    """Return a value; None for one that msgspec has left unread, and that is not valid."""
    try:
        return msgspec.json.decode(raw)
    except UNREADABLE:
        return None


class _Status(msgspec.Struct, frozen=True, gc=False):
    code: Any = None


USUAL = _Status()
"""The status of a span that says nothing of it."""


class _Object(msgspec.Struct, gc=False):
    pass


class LineSpan(msgspec.Struct, gc=False):
    """A span."""

    startTimeUnixNano: str  # noqa: N815
    endTimeUnixNano: str  # noqa: N815
    name: str = ""
    traceId: str | None = None  # noqa: N815
    spanId: str | None = None  # noqa: N815
    parentSpanId: str | None = None  # noqa: N815
    status: _Status = USUAL
    attributes: list[LineAttribute] = []
    events: list[dict[str, Any]] = []
    links: list[_Object] = []


class _Scope(msgspec.Struct):
    scope: dict[str, Any] = {}
    spans: list[LineSpan] = []


class _Resource(msgspec.Struct):
    resource: dict[str, Any] = {}
    scopeSpans: list[_Scope] = []  # noqa: N815


class Line(msgspec.Struct):
    """A line with the spans of resources."""

    resourceSpans: list[_Resource]  # noqa: N815


_DECODER = msgspec.json.Decoder(Line)


def line_of(text: bytes) -> Line | None:
    """Return a line; None if it is not of the usual form, or if a time of a span is no number of digits."""
    try:
        line = _DECODER.decode(text)
    except UNREADABLE:
        return None
    spans = [span for resource in line.resourceSpans for scope in resource.scopeSpans for span in scope.spans]
    times = [span.startTimeUnixNano for span in spans] + [span.endTimeUnixNano for span in spans]
    together = "".join(times)
    is_usual = not times or (together.isascii() and together.isdigit() and min(map(len, times)) > 0)
    return line if is_usual and max(map(len, times), default=0) <= _DIGITS else None


def times_of(texts: list[str]) -> Array:
    """Return times of digits as integers (int64), at most `MAX_TIME`."""
    values = list(map(int, texts))
    try:
        return np.array(values, np.int64)
    except OverflowError:
        return np.array([min(value, MAX_TIME) for value in values], np.int64)


class KnownAttributes:
    """The values of attributes, each decoded once.

    Args:
        names: the names of those that are needed, None for all; those that begin with the names of others and a dot are
            parts of them.
        value_of: returns the value of an attribute that is no list, which is None, int, float, bool or str.
    """

    def __init__(self, names: Collection[str] | None, value_of: Callable[[dict[str, Any]], Any]) -> None:
        self._names = names
        self._value_of = value_of
        self._known: dict[str, dict[bytes, Any] | None] = {}
        self._count = 0

    def of(self, span: LineSpan) -> dict[str, Any] | None:
        """Return the attributes of a span that are needed; None if one of them may be a list."""
        result = {}
        for attribute in span.attributes:
            key = attribute.key
            try:
                known = self._known[key]
            except KeyError:
                known = self._new(key)
            if known is None:
                continue
            text = bytes(attribute.value)
            try:
                result[key] = known[text]
            except KeyError:
                value = _value(attribute.value)
                if isinstance(value, dict) and not _LISTS.isdisjoint(value):
                    return None
                value = self._value_of(value) if isinstance(value, dict) else None
                if self._count < _MAX_KNOWN:
                    known[text] = value
                    self._count += 1
                result[key] = value
        return result

    def _new(self, key: str) -> dict[bytes, Any] | None:
        """Return what is known of the values of a key, None if it is not needed."""
        names = self._names
        is_needed = names is None or any(name == key or name.startswith(f"{key}.") for name in names)
        known: dict[bytes, Any] | None = {} if is_needed else None
        if self._count < _MAX_KNOWN:
            self._known[key] = known
            self._count += 1
        return known


_LISTS = frozenset({"kvlistValue", "arrayValue"})
