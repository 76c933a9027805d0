"""SQL over timelines: queries that are written for Perfetto give there what they give here, and the command `query`."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyarrow import parquet

import fxtio
import judges
from fxtio import synth
from fxtio.cli import main
from fxtio.timeline.sql import MACROS, VIEWS, QueryError
from judges import perfetto
from judges.perfetto import Perfetto
from support.recorded_programs import PROGRAMS, recorded

pytestmark = pytest.mark.once

CORPUS = Path(__file__).parents[2] / "corpus" / "fxt"
DEMO, MAGIC = CORPUS / "janestreet-demo.fxt", CORPUS / "magic-trace.fxt"

QUERIES = {
    "totals": "select name, category, count(*) as calls, sum(dur) as total, min(dur) as least, max(dur) as most"
    " from slice where dur >= 0 group by name, category order by name, category",
    "depths": "select depth, count(*) as slices, sum(dur) as total from slice where dur > 0 group by depth"
    " order by depth",
    "threads": "select tid, thread.name as thread, pid, process.name as process, count(*) as slices, sum(dur) as total"
    " from slice join thread_track on slice.track_id = thread_track.id join thread using (utid)"
    " left join process using (upid) group by tid, thread.name, pid, process.name order by tid, pid",
    "parents": "select outside.name as outside, inside.name as inside, count(*) as calls, sum(inside.dur) as total"
    " from slice inside join slice outside on inside.parent_id = outside.id where inside.dur > 0 and outside.dur > 0"
    " group by outside.name, inside.name order by outside.name, inside.name",
    "numbers": "select key, count(*) as args, sum(int_value) as total from slice join args using (arg_set_id)"
    " where slice.dur > 0 and int_value is not null group by key order by key",
    "texts": "select key, string_value, count(*) as args from slice join args using (arg_set_id)"
    " where slice.dur > 0 and value_type = 'string' group by key, string_value order by key, string_value",
    "extracted": "select name, cast(extract_arg(arg_set_id, 'request') as varchar) as request from slice"
    " where extract_arg(arg_set_id, 'request') is not null order by ts, name, request limit 50",
    "flows": "select a.name as origin, b.name as target, count(*) as arrows from flow"
    " join slice a on flow.slice_out = a.id join slice b on flow.slice_in = b.id group by a.name, b.name"
    " order by a.name, b.name",
    "counters": "select count(*) as readings, count(distinct track_id) as series, sum(value) as total from counter",
    "cpus": "select cpu, count(*) as runs, min(ts) as first, max(ts) as last from sched join thread using (utid)"
    " where tid != 0 and dur >= 0 and end_state is not null group by cpu"
    " order by cpu",
}


def here(path: Path, sql: str) -> list[dict[str, Any]]:
    with fxtio.open_timeline(path) as timeline:
        relation = timeline.sql(sql)
        return [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]


@pytest.fixture(scope="module")
def shaped(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("traces")
    paths = {"demo": DEMO, "magic": MAGIC}
    for shape in ("mixed", "program", "system"):
        paths[shape] = folder / f"{shape}.fxt"
        synth.write(paths[shape], shape, events=2000, threads=3, seed=3)
    return paths


@pytest.mark.full
@pytest.mark.parametrize("name", QUERIES)
def test_queries_give_what_they_give_in_perfetto(shaped: dict[str, Path], name: str) -> None:
    """Compare the rows.

    Deviations: Perfetto binds an arrow after an instant to the instant, so arrows are compared where none comes.  It
    ends the run of a thread when another processor says that the thread stops, which the shape `system` does at times.
    """
    judges.require(perfetto.available())
    answered = 0
    for shape, path in shaped.items():
        if name == "flows" and shape in ("mixed", "program"):
            continue
        with perfetto.load(path) as p:
            answered += compared(path, p, name)
    assert answered


def compared(path: Path, p: Perfetto, name: str) -> int:
    """Check that the rows of a query are those of Perfetto, and return how many there are."""
    ours, theirs = here(path, QUERIES[name]), p.query(QUERIES[name])
    for row in [*ours, *theirs]:
        row |= {key: None if value == "" else value for key, value in row.items()}
    assert ours == theirs, (path.name, name)
    return len(ours)


@pytest.mark.full
@pytest.mark.recorder
@pytest.mark.parametrize("program", PROGRAMS)
def test_queries_of_recordings_give_what_they_give_in_perfetto(program: str, tmp_path: Path) -> None:
    judges.require(perfetto.available())
    path = recorded(program, tmp_path)
    with perfetto.load(path) as p:
        rows = {name: compared(path, p, name) for name in QUERIES}
    answered = {name for name, count in rows.items() if count}
    expected = {"totals", "depths", "threads", "parents", "counters"}
    assert answered >= expected | ({"numbers", "texts"} if program == "marks" else set())


def test_every_view_and_function_can_be_used() -> None:
    with fxtio.open_timeline(MAGIC) as timeline:
        for view in VIEWS:
            assert timeline.sql(f"select count(*) from {view}").fetchall()
        deep = timeline.sql("select max(id) from slice where depth = 3").fetchall()[0][0]
        around = timeline.sql(f"select depth from ancestor_slice({deep}) order by depth").fetchall()
        assert around == [(0,), (1,), (2,)]
        total = timeline.sql("select count(*) from slice where depth > 0 and ts <= 240591").fetchall()
        assert timeline.sql("select count(*) from descendant_slice(0)").fetchall() == total
    assert {*MACROS} == {"ancestor_slice", "descendant_slice", "extract_arg"}


def test_columns_reach_duckdb_without_a_copy() -> None:
    with fxtio.open_timeline(MAGIC) as timeline:
        assert timeline.sql("select count(*) from slices").fetchall() == [(17296,)]
        slices = timeline.table("slices")
        arrow = slices.to_arrow().column("duration").chunk(0)
        assert arrow.buffers()[1].address == slices["duration"].ctypes.data


def test_a_wrong_query_is_refused() -> None:
    with fxtio.open_timeline(DEMO) as timeline:
        for sql, message in (("selct", "syntax error"), ("from nothing", "nothing does not exist")):
            with pytest.raises(QueryError, match=message):
                timeline.sql(sql)


@pytest.mark.parametrize(
    ("query", "hint"),
    [
        ("from slic", 'Did you mean "slice"?'),
        ("from Thread_Slices", 'Did you mean "thread_slice"?'),
        ("from stack", 'Did you mean "stacks"?'),
        ("from ancestor_slices(3)", 'Did you mean "ancestor_slice"?'),
        ("select extract_args(1, 'x')", 'Did you mean "extract_arg"?'),
        ("select cont(*) from slice", 'Did you mean "count"?'),
        ("from events", "The tables are allocations, args, arguments, "),
        ("from functions", "The tables are "),
        ('from "no such"', "The tables are "),
        ("select foo(3)", ""),
    ],
)
def test_a_name_that_is_not_there(query: str, hint: str) -> None:
    """What is proposed is similar, and one of the tables and functions that there are: DuckDB would say "pg_class"."""
    with fxtio.open_timeline(DEMO) as timeline, pytest.raises(QueryError) as error:
        timeline.sql(query)
    assert f"does not exist!\n{hint}".rstrip() in str(error.value)
    assert not re.search("pg_|sqlite|floor|generate", str(error.value))


def test_nothing_is_fetched_from_the_network() -> None:
    with fxtio.open_timeline(DEMO) as timeline:
        settings = timeline.sql("select current_setting('autoinstall_known_extensions') from slice").fetchall()
    assert {value for (value,) in settings} == {False}


def test_csv_on_a_terminal_has_no_control_characters(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    name = "\x1b[31mred\n"
    with fxtio.create(tmp_path / "red.fxt") as writer:
        writer.thread(1, 2).complete(name, 5, 9)
    arguments = ["query", str(tmp_path / "red.fxt"), "select name from slice"]
    assert main([*arguments, "--csv"]) == 0
    assert capsys.readouterr().out == "name\n\\x1b[31mred\\n\n"
    assert main([*arguments, "-o", str(tmp_path / "red.csv")]) == 0
    assert (tmp_path / "red.csv").read_text() == f'name\n"{name}"\n'


def test_names_of_columns_have_no_control_characters(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A pivot makes names of a trace the names of columns."""
    with fxtio.create(tmp_path / "red.fxt") as writer:
        writer.thread(1, 2).complete("\x1b[31mred\n", 5, 9)
    arguments = ["query", str(tmp_path / "red.fxt"), "pivot (select name, dur from slice) on name using sum(dur)"]
    assert main(arguments) == 0
    assert capsys.readouterr().out == "\\x1b[31mred\\n\n            4\n"
    assert main([*arguments, "--csv"]) == 0
    assert capsys.readouterr().out == "\\x1b[31mred\\n\n4\n"


