"""Tests of `fxtio explain`: which records it shows, how it shows them, and its exit code."""

from __future__ import annotations

import argparse
import io
import lzma
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from fxtio.cli import console, explain
from fxtio.codec.generate import encode
from fxtio.errors import FxtioError
from fxtio.fxt import records as r
from fxtio.fxt.records import RECORDS

Run = Callable[..., tuple[int, str]]

WORD = re.compile(r"^([0-9a-f]{8})  ((?:[0-9a-f]{2} ){7}[0-9a-f]{2})(?:  (\S.*))?$")
TITLE = re.compile(r"^(?:record ([\d,]+): )?([^,]+)(?:, .*)?, ([\d,]+) bytes at ([\d,]+)(?: \(spec: (.*)\))?$")

NOTICE = encode(r.ProviderEvent(provider_id=1, event=0))
CLEAN = encode(r.Magic()) + NOTICE * 3


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: object) -> tuple[int, str]:
        parser = argparse.ArgumentParser()
        explain.add_arguments(parser)
        code = explain.run(parser.parse_args([str(argument) for argument in arguments]))
        return code, capsys.readouterr().out

    return run


@pytest.fixture
def demo(corpus: Path) -> Path:
    return corpus / "fxt" / "janestreet-demo.fxt"


def titles(out: str) -> list[tuple[str, str]]:
    """Return the number and name of each record that was shown."""
    matches = [TITLE.match(line) for line in out.splitlines()]
    return [(match[1] or "", match[2]) for match in matches if match]


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_the_first_records_are_shown(run: Run, demo: Path) -> None:
    code, out = run(demo)
    assert code == 0
    assert titles(out)[:3] == [("0", "Magic"), ("1", "ProviderInfo"), ("2", "ProviderSection")]
    assert len(titles(out)) == 10


@pytest.mark.parametrize("name", ["janestreet-demo.fxt", "ftr-demo.fxt", "ffx-symbolize-profiler.fxt"])
def test_every_word_has_its_offset(run: Run, corpus: Path, name: str) -> None:
    data = (corpus / "fxt" / name).read_bytes()
    _, out = run(corpus / "fxt" / name, "--count", "100k")
    shown = [match for line in out.splitlines() if (match := WORD.match(line))]
    assert b"".join(bytes.fromhex(match[2]) for match in shown) == data
    assert [int(match[1], 16) for match in shown] == list(range(0, len(data), 8))


def test_columns_are_aligned(run: Run, demo: Path) -> None:
    _, out = run(demo, "--type", "DurationComplete", "--count", "1")
    title, *lines = out.splitlines()
    assert title == "record 12: DurationComplete, 32 bytes at 224 (spec: Duration complete event)"
    assert {
        line.index(word) for line in lines for word in (" timestamp ", " args[0].header ", " end ") if word in line
    } == {len("000000e0  44 00 14 01 68 00 69 00 ")}
    fields = [line.split() for line in lines if " .. " in line]
    assert ["16", "..", "19", "event_type", "4", "DURATION_COMPLETE"] in fields
    assert ["24", "..", "31", "thread", "1", "slot", "1:", "process", "1,", "thread", "2"] in fields
    assert ["48", "..", "63", "name", "105", "slot", "105:", '"my_funct"'] in fields


@pytest.mark.parametrize(
    ("place", "first"),
    [
        (("--record", "0"), ("0", "Magic")),
        (("--record", "12"), ("12", "DurationComplete")),
        (("--offset", "0"), ("0", "Magic")),
        (("--offset", "224"), ("12", "DurationComplete")),
        (("--offset", "0xff"), ("12", "DurationComplete")),
        (("--offset", "256"), ("13", "String")),
    ],
)
def test_a_place_shows_one_record(run: Run, demo: Path, place: tuple[str, str], first: tuple[str, str]) -> None:
    assert titles(run(demo, *place)[1]) == [first]
    assert titles(run(demo, *place, "--count", "3")[1])[0] == first
    assert len(titles(run(demo, *place, "--count", "3")[1])) == 3


def test_offsets_may_have_commas_as_in_findings(run: Run, corpus: Path) -> None:
    magic_trace = corpus / "fxt" / "magic-trace.fxt"
    assert titles(run(magic_trace, "--offset", "100,000")[1]) == titles(run(magic_trace, "--offset", "100000")[1])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("FlowStep", ["FlowStep"]),
        ("flow_step", ["FlowStep"]),
        ("flow-begin", ["FlowBegin"]),
        ("counter", ["Counter", "Counter"]),
    ],
)
def test_only_one_type(run: Run, demo: Path, name: str, expected: list[str]) -> None:
    assert [shown for _, shown in titles(run(demo, "--type", name)[1])] == expected


def test_a_group_of_types(run: Run, demo: Path) -> None:
    shown = [name for _, name in titles(run(demo, "--type", "event", "--count", "100")[1])]
    events = {cls.__name__ for cls in RECORDS.classes if issubclass(cls, r.Event)}
    assert len(shown) == 10
    assert set(shown) <= events
    assert len(titles(run(demo, "--type", "event", "--offset", "330")[1])) == 8, "a place does not limit a type to one"


