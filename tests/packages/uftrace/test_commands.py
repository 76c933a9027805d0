"""The commands on data directories."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fxtio.cli import main
from fxtio.formats import by_name
from fxtio.synth import shapes_of
from fxtio.uftrace import describe_markdown
from fxtio.uftrace.perf import PerfEvent
from fxtio.uftrace.reader import UftraceTrace
from fxtio.uftrace.records import CLASSES
from fxtio.uftrace.writer import UftraceWriter
from support.uftrace_samples import UFTRACE, copied, minimal


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path, code: int = 0) -> str:
    assert main([str(item) for item in arguments]) == code
    return capsys.readouterr().out


def test_info(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "info", UFTRACE / "thread-v019")
    assert "uftrace 4, little-endian" in text and "recorded by  uftrace v0.19" in text
    assert "45  FunctionEntry" in text and "5775  /tmp/demo/thread" in text
    output = json.loads(run(capsys, "info", "--json", UFTRACE / "thread-v019"))
    assert output["records"] == {"FunctionEntry": 45, "FunctionExit": 45, "PerfEvent": 45}
    assert [task["tid"] for task in output["tasks"]] == [5775, 5777, 5778, 5779]


def test_dump(capsys: pytest.CaptureFixture[str]) -> None:
    lines = run(capsys, "dump", UFTRACE / "synth-args").splitlines()
    assert lines[0].split() == ["0", "1.000000000", "1", "FunctionEntry", "main"]
    lines_of_json = [json.loads(line) for line in run(capsys, "dump", "--json", UFTRACE / "args-all-v013").splitlines()]
    assert len([item for item in lines_of_json if item["type"] != "perf-event"]) == 114
    assert any(item.get("values") == {"arg1": -8} for item in lines_of_json)
    raw = run(capsys, "dump", "--raw", UFTRACE / "synth-args")
    assert "payload=" in raw and "main" not in raw


def test_dump_of_all_events_of_a_damaged_trace(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    target = copied("synth-events", tmp_path / "t")
    path = target / "1.dat"
    path.write_bytes(path.read_bytes()[:-9])
    text = run(capsys, "dump", target, code=1)
    assert "read:proc/statm vmsize=1, vmrss=2, shared=3" in text and "prov:ev1" in text
    assert "(7 bytes)" in text
    kinds = {json.loads(line)["type"] for line in run(capsys, "dump", "--json", target, code=1).splitlines()}
    assert kinds == {"entry", "event", "opaque"}
    assert "count=42" in run(capsys, "dump", UFTRACE / "synth-lost")
    assert '"count":42' in run(capsys, "dump", "--json", UFTRACE / "synth-lost")


def test_dump_of_all_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """After the records of the tasks come those of the scheduler, of the kernel, and the messages."""
    with UftraceWriter(tmp_path / "t") as writer:
        writer.task(7).enter("main", 1_000_000_000)
        writer.sched(2, PerfEvent(1_000_000_002, 7, 8, "task-new", parent=7, parent_pid=6))
        writer.sched(1, PerfEvent(1_000_000_001, 7, 7, "task-name", comm="worker"))
        writer.kernel_enter(3, 1_000_000_003, 7, "ksys_read")
        writer.kernel_event(3, 1_000_000_004, 7, "sched:sched_wakeup", comm="game", pid=9, prio=120)
        writer.message(1_000_000_005, "a message")
    lines = [line.split(maxsplit=4) for line in run(capsys, "dump", tmp_path / "t").splitlines()]
    assert [" ".join(line) for line in lines] == [
        "0 1.000000000 7 FunctionEntry main",
        '0 1.000000001 7 PerfEvent cpu 1: linux:task-name comm="worker"',
        "0 1.000000002 8 PerfEvent cpu 2: linux:task-new parent=7, parent_pid=6",
        "20 1.000000003 7 KernelEvent cpu 3: ftrace:funcgraph_entry func=18446744071578845184 (ksys_read), depth=0",
        '44 1.000000004 7 KernelEvent cpu 3: sched:sched_wakeup comm="game", pid=9, prio=120, target_cpu=0',
        "0 1.000000005 Message a message",
    ]
    items = [json.loads(line) for line in run(capsys, "dump", "--json", tmp_path / "t").splitlines()]
    assert items[1:3] == [
        {"offset": 0, "type": "perf-event", "time": 1_000_000_001, "tid": 7, "name": "linux:task-name",
         "values": {"comm": "worker"}, "cpu": 1, "pid": 7, "kind": "task-name"},
        {"offset": 0, "type": "perf-event", "time": 1_000_000_002, "tid": 8, "name": "linux:task-new",
         "values": {"parent": 7, "parent_pid": 6}, "cpu": 2, "pid": 7, "kind": "task-new"},
    ]  # fmt: skip
    assert items[3]["meanings"] == {"func": "ksys_read"} and items[3]["cpu"] == 3
    assert items[5] == {"offset": 0, "type": "message", "time": 1_000_000_005, "tid": None, "message": "a message"}
    raw = run(capsys, "dump", "--raw", tmp_path / "t").splitlines()
    assert raw[1].endswith("cpu 1: event task-name") and "  cpu 3: event 11 data=0b00" in raw[3]
    trace = UftraceTrace(tmp_path / "t")
    assert trace.info.end == 1_000_000_005
    assert trace.info.records == {"FunctionEntry": 1, "PerfEvent": 2, "KernelEvent": 2, "Message": 1}
    assert [entry.file for entry in trace.entries()] == [
        "7.dat", "perf-cpu1.dat", "perf-cpu2.dat", "kernel-cpu3.dat", "kernel-cpu3.dat", "extern.dat",
    ]  # fmt: skip
    assert len(list(trace.records(tid=7))) == 1
    with UftraceWriter(tmp_path / "again") as writer:
        writer.task(7).enter("main", 1_000_000_000)
        writer.kernel_enter(0, 1, 0, "ksys_read")  # the symbols are declared, not put
        for record in list(trace.records())[1:]:
            writer.put(record)
    for name in ("perf-cpu1.dat", "perf-cpu2.dat", "kernel-cpu3.dat", "extern.dat", "kallsyms"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "t" / name).read_bytes()


def test_stats(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    minimal(tmp_path / "t", records=40)
    text = run(capsys, "stats", tmp_path / "t")
    assert "41 calls of 2 functions" in text and "   40      400 ns  work" in text
    output = json.loads(run(capsys, "stats", "--json", "--top", "1", tmp_path / "t"))
    assert output["functions"] == [{"name": "main", "calls": 1, "total": 8_999_000}]
    assert output["calls"] == {"closed": 41}


def test_stats_of_all_kinds(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    run(capsys, "synth", "everything", "--format", "uftrace", "-o", tmp_path / "t", "--events", "100", "--threads", "1")
    output = json.loads(run(capsys, "stats", "--json", tmp_path / "t"))
    events = {item["name"]: item["count"] for item in output["events"]}
    rounds = events["watch:var"]
    assert output["messages"] == events["everything:user0"] == events["sched:sched_switch"] == rounds > 0
    assert events["linux:sched-in"] == 2 * rounds + rounds  # of the scheduler's files, and of records
    assert {item["name"]: item["calls"] for item in output["kernel_functions"]} == dict.fromkeys(
        ("do_syscall_64", "ksys_read", "vfs_read"), rounds
    )
    assert output["lost"] > 0
    text = run(capsys, "stats", "--top", "1", tmp_path / "t")
    assert "function of the kernel" in text and "lost records" in text and "and 2 more" in text


def test_dump_shows_meanings(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with UftraceWriter(tmp_path / "t") as writer:
        writer.enum("mode", {"EASY": 0, "HARD": 1})
        start = writer.function("start", arguments="arg1/e:mode,arg2/p,arg3/i32")
        task = writer.task(1)
        task.enter(start, 1, "HARD", start.address, 7)
        task.event("watch:var", 2, address=writer.variable("score", 4), value=9)
    text = run(capsys, "dump", tmp_path / "t")
    assert f"start(arg1=1 (HARD), arg2={start.address} (start), arg3=7)" in text and "(score), value=9, size=4" in text
    first = json.loads(run(capsys, "dump", "--json", "--limit", "1", tmp_path / "t"))
    assert first["meanings"] == {"arg1": "HARD", "arg2": "start"} and first["values"]["arg1"] == 1
    assert "arg1/e:mode=1 (HARD)" in run(capsys, "explain", tmp_path / "t", "--record", "0")


def test_explain(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    minimal(tmp_path / "t")
    text = run(capsys, "explain", tmp_path / "t", "--record", "1")
    assert "record 1: FunctionEntry of task 1, 32 bytes at 16" in text
    assert "magic    0x5" in text and 'arg1/i32=0, arg2/s="text 0"' in text
    assert "record 2: FunctionExit" in run(capsys, "explain", tmp_path / "t", "--offset", "60")
    assert "record 0" not in run(capsys, "explain", tmp_path / "t", "--type", "exit", "--count", "3")
    second = run(capsys, "explain", UFTRACE / "thread-v019", "--offset", "100000", code=2)
    assert not second
    text = run(capsys, "explain", UFTRACE / "synth-events", "--type", "event", "--count", "1")
    assert "24 bytes of data" in text
    run(capsys, "explain", tmp_path / "t", "--type", "nothing", code=2)


def test_explain_counts_over_the_files(capsys: pytest.CaptureFixture[str]) -> None:
    trace = UftraceTrace(UFTRACE / "thread-v019")
    first = trace.directory.size(f"{trace.tids[0]}.dat")
    text = run(capsys, "explain", trace.name, "--offset", str(first))
    assert f"record {first // 16}: FunctionEntry of task {trace.tids[1]}, 16 bytes at {first:,}" in text


def test_explain_prints_faults(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    minimal(tmp_path / "t")
    path = tmp_path / "t" / "1.dat"
    path.write_bytes(path.read_bytes()[:-3])
    text = run(capsys, "explain", tmp_path / "t", "--type", "unknown", code=1)
    assert "13 bytes, not a record" in text and "ends in the middle" in text


@pytest.mark.parametrize("shape", sorted(shapes_of(by_name("uftrace"))))
def test_synth(shape: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name in ("a", "b"):
        options = ("--events", "3000", "--threads", "4", "--seed", "3")
        run(capsys, "synth", shape, "--format", "uftrace", "-o", tmp_path / name, *options)
    assert {path.name: path.read_bytes() for path in (tmp_path / "a").iterdir()} == {
        path.name: path.read_bytes() for path in (tmp_path / "b").iterdir()
    }
    trace = UftraceTrace(tmp_path / "a", strict=True)
    records = sum(trace.info.records[cls.__name__] for cls in CLASSES.values())
    assert 3000 <= records < 3600 if shape == "everything" else records == 6000 or shape == "program"
    if shape == "everything":
        assert len({*trace.tids} & {*range(1000, 1010)}) == 5  # one more for what is not a call
    else:
        assert len(trace.tids) == 4
        assert set(trace.timeline().table("slices")["state"].tolist()) == {"closed"}


def test_synth_by_size_and_into_an_existing_directory(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    target = tmp_path / "t"
    run(capsys, "synth", "calls", "--format", "uftrace", "-o", target, "--size", "1MB")
    assert 1_000_000 <= UftraceTrace(target).info.size < 1_600_000
    assert main(["synth", "calls", "--format", "uftrace", "-o", "-"]) == 2
    assert "is a directory; it cannot be written to standard output" in capsys.readouterr().err
    assert main(["synth", "calls", "--format", "uftrace", "-o", str(target)]) == 2
    assert "is not an empty directory" in capsys.readouterr().err


def test_the_layouts_as_a_page() -> None:
    page = describe_markdown()
    for title in ("### ENTRY record", "### EXIT record", "### LOST record", "### EVENT record", "### RecordType"):
        assert title in page
    assert "| 6 .. 15 | `depth` |" in page and "](#recordtype)" in page
