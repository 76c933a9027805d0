"""Rankings and trees of samples and allocations compared with plain loops over stacks; answers of all formats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Set
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fxtio
from fxtio.errors import FxtioError
from fxtio.formats import BUILT_IN
from fxtio.selection import Selection
from fxtio.timeline import Timeline
from fxtio.timeline.answers import Lanes, QuestionError, find, lanes, overview, summary, top, tree
from fxtio.timeline.answers.tree import MAX_DEPTH
from fxtio.timeline.parts import Registry, TimelinePart
from support.broken import broken_rules, write_broken
from support.checkout import CORPUS
from support.limits import lower_limits

Sample = tuple[int, int, int]
"""The stack of a sample (-1 for none), its weight, its thread."""

FRAMES = ("a", "b", "c", None, "a")  # the fourth one has no name, but an address
FILES = ("/x/one.py", "/x/one.py", None, None, "/y/two.py")
MODULES = ("m", "m", "n", None, "m")
SHOWN = ("a (one.py)", "b", "c", "0xab", "a (two.py)")
"""The names of functions in answers."""


@st.composite
def samples(draw: st.DrawFn) -> tuple[list[tuple[int, int]], list[Sample]]:
    """Generate stacks, as pairs of the stack around it and a frame, and samples of them."""
    stacks = [
        (draw(st.integers(-1, number - 1)), draw(st.integers(0, 4))) for number in range(draw(st.integers(0, 12)))
    ]
    sample = st.tuples(st.integers(-1, len(stacks) - 1), st.integers(1, 9), st.integers(0, 2))
    return stacks, draw(st.lists(sample, max_size=20))


def timeline_of(
    stacks: list[tuple[int, int]], rows: list[Sample], what: str, batch: int, unit: str = "cycles"
) -> Timeline:
    """Return a timeline of samples or allocations, a stack and a few of them in each batch."""

    def parts(registry: Registry, tables: Set[str]) -> Iterator[TimelinePart]:
        names = registry.names
        frames = {
            "name": [-1 if name is None else names.code(name) for name in FRAMES],
            "module": [-1 if name is None else names.code(name) for name in MODULES],
            "file": [-1 if file is None else names.code(file) for file in FILES],
            "line": -1, "address": [0, 0, 0, 0xAB, 0],
        }  # fmt: skip
        threads = np.array([registry.thread(1, 10 + number, f"t{number}") for number in range(3)])
        yield TimelinePart(None, {"frames": registry.columns("frames", frames)})
        table = np.array(stacks, np.int64).reshape(-1, 2)
        for at in range(0, len(stacks), batch):
            columns = {"parent": table[at : at + batch, 0], "frame": table[at : at + batch, 1], "depth": 0}
            yield TimelinePart(None, {"stacks": registry.columns("stacks", columns)})
        for at in range(0, len(rows), batch):
            some = np.array(rows[at : at + batch], np.int64)
            columns = {"time": some[:, 1], "thread": threads[some[:, 2]], "stack": some[:, 0]}
            if what == "samples":
                columns |= {"cpu": -1, "count": some[:, 1], "unit": names.code(unit)}
            else:
                columns |= {"type": names.code("T"), "count": 2, "size": some[:, 1]}
            yield TimelinePart(None, {what: registry.columns(what, columns)})

    return Timeline("made up", "made up", parts)


def path_of(stacks: list[tuple[int, int]], stack: int, texts: tuple[str | None, ...]) -> list[str]:
    path: list[str] = []
    while stack >= 0:
        stack, frame = stacks[stack]
        path.insert(0, texts[frame] or "(no name)")
    return path


@given(data=samples(), what=st.sampled_from(["samples", "allocations"]), batch=st.integers(1, 9))
def test_top(data: tuple[list[tuple[int, int]], list[Sample]], what: str, batch: int) -> None:
    stacks, rows = data
    timeline = timeline_of(stacks, rows, what, batch)
    per_row = 1 if what == "samples" else 2
    for by, texts in (("name", SHOWN), ("category", MODULES)):
        calls, total, own = Counter[str](), Counter[str](), Counter[str]()
        for stack, weight, _ in rows:
            path = path_of(stacks, stack, texts) or ["(no name)"]
            calls[path[-1]] += per_row
            own[path[-1]] += weight
            for name in set(path):
                total[name] += weight
        answer = top(timeline, by=by)
        found = {row["name"]: (row["calls"], row["total"], row["self"]) for row in answer.table.rows()}
        assert found == {name: (calls[name], total[name], own[name]) for name in total}
        if by == "name":
            chosen = set(top(timeline, selection=Selection(names=("a",))).table["name"].tolist())
            assert chosen == {name for name in total if name.startswith("a (")}
        if rows:
            assert (answer.what, answer.unit) == (what, "cycles" if what == "samples" else "bytes")
            assert sum(row["share"] for row in answer.table.rows()) == pytest.approx(1)
    by_thread = Counter[str]()
    for _, weight, thread in rows:
        by_thread[f"t{thread} ({10 + thread})"] += weight
    assert {row["name"]: row["self"] for row in top(timeline, by="thread").table.rows()} == by_thread
    selection = Selection(start=3, end=7, threads=("t1", "t2"))
    kept = [weight for _, weight, thread in rows if thread and 3 <= weight < 7]
    assert sum(row["self"] for row in top(timeline, selection=selection).table.rows()) == sum(kept)


@given(data=samples(), what=st.sampled_from(["samples", "allocations"]), batch=st.integers(1, 9))
def test_tree(data: tuple[list[tuple[int, int]], list[Sample]], what: str, batch: int) -> None:
    stacks, rows = data
    total, own = Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
    for stack, weight, _ in rows:
        path = tuple(path_of(stacks, stack, SHOWN))
        own[path] += weight
        for length in range(1, len(path) + 1):
            total[path[:length]] += weight
    del own[()]
    paths: list[tuple[str, ...]] = []
    found = {}
    for row in tree(timeline_of(stacks, rows, what, batch)).table.rows():
        paths.append((*(paths[row["parent"]] if row["parent"] >= 0 else ()), row["name"]))
        found[paths[-1]] = row["total"], row["self"]
    assert found == {path: (weight, own[path]) for path, weight in total.items()}


@given(
    data=samples(),
    batch=st.integers(1, 9),
    unit=st.sampled_from(["samples", "ns"]),
    cells=st.integers(1, 12),
    only=st.sampled_from([None, "a", "!a"]),
)
def test_lanes_of_samples(
    data: tuple[list[tuple[int, int]], list[Sample]], batch: int, unit: str, cells: int, only: str | None
) -> None:
    """The weight of a sample is its time; in nanoseconds, it is also how long the sample lasts."""
    stacks, rows = data
    start, end = 2, 14
    bounds = [start + int(cell * (end - start) / cells) for cell in range(cells)] + [end]
    weights: dict[str, Counter[tuple[int, str]]] = {}
    for stack, weight, thread in rows:
        name = (path_of(stacks, stack, SHOWN) or [""])[-1]
        if only is not None and name.startswith("a (") != (only == "a"):
            continue
        for cell in range(cells):
            if unit == "ns":
                part = max(0, min(2 * weight, bounds[cell + 1]) - max(weight, bounds[cell]))
            else:
                part = weight if bounds[cell] <= weight < bounds[cell + 1] else 0
            if part:
                weights.setdefault(f"t{thread} ({10 + thread})", Counter())[cell, name] += part
    selection = Selection(names=() if only is None else (only,))
    drawn = lanes(timeline_of(stacks, rows, "samples", batch, unit), start, end, cells, selection=selection)
    sums = {label: [sum(own[key] for key in own if key[0] == cell) for cell in range(cells)]
            for label, own in weights.items()}  # fmt: skip
    assert sorted(lane.label for lane in drawn.samples) == sorted(sums)
    assert drawn.rows == [] and drawn.more == 0
    assert drawn.most == max((max(own) for own in sums.values()), default=0)
    for lane in drawn.samples:
        own = sums[lane.label]
        assert lane.busy == sum(own)
        for cell, (top_name, fill, weight) in enumerate(zip(lane.names, lane.fill, own, strict=True)):
            full = bounds[cell + 1] - bounds[cell] if unit == "ns" else drawn.most
            assert fill == pytest.approx(min(weight / max(full, 1), 1))
            assert (top_name is None) == (weight == 0)
            if top_name is not None:
                assert weights[lane.label][cell, top_name] == max(
                    part for key, part in weights[lane.label].items() if key[0] == cell
                )


def test_the_busiest_threads_with_samples() -> None:
    rows = [(-1, 5, thread) for thread in (0, 1, 1, 2, 2, 2)]
    drawn = lanes(timeline_of([], rows, "samples", 9, "samples"), 0, 10, 2, limit=1)
    assert [(lane.label, lane.calls, lane.busy) for lane in drawn.samples] == [("t2 (12)", 3, 15)]
    assert (drawn.most, drawn.more, drawn.unit) == (15, 2, "samples")


def test_samples_of_several_units() -> None:
    def parts(registry: Registry, tables: Set[str]) -> Iterator[TimelinePart]:
        units = [registry.names.code(unit) for unit in ("cycles", "misses", "misses")]
        values = {"time": 0, "thread": -1, "cpu": -1, "stack": -1, "count": [9, 5, 6], "unit": units}
        yield TimelinePart(None, {"samples": registry.columns("samples", values)})

    timeline = Timeline("made up", "made up", parts)
    answer = top(timeline)
    assert (answer.unit, answer.table["self"].tolist()) == ("misses", [11])
    assert answer.notes == ["samples of other units: cycles (--unit)"]
    assert top(timeline, unit="cycles").table["self"].tolist() == [9]
    with pytest.raises(QuestionError, match="there are no samples in the unit 'seconds', only in cycles, misses"):
        top(timeline, unit="seconds")


# ---- all formats


def traces() -> list[Path]:
    """Return the traces of the corpus."""
    suffixes = {".fxt", ".mlpd", ".gz", ".log", ".dcpi"}
    files = [path for path in sorted(CORPUS.glob("*/*")) if path.suffix in suffixes]
    return files + [path for path in sorted((CORPUS / "uftrace").iterdir()) if (path / "info").exists()]


def ask_everything(timeline: Timeline) -> None:
    """Ask all questions, and compare sums of the answers."""
    tables = timeline.tables("slices", "samples", "allocations", "instants", "logs", "scheduling")
    slices, scheduling = tables["slices"], tables["scheduling"]
    if slices.num_rows:
        outermost = slices["parent"] < 0
        for by in ("name", "category", "thread", "process", "track"):
            table = top(timeline, by=by, waiting=True).table
            sums = (table["calls"].sum(), table["self"].sum())
            assert sums == (slices.num_rows, slices["self_time"].sum()), by
            assert top(timeline, by=by).table["self"].sum() == (table["self"] - table["waiting"]).sum(), by
            assert by != "track" or table["total"].sum() <= slices["duration"][outermost].sum()
        assert tree(timeline).table["calls"].sum() == (slices["depth"] < MAX_DEPTH).sum()
        assert overview(timeline).slices == slices.num_rows
    for what, column in (("samples", "count"), ("allocations", "size")):
        rows = tables[what]
        for by in ("name", "category", "thread", "process") if rows.num_rows else ("name",):
            answer = top(timeline, what=what, by=by)
            units = rows["unit"] if what == "samples" else None
            of_unit = units.is_in(answer.unit) if units is not None and rows.num_rows else slice(None)
            assert answer.table["self"].sum() == rows[column][of_unit].sum()
        tree(timeline, what=what)
    for by in ("name", "process", "track") if scheduling.num_rows else ("name",):
        assert top(timeline, what="sched", by=by).table["total"].sum() == scheduling["duration"].sum()
    hits = find(timeline, limit=3)
    assert hits.count == sum(tables[name].num_rows for name in ("slices", "instants", "logs"))
    if summary(timeline).start is not None:
        assert sum(lane.calls for lane in drawn(timeline).rows) == (slices["depth"] < 3).sum()


def drawn(timeline: Timeline) -> Lanes:
    """Return the lanes of a whole trace."""
    info = summary(timeline)
    return lanes(timeline, info.start or 0, (info.end or 0) + 1, 30, depth=3)


@pytest.mark.full
@pytest.mark.once
@pytest.mark.parametrize("path", traces(), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_answers_of_the_corpus(path: Path) -> None:
    with fxtio.open_timeline(path) as timeline:
        ask_everything(timeline)


@pytest.mark.full
@pytest.mark.once
@pytest.mark.parametrize("name", BUILT_IN)
def test_answers_of_broken_traces(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every trace that breaks a rule is answered, or refused with an error of fxtio."""
    lower_limits(monkeypatch)
    answered = 0
    for number, rule in enumerate(broken_rules(name)):
        if rule == "uftrace.session.too-many":  # which takes long to read
            continue
        path: Any = tmp_path / str(number)
        write_broken(rule, path)
        try:
            with fxtio.open_timeline(path, format=name) as timeline:
                for question in (top, tree, partial(find, limit=20), overview, drawn):
                    question(timeline)
            answered += 1
        except FxtioError:
            continue
        except Exception as error:
            raise AssertionError(rule) from error
    assert answered > 10
