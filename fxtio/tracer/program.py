"""Running a program as the interpreter itself would run it: the same `__main__`, arguments, path, errors and exit."""

from __future__ import annotations

import importlib.util
import io
import os
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import BuiltinImporter, PathFinder, SourceFileLoader
from types import CodeType, ModuleType, TracebackType
from typing import Any

_NO_CACHE: dict[str, None] = {"__cached__": None} if sys.version_info < (3, 15) else {}  # later ones lack the attribute


class ProgramError(Exception):
    """There is no such program; the message says what is missing."""


class Program:
    """A program that is ready to run.  Creating this object changes nothing in the interpreter.

    Args:
        arguments: its `sys.argv`, beginning with its name.
        first_path: the first entry of its `sys.path`.
        main: its `__main__` module.
        code: compiles its code.
    """

    def __init__(
        self, arguments: Sequence[str], first_path: str, main: ModuleType, code: Callable[[], CodeType]
    ) -> None:
        self._arguments = list(arguments)
        self._first_path = first_path
        self._main = main
        self._code = code

    def enter(self) -> None:
        """Set up the interpreter as if it had been started with the program."""
        sys.argv[:] = self._arguments
        if not sys.flags.safe_path:
            sys.path[0] = self._first_path
        sys.modules["__main__"] = self._main

    def run(self) -> None:
        """Run the program.  Its exceptions come out, without our own frames in their tracebacks."""
        try:
            exec(self._code(), self._main.__dict__)
        except SystemExit:
            raise
        except BaseException as error:
            _hide_frames(error.__traceback__)
            raise


def of_script(path: str, arguments: Sequence[str]) -> Program:
    """Return the program in a script, in a folder or zip file with a `__main__.py`, or on standard input (`-`).

    Raises:
        ProgramError: it cannot be read.
    """
    if path != "-" and (os.path.isdir(path) or _is_archive(path)):
        return _of_container(path, arguments)
    try:
        if path == "-" and sys.stdin is None:
            raise ProgramError("standard input is closed")
        source = sys.stdin.buffer.read() if path == "-" else _read(path)
    except OSError as error:
        raise ProgramError(f"{path or repr(path)}: {error.strerror}") from None
    if path == "-":
        name, main, first = "<stdin>", _main_module(None), ""
        vars(main).update(__file__=name, **_NO_CACHE)
    else:
        name = os.path.join(os.getcwd(), path)
        main, first = _main_module(name), os.path.dirname(os.path.realpath(path))
    return Program([path, *arguments], first, main, lambda: compile(source, name, "exec", dont_inherit=True))


def of_code(source: str, arguments: Sequence[str]) -> Program:
    """Return the program that follows `-c`."""
    main = _main_module(None)
    return Program(["-c", *arguments], "", main, lambda: compile(source, "<string>", "exec", dont_inherit=True))


def of_module(name: str, arguments: Sequence[str]) -> Program:
    """Return the program that follows `-m`.

    Raises:
        ProgramError: there is no such module.
    """
    folder = os.getcwd()
    if not sys.flags.safe_path:
        sys.path[0] = folder
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except (ImportError, ValueError) as error:
        raise ProgramError(f"No module named {name} ({error})") from None
    if spec is None or spec.loader is None or not hasattr(spec.loader, "get_code"):
        raise ProgramError(f"No module named {name}")
    return _of_spec(spec, arguments, folder)


def _of_container(path: str, arguments: Sequence[str]) -> Program:
    folder = os.path.join(os.getcwd(), path)  # the program may change its directory
    spec = PathFinder.find_spec("__main__", [folder])
    if spec is None:
        raise ProgramError(f"can't find '__main__' module in {path!r}")
    if sys.flags.safe_path:
        sys.path.insert(0, folder)  # in place of nothing
    else:
        sys.path[0] = folder
    program = _of_spec(spec, arguments, folder)
    program._arguments[0] = path
    return program


def _of_spec(spec: Any, arguments: Sequence[str], first_path: str) -> Program:
    main = _main_module(spec.origin)
    main.__spec__ = spec
    main.__loader__ = spec.loader
    main.__package__ = spec.parent
    if _NO_CACHE:
        vars(main)["__cached__"] = spec.cached

    def code() -> CodeType:
        compiled: CodeType = spec.loader.get_code(spec.name)
        return compiled

    return Program([spec.origin or spec.name, *arguments], first_path, main, code)


def _main_module(path: str | None) -> ModuleType:
    import builtins

    main = ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    if sys.version_info < (3, 14):  # later ones compute the annotations, unless the module has this attribute
        vars(main)["__annotations__"] = {}
    if path is not None:
        vars(main).update(__file__=path, **_NO_CACHE)
    main.__loader__ = BuiltinImporter if path is None else SourceFileLoader("__main__", path)
    return main


def _read(path: str) -> bytes:
    with io.open_code(os.path.abspath(path)) as file:
        return file.read()


def _is_archive(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"PK\x03\x04"
    except OSError:
        return False


def _hide_frames(trace: TracebackType | None) -> None:
    """Have the next traceback shown without the frames that are not the program's."""
    original = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> Any:
        while trace is not None and trace.tb_frame.f_code.co_filename != __file__:
            trace = trace.tb_next
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        error.__traceback__ = trace
        sys.excepthook = original
        original(kind, error, trace)

    sys.excepthook = hook
