"""The codec of one line, derived from the declaration of its record.

One pattern takes all items of fixed number apart; the item of the line's rest reads what is after them.  The error
about a line that does not fit names the wrong item.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

from fxtio.codec.record import once
from fxtio.codec.text.items import Layout, QuoteError, Repeated, RestItem, layout_of
from fxtio.errors import DecodeError, EncodeError


def decode(cls: type[Any], line: bytes, begin: int) -> Any:
    """Decode a line, given without its end, to a record.

    Args:
        cls: the class of the record.
        line: the line.
        begin: where its items begin.

    Raises:
        DecodeError: it is no such record.
    """
    layout = layout_of(cls)
    match = layout.pattern.match(line, begin)
    if match is None:
        _refuse(layout, line, begin)
    values: list[Any] = []
    for field, raw in zip(layout.fields, match.groups(), strict=True):
        try:
            values.append(None if raw is None else field.item.parse(raw))
        except ValueError as error:
            raise _fault("line.field-form", layout, field.name, str(error)) from None
    end = match.end()
    if layout.tail is None:
        if end != len(line):
            last = match.lastindex
            if last and not line.startswith(b" ", end):
                _refuse_item(layout, last - 1, line[match.start(last) :])
            raise DecodeError("line.extra-fields", f"{cls.__name__}: {excerpt(line[end:])} follows the last item")
        return cls(*values)
    try:
        values += _tail_values(layout, line[end:])
    except ValueError as error:
        rule = "line.open-quote" if isinstance(error, QuoteError) else "line.field-form"
        raise _fault(rule, layout, layout.tail_fields[0], str(error)) from None
    return cls(*values)


def _fault(rule: str, layout: Layout, field: str, message: str) -> DecodeError:
    return DecodeError(rule, f"{layout.cls.__name__}.{field}: {message}")


def _tail_values(layout: Layout, raw: bytes) -> list[Any]:
    """Return the values of the fields that the rest of the line fills."""
    assert layout.tail is not None
    if not isinstance(layout.tail, Repeated):
        value = layout.tail.parse(raw)
        return list(value) if len(layout.tail_fields) > 1 else [value]
    lists = []
    offset = 0
    for member in layout.tail.members:
        items = []
        pattern, fields = _compound_pattern(member), layout_of(member).fields
        while (match := pattern.match(raw, offset)) is not None:
            offset = match.end()
            groups = zip(fields, match.groups(), strict=True)
            items.append(member(*(None if part is None else field.item.parse(part) for field, part in groups)))
        lists.append(tuple(items))
    if offset != len(raw):
        raise ValueError(f"{excerpt(raw[offset:])} is not a valid {layout.tail.name}")
    return lists


@once
def _compound_pattern(cls: type[Any]) -> re.Pattern[bytes]:
    """Return the pattern of one compound item with its separator."""
    return re.compile(layout_of(cls).pattern.pattern + rb"(?![^ ])")


def _refuse(layout: Layout, line: bytes, offset: int) -> NoReturn:
    """Raise the error about the first item that does not fit."""
    for number, field in enumerate(layout.fields):
        match = re.compile(field.item.pattern.encode("ascii")).match(line, offset)
        if match is None or line[match.end() : match.end() + 1] not in (b"", b" ", b":"):
            if offset == len(line):
                raise _fault("line.field-missing", layout, field.name, "the line ends before it")
            _refuse_item(layout, number, line[offset:])
        offset = match.end()
    raise AssertionError("the items fit one by one, but not together")


def _refuse_item(layout: Layout, number: int, raw: bytes) -> NoReturn:
    """Raise the error about an item that is not of its kind."""
    field = layout.fields[number]
    raise _fault("line.field-form", layout, field.name, f"{excerpt(raw)} is not a valid {field.item.name}")


def excerpt(raw: bytes) -> str:
    """Return the first characters of a line, or of a part of one, for messages."""
    text = raw[:40].decode("utf-8", "backslashreplace")
    return f"{text!r}{'...' if len(raw) > 40 else ''}"


def encode(record: Any, style: Any) -> str:
    """Return the items of a record, each with its separator, as text.

    Raises:
        EncodeError: the format cannot express it.
    """
    layout = layout_of(type(record))
    texts = [_fields_text(record, layout, style)]
    if layout.members:
        texts += [_compounds_text(record, name, member, style) for name, member in layout.members.items()]
    elif isinstance(layout.tail, RestItem):
        values = tuple(getattr(record, name) for name in layout.tail_fields)
        where = f"{layout.cls.__name__}.{layout.tail_fields[0]}"
        texts.append(layout.tail.format(values if len(values) > 1 else values[0], style, where))
    return "".join(texts)


def _fields_text(record: Any, layout: Layout, style: Any) -> str:
    where = layout.cls.__name__
    texts = []
    for field in layout.fields:
        value = getattr(record, field.name)
        if value is None and field.item.optional:
            continue
        texts.append(field.item.separator + field.item.format(value, style, f"{where}.{field.name}"))
    return "".join(texts)


def _compounds_text(record: Any, name: str, member: type[Any], style: Any) -> str:
    layout = layout_of(member)
    texts = []
    items = getattr(record, name)
    if not isinstance(items, tuple | list):
        raise EncodeError(f"{items!r} is not a tuple", f"{type(record).__name__}.{name}")
    for item in items:
        if type(item) is not member:
            raise EncodeError(f"{item!r} is not a {member.__name__}", f"{type(record).__name__}.{name}")
        texts.append(_fields_text(item, layout, style))
    return "".join(texts)
