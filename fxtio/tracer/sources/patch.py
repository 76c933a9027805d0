"""A function or class of a library with one of ours in its place, which makes use of it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import update_wrapper
from types import FunctionType
from typing import Any

from fxtio.tracer.functions import DISGUISED
from fxtio.tracer.values import from_handler

Function = Callable[..., Any]


class Patch:
    """Something in the place of something else.

    Args:
        owner: the module or class that holds the other thing.
        name: what it is called there.
        make: makes ours of this patch and the other thing.

    Attributes:
        on: whether it is in use.  Whoever has kept or wrapped ours meanwhile goes on to use it after the end; then it
            does nothing but what the other thing does.
    """

    def __init__(self, owner: Any, name: str, make: Callable[[Patch, Any], Any]) -> None:
        self._owner, self._name = owner, name
        other = self._other = getattr(owner, name, None)
        self.on = other is not None
        if other is not None:
            self._ours = make(self, other)
            setattr(owner, name, self._ours)

    def remove(self) -> None:
        """Put the other thing back, unless somebody else's is there by now."""
        if self.on and getattr(self._owner, self._name, None) is self._ours:
            setattr(self._owner, self._name, self._other)
        self.on = False


def seen_by(see: Function) -> Callable[[Patch, Function], Function]:
    """What makes a function that shows `see` its arguments and then does what the other one does."""

    def make(patch: Patch, other: Function) -> Function:
        def ours(*args: Any, **kwargs: Any) -> Any:
            if patch.on:
                unnoticed(see, *args, **kwargs)
            return other(*args, **kwargs)

        return update_wrapper(ours, other)

    return make


class _Here(threading.local):
    """Whether something of ours is done in this thread: what that brings about is no news."""

    busy = False


_here = _Here()


def _forks() -> None:
    """Until the child has a recording of its own, its parent's must be left alone."""
    _here.busy = True


def _forked() -> None:
    _here.busy = False


os.register_at_fork(before=_forks, after_in_parent=_forked, after_in_child=_forked)


def unnoticed(do: Function, /, *args: Any, **kwargs: Any) -> None:
    """Do something that may fail; but what a signal handler raises meanwhile is for the program."""
    if _here.busy:
        return
    _here.busy = True
    try:
        do(*args, **kwargs)
    except Exception as error:
        if from_handler(error.__traceback__):
            raise
    finally:
        _here.busy = False


def disguised(ours: Function, other: Function) -> Function:
    """Ours, as if it stood where the other one does.

    Libraries leave their own calls out of the stacks that they show, and tell them by the file.
    """
    if isinstance(ours, FunctionType) and isinstance(other, FunctionType):
        place = {name: getattr(other.__code__, name) for name in ("co_filename", "co_name", "co_firstlineno")}
        ours.__code__ = ours.__code__.replace(co_qualname=DISGUISED + other.__name__, **place)
    return update_wrapper(ours, other)
