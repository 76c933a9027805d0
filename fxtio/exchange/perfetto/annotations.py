"""The debug annotations of events of a Perfetto trace, as arguments; those that are nested have names with dots.

https://perfetto.dev/docs/reference/trace-packet-proto#DebugAnnotation
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from fxtio.codec.protobuf import Message, Wire
from fxtio.exchange.perfetto.messages import Annotation, Event, Interned, Nested
from fxtio.exchange.perfetto.rows import Rows
from fxtio.exchange.perfetto.state import NOT_DEFINED, Sequence
from fxtio.timeline.arguments import MAX_ARGS, argument_of, flattened
from fxtio.timeline.parts import Registry
from fxtio.timeline.schema import ArgumentKind

MAX_DEPTH = 32
"""The most arguments around a nested one."""

_MOST = 4 * MAX_ARGS
_DEEP = f"arguments within more than {MAX_DEPTH} others"
_NO_VALUE = "arguments whose values cannot be read"
_MANY = f"nested arguments beyond {_MOST} of an event"
_DICT, _LIST = 1, 2

NUMBERS = {
    Annotation.BOOL: ArgumentKind.BOOLEAN,
    Annotation.UINT: ArgumentKind.UNSIGNED,
    Annotation.INT: ArgumentKind.INTEGER,
    Annotation.POINTER: ArgumentKind.POINTER,
}
"""The fields of annotations with a number, and the types of arguments that they become."""


class Annotations:
    """Takes the annotations of events.

    Args:
        registry: has the names.
        rows: gets the arguments.
    """

    def __init__(self, registry: Registry, rows: Rows) -> None:
        self._registry = registry
        self._losses = registry.losses
        self._rows = rows
        self._left = 0  # the annotations of an event that may still be looked at

    def enter(self, event: Message, sequence: Sequence, number: int) -> None:
        """Take the annotations of an event of a sequence, whose number is given."""
        if Event.ANNOTATION not in event or not self._rows.wants("args"):
            return
        self._left = _MOST
        code = self._registry.names.code
        for name, value in flattened(self._items(event.messages(Event.ANNOTATION), sequence, 0), self._losses):
            kind, bits, text = value if isinstance(value, tuple) else argument_of(value)
            self._rows.row("args", number, code(name), kind, bits, code(text))

    def _items(self, annotations: Iterable[Message], sequence: Sequence, depth: int) -> list[tuple[str, Any]]:
        """Return names and values of annotations."""
        return [(self._name(each, sequence), self._value(each, sequence, depth)) for each in self._some(annotations)]

    def _some(self, messages: Iterable[Message]) -> Iterator[Message]:
        """Yield as many messages as one event may have, and one more."""
        for message in islice(messages, MAX_ARGS + 1):
            if not self._left:
                self._losses[_MANY] += 1
                return
            self._left -= 1
            yield message

    def _name(self, annotation: Message, sequence: Sequence) -> str:
        number = annotation.number(Annotation.NAME)
        if number:
            return self._text(Interned.ANNOTATION, number, sequence) or ""
        return annotation.text(Annotation.NAME_TEXT) or ""

    def _text(self, kind: Interned, number: int, sequence: Sequence) -> str | None:
        code = sequence.codes(kind).code(number)
        self._losses[NOT_DEFINED] += code < 0
        return self._registry.names.values[code] if code >= 0 else None

    def _value(self, annotation: Message, sequence: Sequence, depth: int) -> Any:
        """Return the value of an annotation: a type with bits and text, a value of Python, or a dict or list."""
        for field, kind in NUMBERS.items():
            if field in annotation:
                value = annotation.number(field)
                return kind, int(value != 0) if kind == ArgumentKind.BOOLEAN else value, None
        if doubles := annotation.numbers(Annotation.DOUBLE, Wire.FIXED64):
            return ArgumentKind.NUMBER, doubles[-1], None
        if Annotation.TEXT in annotation:
            return ArgumentKind.TEXT, 0, self._text(Interned.TEXT, annotation.number(Annotation.TEXT), sequence) or ""
        if Annotation.STRING in annotation:
            return annotation.text(Annotation.STRING)
        if Annotation.JSON in annotation:
            return self._json(annotation.text(Annotation.JSON) or "")
        if depth >= MAX_DEPTH:
            self._losses[_DEEP] += 1
            return None
        if Annotation.ENTRIES in annotation:
            return dict(self._items(annotation.messages(Annotation.ENTRIES), sequence, depth + 1))
        if Annotation.ITEMS in annotation:
            return [
                self._value(each, sequence, depth + 1) for each in self._some(annotation.messages(Annotation.ITEMS))
            ]
        nested = annotation.message(Annotation.NESTED)
        if nested is not None:
            return self._nested(nested, depth + 1)
        self._losses[_NO_VALUE] += 1
        return None

    def _json(self, text: str) -> Any:
        try:
            return json.loads(text)
        except (RecursionError, ValueError):
            self._losses[_NO_VALUE] += 1
            return text

    def _nested(self, value: Message, depth: int) -> Any:
        """Return a value of the older kind, in which names are apart from the values."""
        kind = value.number(Nested.TYPE)
        if kind in (_DICT, _LIST):
            if depth >= MAX_DEPTH:
                self._losses[_DEEP] += 1
                return None
            inner = self._some(value.messages(Nested.VALUES if kind == _DICT else Nested.ITEMS))
            values = [self._nested(each, depth + 1) for each in inner]
            if kind == _LIST:
                return values
            names = [each.decode("utf-8", "surrogateescape") for each in value.texts(Nested.KEYS)]
            return dict(zip(names, values, strict=False))
        if Nested.BOOL in value:
            return bool(value.number(Nested.BOOL))
        if Nested.INT in value:
            return value.signed(Nested.INT)
        if doubles := value.doubles(Nested.DOUBLE):
            return doubles[-1]
        return value.text(Nested.STRING)