def test_json_has_every_column_and_every_number(capsys: pytest.CaptureFixture[str]) -> None:
    sql = "select 'nan'::double as a, '-inf'::double as a, 1 as a_1, 2 as a, 0.5::double as b from slice limit 1"
    assert main(["query", "--json", str(DEMO), sql]) == 0
    row = {"a": "nan", "a_1": "-inf", "a_1_1": 1, "a_2": 2, "b": 0.5}
    assert json.loads(capsys.readouterr().out, parse_constant=pytest.fail) == [row]


def test_lists_structures_and_maps_are_json(capsys: pytest.CaptureFixture[str]) -> None:
    sql = """
        select map {'build': '1', 'né': null} as labels, map {1: [2::hugeint]} as numbers,
            map {}::map(int, int) as none, [1, 2]::int[2] as pair,
            map {true: 1} as flags, map {[1, 2]: map {{'a': date '2026-11-28'}: 2}} as keys,
            {'a': [map {'b': 'nan'::double}], 'day': date '2026-11-28'} as deep,
            null::int[] as nothing
    """
    row = {
        "labels": {"build": "1", "né": None},
        "numbers": {"1": [2]},
        "none": {},
        "pair": [1, 2],
        "flags": {"true": 1},
        "keys": {"[1,2]": {'{"a":"2026-11-28"}': 2}},
        "deep": {"a": [{"b": "nan"}], "day": "2026-11-28"},
        "nothing": None,
    }
    assert main(["query", "--json", str(DEMO), sql]) == 0
    assert json.loads(capsys.readouterr().out) == [row]
    assert main(["query", "--csv", str(DEMO), sql]) == 0
    names, cells = csv.reader(capsys.readouterr().out.splitlines())
    assert names == [*row]
    assert [json.loads(cell or "null") for cell in cells] == [*row.values()]
    assert main(["query", str(DEMO), "select ['a', 'b'] as names"]) == 0
    assert capsys.readouterr().out.split() == ["names", '["a","b"]']


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    sql = "select name, dur from slice where dur > 0 order by ts"
    assert main(["query", str(DEMO), sql]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "name             dur",
        "my_funct   4,990,000",
        "my_funct   8,000,000",
        "my_funct  20,000,000",
    ]
    assert main(["query", "--json", str(DEMO), sql]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows[0] == {"name": "my_funct", "dur": 4990000}
    assert main(["query", "--csv", str(DEMO), sql]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == ["name,dur", "my_funct,4990000"]
    assert main(["query", "-n", "1", str(DEMO), sql]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "and more (-n all)"
    assert main(["query", "-n", "all", str(DEMO), sql]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4
    for name in ("rows.parquet", "rows.csv", "rows.json"):
        assert main(["query", str(DEMO), sql, "-o", str(tmp_path / name)]) == 0
    assert parquet.read_table(tmp_path / "rows.parquet").to_pylist() == rows
    assert json.loads((tmp_path / "rows.json").read_text()) == rows
    assert duckdb.execute(f"from '{tmp_path / 'rows.csv'}'").fetchall() == [tuple(row.values()) for row in rows]
    assert main(["query", "--json", str(DEMO), "select name from slice where dur = 7"]) == 0
    assert json.loads(capsys.readouterr().out) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([str(DEMO)], "give a trace and a query, or --list"),
        ([str(DEMO), "from slice", "-o", "x.txt"], "x.txt: the ending must be .parquet, .csv or .json"),
        (["-", "-"], "the trace and the query cannot both come from standard input"),
        ([str(DEMO), "from nothing"], "nothing does not exist"),
        ([str(DEMO), "select cast(name as int) from slice"], "Could not convert string"),
        ([str(DEMO), "select cast(name || '\x1b[7m' as int) from slice"], r"my_funct\x1b[7m"),
        (["nothing.fxt", "from slice"], "nothing.fxt: No such file or directory"),
    ],
)
def test_wrong_usage(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["query", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]
