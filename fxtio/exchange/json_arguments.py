"""What trace formats in JSON have in common: arguments that are JSON objects, numbers of threads that may be texts."""

from __future__ import annotations

from collections.abc import Collection, Set
from typing import Any

from fxtio.codec.integers import MAX_INT64
from fxtio.exchange.json_events import value_of
from fxtio.table import Column
from fxtio.timeline.arguments import argument_of, flattened
from fxtio.timeline.parts import Registry
from fxtio.timeline.schema import ArgumentKind

_LONG_NUMBERS = "numbers in arguments that do not fit 64 bits, which are text now"
_UNREADABLE = "arguments that cannot be decoded"
_ESCAPE = b"\\u"
FIRST_NUMBER = 1 << 30
"""The first number of processes and threads whose numbers are texts."""


class JsonArguments:
    """The arguments of the events of a file, which are collected batch by batch.

    Args:
        registry: has the names and the losses, and says which arguments are asked for.
        tables: the tables that are asked for.
    """

    def __init__(self, registry: Registry, tables: Set[str]) -> None:
        self._losses, self._code = registry.losses, registry.names.code
        self._registry = registry
        self._is_asked = "args" in tables
        self._signs = None if registry.asked_arguments is None else _signs_of(registry.asked_arguments)
        self._rows: list[tuple[int, int, int, int, int]] = []

    def may_be_in(self, text: bytes) -> bool:
        """Return whether JSON may have arguments that are asked for; to look for names takes less than to decode."""
        return self._is_asked and (self._signs is None or any(sign in text for sign in self._signs))

    def decoded(self, text: bytes) -> Any:
        """Return an object that is JSON, None if it is missing or cannot be decoded."""
        try:
            return value_of(text)
        except (RecursionError, ValueError):
            self._losses[_UNREADABLE] += 1
            return None

    def add_from(self, text: bytes, number: int) -> None:
        """Add the arguments of an event, which are JSON, if any of them may be asked for."""
        if text and self.may_be_in(text):
            self.add(self.decoded(text), number)

    def add(self, args: Any, number: int) -> None:
        """Add the arguments of an event; those of nested objects have names with dots."""
        if not args:
            return
        for name, value in flattened([("" if isinstance(args, dict) else "args", args)], self._losses):
            kind, bits, text = argument_of(value)
            if kind == ArgumentKind.TEXT and isinstance(value, int):
                self._losses[_LONG_NUMBERS] += 1
            self._rows.append((number, self._code(name), kind, bits, self._code(text)))

    def table(self) -> dict[str, dict[str, Column]]:
        """Return the arguments since the last call as a table, nothing if there are none."""
        rows, self._rows = self._rows, []
        return {"args": self._registry.columns_of_rows("args", rows)} if rows else {}


def _signs_of(names: Collection[str]) -> list[bytes]:
    """Return what to look for in arguments as JSON: those that contain none of it have none of these names.

    The outermost name begins with the first part of the name, also where objects are nested; any may have escapes.
    """
    return [_ESCAPE, *sorted({f'"{name.partition(".")[0]}'.encode() for name in names})]


class Numbers:
    """The numbers of processes and threads, which JSON has as numbers or as texts."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {}

    def number(self, kind: str, value: Any) -> int:
        """Return the number of a process or thread; one that is not a number gets one, all that is no text has 0."""
        if type(value) is int and -(1 << 63) <= value <= MAX_INT64:
            return value
        if isinstance(value, float) and value.is_integer() and abs(value) < 1 << 53:
            return int(value)
        if value is None or isinstance(value, bool | dict | list | float):
            return 0
        text = str(value)[:1024]
        if text.isascii() and text.isdigit() and len(text) < 19:
            return int(text)
        return self._numbers.setdefault((kind, text), FIRST_NUMBER + len(self._numbers))