def test_unknown_records_can_be_selected(run: Run, tmp_path: Path) -> None:
    unknown = (0x1C).to_bytes(8, "little")
    path = write(tmp_path / "a.fxt", CLEAN + unknown + CLEAN)
    assert titles(run(path, "--type", "unknown")[1]) == [("4", "unknown record")]
    assert "unknown RecordType" in run(path, "--type", "unknown")[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--type", "nonsense"], "there is no record type 'nonsense', only Magic, "),
        (["--type", "record"], "no record type 'record'"),
        (["--type", "Log"], "no record of type Log"),
        (["--record", "4"], "no record from number 4 on"),
        (["--offset", "32"], "no record from byte 32 on"),
    ],
)
def test_nothing_to_show_is_refused(run: Run, tmp_path: Path, arguments: list[str], message: str) -> None:
    with pytest.raises(FxtioError, match=re.escape(message)):
        run(write(tmp_path / "a.fxt", CLEAN), *arguments)


@pytest.mark.parametrize(
    "arguments",
    [["--offset", "-1"], ["--offset", "here"], ["--record", "x"], ["--count", "0"], ["--offset", "1", "--record", "1"]],
)
def test_invalid_arguments(run: Run, demo: Path, arguments: list[str]) -> None:
    with pytest.raises(SystemExit):
        run(demo, *arguments)


@pytest.mark.parametrize("compress", [zstandard.compress, lzma.compress])
def test_compressed_input(run: Run, demo: Path, tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    compressed = write(tmp_path / "compressed", compress(demo.read_bytes()))
    assert run(compressed, "--record", "12") == run(demo, "--record", "12")


def test_standard_input(run: Run, demo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = run(demo, "--record", "12")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(demo.read_bytes())))
    assert run("-", "--record", "12") == expected


def test_faults_are_marked(run: Run, tmp_path: Path) -> None:
    odd = bytes([*NOTICE[:7], 0x80])
    code, out = run(write(tmp_path / "a.fxt", CLEAN + odd))
    assert code == 1
    assert [line.partition("! ")[2] for line in out.splitlines() if "!" in line] == ["must be zero"]
    assert re.search(r"56 \.\. 63 +unused +0x80 +reserved +! must be zero$", out, re.MULTILINE)


def test_a_fault_that_is_not_shown_does_not_count(run: Run, tmp_path: Path) -> None:
    path = write(tmp_path / "a.fxt", CLEAN + bytes([*NOTICE[:7], 0x80]) + bytes(8) + CLEAN)
    assert run(path, "--count", "4")[0] == 0
    assert run(path, "--record", "4")[0] == 1
    assert run(path, "--record", "5")[0] == 0


def test_bytes_that_are_not_a_record(run: Run, tmp_path: Path) -> None:
    path = write(tmp_path / "a.fxt", CLEAN + bytes(16) + CLEAN + encode(r.Log(1, 2, "text"))[:-8])
    code, out = run(path)
    assert code == 1
    assert titles(out) == [
        *[("0", "Magic"), *((str(number), "ProviderEvent") for number in (1, 2, 3))],
        ("", "no record"),
        *[("4", "Magic"), *((str(number), "ProviderEvent") for number in (5, 6, 7))],
        ("", "no record"),
    ]
    assert (
        "no record, 16 bytes at 32\n  ! warning at byte 32: 2 zero words between records [fxt.framing.zero-words]\n"
        in out
    )
    assert "no record, though it begins like Log, 16 bytes at 80 (spec: Log record)\n  ! error at byte 80: " in out
    assert re.search(r"^ +missing +! Log.message: no room in the record for 4 bytes$", out, re.MULTILINE)


def test_a_cut_stream_ends_with_its_fault(run: Run, tmp_path: Path) -> None:
    compressor = zstandard.ZstdCompressor().compressobj()
    cut = compressor.compress(CLEAN) + compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    code, out = run(write(tmp_path / "a.fxt.zst", cut))
    assert code == 1
    assert titles(out)[-2:] == [("3", "ProviderEvent"), ("", "the end")]
    assert "the zstd stream is cut or damaged" in out.splitlines()[-1]


def test_names_cannot_reach_the_terminal(run: Run, tmp_path: Path) -> None:
    record = r.Log(timestamp=1, thread=1, message="\x1b]0;owned\x07\n\u202e")
    _, out = run(write(tmp_path / "a.fxt", CLEAN + encode(record)))
    assert not re.search(r"[\x00-\x09\x0b-\x1f\u202e]", out)
    assert r"\x1b]0;owned\x07\n" in out


def test_long_streams_are_shortened(run: Run, tmp_path: Path) -> None:
    texts = encode(r.String(1, "x" * 64)) + encode(r.String(2, "y" * 1001))
    _, out = run(write(tmp_path / "a.fxt", CLEAN + texts), "--type", "String")
    whole, cut = out.split("\n\n")
    assert whole.count("78 78 78 78 78 78 78 78") == 8
    assert "more words" not in whole
    assert cut.count("79 79 79 79 79 79 79 79") == 6
    assert "... 119 more words\n" in cut
    assert "\n00000458  79 00 00 00 00 00 00 00" in cut
    assert max(map(len, out.splitlines())) < 160


def test_color_is_for_terminals(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.fxt", CLEAN + bytes(8) + CLEAN)
    plain = run(path)[1]
    monkeypatch.setattr(console, "has_color", lambda: True)
    colored = run(path)[1]
    assert "\x1b[" not in plain
    assert "\x1b[31m! warning" in colored
    assert re.sub(r"\x1b\[\d+m", "", colored) == plain


@pytest.mark.parametrize(
    ("terminal", "environment", "expected"),
    [
        (True, {"TERM": "xterm"}, True),
        (False, {"TERM": "xterm"}, False),
        (True, {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (True, {"TERM": "dumb"}, False),
    ],
)
def test_when_there_is_color(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, environment: dict[str, str], expected: bool
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    assert console.has_color() is expected
