"""The commands on recordings of the Mono log profiler."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fxtio.cli import main
from fxtio.mono.explain import describe_markdown
from fxtio.mono.records import EVENTS
from support.checkout import CORPUS

Capture = pytest.CaptureFixture[str]
V17 = str(CORPUS / "mono" / "synth-v17.mlpd")


def ran(capsys: Capture, *arguments: str, code: int = 0) -> str:
    assert main(list(arguments)) == code
    return capsys.readouterr().out


def test_info(capsys: Capture) -> None:
    text = ran(capsys, "info", V17)
    assert "data version 17" in text
    assert '"main"' in text
    printed = json.loads(ran(capsys, "info", V17, "--json"))
    assert printed["header"]["arch"] == "x86-64"
    assert printed["records"]["GcEvent"] == 8


def test_dump(capsys: Capture) -> None:
    lines = ran(capsys, "dump", V17).splitlines()
    assert len(lines) == 62
    assert 'ClassLoad         pointer=0x6100 image=0x6200 name="My.Cläss"' in lines[2]
    assert any("refs" not in line and "references=(2) [(field_offset=8" in line for line in lines)
    documents = [json.loads(line) for line in ran(capsys, "dump", V17, "--json").splitlines()]
    assert list(documents[2].items())[:4] == [
        ("offset", 196),
        ("type", "class-load"),
        ("time", 1030),
        ("thread_id", 0x1111),
    ]
    assert documents[2]["name"] == "My.Cläss"


def test_stats(capsys: Capture) -> None:
    text = ran(capsys, "stats", V17)
    assert '"My:Main ()"' in text
    printed = json.loads(ran(capsys, "stats", V17, "--json"))
    assert printed["methods"] == [{"name": "My:Main ()", "calls": 1}, {"name": "My:Work (int)", "calls": 1}]
    assert printed["classes"] == [{"name": "My.Cläss", "objects": 2, "bytes": 56}]


def test_explain(capsys: Capture) -> None:
    text = ran(capsys, "explain", V17, "--count", "3")
    assert text.startswith("StreamHeader, 73 bytes at 0")
    assert "BufferHeader, 48 bytes at 73" in text
    text = ran(capsys, "explain", V17, "--type", "heapobject")
    assert "references[0].object" in text
    assert "record 8: " in ran(capsys, "explain", V17, "--record", "8")
    assert "ImageUnload" not in text


def test_explain_prints_faults(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "bad.mlpd"
    data = bytearray(Path(V17).read_bytes())
    place = data.index(b"My:Main") - 7
    path.write_bytes(data[:place] + b"\x0f" + data[place + 1 :])
    text = ran(capsys, "explain", str(path), "--count", "100", code=1)
    assert "mono.event.unknown" in text
    path.write_bytes(data[: place + 5])
    assert "truncated" in ran(capsys, "explain", str(path), "--count", "100", code=1)


def test_synth(capsys: Capture, tmp_path: Path) -> None:
    path = str(tmp_path / "made.mlpd.gz")
    ran(capsys, "synth", "mixed", "--format", "mono", "-o", path, "--events", "3000", "--threads", "2")
    printed = json.loads(ran(capsys, "info", path, "--json"))
    assert sum(printed["records"].values()) > 3000
    assert printed["compression"] == "gzip"


def test_the_reference_has_every_event() -> None:
    page = describe_markdown()
    for cls in EVENTS:
        assert f"### {cls.__name__}\n" in page
    assert "| `backtrace` | uleb128 count, items: sleb128, added to the last method of the buffer | 13 on |" in page
