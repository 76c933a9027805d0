"""Explanations for people: ranges against the decoder's values and messages, tables against the declarations."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import fxtio
from fxtio.codec import parts
from fxtio.codec.annotation import AnnotatedRecord, ByteRange
from fxtio.codec.describe import annotate
from fxtio.codec.docstrings import doc_of
from fxtio.codec.generate import Faults, Order, decode, encode
from fxtio.codec.pages import enumeration_markdown, layout_markdown
from fxtio.codec.parts import Part, Stream
from fxtio.codec.record import Opaque, Record, layout_of
from fxtio.codec.word import Word, bits, reserved
from fxtio.errors import DecodeError
from fxtio.fxt import describe_markdown
from fxtio.fxt import enums as e
from fxtio.fxt import records as r
from fxtio.fxt.explain import explain
from fxtio.fxt.records import (
    ARGUMENTS,
    RECORDS,
    Int32Argument,
    StringArgument,
    StringReference,
    Thread,
    ThreadReference,
)
from fxtio.report import counted, quoted
from oracle.fxt import build_record
from oracle.fxt_strategies import records as oracle_records

ORDERS: tuple[Order, ...] = ("little", "big")
VALID = {order: oracle_records(order) for order in ORDERS}
EVERY = (*RECORDS.classes, *ARGUMENTS.classes)


def words_of(data: bytes, order: Order) -> list[int]:
    return [int.from_bytes(data[at : at + 8], order) for at in range(0, len(data), 8)]


def ranges_of(data: bytes, order: Order = "little", **options: Any) -> list[ByteRange]:
    return annotate(RECORDS, words_of(data, order), data, 0, len(data) // 8, **options)


def decoded(data: bytes, order: Order) -> tuple[Any, Faults]:
    """Return the record and its faults; for a refused record, None and the reason as the last fault."""
    faults = Faults()
    try:
        record = decode(RECORDS, words_of(data, order), data, 0, len(data) // 8, faults)
    except DecodeError as error:
        return None, [*faults, (error.rule, error.message)]
    return record, faults


def faults_of(ranges: list[ByteRange]) -> list[str]:
    return [message for byte_range in ranges for message in byte_range.faults]


@st.composite
def any_record(draw: st.DrawFn) -> tuple[bytes, Order]:
    order = draw(st.sampled_from(ORDERS))
    return build_record(draw(VALID[order]), order), order


@st.composite
def damaged_record(draw: st.DrawFn) -> tuple[bytes, Order]:
    """Generate a record that was cut, lengthened, or had words overwritten."""
    data, order = draw(any_record())
    words = words_of(data, order)
    for _ in range(draw(st.integers(0, 2))):
        small = st.integers(0, 64) | st.integers(0, 2**64 - 1)
        words[draw(st.integers(0, len(words) - 1))] = draw(small)
    words = words[: draw(st.integers(1, len(words)))] + draw(st.lists(st.just(0), max_size=2))
    return b"".join(word.to_bytes(8, order) for word in words), order


# ---- annotate


@given(damaged_record() | any_record())
def test_ranges_cover_every_byte_once(case: tuple[bytes, Order]) -> None:
    data, order = case
    ranges = ranges_of(data, order)
    assert b"".join(byte_range.raw for byte_range in ranges) == data
    ends = [byte_range.offset + len(byte_range.raw) for byte_range in ranges]
    assert [byte_range.offset for byte_range in ranges] == [0, *ends[:-1]]


@given(damaged_record() | any_record())
def test_the_fields_of_a_header_make_up_its_word(case: tuple[bytes, Order]) -> None:
    data, order = case
    for byte_range in ranges_of(data, order):
        if byte_range.bits:
            parts = [item.value % 2**item.field.width * 2**item.field.lo for item in byte_range.bits]
            assert sum(parts) == int.from_bytes(byte_range.raw, order)
            assert sum(item.field.width for item in byte_range.bits) == 64


@given(damaged_record())
def test_ranges_have_the_messages_of_the_decoder(case: tuple[bytes, Order]) -> None:
    data, order = case
    ranges, (record, faults) = ranges_of(data, order), decoded(data, order)
    if "arg.size" in dict(faults):  # then arguments may be in words that are read as what follows them
        faults = [fault for fault in faults if fault[0] != "arg.short"]
    assert {message for _, message in faults} <= set(faults_of(ranges))
    if record is None:
        assert ranges[-1].fault == faults[-1][1]
    else:
        assert all(byte_range.label != "missing" for byte_range in ranges if "[" not in byte_range.label)


@given(any_record())
def test_a_valid_record_has_no_faults(case: tuple[bytes, Order]) -> None:
    data, order = case
    record, _ = decoded(data, order)
    assume(not isinstance(record, r.TraceInfo))  # the oracle lets words follow that nobody declared
    # The oracle's text is any bytes, and it takes definitions of slot 0.
    assert set(faults_of(ranges_of(data, order))) <= {"the text is not UTF-8", "must be at least 1"}


def shown(value: object) -> str:
    """Return the beginning of the text that a range shows for a value."""
    if isinstance(value, str):
        return quoted(value)
    return counted(len(value), "byte") if isinstance(value, bytes) else str(value)


@given(any_record())
def test_ranges_show_the_values_of_the_decoder(case: tuple[bytes, Order]) -> None:
    data, order = case
    record, _ = decoded(data, order)
    seen = set()
    for byte_range in ranges_of(data, order):
        path = re.findall(r"\w+|\[\d+\]", byte_range.label.partition(" ")[0])
        seen.add(path[0])
        owner, value = None, record
        for step in path:
            if step in ("header", "content", "unexplained") or isinstance(value, Opaque):
                break
            owner, value = value, value[int(step[1:-1])] if step[0] == "[" else getattr(value, step)
        else:
            text = f"{value:#x}" if isinstance(owner, tuple) else shown(value)
            assert byte_range.value.removeprefix("koid ").startswith(text) or byte_range.label == "payload size"
        for item in byte_range.bits:
            if hasattr(value, item.field.name) and path == ["header"]:
                given = getattr(value, item.field.name)
                assert isinstance(given, str | bytes | Thread | tuple) or given == item.value
    if isinstance(record, Record):
        present = {name for name, _ in layout_of(type(record)).body if getattr(record, name) not in ("", b"", (), None)}
        assert {name for name in present if not isinstance(getattr(record, name), int)} <= seen


EVENT = r.DurationComplete(
    timestamp=5, thread=3, category="io", name=7, args=(Int32Argument("n", -1), StringArgument(2, 0)), end=9
)


def test_an_event_word_by_word() -> None:
    def resolve(part: Part, slot: int) -> str | None:
        if isinstance(part, ThreadReference):
            return f"thread number {slot}"
        assert isinstance(part, StringReference)
        return {7: '"seven"'}.get(slot)

    ranges = ranges_of(encode(EVENT), resolve=resolve)
    assert [(byte_range.label, byte_range.value) for byte_range in ranges] == [
        ("header", "DurationComplete"),
        ("timestamp", "5"),
        ("category", '"io", padded by 6'),
        ("args[0].header", "Int32Argument"),
        ("args[0].name", '"n", padded by 7'),
        ("args[1].header", "StringArgument"),
        ("end", "9"),
    ]
    assert [(item.field.name, item.meaning, item.fault) for item in ranges[0].bits] == [
        ("type", "EVENT", ""),
        ("size", "words, 56 bytes", ""),
        ("event_type", "DURATION_COMPLETE", ""),
        ("arg_count", "number of arguments", ""),
        ("thread", "slot 3: thread number 3", ""),
        ("category", "inline, 2 bytes", ""),
        ("name", 'slot 7: "seven"', ""),
    ]
    argument = {item.field.name: item for item in ranges[3].bits}
    assert argument["value"].shown == "-1"
    text = {item.field.name: item for item in ranges[5].bits}
    assert (text["name"].meaning, text["name"].fault) == ("slot 2", "not defined before this record")
    assert text["value"].meaning == "the empty string"


def edited(record: Record, *, word: int = 0, value: int | None = None, flip: int = 0, more: int = 0) -> bytes:
    """Return a record's bytes with a word replaced, bits of it flipped, or words added."""
    words = words_of(encode(record), "little")
    words[word] = (words[word] if value is None else value) ^ flip
    return b"".join(number.to_bytes(8, "little") for number in [*words, *[0] * more])


