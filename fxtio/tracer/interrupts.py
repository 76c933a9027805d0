"""The tracer in the middle of the program: what interrupts it, texts of the program's values, and waiting for threads.

The tracer calls code that may fail: the `repr` of a value, for one.  Such failures are not the program's.  But the same
code may be interrupted by a signal handler of the program, or by an exception that another thread sets, and those must
reach the program.

No thread waits without a limit.  Destructors, signal handlers and audit hooks of the program may start, end or dump a
recording, and they run anywhere: while the program imports, or while another thread starts or ends the recording, which
imports, too.  So a thread that waits may hold what the other one needs.  Only at the end of the program the main thread
holds nothing.
"""

from __future__ import annotations

import _thread
import reprlib

# Those that are in C, bound here, and not looked up when they are called: programs, most of all tests, patch modules.
from _signal import (  # type: ignore[import-not-found]
    SIGINT,
    default_int_handler,
    getsignal,
    valid_signals,
)
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from opcode import opmap
from sys import modules
from types import CodeType, FrameType, FunctionType, MethodType, TracebackType
from typing import Any

from fxtio.tracer.backend import recorder
from fxtio.tracer.plain import class_name

_NUMBERS = sorted(map(int, valid_signals()))
_CHECKPOINTS = {code for name, code in opmap.items() if name == "RESUME" or name.startswith("JUMP_BACKWARD")}
"""Instructions that raise nothing themselves: what is raised there was set by somebody else."""

_CALLS = {code for name, code in opmap.items() if name.startswith("CALL") and "INTRINSIC" not in name}
"""Instructions after which Python looks for what other threads have set, too, when a function in C has returned.

Nothing tells that from a failure of the function.  So it is believed only where a program sets exceptions.
"""

_SETTER = "PyThreadState_SetAsyncExc"
_ENDS_OF_ITERATION = (StopIteration, StopAsyncIteration)

_RAISES = {opmap["RAISE_VARARGS"], opmap["RERAISE"]}
_VARARGS = 4  # inspect.CO_VARARGS
_traceback_of = BaseException.__dict__["__traceback__"].__get__  # a class may have its own attribute of this name


def interrupts(error: BaseException) -> bool:
    """Return whether an exception interrupts the program: a signal handler or another thread has raised it."""
    trace: TracebackType | None = _traceback_of(error)
    handlers = _handler_codes()
    last = None
    while trace is not None:
        frame = trace.tb_frame
        if id(frame.f_code) in handlers or _is_handler(frame):
            return True
        last, trace = trace, trace.tb_next
    if last is None:
        return type(error) is KeyboardInterrupt
    instruction = last.tb_frame.f_code.co_code[last.tb_lasti]
    if type(error) is KeyboardInterrupt and getsignal(SIGINT) is default_int_handler:
        return instruction not in _RAISES
    return instruction in _CHECKPOINTS or (instruction in _CALLS and _sets_exceptions() and _may_be_set(error))


def _sets_exceptions() -> bool:
    """Return whether the program has asked `ctypes` for the function that sets an exception in another thread."""
    try:
        return _SETTER in vars(modules["ctypes"].pythonapi)  # which keeps the functions that it was asked for
    except Exception:  # it is not imported, or something else of the program is in its place
        return False


def _may_be_set(error: BaseException) -> bool:
    """Return whether an exception may have been set by another thread: then it was made without arguments.

    What functions in C raise in this way in an ordinary course of events was not.
    """
    if issubclass(type(error), _ENDS_OF_ITERATION):
        return False
    cancelled = getattr(modules.get("asyncio.exceptions"), "CancelledError", None)
    if type(error) is cancelled:
        return False
    try:
        return type(error)().args == error.args
    except BaseException:
        return False


def _handler_codes() -> set[int]:
    """Return the identities of the code objects of the present signal handlers."""
    codes: set[int] = set()
    for number in _NUMBERS:
        handler = getsignal(number)
        if type(handler) is MethodType:
            handler = handler.__func__
        if type(handler) is FunctionType:
            codes.add(id(handler.__code__))
    return codes


