"""Generators and coroutines without `sys.monitoring`: a span for each stretch in which they run."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

from fxtio.tracer.backend import recorder


def wrapper(function: Any, site: Any, keys: tuple[str, ...], result: bool) -> Any:
    """What stands for a generator or coroutine function, of the same kind; None for other functions."""
    signature = inspect.signature(function) if keys else None

    def first(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        if signature is None:
            return ()
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return tuple([bound.arguments.get(key) for key in keys])

    make: Callable[..., Any]
    if inspect.isasyncgenfunction(function):

        async def make(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
            inner = function(*args, **kwargs)
            step, values = inner.asend(None), first(args, kwargs)
            while True:
                try:
                    value = await _drive(step, site, values, False)
                except StopAsyncIteration:
                    return
                values = ()
                try:
                    sent = yield value
                except GeneratorExit:
                    await inner.aclose()
                    raise
                except BaseException as error:
                    step = inner.athrow(error)
                else:
                    step = inner.asend(sent)

    elif inspect.iscoroutinefunction(function):

        async def make(*args: Any, **kwargs: Any) -> Any:
            return await _drive(function(*args, **kwargs), site, first(args, kwargs), result)

    elif inspect.isgeneratorfunction(function):

        def make(*args: Any, **kwargs: Any) -> Any:
            return (yield from _generator(function(*args, **kwargs), site, first(args, kwargs), result))

    else:
        return None
    return functools.wraps(function)(make)


def _generator(inner: Any, site: Any, values: tuple[Any, ...], result: bool) -> Generator[Any, Any, Any]:
    """Run a generator or coroutine to its end, recording each stretch."""
    begin, end = recorder.begin, recorder.end
    step, argument = inner.send, None
    while True:
        begun = begin(site, *values)
        values = ()
        try:
            value = step(argument)
        except StopIteration as stop:
            if begun:
                end(site, "result", stop.value) if result else end(site)
            return stop.value
        except BaseException as error:
            if begun:
                end(site, "exception", type(error).__name__)
            raise
        if begun:
            end(site)
        try:
            argument = yield value
            step = inner.send
        except GeneratorExit:
            inner.close()
            raise
        except BaseException as error:
            argument, step = error, inner.throw


_drive: Any = types.coroutine(_generator)
