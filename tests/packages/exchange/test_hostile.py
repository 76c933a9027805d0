"""Hostile files of all exchange formats that are read: extreme numbers, costs that grow, memory.

What is made of a file is bounded, a fault is a loss or a refusal and never another exception, and the costs of each
command grow with the size of its input only.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fxtio.cli import main
from fxtio.cli.parser import COMMANDS, option_names, parser_of
from fxtio.codec.protobuf import Wire, WireError, bytes_field, fields, number_field, packed_field, varint
from fxtio.errors import FxtioError
from fxtio.exchange import exchanges
from fxtio.exchange.otlp_reader import MAX_LANES
from support import perfetto_samples
from support.costs import operations
from support.exchange import imported
from support.fxt_bad import MIB, memory
from support.gecko import Thread as GeckoThread
from support.gecko import processed as gecko_processed
from support.gecko import raw as gecko_raw

IMPORTED = [name for name, each in exchanges().items() if each.imports]
GECKO_START = '{"meta":{"interval":1},"threads":['
SPEEDSCOPE = '{"$schema":"https://www.speedscope.app/file-format-schema.json",'

# --- Extreme numbers --------------------------------------------------------------------------------------------------

HOLE = "<here>"

NUMBERS = [
    "1e999999",
    "-1e999999",
    "1e-999999",
    "1e308",
    "1e309",
    "NaN",
    "Infinity",
    "-Infinity",
    "-0",
    "-1",
    "0.1",
    "1e19",
    "9" * 401,
    "-" + "9" * 401,
    "9" * 5000,
    '"1e999999"',
    '"-1e999999"',
    '"1e99999999999999999999"',
    '"NaN"',
    '"sNaN"',
    '"Infinity"',
    '"0x10"',
    '"-1"',
    '"1.5"',
    '"1_0"',
    '"\\u0661"',
    '"\\ud800"',
    '"\\u00b2"',
    '""',
    "true",
    "null",
    "[]",
    "{}",
    "[1]",
    '{"a":1}',
    "[[[[1]]]]",
    str(2**31),
    str(2**32),
    str(2**53 + 1),
    str(2**63 - 1),
    str(2**63),
    str(2**64),
    str(-(2**63)),
    str(-(2**63) - 1),
    f'"{2**64}"',
    '"' + "9" * 401 + '"',
    '"' + "9" * 5000 + '"',
    "9223372036854775.8079",
]

_EVENT = {
    "ts": 1,
    "dur": 2,
    "pid": 3,
    "tid": 4,
    "id": 5,
    "id2": {"local": 6},
    "name": "process_name",
    "cat": "c",
    "s": "t",
    "scope": "x",
    "bp": "e",
    "bind_id": 7,
    "sf": 8,
    "stack": [9],
    "args": {"name": "n", "a": 1.5, "b": {"c": [1]}},
}
_ATTRIBUTES = [
    {"key": key, "value": {kind: 1}}
    for key in ("a", "process.pid", "thread.id", "fxtio.state")
    for kind in ("intValue", "doubleValue", "boolValue", "stringValue")
] + [{"key": "a", "value": {"arrayValue": {"values": [{"intValue": 1}]}, "kvlistValue": {"values": [{"key": "b"}]}}}]
_POINT = {"timeUnixNano": 1, "name": "p", "attributes": _ATTRIBUTES[:2]}
_SPAN = {
    "startTimeUnixNano": 1,
    "endTimeUnixNano": "2",
    "traceId": "1",
    "spanId": "2",
    "parentSpanId": "3",
    "name": "n",
    "status": {"code": 2},
    "events": [_POINT],
    "links": [1],
    "attributes": _ATTRIBUTES,
}
_FRAME = ("f", "g.js", 3)
GECKO = [
    GeckoThread(
        samples=[(1.0, (_FRAME,), None), (2.0, (_FRAME, _FRAME), 5)],
        markers=[
            ("m", 1.0, 2.0, phase, 0, {"type": "Note", "text": "x", "count": 1, "cause": {"stack": 0}})
            for phase in (0, 2, 3)
        ],
    )
]
GECKO_REST = {
    "meta": {"startTime": 1, "markerSchema": [{"name": "n", "data": [{"key": "k", "format": "flow-id"}]}]},
    "libs": [{"name": "l", "start": 1, "end": 2}],
    "counters": [
        {"name": "c", "category": "Memory", "pid": "1", "samples": {"time": [1], "count": [2], "number": [3]}},
        {"name": "c", "display": {"graphType": "x"}, "sampleGroups": [{"samples": {"timeDeltas": [1], "count": [2]}}]},
    ],
    "threads": [
        {
            "samples": {"stack": [0], "time": [1], "weight": [2], "weightType": "tracing-ms"},
            "jsAllocations": {"stack": [0], "time": [1], "weight": [2], "className": ["c"]},
            "frameTable": {"func": [0], "address": [1], "lib": [0], "flags": [31]},
            "stackTable": {"frame": [0, 0], "prefixOffset": [0, 1]},
            "resourceTable": {"lib": [0], "name": [0], "type": [1]},
            "funcTable": {"name": [0], "resource": [0], "source": [0], "flags": [31]},
            "sources": {"filename": [0]},
            "stringArray": ["s"],
        }
    ],
    "processes": [{"meta": {"startTime": 2}, "threads": [{"samples": {"stack": [0], "time": [1]}}]}],
}
TEMPLATES: dict[str, list[Any]] = {
    "chrome": [{"traceEvents": [{"ph": phase, **_EVENT}]} for phase in [*"XBECMstfbneSFpiIR"]]
    + [
        {
            "traceEvents": [{"ph": "X", "ts": 1}],
            "baseTimeNanoseconds": 1,
            "viztracer_metadata": {"baseTimeNanoseconds": 1},
            "stackFrames": {"1": {"name": "f", "category": "m", "parent": 1}},
            "samples": [{"ts": 1, "pid": 1, "tid": 1, "cpu": 1, "weight": 1, "sf": 1, "name": "n"}],
        }
    ],
    "otlp": [
        {
            "resourceSpans": [
                {
                    "resource": {"attributes": _ATTRIBUTES},
                    "scopeSpans": [{"scope": {"name": "s"}, "spans": [_SPAN]}],
                }
            ]
        }
    ],
    "speedscope": [
        {
            "$schema": "https://www.speedscope.app/file-format-schema.json",
            "name": "n",
            "activeProfileIndex": 0,
            "shared": {"frames": [{"name": "f", "file": "g", "line": 1, "col": 2}]},
            "profiles": [
                {
                    "type": "evented",
                    "name": "p",
                    "unit": unit,
                    "startValue": 0,
                    "endValue": 3,
                    "events": [{"type": "O", "frame": 0, "at": 1}, {"type": "C", "frame": 0, "at": 2}],
                },
                {
                    "type": "sampled",
                    "name": "p",
                    "unit": unit,
                    "startValue": 0,
                    "endValue": 3,
                    "samples": [[0], [0, 0]],
                    "weights": [1, 2.5],
                },
            ],
        }
        for unit in ("none", "seconds", "nanoseconds", "bytes")
    ],
    "cpuprofile": [
        {
            "nodes": [
                {
                    "id": 1,
                    "callFrame": {"functionName": "f", "url": "g", "lineNumber": 1},
                    "hitCount": 1,
                    "children": [2],
                },
                {"id": 2, "callFrame": {}, "parent": 1},
            ],
            "startTime": 1,
            "endTime": 9,
            "samples": [1, 2],
            "timeDeltas": [1, 2],
        }
    ],
    "gecko": [gecko_raw(GECKO), gecko_processed(GECKO, 56), gecko_processed(GECKO, 75), GECKO_REST],
}


SHARES = 12
"""At most this many places of values of one name share the numbers: there are many places that are alike."""


def with_holes(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield copies of a JSON value, in each of which another value within it is `HOLE`, each with its name.

    An item of an array has the name of the array.
    """
    yield name, HOLE
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in items:
        for inner, changed in with_holes(each, key if isinstance(key, str) else name):
            copy = dict(value) if isinstance(value, dict) else [*value]
            copy[key] = changed
            yield inner, copy


