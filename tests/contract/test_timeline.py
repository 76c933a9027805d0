"""The timelines of traces of every format: their tables fit together, whatever the trace is like."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Set
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

import fxtio
from contract.damage import DAMAGE
from contract.samples import SAMPLES, SYNTHETIC, Sample, files_of
from contract.test_exact_copies import content_of, damaged, damaged_directory, write_files
from fxtio import _native
from fxtio._native import python as stand_in
from fxtio.errors import FxtioError
from fxtio.formats import formats
from fxtio.schema import TEXT
from fxtio.table import Categories, Table
from fxtio.timeline import Timeline
from fxtio.timeline.parts import Registry, Steps, TimelinePart
from fxtio.timeline.schema import LABELS, TABLES
from support.limits import processor_seconds

ROUNDS = max(settings().max_examples // 2, len(DAMAGE))
"""The number of damaged traces of each format."""

LONGEST_SECONDS = 5
"""The processor time in seconds that a damaged trace may take."""

REFERENCES = {
    "threads": {"process": "processes"},
    "tracks": {"process": "processes", "thread": "threads"},
    "slices": {"parent": "slices", "track": "tracks"},
    "instants": {"slice": "slices", "track": "tracks"},
    "flow_points": {"slice": "slices", "track": "tracks"},
    "counters": {"track": "tracks"},
    "samples": {"thread": "threads", "stack": "stacks"},
    "stacks": {"parent": "stacks", "frame": "frames"},
    "allocations": {"thread": "threads", "stack": "stacks"},
    "logs": {"thread": "threads"},
    "scheduling": {"thread": "threads"},
    "wakeups": {"thread": "threads", "waker": "threads"},
    "collections": {"thread": "threads"},
}
REQUIRED = {
    ("threads", "process"), ("slices", "track"), ("instants", "track"), ("flow_points", "track"), ("counters", "track"),
    ("stacks", "frame"), ("scheduling", "thread"), ("wakeups", "thread"),
}  # fmt: skip
"""The references that every row has."""

MAGIC = Path(__file__).parents[1] / "corpus" / "fxt" / "magic-trace.fxt"

every_format = pytest.mark.parametrize("name", formats())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("timeline")


def opened(sample: Sample, folder: Path, **options: Any) -> Timeline:
    below = folder / str(sample)
    below.mkdir(exist_ok=True)
    return fxtio.open_timeline(sample.make(below), format=sample.format.name, **options)


def check(tables: dict[str, Table]) -> None:
    """Check that tables are as declared, that references are in range, and that slices nest."""
    names = tables["processes"]["name"].values
    for table, specs in TABLES.items():
        columns = tables[table]
        assert columns.column_names == [*specs]
        for column, spec in specs.items():
            values, place = columns[column], (table, column)
            if spec.dtype == TEXT:
                assert isinstance(values, Categories), place
                assert values.codes.dtype == np.int32, place
                assert values.values is LABELS.get(place, names) or not len(values), place
                assert not len(values) or -1 <= values.codes.min() <= values.codes.max() < len(values.values), place
            else:
                assert values.dtype == spec.dtype, place
        for column, target in REFERENCES.get(table, {}).items():
            rows, least = columns[column], 0 if (table, column) in REQUIRED else -1
            assert not len(rows) or least <= rows.min() <= rows.max() < tables[target].num_rows, (table, column)
    for table in ("instants", "counters", "samples", "allocations", "logs", "wakeups"):
        assert tables[table]["time"].min(initial=0) >= 0, table
    for table in ("slices", "scheduling", "collections"):
        assert tables[table]["duration"].min(initial=0) >= 0, table
    stacks = tables["stacks"]
    assert (stacks["parent"] < np.arange(stacks.num_rows)).all()
    assert (stacks["depth"] == np.where(stacks["parent"] >= 0, stacks["depth"][stacks["parent"]] + 1, 0)).all()
    check_slices(tables["slices"])


def check_slices(slices: Table) -> None:
    """Check that parents enclose their children, and that self times add up to the durations of the outermost ones."""
    assert (slices["id"] == np.arange(slices.num_rows)).all()
    start, duration, parent = slices["start"], slices["duration"], slices["parent"]
    inner = np.flatnonzero(parent >= 0)
    outer = parent[inner]
    assert (slices["track"][inner] == slices["track"][outer]).all()
    assert (slices["depth"] == np.where(parent >= 0, slices["depth"][parent] + 1, 0)).all()
    assert (start[inner] >= start[outer]).all()
    beyond = (start + duration)[inner] > (start + duration)[outer]
    assert slices["state"].take(inner[beyond]).is_in("overlapping", "open").all()
    within = np.bincount(outer, weights=duration[inner], minlength=slices.num_rows).astype(np.int64)
    is_exact = duration < 2**52  # as a double
    has_beyond = np.zeros(slices.num_rows, bool)
    has_beyond[outer[beyond]] = True
    plain = is_exact & ~has_beyond
    assert (slices["self_time"][plain] == np.maximum(duration - within, 0)[plain]).all()
    assert ((slices["self_time"] >= 0) & (slices["self_time"] <= duration)).all()


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_tables_fit_together(sample: Sample, folder: Path) -> None:
    with opened(sample, folder) as timeline:
        tables = timeline.tables(*TABLES)
        check(tables)
        assert sum(table.num_rows for table in tables.values()) or not sample.shape
        assert all(count > 0 for count in timeline.losses.values())


@pytest.mark.full
@pytest.mark.once
@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_traces_answer_sql_as_their_timelines_do(sample: Sample, folder: Path) -> None:
    query = "select name, count(*) as number, sum(self_time) as time from slices group by name order by name, time"
    tables = "select (select count(*) from tracks), (select count(*) from samples), (select count(*) from slice)"
    with opened(sample, folder) as timeline, fxtio.open(timeline.trace.name, format=sample.format.name) as trace:
        rows, own = (each.table("slices").rows() for each in (timeline, trace.timeline()))
        assert [*own] == [*rows]
        for sql in (query, tables):
            assert trace.sql(sql).fetchall() == timeline.sql(sql).fetchall()


@pytest.mark.once
def test_a_trace_that_can_be_read_only_once_answers_sql() -> None:
    with fxtio.open(BytesIO(MAGIC.read_bytes())) as trace:
        for _ in range(2):
            assert trace.sql("select count(*) from slice").fetchall() == [(17296,)]
            assert trace.sql("select count(*) from threads").fetchall() == [(1,)]


@every_format
def test_the_room_says_what_is_not_carried(name: str) -> None:
    phrases = formats()[name].timeline.NOT_CARRIED
    assert phrases
    assert all(phrase and phrase[-1] != "." for phrase in phrases)


@every_format
def test_arguments_belong_to_events(name: str, folder: Path) -> None:
    """Each refers to an event of a slice, an instant or another row, and comes not later than it."""
    for sample in SYNTHETIC:
        if sample.format.name != name:
            continue
        with opened(sample, folder) as timeline:
            late, _ = timeline.fold(LateArguments, "slices", "instants", "flow_points", "counters", "args")
        assert late.events == set()


class LateArguments:
    """The events whose arguments came after a row of theirs."""

    def __init__(self, registry: Registry) -> None:
        self.events: set[int] = set()
        self._seen: set[int] = set()

    def enter(self, tables: Any) -> None:
        if "args" in tables:
            self.events |= self._seen.intersection(tables["args"]["event"].tolist())
        for name in ("slices", "instants", "counters"):
            for column in ("event", "end_event") if name == "slices" else ("event",):
                if name in tables:
                    self._seen.update(tables[name][column].tolist())
        self._seen.discard(-1)


@pytest.mark.full
@pytest.mark.parametrize("sample", SYNTHETIC, ids=str)
def test_small_batches_make_the_same_tables(sample: Sample, folder: Path) -> None:
    with opened(sample, folder) as timeline:
        whole = timeline.tables(*TABLES)
        split = Timeline("split", timeline.format, partial(in_pieces, timeline.parts), trace=timeline.trace)
        assert as_rows(split.tables(*TABLES)) == as_rows(whole)


def in_pieces(
    parts: Callable[[Registry, Set[str]], Iterator[TimelinePart]], registry: Registry, tables: Set[str]
) -> Iterator[TimelinePart]:
    """Yield parts with at most 7 steps each."""
    for part in parts(registry, tables):
        yield TimelinePart(None, part.tables)
        steps = part.steps if part.steps is not None else Steps.blank(0)
        for begin in range(0, len(steps), 7):
            yield TimelinePart(steps.take(np.arange(begin, min(begin + 7, len(steps)))))


def as_rows(tables: dict[str, Table]) -> dict[str, list[str]]:
    """Return the rows of tables in an order of their own; slices are told from others by their events."""
    events = [*tables["slices"]["event"].tolist(), -1]
    result = {}
    for name, table in tables.items():
        rows = []
        for row in table.rows():
            row |= {column: events[row[column]] for column in ("parent", "slice") if column in row and name != "stacks"}
            rows.append(str({column: value for column, value in row.items() if column != "id"}))
        result[name] = sorted(rows)
    return result


@pytest.mark.full
@pytest.mark.skipif(_native.IMPLEMENTATION != "c", reason="the kernels in C are not built")
@every_format
def test_the_kernel_and_its_stand_in_make_the_same_tables(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for sample in SYNTHETIC:
        if sample.format.name != name:
            continue
        with opened(sample, folder) as timeline:
            expected = as_rows(timeline.tables(*TABLES))
        with monkeypatch.context() as patch:
            patch.setattr(_native, "match", stand_in.match)
            with opened(sample, folder) as timeline:
                assert as_rows(timeline.tables(*TABLES)) == expected


@pytest.mark.full
@every_format
def test_damaged_traces_make_tables_that_fit_together(name: str, folder: Path) -> None:
    samples = [sample for sample in SAMPLES if sample.format.name == name]
    each = max(ROUNDS // len(samples), 1)
    for number, sample in enumerate(samples):
        below = folder / str(sample)
        below.mkdir(exist_ok=True)
        for label, target in damages(sample, sample.make(below), number * each, each, folder):
            with processor_seconds(LONGEST_SECONDS):
                check_damaged(target, name, f"{sample}, {label}")


def damages(sample: Sample, path: Path, first: int, count: int, folder: Path) -> Iterator[tuple[str, Any]]:
    """Yield damaged versions of a trace: bytes, or the paths of directories."""
    if not sample.format.directory:
        yield from damaged(content_of(path), first, count)
        return
    files = files_of(path)
    for seed in range(first, first + count):
        label, changed = damaged_directory(files, seed)
        yield label, write_files(changed, folder / f"damaged-{seed}")


def check_damaged(target: Any, format: str, label: str) -> None:
    try:
        timeline = fxtio.open_timeline(target, format=format)
    except FxtioError:
        return  # nothing in it is of the format
    with timeline:
        try:
            check(timeline.tables(*TABLES))
        except AssertionError as error:
            raise AssertionError(label) from error


def test_every_format_has_a_timeline() -> None:
    assert all(importlib.util.find_spec(f"{each.package}.timeline") for each in formats().values())
