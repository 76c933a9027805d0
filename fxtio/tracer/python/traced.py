"""Callables that stand for others: for what has no code object, and for functions before CPython 3.12."""
# ruff: noqa: PLR1730  # max() is a call

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from time import monotonic_ns
from types import FunctionType, MethodType
from typing import Any

from fxtio.tracer.python import steps
from fxtio.tracer.python.event import BEGIN, END, end_anyhow, event, event_with
from fxtio.tracer.python.held import again, end_held
from fxtio.tracer.python.site import Site
from fxtio.tracer.python.span import name_of_type
from fxtio.tracer.python.store import own, session


def _given(places: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Any]:
    """The values of the arguments that are to be recorded."""
    if callable(places):
        try:
            told: tuple[Any, ...] = places(args, kwargs)
        except TypeError:  # the call itself will say so
            return ()
        return told
    return [
        kwargs[key] if key in kwargs else args[position] if 0 <= position < len(args) else default
        for position, key, default in places
    ]


def _end(site: Site, depth: int, *said: Any) -> None:
    """The call ends, in another way than swiftly."""
    state = own.state
    held = end_held(state) if state.depth <= state.top else 0
    state.depth = depth
    try:
        if said:
            event_with(site, END, *said)
        else:
            event(site, END)
    except RecursionError:  # the stack is full
        end_anyhow(site)
    if held:
        again(state, held)


def _failure(error: BaseException) -> tuple[str, str]:
    """What is said of an exception."""
    return "exception", name_of_type(type(error))


def _swift(wrapped: Callable[..., Any], site: Site) -> Callable[..., Any]:
    """A function that calls another one and records that."""

    def traced(*args: Any, **kwargs: Any) -> Any:
        generation, depth, failed = 0, 0, None
        try:
            state = own.state
            now = monotonic_ns() - state.base if state.end else 0
            p = state.p  # from here on nothing is called, so nothing comes in between
            if p < state.end and site.swift == state.session:
                generation, depth = state.session, state.depth
                if now < state.next:
                    now = state.next
                state.next = now + state.step
                view = state.view
                view[p + 1] = now
                view[p] = site.begin + state.bits
                state.p = p + 2
                state.depth = depth + 1
            elif session.active and event(site, BEGIN):
                state = own.state
                generation, depth = state.session, state.depth
                state.depth = depth + 1
        except RecursionError:  # the stack is full
            session.lost += 1
        try:
            return wrapped(*args, **kwargs)
        except BaseException as error:
            failed = error
            raise
        finally:
            if generation and generation == state.session:  # else it has not begun
                try:
                    now = monotonic_ns() - state.base
                    p = state.p  # as above
                    if p < state.end and site.swift == generation and failed is None and state.depth > state.top:
                        if now < state.next:
                            now = state.next
                        state.next = now + state.step
                        view = state.view
                        view[p + 1] = now
                        view[p] = site.end + state.bits
                        state.p = p + 2
                        state.depth = depth
                    else:
                        _end(site, depth, *(() if failed is None else _failure(failed)))
                except RecursionError:  # the stack is full: nothing can be called, but what began has to end
                    p = state.p
                    state.depth = depth
                    if p < state.last and site.swift == state.session and not state.busy:
                        view = state.view
                        view[p + 1] = state.next
                        view[p] = site.end + state.bits
                        state.next += state.step
                        state.p = p + 2
                    else:
                        session.lost += 1
            failed = None  # it holds this frame

    return traced


def _telling(wrapped: Callable[..., Any], site: Site, places: Any, result: bool) -> Callable[..., Any]:
    """The same, with arguments or the result."""

    def traced(*args: Any, **kwargs: Any) -> Any:
        generation, depth = session.generation, 0
        try:
            if session.active and event(site, BEGIN, _given(places or (), args, kwargs)):
                depth = own.state.depth
                own.state.depth = depth + 1
            else:
                generation = -1
        except RecursionError:  # the stack is full
            session.lost += 1
            generation = -1
        try:
            value = wrapped(*args, **kwargs)
        except BaseException as error:
            if generation == session.generation:
                try:
                    _end(site, depth, *_failure(error))
                except RecursionError:
                    own.state.depth = depth
                    end_anyhow(site)
            raise
        if generation == session.generation:
            try:
                _end(site, depth, *(("result", value) if result else ()))
            except RecursionError:
                own.state.depth = depth
                end_anyhow(site)
        return value

    return traced


def _told(places: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(_given(places, args, kwargs)) if session.active else ()


_KINDS = (0, steps.GENERATOR, steps.COROUTINE, steps.ASYNC_GENERATOR)


class Traced:
    """Calls something and records a span.  For a function, a function comes: that is swifter, and a method too.

    Args:
        wrapped: what is called.
        site: what is recorded.
        places: of the arguments that are recorded: position or -1, keyword, and what it is if it is not given; or what
            tells their values from the arguments.
        result: whether what it returns is recorded.
        kind: 0, or which steps it takes (see `steps`).
    """

    def __new__(cls, wrapped: Any, site: Site, places: Any, result: bool, kind: int, /) -> Any:
        """What stands for it."""
        if type(site) is not Site:
            raise TypeError(f"Traced() argument 2 must be Site, not {type(site).__name__}")
        if not (places is None or callable(places) or (isinstance(places, tuple) and len(places) >= len(site.keys))):
            raise ValueError("a place for each of the site's keys")
        if kind not in _KINDS:
            raise ValueError("there is no such kind")
        if kind:
            return steps.wrapper(wrapped, site, partial(_told, places or ()), result, kind)
        call = _swift(wrapped, site) if places is None and not result else _telling(wrapped, site, places, result)
        if isinstance(wrapped, FunctionType):
            return functools.update_wrapper(call, wrapped)
        made = object.__new__(cls)
        made.__dict__.update(__wrapped__=wrapped, _call=call)
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call what it stands for."""
        return self._call(*args, **kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __getattr__(self, name: str) -> Any:
        if name == "__wrapped__":
            raise AttributeError(name)
        return getattr(self.__wrapped__, name)

    def __repr__(self) -> str:
        return f"<traced {self.__wrapped__!r}>"

    def __reduce__(self) -> Any:
        name = getattr(self, "__qualname__", None)
        return (import_module("fxtio.tracer.decorate").same, (self.__wrapped__,)) if name is None else name
