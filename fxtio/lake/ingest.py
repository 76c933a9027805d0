"""Adds traces to a lake: each becomes files of rows, and a row about itself, which is stored last."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, count, islice
from pathlib import Path
from typing import Any

from fxtio.errors import FxtioError, described
from fxtio.exchange.opening import open_timeline
from fxtio.formats import formats
from fxtio.io.source import Source as Opened
from fxtio.io.source import open_source
from fxtio.lake.catalog import is_sound, is_whole, table_of
from fxtio.lake.layout import (
    MARKER,
    SUFFIX,
    TABLES,
    TRACE_COLUMNS,
    TRACES,
    VERSION,
    file_of,
    files_of,
    host_of,
    identity_of,
    kept_name,
    name_of,
)
from fxtio.lake.rows import LakeExporter
from fxtio.lake.store import Entry, Store, StoreError, open_store
from fxtio.report import well_formed
from fxtio.shared_folders import open_regular
from fxtio.timeline import Timeline
from fxtio.timeline.parts import Registry

LEFT_OVER_NS = 86_400 * 1_000_000_000
"""A file of a trace without a row is left over when it is older than this; until then a writer may be adding it."""

ADDED, KNOWN, REFUSED = "added", "known", "refused"
"""What may become of a trace: it is new, the lake has its content already, or it cannot be read."""


class LakeError(FxtioError):
    """An error: there is no lake, it has a layout that this version does not know, or nothing can be added to it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Tells what became of a trace: it was added, was there already, or was refused.

    Attributes:
        path: the trace.
        kind: `ADDED`, `KNOWN` or `REFUSED`.
        reason: why it was refused.
        row: its row in the table `traces`; empty unless it was added.
        entry: the file that has this row; None unless it was added and is still there.
    """

    path: str
    kind: str
    reason: str = ""
    row: Mapping[str, Any] = field(default_factory=dict)
    entry: Entry | None = None


def add(
    url: str, traces: Iterable[str | os.PathLike[str]], labels: Mapping[str, str], jobs: int, *, keeps: bool = False
) -> Iterator[Outcome]:
    """Add traces to a lake with several processes, and yield what became of each, in the order in which they end.

    Args:
        url: the folder or URL of the lake.
        traces: the paths of traces.
        labels: labels for all of them, beside those that they have; these count more.
        jobs: the number of processes; with 1, this one does it.
        keeps: store the traces themselves, too.
    """
    work = partial(add_one, url, labels=labels, keeps=keeps)
    paths = (os.fspath(each) for each in traces)
    first = [*islice(paths, 2)]
    if jobs == 1 or len(first) < 2:
        yield from map(work, chain(first, paths))
        return
    context = multiprocessing.get_context("spawn")  # a server that forks would have an earlier environment
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
                "a process that read traces was killed, or the main module of the program adds traces when it is "
                'imported, without `if __name__ == "__main__":`; run this again for those that are missing'
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)


def _ignore_interrupts() -> None:
    """Leave Ctrl-C to the process that started this one, which ends it when its trace is in the lake."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def add_one(url: str, path: str, labels: Mapping[str, str], *, keeps: bool = False) -> Outcome:
    """Add a trace to a lake."""
    store = open_store(url)
    try:
        source = Source(path)
        if is_whole(store, source.identity):
            return Outcome(path, KNOWN)
        with store.workspace() as folder:
            exporter, row = source.write(folder, labels)
            row["files"] = _stored(store, exporter, row)
            if keeps:
                row["url"] = source.keep(store, folder)
            place, name = exporter.folder / f"{TRACES}{SUFFIX}", name_of(TRACES, source.identity)
            _write_row(row, place)
            content, is_new = place.read_bytes(), store.put(name, place)
            entry = _entry_of(store, name, content) if is_new else None
    except Exception as error:  # noqa: BLE001  # no trace, and no fault of a reader, ends the others
        return refusal(path, error)
    return Outcome(path, ADDED, row=row, entry=entry) if is_new else Outcome(path, KNOWN)


def _entry_of(store: Store, name: str, content: bytes) -> Entry | None:
    """Return what is known of a file that was just stored; None if it has other content, or cannot be read."""
    with suppress(OSError, StoreError):
        entry = store.entry(name)
        return entry if store.read(name) == content else None  # another writer may have replaced it
    return None


def refusal(path: str, error: Exception) -> Outcome:
    """Return what became of a trace that an error ended."""
    known = isinstance(error, FxtioError | OSError)
    return Outcome(path, REFUSED, described(error) if known else f"{type(error).__name__}: {error}")


