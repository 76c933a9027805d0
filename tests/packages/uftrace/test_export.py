"""Arguments of slices in uftrace directories: what fits, what is counted as lost, and what uftrace prints."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fxtio
from fxtio import open_timeline
from fxtio.exchange.convert import convert
from fxtio.formats import by_name
from fxtio.fxt.records import Koid, Pointer
from fxtio.timeline import Timeline
from fxtio.uftrace.writer import UftraceWriter
from support.conversion import export
from support.uftrace_judge import needs_uftrace, run

NAMES = "names of arguments, which are arg1, arg2 and so on now"
Call = tuple[str, Mapping[str, Any], Any]  # name, arguments, result or ...


def written(path: Path, *calls: Call) -> Counter[str]:
    """Write calls to an FXT trace, convert it to a uftrace directory that breaks no rule; return what was lost."""
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        thread = writer.thread(1, 2)
        for number, (name, args, result) in enumerate(calls):
            thread.begin(name, 100 * number + 1, args=dict(args))
            thread.end(name, 100 * number + 50, args={} if result is ... else {"retval": result})
    with open_timeline(out.getvalue()) as timeline:
        losses = export(timeline, "uftrace", path)
    with fxtio.open(path) as trace:
        by_name("uftrace").rules.check(trace)
        assert [str(finding) for finding in trace.findings] == []
    return losses


def values_of(timeline: Timeline) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Return name, arguments, and arguments of the end of each slice."""
    tables = timeline.tables("slices", "args")
    args: dict[int, dict[str, Any]] = {}
    for row in tables["args"].rows():
        bits, kind = np.uint64(row["bits"]), row["type"]
        number = bits.view(np.int64) if kind == "integer" else bits.view(np.float64) if kind == "number" else bits
        args.setdefault(row["event"], {})[row["name"]] = row["text"] if kind == "text" else number.item()
        if kind == "null":
            args[row["event"]][row["name"]] = None
    rows = sorted(tables["slices"].rows(), key=lambda row: row["start"])
    return [(row["name"], args.get(row["event"], {}), args.get(row["end_event"], {})) for row in rows]


def read(path: Path) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    with open_timeline(path) as timeline:
        return values_of(timeline)


def test_every_type(tmp_path: Path) -> None:
    args = {"arg1": -5, "arg2": "text é", "fparg1": 1.5, "arg3": 2**63, "arg4": None, "fparg2": -0.25, "arg5": True}
    losses = written(tmp_path / "out", ("f", args, "done"), ("f", args, None), ("g", {"arg1": Pointer(7)}, 2.5))
    assert read(tmp_path / "out") == [
        ("f", {**args, "arg5": 1}, {"retval": "done"}), ("f", {**args, "arg5": 1}, {"retval": None}),
        ("g", {"arg1": 7}, {"retval": 2.5}),
    ]  # fmt: skip
    assert losses["arguments"] == losses[NAMES] == 0
    assert losses["types of arguments that are koids or booleans, which are numbers now"] == 1


def test_calls_that_differ_from_the_first_one(tmp_path: Path) -> None:
    losses = written(
        tmp_path / "out",
        ("f", {}, ...), ("f", {"n": 1, "m": 2}, 1), ("f", {"n": 1}, "text"), ("f", {"n": -2, "m": True}, -1),
        ("f", {"n": 1.5, "m": 2}, ...), ("f", {"m": 1, "n": 2}, ...), ("f", {"n": 2**63, "m": 0}, ...),
        ("a,b", {"n": 1}, 5), ("k", {"n": Koid(3)}, ...),
    )  # fmt: skip
    assert read(tmp_path / "out") == [
        ("f", {}, {}), ("f", {"arg1": 1, "arg2": 2}, {"retval": 1}), ("f", {}, {}),
        ("f", {"arg1": -2, "arg2": 1}, {"retval": -1}), ("f", {}, {}), ("f", {}, {}), ("f", {}, {}), ("a,b", {}, {}),
        ("k", {"arg1": 3}, {}),
    ]  # fmt: skip
    assert losses["arguments"] == 2 + 2 + 2 + 2 + 2
    assert losses[NAMES] == 3


def test_long_texts_are_cut(tmp_path: Path) -> None:
    losses = written(tmp_path / "out", ("f", {"arg1": "é" * 5000, "arg2": "x"}, "y" * 5000))
    [(_, args, result)] = read(tmp_path / "out")
    assert set(args["arg1"]) == {"é"}
    assert args["arg2"] == "x"
    assert set(result["retval"]) == {"y"}
    assert losses["texts of arguments that are too long, which are cut"] == 2
    assert losses["arguments"] == 0


