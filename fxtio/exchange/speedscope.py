"""Speedscope JSON: spans as profiles of begins and ends, samples and allocations as profiles of weighted stacks.

A file has one list of frames, and a profile for each thread or other track, and for each unit of samples.  A profile is
`evented` or `sampled`.  Both directions need memory for the whole file; what is read of it is decoded piece by piece.

https://www.speedscope.app/file-format-schema.json
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import accumulate, islice, pairwise, zip_longest
from typing import Any, ClassVar

import msgspec
import numpy as np

from fxtio._native.constants import SpanStep
from fxtio.arrays import Array
from fxtio.errors import FormatError
from fxtio.exchange.collect import StackExporter, StackTexts, label, thread_titles, track_titles
from fxtio.exchange.json_events import UNREADABLE, items, objects
from fxtio.io.sink import Sink
from fxtio.io.source import Source, read_whole
from fxtio.table import MAX_TIME, Table
from fxtio.timeline.answers.places import FILE, LINE, names_with_places
from fxtio.timeline.losses import plain
from fxtio.timeline.parts import Registry, Steps, TimelinePart
from fxtio.timeline.replay import nested_events
from fxtio.timeline.schema import ArgumentKind
from fxtio.timeline.stacks import MAX_FRAMES, Stacks

NOT_CARRIED = (
    "categories, arguments but the places of functions, states and ids of slices; addresses and modules of frames",
    "processes and threads, except in the titles of profiles",
    "times of samples and allocations, except their order; processors of samples",
    "types and numbers of allocated objects",
    "instants, flows, counters, logs, scheduling",
)
"""The content of a timeline that a file does not have."""

SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def sniff(head: bytes) -> bool:
    """Return whether a file that begins with these bytes is of this format."""
    return head.lstrip().startswith(b"{") and b"www.speedscope.app/file-format-schema" in head


_NS = {"nanoseconds": 1, "microseconds": 10**3, "milliseconds": 10**6, "seconds": 10**9}
_MAX_EXACT = 1 << 53
"""Readers in JavaScript know whole numbers exactly up to this one."""

_TOO_LARGE = 2.0**64
"""Larger numbers are read as this one, which is too large in every unit."""

_ROWS = 50_000
"""The number of events or samples that are read or formatted at once."""

MAX_PROFILES = 50_000
"""The most profiles that are read."""

_KNOWN = 4_000_000
"""The stacks that are remembered have this many frames at most, all together."""


class _Event(msgspec.Struct, gc=False):
    type: str
    frame: int
    at: int | float


class _Evented(msgspec.Struct, tag_field="type", tag="evented"):
    events: msgspec.Raw
    name: str = ""
    unit: str = "none"
    startValue: int | float = 0  # noqa: N815
    endValue: int | float | None = None  # noqa: N815


class _Sampled(msgspec.Struct, tag_field="type", tag="sampled"):
    samples: msgspec.Raw
    weights: msgspec.Raw
    name: str = ""
    unit: str = "none"
    startValue: int | float = 0  # noqa: N815


class _Frame(msgspec.Struct, gc=False):
    name: Any = None
    file: Any = None
    line: Any = None


class _Shared(msgspec.Struct):
    frames: msgspec.Raw


class _File(msgspec.Struct):
    shared: _Shared
    profiles: msgspec.Raw
    name: str | None = None


def parts(source: Source, registry: Registry, tables: Set[str]) -> Iterator[TimelinePart]:
    """Read a file, and yield the parts of each of its profiles, see `fxtio.formats.TimelineRoom.parts`.

    Raises:
        FormatError: the file is not speedscope JSON.
    """
    try:
        file = msgspec.json.decode(read_whole(source), type=_File)
        importer, profiles = _Importer(registry, file, tables), objects(file.profiles)
    except UNREADABLE as error:
        raise FormatError(f"{source.name} is not a whole file of speedscope JSON: {error}") from None
    for number, text in enumerate(islice(profiles, MAX_PROFILES)):
        try:
            profile: _Evented | _Sampled = msgspec.json.decode(text or b"", type=_Evented | _Sampled)
            yield from importer.parts(number, profile)
        except UNREADABLE:
            registry.losses["profiles that cannot be read"] += 1
    if next(profiles, None) is not None:
        registry.losses[f"what comes after the first {MAX_PROFILES:,} profiles"] += 1


class _Importer:
    def __init__(self, registry: Registry, file: _File, tables: Set[str]) -> None:
        self._registry = registry
        self._losses = registry.losses
        self._says_places = "args" in tables
        self._stacks = Stacks(registry)
        self._frames = self._read_frames(file.shared.frames)
        self._names: Array | None = None
        self._numbers: list[int] | None = None
        self._known: dict[tuple[int, ...], int] = {}
        self._known_frames = 0
        self._placed: set[int] = set()  # the frames of which a slice says where they are
        self._events = 0
        registry.process(0, file.name)

    def _read_frames(self, frames: msgspec.Raw) -> Array:
        """Return the codes of the name and the file of each frame, and its line; a last row is that of no frame."""
        code, known = self._registry.names.code, array("i")
        each = items(frames, _Frame)
        for frame in islice(each, MAX_FRAMES):
            known.extend((code(_text(frame.name)), code(_text(frame.file) or None), _line(frame.line)))
        self._losses[f"frames beyond the first {MAX_FRAMES:,}"] += sum(1 for _ in each)
        known.extend((-1, -1, -1))
        return np.array(known, np.int32).reshape(-1, 3)

    def _functions(self) -> Array:
        """Return the code of the name of the slices of each frame, which differ where functions of one name do."""
        if self._names is None:
            name, file, line = self._frames.T
            self._names = names_with_places(name, file, self._registry.names, line).astype(np.int32)
        return self._names

    def parts(self, number: int, profile: _Evented | _Sampled) -> Iterator[TimelinePart]:
        """Convert a profile, whose number is that of its thread."""
        thread = self._registry.thread(0, number + 1, profile.name or None)
        if isinstance(profile, _Sampled):
            yield from self._sampled(profile, thread)
            return
        if profile.unit not in _NS:
            self._losses[f"the unit {profile.unit!r} of events, which is shown as ns"] += 1
        track, latest, events = self._registry.thread_track(0, number + 1), 0, items(profile.events, _Event)
        while rows := [*islice(events, _ROWS)]:
            steps = self._steps(rows, _NS.get(profile.unit, 1), latest)
            steps.track[:], latest = track, int(steps.time[-1])
            yield TimelinePart(steps, self._places(steps) if self._says_places else {})

    def _steps(self, events: list[_Event], factor: int, latest: int) -> Steps:
        """Convert events, whose times are in a unit of this many ns, and are not before the latest time so far."""
        steps = Steps.blank(len(events), self._events)
        self._events += len(events)
        types = [event.type for event in events]
        is_begin = np.array([each == "O" for each in types], bool)
        frame = np.array([min(event.frame, MAX_TIME) if event.frame >= 0 else MAX_TIME for event in events], np.int64)
        # A frame that does not exist is `MAX_TIME`, which no list of frames reaches; its event has no effect.
        none = len(self._frames) - 1
        is_right = (frame < none) & (is_begin | np.array([each == "C" for each in types], bool))
        self._losses["events with an unknown type or frame"] += int((~is_right).sum())
        time = self._times([event.at for event in events], factor)
        # Steps on a track must not go back in time.
        in_order = np.maximum(np.maximum.accumulate(time), latest)
        self._losses["events that are earlier than the one before, which are moved"] += int((in_order != time).sum())
        steps.time = in_order
        steps.step = np.where(is_begin, np.int8(SpanStep.BEGIN), np.int8(SpanStep.END))
        steps.step[~is_right] = SpanStep.NONE
        steps.name = self._functions()[np.where(is_right, frame, none)]
        steps.key = (frame + 1).view(np.uint64)
        steps.ticks = in_order.view(np.uint64)
        return steps

    def _places(self, steps: Steps) -> dict[str, dict[str, Any]]:
        """Return the table of arguments: the first slice of each frame has its file and its line."""
        begins = np.flatnonzero(steps.step == SpanStep.BEGIN)
        used, first = np.unique(steps.key[begins].view(np.int64) - 1, return_index=True)
        code, rows = self._registry.names.code, []
        for number, event in zip(used.tolist(), steps.event[begins[first]].tolist(), strict=True):
            if number in self._placed:
                continue
            self._placed.add(number)
            _, file, line = self._frames[number].tolist()
            if file >= 0:
                rows.append((event, code(FILE), ArgumentKind.TEXT, 0, file))
            if line >= 0:
                rows.append((event, code(LINE), ArgumentKind.INTEGER, line, -1))
        if not rows:
            return {}
        return {"args": self._registry.columns_of_rows("args", rows)}

    def _sampled(self, profile: _Sampled, thread: int) -> Iterator[TimelinePart]:
        samples, weights = items(profile.samples, list[int]), items(profile.weights, float | int)  # type: ignore[arg-type]
        factor = _NS.get(profile.unit, 0)
        begin = int(self._times([profile.startValue], factor)[0]) if factor else 0
        pairs = zip_longest(samples, weights)
        while pairs_of_part := [*islice(pairs, _ROWS)]:
            whole = [(frames, weight) for frames, weight in pairs_of_part if frames is not None and weight is not None]
            self._losses["samples without a weight, or weights without a sample"] += len(pairs_of_part) - len(whole)
            count = self._times([weight for _, weight in whole], factor or 1)
            time: Any = 0
            if factor:
                *time, begin = accumulate(count.tolist(), lambda *each: min(sum(each), MAX_TIME // 2), initial=begin)
            stack = np.array([self._stack(frames) for frames, _ in whole], np.int32)
            columns = {"time": time, "thread": thread, "cpu": -1, "stack": stack, "count": count}
            unit = self._registry.names.code(_unit(profile.unit))
            rows = self._registry.columns("samples", {**columns, "unit": unit})
            yield TimelinePart(tables={**self._stacks.new_tables(), "samples": rows})

    def _stack(self, frames: list[int]) -> int:
        """Return the number of a stack."""
        key = tuple(frames)
        number = self._known.get(key)
        if number is None:
            if self._numbers is None:
                self._numbers = [*map(self._frame, self._frames[:-1].tolist())]
            numbers = self._numbers
            right = [numbers[frame] for frame in frames if 0 <= frame < len(numbers)]
            self._losses["frames of samples that are not defined"] += len(frames) - len(right)
            number = self._stacks.stack(right)
            self._known_frames += len(frames) + 1
            if self._known_frames <= _KNOWN:
                self._known[key] = number
        return number

    def _frame(self, frame: list[int]) -> int:
        values = self._registry.names.values
        name, file = (values[code] if code >= 0 else None for code in frame[:2])
        return self._stacks.frame(name, file=file, line=frame[2])

    def _times(self, values: Sequence[float], factor: int) -> Array:
        """Return numbers in a unit of this many ns as ns, or as they are (int64)."""
        array = np.array(values)
        result = np.empty(len(array), np.int64)
        if array.dtype.kind == "i":
            result[:] = np.clip(array, 0, MAX_TIME // factor)
            wrong = result != array
            result *= factor
        else:
            if array.dtype.kind == "O":  # integers of more than 64 bits, of which some are too large for a double
                array = np.array([min(max(value, -_TOO_LARGE), _TOO_LARGE) for value in values])
            array = np.clip(array.astype(np.float64), -_TOO_LARGE, _TOO_LARGE)
            scaled = np.rint(array * factor)
            wrong = (scaled < 0) | (scaled >= MAX_TIME)
            if factor == 1:
                self._losses["numbers that are not whole, which are rounded"] += int((scaled != array).sum())
            result[:] = np.where(wrong, 0, scaled)
            result[wrong & (scaled > 0)] = MAX_TIME
        self._losses["times and weights below 0 or too large, which are limited"] += int(wrong.sum())
        return result


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _line(value: Any) -> int:
    """Return the line of a frame, -1 where it has none: py-spy writes 0 for that."""
    return int(value) if isinstance(value, int | float) and 0 < value < 1 << 31 else -1


def _unit(unit: str) -> str:
    if unit in _NS:
        return "ns"
    return "samples" if unit == "none" else unit


class Exporter(StackExporter):
    """Writes a timeline as speedscope JSON, see `fxtio.formats.Exporter`.

    Args:
        sink: where to write.
        registry: the names, threads and tracks.
        name: the name of the file.
        unnamed: the title of samples without a thread.
    """

    LOST = (
        "slices.category",
        "samples.time",
        "allocations.time",
        "samples.cpu",
        "allocations.type",
        "frames.module",
        "frames.address",
    )
    KEPT: ClassVar = {
        "slices": ("id", "start", "duration", "depth", "track", "name"),
        "samples": ("time", "thread", "stack", "count", "unit"),
        "allocations": ("time", "thread", "stack", "size"),
        "stacks": None,
        "frames": None,
    }

    def __init__(self, sink: Sink, registry: Registry, *, name: str = "trace", unnamed: str = "samples") -> None:
        super().__init__(sink, registry)
        self._name = name
        self._unnamed = unnamed
        self._is_first = True

    def finish(self) -> None:
        """Write the file."""
        tables = self._registry.tables()
        slices, frames = self._whole.table("slices"), self._whole.table("frames")
        names, frame_of_slice = np.unique(slices["name"].codes, return_inverse=True)
        texts = [self._registry.names.values[code] if code >= 0 else "" for code in names.tolist()]
        rows = [*frames.rows(), *(self._places.with_place({"name": text, "address": 0}) for text in texts)]
        self._write_head(_frame_json(row, self.losses) for row in rows)
        self._evented(slices, frame_of_slice + frames.num_rows, track_titles(tables, self.losses))
        samples, allocations = self._whole.table("samples"), self._whole.table("allocations")
        if samples.num_rows or allocations.num_rows:
            stacks = _StackLists(self._whole.table("stacks"), frames.num_rows, self.losses)
            titles = [
                *thread_titles(tables, self.losses),
                self._unnamed,
            ]  # the last one is that of samples without a thread, -1
            self._sampled(samples, samples["unit"].codes, samples["count"], stacks, titles)
            unit = np.full(allocations.num_rows, self._registry.names.code("bytes"), np.int32)
            self._sampled(allocations, unit, allocations["size"], stacks, [*titles[:-1], "allocations"])
        self._write("]}\n")

    def _write(self, text: str) -> None:
        self._sink.write(text.encode("utf-8"))

    def _write_head(self, frames: Iterable[str]) -> None:
        self._write(f'{{"$schema":"{SCHEMA}","exporter":"fxtio","name":{_json(self._name)},"activeProfileIndex":0,')
        self._write(f'"shared":{{"frames":[{",".join(frames)}]}},"profiles":[')

    def _write_profile(self, type: str, name: str, unit: str, begin: int, end: int) -> None:
        """Begin a profile; its contents follow."""
        comma = "" if self._is_first else ","
        self._is_first = False
        head = f'{{"type":"{type}","name":{_json(name)},"unit":"{unit}","startValue":{begin},"endValue":{end}'
        self._write(f"{comma}\n{head}")

    def _evented(self, slices: Table, frames: Array, titles: list[str]) -> None:
        """Write a profile for each track."""
        if not slices.num_rows:
            return
        events = nested_events(slices)
        self.losses["slices that end after the slice around them, which are cut"] += events.cut
        origin = 0
        if int(events.time.max()) >= _MAX_EXACT:
            origin = int(events.time.min())
            self.losses["times beyond 2^53 ns, which are counted from the first slice"] += 1
        tracks = slices["track"][events.row]
        borders = np.concatenate([[0], np.flatnonzero(np.diff(tracks)) + 1, [len(tracks)]]).tolist()
        for begin, end in pairwise(borders):
            time = events.time[begin:end] - origin
            self._write_profile("evented", titles[tracks[begin]], "nanoseconds", int(time[0]), int(time[-1]))
            self._write(',"events":[')
            frame, is_end = frames[events.row[begin:end]], events.is_end[begin:end]
            for row in range(0, len(time), _ROWS):
                rows = slice(row, row + _ROWS)
                self._write("," * bool(row) + _events_json(is_end[rows], frame[rows], time[rows]))
            self._write("]}")

    def _sampled(self, table: Table, units: Array, weights: Array, stacks: _StackLists, titles: list[str]) -> None:
        """Write a profile for each thread and unit."""
        thread = table["thread"]
        # The rows of a unit and thread are together, in the order of time.
        order = np.lexsort((table["time"], thread, units))
        borders = np.flatnonzero(np.diff(units[order]) | np.diff(thread[order])) + 1
        for rows in np.split(order, borders) if len(order) else ():
            unit = self._registry.names.values[units[rows[0]]]
            negative = int((weights[rows] < 0).sum())
            self.losses["negative weights of samples, which are left out"] += negative
            rows = rows[weights[rows] >= 0]
            if not len(rows):
                continue
            begin = int(table["time"][rows[0]]) if unit == "ns" else 0
            weight = weights[rows].tolist()
            title = titles[thread[rows[0]]]
            if unit not in ("samples", "ns", "bytes"):
                title = f"{title}: {plain(unit, self.losses)}"
            if unit == "ns" and begin + sum(weight) >= _MAX_EXACT:
                self.losses["times beyond 2^53 ns, which are counted from the first sample"] += 1
                begin = 0
            self._write_profile("sampled", title, _UNITS.get(unit, "none"), begin, begin + sum(weight))
            self._write(',"samples":[')
            for row in range(0, len(rows), _ROWS):
                stack = table["stack"][rows[row : row + _ROWS]].tolist()
                self._write("," * bool(row) + ",".join(map(stacks.text, stack)))
            self._write(f'],"weights":[{",".join(map(str, weight))}]}}')


_UNITS = {"ns": "nanoseconds", "bytes": "bytes"}


class _StackLists:
    """The frames of stacks as lists in JSON."""

    def __init__(self, stacks: Table, frames: int, losses: Counter[str]) -> None:
        self._texts = StackTexts(stacks, [*map(str, range(frames))], losses)
        self._lists: dict[int, str] = {}

    def text(self, stack: int) -> str:
        """Return the list of a stack, the outermost frame first."""
        text = self._lists.get(stack)
        if text is None:
            text = self._lists[stack] = f"[{','.join(self._texts.frames(stack))}]"
        return text


def _json(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _frame_json(frame: dict[str, Any], losses: Counter[str]) -> str:
    result: dict[str, Any] = {"name": label(frame, losses)}
    if frame.get("file"):
        result["file"] = plain(frame["file"], losses)
        if frame["line"] >= 0:
            result["line"] = frame["line"]
    return msgspec.json.encode(result).decode()


def _events_json(is_end: Array, frame: Array, time: Array) -> str:
    """Return events as items of a list in JSON."""
    values = np.empty((len(time), 3), object)
    values[:, 0] = np.where(is_end, "C", "O")
    values[:, 1] = frame
    values[:, 2] = time
    template = '{"type":"%s","frame":%d,"at":%d}'
    return ",".join([template] * len(time)) % tuple(values.ravel())
