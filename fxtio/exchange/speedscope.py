"""Speedscope JSON: spans as profiles of begins and ends, samples and allocations as profiles of weighted stacks.

A file has one list of frames, and a profile for each thread or other track, and for each unit of samples.  A profile is
`evented` or `sampled`.  Both directions need memory for the whole file; what is read of it is decoded piece by piece.

https://www.speedscope.app/file-format-schema.json
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Set
from itertools import accumulate, islice, pairwise
from typing import Any, ClassVar

import msgspec
import numpy as np

from fxtio._native.constants import SpanStep
from fxtio.arrays import Array
from fxtio.errors import FormatError
from fxtio.exchange.collect import StackExporter, StackTexts, label, thread_titles, track_titles
from fxtio.exchange.json_columns import EXACT, as_decimal
from fxtio.exchange.json_events import UNREADABLE, VALUE, Objects, is_array, items, objects_in
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


_DIGITS = {"nanoseconds": 0, "microseconds": 3, "milliseconds": 6, "seconds": 9}
"""The digits after the point down to nanoseconds, by the unit."""

_MAX_EXACT = 1 << 53
"""Readers in JavaScript know whole numbers exactly up to this one."""

_ROWS = 50_000
"""The number of events or samples that are read or formatted at once."""

MAX_PROFILES = 50_000
"""The most profiles that are read."""

_PROFILE = ("type", "name", "unit", "startValue", "events", "samples", "weights")
_EVENT = ("type", "frame", "at")
_STEPS = {"O": SpanStep.BEGIN, "C": SpanStep.END}
_NO_EVENT = "events without a usable type, frame or time"
_MOVED = "events that are earlier than the one before, which are moved"
_UNEQUAL = "samples without a weight, or weights without a sample"
_NO_FRAME = "frames of samples that are not defined"
_ROUNDED = "numbers that are not whole, which are rounded"
_LIMITED = "times and weights below 0 or too large, which are limited"


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
        importer = _Importer(registry, file, tables)
    except UNREADABLE as error:
        raise FormatError(f"{source.name} is not a whole file of speedscope JSON: {error}") from None
    for profiles in objects_in(file.profiles, _PROFILE, registry.losses):
        yield from importer.profiles(profiles)


class _Importer:
    def __init__(self, registry: Registry, file: _File, tables: Set[str]) -> None:
        self._registry = registry
        self._losses = registry.losses
        self._says_places = "args" in tables
        self._stacks = Stacks(registry)
        self._frames = self._read_frames(file.shared.frames)
        self._names: Array | None = None
        self._numbers: list[int] | None = None
        self._placed: set[int] = set()  # the frames of which a slice says where they are
        self._profiles = 0
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

    def profiles(self, profiles: Objects) -> Iterator[TimelinePart]:
        """Convert profiles, whose numbers are those of their threads."""
        left = MAX_PROFILES - self._profiles
        self._losses[f"profiles beyond the first {MAX_PROFILES:,}"] += max(len(profiles) - left, 0)
        values, codes = profiles.distinct(_PROFILE[:3], self._losses, _text)
        for row in range(min(len(profiles), left)):
            kind, name, unit = (values[each[row]] for each in codes)
            self._profiles += 1
            events, samples, weights = (profiles.text(each, row) for each in _PROFILE[4:])
            if kind == "evented" and is_array(events):
                yield from self._evented(events, unit or "none", name)
            elif kind == "sampled" and is_array(samples) and is_array(weights):
                start = profiles.text("startValue", row)
                yield from self._sampled(samples, weights, unit or "none", start, self._thread(name))
            else:
                self._losses["profiles that cannot be read"] += 1

    def _thread(self, name: str | None) -> int:
        return self._registry.thread(0, self._profiles, name or None)

    def _evented(self, events: bytes, unit: str, name: str | None) -> Iterator[TimelinePart]:
        if unit not in _DIGITS:
            self._losses[f"the unit {unit!r} of events, which is shown as ns"] += 1
        self._thread(name)
        track, latest = self._registry.thread_track(0, self._profiles), 0
        for objects in objects_in(events, _EVENT, self._losses):
            steps = self._steps(objects, _DIGITS.get(unit, 0), track, latest)
            latest = int(steps.time[-1])
            yield TimelinePart(steps, self._places(steps) if self._says_places else {})

    def _steps(self, events: Objects, digits: int, track: int, latest: int) -> Steps:
        """Convert events, whose times have this many digits, and are not before the latest time so far."""
        values, (kind, frame) = events.distinct(("type", "frame"), self._losses)
        # A frame that does not exist is the last one, that of no frame; its event has no effect.
        none = len(self._frames) - 1
        steps = [_STEPS.get(each, SpanStep.NONE) if isinstance(each, str) else SpanStep.NONE for each in values]
        frames = [each if type(each) is int and 0 <= each < none else none for each in values]
        step, number = np.array(steps, np.int8)[kind], np.array(frames, np.int64)[frame]
        time = self._times(events, "at", digits)
        is_wrong = (step == SpanStep.NONE) | (number == none) | (time < 0)
        self._losses[_NO_EVENT] += int(is_wrong.sum())
        step[is_wrong] = SpanStep.NONE
        # Steps on a track must not go back in time.
        in_order = np.maximum(np.maximum.accumulate(time), latest)
        self._losses[_MOVED] += int(((in_order != time) & ~is_wrong).sum())
        self._events += len(events)
        return Steps.of(
            self._events - len(events), step=step, track=np.full(len(events), track, np.int32), time=in_order,
            name=self._functions()[number], key=(number + 1).view(np.uint64), ticks=in_order.view(np.uint64),
        )  # fmt: skip

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

    def _sampled(self, samples: bytes, weights: bytes, unit: str, start: bytes, thread: int) -> Iterator[TimelinePart]:
        digits, none = _DIGITS.get(unit), np.empty(0, np.int32)
        stacks = np.concatenate([none, *map(self._stacks_of, objects_in(samples, (), self._losses))])
        weighed = objects_in(weights, (), self._losses)
        counts = np.concatenate([none, *(self._times(each, VALUE, digits or 0) for each in weighed)])
        both = min(len(stacks), len(counts))
        kept = np.flatnonzero(counts[:both] >= 0)
        self._losses[_UNEQUAL] += max(len(stacks), len(counts)) - len(kept)
        begin = 0 if digits is None else max(self._time(start, digits), 0)
        for first in range(0, len(kept), _ROWS):
            rows = kept[first : first + _ROWS]
            count, time = counts[rows], [0] * len(rows)
            if digits is not None:
                *time, begin = accumulate(count.tolist(), lambda *each: min(sum(each), MAX_TIME // 2), initial=begin)
            columns = {"time": time, "thread": thread, "cpu": -1, "stack": stacks[rows], "count": count}
            code = self._registry.names.code(_unit(unit))
            table = self._registry.columns("samples", {**columns, "unit": code})
            yield TimelinePart(tables={**self._stacks.new_tables(), "samples": table})

    def _stacks_of(self, samples: Objects) -> Array:
        """Return the numbers of the stacks of samples (int32)."""
        numbers, (codes,) = samples.distinct([VALUE], self._losses, self._stack)
        return np.array(numbers, np.int32)[codes]

    def _stack(self, frames: Any) -> int:
        """Return the number of a stack."""
        if self._numbers is None:
            self._numbers = [*map(self._frame, self._frames[:-1].tolist())]
        numbers, given = self._numbers, frames if isinstance(frames, list) else [None]
        right = [numbers[frame] for frame in given if type(frame) is int and 0 <= frame < len(numbers)]
        self._losses[_NO_FRAME] += len(given) - len(right)
        return self._stacks.stack(right)

    def _frame(self, frame: list[int]) -> int:
        values = self._registry.names.values
        name, file = (values[code] if code >= 0 else None for code in frame[:2])
        return self._stacks.frame(name, file=file, line=frame[2])

    def _times(self, objects: Objects, member: str, digits: int) -> Array:
        """Return numbers with this many digits after the point as integers (int64), -1 for what is no number."""
        times = objects.decimals(member, digits)
        unusual = np.flatnonzero((times < 0) | (digits == 0 and b"." in bytes(objects.data)))
        times[unusual] = [self._time(text, digits) for text in objects.texts(member, unusual)]
        return times

    def _time(self, text: bytes, digits: int) -> int:
        """Return a number with this many digits after the point as an integer, -1 for what is no number."""
        number = as_decimal(text)
        if number is None:
            return -1
        if not 0 <= number <= MAX_TIME // 10**digits:
            self._losses[_LIMITED] += 1
            return 0 if number < 0 else MAX_TIME
        whole = round(number.scaleb(digits, EXACT))
        self._losses[_ROUNDED] += digits == 0 and whole != number
        return whole


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _line(value: Any) -> int:
    """Return the line of a frame, -1 where it has none: py-spy writes 0 for that."""
    return int(value) if isinstance(value, int | float) and 0 < value < 1 << 31 else -1


def _unit(unit: str) -> str:
    if unit in _DIGITS:
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
