"""Python functions generated from the declarations: decode one record, encode one record.

`codec_of(cls, version)` generates them once per class and version; the text stays on `.source`.  The running
values of a block are attributes of a `StreamState`, by the names that the declarations give them.  `values` has
the helpers that the generated text calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from fxtio.codec.generate import Codec, compiled
from fxtio.codec.record import Opaque, once
from fxtio.codec.stream.declare import (
    SUBTYPE,
    UNKNOWN,
    AfterCount,
    Choice,
    Clock,
    Dialect,
    Item,
    RecordLayout,
    Repeated,
    Running,
    StreamPart,
    StreamState,
    layout_of,
    parts_of,
    single,
)
from fxtio.codec.stream.values import COLUMN_HELPERS, HELPERS, take_uleb
from fxtio.errors import DecodeError, EncodeError, LayoutError


@once
def codec_of(cls: type[Item], version: float) -> Codec:
    """Return the codec of a class, generated on first use.

    `decode(data, cursor, end, state)` returns the record and the offset after it, and updates the running values of
    the state.  `data` are bytes, `end` is where the block ends.  Raises `DecodeError`.  `encode(record, state)` returns
    the bytes of the record, and updates the running values.  Raises `EncodeError`, and then leaves them unchanged.

    Raises:
        LayoutError: the version does not have the record.
    """
    layout = layout_of(cls, version)
    if layout is None:
        raise LayoutError(f"version {version} has no {cls.__name__}")
    writer = _Source(layout)
    source = "\n".join([*writer.decoder(), "", "", *writer.encoder(), ""])
    return compiled(source, _filename(cls, version), HELPERS | writer.classes)


def _filename(cls: type[Item], version: float) -> str:
    return f"<fxtio codec of {cls.__module__}.{cls.__name__}, version {version}>"


def with_helpers(cls: type[Item], version: float, helpers: dict[str, Any]) -> Callable[..., tuple[Any, int]]:
    """Return the decoder of a class, compiled with other helpers than `HELPERS`."""
    codec = codec_of(cls, version)
    return compiled(codec.source, _filename(cls, version), codec.scope | helpers).decode


@cache
def column_decoder(cls: type[Item], version: float) -> Callable[..., tuple[Any, int]]:
    """Return the decoder of a class that gives texts by place and doubles by their bits, as columns hold them."""
    return with_helpers(cls, version, COLUMN_HELPERS)


def kind_at(dialect: Dialect, data: bytes, offset: int, end: int) -> int:
    """Return the kind of the record that begins at `offset`.

    Raises:
        DecodeError: no record of the version begins like this, or the data end before the kind is known.
    """
    first_byte = data[offset]
    kind = dialect.kinds[first_byte]
    if kind == SUBTYPE:
        _, place = take_uleb(data, offset + 1, end, "time")
        if place >= end:
            raise DecodeError("event.cut", "the data end before the metadata's type")
        kind = dialect.subtypes.get((first_byte, data[place]), UNKNOWN)
        if kind == UNKNOWN:
            raise DecodeError("event.unknown", f"metadata of the unknown type {data[place]} ({first_byte:#04x})")
    if kind == UNKNOWN:
        raise DecodeError("event.unknown", f"data version {dialect.version} has no event {first_byte:#04x}")
    return kind


def _codec_at(dialect: Dialect, kind: int) -> Codec:
    """Return the codec of a kind of record, which the version must have, and keep it in the dialect."""
    dialect.codecs[kind] = codec = codec_of(dialect.classes[kind], dialect.version)
    return codec


def decode_record(dialect: Dialect, data: bytes, offset: int, end: int, state: StreamState) -> tuple[Any, int]:
    """Decode the record that begins at `offset`; return it and the offset after it.

    Raises:
        DecodeError: no record of the version begins like this, or it does not end within the block.
    """
    kind = dialect.kinds[data[offset]]
    if kind < 0:
        kind = kind_at(dialect, data, offset, end)
    codec = dialect.codecs.get(kind) or _codec_at(dialect, kind)
    record, after = codec.decode(data, offset, end, state)
    return record, after


def encode_record(dialect: Dialect, record: Any, state: StreamState) -> bytes:
    """Return the bytes of a record; those of an `Opaque` are its own, and the state follows them as a reader's would.

    Raises:
        EncodeError: it is no record of the version, or a value does not fit.
    """
    kind = dialect.kind_of.get(type(record))
    if kind is None:
        if type(record) is Opaque:
            _follow(dialect, record.raw, state)
            return record.raw
        in_others = type(record) in dialect.classes
        reason = f"data version {dialect.version} does not have it" if in_others else "it is no event"
        raise EncodeError(reason, type(record).__name__)
    codec = dialect.codecs.get(kind) or _codec_at(dialect, kind)
    return codec.encode(record, state)


def _follow(dialect: Dialect, raw: bytes, state: StreamState) -> None:
    """Update the running values as a reader of these bytes does."""
    offset = 0
    while offset < len(raw):
        try:
            _, offset = decode_record(dialect, raw, offset, len(raw), state)
        except DecodeError:
            return


_RULED_OUT = "is not present in a record with these other fields; give None"


def _indented(lines: Iterator[str] | list[str]) -> Iterator[str]:
    for line in lines:
        yield f"    {line}"


class _Source:
    """Writes the text of the two functions of a record layout."""

    def __init__(self, layout: RecordLayout) -> None:
        self.layout = layout
        self.classes: dict[str, Any] = {layout.name: layout.cls}
        self.running = sorted(_running(layout))

    def decoder(self) -> Iterator[str]:
        yield "def decode(data, cursor, end, state):"
        word = self.layout.word
        lines = ["mask = state.mask", *(f"last_{name} = state.{name}" for name in self.running), "total = 0"]
        if word is not None:
            lines.append("first_byte = data[cursor]")
            lines += [f"{f.name} = {f.expression('first_byte')}" for f in self.layout.fields.values()]
            lines.append("cursor += 1")
        lines += self._fields(self.layout)
        lines += [f"state.{name} = last_{name}" for name in self.running]
        lines.append(f"return {self._constructor(self.layout, '')}, cursor")
        yield from _indented(lines)

    def _constructor(self, layout: RecordLayout, prefix: str) -> str:
        given = [f"{name}={prefix}{name}" for name, _ in layout.parts]
        given += [
            f"{name}=last_{clock}" if (clock := _clock(layout, name)) else f"{name}=None" for name in layout.absent
        ]
        return f"{layout.name}({', '.join(given)})"

    def _fields(self, layout: RecordLayout, prefix: str = "") -> Iterator[str]:
        subtype = getattr(layout.cls, "subtype", None)
        for number, (name, part) in enumerate(layout.body):
            where = f"{layout.name}.{name}"
            taken = self._take(part, prefix + name, where, layout)
            condition = part.flag if isinstance(part, Repeated) else ""
            if part.when is not None:
                condition = f"{prefix}{part.when[0]} in {_numbers(part.when[1])}"
            if condition:
                yield f"{prefix}{name} = None"
                yield f"if {condition}:"
                taken = _indented(taken)
            yield from taken
            if number == 0 and subtype is not None:
                yield "cursor += 1"

    def _take(self, part: StreamPart, name: str, where: str, layout: RecordLayout) -> Iterator[str]:
        """Yield the lines that read a value."""
        match part:
            case Choice(by=by, cases=cases):
                prefix = name[: -len(where.rpartition(".")[2])]
                for number, (values, chosen) in enumerate(cases):
                    yield f"{'elif' if number else 'if'} {prefix}{by} in {_numbers(values)}:"
                    yield from _indented(self._take(chosen, name, where, layout))
                yield f"else: raise unknown_form({where!r}, {prefix}{by})"
            case Repeated():
                yield from self._take_items(part, name, where, layout)
            case AfterCount():
                pass  # it is read after the count of its list
            case _:
                form = single(part)
                yield f"{name}, cursor = take_{form.stored}(data, cursor, end, {where!r})"
                taken = form.taken.format(name)
                if form.updates:
                    yield f"{name} = {form.updates} = {taken}"
                elif taken != name:
                    yield f"{name} = {taken}"

    def _take_items(self, part: Repeated, name: str, where: str, layout: RecordLayout) -> Iterator[str]:
        yield f"{name} = []"
        yield "total = 0"
        if part.until_zero:
            yield "while True:"
            yield f"    first, after = take_uleb(data, cursor, end, {where!r})"
            yield "    if first == 0:"
            yield "        cursor = after"
            yield "        break"
        else:
            yield f"count, cursor = take_uleb(data, cursor, end, {where!r})"
            if part.after_count:
                yield f"{part.after_count}, cursor = take_uleb(data, cursor, end, {where!r})"
            yield f"if count > end - cursor: raise count_beyond_end({where!r}, count, end - cursor)"
            yield "for _ in range(count):"
        if isinstance(part.of, StreamPart):
            yield from _indented(self._take(part.of, "item", where, layout))
            yield f"    {name}.append(item)"
        else:
            inner = self._item(part)
            yield from _indented(self._fields(inner, "entry_"))
            yield f"    {name}.append({self._constructor(inner, 'entry_')})"
        yield f"{name} = tuple({name})"

    def _item(self, part: Repeated) -> RecordLayout:
        assert not isinstance(part.of, StreamPart)
        inner = layout_of(part.of, self.layout.version)
        assert inner is not None
        self.classes[inner.name] = inner.cls
        return inner

    def encoder(self) -> Iterator[str]:
        yield "def encode(this, state):"
        lines = ["mask = state.mask", *(f"last_{name} = state.{name}" for name in self.running), "total = 0"]
        word = self.layout.word
        if word is not None:
            lines += self._put_first_byte()
        else:
            lines.append("out = bytearray()")
        lines += self._put_fields(self.layout, "this")
        lines += [f"state.{name} = last_{name}" for name in self.running]
        lines.append("return bytes(out)")
        yield from _indented(lines)

    def _put_first_byte(self) -> Iterator[str]:
        word = self.layout.word
        assert word is not None
        terms = [f"{word.pattern('tag', 'const')[1]:#x}"]
        owned = {part.flag: name for name, part in self.layout.parts if isinstance(part, Repeated)}
        for field in self.layout.fields.values():
            if field.name in owned:
                yield f"{field.name} = this.{owned[field.name]} is not None"
            else:
                legal = [member.value for member in field.meaning] if field.meaning else list(range(field.mask + 1))
                yield f"{field.name} = this.{field.name}"
                yield f"if not isinstance({field.name}, int) or {field.name} not in {_numbers(tuple(legal))}:"
                yield f"    raise misfit({f'{self.layout.name}.{field.name}'!r}, {field.name})"
            terms.append(f"{field.name} << {field.lo}")
        yield f"out = bytearray(({' | '.join(terms)}).to_bytes(1, 'little'))"

    def _put_fields(self, layout: RecordLayout, owner: str) -> Iterator[str]:
        subtype = getattr(layout.cls, "subtype", None)
        absent = f"version {layout.version} does not have it; give None"
        untimed = f"version {layout.version} has no time here; give that of the record before"
        for name in layout.absent:
            where = f"{layout.name}.{name}"
            if clock := _clock(layout, name):
                yield f"if {owner}.{name} != last_{clock}: raise EncodeError({untimed!r}, {where!r})"
            else:
                yield f"if {owner}.{name} is not None: raise EncodeError({absent!r}, {where!r})"
        for number, (name, part) in enumerate(layout.body):
            where = f"{layout.name}.{name}"
            put = self._put(part, f"{owner}.{name}", where, owner)
            if part.when is not None:
                switch = part.when[0] if part.when[0] in layout.fields else f"{owner}.{part.when[0]}"
                yield f"if {switch} not in {_numbers(part.when[1])}:"
                yield f"    if {owner}.{name} is not None: raise EncodeError({_RULED_OUT!r}, {where!r})"
                yield "else:"
                put = _indented(put)
            elif isinstance(part, Repeated) and part.flag:
                yield f"if {owner}.{name} is not None:"
                put = _indented(put)
            yield from put
            if number == 0 and subtype is not None:
                yield f"out.append({int(subtype)})"

    def _put(self, part: StreamPart, value: str, where: str, owner: str) -> Iterator[str]:
        """Yield the lines that append a value to `out`."""
        match part:
            case Choice(by=by, cases=cases):
                for number, (values, chosen) in enumerate(cases):
                    yield f"{'elif' if number else 'if'} {owner}.{by} in {_numbers(values)}:"
                    yield from _indented(self._put(chosen, value, where, owner))
                field = f"{where.rpartition('.')[0]}.{by}"
                yield f"else: raise misfit({field!r}, {owner}.{by})"
            case Repeated():
                yield from self._put_list(part, value, where)
            case AfterCount():
                yield f"after_count = put_uleb({value}, {where!r})"
            case _:
                form = single(part)
                yield f"out += put_{form.stored}({form.put(value, where)}, {where!r})"
                if form.updates:
                    yield f"{form.updates} = {value}"

    def _put_list(self, part: Repeated, value: str, where: str) -> Iterator[str]:
        yield "total = 0"
        yield f"if type({value}) is not tuple: raise not_a_list({where!r}, {value})"
        if not part.until_zero:
            yield f"out += put_uleb(len({value}), {where!r})"
        if part.after_count:
            yield "out += after_count"
        yield f"for item in {value}:"
        if isinstance(part.of, StreamPart):
            yield from _indented(self._put(part.of, "item", where, "item"))
        else:
            inner = self._item(part)
            yield f"    if type(item) is not {inner.name}: raise not_a_list({where!r}, item)"
            if part.until_zero:
                first = inner.body[0][0]
                yield f"    if item.{first} == 0: raise misfit({f'{inner.name}.{first}'!r}, 0)"
            yield from _indented(self._put_fields(inner, "item"))
        if part.until_zero:
            yield "out.append(0)"


def _numbers(values: tuple[int, ...]) -> str:
    return f"({', '.join(str(int(value)) for value in values)},)"


def _clock(layout: RecordLayout, name: str) -> str:
    """Return the clock of a field in any version; empty if the field is no time."""
    return next((part.of for part in parts_of(layout.cls)[name] if isinstance(part, Clock)), "")


def _running(layout: RecordLayout) -> set[str]:
    """Return the names of all running values that a record updates or shows."""
    names = {clock for name in layout.absent if (clock := _clock(layout, name))}
    for _, part in layout.parts:
        if isinstance(part, Repeated):
            inner = part.of
            if not isinstance(inner, StreamPart):
                inner_layout = layout_of(inner, layout.version)
                assert inner_layout is not None
                names |= _running(inner_layout)
                continue
            part = inner
        if isinstance(part, Clock | Running):
            names.add(part.of)
    return names
