"""Tests of the JSON lines of CPython's sampling profiler: those of CPython 3.15, both versions, hostile files."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fxtio.exchange import by_content
from fxtio.timeline import Timeline
from support.checkout import CORPUS
from support.exchange import imported, weights

META = {"type": "meta", "v": 1, "run_id": "0", "sample_interval_usec": 1000, "mode": "wall"}
STRINGS = [{"str_id": 1, "value": "leaf"}, {"str_id": 2, "value": "a.py"}, {"str_id": 3, "value": "<GC>"}]
FRAMES = [
    {"frame_id": 1, "path_str_id": 2, "func_str_id": 1, "line": 7, "end_line": 7, "col": 0},
    {"frame_id": 2, "path_str_id": 2, "func_str_id": 3, "line": 0, "synthetic": True},
]
ENTRIES = [{"frame_id": 1, "self": 3, "cumulative": 5}, {"frame_id": 2, "self": 0, "cumulative": 0}]
END = {"type": "end", "v": 1, "run_id": "0", "samples_total": 3}


def read(*lines: Any) -> Timeline:
    return imported(
        "\n".join(each if isinstance(each, str) else json.dumps(each) for each in lines).encode(), "tachyon"
    )


def agg(entries: list[Any]) -> dict[str, Any]:
    return {"type": "agg", "kind": "frame", "scope": "final", "samples_total": 3, "entries": entries}


@pytest.mark.parametrize(
    "definitions",
    [
        [
            {"type": "str_def", "defs": STRINGS[:1]},
            {"type": "str_def", "defs": STRINGS[1:]},
            {"type": "frame_def", "defs": FRAMES},
        ],
        [{"type": "string_table", "strings": STRINGS}, {"type": "frame_table", "frames": FRAMES}],
    ],
)
def test_what_is_read(definitions: list[Any]) -> None:
    timeline = read(META, *definitions, agg(ENTRIES), END)
    assert weights(timeline) == {(("leaf",), "samples"): 3}
    assert [(row["name"], row["file"], row["line"]) for row in timeline.table("frames").rows()] == [
        ("leaf", "a.py", 7), ("<GC>", "a.py", -1),
    ]  # fmt: skip
    timeline.table("samples")
    assert timeline.losses == {"samples of what frames called": 2}


def test_a_profile_of_cpython() -> None:
    """The reference is the file itself, summed up by functions."""
    path = CORPUS / "tachyon" / "work.tachyon.jsonl"
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    texts = {each["str_id"]: each["value"] for each in lines[1]["strings"]}
    names = {each["frame_id"]: texts[each["func_str_id"]] for each in lines[2]["frames"]}
    sums: dict[Any, int] = {}
    for entry in lines[3]["entries"]:
        key = ((names[entry["frame_id"]],), "samples")
        sums[key] = sums.get(key, 0) + entry["self"]
    assert +weights(imported(path.read_bytes())) == {key: count for key, count in sums.items() if count}
    assert sum(sums.values()) == lines[-1]["samples_total"]


def test_several_profiles() -> None:
    definitions = [{"type": "str_def", "defs": STRINGS}, {"type": "frame_def", "defs": FRAMES}]
    other = [{"type": "str_def", "defs": [{"str_id": 1, "value": "other"}]}, {"type": "frame_def", "defs": FRAMES[:1]}]
    timeline = read(META, *definitions, agg(ENTRIES), END, META, *other, agg(ENTRIES), END)
    assert weights(timeline) == {(("leaf",), "samples"): 3, (("other",), "samples"): 3}


def test_what_is_wrong_is_counted() -> None:
    timeline = read(META, "{", {"type": "new"}, {"type": "str_def", "defs": [{"str_id": 1}]}, agg(ENTRIES))
    assert timeline.table("samples")["stack"].tolist() == [-1]
    assert timeline.losses == {
        "lines that cannot be read, or not to their end": 2,
        "lines of the type 'new'": 1,
        "samples of what frames called": 2,
        "frames of samples that are not defined": 1,
        "the end, which is missing": 1,
    }


def test_a_file_is_recognized() -> None:
    found = by_content(json.dumps(META).encode() + b"\n{")
    assert found is not None and found.name == "tachyon"
