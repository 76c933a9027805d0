"""Traces of the formats besides FXT that are combined, and those that cannot be."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fxtio
from fxtio import synth
from fxtio.cli import main
from fxtio.dcpi import DcpiTrace
from fxtio.dcpi.merge import merge as merge_profiles
from fxtio.formats import MergeError
from fxtio.mono import MonoTrace
from fxtio.mono.merge import merge as merge_recordings
from fxtio.uftrace import UftraceTrace, rules
from fxtio.uftrace.merge import merge as merge_directories
from support import uftrace_judge as judge

# ---- uftrace


def directory(path: Path, program: str, tid: int, calls: int = 3, **options: Any) -> Path:
    """Write a data directory with one task."""
    with fxtio.create(path, format="uftrace", program=program, **options) as writer:
        task = writer.task(tid)
        for number in range(calls):
            task.enter(f"work_of_{program.strip('/')}", 1_000 * number + tid)
            task.leave(1_000 * number + tid + 100)
        writer.message(tid, f"from {program}")
    return path


def merged(paths: list[Path], target: Path) -> str:
    return merge_directories([UftraceTrace(path) for path in paths], target)


def test_directories_become_one(tmp_path: Path) -> None:
    paths = [directory(tmp_path / "a", "/client", 10), directory(tmp_path / "b", "/server", 20, 5)]
    assert merged(paths, tmp_path / "all") == "2 tasks of 2 traces"
    with UftraceTrace(tmp_path / "all") as trace:
        assert trace.tids == trace.info_file.tids == [10, 20]
        assert Counter(trace.timeline().table("slices")["name"]) == {"work_of_client": 3, "work_of_server": 5}
        assert [entry.record.text for entry in trace.entries() if entry.file == "extern.dat"] == [
            "from /client", "from /server"
        ]  # fmt: skip
        rules.check(trace)
        whole = trace.findings.counts
    for path in paths:
        with UftraceTrace(path) as trace:
            rules.check(trace)
            assert whole.keys() <= trace.findings.counts.keys()


@pytest.mark.full
@judge.needs_uftrace
def test_uftrace_reads_what_became_one(tmp_path: Path) -> None:
    paths = [directory(tmp_path / "a", "/client", 10), directory(tmp_path / "b", "/server", 20, 5)]
    merged(paths, tmp_path / "all")
    report = judge.run("report", tmp_path / "all", "-f", "call").decode()
    assert re.search(r"^\s+3  work_of_client$", report, re.MULTILINE)
    assert re.search(r"^\s+5  work_of_server$", report, re.MULTILINE)


def kernel_directory(path: Path, tid: int, times: range, **events: str) -> Path:
    """Write a data directory with one task, calls of functions of the kernel, and other kernel events."""
    with fxtio.create(path, format="uftrace", program=f"/{path.name}") as writer:
        task = writer.task(tid)
        task.enter("work", times[0] - 1)
        for time in times:
            writer.kernel_enter(0, time, tid, "do_read")
            writer.kernel_event(0, time + 1, tid, "sched:sched_switch", prev_pid=tid)
            writer.kernel_leave(0, time + 2, tid)
        for name, description in events.items():
            writer.kernel_format(name, description)
        task.leave(times[-1] + 10)
    return path


def kernel_events(path: Path) -> list[tuple[int, int, str]]:
    with UftraceTrace(path) as trace:
        events = [event for _, event in trace.begin().kernel_events()]
        assert not trace.findings.counts
    return [(event.time, event.tid, event.name) for event in events]


@pytest.mark.full
def test_kernel_events_of_a_cpu_are_in_order(tmp_path: Path) -> None:
    paths = [
        kernel_directory(tmp_path / "a", 10, range(1_000, 90_000, 10)),
        kernel_directory(tmp_path / "b", 20, range(1_005, 30_000, 10)),
    ]
    merged(paths, tmp_path / "all")
    events = kernel_events(tmp_path / "all")
    assert events == sorted(events, key=lambda event: event[0])
    assert Counter(events) == Counter(kernel_events(paths[0])) + Counter(kernel_events(paths[1]))
    with UftraceTrace(tmp_path / "all") as trace:
        rules.check(trace)
        assert not trace.findings.counts.keys() - {rule for path in paths for rule in broken(path)}


def broken(path: Path) -> set[str]:
    with UftraceTrace(path) as trace:
        rules.check(trace)
        return {*trace.findings.counts}


def test_an_event_that_both_have_is_written_once(tmp_path: Path) -> None:
    for name, tid in (("a", 10), ("b", 20)):
        with fxtio.create(tmp_path / name, format="uftrace", program=f"/{name}") as writer:
            writer.task(tid).enter("f", 1)
            for time in (5, 7):
                writer.kernel_event(0, time, 99, "sched:sched_switch", prev_pid=99)
            writer.kernel_event(0, 7 + tid, tid, "sched:sched_switch", prev_pid=tid)
    merged([tmp_path / "a", tmp_path / "b"], tmp_path / "all")
    assert [event[:2] for event in kernel_events(tmp_path / "all")] == [(5, 99), (7, 99), (17, 10), (27, 20)]


def test_kernel_events_that_are_described_in_two_ways(tmp_path: Path) -> None:
    from fxtio.uftrace import kernel_writer

    other = kernel_writer.DESCRIPTIONS["sched:sched_switch"].replace("prev_pid", "pid_before")
    paths = [kernel_directory(tmp_path / "a", 10, range(1_000, 1_100, 10))]
    with fxtio.create(tmp_path / "b", format="uftrace", program="/b") as writer:
        writer.task(20).enter("f", 1)
        writer.kernel_format("sched", other)
        writer.kernel_event(0, 5, 20, "sched:sched_switch", pid_before=20)
    (tmp_path / "b" / "kallsyms").write_bytes((paths[0] / "kallsyms").read_bytes())
    with pytest.raises(MergeError, match="they describe events/sched/sched_switch/format in two ways"):
        merged([*paths, tmp_path / "b"], tmp_path / "all")
    assert not (tmp_path / "all").exists()


@pytest.mark.full
@judge.needs_uftrace
def test_uftrace_shows_the_kernel_events_of_both(tmp_path: Path) -> None:
    paths = [
        kernel_directory(tmp_path / "a", 10, range(1_000, 2_000, 10)),
        kernel_directory(tmp_path / "b", 20, range(1_005, 3_000, 10)),
    ]
    merged(paths, tmp_path / "all")
    report = judge.run("report", tmp_path / "all", "-k", "-f", "call").decode()
    assert re.search(r"^\s+300  do_read$", report, re.MULTILINE), report


def test_scheduler_events_of_a_cpu_are_in_order(tmp_path: Path) -> None:
    for number, (name, first) in enumerate((("a", 100), ("b", 101))):
        path = directory(tmp_path / name, f"/{name}", 10 + number)
        with fxtio.create(tmp_path / f"{name}s", format="uftrace", program=f"/{name}") as writer:
            from fxtio.uftrace.perf import PerfEvent

            writer.task(10 + number).enter("f", 1)
            for time in range(first, first + 20, 2):
                writer.sched(0, PerfEvent(time, 10 + number, 10 + number, "sched-out" if time % 4 < 2 else "sched-in"))
        assert path.exists()
    merged([tmp_path / "as", tmp_path / "bs"], tmp_path / "all")
    with UftraceTrace(tmp_path / "all") as trace:
        assert [record.time for record in trace.records() if isinstance(record, PerfEvent)] == list(range(100, 120))


def test_directories_that_cannot_be_one(tmp_path: Path) -> None:
    one = directory(tmp_path / "one", "/client", 10)
    for number, (other, message) in enumerate([
        (directory(tmp_path / "task", "/server", 10), "both have records of the task 10"),
        (directory(tmp_path / "order", "/server", 20, order="big"), "has another byte order than"),
        (directory(tmp_path / "class", "/server", 20, word_class=32), "has another size of a pointer than"),
        (directory(tmp_path / "symbols", "/x/client", 20), "have different files client.sym"),
    ]):  # fmt: skip
        with pytest.raises(MergeError, match=message):
            merged([one, other], tmp_path / f"all{number}")
        assert not (tmp_path / f"all{number}").exists()
    info = bytearray((one / "info").read_bytes())
    other = directory(tmp_path / "damaged", "/server", 20)
    (other / "info").write_bytes(info[:15] + bytes([77]) + info[16:])
    merged([one, other], tmp_path / "damaged class")  # an unknown class is read as one of 64 bits
    with pytest.raises(MergeError, match="needs no merging"):
        merged([one], tmp_path / "all")


# ---- DCPI


def profile(path: Path, samples: dict[int, int], **header: Any) -> Path:
    """Write a profile."""
    lines = {
        "image": "0123abcd", "epoch": "20000101120000", "platform": "alpha", "event": "cycles", "period": 1000,
        "tsize": 4096, "cpuspeed": 500,
    }  # fmt: skip
    with fxtio.create(path, format="dcpi", header={**lines, **header}) as writer:
        offsets = sorted(samples)
        writer.write_table(
            "samples", {"text_offset": np.array(offsets), "count": np.array([samples[at] for at in offsets])}
        )
    return path


def samples_of(path: Path) -> dict[int, int]:
    with DcpiTrace(path) as trace:
        table = trace.table("samples")
        return dict(zip(table["text_offset"].tolist(), table["count"].tolist(), strict=True))


def test_profiles_are_added(tmp_path: Path) -> None:
    one = profile(tmp_path / "a.dcpi", {0: 5, 8: 2**31, 100: 1})
    two = profile(tmp_path / "b.dcpi", {8: 2**30, 12: 7}, epoch="19990101120000", platform="beta")
    text = merge_profiles([DcpiTrace(one), DcpiTrace(two)], tmp_path / "all.dcpi")
    assert text.startswith("4 addresses with 3,221,225,485 samples")
    assert samples_of(tmp_path / "all.dcpi") == {0: 5, 8: 2**31 + 2**30, 12: 7, 100: 1}
    with DcpiTrace(tmp_path / "all.dcpi") as trace:
        assert (trace.header.get("platform"), trace.header.get("epoch")) == ("alpha", "19990101120000")
        assert not trace.findings.counts.keys() - {"dcpi.header.no-text-start"}


def test_many_samples_are_added_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fxtio.dcpi.merge._MOST_PENDING", 10)
    paths = [profile(tmp_path / f"{number}.dcpi", {4 * at: at + number for at in range(1, 20)}) for number in range(5)]
    merge_profiles([DcpiTrace(path) for path in paths], tmp_path / "all.dcpi")
    assert samples_of(tmp_path / "all.dcpi") == {4 * at: 5 * at + 10 for at in range(1, 20)}


def test_profiles_that_cannot_be_one(tmp_path: Path) -> None:
    one = profile(tmp_path / "a.dcpi", {0: 2**32 - 1})
    other = profile(tmp_path / "b.dcpi", {0: 1}, event="imiss")
    with pytest.raises(MergeError, match="differ in the header line event: imiss and cycles"):
        merge_profiles([DcpiTrace(one), DcpiTrace(other)], tmp_path / "all.dcpi")
    with pytest.raises(MergeError, match="an address has more than"):
        merge_profiles([DcpiTrace(one), DcpiTrace(one)], tmp_path / "all.dcpi")
    assert not (tmp_path / "all.dcpi").exists()


def test_a_profile_is_not_cut(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = profile(tmp_path / "a.dcpi", {0: 1})
    for selection in (["--name", "x"], ["--from", "1s"]):
        assert main(["cut", str(path), "-o", str(tmp_path / "b.dcpi"), *selection]) == 2
        assert "has no times, so no part of it can be cut out" in capsys.readouterr().err


# ---- Mono, CoreProfiler


def test_recordings_are_joined(tmp_path: Path) -> None:
    paths = [tmp_path / "a.mlpd", tmp_path / "b.mlpd"]
    for seed, path in enumerate(paths):
        synth.write(path, "calls", events=250, seed=seed)
    merge_recordings([MonoTrace(path) for path in paths], tmp_path / "all.mlpd.gz")
    with MonoTrace(tmp_path / "all.mlpd.gz") as trace:
        assert trace.info.recordings == 2
        assert not trace.findings.counts.keys() - {"dcpi.header.no-text-start"}
        whole = [entry.record for entry in trace.entries(resolve=False)]
    parts = [entry.record for path in paths for entry in MonoTrace(path).entries(resolve=False)]
    assert whole == parts


def test_what_cannot_be_cut_or_merged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "a.log"
    synth.write(log, "sampling", format="coreprofiler", events=100)
    assert main(["cut", str(log), "-o", str(tmp_path / "b.log"), "--name", "x"]) == 2
    assert "`fxtio convert` takes the same options" in capsys.readouterr().err
    assert main(["merge", str(log), str(log), "-o", str(tmp_path / "b.log")]) == 2
    assert "such traces cannot be merged" in capsys.readouterr().err


def test_merge_of_directories_by_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in (1, 2):
        synth.write(tmp_path / f"t{seed}", "calls", format="uftrace", events=50, seed=seed)
    arguments = [str(tmp_path / "t1"), str(tmp_path / "t2"), "-o", str(tmp_path / "all")]
    assert main(["merge", *arguments]) == 2
    assert "both have records of the task" in capsys.readouterr().err
    assert not (tmp_path / "all").exists()
