"""The content that formats deliver to a timeline, batch by batch: steps on tracks, rows of other tables, names.

The room `timeline` of a format reads its trace and yields a `TimelinePart` for each batch.  It numbers names,
processes, threads and tracks with a `Registry`, whose numbers are valid for the whole reading.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from fxtio.arrays import Array, ArrayRows
from fxtio.codec.integers import MAX_INT64
from fxtio.report import well_formed
from fxtio.schema import TEXT
from fxtio.table import Categories, Column, Table
from fxtio.timeline.schema import LABELS, PASSING, TABLES, TrackKind, column_of, empty_columns

MAX_TRACKS = 1_000_000
"""The most tracks of a timeline; the events of all further ones are shown on one track."""

MAX_LABELS = 1_000
"""The most labels of a timeline; further ones are left out."""

MAX_LABEL_NAME, MAX_LABEL = 200, 2_000
"""The most characters of the name and of the text of a label; longer ones are cut."""

MAX_PROCESSES = 200_000
"""The most processes of a timeline; all further ones are shown as the last one."""

MAX_THREADS = 1_000_000
"""The most threads of a timeline; all further ones are shown as the last one."""

MAX_NAMES = 4_000_000
"""The most distinct names of a timeline; further ones are replaced by `OTHER`."""

REALTIME, MONOTONIC, BOOTTIME = "realtime", "monotonic", "boottime"
"""The clocks of Linux: since the Unix epoch; since the system started, without the time that it slept; and with it."""

_TRACK = 4
"""The numbers that are kept of a track: kind, code of its name, process and thread."""

OTHER = "(other)"
"""The name of what a timeline has no room for."""

PAIR = 1 << 32
"""A pair of numbers below this one is a number: the first times this, plus the second."""

_NO_BYTE = re.compile(r"[\ud800-\udc7f\udd00-\udfff]")

MAX_LISTS = 64
"""The most lists of names whose codes are remembered."""


@dataclass(slots=True)
class _CodeMap:
    """The codes of a list of names: for each of the first `count` names, then -1 for null."""

    values: Sequence[str]
    count: int
    codes: Array
    is_identity: bool


class Names:
    """The distinct names of a timeline.

    Attributes:
        values: the names by code; the list only grows.
    """

    def __init__(self) -> None:
        self.values: list[str] = []
        self._code_of: dict[str, int] = {}
        self._maps: dict[int, _CodeMap] = {}

    def code(self, text: str | None) -> int:
        """Return the code of a name, a new one if the name is new; -1 for None.

        Surrogates that do not stand for a byte, as JSON may have them, become replacement characters.
        """
        if text is None:
            return -1
        code = self._code_of.get(text)
        if code is None:
            text = text if text.isascii() else _NO_BYTE.sub("\ufffd", text)
            if len(self.values) >= MAX_NAMES:
                text = OTHER
            code = self._code_of.setdefault(text, len(self.values))
            if code == len(self.values):
                self.values.append(text)
        return code

    def codes(self, column: Categories) -> Array:
        """Return the codes of a column of text (int32), -1 for null.

        Values that were seen before in the same list are not looked up again: a format should pass a list that grows.
        """
        values = column.values
        code_map = self._maps.get(id(values))
        if code_map is None or code_map.values is not values or code_map.count > len(values):
            code_map = _CodeMap(values, 0, np.array([-1], np.int32), is_identity=True)
        new = len(values) - code_map.count
        if new > 4 * len(column.codes) + 1024:  # a long list of which few are used
            return self._used_codes(column)
        if new:
            codes = np.array([*map(self.code, values[code_map.count :])], np.int32)
            code_map.is_identity &= bool((codes == np.arange(code_map.count, len(values))).all())
            code_map.codes = np.concatenate([code_map.codes[:-1], codes, code_map.codes[-1:]])
            code_map.count = len(values)
            if len(self._maps) > MAX_LISTS:
                self._maps.clear()
            self._maps[id(values)] = code_map
        return column.codes if code_map.is_identity else code_map.codes[column.codes]  # the code -1 is the last item

    def _used_codes(self, column: Categories) -> Array:
        used, place = np.unique(column.codes, return_inverse=True)
        mapped = [self.code(column.values[code]) if code >= 0 else -1 for code in used.tolist()]
        return np.array([*mapped, -1], np.int32)[place]

    def column(self, codes: Array) -> Categories:
        """Return codes as a column."""
        return Categories(codes, self.values)


OPEN_COLUMNS = ("id", "start", "duration", "depth", "parent", "track", "category", "name", "event", "end_event")
"""The columns of `Registry.open_slices`, as those of `opened`."""


def _no_slices() -> Table:
    columns = empty_columns("opened")
    return Table({name: columns[name] for name in OPEN_COLUMNS})


def _no_self_times(until: int) -> tuple[int, Array]:
    return until, np.empty(0, np.int64)


class TrackInfo(NamedTuple):
    """A track, see the table `tracks` of `fxtio.timeline.schema`.

    Attributes:
        kind: what it shows.
        name: its name, or None.
        process: the row of its process, or -1.
        thread: the row of its thread, or -1.
        id: the id of an async operation or a counter.
        pid: the number of its process, 0 without one.
        tid: the number of its thread, 0 without one.
    """

    kind: TrackKind
    name: str | None
    process: int
    thread: int
    id: int
    pid: int
    tid: int


class Registry:
    """The names, processes, threads and tracks of a timeline, and what could not be carried over.

    Attributes:
        names: the names.
        losses: for each kind of content that the timeline cannot show, as a sentence, how often it occurs.
        open_slices: returns the slices that have begun, and come in a later batch of a fold since they have not ended,
            in the order of their ids: a table with `OPEN_COLUMNS`.
        open_self_times: returns how much self time (ns) each of these has at a time, or at the latest time so far if
            that is later; with the time.
        share: the part of the trace that was read so far (0 to 1), 0 where it is not known.
        clocks: what clocks of the system show at the time 0 of the timeline, in nanoseconds, by `REALTIME`, `MONOTONIC`
            and `BOOTTIME`: those that the trace has.  If it has them at its beginning, they are known before its first
            rows are passed on.
        labels: what tells the trace from others, as texts by name.  Those at its beginning are known before its first
            rows are passed on.
        shown_unit: the unit of the samples that are shown where none is asked for, None for that of most samples.
        call_cost: what it took to record a call, in nanoseconds; None where the trace does not say it.
        in_order: events come in the order of their numbers: not where they are sorted by time.
        asked_arguments: the names of the arguments that the reading needs, None for all; a format may leave out others.
            Only a consumer that has the reading for itself sets it.
    """

    def __init__(self) -> None:
        self.share = 0.0
        self.clocks: dict[str, int] = {}
        self.labels: dict[str, str] = {}
        self.shown_unit: str | None = None
        self.call_cost: int | None = None
        self.in_order = True
        self.asked_arguments: Collection[str] | None = None
        self.names = Names()
        self.losses: Counter[str] = Counter()
        self.open_slices: Callable[[], Table] = _no_slices
        self.open_self_times: Callable[[int], tuple[int, Array]] = _no_self_times
        self._processes: dict[int, int] = {}
        self._process_names: list[int] = []
        self._pids: list[int] = []
        self._threads: dict[tuple[int, int], int] = {}
        self._thread_names: list[int] = []
        self._tids: list[tuple[int, int]] = []  # process and tid of each thread
        self._tracks: dict[TrackKind, dict[Any, int]] = {kind: {} for kind in TrackKind}
        self._async_ids = np.empty(0, np.uint64)  # ascending, those of `async_tracks`
        self._async_tracks = np.empty(0, np.int32)
        self._track_rows = array("i", [-1] * _TRACK)
        self._track_ids = array("Q")

    @property
    def wall_clock(self) -> int | None:
        """The nanoseconds since the Unix epoch at the time 0 of the timeline, None where they are not known."""
        return self.clocks.get(REALTIME)

    def note_clock(self, clock: str, value: int | None) -> None:
        """Note what a clock shows at the time 0, unless that is known, or the number is not one of int64."""
        if value is not None and -MAX_INT64 <= value <= MAX_INT64:
            self.clocks.setdefault(clock, value)

    def note_wall_clock(self, wall_clock: int | None) -> None:
        """Note the nanoseconds since the Unix epoch at the time 0, see `note_clock`."""
        self.note_clock(REALTIME, wall_clock)

    def note_label(self, name: str, text: str) -> None:
        """Note a label, unless one of this name is known; bytes that are not UTF-8 are replaced, long texts are cut."""
        given = name, text
        name, text = well_formed(name[:MAX_LABEL_NAME]), well_formed(text[:MAX_LABEL])
        if name in self.labels or not name:
            return
        if len(self.labels) >= MAX_LABELS:
            self.losses[f"labels beyond {MAX_LABELS:,}"] += 1
            return
        self.losses["labels that are cut, or are not UTF-8"] += (name, text) != given
        self.labels[name] = text

    def process(self, pid: int, name: str | None = None) -> int:
        """Return the row of a process; a name replaces the one it had."""
        row = self._processes.get(pid, -1)
        if row < 0:
            row = len(self._process_names)
            if row >= MAX_PROCESSES:
                self.losses[f"more than {MAX_PROCESSES:,} processes; all further ones are shown as one"] += 1
                return row - 1
            self._processes[pid] = row
            self._process_names.append(-1)
            self._pids.append(pid)
        if name is not None:
            self._process_names[row] = self.names.code(name)
        return row

    def thread(self, pid: int, tid: int, name: str | None = None) -> int:
        """Return the row of a thread of a process; a name replaces the one it had."""
        row = self._threads.get((pid, tid), -1)
        if row < 0:
            process = self.process(pid)
            if self._pids[process] != pid:  # shown as another one
                return self.thread(self._pids[process], tid)
            row = len(self._thread_names)
            if row >= MAX_THREADS:
                self.losses[f"more than {MAX_THREADS:,} threads; all further ones are shown as one"] += 1
                return row - 1
            self._threads[pid, tid] = row
            self._tids.append((process, tid))
            self._thread_names.append(-1)
        if name is not None:
            self._thread_names[row] = self.names.code(name)
        return row

    def thread_track(self, pid: int, tid: int) -> int:
        """Return the track of a thread."""
        thread = self.thread(pid, tid)
        return self.track(TrackKind.THREAD, thread, process=self._tids[thread][0], thread=thread)

    def track(
        self, kind: TrackKind, key: Any = None, *, name: int = -1, process: int = -1, thread: int = -1, id: int = 0
    ) -> int:
        """Return a track; the same kind and key give the same track.

        Args:
            kind: what it shows.
            key: anything hashable that tells it from others of its kind.
            name: the code of its name, -1 if it has none.
            process: the row of its process, or -1.
            thread: the row of its thread, or -1.
            id: the id of an async operation or a counter.
        """
        track = self._tracks[kind].get(key)
        return self._new_track(kind, key, (name, process, thread), id) if track is None else track

    def async_tracks(self, ids: Array, names: Array, processes: Array) -> Array:
        """Return the tracks of async operations (int32), each told from others by its id.

        Args:
            ids: the ids, distinct and ascending (uint64).
            names: the codes of the names of new tracks.
            processes: the rows of their processes.
        """
        # places: where the ids are in the ascending known ones, or would be; those that fit are put there.
        places = np.searchsorted(self._async_ids, ids)
        is_known = places < len(self._async_ids)
        is_known[is_known] = self._async_ids[places[is_known]] == ids[is_known]
        tracks = np.empty(len(ids), np.int32)
        tracks[is_known] = self._async_tracks[places[is_known]]
        new = np.flatnonzero(~is_known)
        fitting, others = np.split(new, [max(MAX_TRACKS - self.track_count, 0)])
        tracks[fitting] = self.track_count + np.arange(len(fitting))
        rows = np.full((len(fitting), _TRACK), TrackKind.ASYNC, np.int32)
        rows[:, 1], rows[:, 2], rows[:, 3] = names[fitting], processes[fitting], -1
        self._track_rows.frombytes(rows.tobytes())
        self._track_ids.frombytes(ids[fitting].tobytes())
        if len(fitting):
            self._async_ids = np.insert(self._async_ids, places[fitting], ids[fitting])
            self._async_tracks = np.insert(self._async_tracks, places[fitting], tracks[fitting])
        if len(others):
            tracks[others] = self._other_track(TrackKind.ASYNC, len(others))
        return tracks

    def _new_track(self, kind: TrackKind, key: Any, row: tuple[int, int, int], id: int) -> int:
        number = self.track_count
        if number >= MAX_TRACKS and key is not OTHER:
            return self._other_track(kind, 1)
        self._tracks[kind][key] = number
        self._track_rows.extend((kind, *row))
        self._track_ids.append(id)
        return number

    def _other_track(self, kind: TrackKind, count: int) -> int:
        """Return the track that shows further ones of a kind, of which there are some more."""
        self.losses[f"more than {MAX_TRACKS:,} tracks; all further ones are shown as one"] += count
        return self.track(kind, OTHER)

    def track_info(self, track: int) -> TrackInfo:
        """Return a track, as far as it is known yet."""
        kind, name, process, thread = self._track_rows[(track + 1) * _TRACK : (track + 2) * _TRACK]
        text = self.names.values[name] if name >= 0 else None
        pid = self._pids[process] if process >= 0 else 0
        tid = self._tids[thread][1] if thread >= 0 else 0
        return TrackInfo(TrackKind(kind), text, process, thread, self._track_ids[track], pid, tid)

    def thread_names(self) -> list[int]:
        """Return the codes of the names of threads, -1 for none; the list is used by the registry."""
        return self._thread_names

    def process_names(self) -> list[int]:
        """Return the codes of the names of processes, -1 for none; the list is used by the registry."""
        return self._process_names

    def program(self) -> str:
        """Return the name of the first process that has one; empty if none has."""
        return next((self.names.values[code] for code in self._process_names if code >= 0), "")

    def process_id(self, process: int) -> int:
        """Return the number of a process."""
        return self._pids[process]

    def thread_info(self, thread: int) -> TrackInfo:
        """Return a thread like a track, with its name as far as it is known yet; -1 is none."""
        if thread < 0:
            return TrackInfo(TrackKind.GLOBAL, None, -1, -1, 0, 0, 0)
        process, tid = self._tids[thread]
        name = self._thread_names[thread]
        text = self.names.values[name] if name >= 0 else None
        return TrackInfo(TrackKind.THREAD, text, process, thread, 0, self._pids[process], tid)

    @property
    def thread_count(self) -> int:
        """The number of threads so far."""
        return len(self._thread_names)

    @property
    def track_count(self) -> int:
        """The number of tracks so far."""
        return len(self._track_ids)

    def tracks_from(self, first: int) -> dict[str, Array]:
        """Return the kinds, codes of names, processes and threads of the tracks from this row on (int32)."""
        return dict(zip(("kind", "name", "process", "thread"), self._columns()[first + 1 :].T.copy(), strict=True))

    def track_kinds(self, tracks: Array) -> Array:
        """Return the kind of each track, see `TrackKind` (int32), -1 for none."""
        return self._of_tracks(tracks, 0)

    def track_names(self, tracks: Array) -> Array:
        """Return the code of the name of each track (int32), -1 for none."""
        return self._of_tracks(tracks, 1)

    def track_processes(self, tracks: Array) -> Array:
        """Return the row of the process of each track (int32), -1 for none."""
        return self._of_tracks(tracks, 2)

    def track_threads(self, tracks: Array) -> Array:
        """Return the row of the thread of each track (int32), -1 for none."""
        return self._of_tracks(tracks, 3)

    def _of_tracks(self, tracks: Array, column: int) -> Array:
        result: Array = self._columns()[tracks + 1, column]
        return result

    def _columns(self) -> Array:
        """Return a row for each track: kind, name, process and thread (int32); a first one of -1 is none.

        The rows are those of the registry, which gets no further tracks while something refers to them.
        """
        return np.frombuffer(self._track_rows, np.int32).reshape(-1, _TRACK)

    def tables(self) -> dict[str, Table]:
        """Return the tables `processes`, `threads` and `tracks`."""
        kinds, names, processes, threads = self._columns()[1:].T.copy()
        ids = np.array(self._track_ids, np.uint64)
        tracks = {"kind": kinds, "name": names, "process": processes, "thread": threads, "id": ids}
        return {**self.owners(), "tracks": Table(self.columns("tracks", tracks))}

    def owners(self) -> dict[str, Table]:
        """Return the tables `processes` and `threads`."""
        owners = [process for process, _ in self._tids]
        values: dict[str, dict[str, Any]] = {
            "processes": {"pid": _signed(self._processes), "name": self._process_names},
            "threads": {"tid": _signed(tid for _, tid in self._threads), "process": owners, "name": self._thread_names},
        }
        return {table: Table(self.columns(table, columns)) for table, columns in values.items()}

    def columns(self, table: str, values: Mapping[str, Any]) -> dict[str, Column]:
        """Return the columns of a table as the schema declares them.

        Args:
            table: the name of the table.
            values: for each column its numbers, or the codes of its names; one value stands for all rows.
        """
        count = max((len(value) for value in values.values() if _has_rows(value)), default=1)
        result: dict[str, Column] = {}
        for name, spec in (TABLES | PASSING)[table].items():
            value = values[name]
            if spec.dtype == TEXT and not isinstance(value, Categories):
                codes = np.asarray(value, np.int32)
                codes = np.full(count, codes, np.int32) if codes.ndim == 0 else codes
                value = Categories(codes, LABELS.get((table, name), self.names.values))
            result[name] = column_of(spec, value, count)
        return result

    def columns_of_rows(
        self, table: str, rows: Iterable[tuple[Any, ...]], names: Iterable[str] = (), **others: Any
    ) -> dict[str, Column]:
        """Return the columns of a table, see `columns`, of which some are given row by row.

        Args:
            table: the name of the table.
            rows: their numbers; at least one row.
            names: the names of these columns, by default all of the table.
            others: the other columns.
        """
        return self.columns(
            table, {**dict(zip(names or TABLES[table], zip(*rows, strict=True), strict=True)), **others}
        )


def _has_rows(value: Any) -> bool:
    """Return whether a column was given, and not one value for all rows."""
    return value.ndim > 0 if isinstance(value, np.ndarray) else hasattr(value, "__len__")


def _signed(numbers: Iterable[int]) -> Array:
    """Return numbers as int64; those from 2**63 on become negative."""
    return np.array([number % 2**64 for number in numbers], np.uint64).view(np.int64)


@dataclass(slots=True)
class Steps(ArrayRows):
    """Events on tracks, in the order of the trace: arrays of one length.

    Attributes:
        step: the effect on the stack of the track, see `fxtio._native.constants.SpanStep` (int8).
        track: the track (int32), -1 without one.
        time: the time (int64 ns, not negative).
        end: the end of a complete span, not before its time (int64 ns).
        name: the code of the name (int32).
        category: the code of the category (int32), -1 for none.
        event: the number of the event, to which arguments refer (int64).
        ticks: the time as the source has it (uint64).
        id: the id of a point of a flow (uint64).
        detail: of a point of a flow its type, index into `FLOW_TYPES`; of an instant its scope, index into `SCOPES`; of
            a span its state, if it has an end, see `SliceState`; of an end the state that it gives to the span, or 0
            (int8).
        key: an end closes the innermost open span with its key, or the innermost of all if its key is 0 (uint64).
        level: the number of spans around a span by its source, or -1 (int32), see `fxtio._native.python_spans.match`.
            An end of the level `UNWIND` ends the open spans within its span, too.
    """

    step: Array
    track: Array
    time: Array
    end: Array
    name: Array
    category: Array
    event: Array
    ticks: Array
    id: Array
    detail: Array
    key: Array
    level: Array

    @classmethod
    def blank(cls, count: int, first_event: int = 0) -> Steps:
        """Return rows without an effect, numbered from the given event on."""
        columns = {name: np.full(count, default, dtype) for name, (dtype, default) in STEP_COLUMNS.items()}
        columns["event"] = np.arange(first_event, first_event + count)
        return cls(**columns)

    @classmethod
    def of(cls, first_event: int = 0, **columns: Array) -> Steps:
        """Return rows with some columns; the others must not be changed.

        Without the column `event` they are numbered from the given event on.
        """
        count = len(columns["step"])
        columns.setdefault("event", np.arange(first_event, first_event + count))
        missing = {name: _defaults(name, count) for name in STEP_COLUMNS if name not in columns}
        return cls(**columns, **missing)

    @classmethod
    def joined(cls, parts: Sequence[Steps]) -> Steps:
        """Concatenate rows; the result must not be changed."""
        return cls(*(_joined(name, [getattr(part, name) for part in parts]) for name in STEP_COLUMNS))


STEP_COLUMNS: dict[str, tuple[str, int]] = {
    "step": ("int8", 0),
    "track": ("int32", -1),
    "time": ("int64", 0),
    "end": ("int64", 0),
    "name": ("int32", -1),
    "category": ("int32", -1),
    "event": ("int64", 0),
    "ticks": ("uint64", 0),
    "id": ("uint64", 0),
    "detail": ("int8", 0),
    "key": ("uint64", 0),
    "level": ("int32", -1),
}
"""The type of each column of `Steps`, and the value in a row without an effect."""


_DEFAULTS: dict[str, Array] = {}


def _defaults(name: str, count: int) -> Array:
    """Return the value of a column of steps in rows without an effect, repeated: an array that all users share."""
    if name not in _DEFAULTS or len(_DEFAULTS[name]) < count:
        dtype, value = STEP_COLUMNS[name]
        _DEFAULTS[name] = np.full(count, value, dtype)
        _DEFAULTS[name].flags.writeable = False
    return _DEFAULTS[name][:count]


def _joined(name: str, columns: Sequence[Array]) -> Array:
    """Concatenate a column of steps; nothing is copied where it has its default in all rows."""
    shared, (_, default) = _DEFAULTS.get(name), STEP_COLUMNS[name]
    if shared is not None and any(column.base is shared for column in columns):
        others = [column for column in columns if column.base is not shared]
        if all((column == default).all() for column in others):
            return _defaults(name, sum(map(len, columns)))
    return np.concatenate(columns)


def pair_keys(first: Array, second: Array) -> Array:
    """Return keys of `Steps` (uint64, not 0) that are equal where both codes (int32, -1 for none) are."""
    return (first.astype(np.uint64) + np.uint64(2)) * np.uint64(PAIR) + second.astype(np.uint64) + np.uint64(1)


@dataclass(slots=True)
class TimelinePart:
    """The content that a batch of a trace adds to its timeline.

    Attributes:
        steps: spans, instants and flows, or None.
        tables: rows of tables that need no pairing (`counters`, `samples`, `args`, ...), see `Registry.columns`.
        share: the part of the trace that was read up to here (0 to 1), 0 where it is not known.
    """

    steps: Steps | None = None
    tables: dict[str, dict[str, Column]] = field(default_factory=dict)
    share: float = 0.0
