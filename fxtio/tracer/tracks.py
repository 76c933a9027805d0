"""What records, by the names that traces show: this process, its asyncio tasks, and its greenlets.

Each task and each greenlet records to a track of its own.  The recorder in C finds the running task by itself, with
what this module gives it when asyncio is seen first.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.machinery import ModuleSpec
from typing import Any

from fxtio.tracer import plain
from fxtio.tracer.backend import recorder

_IN_C, _TASKS = "_asyncio", "asyncio.tasks"


@cache
def _introduce(asyncio: Any, gathering: type) -> None:
    """Give the recorder what it needs of asyncio: of its part in C, since programs do not patch that."""
    task_of_loop = asyncio.current_task if sys.version_info >= (3, 12) else asyncio._current_tasks.get
    task = asyncio.Task
    recorder.know_asyncio(
        asyncio._get_running_loop, task_of_loop, task.get_name, task.get_coro, asyncio.Future.done, task, gathering
    )


def look_around() -> None:
    """Follow the tasks of asyncio, and this thread's greenlets, if the program uses them.

    The recorder calls this until asyncio is imported.  Where greenlets are used it goes on to do so, as each greenlet
    has a context of its own.
    """
    follow()
    gathering = getattr(sys.modules.get(_TASKS), "_GatheringFuture", None)  # not there while it is imported
    if _IN_C in sys.modules and isinstance(gathering, type):
        _introduce(sys.modules[_IN_C], gathering)


_MODULE = "greenlet._greenlet"
"""The part of greenlet in C, which programs do not patch."""


class _Chain:
    """A function for `greenlet.settrace` that also calls the one that the program has set before."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def __call__(self, event: str, greenlets: tuple[object, object]) -> None:
        """Handle a switch from one greenlet to another."""
        recorder.switched(event, greenlets)
        self._function(event, greenlets)


def follow() -> None:
    """Follow the switches of this thread's greenlets from now on, if the program has imported greenlet."""
    module: Any = sys.modules.get(_MODULE)
    if module is None:
        return
    function = module.gettrace()
    if function is recorder.switched or type(function) is _Chain:
        return
    attributes = vars(module.greenlet)
    recorder.know_greenlets(attributes["dead"].__get__)
    module.settrace(recorder.switched if function is None else _Chain(function))
    parent_of = attributes["parent"].__get__
    current = first = module.getcurrent()
    while (parent := parent_of(first)) is not None:
        first = parent
    if first is not current:
        recorder.switched("switch", (first, current))


def track_name(thread: int) -> str:
    """Return the name of the track of a greenlet, an empty text for the id of a thread."""
    number = thread - recorder.FIRST_GREENLET_TRACK + 1
    return f"greenlet {number}" if number > 0 else ""


_MAX_NAME = 60
_STARTED_BY_MULTIPROCESSING = "--multiprocessing-fork"

_given: list[str] = []
"""The name that was given to this process, if any."""


def give_name(name: str) -> None:
    """Name this process, whatever program it runs."""
    _given[:] = [name]


def program_name() -> str:
    """Return the name of the program: the given one, that of the module after `-m`, of the script, or `python -c`."""
    name = (_given and _given[0]) or _module_run() or _script() or "python"
    return name[:_MAX_NAME]


def process_name() -> str:
    """Return the name that `multiprocessing` gave to this process, such as `ForkPoolWorker-1`, or the program's."""
    module: Any = sys.modules.get("multiprocessing.process")
    process = vars(module).get("_current_process") if module is not None else None
    facts = object.__getattribute__(process, "__dict__") if process is not None else {}
    if facts.get("_parent_pid") is None:  # it has started this process by itself
        return program_name()
    return plain.text(facts.get("_name"))[:_MAX_NAME] or program_name()


def command_line() -> str:
    """Return the command that started this process, as a shell takes it."""
    words = getattr(sys, "orig_argv", [])
    return shlex.join([plain.text(word) for word in words])


def when_named(recording: object, act: Callable[[Any], None]) -> None:
    """Call `act(recording)` when `multiprocessing` gives this process its name, if it starts this process.

    That is some time after the process has begun, and its processes end without a call of exit functions.
    """
    if _STARTED_BY_MULTIPROCESSING in getattr(sys, "orig_argv", ()):
        import_module("multiprocessing.util")  # as the process is about to do itself
    util: Any = sys.modules.get("multiprocessing.util")
    if util is not None:
        util.register_after_fork(recording, act)


def _module_run() -> str:
    """Return the module that `python -m` runs; an empty text if this is a script or the like."""
    main: Any = sys.modules.get("__main__")
    spec = vars(main).get("__spec__") if type(main) is type(sys) else None
    if type(spec) is ModuleSpec:
        name = plain.text(spec.name).removesuffix(".__main__")
        return "" if name == "__main__" else name  # a folder or zip file
    if _first_argument() != "-m":
        return ""
    words = [plain.text(word) for word in getattr(sys, "orig_argv", [])]
    return words[words.index("-m") + 1] if "-m" in words[:-1] else ""  # when Python starts it has no spec yet


def _script() -> str:
    first = _first_argument()
    if first in ("-c", "-m", "-"):
        return f"python {first}"
    return first.rstrip(os.sep).rpartition(os.sep)[2]


def _first_argument() -> str:
    arguments: Any = vars(sys).get("argv")
    return plain.text(arguments[0]) if type(arguments) is list and arguments else ""
