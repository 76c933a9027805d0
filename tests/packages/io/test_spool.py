"""Streams that can be read only once: formats that read a file again store them, and all commands accept them."""

from __future__ import annotations

import errno
import gzip
import io
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fxtio
from contract.samples import SYNTHETIC, Sample
from fxtio.cli import main
from fxtio.errors import FormatError
from fxtio.formats import formats
from fxtio.io.source import Source, Spool, SpooledSource, open_source

pytestmark = pytest.mark.native

FILES = [name for name, item in formats().items() if not item.directory]
COMMANDS = {
    "info": ["info"],
    "info as JSON": ["info", "--json"],
    "stats": ["stats"],
    "dump": ["dump", "--limit", "20"],
    "dump as JSON": ["dump", "--json"],
    "raw dump": ["dump", "--raw"],
    "explain": ["explain", "--count", "5"],
}

SMALL = (Path(__file__).parents[2] / "corpus" / "mono" / "synth-v17.mlpd").read_bytes()


class Once(io.RawIOBase):
    """A stream that gives few bytes at a time and cannot seek."""

    def __init__(self, data: bytes, step: int = 7) -> None:
        self._data = io.BytesIO(data)
        self._step = step

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        data = self._data.read(min(self._step, len(target)))
        target[: len(data)] = data
        return len(data)


def spooled(data: bytes, limit: int | None = None) -> Spool:
    return Spool(open_source(Once(data), limit=limit))


def read(source: Source, count: int) -> bytes:
    target = bytearray(count)
    return bytes(target[: source.readinto(memoryview(target))])


@given(st.binary(max_size=3000), st.lists(st.tuples(st.integers(0, 3), st.integers(1, 900)), max_size=20))
def test_all_readings_give_the_same_bytes_in_any_order(data: bytes, steps: list[tuple[int, int]]) -> None:
    spool = spooled(data)
    sources: list[SpooledSource] = [spool.open() for _ in range(4)]
    positions = [0] * 4
    for number, count in steps:
        at = positions[number]
        assert read(sources[number], count) == data[at : at + count]
        positions[number] = sources[number].position
        assert positions[number] == min(at + count, len(data))
    again = spool.open()
    assert again.head == data[:1024]
    assert read(again, 4000) == data
    assert again.fault is None
    assert (spool.open().size, spool.open().remaining, spool.open().total) == (len(data),) * 3
    spool.close()


def test_a_fault_of_the_source_is_at_its_place_in_every_reading() -> None:
    packed = gzip.compress(os.urandom(5000))[:3000]
    expected = open_source(packed)
    data = read(expected, 9000)
    assert expected.fault is not None
    spool = spooled(packed)
    for _ in range(2):
        source = spool.open()
        assert read(source, 100) == data[:100]
        assert source.fault is None
        assert read(source, 9000) == data[100:]
        assert source.fault == expected.fault
    spool.close()


def test_the_limit_of_bytes_holds_for_the_temporary_file() -> None:
    spool = spooled(bytes(5000), limit=1000)
    for _ in range(2):
        source = spool.open()
        assert len(read(source, 5000)) == 1000
        assert source.fault == "the data is longer than the limit of 1,000 bytes"
    assert spool.end == 1000
    spool.close()


def test_a_closed_trace_is_not_read() -> None:
    trace = fxtio.open(Once(SMALL), format="mono")
    list(trace)
    trace.close()
    with pytest.raises(FormatError, match="is closed"):
        list(trace)


def test_no_file_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with fxtio.open(Once(SMALL), format="mono") as trace:
        assert list(trace) == list(trace)
        assert [*tmp_path.iterdir()] == []  # it has no name
    assert [*tmp_path.iterdir()] == []


def test_paths_are_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "TemporaryFile", None)
    with fxtio.open(SMALL, format="mono") as trace:
        assert list(trace) == list(trace)


def test_a_full_disk_is_told_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.BytesIO):
        def write(self, data: Any) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: Full())
    with (
        fxtio.open(Once(SMALL), format="mono") as trace,
        pytest.raises(OSError, match="No space left on device; <stream> is read more than once"),
    ):
        list(trace)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return a trace of each format that is a file."""
    samples: dict[str, Sample] = {sample.format.name: sample for sample in SYNTHETIC}
    return {name: samples[name].make(tmp_path_factory.mktemp(name)) for name in FILES}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("command", COMMANDS)
def test_commands_print_the_same_of_a_pipe(
    command: str, name: str, made: dict[str, Path], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    verb, *options = COMMANDS[command]
    assert main([verb, str(made[name]), *options]) == 0
    expected = capfd.readouterr()
    with subprocess.Popen(["cat", str(made[name])], stdout=subprocess.PIPE) as cat:
        assert cat.stdout is not None
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(cat.stdout))
        assert main([verb, "-", *options]) == 0
    actual = capfd.readouterr()
    assert actual.out.replace("<stdin>", str(made[name])) == expected.out
    assert actual.err == expected.err


def test_a_file_of_a_directory_is_refused_with_the_reason(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stats", str(corpus / "uftrace" / "fork-v013" / "info")]) == 2
    expected = "is a file of a uftrace data directory; name the directory, which cannot be read from a pipe"
    assert expected in capsys.readouterr().err
    with pytest.raises(FormatError, match="is not a directory; a trace in the format uftrace is a directory"):
        fxtio.open(Once(b"Ftrace!"), format="uftrace")


class FailsOnce:
    """A file whose second `write` fails."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._writes = 0

    def write(self, data: Any) -> int:
        self._writes += 1
        if self._writes == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        return int(self._file.write(data))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def test_bytes_that_were_not_stored_are_not_left_out_later() -> None:
    data = os.urandom(3000)
    spool = spooled(data)
    file: Any = FailsOnce(spool._file)
    spool._file = file
    reading, part = spool.open(), bytearray(1000)
    assert reading.readinto(memoryview(part)) == len(part)
    with pytest.raises(OSError, match="No space left on device"):
        reading.readinto(memoryview(part))
    again = spool.open()
    assert again.readinto(memoryview(part)) == len(part)
    assert part == data[:1000]
    assert spool.end is None
    with pytest.raises(OSError, match="were not stored"):
        again.readinto(memoryview(part))
    spool.close()
