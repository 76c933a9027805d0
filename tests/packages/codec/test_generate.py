"""The scalar codec that is generated from the declarations: there and back, both byte orders, and what it refuses.

Every test runs for every record and argument class.  What a field can hold is taken from its declaration, and both
sides of its limits are tried; that the declarations are right is for `test_against_oracle` and `test_vectors`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fxtio.codec.generate import Order, codec_of, decode, encode
from fxtio.codec.parts import Header, Many, Number, Part, Sized, Stream, Words
from fxtio.codec.record import Opaque, Record, layout_of
from fxtio.errors import DecodeError, EncodeError
from fxtio.fxt.layout import MAX_TEXT_BYTES
from fxtio.fxt.records import (
    ARGUMENTS,
    RECORDS,
    Blob,
    Initialization,
    Instant,
    Log,
    NullArgument,
    ProviderInfo,
    String,
    StringReference,
    Thread,
    ThreadReference,
    TraceInfo,
)
from fxtio.testing import strategies
from support.fxt_absurd import absurd
from support.fxt_samples import CLASSES, LARGE_CLASSES, ORDERS, for_classes, for_orders, minimal, share, union_of
from support.fxt_twins import native, plain, scalar

WORD = 2**64


def round_trip(record: Any, order: Order = "little") -> Any:
    """Encode the record and decode the result."""
    return scalar(encode(record, order), order, union=union_of(type(record)))


# --- There and back -------------------------------------------------------------------------------------------------


@for_orders
@for_classes()
@share(4)
@given(data=st.data())
def test_every_record_comes_back(cls: type[Record], order: Order, data: st.DataObject) -> None:
    record = data.draw(strategies.records(cls, order=order))
    encoded = encode(record, order)
    faults: list[tuple[str, str]] = []
    decoded = scalar(encoded, order, faults, union_of(cls))
    assert plain(decoded) == plain(record)
    assert faults == []
    assert encode(decoded, order) == encoded


@for_classes()
@share(10)
@given(data=st.data())
def test_resolved_records_come_back(cls: type[Record], data: st.DataObject) -> None:
    record = data.draw(strategies.records(cls, resolved=True))
    assert plain(round_trip(record)) == plain(record)
    for name, part in layout_of(cls).parts:
        if isinstance(part, StringReference | ThreadReference):
            assert not isinstance(getattr(record, name), int)


@for_classes()
@share(10)
@given(data=st.data())
def test_size_and_padding(cls: type[Record], data: st.DataObject) -> None:
    record = data.draw(strategies.records(cls))
    encoded = encode(record)
    assert len(encoded) % 8 == 0
    assert union_of(cls).size_of(int.from_bytes(encoded[:8], "little")) * 8 == len(encoded)
    assert union_of(cls).classes[union_of(cls).kind_of(int.from_bytes(encoded[:8], "little"))] is cls


@given(data=st.data())
def test_big_endian_swaps_words_but_not_text(data: st.DataObject) -> None:
    record = data.draw(strategies.records(String))
    little, big = encode(record, "little"), encode(record, "big")
    assert native(little[:8], "little") == native(big[:8], "big")
    assert little[8:] == big[8:]


@for_orders
@share(2)
@given(data=st.data())
def test_unknown_records_stay_bytes(order: Order, data: st.DataObject) -> None:
    record = data.draw(strategies.unknown_records(order=order))
    assert scalar(record.raw, order) == record
    assert encode(record, order) == record.raw


def test_there_is_a_strategy_for_every_class() -> None:
    assert {type(minimal(cls)) for cls in CLASSES} == set(CLASSES)
    assert len(RECORDS.classes) == 31
    assert len(ARGUMENTS.classes) == 11


@for_classes()
def test_generated_source_can_be_read(cls: type[Record]) -> None:
    source = codec_of(cls).source
    compile(source, cls.__name__, "exec")
    assert source.startswith("def decode(words, data, at, stop, faults):")
    assert "\ndef encode(this, order='little', join=b''.join):" in source


# --- Limits of every field ------------------------------------------------------------------------------------------


def good_values(part: Part, header: dict[str, Any]) -> list[Any]:
    """Return the limits of the values of a part."""
    if isinstance(part, Header):
        return [False, True] if part.boolean else [*part.field.limits]
    if isinstance(part, Number):
        ends: dict[str, list[Any]] = {
            "u": [0, WORD - 1],
            "i": [-(WORD // 2), WORD // 2 - 1],
            "f": [-0.0, float("inf"), float("nan"), 5e-324],
        }
        return [*ends[part.kind], *([None] if part.optional else [])]
    if isinstance(part, ThreadReference):
        slots = [1, header[part.ref].mask]
        lone = [Thread(0, None), Thread(WORD - 1, None)] if part.process_only or part.short_form else []
        return [*slots, *lone, *([] if part.process_only else [Thread(0, 0), Thread(WORD - 1, WORD - 1)])]
    if isinstance(part, StringReference):
        return [0, 1, 0x7FFF, "", "x", "a" * 8, "\U0001f600", "\udcff", "x" * MAX_TEXT_BYTES]
    if isinstance(part, Stream):
        most = min(header[part.size].mask, MAX_TEXT_BYTES)
        return ["", "x" * 7, "x" * 8, "x" * most] if part.text else [b"", bytes(7), bytes(8), b"\xff" * most]
    if isinstance(part, Sized):
        return [b"", b"\xff" * 7, bytes(8), bytes(100_001)]
    if isinstance(part, Words):
        return [(), (0,), (WORD - 1,) * header[part.count].mask]
    assert isinstance(part, Many)
    return [(), (NullArgument(0),), tuple([minimal(cls) for cls in part.union.classes]), (NullArgument("x"),) * 15]


def bad_values(part: Part, header: dict[str, Any]) -> list[Any]:
    """Return values just outside of the limits of a part."""
    if isinstance(part, Header):
        least, most = part.field.limits
        return [least - 1, most + 1, None, "text", 1.5]
    if isinstance(part, Number):
        ends: dict[str, list[Any]] = {
            "u": [-1, WORD, 1.5, "1"],
            "i": [-(WORD // 2) - 1, WORD // 2, 1.5],
            "f": ["1.5", 10**400],
        }
        return [*ends[part.kind], *([] if part.optional else [None])]
    if isinstance(part, ThreadReference):
        wrong = [Thread(1, 2)] if part.process_only else [] if part.short_form else [Thread(1, None)]
        outside = [0, -1, header[part.ref].mask + 1, Thread(-1, 1), Thread(WORD, 1), Thread(1, WORD), "main", None]
        return [*wrong, *outside]
    if isinstance(part, StringReference):
        return [-1, 0x8000, "x" * (MAX_TEXT_BYTES + 1), "\ud800", "\udfff", None, b"bytes", 1.5, True]
    if isinstance(part, Stream):
        most = header[part.size].mask
        long = "x" * (min(most, MAX_TEXT_BYTES) + 1)
        return [long, "\ud800", "\udc00"] if part.text else [bytes(most + 1)]
    if isinstance(part, Sized):
        return []
    if isinstance(part, Words):
        return [(0,) * (header[part.count].mask + 1), (-1,), (WORD,), (None,)]
    assert isinstance(part, Many)
    wrong_size = Opaque(bytes.fromhex("2f000000 00000000"))
    return [(NullArgument(0),) * 16, (None,), (minimal(String),), (wrong_size,), (Opaque(b""),), (Opaque(b"1234"),)]


Values = Callable[[Part, dict[str, Any]], list[Any]]


def cases(values: Values) -> Iterator[Any]:
    for cls in CLASSES:
        layout = layout_of(cls)
        header = {field.name: field for _, field in layout.header_fields()}
        for name, part in layout.parts:
            if samples := values(part, header):
                yield pytest.param(cls, name, samples, id=f"{cls.__name__}.{name}")


@pytest.mark.parametrize(("cls", "name", "values"), [*cases(good_values)])
def test_both_ends_of_every_field_come_back(cls: type[Record], name: str, values: list[Any]) -> None:
    for value in values:
        record = minimal(cls, **{name: value})
        if name == "wall_clock" and value is not None:
            record = record.replace(base_ticks=0)
        for order in ORDERS:
            assert plain(round_trip(record, order)) == plain(record)


@pytest.mark.parametrize(("cls", "name", "values"), [*cases(bad_values)])
def test_values_that_do_not_fit_a_field_are_refused(cls: type[Record], name: str, values: list[Any]) -> None:
    for value in values:
        record = minimal(cls, **{name: value})
        with pytest.raises(EncodeError) as caught:
            encode(record)
        assert caught.value.field.startswith(f"{cls.__name__}."), value
        assert str(caught.value).startswith(caught.value.field)


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        (minimal(ProviderInfo, provider_id=1 << 32), "provider_id: 4294967296 does not fit in bits 20..51 (0 to 4"),
        (minimal(String, index=32768), "String.index: 32768 does not fit in bits 16..30"),
        (minimal(Instant, args=(NullArgument(0),) * 16), "Instant.arg_count: 16 does not fit in bits 20..23 (0 to 15)"),
        (minimal(Instant, thread=-1), "Instant.thread: -1 does not fit in bits 24..31 (0 to 255)"),
        (minimal(Instant, thread=0), "Instant.thread: slot 0 means inline; give a Thread"),
        (minimal(Instant, timestamp=-1), "Instant.timestamp: -1 is not an unsigned 64-bit integer"),
        (minimal(Instant, name=-1), "Instant.name: -1 is neither text nor an index from 0 to 32767"),
        (minimal(Log, message="x" * 32_001), "Log.message: 32,001 bytes of text are over the limit of 32,000"),
        (minimal(Log, message="\ud800"), "Log.message: holds a lone surrogate, which no text has"),
        (minimal(Blob, payload=bytes(32_760)), "Blob.size: 4,096 words are over the limit of 4,095"),
        (minimal(Initialization, wall_clock=1), "Initialization.base_ticks: absent, but a later optional field is"),
        (Opaque(b"1234567"), "record: raw bytes must be whole words, not 7 bytes"),
    ],
)  # fmt: skip
def test_a_refusal_names_field_value_and_bits(record: Any, sentence: str) -> None:
    with pytest.raises(EncodeError, match=re.escape(sentence)):
        encode(record)


@for_classes()
def test_any_value_in_any_field_is_encoded_or_refused(cls: type[Record]) -> None:
    """No other error is raised, and what is accepted is decoded again without a fault."""
    for name in cls.__struct_fields__:
        for label, value in absurd().items():
            record = minimal(cls, **{name: value})
            try:
                data = encode(record)
            except EncodeError:
                continue
            except Exception as error:
                error.add_note(f"{name} is {label}")
                raise
            faults: list[tuple[str, str]] = []
            words = native(data, "little")
            assert type(decode(union_of(cls), words, data, 0, len(words), faults)) is cls
            assert not faults


@pytest.mark.parametrize("value", [5, "text", None, object(), int, Record, Instant])
def test_something_else_than_a_record_is_refused(value: Any) -> None:
    with pytest.raises(EncodeError, match="is not a record"):
        encode(value)


def test_trace_info_cannot_pass_for_the_magic_number() -> None:
    with pytest.raises(EncodeError, match=r"TraceInfo\.info_type: 0 does not fit in bits 20..23"):
        encode(TraceInfo(info_type=0, data=5))


def test_a_record_of_4095_words_is_the_largest() -> None:
    largest = minimal(Log, message="x" * 31_000)
    assert plain(round_trip(largest)) == plain(largest)
    text, blob = "x" * 16_000, bytes(16_752)
    record = Blob(text, 1, blob)
    assert len(encode(record)) == 4095 * 8
    assert round_trip(record) == record
    with pytest.raises(EncodeError, match=r"Blob\.size: 4,096 words are over"):
        encode(Blob(text, 1, bytes(16_753)))


@for_classes(tuple(LARGE_CLASSES))
def test_large_records_are_larger(cls: type[Record]) -> None:
    record = minimal(cls, payload=bytes(300_001))
    assert round_trip(record) == record


# --- What decoding refuses ------------------------------------------------------------------------------------------


@for_classes()
@share(10)
@given(data=st.data())
def test_a_record_cut_short_is_refused_or_has_faults(cls: type[Record], data: st.DataObject) -> None:
    """The size field is smaller than the content. The decoder must not read beyond the last word."""
    record = data.draw(strategies.records(cls))
    encoded = encode(record)
    stop = data.draw(st.integers(1, len(encoded) // 8))
    faults: list[tuple[str, str]] = []
    words = native(encoded, "little")
    cut, refusal = None, None
    try:
        cut = codec_of(cls).decode(words[:stop], encoded[: stop * 8], 0, stop, faults)
    except DecodeError as error:
        refusal = error
    if refusal:
        assert refusal.rule in {"framing.record-short", "framing.stream-over-record", "arg.size"}
        assert cls.__name__ in str(refusal)
        return
    seen: list[tuple[str, str]] = []
    assert plain(codec_of(cls).decode(words, encoded, 0, stop, seen)) == plain(cut)
    assert seen == faults
    short_forms = {"ProfilerModule", "ProfilerMmap", "ProfilerBacktrace", "Initialization", "Instant"}
    assert stop * 8 == len(encoded) or faults or cls.__name__ in short_forms


@for_orders
@given(words=st.lists(st.integers(0, WORD - 1), min_size=1, max_size=12), data=st.data())
def test_arbitrary_words_give_a_record_or_a_decode_error(order: Order, words: list[int], data: st.DataObject) -> None:
    cls = data.draw(st.sampled_from(RECORDS.classes))
    mask, tags = cls.words[0].pattern("tag", "const")
    words[0] = words[0] & ~mask | tags
    raw = b"".join([word.to_bytes(8, order) for word in words])
    faults: list[tuple[str, str]] = []
    record = scalar(raw, order, faults)
    assert record is None or type(record) is cls
    assert {rule for rule, _ in faults} <= {"arg.size", "arg.short"}
