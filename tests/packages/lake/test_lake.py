"""Lakes of traces: what is in them is what the traces have, once, whoever adds it and however often."""

from __future__ import annotations

import gzip
import io
import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fxtio
from contract.samples import SYNTHETIC, Sample
from fxtio import synth
from fxtio.lake import ADDED, KNOWN, REFUSED, Lake, LakeError, LakeWarning, StoreError, catalog, ingest, rows
from fxtio.lake.catalog import row_of
from fxtio.lake.layout import LATER, MARKER, NO_DAY, TABLES, TRACE_COLUMNS, TRACES, day_of, identity_of, name_of
from fxtio.lake.questions import Part, QuestionError
from fxtio.lake.store import UNFINISHED, FolderStore, Store
from fxtio.timeline.answers import top
from fxtio.timeline.sql import QueryError
from support.lakes import DAY, NOW, added, trace, whole
from support.tracer_run import fine

# ---- What is added.


def sums_of(rows: Any) -> Counter[tuple[Any, ...]]:
    return Counter(rows)


@pytest.mark.parametrize("sample", SYNTHETIC, ids=str)
def test_a_lake_has_what_a_trace_has(sample: Sample, lake: Lake, tmp_path: Path) -> None:
    path = sample.make(tmp_path)
    (outcome,) = lake.add([path], jobs=1)
    assert (outcome.kind, outcome.reason) == (ADDED, "")
    with fxtio.open_timeline(path) as timeline:
        tables = timeline.tables(*(name for name in TABLES))
        tables |= {name: timeline.table(name) for name in ("processes", "threads", "tracks", "stacks", "frames")}
        wall_clock = timeline.wall_clock
    counts = {name: tables[name].num_rows for name in TABLES}
    assert {name: outcome.row[name] for name in TABLES} == counts
    columns = "id, start, duration, self_time, depth, parent, category, name, state, event, process, thread, pid, tid"
    found = lake.sql(f"select {columns} from slices").fetchall()
    processes, threads, tracks = ([*tables[name].rows()] for name in ("processes", "threads", "tracks"))
    expected = []
    for row in tables["slices"].rows():
        track = tracks[row["track"]]
        process = processes[track["process"]] if track["process"] >= 0 else {"name": None, "pid": -1}
        thread = threads[track["thread"]] if track["thread"] >= 0 else {"name": None, "tid": -1}
        own = tuple(text(row[name.strip()]) for name in columns.split(",")[:10])
        expected.append((*own, text(process["name"]), text(thread["name"]), process["pid"], thread["tid"]))
    assert Counter(found) == Counter(expected)
    assert {row[0] for row in lake.sql("select day::varchar from slices").fetchall()} <= {day_of(wall_clock)}
    values = lake.sql("select event, name, type, integer, number, text from args").fetchall()
    assert len(values) == counts["args"]
    weights = dict(lake.sql("select stack, sum(count)::bigint from samples group by stack").fetchall())
    assert sum(weights.values()) == int(tables["samples"]["count"].sum())


def text(value: Any) -> Any:
    """Return a text as Parquet has it."""
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace") if isinstance(value, str) else value


def test_rows_have_names_that_come_late(lake: Lake, tmp_path: Path) -> None:
    """Chrome JSON often names threads at its end; the trace is read again then."""
    events: list[dict[str, Any]] = [{"ph": "X", "name": "x", "ts": n, "dur": 1, "pid": 1, "tid": 2} for n in range(5)]
    names = {"process_name": "late process", "thread_name": "late thread"}
    events += [{"ph": "M", "name": kind, "pid": 1, "tid": 2, "args": {"name": name}} for kind, name in names.items()]
    (tmp_path / "x.json").write_text(json.dumps({"traceEvents": events}))
    assert added(lake, tmp_path / "x.json") == [ADDED]
    assert lake.sql("select distinct process, thread, program from slices").fetchall() == [
        ("late process", "late thread", "late process")
    ]


def test_values_of_arguments(lake: Lake, tmp_path: Path) -> None:
    added(lake, trace(tmp_path / "a.fxt"))
    found = lake.sql("select name, type, integer, number, text from args order by event, name").fetchall()
    assert [row[:4] for row in found[:3]] == [("n", "integer", number, float(number)) for number in range(3)]
    assert found[3][:4] == ("share", "number", 0, 0.5)
    assert found[4][:3] == ("text", "text", 0)
    assert found[4][4] == "x"
    query = "select args.integer from slices join args using (trace, event) where slices.name = 'work' order by 1"
    assert lake.sql(query).fetchall() == [(0,), (1,), (2,)]


