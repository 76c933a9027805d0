"""Damaged and hostile directories: they give findings and the intact rest, and no file outside is opened."""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fxtio
from fxtio.cli import main
from fxtio.codec.record import Opaque
from fxtio.errors import DecodeError, FxtioError
from fxtio.uftrace import frames, kernel, perf, report
from fxtio.uftrace.layout import RecordWord
from fxtio.uftrace.reader import UftraceTrace
from fxtio.uftrace.records import FunctionEntry, FunctionExit, Lost, encode
from fxtio.uftrace.tasks import stamp
from fxtio.uftrace.writer import UftraceWriter
from support.uftrace_samples import EXTREMES, SAMPLES, UFTRACE, copied, minimal, opened, plain, slices_of

RECORD = 16


def read_everything(trace: UftraceTrace) -> tuple[int, dict[str, int]]:
    """Read everything; return the number of records and the counts of findings by rule."""
    count = sum(1 for _ in trace.entries())
    counts = dict(trace.findings.counts)
    tables = trace.tables(*trace.table_names)
    assert tables["records"].num_rows <= count
    for finding in trace.findings:
        assert finding.file and str(finding)
    return count, counts


@pytest.mark.full
@pytest.mark.parametrize("name", ["args-all-v013", "thread-v019", "synth-events", "old-v05-fork", "dlopen-v013"])
def test_every_missing_file_is_survived(name: str, tmp_path: Path) -> None:
    count, _ = read_everything(opened(name))
    for file in (UFTRACE / name).iterdir():
        shutil.rmtree(tmp_path / "t", ignore_errors=True)
        target = copied(name, tmp_path / "t")
        (target / file.name).unlink()
        result, rules = read_everything(UftraceTrace(target))
        if file.name[0].isdigit():
            assert rules["uftrace.directory.no-task-file"] == 1 and result < count
        else:
            assert result > 0
        if file.name == "info":
            assert rules["uftrace.info.header"] == 1
        if file.name.startswith("sid-"):
            assert rules["uftrace.session.no-map"] == 1
        if file.name.startswith("task"):
            assert rules["uftrace.task.none"] == 1


@pytest.mark.full
def test_a_cut_file_gives_all_whole_records(tmp_path: Path) -> None:
    minimal(tmp_path / "t", records=5)
    raw = (tmp_path / "t" / "1.dat").read_bytes()
    complete = [entry.offset for entry in UftraceTrace(tmp_path / "t").entries()]
    for size in range(len(raw)):
        (tmp_path / "t" / "1.dat").write_bytes(raw[:size])
        trace = UftraceTrace(tmp_path / "t")
        offsets = [entry.offset for entry in trace.entries() if not isinstance(entry.record, Opaque)]
        ends = [*complete[1:], len(raw)]
        assert offsets == [at for at, end in zip(complete, ends, strict=True) if end <= size]
        assert trace.findings.counts["uftrace.record.truncated"] == (size not in complete and size > 0)


def test_reading_continues_after_bad_magic_bits(tmp_path: Path) -> None:
    minimal(tmp_path / "t", records=30)
    path = tmp_path / "t" / "1.dat"
    raw = bytearray(path.read_bytes())
    all_entries = list(UftraceTrace(tmp_path / "t").entries())
    hit = all_entries[20].offset
    raw[hit + 8] ^= 0x38
    path.write_bytes(raw)
    trace = UftraceTrace(tmp_path / "t")
    result = list(trace.entries())
    assert [entry.offset for entry in result] == [entry.offset for entry in all_entries]
    assert isinstance(result[20].record, Opaque)
    assert [each for each in result if each is not result[20]] == [
        each for each in all_entries if each is not all_entries[20]
    ]
    finding = next(iter(trace.findings))
    assert (finding.rule, finding.file, finding.offset) == ("uftrace.record.magic", "1.dat", hit)


def test_a_payload_without_specification_is_kept(tmp_path: Path) -> None:
    minimal(tmp_path / "t", records=30)
    info = tmp_path / "t" / "info"
    info.write_bytes(info.read_bytes().replace(b"argspec:work", b"argspec:walk"))
    trace = UftraceTrace(tmp_path / "t")
    all_entries = list(trace.entries())
    entries = [entry for entry in all_entries if entry.name == "work" and isinstance(entry.record, FunctionEntry)]
    assert len(entries) == 30 and not any(entry.values for entry in entries)
    assert all(entry.record.payload and b"text" in entry.record.payload for entry in entries)
    assert len([entry for entry in all_entries if isinstance(entry.record, FunctionExit) and entry.values]) == 30
    assert trace.findings.counts == {"uftrace.record.payload-unknown": 30}
    assert trace.timeline().table("slices").num_rows == 31


