"""Where a rule says that uftrace goes wrong, uftrace goes wrong; and what the specification forbids is found."""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import fxtio
from fxtio.rules import rules_of
from fxtio.uftrace.events import payload_of
from fxtio.uftrace.info import HEADER_SIZE
from fxtio.uftrace.records import Event, encode
from fxtio.uftrace.rules import check
from support.broken import write_broken
from support.limits import PATIENCE, processor_seconds
from support.uftrace_judge import PROGRAM, needs_uftrace
from support.uftrace_samples import minimal, opened

pytestmark = pytest.mark.once

Outcome = tuple[int, str]
"""The exit code of uftrace, and what it wrote."""


def run(directory: Path, command: str, *options: str) -> Outcome:
    assert PROGRAM, "uftrace is required, but not installed"
    done = subprocess.run(
        [PROGRAM, command, "--no-pager", "--color=no", *options, "-d", str(directory)],
        capture_output=True, timeout=PATIENCE, check=False, cwd=directory,
        env={"PATH": os.environ["PATH"], "TERM": "dumb", "TZ": "UTC", "LC_ALL": "C.UTF-8"},
    )  # fmt: skip
    return done.returncode, (done.stdout + done.stderr).decode(errors="replace")


def refuses(text: str) -> Callable[[Path], None]:
    """Return a check that uftrace ends with a message."""

    def judge(directory: Path) -> None:
        code, output = run(directory, "replay")
        assert code != 0 and text in output, output

    return judge


def shows(text: str, *, instead_of: str = "") -> Callable[[Path], None]:
    """Return a check that uftrace shows one text, and another one not."""

    def judge(directory: Path) -> None:
        code, output = run(directory, "replay")
        assert code == 0 and text in output, output
        assert not instead_of or instead_of not in output, output

    return judge


def invalid_json(directory: Path) -> None:
    _, output = run(directory, "dump", "--chrome")
    with pytest.raises(json.JSONDecodeError):
        json.loads(output)


def crash_of_graphviz(directory: Path) -> None:
    assert run(directory, "dump", "--graphviz")[0] < 0


def counts_in_place_of_time(directory: Path) -> None:
    _, output = run(directory, "dump", "--flame-graph")
    assert "main;work 2" in output


def records_of_the_task_are_missing(directory: Path) -> None:
    code, output = run(directory, "replay")
    assert code != 0 or "main" not in output


def too_few_calls(directory: Path) -> None:
    """The trace has 1,025 nested calls."""
    _, output = run(directory, "report", "-f", "call")
    assert "main" in output and "1025" not in output


def buffer_overflow(directory: Path) -> None:
    """uftrace crashes, but not if the description is shorter."""
    code, output = run(directory, "dump")
    assert code < 0 and "buffer overflow detected" in output, output
    header = directory / "kernel_header"
    header.write_bytes(header.read_bytes().replace(b"odd/format: 5152", b"odd/format: 0152").replace(b"x" * 5000, b""))
    assert "buffer overflow" not in run(directory, "dump")[1]


def the_last_function_has_no_name(directory: Path) -> None:
    """The last function of the broken directory is not called; without it, the last one is."""
    symbols = directory / "prog.sym"
    symbols.write_text(symbols.read_text().replace(f"{32:016x} T unused\n", ""))
    shows("<400010>", instead_of="work")(directory)


def values_without_a_format(directory: Path) -> None:
    """The broken directory has no values; those of a recording are integers instead of texts, if it gets that far."""
    trace = opened("broken-trigger-retval-v013")
    assert any(isinstance((entry.values or {}).get("retval"), str) for entry in trace.entries())
    code, output = run(trace.directory.path, "dump")
    assert "retval str" not in output, (code, output)


JUDGES: dict[str, Callable[[Path], None]] = {
    "uftrace.info.block-order": refuses("cannot read uftrace header info"),
    "uftrace.info.no-task-list": refuses("No data available"),
    "uftrace.info.task-count": refuses("ASSERT"),
    "uftrace.info.build-id": refuses("cannot read uftrace header info"),
    "uftrace.info.no-program": crash_of_graphviz,
    "uftrace.info.no-command": invalid_json,
    "uftrace.info.no-date": counts_in_place_of_time,
    "uftrace.info.no-session-bit": shows("<400000>", instead_of="main"),
    "uftrace.info.missing-feature": shows("user_event:1000000", instead_of="provider:name"),
    "uftrace.info.unlisted-task": records_of_the_task_are_missing,
    "uftrace.task.binary": refuses("No data available"),
    "uftrace.task.session-late": shows("<400000>", instead_of="main"),
    "uftrace.task.late": shows("<400000>"),
    "uftrace.session.no-stack": shows("<400000>", instead_of="main"),
    "uftrace.session.path-space": shows("<400000>", instead_of="main"),
    "uftrace.symbol.no-file": shows("<400000>", instead_of="main"),
    "uftrace.symbol.no-end": the_last_function_has_no_name,
    "uftrace.event.extern-order": shows("inverted time: broken data?"),
    "uftrace.event.data": refuses("unknown event has data"),
    "uftrace.argspec.no-processor": shows("unknown register name"),
    "uftrace.argspec.trigger-format": values_without_a_format,
    "uftrace.record.payload-unknown": refuses("record missing argument info"),
    "uftrace.record.wrapped-depth": too_few_calls,
    "uftrace.kernel.long-description": buffer_overflow,
}
"""What uftrace does with the broken directory of a rule."""