def documents(format: str) -> Iterator[bytes]:
    """Yield files in which one value is an extreme number, or of another type.

    Values of each name become each of the numbers; where there are several of a name, they take turns.
    """
    holes = [hole for template in TEMPLATES[format] for hole in with_holes(template)]
    alike = Counter(name for name, _ in holes)
    turns = Counter[str]()
    for name, document in holes:
        share = min(alike[name], SHARES)
        before, _, behind = json.dumps(document).partition(json.dumps(HOLE))
        yield from (f"{before}{number}{behind}".encode() for number in NUMBERS[turns[name] % share :: share])
        turns[name] += 1


def collapsed_documents() -> Iterator[bytes]:
    for number in NUMBERS:
        yield f"a;b 1\na;b {number}\na (x.py:{number});b 3\n".encode()


def tachyon_documents() -> Iterator[bytes]:
    lines: list[Any] = [
        {"type": "meta", "run_id": "0", "sample_interval_usec": 1},
        {"type": "str_def", "defs": [{"str_id": 1, "value": "f"}], "strings": []},
        {"type": "frame_def", "defs": [{"frame_id": 1, "path_str_id": 1, "func_str_id": 1, "line": 1}], "frames": []},
        {"type": "agg", "entries": [{"frame_id": 1, "self": 1, "cumulative": 2}]},
        {"type": "end"},
    ]
    for at, line in enumerate(lines):
        texts = [json.dumps(each) for each in lines]
        for _, document in with_holes(line):
            before, _, behind = json.dumps(document).partition(json.dumps(HOLE))
            for number in NUMBERS:
                yield "\n".join([*texts[:at], f"{before}{number}{behind}", *texts[at + 1 :]]).encode()