def test_time_that_goes_back_is_reported(tmp_path: Path) -> None:
    plain(
        tmp_path / "t",
        [
            FunctionEntry(100, 0, 0x400000),
            FunctionEntry(90, 1, 0x400010),
            FunctionExit(95, 1, 0x400010),
            FunctionExit(120, 0, 0x400000),
        ],
    )
    trace = UftraceTrace(tmp_path / "t")
    assert read_everything(trace) == (4, {"uftrace.time.backwards": 1})


LATEST = 2**63 - 1


@pytest.mark.parametrize("time", EXTREMES)
@pytest.mark.parametrize("task_time", [0, 2000, *EXTREMES[4:], 2**64, 10**21 - 1])
def test_any_time_of_a_record_and_of_a_session(time: int, task_time: int, tmp_path: Path) -> None:
    """No value of a file has a meaning of its own: reading ends, whenever sessions, tasks and libraries begin."""
    calls: list[Any] = [
        FunctionEntry(1000, 0, 0x400000),
        FunctionEntry(time, 1, 0x400010),
        FunctionExit(time, 1, 0x400010),
    ]
    target = plain(tmp_path / "t", [*calls, FunctionExit(time, 0, 0x400000)])
    with (target / "task.txt").open("a") as file:
        file.write(f'SESS timestamp={stamp(task_time)} pid=1 sid=0000000000000001 exename="/x/prog"\n')
        file.write(f"TASK timestamp={stamp(task_time)} tid=1 pid=1\n" * 2)
        file.write(f'DLOP timestamp={stamp(task_time)} tid=1 sid=0000000000000001 base=500000 libname="/x/lib.so"\n')
    trace = UftraceTrace(target)
    entries = list(trace.entries())
    assert [entry.record.time for entry in entries] == [1000, time, time, time]
    assert [entry.name for entry in entries] == ["zero", "one", "one", "zero"]
    assert [entry.time for entry in entries] == [1000, *[min(time, LATEST)] * 3]
    over = {"uftrace.time.overflow": 3} if time > LATEST else {}
    back = {"uftrace.time.backwards": 1} if time < 1000 else {}
    assert trace.findings.counts == over | back
    assert trace.table("records")["time"].tolist() == [1000, *[min(time, LATEST)] * 3]
    assert trace.info.end == max(min(time, LATEST), 1000)
    if over:
        finding = next(iter(trace.findings))
        assert (finding.offset, finding.file) == (16, "1.dat")


def test_the_time_of_lost_records_means_nothing(tmp_path: Path) -> None:
    target = plain(tmp_path / "t", [FunctionEntry(1000, 0, 0x400000)])
    with (target / "1.dat").open("ab") as file:
        file.write(encode(Lost(2**64 - 1, 0, 3)) + encode(FunctionExit(2000, 0, 0x400000)))
    trace = UftraceTrace(target)
    assert trace.table("records")["time"].tolist() == [1000, LATEST, 2000]
    assert trace.info.end == 2000
    assert not trace.findings


def test_totals_of_very_long_calls(tmp_path: Path) -> None:
    entries = [FunctionEntry(0, depth, 0x400000) for depth in range(3)]
    target = plain(tmp_path / "t", [*entries, *(FunctionExit(2**63 - 1, depth, 0x400000) for depth in (2, 1, 0))])
    total = report.stats(UftraceTrace(target), top=1).json["functions"][0]["total"]
    assert total == 2**63 - 1  # the sum stops there, as in `fxtio top`


