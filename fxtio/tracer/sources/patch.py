"""Replacement of a function or class of a library by one that also records what happens."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import update_wrapper
from types import FunctionType
from typing import Any

from fxtio.tracer.functions import DISGUISE
from fxtio.tracer.interrupts import interrupts

Function = Callable[..., Any]


class Patch:
    """A replacement of an attribute.

    Args:
        owner: the module or class with the attribute.
        name: the name of the attribute.
        make: makes the replacement of this patch and the original.

    Attributes:
        is_on: whether the replacement may record.  Others may have kept or wrapped it and go on to use it after the
            end; then it does only what the original does.
    """

    def __init__(self, owner: Any, name: str, make: Callable[[Patch, Any], Any]) -> None:
        self._owner, self._name = owner, name
        original = self._original = getattr(owner, name, None)
        self.is_on = original is not None
        if original is not None:
            self._replacement = make(self, original)
            setattr(owner, name, self._replacement)

    def remove(self) -> None:
        """Restore the original, unless somebody has replaced our replacement."""
        if self.is_on and getattr(self._owner, self._name, None) is self._replacement:
            setattr(self._owner, self._name, self._original)
        self.is_on = False


def observed_by(observe: Function) -> Callable[[Patch, Function], Function]:
    """Return a `make` for `Patch`: its replacement passes its arguments to `observe`, then calls the original."""

    def make(patch: Patch, original: Function) -> Function:
        def replacement(*args: Any, **kwargs: Any) -> Any:
            if patch.is_on:
                call_unnoticed(observe, *args, **kwargs)
            return original(*args, **kwargs)

        return update_wrapper(replacement, original)

    return make


class _ThreadState(threading.local):
    """The state of a thread: whether a source is at work in it, since what a source causes itself is not recorded."""

    is_busy = False


_state = _ThreadState()


def _before_fork() -> None:
    """Record nothing until the child has a recording of its own, lest it writes to its parent's."""
    _state.is_busy = True


def _after_fork() -> None:
    _state.is_busy = False


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


def call_unnoticed(function: Function, /, *args: Any, **kwargs: Any) -> None:
    """Call a function that may fail; only what interrupts the program meanwhile reaches it."""
    if _state.is_busy:
        return
    _state.is_busy = True
    try:
        function(*args, **kwargs)
    except BaseException as error:
        if interrupts(error):
            raise
    finally:
        _state.is_busy = False


def disguised(replacement: Function, original: Function) -> Function:
    """Give the replacement the file and line of the original.

    Libraries recognize their own calls by the file, and leave them out of the stacks that they show.
    """
    if type(replacement) is FunctionType and type(original) is FunctionType:
        place = {name: getattr(original.__code__, name) for name in ("co_filename", "co_name", "co_firstlineno")}
        replacement.__code__ = replacement.__code__.replace(co_qualname=DISGUISE + original.__name__, **place)
    return update_wrapper(replacement, original)
