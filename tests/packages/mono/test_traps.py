"""The real `mprof-report` goes wrong on the recordings that break an interop rule, as the rule says."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import fxtio
from fxtio.rules import rules_of
from judges import mono
from support.broken import write_broken
from support.limits import PATIENCE

pytestmark = [
    pytest.mark.full,
    pytest.mark.once,
    pytest.mark.skipif(mono.PROGRAM is None and not mono.REQUIRED, reason="needs Debian's mono-utils"),
]


def run(path: Path, *options: str) -> tuple[int, str]:
    """Return the exit status of mprof-report, negative for a signal, and what it prints."""
    assert mono.PROGRAM is not None
    done = subprocess.run(
        [mono.PROGRAM, *options, str(path)],
        capture_output=True,
        timeout=PATIENCE,
        check=False,
        env=os.environ | {"TZ": "UTC"},
    )
    return done.returncode, done.stdout.decode("utf-8", "surrogateescape")


def loses_events(path: Path) -> bool:
    """Return whether mprof-report counts fewer new sizes of the heap than there are."""
    with fxtio.open(path, format="mono") as trace:
        assert trace.info.records["GcResize"] == 1
    return "GC resizes: 0" in run(path, "--reports=gc")[1]


def leaves_out_a_thread(path: Path) -> bool:
    """Return whether mprof-report does not list the thread 0, which writes events."""
    with fxtio.open(path, format="mono") as trace:
        assert set(trace.info.threads) <= {0, 0x1000}
        text = run(path, "--reports=thread")[1]
        return 0 in trace.info.threads and text.count("Thread: ") == text.count("Thread: 0x1") > 0


def crashes(*options: str) -> Callable[[Path], bool]:
    return lambda path: run(path, *options)[0] == -signal.SIGSEGV


TRAPS: dict[str, Callable[[Path], bool]] = {
    "mono.header.flags": lambda path: run(path) == (1, "Not a log profiler data file (or unsupported version).\n"),
    "mono.buffer.thread-zero": leaves_out_a_thread,
    "mono.method.code-size": lambda path: "Generated code size: 1852394597" in run(path, "--reports=jit")[1],
    "mono.vtable.late": lambda path: "unresolved class (nil)" in run(path, "--reports=alloc")[1],
    "mono.image.unload": loses_events,
    "mono.gc.generation": lambda path: "incorrect gc gen: 3" in run(path)[1],
    "mono.handle.unknown-type": loses_events,
    "mono.heap.end-without-start": crashes("--traces"),
    "mono.heap.outside": crashes(),
    "mono.heap.other-thread": crashes(),
    "mono.heap.missing-object": crashes("--traces"),
    "mono.counter.performance": lambda path: "Counter                        : 10" in run(path, "--verbose")[1],
    "mono.counter.text": crashes("--verbose"),
}
"""For each rule, whether mprof-report does with a recording what the rule says."""


def test_every_interop_rule_has_a_trap() -> None:
    assert {*TRAPS} == {rule.id for rule in rules_of("mono").values() if rule.level == "interop:mprof-report"}


@pytest.mark.parametrize("rule", TRAPS)
def test_a_broken_recording_traps_mprof_report(rule: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.mlpd"
    write_broken(rule, path)
    assert TRAPS[rule](path)


@pytest.mark.parametrize("rule", TRAPS)
def test_a_recording_that_breaks_another_rule_is_no_trap(rule: str, tmp_path: Path) -> None:
    path = tmp_path / "other.mlpd"
    write_broken("mono.sync.unknown-type", path)
    if TRAPS[rule] is loses_events:
        path.unlink()
        write_broken("mono.buffer.thread-zero", path)
    assert not TRAPS[rule](path)
