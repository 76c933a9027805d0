"""Canonical JSON of traces, as `conformance/CANONICAL.md` describes it: read and written with fxtio, and compared."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

from fxtio.errors import EncodeError, FormatError, FxtioError
from fxtio.formats import BUILT_IN, Format, by_name


class UnsupportedError(FxtioError):
    """An error: there is no canonical JSON of a format, or fxtio cannot do what a scenario asks for."""


def formats() -> tuple[str, ...]:
    """Return the names of the formats that have canonical JSON."""
    return tuple(BUILT_IN)


def _format(name: Any) -> Format:
    try:
        return by_name(name)
    except FormatError:
        raise UnsupportedError(f"there is no canonical JSON of the format {name!r}") from None


def read(target: Any, format: str) -> dict[str, Any]:
    """Read a trace.

    Args:
        target: what to read, see `fxtio.open`.
        format: the name of its format.

    Returns:
        An object with the canonical records.

    Raises:
        UnsupportedError: there is no canonical JSON of the format.
        FxtioError: it is not a trace.
        OSError: it cannot be read.
    """
    found = _format(format)
    with found.open(target) as trace:
        return {"format": format, "records": found.canonical.records(trace)}


def write(scenario: Any, path: Path) -> None:
    """Write the trace that a scenario asks for.

    Raises:
        UnsupportedError: there is no canonical JSON of the format.
        EncodeError: the format cannot express it.
        FxtioError: it is not a scenario.
        OSError: the trace cannot be written.
    """
    try:
        name, records = scenario["format"], scenario["write"]
        _format(name).canonical.write(records, path)
    except EncodeError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FxtioError(f"the scenario is not in canonical form: {error!r}") from error


# ---- comparison, exactly or by meaning; what a harness returned may be any JSON, so nothing here relies on its form

JsonRecord: TypeAlias = Mapping[str, Any]

MAX_DIFFERENCES = 10
"""The greatest number of differences that are described."""

_MAX_SHOWN = 120
_INTEGER = re.compile(r"-?[0-9]{1,20}")


@dataclass(frozen=True)
class Meaning:
    """The rules by which the meaning of the records of a format follows from their raw form.

    Attributes:
        dropped_types: types of records that only define or select something.
        dropped_keys: keys that say how something is stored.
        unordered_types: types of records that may be anywhere.
        groups: keys whose value, that of the first one that is there, is the group of a record, each with the name of
            such groups; the order of records matters within a group only.
        times: keys that are times, in units of a second divided by the value of the key `rate`.
        rates: keys that are rates, which a writer may choose.
        owner: a type of records whose value of the first of these keys holds for the records after it, up to the next
            one.
        divided: returns the records that a record is compared as, for records that a writer may divide or join.
    """

    dropped_types: frozenset[str] = frozenset()
    dropped_keys: frozenset[str] = frozenset()
    unordered_types: frozenset[str] = frozenset()
    groups: Mapping[str, str] = field(default_factory=dict)
    times: frozenset[str] = frozenset()
    rates: frozenset[str] = frozenset()
    owner: str = ""
    divided: Callable[[JsonRecord], list[JsonRecord]] = lambda record: [record]


def _samples(record: JsonRecord) -> list[JsonRecord]:
    """Return the counts of a chunk that are not 0, each with its address."""
    offset, counts = record.get("offset"), record.get("counts")
    if record.get("type") != "chunk" or not isinstance(counts, list) or not _is_integer(offset):
        return [record]
    first = int(str(offset))
    return [
        {"type": "samples", "offset": str(first + 4 * number), "count": count}
        for number, count in enumerate(counts)
        if count != "0"
    ]


def _without_start(record: JsonRecord) -> list[JsonRecord]:
    """Return a session or a task without its time, which a writer may choose before its first record."""
    if record.get("type") not in ("session", "task"):
        return [record]
    return [{key: value for key, value in record.items() if key != "timestamp"}]


MEANINGS: dict[str, Meaning] = {
    "fxt": Meaning(
        dropped_types=frozenset({"magic", "string", "thread", "provider-section"}),
        dropped_keys=frozenset({"slot", "inline", "index"}),
        unordered_types=frozenset({"provider-info", "initialization", "kernel-object"}),
        groups={"provider": "provider", "provider_id": "provider"},
        times=frozenset({"timestamp", "end_time"}),
        rates=frozenset({"ticks_per_second", "rate"}),
    ),
    "dcpi": Meaning(divided=_samples),
    "uftrace": Meaning(
        dropped_types=frozenset({"info", "info-line", "mapping", "symbol", "kernel-format"}),
        dropped_keys=frozenset({"address", "sid", "base", "size", "module"}),
        unordered_types=frozenset({"session", "task", "fork", "dlopen", "event-name"}),
        groups={"cpu": "cpu", "tid": "tid"},
        divided=_without_start,
    ),
    "mono": Meaning(dropped_types=frozenset({"buffer"}), groups={"thread_id": "thread"}, owner="buffer"),
}
"""The rules by the name of the format; formats without tables have none, so their records are compared exactly."""

OPTIONAL = "optional"
"""The key of expected records that a reader may leave out, and that may have further keys."""

_EXTENSION = "extension"
"""The key that is compared only if both sides have it."""


def differences(expected: Sequence[JsonRecord], actual: Sequence[Any]) -> list[str]:
    """Compare records exactly, one after another.

    Args:
        expected: the canonical records of a case.
        actual: what a testee returned.

    Returns:
        The first differences, described for people; empty if there are none.
    """
    if matches(expected, actual, first_difference):
        return []
    result: list[str] = []
    place = 0
    for number, record in enumerate(expected):
        if place < len(actual) and first_difference(record, actual[place]) is None:
            place += 1
            continue
        if record.get(OPTIONAL):
            continue
        if place == len(actual):
            result.append(f"record {number} is missing: {_shown(record)}")
        else:
            result.append(f"record {number} ({record.get('type')}): {first_difference(record, actual[place])}")
            place += 1
        if len(result) == MAX_DIFFERENCES:
            return result
    if place < len(actual):
        result.append(f"{len(actual) - place:,} more than the {len(expected):,} expected: {_shown(actual[place])}")
    return result


def differences_in_meaning(format: str, expected: Sequence[JsonRecord], actual: Sequence[Any]) -> list[str]:
    """Compare the meaning of records of a format, raw or resolved.

    Returns:
        The first differences, described for people; empty if there are none.
    """
    meaning = MEANINGS.get(format, Meaning())
    expected_groups, actual_groups = _groups(meaning, expected), _groups(meaning, actual)
    result = []
    for group in dict.fromkeys([*expected_groups, *actual_groups]):
        prefix = f"{' '.join(group)}: " if group else ""
        problems = differences(expected_groups.get(group, []), actual_groups.get(group, []))
        result += [prefix + text for text in problems]
    return result[:MAX_DIFFERENCES]


def matches(
    expected: Sequence[JsonRecord], actual: Sequence[Any], difference: Callable[[JsonRecord, Any], str | None]
) -> bool:
    """Return whether records are equal one by one, where optional ones may be missing.

    Args:
        expected: the canonical records of a case, or elements of a timeline.
        actual: what a testee returned.
        difference: returns the first difference of two of them, or None.
    """
    places = {0}
    for record in expected:
        following = {place + 1 for place in places if place < len(actual) and difference(record, actual[place]) is None}
        places = following | places if record.get(OPTIONAL) else following
        if not places:
            return False
    return len(actual) in places


def first_difference(expected: Any, actual: Any, path: str = "") -> str | None:
    """Return the first difference of two values, or None if they are equal."""
    name = path or "it"
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        for key, value in expected.items():
            if key == OPTIONAL:
                continue
            if key not in actual:
                if key == _EXTENSION:
                    continue
                return f"{name} has no {key!r}, expected {_shown(value)}"
            problem = first_difference(value, actual[key], f"{path}.{key}" if path else key)
            if problem is not None:
                return problem
        extra = next((key for key in actual if key not in expected and key != _EXTENSION), None)
        return (
            None
            if extra is None or expected.get(OPTIONAL)
            else f"{name} has {extra!r}, which is not expected: {_shown(actual[extra])}"
        )
    if isinstance(expected, list) and isinstance(actual, list):
        for number, (value, other) in enumerate(zip(expected, actual, strict=False)):
            problem = first_difference(value, other, f"{path}[{number}]")
            if problem is not None:
                return problem
        if len(expected) != len(actual):
            return f"{name} has {len(actual):,} elements, expected {len(expected):,}"
        return None
    if type(expected) is type(actual) and expected == actual:
        return None
    return f"{name} is {_shown(actual)}, expected {_shown(expected)}"


def _groups(meaning: Meaning, records: Sequence[Any]) -> dict[tuple[str, ...], list[Any]]:
    """Return the meanings of records by group; those that may be anywhere are sorted in a group of their own."""
    ordered: dict[tuple[str, ...], list[Any]] = defaultdict(list)
    unordered: dict[tuple[str, ...], list[Any]] = defaultdict(list)
    owner: Any = None
    owned = next(iter(meaning.groups), "")
    for record in records:
        if not isinstance(record, Mapping):
            ordered[()].append(record)
            continue
        kind = record.get("type")
        if meaning.owner and kind == meaning.owner:
            owner = record.get(owned)
        if kind in meaning.dropped_types:
            continue
        if owner is not None and owned not in record:
            record = {**record, owned: owner}
        divided = meaning.divided(_resolved(meaning, record))
        groups = ((name, _shown(record[key], sort=True)) for key, name in meaning.groups.items() if key in record)
        group = next(groups, ())
        if kind in meaning.unordered_types:
            unordered[*group, str(kind)] += divided
        else:
            ordered[group] += divided
    for items in unordered.values():
        items.sort(key=_sort_key)
    return {**unordered, **ordered}


def _sort_key(record: Mapping[str, Any]) -> str:
    return _shown({key: value for key, value in record.items() if key != _EXTENSION}, _MAX_SHOWN**2, sort=True)


def _resolved(meaning: Meaning, value: Any) -> Any:
    """Return what a value means: without what says how it is stored, and with times in nanoseconds."""
    if isinstance(value, list):
        return [_resolved(meaning, item) for item in value]
    if not isinstance(value, Mapping):
        return value
    rate = value.get("rate")
    return {
        key: _nanoseconds(item, rate) if key in meaning.times else _resolved(meaning, item)
        for key, item in value.items()
        if key not in meaning.dropped_keys and key not in meaning.rates
    }


def _is_integer(value: Any) -> bool:
    return isinstance(value, str) and _INTEGER.fullmatch(value) is not None


def _nanoseconds(time: Any, rate: Any) -> Any:
    """Return a time as nanoseconds or a fraction of them, in text; what is no time stays as it is."""
    if _is_integer(time) and _is_integer(rate):
        ticks, per_second = int(time), int(rate)
        if per_second > 0:
            return f"{Fraction(ticks * 10**9, per_second)} ns"
    return time


def _shown(value: Any, limit: int = _MAX_SHOWN, *, sort: bool = False) -> str:
    """Return a value as JSON, cut to a length that a line can have, its keys in their order or sorted."""
    try:
        text = json.dumps(value, ensure_ascii=False, sort_keys=sort)
    except (ValueError, RecursionError, TypeError):
        text = "a value that is nested too deeply"
    return text if len(text) <= limit else f"{text[:limit]}..."
