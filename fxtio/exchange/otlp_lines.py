"""Takes lines of OTLP JSON apart: their scopes with the spans in them, and attributes as columns.

Only attributes that are needed are decoded, and equal ones once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from fxtio.arrays import Array
from fxtio.codec.integers import as_double
from fxtio.exchange.json_columns import NOTHING
from fxtio.exchange.json_events import UNREADABLE, Objects, objects_in

MAX_NESTING = 16
"""The most levels of an attribute that are read."""

_SHORT = 1 << 22
"""The most bytes of lines of which structures are made."""

Scope = tuple[bytes | msgspec.Raw, bytes | msgspec.Raw, bytes | msgspec.Raw]
"""A resource, a scope and the spans of both, as JSON."""


class _Scope(msgspec.Struct, gc=False):
    scope: msgspec.Raw = NOTHING
    spans: msgspec.Raw = NOTHING


class _Resource(msgspec.Struct, gc=False):
    resource: msgspec.Raw = NOTHING
    scopeSpans: list[_Scope] = []  # noqa: N815


class _UsualLine(msgspec.Struct):
    resourceSpans: list[_Resource]  # noqa: N815


class _Line(msgspec.Struct):
    resourceSpans: msgspec.Raw = NOTHING  # noqa: N815


_NEWLINE = ord("\n")
_USUAL = msgspec.json.Decoder(_UsualLine)


def scopes_of_lines(lines: bytes) -> list[Scope] | None:
    """Return the scopes of lines; None if one is unusual, or no JSON, or they are very long."""
    if len(lines) < _SHORT:
        with suppress(*UNREADABLE):
            found = _USUAL.decode_lines(lines)
            newlines = np.count_nonzero(np.frombuffer(lines, np.uint8) == _NEWLINE)  # three times as fast as `count`
            if len(found) == newlines + 1:
                resources = (each for line in found for each in line.resourceSpans)
                return [(each.resource, scope.scope, scope.spans) for each in resources for scope in each.scopeSpans]
    return None


def scopes_of(line: bytes, losses: Counter[str]) -> Iterable[Scope]:
    """Return the scopes of a line.

    Raises:
        msgspec.MsgspecError, RecursionError, UnicodeError: it is not JSON.
    """
    usual = scopes_of_lines(line)
    return _scopes_of_any(line, losses) if usual is None else usual


def _scopes_of_any(line: bytes, losses: Counter[str]) -> Iterator[Scope]:
    try:
        spans = msgspec.json.decode(line, type=_Line).resourceSpans
    except msgspec.ValidationError:
        spans = NOTHING
    losses["lines without spans, such as those of metrics and logs"] += spans == NOTHING
    for resources in objects_in(spans, ("resource", "scopeSpans"), losses):
        texts = [*resources.texts("resource")]
        for scopes, owner in resources.within("scopeSpans", ("scope", "spans"), losses):
            each = zip(owner.tolist(), scopes.texts("scope"), scopes.texts("spans"), strict=True)
            yield from ((texts[row], scope, spans) for row, scope, spans in each)


@dataclass(frozen=True, slots=True)
class Attributes:
    """Attributes of objects: arrays of one length.

    Attributes:
        row: the object that has it (int64), ascending.
        name: its name, as an index of `names` (int64).
        value: its value, as an index of `values` (int64).
        names: the names, of which those with escapes may be there twice.
        values: the distinct values: None, int, float, bool or str.
    """

    row: Array
    name: Array
    value: Array
    names: list[str]
    values: list[Any]

    def put(self, name: str, column: Array, make: Callable[[Any], int]) -> None:
        """Set a column of the objects to what a function makes of an attribute, where an object has it."""
        if name in self.names:  # perhaps several times, as names with escapes are distinct from those without
            rows = np.flatnonzero(np.array([each == name for each in self.names], bool)[self.name])
            used, place = np.unique(self.value[rows], return_inverse=True)
            column[self.row[rows]] = np.array([make(self.values[value]) for value in used.tolist()], np.int64)[place]


def attributes_of(parents: Objects, needed: Collection[str] | None, losses: Counter[str]) -> Iterator[Attributes]:
    """Yield the attributes of objects, many at a time.

    Args:
        parents: the objects.
        needed: the names of those that are needed, None for all; those that begin with the names of others and a dot
            are parts of them.
        losses: counts what cannot be decoded.
    """
    for objects, row in parents.within("attributes", ("key", "value"), losses):
        names, (name,) = objects.distinct(["key"], losses, lambda key: key if isinstance(key, str) else str(key))
        is_needed = [needed is None or any(f"{each}.".startswith(f"{key}.") for each in needed) for key in names]
        kept = np.flatnonzero(np.array(is_needed, bool)[name])
        if not len(kept):
            continue
        inner, (value,) = objects.take(kept).distinct(["value"], losses, lambda value: [*_scalars(value)])
        yield _flat(row[kept], name[kept], value, names, inner)


def _flat(row: Array, name: Array, value: Array, names: list[str], inner: list[list[tuple[str, Any]]]) -> Attributes:
    """Return attributes whose values have values within them, each with the end of its name."""
    count = np.array([*map(len, inner)])
    first = np.cumsum(count) - count
    values = [each for within in inner for _, each in within]
    if (count == 1).all() and not any(within[0][0] for within in inner):
        return Attributes(row, name, value, names, values)
    number: dict[str, int] = {}
    flat = [
        (at, number.setdefault(names[key] + end, len(number)), first[code] + place)
        for at, key, code in zip(row.tolist(), name.tolist(), value.tolist(), strict=True)
        for place, (end, _) in enumerate(inner[code])
    ]
    rows, names_of_rows, places = np.array(flat, np.int64).reshape(-1, 3).T
    return Attributes(rows, names_of_rows, places, [*number], values)


def attributes_by_name(parent: Any) -> dict[str, Any]:
    """Return the attributes of an object: None, int, float, bool or str by name."""
    return {
        f"{each.get('key')}{end}": value
        for each in items_of(parent, "attributes")
        for end, value in _scalars(each.get("value"))
    }


def items_of(parent: Any, name: str) -> list[dict[str, Any]]:
    """Return the objects of a list in an object; nothing if there is none."""
    values = parent.get(name) if isinstance(parent, dict) else None
    return [each for each in values if isinstance(each, dict)] if isinstance(values, list) else []


def _scalars(attribute: Any) -> Iterator[tuple[str, Any]]:
    """Yield what is in a value of an attribute, with the end of its name: `.number` in lists, `.key` in maps."""
    waiting: list[tuple[str, int, Any]] = [("", 0, attribute)]
    while waiting:
        name, depth, value = waiting.pop()
        if not isinstance(value, dict) or depth > MAX_NESTING:
            yield name, None
        elif isinstance(value.get("kvlistValue"), dict):
            items = items_of(value["kvlistValue"], "values")
            waiting += [(f"{name}.{each.get('key', '')}", depth + 1, each.get("value")) for each in reversed(items)]
        elif isinstance(value.get("arrayValue"), dict):
            items = items_of(value["arrayValue"], "values")
            waiting += [(f"{name}.{at}", depth + 1, each) for at, each in reversed([*enumerate(items)])]
        else:
            yield name, _scalar(value)


def _scalar(value: dict[str, Any]) -> Any:
    """Return an attribute that is not a list."""
    for kind, number in value.items():
        if kind == "intValue":
            try:
                return number if type(number) is int else int(number) if len(str(number)) < 30 else None
            except (TypeError, ValueError, OverflowError):
                return None
        if kind == "doubleValue":
            try:
                return as_double(number)
            except (TypeError, ValueError):
                return None
        if kind in ("stringValue", "bytesValue") and isinstance(number, str):
            return number
        if kind == "boolValue" and isinstance(number, bool):
            return number
    return None