PROFILE = b"".join(
    [
        bytes_field(1, number_field(1, 1) + number_field(2, 2)),
        bytes_field(1, number_field(1, 3) + number_field(2, 4)),
        bytes_field(1, number_field(1, 5) + number_field(2, 2)),
        bytes_field(1, number_field(1, 6) + number_field(2, 7)),
        bytes_field(
            2,
            packed_field(1, [1])
            + packed_field(2, [1, 2, 3, 4])
            + bytes_field(3, number_field(1, 8) + number_field(3, 9)),
        ),
        bytes_field(3, number_field(1, 1) + number_field(5, 1)),
        bytes_field(
            4,
            number_field(1, 1)
            + number_field(2, 1)
            + number_field(3, 16)
            + bytes_field(4, number_field(1, 1) + number_field(2, 7)),
        ),
        bytes_field(5, number_field(1, 1) + number_field(2, 1) + number_field(4, 1)),
        *(
            bytes_field(6, text.encode())
            for text in ("", "samples", "count", "cpu", "seconds", "alloc_objects", "alloc_space", "bytes", "tid")
        ),
        number_field(9, 1),
        number_field(10, 1),
        number_field(12, 1),
        number_field(14, 1),
    ]
)
_NESTED = {1, 2, 3, 4, 5}


def with_numbers(message: bytes, numbers: tuple[int, ...], nested: set[int] | None = None) -> Iterator[bytes]:
    """Yield copies of a message, in each of which another number is one of these.

    Args:
        message: the message.
        numbers: the numbers.
        nested: the fields that are messages, None if all of bytes may be.
    """
    begin = 0
    for field, kind, value, end in fields(message):
        behind = end
        if kind == Wire.VARINT:
            for number in numbers:
                yield message[:begin] + varint(field << 3) + varint(number) + message[behind:]
        elif kind == Wire.BYTES and (nested is None or field in nested):
            try:
                changed = [*with_numbers(message[value:end], numbers)]
            except WireError:
                changed = [*with_packed(message[value:end], numbers)]
            for inner in changed:
                yield message[:begin] + bytes_field(field, inner) + message[behind:]
        begin = behind


def with_packed(packed: bytes, numbers: tuple[int, ...]) -> Iterator[bytes]:
    """Yield copies of packed numbers below 128, in each of which another number is one of these."""
    for at in range(len(packed)):
        yield from (packed[:at] + varint(number) + packed[at + 1 :] for number in numbers)