def test_times_of_other_files_that_do_not_fit(tmp_path: Path) -> None:
    target = minimal(tmp_path / "t")
    late = [2**63 - 1, 2**63, 2**64 - 1]
    header = kernel.KernelHeader()
    (target / "kernel_header").write_bytes(header.to_bytes())
    pages = [kernel.build_pages([(time, bytes(8))], header) for time in late]
    (target / "kernel-cpu0.dat").write_bytes(b"".join(pages))
    events = [perf.PerfEvent(time, 1, 1, "sched-in") for time in late]
    (target / "perf-cpu0.dat").write_bytes(b"".join(map(perf.build, events)))
    (target / "extern.dat").write_text("".join(f"{stamp(time)} text\n" for time in [*late, 10**21 - 1]))
    for table, file, offset, count in (
        ("kernel", "kernel-cpu0.dat", 4096 + 20, 2),
        ("sched", "perf-cpu0.dat", 24, 2),
        ("messages", "extern.dat", len("9223372036.854775807 text\n"), 3),
    ):
        trace = UftraceTrace(target)
        assert trace.table(table)["time"].tolist() == [LATEST] * (count + 1)
        assert trace.findings.counts == {"uftrace.time.overflow": count}
        finding = next(iter(trace.findings))
        assert (finding.file, finding.offset) == (file, offset)


def test_a_record_longer_than_a_block(tmp_path: Path) -> None:
    """Twenty strings of 64 KiB are more than a block: the record is skipped, and reading ends."""
    names = ",".join(f"arg{number}/s" for number in range(1, 21))
    target = tmp_path / "t"
    with UftraceWriter(target, program="/x/prog") as writer:
        writer.function("zero", arguments=names)
        writer.task(1).enter("main", 0)
    head = encode(FunctionEntry(1000, 0, 0x400000, bytes(8)))[:16]
    raw = head + (b"\xff\xff" + b"\x40" * 65_535 + bytes(3)) * 40
    raw += encode(FunctionEntry(2000, 0, 0x400010)) + encode(FunctionExit(3000, 0, 0x400010))
    (target / "1.dat").write_bytes(raw)
    trace = UftraceTrace(target)
    entries = list(trace.entries())
    assert b"".join(encode(entry.record) for entry in entries) == raw
    assert [entry.time for entry in entries[-2:]] == [2000, 3000]
    assert trace.findings.counts["uftrace.record.payload-unknown"] == 1


def test_a_damaged_time_does_not_hide_what_follows(tmp_path: Path) -> None:
    target = minimal(tmp_path / "t", records=30)
    path = target / "1.dat"
    raw = bytearray(path.read_bytes())
    entries = list(UftraceTrace(target).entries())
    late, hit = entries[20].offset, entries[21].offset
    raw[late : late + 8] = b"\xff" * 8
    raw[hit + 8] ^= 0x38
    path.write_bytes(raw)
    result = list(UftraceTrace(target).entries())
    assert [entry.offset for entry in result] == [entry.offset for entry in entries]
    assert result[22:] == entries[22:]


def test_a_task_that_is_not_in_the_task_file(tmp_path: Path) -> None:
    minimal(tmp_path / "t")
    (tmp_path / "t" / "1.dat").rename(tmp_path / "t" / "77.dat")
    trace = UftraceTrace(tmp_path / "t")
    assert [entry.name for entry in trace.entries()][:2] == ["main", "work"]
    assert trace.findings.counts == {
        "uftrace.directory.no-task-file": 1,
        "uftrace.info.unlisted-task": 1,
        "uftrace.task.unknown": 1,
    }


def test_no_stack_no_matter(tmp_path: Path) -> None:
    """Without a stack in the map, uftrace takes every address for one of the kernel."""
    minimal(tmp_path / "t")
    for path in (tmp_path / "t").glob("sid-*.map"):
        path.write_text(path.read_text().split("\n")[0] + "\n")
    trace = UftraceTrace(tmp_path / "t")
    assert next(trace.entries()).name == "main"
    assert not trace.findings


def test_symbols_out_of_order(tmp_path: Path) -> None:
    minimal(tmp_path / "t")
    path = tmp_path / "t" / "prog.sym"
    path.write_text("\n".join(reversed(path.read_text().split("\n"))))
    assert [entry.name for entry in UftraceTrace(tmp_path / "t").entries()][:2] == ["main", "work"]


