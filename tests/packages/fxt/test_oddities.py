"""What is odd about records that can be read is found, by every way to read, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fxtio import _native
from fxtio._native import python as stand_in
from fxtio.codec.generate import Order, encode
from fxtio.codec.record import Opaque, Record, layout_of
from fxtio.codec.word import Field
from fxtio.fxt import FxtTrace
from fxtio.fxt import records as rec
from fxtio.fxt.records import ARGUMENTS, RECORDS, Thread
from fxtio.testing import strategies
from fxtio.testing.strategies import encoded
from support.fxt_hostile import damaged, damaged_traces
from support.fxt_readings import faults_of_the_codec, in_batches, rules
from support.fxt_samples import CLASSES, for_classes, for_orders, minimal, share

INEXACT = {
    "fxt.arg.bool-bit",
    "fxt.bits.reserved",
    "fxt.bits.padding",
    "fxt.framing.record-long",
    "fxt.arg.long",
    "fxt.text.too-long",
    "fxt.string.zero",
    "fxt.thread.zero",
}
"""The rules of records that are not encoded to the same bytes."""

OTHERS = {
    "fxt.event.end-before-start",
    "fxt.event.scope",
    "fxt.framing.unknown-record",
    "fxt.framing.unknown-trace-info",
    "fxt.arg.unknown",
    "fxt.bits.unknown-value",
    "fxt.text.not-utf8",
}
ERRORS = {
    "fxt.framing.record-short",
    "fxt.framing.stream-over-record",
    "fxt.framing.magic-value",
    "fxt.arg.size",
    "fxt.arg.short",
}
HEAD = [rec.Magic(), rec.ProviderInfo(1, "p"), rec.String(1, "text"), rec.ThreadRecord(1, 2, 3)]
KERNELS = ("walk", "gather", "walk_many")


@pytest.fixture(autouse=True, scope="module")
def _codec() -> Iterator[None]:
    """Compare what the codec notices; the contract of rules tests how its faults are told apart."""
    with faults_of_the_codec():
        yield


def found(data: bytes, read: Callable[[FxtTrace], object]) -> dict[str, int]:
    trace = FxtTrace(data)
    read(trace)
    return {rule: count for rule, count in rules(trace.findings).items() if rule in INEXACT | OTHERS | ERRORS}


def every_way(data: bytes) -> dict[str, int]:
    """Return what is found, the same as records, raw records and tables, with and without the C kernels."""
    ways: list[Callable[[FxtTrace], object]] = [
        list,
        lambda trace: list(trace.records(resolve=False)),
        lambda trace: trace.tables(*trace.table_names),
    ]
    results = [found(data, read) for read in ways]
    if _native.IMPLEMENTATION == "c":
        with pytest.MonkeyPatch.context() as patch:
            for name in KERNELS:
                patch.setattr(_native, name, getattr(stand_in, name))
            results += [found(data, read) for read in ways]
    assert results == results[:1] * len(results)
    return results[0]


def is_exact(data: bytes) -> bool:
    """Return whether the last record but one is read as it is, and not as `Opaque`."""
    return not isinstance(list(FxtTrace(data).records(resolve=False))[-2], Opaque)


def alone(record: bytes, order: Order = "little") -> bytes:
    """Return a trace with a record between good ones."""
    return encoded(HEAD, order) + record + encoded([rec.Instant(5, Thread(1, 2), "", "", ())], order)


@pytest.mark.full
@for_orders
@for_classes(RECORDS.classes)
@given(data=st.data())
@share(8)
def test_a_damaged_record_is_exact_or_found(cls: type[Record], order: Order, data: st.DataObject) -> None:
    raw = data.draw(damaged(cls, order))
    trace = alone(raw, order)
    counts = every_way(trace)
    first = int.from_bytes(raw[:8], order)
    is_filler = cls is rec.String and rec.String.words[0].fields["index"].get(first) == 0
    is_filler = is_filler and rec.String.words[0].fields["text_size"].get(first) == 0
    if not is_filler:
        assert bool(counts.keys() & (INEXACT | ERRORS)) == (not is_exact(trace)), counts


@pytest.mark.full
@for_orders
@given(data=st.data(), words=st.integers(1, 64))
def test_all_ways_find_the_same(order: Order, data: st.DataObject, words: int) -> None:
    trace = data.draw(damaged_traces(order, framed=True))
    whole = every_way(trace)
    with in_batches(words):
        assert every_way(trace) == whole


@pytest.mark.full
@for_orders
@given(data=st.data())
def test_right_traces_are_not_odd(order: Order, data: st.DataObject) -> None:
    records = data.draw(strategies.traces(order=order, odd=False))
    assert every_way(encoded(records, order)) == {}


@pytest.mark.full
@given(strategies.traces())
def test_what_a_strategy_calls_odd(records: list[Any]) -> None:
    assert every_way(encoded(records)).keys() <= OTHERS


# ---- each kind, by declaration


def reserved(cls: type[Record]) -> list[tuple[int, Field]]:
    return [
        (number, field)
        for number, word in enumerate(cls.words)
        for field in word.fields.values()
        if field.role == "reserved"
    ]


def with_word(cls: type[Record], number: int, value: int) -> bytes:
    """Return a trace with the smallest record of a class, in which some bits of a header word are set."""
    values = {name: 1 for name in ("index", "blob_type") if name in cls.__struct_fields__}
    raw = bytearray(encode(minimal(cls, **values)))
    word = int.from_bytes(raw[8 * number : 8 * number + 8], "little") | value
    raw[8 * number : 8 * number + 8] = word.to_bytes(8, "little")
    if cls not in ARGUMENTS.classes:
        return alone(bytes(raw))
    event = encode(rec.Instant(1, 1, 0, 0, (Opaque(bytes(raw)),)))
    return alone(event)


@pytest.mark.parametrize(
    ("cls", "number", "bit"),
    [(cls, number, bit) for cls in CLASSES for number, field in reserved(cls) for bit in {field.lo, field.hi}],
    ids=lambda each: each.__name__ if isinstance(each, type) else str(each),
)
def test_every_reserved_bit(cls: type[Record], number: int, bit: int) -> None:
    rule = "fxt.arg.bool-bit" if cls is rec.BoolArgument else "fxt.bits.reserved"
    assert every_way(with_word(cls, number, 1 << bit)) == {rule: 1}


@pytest.mark.parametrize(
    ("cls", "name"),
    [(cls, field.name) for cls in CLASSES for _, field in layout_of(cls).header_fields() if field.meaning],
    ids=lambda each: each.__name__ if isinstance(each, type) else each,
)
def test_every_value_without_a_name(cls: type[Record], name: str) -> None:
    field = cls.words[0].fields[name]
    assert field.meaning is not None
    known = [one.value for one in field.meaning if one >= field.least]
    unknown = {*range(field.least, field.mask + 1)} - {*known}
    right, wrong = (
        b"".join(encode(minimal(cls, **{name: value})) for value in values) for values in (known, sorted(unknown))
    )
    assert every_way(alone(right)) == {}
    # The only type of trace info with a name is that of the magic number, which is another record.
    rule = "fxt.framing.unknown-trace-info" if cls is rec.TraceInfo else "fxt.bits.unknown-value"
    assert every_way(alone(wrong)) == ({rule: len(unknown)} if unknown else {})


@for_orders
def test_scopes_without_a_meaning(order: Order) -> None:
    def instants(*scopes: int | None) -> bytes:
        return encoded([*HEAD, *(rec.Instant(1, 1, 0, 0, (), scope) for scope in scopes)], order)

    assert every_way(instants(None, 0, 1, 2)) == {}
    assert every_way(instants(3, 0, None, 2**64 - 1)) == {"fxt.event.scope": 2}


TEXTS: dict[str, tuple[Any, int]] = {
    "string": (rec.String(2, "a\udcff"), 1),
    "name": (rec.Instant(1, 1, "", "\udc80", ()), 1),
    "category and name": (rec.Instant(1, 1, "\udcc3", "text \udced\udca0\udc80", ()), 2),
    "argument": (rec.Instant(1, 1, 0, 0, (rec.StringArgument("\udcff", "\udcff"), rec.NullArgument("\udcff"))), 3),
    "log": (rec.Log(1, 1, "x" * 100 + "\udcff"), 1),
    "module": (rec.ProfilerModule(1, 1, 1, "\udcff", b"\xff"), 1),
    "userspace object": (rec.UserspaceObject(1, 1, "\udcff", ()), 1),
    "kernel object": (rec.KernelObject(1, 1, "\udcff", ()), 0),
    "argument of a kernel object": (rec.KernelObject(1, 1, "\udcff", (rec.NullArgument("\udcff"),)), 1),
    "other languages": (rec.Log(1, 1, "é漢字😀 \x7f\0"), 0),
    "blobs": (rec.Blob("ä", 1, b"\xff"), 0),
    "large blob": (rec.LargeBlobNoMetadata("ä", "\udcff", b"\xff"), 1),
}
"""Records with texts, and how many of these are a finding."""


@for_orders
@pytest.mark.parametrize("kind", TEXTS)
def test_texts_that_are_not_utf8(kind: str, order: Order) -> None:
    record, expected = TEXTS[kind]
    assert every_way(encoded([*HEAD, record], order)) == ({"fxt.text.not-utf8": expected} if expected else {})
    more = [*HEAD, rec.Log(1, 1, "before"), record, rec.Log(1, 1, "after"), record, rec.Log(1, 1, "ü")]
    assert every_way(encoded(more, order)) == ({"fxt.text.not-utf8": 2 * expected} if expected else {})


def test_padding_and_lengths_of_arguments() -> None:
    def event(*raw: bytes) -> bytes:
        return alone(encode(rec.Instant(1, 1, 0, 0, tuple(map(Opaque, raw)))))

    text = encode(rec.StringArgument("name", "value"))
    blob = encode(rec.BlobArgument(0, b"1"))
    assert every_way(event(text, blob)) == {}
    assert every_way(event(text[:-1] + b"x", blob)) == {"fxt.bits.padding": 1}
    assert every_way(event(text, blob[:-1] + b"x", blob[:-1] + b"x")) == {"fxt.bits.padding": 2}
    longer = blob[:0] + (int.from_bytes(blob[:8], "little") + 16).to_bytes(8, "little") + blob[8:] + bytes(8)
    assert every_way(event(text, longer)) == {"fxt.arg.long": 1}


@pytest.mark.parametrize("size", [32_000, 32_001])
def test_texts_at_the_limit(size: int) -> None:
    raw = encode(rec.String(1, "x" * 32_000)) + bytes(8)
    text_size = rec.String.words[0].fields["text_size"]
    header = rec.String.words[0](size=len(raw) // 8, index=1, text_size=size).value
    assert text_size.get(header) == size
    data = alone(header.to_bytes(8, "little") + raw[8:])
    expected = {"fxt.framing.record-long": 1} if size == 32_000 else {"fxt.text.too-long": 1}
    assert every_way(data) == expected


@pytest.mark.parametrize(
    ("end", "rule"), [(10, {}), (9, {"fxt.event.end-before-start": 1}), (0, {"fxt.event.end-before-start": 1})]
)
def test_the_end_of_a_complete_event(end: int, rule: dict[str, int]) -> None:
    assert every_way(alone(encode(rec.DurationComplete(10, 1, 0, 0, (), end)))) == rule


def test_filler_is_not_odd() -> None:
    """The tracer fills the unused parts of a file with records that every reader ignores."""
    header = (2 | 3 << 4).to_bytes(8, "little")
    assert every_way(alone(header + bytes(range(16)))) == {}
    text = (2 | 3 << 4 | 9 << 32).to_bytes(8, "little")
    assert every_way(alone(text + b"ignored!!" + bytes(7))) == {"fxt.string.zero": 1}


@pytest.mark.parametrize(("name", "expected"), [
    ("ocaml-trace-second.fxt", {"fxt.bits.padding": 1, "fxt.framing.record-long": 1}),
    ("ftr-counter-malformed.fxt", {"fxt.arg.size": 3}),
])  # fmt: skip
def test_odd_files_of_other_producers(name: str, expected: dict[str, int], corpus: Path) -> None:
    assert every_way((corpus / "fxt" / name).read_bytes()) == expected


def test_other_files_of_other_producers_are_not_odd(corpus: Path) -> None:
    odd = {"ocaml-trace-second.fxt", "ftr-counter-malformed.fxt"}
    paths = [path for path in (corpus / "fxt").glob("*.fxt") if path.name not in odd]
    assert len(paths) > 5
    for path in paths:
        assert found(path.read_bytes(), list) == {}, path.name
