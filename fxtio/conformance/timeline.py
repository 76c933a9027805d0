"""Timelines: the meaning of canonical records for readers that build a model and do not keep records.

`conformance/PROTOCOL.md` describes the form.  The timeline that is expected of a reader is derived here from the
records that a case expects.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fxtio.conformance.canonical import MAX_DIFFERENCES, OPTIONAL, first_difference, matches

_NS = 10**9
_PROCESS, _THREAD = "1", "2"  # spec: Kernel object record, types of objects
_INTEGERS = frozenset({"int32", "uint32", "int64", "uint64"})

Timeline = dict[str, list[dict[str, Any]]]


def differences(format: str, records: Sequence[Mapping[str, Any]], actual: Any) -> list[str]:
    """Compare a timeline with the one that follows from records.

    Args:
        format: the name of the format.
        records: the canonical records that a case expects.
        actual: what a testee returned.

    Returns:
        The first differences, described for people; empty if there are none.
    """
    derive = _DERIVE.get(format)
    if derive is None:
        return [f"there are no timelines for the format {format}"]
    if not isinstance(actual, dict):
        return ["the timeline is not an object"]
    without = _compare(derive([record for record in records if not record.get(OPTIONAL)]), actual)
    if not without or not any(record.get(OPTIONAL) for record in records):
        return without
    try:
        with_optional = _compare(derive(records), actual)
    except KeyError:  # not all fields of the broken record are expected, so it has no place in a timeline
        return without
    return with_optional and without


def _compare(expected: Timeline, actual: dict[Any, Any]) -> list[str]:
    """Return the first differences of two timelines."""
    problems = []
    for name, elements in actual.items():
        if name in expected or isinstance(expected, defaultdict):
            problems += _differences_of(name, expected[name], elements)
        else:
            problems.append(f"the timeline has an unknown member {name!r}")
    return problems[:MAX_DIFFERENCES]


def _differences_of(name: str, expected: list[dict[str, Any]], actual: Any) -> list[str]:
    """Compare one member of a timeline."""
    if not isinstance(actual, list):
        return [f"the member {name!r} of the timeline is not a list"]
    if matches(expected, actual, _element_difference):
        return []
    problems = []
    if len(actual) != len(expected):
        problems.append(f"{name}: there are {len(actual):,}, expected {len(expected):,}")
    for number, (element, other) in enumerate(zip(expected, actual, strict=False)):
        problem = _element_difference(element, other)
        if problem is not None:
            problems.append(f"{name}[{number}]: {problem}")
    return problems


def _element_difference(expected: Mapping[str, Any], actual: Any) -> str | None:
    """Return the first difference of two elements, without the members that the reader leaves out."""
    if not isinstance(actual, dict):
        return first_difference(expected, actual)
    compared = {key: value for key, value in expected.items() if key == OPTIONAL or key in actual}
    return first_difference(compared, actual)


def derive_fxt(records: Sequence[Mapping[str, Any]]) -> Timeline:
    """Return the timeline of the records of an FXT trace."""
    timeline: Timeline = {name: [] for name in _MEMBERS}
    open_slices: defaultdict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    open_async: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    flows: dict[str, dict[str, Any]] = {}
    events = [record for record in records if "timestamp" in record and int(record["rate"]) > 0]
    for record in sorted(events, key=lambda record: _time(record, "timestamp")):  # stable
        _add_event(timeline, record, open_slices, open_async, flows)
    timeline["flows"] = list(flows.values())
    for record in records:
        if record["type"] == "kernel-object":
            _add_object(timeline, record)
        elif "payload" in record:
            timeline["blobs"].append({"name": _text(record["name"]), "payload": record["payload"]})
    for name in ("processes", "threads"):
        last = {item["koid"]: item for item in timeline[name]}
        timeline[name] = sorted(last.values(), key=lambda item: int(item["koid"]))
    return timeline


_MEMBERS = ("slices", "instants", "counters", "async", "flows", "logs", "switches", "blobs", "processes", "threads")


def derive_mono(records: Sequence[Mapping[str, Any]]) -> Timeline:
    """Return the timeline of the records of a Mono recording: the events of each type."""
    timeline: Timeline = defaultdict(list)
    for record in records:
        timeline[record["type"]].append(dict(record))
    return timeline


def derive_uftrace(records: Sequence[Mapping[str, Any]]) -> Timeline:
    """Return the timeline of the records of a uftrace directory: the records of each type, and all calls together."""
    timeline = derive_mono(records)
    timeline["calls"] = [
        {**record, "values": [item["value"] for item in record.get("arguments", [])]}
        for record in records
        if record["type"] in ("entry", "exit")
    ]
    names = {record["id"]: record["name"] for record in reversed(timeline["event-name"])}  # the first one counts
    timeline["event"] = [{**record, "name": names.get(record["id"])} for record in timeline["event"]]
    return timeline


_DERIVE: dict[str, Callable[[Sequence[Mapping[str, Any]]], Timeline]] = {
    "fxt": derive_fxt,
    "mono": derive_mono,
    "uftrace": derive_uftrace,
}


def _add_event(
    timeline: Timeline,
    record: Mapping[str, Any],
    open_slices: defaultdict[tuple[str, str], list[dict[str, Any]]],
    open_async: defaultdict[str, list[dict[str, Any]]],
    flows: dict[str, dict[str, Any]],
) -> None:
    """Add one event to the timeline; begin events wait for their end in `open_slices` and `open_async`."""
    kind = record["type"]
    time = str(_time(record, "timestamp"))
    if kind in {"duration-begin", "duration-complete", "instant"}:
        element: dict[str, Any] = {
            "thread": _thread(record),
            "name": _text(record["name"]),
            "category": _text(record["category"]),
        }
        arguments = _arguments(record)
        if kind == "instant":
            timeline["instants"].append({**element, "time": time, "arguments": arguments})
            return
        end = str(_time(record, "end_time")) if kind == "duration-complete" else None
        timeline["slices"].append({**element, "begin": time, "end": end, "arguments": arguments})
        if end is None:
            open_slices[_key(record)].append(timeline["slices"][-1])
    elif kind == "duration-end" and open_slices[_key(record)]:
        element = open_slices[_key(record)].pop()
        element["end"] = time
        element["arguments"] = sorted([*element["arguments"], *_arguments(record)], key=_name)
    elif kind == "async-begin":
        identity = record["async_correlation_id"]
        timeline["async"].append({"id": identity, "name": _text(record["name"]), "begin": time, "end": None})
        open_async[identity].append(timeline["async"][-1])
    elif kind == "async-end" and open_async[record["async_correlation_id"]]:
        open_async[record["async_correlation_id"]].pop()["end"] = time
    elif kind in {"flow-begin", "flow-step", "flow-end"}:
        identity = record["flow_correlation_id"]
        flows.setdefault(identity, {"id": identity, "times": []})["times"].append(time)
    elif kind == "counter":
        timeline["counters"] += _samples(record, time)
    elif kind == "log":
        timeline["logs"].append({"thread": _thread(record), "time": time, "message": record["message"]})
    elif kind in {"context-switch", "legacy-context-switch"}:
        outgoing, incoming = (_koid(record[key]) for key in ("outgoing_thread", "incoming_thread"))
        timeline["switches"].append({"cpu": record["cpu"], "time": time, "outgoing": outgoing, "incoming": incoming})


def _add_object(timeline: Timeline, record: Mapping[str, Any]) -> None:
    """Add a kernel object that is a process or a thread."""
    name = _text(record["name"])
    if record["object_type"] == _PROCESS:
        timeline["processes"].append({"koid": record["koid"], "name": name})
    elif record["object_type"] == _THREAD:
        processes = [
            argument["value"]
            for argument in record["arguments"]
            if argument["type"] == "koid" and _text(argument["name"]) == {"text": "process"}
        ]
        process = processes[0] if processes else None
        timeline["threads"].append({"koid": record["koid"], "process": process, "name": name})


def _samples(record: Mapping[str, Any], time: str) -> list[dict[str, Any]]:
    """Return the samples of a counter event, one for each numeric argument."""
    sample = {
        "process": record["thread"]["process"],
        "name": _text(record["name"]),
        "id": record["counter_id"],
        "time": time,
    }
    return [
        {**sample, "series": _text(argument["name"]), "value": _double(argument["value"])}
        for argument in record["arguments"]
        if argument["type"] in _INTEGERS or argument["type"] == "double"
    ]


def _double(value: str) -> str:
    """Return a canonical number as a canonical double."""
    return value if value.startswith("f64:") else f"f64:{struct.pack('>d', int(value)).hex()}"


def _time(record: Mapping[str, Any], key: str) -> int:
    """Return a time in nanoseconds."""
    return int(record[key]) * _NS // int(record["rate"])


def _thread(record: Mapping[str, Any]) -> dict[str, Any]:
    return {key: record["thread"][key] for key in ("process", "thread")}


def _koid(thread: Any) -> Any:
    """Return the koid of a thread, which older records have as a reference."""
    return thread["thread"] if isinstance(thread, Mapping) else thread


def _key(record: Mapping[str, Any]) -> tuple[str, str]:
    return record["thread"]["process"], record["thread"]["thread"]


def _text(reference: Mapping[str, Any]) -> dict[str, Any]:
    """Return the text of a reference, without the slot."""
    return {key: reference[key] for key in ("text", "hex") if key in reference}


def _arguments(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the arguments of an event without their types, ordered by name."""
    result = [
        {"name": _text(argument["name"]), "value": _value(argument.get("value"))} for argument in record["arguments"]
    ]
    return sorted(result, key=_name)


def _value(value: Any) -> Any:
    return _text(value) if isinstance(value, Mapping) else value


def _name(argument: Mapping[str, Any]) -> str:
    """Return the name of an argument as text by which arguments are ordered."""
    name: Mapping[str, Any] = argument["name"]
    return str(name.get("text", name.get("hex")))
