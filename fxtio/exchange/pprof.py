"""The profiles of pprof: gzipped protobuf with the sums of samples, allocations and times of slices by stack.

A sample has a value for each type that the file has, such as `samples/count`.  Reading needs memory for the whole file.

https://github.com/google/pprof/blob/main/proto/profile.proto
"""

from __future__ import annotations

import zlib
from array import array
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import islice
from typing import Any, ClassVar

from fxtio.codec.protobuf import (
    MAX_VARINT,
    Wire,
    WireError,
    bytes_field,
    fields,
    number_field,
    numbers,
    packed_field,
    signed,
    varint,
)
from fxtio.exchange.collect import StackExporter, StackTexts
from fxtio.io.sink import Sink
from fxtio.io.source import Source, read_whole
from fxtio.table import MAX_TIME, Table
from fxtio.timeline.losses import plain
from fxtio.timeline.parts import Registry, TimelinePart
from fxtio.timeline.stacks import MAX_STACK_DEPTH, Stacks

NOT_CARRIED = (
    "times, and the order of samples and allocations; processors of samples",
    "of slices all but number and own time by stack and track, and places of functions: other arguments, states, ids",
    "instants, flows, counters, logs, scheduling",
)
"""The content of a timeline that a file does not have."""

_MESSAGES = {"sample_type": 1, "sample": 2, "mapping": 3, "location": 4, "function": 5, "string": 6}
_PROFILE = _MESSAGES | {"begin": 9, "default": 14}
_TYPE = {"type": 1, "unit": 2}
_SAMPLE = {"location": 1, "value": 2, "label": 3}
_LABEL = {"key": 1, "text": 2, "number": 3}
_MAPPING = {"id": 1, "file": 5, "has_functions": 7, "has_files": 8, "has_lines": 9}
_LOCATION = {"id": 1, "mapping": 2, "address": 3, "line": 4}
_LINE = {"function": 1, "line": 2}
_FUNCTION = {"id": 1, "name": 2, "system_name": 3, "file": 4, "start_line": 5}

_CONTENTS = {1: ({1, 2}, ()), 2: ({1, 2}, {1, 2, 3}), 3: ({*range(1, 11)}, ()), 4: ({1, 2, 3, 5}, {4})}
_CONTENTS |= {5: ({*range(1, 6)}, ()), 11: ({1, 2}, ())}
"""The fields of a profile that are messages: which of their fields are numbers, and which are packed or messages."""

_SINGLE = {7, 8, 9, 10, 12, 13, 14, 15}
"""The fields of a profile that are numbers."""

_NO_STRING = b"\x32\x00\x32"
"""The start of a profile that begins with its strings, of which the first is empty."""

_SAMPLES, _TIME, _CALLS, _OWN = (
    ("samples", "count"),
    ("time", "nanoseconds"),
    ("calls", "count"),
    ("self_time", "nanoseconds"),
)
_OBJECTS, _SPACE, _BYTES = ("alloc_objects", "count"), ("alloc_space", "bytes"), ("space", "bytes")
_NS = {"nanoseconds": 1, "microseconds": 10**3, "milliseconds": 10**6, "seconds": 10**9}
_UNITS = {"samples": _SAMPLES, "ns": _TIME, "bytes": _BYTES}

MAX_MESSAGES = 4_000_000
"""The most samples, locations, functions, strings and so on, all together."""

MAX_INLINED = 64
"""The most functions of one location that are shown; each is inlined in the next, and the innermost are cut off."""

_ROWS = 10_000
"""The number of samples that are written at once, or make a part of a timeline."""

_KNOWN = 1_000_000
"""The most locations on stacks that are remembered."""

_GOES_ON = bytes(range(1 << 7, 1 << 8))
"""The bytes of a number that is packed, except its last one."""


