"""Tests that the commands know no format: they run on a format of text files and on one of directories."""

from __future__ import annotations

import json
import textwrap
from importlib import import_module
from pathlib import Path

import pytest

import fxtio
from fxtio import formats
from fxtio.cli import main
from fxtio.fxt import FORMAT
from support import toy_format
from support.checkout import run_python
from support.toy_format import DIRECTORIES, FILES, HEADER

Capture = pytest.CaptureFixture[str]

ROOMS: tuple[type, ...] = (formats.ReportRoom, formats.ExplainRoom)

LINES = HEADER + b"one\nTWO\x1b[31m\nthree\n"


def _rooms(report: formats.ReportRoom, explain: formats.ExplainRoom) -> None:
    """Do nothing: mypy checks the modules against the protocols."""


_rooms(toy_format, toy_format)


@pytest.mark.parametrize("name", formats.BUILT_IN)
def test_every_format_has_its_rooms(name: str) -> None:
    item = import_module(formats.BUILT_IN[name]).FORMAT
    assert (item.name, item.package) == (name, formats.BUILT_IN[name])
    for room, protocol in zip(["report", "explain"], ROOMS, strict=True):
        required = {member for member in vars(protocol) if not member.startswith("_")} | {*protocol.__annotations__}
        assert required - vars(item.room(room)).keys() == set()
    assert hasattr(item.explain, "offset_of") == item.directory


def test_looking_for_a_format_loads_nothing_heavy() -> None:
    program = "import sys; from fxtio.formats import formats; formats(); print(*sys.modules)"
    assert {"numpy", "msgspec", "construct"} & set(run_python("-c", program).stdout.split()) == set()


def test_a_format_of_another_distribution(tmp_path: Path) -> None:
    """It is looked for only where no format of fxtio is meant, as that takes long."""
    folder = tmp_path / "toy-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n", encoding="utf-8")
    points = "[fxtio.formats]\ntoy = support.toy_format:FILES\nfxt = support.toy_format:DIRECTORIES\n"
    (folder / "entry_points.txt").write_text(points, encoding="utf-8")
    (tmp_path / "trace").write_bytes(LINES)
    program = f"""
    import sys
    sys.path += {[str(tmp_path), str(Path(__file__).parents[2])]!r}
    before = "importlib.metadata" in sys.modules
    from fxtio import formats, open
    print(formats.by_name("fxt").title, formats.by_suffix("a.fxt.gz").name)
    print(before or "importlib.metadata" not in sys.modules)
    print(len(open({str(tmp_path / "trace")!r}).lines), formats.by_name("toy").name, *formats.formats())
    """
    names = " ".join(formats.BUILT_IN)
    expected = f"{FORMAT.title} fxt\nTrue\n3 toy {names} toy\n"
    assert run_python("-c", textwrap.dedent(program)).stdout == expected


@pytest.fixture(autouse=True)
def _registered_formats(monkeypatch: pytest.MonkeyPatch) -> None:
    registry: dict[str, formats.Format] = {"fxt": FORMAT, "toy": FILES, "toys": DIRECTORIES}
    monkeypatch.setattr(formats, "_built_in", lambda: registry)
    monkeypatch.setattr(formats, "_added", dict)


