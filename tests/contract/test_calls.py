"""A call of a writer writes all of its records or nothing, whatever its arguments are.

Every public method of every writer, and of the objects that writers return, is called with absurd values in place of
each argument and each part of an argument.  Either the call raises `EncodeError`, and the trace is that of a writer
without the call, what is written later included; or the trace is read back without a finding.
"""

from __future__ import annotations

import inspect
import io
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

import fxtio
from contract.calls.case import ABSURD, ABSURD_COLUMNS, Call, FormatCalls, Opened, fields_of
from contract.calls.case import Path as Way
from contract.samples import files_of
from fxtio.errors import EncodeError
from fxtio.formats import formats

COVERED_ELSEWHERE = {"close", "copy"}
"""Methods that take no values of a trace, see `test_writing`."""

SHARE = {20: 6, 30: 4}.get(settings().max_examples, 1)
"""One of this many absurd values is tried in each place, they take turns; all of them in the profile `fuzz`."""

DIRECTORIES = {name for name, item in formats().items() if item.directory}

every_format = pytest.mark.parametrize("name", formats())


@cache
def cases(name: str) -> FormatCalls:
    """Return the module with the calls of a format."""
    module: Any = import_module(f"contract.calls.{name}")
    return module  # type: ignore[no-any-return]


class Run:
    """A trace that is written by `begin`, perhaps a call, and `end`.

    Args:
        name: the format.
        folder: where directories are written.
        options: those of the writer.
    """

    def __init__(self, name: str, folder: Path, options: dict[str, Any]) -> None:
        self.name = name
        self.case = cases(name)
        self.target: Any = io.BytesIO()
        if name in DIRECTORIES:
            self.target = folder / str(sum(1 for _ in folder.iterdir()))
        self.opened = self.case.begin(fxtio.create(self.target, format=name, **options))

    def call(self, call: Call) -> None:
        """Call a method, and use what it returned."""
        self.case.use(self.opened, call, call())

    def finish(self) -> Any:
        """Write the rest, and return the bytes, or the files of the directory."""
        self.case.end(self.opened)
        self.opened.writer.close()
        return self.target.getvalue() if isinstance(self.target, io.BytesIO) else files_of(self.target)

    def findings(self) -> list[str]:
        """Read the trace in all ways, and return the findings that odd values do not explain."""
        target = self.target.getvalue() if isinstance(self.target, io.BytesIO) else self.target
        with fxtio.open(target, format=self.name) as trace:
            for _ in trace.records():
                pass
            found = list(trace.findings)
            trace.tables(*trace.table_names)
            return [str(each) for each in [*found, *trace.findings] if each.rule not in self.case.FINDINGS]


def place(call: str, way: Way) -> str:
    """Return the name of a part of the arguments of a call."""
    return f"{call}({'.'.join(map(str, way))})"


class Faults:
    """What is wrong with the calls of a format, counted by call and parameter so that the list stays short."""

    def __init__(self) -> None:
        self.lines: dict[str, str] = {}

    def add(self, call: str, way: Way, value: Any, fault: str) -> None:
        """Add a fault of a call with a value in place of a part of its arguments."""
        where = place(call, way)
        kind = fault.partition("(")[0]
        self.lines.setdefault(f"{where}: {kind}", f"{where} = {repr(value)[:40]}: {fault[:200]}")

    def check(self) -> None:
        """Fail if there are any."""
        lines = self.lines.values()
        assert not lines, f"{len(lines)} parameters:\n" + "\n".join(list(lines)[:40])


def variants(name: str, opened: Opened) -> Iterator[tuple[int, Way, Any]]:
    """Yield the number of a call, the way to a part of its arguments, and the value to put there."""
    calls = cases(name).calls(opened)
    places = [(number, way, value) for number, call in enumerate(calls) for way, value in call.paths()]
    for index, (number, way, value) in enumerate(places):
        values = [*ABSURD, *ABSURD_COLUMNS] if isinstance(value, list | tuple | np.ndarray) else ABSURD
        for absurd in values[index % SHARE :: SHARE]:
            if not same(absurd, value):
                yield number, way, absurd


def same(one: Any, other: Any) -> bool:
    """Return whether two values mean the same in a call, such as True and 1, or an empty tuple and an empty text."""
    one, other = (value.tolist() if isinstance(value, np.ndarray) else value for value in (one, other))
    if isinstance(other, list) and isinstance(one, int | float | str) and other:
        return all(one == each for each in other)  # one value for all rows of a table
    if isinstance(one, str | bytes | list | tuple | dict) and isinstance(other, str | bytes | list | tuple | dict):
        return [*one] == [*other]
    return bool(one == other)


@pytest.mark.full
@pytest.mark.once
@every_format
def test_a_call_writes_all_or_nothing(name: str, tmp_path: Path) -> None:
    faults = Faults()
    for options in cases(name).WRITERS:
        start = partial(Run, name, tmp_path, options)
        without = start().finish()
        valid: dict[int, Any] = {}
        for number, way, value in variants(name, start().opened):
            if number not in valid:
                valid[number] = check_valid(start(), number, without)
            check_absurd(start, number, way, value, without, valid[number], faults)
    faults.check()


def check_valid(run: Run, number: int, without: Any) -> Any:
    """Check that a valid call is accepted, and return what is written with it."""
    call = run.case.calls(run.opened)[number]
    run.call(call)
    written = run.finish()
    assert run.findings() == [] or str(call) in run.case.UNCHECKED, str(call)
    assert (written == without) == (str(call) in run.case.WRITES_NOTHING), str(call)
    return written


