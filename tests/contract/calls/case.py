"""A call of a method with its arguments, and the parts of the arguments that can be replaced by other values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

Path = tuple[Any, ...]
"""The way to a part of the arguments: names of parameters, keys, indices, names of fields."""

_KEYS = "key of"
"""Stands in a path before a key of a mapping that is itself replaced."""


class Call:
    """A call of a method.

    Args:
        target: the object.
        method: the name of its method.
        args: positional arguments.
        kwargs: keyword arguments.
    """

    def __init__(self, target: Any, method: str, *args: Any, **kwargs: Any) -> None:
        self.target = target
        self.method = method
        self._args = args
        self._kwargs = kwargs

    def __str__(self) -> str:
        return f"{type(self.target).__name__}.{self.method}"

    @cached_property
    def _bound(self) -> inspect.BoundArguments:
        bound = inspect.signature(getattr(self.target, self.method)).bind(*self._args, **self._kwargs)
        bound.apply_defaults()
        return bound

    def __call__(self) -> Any:
        """Call the method."""
        return getattr(self.target, self.method)(*self._bound.args, **self._bound.kwargs)

    def paths(self) -> Iterator[tuple[Path, Any]]:
        """Yield the ways to all parts of the arguments, with the values there."""
        for name, value in self._bound.arguments.items():
            kind = self._bound.signature.parameters[name].kind
            variable = kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
            if not variable:
                yield (name,), value
            for path, part in _parts(value):
                if not (variable and path[0] == _KEYS):  # names of parameters are no values
                    yield (name, *path), part

    def part(self, path: Path) -> Any:
        """Return a part of the arguments; of a mapping also a key."""
        value: Any = self._bound.arguments
        for key in path:
            value = dict(_items(value)).get(key, key)
        return value

    def replace(self, path: Path, value: Any) -> None:
        """Replace a part of the arguments.

        Raises:
            TypeError: an argument cannot have such a part.
        """
        name, *rest = path
        self._bound.arguments[name] = replaced(self._bound.arguments[name], tuple(rest), value)


def _parts(value: Any) -> Iterator[tuple[Path, Any]]:
    """Yield the ways to the parts of a value, with the parts."""
    for key, part in _items(value):
        yield (key,), part
        for path, inner in _parts(part):
            yield (key, *path), inner
    if isinstance(value, Mapping):
        for key in value:
            yield (_KEYS, key), key


def _items(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, type):
        return
    elif isinstance(value, list | tuple):
        yield from dict(list(enumerate(value))[:1] + list(enumerate(value))[-1:]).items()  # the first and the last
    elif fields := fields_of(value):
        for name in fields:
            yield name, getattr(value, name)


def fields_of(value: Any) -> tuple[str, ...]:
    """Return the names of the fields of a record or of a class of records, in order; nothing for other values."""
    if isinstance(value, tuple):
        return getattr(value, "_fields", ())
    return tuple(getattr(value, "__struct_fields__", getattr(value, "__dataclass_fields__", ())))


def replaced(whole: Any, path: Path, value: Any) -> Any:
    """Return a copy of a value with a part of it replaced."""
    if not path:
        return value
    key, *rest = path
    if key == _KEYS and isinstance(whole, Mapping):
        return {value if each == rest[0] else each: part for each, part in whole.items()}
    if isinstance(whole, Mapping):
        return {**whole, key: replaced(whole[key], tuple(rest), value)}
    if isinstance(whole, list | tuple) and isinstance(key, int):
        items = [replaced(part, tuple(rest), value) if at == key else part for at, part in enumerate(whole)]
        return type(whole)(*items) if hasattr(whole, "_replace") else type(whole)(items)
    fields = {name: getattr(whole, name) for name in fields_of(whole)}
    return type(whole)(**fields | {key: replaced(fields[key], tuple(rest), value)})


ABSURD: list[Any] = [
    -1, 0, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**70, 1.5, float("nan"), float("inf"), None, True,
    "", "\ud800", "a\0b", "a\nb", "x" * 100_000, b"", b"x", object(), [], [None], {}, {"": object()},
]  # fmt: skip
"""Values that make no sense for most parameters, or are at the ends of what a format can hold."""

ABSURD_COLUMNS: list[Any] = [
    np.array([-1, 2**40]), np.array([0.5, 1]), np.array(["a", "b"]), np.zeros((2, 2)), np.array(1), np.array([], "U1"),
    [2**64, 1], ["\ud800", "a"], (), (1, 2), [[1, 2], [3]], [object()],
]  # fmt: skip
"""Such values in place of sequences."""


@dataclass(frozen=True)
class Opened:
    """A writer and the objects that its methods return, each of which has methods of its own.

    Attributes:
        writer: the writer; something was written with it.
        objects: the other objects, one of each class.
    """

    writer: Any
    objects: tuple[Any, ...] = ()


class FormatCalls(Protocol):
    """A module with the calls of a format."""

    OPTIONS: list[dict[str, Any]]
    """Valid options of a writer, in place of which absurd ones are given."""

    WRITERS: list[dict[str, Any]]
    """The options of the writers whose methods are called; `calls` may return other calls for each."""

    FINDINGS: frozenset[str]
    """The rules of findings that valid but odd values may cause, such as a time that does not fit in 63 bits."""

    WRITES_NOTHING: frozenset[str]
    """Methods that return something for later calls and write nothing themselves, as `Class.method`."""

    UNCHECKED: frozenset[str]
    """Methods that write records as they are, which need not fit together: reading them may give findings."""

    IGNORED: frozenset[str]
    """Places (as `Class.method(way.to.part)`) where a value may make no difference, with the reason in a comment."""

    def begin(self, writer: Any) -> Opened:
        """Write something, and make an object of each class."""

    def calls(self, opened: Opened) -> list[Call]:
        """Return at least one valid call of each public method, for this or another writer."""

    def end(self, opened: Opened) -> None:
        """Write something with all objects, after the call."""

    use: Callable[[Opened, Call, Any], None]
    """Use what a call returned, such as the track of a thread, in a way that must work if the call did."""