def sniff(head: bytes) -> bool:
    """Return whether this is a profile, whose fields may be in any order: all are known, and one is not empty."""
    says, has_string = False, False
    try:
        for number, kind, begin, end in fields(head):
            if number == _PROFILE["string"] and kind == Wire.BYTES:
                if not has_string and end > begin:  # the first string is empty
                    return False
                has_string = True
            elif number in _CONTENTS and kind == Wire.BYTES:
                numbers, messages = _CONTENTS[number]
                for field, wire, _, _ in fields(head, begin, end):
                    if not ((wire == Wire.VARINT and field in numbers) or (wire == Wire.BYTES and field in messages)):
                        return False
                    says = True
            elif kind != Wire.VARINT or number not in _SINGLE:
                return False
    except WireError:  # the head ends within a field
        pass
    return says or head.startswith(_NO_STRING)


def parts(source: Source, registry: Registry, tables: Set[str]) -> Iterator[TimelinePart]:
    """Read a file, and yield its samples and allocations, see `fxtio.formats.TimelineRoom.parts`.

    Raises:
        FormatError: the file is too large, or its compressed data is damaged.
    """
    yield from _Importer(read_whole(source), registry).parts()


class _Importer:
    """A profile in memory: where its messages are, and what they mean."""

    def __init__(self, data: bytearray, registry: Registry) -> None:
        self._data = data
        self._registry = registry
        self._stacks = Stacks(registry)
        self._found = {name: array("Q") for name in _MESSAGES}  # where the messages of each kind begin and end
        found = {_PROFILE[name]: places for name, places in self._found.items()}
        single: dict[int, int] = {}
        left = MAX_MESSAGES
        for number, kind, begin, end in self._fields(0, len(data)):
            if kind == Wire.VARINT and number in _SINGLE:
                single[number] = begin
            elif kind == Wire.BYTES and number in found:
                if not left:
                    self._registry.losses[f"what comes after the first {MAX_MESSAGES:,} messages"] += 1
                    break
                left -= 1
                found[number].extend((begin, end))
        registry.note_wall_clock(single.get(_PROFILE["begin"]) or None)
        self._default = single.get(_PROFILE["default"], 0)
        self._modules = {each["id"]: each["file"] for each in self._messages("mapping", _MAPPING)}
        self._functions = self._places_of("function", _FUNCTION["id"])
        self._locations = self._places_of("location", _LOCATION["id"])
        self._frames_of: dict[int, list[int]] = {}  # of each location that was used
        self._on: dict[tuple[int, int], int] = {}  # the stack of a location on a stack
        self._threads: dict[tuple[Any, ...], int] = {}

    def _places_of(self, kind: str, field: int) -> dict[int, int]:
        """Return the numbers of the messages of a kind by their ids."""
        places: dict[int, int] = {}
        for place, (begin, end) in enumerate(self._pairs(kind)):
            places[self._message(begin, end, {"id": field})["id"]] = place
        return places

    def _pairs(self, kind: str) -> Iterator[tuple[int, int]]:
        """Yield where the messages of a kind begin and end."""
        each = iter(self._found[kind])
        return zip(each, each, strict=True)

    def _place(self, kind: str, place: int) -> tuple[int, int]:
        """Return where the message of a kind with a number begins and ends."""
        begin, end = self._found[kind][2 * place : 2 * place + 2]
        return begin, end

    def parts(self) -> Iterator[TimelinePart]:
        """Yield the samples and allocations."""
        types = [
            (self._text(each["type"]) or "", self._text(each["unit"]) or "")
            for each in self._messages("sample_type", _TYPE)
        ]
        plan = _Plan(types, self._text(self._default))
        self._registry.shown_unit = plan.shown_unit
        found = self._pairs("sample")
        while places := [*islice(found, _ROWS)]:
            rows = [self._sample(begin, end, len(types)) for begin, end in places]
            yield TimelinePart(tables=self._tables(plan, [row for row in rows if row is not None]))

    def _tables(self, plan: _Plan, rows: list[tuple[int, int, int, list[int]]]) -> dict[str, Any]:
        """Return the rows of tables for samples: thread, stack, class of objects, values."""
        samples = []
        allocations = []
        names = self._registry.names
        units = [(column, factor, names.code(unit)) for column, factor, unit in plan.samples]
        for thread, stack, cls, values in rows:
            for column, factor, unit in units:
                if values[column]:
                    samples.append((thread, stack, _bounded(values[column] * factor), unit))
            if plan.allocations:
                count, size = (values[column] for column in plan.allocations)
                if count or size:
                    allocations.append((thread, stack, cls, count, size))
        tables: dict[str, Any] = self._stacks.new_tables()
        if samples:
            columns = ["thread", "stack", "count", "unit"]
            tables["samples"] = self._registry.columns_of_rows("samples", samples, columns, time=0, cpu=-1)
        if allocations:
            columns = ["thread", "stack", "type", "count", "size"]
            tables["allocations"] = self._registry.columns_of_rows("allocations", allocations, columns, time=0)
        return tables

    def _sample(self, begin: int, end: int, count: int) -> tuple[int, int, int, list[int]] | None:
        """Return thread, stack, class and values of a sample, None if it has another number of values."""
        locations, values = bytearray(), list[int]()
        known: dict[str, Any] = {}
        for number, kind, at, to in self._fields(begin, end):
            if number == _SAMPLE["location"]:
                locations += self._data[at:to] if kind == Wire.BYTES else varint(at)
            elif number == _SAMPLE["value"]:
                if len(values) > count or (kind == Wire.BYTES and to - at > MAX_VARINT * count):
                    break  # there are more values than types
                values += self._numbers(self._data, at, to) if kind == Wire.BYTES else [at]
            elif number == _SAMPLE["label"] and kind == Wire.BYTES:
                self._label(known, self._message(at, to, _LABEL))
        if len(values) != count:
            self._registry.losses["samples without a value for each type"] += 1
            return None
        cls = self._registry.names.code(known.pop("type", None))
        return self._thread(known) if known else -1, self._stack(bytes(locations)), cls, list(map(signed, values))

    def _label(self, known: dict[str, Any], label: Mapping[str, int]) -> None:
        """Add what a label says of a sample."""
        key = self._text(label["key"])
        if key in ("thread", "process", "type"):
            known[key] = self._text(label["text"])
        elif key == "track":  # what has no thread
            known["thread"] = self._text(label["text"])
        elif key in ("tid", "pid"):
            known[key] = signed(label["number"])
        else:
            self._registry.losses["labels of samples"] += 1

    def _thread(self, known: Mapping[str, Any]) -> int:
        """Return the row of the thread that labels name."""
        values = tuple(known.get(each) for each in ("pid", "tid", "process", "thread"))
        thread = self._threads.get(values)
        if thread is None:
            pid, tid, process, name = values
            self._registry.process(pid or 0, process)
            tid = len(self._threads) + 1 if tid is None else tid
            thread = self._threads[values] = self._registry.thread(pid or 0, tid, name)
        return thread

    def _stack(self, locations: bytes) -> int:
        """Return the number of the stack of packed locations, the innermost first."""
        packed = locations[-MAX_VARINT * MAX_STACK_DEPTH :]
        if len(packed) < len(locations):
            self._registry.losses["stacks beyond the limits, which are cut"] += 1
            packed = packed.lstrip(_GOES_ON)[1:]
        stack = -1
        for location in reversed(self._numbers(packed, 0, len(packed))):
            key = (stack, location)
            inner = self._on.get(key)
            if inner is None:
                inner = stack
                for frame in self._frames(location):
                    inner = self._stacks.on(inner, frame)
                if len(self._on) < _KNOWN and location in self._frames_of:
                    self._on[key] = inner
            stack = inner
        return stack

    def _frames(self, location: int) -> list[int]:
        """Return the frames of a location, the outermost first."""
        frames = self._frames_of.get(location)
        if frames is None:
            if location not in self._locations:
                self._registry.losses["frames of samples that are not defined"] += 1
                return []
            begin, end = self._place("location", self._locations[location])
            values = self._message(begin, end, _LOCATION)
            module = self._text(self._modules.get(values["mapping"], 0))
            lines = deque[tuple[int, int]](maxlen=MAX_INLINED + 1)
            for number, kind, at, to in self._fields(begin, end):
                if number == _LOCATION["line"] and kind == Wire.BYTES:
                    lines.append((at, to))
            if len(lines) > MAX_INLINED:
                lines.popleft()
                self._registry.losses[f"locations of more than {MAX_INLINED} functions, which are cut"] += 1
            messages = [self._message(at, to, _LINE) for at, to in reversed(lines)] or [{}]
            frames = [self._frame(line, module, values["address"]) for line in messages]
            self._frames_of[location] = frames
        return frames

    def _frame(self, line: Mapping[str, int], module: str | None, address: int) -> int:
        identity = line.get("function", 0)
        name = file = None
        if identity in self._functions:
            function = self._message(*self._place("function", self._functions[identity]), _FUNCTION)
            name = self._text(function["name"]) or self._text(function["system_name"])
            file = self._text(function["file"])
        elif identity:
            self._registry.losses["functions of frames that are not defined"] += 1
        number = signed(line.get("line", 0))
        return self._stacks.frame(name, module, file, number if number > 0 else -1, address)

    def _messages(self, kind: str, layout: Mapping[str, int]) -> Iterator[dict[str, int]]:
        return (self._message(begin, end, layout) for begin, end in self._pairs(kind))

    def _message(self, begin: int, end: int, layout: Mapping[str, int]) -> dict[str, int]:
        """Return the numbers of a message by their names; 0 for those that it does not have."""
        values = dict.fromkeys(layout.values(), 0)
        for number, kind, value, _ in self._fields(begin, end):
            if kind == Wire.VARINT and number in values:
                values[number] = value
        return {name: values[number] for name, number in layout.items()}

    def _fields(self, begin: int, end: int) -> Iterator[tuple[int, Wire, int, int]]:
        try:
            yield from fields(self._data, begin, end)
        except WireError:
            self._registry.losses["messages that are cut or damaged"] += 1

    def _numbers(self, data: bytes | bytearray, begin: int, end: int) -> list[int]:
        try:
            return numbers(data, begin, end)
        except WireError:
            self._registry.losses["messages that are cut or damaged"] += 1
            return []

    def _text(self, index: int) -> str | None:
        """Return a string; None if it is empty or not defined."""
        if index >= len(self._found["string"]) // 2:
            self._registry.losses["strings that are not defined"] += 1
            return None
        begin, end = self._place("string", index)
        return self._data[begin:end].decode("utf-8", "surrogateescape") or None


