"""Every rule of Mono recordings: a recording that breaks it breaks nothing else, and sound recordings break none."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from pathlib import Path
from unittest.mock import patch

import pytest

import fxtio
from contract.samples import SAMPLES, Sample
from fxtio.errors import DecodeError
from fxtio.mono import frames
from fxtio.mono.breaks import BREAKS
from fxtio.mono.rules import check, references, sequences
from fxtio.mono.rules import view as views
from fxtio.mono.writer import MonoWriter
from fxtio.rules import rules_of
from support.mono_samples import header

RULES = rules_of("mono")

_MONO = {"mono.sync.earlier-event"}
_EVERY = {"mono.image.unload", "mono.counter.performance"}
_OLD_EVERY = {"mono.counter.performance", "mono.monitor.no-contention"}

LISTED: dict[str, set[str]] = {
    "mono-everything": {*_EVERY, "mono.text.empty-name"},
    "mono-alloc-zip.mlpd": {*_MONO, "mono.vtable.late"},
    "mono-i386-heap.mlpd.gz": _MONO,
    "mono-sample.mlpd.gz": set(),
    "mono-minimal-v17.mlpd": {"mono.thread.undefined"},
    **dict.fromkeys(
        (f"mono-synth-v{version}{part}.mlpd" for version in (13, 14) for part in ("", "-nocov")), _OLD_EVERY
    ),
    **dict.fromkeys((f"mono-synth-v{version}.mlpd" for version in (16, 17)), _OLD_EVERY | _EVERY),
}
"""The rules that sound samples break: what Mono itself does, and what is rare on purpose."""


def broken(target: Path | bytes) -> Counter[str]:
    """Return how often each rule is broken, according to `check` and to all tables."""
    counts: Counter[str] = Counter()
    with fxtio.open(target, format="mono") as trace:
        check(trace)
        counts |= trace.findings.counts
        trace.tables(*trace.table_names)
        return counts | trace.findings.counts


def test_every_rule_has_a_recording() -> None:
    assert {*BREAKS} == {*RULES}
    assert len(RULES) > 80


@pytest.mark.parametrize("rule", BREAKS)
def test_a_broken_recording_breaks_one_rule(rule: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.mlpd"
    BREAKS[rule](path)
    first = path.read_bytes()
    assert {*broken(path)} == {rule, *RULES[rule].implied}
    BREAKS[rule](path)
    assert path.read_bytes() == first


@pytest.mark.parametrize("sample", [sample for sample in SAMPLES if sample.format.name == "mono"], ids=str)
def test_a_sound_recording_breaks_no_rule(sample: Sample, tmp_path: Path) -> None:
    assert {*broken(sample.make(tmp_path))} == LISTED.get(str(sample), set())


@pytest.mark.parametrize("rule", [rule for rule in BREAKS if not RULES[rule].reading])
def test_findings_have_the_place_of_the_event(rule: str, tmp_path: Path) -> None:
    """Each finding is where a header or an event begins, so that it can be shown."""
    path = tmp_path / "broken.mlpd"
    BREAKS[rule](path)
    with fxtio.open(path, format="mono") as trace:
        check(trace)
        places = {finding.offset for finding in trace.findings}
        assert places <= {entry.offset for entry in trace.entries(resolve=False)}
    with fxtio.open(path, format="mono", strict=True) as trace, pytest.raises(DecodeError, match=" "):
        check(trace)


@pytest.mark.parametrize("block", [64, 300])
def test_findings_do_not_depend_on_batches(block: int, tmp_path: Path) -> None:
    path = tmp_path / "broken.mlpd"
    for rule in [rule for rule in BREAKS if not RULES[rule].reading]:
        BREAKS[rule](path)
        whole = broken(path)
        with patch.object(frames, "BLOCK", block), patch.object(frames, "MAX_HEADER", 80):
            assert broken(path) == whole


def test_recordings_in_a_file_have_nothing_in_common(tmp_path: Path) -> None:
    path = tmp_path / "one.mlpd"
    names = ["mono.heap.nested", "mono.gc.end-without-start", "mono.method.undefined", "mono.gc.start-twice"]
    data = b""
    for rule in names:
        BREAKS[rule](path)
        data += path.read_bytes()
    assert broken(data * 5) == Counter(names * 5)


def test_a_set_that_is_full_gives_no_findings(tmp_path: Path) -> None:
    """What does not fit in memory is not reported as missing."""
    path = tmp_path / "calls.mlpd"
    with MonoWriter(path, header=header()) as writer:
        thread = writer.thread(0x1000, time=1)
        methods = [writer.method(f"Method{number}", time=2, thread=thread) for number in range(50)]
        for time, method in enumerate(methods, 3):
            writer.enter(method, time=time, thread=thread)
        for time, method in enumerate(reversed(methods), 60):
            writer.leave(method, time=time, thread=thread)
    assert not broken(path)
    with patch.object(views, "MOST_NUMBERS", 10):
        assert not broken(path)


def peak_of(calls: int, folder: Path) -> int:
    """Return the most memory that checking a recording of so many open calls takes, in bytes."""
    path = folder / f"{calls}.mlpd"
    with MonoWriter(path, header=header()) as writer:
        writer.thread(0x1000, time=1)
        columns = {"time": 5, "action": 2, "thread": 0x1000, "method": range(1 << 20, (1 << 20) + calls)}
        writer.write_table("calls", columns)
    tracemalloc.start()
    with fxtio.open(path, format="mono") as trace:
        check(trace)
        assert {*trace.findings.counts} == {"mono.method.undefined"}
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_memory_is_bounded(tmp_path: Path) -> None:
    """Neither open calls nor methods without a name fill the memory, however long the recording is."""
    with (
        patch.object(frames, "BLOCK", 1 << 18),
        patch.object(sequences, "MOST_OPEN_CALLS", 1 << 12),
        patch.object(references, "MOST_UNDEFINED", 1 << 12),
    ):
        peak_of(1 << 12, tmp_path)
        assert peak_of(1 << 20, tmp_path) < 1.3 * peak_of(1 << 19, tmp_path)
