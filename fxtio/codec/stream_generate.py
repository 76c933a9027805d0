"""Python functions generated from the declarations of byte streams: decode one record, encode one record.

`stream_codec_of(form)` makes them once per class and version; the text stays on `.source`.  The running values of a
block are attributes of a state object, by the names that the declarations give them; `mask` is the largest address.
What a single value is, both ways, is said once, in `_scalar`; the helpers that the text calls are in `stream_values`.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

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
    Summed,
    Text,
    Uleb,
    form_of,
    parts_of,
)
from fxtio.codec.stream_values import HELPERS
from fxtio.codec.varint import U64
from fxtio.errors import LayoutError


@dataclass(frozen=True, slots=True)
class StreamCodec:
    """The two generated functions of a class in one version.

    Attributes:
        decode: `decode(data, at, end, state)` gives the record and the place behind it, and moves the state's running
            values on.  `data` are bytes, `end` is where the block ends.  Raises `DecodeError`.
        encode: `encode(record, state)` gives the record's bytes, and moves the running values on.  Raises
            `EncodeError`, and then leaves them as they were.
        source: the generated Python.
        classes: the classes that it names.
    """

    decode: Callable[[bytes, int, int, Any], tuple[Any, int]]
    encode: Callable[[Any, Any], bytes]
    source: str
    classes: dict[str, Any]


def stream_codec_of(cls: type[Item], version: float) -> StreamCodec:
    """The codec of a class, generated on first use.

    Raises:
        LayoutError: the version does not have the record.
    """
    return _codec_of(cls, version)


@cache
def _codec_of(cls: type[Item], version: float) -> StreamCodec:
    form = form_of(cls, version)
    if form is None:
        raise LayoutError(f"version {version} has no {cls.__name__}")
    writer = _Source(form)
    source = "\n".join([*writer.decoder(), "", "", *writer.encoder(), ""])
    scope = HELPERS | writer.classes
    filename = f"<fxtio codec of {cls.__module__}.{cls.__name__}, version {version}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    exec(compile(source, filename, "exec"), scope)
    return StreamCodec(scope["decode"], scope["encode"], source, writer.classes)


@dataclass(frozen=True, slots=True)
class _Scalar:
    """A single value, both ways.

    Attributes:
        stored: its form in the file: `take_` and `put_` of this name are its helpers.
        taken: what the field has, in terms of the number that was taken.
        put: what is put, in terms of the field.
        moves: the running value that becomes what the field has; may be empty.
    """

    stored: str
    taken: str
    put: str
    moves: str = ""


def _scalar(part: Part, value: str, where: str) -> _Scalar:
    """What a part says of a value; `value` is the expression of the number that is taken, or of the field."""
    word = f"whole({value}, {U64:#x}, {where!r})"
    address = f"whole({value}, mask, {where!r})"
    match part:
        case Byte():
            return _Scalar("byte", value, value)
        case Uleb():
            return _Scalar("uleb", value, value)
        case Clock(of=of):
            last = f"last_{of}"
            return _Scalar("uleb", f"({last} + {value}) & {U64:#x}", f"{word} - {last} & {U64:#x}", last)
        case Summed():
            return _Scalar("uleb", f"(total + {value}) & {U64:#x}", f"{word} - total & {U64:#x}", "total")
        case Sleb(pointer=True):
            return _Scalar("sleb", f"{value} & mask", f"signed({address}, mask)")
        case Sleb():
            return _Scalar("sleb", value, value)
        case Relative(base=base, shift=shift):
            origin, units = f"state.{base}", f"aligned({address}, {shift}, {where!r})"
            return _Scalar("sleb", f"({origin} + {value} << {shift}) & mask", f"signed({units} - {origin}, mask)")
        case Running(of=of):
            last = f"last_{of}"
            return _Scalar("sleb", f"({last} + {value}) & mask", f"signed({address} - {last}, mask)", last)
        case Double():
            return _Scalar("double", value, value)
        case Text(marked=marked):
            return _Scalar("marked_text" if marked else "text", value, value)
        case _:
            raise TypeError(f"{type(part).__name__} is no single value")


def _indented(lines: Iterator[str] | list[str]) -> Iterator[str]:
    for line in lines:
        yield f"    {line}"


class _Source:
    """Writes the two functions of a form."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.classes: dict[str, Any] = {form.name: form.cls}
        self.running = sorted(_running(form))

    def decoder(self) -> Iterator[str]:
        yield "def decode(data, c, end, state):"
        word = self.form.word
        lines = ["mask = state.mask", *(f"last_{name} = state.{name}" for name in self.running), "total = 0"]
        if word is not None:
            lines.append("head = data[c]")
            lines += [f"{f.name} = {f.expression('head')}" for f in self.form.fields.values()]
            lines.append("c += 1")
        lines += self._fields(self.form)
        lines += [f"state.{name} = last_{name}" for name in self.running]
        lines.append(f"return {self._made(self.form, '')}, c")
        yield from _indented(lines)

    def _made(self, form: Form, prefix: str) -> str:
        given = [f"{name}={prefix}{name}" for name, _ in form.parts]
        given += [f"{name}=last_{clock}" if (clock := _clock(form, name)) else f"{name}=None" for name in form.absent]
        return f"{form.name}({', '.join(given)})"

    def _fields(self, form: Form, prefix: str = "") -> Iterator[str]:
        subtype = getattr(form.cls, "subtype", None)
        for number, (name, part) in enumerate(form.body):
            where = f"{form.name}.{name}"
            taken = self._take(part, prefix + name, where, form)
            if part.when is not None:
                yield f"{prefix}{name} = None"
                yield f"if {prefix}{part.when[0]} in {_numbers(part.when[1])}:"
                taken = _indented(taken)
            yield from taken
            if number == 0 and subtype is not None:
                yield "c += 1"

    def _take(self, part: Part, name: str, where: str, form: Form) -> Iterator[str]:
        """Lines that take a value from the data."""
        match part:
            case Choice(by=by, cases=cases):
                prefix = name[: -len(where.rpartition(".")[2])]
                for number, (values, one) in enumerate(cases):
                    yield f"{'elif' if number else 'if'} {prefix}{by} in {_numbers(values)}:"
                    yield from _indented(self._take(one, name, where, form))
                yield f"else: raise unknown({where!r}, {prefix}{by})"
            case Many():
                yield from self._take_many(part, name, where, form)
            case Between():
                pass  # stands behind the count of its list
            case _:
                scalar = _scalar(part, name, where)
                yield f"{name}, c = take_{scalar.stored}(data, c, end, {where!r})"
                if scalar.moves:
                    yield f"{name} = {scalar.moves} = {scalar.taken}"
                elif scalar.taken != name:
                    yield f"{name} = {scalar.taken}"

    def _take_many(self, part: Many, name: str, where: str, form: Form) -> Iterator[str]:
        if part.flag:
            yield f"{name} = None"
            yield f"if {part.flag}:"
            yield from _indented(self._take_items(part, name, where, form))
        else:
            yield from self._take_items(part, name, where, form)

    def _take_items(self, part: Many, name: str, where: str, form: Form) -> Iterator[str]:
        yield f"{name} = []"
        yield "total = 0"
        if part.until_zero:
            yield "while True:"
            yield f"    first, after = take_uleb(data, c, end, {where!r})"
            yield "    if first == 0:"
            yield "        c = after"
            yield "        break"
        else:
            yield f"count, c = take_uleb(data, c, end, {where!r})"
            if part.between:
                yield f"{part.between}, c = take_uleb(data, c, end, {where!r})"
            yield f"if count > end - c: raise beyond({where!r}, count, end - c)"
            yield "for _ in range(count):"
        if isinstance(part.of, Part):
            yield from _indented(self._take(part.of, "one", where, form))
            yield f"    {name}.append(one)"
        else:
            inner = self._item(part)
            yield from _indented(self._fields(inner, "item_"))
            yield f"    {name}.append({self._made(inner, 'item_')})"
        yield f"{name} = tuple({name})"

    def _item(self, part: Many) -> Form:
        assert not isinstance(part.of, Part)
        inner = form_of(part.of, self.form.version)
        assert inner is not None
        self.classes[inner.name] = inner.cls
        return inner

    def encoder(self) -> Iterator[str]:
        yield "def encode(this, state):"
        lines = ["mask = state.mask", *(f"last_{name} = state.{name}" for name in self.running), "total = 0"]
        word = self.form.word
        if word is not None:
            lines += self._first_byte()
        else:
            lines.append("out = bytearray()")
        lines += self._put_fields(self.form, "this")
        lines += [f"state.{name} = last_{name}" for name in self.running]
        lines.append("return bytes(out)")
        yield from _indented(lines)

    def _first_byte(self) -> Iterator[str]:
        word = self.form.word
        assert word is not None
        terms = [f"{word.pattern('tag', 'const')[1]:#x}"]
        owned = {part.flag: name for name, part in self.form.parts if isinstance(part, Many)}
        for field in self.form.fields.values():
            if field.name in owned:
                yield f"{field.name} = this.{owned[field.name]} is not None"
            else:
                legal = [member.value for member in field.meaning] if field.meaning else list(range(field.mask + 1))
                yield f"{field.name} = this.{field.name}"
                yield f"if {field.name} not in {_numbers(tuple(legal))}:"
                yield f"    raise misfit({f'{self.form.name}.{field.name}'!r}, {field.name})"
            terms.append(f"{field.name} << {field.lo}")
        yield f"out = bytearray(({' | '.join(terms)}).to_bytes(1, 'little'))"

    def _put_fields(self, form: Form, owner: str) -> Iterator[str]:
        subtype = getattr(form.cls, "subtype", None)
        for name in form.absent:
            where = f"{form.name}.{name}"
            if clock := _clock(form, name):
                yield f"if {owner}.{name} != last_{clock}: raise untimed({where!r}, {form.version})"
            else:
                yield f"if {owner}.{name} is not None: raise absent({where!r}, {form.version})"
        for number, (name, part) in enumerate(form.body):
            where = f"{form.name}.{name}"
            put = self._put(part, f"{owner}.{name}", where, owner)
            if part.when is not None:
                asked = part.when[0] if part.when[0] in form.fields else f"{owner}.{part.when[0]}"
                yield f"if {asked} not in {_numbers(part.when[1])}:"
                yield f"    if {owner}.{name} is not None: raise unasked({where!r})"
                yield "else:"
                put = _indented(put)
            elif isinstance(part, Many) and part.flag:
                yield f"if {owner}.{name} is not None:"
                put = _indented(put)
            yield from put
            if number == 0 and subtype is not None:
                yield f"out.append({int(subtype)})"

    def _put(self, part: Part, value: str, where: str, owner: str) -> Iterator[str]:
        """Lines that append a value to `out`."""
        match part:
            case Choice(by=by, cases=cases):
                for number, (values, one) in enumerate(cases):
                    yield f"{'elif' if number else 'if'} {owner}.{by} in {_numbers(values)}:"
                    yield from _indented(self._put(one, value, where, owner))
                told = f"{where.rpartition('.')[0]}.{by}"
                yield f"else: raise misfit({told!r}, {owner}.{by})"
            case Many():
                yield from self._put_many(part, value, where)
            case Between():
                yield f"between = put_uleb({value}, {where!r})"
            case _:
                scalar = _scalar(part, value, where)
                yield f"out += put_{scalar.stored}({scalar.put}, {where!r})"
                if scalar.moves:
                    yield f"{scalar.moves} = {value}"

    def _put_many(self, part: Many, value: str, where: str) -> Iterator[str]:
        yield "total = 0"
        yield f"if type({value}) is not tuple: raise listless({where!r}, {value})"
        if not part.until_zero:
            yield f"out += put_uleb(len({value}), {where!r})"
        if part.between:
            yield "out += between"
        yield f"for one in {value}:"
        if isinstance(part.of, Part):
            yield from _indented(self._put(part.of, "one", where, "one"))
        else:
            inner = self._item(part)
            yield f"    if type(one) is not {inner.name}: raise listless({where!r}, one)"
            if part.until_zero:
                first = inner.body[0][0]
                yield f"    if one.{first} == 0: raise misfit({f'{inner.name}.{first}'!r}, 0)"
            yield from _indented(self._put_fields(inner, "one"))
        if part.until_zero:
            yield "out.append(0)"


def _numbers(values: tuple[int, ...]) -> str:
    return f"({', '.join(str(int(value)) for value in values)},)"


def _clock(form: Form, name: str) -> str:
    """The clock of a field, whatever the version; empty if it is no time."""
    return next((part.of for part in parts_of(form.cls)[name] if isinstance(part, Clock)), "")


def _running(form: Form) -> set[str]:
    """The names of all running values that a record moves on or tells."""
    found = {clock for name in form.absent if (clock := _clock(form, name))}
    for _, part in form.parts:
        if isinstance(part, Many):
            inner = part.of
            if not isinstance(inner, Part):
                below = form_of(inner, form.version)
                assert below is not None
                found |= _running(below)
                continue
            part = inner
        if isinstance(part, Clock | Running):
            found.add(part.of)
    return found
