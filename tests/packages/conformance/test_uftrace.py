"""Canonical JSON of uftrace directories, written: scenarios that list everything, and those that leave much open."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fxtio.conformance import canonical
from fxtio.errors import EncodeError, FxtioError
from support.checkout import CHECKOUT

Json = dict[str, Any]

CASES = CHECKOUT / "conformance" / "cases" / "uftrace"
WITHOUT_CHOICE = ("info", "task.txt", "events.txt")
LISTED = [
    path.with_suffix("")
    for kind in ("valid", "stories")
    for path in sorted((CASES / kind).glob("*.json"))
    if path.stem != "kernel"
]
"""The valid cases, without the one whose description does not list everything that the directory contains."""

START: list[Json] = [
    {"type": "session", "timestamp": "1", "pid": "1", "exename": {"text": "/x/prog"}},
    {"type": "task", "timestamp": "1", "tid": "1", "pid": "1"},
]


def written(records: list[Json], path: Path) -> list[Json]:
    """Write records, and return those that are read from the directory."""
    canonical.write({"format": "uftrace", "write": records}, path)
    result: list[Json] = canonical.read(path, "uftrace")["records"]
    return result


def call(kind: str, time: int, depth: int, tid: str = "1", **more: Any) -> Json:
    place = {"tid": tid, "timestamp": str(time), "depth": str(depth)}
    return {"type": kind, **place, "function": {"text": "f"}, **more}


def only(records: list[Json], tid: str, *keys: str) -> list[tuple[Any, ...]]:
    return [tuple(item.get(key) for key in keys) for item in records if item.get("tid") == tid and "count" not in item]


@pytest.mark.parametrize("case", LISTED, ids=lambda path: path.name)
def test_what_is_listed_is_written_byte_by_byte(case: Path, tmp_path: Path) -> None:
    records = json.loads(case.with_suffix(".json").read_text("utf-8"))["expect"]["records"]
    assert written(records, tmp_path / "x.data") == records
    exact = [path for path in case.iterdir() if path.name in WITHOUT_CHOICE or path.match("[0-9p]*.dat")]
    assert len(exact) > 2
    for path in exact:
        assert (tmp_path / "x.data" / path.name).read_bytes() == path.read_bytes(), path.name


def test_kernel_events_are_not_listed_with_everything(tmp_path: Path) -> None:
    records = json.loads((CASES / "valid/kernel.json").read_text("utf-8"))["expect"]["records"]
    with pytest.raises(EncodeError, match="records 'kernel-event' cannot be asked for exactly"):
        written(records, tmp_path / "x.data")


def test_a_kernel_event_needs_a_description(tmp_path: Path) -> None:
    event = {"type": "kernel-event", "cpu": "0", "timestamp": "5", "id": "300", "data": "00" * 8}
    with pytest.raises(EncodeError, match="no record 'kernel-format' describes the event 300"):
        written([*START, event], tmp_path / "a.data")
    with pytest.raises(EncodeError, match="is not the description of an event"):
        written(
            [*START, {"type": "kernel-format", "system": "demo", "description": {"text": "x"}}], tmp_path / "b.data"
        )


@pytest.mark.parametrize(
    "record",
    [{"type": "nonsense"}, {"type": "entry"}, call("entry", 5, 0, arguments=[{"type": "signed"}]), {"type": "fork"}],
)
def test_records_that_are_not_in_canonical_form(record: Json, tmp_path: Path) -> None:
    with pytest.raises(FxtioError):
        written([*START, record], tmp_path / "x.data")


@pytest.mark.parametrize("depth", [0, 1])
def test_a_copied_process_has_the_open_calls_that_its_records_need(depth: int, tmp_path: Path) -> None:
    fork = {"type": "fork", "timestamp": "15", "pid": "5", "ppid": "1"}
    calls = [call("entry", 10, 0), call("exit", 30, 0), call("entry", 20, depth, "5"), call("exit", 25, depth, "5")]
    records = written([*START, fork, *calls], tmp_path / "x.data")
    place = [("entry", "20", str(depth)), ("exit", "25", str(depth))]
    assert only(records, "5", "type", "timestamp", "depth") == place


def test_lost_records_stay_where_they_are(tmp_path: Path) -> None:
    lost = {"type": "lost", "tid": "1", "timestamp": "0", "count": "3"}
    asked = [call("entry", 10, 0), call("entry", 20, 1), lost, call("exit", 40, 0)]
    other = [call("entry", 15, 0, "2"), call("exit", 35, 0, "2")]
    task = {"type": "task", "timestamp": "2", "tid": "2", "pid": "1"}
    records = written([*START, task, *asked[:3], *other], tmp_path / "x.data")
    types = [item["type"] for item in records if item.get("tid") == "1" and item["type"] != "task"]
    assert types == ["entry", "entry", "lost"]


def test_enumerations_have_the_values_that_are_asked_for(tmp_path: Path) -> None:
    def value(number: int) -> list[Json]:
        return [{"name": "arg1", "type": "enumeration", "size": "8", "value": str(number)}]

    calls = [call("entry", 10, 0, arguments=value(7)), call("entry", 20, 1, arguments=value(0))]
    records = written([*START, *calls], tmp_path / "x.data")
    assert only(records, "1", "arguments")[1:] == [(value(7),), (value(0),)]
    assert b"enum f_arg1 {VALUE_0=0,VALUE_7=7}" in b"".join(
        path.read_bytes() for path in (tmp_path / "x.data").iterdir()
    ).replace(b" = ", b"=").replace(b", ", b",")


def test_a_second_session_is_an_exec(tmp_path: Path) -> None:
    session = {"type": "session", "timestamp": "50", "pid": "1", "exename": {"text": "/x/other"}}
    load = {"type": "dlopen", "timestamp": "60", "tid": "1", "libname": {"text": "/x/lib.so"}}
    calls = [call("entry", 10, 0), call("entry", 55, 0), call("entry", 70, 1, module={"text": "/x/lib.so"})]
    records = written([*START, session, load, *calls], tmp_path / "x.data")
    assert only(records, "1", "type", "depth")[-3:] == [("entry", "0"), ("entry", "0"), ("entry", "1")]
    files = {item["file"] for item in records if item["type"] == "symbol" and item["name"] == {"text": "f"}}
    assert files == {"prog.sym", "other.sym", "lib.so.sym"}
