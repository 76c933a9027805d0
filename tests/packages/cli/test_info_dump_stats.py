"""Tests of what `fxtio info`, `dump` and `stats` print about traces.

Errors and exit codes are tested in `test_process.py`; `explain`, `synth` and `merge` have files of their own.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import fxtio
import fxtio._native
from fxtio.cli import main
from fxtio.cli.parser import COMMANDS, parser_of
from fxtio.codec.canonical import type_of
from fxtio.codec.record import Opaque
from fxtio.fxt import FxtWriter, Koid, Pointer
from fxtio.fxt.records import RECORDS, DurationBegin, DurationComplete, ProviderEvent, String, Thread
from fxtio.report import json_lines
from support.checkout import CORPUS

pytestmark = pytest.mark.native

FXT = CORPUS / "fxt"
KNOWN: dict[str, Any] = json.loads((FXT / "files.json").read_text(encoding="utf-8"))
READERS = ("info", "dump", "stats")

Capture = pytest.CaptureFixture[str]


def known_classes(name: str) -> dict[str, int]:
    """Return the number of records of each class in a file of the corpus."""
    special = {"thread": "ThreadRecord"}
    return {special.get(kind, kind.title().replace("_", "")): n for kind, n in KNOWN[name]["counts"].items()}


def trace_of(write: Callable[[FxtWriter], object]) -> bytes:
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        write(writer)
    return out.getvalue()


def objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line, parse_constant=pytest.fail) for line in text.splitlines()]


ODD = {"ocaml-trace-second.fxt"}
"""Files with a warning: the length of the provider's name is counted in words."""

WELL_FORMED = sorted(name for name in KNOWN if "malformed" not in KNOWN[name]["counts"])


# ------------------------------------------------------------------------------------------------------- info and dump


@pytest.mark.full
@pytest.mark.parametrize("name", WELL_FORMED)
def test_counts_of_the_corpus(name: str, capsys: Capture) -> None:
    path = str(FXT / name)
    assert main(["info", "--json", path]) == (name in ODD)
    info = json.loads(capsys.readouterr().out)
    assert (info["size"], info["records"]) == (KNOWN[name]["bytes"], known_classes(name))

    assert main(["dump", "--json", path]) == (name in ODD)
    lines = objects(capsys.readouterr().out)
    classes: tuple[type[Any], ...] = (*RECORDS.classes, Opaque)
    types = {cls.__name__: type_of(cls) for cls in classes}
    assert Counter(line["type"] for line in lines) == {types[cls]: n for cls, n in known_classes(name).items()}
    assert [line["offset"] for line in lines] == sorted({line["offset"] for line in lines})

    assert main(["stats", "--json", "--top", "1000", path]) == (name in ODD)
    stats = json.loads(capsys.readouterr().out)
    assert {row["type"]: row["records"] for row in stats["types"]} == known_classes(name)
    for table in ("types", "providers"):
        assert sum(row["bytes"] for row in stats[table]) == stats["bytes"] == KNOWN[name]["bytes"]
        assert sum(row["records"] for row in stats[table]) == stats["records"] == len(lines)


@pytest.mark.parametrize("name", [name for name in WELL_FORMED if "records" in KNOWN[name]])
def test_dump_prints_the_raw_fields(name: str, capsys: Capture) -> None:
    assert main(["dump", "--json", "--raw", str(FXT / name)]) == (name in ODD)
    for line, expected in zip(objects(capsys.readouterr().out), KNOWN[name]["records"], strict=True):
        if line["type"] == "opaque":  # it has padding that is not zero
            continue
        thread = line.get("thread")
        if isinstance(thread, dict):
            thread = [koid for koid in thread.values() if koid is not None]
        actual = {**line, "thread": thread, "end_timestamp": line.get("end")}
        keys = {"timestamp", "category", "name", "end_timestamp", "index", "provider", "value", "koid", "build_id"}
        if line["type"] != "thread":
            keys.add("thread")
        keys &= expected.keys()
        assert {key: actual[key] for key in keys} == {key: expected[key] for key in keys}
        if "args" in expected:
            args = [[arg["type"], arg["name"], arg.get("value")] for arg in line["arguments"]]
            assert args == expected["args"]


