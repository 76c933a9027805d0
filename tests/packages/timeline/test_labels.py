"""Labels of traces: what each format has of them, and what cutting, merging and converting leaves."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

import fxtio
import judges
from fxtio.exchange.convert import LossError, convert, exporters
from fxtio.fxt.enums import ObjectType
from fxtio.labels import OBJECT_KOID, OBJECT_NAME
from fxtio.selection import Selection
from fxtio.timeline.parts import MAX_LABELS
from fxtio.timeline.together import Together, placed
from judges import perfetto

NOW = 1_790_000_000 * 10**9
LABELS = {"build": "1a2b", "host": "wéb", "empty": ""} | {f"label {number}": str(number) for number in range(20)}


def labelled(labels: dict[str, str], *, name: str = "main") -> io.BytesIO:
    """Return a trace with labels."""
    file = io.BytesIO()
    with fxtio.create(file, format="fxt", wall_clock=NOW) as writer:
        pairs = [*labels.items()]
        for start in range(0, len(pairs), 15):
            writer.main.kernel_object(ObjectType.JOB, OBJECT_KOID, OBJECT_NAME, dict(pairs[start : start + 15]))
        writer.thread(7, 8, name, "program").complete("work", 100, 200)
    return io.BytesIO(file.getvalue())


WITH_LABELS = [name for name, exporter in exporters().items() if exporter.WRITES_LABELS]


@pytest.mark.parametrize("to", WITH_LABELS)
def test_formats_that_have_labels(to: str, tmp_path: Path) -> None:
    with fxtio.open_timeline(labelled(LABELS)) as timeline:
        assert not convert(timeline, tmp_path / "out", to="fxt")
        selection = Selection(names=("work",))  # what is selected is written anew, also where the format is the same
        assert not convert(timeline, tmp_path / "part", to=to, selection=selection)
    with fxtio.open_timeline(tmp_path / "part") as timeline:
        assert timeline.labels == LABELS
        assert timeline.table("slices")["name"].tolist() == ["work"]


@pytest.mark.parametrize("to", sorted(exporters().keys() - WITH_LABELS))
def test_formats_that_have_none_say_so(to: str, tmp_path: Path) -> None:
    with fxtio.open_timeline(labelled({"a": "b", "c": "d"})) as timeline:
        assert convert(timeline, tmp_path / "out", to=to)["labels"] == 2
        with pytest.raises(LossError, match="labels"):
            convert(timeline, tmp_path / "strict", to=to, strict=True)
    with fxtio.open_timeline(labelled({})) as timeline:
        assert "labels" not in convert(timeline, tmp_path / "none", to=to)


def test_the_first_trace_with_a_label_counts(tmp_path: Path) -> None:
    paths = [tmp_path / "a.fxt", tmp_path / "b.fxt"]
    for path, labels in zip(paths, ({"build": "1", "x": "y"}, {"build": "2", "host": "b"}), strict=True):
        path.write_bytes(labelled(labels).getvalue())
    expected = {"build": "1", "x": "y", "host": "b"}
    together = Together(placed([fxtio.open_timeline(path) for path in paths]))
    assert together.labels == {"build": "1", "x": "y"}  # the second one was not read
    assert len(together.table("slices")) == 2
    assert together.labels == expected
    convert(together, tmp_path / "all.pftrace")
    assert fxtio.open_timeline(tmp_path / "all.pftrace").labels == expected


def test_labels_and_clocks_before_anything_else() -> None:
    with fxtio.open_timeline(labelled({})) as timeline:
        assert timeline.clocks
        assert timeline.labels == {}
    with fxtio.open_timeline(labelled({"a": "b"})) as timeline:
        assert timeline.labels == {"a": "b"}
        assert timeline.clocks == {"realtime": NOW}


@pytest.mark.parametrize(
    ("kind", "koid", "name"),
    [
        (ObjectType.JOB, 5, OBJECT_NAME),
        (ObjectType.PROCESS, OBJECT_KOID, OBJECT_NAME),
        (ObjectType.JOB, OBJECT_KOID, "x"),
    ],
)
def test_other_objects_have_no_labels(kind: ObjectType, koid: int, name: str) -> None:
    file = io.BytesIO()
    with fxtio.create(file, format="fxt") as writer:
        writer.main.kernel_object(kind, koid, name, {"a": "b"})
        writer.main.kernel_object(ObjectType.JOB, OBJECT_KOID, OBJECT_NAME, {"number": 1, "": "nameless"})
    assert fxtio.open_timeline(io.BytesIO(file.getvalue())).labels == {}


def test_more_labels_than_are_kept() -> None:
    with fxtio.open_timeline(labelled({str(number): "x" for number in range(MAX_LABELS + 5)})) as timeline:
        timeline.table("slices")
        assert len(timeline.labels) == MAX_LABELS
        assert timeline.losses[f"labels beyond {MAX_LABELS:,}"] == 5


@pytest.mark.parametrize("to", WITH_LABELS)
def test_long_and_odd_labels(to: str, tmp_path: Path) -> None:
    other = {f"{number} {'n' * 500}": "ü" * 5_000 for number in range(20)} | {"k\ud800": "v\udfff", "\udc80": "x"}
    event = {"ph": "X", "name": "x", "ts": 1, "dur": 2, "pid": 3, "tid": 4}
    (tmp_path / "x.json").write_text(json.dumps({"traceEvents": [event], "otherData": other}))
    with fxtio.open_timeline(tmp_path / "x.json") as timeline:
        convert(timeline, tmp_path / "out", to=to)
        assert timeline.losses["labels that are cut, or are not UTF-8"] == 22
    with fxtio.open_timeline(tmp_path / "out") as timeline:
        assert timeline.table("slices").num_rows == 1
        assert len(timeline.labels) == 22
        assert timeline.labels["k\ufffd"] == "v\ufffd"
        assert timeline.labels[f"5 {'n' * 198}"] == "ü" * 2_000


def test_what_chrome_json_has(tmp_path: Path) -> None:
    other = {"version": "7", "cores": 8, "share": 0.5, "nested": {"a": 1}, "none": None, "yes": True, "list": []}
    event = {"ph": "X", "name": "x", "ts": 1, "dur": 2, "pid": 3, "tid": 4}
    (tmp_path / "x.json").write_text(json.dumps({"traceEvents": [event], "otherData": other}))
    with fxtio.open_timeline(tmp_path / "x.json") as timeline:
        assert timeline.labels == {"version": "7", "cores": "8", "share": "0.5"}


def test_resources_of_opentelemetry(tmp_path: Path) -> None:
    span = {"traceId": "1" * 32, "spanId": "2" * 16, "name": "x", "startTimeUnixNano": "1", "endTimeUnixNano": "5"}
    attributes = [
        {"key": "service.name", "value": {"stringValue": "shop"}},
        {"key": "service.version", "value": {"stringValue": "1.2"}},
        {"key": "process.pid", "value": {"intValue": "77"}},
        {"key": "cores", "value": {"intValue": "8"}},
    ]
    resource = {"resource": {"attributes": attributes}, "scopeSpans": [{"spans": [span]}]}
    (tmp_path / "x.otlp.jsonl").write_text(json.dumps({"resourceSpans": [resource]}) + "\n")
    with fxtio.open_timeline(tmp_path / "x.otlp.jsonl") as timeline:
        assert timeline.labels == {"service.version": "1.2", "cores": "8"}


def test_what_a_perfetto_trace_has(tmp_path: Path) -> None:
    """Perfetto 52, which judges here, does not know attributes: they are as its `trace_attributes.proto` says."""
    attribute = b"\x0a\x0c" + b"\x0a\x05build" + b"\x1a\x03" + b"1a2"
    attributes = b"\xf2\x07" + bytes([len(attribute)]) + attribute  # field 126 of a packet
    with fxtio.open_timeline(labelled({"build": "1a2"})) as timeline:
        convert(timeline, tmp_path / "x.pftrace")
    assert attributes in (tmp_path / "x.pftrace").read_bytes()
    number = b"\x0a\x08" + b"\x0a\x04year" + b"\x10\x05"
    packets = [b"\xf2\x07" + bytes([len(each)]) + each for each in (attribute, number)]
    data = b"".join(b"\x0a" + bytes([len(each)]) + each for each in packets)
    with fxtio.open_timeline(io.BytesIO(data), format="perfetto") as timeline:
        timeline.table("slices")
        assert timeline.labels == {"build": "1a2", "year": "5"}
        assert not timeline.losses


@pytest.mark.full
def test_perfetto_takes_labels(tmp_path: Path) -> None:
    judges.require(perfetto.available())
    with fxtio.open_timeline(labelled(LABELS)) as timeline:
        convert(timeline, tmp_path / "x.pftrace")
    with perfetto.load(tmp_path / "x.pftrace") as p:
        assert p.errors() == {}
        assert [span.name for span in p.slices()] == ["work"]
