"""The source `torch`: operators and kernels of torch.profiler in a recording, and programs that do not notice it."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fxtio
from fxtio.bridges.torch import Clock, convert
from fxtio.errors import FxtioError
from fxtio.tracer.archive import Front
from support.fake_torch import write_torch
from support.tracer_run import fine, recorded, run_command

pytestmark = pytest.mark.recorder

OPERATORS = {"aten::mm": 1, "aten::addmm": 1, "cudaLaunchKernel": 1, "void gemm<float>(float*)": 1}
"""The slices of each call of the operator."""


def slices(path: Path) -> list[dict[str, Any]]:
    """Return the slices of a recording with the names of their parents and threads, and check that it is valid."""
    done = run_command(path.parent, "validate", path.name)
    assert done.returncode == 0, done.stdout
    with fxtio.open_timeline(path) as timeline:
        tables = timeline.tables("slices", "tracks", "threads")
    columns = {name: tables["slices"][name].tolist() for name in ("id", "name", "category", "parent", "track")}
    names = dict(zip(columns["id"], columns["name"], strict=True))
    threads = [tables["threads"]["name"].tolist()[each] for each in tables["tracks"]["thread"].tolist()]
    return [
        {"name": name, "category": category, "parent": names.get(parent), "thread": threads[track]}
        for name, category, parent, track in zip(*list(columns.values())[1:], strict=True)
    ]


def counts(path: Path) -> Counter[str]:
    """Return how many slices of the operator a recording has."""
    return Counter(each["name"] for each in slices(path) if each["name"] in OPERATORS)


def times(count: int) -> dict[str, int]:
    return {name: count * number for name, number in OPERATORS.items()}


@pytest.mark.parametrize("is_old", [False, True])
def test_operators_are_among_the_calls(is_old: bool, tmp_path: Path, out: Path) -> None:
    source = f"""
{write_torch(tmp_path / "modules", is_old=is_old)}
import torch
def step():
    torch.mm()
    print("stepped", torch.autograd._profiler_enabled.__name__)
step()
step()
"""
    done = recorded(source, out, sources=["torch"], functions=True)
    assert "RecordingWarning" not in done.stderr
    seen = slices(out)
    parents = {each["name"]: each["parent"] for each in seen}
    assert [parents[name] for name in OPERATORS] == ["torch.mm", "aten::mm", "aten::addmm", None]
    assert {each["thread"] for each in seen if each["name"] == "aten::mm"} == {"MainThread"}
    assert {each["thread"] for each in seen if each["category"] == "kernel"} == {"stream 7 of GPU 0"}
    assert counts(out) == times(2)
    assert not [each for each in seen if each["name"].startswith("torch.profiler.profile.")]
    with fxtio.open_timeline(out) as timeline:
        points = timeline.table("flow_points")
        assert len(points) == 4 and len(set(points["id"].tolist())) == 2
        processes = timeline.table("processes")
    assert len(processes) == 1 and processes["name"].tolist() != ["python"]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["modules", out.name]


@pytest.mark.parametrize("suffix", ["", ".zst"])
def test_torch_that_is_imported_already(suffix: str, tmp_path: Path, out: Path) -> None:
    source = f"""
{write_torch(tmp_path / "modules")}
import torch
torch.mm()
for _ in range(2):
    fxtio.start(OUT, sources=["all"], children=False)
    torch.mm()
    torch.mm()
    fxtio.stop()
    assert not torch.autograd._profiler_enabled()
    torch.mm()
"""
    path = out.with_name(out.name + suffix)
    fine(source, path)
    assert counts(path) == times(2)


def test_threads(tmp_path: Path, out: Path) -> None:
    source = f"""
{write_torch(tmp_path / "modules")}
def work():
    import torch
    with fxtio.span("work"):
        torch.mm()
for number in range(2):
    thread = threading.Thread(target=work, name=f"worker {{number}}")
    thread.start(); thread.join()
"""
    recorded(source, out, sources=["torch", "imports"])
    assert {each["thread"] for each in slices(out) if each["name"] == "aten::mm"} == {"worker 0", "worker 1"}


def test_torch_before_2_6_is_stopped_where_it_was_started(tmp_path: Path, out: Path) -> None:
    source = f"""
{write_torch(tmp_path / "modules", is_old=True)}
def work():
    import torch
    torch.mm()
thread = threading.Thread(target=work)
thread.start(); thread.join()
"""
    done = recorded(source, out, sources=["torch"])
    assert "events of torch are missing: its profiler can be stopped only where it was started" in done.stderr
    assert not counts(out)


@pytest.mark.parametrize(
    ("broken", "aim"),
    [("start", "start"), ("stop", "stop"), ("export", "write its trace"), ("file", "convert its trace")],
)
def test_failures_of_torch(broken: str, aim: str, tmp_path: Path, out: Path) -> None:
    source = f"""
{write_torch(tmp_path / "modules", broken=broken)}
import torch
torch.mm()
print("done")
"""
    done = recorded(source, out, sources=["torch"])
    assert done.stderr.count("RecordingWarning") == 1
    assert f"{out}: events of torch are missing: torch.profiler could not {aim}: " in done.stderr
    assert not counts(out)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["modules", out.name]


def test_something_else_that_is_named_so(out: Path) -> None:
    source = """
sys.modules["torch"] = sys
fxtio.start(OUT, sources=["torch"])
"""
    fine(source, out)
    assert slices(out) == []


OWN = """
with torch.profiler.profile() as own:
    torch.mm()
    torch.mm()
