"""Calls of C functions, recorded on request."""

from __future__ import annotations

import contextlib
import functools
from collections import Counter, OrderedDict
from pathlib import Path
from typing import Any

import pytest

import fxtio
from support.tracer_check import Seen, check_trace

pytestmark = pytest.mark.recorder


def work(numbers: list[int]) -> None:
    numbers.append(len(numbers))
    sorted(numbers, key=lambda number: -abs(number))
    list.sort(numbers)
    dict.fromkeys(numbers)
    OrderedDict(a=1).get("b")  # of its base class
    with contextlib.suppress(AttributeError):
        getattr(numbers, "there is none")
    functools.reduce(lambda total, other: total + other, numbers)


def record(out: Path, **options: Any) -> Seen:
    with fxtio.tracing(out, functions=True, include=[__file__], **{"c_functions": True} | options):
        work([-3, 1])
    return check_trace(out)


def test_c_functions_are_named_by_module_or_class(out: Path) -> None:
    seen = record(out)
    names = Counter(span.name for span in seen.spans())
    expected = {
        "builtins.len": 1, "builtins.list.append": 1, "builtins.sorted": 1, "builtins.abs": 3, "builtins.list.sort": 1,
        "builtins.dict.fromkeys": 1, "builtins.dict.get": 1, "builtins.getattr": 1, "_functools.reduce": 1,
    }  # fmt: skip
    assert {name: names[name] for name in expected} == expected
    assert not [name for name in names if name.startswith("fxtio")]
    assert {span.category for span in seen.spans()} == {"function"}


def test_c_functions_nest_with_python_functions(out: Path) -> None:
    seen = record(out)
    (outer,) = [span for span in seen.spans() if span.name.endswith(".work")]
    (by,) = seen.spans("builtins.sorted")
    keys = [span for span in seen.spans() if span.name.endswith(".work.<locals>.<lambda>")]
    assert outer.start < by.start < by.end < outer.end
    assert [by.start < key.start < key.end < by.end for key in keys].count(True) == 3
    assert all(span.depth == keys[0].depth + 1 for span in seen.spans("builtins.abs"))


def test_c_functions_are_recorded_only_on_request(out: Path) -> None:
    seen = record(out, c_functions=False)
    assert not [span for span in seen.spans() if span.name.startswith(("builtins", "_functools"))]


def test_calls_from_excluded_code_are_left_out(out: Path) -> None:
    def own() -> int:
        return len(str(OrderedDict(a=1)))

    with fxtio.tracing(out, functions=True, c_functions=True, include=[__file__], exclude=["collections"]):
        own()
        Counter("hello").most_common(1)  # in Python, which calls C functions
    names = [span.name for span in check_trace(out).spans()]
    assert names.count("builtins.len") == 1
    assert "builtins.sorted" not in names
    assert "heapq" not in {name.partition(".")[0] for name in names}


@pytest.mark.parametrize("options", [{"max_depth": 2}, {"min_duration": "1s"}], ids=str)
def test_limits_apply_to_c_functions(options: dict[str, Any], out: Path) -> None:
    spans = record(out, **options).spans()
    if "max_depth" in options:
        assert {span.depth for span in spans} == {1, 2}
        assert "builtins.len" in {span.name for span in spans}
    else:
        assert not [span.name for span in spans if span.name.startswith("builtins")]


def test_c_functions_that_a_decorated_function_calls(out: Path) -> None:
    @fxtio.trace
    def marked(text: str) -> int:
        return len(text)

    with fxtio.tracing(out, functions=True, c_functions=True, include=[__file__]):
        marked("four")
    seen = check_trace(out)
    (outer,) = seen.spans(marked.__qualname__)
    (inner,) = seen.spans("builtins.len")
    assert outer.start < inner.start < inner.end < outer.end


def test_c_functions_that_share_a_definition(out: Path) -> None:
    """A definition in C may be used by several functions with different names."""
    with fxtio.tracing(out, functions=True, c_functions=True, include=[__file__]):
        for text in ("one", "two"):
            text.upper()
            text.encode()
            {"a": 1}.get(text)
            {"b"}.add(text)
    names = Counter(span.name for span in check_trace(out).spans())
    for name in ("builtins.str.upper", "builtins.str.encode", "builtins.dict.get", "builtins.set.add"):
        assert names[name] == 2, name