class _Plan:
    """The table that each value of a sample goes to.

    Args:
        types: the types of values.
        default: the type that is to be shown, None for the last one.

    Attributes:
        samples: for each value that becomes a row of `samples`: its place, its factor, and the unit.
        allocations: the places of the number and of the bytes of allocated objects, or None.
        shown_unit: the unit of the samples that are to be shown, None if there are none.
    """

    def __init__(self, types: Sequence[tuple[str, str]], default: str | None) -> None:
        is_split = {_OBJECTS, _SPACE} <= {*types} and default not in (_OBJECTS[0], _SPACE[0])
        self.allocations = (types.index(_OBJECTS), types.index(_SPACE)) if is_split else None
        self.shown_unit: str | None = None
        self.samples: list[tuple[int, int, str]] = []
        units: set[str] = set()
        for column, (kind, unit) in enumerate(types):
            if self.allocations is not None and column in self.allocations:
                continue
            factor = 1
            name = f"{kind}/{unit}"
            if unit in _NS and "ns" not in units:
                factor, name = _NS[unit], "ns"
            elif unit == "count" and kind not in units:
                name = kind
            elif (kind, unit) == _BYTES:
                name = "bytes"
            units.add(name)
            self.samples.append((column, factor, name))
            if default not in [each for each, _ in types[:column]]:  # the first of this type, or else the last one
                self.shown_unit = name


