"""Traces for lakes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fxtio
from fxtio.lake import Lake

DAY = 86_400 * 10**9
NOW = 1_790_000_000 * 10**9


def trace(path: Path, *, build: str = "", start: int = NOW, name: str = "work", calls: int = 3, pid: int = 7) -> Path:
    """Write a trace with some slices."""
    with fxtio.create(path, format="fxt", wall_clock=start) as writer:
        track = writer.thread(pid, 8, "main", "app")
        if build:
            writer.main.kernel_object(17, 2**64 - 1, "labels", {"build": build, "host": "web1"})
        for number in range(calls):
            track.complete(name, 100 * number, 100 * number + 10 * (number + 1), category="c", args={"n": number})
        track.instant("point", 1_000, args={"text": "x", "share": 0.5})
    return path


def added(lake: Lake, *paths: Path, jobs: int = 1, **options: Any) -> list[str]:
    """Add traces and return what became of them."""
    return [outcome.kind for outcome in lake.add(paths, jobs=jobs, **options)]


def whole(lake: Lake) -> Iterator[int]:
    """Yield the number of slices of each trace that is part of a lake, each of which must have all of them."""
    query = "select count(slices.id) from traces left join slices on traces.id = slices.trace group by traces.id"
    yield from (count for (count,) in lake.sql(query).fetchall())
