"""Tracing of whole programs: every call of a Python function that passes the filter.

From CPython 3.12 on the engine is `sys.monitoring`: the filter is asked once per code object, and excluded code then
runs at full speed.  On CPython 3.11 it is a profile function in C, which sees every call.

What it costs to record a call is measured when a recording starts.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterable
from fnmatch import translate
from functools import cache
from itertools import repeat
from time import perf_counter_ns  # as it is now: programs patch it
from types import CodeType, MethodDescriptorType, ModuleType
from typing import Any

from fxtio.fxt.constants import MAX_ARGUMENTS
from fxtio.tracer import monitor, plain, tracks
from fxtio.tracer.backend import recorder
from fxtio.tracer.clock import RecordingClock
from fxtio.tracer.interrupts import interrupts

CATEGORY = "function"
"""The category of functions, unless their decorator names another."""

PACKAGE_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
"""The folder of our own code, which is never recorded."""

DISGUISE = "fxtio: "
"""How the qualified names begin of our own functions whose file is that of another library."""

_REMOTE_SCRIPT = "fxtio.tracer.startup"
"""A name that only code has which `fxtio attach` sends by `sys.remote_exec`; its file is `<string>`."""

_OWN_MODULES = "fxtio."
_SEPARATOR = os.sep
_VARARGS, _VARKEYWORDS = 0x04, 0x08  # of inspect, which takes long to import
_OWNERS = (("self",), ("cls",))
_PLACE = 2  # arguments that say where the function is defined

_CELL = "<ipython-input-"
"""The start of the file names of cells in IPython."""

_FOLDER_OF_CELLS = "ipykernel_"
"""The start of the name of the folder in which ipykernel pretends that cells are."""

_MAIN = "__main__"


class FunctionNames:
    """Gives functions at different places different names, since all that a trace tells of a function is its name.

    Lambdas have one name, and the parts of a property, and functions of different files.
    """

    def __init__(self) -> None:
        self._places: dict[str, dict[str, Any]] = {}

    def of(self, name: str, place: dict[str, Any]) -> str:
        """Return a name of a function: its own one, or with the place if a function at another place has that.

        The place is what `place_of` returns.
        """
        file, line = place["file"], place["line"]
        for result in (name, f"{name} ({file.rpartition(_SEPARATOR)[2]}:{line})", f"{name} ({file}:{line})"):
            if self._places.setdefault(result, place) == place:
                break
        return result


class Filter:
    """Decides which functions are recorded, by the options of a recording of these names.

    The machinery of imports and threads is left out unless it is included by name.
    """

    def __init__(
        self,
        include: Iterable[str] = (),
        exclude: Iterable[str] = (),
        args: Iterable[str] = (),
        results: Iterable[str] = (),
    ) -> None:
        self._include = tuple(map(_Pattern, include))
        self._exclude = tuple(map(_Pattern, exclude))
        self._args = tuple(map(_Pattern, args))
        self._results = tuple(map(_Pattern, results))
        self._names = FunctionNames()

    def unmatched(self) -> list[tuple[str, str]]:
        """Return what was not found in the program so far, as pairs of an option and what it names."""
        options = {"include": self._include, "args": self._args, "results": self._results}
        return [(name, each.text) for name, patterns in options.items() for each in patterns if not each.is_used]

    def site_of(self, code: CodeType) -> Any:
        """Return how the calls of a function are recorded, as the recorder takes it from its code hook.

        Returns:
            None if they are not; the call site; or a tuple of the call site, the names of the arguments to record, and
            whether to record the result.
        """
        if not self.accepts(code):
            return None
        if not (self._args or self._results):
            return self._site(code)
        path = plain.text(code.co_filename)
        name = f"{module_of(path)}.{code.co_qualname}"
        keys = _arguments_of(code) if _matches(self._args, name, path) else ()
        return self._site(code, keys), keys or None, _matches(self._results, name, path)

    def _site(self, code: CodeType, keys: tuple[str, ...] = ()) -> Any:
        """Return the call site of a function, named by module and qualified name; `keys` are recorded arguments."""
        place = place_of(code)
        name = f"{module_of(plain.text(code.co_filename))}.{code.co_qualname}"
        return recorder.Site(CATEGORY, self._names.of(name, place), keys, **place)

    def accepts(self, code: CodeType) -> bool:
        """Return whether the function with this code is recorded."""
        path = plain.text(code.co_filename)
        if path.startswith(PACKAGE_FOLDER) or code.co_qualname.startswith(DISGUISE) or _REMOTE_SCRIPT in code.co_names:
            return False
        module = module_of(path)
        if self._include:
            return _matches(self._include, module, path) and not _matches(self._exclude, module, path)
        return not (_matches(_MACHINERY, module, path) or _matches(self._exclude, module, path))


def _is_path(pattern: str) -> bool:
    return _SEPARATOR in pattern or pattern.endswith(".py")


class _Pattern:
    """A module, a file or a folder to include or to exclude.

    Attributes:
        text: the pattern as it was given.
        is_used: whether it has matched anything.
    """

    def __init__(self, pattern: str) -> None:
        self.text, self.is_used = pattern, False
        self._folder = plain.absolute(pattern).rstrip(_SEPARATOR) if _is_path(pattern) else ""
        self._expression = translate(pattern) if any(letter in pattern for letter in "*?[") else ""

    def matches(self, module: str, path: str) -> bool:
        """Return whether the file at a path, which holds a module, is meant."""
        if self._folder:
            result = f"{plain.file_of_code(path)}{_SEPARATOR}".startswith(f"{self._folder}{_SEPARATOR}")
        else:
            result = module == self.text or module.startswith(f"{self.text}.")
            result = result or (self._expression != "" and re.match(self._expression, module) is not None)
        self.is_used |= result
        return result


_MACHINERY = (_Pattern("importlib"), _Pattern("threading"))


def _matches(patterns: tuple[_Pattern, ...], module: str, path: str) -> bool:
    answers = [pattern.matches(module, path) for pattern in patterns]  # of each, so that each knows whether it matches
    return any(answers)


def absolute_pattern(pattern: str) -> str:
    """Return the pattern of a file or folder as an absolute path, since the working directory may change.

    The pattern of a module is returned as it is.
    """
    return plain.absolute(pattern) if _is_path(pattern) else pattern


def is_cell(file: str) -> bool:
    """Return whether a file is the cell of a notebook, as IPython and ipykernel name them."""
    folder = file.rpartition(_SEPARATOR)[0].rpartition(_SEPARATOR)[2]
    return file.startswith(_CELL) or folder.startswith(_FOLDER_OF_CELLS)


@cache
def module_of(path: str) -> str:
    """Return the module that a file holds, by its place: `json.decoder` for `.../lib/python3.12/json/decoder.py`.

    The cells of a notebook are the module `__main__`.
    """
    if is_cell(path):
        return _MAIN
    if path.startswith("<"):
        return plain.frozen_module(path) or path
    path = plain.absolute(path)
    folders = [folder for folder in plain.import_folders() if path.startswith(f"{folder}{_SEPARATOR}")]
    longest = max(map(len, folders), default=path.rfind(_SEPARATOR))
    inside = path[longest + 1 :]
    folder, dot, _ = inside.rpartition(".")
    name = folder if dot and folder and _SEPARATOR not in inside[len(folder) :] else inside
    return name.replace(_SEPARATOR, ".").removesuffix(".__init__")


def _arguments_of(code: CodeType) -> tuple[str, ...]:
    """Return the names of the arguments of a function that are recorded: as many as an event holds, without `self`."""
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & _VARARGS) + bool(code.co_flags & _VARKEYWORDS)
    names = code.co_varnames[:count]
    return tuple([name for name in names[names[:1] in _OWNERS :] if name.isidentifier()])[: MAX_ARGUMENTS - _PLACE]


def place_of(code: CodeType) -> dict[str, Any]:
    """Return where a function is defined, as a call site takes it: its file and line."""
    return {"file": plain.file_of_code(plain.text(code.co_filename)), "line": code.co_firstlineno}


def site_of_builtin(function: Any) -> Any:
    """Return the call site of a C function, named by module or class and its name, or None for our own functions."""
    name = function.__name__
    if type(function) is MethodDescriptorType:
        owner = function.__objclass__
    elif plain.is_a(function.__self__, ModuleType):
        module = plain.module_name(function.__self__)
        return None if module.startswith(_OWN_MODULES) else recorder.Site(CATEGORY, f"{module}.{name}")
    else:
        bound = function.__self__
        owner = plain.owner_of(name, bound if plain.is_a(bound, type) else type(bound))
    module = plain.module_of_class(owner)
    if module.startswith(_OWN_MODULES):
        return None
    return recorder.Site(CATEGORY, f"{module}.{plain.qualified_name(owner)}.{name}")


def start(accepted: Filter | None, c_functions: bool, max_depth: int, min_ticks: int) -> str:
    """Begin to record function calls, and return the name of the engine that does so.

    Args:
        accepted: which functions; None for only the decorated ones.
        c_functions: whether to record the C functions that accepted functions call.
        max_depth: calls nested deeper are left out; 0 for no limit.
        min_ticks: shorter calls are left out if nothing was recorded within them.
    """

    def hook(code: CodeType) -> Any:
        tracks.follow()  # which the program may have imported since
        return accepted.site_of(code) if accepted is not None else None

    c_functions = c_functions and accepted is not None
    recorder.functions(
        None if accepted is None else hook, site_of_builtin if c_functions else None, max_depth, min_ticks
    )
    if monitor.AVAILABLE:
        if not monitor.acquire():
            return "none: other tools use all ids of sys.monitoring"
        monitor.watch_all(functions=accepted is not None, calls=c_functions)
        return "sys.monitoring"
    if accepted is None:
        return "wrappers"
    if sys.version_info < (3, 12):  # the recorder has these functions only where there is no monitoring
        threading.setprofile(recorder.profile_here)
        recorder.profile_threads(True)
    return "profile"


def stop() -> None:
    """End the recording of function calls."""
    if monitor.AVAILABLE:
        monitor.release()
    elif sys.version_info < (3, 12) and threading.getprofile() is recorder.profile_here:
        recorder.profile_threads(False)
        threading.setprofile(None)
    recorder.functions(None, None, 0, 0)


_CALLS, _ROUNDS = 200, 5
_MAX_COST = (1 << 32) - 1


def call_cost(clock: RecordingClock) -> int:
    """Return how many nanoseconds it takes to record a call of a function; 0 where that cannot be measured.

    Calls of an empty function are recorded, and thrown away, before the recording begins.  Nothing else is monitored
    meanwhile, and it takes less than a millisecond.
    """
    if not (monitor.AVAILABLE and hasattr(os, "memfd_create")):
        return 0
    plain = _shortest()
    try:
        fd = os.memfd_create("fxtio")
    except OSError:
        return 0
    try:
        return min(max(_shortest_recorded(clock, fd) - plain, 0) // _CALLS, _MAX_COST)
    except (OSError, RuntimeError, MemoryError):  # the recording that follows says what is wrong
        return 0
    finally:
        os.close(fd)


def _shortest_recorded(clock: RecordingClock, fd: int) -> int:
    """Return what `_shortest` does while the calls are recorded to a file."""
    end = recorder.PAGE_BYTES
    os.ftruncate(fd, end)
    hooks = dict.fromkeys(("thread_hook", "value_hook", "task_hook", "slow_hook"))
    recorder.start(
        owner=None, fd=fd, definitions=0, end=end, limit=0, ring=0, has_counter=clock.has_counter, base=clock.base,
        step=clock.step, only=None, without=None, slow=0, blocking=0, interrupt_hook=interrupts, **hooks,
    )  # fmt: skip
    try:
        start(None, c_functions=False, max_depth=0, min_ticks=0)
        recorder.functions(_empty_site, None, 0, 0)
        monitor.watch(_empty.__code__)
        return _shortest()
    finally:
        stop()
        recorder.stop()


def _empty() -> None:
    pass


def _empty_site(_: Any) -> Any:
    return recorder.Site(CATEGORY, _empty.__name__)


def _shortest() -> int:
    """Return the shortest of several times that calls of the empty function take, in nanoseconds."""
    times = []
    for _ in range(_ROUNDS):
        begin = perf_counter_ns()
        for _ in repeat(None, _CALLS):
            _empty()
        times.append(perf_counter_ns() - begin)
    return min(times)
