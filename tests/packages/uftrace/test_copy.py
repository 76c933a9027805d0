"""Copies have the same bytes; payloads encoded from decoded values differ only in padding."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fxtio.codec.record import Opaque
from fxtio.uftrace import payloads
from fxtio.uftrace.reader import UftraceTrace
from fxtio.uftrace.records import FunctionEntry, FunctionExit, decode, encode
from fxtio.uftrace.writer import UftraceWriter
from support.uftrace_samples import SAMPLES, UFTRACE, copied, opened


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.mark.parametrize("name", SAMPLES)
def test_every_file_is_copied_byte_for_byte(name: str, tmp_path: Path) -> None:
    with UftraceWriter(tmp_path / "copy") as writer:
        writer.copy(opened(name))
    assert contents(tmp_path / "copy") == contents(UFTRACE / name)


@pytest.mark.parametrize("name", SAMPLES)
def test_files_that_are_given_as_a_whole_stay_as_they_are(name: str, tmp_path: Path) -> None:
    trace = opened(name)
    with UftraceWriter(tmp_path / "copy", order=trace.info_file.order) as writer:
        for file in set(trace.directory.names) - {f"{tid}.dat" for tid in trace.tids}:
            writer.file(file, trace.file(file))
        for tid in trace.tids:
            for record in trace.records(tid=tid):
                writer.put(record, tid=tid)
    copy, original = contents(tmp_path / "copy"), contents(UFTRACE / name)
    assert {file: copy[file] for file in original if original[file]} == {n: raw for n, raw in original.items() if raw}


def test_a_damaged_file_is_copied_too(tmp_path: Path) -> None:
    original = UFTRACE / "args-all-v013" / "14858.dat"
    raw = bytearray(original.read_bytes())
    raw[40] ^= 0xFF
    damaged = tmp_path / "damaged"
    with UftraceWriter(damaged) as writer:
        writer.copy(opened("args-all-v013"))
    (damaged / "14858.dat").write_bytes(raw[:-5])
    with UftraceWriter(tmp_path / "copy") as writer:
        trace = UftraceTrace(damaged)
        assert any(isinstance(record, Opaque) for record in trace)
        writer.copy(trace)
    assert contents(tmp_path / "copy") == contents(damaged)


ODD_NAMES = ("07.dat", "-1.dat", "x.dat", "1.dat.old", " ", "\n", "é.sym", "a\\b", "Info", "%s", "*", ".hidden", "dat")


def test_files_with_odd_names_and_contents_are_copied(tmp_path: Path) -> None:
    target = copied("thread-v019", tmp_path / "t")
    names = [os.fsencode(name) for name in ODD_NAMES] + [b"\xff\xfe.map"]
    for number, name in enumerate(names):
        with open(os.path.join(os.fsencode(target), name), "wb") as file:  # noqa: PTH118
            file.write(bytes(number * 7))
    (target / "2.dat").write_bytes(b"")
    trace = UftraceTrace(target)
    with UftraceWriter(tmp_path / "copy") as writer:
        writer.copy(trace)
    assert contents(tmp_path / "copy") == contents(target)
    assert len(contents(target)) == len(contents(UFTRACE / "thread-v019")) + len(names) + 1


def test_only_regular_files_are_copied(tmp_path: Path) -> None:
    """A link may lead anywhere, and uftrace makes no directories: findings report them, and the copy is without."""
    target = copied("thread-v019", tmp_path / "t")
    (tmp_path / "secret").write_text("secret")
    (target / "extern.dat").symlink_to(tmp_path / "secret")
    (target / "folder").mkdir()
    (target / "folder" / "info").write_text("text")
    trace = UftraceTrace(target)
    with UftraceWriter(tmp_path / "copy") as writer:
        writer.copy(trace)
    assert [finding.file for finding in trace.findings if finding.rule == "uftrace.directory.not-a-file"] == [
        "extern.dat",
        "folder",
    ]
    assert contents(tmp_path / "copy") == contents(UFTRACE / "thread-v019")


@pytest.mark.full
@given(seed=st.integers(0, 2**32))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None)
@pytest.mark.parametrize("name", ["args-all-v013", "fork-v013", "synth-big-endian", "synth-perf", "old-v05-fork"])
def test_every_damaged_directory_is_copied_byte_for_byte(name: str, seed: int, tmp_path: Path) -> None:
    for folder in ("t", "copy", "records"):
        shutil.rmtree(tmp_path / folder, ignore_errors=True)
    target = copied(name, tmp_path / "t")
    draw = random.Random(seed)
    for _ in range(draw.randrange(1, 4)):
        path = draw.choice(sorted(target.iterdir()))
        path.write_bytes(damaged(path.read_bytes(), draw))
    trace = UftraceTrace(target)
    with UftraceWriter(tmp_path / "copy") as writer:
        writer.copy(trace)
    assert contents(tmp_path / "copy") == contents(target)
    with UftraceWriter(tmp_path / "records", order=trace.info_file.order) as writer:
        for tid in trace.tids:
            for record in trace.records(resolve=False, tid=tid):
                writer.put(record, tid=tid)
    for path in (tmp_path / "records").glob("[0-9]*.dat"):
        assert path.read_bytes() == (target / path.name).read_bytes()


def damaged(raw: bytes, draw: random.Random) -> bytes:
    """Return the content of a file with a random fault."""
    at, size = draw.randrange(len(raw) + 1), draw.choice([1, 3, 8, 16, 100])
    part = raw[at : at + size]
    return draw.choice([
        raw[:at],
        raw[:at] + raw[at + size :],
        raw[:at] + draw.randbytes(size) + raw[at:],
        raw[:at] + part + raw[at:],
        raw[:at] + bytes(byte ^ 1 << draw.randrange(8) for byte in part) + raw[at + size :],
        raw[:at] + bytes(len(part)) + raw[at + size :],
        raw.replace(b"\n", b"\r\n"),
        b"",
    ])  # fmt: skip


@pytest.mark.parametrize(
    "name", ["args-all-v013", "auto-args-cpp-v013", "old-v014-args", "synth-args", "synth-class32"]
)
def test_values_are_written_as_they_were_read(name: str) -> None:
    trace = opened(name)
    differing = seen = 0
    for chunk in trace.chunks():
        words = chunk.block.words.tolist()
        for at, size in zip(chunk.at.tolist(), chunk.size.tolist(), strict=True):
            record = decode(words, chunk.block.data, at, at + size)
            if not isinstance(record, FunctionEntry | FunctionExit) or record.payload is None:
                continue
            values = chunk.functions.specs_at(record.address, is_exit=isinstance(record, FunctionExit))
            decoded = payloads.decode(values, record.payload)
            payload = payloads.encode(values, decoded)
            seen += 1
            differing += payload != record.payload
            assert len(payload) == len(record.payload)
            assert repr(payloads.decode(values, payload)) == repr(decoded)  # as text: a nan is not equal to itself
            second = encode(record.replace(payload=payload))
            assert second[:16] == encode(record)[:16]
    assert seen > 1
    if name == "args-all-v013":
        assert 0 < differing < seen  # uftrace does not write zeros
