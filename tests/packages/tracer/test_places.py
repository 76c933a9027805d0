"""Where functions are defined: the first slice of each function says it, in Perfetto and in our own answers."""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import fxtio
import judges
from fxtio.timeline.answers import top
from judges import perfetto
from support.tracer_check import check_trace
from support.tracer_run import fine, run, run_command

pytestmark = pytest.mark.recorder

APP = """\
import json

class Shop:
    def sell(self, count):
        return count if count == 0 else self.sell(count - 1)

async def fetch(number):
    return number

def use():
    for number in range(3):
        Shop().sell(2)
        json.dumps([number])

use()
if __name__ == "__main__":
    import asyncio
    asyncio.run(fetch(1))
"""

PLACES = {"app.<module>": 1, "app.Shop": 3, "app.Shop.sell": 4, "app.fetch": 7, "app.use": 10}

SQL = """
select name, count(*) as slices, group_concat(extract_arg(arg_set_id, 'source.file_name')) as file,
    group_concat(extract_arg(arg_set_id, 'source.line_number')) as line
from slice where category = 'function' group by name
"""


def places_in_perfetto(path: Path) -> dict[str, dict[str, Any]]:
    judges.require(perfetto.available())
    with perfetto.load(path) as p:
        assert p.errors() == {}
        return {str(row["name"]): row for row in p.query(SQL)}


@pytest.fixture
def app(tmp_path: Path) -> Path:
    path = tmp_path / "app.py"
    path.write_text(APP, encoding="utf-8")
    return path


def record(app: Path, *options: str) -> Path:
    assert run_command(app.parent, "run", "-q", "-o", "out.fxt", *options, "app.py").returncode == 0
    return app.parent / "out.fxt"


@pytest.mark.full
@pytest.mark.parametrize("options", [[], ["--min-duration", "1ns"], ["--args", "app"], ["--c-functions"]], ids=" ".join)
def test_the_first_slice_of_each_function_says_it(options: list[str], app: Path) -> None:
    rows = places_in_perfetto(record(app, *options))
    own = {name: row for name, row in rows.items() if name in PLACES}
    assert {name: row["line"] for name, row in own.items()} == {name: str(line) for name, line in PLACES.items()}
    assert {row["file"] for row in own.values()} == {str(app)}
    assert own["app.Shop.sell"]["slices"] == 9
    assert rows["json.dumps"]["file"] == json.__file__
    assert all(row["file"] is None for name, row in rows.items() if name.startswith(("builtins.", "await ")))


