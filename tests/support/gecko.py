"""Profiles of the Firefox Profiler for the tests: one content in the raw form, and in versions of the processed one.

The layouts are those of the types and upgraders of firefox-devtools/profiler (`src/types`, `src/profile-logic`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Frame = tuple[str, str | None, int | None]
"""The name of a function, its file, and the line."""

VERSIONS = (47, 50, 56, 58, 60, 66, 70, 71, 75)
"""Versions of the processed form since which a table is different."""

INSTANT, INTERVAL, BEGIN, END = range(4)
CATEGORIES = ["Other", "Layout"]


UNITS = {"time": "ms", "eventDelay": "ms", "threadCPUDelta": "µs"}
START = 1_700_000_000_000.25
"""The milliseconds since the epoch at which the first process began."""


@dataclass
class Thread:
    """A thread of a profile.

    Attributes:
        name: its name.
        pid: its process.
        tid: its number.
        samples: time in ms, stack (the outermost first), and the CPU time since the sample before in µs.
        markers: name, start, end, phase, category, data; a text of a `Note` is a text here.
    """

    name: str = "GeckoMain"
    pid: int = 10
    tid: int = 11
    samples: Sequence[tuple[float, tuple[Frame, ...], int | None]] = ()
    markers: Sequence[tuple[str, float | None, float | None, int, int, dict[str, Any] | None]] = ()


@dataclass
class _Strings:
    """Strings, each once."""

    values: list[str] = field(default_factory=list)

    def number(self, text: str) -> int:
        if text not in self.values:
            self.values.append(text)
        return self.values.index(text)


def _schema(fields: str) -> list[dict[str, Any]]:
    """Return what markers have, in a member with this name: `data`, or `fields` since version 55."""
    types = [("text", "unique-string"), ("count", "integer")]
    return [
        {
            "name": "Note",
            "display": ["marker-chart", "marker-table"],
            fields: [{"key": key, "label": key, "format": kind} for key, kind in types],
        }
    ]


def _stacks(threads: Sequence[Thread]) -> tuple[list[Frame], list[tuple[int | None, int]], dict[Any, int | None]]:
    """Return frames, stacks (outer stack and frame), and the number of each stack of frames."""
    frames: list[Frame] = []
    stacks: list[tuple[int | None, int]] = []
    numbers: dict[Any, int | None] = {(): None}
    for thread in threads:
        for _, stack, _ in thread.samples:
            for depth in range(1, len(stack) + 1):
                if stack[:depth] not in numbers:
                    if stack[depth - 1] not in frames:
                        frames.append(stack[depth - 1])
                    numbers[stack[:depth]] = len(stacks)
                    stacks.append((numbers[stack[: depth - 1]], frames.index(stack[depth - 1])))
    return frames, stacks, numbers


def _data(data: dict[str, Any] | None, strings: _Strings) -> dict[str, Any] | None:
    if data is None or data.get("type") != "Note":
        return data
    return {**data, "text": strings.number(data["text"])}


def _markers(thread: Thread, strings: _Strings) -> list[list[Any]]:
    return [[strings.number(each[0]), *each[1:5], _data(each[5], strings)] for each in thread.markers]


def raw(threads: Sequence[Thread], shift: float = 0.0) -> dict[str, Any]:
    """Return a profile in the form of Firefox: each further process has one in that of the first.

    Args:
        threads: the threads, those of a process together.
        shift: how much later than the first process each further one began, which its times count from (ms).
    """
    profiles: dict[int, dict[str, Any]] = {}
    for thread in threads:
        later = shift * len(profiles) if thread.pid not in profiles else 0
        meta = {
            "version": 31, "interval": 1, "stackwalk": 1, "product": "Firefox", "startTime": START + later,
            "categories": [{"name": each, "color": "grey", "subcategories": ["Other"]} for each in CATEGORIES],
            "markerSchema": _schema("data"), "sampleUnits": UNITS,
        }  # fmt: skip
        profile = profiles.setdefault(
            thread.pid,
            {"meta": meta, "libs": [], "pages": [], "threads": [], "pausedRanges": [], "processes": []},
        )
        before = profile["meta"]["startTime"] - START
        strings = _Strings(["(root)"])
        frames, stacks, numbers = _stacks([thread])
        texts = [f"{name} ({file}:{line}:1)" if file else name for name, file, line in frames]
        markers = _markers(thread, strings)
        moved = [[row[0], *(each if each is None else each - before for each in row[1:3]), *row[3:]] for row in markers]
        profile["threads"].append({
            "name": thread.name, "pid": thread.pid, "tid": thread.tid, "processType": "default",
            "registerTime": 0, "unregisterTime": None,
            "samples": {
                "schema": {"stack": 0, "time": 1, "eventDelay": 2, "threadCPUDelta": 3},
                "data": [[numbers[stack], time - before, 0, cpu] for time, stack, cpu in thread.samples],
            },
            "markers": {
                "schema": {"name": 0, "startTime": 1, "endTime": 2, "phase": 3, "category": 4, "data": 5},
                "data": moved,
            },
            "frameTable": {
                "schema": {"location": 0, "relevantForJS": 1, "innerWindowID": 2, "implementation": 3, "line": 4,
                           "column": 5, "category": 6, "subcategory": 7},
                "data": [
                    [strings.number(text), False, 0, None, line, None, 0, 0]
                    for text, (_, _, line) in zip(texts, frames, strict=True)
                ],
            },
            "stackTable": {"schema": {"prefix": 0, "frame": 1}, "data": [list(each) for each in stacks]},
            "stringTable": strings.values,
        })  # fmt: skip
    first, *others = profiles.values()
    return {**first, "processes": others}


def processed(threads: Sequence[Thread], version: int) -> dict[str, Any]:
    """Return a profile in a version of the processed form."""
    common = _Strings()
    each_own = (
        []
        if version >= 60
        else [_tables([thread], common if version >= 56 else _Strings(), version) for thread in threads]
    )
    whole = _tables(threads, common, version) if version >= 60 else None
    made = []
    for number, thread in enumerate(threads):
        tables = whole or each_own[number]
        strings = tables["strings"]
        names, starts, ends, phases, categories, data = (
            zip(*_markers(thread, strings), strict=True) if thread.markers else ((),) * 6
        )
        times = [time for time, _, _ in thread.samples]
        deltas = [time - before for time, before in zip(times, [0.0, *times], strict=False)]
        made.append({
            "name": thread.name, "pid": str(thread.pid), "tid": thread.tid, "processType": "default",
            "processStartupTime": 0, "processShutdownTime": None, "registerTime": 0, "unregisterTime": None,
            "pausedRanges": [], "isMainThread": True, "processName": "Firefox",
            "samples": {
                "weightType": "samples", "weight": None, "length": len(times),
                **({"timeDeltas": deltas} if version >= 50 else {"time": times}),
                "stack": [tables["numbers"][stack] for _, stack, _ in thread.samples],
                "threadCPUDelta": [cpu for _, _, cpu in thread.samples],
            },
            "markers": {
                "name": names, "startTime": starts, "endTime": ends, "phase": phases, "category": categories,
                "data": data, "length": len(names),
            },
            **({} if whole else tables["tables"]),
            **({} if version >= 56 else {"stringArray": strings.values}),
        })  # fmt: skip
    shared: dict[str, Any] = {} if version < 56 else {"stringArray": common.values}
    if version >= 58:
        number = len(common.values)
        sources = {"length": number, "filename": [*range(number)], "id": [None] * number, "startLine": [1] * number,
                   "startColumn": [1] * number, "sourceMapURL": [None] * number,
                   "content": [None] * number}  # fmt: skip
        shared["sources"] = sources
    if whole:
        shared |= whole["tables"]
        shared["sourceLocationTable"] = {"source": [], "line": [], "column": [], "length": 0}
    return {
        "meta": {
            "interval": 1, "startTime": START, "processType": 0, "product": "Firefox", "stackwalk": 1, "version": 31,
            "preprocessedProfileVersion": version, "symbolicated": True,
            "markerSchema": _schema("fields" if version >= 55 else "data"),
            "categories": [{"name": each, "color": "grey", "subcategories": ["Other"]} for each in CATEGORIES],
            "sampleUnits": UNITS,
        },
        "libs": [], "pages": [], "threads": made, **({"shared": shared} if shared else {}),
    }  # fmt: skip


def _tables(threads: Sequence[Thread], strings: _Strings, version: int) -> dict[str, Any]:
    """Return the tables that say what stacks are, the strings that they use, and the numbers of stacks."""
    frames, stacks, numbers = _stacks(threads)
    functions = list(dict.fromkeys((name, file) for name, file, _ in frames))
    names = [strings.number(name) for name, _ in functions]
    files = [strings.number(file) if file else None for _, file in functions]
    count, rows = len(functions), len(frames)
    lines = [line for _, _, line in frames]
    prefixes = [outer for outer, _ in stacks]
    has = version >= 71
    frame_table: dict[str, Any] = {
        "func": [functions.index((name, file)) for name, file, _ in frames], "length": rows,
        "address": [0 if has else -1] * rows, "category": [0] * rows, "subcategory": [0] * rows,
        "line": [line or 0 for line in lines] if has else lines, "column": [0 if has else None] * rows,
        "nativeSymbol": [0 if has else None] * rows, "innerWindowID": [0] * rows,
        **({} if has else {"inlineDepth": [0] * rows}),
        **({"lib": [0 if has else -1] * rows} if version >= 70 else {}),
        **({"originalLocation": [0 if has else None] * rows} if version >= 64 else {}),
        **({"flags": [4 | (16 if line else 0) for line in lines]} if has else {}),
    }  # fmt: skip
    has = version >= 75
    function_table: dict[str, Any] = {
        "name": names, "resource": [0 if has else -1] * count, "lineNumber": [0 if has else None] * count,
        "columnNumber": [0 if has else None] * count, "length": count,
        ("source" if version >= 58 else "fileName"): [file or 0 for file in files] if has else files,
        **({} if has else {"isJS": [False] * count, "relevantForJS": [False] * count}),
        **({"originalLocation": [0 if has else None] * count} if version >= 64 else {}),
        **({"flags": [8 if file is not None else 0 for file in files]} if has else {}),
    }  # fmt: skip
    stack_table: dict[str, Any] = {"frame": [frame for _, frame in stacks], "length": len(stacks)}
    if version >= 66:
        stack_table["prefixOffset"] = [0 if outer is None else row - outer for row, outer in enumerate(prefixes)]
    else:
        stack_table["prefix"] = prefixes
    tables = {
        "frameTable": frame_table, "funcTable": function_table, "stackTable": stack_table,
        "resourceTable": {"length": 0, "lib": [], "name": [], "host": [], "type": []},
        "nativeSymbols": {"length": 0, "libIndex": [], "address": [], "name": [], "functionSize": []},
    }  # fmt: skip
    return {"tables": tables, "strings": strings, "numbers": numbers}
