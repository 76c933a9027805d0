"""The answers of a timeline compared with plain loops over its slices, in batches of any size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from fxtio._native.constants import SpanStep
from fxtio.selection import Selection
from fxtio.table import Table
from fxtio.timeline import Timeline, sorting
from fxtio.timeline.answers import Condition, QuestionError, find, lanes, overview, top, tree
from fxtio.timeline.answers.overview import Gaps
from fxtio.timeline.answers.totals import Durations
from fxtio.timeline.arguments import Arguments
from fxtio.timeline.parts import Registry
from support.timelines import CATEGORIES, NAMES, Step, step_lists, timeline_of

Row = dict[str, Any]

overview_module = import_module("fxtio.timeline.answers.overview")
totals_module = import_module("fxtio.timeline.answers.totals")

BATCHES = st.integers(1, 12) | st.just(1000)
RANGES = st.tuples(st.integers(0, 40), st.integers(1, 30)).map(lambda pair: (pair[0], pair[0] + pair[1]))


def slices_of(timeline: Timeline) -> list[Row]:
    """Return the slices with `thread`, the number of their thread, and `around`, the slices around each."""
    tables = timeline.tables("slices", "threads", "tracks")
    tids = tables["threads"]["tid"].tolist()
    rows = list(tables["slices"].rows())
    for row in rows:
        row["thread"] = tids[tables["tracks"]["thread"][row["track"]]]
        row["around"] = [] if row["parent"] < 0 else [*rows[row["parent"]]["around"], rows[row["parent"]]]
    return rows


def cut(rows: list[Row], start: int, end: int) -> list[Row]:
    """Return the slices that overlap a range, cut to it."""
    kept = []
    for row in rows:
        begin, finish = row["start"], row["start"] + row["duration"]
        if begin < end and (finish > start or begin == finish >= start):
            row["inside"] = max(begin, start), min(finish, end)
            kept.append(row)
    for row in kept:
        begin, finish = row["inside"]
        inner = sum(each["inside"][1] - each["inside"][0] for each in kept if each["parent"] == row["id"])
        row["self_time"] = min(row["self_time"], max(finish - begin - inner, 0))
    for row in kept:
        row["start"], row["duration"] = row["inside"][0], row["inside"][1] - row["inside"][0]
    return kept


def rank(rows: list[Row], by: str) -> dict[str, tuple[int, ...]]:
    """Return calls, total, self, min, median, p99 and max of each group."""
    result: dict[str, tuple[int, ...]] = {}
    for name in {row[by] for row in rows}:
        own = [row for row in rows if row[by] == name]
        lengths = sorted(row["duration"] for row in own)
        total = sum(row["duration"] for row in own if all(each[by] != name for each in row["around"]))
        p99 = lengths[-(-99 * len(lengths) // 100) - 1]
        median = lengths[(len(lengths) - 1) // 2]
        sums = len(own), total, sum(row["self_time"] for row in own)
        result[name] = (*sums, lengths[0], median, p99, lengths[-1])
    return result


def nests(rows: list[Row]) -> bool:
    """Return whether every slice is within the one around it, so that it is clear which one is within another."""
    ends = {row["id"]: row["start"] + row["duration"] for row in rows}
    return all(row["parent"] < 0 or ends[row["id"]] <= ends[row["parent"]] for row in rows)


def without_total(ranking: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    return {name: values[:1] + values[2:] for name, values in ranking.items()}


def ranked(answer: Any) -> dict[str, tuple[int, ...]]:
    names = ("calls", "total", "self", "min", "median", "p99", "max")
    return {row["name"]: tuple(row[name] for name in names) for row in answer.table.rows()}


@pytest.mark.full
@given(steps=step_lists(), batch=BATCHES)
def test_top(steps: list[Step], batch: int) -> None:
    timeline = timeline_of(steps, batch)
    rows = slices_of(timeline)
    assume(nests(rows))
    for by in ("name", "category"):
        assert ranked(top(timeline, by=by)) == rank(rows, by)
    expected = {f"thread {tid} ({tid})": values for tid, values in rank(rows, "thread").items()}
    assert ranked(top(timeline, by="thread")) == expected
    assert ranked(top(timeline, by="track")) == expected
    for row in rows:
        row["process"] = "program (1)"
    totals = ranked(top(timeline, by="process")).get("program (1)", (0, 0))
    assert totals[1] == sum(row["duration"] for row in rows if not row["around"])


@given(steps=step_lists(), batch=BATCHES, times=RANGES)
def test_top_of_a_range(steps: list[Step], batch: int, times: tuple[int, int]) -> None:
    timeline = timeline_of(steps, batch)
    rows = slices_of(timeline)
    assume(nests(rows))
    assert ranked(top(timeline, selection=Selection(*times))) == rank(cut(rows, *times), "name")


@pytest.mark.full
@given(steps=step_lists(), batch=BATCHES, name=st.sampled_from(NAMES), tid=st.integers(0, 2))
def test_top_of_a_selection(steps: list[Step], batch: int, name: str, tid: int) -> None:
    timeline = timeline_of(steps, batch)
    rows = slices_of(timeline)
    assume(nests(rows))
    selection = Selection(names=(f"!{name}",), threads=(f"thread {tid}", str((tid + 1) % 3)))
    kept = [row for row in rows if row["name"] != name and row["thread"] in (tid, (tid + 1) % 3)]
    assert ranked(top(timeline, selection=selection)) == rank(kept, "name")
    kept = [row for row in rows if row["category"] == CATEGORIES[0]]
    assert ranked(top(timeline, selection=Selection(categories=("n?t",)))) == rank(kept, "name")


def with_arguments(rows: list[Row], steps: list[Step]) -> list[Row]:
    """Add the argument `n` of each slice, that of its end first; return those that have one."""
    for row in rows:
        values = [steps[event].argument for event in (row["end_event"], row["event"]) if event >= 0]
        row["n"] = next((str(value) for value in values if value is not None), None)
    return [row for row in rows if row["n"] is not None]


@given(steps=step_lists(), batch=BATCHES)
def test_top_by_an_argument(steps: list[Step], batch: int) -> None:
    timeline = timeline_of(steps, batch)
    rows = slices_of(timeline)
    expected = rank(with_arguments(rows, steps), "n")
    # Slices without an argument are in no row; those around them do not tell which are within one another.
    assert without_total(ranked(top(timeline, by="arg:n"))) == without_total(expected)


@pytest.mark.parametrize("batch", [1, 3, 100])
def test_a_function_that_calls_itself_is_counted_once(batch: int) -> None:
    begins = [Step(SpanStep.BEGIN, 0, time, 0, "fgf"[time % 3]) for time in range(6)]
    ends = [Step(SpanStep.END, 0, time, 0, "") for time in range(10, 16)]
    answer = ranked(top(timeline_of([*begins, *ends], batch)))
    assert answer == {"f": (4, 15, 11, 5, 9, 15, 15), "g": (2, 13, 4, 7, 7, 13, 13)}


@pytest.mark.parametrize("sort", ["self", "total", "calls", "median", "p99", "max"])
def test_order_and_limit(sort: str) -> None:
    steps = [Step(SpanStep.COMPLETE, 0, 100 * n, 100 * n + n % 7, NAMES[n % 3]) for n in range(30)]
    whole = top(timeline_of(steps), sort=sort).table
    assert whole[sort].tolist() == sorted(whole[sort].tolist(), reverse=True)
    short = top(timeline_of(steps), sort=sort, limit=2)
    assert (short.more, short.table["name"].tolist()) == (1, whole["name"].tolist()[:2])


def test_questions_without_an_answer() -> None:
    timeline = timeline_of([])
    for options in ({"by": "color"}, {"sort": "min"}, {"what": "frames"}, {"what": "samples", "by": "track"}):
        with pytest.raises(QuestionError):
            top(timeline, **options)  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(QuestionError):
        tree(timeline, what="sched")
    with pytest.raises(QuestionError):
        find(timeline, order="name")


def test_nothing() -> None:
    for steps in ([], [Step(SpanStep.INSTANT, 0, 5, 0, "f")]):
        timeline = timeline_of(steps)
        assert top(timeline).table.num_rows == 0
        assert tree(timeline).table.num_rows == 0
        assert find(timeline).count == len(steps)
        assert lanes(timeline, 0, 10, 5).rows == []
        assert overview(timeline).slices == 0


# ---- percentiles


LENGTHS = st.integers(0, 200) | st.integers(0, 2**62)
ROUNDED = st.lists(st.tuples(st.integers(0, 4), LENGTHS), min_size=1, max_size=60)


@example(rows=[(0, 2**25 - 1)], batch=1, most=0, pairs=700)
@given(rows=ROUNDED, batch=st.integers(1, 60), most=st.sampled_from([0, 10, 1000]), pairs=st.sampled_from([700, 10**6]))
def test_percentiles(rows: list[tuple[int, int]], batch: int, most: int, pairs: int) -> None:
    """Deviation: with few pairs, steps are up to a factor of two wide."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(totals_module, "EXACT_ROWS", most)
        patch.setattr(totals_module, "MAX_PAIRS", pairs)
        durations = Durations()
        for at in range(0, len(rows), batch):
            part = np.array(rows[at : at + batch], np.int64)
            durations.enter(part[:, 0], part[:, 1])
        results = durations.percentiles(6, (50, 99))
    assert (durations.error == 0) == (len(rows) <= most)
    assert durations.error <= (0.0079 if pairs > 700 else 0.5)
    for group in range(6):
        lengths = sorted(length for own, length in rows if own == group)
        for percent, result in zip((50, 99), results, strict=True):
            exact = lengths[max(-(-percent * len(lengths) // 100), 1) - 1] if lengths else 0
            rounding = 1 + exact * 2**-23 if durations.error else 0  # to whole ns, and to float32
            assert abs(int(result[group]) - exact) <= exact * durations.error + rounding


def test_percentiles_are_those_of_numpy() -> None:
    random = np.random.default_rng(3)
    lengths = random.lognormal(8, 2, 5000).astype(np.int64)
    durations = Durations()
    durations.enter(np.zeros(5000, np.int64), lengths)
    median, p99 = durations.percentiles(1, (50, 99))
    assert median[0] == np.percentile(lengths, 50, method="inverted_cdf")
    assert p99[0] == np.percentile(lengths, 99, method="inverted_cdf")


# ---- the tree


def paths(rows: list[Row], names: Counter[str] | None = None) -> dict[tuple[str, ...], tuple[int, int, int]]:
    """Return calls, total and self time by the path of names."""
    result: dict[tuple[str, ...], tuple[int, int, int]] = {}
    for row in rows:
        if names is not None and row["name"] not in names:
            continue
        path = tuple(each["name"] for each in [*row["around"], row] if names is None or each["name"] in names)
        calls, total, own = result.get(path, (0, 0, 0))
        result[path] = calls + 1, total + row["duration"], own + row["self_time"]
    return result


def paths_of(answer: Any) -> dict[tuple[str, ...], tuple[int, int, int]]:
    rows = list(answer.table.rows())
    result = {}
    for at, row in enumerate(rows):
        path, above = [row["name"]], row["parent"]
        while above >= 0:
            assert above < at
            path, above = [rows[above]["name"], *path], rows[above]["parent"]
        assert len(path) == row["depth"] + 1
        result[tuple(path)] = row["calls"], row["total"], row["self"]
    assert len(result) == len(rows)
    return result


@given(steps=step_lists(), batch=BATCHES)
def test_tree(steps: list[Step], batch: int) -> None:
    timeline = timeline_of(steps, batch)
    rows = slices_of(timeline)
    assert paths_of(tree(timeline)) == paths(rows)
    selection = Selection(names=("[fg]",))
    assert paths_of(tree(timeline, selection=selection)) == paths(rows, Counter("fg"))


@given(steps=step_lists(), batch=BATCHES, share=st.floats(0, 1), depth=st.integers(1, 4))
def test_tree_that_is_cut(steps: list[Step], batch: int, share: float, depth: int) -> None:
    timeline = timeline_of(steps, batch)
    whole = paths(slices_of(timeline))
    roots = sum(total for path, (_, total, _) in whole.items() if len(path) == 1)
    answer = tree(timeline, share=share, depth=depth)
    found = paths_of(answer)
    assert found.items() <= whole.items()
    assert answer.more == len(whole) - len(found)
    for path, (_, total, _) in whole.items():
        is_large = all(whole[path[: n + 1]][1] >= share * roots for n in range(len(path))) and len(path) <= depth
        assert (path in found) == is_large, (path, total)


@pytest.mark.full
@given(steps=step_lists(), batch=BATCHES, times=RANGES)
def test_tree_of_a_range(steps: list[Step], batch: int, times: tuple[int, int]) -> None:
    timeline = timeline_of(steps, batch)
    rows = slices_of(timeline)
    assume(nests(rows))
    # Those around a slice without a duration may end where the range begins.
    assume(all(row["duration"] or row["start"] != times[0] for row in rows))
    assert paths_of(tree(timeline, selection=Selection(*times))) == paths(cut(rows, *times))


def test_a_deep_tree() -> None:
    begins = [Step(SpanStep.BEGIN, 0, time, 0, "f") for time in range(1200)]
    answer = tree(timeline_of(begins, 500))
    assert answer.table.num_rows == 1000
    assert answer.notes == ["left out, since too deep or on too many different paths: 200 slices"]


# ---- find


@given(
    steps=step_lists(),
    batch=BATCHES,
    pattern=st.sampled_from([None, "f", "[gh]", "!f"]),
    longer=st.none() | st.integers(0, 6),
    least=st.none() | st.integers(0, 2),
    by_time=st.booleans(),
    limit=st.none() | st.integers(1, 5),
)
def test_find(
    steps: list[Step],
    batch: int,
    pattern: str | None,
    longer: int | None,
    least: int | None,
    by_time: bool,
    limit: int | None,
) -> None:
    timeline = timeline_of(steps, batch)
    slices = slices_of(timeline)
    rows: list[Row] = [dict(row, kind="slice", time=row["start"]) for row in slices]
    if longer is None:
        for row in timeline.table("instants").rows():
            around = [] if row["slice"] < 0 else [*slices[row["slice"]]["around"], slices[row["slice"]]]
            rows.append(dict(row, kind="instant", duration=None, end_event=-1, around=around))
    for row in rows:
        row["values"] = [
            steps[event].argument
            for event in (row["event"], row["end_event"])
            if event >= 0 and steps[event].argument is not None
        ]
    names = {None: "fgh", "f": "f", "[gh]": "gh", "!f": "gh"}[pattern]
    rows = [row for row in rows if row["name"] in names]
    rows = [row for row in rows if longer is None or row["duration"] >= longer]
    rows = [row for row in rows if least is None or any(value >= least for value in row["values"])]
    conditions = [] if least is None else [Condition.parse(f"n>={least}")]
    order = "time" if by_time else "longest"
    hits = find(timeline, pattern, conditions=conditions, longer=longer, order=order, limit=limit)
    assert hits.count == len(rows)

    def key(time: int, duration: int | None) -> tuple[int, int]:
        length = -1 if duration is None else duration
        return (time, -length) if by_time else (-length, time)

    keys = sorted(key(row["time"], row["duration"]) for row in rows)[:limit]
    assert [key(hit.time, hit.duration) for hit in hits.rows] == keys
    expected = Counter(
        (row["kind"], row["time"], row["duration"], row["name"], row["category"], (*row["values"][-1:],),
         tuple(each["name"] for each in row["around"]))
        for row in rows
    )  # fmt: skip
    found = Counter(
        (hit.kind, hit.time, hit.duration, hit.name, hit.category, tuple(hit.arguments.values()), tuple(hit.ancestors))
        for hit in hits.rows
    )
    assert found <= expected
    assert limit is not None or found == expected


def test_the_innermost_ancestors() -> None:
    begins = [Step(SpanStep.BEGIN, 0, time, 0, "fgh"[time % 3]) for time in range(150)]
    instant = Step(SpanStep.INSTANT, 0, 200, 0, "here")
    (hit,) = find(timeline_of([*begins, instant]), "here").rows
    assert hit.ancestors == [step.name for step in begins[50:]]


def test_arguments_of_steps_that_are_sorted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows come in the order of time, so their numbers, by which arguments are known, are in no order."""
    monkeypatch.setattr(sorting, "MAX_ROWS", 10)
    steps = [
        Step(kind, 0, time + (kind == SpanStep.END), 0, "f", time)
        for time in reversed(range(0, 200, 2))
        for kind in (SpanStep.END, SpanStep.BEGIN)
    ]
    hits = find(timeline_of(steps, 7), conditions=[Condition.parse("n>=0")], order="time")
    assert [hit.arguments for hit in hits.rows] == [{"n": time} for time in range(0, 200, 2)]
    assert top(timeline_of(steps, 7), by="arg:n").table.num_rows == 100


class Waiting:
    """The greatest number of arguments that wait after a batch."""

    def __init__(self, registry: Registry) -> None:
        self.arguments = Arguments(registry)
        self.most = 0

    def enter(self, tables: Mapping[str, Table]) -> None:
        self.arguments.enter(tables)
        self.arguments.leave(tables)
        self.most = max(self.most, len(self.arguments.of(np.arange(1000))))


def test_arguments_that_belong_to_no_slice_are_forgotten() -> None:
    kinds = (SpanStep.END, SpanStep.INSTANT)  # an end without a begin is no slice
    steps = [Step(kinds[time % 2], 0, time, 0, "f", time) for time in range(1000)]
    waiting, _ = timeline_of(steps, 10).fold(Waiting, "slices", "instants", "args")
    assert waiting.most == 0


@pytest.mark.parametrize(
    ("text", "values", "refused"),
    [
        ("n=5", [5, 5.0, "5"], [6, "6", None, True]),
        ("n=0x10", [16], [10]),
        ("n!=5", [6, "6", None], [5]),
        ("n>2", [3, 2.5, True + 2], [2, "3", None]),
        ("n>=2", [2, 3], [1]),
        ("n<-1", [-2], [-1, 0]),
        ("n<=1.5", [1, 1.5, -9], [2]),
        ("n=ab*", ["abc", "ab"], ["xab", 7, None]),
        ("n=true", [True, "true"], [False, 1]),
        ("n=null", [None, "null"], [0, ""]),
        ("n=", ["", None], ["x", 1]),
        ("a b=c=d", ["c=d"], ["c"]),
    ],
)
def test_conditions(text: str, values: list[Any], refused: list[Any]) -> None:
    condition = Condition.parse(text)
    assert [value for value in values if not condition.accepts(value)] == []
    assert [value for value in refused if condition.accepts(value)] == []


@pytest.mark.parametrize("text", ["", "n", "=5", "n>many", "n<"])
def test_wrong_conditions(text: str) -> None:
    with pytest.raises(QuestionError):
        Condition.parse(text)


# ---- lanes, gaps, the overview


@given(steps=step_lists(), batch=BATCHES, times=RANGES, cells=st.integers(1, 20), depth=st.integers(1, 3))
def test_lanes(steps: list[Step], batch: int, times: tuple[int, int], cells: int, depth: int) -> None:
    timeline = timeline_of(steps, batch)
    rows = slices_of(timeline)
    start, end = times
    drawn = lanes(timeline, start, end, cells, depth=depth)
    bounds = [start + cell * (end - start) // cells for cell in range(cells + 1)]
    assert drawn.bounds == bounds
    kept = [row for row in cut(rows, start, end) if row["depth"] < depth]
    keys = sorted({(f"thread {row['thread']} ({row['thread']})", row["depth"]) for row in kept})
    assert sorted((lane.label, lane.depth) for lane in drawn.rows) == keys
    for lane in drawn.rows:
        own = [row for row in kept if f"({row['thread']})" in lane.label and row["depth"] == lane.depth]
        assert lane.calls == len(own)
        for cell in range(cells):
            sums: Counter[str] = Counter()
            for row in own:
                begin, finish = row["start"], row["start"] + row["duration"]
                sums[row["name"]] += max(0, min(finish, bounds[cell + 1]) - max(begin, bounds[cell]))
            name = lane.names[cell]
            width = max(bounds[cell + 1] - bounds[cell], 1)
            assert lane.fill[cell] == pytest.approx(min(sum(sums.values()) / width, 1))
            if any(sums.values()):
                assert name is not None
                assert sums[name] == max(sums.values())


def test_the_busiest_lanes() -> None:
    steps = [Step(SpanStep.COMPLETE, track, 0, 10 * (track + 1), "f") for track in range(5)]
    drawn = lanes(timeline_of(steps), 0, 50, 10, limit=2)
    assert [lane.label for lane in drawn.rows] == ["thread 3 (3)", "thread 4 (4)"]
    assert drawn.more == 3


def test_lanes_of_times_that_are_far_apart_and_of_any_depth() -> None:
    steps = [Step(SpanStep.COMPLETE, 0, 0, 10, "near"), Step(SpanStep.COMPLETE, 1, 1 << 60, 1 << 61, "far")]
    drawn = lanes(timeline_of(steps), 0, 1 << 62, 80, depth=1 << 40)
    assert drawn.bounds[1::26] == [(1 << 62) * cell // 80 for cell in (1, 27, 53, 79)]
    near, far = (Counter(lane.names) for lane in drawn.rows)
    assert near == {"near": 1, None: 79}
    assert far == {"far": 20, None: 60}


INTERVALS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)), max_size=20)


@given(batches=st.lists(INTERVALS, max_size=4), most=st.sampled_from([4, 1000]))
def test_gaps(batches: list[list[tuple[int, int]]], most: int) -> None:
    """With room for few gaps, what is reported are gaps still."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overview_module, "MAX_GAPS", most)
        gaps = Gaps()
        for batch in batches:
            gaps.enter(*np.array([(start, start + length) for start, length in batch], np.int64).reshape(-1, 2).T)
        found = gaps.longest(100)
    busy = {time for batch in batches for start, length in batch for time in range(2 * start, 2 * (start + length) + 1)}
    every = []
    for time in range(min(busy, default=0), max(busy, default=0)):
        if time not in busy:
            if time - 1 in busy:
                every.append([time - 1, time])
            every[-1][1] = time + 1
    expected = [(begin // 2, (end - begin) // 2) for begin, end in every]
    if most > 4:
        assert sorted(found) == expected
        assert [length for _, length in found] == sorted((length for _, length in found), reverse=True)
    else:
        assert set(found) <= set(expected)


@given(steps=step_lists(), batch=BATCHES)
def test_overview(steps: list[Step], batch: int) -> None:
    timeline = timeline_of(steps, batch)
    rows = slices_of(timeline)
    found = overview(timeline, 3)
    assert found.slices == len(rows)
    lengths = sorted((row["duration"] for row in rows), reverse=True)[:3]
    assert [each.duration for each in found.longest] == lengths
    assert {(each.name, each.time, each.duration) for each in found.longest} <= {
        (row["name"], row["start"], row["duration"]) for row in rows
    }
    busy = Counter[str]()
    for row in rows:
        busy[f"thread {row['thread']} ({row['thread']})"] += 0 if row["around"] else row["duration"]
    assert [each.busy for each in found.busiest] == sorted(busy.values(), reverse=True)[:3]
    assert all(busy[each.place] == each.busy for each in found.busiest)
