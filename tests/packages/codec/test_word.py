"""Words of bit fields: what a declaration must be, and that one declaration serves ints and arrays alike."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fxtio.codec.record import Record, TaggedUnion, layout_of
from fxtio.codec.word import Field, Word, bits, const, reserved, tag
from fxtio.errors import EncodeError, FxtioError, LayoutError


class Color(IntEnum):
    RED = 1
    BLUE = 3


class Sample(Word):
    """All kinds of fields."""

    kind: Color = tag(0, 3, Color.BLUE)
    size: int = bits(4, 15, least=1)
    shade: Color = bits(16, 23)
    level: int = bits(24, 39, signed=True)
    fixed: int = const(40, 43, 0xA)
    rest: int = bits(44, 59)
    unused: int = reserved(60, 63)


class Whole(Word):
    """A word with one field of 64 bits."""

    value_: int = bits(0, 63)


class Small(Word, width=8):
    """A byte."""

    low: int = bits(0, 2)
    high: int = bits(3, 7, signed=True)


class Part(Word, partial=True):
    """The fields that the words of a union share."""

    kind: int = tag(0, 3)
    size: int = bits(4, 15)


class PartOne(Part):
    """The remaining fields of a member of the union, and its tag."""

    kind: int = tag(0, 3, 9)
    more: int = bits(16, 63)


# A word is built of ints or arrays, whatever its annotations say; checkers need not follow.
sample: Any = Sample
GOOD = {"size": 1, "shade": 2, "level": -3, "rest": 4}
FIELDS = [(word, field) for word in (Sample, Whole, Small, PartOne) for field in word.fields.values()]


# --- Declarations ---------------------------------------------------------------------------------------------------


def declare(width: int = 64, partial: bool = False, **fields: Any) -> type[Word]:
    annotations = dict.fromkeys(fields, int)
    metaclass: Any = type(Word)
    word: type[Word] = metaclass(
        "Made", (Word,), {"__annotations__": annotations, **fields}, width=width, partial=partial
    )
    return word


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"a": bits(0, 31), "b": bits(31, 63)}, "Made.b [31..63]: overlaps the field before it"),
        ({"a": bits(0, 63), "b": bits(5, 9)}, "Made.b [5..9]: overlaps the field before it"),
        ({"a": bits(0, 30), "b": bits(32, 63)}, "Made.b [32..63]: bits 31..31 are not declared; say reserved(...)"),
        ({"a": bits(1, 63)}, "Made.a [1..63]: bits 0..0 are not declared; say reserved(...)"),
        ({"a": bits(0, 62)}, "Made: bits 63..63 are not declared; say reserved(...)"),
        ({}, "Made: bits 0..63 are not declared"),
        ({"a": bits(0, 64)}, "Made.a [0..64]: not a range of the bits 0..63"),
        ({"a": bits(5, 4)}, "Made.a [5..4]: not a range"),
        ({"a": const(0, 3, 16), "b": bits(4, 63)}, "Made.a [0..3]: the constant 16 does not fit"),
        ({"a": const(0, 3, -1), "b": bits(4, 63)}, "Made.a [0..3]: the constant -1 does not fit"),
        ({"a": tag(0, 3, 99), "b": bits(4, 63)}, "Made.a [0..3]: the constant 99 does not fit"),
    ],
)
def test_wrong_declarations_are_refused(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(LayoutError) as caught:
        declare(**fields)
    assert sentence in str(caught.value)
    assert isinstance(caught.value, FxtioError)


def test_the_order_of_a_declaration_does_not_matter() -> None:
    word = declare(high=bits(8, 63), low=bits(0, 7))
    assert list(word.fields) == ["low", "high"]


def test_a_partial_word_may_have_gaps_but_no_overlaps() -> None:
    assert declare(partial=True, a=bits(5, 9)).fields["a"].width == 5
    with pytest.raises(LayoutError, match="overlaps"):
        declare(partial=True, a=bits(5, 9), b=bits(9, 12))


def test_a_partial_word_can_be_read_but_not_built() -> None:
    part: Any = Part
    word = part.read(0x57)
    assert (word.kind, word.size) == (7, 5)
    with pytest.raises(LayoutError, match="Part is partial"):
        part(size=1)


def test_tags_are_pinned_in_a_copy() -> None:
    original: Any = PartOne
    two = original.of("Two", kind=2)
    assert int(two(size=1, more=0)) == 0x12
    assert int(original(size=1, more=0)) == 0x19
    assert two.__name__ == "Two"
    assert PartOne.of(kind=1).__name__ == "PartOne"
    with pytest.raises(LayoutError, match="PartOne has no field color"):
        PartOne.of(color=1)
    with pytest.raises(LayoutError, match="the constant 16 does not fit"):
        PartOne.of(kind=16)


def test_class_attributes_are_the_declared_fields() -> None:
    field: Any = Sample.level
    assert isinstance(field, Field)
    assert (field.lo, field.hi, field.width, field.mask, field.limits) == (24, 39, 16, 0xFFFF, (-32768, 32767))
    assert Sample.fields["shade"].meaning is Color
    assert Sample.fields["size"].limits == (1, 4095)


# --- Values ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("word", "field"), FIELDS, ids=lambda item: getattr(item, "name", item.__class__.__name__))
def test_the_ends_of_every_field(word: type[Word], field: Field) -> None:
    least, most = field.limits
    for value in (least, most):
        placed = field.put(value)
        assert placed & ~(field.mask << field.lo) == 0
        assert field.get(placed) == value
        assert int(field.get(np.array([placed], np.uint64))[0]) == value
        assert int(field.put(np.array([value]))[0]) == placed
        assert eval(field.expression("w"), {"w": placed}) == value
    for value in (least - 1, most + 1):
        with pytest.raises(EncodeError, match=f"bits {field.lo}..{field.hi}") as caught:
            field.put(value, "Owner")
        assert caught.value.field == f"Owner.{field.name}"
        assert repr(value) in str(caught.value)


@given(st.integers(0, 2**64 - 1))
def test_ints_arrays_and_generated_source_agree(word: int) -> None:
    array = np.array([word, word ^ 2**64 - 1], np.uint64)
    for owner in (Sample, Whole, PartOne):
        for field in owner.fields.values():
            value = field.get(word)
            assert int(field.get(array)[0]) == value
            if field.role == "bits":
                assert eval(field.expression("w"), {"w": word}) == value


@given(
    size=st.integers(1, 4095), shade=st.integers(0, 255), level=st.integers(-32768, 32767), rest=st.integers(0, 65535)
)
def test_a_built_word_reads_back(size: int, shade: int, level: int, rest: int) -> None:
    built: Any = sample(size=size, shade=shade, level=level, rest=rest)
    assert (built.size, built.shade, built.level, built.rest) == (size, shade, level, rest)
    assert (built.kind, built.fixed, built.unused) == (Color.BLUE, 0xA, 0)
    reread = Sample.read(int(built))
    assert reread == built
    assert hash(reread) == hash(built)
    many: Any = sample(size=np.array([size] * 2), shade=shade, level=np.array([level] * 2), rest=rest)
    assert many.value.dtype == np.uint64
    assert many.value.tolist() == [int(built)] * 2
    assert many.level.tolist() == [level] * 2


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"size": 0}, "Sample.size: 0 does not fit in bits 4..15 (1 to 4095)"),
        ({"size": 4096}, "Sample.size: 4096 does not fit in bits 4..15 (1 to 4095)"),
        ({"level": 32768}, "Sample.level: 32768 does not fit in bits 24..39 (-32768 to 32767)"),
        ({"rest": -1}, "Sample.rest: -1 does not fit in bits 44..59 (0 to 65535)"),
        ({"rest": np.array([1, 70000, 2])}, "Sample.rest: 70000 does not fit in bits 44..59"),
        ({"rest": np.array([1, -5])}, "Sample.rest: -5 does not fit in bits 44..59"),
        ({"color": 1}, "Sample.color: no such field"),
        ({"kind": 1}, "Sample.kind: no such field"),
    ],
)
def test_values_that_do_not_fit_are_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(EncodeError) as caught:
        sample(**GOOD | changes)
    assert sentence in str(caught.value)


def test_every_field_needs_a_value() -> None:
    with pytest.raises(EncodeError, match=r"Sample\.rest: no value given"):
        sample(size=1, shade=2, level=3)


def test_a_word_shows_its_fields() -> None:
    assert repr(sample(**GOOD)) == "Sample(size=1, shade=2, level=-3, rest=4)"
    assert sample(**GOOD) != Whole.read(int(sample(**GOOD)))


def test_patterns() -> None:
    assert Sample.pattern("tag") == (0xF, 3)
    assert Sample.pattern("const", "reserved") == (0xF << 40 | 0xF << 60, 0xA << 40)
    assert Small.pattern("tag") == (0, 0)


# --- Records and families -------------------------------------------------------------------------------------------


def test_wrong_record_declarations_are_refused() -> None:
    class NoWord(Record, frozen=True):
        value: int

    class NoPlace(Record, frozen=True):
        words = (PartOne,)
        more: int
        other: int

    class NobodyFills(Record, frozen=True):
        words = (PartOne,)

    wrong: list[tuple[type[Record], str]] = [
        (NoWord, "NoWord has no header word"),
        (NoPlace, "NoPlace.other has no part, and no header field has its name"),
        (NobodyFills, "NobodyFills: nothing fills the header field more"),
    ]
    for cls, sentence in wrong:
        with pytest.raises(LayoutError, match=sentence):
            layout_of(cls)


def test_two_records_cannot_share_their_tags() -> None:
    class Base(Word, partial=True):
        type: int = tag(0, 3)
        size: int = bits(4, 15)

    class Tagged(Base):
        type: int = tag(0, 3, 1)
        sub: int = tag(16, 19, 2)
        more: int = bits(20, 63)

    class A(Record, frozen=True):
        words = (Tagged,)
        more: int

    class B(Record, frozen=True):
        words = (Tagged,)
        more: int

    with pytest.raises(LayoutError, match="B and another record share their tags"):
        TaggedUnion(Base, [A, B])
    union = TaggedUnion(Base, [A])
    assert [union.kind_of(word) for word in (0x2_0011, 0x3_0011, 0x2_0012)] == [0, -1, -1]
    assert union.size_of(0x51) == 5