def check_absurd(
    start: Callable[[], Run], number: int, way: Way, value: Any, without: Any, valid: Any, faults: Faults
) -> None:
    """Check a call with a value in place of a part of its arguments."""
    run = start()
    call = run.case.calls(run.opened)[number]
    try:
        call.replace(way, value)
    except (TypeError, ValueError):
        return  # an argument cannot have such a part
    try:
        run.call(call)
    except EncodeError:
        if run.finish() != without:
            faults.add(str(call), way, value, "refused, but something was written")
    except Exception as error:  # noqa: BLE001  # whatever it is, it is the fault that is looked for
        faults.add(str(call), way, value, f"raises {error!r}")
    else:
        check_accepted(run, str(call), way, value, valid, faults)


def check_accepted(run: Run, call: str, way: Way, value: Any, valid: Any, faults: Faults) -> None:
    """Check the trace of a call that was accepted, with a value in place of another one."""
    try:
        written = run.finish()
        found = run.findings()
    except Exception as error:  # noqa: BLE001  # whatever it is, it is the fault that is looked for
        if call in run.case.UNCHECKED and isinstance(error, EncodeError):
            return  # what `end` writes may not fit after it
        faults.add(call, way, value, f"accepted, raises later {error!r}")
        return
    if found and call not in run.case.UNCHECKED:
        faults.add(call, way, value, f"accepted, but {found[0]}")
    if written == valid and place(call, way) not in run.case.IGNORED and call not in run.case.WRITES_NOTHING:
        faults.add(call, way, value, "accepted, but makes no difference")


@every_format
def test_integers_of_numpy_are_integers(name: str, tmp_path: Path) -> None:
    faults = Faults()
    for options in cases(name).WRITERS:
        start = partial(Run, name, tmp_path, options)
        valid: dict[int, Any] = {}
        for number, call in enumerate(cases(name).calls(start().opened)):
            for way, value in call.paths() if call.method != "put" else ():  # `put` takes records as they are
                if type(value) is int and not of_a_record(call, way):
                    valid.setdefault(number, call_with(start(), number))
                    check_numpy_integers(start, number, way, value, valid[number], faults)
    faults.check()


def of_a_record(call: Call, way: Way) -> bool:
    """Return whether a part of the arguments of a call is one of a record or another object with fields."""
    return any(fields_of(call.part(way[:length])) for length in range(1, len(way)))


def call_with(run: Run, number: int, way: Way = (), value: Any = None) -> Any:
    """Return what is written with a call, with a value in place of a part of its arguments if `way` names one."""
    call = run.case.calls(run.opened)[number]
    if way:
        call.replace(way, value)
    run.call(call)
    return run.finish()


def check_numpy_integers(
    start: Callable[[], Run], number: int, way: Way, value: int, valid: Any, faults: Faults
) -> None:
    """Check that a call with integers of numpy in place of an integer writes the same."""
    for kind in (np.int64 if value < 2**63 else np.uint64, np.min_scalar_type(value).type):
        run = start()
        name = str(run.case.calls(run.opened)[number])
        try:
            if call_with(run, number, way, kind(value)) != valid:
                faults.add(name, way, kind(value), "accepted, but makes a difference")
        except Exception as error:  # noqa: BLE001  # whatever it is, it is the fault that is looked for
            faults.add(name, way, kind(value), f"raises {error!r}")


@every_format
def test_options_of_a_writer_are_checked(name: str, tmp_path: Path) -> None:
    faults = Faults()
    for options in cases(name).OPTIONS:
        for option in options:
            for value in ABSURD:
                call = formats()[name].writer
                (below := tmp_path / str(sum(1 for _ in tmp_path.iterdir()))).mkdir()
                try:
                    run = Run(name, below, options | {option: value})
                except EncodeError:
                    continue
                except Exception as error:  # noqa: BLE001  # whatever it is, it is the fault that is looked for
                    faults.add(call, (option,), value, f"raises {error!r}")
                    continue
                check_accepted(run, call, (option,), value, None, faults)
    faults.check()


@every_format
def test_every_public_method_is_called(name: str, tmp_path: Path) -> None:
    opened = [Run(name, tmp_path, options).opened for options in cases(name).WRITERS]
    called = {(type(call.target), call.method) for each in opened for call in cases(name).calls(each)}
    classes = {type(opened[0].writer), *map(type, opened[0].objects)}
    for cls in classes:
        missing = {
            method
            for method, _ in inspect.getmembers(cls, inspect.isfunction)
            if not method.startswith("_") and (cls, method) not in called
        }
        assert not missing - COVERED_ELSEWHERE, cls
        for method, function in inspect.getmembers(cls, inspect.isfunction):
            returned = vars(sys.modules[cls.__module__]).get(str(function.__annotations__.get("return")))
            if not method.startswith("_") and has_methods(returned):
                assert returned in classes, f"{cls.__name__}.{method} returns an object with methods"


def has_methods(cls: Any) -> bool:
    """Return whether a class of the package has public methods, other than those of records."""
    if not isinstance(cls, type) or not cls.__module__.startswith("fxtio.") or hasattr(cls, "__struct_fields__"):
        return False
    return any(not method.startswith("_") for method, _ in inspect.getmembers(cls, inspect.isfunction))
