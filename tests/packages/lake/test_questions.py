"""Questions to lakes: the answers are those that the single traces give."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fxtio
from contract.samples import SYNTHETIC, Sample
from fxtio import synth
from fxtio.lake import Lake, LakeWarning, rows
from fxtio.lake import lake as lake_module
from fxtio.lake.layout import MARKER, identity_of
from fxtio.lake.questions import KEYS, OF_TRACES, SORTS, Part, QuestionError, Values
from fxtio.report import well_formed
from fxtio.timeline.answers import Condition, find
from fxtio.timeline.comparison import Change, Floor, compare, run_and_program, run_of
from fxtio.timeline.sql import QueryError

DAY = 86_400 * 10**9
NOW = 1_790_000_000 * 10**9
MS = 10**6


def write(
    path: Path,
    slices: Sequence[tuple[str, int]],
    *,
    start: int = NOW,
    program: str = "app",
    labels: Mapping[str, str] | None = None,
    **more: str,
) -> Path:
    """Write a trace with slices of some names and durations, one after the other; the first one begins at 1 us."""
    all_labels = {**(labels or {}), **more}
    with fxtio.create(path, format="fxt", wall_clock=start) as writer:
        track = writer.thread(7, 8, "main", program)
        if all_labels:
            writer.main.kernel_object(17, 2**64 - 1, "labels", all_labels)
        now = 1_000
        for name, duration in slices:
            track.complete(name, now, now + duration)
            now += duration + 1_000
    return path


def lake_of(tmp_path: Path, *paths: Path) -> Lake:
    lake = Lake(tmp_path / "lake", create=True)
    assert [each.kind for each in lake.add(paths)] == ["added"] * len(paths)
    return lake


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Lake, list[Path]]:
    """Return a lake of three programs that differ, and their traces."""
    folder = tmp_path_factory.mktemp("programs")
    paths = [folder / f"{seed}.fxt" for seed in range(3)]
    for seed, path in enumerate(paths):
        synth.write(path, "program", events=2_000, seed=seed)
    return lake_of(folder, *paths), paths


def slices_of(paths: Sequence[Path]) -> Iterator[dict[str, Any]]:
    """Yield the slices of traces as rows, with the ids of their traces."""
    for path in paths:
        identity, _ = identity_of(path)
        with fxtio.open_timeline(path) as timeline:
            for row in timeline.table("slices").rows():
                yield {**row, "trace": identity}


# ---- Which files are opened.


@pytest.fixture
def spoiled(tmp_path: Path) -> Lake:
    """Return a lake of two traces, of which one has a file that has the right size, but cannot be read."""
    paths = [
        write(tmp_path / "a.fxt", [("GET /", 2 * MS), ("[x]", MS)], build="1"),
        write(tmp_path / "b.fxt", [("spoiled", MS)], build="2", program="other", start=NOW - DAY),
    ]
    lake = lake_of(tmp_path, *paths)
    (file,) = Path(lake.url, "slices").glob("*/program=other/*")
    file.write_bytes(b"x" * file.stat().st_size)
    return Lake(lake.url)


@pytest.mark.parametrize(
    "where", ["name=GET /", "name=GET*", "name=[x]", "label:build=1", "program=a*", "host=1", "url=*a.fxt", "name=no"]
)
def test_files_without_slices_of_a_part_are_not_opened(where: str, spoiled: Lake) -> None:
    part, calls = Part([where]), {"GET /": 1, "[x]": 1}
    expected = {"name=GET /": {"GET /": 1}, "name=GET*": {"GET /": 1}, "name=[x]": {"[x]": 1}, "host=1": {}}
    expected["name=no"] = {}
    assert {row["key"]: row["calls"] for row in spoiled.top(part=part).rows} == expected.get(where, calls)
    assert len(spoiled.find(part=part).rows) == len(spoiled.worst(part=part).rows) * len(expected.get(where, calls))
    if expected.get(where, calls):
        assert spoiled.longest("label:build", "1", part=part)


def test_files_of_other_runs_are_not_opened(spoiled: Lake, tmp_path: Path) -> None:
    path = write(tmp_path / "c.fxt", [("GET /", 2 * MS)])
    assert [*spoiled.baseline([path], ["app"], last=1).runs[0]] == ["GET /", "[x]"]  # in the same order each time


def test_a_long_program_has_the_same_name_in_all_answers(tmp_path: Path) -> None:
    program = "プログラム" * 20
    lake = lake_of(tmp_path, write(tmp_path / "a.fxt", [("GET /", MS)], program=program))
    ((trace,), _), (group,) = lake.traces(), lake.top("program").rows
    assert trace["program"] == group["key"] == program
    for part in (Part([f"program={program}"]), Part([f"program={program[:-1]}?"])):
        assert len(lake.find(part=part).rows) == len(lake.top(part=part).rows) == 1
    assert lake.longest("program", program)


@pytest.mark.parametrize("where", ["name=spoiled", "name=*", "label:build=2", "thread=main"])
def test_files_that_may_have_slices_of_a_part_are_opened(where: str, spoiled: Lake) -> None:
    with pytest.raises(QueryError):
        spoiled.top(part=Part([where]))


@pytest.mark.parametrize("scheme", ["", "file://"], ids=["folder", "store"])
def test_few_lists_of_files_are_kept(scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake_module, "_SELECTED", 2)
    paths = [write(tmp_path / f"{name}.fxt", [(name, MS)], build=name) for name in "abc"]
    lake = Lake(f"{scheme}{lake_of(tmp_path, *paths).url}")
    for name in "a0bb0c0abc00a":
        expected = [] if name == "0" else [name]
        assert [row["key"] for row in lake.top(part=Part([f"label:build={name}"])).rows] == expected
        assert [row["name"] for row in lake.worst(name).rows] == expected
    tables = lake.sql("select view_name from duckdb_views() where view_name like 'selected%'").fetchall()
    assert sorted(tables) == [("selected_0",), ("selected_1",)]


@pytest.mark.parametrize("claimed", ["other", "x" * 32, None])
def test_a_damaged_file_that_names_other_traces(claimed: str | None, tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{name}.fxt", [(name, MS)]) for name in "ab"]
    lake = lake_of(tmp_path, *paths)
    damaged, sound = (identity_of(path)[0] for path in paths)
    (file,) = Path(lake.url, "slices").rglob(f"{damaged}.parquet")
    table = pq.ParquetFile(file).read()
    name = sound if claimed == "other" else claimed
    table = table.set_column(0, "trace", pa.array([name], pa.string()))
    pq.write_table(table, file, store_schema=False)
    rewrite_row(lake, damaged, files=[("slices", file.stat().st_size)])
    lake = Lake(lake.url)
    assert [row["key"] for row in lake.worst("a").rows] == []
    assert [row["key"] for row in lake.worst().rows] == [sound]
    assert lake.diff(Part([f"id={damaged}"]), Part([f"id={sound}"])).before.runs == [{}]


@pytest.mark.parametrize("column", ["labels", "losses", "files"])
def test_a_row_with_a_key_twice_is_left_out(column: str, tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{name}.fxt", [(name, MS)]) for name in "ab"]
    lake = lake_of(tmp_path, *paths)
    damaged, sound = (identity_of(path)[0] for path in paths)
    value = "x" if column == "labels" else 1
    rewrite_row(lake, damaged, **{column: [("slices", value), ("slices", value)]})
    with pytest.warns(LakeWarning, match=f"damaged or missing, and left out: traces/{damaged}"):
        assert [row["key"] for row in Lake(lake.url).worst().rows] == [sound]
    assert [each.kind for each in lake.add(paths)] == ["added", "known"]


def rewrite_row(lake: Lake, identity: str, **values: Any) -> None:
    """Give the row of a trace other values."""
    path = Path(lake.url, "traces", f"{identity}.parquet")
    table = pq.ParquetFile(path).read()
    for name, value in values.items():
        table = table.set_column(table.column_names.index(name), name, pa.array([value], table[name].type))
    pq.write_table(table, path, store_schema=False)


@pytest.mark.parametrize("limit", ["MAX_NAMES", "MAX_NAME_CHARACTERS"])
def test_the_row_of_a_trace_has_no_more_than_some_names(
    limit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, limit, 3)
    path = write(tmp_path / "a.fxt", [(name, MS) for name in "abacd"])
    lake = lake_of(tmp_path, write(tmp_path / "b.fxt", [(name, MS) for name in "abac"]), path)
    assert {row["slices"]: row["names"] for row in lake.traces()[0]} == {4: ["a", "b", "c"], 5: None}
    assert {row["key"]: row["calls"] for row in lake.top(part=Part(["name=?"])).rows} == {
        "a": 4,
        "b": 2,
        "c": 2,
        "d": 1,
    }


# ---- Single slices.


@pytest.mark.parametrize("order", ["longest", "time"])
@pytest.mark.parametrize(
    "options", [{}, {"pattern": "query"}, {"pattern": "*e*", "longer": 50_000, "shorter": 5 * MS}], ids=str
)
def test_slices_that_are_found_are_those_of_the_traces(
    order: str, options: dict[str, Any], programs: tuple[Lake, list[Path]]
) -> None:
    lake, paths = programs
    expected: list[tuple[Any, ...]] = []
    for path in paths:
        with fxtio.open_timeline(path) as timeline:
            hits = find(timeline, **{"longer": 0, **options})
            start = timeline.wall_clock
        expected += [(hit.time, hit.duration, hit.name, identity_of(path)[0], start) for hit in hits.rows]
    answer = lake.find(**options, order=order, limit=None)
    found = [(row["time"], row["duration"], row["name"], row["trace"], row["start"]) for row in answer.rows]
    assert Counter(found) == Counter(expected)
    if order == "longest":
        assert [row["duration"] for row in answer.rows] == sorted((row[1] for row in expected), reverse=True)
    else:
        moments = [(row["start"] is None, (row["start"] or 0) + row["time"]) for row in answer.rows]
        assert moments == sorted(moments)
    first = lake.find(**options, order=order, limit=3)
    assert list(first.rows) == list(answer.rows[:3])
    assert first.more == len(answer.rows) - 3
    assert {row["url"] for row in answer.rows} <= {*map(str, paths)}


VALUES = (17, -3, 2**63 + 5, 0, "17", "bob smith", "", None, True, False, 1.5, float("nan"), 17.0)


@pytest.fixture(scope="module")
def arguments(tmp_path_factory: pytest.TempPathFactory) -> tuple[Lake, list[Path]]:
    """Return a lake of traces with slices that have arguments at their begin, at their end, or at both."""
    folder = tmp_path_factory.mktemp("arguments")
    paths = [folder / "a.fxt", folder / "b.fxt"]
    for path in paths:
        with fxtio.create(path, format="fxt") as writer:
            track = writer.thread(7, 8, "main", "app")
            for number, value in enumerate(VALUES):
                now = 1_000 * number
                track.complete("whole", now, now + 10, args={"n": value})
                track.begin("open", now + 20, args={"n": value} if number % 3 else {})
                track.begin("inner", now + 25, args={"m": 1})
                track.end("inner", now + 28, args={"n": path.name})
                track.end("open", now + 30, args={"n": value, "m": number})
                track.instant("point", now + 40, args={"n": value})
    return lake_of(folder, *paths), paths


@pytest.mark.parametrize(
    "texts",
    [
        *[
            [each]
            for each in ("n=17", "n!=17", "n=0x11", "n>1", "n<=-3", "n>1e18", "n=true", "n!=false", "n=b*", "n!=b*")
        ],
        *[[each] for each in ("n=", "n!=", "n=null", "n<2", "m=1", "n=nan", "n=no*", "other=1")],
        ["n=b*", "m=1"],
        ["n=17", "m>=0", "m<3"],
    ],
    ids=str,
)
def test_arguments_that_are_found_are_those_of_the_traces(texts: list[str], arguments: tuple[Lake, list[Path]]) -> None:
    lake, paths = arguments
    conditions = [Condition.parse(each) for each in texts]
    expected = []
    for path in paths:
        with fxtio.open_timeline(path) as timeline:
            hits = find(timeline, longer=0, conditions=conditions)
        expected += [(identity_of(path)[0], hit.time, hit.name) for hit in hits.rows]
    part = Part(conditions=conditions)
    answer = lake.find(part=part, limit=None)
    assert sorted((row["trace"], row["time"], row["name"]) for row in answer.rows) == sorted(expected)
    calls = Counter(name for _, _, name in expected)
    assert {row["key"]: row["calls"] for row in lake.top(part=part).rows} == calls
    traces = Counter(trace for trace, _, _ in expected)
    assert {row["key"]: row["calls"] for row in lake.worst(part=part).rows} == traces


def test_conditions_that_are_no_conditions_on_arguments(arguments: tuple[Lake, list[Path]]) -> None:
    lake, _ = arguments
    condition = Condition.parse("n=1")
    for wrong in (["n=1"], "n=1", condition, iter([condition])):
        with pytest.raises(TypeError, match="conditions are a list of Condition"):
            Part(conditions=wrong)  # type: ignore[arg-type]
    with pytest.raises(QuestionError, match="arguments are of slices"):
        lake.traces(Part(conditions=[condition]))


def test_files_without_arguments_are_not_opened(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, write(tmp_path / "a.fxt", [("GET", 5 * MS)]))
    for path in Path(lake.url, "slices").rglob("*.parquet"):
        path.write_bytes(b"x" * path.stat().st_size)
    assert lake.find(part=Part(conditions=[Condition.parse("n=1")])).rows == []


def test_conditions_of_single_slices(tmp_path: Path) -> None:
    paths = [
        write(tmp_path / "a.fxt", [("GET /a", 5 * MS), ("GET /b", 7 * MS)], build="1"),
        write(tmp_path / "b.fxt", [("GET /a", 9 * MS)], build="2", start=NOW - DAY),
    ]
    lake = lake_of(tmp_path, *paths)
    (row,) = lake.find("GET /a", part=Part(["label:build=1"])).rows
    assert (row["time"], row["duration"], row["thread"], row["tid"], row["process"]) == (
        1_000,
        5 * MS,
        "main",
        8,
        "app",
    )
    assert (row["labels"], row["program"], row["start"]) == ({"build": "1"}, "app", NOW)
    assert [each["duration"] for each in lake.find(order="time").rows] == [9 * MS, 5 * MS, 7 * MS]
    assert lake.find("GET a?").rows == []
    assert [row["name"] for row in lake.find(part=Part(["day=2026-09-21"])).rows] == ["GET /b", "GET /a"]
    assert lake.longest("label:build", "1") == {
        "trace": row["trace"], "name": "GET /b", "time": 5 * MS + 2_000, "url": str(paths[0]),
    }  # fmt: skip
    assert lake.longest("label:other", "1") is None
    assert (lake.longest("label:other", None) or {})["name"] == "GET /a"


# ---- The worst traces.


@pytest.mark.parametrize("sort", [*SORTS, *OF_TRACES])
def test_the_worst_traces(sort: str, programs: tuple[Lake, list[Path]]) -> None:
    lake, paths = programs
    durations: dict[str, list[int]] = {}
    longest: dict[str, tuple[int, int]] = {}
    for row in slices_of(paths):
        if row["name"] == "query":
            durations.setdefault(row["trace"], []).append(row["duration"])
            longest[row["trace"]] = max(longest.get(row["trace"], (0, 0)), (row["duration"], -row["start"]))
    answer = lake.worst("query", sort=sort)
    assert {row["key"] for row in answer.rows} == {*durations}
    assert [row[sort] for row in answer.rows] == sorted((row[sort] for row in answer.rows), reverse=True)
    of_traces = {row["id"]: row for row in lake.traces()[0]}
    for row in answer.rows:
        own = sorted(durations[row["key"]])
        assert (row["calls"], row["total"], row["max"]) == (len(own), sum(own), own[-1])
        assert row["p99"] == own[max(-(-99 * len(own) // 100) - 1, 0)]
        assert (row["max"], -row["time"], row["name"]) == (*longest[row["key"]], "query")
        shared = ("duration", "start", "program", "host", "labels", "url")
        assert {name: row[name] for name in shared} == {name: of_traces[row["key"]][name] for name in shared}
    assert list(lake.worst("query", sort=sort, limit=1).rows) == list(answer.rows[:1])
    assert lake.worst("nothing").rows == []


# ---- Comparisons of runs.


def runs(
    folder: Path, count: int, build: str, *, slow: float = 1.0, first: int = 0, program: str = "app"
) -> list[Path]:
    """Write traces of runs that differ a little, in which `query` may be slower."""
    folder.mkdir(exist_ok=True)
    return [
        write(
            folder / f"{build}-{number}.fxt",
            [("query", round((10 + number * 0.1) * slow * MS)), ("render", 4 * MS + number)] * 3,
            start=NOW + (first + number) * DAY,
            program=program,
            build=build,
        )
        for number in range(count)
    ]


def run_times(paths: Sequence[Path], column: str = "duration") -> list[dict[str, Any]]:
    result = []
    for path in paths:
        with fxtio.open_timeline(path) as timeline:
            result.append(run_of(timeline, column))
    return result


@pytest.mark.parametrize("column", ["duration", "self_time"])
def test_two_parts_differ_as_their_traces_do(column: str, tmp_path: Path) -> None:
    before, after = runs(tmp_path, 8, "1"), runs(tmp_path, 9, "2", slow=1.3)
    synth.write(tmp_path / "other.fxt", "program", events=200)
    lake = lake_of(tmp_path, *before, *after, tmp_path / "other.fxt")
    parts = Part(["label:build=1"]), Part(["label:build=2"])
    answer = lake.diff(*parts, column=column)
    expected = compare(run_times(before[::-1], column), run_times(after[::-1], column))
    assert {each.name: each for each in answer.comparison.differences} == {
        each.name: each for each in expected.differences
    }
    assert answer.comparison.advice == expected.advice == ""
    changes = {each.name: (each.change, each.p is not None) for each in answer.comparison.differences}
    assert changes == {"query": (Change.SLOWER, True), "render": (Change.SAME, True)}
    assert [row["url"] for row in answer.before.traces] == [str(path) for path in before[::-1]]
    assert (len(answer.after.runs), answer.after.more) == (9, 0)
    latest = lake.diff(*parts, last=5)
    assert (latest.comparison.runs, latest.before.more, latest.after.more) == ((5, 5), 3, 4)
    only = lake.diff(*(part.named("render") for part in parts))
    assert [each.name for each in only.comparison.differences] == ["render"]
    assert only.comparison.runs == (8, 9)


def test_a_run_without_such_slices_is_a_run(tmp_path: Path) -> None:
    """So what is called in no run of a side is new, or gone."""
    paths = [write(tmp_path / f"{number}.fxt", [("x", MS + number)], build="1") for number in range(4)]
    paths += [write(tmp_path / f"{number}y.fxt", [("y", 2 * MS + number)], build="2") for number in range(4)]
    answer = lake_of(tmp_path, *paths).diff(Part(["label:build=1", "name=x"]), Part(["label:build=2", "name=x"]))
    (difference,) = answer.comparison.differences
    assert (difference.change, difference.calls) == (Change.GONE, (1.0, 0.0))


def test_traces_are_checked_against_the_latest_runs(tmp_path: Path) -> None:
    old = runs(tmp_path, 4, "old", slow=0.2)
    main = runs(tmp_path, 8, "main", first=10)
    other = runs(tmp_path, 3, "other", first=30, slow=0.1, program="tool")
    slower, same = runs(tmp_path / "new", 8, "new", slow=1.3), runs(tmp_path / "same", 8, "same", first=40)
    lake = lake_of(tmp_path, *old, *main, *other, *same)
    answer = lake.check(slower, last=8, part=Part(["label:build=main"]))
    assert answer == compare(run_times(main[::-1]), run_times(slower))
    assert {each.name: each.change for each in answer.differences} == {"query": Change.SLOWER, "render": Change.SAME}
    again = lake.check(same, last=8)  # those in the lake are not compared with themselves
    assert again == compare(run_times(main[::-1]), run_times(same))
    assert {each.change for each in again.differences} == {Change.SAME}
    assert lake.check(slower[0], floor=Floor(9.0, 0)).runs == (20, 1)
    with pytest.raises(QuestionError, match="of one program are compared, not of app, tool"):
        lake.check([slower[0], other[0]])
    with pytest.raises(TypeError, match=r"several strings, such as \['program=app'\]"):
        Part("program=app")
    with pytest.raises(QuestionError, match="of one program are compared, not of none"):
        lake.check([])
    with pytest.raises(QuestionError, match="no trace with program=app and host=x to compare with"):
        lake.check(slower, part=Part(["host=x"]))


@pytest.mark.parametrize("sample", SYNTHETIC, ids=str)
def test_the_program_of_a_run_is_that_of_its_row(sample: Sample, tmp_path: Path) -> None:
    path = sample.make(tmp_path)
    lake = lake_of(tmp_path, path)
    with fxtio.open_timeline(path) as timeline:
        assert well_formed(run_and_program(timeline)[1]) == lake.traces()[0][0]["program"]


# ---- What is in a lake.


def test_contents(tmp_path: Path) -> None:
    paths = [
        write(tmp_path / "a.fxt", [("x", 1)], labels={"build": "1", "it's a.b": "'"}),
        write(tmp_path / "b.fxt", [("x", 2)] * 3, build="2", start=NOW + DAY, host="web1"),
        write(tmp_path / "c.fxt", [("x", 3)] * 5, build="2", start=NOW + DAY + 1, program="tool"),
    ]
    lake = lake_of(tmp_path, *paths)
    folder = Path(lake.url)
    row = next(each for each in lake.traces()[0] if each["program"] == "tool")
    (folder / "traces" / f"{row['id']}.parquet").unlink()  # as if its writer had been killed
    (folder / "_unfinished" / "1-x").mkdir()
    (folder / "_unfinished" / "1-x" / "slices.parquet").write_bytes(b"x")
    (folder / "notes.txt").touch()
    answer = Lake(lake.url).info()
    assert (answer.traces, answer.rows["slices"], answer.days) == (2, 4, 2)
    assert answer.bytes == sum(path.stat().st_size for path in paths[:2])
    assert (answer.first, answer.last) == (NOW, NOW + DAY)
    assert answer.values["program"] == Values(1, {"app": 2})
    assert answer.values["host"] == Values(1, {"web1": 1})
    assert answer.values["format"] == Values(1, {"fxt": 2})
    assert answer.labels == {
        "build": Values(2, {"1": 1, "2": 1}), "host": Values(1, {"web1": 1}), "it's a.b": Values(1, {"'": 1}),
    }  # fmt: skip
    assert (answer.label_count, answer.versions, answer.findings, answer.with_findings) == (3, {1: 2}, 0, 0)
    assert (answer.orphans, answer.unfinished, answer.others) == (1, 1, 1)
    assert (folder / MARKER).exists()
    some = Lake(lake.url).info(limit=1, part=Part(["label:build=*"]))
    assert (some.labels, some.label_count) == ({"build": Values(2, {"1": 1})}, 3)
    assert Lake(lake.url).info(part=Part(["program=tool"])).traces == 0


def test_losses_and_findings_of_a_lake(tmp_path: Path) -> None:
    broken = tmp_path / "broken.fxt"
    broken.write_bytes(write(tmp_path / "a.fxt", [("x", 1)] * 9).read_bytes()[:-8])
    synth.write(tmp_path / "all.fxt", "everything", events=2_000)
    lake = lake_of(tmp_path, broken, tmp_path / "all.fxt")
    rows, _ = lake.traces()
    answer = lake.info(limit=None)
    assert answer.findings == sum(row["findings"] for row in rows) > 0
    assert answer.with_findings == sum(row["findings"] > 0 for row in rows)
    losses: Counter[str] = Counter()
    for row in rows:
        losses.update(row["losses"])
    assert answer.losses == losses
    assert losses


def test_an_empty_lake(tmp_path: Path) -> None:
    lake = lake_of(tmp_path)
    answer = lake.info()
    assert (answer.traces, answer.bytes, answer.first, answer.days, answer.labels) == (0, 0, None, 0, {})
    assert (lake.find().rows, lake.find().more, lake.worst().rows) == ([], 0, [])
    with pytest.raises(QuestionError, match="the lake has no trace to compare with"):
        lake.diff(Part(), Part())


# ---- Names and questions that are unusual.


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda lake: lake.top(limit="3"), "a limit is a whole number or None, not str"),
        (lambda lake: lake.find(longer="5ms"), "a duration is a whole number of nanoseconds or None, not str"),
        (lambda lake: lake.find(3), "a pattern is a string or None, not int"),
        (lambda lake: lake.worst(limit=1.5), "a limit is a whole number or None, not float"),
        (lambda lake: lake.top(3), "what to group by is a string, not int"),
        (lambda lake: lake.top(part="program=app"), "a part of a lake is a fxtio.lake.questions.Part or None, not str"),
        (lambda lake: lake.traces(limit="x"), "a limit is a whole number or None, not str"),
        (lambda lake: lake.diff("a", Part()), "a part of a lake is a fxtio.lake.questions.Part or None, not str"),
        (lambda lake: lake.diff(Part(), Part(), last="2"), "the number of runs is a whole number or None, not str"),
    ],
)
def test_arguments_of_wrong_types(ask: Any, message: str, programs: tuple[Lake, list[Path]]) -> None:
    with pytest.raises(TypeError, match=f"^{message}$"):
        ask(programs[0])


def test_limits(programs: tuple[Lake, list[Path]]) -> None:
    lake, _ = programs
    for ask in (lake.top, lake.find, lake.worst):
        whole, none = ask(limit=None), ask(limit=0)
        assert (none.rows, none.more) == ([], len(whole.rows))
        with pytest.raises(ValueError, match="a limit is a whole number or None, not -1"):
            ask(limit=-1)


HOSTILE = ["it's", "a\nb\x1b[31m", 'x"; drop table traces; --', "a.b.c", "[x]*?", "ü\\", "%s {0}", "GET *"]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_no_sql_and_no_patterns(name: str, tmp_path: Path) -> None:
    """Values of labels and names of slices are looked up as they are."""
    paths = [
        write(tmp_path / "a.fxt", [(name, 5 * MS), ("other", MS)], labels={name: name}),
        write(tmp_path / "b.fxt", [("axb", 9 * MS)], program=name),
    ]
    lake = lake_of(tmp_path, *paths)
    assert (lake.longest("name", name) or {})["name"] == name
    assert (lake.longest(f"label:{name}", name) or {})["url"] == str(paths[0])
    assert (lake.longest("program", name) or {})["name"] == "axb"
    assert name in {row["name"] for row in lake.find(name).rows}
    assert lake.info().labels == {name: Values(1, {name: 1})}
    assert name in lake.info().values["program"].traces
    assert {row["key"] for row in lake.top(f"label:{name}").rows} == {name, None}
    assert [row["labels"] for row in lake.worst(part=Part([f"label:{name}={name}"])).rows] == [{name: name}]
    if not {*"*?"} & {*name}:
        answer = lake.diff(Part([f"label:{name}={name}"]), Part([f"program={name}"]))
        assert {each.name for each in answer.comparison.differences} == {name, "other", "axb"}
        assert answer.comparison.runs == (1, 1)
    new = write(tmp_path / "new.fxt", [("axb", 9 * MS)] * 2, program=name)
    assert lake.check(new).runs == (1, 1)


@pytest.mark.parametrize("start", [NOW, NOW // DAY * DAY - 1, NOW // DAY * DAY, 0])
def test_a_day_is_that_of_the_files(start: int, tmp_path: Path) -> None:
    lake = lake_of(tmp_path, write(tmp_path / "a.fxt", [("x", 1)], start=start))
    (day,) = (row["key"] for row in lake.top("day").rows)
    assert len(lake.traces(Part([f"day={day}"]))[0]) == 1
    assert lake.info().days == 1


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda lake: lake.find(order="size"), "'size' is not an order; one of longest, time"),
        (lambda lake: lake.worst(sort="size"), "'size' is not a column; one of self, .*, max, duration"),
        (lambda lake: lake.top(sort="duration"), "'duration' is not a column"),
        (lambda lake: lake.info(part=Part(["name=x"])), "'name' is a key of slices, not of traces"),
        (lambda lake: lake.diff(Part(["host=x"]), Part()), "the lake has no trace with host=x to compare with"),
        (lambda lake: lake.diff(Part(), Part(["program=app"])), "1 trace would be on both sides, such as [0-9a-f]{32}"),
        (lambda lake: lake.diff(Part(), Part(), column="size"), "'size' is not duration or self_time"),
    ],
)
def test_questions_that_make_no_sense(ask: Any, message: str, tmp_path: Path) -> None:
    lake = lake_of(tmp_path, write(tmp_path / "a.fxt", [("x", 1)]))
    with pytest.raises(QuestionError, match=message):
        ask(lake)


def test_too_many_names_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fxtio.lake.questions.comparisons._MOST", 5)
    paths = [write(tmp_path / f"{build}.fxt", [(f"x{n}", 1) for n in range(9)], build=build) for build in "12"]
    lake = lake_of(tmp_path, *paths)
    parts = Part(["label:build=1"]), Part(["label:build=2"])
    with pytest.raises(QuestionError, match="6 names in 1 run are too many to compare"):
        lake.diff(*parts)
    assert len(lake.diff(*(part.named("x1") for part in parts)).comparison.differences) == 1


@pytest.mark.parametrize("key", [key for key in KEYS if not key.startswith("label:")])
def test_every_key_groups_and_chooses(key: str, tmp_path: Path) -> None:
    now = time.time_ns()
    lake = lake_of(tmp_path, write(tmp_path / "a.fxt", [("x", 1)], start=now, host="web1"))
    (row,) = lake.top(key).rows
    if row["key"] is not None:
        chosen = Part([f"{key}={row['key']}"], "1d")
        assert lake.find(part=chosen).rows == lake.find().rows != []
        assert lake.find(part=Part([f"{key}=other"])).rows == []
    assert (lake.longest(key, row["key"]) or {})["name"] == "x"


def test_times_beyond_64_bits(tmp_path: Path) -> None:
    """A damaged trace has slices of centuries; its sums are numbers, and the other traces have theirs."""
    path = tmp_path / "damaged.json"
    path.write_text(
        json.dumps(
            {"traceEvents": [{"ph": "X", "name": "x", "ts": 0, "dur": 9e15, "pid": i, "tid": 1} for i in (1, 2)]}
        )
    )
    lake = lake_of(tmp_path, path, write(tmp_path / "a.fxt", [("y", 7)]))
    assert [(row["key"], row["self"], row["total"]) for row in lake.top().rows] == [
        ("x", 18 * 10**18, 18 * 10**18),
        ("y", 7, 7),
    ]
    assert [row["total"] for row in lake.worst(sort="total").rows] == [18 * 10**18, 7]


def test_a_start_at_the_end_of_all_times(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, write(tmp_path / "a.fxt", [("y", 7)]))
    (path,) = Path(lake.url, "traces").iterdir()
    row = pq.ParquetFile(path).read()
    place = row.schema.get_field_index("start")
    pq.write_table(row.set_column(place, row.schema.field(place), pa.array([-(2**63)], pa.int64())), path)
    answer = Lake(lake.url).info()
    assert (answer.first, answer.days) == (-(2**63), 1)


def test_a_file_with_the_slices_of_another_trace(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, write(tmp_path / "a.fxt", [("y", 7)]))
    (path,) = Path(lake.url, "slices").rglob("*.parquet")
    content = path.read_bytes().replace(path.stem.encode(), b"0" * 32)
    path.write_bytes(content)
    assert [row["trace"] for row in lake.sql("select trace from slices").to_arrow_table().to_pylist()] == ["0" * 32]
    assert lake.worst().rows == []
