"""The commands on CoreProfiler traces, both synthetic and from the corpus."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

import fxtio
from fxtio import synth
from fxtio.cli import main
from fxtio.codec.text.items import Decimal, Word, layout_of
from fxtio.coreprofiler import CoreProfilerTrace
from fxtio.coreprofiler import records as r
from fxtio.coreprofiler.canonical import json_objects
from fxtio.coreprofiler.layout import DIALECTS, UNDEFINED, LocalTime, OsThread, Pointer
from fxtio.coreprofiler.report import stats, text_lines
from fxtio.formats import by_name
from fxtio.synth import shapes_of
from support import coreprofiler as support
from support.checkout import CORPUS

Capture = pytest.CaptureFixture[str]
TRACES = sorted((CORPUS / "coreprofiler").glob("*.log"))


@pytest.mark.full
@pytest.mark.parametrize("shape", shapes_of(by_name("coreprofiler")))
def test_synthetic_traces(shape: str, tmp_path: Path) -> None:
    outputs = []
    threads = None if shape == "everything" else 3
    for seed in (0, 0, 1):
        out = io.BytesIO()
        events, size = synth.write(out, shape, format="coreprofiler", events=3_000, threads=threads, seed=seed)
        assert 3_000 <= events < 3_300
        assert size == len(out.getvalue())
        outputs.append(out.getvalue())
    assert outputs[0] == outputs[1] != outputs[2]
    trace = CoreProfilerTrace(outputs[0], strict=True)
    assert threads is None or len(trace.info.threads) == threads
    assert "never measured" in trace.info.config["Synthetic"]
    _, size = synth.write(tmp_path / "out", shape, format="coreprofiler", size=100_000)
    assert 100_000 <= size < 130_000


@pytest.mark.parametrize("style", DIALECTS)
def test_everything_is_in_the_shape_of_that_name(style: str) -> None:
    out = io.BytesIO()
    synth.write(out, "everything", format="coreprofiler", events=600, seed=3, style=style)
    trace = CoreProfilerTrace(out.getvalue())
    records = list(trace)
    assert {*map(type, records)} == {*r.RECORDS}
    assert set(trace.info.records) == {cls.__name__ for cls in r.RECORDS}
    assert set(trace.findings.counts) <= {"coreprofiler.source.windows-lines"}
    forms: dict[tuple[type[Any], str], set[Any]] = {}
    for record in records:
        items = [item for name in layout_of(type(record)).members for item in getattr(record, name)]
        for each in (record, *items):
            for field in layout_of(type(each)).fields:
                forms.setdefault((type(each), field.name), set()).add(getattr(each, field.name))
    for (cls, name), values in forms.items():
        item = next(field.item for field in layout_of(cls).fields if field.name == name)
        assert len(values) > 1 or isinstance(item, LocalTime | Word), (cls, name)
        if item.optional or (isinstance(item, Decimal) and item.unknown):
            assert None in values, (cls, name)
        if isinstance(item, Pointer):
            assert UNDEFINED in values, (cls, name)
    assert any(isinstance(record.thread, OsThread) for record in records if isinstance(record, r.JitStarted)) == (
        style in ("D3", "D4")
    )


@pytest.mark.full
def test_a_synthetic_program_looks_like_one() -> None:
    out = io.BytesIO()
    synth.write(out, "program", format="coreprofiler", events=20_000, seed=1)
    trace = CoreProfilerTrace(out.getvalue(), strict=True)
    samples = list(trace.samples())
    ticks = [sample.ticks for sample in samples if sample.ticks]
    assert sum(ticks) > 200
    assert max(len(sample.stack) for sample in samples) == 2
    assert trace.info.timeline.counts["jit"] == trace.info.records["FunctionName"]
    rows = {row["name"]: row for row in stats(trace, 100).json["functions"]}
    assert rows["query"]["ticks"] > rows["parse"]["ticks"]
    assert rows["GET /item"]["with_callees"] > rows["GET /item"]["ticks"]


def test_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["synth", "mixed", "--format", "coreprofiler", "-o", "out.cpl", "--events", "3000", "--threads", "2"]
    assert main(command) == 0
    for verb in ("info", "stats", "dump", "explain"):
        capsys.readouterr()
        assert main([verb, "out.cpl"]) == 0
        text = capsys.readouterr().out
        assert all(character.isprintable() or character == "\n" for character in text)
        assert text.count("\n") > 10
    assert main(["info", "--json", "out.cpl"]) == 0
    expected = json.loads(capsys.readouterr().out)
    assert expected["started_at"].startswith("2018-04-10")
    assert main(["stats", "--json", "--top", "3", "out.cpl"]) == 0
    stats = json.loads(capsys.readouterr().out)
    trace = CoreProfilerTrace("out.cpl")
    samples = list(trace.samples())
    assert stats["ticks"] == sum(sample.ticks for sample in samples if not sample.paused)
    largest = stats["functions"][0]
    on_stack = [
        sample for sample in samples if largest["function_iid"] in {frame.function_iid for frame in sample.stack}
    ]
    assert largest["with_callees"] == sum(sample.ticks for sample in on_stack if not sample.paused)
    assert main(["dump", "--json", "out.cpl"]) == 0
    documents = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [item["offset"] for item in documents] == [entry.offset for entry in trace.entries()]
    assert all(list(item)[:3] == ["offset", "type", "time"] for item in documents)


@given(data=support.simulated_traces() | support.damaged())
def test_stats_count_a_function_once_for_each_stack(data: bytes) -> None:
    trace = CoreProfilerTrace(data)
    ticks: Counter[int | None] = Counter()
    own: Counter[int | None] = Counter()
    for sample in trace.samples():
        if not sample.paused and sample.ticks:
            own[sample.stack[-1].function_iid if sample.stack else None] += sample.ticks
            for function in {frame.function_iid for frame in sample.stack}:
                ticks[function] += sample.ticks
    functions = stats(trace, 10_000).json["functions"]
    assert {row["function_iid"]: row["with_callees"] for row in functions} == ticks
    assert all(row["ticks"] == own[row["function_iid"]] for row in functions)


def test_stats_report_what_the_summary_reports() -> None:
    records = [r.ProfilerResumed(1), r.StackSample(0, 5, 1, 0, 0, None, (r.Frame(7),))]
    trace = CoreProfilerTrace(support.written(records))
    stats(trace, 3)
    assert "coreprofiler.profiling.pause-pairs" in trace.findings.counts


def test_negative_times(tmp_path: Path, capsys: Capture) -> None:
    """Ticks of 32 bits become negative after 25 days."""
    path = tmp_path / "old.log"
    path.write_bytes(b"prc cpu -1500 7\nprc cpu -5 7\n")
    assert main(["info", str(path)]) == 1
    assert "1.495 s, from -1.500000000 s to -0.005000000 s" in capsys.readouterr().out
    assert main(["dump", str(path)]) == 1
    assert "-1.500000000  ProcessCpu" in capsys.readouterr().out


def test_hostile_names_are_escaped(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "hostile.log"
    path.write_bytes(
        b'prf stm 2018-04-10 12:00:00.000\ncls nam 0x00000001 "\x1b]0;t\x07 \xff\xe2\x80\xae"\n\x1b[2J what\n'
        b"prf cfg \x07 \x1b[31m\n"
    )
    for verb in ("info", "stats", "dump", "explain"):
        assert main([verb, str(path)]) in (0, 1)
        captured = capsys.readouterr()
        assert all(character.isprintable() or character == "\n" for character in captured.out + captured.err)
    for verb in ("info", "stats", "dump"):
        assert main([verb, "--json", str(path)]) == 1
        for line in capsys.readouterr().out.splitlines()[: 1 if verb == "dump" else 0]:
            json.loads(line)


def test_every_record_is_shown_and_explained(capsys: Capture, tmp_path: Path) -> None:
    for path in TRACES:
        with CoreProfilerTrace(path) as trace:
            entries = list(trace.entries())
            assert len(list(text_lines(entries))) == len(json_objects(entries)) == len(entries)
            assert all("\n" not in line for line in text_lines(entries))
    good = (CORPUS / "coreprofiler" / "given-specification.log").read_bytes()
    path = tmp_path / "bad.log"
    path.write_bytes(good + b'thr cpu 0x1 x 5\nfun nam 0x1 "torn\n')
    assert main(["explain", str(path), "--count", "1000"]) == 1
    text = capsys.readouterr().out
    assert "is not a valid ms" in text
    assert "does not end with a quote" in text
    for arguments, expected in (
        (["--type", "thr crt"], "ThreadCreated"),
        (["--record", "2"], "record 2"),
        (["--offset", "1"], "record 0"),
    ):
        assert main(["explain", str(path), *arguments, "--count", "1"]) == 0
        assert expected in capsys.readouterr().out.splitlines()[0]
    assert main(["explain", str(path), "--type", "nothing"]) == 2


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_corpus(path: Path) -> None:
    data = path.read_bytes()
    assert b"ynthetic" in data
    expected = json.loads((path.parent / "expectations.json").read_text())[path.name]
    assert fxtio.open(path, format=None).format == "coreprofiler"
    with CoreProfilerTrace(path) as trace:
        assert dict(trace.info.records) == expected["records"]
        assert sorted(trace.findings.counts) == expected["findings"]
        stacks = [
            [sample.thread, sample.ticks, [frame.function_iid for frame in sample.stack]] for sample in trace.samples()
        ]
        assert stacks == expected["stacks"]
        assert support.written(trace.records(resolve=False), trace.style) == data
