"""Archives for Perfetto: what the manifest says, applied to what Perfetto sees of each file, is the merged trace.

Perfetto reads manifests from version 58 on. The newest that a package registry has is version 52, which has no support
for them, so they are read here as https://perfetto.dev/docs/reference/perfetto-manifest says.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import fxtio
import judges
from fxtio import synth
from fxtio.cli import main
from fxtio.io.source import open_source, read_whole
from judges import perfetto

NOW = 1_790_000_000 * 10**9
Files = dict[str, bytes]


@pytest.fixture(autouse=True)
def _traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write three traces to the working directory, two of which have the same name and numbers of threads."""
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    for path, start in (("a.fxt", NOW + 2_500), ("folder/a.fxt", NOW + 700)):
        with fxtio.create(path, wall_clock=start) as writer:
            track = writer.thread(7, 8, path, "program")
            track.complete("work", 100, 900)
            track.complete("part of it", 200, 300)
    Path("b.json").write_text(json.dumps({"traceEvents": [{"ph": "X", "name": "x", "ts": 1, "dur": 2, "pid": 5}]}))


def merge(target: str, *arguments: str) -> tuple[dict[str, Any], Files]:
    """Merge traces; return the manifest, and the files that it names."""
    assert main(["merge", "-o", target, *arguments]) == 0
    with closing(open_source(target)) as source:
        data = bytes(read_whole(source))
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        members = {member.name: archive.extractfile(member) for member in archive.getmembers()}
    contents = {name: file.read() for name, file in members.items() if file is not None}
    text = contents.pop("perfetto_manifest.json").decode()
    assert text.startswith('{"perfetto_manifest"')
    manifest = json.loads(text)["perfetto_manifest"]
    assert manifest["version"] == 1
    assert [file["path"] for file in manifest["files"]] == list(contents)
    return manifest, contents


def offsets(manifest: dict[str, Any]) -> list[int]:
    """Return what is added to the times of each file, on the clock of the archive (ns)."""
    reference = manifest["trace_time"]
    assert reference["clock"] == "BOOTTIME"
    result = []
    for file in manifest["files"]:
        clocks = file.get("clocks", {"offset_ns": 0})
        if file["path"] != reference["file"]:
            assert clocks["clock"] == "BOOTTIME"
            assert clocks["sync_to"] == reference
        result.append(clocks["offset_ns"])
    return result


@pytest.mark.parametrize("target", ["all.tar", "all.tar.gz", "all.tar.zst"])
def test_what_an_archive_has(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    manifest, files = merge(target, "a.fxt", "folder/a.fxt", "b.json", "--offset", "b.json=-5us")
    assert list(files) == ["a.fxt.pftrace", "a.fxt_1.pftrace", "b.json.pftrace"]
    assert [file["machine"]["name"] for file in manifest["files"]] == ["a.fxt", "a.fxt_1", "b.json"]
    assert manifest["trace_time"]["file"] == "b.json.pftrace"
    assert offsets(manifest) == [5_000, 3_200, 0]
    for name, data in files.items():
        Path(name).write_bytes(data)
        with fxtio.open_timeline(name) as timeline:
            assert len(timeline.table("slices")) == (1 if name == "b.json.pftrace" else 2)
    assert f"wrote 3 traces as an archive for Perfetto to {target}" in capsys.readouterr().err


def test_a_format_that_is_named_counts_more_than_the_ending() -> None:
    assert main(["merge", "-o", "all.tar", "--to", "perfetto", "a.fxt", "folder/a.fxt"]) == 0
    with fxtio.open_timeline("all.tar", format="perfetto") as timeline:
        assert len(timeline.table("slices")) == 4


def test_a_profile_without_times_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    Path("x.collapsed").write_text("a;b 1\n")
    assert main(["merge", "-o", "all.tar", "a.fxt", "x.collapsed", "--offset", "x.collapsed=0ms"]) == 2
    assert "x.collapsed has no times" in capsys.readouterr().err
    assert not Path("all.tar").exists()


@pytest.mark.full
def test_perfetto_sees_the_merged_trace() -> None:
    judges.require(perfetto.available())
    synth.write("u.data", "program", format="uftrace", events=2_000)
    arguments = ["a.fxt", "folder/a.fxt", "b.json", "u.data", "--offset", "b.json=-5us", "--offset", "u.data=3ms"]
    manifest, files = merge("all.tar", *arguments)
    apart: Counter[tuple[Any, ...]] = Counter()
    for data, offset in zip(files.values(), offsets(manifest), strict=True):
        apart += seen(data, offset)
    assert main(["merge", "-o", "all.pftrace", *arguments]) == 0
    together = seen(Path("all.pftrace").read_bytes(), 0)
    assert together == apart
    assert together.total() > 100


def seen(data: bytes, offset: int) -> Counter[tuple[Any, ...]]:
    """Return the slices that Perfetto sees, with times that something is added to."""
    with perfetto.load(data) as p:
        assert p.errors() == {}
        return Counter((span.name, span.ts + offset, span.dur, span.depth) for span in p.slices())
