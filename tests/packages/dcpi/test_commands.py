"""The commands on DCPI profiles, both synthetic and from the corpus."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest

import fxtio
from fxtio import synth
from fxtio.cli import main
from fxtio.dcpi import DcpiTrace
from fxtio.dcpi.layout import KEYWORDS
from fxtio.dcpi.records import RECORDS, Chunk, Line
from fxtio.dcpi.report import stats
from fxtio.errors import FxtioError
from fxtio.formats import by_name
from fxtio.synth import shapes_of
from oracle import dcpi as oracle
from support.checkout import CORPUS
from support.dcpi import copied, written

Capture = pytest.CaptureFixture[str]
PROFILES = sorted((CORPUS / "dcpi").glob("*.dcpi"))


@pytest.mark.parametrize("shape", shapes_of(by_name("dcpi")))
def test_synthetic_profiles_are_valid(shape: str) -> None:
    outputs = []
    for seed in (0, 0, 1):
        out = io.BytesIO()
        addresses, size = synth.write(out, shape, format="dcpi", events=3_000, seed=seed)
        assert size == len(out.getvalue())
        assert 3_000 <= addresses < (3_030 if shape == "everything" else 3_001)
        outputs.append(out.getvalue())
    assert outputs[0] == outputs[1] != outputs[2]
    oracle.parse(outputs[0])
    trace = DcpiTrace(outputs[0], strict=True)
    assert 3_000 <= trace.info.addresses < 3_030
    assert "never measured" in str(trace.header.get("label"))


@pytest.mark.parametrize("seed", range(6))
def test_everything_is_in_the_shape_of_that_name(seed: int) -> None:
    out = io.BytesIO()
    synth.write(out, "everything", format="dcpi", events=100, seed=seed)
    trace = DcpiTrace(out.getvalue(), strict=True)
    records = list(trace)
    assert {*map(type, records)} == {*RECORDS}
    lines = [record for record in records if isinstance(record, Line)]
    assert {*KEYWORDS} < {line.word for line in lines}
    assert {line.blanks for line in lines} >= {" ", "\t\t", "   "}
    chunks = [record for record in records if isinstance(record, Chunk)]
    assert {len(chunk.counts) for chunk in chunks} >= {1, 2, 3, 8}
    assert any(not any(chunk.counts) for chunk in chunks)
    assert trace.info.mergeable and trace.info.padded
    assert 2**31 <= trace.info.samples < 2**32


def test_a_synthetic_profile_has_hot_loops() -> None:
    out = io.BytesIO()
    synth.write(out, "profile", format="dcpi", events=50_000, seed=2)
    counts = np.sort(DcpiTrace(out.getvalue(), strict=True).table("samples")["count"])[::-1]
    assert counts[: len(counts) // 20].sum() > counts.sum() // 2


@pytest.mark.full
def test_synthetic_profiles_have_about_the_requested_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for shape in shapes_of(by_name("dcpi")):
        _, size = synth.write(tmp_path / "out", shape, format="dcpi", size=300_000)
        assert 240_000 < size < 360_000
    monkeypatch.setattr("fxtio.synth.dcpi.MAX_COUNT", 1 << 16)
    with pytest.raises(FxtioError, match="farther apart"):
        synth.write(tmp_path / "out", "profile", format="dcpi", events=100_000)


def test_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["synth", "profile", "--format", "dcpi", "-o", "out.dcpi", "--events", "500"]) == 0
    for verb in ("info", "stats", "dump", "explain"):
        capsys.readouterr()
        assert main([verb, "out.dcpi"]) == 0
        text = capsys.readouterr().out
        assert all(character.isprintable() or character == "\n" for character in text)
        assert text.count("\n") > 10
    for verb in ("info", "stats"):
        assert main([verb, "--json", "out.dcpi"]) == 0
        assert json.loads(capsys.readouterr().out)["samples"] > 500
    assert main(["dump", "--json", "out.dcpi"]) == 0
    documents = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    trace = DcpiTrace("out.dcpi")
    assert [item["offset"] for item in documents] == [entry.offset for entry in trace.entries()]
    assert all(list(item)[:3] == ["offset", "type", "time"] for item in documents)
    assert sum(sum(item["counts"]) for item in documents if item["type"] == "chunk") == trace.info.samples
    assert main(["synth", "profile", "--format", "dcpi", "-o", "x", "--threads", "2"]) == 2


def test_stats_read_once(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`stats` works on a pipe, which can be read only once; the largest counts are those of all blocks."""
    path = tmp_path / "out.dcpi"
    synth.write(path, "profile", events=3_000)
    monkeypatch.setattr("fxtio.dcpi.frames.BLOCK", 400)
    report = stats(DcpiTrace(io.BytesIO(path.read_bytes())), 5)
    samples = DcpiTrace(path).table("samples")
    pairs = sorted(zip((-samples["count"].astype(int)).tolist(), samples["text_offset"].tolist(), strict=True))
    assert [(-each["count"], each["text_offset"]) for each in report.json["largest"]] == pairs[:5]
    assert report.tables[0].more == 2_995


def test_explain_shows_all_bytes(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "bad.dcpi"
    good = (CORPUS / "dcpi" / "nt-edition.dcpi").read_bytes()
    path.write_bytes(good.replace(b"period", b"period x", 1)[:-1])
    assert main(["explain", str(path), "--count", "100"]) == 1
    text = capsys.readouterr().out
    assert "not decimal digits" in text
    for arguments, expected in (
        (["--type", "chunk"], "Chunk"),
        (["--record", "2"], "record 2"),
        (["--offset", "1"], "Line"),
    ):
        assert main(["explain", str(CORPUS / "dcpi" / "nt-edition.dcpi"), *arguments]) == 0
        assert expected in capsys.readouterr().out.splitlines()[0]
    assert main(["explain", str(path), "--type", "event"]) == 2


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.stem)
def test_corpus_is_copied_exactly(path: Path) -> None:
    assert fxtio.open(path).format == "dcpi"
    with DcpiTrace(path) as trace:
        assert copied(trace) == written(trace.records(resolve=False)) == path.read_bytes()
    assert b"synthetic" in path.read_bytes().lower()


def test_corpus_has_the_expected_samples() -> None:
    expected = json.loads((CORPUS / "dcpi" / "expectations.json").read_text())
    assert [path.name for path in PROFILES] == sorted(expected)
    for path in PROFILES:
        trace = fxtio.open(path, format="dcpi")
        facts = expected[path.name]
        assert sorted(trace.findings.counts) == facts["findings"]
        samples = trace.table("samples")
        assert [*map(list, zip(samples["text_offset"].tolist(), samples["count"].tolist(), strict=True))] == facts[
            "samples"
        ]
