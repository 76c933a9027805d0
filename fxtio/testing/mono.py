"""Hypothesis strategies for recordings of the Mono log profiler, made from the declarations of its events.

A strategy draws a value for each part that an event has in a data version; the ends of a range are drawn more often
than chance would draw them.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from fxtio.codec.stream.declare import (
    AfterCount,
    Byte,
    Choice,
    Clock,
    Dialect,
    Double,
    FirstByteField,
    Item,
    Part,
    RecordLayout,
    Relative,
    Repeated,
    Running,
    Sleb,
    Summed,
    Text,
    Uleb,
    layout_of,
    parts_of,
)
from fxtio.mono.headers import BufferHeader
from fxtio.mono.records import Event

Strategy = st.SearchStrategy[Any]

_MOST_ITEMS = 4
_U64 = (1 << 64) - 1
_WORD = st.sampled_from([0, 1, 127, 128, 2**63 - 1, 2**63, _U64]) | st.integers(0, _U64)
_SIGNED = st.sampled_from([-(2**63), -65, -64, -1, 0, 63, 64, 2**63 - 1]) | st.integers(-(2**63), 2**63 - 1)
_TEXTS = st.one_of(st.text(max_size=12), st.binary(max_size=12).map(lambda raw: raw.decode("utf-8", "surrogateescape")))


def texts() -> Strategy:
    """Return texts that a recording can hold: without a zero byte, some of them not UTF-8."""
    return _TEXTS.map(lambda text: text.replace("\0", "")).filter(_is_encodable)


def _is_encodable(text: str) -> bool:
    """Return whether a text has no lone surrogates, and no escapes of bytes that together are UTF-8."""
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape") == text
    except UnicodeEncodeError:
        return False


@st.composite
def events(draw: st.DrawFn, cls: type[Event], dialect: Dialect, *, time: int = 0) -> Any:
    """Draw an event of a class that a data version has.

    Args:
        draw: given by hypothesis.
        cls: the class; the version must have it.
        dialect: the data version.
        time: the last time of the buffer, for events that have none of their own.
    """
    layout = layout_of(cls, dialect.version)
    assert layout is not None
    values = _draw(draw, layout, (1 << dialect.width) - 1)
    for name in layout.absent:
        clock = any(isinstance(part, Clock) for part in parts_of(cls)[name])
        values[name] = time if clock else None
    return cls(**values)


def _draw(draw: st.DrawFn, layout: RecordLayout, mask: int) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, part in layout.parts:
        if part.when is not None:
            switch, with_part = part.when
            given = values[switch] if switch in values else draw(st.sampled_from([0, 1]))
            values.setdefault(switch, given)
            if given not in with_part:
                values[name] = None
                continue
        if isinstance(part, FirstByteField):
            field = part.field
            legal = [member.value for member in field.meaning] if field.meaning else list(range(field.mask + 1))
            values[name] = draw(st.sampled_from(legal))
        elif isinstance(part, Repeated):
            present = values.pop(part.flag) if part.flag in values else draw(st.booleans()) if part.flag else True
            values[name] = draw(_items(part, layout, mask)) if present else None
        elif isinstance(part, Choice):
            values[name] = draw(_chosen(part, values[part.by], mask))
        else:
            values[name] = draw(_values(part, mask))
            _fit_choice(draw, layout, name, values)
    return values


def _fit_choice(draw: st.DrawFn, layout: RecordLayout, name: str, values: dict[str, Any]) -> None:
    """Draw numbers that other fields depend on again, mostly such that those fields are present."""
    for _, part in layout.parts:
        if isinstance(part, Choice) and part.by == name:
            values[name] = draw(st.sampled_from([int(value) for cases, _ in part.cases for value in cases]))
        elif part.when is not None and part.when[0] == name and draw(st.booleans()):
            values[name] = int(part.when[1][0])


def _values(part: Part, mask: int) -> Strategy:
    match part:
        case Byte():
            return st.integers(0, 255)
        case Uleb() | Clock() | Summed() | AfterCount():
            return _WORD
        case Sleb(pointer=False):
            return _SIGNED
        case Relative(shift=shift):
            step = 1 << shift
            return (st.sampled_from([0, mask // step]) | st.integers(0, mask // step)).map(lambda units: units * step)
        case Running() | Sleb():
            return st.sampled_from([0, mask]) | st.integers(0, mask)
        case Double():
            return st.floats(allow_nan=False)
        case Text(marked=marked):
            return st.none() | texts() if marked else texts()
        case _:
            raise TypeError(f"{type(part).__name__} cannot be drawn")


def _chosen(part: Choice, by: int, mask: int) -> Strategy:
    return next(_values(case, mask) for values, case in part.cases if by in values)


@st.composite
def _items(draw: st.DrawFn, part: Repeated, layout: RecordLayout, mask: int) -> tuple[Any, ...]:
    count = draw(st.integers(0, _MOST_ITEMS))
    if isinstance(part.of, Part):
        return tuple(draw(_values(part.of, mask)) for _ in range(count))
    inner = layout_of(part.of, layout.version)
    assert inner is not None
    items: list[Item] = []
    for _ in range(count):
        values = _draw(draw, inner, mask)
        first = inner.body[0][0]
        if part.until_zero and values[first] == 0:
            values[first] = 1
        items.append(part.of(**values, **dict.fromkeys(inner.absent)))
    return tuple(items)


@st.composite
def buffers(draw: st.DrawFn, dialect: Dialect, *, most: int = 8) -> tuple[BufferHeader, list[Event]]:
    """Draw the header of a buffer and its events.

    Args:
        draw: given by hypothesis.
        dialect: the data version.
        most: the largest number of events.
    """
    header = BufferHeader(**{name: draw(_WORD) for name in BufferHeader.__struct_fields__})
    if dialect.width == 32:
        header = BufferHeader(**{name: getattr(header, name) % 2**32 for name in BufferHeader.__struct_fields__})
    classes = [cls for cls, layout in zip(dialect.classes, dialect.layouts, strict=True) if layout is not None]
    time, drawn = header.time, []
    for _ in range(draw(st.integers(0, most))):
        cls: Any = draw(st.sampled_from(classes))
        event = draw(events(cls, dialect, time=time))
        time = event.time
        drawn.append(event)
    return header, drawn
