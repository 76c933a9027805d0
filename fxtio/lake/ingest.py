"""Adds traces to a lake: each becomes files of rows, and a row about itself, which is stored last."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, count, islice
from pathlib import Path
from typing import Any

from fxtio.errors import FxtioError
from fxtio.exchange.opening import open_timeline
from fxtio.formats import formats
from fxtio.lake.layout import (
    MARKER,
    SUFFIX,
    TABLES,
    TRACE_COLUMNS,
    TRACES,
    VERSION,
    day_of,
    host_of,
    identity_of,
    name_of,
)
from fxtio.lake.rows import LakeExporter
from fxtio.lake.store import Store, open_store
from fxtio.timeline import Timeline
from fxtio.timeline.parts import Registry

ADDED, KNOWN, REFUSED = "added", "known", "refused"
"""What may become of a trace: it is new, the lake has its content already, or it cannot be read."""


class LakeError(FxtioError):
    """An error: there is no lake, it has a layout that this version does not know, or nothing can be added to it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a trace.

    Attributes:
        path: the trace.
        kind: `ADDED`, `KNOWN` or `REFUSED`.
        reason: why it was refused.
        row: its row in the table `traces`; empty unless it was added.
    """

    path: str
    kind: str
    reason: str = ""
    row: Mapping[str, Any] = field(default_factory=dict)


def add(url: str, traces: Iterable[str | os.PathLike[str]], labels: Mapping[str, str], jobs: int) -> Iterator[Outcome]:
    """Add traces to a lake with several processes, and yield what became of each, in the order in which they end.

    Args:
        url: the folder or URL of the lake.
        traces: the paths of traces.
        labels: labels for all of them, beside those that they have; these count more.
        jobs: the number of processes; with 1, this one does it.
    """
    work = partial(add_one, url, labels=labels)
    paths = (os.fspath(each) for each in traces)
    first = [*islice(paths, 2)]
    if jobs == 1 or len(first) < 2:
        yield from map(work, chain(first, paths))
        return
    context = multiprocessing.get_context("forkserver" if hasattr(os, "fork") else "spawn")
    with ProcessPoolExecutor(jobs, context, initializer=_ignore_interrupts) as pool:
        running: set[Future[Outcome]] = set()
        try:
            for path in chain(first, paths):
                running.add(pool.submit(work, path))
                if len(running) >= 2 * jobs:
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    yield from (each.result() for each in done)
            for each in running:
                yield each.result()
        except BrokenProcessPool:
            raise LakeError(
                "a process that read traces was killed; run this again for those that are missing"
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)


def _ignore_interrupts() -> None:
    """Leave Ctrl-C to the process that started this one, which ends it when its trace is in the lake."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def add_one(url: str, path: str, labels: Mapping[str, str]) -> Outcome:
    """Add a trace to a lake."""
    store = open_store(url)
    try:
        identity, size = identity_of(Path(path))
        if store.read(name_of(TRACES, identity)) is not None:
            return Outcome(path, KNOWN)
        with store.workspace() as folder, open_timeline(path) as timeline:
            row = _store(
                store, folder, timeline, identity, {"bytes": size, "url": _utf8(str(Path(path).absolute()))}, labels
            )
    except (FxtioError, OSError, MemoryError, ValueError) as error:  # errors of pyarrow are some of these
        return Outcome(path, REFUSED, str(error))
    return Outcome(path, ADDED if row else KNOWN, row=row)


def _store(
    store: Store, folder: Path, timeline: Timeline, identity: str, facts: Mapping[str, Any], labels: Mapping[str, str]
) -> dict[str, Any]:
    """Write and store the files of a trace; return its row, or nothing if another writer was first."""
    exporter, registry = _written(timeline, folder, identity)
    folder = exporter.folder
    names = registry.names.values
    program = _utf8(
        next((names[code] for code in registry.process_names() if code >= 0), "") or Path(timeline.name).name
    )
    all_labels = {_utf8(name): _utf8(text) for name, text in {**registry.labels, **labels}.items()}
    row = {
        "id": identity,
        "program": program,
        "host": host_of(all_labels),
        "labels": all_labels,
        "format": timeline.format,
        "start": registry.wall_clock,
        "duration": max(exporter.end - (exporter.start or 0), 0),
        **{table: exporter.counts[table] for table in TABLES},
        "findings": sum(timeline.findings.counts.values()),
        "losses": {_utf8(phrase): count for phrase, count in (registry.losses + exporter.losses).items() if count},
        "schema": VERSION,
        **facts,
    }
    for table in TABLES:
        if exporter.counts[table]:
            name = name_of(table, identity, day=day_of(row["start"]), program=program)
            store.put(name, folder / f"{table}{SUFFIX}")
    _write_row(row, folder / f"{TRACES}{SUFFIX}")
    return row if store.put(name_of(TRACES, identity), folder / f"{TRACES}{SUFFIX}") else {}


def _written(timeline: Timeline, folder: Path, identity: str) -> tuple[LakeExporter, Registry]:
    """Write the rows of a trace to a folder.

    A trace is read again if it names a process, thread or track after events of it were written.
    """
    attempts = count()

    def make(known: Registry | None, registry: Registry) -> LakeExporter:
        return LakeExporter(folder / str(next(attempts)), registry, identity, known)

    exporter, registry = timeline.fold(partial(make, None), *LakeExporter.TABLES)
    exporter.finish()
    if not exporter.is_named:
        exporter, registry = timeline.fold(partial(make, registry), *LakeExporter.TABLES)
        exporter.finish()
    return exporter, registry


def _write_row(row: Mapping[str, Any], path: Path) -> None:
    """Write the row about a trace."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    maps = {"labels": pa.map_(pa.string(), pa.string()), "losses": pa.map_(pa.string(), pa.int64())}
    schema = pa.schema([(name, maps.get(kind) or getattr(pa, kind)()) for name, (kind, _) in TRACE_COLUMNS.items()])
    columns = {name: [[*row[name].items()] if name in maps else row[name]] for name in schema.names}
    pq.write_table(pa.table(columns, schema), path, compression="zstd", store_schema=False)


def _utf8(text: str) -> str:
    """Return a text without bytes that are not UTF-8."""
    return text.encode("utf-8", "replace").decode()


def expanded(paths: Iterable[str | os.PathLike[str]]) -> Iterator[Path]:
    """Yield traces: those that are named; of folders that are no traces, all files and traces in them, except lakes."""
    for path in map(Path, paths):
        if not path.is_dir() or any(each.sniff_directory and each.sniff_directory(path) for each in formats().values()):
            yield path
        elif not (path / MARKER).exists():
            yield from expanded(sorted(each for each in path.iterdir() if not each.name.startswith(".")))
