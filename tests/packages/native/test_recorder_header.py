"""The generated header of the recorder in C agrees with the declarations."""

from __future__ import annotations

import re
from typing import Any

import pytest

from fxtio.errors import LayoutError
from fxtio.fxt import layout as w
from fxtio.fxt.enums import EventType
from fxtio.fxt.numbers import constants_text, header_word, unit
from fxtio.tracer.backend import KINDS, ReturnKind
from fxtio.tracer.header import header_text
from support.checkout import PACKAGE, run_python

HEADER = PACKAGE / "_native" / "recorder" / "layout.h"


def constants(text: str) -> dict[str, int]:
    """Return the constants of a header, and the members of its enumerations."""
    defined = re.findall(r"^#define (\w+) (?:UINT64_C\()?(\w+)\)?$", text, re.MULTILINE)
    result = {name: int(value, 0) for name, value in defined}
    for members in re.findall(r"^enum \w+ \{([^}]*)\}", text, re.MULTILINE):
        result |= {name: number for number, name in enumerate(re.findall(r"\w+", members))}
    return result


def event_word(event_type: EventType, **fields: Any) -> int:
    """Return the header word of an event."""
    return int(w.EventWord.of(event_type=event_type)(**fields))


def test_the_committed_header_is_the_generated_one() -> None:
    message = "run `python -m fxtio.tracer.header > fxtio/_native/recorder/layout.h`"
    assert HEADER.read_text(encoding="ascii") == header_text(), message


def test_the_committed_constants_are_the_generated_ones() -> None:
    message = "run `python -m fxtio.fxt.numbers > fxtio/fxt/constants.py`"
    assert (PACKAGE / "fxt" / "constants.py").read_text(encoding="ascii") == constants_text(), message


def test_the_module_prints_the_header() -> None:
    assert run_python("-m", "fxtio.tracer.header").stdout == header_text()


def test_headers_are_sums_of_units() -> None:
    values = constants(header_text())
    word = event_word(EventType.DURATION_BEGIN, size=2, arg_count=3, thread=4, category=5, name=6)
    events = dict(re.findall(r"\[(EVENT_\w+)\] = UINT64_C\((\w+)\)", header_text()))
    total = int(events["EVENT_BEGIN"], 0) + 2 * values["SIZE_UNIT"] + 3 * values["EVENT_ARGUMENTS_UNIT"]
    total += 4 * values["EVENT_THREAD_UNIT"] + 5 * values["EVENT_CATEGORY_UNIT"] + 6 * values["EVENT_NAME_UNIT"]
    assert total == word


def test_enumerations_are_those_of_python() -> None:
    values = constants(header_text())
    assert {kind: values[f"EVENT_{kind.upper()}"] for kind in KINDS} == KINDS
    assert [values[f"RETURNS_{kind.name}"] for kind in ReturnKind] == list(ReturnKind)
    assert values["RETURN_KINDS"] == len(ReturnKind)
    assert values["EVENT_KINDS"] == len(KINDS)


def test_limits_are_those_of_the_fields() -> None:
    values = constants(header_text())
    assert values["MAX_ARGUMENTS"] == w.EventWord.fields["arg_count"].mask == 15
    assert values["MAX_RECORD_WORDS"] * values["SIZE_UNIT"] == w.RecordWord.fields["size"].mask << 4
    assert values["MAX_STRING_SLOT"] == 32_767
    assert values["MAX_THREAD_SLOT"] == 255
    assert values["MAX_TEXT_BYTES"] == 32_000


def test_a_field_in_two_places_is_refused() -> None:
    assert unit("thread", w.EventWord) == 1 << w.EventWord.fields["thread"].lo
    with pytest.raises(LayoutError, match="thread is in different places: EventWord, LogWord"):
        unit("thread", w.EventWord, w.LogWord)


def test_a_header_word_has_the_fixed_fields_only() -> None:
    smallest = event_word(EventType.FLOW_END, size=1, arg_count=0, thread=0, category=0, name=0)
    assert header_word(w.EventWord.of(event_type=EventType.FLOW_END)) == smallest - unit("size", w.RecordWord)