SECTION = r.ProviderSection(provider_id=1)
MESSAGE = r.Log(timestamp=1, thread=1, message="hello")


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (edited(SECTION, flip=1 << 63), "must be zero"),
        (edited(SECTION, flip=3 << 4), "1 at hand"),
        (edited(SECTION, flip=1 << 4), "must be at least 1"),
        (edited(SECTION, more=1), "after the end of ProviderSection"),
        (edited(r.Magic(), flip=1 << 24), "must be 0x16547846"),
        (edited(r.Magic(), flip=1 << 24, more=1), "Magic: a constant field has another value"),
        (edited(MESSAGE, word=2, flip=1 << 63), "the padding is not zero"),
        (edited(MESSAGE, word=2, flip=0xFF), "the text is not UTF-8"),
        (edited(MESSAGE, flip=1 << 22), "Log.message: no room in the record for 69 bytes"),
        (encode(EVENT)[:8], "DurationComplete.timestamp: the record ends before it"),
        (edited(EVENT, word=3, value=0), "DurationComplete.args: argument 0 has size 0, 4 words are left"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_faults_are_reported(data: bytes, fault: str) -> None:
    assert fault in faults_of(ranges_of(data))


def test_fields_after_broken_arguments_are_located_from_the_end() -> None:
    ranges = ranges_of(edited(EVENT, word=5, value=0))
    assert [byte_range.label for byte_range in ranges[3:]] == ["args[0].header", "args[0].name", "unexplained", "end"]
    assert ranges[-1].value == "9"


@pytest.mark.parametrize(
    ("word", "fields"),
    [
        (0x2C, ["type", "size", "undeclared"]),
        (0x5_0020, ["type", "size", "subtype", "undeclared"]),
        (0xE000_0000_0000_0028, ["type", "size", "undeclared", "subtype"]),
        (0x10_0000_002F, ["type", "size", "subtype", "undeclared"]),
    ],
)
def test_the_header_of_an_unknown_record(word: int, fields: list[str]) -> None:
    header, content = ranges_of(word.to_bytes(8, "little") + bytes(8))
    assert [item.field.name for item in header.bits] == fields
    assert (header.value, content.label, faults_of([header, content])) == ("unknown", "content", [])


def test_no_bytes_have_no_ranges() -> None:
    assert annotate(RECORDS, [], b"", 0, 0) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain é", '"plain é"'),
        ('a "b" \\', '"a \\"b\\" \\\\"'),
        ("\x1b[31m\n", '"\\x1b[31m\\n"'),
        (b"\xff!".decode("utf-8", "surrogateescape"), '"\\xff!"'),
        ("\\udcff", '"\\\\udcff"'),
    ],
)
def test_text_is_quoted(text: str, expected: str) -> None:
    assert quoted(text) == expected