def _bounded(value: int) -> int:
    return max(min(value, MAX_TIME), -MAX_TIME)


class Exporter(StackExporter):
    """Writes a timeline as a profile of pprof, see `fxtio.formats.Exporter`.

    The values are those of samples for each of their units, the number and bytes of allocations, and the number and own
    time of slices.
    """

    LOST = ("slices.id", "samples.time", "samples.cpu", "allocations.time")
    SUMS: ClassVar = {
        "samples": (("unit", "thread", "stack"), ("count",)),
        "allocations": (("thread", "stack", "type"), ("count", "size")),
    }

    def __init__(self, sink: Sink, registry: Registry) -> None:
        super().__init__(sink, registry)
        self._out = _Out(sink, self.losses)

    def finish(self) -> None:
        """Write the file."""
        samples, allocations = (sums.table() for sums in self._sums.values())
        slices = self._slices.table()
        names = self._registry.names.values
        units = [*dict.fromkeys(samples["unit"].tolist())]
        types = [self._type(names[unit] if unit >= 0 else "") for unit in units]
        types += [_OBJECTS, _SPACE] * bool(allocations.num_rows) + [_CALLS, _OWN] * bool(slices.num_rows)
        out = self._out
        for kind, unit in types:
            text = number_field(_TYPE["type"], out.string(kind)) + number_field(_TYPE["unit"], out.string(unit))
            out.message("sample_type", text)
        threads, tracks = self._thread_labels()
        stacks = _Locations(out, self._whole.table("stacks"), [*self._whole.table("frames").rows()])
        place = {unit: column for column, unit in enumerate(units)}
        for row in samples.rows():
            values = {place[row["unit"]]: row["count"]}
            out.sample(stacks.of(row["stack"]), values, len(types), threads[row["thread"]])
        for row in allocations.rows():
            label = self._label("type", text=names[row["type"]]) if row["type"] >= 0 else b""
            values = {len(units): row["count"], len(units) + 1: row["size"]}
            out.sample(stacks.of(row["stack"]), values, len(types), threads[row["thread"]] + label)
        own = self._slices.stacks.new_tables()
        if own:
            frames = [self._places.with_place(row) for row in Table(own["frames"]).rows()]
            for frame in frames:  # a slice is known to run in its function only
                frame["start_line"] = frame["line"]
            stacks = _Locations(out, Table(own["stacks"]), frames, stacks.count)
        for row in slices.rows():
            values = {len(types) - 2: row["count"], len(types) - 1: row["self_time"]}
            out.sample(stacks.of(row["stack"]), values, len(types), tracks[row["track"]])
        out.finish()

    def _type(self, unit: str) -> tuple[str, str]:
        kind, slash, of = unit.partition("/")
        return _UNITS.get(unit) or ((kind, of) if slash else (unit, "count"))

    def _thread_labels(self) -> tuple[list[bytes], list[bytes]]:
        """Return the labels of each thread and of each track; the last are those of -1."""
        tables = self._registry.tables()
        processes = [*tables["processes"].rows()]
        threads = []
        for row in tables["threads"].rows():
            process = processes[row["process"]]
            label = self._label("tid", number=row["tid"]) + self._label("pid", number=process["pid"])
            label += self._label("thread", text=row["name"]) + self._label("process", text=process["name"])
            threads.append(label)
        tracks = [
            threads[row["thread"]] if row["thread"] >= 0 else self._label("track", text=row["name"] or row["kind"])
            for row in tables["tracks"].rows()
        ]
        return [*threads, b""], [*tracks, b""]

    def _label(self, key: str, text: str | None = None, number: int = 0) -> bytes:
        if text is None and not number:
            return b""
        data = number_field(_LABEL["key"], self._out.string(key)) + number_field(_LABEL["number"], number)
        if text:
            data += number_field(_LABEL["text"], self._out.string(text))
        return bytes_field(_SAMPLE["label"], data)