def _is_handler(called: FrameType) -> bool:
    """Return whether a frame got a signal and its caller as arguments, as handlers do: they may be replaced by now."""
    code: CodeType = called.f_code
    caller = called.f_back
    if caller is None or code.co_argcount + bool(code.co_flags & _VARARGS) == 0:
        return False
    values = called.f_locals
    arguments = [values.get(name) for name in code.co_varnames[: code.co_argcount]]
    if code.co_flags & _VARARGS:
        rest = values.get(code.co_varnames[code.co_argcount + code.co_kwonlyargcount])
        arguments.extend(rest if type(rest) is tuple else ())
    return any(frame is caller and number in _NUMBERS for number, frame in pairwise(arguments) if type(number) is int)


_MAX_MESSAGE = 300
"""Characters of the message of an exception."""


class _ShortRepr(reprlib.Repr):
    """Makes texts of bounded length."""

    def repr_instance(self, value: object, level: int) -> str:
        """Return the text of an object.

        Unlike the inherited method this one lets exceptions out: a signal handler of the program may have raised them.
        """
        text = repr(value)
        return text if len(text) <= self.maxother else f"{text[: self.maxother]}..."


_SHORT = _ShortRepr()
_SHORT.maxother = _SHORT.maxstring = _SHORT.maxlong = 120
_SHORT.maxlevel = 3


def describe(value: object) -> str:
    """Return a text of bounded length that describes any value.

    Nothing is raised but what interrupts the program meanwhile.
    """
    try:
        return _SHORT.repr(value)
    except BaseException as error:
        if interrupts(error):
            raise
        return f"<{class_name(type(value))}>"


def text_or(make: Callable[[], str], fallback: str) -> str:
    """Return the text that `make` returns, or `fallback` if it fails.  Nothing is recorded meanwhile."""
    try:
        return recorder.unrecorded(make)
    except BaseException as error:
        if interrupts(error):
            raise
        return fallback


def message_of(error: BaseException) -> str:
    """Return the message of an exception or a warning, shortened."""
    return text_or(partial(str, error), "<str() failed>")[:_MAX_MESSAGE]


def place_of(trace: TracebackType | None) -> tuple[str, int]:
    """Return the file and the line where an exception with this traceback was raised."""
    if trace is None:
        return "", 0
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame.f_code.co_filename, trace.tb_lineno


# ---- Waiting.

PATIENCE_S = 5.0
"""How long a thread waits for another one."""

NO_LIMIT = -1.0
"""Instead of `PATIENCE_S`, at the end of the program."""

_owners: dict[int, int] = {}
"""By thread that waits: the thread that it waits for."""


def acquire(lock: Any, seconds: float, owner: int) -> bool:
    """Take a lock, and return whether it was taken.

    Args:
        lock: a lock, also one that its owner can take again.
        seconds: how long to wait for it, or `NO_LIMIT`.  A thread that the owner waits for does not wait at all.
        owner: the thread that has it, 0 if that is unknown.
    """
    if lock.acquire(blocking=False):
        return True
    thread = _thread.get_ident()
    chain = [owner]
    while chain[-1] in _owners and _owners[chain[-1]] not in chain:
        chain.append(_owners[chain[-1]])
    if thread in chain:
        return False
    outer = _owners.pop(thread, 0)  # of a wait that a signal handler has interrupted, which now waits
    _owners[thread] = owner
    try:
        taken: bool = lock.acquire(timeout=seconds)
        return taken
    finally:
        del _owners[thread]
        if outer:
            _owners[thread] = outer


def wait_for(lock: _thread.LockType, seconds: float, owner: int = 0) -> bool:
    """Wait until a lock is free; return whether it is, see `acquire`."""
    if not acquire(lock, seconds, owner):
        return False
    lock.release()
    return True
