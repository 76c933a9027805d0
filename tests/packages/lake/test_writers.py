"""Writers of lakes: those that are killed, several at once, in folders and in object stores."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from fxtio import synth
from fxtio.lake import ADDED, KNOWN, Lake, LakeError, StoreError, catalog
from fxtio.lake import lake as lake_module
from fxtio.lake.layout import TRACES, identity_of
from fxtio.lake.store import Entry, FolderStore, Store, open_store
from support.lakes import added, trace, whole
from support.tracer_run import search_path

WRITER = """
import sys
from fxtio.lake import Lake
for outcome in Lake(sys.argv[1], create=True).add(sys.argv[2:], jobs=1):
    print(outcome.kind, outcome.reason, flush=True)
"""


def writer(url: str, paths: list[Path], **environment: str) -> subprocess.Popen[bytes]:
    """Start a process that adds traces."""
    variables = os.environ | {"PYTHONPATH": search_path(Path())} | environment
    command = [sys.executable, "-c", WRITER, url, *map(str, paths)]
    return subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, start_new_session=True)


@pytest.fixture
def traces(tmp_path: Path) -> list[Path]:
    return [trace(tmp_path / f"{number}.fxt", name=f"name {number}", calls=50) for number in range(20)]


KILLS = int(os.environ.get("FXTIO_KILLS", "0"))
"""How many writers are killed on a disk, and as many on an object store; by default 8 and 4."""

ROUND = 4
"""After this many kills, what was started is completed and looked at."""


def kill_writers(url: str, traces: list[Path], kills: int) -> None:
    """Kill writers while they add traces; nothing may be lost, there twice, or seen in part.

    Each is killed some time after it has added some of them.
    """
    begin = time.monotonic()
    writer(url, traces).communicate()
    full = time.monotonic() - begin
    killed, partly, chance = 0, 0, random.Random(7)
    while killed < kills or (not partly and killed < 10 * kills):  # on a busy machine many are too early or too late
        Lake(url).drop(*Lake(url).ids())
        for _ in range(ROUND):
            process = writer(url, traces)
            assert process.stdout
            for _ in range(chance.randrange(len(traces))):
                process.stdout.readline()
            time.sleep(chance.random() * full / len(traces))
            killed += process.poll() is None
            process.send_signal(signal.SIGKILL)
            process.communicate()
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                counts = [*whole(Lake(url))]
            assert {*counts} <= {50}
            partly += 0 < len(counts) < len(traces)
        assert {*writer(url, traces).communicate()[0].decode().split()} <= {ADDED, KNOWN}
        lake = Lake(url)
        assert sorted(whole(lake)) == [50] * 20
        assert lake.sql("select count(*), count(distinct (trace, id)) from slices").fetchall() == [(1000, 1000)]
    assert partly


def write_at_once(url: str, traces: list[Path]) -> None:
    """Let ten writers add the same traces at once."""
    processes = [writer(url, traces[number:] + traces[:number]) for number in range(10)]
    kinds: Counter[str] = Counter()
    for process in processes:
        output, _ = process.communicate()
        assert process.returncode == 0
        kinds.update(output.decode().split())
    assert kinds[ADDED] == 20
    assert kinds[ADDED] + kinds[KNOWN] == 200
    assert sorted(whole(Lake(url))) == [50] * 20


@pytest.mark.full
@pytest.mark.once
def test_killed_at_any_moment(traces: list[Path], tmp_path: Path) -> None:
    kill_writers(Lake(tmp_path / "lake", create=True).url, traces, KILLS or 8)


@pytest.mark.full
@pytest.mark.once
def test_several_writers(traces: list[Path], tmp_path: Path) -> None:
    write_at_once(str(tmp_path / "lake"), traces)


@pytest.mark.full
@pytest.mark.once
def test_writers_of_an_object_store_are_killed(traces: list[Path], bucket: str) -> None:
    kill_writers(Lake(f"{bucket}/lake", create=True).url, traces, KILLS or 4)
    write_at_once(Lake(f"{bucket}/other", create=True).url, traces)


def test_several_processes(traces: list[Path], lake: Lake) -> None:
    assert added(lake, *traces, jobs=3) == [ADDED] * 20
    assert sorted(whole(lake)) == [50] * 20
    assert not multiprocessing.active_children()


@pytest.mark.full
@pytest.mark.once
def test_an_object_store(traces: list[Path], tmp_path: Path, bucket: str) -> None:
    url = f"{bucket}/some/lake"
    with pytest.raises(LakeError, match="is not a lake"):
        Lake(url)
    lake = Lake(url, create=True)
    synth.write(tmp_path / "large.fxt", "spans", events=100_000)
    assert added(lake, *traces[:10], tmp_path / "large.fxt", jobs=2) == [ADDED] * 11
    assert added(lake, *traces[:12]).count(KNOWN) == 10
    assert Counter(whole(Lake(url))) == {50: 12, 100_000: 1}
    local = Lake(tmp_path / "local", create=True)
    added(local, *traces[:12], tmp_path / "large.fxt")
    assert Lake(url).top(limit=None) == local.top(limit=None)
    processes = [writer(url, traces) for _ in range(4)]
    time.sleep(1.0)
    processes[0].kill()
    outputs = [process.communicate()[0].decode().split() for process in processes]
    assert {*outputs[1], *outputs[2], *outputs[3]} <= {ADDED, KNOWN}
    lake = Lake(url)
    assert Counter(whole(lake)) == {50: 20, 100_000: 1}
    rows, _ = lake.traces(limit=None)
    lake.drop(rows[0]["id"])
    assert len(Lake(url).ids()) == 20
    synth.write(tmp_path / "kept.fxt", "spans", events=10)
    (outcome,) = lake.add(tmp_path / "kept.fxt", keep=True)
    assert outcome.row["url"].startswith(f"{url}/kept/")
    assert lake.info().others == 0


@pytest.mark.parametrize("scheme", ["", "file://"], ids=["folder", "store"])
def test_a_row_of_another_writer_is_not_taken_for_the_own(
    scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "_WORTH", 1)
    path, folder = trace(tmp_path / "a.fxt"), tmp_path / "lake"
    folder.mkdir()
    lake = Lake(f"{scheme}{folder}", create=True)
    kind = type(lake._store)
    put = kind.put

    def put_before_another(store: Store, name: str, file: Path) -> bool:
        result = put(store, name, file)
        if name.startswith(TRACES):
            monkeypatch.setattr(kind, "put", put)
            other = Lake(lake.url)
            other.drop(identity_of(path)[0])
            assert added(other, path, labels={"host": "b"}) == [ADDED]
        return result

    monkeypatch.setattr(kind, "put", put_before_another)
    assert added(lake, path, labels={"host": "a"}) == [ADDED]
    assert [row["labels"]["host"] for row in Lake(lake.url).traces()[0]] == ["b"]


def test_a_trace_is_added_though_its_row_cannot_be_looked_at(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = trace(tmp_path / "a.fxt")
    entry = FolderStore.entry

    def broken(store: FolderStore, name: str) -> Entry | None:
        found = entry(store, name)
        if found and name.startswith(TRACES):
            raise StoreError("no answer")
        return found

    monkeypatch.setattr(FolderStore, "entry", broken)
    assert added(lake, path) == [ADDED]


def test_rows_are_kept_while_many_are_added(
    lake: Lake, tmp_path: Path, traces: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "_WORTH", 2)
    monkeypatch.setattr(lake_module, "_KEPT_AT_ONCE", 2)
    kept = []
    for _ in lake.add(traces[:5]):
        path = Path(lake.url, catalog.NAME)
        kept.append(pq.read_metadata(path).num_rows if path.exists() else 0)
    assert kept == [0, 2, 2, 4, 4]
    assert len(Lake(lake.url).traces()[0]) == 5


def test_files_that_an_object_store_got_in_one_second_are_told_apart(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}")
    entries = set()
    for number in range(3):
        (tmp_path / "source").write_text(str(number))
        store.replace("traces/a", tmp_path / "source")
        (listed,) = store.entries("traces")
        assert store.entry("traces/a") == listed
        entries.add(listed)
    assert len(entries) == 3