EXTREMES = (0, 1, 2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64 - 1)


def pprof_documents() -> Iterator[bytes]:
    yield from with_numbers(PROFILE, EXTREMES, _NESTED)


def perfetto_documents() -> Iterator[bytes]:
    for name, trace in perfetto_samples.all_traces():
        if name not in ("track_events", "compressed", "interleaved"):  # which have little that others do not have
            yield from with_numbers(trace, (0, 2**31, 2**63, 2**64 - 1))


DOCUMENTS: dict[str, Callable[[], Iterator[bytes]]] = {
    **{name: partial(documents, name) for name in TEMPLATES},
    "collapsed": collapsed_documents,
    "tachyon": tachyon_documents,
    "pprof": pprof_documents,
    "perfetto": perfetto_documents,
}


@pytest.mark.full
@pytest.mark.once
@pytest.mark.no_cover  # the same again and again, slow to measure
@pytest.mark.parametrize("format", IMPORTED)
def test_extreme_numbers_are_losses(format: str) -> None:
    for data in DOCUMENTS[format]():
        try:
            with imported(data, format) as timeline:
                timeline.tables(*timeline.table_names)
        except FxtioError:
            pass
        except Exception as error:
            raise AssertionError(data) from error


@pytest.mark.parametrize(
    ("format", "data"),
    [
        ("chrome", b'[{"ph":"X","ts":"1e999999","name":"a"},{"ph":"X","ts":1,"name":"b"}]'),
        (
            "otlp",
            json.dumps(
                {
                    "resourceSpans": [
                        {
                            "scopeSpans": [
                                {
                                    "spans": [
                                        {
                                            "name": "b",
                                            "startTimeUnixNano": 1,
                                            "endTimeUnixNano": 2,
                                            "attributes": [{"key": "x", "value": {"doubleValue": -int("9" * 401)}}],
                                        }
                                    ]
                                }
                            ]
                        }
                    ]
                }
            ).encode(),
        ),
    ],
)
def test_numbers_beyond_all_types(format: str, data: bytes) -> None:
    timeline = imported(data, format)
    tables = timeline.tables("slices", "args")
    assert tables["slices"]["name"].tolist() == ["b"]
    assert tables["args"]["bits"].view("f8").tolist() == ([float("-inf")] if format == "otlp" else [])


# --- Costs ------------------------------------------------------------------------------------------------------------


def stacks_of(count: int) -> bytes:
    """Return a profile of stacks each of which is one frame deeper than the one before."""
    return profile_of(
        b"".join(bytes_field(2, packed_field(1, [1] * depth) + b"\x12\x01\x01") for depth in range(count))
    )


def profile_of(samples: bytes, *locations: bytes) -> bytes:
    """Return a profile with one type and some locations."""
    found = b"".join(bytes_field(4, number_field(1, 1 + place) + each) for place, each in enumerate(locations or [b""]))
    strings = b"".join(bytes_field(6, text) for text in (b"", b"samples", b"count"))
    return bytes_field(1, number_field(1, 1) + number_field(2, 2)) + samples + found + strings


def spans_of(count: int, ids: Callable[[int], str] = str, heaps: int = 1) -> bytes:
    """Return heaps of spans; in a heap each is within the time of the one before."""
    spans = [
        {
            "name": "s",
            "startTimeUnixNano": 2 * count * heap + n,
            "endTimeUnixNano": 2 * count * (heap + 1) - n,
            "spanId": ids(n),
            "parentSpanId": ids(n - 1),
        }
        for heap in range(heaps)
        for n in range(count)
    ]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()


def trace_of(*contents: bytes) -> bytes:
    """Return a Perfetto trace of packets, each with a time and a sequence."""
    head = number_field(8, 5) + number_field(10, 1)
    return b"".join(bytes_field(1, head + each) for each in contents)


INSTANT = number_field(9, 3)


def nested(field: int, depth: int) -> bytes:
    """Return an annotation within other ones, of which there are `depth`."""
    inner = b""
    for _ in range(depth):
        inner = bytes_field(field, inner)
    return bytes_field(11, INSTANT + bytes_field(4, inner))


