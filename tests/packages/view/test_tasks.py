"""`fxtio open` shows asyncio tasks in their processes, and other traces as they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import fxtio
import judges
from fxtio.selection import Selection
from fxtio.view import content
from judges import perfetto

TASKS = """
import asyncio, fxtio, os, sys

async def work(number):
    with fxtio.span("request", number=number):
        await asyncio.sleep(0.002)

async def main():
    await asyncio.gather(*(asyncio.create_task(work(number), name=f"work {number}") for number in range(2)))

with fxtio.tracing(sys.argv[1]):
    child = os.fork()
    asyncio.run(main())
    if child:
        os.waitpid(child, 0)
"""

TRACKS_OF_PROCESSES = """
select t.name as name, p.pid as pid, count(s.id) as slices
from process_track t join process p using (upid) join slice s on s.track_id = t.id group by t.id order by 1, 2
"""


@pytest.mark.full
@pytest.mark.recorder
@pytest.mark.parametrize("part", [False, True])
def test_tasks_are_shown_in_their_processes(part: bool, tmp_path: Path) -> None:
    path = tmp_path / "tasks.fxt"
    subprocess.run([sys.executable, "-P", "-c", TASKS, str(path)], check=True)
    file = str(path)
    assert content.of_file(file) is None
    timeline = fxtio.open_timeline(path)
    selection = Selection(names=("request",)) if part else Selection()
    shown = content.of_timeline(timeline, file, selection, tmp_path)
    assert shown.name == "tasks.fxt.pftrace"
    judges.require(perfetto.available())
    with perfetto.load(shown.target) as p:
        assert p.errors() == {}
        tracks = p.query(TRACKS_OF_PROCESSES)
    with perfetto.load(path) as p:
        assert p.query(TRACKS_OF_PROCESSES) == []
    names = ["request"] * 4 if part else ["work 0"] * 2 + ["work 1"] * 2
    assert [str(row["name"]) for row in tracks] == names
    assert len({row["pid"] for row in tracks}) == 2
    assert sum(int(str(row["slices"])) for row in tracks if row["name"] == "request") == (4 if part else 0)


def test_fxt_without_operations_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And so does a large trace, of which a copy would take long."""
    trace = tmp_path / "shop.fxt"
    with fxtio.create(trace) as writer:
        writer.thread(1, 11, "main", "shop").complete("request", 5, 10)
    found = content.of_file(str(trace))
    assert found is not None
    assert (found.name, found.target) == ("shop.fxt", str(trace))
    other = tmp_path / "tasks.fxt"
    with fxtio.create(other, format="fxt") as writer:
        writer.thread(1, 11, "main", "shop").async_begin("operation", 1, 5)
    assert content.of_file(str(other)) is None
    monkeypatch.setattr(content, "LARGE", 10)
    found = content.of_file(str(other))
    assert found is not None
    assert found.is_whole