def test_every_rule_about_uftrace_is_judged() -> None:
    assert [*JUDGES] == [rule.id for rule in rules_of("uftrace").values() if rule.level == "interop:uftrace"]


@pytest.mark.full
@needs_uftrace
@pytest.mark.parametrize("rule", JUDGES)
def test_uftrace_goes_wrong(rule: str, tmp_path: Path) -> None:
    write_broken(rule, tmp_path / "t")
    JUDGES[rule](tmp_path / "t")


@pytest.mark.full
@needs_uftrace
def test_uftrace_reads_what_is_not_broken(tmp_path: Path) -> None:
    write_broken("uftrace.source.cut", tmp_path / "t")
    code, output = run(tmp_path / "t", "replay")
    assert code == 0 and "main" in output and "work" in output and "provider:name" in output
    assert json.loads(run(tmp_path / "t", "dump", "--chrome")[1])["traceEvents"]


def findings_of(directory: Path) -> set[str]:
    with fxtio.open(directory, format="uftrace") as trace:
        check(trace)
    return {*trace.findings.counts}


@pytest.mark.full
def test_hostile_directories_are_checked_in_little_time(tmp_path: Path) -> None:
    """Very many events of different numbers, and very many lines that begin a block."""
    target = minimal(tmp_path / "t")
    events = [Event(9_000_001 + number, 0, 1_000_000 + 7 * number, payload_of(b"data")) for number in range(60_000)]
    with (target / "1.dat").open("ab") as file:
        file.writelines(map(encode, events))
    with (target / "info").open("ab") as file:
        file.write(b"argspec:lines=5\n" * 100_000)
    with processor_seconds(20), fxtio.open(target, format="uftrace") as trace:
        check(trace)
    assert trace.findings.counts["uftrace.event.unknown-id"] == 60_000
    assert trace.findings.counts["uftrace.event.data"] == 60_000
    assert trace.findings.counts["uftrace.info.line-count"] == 99_999  # all but the one that five follow


def test_any_change_of_the_header_is_found(tmp_path: Path) -> None:
    """All bytes but those of the byte order, the features, the blocks and the depth have one value, or few."""
    target = minimal(tmp_path / "t")
    raw = (target / "info").read_bytes()
    fixed = [*range(14), *range(34, HEADER_SIZE)]
    draw = random.Random(1)
    for at in fixed:
        for value in (0, 255, draw.randrange(256), raw[at] + 1):
            changed = bytearray(raw)
            changed[at] = value
            (target / "info").write_bytes(changed)
            version = int.from_bytes(changed[8:12], "little")
            assert bool(findings_of(target)) == (changed != raw and version != 3), (at, value)


def test_any_change_of_the_magic_of_a_record_is_found(tmp_path: Path) -> None:
    target = minimal(tmp_path / "t", records=20)
    raw = (target / "1.dat").read_bytes()
    with fxtio.open(target, format="uftrace") as trace:
        offsets = [entry.offset for entry in trace.entries()]
    draw = random.Random(2)
    for offset in offsets:
        changed = bytearray(raw)
        changed[offset + 8] = draw.choice([0x00, 0x40, 0x55, 0x10, 0xC0])
        (target / "1.dat").write_bytes(changed)
        assert "uftrace.record.magic" in findings_of(target), offset


def test_a_mapping_that_has_several_others_overlaps_with_each(tmp_path: Path) -> None:
    target = minimal(tmp_path / "t")
    (mapping,) = target.glob("sid-*.map")
    with mapping.open("a") as file:
        for begin, end, name in ((0x50, 0x90, "large"), (0x51, 0x52, "first"), (0x60, 0x61, "second")):
            file.write(f"{begin:06x}00000-{end:06x}00000 r-xp 00000000 00:00 0 /x/{name}\n")
    with fxtio.open(target, format="uftrace") as trace:
        check(trace)
    assert trace.findings.counts["uftrace.session.overlap"] == 2


def test_the_number_of_tasks_is_that_of_the_list_of_tasks(tmp_path: Path) -> None:
    """Another line may have the same text after its key."""
    target = minimal(tmp_path / "t")
    raw = (target / "info").read_bytes().replace(b"nr_tid=1", b"nr_tid=7")
    raw = raw[:HEADER_SIZE] + b"other:nr_tid=7\n" + raw[HEADER_SIZE:]
    (target / "info").write_bytes(raw)
    with fxtio.open(target, format="uftrace") as trace:
        check(trace)
    (finding,) = [each for each in trace.findings if each.rule == "uftrace.info.task-count"]
    assert finding.offset == raw.index(b"taskinfo:nr_tid") + len("taskinfo:")


def test_a_map_that_is_too_large_is_reported_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = minimal(tmp_path / "t")
    (mapping,) = target.glob("sid-*.map")
    with mapping.open("a") as file:
        file.write("# \n" * 5_000)
    monkeypatch.setattr("fxtio.uftrace.directory.MAX_WHOLE_FILE", 10_000)
    with fxtio.open(target, format="uftrace") as trace:
        check(trace)
    assert trace.findings.counts["uftrace.directory.file-too-large"] == 1