@pytest.mark.full
def test_code_without_a_file(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("import os\nexec('def made(): pass')\nmade(); os.fsencode('a')\n")
    rows = places_in_perfetto(record(tmp_path / "app.py"))
    assert rows["<string>.made"]["file"] == "<string>"
    assert rows["os._fscodec.<locals>.fsencode"]["file"] == f"{sys._stdlib_dir}/os.py"  # type: ignore[attr-defined]


def test_decorated_functions(out: Path) -> None:
    with fxtio.tracing(out):
        decorated(1), decorated(2)
        Decorated().method()
    with fxtio.tracing(out.with_name("second.fxt")):
        decorated(1)
    for path in (out, out.with_name("second.fxt")):
        spans = check_trace(path).spans("decorated")
        assert [span.seen.place(span.row) for span in spans] == [(__file__, LINE), None][: len(spans)]
        assert all(span.args == {"number": number} for number, span in enumerate(spans, 1))


@fxtio.trace(args=True)
def decorated(number: int) -> int:
    return number


LINE = (
    decorated.__wrapped__.__code__.co_firstlineno
    if hasattr(decorated, "__wrapped__")
    else decorated.__code__.co_firstlineno
)


@fxtio.trace
class Decorated:
    def method(self) -> None: ...


def test_with_as_many_arguments_as_an_event_holds(out: Path) -> None:
    """Then there is no room for the place."""
    names = ", ".join(f"a{number}" for number in range(15))
    source = f"""
    @fxtio.trace(args=True)
    def full({names}): pass
    with fxtio.tracing(OUT):
        full(*range(15)), full(*range(15))
    """
    fine(source, out)
    spans = check_trace(out).spans("full")
    assert [len(span.args) for span in spans] == [15, 15]


def test_a_ring_has_the_places_of_what_it_has_kept(out: Path) -> None:
    source = """
    def often(): pass
    def main():
        for number in range(200_000):
            often()
    fxtio.start(OUT, functions=True, ring="512KiB", include=["<string>"])
    main()
    fxtio.dump(OUT + ".dump.fxt")
    fxtio.stop()
    """
    fine(source, out)
    for path in (out, Path(f"{out}.dump.fxt")):
        spans = check_trace(path, ring=True).spans("<string>.often")
        assert 1_000 < len(spans) < 100_000
        placed = [span for span in spans if span.seen.place(span.row)]
        assert 1 <= len(placed) <= 10


def test_a_program_that_is_killed_has_them(out: Path) -> None:
    run("def first(): pass\nfirst(); os.kill(os.getpid(), 9)", out, start=True, functions=True)
    (span,) = check_trace(out, open_spans=True).spans("<string>.first")
    assert span.seen.place(span.row) is not None


def test_functions_of_one_name_are_told_apart_by_their_places(tmp_path: Path) -> None:
    app = tmp_path / "app.py"
    app.write_text("f = lambda: 1\ng = lambda: 2\nfor _ in range(3): f(), g(), g()\n", encoding="utf-8")
    with fxtio.open_timeline(record(app)) as timeline:
        rows = {row["name"]: (row["calls"], row["place"]) for row in top(timeline).table.rows()}
    assert rows["app.<lambda>"] == (3, f"{app}:1")
    assert rows["app.<lambda> (app.py:2)"] == (6, f"{app}:2")


def test_decorated_functions_of_one_name(tmp_path: Path, out: Path) -> None:
    """They are told apart by file and line, as the parts of a property are; one that is made again keeps its name."""
    source = """
    import fxtio
    @fxtio.trace
    def work(): pass
    class Shop:
        @property
        @fxtio.trace
        def price(self): return 1
        @price.setter
        @fxtio.trace
        def price(self, value): pass
    def make():
        @fxtio.trace
        def made(): pass
        return made
    """
    for folder in ("one", "two", "three"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"{folder[0]}.py").write_text(textwrap.dedent(source), encoding="utf-8")
    program = f"""
    import sys
    sys.path += [{str(tmp_path)!r}]
    modules = [__import__(name, fromlist=["work"]) for name in ("one.o", "two.t", "three.t")]
    with fxtio.tracing(OUT):
        for number, module in enumerate(modules, 1):
            [module.work() for _ in range(number)]
        shop = modules[0].Shop()
        shop.price = shop.price
        modules[0].make()(), modules[0].make()()
    """
    fine(program, out)
    with fxtio.open_timeline(out) as timeline:
        rows = {row["name"]: (row["calls"], row["place"]) for row in top(timeline).table.rows()}
    one, two, three = (tmp_path / name for name in ("one/o.py", "two/t.py", "three/t.py"))
    line = rows["work"][1].rpartition(":")[2]
    assert rows == {
        "work": (1, f"{one}:{line}"),
        f"work (t.py:{line})": (2, f"{two}:{line}"),
        f"work ({three}:{line})": (3, f"{three}:{line}"),
        "Shop.price": (1, f"{one}:6"),
        "Shop.price (o.py:9)": (1, f"{one}:9"),
        "make.<locals>.made": (2, f"{one}:13"),
    }


def test_a_cell_that_runs_again_keeps_the_names(out: Path) -> None:
    program = """
    for number in range(3):
        code = compile("\\n" * number + "@fxtio.trace\\ndef work(): pass", f"/tmp/ipykernel_12/{number}.py", "exec")
        exec(code, globals())
        with fxtio.tracing(OUT + str(number)):
            work()
    """
    fine(program, out)
    for number in range(3):
        assert [span.name for span in check_trace(Path(f"{out}{number}")).spans()] == ["work"]


WAITS = """\
import asyncio, queue, threading, time
from concurrent.futures import ThreadPoolExecutor

def wait():
    items = queue.Queue()
    threading.Timer(0.02, items.put, [1]).start()
    items.get()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(time.sleep, 0.02).result()

async def fetch():
    await asyncio.sleep(0.02)

wait()
asyncio.run(fetch())
"""


def test_what_waits_is_left_out_of_the_ranking(app: Path) -> None:
    app.write_text(WAITS, encoding="utf-8")
    with fxtio.open_timeline(record(app)) as timeline:
        rows = {row["name"]: row for row in top(timeline, waiting=True).table.rows()}
        others = set(top(timeline).table["name"].tolist())
    waits = {name for name, row in rows.items() if row["waiting"]}
    expected = {"queue.Queue.get", "concurrent.futures._base.Future.result", "await asyncio.tasks.sleep"}
    assert waits >= {*expected, "await app.fetch"}
    assert [name for name in waits if name.startswith("selectors.")]
    assert not waits & others
    assert {"app.wait", "app.fetch"} <= others
    assert all(rows[name]["waiting"] > 10_000_000 for name in expected)


def test_answers_show_them(app: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from fxtio.cli import main

    path = str(record(app))
    assert main(["top", path, "-n", "all"]) == 0
    lines = {line.split()[-2]: line.split()[-1] for line in capsys.readouterr().out.splitlines() if "app." in line}
    assert {name: lines[name] for name in PLACES} == {name: f"app.py:{line}" for name, line in PLACES.items()}
    assert main(["top", path, "-n", "all", "--json", "--waiting"]) == 0
    rows = {row["name"]: row["place"] for row in json.loads(capsys.readouterr().out)["rows"]}
    assert rows["app.Shop.sell"] == f"{app}:4"
    assert rows["await app.fetch"] == f"{app}:7"
    assert main(["find", path, "*Shop.sell", "--json"]) == 0
    hits = json.loads(capsys.readouterr().out)["rows"]
    assert [hit["defined_in"] for hit in hits] == [f"{app}:4"] * 9
    assert main(["find", path, "*Shop.sell"]) == 0
    found = capsys.readouterr().out.splitlines()
    assert sum(line.endswith(" app.py:4") for line in found) == 9
    assert not any("source.file_name" in line for line in found)
    assert main(["top", path, "--by", "category", "--json"]) == 0
    assert all("place" not in row for row in json.loads(capsys.readouterr().out)["rows"])