BAD: dict[str, tuple[str, Callable[[int], bytes]]] = {
    "short arrays": ("chrome", lambda n: b'{"x":1' + b',"traceEvents":[{"ph":"X","ts":1,"dur":1}]' * n + b"}"),
    "arrays in turn": ("chrome", lambda n: b'{"x":1' + b',"traceEvents":[{}],"samples":[{}]' * n + b"}"),
    "items that are not closed": ("chrome", lambda n: b'[{"ph":"i","ts":1},' + b'{"a":[{},' * n),
    "numbers that are none": ("chrome", lambda n: b"[" + b'{"ph":"i","ts":1,"dur":NaN},{"ph":"i","ts":1},' * n + b"]"),
    "begins without ends": ("chrome", lambda n: b"[" + b'{"ph":"B","ts":1,"name":"a"},' * n + b"{}]"),
    "a member that nobody needs": ("chrome", lambda n: b'{"x":[' + b'{"a":[{}]},' * n + b'{}],"traceEvents":[]}'),
    "threads": ("chrome", lambda n: b"[" + b",".join(b'{"ph":"X","ts":1,"pid":%d}' % each for each in range(n)) + b"]"),
    "spans in spans": ("otlp", spans_of),
    "spans of one number": (
        "otlp",
        lambda n: spans_of(MAX_LANES, lambda _: "1", n // 8),
    ),  # each is on a track of its own
    "lines that are none": ("otlp", lambda n: b'{"resourceSpans":[]}\n' + b"{[\n" * n),
    "profiles": (
        "speedscope",
        lambda n: (
            SPEEDSCOPE + '"shared":{"frames":[]},"profiles":[{}' + ',{"type":"evented","events":[]}' * n + "]}"
        ).encode(),
    ),
    "events that are not closed": (
        "speedscope",
        lambda n: (
            SPEEDSCOPE
            + '"shared":{"frames":[{"name":"a"}]},"profiles":[{"type":"evented","events":[{"type":"O","frame":0,"at":1}'
            + ',{"type":"O","frame":0,"at":1}' * n
            + "]}]}"
        ).encode(),
    ),
    "weights without samples": (
        "speedscope",
        lambda n: (
            SPEEDSCOPE
            + '"shared":{"frames":[]},"profiles":[{"type":"sampled","samples":[[]],"weights":[1'
            + ",1" * n
            + "]}]}"
        ).encode(),
    ),
    "threads without stacks": (
        "gecko",
        lambda n: (GECKO_START + '{"samples":{"stack":[0],"time":[1]}},' * n + "{}]}").encode(),
    ),
    "markers that do not end": (
        "gecko",
        lambda n: (
            GECKO_START
            + '{"stringArray":["a"],"markers":{"name":['
            + "0," * n
            + '0],"startTime":['
            + "1," * n
            + '1],"phase":['
            + "2," * n
            + "2]}}]}"
        ).encode(),
    ),
    "stacks on stacks": (
        "gecko",
        lambda n: (
            GECKO_START
            + '{"frameTable":{"func":[0]},"stackTable":{"frame":['
            + "0," * n
            + '0],"prefixOffset":[0'
            + ",1" * n
            + f']}},"samples":{{"stack":[{n}],"time":[1]}}}}]}}'
        ).encode(),
    ),
    "nodes within each other": (
        "cpuprofile",
        lambda n: (
            '{"nodes":['
            + ",".join(f'{{"id":{each},"callFrame":{{}},"children":[{(each + 1) % n}]}}' for each in range(n))
            + f'],"samples":[{n - 1}],"timeDeltas":[1],"endTime":2}}'
        ).encode(),
    ),
    "sums that nothing defines": ("tachyon", lambda n: b'{"type":"agg","entries":[{"frame_id":1,"self":1}]}\n' * n),
    "a deep stack": ("collapsed", lambda n: b"a;" * n + b"a 1\n"),
    "stacks": ("collapsed", lambda n: b"".join(b"a;b%d 1\n" % each for each in range(n))),
    "inlined functions": (
        "pprof",
        lambda n: profile_of(
            b"".join(bytes_field(2, packed_field(1, [1] * 8 + [1 + each % 9]) + b"\x12\x01\x01") for each in range(n)),
            *[bytes_field(4, b"\x10\x01") * n] * 2,
        ),
    ),
    "empty samples": ("pprof", lambda n: profile_of(b"\x12\x00" * n)),
    "empty packets": ("perfetto", lambda n: b"\x0a\x00" * n),
    "events": ("perfetto", lambda n: trace_of(*[bytes_field(11, INSTANT)] * n)),
    "sequences": (
        "perfetto",
        lambda n: b"".join(
            bytes_field(1, number_field(8, 5) + number_field(10, 1 + each) + bytes_field(11, INSTANT))
            for each in range(n)
        ),
    ),
    "tracks": (
        "perfetto",
        lambda n: (
            trace_of(*(bytes_field(60, number_field(1, 1 + each) + number_field(5, each)) for each in range(n)))
            + trace_of(*(bytes_field(11, INSTANT + number_field(11, 1 + each)) for each in range(n)))
        ),
    ),
    "clocks": (
        "perfetto",
        lambda n: trace_of(*(number_field(58, 1 + each) + bytes_field(11, INSTANT) for each in range(n))),
    ),
    "snapshots": (
        "perfetto",
        lambda n: trace_of(
            *(
                bytes_field(
                    6,
                    b"".join(
                        bytes_field(1, number_field(1, clock) + number_field(2, each + clock)) for clock in range(8)
                    ),
                )
                for each in range(n)
            )
        ),
    ),
    "annotations": ("perfetto", lambda n: trace_of(bytes_field(11, INSTANT + bytes_field(4, b"\x10\x01") * n))),
    "annotations in annotations": ("perfetto", lambda n: trace_of(nested(12, n))),
    "frames of stacks": (
        "perfetto",
        lambda n: trace_of(
            bytes_field(12, bytes_field(7, number_field(1, 1) + packed_field(2, [*range(1, n)]))),
            *[bytes_field(66, number_field(4, 1))] * n,
        ),
    ),
    "compressed packets": (
        "perfetto",
        lambda n: trace_of(*[bytes_field(50, zlib.compress(trace_of(bytes_field(11, INSTANT))))] * n),
    ),
    "switches": (
        "perfetto",
        lambda n: trace_of(
            bytes_field(
                1,
                b"".join(
                    bytes_field(2, number_field(1, 5) + bytes_field(4, number_field(6, 1 + each))) for each in range(n)
                ),
            )
        ),
    ),
}
"""Kinds of bad input, of any size."""

NOT_RUN = {"open": "it waits for a browser; what it converts is converted by `convert`"}
READING = [name for name in COMMANDS if "--format" in option_names(parser_of(name)) and name not in ("synth", *NOT_RUN)]
"""The commands that read a trace."""

TURNS = 3
"""A kind of bad input is read by `convert`, which reads all tables, and by one in three of the others, in turns."""

RUNS = [
    (kind, command)
    for row, kind in enumerate(BAD)
    for place, command in enumerate(READING)
    if command == "convert" or (row + place) % TURNS == 0
]


def arguments_of(command: str, file: str, folder: Path) -> list[str]:
    """Return the arguments of a command for a trace, from those that its parser needs."""
    more = {
        "convert": [str(folder / "out.fxt")],
        "query": ["select count(*) from slice"],
        "cut": ["--name", "*"],
        "diff": [file],
        "merge": [file],
        "check": ["--baseline", file],
        "find": ["*"],
    }
    has_output = {"-o", "--output"} & {*option_names(parser_of(command))} and command not in (
        "query",
        "validate",
        "check",
    )
    return [command, file, *more.get(command, []), *(["-o", str(folder / f"{command}.out")] if has_output else [])]


@pytest.mark.parametrize("command", READING)
def test_every_reading_command_takes_the_format(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"a;b 1\n")
    assert main([*arguments_of(command, str(path), tmp_path), "--format", "nothing"]) == 2
    assert "no format 'nothing'" in capsys.readouterr().err


@pytest.mark.full
@pytest.mark.once
@pytest.mark.no_cover  # the same again and again, slow to measure
@pytest.mark.parametrize(("kind", "command"), RUNS)
def test_costs_grow_with_the_size_only(kind: str, command: str, tmp_path: Path) -> None:
    """Four times the input costs four times the lines, and some, beyond what every run costs."""
    costs = []
    name, make = BAD[kind]
    unit = 32 if name == "perfetto" else 8  # few packets are read one by one, which costs more
    for count in (unit, unit, 4 * unit, 16 * unit):  # the first run imports modules
        path = tmp_path / f"{count}.{name}"
        path.write_bytes(make(count))
        arguments = [*arguments_of(command, str(path), tmp_path), "--format", name]
        costs.append(operations(partial(main, arguments)))
    _, small, middle, large = costs
    assert large - middle <= 7 * max(middle - small, 500), costs


# --- Memory -----------------------------------------------------------------------------------------------------------


SLOW = MIB // 2


def repeated(before: str, item: str, behind: str, size: int = 3 * MIB) -> Callable[[], bytes]:
    """Return a function that makes a file of some 3 MiB, or of another size."""
    count = size // len(item)

    def make() -> bytes:
        return f"{before}{item * count}{behind}".encode()

    return make


FRAMES = SPEEDSCOPE + '"shared":{"frames":[{"name":"a"}]},"profiles":[{'
SPANS = (
    '{"resourceSpans":[{"scopeSpans":[{"spans":[' + '{"startTimeUnixNano":1,"endTimeUnixNano":1},' * 99 + "{}]}]}]}\n"
)
LARGE: dict[str, tuple[str, Callable[[], bytes]]] = {
    "samples without weights": (
        "speedscope",
        repeated(FRAMES + '"type":"sampled","weights":[],"samples":[[]', ",[]", "]}]}"),
    ),
    "weights": ("speedscope", repeated(FRAMES + '"type":"sampled","samples":[],"weights":[0', ",0", "]}]}")),
    "frames": ("speedscope", repeated(SPEEDSCOPE + '"profiles":[],"shared":{"frames":[{}', ",{}", "]}}")),
    "numbers for profiles": (
        "speedscope",
        repeated(SPEEDSCOPE + '"shared":{"frames":[]},"profiles":[0', ",0", "]}", SLOW),
    ),
    "unknown members": (
        "speedscope",
        repeated(SPEEDSCOPE + '"x":[0', ",[]", '],"shared":{"frames":[]},"profiles":[]}'),
    ),
    "nodes": ("cpuprofile", repeated('{"nodes":[{"id":1,"callFrame":{}}', ',{"id":1,"callFrame":{}}', "]}", SLOW)),
    "nodes in nodes": ("cpuprofile", repeated('{"nodes":[{"id":1,"callFrame":{},"children":[1', ",2", "]}]}")),
    "samples of nodes": ("cpuprofile", repeated('{"nodes":[],"samples":[0', ",1", '],"timeDeltas":[]}')),
    "threads of a profile": ("gecko", repeated(GECKO_START + "{}", ",{}", "]}", SLOW)),
    "samples of a profile": ("gecko", repeated(GECKO_START + '{"samples":{"stack":[],"time":[0', ",0", "]}}]}")),
    "rows of a profile": (
        "gecko",
        repeated(GECKO_START + '{"samples":{"schema":{"stack":0,"time":1},"data":[[]', ",[]", "]}}]}"),
    ),
    "markers of a profile": ("gecko", repeated(GECKO_START + '{"markers":{"name":[0', ",0", '],"startTime":[]}}]}')),
    "stacks of a profile": ("gecko", repeated(GECKO_START + '{"stackTable":{"prefix":[0', ",0", '],"frame":[]}}]}')),
    "frames of a profile": ("gecko", repeated(GECKO_START + '{"frameTable":{"func":[0', ",0", "]}}]}")),
    "functions of a profile": ("gecko", repeated(GECKO_START + '{"funcTable":{"name":[0', ",0", "]}}]}")),
    "strings of a profile": ("gecko", repeated(GECKO_START + '{"stringArray":[""', ',""', "]}]}")),
    "counters of a profile": ("gecko", repeated(GECKO_START + '],"counters":[{}', ",{}", "]}", SLOW)),
    "frames of a line": ("tachyon", repeated('{"type":"frame_def","defs":[{"frame_id":1}', ',{"frame_id":1}', "]}")),
    "unknown members of events": ("chrome", repeated('{"traceEvents":[],"x":[0', ",{}", "]}")),
    "short arrays of events": ("chrome", repeated('{"x":0', ',"traceEvents":[{"x":"%s"}]' % ("x" * 200), "}")),
    "odd events between others": (
        "chrome",
        repeated('{"traceEvents":[0', ',{"x":NaN}' + ',{"x":"%s"}' % ("x" * 40) * 20, "]}"),
    ),
    "spans": ("otlp", repeated("", SPANS, "")),
    "values": ("pprof", lambda: profile_of(bytes_field(2, bytes_field(2, b"\x01" * 3 * MIB)))),
    "messages": ("pprof", lambda: profile_of(b"\x32\x00" * (SLOW // 2))),
    "labels": ("pprof", lambda: profile_of(bytes_field(2, b"\x1a\x00" * (SLOW // 2)))),
    "packets": ("perfetto", lambda: b"\x0a\x00" * (3 * MIB // 2)),
    "small packets": ("perfetto", lambda: trace_of(bytes_field(11, INSTANT)) * (3 * MIB // 10)),
    "fields of a packet": ("perfetto", lambda: trace_of(b"\x82\x02\x00" * MIB)),
    "annotations of an event": (
        "perfetto",
        lambda: trace_of(bytes_field(11, INSTANT + b"\x22\x00" * (3 * MIB // 2))),
    ),
    "annotations of events": ("perfetto", lambda: trace_of(bytes_field(11, INSTANT + b"\x22\x00" * 200)) * 1500),
    "flows": ("perfetto", lambda: trace_of(bytes_field(11, INSTANT + packed_field(36, range(MIB))))),
    "switches in columns": (
        "perfetto",
        lambda: trace_of(
            bytes_field(
                1, bytes_field(4, b"".join(bytes_field(field, b"\1" * (MIB // 2)) for field in (1, 2, 3, 4, 6)))
            )
        ),
    ),
    "sequences of packets": (
        "perfetto",
        lambda: b"".join(bytes_field(1, number_field(10, 1 + each) + b"\x62\x00") for each in range(MIB // 16)),
    ),
    "bytes that unpack to many": (
        "perfetto",
        lambda: trace_of(bytes_field(50, zlib.compress(trace_of(bytes_field(11, INSTANT)) * (3 * MIB)))),
    ),
    "lines of a location": (
        "pprof",
        lambda: profile_of(bytes_field(2, b"\x0a\x02\x01\x01\x12\x01\x01"), b"\x22\x00" * (SLOW // 2)),
    ),
}
"""Files of some 3 MiB, or `SLOW`, of which very much could be made."""

ONE_BY_ONE = {
    "numbers for profiles", "nodes", "threads of a profile", "counters of a profile", "messages", "labels",
    "lines of a location",
}  # fmt: skip
"""Those whose items are read one by one, which takes long: a sixth of the size, and of the memory."""


class Nothing:
    """Takes all rows of a timeline, and keeps none."""

    def __init__(self, _: Any) -> None:
        pass

    def enter(self, _: Any) -> None:
        """Take the rows of a batch."""


@pytest.mark.full
@pytest.mark.once
@pytest.mark.no_cover  # the same again and again, slow to measure
@pytest.mark.parametrize("kind", LARGE)
def test_memory_is_bounded(kind: str) -> None:
    name, make = LARGE[kind]
    data = make()
    most = 40 * MIB // (6 if kind in ONE_BY_ONE else 1)
    with memory(most), imported(data, name) as timeline:
        try:
            timeline.fold(Nothing, *timeline.table_names)
        except FxtioError:
            pytest.fail("it is sound, but large")