class Source:
    """A trace that is to be read.

    Args:
        path: its path.

    Attributes:
        identity: its id.

    Raises:
        OSError: it cannot be read.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._state = _state_of(self._path)
        self.identity, self._size = identity_of(self._path)

    def write(self, folder: Path, labels: Mapping[str, str]) -> tuple[LakeExporter, dict[str, Any]]:
        """Write its rows to a folder, and return who wrote them, and the row about it.

        Args:
            folder: where the files are written.
            labels: labels beside those that it has; these count more.

        Raises:
            LakeError: it is empty, or was changed meanwhile.
            FxtioError, OSError: it cannot be read.
        """
        with open_timeline(self._path, source=self._opened()) as timeline:
            exporter, registry = _written(timeline, folder, self.identity)
            row = _row(timeline, exporter, registry, labels)
        self._refuse_changes()
        url = well_formed(str(self._path.absolute()))
        row |= {"id": self.identity, "bytes": self._size, "url": url, "files": {}, "schema": VERSION}
        return exporter, {name: row[name] for name in TRACE_COLUMNS}

    def _opened(self) -> Opened | None:
        """Open the trace if it is a file.

        Raises:
            LakeError: it is empty, perhaps only when it is decompressed.
            OSError: it cannot be opened.
        """
        opened = None if self._path.is_dir() else open_source(self._path)
        if opened is None:
            is_empty = not self._size
        elif is_empty := not opened.head and opened.fault is None:
            opened.close()
        if is_empty:
            raise LakeError(f"{self._path} is empty")
        return opened

    def keep(self, store: Store, folder: Path) -> str:
        """Store the trace itself, by way of a folder, and return its path or URL.

        Raises:
            LakeError: it was changed meanwhile, or is a directory, of which an object store keeps none.
            StoreError, OSError: it cannot be read or stored.
        """
        if "://" in store.url and self._path.is_dir():
            raise LakeError(
                f"{self._path} is a directory, which cannot be opened in an object store, so it is not kept"
            )
        place, copies = kept_name(self.identity, self._path), []
        for number, (inner, file) in enumerate(files_of(self._path)):
            copies.append((f"{place}/{os.fsdecode(inner)}" if inner else place, folder / f"kept-{number}"))
            with open(open_regular(file), "rb") as source, copies[-1][1].open("xb") as copy:
                shutil.copyfileobj(source, copy)
        self._refuse_changes()
        for name, path in copies:
            if not store.put(name, path):  # perhaps one that may be removed as left over
                store.replace(name, path)
        return f"{store.url if '://' in store.url else Path(store.url).absolute()}/{place}"

    def _refuse_changes(self) -> None:
        if _state_of(self._path) != self._state:
            raise LakeError(f"{self._path} was changed while it was read")


def _row(timeline: Timeline, exporter: LakeExporter, registry: Registry, labels: Mapping[str, str]) -> dict[str, Any]:
    """Return what the row about a trace says of its content."""
    all_labels = {well_formed(name): well_formed(text) for name, text in {**registry.labels, **labels}.items()}
    return {
        "program": well_formed(registry.program() or timeline.format),
        "host": host_of(all_labels),
        "labels": all_labels,
        "format": timeline.format,
        "start": registry.wall_clock,
        "duration": max(exporter.end - (exporter.start or 0), 0),
        **{table: exporter.counts[table] for table in TABLES},
        "findings": sum(timeline.findings.counts.values()),
        "losses": {
            well_formed(phrase): count for phrase, count in (registry.losses + exporter.losses).items() if count
        },
        "names": exporter.names,
    }


def _stored(store: Store, exporter: LakeExporter, row: Mapping[str, Any]) -> dict[str, int]:
    """Store the files of a trace, except its row, and return their sizes by table.

    What another writer has stored stays, unless it is damaged, or so old that it may be removed as left over.
    """
    names = {table: file_of(table, row) for table in TABLES if exporter.counts[table]}
    paths = {name: exporter.folder / f"{table}{SUFFIX}" for table, name in names.items()}
    sizes = {table: paths[name].stat().st_size for table, name in names.items()}
    known = store.put_all(paths)
    for table, name in names.items():
        if name in known:
            entry, content = store.entry(name), store.read(name) or b""
            is_new = entry is not None and entry.changed > time.time_ns() - LEFT_OVER_NS // 2
            if is_new and is_sound(content, exporter.counts[table]):
                sizes[table] = len(content)
            else:
                store.replace(name, paths[name])
    return sizes


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
    """Write the row about a trace: plainly, as all that shortens many rows makes one longer."""
    import pyarrow.parquet as pq

    options = {"compression": "none", "use_dictionary": False, "write_statistics": False, "store_schema": False}
    with path.open("wb") as file:
        pq.write_table(table_of([row]), file, **options)


def _state_of(path: Path) -> list[tuple[int, int]]:
    """Return size and time of the last change of a file, or of the files of a directory."""
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    return [(status.st_size, status.st_mtime_ns) for status in (each.stat() for each in files)]


def expanded(paths: Iterable[str | os.PathLike[str]]) -> Iterator[Path]:
    """Yield traces: those that are named; of folders that are no traces, all files and traces in them.

    Folders that are lakes, or links, or cannot be read are left out in these.
    """
    for path in map(Path, paths):
        if not path.is_dir() or any(each.sniff_directory and each.sniff_directory(path) for each in formats().values()):
            yield path
        elif not (path / MARKER).exists():
            with suppress(OSError):
                inner = sorted(each for each in path.iterdir() if not each.name.startswith("."))
                yield from expanded(each for each in inner if not (each.is_symlink() and each.is_dir()))
