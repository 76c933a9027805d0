"""Calls of C functions, where these are asked for."""

from __future__ import annotations

from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, ModuleType
from typing import Any

from fxtio.tracer.python.site import Site
from fxtio.tracer.python.store import call_hook, here, own, session

Hook = Callable[[Any], Any]


class _Calls:
    """What `calls_start` was told, and what is known since."""

    hook: Hook | None = None
    sites: dict[tuple[str, int], Site | None]


_calls = _Calls()
_calls.sites = {}


def calls_start(hook: Hook | None) -> None:
    """Record calls for which the hook has a site; without one, none."""
    _calls.hook = hook
    _calls.sites.clear()


def calls_wanted() -> bool:
    """Whether any are recorded."""
    return _calls.hook is not None


def _key(callable_: Any) -> tuple[str, int] | None:
    """What tells C functions apart; None for what is none."""
    kind = type(callable_)
    if kind is MethodDescriptorType:
        return callable_.__name__, id(callable_.__objclass__)
    if not issubclass(kind, BuiltinFunctionType):
        return None
    owner = callable_.__self__
    return callable_.__name__, id(owner if issubclass(type(owner), ModuleType | type) else type(owner))


def site_of_call(callable_: Any) -> Site | None:
    """The site of a C function; None for what is none or is left out."""
    if type(callable_) is FunctionType or _calls.hook is None or not session.active or own.state.busy:
        return None
    key = _key(callable_)
    if key is None:
        return None
    if key not in _calls.sites:
        site = call_hook(here(), _calls.hook, callable_)
        _calls.sites[key] = site if type(site) is Site else None
    return _calls.sites.get(key)
