"""Hypothesis strategies for records, arguments and traces, derived from the declarations.

A strategy for a record walks the parts of its layout and draws a value for each.  Texts and byte strings are short, so
that any number of them fits in a record; all other values come from the whole range of their bits, often from its ends.
`records`, `arguments` and `traces` are of the Fuchsia trace format, `events` and `buffers` of the Mono log profiler.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from fxtio.codec.generate import Order, encode
from fxtio.codec.parts import Header, Many, Number, Part, Rest, Sized, Stream, Words
from fxtio.codec.record import Opaque, Record, TaggedUnion, layout_of
from fxtio.codec.stream import declare
from fxtio.codec.word import Field
from fxtio.fxt import records as r
from fxtio.fxt.enums import Scope
from fxtio.fxt.layout import StringRefWord
from fxtio.mono.headers import BufferHeader
from fxtio.mono.records import Event

Strategy = st.SearchStrategy[Any]

MAX_BYTES = 300
"""The longest text or byte string in bytes that is drawn."""

_FEW = 4  # the usual number of arguments or stack frames; sometimes it is the most that the header can count
_WORD = st.sampled_from([0, 1, 2**63 - 1, 2**63, 2**64 - 1]) | st.integers(0, 2**64 - 1)
_SIGNED = st.sampled_from([-(2**63), -1, 0, 2**63 - 1]) | st.integers(-(2**63), 2**63 - 1)
_NUMBERS = {"u": _WORD, "i": _SIGNED, "f": st.floats()}


def records(cls: type[Record] | None = None, *, resolved: bool = False, order: Order = "little") -> Strategy:
    """Return a strategy for records that the format can represent.

    Args:
        cls: the class; by default any class of the Fuchsia trace format.
        resolved: with strings and threads in place of slots, as a reader returns them.
        order: the byte order of the trace; it matters for arguments of unknown types, which are kept as bytes.
    """
    if cls is not None:
        return _records(cls, resolved, order)
    return st.one_of([_records(one_class, resolved, order) for one_class in r.RECORDS.classes])


def arguments(*, resolved: bool = False, order: Order = "little") -> Strategy:
    """Return a strategy for arguments of all types, unknown ones included, see `records`."""
    return _members(r.ARGUMENTS, resolved, order)


def unknown_records(*, order: Order = "little") -> Strategy:
    """Return a strategy for records of types that the specification does not define, as `Opaque`."""
    return _unknown(r.RECORDS, order)


def texts(most: int = MAX_BYTES) -> Strategy:
    """Return a strategy for text of at most that many bytes, with surrogate escapes for bytes that are not UTF-8."""
    most = min(most, MAX_BYTES)
    lengths = st.sampled_from([size for size in (0, 1, 7, 8, 9, 255, MAX_BYTES) if size <= most])
    return st.one_of(
        st.text(max_size=most // 4 if most < 64 else 16),
        st.binary(max_size=min(most, 24)).map(_text),
        lengths.map(lambda size: "x" * size),
    )


def encoded(trace: list[Any], order: Order = "little") -> bytes:
    """Return the bytes of a list of records."""
    return b"".join([encode(record, order) for record in trace])


@cache
@st.composite
def traces(draw: st.DrawFn, *, order: Order = "little", most: int = 16, odd: bool = True) -> list[Any]:
    """Draw whole traces without errors, as lists of records: references are to slots that are defined before.

    The records of several providers alternate, and slots are redefined.

    Args:
        draw: the function that hypothesis passes.
        order: the byte order.
        most: the largest number of records after the first one.
        odd: there may be records, arguments and values of unknown types, texts that are not UTF-8, and complete events
            that end before they begin, so that there are warnings.
    """
    classes = [cls for cls in r.RECORDS.classes if cls is not r.Magic and (odd or cls is not r.TraceInfo)]
    often: list[type[Record]] = [r.String, r.ThreadRecord, r.ProviderInfo, r.ProviderSection]
    unknown = [None] if odd else []
    kinds = draw(st.lists(st.sampled_from([*classes, *often, *unknown]), max_size=most))
    state = _State()
    trace: list[Any] = [r.Magic()]
    for cls in kinds:
        record = draw(unknown_records(order=order) if cls is None else records(cls, order=order))
        fitted = record if cls is None else state.fit(record)
        trace.append(fitted if odd else _without_oddities(fitted))
    return trace


def _without_oddities(record: Any) -> Any:
    """Return a record or an argument, changed where the specification does not define a value or an argument."""
    changes: dict[str, Any] = {}
    for name, part in layout_of(type(record)).parts:
        value = getattr(record, name)
        if isinstance(part, Header) and (names := [one.value for one in part.field.meaning or ()]):
            changes[name] = value if value in names else max(_one_of(names, value), part.field.least)
        elif isinstance(part, Many):
            changes[name] = tuple([_without_oddities(one) for one in value if not isinstance(one, Opaque)])
        elif isinstance(value, str):
            changes[name] = value.encode("utf-8", "replace").decode()
    if isinstance(record, r.DurationComplete):
        changes["end"] = max(record.timestamp, record.end)
    if isinstance(record, r.Instant) and record.scope is not None:
        changes["scope"] = record.scope % len(Scope)
    return record.replace(**changes)


class _State:
    """The slots that a trace has defined; changes records such that they refer to nothing else."""

    def __init__(self) -> None:
        self.strings: list[int] = []
        self.threads: list[int] = []
        self.providers: dict[int, tuple[list[int], list[int]]] = {}

    def fit(self, record: Any) -> Any:
        """Return the record, changed where it refers to a slot or a provider that is not defined."""
        if isinstance(record, r.ProviderSection):
            if not self.providers:
                record = r.ProviderInfo(record.provider_id, "")
            else:
                record = r.ProviderSection(_one_of(list(self.providers), record.provider_id))
                self.strings, self.threads = self.providers[record.provider_id]
        if isinstance(record, r.ProviderInfo):
            if self.providers:
                self.strings, self.threads = [], []
            self.providers[record.provider_id] = self.strings, self.threads
        if isinstance(record, r.Initialization) and record.ticks_per_second == 0:
            record = record.replace(ticks_per_second=1)
        if isinstance(record, r.String):
            self.strings.append(record.index)
        elif isinstance(record, r.ThreadRecord):
            self.threads.append(record.index)
        return self._refer(record)

    def _refer(self, record: Any) -> Any:
        if isinstance(record, Opaque):
            return record
        changes: dict[str, Any] = {}
        for name, part in layout_of(type(record)).parts:
            value = getattr(record, name)
            if isinstance(part, r.StringReference) and isinstance(value, int):
                changes[name] = _one_of([0, *self.strings], value)
            elif isinstance(part, r.ThreadReference) and isinstance(value, int):
                inline = r.Thread(value, None if part.process_only else value)
                changes[name] = _one_of(self.threads, value) if self.threads else inline
            elif isinstance(part, Many):
                changes[name] = tuple([self._refer(one) for one in value])
        return record.replace(**changes)


def _one_of(choices: list[int], value: int) -> int:
    return choices[value % len(choices)]


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


@cache
def _records(cls: type[Record], resolved: bool, order: Order) -> Strategy:
    """Return a strategy for records of a class."""
    layout = layout_of(cls)
    header = {field.name: field for _, field in layout.header_fields()}
    values = [_part(part, header, resolved, order) for _, part in layout.parts]
    optional = [isinstance(part, Number) and part.optional for _, part in layout.parts]

    def make(drawn: tuple[Any, ...]) -> Any:
        return cls(*_without_gaps(drawn, optional))

    return st.tuples(*values).map(make)


def _without_gaps(values: tuple[Any, ...], optional: list[bool]) -> list[Any]:
    """Return the values without an optional word whose predecessor is missing: the format cannot represent it."""
    result = list(values)
    for before, after in pairwise(range(len(result))):
        if optional[before] and optional[after] and result[before] is None:
            result[after] = None
    return result


def _part(part: Part, header: dict[str, Field], resolved: bool, order: Order) -> Strategy:
    """Return a strategy for the values of a part."""
    match part:
        case Header():
            return st.booleans() if part.boolean else _field(part.field)
        case Number():
            return st.none() | _WORD if part.optional else _NUMBERS[part.kind]
        case r.ThreadReference():
            return _threads(part, header[part.ref], resolved)
        case r.StringReference():
            index = StringRefWord.fields["index"]
            return texts(index.mask) if resolved else _field(index) | texts(index.mask)
        case Stream():
            most = min(header[part.size].mask, MAX_BYTES)
            return texts(most) if part.text else _binary(most)
        case Sized():
            return _binary(MAX_BYTES)
        case Rest():
            return st.none() | st.binary(max_size=24).map(lambda raw: raw[: len(raw) // 8 * 8])
        case Words():
            return _lists(_WORD, header[part.count].mask).map(tuple)
        case Many():
            return _lists(_members(part.union, resolved, order), header[part.count].mask).map(tuple)
    raise TypeError(f"no strategy for {type(part).__name__}")


def _field(field: Field) -> Strategy:
    least, most = field.limits
    values = st.sampled_from([least, most]) | st.integers(least, most)
    named = [member.value for member in field.meaning or () if least <= member.value <= most]
    return st.sampled_from(named) | values if named else values


def _threads(part: r.ThreadReference, ref: Field, resolved: bool) -> Strategy:
    forms: list[Strategy] = []
    if not part.process_only:
        forms.append(st.builds(r.Thread, _WORD, _WORD))
    if part.process_only or part.short_form:
        forms.append(st.builds(r.Thread, _WORD, st.none()))
    if not resolved:
        forms.append(st.sampled_from([1, ref.mask]) | st.integers(1, ref.mask))
    return st.one_of(forms)


def _binary(most: int) -> Strategy:
    lengths = st.sampled_from([size for size in (0, 1, 7, 8, 9, 255, most) if size <= most])
    return st.binary(max_size=24) | lengths.map(bytes)


def _lists(members: Strategy, most: int) -> Strategy:
    few = st.lists(members, max_size=min(most, _FEW))
    many = members.map(lambda member: [member] * most)
    return st.one_of(few, few, few, many)


@cache
def _members(union: TaggedUnion, resolved: bool, order: Order) -> Strategy:
    """Return a strategy for the records of a tagged union, and for records of unknown types in their place."""
    return st.one_of([*[_records(cls, resolved, order) for cls in union.classes], _unknown(union, order)])


@cache
def _unknown(union: TaggedUnion, order: Order) -> Strategy:
    """Return a strategy for records with a right size, but with tags that no class of the tagged union has."""
    words = st.lists(_WORD, max_size=3)

    def make(header: int, tags: tuple[int, int], rest: list[int]) -> Opaque:
        mask, value = tags
        size = union.sizes[union.type_of(value)]
        word = header & ~mask & ~(size.mask << size.lo) | value | size.put(1 + len(rest))
        return Opaque(b"".join([one.to_bytes(8, order) for one in (word, *rest)]))

    return st.builds(make, _WORD, st.sampled_from(list(_unknown_tags(union))), words)


def _unknown_tags(union: TaggedUnion) -> Iterator[tuple[int, int]]:
    """Yield the tags that select no class: a mask of their bits, and their value."""
    kind = union.base.fields["type"]
    for number, selector in enumerate(union.selectors):
        for value, member in enumerate(selector.table):
            if member < 0:
                yield kind.mask << kind.lo | selector.mask << selector.lo, kind.put(number) | value << selector.lo


# ---- records of bytes


def _stream_texts() -> Strategy:
    """Return texts without a zero byte, some of them not UTF-8."""
    return texts().map(lambda text: text.replace("\0", "")).filter(_is_encodable)


def _is_encodable(text: str) -> bool:
    """Return whether a text has no lone surrogates, and no escapes of bytes that together are UTF-8."""
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape") == text
    except UnicodeEncodeError:
        return False


@st.composite
def events(draw: st.DrawFn, cls: type[Event], dialect: declare.Dialect, *, time: int = 0) -> Any:
    """Draw an event of a class that a data version has.

    Args:
        draw: given by hypothesis.
        cls: the class; the version must have it.
        dialect: the data version.
        time: the last time of the buffer, for events that have none of their own.
    """
    layout = declare.layout_of(cls, dialect.version)
    assert layout is not None
    values = _drawn(draw, layout, (1 << dialect.width) - 1)
    for name in layout.absent:
        clock = any(isinstance(part, declare.Clock) for part in declare.parts_of(cls)[name])
        values[name] = time if clock else None
    return cls(**values)


def _drawn(draw: st.DrawFn, layout: declare.RecordLayout, mask: int) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, part in layout.parts:
        if part.when is not None:
            switch, with_part = part.when
            given = values[switch] if switch in values else draw(st.sampled_from([0, 1]))
            values.setdefault(switch, given)
            if given not in with_part:
                values[name] = None
                continue
        if isinstance(part, declare.FirstByteField):
            field = part.field
            legal = [member.value for member in field.meaning] if field.meaning else list(range(field.mask + 1))
            values[name] = draw(st.sampled_from(legal))
        elif isinstance(part, declare.Repeated):
            present = values.pop(part.flag) if part.flag in values else draw(st.booleans()) if part.flag else True
            values[name] = draw(_items(part, layout, mask)) if present else None
        elif isinstance(part, declare.Choice):
            values[name] = draw(_chosen(part, values[part.by], mask))
        else:
            values[name] = draw(_stream_values(part, mask))
            _fit_choice(draw, layout, name, values)
    return values


def _fit_choice(draw: st.DrawFn, layout: declare.RecordLayout, name: str, values: dict[str, Any]) -> None:
    """Draw numbers that other fields depend on again, mostly such that those fields are present."""
    for _, part in layout.parts:
        if isinstance(part, declare.Choice) and part.by == name:
            values[name] = draw(st.sampled_from([int(value) for cases, _ in part.cases for value in cases]))
        elif part.when is not None and part.when[0] == name and draw(st.booleans()):
            values[name] = int(part.when[1][0])


def _stream_values(part: declare.StreamPart, mask: int) -> Strategy:
    match part:
        case declare.Byte():
            return st.integers(0, 255)
        case declare.Uleb() | declare.Clock() | declare.Summed() | declare.AfterCount():
            return _WORD
        case declare.Sleb(pointer=False):
            return _SIGNED
        case declare.Relative(shift=shift):
            step = 1 << shift
            return (st.sampled_from([0, mask // step]) | st.integers(0, mask // step)).map(lambda units: units * step)
        case declare.Running() | declare.Sleb():
            return st.sampled_from([0, mask]) | st.integers(0, mask)
        case declare.Double():
            return st.floats(allow_nan=False)
        case declare.Text(marked=marked):
            return st.none() | _stream_texts() if marked else _stream_texts()
        case _:
            raise TypeError(f"{type(part).__name__} cannot be drawn")


def _chosen(part: declare.Choice, by: int, mask: int) -> Strategy:
    return next(_stream_values(case, mask) for values, case in part.cases if by in values)


@st.composite
def _items(draw: st.DrawFn, part: declare.Repeated, layout: declare.RecordLayout, mask: int) -> tuple[Any, ...]:
    count = draw(st.integers(0, _FEW))
    if isinstance(part.of, declare.StreamPart):
        return tuple(draw(_stream_values(part.of, mask)) for _ in range(count))
    inner = declare.layout_of(part.of, layout.version)
    assert inner is not None
    items: list[declare.Item] = []
    for _ in range(count):
        values = _drawn(draw, inner, mask)
        first = inner.body[0][0]
        if part.until_zero and values[first] == 0:
            values[first] = 1
        items.append(part.of(**values, **dict.fromkeys(inner.absent)))
    return tuple(items)


@st.composite
def buffers(draw: st.DrawFn, dialect: declare.Dialect, *, most: int = 8) -> tuple[BufferHeader, list[Event]]:
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