@pytest.fixture(params=["file", "directory"])
def trace(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Write a trace of three records."""
    if request.param == "file":
        path = tmp_path / "trace"
        path.write_bytes(LINES)
    else:
        path = tmp_path / "traces"
        path.mkdir()
        (path / "lines").write_bytes(LINES)
    return str(path)


def test_info(trace: str, capsys: Capture) -> None:
    name = "toy" if trace.endswith("trace") else "toys"
    assert main(["info", trace]) == 0
    assert capsys.readouterr().out == f"{trace}\n  format           {name}\n  number of lines  3\n"
    assert main(["info", "--json", trace]) == 0
    assert json.loads(capsys.readouterr().out) == {"lines": 3, "findings": {"counts": {}, "first": []}}


def test_stats(trace: str, capsys: Capture) -> None:
    assert main(["stats", "--top", "2", trace]) == 0
    table = "characters  text\n         8  TWO\\x1b[31m\n         5  three\nand 1 more\n"
    assert capsys.readouterr().out == f"{trace}\n\n{table}\nevery record is text\n"


def test_dump(trace: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["dump", "--raw", "--limit", "2", trace]) == 0
    assert capsysbinary.readouterr().out == b"6 one\n10 TWO\\x1b[31m\n"
    assert main(["dump", "--json", "--limit", "1", trace]) == 0
    assert capsysbinary.readouterr().out == b'{"offset":6,"texts":["one"]}\n'


def test_dump_of_text_that_is_not_utf_8(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    (path := tmp_path / "trace").write_bytes(HEADER + b"\xff\n")
    assert main(["dump", "--json", str(path)]) == 0
    assert capsysbinary.readouterr().out == b'{"offset":6,"texts":[{"hex":"ff"}]}\n'


def test_explain(trace: str, capsys: Capture) -> None:
    assert main(["explain", "--record", "1", trace]) == 0
    title, first = capsys.readouterr().out.splitlines()
    assert title == "record 1: Line, 8 bytes at 10"
    assert first == "0000000a  54 57 4f 1b 5b 33 31 6d  text  TWO\\x1b[31m"
    assert main(["explain", "--type", "shouted", "--offset", "20", trace]) == 2
    assert capsys.readouterr().err == f"fxtio: {trace}: there is no record of type shouted from byte 20 on\n"
    assert main(["explain", "--type", "whispered", trace]) == 2
    assert capsys.readouterr().err == "fxtio: no record type 'whispered'; there is shouted\n"


@pytest.mark.parametrize("verb", ["info", "stats", "dump", "explain"])
def test_findings_make_the_exit_code_1(verb: str, tmp_path: Path, capsys: Capture) -> None:
    (path := tmp_path / "trace").write_bytes(LINES + b"\n")
    assert main([verb, str(path)]) == 1
    out, err = capsys.readouterr()
    assert "the line has no text [toy.line.empty]" in (out if verb == "explain" else err)


def test_synth_names_the_shapes_of_the_format(tmp_path: Path, capsys: Capture) -> None:
    for name, shapes in (("toy", "none at all\n"), ("fxt", "spans, counters, flows, ")):
        with pytest.raises(SystemExit) as stop:
            main(["synth", "cubes", "--format", name, "-o", str(tmp_path / "trace")])
        assert stop.value.code == 2
        assert f"the format {name} has no shape 'cubes', only {shapes}" in capsys.readouterr().err


def test_synth_lists_the_shapes(capsys: Capture) -> None:
    assert main(["synth", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["format", "shape", "content"]
    assert {line.split()[0] for line in lines[1:]} == {"fxt"}
    assert any(line.startswith("fxt     spans ") for line in lines)


@pytest.mark.parametrize("arguments", [["spans"], ["-o", "trace.fxt"], []])
def test_synth_needs_a_shape_and_an_output(arguments: list[str], capsys: Capture) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["synth", *arguments])
    assert f"{'-o FILE' if arguments == ['spans'] else 'SHAPE'} is missing" in capsys.readouterr().err


def test_a_format_without_the_rooms_is_refused(trace: str, tmp_path: Path, capsys: Capture) -> None:
    assert main(["merge", "-o", str(tmp_path / "all"), trace]) == 2
    assert "such traces cannot be merged" in capsys.readouterr().err
    assert main(["cut", "-o", str(tmp_path / "all"), "--name", "x", trace]) == 2
    assert "has no timeline" in capsys.readouterr().err
    assert not (tmp_path / "all").exists()


def test_merge_takes_traces_of_several_formats_by_their_timelines(trace: str, tmp_path: Path, capsys: Capture) -> None:
    with fxtio.create(tmp_path / "a.fxt") as writer:
        writer.thread(1, 1).instant("a", 1)
    assert main(["merge", "-o", str(tmp_path / "all"), trace, str(tmp_path / "a.fxt")]) == 2
    assert "say the format (--to), as the traces have several: fxt, toy" in capsys.readouterr().err
    assert main(["merge", "-o", str(tmp_path / "all.fxt"), trace, str(tmp_path / "a.fxt")]) == 2
    assert "has no timeline" in capsys.readouterr().err
    assert not (tmp_path / "all.fxt").exists()


def test_open_recognizes_the_format(trace: str, tmp_path: Path) -> None:
    name, other = ("toy", "toys") if trace.endswith("trace") else ("toys", "toy")
    assert fxtio.open(trace).format == name
    assert fxtio.open(trace, format=name).format == name
    with pytest.raises(fxtio.FormatError, match=f"is .*directory; a trace in the format {other} is"):
        fxtio.open(trace, format=other)
    with pytest.raises(fxtio.FormatError, match="is a directory, not a trace of a known format"):
        fxtio.open(tmp_path)
    (text := tmp_path / "text").write_bytes(b"toy without a version")
    assert main(["info", str(text)]) == 2
