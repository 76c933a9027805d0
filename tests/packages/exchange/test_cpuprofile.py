"""Tests of CPU profiles of V8: round trips, importers of other programs, profiles of Node.js, hostile files."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import fxtio
import judges
from fxtio.errors import FormatError
from fxtio.exchange import by_content
from fxtio.timeline import Timeline
from judges import firefox_profiler, speedscope
from support import exchange
from support.checkout import CORPUS
from support.exchange import Content, Stack, exported, imported, weights

NODE = CORPUS / "v8" / "work.cpuprofile"
MS = 1_000_000

SAMPLES = Content(
    samples=[
        (0, 10 * MS, ("main", "f@x.py:12"), 3 * MS, "ns"),
        (0, 13 * MS, ("main",), 1_500, "ns"),
        (0, 20 * MS, ("main", "f@x.py:12"), 2 * MS, "ns"),
        (0, 20 * MS, ("main",), 1, "samples"),
    ]
)


def written(timeline: Timeline) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(exported(timeline, "cpuprofile")[0])
    return document


def sampled(document: dict[str, Any]) -> list[tuple[Stack, float, float]]:
    """Return stack, begin and duration of all samples but the last, which is the end."""
    nodes = {node["id"]: node for node in document["nodes"]}
    outer = {child: node["id"] for node in document["nodes"] for child in node.get("children", ())}
    found, time = [], document["startTime"]
    for number, node in enumerate(document["samples"][:-1]):
        time += document["timeDeltas"][number]
        stack: list[str] = []
        while node in outer:
            stack.insert(0, nodes[node]["callFrame"]["functionName"])
            node = outer[node]
        found.append((tuple(stack), time, document["timeDeltas"][number + 1]))
    return found


@pytest.fixture
def _speedscope() -> None:
    judges.require(speedscope.available())


@pytest.fixture
def _profiler() -> None:
    judges.require(firefox_profiler.available())


def test_samples() -> None:
    document = written(SAMPLES.timeline())
    assert sampled(document) == [
        (("main", "f"), 10_000, 3_000), (("main",), 13_000, 1.5), (("(idle)",), 13_001.5, 6_998.5),
        (("main", "f"), 20_000, 2_000),
    ]  # fmt: skip
    assert (document["startTime"], document["endTime"]) == (10_000, 22_000)
    assert {node["callFrame"]["functionName"]: node["hitCount"] for node in document["nodes"]} == {
        "(root)": 0, "main": 1, "f": 2, "(idle)": 1,
    }  # fmt: skip
    (f,) = (node["callFrame"] for node in document["nodes"] if node["callFrame"]["functionName"] == "f")
    assert (f["url"], f["lineNumber"]) == ("x.py", 11)
    assert exported(SAMPLES.timeline(), "cpuprofile")[1] == {"samples in units other than 'ns'": 1}


def test_threads_come_one_after_the_other() -> None:
    content = Content(samples=[(1, 5 * MS, ("b",), MS, "ns"), (0, 7 * MS, ("a",), MS, "ns"), (-1, 0, ("c",), MS, "ns")])
    assert sampled(written(content.timeline())) == [
        (("samples", "c"), 0, 1000), (("main (10)", "a"), 1000, 1000), (("worker (11)", "b"), 2000, 1000),
    ]  # fmt: skip
    _, losses = exported(content.timeline(), "cpuprofile")
    assert losses == {"times of threads but the first, which come one after the other": 2}


def test_samples_last_until_the_next_one() -> None:
    rows = [(0, 10 * MS, ("a",), 1, "samples"), (0, 12 * MS, ("b",), 2, "samples"), (0, 15 * MS, ("a",), 1, "samples")]
    document = written(Content(samples=rows).timeline())
    assert sampled(document) == [(("a",), 10_000, 2_000), (("b",), 12_000, 3_000), (("a",), 15_000, 2_500)]
    assert [node["hitCount"] for node in document["nodes"]] == [0, 2, 2]


def test_samples_without_a_time() -> None:
    rows = [(0, 0, ("a",), 3, "samples"), (0, 0, ("b",), 2, "samples"), (0, 0, (), 0, "samples")]
    timeline = Content(samples=rows, allocations=[(0, ("a",), 1, 1, "str")], spans=[(0, 0, 1, "s")]).timeline()
    assert sampled(written(timeline)) == [(("a",), 0, 3000), (("b",), 3000, 2000)]
    assert exported(timeline, "cpuprofile")[1] == {
        "samples without a time, which last 1 ms": 5, "samples without a positive weight": 1, "allocations": 1,
        "slices, beside samples": 1,
    }  # fmt: skip


def test_slices() -> None:
    spans = [
        (0, 1000, 9000, "main"),
        (0, 2000, 3000, "a"),
        (0, 3000, 500, "b"),
        (0, 11_000, 1000, "main"),
        (0, 11_500, 0, "z"),
    ]
    timeline = Content(spans=spans).timeline()
    assert sampled(written(timeline)) == [
        (("main",), 1, 1), (("main", "a"), 2, 1), (("main", "a", "b"), 3, 0.5), (("main", "a"), 3.5, 1.5),
        (("main",), 5, 5), (("(idle)",), 10, 1), (("main",), 11, 0.5), (("main",), 11.5, 0.5),
    ]  # fmt: skip
    assert exported(timeline, "cpuprofile")[1] == {"slices that last 0 ns": 1}


def test_an_empty_timeline() -> None:
    assert written(Content().timeline())["samples"] == []
    assert imported(exported(Content().timeline(), "cpuprofile")[0], "cpuprofile").table("samples").num_rows == 0


def without_idle(timeline: Timeline) -> Counter[tuple[Stack, str]]:
    return Counter({key: count for key, count in weights(timeline).items() if key[0] != ("(idle)",) and count})


@given(st.lists(st.tuples(st.just(0), st.integers(1, 10**12), exchange.stacks, st.integers(0, 10**9), st.just("ns"))))
def test_samples_come_back(samples: list[tuple[int, int, Stack, int, str]]) -> None:
    content = Content(samples=[row for row in samples if "(idle)" not in row[2]])
    again = imported(exported(content.timeline(), "cpuprofile")[0])
    assert without_idle(again) == without_idle(content.timeline())
    assert not again.losses


@given(exchange.complete_spans)
def test_the_own_times_of_slices_come_back(spans: list[tuple[int, int, int, str]]) -> None:
    content = Content(spans=[(0, *span[1:]) for span in spans])
    data, losses = exported(content.timeline(), "cpuprofile")
    assume("slices that end after the slice around them, which are cut" not in losses)
    own = exported(content.timeline(), "collapsed")[0].decode().splitlines()
    found = {";".join(stack): count for (stack, _), count in without_idle(imported(data)).items()}
    assert found == {stack: int(count) for stack, _, count in (line.rpartition(" ") for line in own)}


@pytest.mark.full
@pytest.mark.once
@pytest.mark.usefixtures("_speedscope")
@pytest.mark.parametrize("source", ["v8/work.cpuprofile", "py-spy/work.speedscope.json", "fxt/magic-trace.fxt"])
def test_speedscope_reads_the_same(source: str, tmp_path: Path) -> None:
    path = CORPUS / source
    if path.suffix != ".cpuprofile":
        path = tmp_path / "a.cpuprofile"
        path.write_bytes(exported(fxtio.open_timeline(CORPUS / source), "cpuprofile")[0])
    (profile,) = speedscope.load(path)
    found = {stack: count / 1000 for (stack, _), count in weights(imported(path.read_bytes())).items()}
    assert functions_only(found) == pytest.approx(functions_only(profile.stacks), abs=0.001)


def functions_only(stacks: dict[Stack, float]) -> dict[Stack, float]:
    """Return the weights of stacks, without what V8 does: speedscope has the collector within the stack before.

    Nor has it the last sample of a file, which is one of `(program)` in those of V8, or the same names of functions
    without a name.
    """
    plain = {
        tuple(name for name in stack if not name.startswith("(anonymous")): weight for stack, weight in stacks.items()
    }
    return {stack: weight for stack, weight in plain.items() if weight and not stack[-1].startswith("(")}


@pytest.mark.full
@pytest.mark.once
@pytest.mark.usefixtures("_profiler")
def test_the_firefox_profiler_reads_what_is_written(tmp_path: Path) -> None:
    """It takes a sample each millisecond of the profile."""
    path = tmp_path / "a.cpuprofile"
    path.write_bytes(
        exported(Content(spans=[(0, MS, 900 * MS, "main"), (0, 101 * MS, 300 * MS, "a")]).timeline(), "cpuprofile")[0]
    )
    (thread,) = firefox_profiler.load(path)
    own = {name: self for name, (self, _) in thread.functions.items()}
    assert own["a"] / (own["a"] + own["main"]) == pytest.approx(1 / 3, abs=0.02)


def test_a_profile_of_node() -> None:
    timeline = imported(NODE.read_bytes())
    document = json.loads(NODE.read_text("utf-8"))
    assert timeline.format == "cpuprofile"
    assert timeline.table("samples")["count"].sum() == 1000 * (
        document["endTime"] - document["startTime"] - document["timeDeltas"][0]
    )
    leaf = sum(count for (stack, _), count in weights(timeline).items() if stack[-1:] == ("leaf",))
    assert leaf == 118_301_000  # summed up by hand, and by speedscope
    assert {(row["name"], row["line"]) for row in timeline.table("frames").rows()} >= {("leaf", 1), ("branch", 6)}
    assert not timeline.losses


def read(**members: Any) -> Timeline:
    return imported(json.dumps(members).encode(), "cpuprofile")


def node(id: int, name: str, **members: Any) -> dict[str, Any]:
    return {"id": id, "callFrame": {"functionName": name, "url": "", "lineNumber": -1}, **members}


def test_a_profile_without_samples() -> None:
    timeline = read(
        nodes=[node(1, "(root)", children=[2]), node(2, "a", hitCount=5), node(3, "b", parent=2, hitCount=1)]
    )
    assert weights(timeline) == {(("a",), "samples"): 5, (("a", "b"), "samples"): 1}


def test_what_is_wrong_is_counted() -> None:
    nodes = [node(1, "a", children=[2, 9]), node(2, "b", children=[1]), node(2, "c")]
    timeline = read(nodes=nodes, startTime=10, samples=[2, 7, "x", 1], timeDeltas=[0, 5, -20])
    assert timeline.table("samples")["time"].tolist() == [10_000, 15_000]
    assert timeline.table("samples")["stack"].tolist() == [0, 1]  # a and b are around each other
    assert timeline.losses == {
        "samples of nodes that are not defined": 2, "samples that are earlier than the one before, which are moved": 2,
    }  # fmt: skip


@pytest.mark.parametrize("text", [b"", b"{}", b'{"nodes":[{}]}', b'{"nodes":{', b"[1]"])
def test_what_is_no_profile_is_refused(text: bytes) -> None:
    with pytest.raises(FormatError), imported(text, "cpuprofile") as timeline:
        timeline.table("samples")


def test_a_profile_is_recognized() -> None:
    for data in (NODE.read_bytes(), exported(SAMPLES.timeline(), "cpuprofile")[0]):
        found = by_content(data[:1024])
        assert found is not None and found.name == "cpuprofile"
