"""What people read about the declarations of byte streams: tables of their layout, and any record's bytes taken apart.

A record is taken apart by its own decoder: the generated function runs with helpers that note which bytes they took and
for what.  So the two cannot disagree, and a record that is refused is told as far as the decoder came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from math import inf
from typing import Any

from fxtio.codec.describe import doc_of, title_of
from fxtio.codec.piece import Bits, Span
from fxtio.codec.stream import (
    Between,
    Byte,
    Choice,
    Clock,
    Double,
    Form,
    Item,
    Many,
    Part,
    Relative,
    Running,
    Sleb,
    StreamRecord,
    Summed,
    Text,
    Uleb,
    form_of,
    parts_of,
)
from fxtio.codec.stream_generate import stream_codec_of
from fxtio.codec.stream_values import HELPERS
from fxtio.codec.word import Field
from fxtio.errors import DecodeError

Told = Callable[[type[Item], str, Any], str]
"""What the value of a class's field means, in words; may be empty."""

_Note = tuple[str, int, int]  # what, from where, to where


@cache
def _noting(cls: type[Item], version: float) -> tuple[Callable[..., tuple[Any, int]], list[_Note]]:
    """The decoder of a class with helpers that note what they take."""
    codec = stream_codec_of(cls, version)
    notes: list[_Note] = []

    def noting(take: Callable[..., tuple[Any, int]]) -> Callable[..., tuple[Any, int]]:
        def noted(data: bytes, c: int, end: int, where: str) -> tuple[Any, int]:
            value, after = take(data, c, end, where)
            notes.append((where, c, after))
            return value, after

        return noted

    helpers = {name: noting(one) if name.startswith("take_") else one for name, one in HELPERS.items()}
    scope: dict[str, Any] = helpers | codec.classes
    exec(compile(codec.source, f"<fxtio notes of {cls.__name__}>", "exec"), scope)
    return scope["decode"], notes


def spans_of(form: Form, data: bytes, at: int, end: int, state: Any, told: Told) -> tuple[list[Span], int]:
    """Take a record apart.

    Args:
        form: what begins there.
        data: the bytes.
        at: where it begins.
        end: where its block ends.
        state: the running values; moved on if the record is whole.
        told: says what values mean.

    Returns:
        Its bytes, and the place behind it; `end` if it is not whole.
    """
    decode, notes = _noting(form.cls, form.version)
    notes.clear()
    record, fault = None, ""
    try:
        record, after = decode(data, at, end, state)
    except DecodeError as error:
        after, fault = end, error.message
    spans = [_head(form, data[at])]
    reached = at + 1
    for label, begin, stop, value in _labeled(form, record, notes, told):
        if begin > reached:
            spans.append(_between(form, data[reached:begin], reached - at))
        spans.append(Span(begin - at, data[begin:stop], label, value))
        reached = stop
    if after > reached:
        spans.append(Span(reached - at, data[reached:after], "unexplained", fault=fault))
    elif fault:
        spans.append(Span(reached - at, b"", "missing", fault=fault))
    return spans, after


def _head(form: Form, value: int) -> Span:
    assert form.word is not None
    bits = []
    for field in form.word.fields.values():
        number = field.get(value)
        bits.append(Bits(field, number, str(number), _meaning(field, number)))
    return Span(0, bytes([value]), "header", f"{value:#04x}", tuple(bits))


def _meaning(field: Field, value: int) -> str:
    known = {} if field.meaning is None else {member.value: member.name for member in field.meaning}
    return known.get(value, field.doc)


def _between(form: Form, raw: bytes, offset: int) -> Span:
    """The byte behind the time that tells records apart."""
    subtype = getattr(form.cls, "subtype", None)
    return Span(offset, raw, "subtype", "" if subtype is None else f"{raw[0]} {subtype.name}")


def _labeled(form: Form, record: Any, notes: list[_Note], told: Told) -> Iterator[tuple[str, int, int, str]]:
    """What was taken, with the path of the attribute that it went to and its value."""
    lists = {name: part for name, part in form.body if isinstance(part, Many)}
    current, index, counted = "", -1, False
    for number, (where, begin, stop) in enumerate(notes):
        if number + 1 < len(notes) and notes[number + 1][1] == begin:
            continue  # only looked at
        owner, _, name = where.partition(".")
        if owner == form.name and name not in lists:
            yield name, begin, stop, _value(form.cls, name, record, told)
        elif owner == form.name and (name != current or lists[name].until_zero):
            current, index, counted = name, -1, bool(lists[name].between)
            ending = lists[name].until_zero
            yield f"{name} {'end' if ending else 'count'}", begin, stop, _count(record, name) if not ending else ""
        elif owner == form.name and counted:
            counted = False
            between = lists[name].between
            yield between, begin, stop, _value(form.cls, between, record, told)
        elif owner == form.name:
            index += 1
            items = getattr(record, name, None)
            yield f"{name}[{index}]", begin, stop, "" if items is None else _shown(items[index])
        else:
            current, index = _item(form, lists, owner, name, current, index)
            items = getattr(record, current, None)
            one = None if items is None else items[index]
            cls: Any = lists[current].of
            yield f"{current}[{index}].{name}", begin, stop, _value(cls, name, one, told)