def test_the_row_of_a_trace(lake: Lake, tmp_path: Path) -> None:
    path = trace(tmp_path / "a.fxt", build="1a2b", start=NOW)
    (outcome,) = lake.add([path], labels={"customer": "42", "build": "over"}, jobs=1)
    (row,), more = lake.traces()
    assert more == 0
    assert [*row] == [*TRACE_COLUMNS]
    assert row == outcome.row
    assert row["labels"] == {"build": "over", "host": "web1", "customer": "42"}
    assert (row["program"], row["host"], row["format"]) == ("app", "web1", "fxt")
    assert (row["start"], row["duration"]) == (NOW, 1000)
    assert (row["slices"], row["instants"], row["args"], row["samples"], row["findings"]) == (3, 1, 5, 0, 0)
    assert (row["id"], row["bytes"]) == identity_of(path)
    assert row["url"] == str(path)
    assert row["names"] == ["work"]


PARSING = """
import argparse, json, logging, tokenize, typing
for module in (argparse, json, logging, tokenize, typing):
    with open(module.__file__) as file:
        list(tokenize.generate_tokens(file.readline))
for number in range(100):
    json.loads(json.dumps({"a": [1, 2, {"b": number}]}, indent=1))
"""


@pytest.mark.full
@pytest.mark.recorder
def test_slices_of_a_program_are_small(lake: Lake, tmp_path: Path) -> None:
    """Of 50,000 and more, one takes at most 8 bytes, with the times of a busy machine."""
    fine(PARSING, tmp_path / "a.fxt", start=True, functions=True)
    assert added(lake, tmp_path / "a.fxt") == [ADDED]
    (path,) = Path(lake.url).glob("slices/*/*/*.parquet")
    file = pq.read_metadata(path)
    groups = [file.row_group(number) for number in range(file.num_row_groups)]
    columns = [group.column(number) for group in groups for number in range(file.num_columns)]
    self_times = sum(each.total_compressed_size for each in columns if each.path_in_schema == "self_time")
    assert file.num_rows >= 50_000
    assert path.stat().st_size <= 8 * file.num_rows
    assert path.stat().st_size - self_times <= 6 * file.num_rows


def test_the_same_content_is_added_once(lake: Lake, tmp_path: Path) -> None:
    first, other = trace(tmp_path / "a.fxt"), tmp_path / "b"
    other.write_bytes(first.read_bytes())
    assert sorted(added(lake, first, other, first, jobs=2)) == [ADDED, KNOWN, KNOWN]
    assert added(lake, other) == [KNOWN]
    assert lake.sql("select count(*) from slices").fetchall() == [(3,)]


def test_folders_and_directories(lake: Lake, tmp_path: Path) -> None:
    folder = tmp_path / "many" / "inner"
    folder.mkdir(parents=True)
    trace(folder / "a.fxt")
    synth.write(folder / "u.data", "calls", format="uftrace", events=20)
    (folder / ".hidden").write_bytes(b"x")
    (folder / "notes.txt").write_text("no trace")
    outcomes = {Path(each.path).name: each for each in lake.add([tmp_path / "many", tmp_path / "missing"], jobs=1)}
    kinds = {name: each.kind for name, each in outcomes.items()}
    assert kinds == {"a.fxt": ADDED, "u.data": ADDED, "notes.txt": REFUSED, "missing": REFUSED}
    assert "not a trace of a known format" in outcomes["notes.txt"].reason


def test_the_id_of_a_directory_follows_from_names_and_contents(tmp_path: Path) -> None:
    ids = []
    for names in (("a", "b"), ("b", "a"), ("a", "c")):
        folder = tmp_path / "-".join(names)
        folder.mkdir()
        for name, content in zip(names, (b"1", b"2"), strict=True):
            (folder / name).write_bytes(content)
        ids.append(identity_of(folder)[0])
    assert len({*ids}) == 3


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("a/b", "a%2Fb"),
        ("../..", "..%2F.."),
        ("ü=1", "%C3%BC%3D1"),
        ("x" * 300, "x" * 200),
        ("é" * 50, "%C3%A9" * 33),
        ("[1] %", "%5B1%5D%20%25"),
    ],
)
def test_names_of_files(program: str, expected: str) -> None:
    name = name_of("slices", "0" * 32, day="2026-11-28", program=program)
    assert name == f"slices/day=2026-11-28/program={expected}/{'0' * 32}.parquet"


def test_days() -> None:
    assert [day_of(each) for each in (None, 0, NOW, -1)] == [NO_DAY, "1970-01-01", "2026-09-21", "1969-12-31"]
    assert day_of(2**63 - 1) == "2262-04-11"


# ---- Questions.


