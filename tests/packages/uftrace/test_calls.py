"""Texts in calls of the writer that would be read as other texts, beside what `contract/test_calls` tries."""

from __future__ import annotations

from pathlib import Path

import pytest

from contract.calls import uftrace as table
from contract.calls.case import Opened
from fxtio.errors import EncodeError
from fxtio.uftrace.reader import UftraceTrace
from fxtio.uftrace.writer import UftraceWriter

ODD = ["\udcc3\udca9", "\udcff", "a\rb", "a\tb", " ", "x" * 1024, "é", '"', ";", "@", "\x1b[31m"]


def begun(path: Path) -> Opened:
    return table.begin(UftraceWriter(path, program="/x/prog", command="x"))


def finished(opened: Opened) -> dict[str, bytes]:
    table.end(opened)
    opened.writer.close()
    return {file.name: file.read_bytes() for file in opened.writer.path.iterdir()}


@pytest.mark.full
@pytest.mark.parametrize("odd", ODD)
def test_odd_texts_are_refused_as_a_whole_or_read_again(odd: str, tmp_path: Path) -> None:
    expected = finished(begun(tmp_path / "without"))
    numbers = range(len(table.calls(begun(tmp_path / "first"))))
    refused = 0
    for number in numbers:
        ways = [way for way, value in table.calls(begun(tmp_path / f"{number}"))[number].paths() if type(value) is str]
        for place, way in enumerate(ways):
            opened = begun(tmp_path / f"{number}-{place}")
            call = table.calls(opened)[number]
            call.replace(way, odd)
            try:
                call()
            except EncodeError:
                refused += 1
                assert finished(opened) == expected, (str(call), way)
                continue
            finished(opened)
            trace = UftraceTrace(opened.writer.path)
            trace.tables(*trace.table_names)
            unchecked = str(call) in table.UNCHECKED
            assert unchecked or not trace.findings.counts.keys() - table.FINDINGS, (str(call), way, *trace.findings)
    assert refused >= 5
