"""The comparison of canonical records and timelines: what counts as equal, and what does not."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fxtio.conformance import timeline
from fxtio.conformance.canonical import MAX_DIFFERENCES, differences, differences_in_meaning
from fxtio.conformance.kit import READ, Case, read_kit
from fxtio.formats import BUILT_IN
from support.checkout import CHECKOUT

Json = dict[str, Any]

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)
KIT = CHECKOUT / "conformance"
FXT = sorted(str(path.relative_to(KIT / "cases").with_suffix("")) for path in KIT.glob("cases/fxt/*/*.json"))
"""The ids of the cases of FXT."""


@cache
def cases() -> dict[str, Case]:
    """Return the cases of the kit by id; the kit is not read before a test needs it."""
    return {case.id: case for case in read_kit(KIT).cases if case.operation == READ}


def letters(text: str) -> list[Json]:
    """Return a record for each letter; a capital letter stands for one that is optional."""
    return [{"type": letter.lower()} | ({"optional": True} if letter.isupper() else {}) for letter in text]


def instant(text: str, time: int, *, rate: int = 10**9, provider: str = "1", **more: Any) -> Json:
    times = {"timestamp": str(time), "rate": str(rate)}
    thread = {"slot": "1", "process": "1", "thread": "2"}
    names = {"category": {"slot": "0", "text": ""}, "name": {"text": text}, "arguments": []}
    return {"type": "instant", "provider": provider, **times, "thread": thread, **names, **more}


# ---------------------------------------------------------------------------------------------------- exact comparison


@pytest.mark.parametrize(
    ("expected", "actual"),
    [("", ""), ("ab", "ab"), ("aBc", "ac"), ("aBc", "abc"), ("Aa", "a"), ("AAa", "aa"), ("AB", "")],
)
def test_equal_records(expected: str, actual: str) -> None:
    assert differences(letters(expected), letters(actual)) == []


@pytest.mark.parametrize(
    ("expected", "actual", "message"),
    [
        ("a", "", "record 0 is missing"),
        ("", "a", "1 more than the 0 expected"),
        ("ab", "ba", 'record 0 (a): type is "b", expected "a"'),
        ("aBc", "adc", 'record 2 (c): type is "d", expected "c"'),
        ("aB", "abb", "1 more than the 2 expected"),
    ],
)
def test_other_records(expected: str, actual: str, message: str) -> None:
    assert message in "\n".join(differences(letters(expected), letters(actual)))


@pytest.mark.parametrize(
    ("expected", "actual", "message"),
    [
        ({"a": "1"}, {"a": 1}, 'a is 1, expected "1"'),
        ({"a": True}, {"a": 1}, "a is 1, expected true"),
        ({"a": "1"}, {}, "it has no 'a'"),
        ({}, {"a": "1"}, "it has 'a', which is not expected"),
        ({"a": [{"b": "1"}]}, {"a": [{"b": "2"}]}, 'a[0].b is "2", expected "1"'),
        ({"a": []}, {"a": ["1"]}, "a has 1 elements, expected 0"),
        ({"a": None}, {"a": "0"}, 'a is "0", expected null'),
    ],
)
def test_other_fields(expected: Json, actual: Json, message: str) -> None:
    assert message in differences([expected], [actual])[0]


def test_extensions_are_compared_if_both_sides_have_them() -> None:
    plain, one, two = ({"type": "a", **more} for more in ({}, {"extension": "1"}, {"extension": "2"}))
    assert differences([plain], [one]) == differences([one], [plain]) == []
    assert differences([one], [two]) != []


def test_optional_records_may_have_further_fields() -> None:
    assert differences([{"type": "a", "optional": True}], [{"type": "a", "b": "1"}]) == []
    assert differences([{"type": "a", "optional": True, "b": "2"}], [{"type": "a", "b": "1"}]) != []


def test_few_differences_are_described() -> None:
    result = differences(letters("a" * 100), letters("b" * 100))
    assert len(result) == MAX_DIFFERENCES
    assert max(map(len, differences([{"a": "x" * 10_000}], [{"a": "y" * 10_000}]))) < 400


@given(JSON | st.lists(JSON, max_size=4))
def test_any_json_can_be_compared(value: Any) -> None:
    records = value if isinstance(value, list) else [value]
    for expected in (letters("ab"), [instant("a", 1)]):
        assert isinstance(differences(expected, records), list)
        for name in ("fxt", "dcpi", "mono", "other"):
            assert isinstance(differences_in_meaning(name, expected, records), list)
    for name in ("fxt", "mono", "dcpi"):
        assert isinstance(timeline.differences(name, [instant("a", 1)], value), list)


# ------------------------------------------------------------------------------------------------------------- meaning


def same(one: list[Json], two: list[Json], name: str = "fxt") -> bool:
    return differences_in_meaning(name, one, two) == []


def test_how_something_is_stored_has_no_meaning() -> None:
    definitions: list[Json] = [
        {"type": "magic"},
        {"type": "string", "provider": "1", "index": "3", "value": {"text": "a"}},
    ]
    assert same([instant("a", 5)], [*definitions, instant("a", 5, name={"slot": "3", "text": "a"})])
    assert not same([instant("a", 5)], [instant("b", 5)])


def test_times_are_compared_as_seconds() -> None:
    assert same([instant("a", 5, rate=1000)], [instant("a", 5_000_000)])
    assert not same([instant("a", 5, rate=1000)], [instant("a", 5_000_001)])
    large = 2**64 - 1
    assert not same([instant("a", large)], [instant("a", large - 1)])


def test_the_order_counts_within_a_provider() -> None:
    one, two, other = instant("a", 1), instant("b", 2), instant("c", 3, provider="2")
    assert same([one, two, other], [other, one, two])
    assert not same([one, two], [two, one])
    named = {"type": "kernel-object", "provider": "1", "koid": "1"}
    assert same([named, one], [one, named])
    assert not same([named, named, one], [named, one])


def test_chunks_may_be_divided() -> None:
    def chunk(offset: int, *counts: int) -> Json:
        return {"type": "chunk", "offset": str(offset), "counts": [str(count) for count in counts]}

    assert same([chunk(0, 1, 0, 2)], [chunk(0, 1), chunk(8, 2)], "dcpi")
    assert not same([chunk(0, 1, 0, 2)], [chunk(0, 1), chunk(12, 2)], "dcpi")
    assert not same([chunk(0, 1)], [chunk(0, 2)], "dcpi")


def test_buffers_say_whose_events_are_theirs() -> None:
    def event(time: int, **more: str) -> Json:
        return {"type": "sync-point", "time": str(time), **more}

    def buffer(thread: int) -> Json:
        return {"type": "buffer", "thread_id": str(thread)}

    raw = [buffer(7), event(1), buffer(8), event(2), buffer(7), event(3)]
    assert same([event(1, thread_id="7"), event(3, thread_id="7"), event(2, thread_id="8")], raw, "mono")
    assert not same([event(3, thread_id="7"), event(1, thread_id="7"), event(2, thread_id="8")], raw, "mono")


def test_tasks_and_cpus_are_groups_of_their_own() -> None:
    def event(kind: str, **more: str) -> Json:
        return {"type": kind, "timestamp": "5", **more}

    call, kernel = event("entry", tid="1"), event("kernel-event", cpu="1")
    switch, other = event("perf-event", cpu="0", tid="1"), event("perf-event", cpu="0", tid="2")
    assert same([call, kernel, switch], [switch, kernel, call], "uftrace")
    assert not same([switch, other], [other, switch], "uftrace")
    assert differences_in_meaning("uftrace", [], [kernel])[0].startswith('cpu "1": ')


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_case_equals_itself_only(name: str) -> None:
    """Of the cases of a format, each equals itself, and no other with other records."""
    own = [case for case in cases().values() if case.format == name and case.is_valid]
    for case, other in zip(own, [*own[1:], own[0]], strict=True):
        assert differences(case.records, case.records) == []
        assert differences_in_meaning(name, case.records, case.records) == []
        if json.dumps(case.records) != json.dumps(other.records):
            assert differences(case.records, other.records) != []


# ----------------------------------------------------------------------------------------------------------- timelines


def test_timeline_of_slices() -> None:
    def event(kind: str, time: int, **more: Any) -> Json:
        return {**instant("a", time, rate=1000), "type": kind, **more}

    argument = {"type": "int32", "name": {"slot": "9", "text": "n"}, "value": "5"}
    records = [
        event("duration-begin", 5),
        event("duration-begin", 6, arguments=[argument]),
        event("instant", 6),
        event("duration-end", 8),
        event("duration-complete", 7, end_time="9"),
        {"type": "kernel-object", "object_type": "1", "koid": "10", "name": {"text": "p"}, "arguments": []},
    ]
    result = timeline.derive_fxt(records)
    assert [(item["begin"], item["end"]) for item in result["slices"]] == [
        ("5000000", None),
        ("6000000", "8000000"),
        ("7000000", "9000000"),
    ]
    assert result["slices"][1]["arguments"] == [{"name": {"text": "n"}, "value": "5"}]
    assert [item["time"] for item in result["instants"]] == ["6000000"]
    assert result["processes"] == [{"koid": "10", "name": {"text": "p"}}]
    assert timeline.differences("fxt", records, {"slices": [{}, {}, {}]}) == []
    assert timeline.differences("fxt", records, {"slices": [{}, {}]}) == ["slices: there are 2, expected 3"]
    wrong = timeline.differences("fxt", records, {"slices": [{"end": "1"}, {}, {}]})
    assert wrong == ['slices[0]: end is "1", expected null']


@pytest.mark.parametrize("name", FXT)
def test_every_case_has_a_timeline(name: str) -> None:
    case = cases()[name]
    certain = [record for record in case.records if not record.get("optional")]
    expected = timeline.derive_fxt(certain)
    assert timeline.differences("fxt", case.records, json.loads(json.dumps(expected))) == []
    for member, elements in expected.items():
        if elements:
            assert timeline.differences("fxt", certain, {member: elements[1:]}) != []


def test_timeline_of_uftrace() -> None:
    argument = {"name": "arg1", "type": "signed", "size": "4", "value": "-5"}
    records: list[Json] = [
        {"type": "event-name", "id": "1000000", "name": {"text": "a:b"}},
        {"type": "event-name", "id": "1000000", "name": {"text": "a:c"}},
        {"type": "entry", "tid": "1", "timestamp": "1", "function": {"text": "f"}, "arguments": [argument]},
        {"type": "event", "tid": "1", "timestamp": "2", "id": "1000000"},
        {"type": "event", "tid": "1", "timestamp": "2", "id": "100001"},
        {"type": "exit", "tid": "1", "timestamp": "3", "function": {"text": "f"}},
    ]
    calls: list[Json] = [{"type": "entry", "function": {"text": "f"}, "values": ["-5"]}, {"type": "exit", "values": []}]
    events: list[Json] = [{"name": {"text": "a:b"}}, {"name": None}]
    assert timeline.differences("uftrace", records, {"calls": calls, "event": events, "lost": []}) == []
    wrong = [calls[0] | {"values": ["5"]}, calls[1]]
    assert timeline.differences("uftrace", records, {"calls": wrong}) == ['calls[0]: values[0] is "5", expected "-5"']
    wrong = [calls[0] | {"function": None}, calls[1]]
    assert timeline.differences("uftrace", records, {"calls": wrong}) != []
    assert timeline.differences("uftrace", records, {"calls": calls[:1]}) == ["calls: there are 1, expected 2"]
    assert timeline.differences("uftrace", records, {"lost": [{}]}) == ["lost: there are 1, expected 0"]
    assert timeline.differences("uftrace", records, {"entry": [{"timestamp": "2"}]}) != []


def test_optional_elements_of_a_timeline() -> None:
    """Each of them may be missing, and have more than the case expects."""
    records: list[Json] = [
        {"type": "entry", "tid": "1", "optional": True},
        {"type": "entry", "tid": "2"},
        {"type": "entry", "tid": "3", "optional": True},
    ]
    for tids in ("123", "12", "23", "2"):
        calls = [{"tid": tid, **({"function": None} if tid == "1" else {})} for tid in tids]
        assert timeline.differences("uftrace", records, {"calls": calls}) == []
    for tids in ("", "13", "22", "1233"):
        assert timeline.differences("uftrace", records, {"calls": [{"tid": tid} for tid in tids]}) != []


def test_where_uftrace_functions_are_has_no_meaning() -> None:
    def call(address: int, time: int = 5, tid: int = 1) -> Json:
        return {"type": "entry", "tid": str(tid), "timestamp": str(time), "address": str(address)}

    def task(time: int) -> Json:
        return {"type": "task", "timestamp": str(time), "tid": "1", "pid": "1"}

    symbol = {"type": "symbol", "address": "16"}
    assert same([task(1), call(16)], [symbol, call(32), task(2)], "uftrace")
    assert not same([call(16)], [call(16, time=6)], "uftrace")
    assert same([call(1), call(2, tid=2)], [call(2, tid=2), call(1)], "uftrace")
    assert not same([call(1), call(2, time=6)], [call(2, time=6), call(1)], "uftrace")
