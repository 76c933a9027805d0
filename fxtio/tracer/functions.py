"""Tracing of whole programs: every call of a Python function that the filter lets through.

From CPython 3.12 on the engine is `sys.monitoring`; code that is left out is asked about once and then runs at full
speed.  Before, it is a profile function in C, which sees every call.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import cache
from types import CodeType, MethodDescriptorType, ModuleType
from typing import Any, cast

from fxtio.tracer import monitor
from fxtio.tracer.backend import recorder

CATEGORY = "function"
"""The category of functions that no decorator gave another one."""

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
"""Where our own code lies, which is of no interest."""

DISGUISED = "fxtio: "
"""How the qualified names of our own code begin that lies elsewhere, as it seems."""

_OURS = "fxtio."
_MACHINERY = ("importlib", "threading")


class Filter:
    """Which functions are recorded.

    Args:
        include: modules (`app`, `app.*`), files and folders; all, unless told.
        exclude: likewise, left out.  The machinery of imports and threads is left out unless it is
            included by name.
    """

    def __init__(self, include: Iterable[str] = (), exclude: Iterable[str] = ()) -> None:
        self._include = tuple(include)
        self._exclude = tuple(exclude)

    def wants(self, code: CodeType) -> bool:
        """Whether this function is recorded."""
        path = code.co_filename
        if path.startswith(HERE) or code.co_qualname.startswith(DISGUISED):
            return False
        module = module_of(path)
        if self._include:
            return _matches(self._include, module, path) and not _matches(self._exclude, module, path)
        return not (_matches(_MACHINERY, module, path) or _matches(self._exclude, module, path))


def _matches(patterns: tuple[str, ...], module: str, path: str) -> bool:
    for pattern in patterns:
        if os.sep in pattern or pattern.endswith(".py"):
            wanted = _absolute(pattern)
            if f"{_absolute(path)}{os.sep}".startswith(f"{wanted.rstrip(os.sep)}{os.sep}"):
                return True
        elif module == pattern or module.startswith(f"{pattern}.") or fnmatchcase(module, pattern):
            return True
    return False


def absolute(pattern: str) -> str:
    """A file or folder by its whole name, as a program and its children may go elsewhere; a module as it is."""
    return _absolute(pattern) if os.sep in pattern or pattern.endswith(".py") else pattern


def _absolute(path: str) -> str:
    try:
        return os.path.abspath(path)
    except OSError:  # the working directory is gone
        return path


@cache
def module_of(path: str) -> str:
    """The module that a file holds, by where it lies: `json.decoder` for `.../lib/python3.12/json/decoder.py`."""
    if path.startswith("<"):
        return path.removeprefix("<frozen ").removesuffix(">") if path.startswith("<frozen ") else path
    path, folders = _absolute(path), [_absolute(one) for one in cast("list[object]", sys.path) if isinstance(one, str)]
    longest = max((len(folder) for folder in folders if path.startswith(folder + os.sep)), default=-1)
    inside = path[longest + 1 :] if longest >= 0 else os.path.basename(path)
    name = os.path.splitext(inside)[0].replace(os.sep, ".")
    return name.removesuffix(".__init__")


def site_of(code: CodeType) -> Any:
    """The call site of a function: called by module and qualified name."""
    return recorder.Site(CATEGORY, f"{module_of(code.co_filename)}.{code.co_qualname}")


def site_of_builtin(function: Any) -> Any:
    """The call site of a C function: called by module or class and name; None for our own."""
    if isinstance(function, MethodDescriptorType):
        owner = function.__objclass__
    elif isinstance(function.__self__, ModuleType):
        module = function.__self__.__name__
        return None if module.startswith(_OURS) else recorder.Site(CATEGORY, f"{module}.{function.__name__}")
    else:
        classes = (function.__self__ if isinstance(function.__self__, type) else type(function.__self__)).__mro__
        owner = next((one for one in classes if function.__name__ in vars(one)), classes[0])
    if owner.__module__.startswith(_OURS):
        return None
    return recorder.Site(CATEGORY, f"{owner.__module__}.{owner.__qualname__}.{function.__name__}")


def start(wanted: Filter | None, c_functions: bool, max_depth: int, min_ticks: int) -> str:
    """Begin to record function calls.

    Args:
        wanted: which; None for none but decorated ones.
        c_functions: whether those of C functions are recorded that the wanted ones call.
        max_depth: calls nested deeper are left out; 0 for no limit.
        min_ticks: shorter calls are left out where nothing was recorded within.

    Returns:
        What records them.
    """

    def hook(code: CodeType) -> Any:
        return site_of(code) if wanted is not None and wanted.wants(code) else None

    c_functions = c_functions and wanted is not None
    recorder.functions(None if wanted is None else hook, site_of_builtin if c_functions else None, max_depth, min_ticks)
    if monitor.AVAILABLE:
        if not monitor.acquire():
            return "none: other tools hold all places of sys.monitoring"
        monitor.watch_all(functions=wanted is not None, calls=c_functions)
        return "sys.monitoring"
    if wanted is None:
        return "wrappers"
    threading.setprofile(recorder.profile_here)
    recorder.profile_threads(True)
    return "profile"


def stop() -> None:
    """Record no function calls any more."""
    if monitor.AVAILABLE:
        monitor.release()
    elif threading.getprofile() is recorder.profile_here:
        recorder.profile_threads(False)
        threading.setprofile(None)
    recorder.functions(None, None, 0, 0)