# ---- the documents


def test_the_records_use_every_part() -> None:
    """Tests of all records are tests of all parts, except `Rest`, which only uftrace uses."""
    classes = [*vars(parts).values(), *vars(r).values()]
    declared = {cls for cls in classes if isinstance(cls, type) and issubclass(cls, Part)}
    declared -= {Part, parts.Rest}
    assert declared == {type(part) for cls in EVERY for _, part in layout_of(cls).parts}


@pytest.mark.parametrize("cls", EVERY, ids=lambda cls: cls.__name__)
def test_a_layout_names_every_field_and_part(cls: type[Record]) -> None:
    text = layout_markdown(cls)
    rows = re.findall(r"^\| (\d+)(?: \.\. (\d+))? \|", text, re.MULTILINE)
    fields = [field for word in cls.words for field in word.fields.values()]
    assert [(int(lo), int(hi or lo)) for lo, hi in rows] == [(field.lo, field.hi) for field in fields]
    assert all(f"| `{field.name}` |" in text for field in fields if field.role != "reserved")
    assert re.findall(r"^1\. `(\w+)`:", text, re.MULTILINE) == [name for name, _ in layout_of(cls).body]
    assert text.startswith(f"### {doc_of(cls).spec}\n\n`{cls.__name__}`.")


def test_a_layout_in_words() -> None:
    text = layout_markdown(r.String, level=2)
    assert "| 4 .. 15 | `size` | 1 to 4095 | record size in words |" in text
    assert "| 31 |  | 0 | reserved, must be zero |" in text
    assert "| 0 .. 3 | `type` | 2 = STRING | see [RecordType](#recordtype) |" in text
    assert "1. `text`: `text_size` bytes of UTF-8 text, padded with zeros to whole words." in text
    assert "omitted unless the header field `thread` is 0" in layout_markdown(r.Log)
    assert "some producers leave out the thread koid" in layout_markdown(r.ProfilerMmap)
    assert "the tick at which the operation ended." in layout_markdown(r.DurationComplete)