own.export_chrome_trace(os.devnull + "/nowhere") if False else None
print(len(own._result["ops"]))
"""


def test_a_profiler_of_the_program_that_starts_later(tmp_path: Path, out: Path) -> None:
    source = f"""
{write_torch(tmp_path / "modules")}
import torch
torch.mm()
{OWN}
torch.mm()
{OWN}
"""
    done = recorded(source, out, sources=["torch"])
    assert done.stderr.count("after the program has started a torch.profiler of its own are missing") == 1
    assert counts(out) == times(1)


def test_a_profiler_of_the_program_that_runs_already(tmp_path: Path, out: Path) -> None:
    source = f"""
{write_torch(tmp_path / "modules")}
import torch
with torch.profiler.profile() as own:
    fxtio.start(OUT, sources=["torch"])
    torch.mm()
    fxtio.stop()
print(len(own._result["ops"]))
"""
    done = fine(source, out)
    assert done == "1\n"
    assert not counts(out)


START = "from fxtio.tracer.startup import start_from_environment; start_from_environment()\n"
"""As in the file `fxtio.pth` of an ordinary installation."""


def test_child_processes(tmp_path: Path, out: Path) -> None:
    """One that was forked while the profiler ran has no operators: torch.profiler does not survive that."""
    folder = tmp_path / "modules"
    code = write_torch(folder)
    (folder / "child.py").write_text(f"import sys\n{START}{code}import torch\ntorch.mm()\n")
    source = f"""
{code}
import subprocess, torch
torch.mm()
child = os.fork()
if not child:
    torch.mm()
    sys.exit()
os.waitpid(child, 0)
subprocess.run([sys.executable, {str(folder / "child.py")!r}], check=True)
"""
    done = recorded(source, out, sources=["torch"])
    assert "RecordingWarning" not in done.stderr
    assert counts(out) == times(2)
    with fxtio.open_timeline(out) as timeline:
        assert len(set(timeline.table("flow_points")["id"].tolist())) == 2
    assert sorted(each.name for each in tmp_path.iterdir()) == ["modules", out.name]


def test_a_part_of_a_process_that_still_runs_is_whole(tmp_path: Path, out: Path) -> None:
    """As with `fxtio attach`: another process finishes the trace."""
    source = f"""
{write_torch(tmp_path / "modules")}
import torch
from fxtio.tracer import Options, session
from fxtio.tracer.recovery import recover
session.begin(Options(OUT, sources=["torch"]), is_finished_elsewhere=True)
torch.mm()
fxtio.stop()
left = [each for each in os.listdir(os.path.dirname(OUT)) if each.startswith("out.")]
print(len(left))
from pathlib import Path
abandoned = Path(OUT).with_name(".out.999999999-0123456789abcdef.tmp")
abandoned.touch()  # what torch.profiler had begun to write in a process that was killed
child = os.fork()
if not child:
    print(len(recover(Path(OUT)).parts), abandoned.exists(), flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""
    assert fine(source, out) == "2\n1 False\n"
    assert counts(out) == times(1)


def document(**members: Any) -> dict[str, Any]:
    events = [
        {"ph": "X", "cat": "cpu_op", "name": "b", "pid": 70, "tid": 71, "ts": 9, "dur": 1},
        {"ph": "X", "cat": "cpu_op", "name": "a", "pid": 70, "tid": 71, "ts": 0.5, "dur": 7.5},
        {"ph": "C", "name": "memory", "pid": 70, "ts": 3, "args": {"bytes": 5}},
        {"ph": "i", "name": "Record Window End", "s": "g", "pid": "", "tid": "", "ts": 12.5},
    ]
    return {"traceEvents": events, **members}


def test_times_are_ticks_of_the_recording(tmp_path: Path) -> None:
    source, part = tmp_path / "a.json", tmp_path / "a.fxt"
    source.write_text(json.dumps(document(baseTimeNanoseconds=1_000_000)))
    clock = Clock(
        rate=2_000_000_000, wall_ns=990_000, first_tick=20_000, first_ns=1_000_000, last_tick=41_000, last_ns=1_010_000
    )
    convert(str(source), part, 70, clock)
    front = Front.read(part, os.geteuid())
    assert front == Front(70 + (1 << 31), "torch.profiler", clock.rate, clock.wall_ns)
    trace = fxtio.open(part)
    assert sorted(trace.table("events")["ticks"].tolist()) == [21_050, 26_300, 36_800, 38_900, 41_000, 46_250]
    assert not list(trace.findings)


def test_times_since_the_epoch(tmp_path: Path) -> None:
    """As versions of torch before 2.2 write them."""
    source, part = tmp_path / "a.json", tmp_path / "a.fxt"
    source.write_text(json.dumps(document()))
    convert(str(source), part, 70, Clock(1_000_000_000, 0, 0, 0, 0, 0))
    assert sorted(fxtio.open(part).table("events")["ticks"].tolist()) == [500, 3_000, 8_000, 9_000, 10_000, 12_500]


def test_ticks_of_late_times_are_exact() -> None:
    base = 1_795_000_000_000_000_000
    clock = Clock(2_500_000_000, base, 0, base, 2_500_000_000_000, base + 1_000_000_000_000)
    times = base + np.array([1, 999_999_999_999, 1_000_000_000_000])
    assert clock.ticks(times).tolist() == [2, 2_499_999_999_998, 2_500_000_000_000]


@pytest.mark.parametrize("content", [b"", b"{", b"\x00" * 100, b'{"traceEvents": [{"ph": "X", "pid": {}, "ts": "x"}]}'])
def test_what_is_no_trace(content: bytes, tmp_path: Path) -> None:
    source, part = tmp_path / "a.json", tmp_path / "a.fxt"
    source.write_bytes(content)
    try:
        convert(str(source), part, 70, Clock(1_000_000_000, 5, 0, 0, 0, 0))
    except FxtioError:
        assert not part.exists()
    else:
        assert fxtio.open(part).table("events").num_rows == 0