def _item(form: Form, lists: dict[str, Many], owner: str, name: str, current: str, index: int) -> tuple[str, int]:
    """The list and the number of the item that this field is of: a first field begins another item."""
    for field, part in lists.items():
        if not isinstance(part.of, Part) and part.of.__name__ == owner:
            inner = form_of(part.of, form.version)
            assert inner is not None
            index = -1 if field != current else index
            return field, index + 1 if name == inner.body[0][0] else index
    raise AssertionError(f"{form.name} has no list of {owner}")


def _value(cls: type[Item], name: str, record: Any, told: Told) -> str:
    if record is None:
        return ""
    value = getattr(record, name)
    return " ".join(filter(None, [_shown(value), told(cls, name, value)]))


def _count(record: Any, name: str) -> str:
    items = getattr(record, name, None)
    return "" if items is None else f"{len(items):,}"


def _shown(value: Any) -> str:
    if isinstance(value, int):
        return f"{value} ({value:#x})" if value > 9 else str(value)
    return f'"{value}"' if isinstance(value, str) else str(value)


# ---- the documents


def stream_markdown(cls: type[StreamRecord], *, level: int = 3) -> str:
    """A section of Markdown about a record: its first byte, and its parts with the versions that have them."""
    doc = doc_of(cls)
    lines = [f"{'#' * level} {cls.__name__}", "", " ".join(filter(None, [f"{title_of(cls)}.", doc.text])), ""]
    for head in cls.heads:
        form = form_of(cls, head.since or 1)
        assert form is not None
        values = " or ".join(f"`{value:#04x}`" for value in form.bytes())
        lines.append(f"First byte {values}{_range(head.since, head.before)}.")
    if cls.subtype is not None:
        lines.append(f"Behind the time a byte {int(cls.subtype)}.")
    lines += ["", "| Field | In the file | Data versions |", "|---|---|---|"]
    lines += list(_rows(cls, ""))
    return "\n".join([*lines, ""])


def _rows(cls: type[Item], prefix: str) -> Iterator[str]:
    for name, parts in parts_of(cls).items():
        for part in parts:
            yield f"| `{prefix}{name}` | {_told(part)}{_when(part)} | {_versions(part.since, part.before)} |"
        if not parts:
            yield f"| `{prefix}{name}` | in the first byte | |"
        items = next((part.of for part in parts if isinstance(part, Many) and not isinstance(part.of, Part)), None)
        if items is not None:
            yield from _rows(items, f"{prefix}{name}[].")


def _range(since: float, before: float) -> str:
    told = _versions(since, before)
    return f" (data versions {told})" if told else ""


def _versions(since: float, before: float) -> str:
    if since <= 1:
        return "" if before == inf else f"before {before:g}"
    return f"{since:g} on" if before == inf else f"{since:g} to before {before:g}"


def _when(part: Part) -> str:
    return (
        "" if part.when is None else f"; only where `{part.when[0]}` is {', '.join(str(int(v)) for v in part.when[1])}"
    )


def _told(part: Part) -> str:
    """What the part is, in the words of the documents."""
    match part:
        case Byte():
            return "a byte"
        case Uleb():
            return "uleb128"
        case Sleb():
            return "sleb128"
        case Relative(base=base, shift=shift):
            return f"sleb128, added to the buffer's {base} base{f', times {1 << shift}' if shift else ''}"
        case Running(of=of):
            return f"sleb128, added to the last {of} of the buffer"
        case Clock(of=of):
            return f"uleb128, added to the last {of} of the buffer, modulo 2 to the power of 64"
        case Summed():
            return "uleb128, added to the one before it in the list"
        case Double():
            return "8 bytes, a double"
        case Text(marked=marked):
            return "a byte 0, or a byte 1 and text up to a zero byte" if marked else "text up to a zero byte"
        case Choice(by=by, cases=cases):
            told = [f"{', '.join(str(int(v)) for v in values)}: {_told(one)}" for values, one in cases]
            return f"by `{by}`: {'; '.join(told)}"
        case Between():
            return "uleb128, between the count and the items of the list"
        case Many(of=of, until_zero=until_zero):
            what = f": {_told(of)}" if isinstance(of, Part) else ""
            return (
                f"items until a 0 in the place of the first number{what}"
                if until_zero
                else f"uleb128 count, items{what}"
            )
        case _:
            raise TypeError(f"{type(part).__name__} cannot be described")