class _Locations:
    """The locations of stacks; frames and modules are written when they are first needed.

    Args:
        out: takes them.
        stacks: the table `stacks`.
        frames: the rows of the table `frames`, perhaps with `start_line`, the line at which the function begins.
        first: the number of locations that were written before.
    """

    def __init__(self, out: _Out, stacks: Table, frames: Sequence[Mapping[str, Any]], first: int = 0) -> None:
        self.count = first + len(frames)
        self._stacks = StackTexts(stacks, [varint(first + number + 1) for number in range(len(frames))], out.losses)
        for number, row in enumerate(frames, first + 1):
            out.location(number, row)

    def of(self, stack: int) -> bytes:
        """Return the packed ids of the locations of a stack, the innermost first."""
        return b"".join(reversed(self._stacks.frames(stack)))


class _Out:
    """A profile that is being written: compresses messages and numbers strings, functions and modules.

    Args:
        sink: where to write.
        losses: those of the exporter, an attribute as well.
    """

    def __init__(self, sink: Sink, losses: Counter[str]) -> None:
        self._sink = sink
        self.losses = losses
        self._deflate = None if sink.compression else zlib.compressobj(6, wbits=31)  # with the header of gzip
        self._pending: list[bytes] = []
        self._strings: dict[str, int] = {"": 0}
        self._modules: dict[str, int] = {}
        self._functions: dict[tuple[str | None, str | None, int], int] = {}

    def string(self, text: str) -> int:
        """Return the index of a string."""
        return self._strings.setdefault(plain(text, self.losses), len(self._strings))

    def message(self, kind: str, data: bytes) -> None:
        """Write a message of the profile."""
        self._pending.append(bytes_field(_PROFILE[kind], data))
        if len(self._pending) >= _ROWS:
            self._flush()

    def _flush(self) -> None:
        data = b"".join(self._pending)
        self._pending.clear()
        self._sink.write(data if self._deflate is None else self._deflate.compress(data))

    def sample(self, locations: bytes, values: Mapping[int, int], count: int, labels: bytes) -> None:
        """Write a sample; values that are not given are 0."""
        packed = packed_field(_SAMPLE["value"], [values.get(column, 0) for column in range(count)])
        self.message("sample", bytes_field(_SAMPLE["location"], locations) + packed + labels)

    def location(self, number: int, frame: Mapping[str, Any]) -> None:
        """Write a location, and its function and module if they are new."""
        data = number_field(_LOCATION["id"], number) + number_field(_LOCATION["address"], frame["address"])
        if frame["module"]:
            data += number_field(_LOCATION["mapping"], self._module(frame["module"]))
        if frame["name"] or frame["file"] or frame["line"] > 0:
            begin = max(frame.get("start_line", 0), 0)
            line = number_field(_LINE["function"], self._function(frame["name"], frame["file"], begin))
            line += number_field(_LINE["line"], max(frame["line"], 0))
            data += bytes_field(_LOCATION["line"], line)
        self.message("location", data)

    def _module(self, name: str) -> int:
        number = self._modules.get(name)
        if number is None:
            number = self._modules[name] = len(self._modules) + 1
            data = number_field(_MAPPING["id"], number) + number_field(_MAPPING["file"], self.string(name))
            for flag in ("has_functions", "has_files", "has_lines"):
                data += number_field(_MAPPING[flag], 1)
            self.message("mapping", data)
        return number

    def _function(self, name: str | None, file: str | None, line: int) -> int:
        number = self._functions.get((name, file, line))
        if number is None:
            number = self._functions[name, file, line] = len(self._functions) + 1
            data = number_field(_FUNCTION["id"], number) + number_field(_FUNCTION["name"], self.string(name or ""))
            data += number_field(_FUNCTION["file"], self.string(file or ""))
            self.message("function", data + number_field(_FUNCTION["start_line"], line))
        return number

    def finish(self) -> None:
        """Write the strings, and what is left."""
        for text in self._strings:
            self.message("string", text.encode())
        self._flush()
        if self._deflate is not None:
            self._sink.write(self._deflate.flush())