def test_info_for_people(capsys: Capture) -> None:
    assert main(["info", str(FXT / "magic-trace.fxt")]) == 0
    out = capsys.readouterr().out
    for text in ("little-endian", "969.1 KiB", "35,463", "329.913 us", "2022-04-20 01:45:13.989693 UTC"):
        assert text in out
    assert re.search(r"17,296\s+DurationBegin", out)
    assert re.search(r"1,000,000,000\s+jane_tracing", out)
    assert re.search(r"2\s+main", out)


def test_info_lists_a_limited_number_of_names(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "many.fxt"
    path.write_bytes(trace_of(lambda writer: [writer.thread(1, koid, f"thread {koid}") for koid in range(30)]))
    assert main(["info", str(path)]) == 0
    out = capsys.readouterr().out
    assert "thread 19" in out
    assert "thread 20" not in out
    assert "and 10 more" in out


def test_dump_for_people(capsys: Capture) -> None:
    assert main(["dump", str(FXT / "janestreet-demo.fxt")]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["0", "Magic"]
    assert ["120", "String", "index=103", 'text="mythread"'] in lines
    named = ["136", "KernelObject", "object_type=thread", "koid=2", 'name="mythread"', "args={process=koid(1)}"]
    assert named in lines
    span = ["224", "0.000010000", "DurationComplete", "1/2", "stuff", "my_funct", "dur=0.004990000"]
    assert [*span, '{my_funct="stuff"}'] in lines
    assert ["464", "0.020000000", "FlowEnd", "1/2", '""', '""', "id=1"] in lines


def test_dump_shows_slots(capsys: Capture) -> None:
    assert main(["dump", "--raw", str(FXT / "janestreet-demo.fxt")]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["520", "0.020000000", "Counter", "#1", "#104", "#105", "id=1", "{#104=2.5}"] in lines


def test_dump_stops_at_the_limit(capsys: Capture) -> None:
    assert main(["dump", "--limit", "5", str(FXT / "magic-trace.fxt")]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 5


def every_argument(writer: FxtWriter) -> None:
    args = {
        "null": None, "bool": True, "i32": -5, "u32": 1 << 31, "i64": -(1 << 63), "u64": (1 << 64) - 1, "f": 0.1,
        "nan": float("nan"), "inf": float("-inf"), "text": "a b", "pointer": Pointer(255), "koid": Koid(7),
        "blob": b"\x01\xff",
    }  # fmt: skip
    writer.thread(1, 2).complete("a name", 10, 15, args=args)
    writer.thread(1, 2).log("hello\nworld", 3)
    writer.thread(1, 2).large_blob("big", b"abc", 4)
    writer.put(Opaque((0x1D).to_bytes(8, "little")))
    writer.put(DurationBegin(5, 9, 77, 78, ()))
    writer.put(DurationComplete(10, Thread(1, 2), "", "backwards", (), 5))


def test_dump_every_argument(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "all.fxt"
    path.write_bytes(trace_of(every_argument))
    assert main(["dump", "--json", str(path)]) == 1
    lines = objects(capsys.readouterr().out)
    complete = next(line for line in lines if line["type"] == "duration-complete")
    assert [(arg["name"], arg["type"], arg.get("value")) for arg in complete["arguments"]] == [
        ("null", "null", None), ("bool", "bool", True), ("i32", "int32", -5), ("u32", "uint32", 1 << 31),
        ("i64", "int64", -(1 << 63)), ("u64", "uint64", (1 << 64) - 1), ("f", "double", 0.1), ("nan", "double", "NaN"),
        ("inf", "double", "-Infinity"), ("text", "string", "a b"), ("pointer", "pointer", 255), ("koid", "koid", 7),
        ("blob", "blob", "01ff"),
    ]  # fmt: skip
    assert (complete["time"], complete["end_time"], complete["thread"]) == (10, 15, {"process": 1, "thread": 2})
    assert next(line for line in lines if line["type"] == "large-blob-with-metadata")["payload"] == b"abc".hex()
    assert (lines[-3]["type"], lines[-3]["raw"]) == ("opaque", "1d00000000000000")
    assert (lines[-2]["thread"], lines[-2]["category"], lines[-2]["name"]) == (9, 77, 78)
    assert (lines[-1]["time"], lines[-1]["end_time"]) == (10, 5)

    assert main(["dump", str(path)]) == 1
    out = capsys.readouterr().out
    assert "dur=-0.000000005" in out
    assert "dur=0.000000005 {null=null, bool=true, i32=-5, u32=2147483648" in out
    assert 'nan=nan, inf=-inf, text="a b", pointer=0xff, koid=koid(7), blob=(2 bytes) 01ff}' in out
    assert 'message="hello\\nworld"' in out
    assert re.search(r"Opaque\s+\(8 bytes\) 1d00000000000000\n.* DurationBegin\s+#9\s+#77\s+#78\n", out)


def hostile_names(writer: FxtWriter) -> None:
    track = writer.thread(1, 2, "\x1b[31mred")
    track.instant("\x1b]0;title\x07\u202e\udcff", 1, category='#1 "x" = {', args={"k\n": "v\x9b"})


def test_hostile_text_is_escaped(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "hostile.fxt"
    path.write_bytes(trace_of(hostile_names))
    for verb in READERS:
        assert main([verb, str(path)]) == 1  # text that is not UTF-8 is a finding
        out = capsys.readouterr().out
        assert all(character.isprintable() or character == "\n" for character in out), verb
    assert main(["dump", str(path)]) == 1
    assert r'"#1 \"x\" = {" "\x1b]0;title\x07\u202e\xff" {"k\n"="v\x9b"}' in capsys.readouterr().out
    assert main(["dump", "--json", str(path)]) == 1
    instant = objects(capsys.readouterr().out)[-1]
    assert bytes.fromhex(instant["name"]["hex"]) == b"\x1b]0;title\x07\xe2\x80\xae\xff"
    assert main(["stats", "--json", str(path)]) == 1
    assert {"hex"} in [set(row["name"]) for row in json.loads(capsys.readouterr().out)["names"]]


CONTROLS = "".join(map(chr, (*range(0x20), *range(0x7F, 0xA0), 0x61C, 0x200E, 0x200F, 0x2028, *range(0x202A, 0x202F))))
"""C0, DEL, C1, and what changes the direction of text."""

MORE_ARGUMENTS = {
    "convert": ["{folder}/out.fxt"],
    "query": ["select * from slice cross join args"],
    "diff": ["{trace}", "--all"],
    "check": ["--baseline", "{trace}"],
}
"""What commands need besides a trace."""


def with_json(name: str) -> list[str]:
    """Return the option of a command for output as JSON, none if it has none."""
    actions = {option: action for action in parser_of(name)._actions for option in action.option_strings}
    if "--json" in actions:
        return ["--json"]
    return ["--report", "json"] if "json" in ((actions.get("--report") or actions["--help"]).choices or ()) else []


def texts_in(value: Any) -> Iterator[str]:
    """Yield all texts of a JSON value, those that are not UTF-8 decoded."""
    if isinstance(value, dict):
        if value.keys() == {"hex"}:
            yield os.fsdecode(bytes.fromhex(value["hex"]))
        yield from value
        value = [*value.values()]
    for each in value if isinstance(value, list) else []:
        yield from texts_in(each)
    if isinstance(value, str):
        yield value


@pytest.mark.parametrize("suffix", ["", "\udcff"], ids=["controls", "bytes"])
@pytest.mark.parametrize("command", [name for name in COMMANDS if with_json(name)])
def test_json_of_hostile_names_is_plain_and_true(
    command: str, suffix: str, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Every command prints the same JSON: ASCII without control characters, with the names as they are."""
    name = CONTROLS + suffix
    trace = tmp_path / f"{CONTROLS[1:].replace('/', '')}{suffix}.fxt"
    with fxtio.create(trace) as writer:
        track = writer.thread(1, 2, name, name)
        track.complete(name, 1, 2_000_000, category=name, args={name: name})
    more = [each.format(folder=tmp_path, trace=trace) for each in MORE_ARGUMENTS.get(command, [])]
    main([command, str(trace), *more, *with_json(command)])
    out = capsysbinary.readouterr().out.decode("ascii")
    assert all(" " <= character <= "~" or character == "\n" for character in out)
    documents = objects(out) if command == "dump" else [json.loads(out)]
    texts = set(texts_in(documents))
    known = {name, str(trace)} | ({name.replace("\udcff", "\ufffd")} if command == "query" else set())  # DuckDB's texts
    assert known & texts or command == "convert"


def test_json_of_lone_surrogates() -> None:
    """No reader gives them; what does not stand for a byte must still not be a traceback."""
    assert objects(json_lines(["a\ud800", {"\udcff\ud800": math.nan}])) == [
        {"hex": "61eda080"}, {r"\xff\ud800": "nan"},
    ]  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------- stats


def lossy(writer: FxtWriter) -> None:
    kernel = writer.thread(0, 5)
    for lost in (3, 4):
        args = {"num_records": lost, "num_bytes": 100 * lost}
        kernel.complete("drop_stats", 1, 2, category="kernel:meta", args=args)
    kernel.complete("drop_stats", 1, 2, category="mine", args={"num_records": 1})
    writer.main.buffer_filled_up()
    writer.put(ProviderEvent(1, 7))
    for record in [String(1, "one"), String(1, "two"), String(2, "three")]:
        writer.put(record)
    writer.put(DurationBegin(3, 9, 77, 2, ()))


def test_stats_of_losses(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "lossy.fxt"
    path.write_bytes(trace_of(lossy))
    assert main(["stats", "--json", str(path)]) == 1
    stats = json.loads(capsys.readouterr().out)
    assert stats["drops"] == {"buffer_filled_up": 1, "reports": 2, "records": 7, "bytes": 700}
    assert stats["strings"]["redefinitions"] == 3
    assert (stats["strings"]["undefined"], stats["threads"]["undefined"]) == (1, 1)
    assert stats["findings"]["counts"] == {
        "fxt.string.undefined": 1,
        "fxt.thread.undefined": 1,
        "fxt.provider.event": 1,
    }
    assert {"name": None, "records": 1, "bytes": 16} in stats["categories"]
    assert main(["stats", str(path)]) == 1
    out = capsys.readouterr().out
    assert "since a buffer filled up (reports: 1)" in out
    assert "7 records, 700 bytes (drop_stats events: 2)" in out
    assert "(undefined)" in out


def test_stats_lists_the_largest(capsys: Capture) -> None:
    assert main(["stats", "--top", "1", str(FXT / "magic-trace.fxt")]) == 0
    out = capsys.readouterr().out
    assert re.search(r"2,756\s+77,168\s+7.8%\s+rcu_read_unlock_strict\nand 857 more\n", out)
    assert re.search(r"34,592\s+968,720\s+97.6%\s+\"\"\n", out)


def test_stats_of_many_names_stay_bounded(capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("fxtio.fxt.report.MAX_TEXTS", 10)
    path = tmp_path / "names.fxt"

    def write(writer: FxtWriter) -> None:
        track = writer.thread(1, 2)
        for number in range(30):
            track.instant(f"name {number}", number, args={f"a{n}": n for n in range(10 if number == 7 else 0)})

    path.write_bytes(trace_of(write))
    assert main(["stats", str(path)]) == 0
    out = capsys.readouterr().out
    assert re.search(r"1\s+96\s.*name 7\n", out)
    assert "and 20 more" in out


def test_stats_of_bytes_outside_of_records(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "gap.fxt"
    whole = (FXT / "janestreet-demo.fxt").read_bytes()
    path.write_bytes(whole[:40] + bytes(24) + whole[40:] + b"end")
    assert main(["stats", "--json", str(path)]) == 1
    stats = json.loads(capsys.readouterr().out)
    assert (stats["bytes"], stats["bytes_outside_records"]) == (560, 27)
    assert main(["stats", str(path)]) == 1
    assert "27 bytes outside of records" in capsys.readouterr().out


ENDINGS = [("x.mlpd", "mono"), ("x.cpl.gz", "coreprofiler"), ("x", "fxt"), ("x.zst", "fxt")]


@pytest.mark.parametrize(("name", "expected"), ENDINGS)
def test_synth_takes_the_format_from_the_ending(name: str, expected: str, tmp_path: Path) -> None:
    assert main(["synth", "program", "-o", str(tmp_path / name), "--events", "100"]) == 0
    with fxtio.open(tmp_path / name) as trace:
        assert trace.format == expected
