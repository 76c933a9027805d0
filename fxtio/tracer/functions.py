"""Tracing of whole programs: every call of a Python function that passes the filter.

From CPython 3.12 on the engine is `sys.monitoring`: the filter is asked once per code object, and excluded code then
runs at full speed.  On CPython 3.11 it is a profile function in C, which sees every call.
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
"""The category of functions, unless their decorator names another."""

PACKAGE_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
"""The folder of our own code, which is never recorded."""

DISGUISE = "fxtio: "
"""How the qualified names begin of our own functions whose file is that of another library."""

_OWN_MODULES = "fxtio."
_MACHINERY = ("importlib", "threading")


class Filter:
    """Decides which functions are recorded.

    Args:
        include: modules (`app`, `app.*`), files and folders; everything if empty.
        exclude: modules, files and folders to leave out.  The machinery of imports and threads is left out unless it
            is included by name.
    """

    def __init__(self, include: Iterable[str] = (), exclude: Iterable[str] = ()) -> None:
        self._include = tuple(include)
        self._exclude = tuple(exclude)

    def accepts(self, code: CodeType) -> bool:
        """Return whether the function with this code is recorded."""
        path = code.co_filename
        if path.startswith(PACKAGE_FOLDER) or code.co_qualname.startswith(DISGUISE):
            return False
        module = module_of(path)
        if self._include:
            return _matches(self._include, module, path) and not _matches(self._exclude, module, path)
        return not (_matches(_MACHINERY, module, path) or _matches(self._exclude, module, path))


def _is_path(pattern: str) -> bool:
    return os.sep in pattern or pattern.endswith(".py")


def _matches(patterns: tuple[str, ...], module: str, path: str) -> bool:
    for pattern in patterns:
        if _is_path(pattern):
            folder = _absolute(pattern).rstrip(os.sep)
            if f"{_absolute(path)}{os.sep}".startswith(f"{folder}{os.sep}"):
                return True
        elif module == pattern or module.startswith(f"{pattern}.") or fnmatchcase(module, pattern):
            return True
    return False


def absolute_pattern(pattern: str) -> str:
    """Return the pattern of a file or folder as an absolute path, since the working directory may change.

    The pattern of a module is returned as it is.
    """
    return _absolute(pattern) if _is_path(pattern) else pattern


def _absolute(path: str) -> str:
    try:
        return os.path.abspath(path)
    except OSError:  # the working directory was removed
        return path


@cache
def module_of(path: str) -> str:
    """Return the module that a file holds, by its place: `json.decoder` for `.../lib/python3.12/json/decoder.py`."""
    if path.startswith("<"):
        return path.removeprefix("<frozen ").removesuffix(">") if path.startswith("<frozen ") else path
    path = _absolute(path)
    folders = [_absolute(entry) for entry in cast("list[object]", sys.path) if isinstance(entry, str)]
    longest = max((len(folder) for folder in folders if path.startswith(folder + os.sep)), default=-1)
    inside = path[longest + 1 :] if longest >= 0 else os.path.basename(path)
    name = os.path.splitext(inside)[0].replace(os.sep, ".")
    return name.removesuffix(".__init__")


def site_of(code: CodeType) -> Any:
    """Return the call site of a function, named by module and qualified name."""
    return recorder.Site(CATEGORY, f"{module_of(code.co_filename)}.{code.co_qualname}")


def site_of_builtin(function: Any) -> Any:
    """Return the call site of a C function, named by module or class and its name, or None for our own functions."""
    if isinstance(function, MethodDescriptorType):
        owner = function.__objclass__
    elif isinstance(function.__self__, ModuleType):
        module = function.__self__.__name__
        return None if module.startswith(_OWN_MODULES) else recorder.Site(CATEGORY, f"{module}.{function.__name__}")
    else:
        classes = (function.__self__ if isinstance(function.__self__, type) else type(function.__self__)).__mro__
        owner = next((cls for cls in classes if function.__name__ in vars(cls)), classes[0])
    if owner.__module__.startswith(_OWN_MODULES):
        return None
    return recorder.Site(CATEGORY, f"{owner.__module__}.{owner.__qualname__}.{function.__name__}")


def start(accepted: Filter | None, c_functions: bool, max_depth: int, min_ticks: int) -> str:
    """Begin to record function calls.

    Args:
        accepted: which functions; None for only the decorated ones.
        c_functions: whether to record the C functions that accepted functions call.
        max_depth: calls nested deeper are left out; 0 for no limit.
        min_ticks: shorter calls are left out if nothing was recorded within them.

    Returns:
        The name of the engine that records them.
    """

    def hook(code: CodeType) -> Any:
        return site_of(code) if accepted is not None and accepted.accepts(code) else None

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
