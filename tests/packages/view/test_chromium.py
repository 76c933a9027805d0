"""What Chromium shows of traces that `fxtio open` serves: all slices, and the selected one, without the internet."""

from __future__ import annotations

import gzip
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import zstandard

import fxtio
import judges
from fxtio import open_timeline
from judges import chromium
from support.checkout import CORPUS

pytestmark = [pytest.mark.full, pytest.mark.once]

MAGIC_TRACE = CORPUS / "fxt" / "magic-trace.fxt"
UFTRACE = CORPUS / "uftrace" / "thread-v019"
MONO = CORPUS / "mono" / "synth-v17.mlpd"
SLICES = "select name, dur, count(*) from slice where dur > 0 group by name, dur"
AT_SELECTED = "select id, ts, dur, name from slice where dur = 700000"
EXPANDED = "app.trace.workspace.flatTracks.filter((track) => track.hasChildren).map((track) => track.expanded)"
SELECTED = "app.trace.selection.selection.eventId ?? null"
VISIBLE = "Array.from([app.trace.timeline.visibleWindow.toTimeSpan()], ({start, end}) => [start, end].map(Number))[0]"
STORED = "(async () => [typeof caches, (await indexedDB.databases()).length])()"
INTERNAL = "https://storage.cloud.google.com/perfetto-ui-internal/is-internal-user/is_internal_user.js"
"""A script that tells whether the user works for Google, which the UI asks for always."""


def shop(path: Path) -> Path:
    """Write a trace of three processes with eight threads each, one of whose queries is slow."""
    with fxtio.create(path) as writer:
        for process in range(3):
            for number in range(8):
                thread = writer.thread(
                    100 + process, 1000 * process + number + 1, f"worker {number}", f"shop {process}"
                )
                for request in range(40):
                    at = 5_000_000 + request * 1_000_000
                    is_slow = (process, number, request) == (2, 6, 21)
                    query = 700_000 if is_slow else 200_000 + 1_000 * number + 100 * process
                    thread.complete("GET /", at, at + 900_000, category="http")
                    thread.complete("query", at + 100_000, at + 100_000 + query, category="db", args={"rows": request})
    return path


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-P", "-m", "fxtio", "open", "--no-browser", *map(str, arguments)]


def slices_of(path: Path) -> Counter[Any]:
    with open_timeline(path) as timeline:
        rows = timeline.table("slices").rows()
        return Counter((row["name"], row["duration"]) for row in rows if row["duration"] > 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("open")


@pytest.fixture(scope="module")
def views(folder: Path) -> dict[str, chromium.View]:
    judges.require(chromium.available(), must=chromium.REQUIRED)
    trace = shop(folder / "shop.fxt")
    (folder / "small.fxt.gz").write_bytes(gzip.compress(trace.read_bytes()))
    (folder / "large.fxt.zst").write_bytes(zstandard.compress(MAGIC_TRACE.read_bytes()))
    jobs = {
        "fxt": chromium.Job(command(trace), [SLICES], [EXPANDED, STORED]),
        "gz": chromium.Job(
            command(folder / "small.fxt.gz", "--select", "query"), [SLICES, AT_SELECTED], [SELECTED, VISIBLE]
        ),
        "zst": chromium.Job(command(folder / "large.fxt.zst"), [SLICES]),
        "uftrace": chromium.Job(command(UFTRACE), [SLICES]),
        "mono": chromium.Job(command(MONO), [SLICES]),
    }
    return dict(zip(jobs, chromium.look([*jobs.values()]), strict=True))


@pytest.mark.parametrize(
    ("name", "path"),
    [("fxt", None), ("gz", None), ("zst", MAGIC_TRACE), ("uftrace", UFTRACE), ("mono", MONO)],
)
def test_the_ui_shows_all_slices(views: dict[str, chromium.View], folder: Path, name: str, path: Path | None) -> None:
    rows = {(slice_name, duration): count for slice_name, duration, count in views[name].rows[0]}
    assert rows == slices_of(path or folder / "shop.fxt")
    assert rows


def test_nothing_leaves_the_machine(views: dict[str, chromium.View]) -> None:
    for view in views.values():
        assert view.outside == []
        assert set(view.refused) == {INTERNAL}
        assert [re.sub(r"127.0.0.1:\d+", "", error) for error in view.errors] == ["403 http:///live_reload"]


def test_nothing_is_stored_in_the_browser(views: dict[str, chromium.View]) -> None:
    assert views["fxt"].values[1] == ["undefined", 0]


def test_tracks_are_expanded(views: dict[str, chromium.View]) -> None:
    expanded = views["fxt"].values[0]
    assert len(expanded) >= 3
    assert all(expanded)


def test_the_slice_is_selected_and_shown(views: dict[str, chromium.View]) -> None:
    ((number, start, duration, name),) = views["gz"].rows[1]
    assert (start, duration, name) == (26_100_000, 700_000, "query")
    selected, (begin, end) = views["gz"].values
    assert selected == number
    assert begin < start < start + duration < end < begin + 10 * duration


def test_commands_end_with_their_pages(views: dict[str, chromium.View]) -> None:
    assert {name: view.code for name, view in views.items()} == dict.fromkeys(views, 0)