def test_the_reference_is_complete() -> None:
    text = describe_markdown()
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    assert headings[0] == "Fuchsia trace format"
    assert len(headings) == len(set(headings)), "two sections have the same anchor"
    assert {title.lower() for title in re.findall(r"\]\(#(\w+)\)", text)} <= {title.lower() for title in headings}
    assert re.findall(r"^`(\w+)`\.", text, re.MULTILINE) == [cls.__name__ for cls in EVERY]
    assert "### Scope" in text


def test_an_enumeration_lists_its_values() -> None:
    text = enumeration_markdown(e.BlobType)
    assert text.startswith("### BlobType\n\nSpecification: Blob types.\n")
    assert text.endswith("| 1 | `DATA` |\n| 2 | `LAST_BRANCH` |\n| 3 | `PERFETTO` |\n")


def test_a_docstring_is_parsed() -> None:
    class Sample:
        """Something.  spec: Some record.  And more.

        Attributes:
            first: told
                on two lines.
            second: told.
        """

    doc = doc_of(Sample)
    assert (doc.text, doc.spec) == ("Something. And more.", "Some record")
    assert doc.attributes == {"first": "told on two lines.", "second": "told."}


class Nameless(Part):
    """A part without a description."""


class OddWord(Word):
    size: int = bits(4, 15)
    low: int = reserved(0, 3)
    high: int = reserved(16, 63)


class Odd(Record, frozen=True):
    words: ClassVar[tuple[type[Word], ...]] = (OddWord,)
    field: Annotated[int, Nameless()]


def test_an_unknown_part_is_refused() -> None:
    with pytest.raises(TypeError, match="Nameless cannot be described"):
        layout_markdown(Odd)


# ---- the records of a trace


def trace_of(*written: Record | Opaque, order: Order = "little") -> bytes:
    return b"".join(encode(record, order) for record in (r.Magic(), *written))


def annotated_records(data: bytes, **options: Any) -> list[AnnotatedRecord]:
    return list(explain(fxtio.open(data), **options))


def test_annotated_records_equal_the_records(corpus: Path) -> None:
    data = (corpus / "fxt" / "janestreet-demo.fxt").read_bytes()
    annotated = annotated_records(data)
    records = [(entry.offset, type(entry.record).__name__) for entry in fxtio.open(data).entries()]
    assert [(record.offset, record.name) for record in annotated] == records
    assert b"".join(byte_range.raw for record in annotated for byte_range in record.ranges) == data
    assert [record.number for record in annotated] == list(range(len(annotated)))
    assert [record.faults for record in annotated if record.faults] == []


def test_slots_have_their_meaning_at_the_record() -> None:
    begin = r.DurationBegin(timestamp=1, thread=1, category=0, name=1, args=())
    thread = r.ThreadRecord(1, process=10, thread=11)
    data = trace_of(r.String(1, "one"), begin, thread, r.String(1, "two"), begin)
    before, after = (record for record in annotated_records(data) if record.name == "DurationBegin")
    meanings = [{item.field.name: item for item in record.ranges[0].bits} for record in (before, after)]
    assert [fields["name"].meaning for fields in meanings] == ['slot 1: "one"', 'slot 1: "two"']
    assert [fields["thread"].meaning for fields in meanings] == ["slot 1", "slot 1: process 10, thread 11"]
    assert before.faults == ["not defined before this record"]
    assert before.findings == [], "a fault of a range is not reported twice"
    assert after.faults == []


