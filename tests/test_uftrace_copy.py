"""Copies have the same bytes; payloads encoded from decoded values differ only in padding."""

from __future__ import annotations

from pathlib import Path

import pytest

from fxtio.codec.record import Opaque
from fxtio.uftrace import payloads
from fxtio.uftrace.directory import StoredFile
from fxtio.uftrace.reader import UftraceTrace
from fxtio.uftrace.records import FunctionEntry, FunctionExit, decode, encode
from fxtio.uftrace.writer import UftraceWriter
from support.uftrace_samples import SAMPLES, UFTRACE, opened


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.mark.parametrize("name", SAMPLES)
def test_every_file_is_copied_byte_for_byte(name: str, tmp_path: Path) -> None:
    with UftraceWriter(tmp_path / "copy") as writer:
        writer.copy(opened(name))
    assert contents(tmp_path / "copy") == contents(UFTRACE / name)


@pytest.mark.parametrize("name", SAMPLES)
def test_small_files_are_parsed_and_written_back(name: str) -> None:
    trace = opened(name)
    for file in trace.directory.names:
        part = trace.file(file)
        declared = file.startswith(("info", "sid-", "task", "events", "extern")) or file.endswith((".sym", ".dbg"))
        assert isinstance(part, StoredFile) != declared, file


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
