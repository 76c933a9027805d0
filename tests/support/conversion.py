"""What Perfetto and fxtio see in a trace, as values that can be compared between formats."""

from __future__ import annotations

from collections import Counter
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from fxtio.exchange.convert import exporters
from fxtio.formats import formats
from fxtio.io.sink import open_sink
from fxtio.table import Table
from fxtio.timeline import Timeline
from judges import perfetto


def export(timeline: Timeline, to: str, target: Path) -> Counter[str]:
    """Write a timeline by the exporter of a format, also if it is that of the trace; return what was lost."""
    exporter = exporters()[to]
    is_directory = to in formats() and formats()[to].directory
    with nullcontext(target) if is_directory else closing(open_sink(target)) as place:
        new: Any = place
        written, registry = timeline.fold(lambda registry: exporter(new, registry), *exporter.TABLES)
        written.finish()
    return +(registry.losses + written.losses)


class TrackEvents(NamedTuple):
    """What is on tracks, as fxtio sees it: rows that name their track, with the number of each.

    Attributes:
        slices: track, start, duration, depth, name, category, state, arguments.
        instants: track, time, the name of the slice around it, name, category, scope, arguments.
        flows: track, time, the name of the slice around it, type, id, name.
        counters: track, time, value.
    """

    slices: Counter[Any]
    instants: Counter[Any]
    flows: Counter[Any]
    counters: Counter[Any]


def track_events(timeline: Timeline) -> TrackEvents:
    """Return what is on the tracks of a timeline."""
    tables = timeline.tables("slices", "instants", "flow_points", "counters", "args", "processes", "threads", "tracks")
    args: dict[int, list[tuple[Any, ...]]] = {}
    for row in tables["args"].rows():
        args.setdefault(row["event"], []).append((row["name"], row["type"], row["bits"], row["text"]))
    tracks = [_track_key(row, tables) for row in tables["tracks"].rows()]
    slices = list(tables["slices"].rows())
    names = {row["id"]: row["name"] for row in slices}

    def arguments(*events: int) -> tuple[Any, ...]:
        found = {each[0]: each for event in events if event >= 0 for each in args.get(event, ())}
        return tuple(sorted(found.values(), key=str))

    return TrackEvents(
        Counter(
            (tracks[row["track"]], row["start"], row["duration"], row["depth"], row["name"], row["category"] or "",
             row["state"], arguments(row["event"], row["end_event"]))
            for row in slices
        ),
        Counter(
            (tracks[row["track"]], row["time"], names.get(row["slice"]), row["name"], row["category"] or "",
             row["scope"], arguments(row["event"]))
            for row in tables["instants"].rows()
        ),
        Counter(
            (tracks[row["track"]], row["time"], names.get(row["slice"]), row["type"], row["id"], row["name"])
            for row in tables["flow_points"].rows()
        ),
        Counter((tracks[row["track"]], row["time"], row["value"]) for row in tables["counters"].rows()),
    )  # fmt: skip


def _track_key(row: dict[str, Any], tables: dict[str, Table]) -> tuple[Any, ...]:
    """Return what identifies a track in any trace."""
    if row["thread"] >= 0:
        threads = tables["threads"]
        thread = row["thread"]
        process = int(threads["process"][thread])
        return int(tables["processes"]["pid"][process]), int(threads["tid"][thread]), threads["name"][thread]
    pid = int(tables["processes"]["pid"][row["process"]]) if row["process"] >= 0 else -1
    return pid, row["kind"], row["name"], row["id"]


class View(NamedTuple):
    """A trace as Perfetto shows it.

    Attributes:
        slices: spans and instants: start, duration, depth, name, category, arguments, pid, tid.
        asyncs: those on tracks of no thread.
        counters: time, value and pid of each sample.
        flows: the names and times of both ends of each arrow.
        threads: pid, tid and name of threads with a name.
        processes: pid and name of processes with a name.
    """

    slices: Counter[Any]
    asyncs: Counter[Any]
    counters: Counter[Any]
    flows: Counter[Any]
    threads: set[Any]
    processes: set[Any]


def perfetto_view(trace: Path | bytes) -> View:
    """Return what Perfetto shows of a trace; it must not report errors."""
    with perfetto.load(trace) as p:
        assert p.errors() == {}
        slices, asyncs = Counter[Any](), Counter[Any]()
        for each in p.slices():
            args = {key.removeprefix("args.").removeprefix("debug."): value for key, value in each.args.items()}
            hidden = ("legacy_event.", "slice.")
            shown = tuple(sorted((key, str(value)) for key, value in args.items() if not key.startswith(hidden)))
            row = (each.ts, each.dur, each.depth, each.name, each.category or "", shown)
            if each.tid is None:
                asyncs[row] += 1
            else:
                slices[(*row, each.pid, each.tid)] += 1
        counters = Counter((each.ts, each.value, each.pid) for each in p.counters())
        flows = Counter((each.name_out, each.name_in, each.ts_out, each.ts_in) for each in p.flows())
        threads = {(each.pid, each.tid, each.name) for each in p.threads() if each.name}
        processes = {(each.pid, each.name) for each in p.processes() if each.name}
    return View(slices, asyncs, counters, flows, threads, processes)