def test_top_is_that_of_the_traces(lake: Lake, tmp_path: Path) -> None:
    paths = []
    for seed in range(3):
        synth.write(tmp_path / f"{seed}.fxt", "program", events=2_000, seed=seed)
        paths.append(tmp_path / f"{seed}.fxt")
    assert added(lake, *paths) == [ADDED] * 3
    expected: dict[str, list[int]] = {}
    for path in paths:
        with fxtio.open_timeline(path) as timeline:
            for row in top(timeline, limit=None, waiting=True).table.rows():
                sums = expected.setdefault(row["name"], [0, 0, 0])
                sums[0] += row["calls"]
                sums[1] += row["self"]
                sums[2] = max(sums[2], row["max"])
    answer = lake.top(limit=None)
    assert {row["key"]: [row["calls"], row["self"], row["max"]] for row in answer.rows} == expected
    assert [row["self"] for row in answer.rows] == sorted((each[1] for each in expected.values()), reverse=True)
    durations = sorted(each for (each,) in lake.sql("select duration from slices where name = 'query'").fetchall())
    (query,) = (row for row in answer.rows if row["key"] == "query")
    assert query["median"] == durations[(len(durations) - 1) // 2]
    assert query["p99"] == durations[max(-(-99 * len(durations) // 100) - 1, 0)]
    first = lake.top(limit=2)
    assert list(first.rows) == list(answer.rows[:2])
    assert first.more == len(answer.rows) - 2
    by_p99 = lake.top(limit=None, sort="p99")
    assert sorted(map(str, by_p99.rows)) == sorted(map(str, answer.rows))


@pytest.fixture
def several(lake: Lake, tmp_path: Path) -> Lake:
    """Return a lake with traces of three builds, the last of which has none, on two days."""
    now = time.time_ns()
    paths = [
        trace(tmp_path / "a.fxt", build="1", start=now - 10 * DAY, name="GET /a"),
        trace(tmp_path / "b.fxt", build="2", start=now, name="GET /b", calls=5),
        trace(tmp_path / "c.fxt", start=now, name="POST /c", calls=7, pid=9),
    ]
    assert added(lake, *paths) == [ADDED] * 3
    return lake


@pytest.mark.parametrize(
    ("by", "part", "expected"),
    [
        ("label:build", Part(), {"1": 3, "2": 5, None: 7}),
        ("program", Part(), {"app": 15}),
        ("host", Part(), {"web1": 8, None: 7}),
        ("name", Part(["name=GET *"]), {"GET /a": 3, "GET /b": 5}),
        ("name", Part(["name=GET /a"]), {"GET /a": 3}),
        ("name", Part(["label:build=2"]), {"GET /b": 5}),
        ("name", Part(["label:build=*", "host=web?"]), {"GET /a": 3, "GET /b": 5}),
        ("name", Part(["label:it's=x"]), {}),
        ("name", Part(since="7d"), {"GET /b": 5, "POST /c": 7}),
        ("name", Part(["program=app", "category=c", "thread=main", "process=app"], "1w"), {"GET /b": 5, "POST /c": 7}),
        ("category", Part(["name=it's"]), {}),
    ],
    ids=str,
)
@pytest.mark.parametrize("sort", ["self", "p99"])
def test_groups_and_parts(by: str, part: Part, expected: dict[str | None, int], sort: str, several: Lake) -> None:
    answer = several.top(by, part=part, sort=sort)
    assert {row["key"]: row["calls"] for row in answer.rows} == expected


def test_listing(several: Lake) -> None:
    rows, more = several.traces(limit=2)
    assert ([row["slices"] for row in rows], more) in (([5, 7], 1), ([7, 5], 1))
    rows, more = several.traces(Part(["program=a*", "label:build=1"]))
    assert ([row["slices"] for row in rows], more) == ([3], 0)
    rows, more = several.traces(Part(since="12h"), limit=None)
    assert sorted(row["slices"] for row in rows) == [5, 7]
    with pytest.raises(QuestionError, match="'name' is a key of slices, not of traces"):
        several.traces(Part(["name=x"]))


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda lake: lake.top("color"), "'color' is not a key; one of name, category"),
        (lambda lake: lake.top("label:"), "'label:' is not a key"),
        (lambda lake: lake.top(sort="size"), "'size' is not a column; one of self"),
        (lambda lake: lake.top(part=Part(["program"])), "'program' is not a condition"),
        (lambda lake: lake.top(part=Part(since="yesterday")), "'yesterday' is not a time such as 7d"),
    ],
)
def test_questions_that_make_no_sense(ask: Any, message: str, lake: Lake) -> None:
    with pytest.raises(QuestionError, match=message):
        ask(lake)


def test_sql(several: Lake) -> None:
    with pytest.raises(QueryError, match=r"The tables are args, counters, instants, logs, samples, slices, traces\."):
        several.sql("select * from nothing")
    with pytest.raises(TypeError, match="a query is a string"):
        several.sql(1)  # type: ignore[arg-type]


def test_an_empty_lake(lake: Lake) -> None:
    assert lake.traces() == ([], 0)
    assert lake.top().rows == []
    for table, columns in TABLES.items():
        assert lake.sql(f"select * from {table}").columns == [*columns, "day", "program"]


def test_a_trace_is_removed(several: Lake, tmp_path: Path) -> None:
    (row,), _ = several.traces(Part(["label:build=2"]))
    several.drop(row["id"])
    rest = Lake(several.url)
    assert {row["key"] for row in rest.top().rows} == {"GET /a", "POST /c"}
    assert not [*Path(several.url).rglob(f"{row['id']}.parquet")]
    rest.drop(row["id"])
    assert added(rest, tmp_path / "b.fxt") == [ADDED]


def change_row(path: Path, **values: Any) -> None:
    """Change values of the row of a trace."""
    row = pq.ParquetFile(path).read()
    for name, value in values.items():
        place = row.schema.get_field_index(name)
        row = row.set_column(place, row.schema.field(place), pa.array([value], row.schema.field(place).type))
    pq.write_table(row, path, store_schema=False)


def test_old_traces_are_removed(several: Lake, tmp_path: Path) -> None:
    added(several, trace(tmp_path / "d.fxt", build="4", start=time.time_ns() - 40 * DAY, name="d"))
    (tmp_path / "e.collapsed").write_text("a;b 1\n")  # has no wall clock
    added(several, tmp_path / "e.collapsed")
    assert several.drop_older("5d", Part(["label:build=4", "program=app"])) == 1
    assert several.drop_older("30d") == 0
    assert several.drop_older("9d") == 1
    assert {row["key"] for row in several.top().rows} == {"GET /b", "POST /c"}
    assert len(several.ids()) == 3
    assert len([*Path(several.url, "slices").rglob("*.parquet")]) == 2
    with pytest.raises(QuestionError, match="is not a time"):
        several.drop_older("old")


def test_what_is_left_over_is_removed(several: Lake, tmp_path: Path) -> None:
    """Files without a row: of a writer that was killed long ago, and of one that adds a trace at this moment."""
    ids, folder = sorted(several.ids()), Path(several.url)
    old = time.time() - 2 * 86_400
    for path in folder.rglob("*.parquet"):
        if path.stem != ids[2]:
            os.utime(path, (old, old))
    for identity in (ids[1], ids[2]):
        (folder / "traces" / f"{identity}.parquet").unlink()
    with FolderStore(folder).workspace() as new, FolderStore(folder).workspace() as left:
        (left / "x").write_bytes(b"")
        for path in (left / "x", left):
            os.utime(path, (old, old))
        assert several.drop_older("999d") == 0
        assert new.exists()
        assert not left.exists()
    assert {path.stem for path in (folder / "slices").rglob("*.parquet")} == {ids[0], ids[2]}
    for name in "abc":
        assert added(several, tmp_path / f"{name}.fxt") in ([ADDED], [KNOWN])
    assert sorted(whole(several)) == [3, 5, 7]


def test_a_file_that_was_left_over_is_written_again(several: Lake, tmp_path: Path) -> None:
    """So nobody removes it as an old one while its trace is added."""
    (path,) = (path for path in Path(several.url, "slices").rglob("*.parquet") if pq.read_metadata(path).num_rows == 5)
    os.utime(path, (1, 1))
    Path(several.url, "traces", path.name).unlink()
    assert added(several, tmp_path / "b.fxt") == [ADDED]
    assert path.stat().st_mtime > 1


@pytest.mark.parametrize("scheme", ["", "file://"], ids=["folder", "store"])
def test_files_of_others_are_not_left_over(scheme: str, several: Lake) -> None:
    """Such as the logs of Delta Lake, and what somebody has put there."""
    folder = Path(several.url)
    others = [folder / name for name in ("slices/_delta_log/0.json", "slices/README", f"slices/x{'0' * 32}.parquet")]
    (folder / "slices/_delta_log").mkdir()
    left_over = folder / "slices" / f"{'0' * 32}.parquet"
    for path in (*others, left_over):
        path.write_bytes(b"x")
        os.utime(path, (1, 1))
    lake = Lake(f"{scheme}{folder}")
    assert (lake.info().orphans, lake.info().others) == (1, 2)
    assert lake.drop_older("999d") == 0
    assert [path.exists() for path in (*others, left_over)] == [True, True, True, False]


def test_links_among_unfinished_files_are_not_followed(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    link = Path(lake.url, UNFINISHED, "link")
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(elsewhere)
    os.utime(link, (1, 1), follow_symlinks=False)
    monkeypatch.setattr(Path, "rglob", lambda self, pattern: 1 / 0)
    FolderStore(Path(lake.url)).clear(time.time_ns())


@pytest.mark.parametrize("identity", ["x", "../marker", None, ["a"]], ids=str)
def test_only_ids_are_removed(identity: Any, several: Lake) -> None:
    with pytest.raises((LakeError, TypeError), match="the id of a trace"):
        several.drop(min(several.ids()), identity)
    assert len(several.ids()) == 3


# ---- Damage.


DAMAGES = {
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-20]),
    "missing": lambda path: path.unlink(),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files_are_left_out_and_repaired(damage: str, several: Lake, tmp_path: Path) -> None:
    (path,) = (path for path in Path(several.url, "slices").rglob("*.parquet") if pq.read_metadata(path).num_rows == 5)
    DAMAGES[damage](path)
    with pytest.warns(LakeWarning, match=f"1 file damaged or missing, and left out: slices of {path.stem}"):
        assert [row["calls"] for row in Lake(several.url).top("program").rows] == [10]
    assert len(Lake(several.url).traces()[0]) == 3
    assert added(several, tmp_path / "b.fxt", tmp_path / "a.fxt") == [ADDED, KNOWN]
    assert sorted(whole(Lake(several.url))) == [3, 5, 7]


@pytest.mark.parametrize("content", [b"", b"PAR1" * 5, b"other"], ids=str)
def test_damaged_rows_are_left_out_and_repaired(content: bytes, several: Lake, tmp_path: Path) -> None:
    (path,) = (path for path in Path(several.url, "slices").rglob("*.parquet") if pq.read_metadata(path).num_rows == 5)
    row = Path(several.url, "traces", path.name)
    sound = row.read_bytes()
    other = next(each for each in row.parent.iterdir() if each != row)
    row.write_bytes(other.read_bytes() if content == b"other" else content)
    with pytest.warns(LakeWarning, match=f"traces/{path.name}"):
        assert sorted(whole(Lake(several.url))) == [3, 7]
    path.write_bytes(b"")  # nothing says how long it was
    assert added(several, tmp_path / "b.fxt") == [ADDED]
    assert sorted(whole(Lake(several.url))) == [3, 5, 7]
    assert pq.ParquetFile(row).schema_arrow == pq.ParquetFile(io.BytesIO(sound)).schema_arrow


def test_files_are_on_the_disk_before_they_have_their_names(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events, folders, sync, link = [], [], os.fsync, os.link

    def note_sync(fd: int) -> None:
        events.append(("sync", os.fstat(fd).st_ino))
        sync(fd)

    def note_link(source: Path, name: str, *, dst_dir_fd: int) -> None:
        events.append(("link", source.stat().st_ino))
        link(source, name, dst_dir_fd=dst_dir_fd)
        folders.append(os.fstat(dst_dir_fd).st_ino)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(os, "link", note_link)
    assert added(lake, trace(tmp_path / "a.fxt")) == [ADDED]
    links = [place for place, (what, _) in enumerate(events) if what == "link"]
    assert len(links) == 4  # slices, instants, args and the row
    for place, folder in zip(links, folders, strict=True):
        assert ("sync", events[place][1]) in events[:place]
        assert ("sync", folder) in events[place : None if place == links[-1] else links[-1]]  # before the row is there
    assert events[links[-1]][1] == next(Path(lake.url, "traces").iterdir()).stat().st_ino


def test_rows_are_kept_and_never_trusted(several: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "_WORTH", 1)
    kept = Path(several.url, catalog.NAME)
    rows = several.traces()
    assert pq.read_metadata(kept).num_rows == 3
    monkeypatch.setattr(catalog, "row_of", lambda store, identity: 1 / 0)
    assert Lake(several.url).traces() == rows  # no file of a row is read
    monkeypatch.undo()
    Lake(several.url).drop(rows[0][0]["id"])
    assert len(Lake(several.url).traces()[0]) == 2
    path = next(path for path in map(Path, [row["url"] for row in rows[0]]) if path.name == "b.fxt")
    for each in Lake(several.url).ids():
        several.drop(each)
    added(several, path, labels={"build": "other"})
    assert [row["labels"]["build"] for row in Lake(several.url).traces()[0]] == ["other"]
    for content in (b"", b"x" * 100, Path(several.url, MARKER).read_bytes()):
        kept.write_bytes(content)
        assert len(Lake(several.url).traces()[0]) == 1


def test_rows_are_kept_as_they_are_added(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "_WORTH", 2)
    paths = [trace(tmp_path / f"{number}.fxt", build=str(number)) for number in range(3)]
    outcomes = lake.add(paths, labels={"host": "a"})
    *_, last = (next(outcomes) for _ in paths)
    lake.drop(last.row["id"])
    assert added(Lake(lake.url), paths[2], labels={"host": "b"}) == [ADDED]  # by another writer meanwhile
    assert [*outcomes] == []
    assert pq.read_metadata(Path(lake.url, catalog.NAME)).num_rows == 3
    read = []

    def noting(store: Store, identity: str) -> pa.Table | None:
        read.append(identity)
        return row_of(store, identity)

    monkeypatch.setattr(catalog, "row_of", noting)
    assert sorted(row["labels"]["host"] for row in Lake(lake.url).traces()[0]) == ["a", "a", "b"]
    assert read == [last.row["id"]]  # only the row that is not the one that was kept


@pytest.mark.parametrize("damage", ["twice", "files", "none", "text"])
def test_kept_rows_that_make_no_sense(damage: str, several: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "_WORTH", 1)
    several.traces()
    kept = Path(several.url, catalog.NAME)
    rows = pq.read_table(kept)
    if damage == "twice":
        pq.write_table(pa.concat_tables([rows, rows]), kept)
    elif damage == "none":
        pq.write_table(rows.slice(0, 0), kept)
    elif damage == "files":
        place = rows.schema.get_field_index("files")
        pq.write_table(rows.set_column(place, rows.schema.field(place), pa.nulls(3, rows["files"].type)), kept)
    else:
        pq.write_table(rows, kept, compression="none", use_dictionary=False, write_statistics=False, store_schema=False)
        kept.write_bytes(kept.read_bytes().replace(b"app", b"\xff\xfe\xfd"))
    monkeypatch.undo()
    lake = Lake(several.url)
    assert len(lake.traces()[0]) == 3
    assert [row["calls"] for row in lake.top("program").rows] == [15]


# ---- Other engines, and later versions.


def test_other_engines_read_it(several: Lake) -> None:
    expected = dict(several.sql("select name, sum(self_time)::bigint from slices group by name").fetchall())
    frame = pl.scan_parquet(f"{several.url}/slices/**/*.parquet", hive_partitioning=True)
    sums = frame.group_by("name").agg(pl.col("self_time").sum()).collect()
    assert dict(sums.rows()) == expected
    table = pq.read_table(f"{several.url}/slices", partitioning="hive")
    assert {str(field.type) for field in table.schema if field.name in ("name", "process", "trace")} == {"string"}
    assert table.num_rows == 15


@pytest.mark.parametrize("table", ["slices", "traces"])
@pytest.mark.parametrize("which", [0, -1])
def test_files_with_a_later_column(table: str, which: int, several: Lake) -> None:
    """A later version may add columns."""
    path = sorted(Path(several.url, table).rglob("*.parquet"))[which]
    rows = pq.ParquetFile(path).read()
    pq.write_table(rows.append_column("later", [[1] * rows.num_rows]), path, store_schema=False)
    if table == "slices":
        change_row(Path(several.url, "traces", path.name), files=[("slices", path.stat().st_size)])
    lake = Lake(several.url)
    assert {row["key"]: row["calls"] for row in lake.top("label:build").rows} == {"1": 3, "2": 5, None: 7}
    assert len(lake.traces()[0]) == 3
    assert "later" not in lake.sql(f"select * from {table}").columns


@pytest.mark.parametrize("worth", [1, 100])
@pytest.mark.parametrize("which", [slice(1), slice(-1, None), slice(None)])
def test_rows_of_an_earlier_version(which: slice, worth: int, several: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """They do not have the names of the slices, which are looked for in all of their files."""
    monkeypatch.setattr(catalog, "_WORTH", worth)
    for path in sorted(Path(several.url, TRACES).iterdir())[which]:
        pq.write_table(pq.ParquetFile(path).read().drop_columns([*LATER]), path, store_schema=False)
    for lake in (Lake(several.url), Lake(several.url)):
        (row,) = lake.top(part=Part(["name=GET*"]), by="program").rows
        assert row["calls"] == 8
        assert not lake.top(part=Part(["name=nothing"])).rows
        names = [row["names"] for row in lake.traces()[0]]
        assert names.count(None) >= len(range(3)[which])
        assert all(each is None or len(each) == 1 for each in names)


@pytest.mark.parametrize("content", ['{"version": 2}', "{}", "[]", "x", '{"version": "1"}'])
def test_a_layout_that_is_not_known(content: str, tmp_path: Path) -> None:
    (tmp_path / MARKER).write_text(content)
    with pytest.raises(LakeError, match="has the layout"):
        Lake(tmp_path)


def test_there_is_no_lake(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "missing"):
        with pytest.raises(LakeError, match="is not a lake"):
            Lake(place)
    with pytest.raises(TypeError, match="a lake is a path or a URL"):
        Lake(1)  # type: ignore[arg-type]
    with pytest.raises(StoreError, match="nosuch://x"):
        Lake("nosuch://x")


@pytest.mark.parametrize("name", ["a b", "it's", "[x]", "a*b?", "ü"])
def test_names_of_lakes(name: str, tmp_path: Path) -> None:
    lake = Lake(tmp_path / name, create=True)
    assert added(lake, trace(tmp_path / "a.fxt")) == [ADDED]
    assert [row["calls"] for row in lake.top().rows] == [3]


def test_texts_that_are_not_utf8(lake: Lake, tmp_path: Path) -> None:
    with fxtio.create(tmp_path / "a.fxt", format="fxt") as writer:
        writer.main.kernel_object(17, 2**64 - 1, "labels", {"a\udcff": "b\udcfe"})
        writer.thread(7, 8, "main\udcff", "app\udcff").complete("work\udcff", 1, 2, args={"x\udcff": "y\udcff"})
    other = tmp_path / "b\udcff.fxt"
    other.write_bytes(trace(tmp_path / "b.fxt").read_bytes())
    assert added(lake, tmp_path / "a.fxt", other) == [ADDED, ADDED]
    found = {row["program"]: row["labels"] for row in lake.traces()[0]}
    assert found == {"app\ufffd": {"a\ufffd": "b\ufffd"}, "app": {}}
    assert lake.sql("select count(*) from slices where name like 'work%'").fetchall() == [(4,)]


def test_pipes_and_unreadable_files(lake: Lake, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    outcomes = [*lake.add([tmp_path / "pipe", tmp_path / "missing"], jobs=1)]
    assert [each.kind for each in outcomes] == [REFUSED, REFUSED]
    assert "is not a regular file" in outcomes[0].reason


def test_one_path(lake: Lake, tmp_path: Path) -> None:
    assert [each.path for each in lake.add(str(trace(tmp_path / "a.fxt")))] == [str(tmp_path / "a.fxt")]


def test_copies_with_other_names(lake: Lake, tmp_path: Path) -> None:
    """A trace whose processes have no names has the same files under every name."""
    (tmp_path / "a.json").write_text('{"traceEvents": [{"ph": "X", "name": "x", "ts": 1, "dur": 2, "pid": 1}]}')
    (tmp_path / "b.json").write_bytes((tmp_path / "a.json").read_bytes())
    for path in ("a.json", "b.json"):
        assert added(lake, tmp_path / path) == [ADDED]
        (row,) = lake.traces()[0]
        assert row["program"] == "chrome"
        Path(lake.url, "traces", f"{row['id']}.parquet").unlink()  # as if the writer had been killed before it
    assert added(lake, tmp_path / "a.json") == [ADDED]
    assert [row["calls"] for row in Lake(lake.url).top().rows] == [1]


def test_a_trace_that_is_changed(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = trace(tmp_path / "a.fxt")
    monkeypatch.setattr(ingest, "identity_of", lambda place: (place.write_bytes(b"") and "") or ("0" * 32, 1))
    (outcome,) = lake.add([path])
    assert outcome.kind == REFUSED
    monkeypatch.undo()
    trace(path)
    monkeypatch.setattr(ingest, "_written", lambda *arguments: 1 / 0)
    (outcome,) = lake.add([path])
    assert (outcome.kind, outcome.reason) == (REFUSED, "ZeroDivisionError: division by zero")


def test_stacks_beyond_the_limits(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "MAX_STACK_TEXT", 10)
    monkeypatch.setattr(rows, "MAX_STACK_TEXTS", 25)
    lines = ["outermost;middle;inner 3", "a;b 2", "c;d;e 1", "another;stack;f 4"]
    (tmp_path / "x.collapsed").write_text("\n".join(lines) + "\n")
    (outcome,) = lake.add([tmp_path / "x.collapsed"])
    assert outcome.kind == ADDED
    found = dict(lake.sql("select function, stack from samples").fetchall())
    assert found == {"inner": "midd;inner", "b": "a;b", "e": "c;d;e", "f": None}
    assert sum(outcome.row["losses"].values()) == 3


def test_folders_that_lead_back(lake: Lake, tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    trace(folder / "a.fxt")
    (folder / "again").symlink_to(folder)
    (folder / "link.fxt").symlink_to(folder / "a.fxt")
    assert sorted(added(lake, folder)) == [ADDED, KNOWN]


def test_a_lake_is_made_where_nothing_is(tmp_path: Path) -> None:
    path = trace(tmp_path / "a.fxt")
    with pytest.raises(LakeError, match="has other files"):
        Lake(tmp_path, create=True)
    with pytest.raises(StoreError, match="is a file"):
        Lake(path, create=True)
    assert [each.name for each in tmp_path.iterdir()] == ["a.fxt"]


def test_what_a_lake_has_added_is_asked(several: Lake, tmp_path: Path) -> None:
    assert len(several.top().rows) == 3
    added(several, trace(tmp_path / "d.fxt", name="new"))
    assert len(several.top().rows) == 4
    several.drop(next(row["id"] for row in several.traces()[0] if row["slices"] == 7))
    assert len(several.top().rows) == 3


def test_names_with_brackets(lake: Lake, tmp_path: Path) -> None:
    for number, name in enumerate(("operator[]", "C:\\tmp\\a", "list[int].x")):
        added(lake, trace(tmp_path / f"{number}.fxt", name=name))
    for condition, count in (("operator[]", 1), ("*[]", 1), ("C:\\tmp\\*", 1), ("list[int]*", 1), ("*[*", 2)):
        assert len(lake.top(part=Part([f"name={condition}"])).rows) == count, condition
    assert len(lake.top(part=Part(since="999999w")).rows) == 3


def test_rows_that_cannot_be_read(several: Lake) -> None:
    """Damage that leaves the size as it is is found by the database, which names the file."""
    path = next(Path(several.url, "slices").rglob("*.parquet"))
    path.write_bytes(b"x" * path.stat().st_size)
    with pytest.raises(QueryError, match=path.stem):
        several.top()


def test_file_systems_without_links(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    assert added(lake, trace(tmp_path / "a.fxt")) == [ADDED]
    assert [row["calls"] for row in lake.top().rows] == [3]


def test_links_are_not_followed(lake: Lake, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    Path(lake.url, "slices").symlink_to(elsewhere)
    (outcome,) = lake.add([trace(tmp_path / "a.fxt")], jobs=1)
    assert outcome.kind == REFUSED
    assert not [*elsewhere.iterdir()]
    assert lake.ids() == set()


@pytest.mark.parametrize("target", ["loop", ".", "nothing"])
def test_links_hide_no_files(target: str, several: Lake) -> None:
    """Not even those that lead to themselves."""
    ids, folder = several.ids(), Path(several.url)
    for place in ("traces", "slices", *map(str, (folder / "slices").glob("*/*"))):
        for number in range(20):  # some come first, in whatever order a file system has them
            (folder / place / f"loop{number}").symlink_to(f"loop{number}" if target == "loop" else target)
    lake = Lake(several.url)
    assert lake.ids() == ids
    assert sorted(whole(lake)) == [3, 5, 7]


def test_a_folder_that_cannot_be_listed_is_not_empty(several: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or else the files of its traces would be removed as left over."""

    def refuse(path: Any) -> Any:
        raise (
            PermissionError(13, "Permission denied", str(path)) if str(path).endswith("traces") else NotADirectoryError
        )

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(PermissionError):
        several.ids()
    assert [*FolderStore(Path(several.url)).names("slices")] == []


def test_another_writer_makes_the_lake_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = FolderStore.names

    def names_after_another_writer(self: FolderStore, folder: str) -> Any:
        monkeypatch.undo()
        Lake(tmp_path, create=True)
        return names(self, folder)

    monkeypatch.setattr(FolderStore, "names", names_after_another_writer)
    assert added(Lake(tmp_path, create=True)) == []


def test_what_stores_do(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    with store.workspace() as folder:
        (folder / "x").write_bytes(b"1")
        assert store.put("a/b/x", folder / "x")
        (folder / "y").write_bytes(b"2")
        assert not store.put("a/b/x", folder / "y")
    assert store.read("a/b/x") == b"1"
    assert store.read("a/c/x") is store.read("a/b/y") is None
    assert [*store.names("a")] == ["a/b/x"]
    assert [*store.names("nothing")] == []
    store.delete("a/b/x")
    store.delete("a/b/x")
    assert [*store.names("a")] == []
    assert [*(tmp_path / "_unfinished").iterdir()] == []


def test_hostile_traces(lake: Lake, tmp_path: Path) -> None:
    """What is damaged is refused, or added with findings."""
    sound = trace(tmp_path / "sound.fxt").read_bytes()
    cases = [sound[:-12], sound[:60], b"", b"\x10" + sound[1:], sound + b"\xff" * 64, sound[:40] + b"\xff" * 40]
    for number, data in enumerate(cases):
        (tmp_path / f"{number}.fxt").write_bytes(data)
    outcomes = [*lake.add([tmp_path / f"{number}.fxt" for number in range(len(cases))], jobs=1)]
    assert {each.kind for each in outcomes} <= {ADDED, REFUSED}
    assert outcomes[2].reason == f"{tmp_path / '2.fxt'} is empty"
    for outcome in outcomes:
        if outcome.kind == ADDED and Path(outcome.path).name in ("0.fxt", "4.fxt", "5.fxt"):
            assert outcome.row["findings"] > 0, outcome.path
    lake.top()
    with io.StringIO() as text:
        print(lake.sql("select * from traces"), file=text)


@pytest.mark.parametrize("name", ["a.fxt.gz", "a.pftrace.gz", "a.pftrace"])
def test_what_is_empty_when_it_is_decompressed_is_refused(name: str, lake: Lake, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(b"") if name.endswith(".gz") else b"")
    assert [each.reason for each in lake.add(path)] == [f"{path} is empty"]