VALUES = st.one_of(
    st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False), st.booleans(), st.none(),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=9),
)  # fmt: skip


@given(
    calls=st.lists(
        st.tuples(
            st.sampled_from("fg"), st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3), st.just(...) | VALUES
        ),
        min_size=1,
        max_size=6,
    )
)
def test_any_arguments_are_written_or_counted(calls: list[Call], tmp_path_factory: pytest.TempPathFactory) -> None:
    out = tmp_path_factory.mktemp("uftrace") / "out"
    losses = written(out, *calls)
    after = read(out)
    assert [name for name, *_ in after] == [name for name, *_ in calls]
    count = 0
    for (_, args, result), (_, new_args, new_result) in zip(calls, after, strict=True):
        assert sorted(map(repr, map(plain, new_args.values()))) in ([], sorted(map(repr, map(plain, args.values()))))
        assert [plain(value) for value in new_result.values()] in ([], [plain(result)])
        count += len(args) - len(new_args) + (result is not ...) - len(new_result)
    assert losses["arguments"] == count


def plain(value: Any) -> Any:
    return float(value) if isinstance(value, bool | int) else value


@pytest.mark.full
@pytest.mark.once
@needs_uftrace
def test_uftrace_prints_them(tmp_path: Path) -> None:
    calls: list[Call] = [
        ("render", {"page": "index", "size": 5, "share": 0.5}, -3),
        ("render", {"page": None, "size": -7, "share": 2}, 4),
    ]
    written(tmp_path / "out", *calls)
    lines = re.findall(r"render\(.*", run("replay", tmp_path / "out", "-f", "none").decode())
    assert lines == ['render("index", 5, 0.500000) = -3;', "render(NULL, -7, 2.000000) = 4;"]
    dump = run("dump", tmp_path / "out").decode()
    assert re.findall(r"args\[\d\] (.*)", dump)[:3] == ["str: index", f"i64: 0x{5:016x}", "f64: 0x3fe0000000000000"]


def test_threads_with_one_number_that_is_the_greatest(tmp_path: Path) -> None:
    numbers = [(1, 2**31 - 1), (2, 2**31 - 1), (3, 0), (4, -5)]
    events = [{"ph": "X", "ts": 1, "dur": 1, "name": f"of {pid}", "pid": pid, "tid": tid} for pid, tid in numbers]
    target = tmp_path / "data"
    with open_timeline(json.dumps(events).encode(), format="chrome") as timeline:
        losses = convert(timeline, target, to="uftrace")
    assert losses["numbers of threads that another thread has, or that are not positive or over 31 bits"] == 3
    with open_timeline(target) as timeline:
        threads, tracks, slices = timeline.tables("threads", "tracks", "slices").values()
    owners = tracks["thread"][slices["track"]]
    tids = dict(zip(slices["name"], threads["tid"][owners].tolist(), strict=True))
    assert tids["of 1"] == 2**31 - 1
    assert len({*tids.values()}) == 4


def test_specifications_that_come_later(tmp_path: Path) -> None:
    with UftraceWriter(tmp_path / "out") as writer:
        function = writer.function("f")
        task = writer.task(1)
        task.enter(function, 1)
        task.leave(2)
        with_argument = writer.specify(function, arguments="arg1/i32")
        whole = writer.specify(with_argument, returns="retval/s")
        assert writer.specify(whole, arguments="arg1/i32") == whole
        task.enter(whole, 3, 7)
        task.leave(4, "x")
        for refused in ({"arguments": "arg2/i32"}, {"returns": "arg1"}, {"arguments": "nonsense"}):
            with pytest.raises(fxtio.EncodeError):
                writer.specify(whole, **refused)
        with pytest.raises(fxtio.EncodeError, match="not declared by this writer"):
            writer.specify(function, returns="retval/s")  # it was replaced
        with pytest.raises(fxtio.EncodeError, match="unique"):
            writer.specify(writer.function("a;b"), arguments="arg1")
        writer.function("g", arguments="arg1")
        with pytest.raises(fxtio.EncodeError, match="another module"):
            writer.specify(writer.function("g", module="/lib/x.so"), arguments="arg1")
    assert read(tmp_path / "out") == [("f", {}, {}), ("f", {"arg1": 7}, {"retval": "x"})]
