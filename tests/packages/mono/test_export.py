"""Timelines as Mono recordings: garbage collections, samples and allocations, read again and judged by mprof-report."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import fxtio
from fxtio import open_timeline
from fxtio.cli import main
from fxtio.codec.protobuf import bytes_field, number_field, packed_field
from fxtio.formats import by_name
from fxtio.io.sink import Sink
from fxtio.mono.export import Exporter
from fxtio.timeline import Timeline
from fxtio.timeline.parts import Registry
from support.conversion import export
from support.costs import operations

CORPUS = Path(__file__).parents[2] / "corpus"


def stacks_of(tables: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return the names of the frames of each stack, the outermost first."""
    names, stacks = tables["frames"]["name"].tolist(), list[tuple[str, ...]]()
    for parent, frame in zip(tables["stacks"]["parent"].tolist(), tables["stacks"]["frame"].tolist(), strict=True):
        stacks.append((*(stacks[parent] if parent >= 0 else ()), names[frame]))
    return stacks


def content(timeline: Timeline) -> dict[str, Counter[Any]]:
    """Return what a recording should keep: collections and their slices, samples, allocations by class and stack."""
    tables = timeline.tables(
        "slices", "collections", "samples", "allocations", "stacks", "frames", "threads", "tracks", "args"
    )
    stacks, tids = [*stacks_of(tables), ()], [*tables["threads"]["tid"].tolist(), 0]
    thread_of = tables["tracks"]["thread"].tolist()
    return {
        "slices": Counter(
            (tids[thread_of[row["track"]]], row["start"], row["depth"], row["name"])
            for row in tables["slices"].rows()
            if thread_of[row["track"]] >= 0
        ),
        "collections": Counter(
            (row["start"], row["duration"], row["generation"]) for row in tables["collections"].rows()
        ),
        "samples": Counter(
            (row["time"], tids[row["thread"]], stacks[row["stack"]]) for row in tables["samples"].rows()
        ),
        "allocations": Counter(
            (row["time"], tids[row["thread"]], stacks[row["stack"]], row["type"], row["size"])
            for row in tables["allocations"].rows()
        ),
    }


def written_again(source: Path, target: Path) -> tuple[dict[str, Counter[Any]], dict[str, Counter[Any]], Counter[str]]:
    """Return the content before and after an export to Mono, and what was lost; the recording breaks no rule."""
    with open_timeline(source) as timeline:
        before = content(timeline)
        losses = export(timeline, "mono", target)
    with fxtio.open(target) as trace:
        by_name("mono").rules.check(trace)
        assert [str(finding) for finding in trace.findings] == []
    with open_timeline(target) as timeline:
        return before, content(timeline), losses


@pytest.mark.parametrize("shape", ["mixed", "memory"])
def test_recordings_stay_the_same(shape: str, tmp_path: Path) -> None:
    assert main(["synth", shape, "--format", "mono", "-o", str(tmp_path / "in"), "--events", "5k"]) == 0
    before, after, losses = written_again(tmp_path / "in", tmp_path / "out")
    assert after == before
    assert before["allocations"]
    assert "allocations" not in losses


@pytest.mark.parametrize("name", ["sample.mlpd.gz", "alloc-zip.mlpd", "exc.mlpd.gz", "synth-v17.mlpd"])
def test_recordings_of_mono_stay_the_same(name: str, tmp_path: Path) -> None:
    before, after, losses = written_again(CORPUS / "mono" / name, tmp_path / "out")
    assert after == before
    assert "samples" not in losses


@pytest.mark.full
def test_collections_on_other_tracks_are_written_once(tmp_path: Path) -> None:
    assert main(["synth", "memory", "--format", "coreprofiler", "-o", str(tmp_path / "in"), "--events", "5k"]) == 0
    before, after, _ = written_again(tmp_path / "in", tmp_path / "out")
    assert before["collections"]
    assert after["collections"] == before["collections"]
    names = Counter(name for *_, name in after["slices"].elements())
    assert names["garbage collection"] == before["collections"].total()


def test_weights_and_objects_that_a_recording_does_not_have(tmp_path: Path) -> None:
    """An allocation of several objects becomes as many, whose sizes add up; samples count once."""
    path = tmp_path / "a.pprof"
    path.write_bytes(profile([(7, 2, 21), (1, 1500, 6000)]))
    with open_timeline(path) as timeline:
        losses = export(timeline, "mono", tmp_path / "out")
    assert losses["objects beyond 1,000 of an allocation"] == 500
    assert losses["weights, units and processors of samples, each of which counts once now"] == 1
    with open_timeline(tmp_path / "out") as timeline:
        tables = timeline.tables("samples", "allocations")
    assert tables["samples"].num_rows == 2
    assert sorted(Counter(tables["allocations"]["size"].tolist()).items()) == [(4, 1000), (10, 1), (11, 1)]


@pytest.mark.full
@pytest.mark.once
def test_mprof_report_counts_samples_and_objects(tmp_path: Path) -> None:
    if shutil.which("mprof-report") is None:
        pytest.skip("mprof-report is not installed")
    for name, report, pattern in (
        ("py-spy/work.speedscope.json", "sample", r"Managed hits: +(\d+)"),
        ("mono/alloc-zip.mlpd", "alloc", r"^ +(\d+) +\d+ +\d+ "),
    ):
        with open_timeline(CORPUS / name) as timeline:
            export(timeline, "mono", tmp_path / report)
            tables = timeline.tables("samples", "allocations")
        command = ["mprof-report", f"--reports={report}", str(tmp_path / report)]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        expected = tables["samples"].num_rows if report == "sample" else int(tables["allocations"]["size"].sum())
        assert sum(map(int, re.findall(pattern, text, re.MULTILINE))) == expected > 0, text


def profile(samples: list[tuple[int, int, int]]) -> bytes:
    """Return a profile of pprof: for each sample its count, and the number and the bytes of objects."""
    texts = ["", "samples", "count", "alloc_objects", "alloc_space", "bytes", "work"]
    data = b"".join(
        bytes_field(1, number_field(1, kind) + number_field(2, unit)) for kind, unit in ((1, 2), (3, 2), (4, 5))
    )
    data += b"".join(bytes_field(2, packed_field(1, [1]) + packed_field(2, values)) for values in samples)
    data += bytes_field(4, number_field(1, 1) + bytes_field(4, number_field(1, 1)))
    data += bytes_field(5, number_field(1, 1) + number_field(2, 6))
    return data + b"".join(bytes_field(6, text.encode()) for text in texts)


def test_threads_with_one_number_in_many_processes() -> None:
    """Each gets an id of its own, at a cost that does not depend on how many have one already."""

    def cost(processes: int) -> int:
        events = [{"ph": "X", "ts": pid, "dur": 1, "name": "a", "pid": pid, "tid": 1} for pid in range(processes)]
        with open_timeline(json.dumps(events).encode(), format="chrome") as timeline:
            return operations(lambda: timeline.fold(exporter, *Exporter.TABLES))

    def exporter(registry: Registry) -> Exporter:
        return Exporter(Sink(io.BytesIO(), owned=False), registry)

    cost(1)  # imports what is needed
    small, large = cost(200), cost(1600)
    assert large < 9 * small
