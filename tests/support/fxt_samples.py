"""Small records to test with, made from the declarations, and the classes to test them on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from hypothesis import settings

from fxtio.codec.generate import Order
from fxtio.codec.parts import Header, Many, Number, Part, Stream, Words
from fxtio.codec.record import Record, TaggedUnion, layout_of
from fxtio.fxt.records import ARGUMENTS, RECORDS, StringReference, Thread, ThreadReference

ORDERS: tuple[Order, ...] = ("little", "big")
CLASSES: tuple[type[Record], ...] = RECORDS.classes + ARGUMENTS.classes
LARGE_CLASSES = [cls for cls in RECORDS.classes if len(cls.words) > 1]

Test = TypeVar("Test", bound=Callable[..., Any])


def for_classes(classes: tuple[type[Record], ...] = CLASSES) -> Callable[[Test], Test]:
    """Run a test for each of these classes, as its argument `cls`."""
    return pytest.mark.parametrize("cls", classes, ids=lambda cls: cls.__name__)


for_orders = pytest.mark.parametrize("order", ORDERS)


def share(part: int, least: int = 5) -> settings:
    """Return a part of the profile's examples, for a test that is run for each of many classes."""
    return settings(max_examples=max(settings().max_examples // part, least))


def union_of(cls: type[Record]) -> TaggedUnion:
    """Return the union that a class belongs to."""
    return RECORDS if cls in RECORDS.classes else ARGUMENTS


def minimal(cls: type[Record], **changes: Any) -> Any:
    """Return the smallest record of a class, with some fields changed."""
    values = {name: _least(part) for name, part in layout_of(cls).parts}
    return cls(**values | changes)


def _least(part: Part) -> Any:
    if isinstance(part, Header):
        return False if part.boolean else part.field.limits[0]
    if isinstance(part, Number):
        return None if part.optional else 0.0 if part.kind == "f" else 0
    if isinstance(part, ThreadReference):
        return Thread(0, None) if part.process_only else 1
    if isinstance(part, StringReference):
        return 0
    if isinstance(part, Stream):
        return "" if part.text else b""
    return () if isinstance(part, Words | Many) else b""
