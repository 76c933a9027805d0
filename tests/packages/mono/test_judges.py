"""`mprof-report` and `Mono.Profiler.Log` agree with fxtio, event for event and value for value: on recordings that Mono
makes here and made before, and on what fxtio writes, in all data versions.

The judges' defects are listed in `judges.mono` and `judges.mono_log`. Where FXTIO_REQUIRE_MONO is set, as in the CI, a
missing Mono is a failure.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest

import fxtio
from fxtio import synth
from fxtio.formats import by_name
from fxtio.mono import records as r
from fxtio.mono.enums import LoadAction
from fxtio.mono.headers import StreamHeader
from fxtio.mono.reader import MonoTrace
from fxtio.mono.writer import MonoWriter
from fxtio.synth.mono import VERSIONS
from judges import mono, mono_log
from support.mono_every import every_event
from support.mono_samples import FILES, HAS_MONO, compiled, content, copied, recorded, written

pytestmark = [pytest.mark.full, pytest.mark.once]

needs_mono = pytest.mark.skipif(
    not HAS_MONO and not mono.REQUIRED, reason="needs Debian's mono-utils, libmono-profiler, mono-runtime and mono-mcs"
)

OPTIONS = {
    "alloc": "nodefaults,alloc",
    "calls": "nodefaults,calls",
    "exception": "nodefaults,exception",
    "monitor": "nodefaults,monitor",
    "heapshot": "nodefaults,heapshot,gcmove,gcroot",
    "sample": "nodefaults,sample=1000",
    "counter": "nodefaults,counter",
    "gc": "nodefaults,gc,gcalloc,gcmove,gcroot,gchandle,finalization",
    "jit": "nodefaults,jit",
    "legacy": "alloc",
    "zip": "nodefaults,alloc,exception,monitor,zip",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mono")


@functools.cache
def program(folder: Path) -> Path:
    return compiled(folder)


@pytest.fixture(scope="module", params=OPTIONS, ids=list(OPTIONS))
def fresh(request: pytest.FixtureRequest, folder: Path) -> Path:
    """Return a new recording made by the installed Mono."""
    out = folder / f"{request.param}.mlpd"
    busy = "150" if request.param in ("sample", "counter") else "0"  # milliseconds
    return recorded(program(folder), OPTIONS[request.param], out, busy)


def check_agreement(path: Path, *, without_unloads: bool = False) -> None:
    """Check that mprof-report prints the same events as fxtio."""
    trace = MonoTrace(path)
    assert trace.info.header is not None
    text = mono.report(path, "--debug", "--reports=stats")
    wide = trace.info.header.pointer_size == 8
    theirs, actual = mono.debug_of(text, wide=wide), list(mono.Lines(trace).all())
    stats, our_stats = mono.stats_of(text), mono.our_stats(trace)
    if without_unloads:  # IMAGE_UNLOAD
        stats.pop("TYPE_END_UNLOAD", None)
        our_stats.pop("TYPE_END_UNLOAD", None)
    assert stats == our_stats
    assert theirs == actual
    assert not trace.findings


@needs_mono
def test_mprof_report_agrees_on_new_recordings(fresh: Path) -> None:
    check_agreement(fresh)


@needs_mono
def test_the_library_agrees_on_new_recordings(fresh: Path, folder: Path) -> None:
    assert mono_log.library_rows(fresh, folder) == mono_log.our_rows(MonoTrace(fresh))


@needs_mono
def test_new_recordings_are_copied_byte_for_byte(fresh: Path) -> None:
    assert copied(MonoTrace(fresh)) == content(fresh)


@needs_mono
def test_the_order_by_time_is_that_of_the_library(fresh: Path, folder: Path) -> None:
    trace = MonoTrace(fresh)
    theirs = mono_log.library_rows(fresh, folder, order="time")
    times = [int(row.split("\t")[1]) for row in theirs]
    assert [entry.time for entry in trace.entries(order="time")] == times


@needs_mono
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_mprof_report_agrees_on_the_corpus(path: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain.mlpd"
    unloads = [event for event in MonoTrace(path) if isinstance(event, r.Image) and event.action == LoadAction.UNLOAD]
    if unloads and "v16" not in path.name and "v17" not in path.name:
        unloads = []  # before data version 16 they are read well
    plain.write_bytes(content(path) if not unloads else _without_unloads(path))
    check_agreement(plain)


def _without_unloads(path: Path) -> bytes:
    """Return the recording without the unloading of images (IMAGE_UNLOAD)."""
    trace = MonoTrace(path)
    assert trace.info.header is not None
    events = [event for event in trace if not (isinstance(event, r.Image) and event.action == LoadAction.UNLOAD)]
    return written(trace.info.header.data_version, events, thread=0x1111)


TSV = sorted((Path(FILES[0]).parent).glob("*.tsv"))


@pytest.mark.parametrize("path", TSV, ids=lambda path: path.stem)
def test_the_library_agreed_on_every_value_of_the_corpus(path: Path) -> None:
    theirs = mono_log.rows_of(path.read_text("utf-8"), 8)
    assert theirs == mono_log.our_rows(MonoTrace(path.with_suffix(".mlpd")))


@needs_mono
@pytest.mark.parametrize("size", [4, 8])
@pytest.mark.parametrize("version", r.VERSIONS)
def test_mprof_report_agrees_on_every_event_of_every_version(version: int, size: int, tmp_path: Path) -> None:
    path = tmp_path / "every.mlpd"
    events = every_event(version)
    path.write_bytes(written(version, events, pointer_size=size))
    assert list(MonoTrace(path)) == events
    check_agreement(path)


@needs_mono
@pytest.mark.parametrize("version", range(13, 18))
def test_the_library_agrees_on_every_event_of_its_versions(version: int, tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "every.mlpd"
    events = [event for event in every_event(version) if not type(event).__name__.startswith("Coverage")]
    path.write_bytes(written(version, events))
    assert mono_log.library_rows(path, folder) == mono_log.our_rows(MonoTrace(path))


@pytest.mark.no_cover  # the same again and again, slow to measure
@needs_mono
@pytest.mark.parametrize("shape", sorted(synth.shapes_of(by_name("mono")).keys() - {"everything"}))
def test_both_agree_on_synthetic_recordings(shape: str, tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "made.mlpd"
    synth.write(path, shape, events=20_000, threads=3)
    check_agreement(path)
    assert mono_log.library_rows(path, folder) == mono_log.our_rows(MonoTrace(path))


@needs_mono
def test_the_unloading_of_an_image_misleads_mprof_report(tmp_path: Path) -> None:
    """When this fails, the exception IMAGE_UNLOAD is no longer needed."""
    path = tmp_path / "unload.mlpd"
    image = r.Image(time=5, action=LoadAction.UNLOAD, pointer=64, name="/a.exe")
    path.write_bytes(written(17, [image, r.GcResize(time=6, size=1), r.GcResize(time=7, size=1)]))
    assert MonoTrace(path).info.records["GcResize"] == 2
    with pytest.raises(AssertionError):
        check_agreement(path)


def test_names_of_the_friendly_writer_are_read(tmp_path: Path) -> None:
    path = tmp_path / "friendly.mlpd"
    with fxtio.create(path, format="mono") as writer:
        method = writer.method("My:Work ()", time=0)
        writer.enter(method, time=10)
        writer.leave(method, time=30)
    table = MonoTrace(path).timeline().table("slices")
    assert (table["name"].tolist(), table["duration"].tolist()) == (["My:Work ()"], [20])


@pytest.fixture(scope="module")
def everything(folder: Path) -> list[Path]:
    """Return the recordings of a round of the shape `everything`, each in a file of its own."""
    out = folder / "everything.mlpd"
    synth.write(out, "everything", events=1, threads=2, seed=5)
    paths: list[Path] = []
    writer: MonoWriter | None = None
    for entry in MonoTrace(out).entries(resolve=False):
        if isinstance(entry.record, StreamHeader):
            if writer is not None:
                writer.close()
            paths.append(folder / f"everything-{entry.record.data_version}-{entry.record.pointer_size}.mlpd")
            writer = MonoWriter(paths[-1])
        assert writer is not None
        if not _is_misread(entry.record, paths[-1].name):
            writer.put(entry.record)
    assert writer is not None
    writer.close()
    return paths


def _is_misread(record: Any, name: str) -> bool:
    """Return whether mprof-report misreads an event (IMAGE_UNLOAD)."""
    return isinstance(record, r.Image) and record.action == LoadAction.UNLOAD and name > "everything-16"


@needs_mono
@pytest.mark.parametrize("number", range(len(VERSIONS)), ids=lambda number: "-".join(map(str, VERSIONS[number])))
def test_mprof_report_agrees_on_everything(number: int, everything: list[Path]) -> None:
    check_agreement(everything[number])


@needs_mono
@pytest.mark.parametrize("name", ["everything-17-8", "everything-16-8"])
def test_the_library_agrees_on_everything(name: str, everything: list[Path], folder: Path) -> None:
    """It knows no coverage, which versions up to 15 have, and reads counters of 32-bit programs with 64 bits."""
    (path,) = (path for path in everything if path.stem == name)
    assert mono_log.library_rows(path, folder) == mono_log.our_rows(MonoTrace(path))


@needs_mono
def test_mprof_report_agrees_on_a_program(tmp_path: Path) -> None:
    path = tmp_path / "program.mlpd"
    synth.write(path, "program", events=20_000, threads=4, seed=2)
    check_agreement(path)
    text = mono.report(path, "--reports=call,thread")
    for part in ("GET /item", "worker 1", "major collection"):
        assert part in text