def test_both_byte_orders_read_the_same() -> None:
    little, big = (annotated_records(trace_of(r.String(1, "a name"), EVENT, order=order)) for order in ORDERS)
    shown_parts = [
        [[(s.label, s.value, s.bits) for s in record.ranges] for record in annotated] for annotated in (little, big)
    ]
    assert shown_parts[0] == shown_parts[1]
    assert little[0].ranges[0].raw == big[0].ranges[0].raw[::-1]


def test_findings_of_the_reader_belong_to_the_record() -> None:
    (record,) = annotated_records(trace_of(r.Initialization(0), SECTION), record=1)[:1]
    assert [finding.rule for finding in record.findings] == ["fxt.clock.zero-rate"]


FIRST, LAST = trace_of(SECTION, SECTION), encode(SECTION) * 5


@pytest.mark.parametrize(
    ("gap", "name", "rules"),
    [
        (bytes(24), "no record", ["fxt.framing.zero-words"]),
        (b"\x09" + bytes(7), "no record, though it begins like Log", ["fxt.framing.zero-size"]),
        (b"\x49" + bytes(15), "no record, though it begins like Log", ["fxt.framing.truncated"]),
        (b"\x49" + bytes(10), "no record, though it begins like Log", ["fxt.framing.truncated"]),
        (b"\xf9\xff" + bytes(14), "no record, though it begins like Log", ["fxt.framing.size-beyond-end"]),
        (b"\xf9\xff" + bytes(14), "no record, though it begins like Log", ["fxt.framing.truncated"]),
    ],
)
def test_bytes_that_are_no_record_are_shown(gap: bytes, name: str, rules: list[str]) -> None:
    rest = b"" if rules[0] == "fxt.framing.truncated" else LAST
    annotated = annotated_records(FIRST + gap + rest)
    assert [(record.name, record.offset, record.size) for record in annotated if record.number is None] == [
        (name, len(FIRST), len(gap))
    ]
    assert [finding.rule for finding in annotated[3].findings] == rules
    assert [record.number for record in annotated[4:]] == list(range(3, 3 + len(rest) // 8))
    if annotated[3].ranges:
        assert annotated[3].ranges[0].raw == gap[:8]


def test_a_trace_that_begins_with_no_record() -> None:
    (record,) = explain(fxtio.open(encode(MESSAGE)[:-8], format="fxt"))
    assert (record.number, record.offset, record.size) == (None, 0, 16)
    assert "Log.message: no room in the record for 5 bytes" in record.faults


def test_where_to_begin() -> None:
    data = FIRST + bytes(16) + LAST
    gap = len(FIRST)
    assert annotated_records(data, offset=gap - 1)[0].number == 2
    assert annotated_records(data, offset=gap)[0].number is None
    assert annotated_records(data, offset=gap + 15)[0].number is None
    assert annotated_records(data, offset=gap + 16)[0].number == 3
    assert [annotated.number for annotated in annotated_records(data, record=2)][:3] == [2, None, 3]
    assert annotated_records(data, record=3)[0].number == 3
    assert annotated_records(data, record=99) == []
    assert annotated_records(data, offset=len(data)) == []
    kinds = frozenset({r.ProviderSection})
    assert [record.number for record in annotated_records(data, kinds=kinds)] == [*range(1, 8)]


def test_streams_keep_their_parts() -> None:
    """Padded text and data do not depend on the byte order of words."""
    module = r.ProfilerModule(module=1, timestamp=2, thread=Thread(3, None), name="libc.so.6", build_id=b"\1\2\3")
    assert isinstance(dict(layout_of(r.ProfilerModule).parts)["build_id"], Stream)
    for order in ORDERS:
        ranges = ranges_of(encode(module, order), order)
        assert [(byte_range.label, byte_range.value) for byte_range in ranges[1:]] == [
            ("timestamp", "2"),
            ("thread.process", "koid 3"),
            ("name", '"libc.so.6", padded by 7'),
            ("build_id", "3 bytes, padded by 5"),
        ]
