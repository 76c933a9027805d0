"""Writing to a disk that is full, here by a limit of the size of files: errors name the file, and nothing is left."""

from __future__ import annotations

import io
import resource
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fxtio.cli import main
from fxtio.cli.console import REFUSED, Progress

SMALL, LIMIT = 1_000, 10_000
"""Numbers of events of a trace that is larger than the limit, and the most bytes of a file."""


@contextmanager
def full_disk(limit: int = LIMIT) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with an FXT trace and a uftrace directory."""
    folder = tmp_path_factory.mktemp("traces")
    for name, shape, target in (("fxt", "spans", "in.fxt"), ("uftrace", "calls", "in.data")):
        options = ["--format", name, "--events", str(SMALL), "--threads", "1"]
        assert main(["synth", shape, *options, "-o", str(folder / target)]) == 0
    return folder


@pytest.mark.parametrize(
    ("command", "target", "named"),
    [
        ("synth spans --events 1000", "out.fxt", "out.fxt"),
        ("synth spans --events 5000", "out.fxt.gz", "out.fxt.gz"),
        ("synth calls --format uftrace --threads 1 --events 1000", "out.data", "out.data/10000.dat"),
        ("convert IN.data", "out.copy", "out.copy/10000.dat"),
        ("convert IN.fxt --to uftrace", "out.data", "out.data/10000.dat"),
        ("convert IN.fxt", "out.csv", "out.csv"),
        ("convert IN.fxt", "out.parquet", "out.parquet"),
        ("cut IN.data --until 90%", "out.data", "out.data/10000.dat"),
        ("query IN.fxt SQL", "out.parquet", "out.parquet"),
    ],
)
def test_errors_name_the_file(
    command: str, target: str, named: str, traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = command.replace("IN.", f"{traces}/in.").split()
    arguments = ["select * from slices" if each == "SQL" else each for each in arguments]
    is_convert = arguments[0] == "convert"
    to = ["--to", "uftrace"] if target.endswith(".copy") else []
    output = str(tmp_path / target)
    with full_disk():
        code = main([*arguments, *([output] if is_convert else ["-o", output]), *to])
    assert (code, capsys.readouterr().err) == (REFUSED, f"fxtio: {tmp_path / named}: File too large\n")
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("command", ["cut", "convert", "table", "open"])
def test_errors_of_temporary_files(
    command: str, traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    trace, output = str(traces / "in.fxt"), str(tmp_path / "out")
    arguments = {
        "cut": ["cut", trace, "--until", "90%", "-o", output],
        "convert": ["convert", trace, "-", "--to", "perfetto"],
        "table": ["convert", trace, f"{output}.csv", "--table", "slices"],
        "open": ["open", "--no-browser", "-"],
    }[command]
    monkeypatch.setattr("fxtio.view.ui.files", dict)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path(trace).read_bytes())))
    with full_disk():
        code = main(arguments)
    place = f"a temporary file in {tempfile.gettempdir()}"
    assert (code, capsys.readouterr().err) == (REFUSED, f"fxtio: {place}: File too large\n")
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("target", ["out.fxt", "out.dcpi", "out.data"])
def test_a_synthetic_trace_appears_only_whole(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is cut off leaves the file that was there, or none."""
    shape = {"out.fxt": "spans", "out.dcpi": "profile", "out.data": "calls"}[target]
    name = {"out.fxt": "fxt", "out.dcpi": "dcpi", "out.data": "uftrace"}[target]
    path = tmp_path / target
    if name == "fxt":
        path.write_bytes(b"before")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "__call__", interrupt)
    assert main(["synth", shape, "--format", name, "--events", "1000", "-o", str(path)]) != 0
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("out.fxt", b"before")] * (name == "fxt")
