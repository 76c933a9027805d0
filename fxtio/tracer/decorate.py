"""`@trace`: functions, methods, generators, coroutines and classes that record their calls.

Where `sys.monitoring` is there, a function is only marked: it stays the same object and costs nothing while nothing is
recorded.  Otherwise, and for callables without a code object, an object that calls it stands in its place.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Collection
from functools import partial
from types import CodeType, FunctionType
from typing import Any, TypeVar, overload

from fxtio.tracer import monitor
from fxtio.tracer.backend import recorder

F = TypeVar("F")
_COPIED = ("__module__", "__name__", "__qualname__", "__doc__")
_MOST = 15
_marked: weakref.WeakValueDictionary[int, CodeType] = weakref.WeakValueDictionary()
"""Code of decorated functions, by identity: equal code objects are still different ones."""


@overload
def trace(function: F, /) -> F: ...
@overload
def trace(
    *,
    name: str | None = None,
    category: str = "",
    args: bool | Collection[str] = (),
    result: bool = False,
    skip: Collection[str] = (),
) -> Callable[[F], F]: ...
def trace(
    function: Any = None,
    /,
    *,
    name: str | None = None,
    category: str = "",
    args: bool | Collection[str] = (),
    result: bool = False,
    skip: Collection[str] = (),
) -> Any:
    """Record the calls of a function, a method, or of all methods of a class.

    A span for each call.  Of a generator or coroutine, a span for each stretch in which it runs; what it waits is not
    in there.  In an asyncio task, the whole call of a coroutine is on the task's track as well.  A call that ends with
    an exception says which.

    From CPython 3.12 on it is the function's code that is marked; copies of the function that share it are recorded as
    well.

    Args:
        function: what to trace; without it, a decorator comes back.
        name: the name of the spans; the qualified name unless told.
        category: their category.
        args: names of arguments to record, or True for all but `self` and `cls`.
        result: whether to record what is returned.
        skip: names of arguments, and in a class of methods, to leave out.

    Raises:
        TypeError: it cannot be called.
        ValueError: an argument is named that the function does not have.
    """
    if function is None:
        return partial(_traced, name=name, category=category, args=args, result=result, skip=frozenset(skip))
    return _traced(function, name=name, category=category, args=args, result=result, skip=frozenset(skip))


def _traced(target: Any, **how: Any) -> Any:
    if isinstance(target, type):
        return _class(target, **how)
    if isinstance(target, staticmethod | classmethod):
        inner = target.__func__
        made = _traced(inner, **how)
        return target if made is inner else type(target)(made)
    if not callable(target):
        raise TypeError(f"{target!r} cannot be called")
    return _function(target, **how) if isinstance(target, FunctionType) else _callable(target, **how)


def _class(target: type, name: str | None, skip: frozenset[str], **how: Any) -> type:
    """Trace what the class itself defines."""
    for attribute, value in list(vars(target).items()):
        if attribute not in skip and isinstance(value, FunctionType | staticmethod | classmethod):
            made = _traced(value, name=f"{name}.{attribute}" if name else None, skip=skip, **how)
            if made is not value:
                setattr(target, attribute, made)
    return target


def _function(
    target: FunctionType,
    name: str | None,
    category: str,
    args: bool | Collection[str],
    result: bool,
    skip: frozenset[str],
) -> Any:
    signature = inspect.signature(target, follow_wrapped=False)
    keys = _wanted(signature, args, skip, target.__qualname__)
    site = recorder.Site(category, name or target.__qualname__, keys)
    if monitor.AVAILABLE:
        code = _own_code(target)
        recorder.watch(code, site, keys or None, result)
        _marked[id(code)] = code
        if recorder.active() and monitor.acquire():
            monitor.watch(code)
        return target
    # Whole programs are recorded, too, and this function not twice.
    target.__code__ = target.__code__.replace()
    recorder.watch(target.__code__, None, None, False)
    return _stand_in(target, site, _places(signature, keys), result, _kind(target))


def _own_code(target: FunctionType) -> CodeType:
    """Its code, which no other traced function has.

    All functions that one `def` makes have the same, and others of them may not be traced, or under another name.  And
    a function may be running while others are recorded: its end would have no begin.  But from CPython 3.13 on, calls
    of a function whose code was replaced are slower, and a `def` that is in no function makes only one, as a rule.
    """
    code = target.__code__
    if code.co_flags & inspect.CO_NESTED or id(code) in _marked or recorder.active():
        code = target.__code__ = code.replace()
    return code


def _kind(target: FunctionType) -> int:
    """What a call gives: 0 its result, else something that takes steps, as `Traced` numbers them."""
    kinds = (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction)
    return next((number for number, test in enumerate(kinds, 1) if test(target)), 0)


def _callable(
    target: Any, name: str | None, category: str, args: bool | Collection[str], result: bool, skip: frozenset[str]
) -> Any:
    called = name or getattr(target, "__qualname__", None) or type(target).__qualname__
    keys: tuple[str, ...] = ()
    places = None
    if args:
        signature = inspect.signature(target)
        keys = _wanted(signature, args, skip, called)
        places = _places(signature, keys)
    return _stand_in(target, recorder.Site(category, called, keys), places, result)


def _stand_in(target: Any, site: Any, places: Any, result: bool, kind: int = 0) -> Any:
    made = recorder.Traced(target, site, places, result, kind)
    for attribute in _COPIED:
        if (value := getattr(target, attribute, None)) is not None:
            setattr(made, attribute, value)
    return made


def same(target: Any) -> Any:
    """What a traced callable without a name is when it has been pickled."""
    return target


def _places(signature: inspect.Signature, keys: tuple[str, ...]) -> Any:
    """Where the arguments to record come in a call, or what tells their values; None for none."""
    parameters = list(signature.parameters.values())
    if any(one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in parameters):
        return partial(values_of, signature, keys) if keys else None
    return tuple([_place(parameters, key) for key in keys]) or None


def values_of(
    signature: inspect.Signature, keys: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, ...]:
    """The values of some arguments of a call.

    Raises:
        TypeError: the call does not fit the signature.
    """
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    return tuple([bound.arguments.get(key) for key in keys])


def _place(parameters: list[inspect.Parameter], key: str) -> tuple[int, str, Any]:
    """Where an argument comes: its position (-1 for none), its keyword, and what it is if it is not given."""
    for position, parameter in enumerate(parameters):
        if parameter.name == key:
            by_position = parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
            default = None if parameter.default is parameter.empty else parameter.default
            return (position if by_position else -1), key, default
    raise AssertionError(key)


def _wanted(
    signature: inspect.Signature, args: bool | Collection[str], skip: frozenset[str], owner: str
) -> tuple[str, ...]:
    """The names of the arguments to record."""
    names = list(signature.parameters)
    if args is True:
        chosen = [name for index, name in enumerate(names) if index or name not in ("self", "cls")]
    else:
        chosen = list(args or ())
        if unknown := [name for name in chosen if name not in names]:
            raise ValueError(f"{owner}() has no argument {unknown[0]!r}")
    chosen = [name for name in chosen if name not in skip]
    if len(chosen) > _MOST:
        raise ValueError(f"{owner}(): {len(chosen)} arguments, {_MOST} are the most that an event holds")
    return tuple(chosen)


def switch_on() -> None:
    """Have the marked functions record."""
    if monitor.AVAILABLE and monitor.acquire():
        for code in _marked.values():
            monitor.watch(code)
