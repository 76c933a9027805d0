"""An argument of a wrong type is refused with a TypeError or an error of fxtio, never with an AttributeError."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fxtio
from contract.samples import SYNTHETIC, Sample, open_sample
from fxtio.errors import FxtioError
from fxtio.exchange.convert import convert
from fxtio.selection import Selection
from fxtio.timeline import answers
from support.exchange import Content

WRONG = [None, 5, 1.5, b"select 1", ["select 1"], object()]

FUNCTIONS: dict[str, Callable[[Any], object]] = {
    "open": fxtio.open,
    "open_timeline": fxtio.open_timeline,
    "create": fxtio.create,
}

METHODS: dict[str, Callable[[Any, Any], object]] = {
    "sql": lambda trace, value: trace.sql(value),
    "sql of the timeline": lambda trace, value: trace.timeline().sql(value),
    "table of the timeline": lambda trace, value: trace.timeline().table(value),
    "table": lambda trace, value: trace.table(value),
    "tables": lambda trace, value: trace.tables(value),
}


@pytest.mark.parametrize("value", WRONG, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions(function: str, value: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((TypeError, FxtioError)):
        FUNCTIONS[function](value)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sample", {sample.format.name: sample for sample in SYNTHETIC}.values(), ids=str)
def test_methods_of_traces(sample: Sample, method: str, tmp_path: Path) -> None:
    with open_sample(sample, tmp_path) as trace:
        for value in WRONG:
            with pytest.raises((TypeError, FxtioError, KeyError)):  # there is no table of such a name
                METHODS[method](trace, value)


ANSWERS = {name: getattr(answers, name) for name in answers.__all__ if inspect.isfunction(getattr(answers, name))}


READERS = {**ANSWERS, "convert": convert}
GIVEN: dict[str, dict[str, Any]] = {
    "lanes": {"start": 0, "end": 99, "cells": 3},
    "convert": {"target": "x.json"},
}
"""What the functions need besides a timeline."""

SENTENCE = re.compile(r".+ (is|are) .+, not \w+")
TIMELINE = Content(spans=[(0, 0, 100, "main"), (0, 10, 20, "a")])


def refusal(function: Callable[..., object], arguments: dict[str, Any]) -> str | None:
    """Return the message of the TypeError with which a function refuses arguments, None if it does not."""
    try:
        function(**arguments)
    except TypeError as error:
        return str(error)
    except FxtioError:
        pass
    return None


@pytest.mark.parametrize("name", READERS)
def test_each_argument_of_what_reads_timelines(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value is accepted, or refused with a sentence that says what is accepted."""
    monkeypatch.chdir(tmp_path)
    for parameter in inspect.signature(READERS[name]).parameters:
        messages = []
        for value in [*WRONG, "no such thing", TIMELINE]:
            given = {"timeline": TIMELINE.timeline(), **GIVEN.get(name, {}), parameter: value}
            messages.append(refusal(READERS[name], given))
        assert any(messages) or parameter == "strict", f"{name} accepts anything as {parameter}"
        assert all(message is None or SENTENCE.fullmatch(message) for message in messages), messages


def test_the_sentences(tmp_path: Path) -> None:
    with fxtio.create(tmp_path / "x.fxt") as writer:
        writer.thread(1, 2).complete("a", 0, 9)
    with fxtio.open(tmp_path / "x.fxt") as trace, pytest.raises(TypeError) as caught:
        answers.top(trace)  # type: ignore[arg-type]
    sentence = "a timeline is what fxtio.open_timeline or the method timeline() of a trace returns, not FxtTrace"
    assert str(caught.value) == sentence
    with pytest.raises(TypeError, match="a condition is a string such as size>4096, not int"):
        answers.Condition.parse(5)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["main", 5, [5], {"a": 1}], ids=str)
@pytest.mark.parametrize("name", ["threads", "processes", "categories", "names"])
def test_patterns_of_selections(name: str, value: Any) -> None:
    with pytest.raises(TypeError, match="the patterns of a selection are tuples of strings, not "):
        Selection(**{name: value})


@pytest.mark.parametrize("value", ["1s", 1.5, b"1"], ids=str)
def test_times_of_selections(value: Any) -> None:
    for name in ("start", "end"):
        with pytest.raises(TypeError, match="the times of a selection are whole numbers of nanoseconds or None, not"):
            Selection(**{name: value})