def test_nothing_outside_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    minimal(tmp_path / "t")
    target = tmp_path / "t"
    (tmp_path / "secret").write_bytes((target / "1.dat").read_bytes())
    (tmp_path / "secret.sym").write_text("0000000000400000 T secret\n")
    for name in ("2.dat", "evil.sym", "sid-0000000000000002.map", "events.txt", "perf-cpu0.dat"):
        (target / name).symlink_to(tmp_path / "secret")
    (target / "3.dat").mkdir()
    os.mkfifo(target / "4.dat")
    (target / "task.txt").write_text(
        'SESS timestamp=0.000000000 pid=1 sid=../../../secret exename="/../../secret"\n'
        'SESS timestamp=0.000000001 pid=1 sid=0000000000000002 exename="../secret"\n'
        "TASK timestamp=0.000000001 tid=1 pid=1\n"
        'DLOP timestamp=0.000000500 tid=1 sid=0000000000000002 base=400000 libname="../secret"\n'
        'DLOP timestamp=0.000000600 tid=1 sid=0000000000000002 base=400000 libname="/x/.."\n'
    )
    info = target / "info"
    info.write_bytes(info.read_bytes().replace(b"tids=1\n", b"tids=../secret,1,2,3,4,-1,1e9\n"))
    outside: list[str] = []
    real_open = os.open

    def watched(path: object, *rest: object, **more: object) -> int:
        if not str(path).startswith(str(target) + os.sep) or os.path.islink(str(path)):  # noqa: PTH114
            outside.append(str(path))
        return real_open(path, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", watched)
    trace = UftraceTrace(target)
    _, rules = read_everything(trace)
    assert outside == []
    assert trace.tids == [1]
    assert rules["uftrace.directory.not-a-file"] == 7
    assert "secret" not in {entry.name for entry in trace.entries()}


def test_no_name_leads_out_when_writing(tmp_path: Path) -> None:
    with UftraceWriter(tmp_path / "t") as writer:
        for name in ("../x", "a/b", "..", "", "a\0b"):
            with pytest.raises(FxtioError, match="not the name of a file"):
                writer.file(name, b"")


def test_a_large_small_file_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    minimal(tmp_path / "t")
    monkeypatch.setattr("fxtio.uftrace.directory.MAX_WHOLE_FILE", 100)
    _, rules = read_everything(UftraceTrace(tmp_path / "t"))
    assert rules["uftrace.directory.file-too-large"] > 1


def test_a_library_takes_the_place_of_another(tmp_path: Path) -> None:
    minimal(tmp_path / "t")
    target = tmp_path / "t"
    (target / "new.so.sym").write_text("0000000000000000 T fresh\n0000000000000010 ? __sym_end\n")
    with (target / "task.txt").open("a") as file:
        file.write('DLOP timestamp=0.000002500 tid=1 sid=0000000000000001 base=400000 libname="/x/new.so"\n')
    names = [(entry.time, entry.name) for entry in UftraceTrace(target).entries()]
    assert {name for time, name in names if time and 1000 < time < 2500} == {"work"}
    assert {name for time, name in names if time and 2500 <= time < 9_000_000} == {"fresh"}
    assert names[-1][1] == "main"  # beyond what the new one has


def test_very_many_symbols(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    minimal(tmp_path / "t")
    monkeypatch.setattr("fxtio.uftrace.state.MAX_SYMBOLS", 1)
    count, rules = read_everything(UftraceTrace(tmp_path / "t"))
    assert count > 60 and rules["uftrace.symbol.too-many"] == 1


def test_without_a_demangler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fxtio.uftrace import demangle

    monkeypatch.setattr(demangle, "_library", lambda: None)
    trace = opened("auto-args-cpp-v013")  # its debug files name the functions
    assert sum(1 for entry in trace.entries() if entry.values) > 50
    assert not trace.findings
    minimal(tmp_path / "t")
    path = tmp_path / "t" / "prog.sym"
    path.write_text(path.read_text().replace(" work", " _ZN1AIiE4workEi"))
    trace = UftraceTrace(tmp_path / "t")
    assert not any(entry.values for entry in trace.entries())
    assert trace.findings.counts["uftrace.argspec.no-demangler"] == 1


def test_patterns_that_backtracking_would_take_forever(tmp_path: Path) -> None:
    minimal(tmp_path / "t")
    info = tmp_path / "t" / "info"
    raw = info.read_bytes().replace(b"argspec:work@", b"argspec:((a*)*)*(x+x+)+y@arg1;(w|wo|wor|work)+$@arg1;wo.*k$@")
    info.write_bytes(raw.replace(b"pattern_type:simple", b"pattern_type:regex"))
    trace = UftraceTrace(tmp_path / "t")
    values = [entry.values for entry in trace.entries() if entry.values]
    assert values[0] == {"arg1": 0, "arg2": "text 0"}
    assert trace.findings.counts["uftrace.argspec.pattern"] == 2


@pytest.mark.parametrize("block", [96, 256, 4096])
def test_blocks_of_any_size_give_the_same(block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["args-all-v013", "synth-deep-wrap", "signal-longjmp-v013", "fork-v013", "synth-lost", "synth-big-endian"]
    complete = {name: (list(opened(name).entries()), slices_of(opened(name))) for name in names}
    args = list(opened("args-all-v013").table("args").rows())
    monkeypatch.setattr(frames, "BLOCK", block)
    monkeypatch.setattr(frames, "_MAX_RECORD", block)
    if block == 96:
        names = [name for name in names if name != "args-all-v013"]  # its records do not fit
    for name in names:
        assert list(opened(name).entries()) == complete[name][0], name
        assert slices_of(opened(name)) == complete[name][1], name
    if block > 96:
        assert list(opened("args-all-v013").table("args").rows()) == args


def mutations() -> st.SearchStrategy[list[tuple[int, int]]]:
    return st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=20)


@pytest.mark.full
@pytest.mark.parametrize("file", ["1.dat", "info", "task.txt", "prog.sym", "sid-0000000000000001.map", "events.txt"])
@given(changes=mutations(), cut=st.integers(0, 3))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
def test_any_damage_is_survived(file: str, changes: list[tuple[int, int]], cut: int, tmp_path: Path) -> None:
    target = tmp_path / "t"
    if not target.exists():
        minimal(target)
        (target / "events.txt").write_text("EVENT: 1000000 a:b\n")
        shutil.copytree(target, tmp_path / "good")
    raw = bytearray((tmp_path / "good" / file).read_bytes())
    for position, value in changes:
        raw[position % len(raw)] = value
    (target / file).write_bytes(raw[: len(raw) // 2] if cut == 0 else raw)
    try:
        read_everything(UftraceTrace(target))
    except FxtioError:
        assert file == "info"
    finally:
        shutil.copy(tmp_path / "good" / file, target / file)


HEADS = st.builds(
    lambda kind, depth, function: int(RecordWord(type=kind, more=0, depth=depth, address=0x400000 + 16 * function)),
    st.integers(0, 3), st.sampled_from([0, 1, 1023]), st.integers(0, 2),
)  # fmt: skip


@given(
    words=st.lists(st.sampled_from(EXTREMES) | st.integers(0, 2**64 - 1) | HEADS, max_size=60),
    tail=st.binary(max_size=7),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_arbitrary_records(words: list[int], tail: bytes, tmp_path: Path) -> None:
    target = tmp_path / "t"
    if not target.exists():
        minimal(target)
    raw = struct.pack(f"<{len(words)}Q", *words) + tail
    (target / "1.dat").write_bytes(raw)
    trace = UftraceTrace(target)
    assert b"".join(encode(record) for record in trace) == raw  # not one byte is lost
    read_everything(trace)


@pytest.mark.parametrize("name", SAMPLES)
def test_real_directories_have_no_findings(name: str) -> None:
    check: Callable[[UftraceTrace], tuple[int, dict[str, int]]] = read_everything
    assert check(opened(name))[1] == {}


@pytest.mark.parametrize("command", ["info", "dump", "stats"])
def test_findings_of_small_files_are_printed(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    minimal(tmp_path / "t")
    (tmp_path / "t" / "events.txt").write_text("EVENT: 1000000 a:b\nno event\n")
    assert main([command, str(tmp_path / "t")]) == 1
    captured = capsys.readouterr()
    assert (
        "in events.txt at byte 19: a line of `events.txt` is not the name of an event [uftrace.event.line]"
        in captured.out + captured.err
    )


@pytest.mark.parametrize(("name", "file"), [("tasks", "task.txt"), ("kernel", "kallsyms"), ("messages", "extern.dat")])
def test_reading_one_table_gives_the_findings_of_its_files(name: str, file: str, tmp_path: Path) -> None:
    target = minimal(tmp_path / "t")
    with (target / file).open("a") as text:
        text.write("nonsense\n")
    trace = UftraceTrace(target)
    trace.table(name)
    assert [finding.file for finding in trace.findings] == [file]
    with pytest.raises(DecodeError):
        UftraceTrace(target, strict=True).table(name)


def test_reading_events_gives_their_findings(tmp_path: Path) -> None:
    target = minimal(tmp_path / "t")
    (target / "perf-cpu0.dat").write_bytes(b"123")
    trace = UftraceTrace(target)
    assert not any(isinstance(record, perf.PerfEvent) for record in trace.records())
    assert trace.findings.counts == {"uftrace.perf.record": 1}
    (target / "kernel-cpu0.dat").write_bytes(b"123")
    trace = UftraceTrace(target)
    assert not any(isinstance(record, kernel.KernelEvent) for record in trace.records())
    assert trace.findings.counts == {"uftrace.kernel.page": 1, "uftrace.perf.record": 1}


def test_a_recorder_that_was_killed(tmp_path: Path) -> None:
    """The recorder writes the info file last."""
    target = copied("thread-v019", tmp_path / "t")
    (target / "info").unlink()
    trace = fxtio.open(target, format="uftrace")
    assert [entry.name for entry in trace.entries()] == [entry.name for entry in opened("thread-v019").entries()]
    finding = next(each for each in fxtio.open(str(target)).findings if each.rule == "uftrace.info.header")
    assert finding.file == "info"
    with UftraceWriter(tmp_path / "copy") as writer:
        writer.copy(UftraceTrace(target))
    assert {path.name for path in (tmp_path / "copy").iterdir()} == {path.name for path in target.iterdir()}


def test_a_damaged_info_file_is_copied(tmp_path: Path) -> None:
    target = copied("thread-v019", tmp_path / "t")
    (target / "info").write_bytes(b"Ftrace!\0 and nothing more")
    with UftraceWriter(tmp_path / "copy") as writer:
        writer.copy(UftraceTrace(target))
    assert (tmp_path / "copy" / "info").read_bytes() == b"Ftrace!\0 and nothing more"


TEXT_FILES = ("info", "task.txt", "prog.sym", "sid-0000000000000001.map", "events.txt", "extern.dat", "prog.dbg")


def described(trace: Any) -> list[object]:
    """Return what a trace says: entries, tables of small files, and the summary."""
    entries = [(entry.time, entry.tid, entry.name, entry.values) for entry in trace.entries()]
    tables = [list(trace.table(name).rows()) for name in ("tasks", "messages")]
    info = trace.info
    return [entries, tables, info.command, info.tasks, info.recorded_at]


@pytest.mark.parametrize("names", [*((name,) for name in TEXT_FILES), TEXT_FILES])
def test_a_transfer_in_text_mode(names: tuple[str, ...], tmp_path: Path) -> None:
    """One finding for each file, at its first CR; all is read as before, and a copy has the same bytes."""
    target = minimal(tmp_path / "t")
    (target / "events.txt").write_text("EVENT: 1000000 a:b\n")
    (target / "extern.dat").write_text("0.000002500 text\n")
    (target / "prog.dbg").write_text("# path name: /x/prog\nF: 10 work\nL: 7 prog.c\n")
    expected = described(UftraceTrace(target))
    for name in names:
        path = target / name
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    trace: Any = fxtio.open(target)
    assert described(trace) == expected
    trace.tables(*trace.table_names)
    findings = {finding.file: finding for finding in trace.findings}
    assert trace.findings.counts == {"uftrace.directory.line-ends": len(names)}
    for name in names:
        assert findings[name].offset == (target / name).read_bytes().index(b"\r")
    with UftraceWriter(tmp_path / "copy") as writer:
        writer.copy(trace)
    for path in target.iterdir():
        assert (tmp_path / "copy" / path.name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_places_of_lines(end: bytes, tmp_path: Path) -> None:
    target = minimal(tmp_path / "t")
    for name, bad in (("task.txt", b"NONE x"), ("prog.sym", b"no symbol")):
        path = target / name
        lines = path.read_bytes().split(b"\n")
        path.write_bytes(end.join([*lines[:2], bad, *lines[2:]]))
        trace = UftraceTrace(target)
        list(trace.entries())
        places = [
            each.offset for each in trace.findings if each.file == name and each.rule != "uftrace.directory.line-ends"
        ]
        assert places == [path.read_bytes().index(bad)]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_places_of_argument_specifications(end: bytes, tmp_path: Path) -> None:
    target = minimal(tmp_path / "t")
    info = target / "info"
    specs = "é@arg1;work@arg1/i32,arg2/q;main@arg1/i99,arg2/s;(x@arg1;work@arg2/s".encode()
    raw = info.read_bytes().replace(b"argspec:work@arg1/i32,arg2/s", b"argspec:" + specs)
    info.write_bytes(raw.replace(b"pattern_type:simple", b"pattern_type:regex").replace(b"\n", end))
    trace = UftraceTrace(target)
    list(trace.entries())
    raw = info.read_bytes()
    assert [
        (each.rule, each.offset, each.file) for each in trace.findings if each.rule.startswith("uftrace.argspec")
    ] == [
        ("uftrace.argspec.invalid", raw.index(b"arg2/q"), "info"),
        ("uftrace.argspec.invalid", raw.index(b"arg1/i99"), "info"),
        ("uftrace.argspec.pattern", raw.index(b"(x@"), "info"),
    ]


def test_places_of_sessions_and_libraries(tmp_path: Path) -> None:
    target = minimal(tmp_path / "t")
    path = target / "task.txt"
    load = 'DLOP timestamp=0.000000500 tid=1 sid=0000000000000001 base=500000 libname="/x/lib.so"\n'
    session = 'SESS timestamp=0.000000600 pid=1 sid=0000000000000009 exename="/x/prog"\n'
    begin = path.read_text()
    path.write_text(f"{begin}{load * 513}{session}TASK timestamp=0.000000600 tid=1 pid=1\n")
    trace = UftraceTrace(target)
    list(trace.entries())
    places = {finding.rule: finding.offset for finding in trace.findings}
    assert places == {
        "uftrace.session.too-many-libraries": len(begin + load * 512),
        "uftrace.session.no-map": len(begin + load * 513),
    }


def test_the_place_of_too_many_patterns(tmp_path: Path) -> None:
    target = minimal(tmp_path / "t")
    info = target / "info"
    patterns = ";".join(f"f{number}.*@arg1" for number in range(300)).encode()
    raw = info.read_bytes().replace(b"argspec:work@", b"argspec:" + patterns + b";work@")
    info.write_bytes(raw.replace(b"pattern_type:simple", b"pattern_type:regex"))
    trace = UftraceTrace(target)
    list(trace.entries())
    assert next(iter(trace.findings)).offset == info.read_bytes().index(b"f256.*")


@pytest.mark.parametrize("magic", [b"ftrace!\0", b"Ftrace!\n", bytes(8), b"\xff" * 8])
def test_a_damaged_magic(magic: bytes, tmp_path: Path) -> None:
    target = minimal(tmp_path / "t")
    expected = described(UftraceTrace(target))
    info = target / "info"
    info.write_bytes(magic + info.read_bytes()[8:])
    trace: Any = fxtio.open(target)
    assert described(trace) == expected
    (finding,) = trace.findings
    assert (finding.rule, finding.file, finding.offset) == ("uftrace.info.magic", "info", 0)
    assert f"begins with the bytes {magic.hex(' ')}" in finding.message
    with UftraceWriter(tmp_path / "copy") as writer:
        writer.copy(trace)
    assert (tmp_path / "copy" / "info").read_bytes() == info.read_bytes()


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (None, "is missing or empty"),
        (b"", "is missing or empty"),
        (b"Ftrace!\0abc", "ends after 11 bytes of its header"),
        (b"PK\3\4" * 20, "begins with the bytes 50 4b 03 04 50 4b 03 04 instead of 46 74 72 61 63 65 21 00"),
    ],
)
def test_what_is_wrong_with_a_header(raw: bytes | None, message: str, tmp_path: Path) -> None:
    target = minimal(tmp_path / "t")
    (target / "info").unlink()
    if raw is not None:
        (target / "info").write_bytes(raw)
    (finding,) = [each for each in fxtio.open(target).findings if each.rule == "uftrace.info.header"]
    assert message in finding.message


def test_strict_reading_raises_what_is_wrong_with_the_info_file(tmp_path: Path) -> None:
    target = minimal(tmp_path / "t")
    info = target / "info"
    info.write_bytes(info.read_bytes().replace(b"exename:", b"exe.ame:"))
    trace = UftraceTrace(target)
    assert sum(1 for _ in trace) > 0
    assert [each.rule for each in trace.findings] == ["uftrace.info.block"]
    with pytest.raises(DecodeError, match="EXE_NAME") as caught:
        list(UftraceTrace(target, strict=True))
    assert caught.value.rule == "uftrace.info.block"
