"""`@trace`: functions, methods, generators, coroutines and classes that record their calls.

Where `sys.monitoring` exists, a function is only marked: it stays the same object and costs nothing while nothing is
recorded.  Otherwise, and for callables without a code object, it is replaced by an object that calls it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection
from functools import partial
from importlib import import_module
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, TypeVar, overload

from fxtio.fxt.constants import MAX_ARGUMENTS
from fxtio.tracer import monitor
from fxtio.tracer.backend import MISSING, ReturnKind, recorder
from fxtio.tracer.functions import FunctionNames, is_cell, place_of

if TYPE_CHECKING:
    import inspect

F = TypeVar("F")
_NESTED = 0x10  # inspect.CO_NESTED
_COPIED = ("__module__", "__name__", "__qualname__", "__doc__")
_marked: weakref.WeakValueDictionary[int, CodeType] = weakref.WeakValueDictionary()
"""The code of decorated functions, by identity: equal code objects may belong to different functions."""

_names = FunctionNames()


def _inspect(question: str, target: Any, **settings: Any) -> Any:
    """Return what a function of the module `inspect` says about a callable; nothing of that is recorded.

    The module takes long to import, so only programs that decorate functions pay for it.
    """
    return recorder.unrecorded(lambda: getattr(import_module("inspect"), question)(target, **settings))


def _unrecorded(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function that looks at signatures, which calls functions of `inspect`; none of them is recorded."""
    return recorder.unrecorded(partial(function, *arguments))


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

    Each call is a span.  For a generator or coroutine there is a span for each stretch in which it runs, without the
    time that it waits.  In an asyncio task, the whole call of a coroutine is on the task's track as well.  If a call
    ends with an exception, the span has its class as an argument.

    From CPython 3.12 on the function's code is marked; copies of the function that share its code are recorded as well.

    Where the recorder is missing, the function is returned unchanged.

    Args:
        function: what to trace; without it, a decorator is returned.
        name: the name of the spans; by default the qualified name, with the file and line if a function that was traced
            before has this name at another place.
        category: their category.
        args: names of arguments to record, or True for all but `self` and `cls`.
        result: whether to record what is returned.
        skip: names of arguments, and in a class of methods, to leave out.

    Raises:
        TypeError: the object cannot be called.
        ValueError: `args` names an argument that the function does not have, or more than an event can hold.
    """
    if function is None:
        return partial(_traced, name=name, category=category, args=args, result=result, skip=frozenset(skip))
    return _traced(function, name=name, category=category, args=args, result=result, skip=frozenset(skip))


def _traced(target: Any, **settings: Any) -> Any:
    if MISSING:
        return target
    if isinstance(target, type):
        return _traced_class(target, **settings)
    if isinstance(target, staticmethod | classmethod):
        function = target.__func__
        traced = _traced(function, **settings)
        return target if traced is function else type(target)(traced)
    if not callable(target):
        raise TypeError(f"{target!r} cannot be called")
    return _traced_function(target, **settings) if type(target) is FunctionType else _wrapper(target, **settings)


def _traced_class(target: type, name: str | None, skip: frozenset[str], **settings: Any) -> type:
    """Trace the methods that the class itself defines."""
    for attribute, value in list(vars(target).items()):
        if attribute not in skip and issubclass(type(value), FunctionType | staticmethod | classmethod):
            traced = _traced(value, name=f"{name}.{attribute}" if name else None, skip=skip, **settings)
            if traced is not value:
                setattr(target, attribute, traced)
    return target


def _traced_function(
    target: FunctionType,
    name: str | None,
    category: str,
    args: bool | Collection[str],
    result: bool,
    skip: frozenset[str],
) -> Any:
    signature = _inspect("signature", target, follow_wrapped=False)
    keys = _unrecorded(_recorded_arguments, signature, args, skip, target.__qualname__)
    site = recorder.Site(category, name or _name_of(target), keys, **place_of(target.__code__))
    if monitor.AVAILABLE:
        code = _own_code(target)
        recorder.watch(code, site, keys or None, result)
        _marked[id(code)] = code
        monitor.watch(code)  # after it was marked: a recording that starts meanwhile finds it there
        return target
    # The recording of a whole program must not record this function a second time.
    target.__code__ = target.__code__.replace()
    recorder.watch(target.__code__, None, None, False)
    return _wrap(target, site, _unrecorded(_sources_of, signature, keys), result, _return_kind(target))


def _name_of(target: FunctionType) -> str:
    """Return the qualified name of a function, with its place if a function at another place has the name.

    Code that comes from no file has no place; and a cell of a notebook that runs again defines its functions anew,
    which keep their names.
    """
    place, name = place_of(target.__code__), target.__qualname__
    return name if place["file"].startswith("<") or is_cell(place["file"]) else _names.of(name, place)


def _own_code(target: FunctionType) -> CodeType:
    """Return the function's code, after making sure that no other traced function shares it.

    All functions that one `def` makes share their code, and the others may be untraced or traced under another name.
    And a running function that is decorated while others are recorded would record an end without a begin.  But from
    CPython 3.13 on, calls of a function whose code was replaced are slower; a `def` outside of functions usually makes
    only one function, so its code is kept.
    """
    code = target.__code__
    if code.co_flags & _NESTED or id(code) in _marked or recorder.active():
        code = target.__code__ = code.replace()
    return code


def _return_kind(target: FunctionType) -> ReturnKind:
    """Return the kind of what a call returns: a plain value, or an object that runs in steps."""
    if _inspect("isgeneratorfunction", target):
        return ReturnKind.GENERATOR
    if _inspect("iscoroutinefunction", target):
        return ReturnKind.COROUTINE
    return ReturnKind.ASYNC_GENERATOR if _inspect("isasyncgenfunction", target) else ReturnKind.VALUE


def _wrapper(
    target: Any, name: str | None, category: str, args: bool | Collection[str], result: bool, skip: frozenset[str]
) -> Any:
    """Trace a callable that is not a Python function."""
    label = name or getattr(target, "__qualname__", None) or type(target).__qualname__
    keys: tuple[str, ...] = ()
    sources = None
    if args:
        signature = _inspect("signature", target)
        keys = _unrecorded(_recorded_arguments, signature, args, skip, label)
        sources = _unrecorded(_sources_of, signature, keys)
    return _wrap(target, recorder.Site(category, label, keys), sources, result)


def _wrap(target: Any, site: Any, sources: Any, result: bool, kind: ReturnKind = ReturnKind.VALUE) -> Any:
    traced = recorder.Traced(target, site, sources, result, kind)
    for attribute in _COPIED:
        if (value := getattr(target, attribute, None)) is not None:
            setattr(traced, attribute, value)
    return traced


def same(target: Any) -> Any:
    """Return the argument.  A traced callable without a name is pickled as a call of this function."""
    return target


def _sources_of(signature: inspect.Signature, keys: tuple[str, ...]) -> Any:
    """Return how to find the arguments to record in a call, as `Traced` takes it: places, a function, or None."""
    parameters = list(signature.parameters.values())
    if any(parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) for parameter in parameters):
        return partial(values_of, signature, keys) if keys else None
    return tuple([_place(parameters, key) for key in keys]) or None


def values_of(
    signature: inspect.Signature, keys: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, ...]:
    """Return the values of some arguments of a call.

    Raises:
        TypeError: the call does not fit the signature.
    """
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    return tuple([bound.arguments.get(key) for key in keys])


def _place(parameters: list[inspect.Parameter], key: str) -> tuple[int, str, Any]:
    """Return where a call has an argument: its position (-1 for none), its keyword, and its default."""
    for position, parameter in enumerate(parameters):
        if parameter.name == key:
            by_position = parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
            default = None if parameter.default is parameter.empty else parameter.default
            return (position if by_position else -1), key, default
    raise AssertionError(key)


def _recorded_arguments(
    signature: inspect.Signature, args: bool | Collection[str], skip: frozenset[str], owner: str
) -> tuple[str, ...]:
    """Return the names of the arguments to record."""
    names = list(signature.parameters)
    if args is True:
        chosen = [name for index, name in enumerate(names) if index or name not in ("self", "cls")]
    else:
        chosen = list(args or ())
        if unknown := [name for name in chosen if name not in names]:
            raise ValueError(f"{owner}() has no argument {unknown[0]!r}")
    chosen = [name for name in chosen if name not in skip]
    if len(chosen) > MAX_ARGUMENTS:
        raise ValueError(f"{owner}(): {len(chosen)} arguments; an event holds at most {MAX_ARGUMENTS}")
    return tuple(chosen)


def switch_on() -> None:
    """Begin to monitor the decorated functions."""
    if monitor.AVAILABLE and monitor.acquire():
        for reference in _marked.valuerefs():  # not values(): another thread may decorate a function meanwhile
            code = reference()
            if code is not None:
                monitor.watch(code)
