"""Kernel events and scheduler events: read, written, damaged, compared with uftrace."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fxtio.codec.generate import Order
from fxtio.errors import EncodeError
from fxtio.finding import Findings
from fxtio.uftrace import kernel, perf
from fxtio.uftrace.reader import UftraceTrace
from fxtio.uftrace.writer import UftraceWriter
from oracle.uftrace import PERF as PERF_FORM
from support.uftrace_judge import needs_uftrace, run
from support.uftrace_kernel import BLOCKS, FUNCTIONS, kernel_trace
from support.uftrace_samples import UFTRACE

pytestmark = pytest.mark.native

HEADER = kernel.KernelHeader.of(BLOCKS)


def test_functions_of_the_kernel(tmp_path: Path) -> None:
    kernel_trace(tmp_path / "t")
    trace = UftraceTrace(tmp_path / "t")
    table = trace.table("kernel")
    names = [*FUNCTIONS, "", *reversed(FUNCTIONS)]
    assert table["function"].tolist() == names
    assert table["name"].tolist()[3] == "sched:sched_switch"
    assert table["depth"].tolist() == [0, 1, 2, 0, 2, 1, 0]
    assert table["time"].tolist()[4] == 1_299_999_800  # too far for one delta
    switch = next(
        each for each in trace.records() if isinstance(each, kernel.KernelEvent) and each.name == "sched_switch"
    )
    assert switch.values["prev_comm"] == "game" and switch.values["next_pid"] == 0 and switch.tid == 100
    assert not trace.findings


@pytest.mark.full
@needs_uftrace
def test_uftrace_reads_them(tmp_path: Path) -> None:
    kernel_trace(tmp_path / "t")
    output = run("replay", tmp_path / "t", "-f", "time").decode()
    for name in FUNCTIONS:
        assert f"{name}() {{" in output
    assert "prev_comm=game prev_pid=100 ==> next_comm=swapper/0" in output
    dumped = [line.split() for line in run("dump", tmp_path / "t").decode().splitlines() if "ffff81" in line]
    rows = list(UftraceTrace(tmp_path / "t").table("kernel").rows())
    expected = [f"{row['time'] // 10**9}.{row['time'] % 10**9:09d}" for row in rows if row["function"]]
    assert [line[0] for line in dumped] == expected


def test_the_header_is_copied(tmp_path: Path) -> None:
    kernel_trace(tmp_path / "t")
    with UftraceWriter(tmp_path / "copy") as writer:
        writer.copy(UftraceTrace(tmp_path / "t"))
    for path in (tmp_path / "t").iterdir():
        assert (tmp_path / "copy" / path.name).read_bytes() == path.read_bytes()


EVENTS = st.lists(st.tuples(st.integers(0, 2**40), st.binary(min_size=8, max_size=200)), max_size=80)


@given(drawn=EVENTS)
def test_pages_come_back(drawn: list[tuple[int, bytes]]) -> None:
    events = sorted(drawn, key=lambda item: item[0])
    raw = kernel.build_pages(events, HEADER)
    findings = Findings("uftrace")
    pages = [raw[at : at + 4096] for at in range(0, len(raw), 4096)]
    result = list(kernel.parse_pages(pages, HEADER, "kernel-cpu0.dat", findings))
    assert [event.time for event in result] == [time for time, _ in events]
    assert [event.data for event in result] == [data + bytes(-len(data) % 4) for _, data in events]
    assert not findings


@given(page=st.binary(max_size=300) | st.binary(max_size=200).map(lambda raw: struct.pack("<QQ", 5, len(raw)) + raw))
def test_any_page_is_survived(page: bytes) -> None:
    for event in kernel.parse_pages([page], HEADER, "kernel-cpu0.dat", Findings("uftrace")):
        assert len(event.data) <= len(page)


@given(raw=st.binary(max_size=300))
def test_any_header_is_survived(raw: bytes) -> None:
    for head in (b"", b"PAGE_SIZE: 4096\nLONG_SIZE: 8\nENDIAN: BE\n", HEADER.to_bytes()):
        header = kernel.KernelHeader.parse(head + raw, Findings("uftrace"))
        assert (head + raw).startswith(header.to_bytes())
        assert kernel.KernelHeader.parse(header.to_bytes(), Findings("uftrace")) == header


def test_damage_gives_findings(tmp_path: Path) -> None:
    kernel_trace(tmp_path / "t")
    path = tmp_path / "t" / "kernel-cpu0.dat"
    raw = bytearray(path.read_bytes())
    raw[8:16] = struct.pack("<Q", 0x8000_0000 | 5000)
    path.write_bytes(raw + b"123")
    trace = UftraceTrace(tmp_path / "t")
    table = trace.table("kernel")
    assert table.num_rows >= 7
    assert trace.findings.counts["uftrace.kernel.missed"] == 1
    assert trace.findings.counts["uftrace.kernel.page"] == 2
    header = tmp_path / "t" / "kernel_header"
    header.write_bytes(header.read_bytes().replace(b"PAGE_SIZE: 4096", b"PAGE_SIZE: 4"))
    trace = UftraceTrace(tmp_path / "t")
    assert trace.table("kernel").num_rows >= 7
    assert trace.findings.counts["uftrace.kernel.header"] == 1


def test_invalid_events_of_pages_are_refused() -> None:
    entry = HEADER.formats[11]
    with pytest.raises(EncodeError, match="time goes back"):
        kernel.build_pages([(5, bytes(8)), (4, bytes(8))], HEADER)
    with pytest.raises(EncodeError, match="do not fit in a page"):
        kernel.build_pages([(5, bytes(5000))], HEADER)
    with pytest.raises(EncodeError, match="no such field"):
        kernel.build_data(entry, 1, {"x": 1})
    switch = HEADER.formats[316]
    for layout, values, match in (
        (entry, {"depth": 2**31}, "funcgraph_entry.depth: 2147483648 is not from -2,147,483,648 to 2,147,483,647"),
        (entry, {"func": -1}, "-1 is not from 0 to 18,446,744,073,709,551,615"),
        (entry, {"depth": "text"}, "'text' is not an integer"),
        (switch, {"prev_comm": 5}, "5 is not text"),
        (switch, {"prev_comm": "a\0b"}, "contains a NUL"),
        (switch, {"prev_comm": "x" * 16}, "16 bytes of text are over the limit of 15"),
    ):
        with pytest.raises(EncodeError, match=match):
            kernel.build_data(layout, 1, values)


def events_of(blocks: Iterable[bytes], order: Order) -> Iterator[perf.PerfEvent]:
    findings = Findings("uftrace")
    for block in perf.parse(blocks, "perf-cpu0.dat", order, findings):
        yield from block.events()
    assert not findings.counts.keys() - {"uftrace.time.overflow"}


PERF: list[dict[str, Any]] = [
    {"kind": "task-name", "comm": "worker"},
    {"kind": "exec", "comm": "fifteen letters"},
    {"kind": "sched-out"},
    {"kind": "sched-in"},
    {"kind": "sched-out (pre-empted)"},
    {"kind": "task-new", "parent": 1, "parent_pid": 2},
    {"kind": "task-exit"},
]


@pytest.mark.parametrize("order", ["little", "big"])
def test_scheduler_events_come_back(order: Order) -> None:
    events = [perf.PerfEvent(10 * number, 1, 2, **item) for number, item in enumerate(PERF)]
    raw = b"".join(perf.build(event, order) for event in events)
    for size in (1, 7, 1000):
        parts = [raw[at : at + size] for at in range(0, len(raw), size)]
        result = list(events_of(parts, order))
        assert [(item.time, item.pid, item.tid, item.kind, item.parent, item.parent_pid) for item in result] == [
            (item.time, item.pid, item.tid, item.kind, item.parent, item.parent_pid) for item in events
        ]
        assert [item.comm for item in result][:2] == ["worker", "fifteen letters"]
        assert b"".join(perf.build(item, order) for item in result) == raw


def test_real_scheduler_events_are_built_the_same() -> None:
    raw = (UFTRACE / "thread-v019" / "perf-cpu0.dat").read_bytes()
    events = [item for item in events_of([raw], "little") if item.kind != "other"]
    assert len(events) > 20
    switches = [item for item in events if item.kind.startswith("sched")]
    for item in switches:
        assert perf.build(perf.PerfEvent(item.time, item.pid, item.tid, item.kind)) == item.raw


INT32 = st.integers(-(2**31), 2**31 - 1)
SAMPLE = st.fixed_dictionaries({"pid": INT32, "tid": INT32, "time": st.integers(0, 2**64 - 1)})
FORKED = SAMPLE.flatmap(lambda task: st.builds(lambda ppid, ptid: {**task, "ppid": ppid, "ptid": ptid}, INT32, INT32))
COMM = st.builds(
    lambda pid, tid, comm: {"pid": pid, "tid": tid, "comm": comm + bytes(-len(comm) % 8)},
    INT32, INT32, st.binary(max_size=40),
)  # fmt: skip
PERF_RECORDS = st.one_of(
    st.tuples(st.just(14), st.just(b"")),
    st.tuples(st.sampled_from([1, 9, 2**32 - 1]), st.binary(max_size=16)),
    st.tuples(st.just(3), COMM),
    st.tuples(st.sampled_from([4, 7]), FORKED),
)


@given(drawn=st.lists(st.tuples(PERF_RECORDS, SAMPLE, st.integers(0, 2**16 - 1)), max_size=20),
       order=st.sampled_from(["little", "big"]), size=st.integers(1, 300))  # fmt: skip
def test_scheduler_events_equal_those_of_the_oracle(drawn: list[Any], order: Order, size: int) -> None:
    raws, expected = [], []
    for (kind, body), sample, misc in drawn:
        length = 8 + len(body["comm"]) if kind == 3 else 24 if kind in (4, 7) else len(body)
        values = {"type": kind, "misc": misc, "size": 24 + length, "body": body, "sample": sample}
        raws.append(PERF_FORM[order].build(values))
        expected.append(expected_event(kind, body, sample, out=bool(misc & 0x2000), preempted=bool(misc & 0x4000)))
    raw = b"".join(raws)
    blocks = [raw[at : at + size] for at in range(0, len(raw), size)]
    events = list(events_of(blocks, order))
    assert [
        (item.time, item.pid, item.tid, item.kind, item.comm, item.parent, item.parent_pid) for item in events
    ] == expected
    assert [item.raw for item in events] == raws
    assert [item.offset for item in events] == [sum(map(len, raws[:number])) for number in range(len(raws))]


def expected_event(kind: int, body: Any, sample: dict[str, int], *, out: bool, preempted: bool) -> tuple[Any, ...]:
    source, parents, comm = sample, (0, 0), ""
    name = "other"
    if kind == 14:
        name = "sched-in" if not out else "sched-out (pre-empted)" if preempted else "sched-out"
    elif kind == 3:
        name, source = "exec" if out else "task-name", {**body, "time": sample["time"]}
        comm = body["comm"].split(b"\0")[0].decode("utf-8", "surrogateescape")
    elif kind in (4, 7):
        name, source, parents = "task-exit" if kind == 4 else "task-new", body, (body["ptid"], body["ppid"])
    return source["time"], source["pid"], source["tid"], name, comm, *parents


def test_scheduler_events_that_do_not_fit() -> None:
    for event, match in (
        (perf.PerfEvent(2**64, 1, 1, "sched-in"), "time: a value does not fit 64 bits"),
        (perf.PerfEvent(-1, 1, 1, "sched-in"), "time: a value does not fit 64 bits"),
        (perf.PerfEvent(1, 2**31, 1, "sched-in"), "pid: a value does not fit 32 bits"),
        (perf.PerfEvent(1, 1, 1, "task-new", parent=2**31), "parent: a value does not fit 32 bits"),
        (perf.PerfEvent(1, 1, 1, "other"), "kind: 'other' is not one of sched-in"),
    ):
        with pytest.raises(EncodeError, match=match):
            perf.build(event)


@given(raw=st.binary(max_size=200))
def test_any_scheduler_file_is_survived(raw: bytes) -> None:
    findings = Findings("uftrace")
    events = [event for block in perf.parse([raw], "perf-cpu0.dat", "little", findings) for event in block.events()]
    complete = b"".join(event.raw for event in events)
    assert raw.startswith(complete)
    assert bool(findings) == (complete != raw)


def test_a_scheduler_event_with_a_late_time_can_be_written_again(tmp_path: Path) -> None:
    raw = perf.encode(
        time=[2**63 + 5], pid=[1], tid=[1], kind=["sched-in"], comm=[None], parent=[0], parent_pid=[0]
    )  # fmt: skip
    [block] = perf.parse([raw], "perf-cpu3.dat", "little", Findings("uftrace"))
    with UftraceWriter(tmp_path / "t") as writer:
        writer.put(*block.events())
    assert (tmp_path / "t/perf-cpu3.dat").read_bytes() == raw


@pytest.mark.full
@needs_uftrace
def test_uftrace_shows_scheduler_events(tmp_path: Path) -> None:
    with UftraceWriter(tmp_path / "t") as writer:
        task = writer.task(1)
        task.enter("main", 1000)
        task.leave(90_000)
        for number, kind in enumerate(("sched-out", "sched-in")):
            writer.sched(0, perf.PerfEvent(2000 + 1000 * number, 1, 1, kind))  # type: ignore[arg-type]
        writer.message(5000, "hello")
    output = run("replay", tmp_path / "t", "-f", "duration").decode()
    assert "1.000 us |   /* linux:schedule */" in output
    assert "/* external-data: hello */" in output


def test_small_files_are_read_alone(tmp_path: Path) -> None:
    kernel_trace(tmp_path / "t")
    output: list[int] = []
    trace = UftraceTrace(tmp_path / "t", progress=lambda done, _: output.append(done))
    assert trace.table("kernel").num_rows == 7
    assert output == []  # no record was read for it
    (tmp_path / "t" / "perf-cpu0.dat").write_bytes(b"123")
    trace = UftraceTrace(tmp_path / "t")
    tables = trace.tables("sched", "records")
    assert tables["sched"].num_rows == 0 and tables["records"].num_rows == 4
    assert trace.findings.counts == {"uftrace.perf.record": 1}
