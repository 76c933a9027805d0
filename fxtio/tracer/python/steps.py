"""Generators and coroutines of functions before CPython 3.12, stretch by stretch.

A span for each stretch in which they run, and for a coroutine its whole operation on the track of the task.
"""

from __future__ import annotations

import functools
import types
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

from fxtio.tracer.python.event import ASYNC_BEGIN, ASYNC_END, event
from fxtio.tracer.python.held import again, end_held
from fxtio.tracer.python.site import Site
from fxtio.tracer.python.span import begin, end, name_of_type
from fxtio.tracer.python.store import own, session
from fxtio.tracer.python.task import step_begins, task_arrives, task_track, task_waits

GENERATOR, COROUTINE, ASYNC_GENERATOR = 1, 2, 3
"""The kinds, as `Traced` takes them; 0 is a plain call."""

_QUIET = (GeneratorExit, StopAsyncIteration)
"""How an iteration ends without having failed."""

Tell = Callable[[tuple[Any, ...], dict[str, Any]], tuple[Any, ...]]


def wrapper(function: Any, site: Site, tell: Tell, result: bool, kind: int) -> Any:
    """What stands for a generator or coroutine function, of the same kind.

    Args:
        function: what it stands for.
        site: what is recorded.
        tell: gives the values to record from the arguments of a call.
        result: whether what it returns is recorded.
        kind: which it is.
    """
    make: Callable[..., Any]
    if kind == ASYNC_GENERATOR:

        async def make(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
            inner = function(*args, **kwargs)
            step, values = inner.asend(None), tell(args, kwargs)
            while True:
                try:
                    value = await _step(step, site, values, False)
                except StopAsyncIteration:
                    return
                values = ()
                try:
                    sent = yield value
                except GeneratorExit:
                    await _step(inner.aclose(), site, (), False)
                    raise
                except BaseException as error:
                    step = inner.athrow(error)
                else:
                    step = inner.asend(sent)

    elif kind == COROUTINE:

        async def make(*args: Any, **kwargs: Any) -> Any:
            inner, values = function(*args, **kwargs), tell(args, kwargs)
            generation, track = session.generation, task_track() if session.active else 0
            if track and not event(site, ASYNC_BEGIN, (), track):
                track = 0
            try:
                return await _whole(inner, site, values, result)
            finally:
                if track and generation == session.generation:
                    event(site, ASYNC_END, (), track)

    else:

        def make(*args: Any, **kwargs: Any) -> Any:
            return (yield from _generator(function(*args, **kwargs), site, tell(args, kwargs), result))

    return functools.wraps(function)(make)


def _begin(site: Site, values: tuple[Any, ...]) -> bool:
    """Begin a stretch.  Whether it was recorded."""
    if not begin(site, *values):
        return False
    own.state.depth += 1
    if own.state.arrows:
        task_arrives()
    return True


def _end(site: Site, *said: Any) -> None:
    """End the stretch."""
    state = own.state
    if not state.depth:  # the recording is another one
        return
    held = end_held(state) if state.depth <= state.top else 0
    state.depth -= 1
    end(site, *said)
    if held:
        again(state, held)


def _generator(
    inner: Any, site: Site, values: tuple[Any, ...], result: bool, task: bool = False
) -> Generator[Any, Any, Any]:
    """Run a generator or coroutine to its end, recording each stretch; arrows too, if it is a task's coroutine."""
    step, argument = inner.send, None
    while True:
        if task and session.active:
            step_begins()
            task_track()
        begun = _begin(site, values)
        values = ()
        try:
            value = step(argument)
        except StopIteration as stop:
            if begun:
                _end(site, *(("result", stop.value) if result else ()))
            return stop.value
        except BaseException as error:
            if begun:
                _end(site, *(() if isinstance(error, _QUIET) else ("exception", name_of_type(type(error)))))
            raise
        if begun:
            if task and session.active:
                task_waits(value)
            _end(site)
        try:
            argument = yield value
            step = inner.send
        except GeneratorExit:
            begun = _begin(site, ())
            try:
                inner.close()
            finally:
                if begun:
                    _end(site)
            raise
        except BaseException as error:
            argument, step = error, inner.throw


_step: Any = types.coroutine(_generator)
_whole: Any = types.coroutine(functools.partial(_generator, task=True))
