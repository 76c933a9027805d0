"""What reading and writing directories costs grows with their size, not faster, whatever they contain."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fxtio.finding import Finding, Findings
from fxtio.uftrace import explain, merge, state
from fxtio.uftrace.argspec import MAX_VALUES, ArgumentSpecs
from fxtio.uftrace.info import InfoFile
from fxtio.uftrace.layout import InfoBit
from fxtio.uftrace.reader import UftraceTrace
from fxtio.uftrace.records import FunctionEntry, encode
from fxtio.uftrace.symbols import Symbol
from fxtio.uftrace.tasks import stamp
from fxtio.uftrace.writer import UftraceWriter
from support.costs import operations
from support.uftrace_samples import minimal


def many_tasks(target: Path, count: int, *, first: int = 1) -> Path:
    """Write a directory with this many processes, each of them with one call."""
    with UftraceWriter(target) as writer:
        for tid in range(first, first + count):
            task = writer.task(tid)
            task.enter("main", 1_000 + tid)
            task.leave(9_000 + tid)
    return target


def copied(target: Path, count: int) -> Callable[[], object]:
    trace = UftraceTrace(many_tasks(target / f"tasks{count}", count))

    def work() -> None:
        with UftraceWriter(target / f"copy{count}") as writer:
            writer.copy(trace)

    return work


def written(target: Path, count: int) -> Callable[[], object]:
    return lambda: many_tasks(target / f"written{count}", count)


def merged(target: Path, count: int) -> Callable[[], object]:
    parts = [many_tasks(target / f"part{first}-{count}", count, first=first) for first in (1, 1_000)]
    return lambda: merge.merge([UftraceTrace(part) for part in parts], target / f"merged{count}")


@pytest.mark.full
@pytest.mark.parametrize(("make", "few"), [(copied, 12), (written, 150), (merged, 120)])
def test_the_cost_is_proportional_to_the_size(
    make: Callable[[Path, int], Callable[[], object]], few: int, tmp_path: Path
) -> None:
    def cost(count: int) -> int:
        return operations(make(tmp_path, count))

    cost(2)  # what is made on first use does not count; CPython 3.12 counts nothing at first
    costs = [cost(few), cost(2 * few)]
    assert costs[1] < 2.2 * costs[0], costs


def test_explaining_a_record_takes_only_its_findings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = minimal(tmp_path / "t")
    (path / "1.dat").write_bytes((path / "1.dat").read_bytes()[:-3])

    def all_findings(findings: Findings) -> Iterator[Finding]:
        raise AssertionError("all findings are gone through")

    monkeypatch.setattr(Findings, "__iter__", all_findings)
    *_, last = explain.explain(UftraceTrace(path), record=None, offset=0, kinds=None)
    assert [finding.rule for finding in last.findings] == ["uftrace.record.truncated"]


def specs_of(findings: Findings, **lines: str) -> ArgumentSpecs:
    info = InfoFile()
    info.set_block(InfoBit.ARG_SPEC, *(f"{key.replace('_', '-')}:{text}" for key, text in lines.items()))
    info.set_block(InfoBit.PATTERN_TYPE, "pattern_type:regex")
    return ArgumentSpecs(info, findings)


def test_large_patterns_do_not_fill_the_memory() -> None:
    findings = Findings("uftrace")
    tracemalloc.start()
    try:
        specs_of(findings, argspec=";".join(["(a{250}){7}" + "[é-ü]" * 100 + "@arg1"] * 200))
        assert tracemalloc.get_traced_memory()[1] < 40 << 20
    finally:
        tracemalloc.stop()
    assert findings.counts == {"uftrace.argspec.too-much-work": 1}


@pytest.mark.parametrize("key", ["argspec", "argauto"])
def test_a_function_has_no_more_values_than_a_payload_holds(key: str) -> None:
    """A structure may have no bytes, so that a payload of none could have any number of values."""
    findings = Findings("uftrace")
    texts = [",".join(f"arg{number + 1}/t0" for number in range(count)) for count in (MAX_VALUES, MAX_VALUES + 1)]
    text = f"few@{texts[0]};many@{texts[1]}"
    specs = specs_of(findings, **{key: text, "auto_args": "1"})
    assert len(specs.of(Symbol(0, "few"), "", None)[0]) == MAX_VALUES
    assert not findings
    assert specs.of(Symbol(16, "many"), "", None) == ((), ())
    assert findings.counts == {"uftrace.argspec.invalid": 1}


@pytest.mark.parametrize(
    "lines", [{"argspec": ";".join(["f@arg1"] * 500)}, {"argauto": "f@" + "arg1," * 500, "auto_args": "1"}]
)
def test_the_specifications_of_one_name_are_not_looked_up_without_end(
    lines: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fxtio.uftrace.argspec.MAX_PATTERN_STEPS", 150_000)
    monkeypatch.setattr("fxtio.uftrace.argspec.MAX_VALUES", 500)

    findings = Findings("uftrace")
    specs = specs_of(findings, **lines)
    found = [bool(specs.of(Symbol(number, "f"), "", None)[0]) for number in range(9)]
    assert found[0]
    assert not found[-1]
    assert findings.counts == {"uftrace.argspec.too-much-work": 1}


@pytest.mark.parametrize("file", ["prog", "other"])  # a file with symbols, and one that does not exist
def test_modules_count_as_work(file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each library that is loaded begins an address space of all modules."""
    path, loads, size = minimal(tmp_path / "t", records=1), 50, 0x1000
    (path / "1.dat").write_bytes(b"".join(encode(FunctionEntry(1_000 + n, 0, 0x400000)) for n in range(loads)))
    (mapping,) = path.glob("sid-*.map")
    with mapping.open("a") as lines:
        for number in range(40):
            begin = 0x1000000 + 2 * number * size
            lines.write(f"{begin:08x}-{begin + size:08x} r-xp 00000000 00:00 0 /{number}/{file}\n")
    sid = mapping.stem.removeprefix("sid-")
    with (path / "task.txt").open("a") as lines:
        for number in range(loads):
            lines.write(
                f"DLOP timestamp={stamp(1_000 + number)} tid=1 sid={sid} base={0x70000000 + number * size:x} "
                f'libname="/{number}/{file}"\n'
            )
    monkeypatch.setattr(state, "MAX_ARRANGED", 200_000)
    trace = UftraceTrace(path)
    assert trace.timeline().table("slices").num_rows == loads
    assert "uftrace.session.too-many" in trace.findings.counts
