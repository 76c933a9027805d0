"""Tests of the stacks of slices: numpy against a stack machine in Python, and batches against a whole reading."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Set
from dataclasses import dataclass

import numpy as np
import pytest

from fxtio._native.constants import SpanStep
from fxtio.table import Table
from fxtio.timeline import stacks as module
from fxtio.timeline.parts import Registry, Steps, TimelinePart
from fxtio.timeline.schema import TrackKind
from fxtio.timeline.stacks import SliceStacks, Stacks
from fxtio.timeline.timeline import Timeline

Path = tuple[str, ...]


def steps_of(registry: Registry, events: list[tuple[int, str]], first: int) -> Steps:
    """Return begins (a name) and ends (no name) on tracks; the time of an event is its number."""
    steps = Steps.blank(len(events), first)
    steps.time[:] = np.arange(first, first + len(events))
    for row, (track, name) in enumerate(events):
        steps.track[row] = registry.track(TrackKind.THREAD, track, id=track)
        steps.step[row] = SpanStep.BEGIN if name else SpanStep.END
        steps.name[row] = registry.names.code(name or None)
    return steps


def timeline_of(events: list[tuple[int, str]], size: int) -> Timeline:
    def parts(registry: Registry, _: Set[str]) -> Iterator[TimelinePart]:
        for first in range(0, len(events), size):
            yield TimelinePart(steps_of(registry, events[first : first + size], first))

    return Timeline("test", "test", parts)


@dataclass
class OpenSpan:
    name: str
    begin: int
    inner: int = 0


def expected(events: list[tuple[int, str]]) -> dict[tuple[int, Path], tuple[int, int, int]]:
    """Return self time, duration and count for each track and path; all spans have ends."""
    open_spans: dict[int, list[OpenSpan]] = {}
    sums: Counter[tuple[int, Path, str]] = Counter()
    for time, (track, name) in enumerate(events):
        stack = open_spans.setdefault(track, [])
        if name:
            stack.append(OpenSpan(name, time))
            continue
        path = tuple(span.name for span in stack)
        span = stack.pop()
        duration = time - span.begin
        sums[track, path, "self"] += duration - span.inner
        sums[track, path, "duration"] += duration
        sums[track, path, "count"] += 1
        if stack:
            stack[-1].inner += duration
    keys = {key[:2] for key in sums}
    return {key: (sums[*key, "self"], sums[*key, "duration"], sums[*key, "count"]) for key in keys}


def paths_of(stacks: Stacks, registry: Registry) -> list[Path]:
    """Return the names of each stack from its tables."""
    tables = {name: Table(columns) for name, columns in stacks.new_tables().items()}
    if not tables:
        return []
    names = tables["frames"]["name"].tolist()
    paths: list[Path] = []
    for row in tables["stacks"].rows():
        paths.append((*(paths[row["parent"]] if row["parent"] >= 0 else ()), names[row["frame"]]))
    return paths


def found(events: list[tuple[int, str]], size: int) -> dict[tuple[int, Path], tuple[int, int, int]]:
    consumer, registry = timeline_of(events, size).fold(SliceStacks, *SliceStacks.TABLES)
    paths = paths_of(consumer.stacks, registry)
    rows = consumer.table().rows()
    ids = registry.tables()["tracks"]["id"].tolist()
    return {(ids[row["track"]], paths[row["stack"]]): (row["self_time"], row["duration"], row["count"]) for row in rows}


def random_events(seed: int, count: int) -> list[tuple[int, str]]:
    random_ = random.Random(seed)
    depth: Counter[int] = Counter()
    events = []
    for _ in range(count):
        track = random_.randrange(3)
        if depth[track] and random_.random() < 0.5:
            depth[track] -= 1
            events.append((track, ""))
        else:
            depth[track] += 1
            events.append((track, random_.choice("abc")))
    for track in sorted(depth):
        events += [(track, "")] * depth[track]
    return events


@pytest.mark.parametrize("size", [1, 7, 64, 10_000])
@pytest.mark.parametrize("seed", range(5))
def test_stacks_of_slices(seed: int, size: int) -> None:
    events = random_events(seed, 400)
    assert found(events, size) == expected(events)


@pytest.mark.full
def test_many_slices_in_one_batch_and_deep_ones() -> None:
    deep = [(0, f"f{number % 5}") for number in range(3000)] + [(0, "")] * 3000
    wide = [(0, "root")] + [(0, name) for number in range(2000) for name in (f"g{number % 50}", "")] + [(0, "")]
    for events in (deep, wide):
        assert found(events, 500) == found(events, 10**6) == expected(events)


def test_slices_without_an_end_have_stacks() -> None:
    result = found([(0, "a"), (0, "b"), (0, ""), (0, "c")], 2)
    assert set(result) == {(0, ("a",)), (0, ("a", "b")), (0, ("a", "c"))}


def test_the_category_tells_frames_apart() -> None:
    registry = Registry()
    stacks = Stacks(registry)
    a, b = registry.names.code("a"), registry.names.code("b")
    frames = stacks.frames_of_slices(np.array([a, a, a, b]), np.array([-1, b, -1, -1]))
    assert frames.tolist() == [0, 1, 0, 2]


def test_frames_and_stacks_are_numbered_once_and_passed_on_once() -> None:
    registry = Registry()
    stacks = Stacks(registry)
    main, work = stacks.frame("main"), stacks.frame("work", "lib", "a.py", 3)
    assert stacks.stack([main, work]) == stacks.on(stacks.stack([main]), work) == 1
    tables = {name: Table(columns) for name, columns in stacks.new_tables().items()}
    assert tables["stacks"]["depth"].tolist() == [0, 1]
    assert tables["frames"]["line"].tolist() == [-1, 3]
    assert stacks.new_tables() == {}
    assert stacks.frame("main") == main
    both = stacks.each_on(np.array([-1, 1] * 20), np.array([work, main] * 20))
    assert both.tolist() == [stacks.stack([work]), stacks.stack([main, work, main])] * 20


def test_limits_of_stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_STACK_DEPTH", 3)
    monkeypatch.setattr(module, "MAX_STACKS", 5)
    monkeypatch.setattr(module, "MAX_FRAMES", 4)
    registry = Registry()
    stacks = Stacks(registry)
    frames = [stacks.frame(text) for text in "abcdef"]
    assert frames == [0, 1, 2, 3, 4, 4]
    assert stacks.stack([0, 1, 2, 3, 0]) == stacks.stack([0, 1, 2])
    assert [stacks.stack([frame]) for frame in (1, 2, 3)] == [3, 4, -1]
    assert dict(registry.losses) == {
        "more than 4 frames; all further ones are shown as one": 2,
        "frames of stacks beyond the limits, which are cut off": 3,
    }
