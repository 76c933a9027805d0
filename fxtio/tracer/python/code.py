"""Functions: what the interpreter calls.

From CPython 3.12 on `sys.monitoring` calls the functions of this file; before, a profile function does.  Begins and
ends balance: an end whose begin was not seen, as of functions that ran already at the start, is left out.
"""
# ruff: noqa: PLR1730  # max() is a call

from __future__ import annotations

import inspect
import sys
import weakref
from collections.abc import Callable
from time import monotonic_ns
from types import CodeType, FrameType, FunctionType
from typing import Any

from fxtio.tracer.python.calls import calls_start, calls_wanted, site_of_call
from fxtio.tracer.python.event import ASYNC_BEGIN, ASYNC_END, BEGIN, END, bare, end_anyhow, event, event_with
from fxtio.tracer.python.held import again, end_held
from fxtio.tracer.python.site import Site, site_of
from fxtio.tracer.python.span import name_of_type
from fxtio.tracer.python.store import State, call_hook, filler, here, own, session
from fxtio.tracer.python.task import step_begins, task_arrives, task_track, task_waits

_CO_COROUTINE = inspect.CO_COROUTINE
_STEPPED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_MOST_BEGUN = 512
_DISABLE: Any = getattr(getattr(sys, "monitoring", None), "DISABLE", None)


class _Code:
    """What is known of a code object.

    Attributes:
        site: None for code that is left out.
        names: local variables to record at the begin.
        result: whether the result is recorded.
        task: whether a call is also an operation of the running task.
        chosen: by a decorator; it is not asked for again.
        generation: the session in which the hook was asked.
        alive: forgets all this together with the code object.
    """

    __slots__ = ("alive", "chosen", "generation", "names", "result", "site", "task")

    def __init__(
        self, code: CodeType, site: Site | None, names: tuple[str, ...] | None, result: bool, chosen: bool
    ) -> None:
        self.site, self.names, self.result, self.chosen = site, names, result, chosen
        self.task = code.co_flags & _CO_COROUTINE != 0
        self.generation = session.generation
        number = id(code)

        def forget(_: object) -> None:
            _near.pop(number, None)
            _codes.pop(number, None)

        self.alive = weakref.ref(code, forget)


class _Limits:
    """What `functions` was told."""

    hook: Callable[[CodeType], Any] | None = None
    max_depth = 0
    min_ticks = 0


_codes: dict[int, _Code] = {}
"""By the identity of the code object; equal ones are not the same."""

_near: dict[int, Site] = {}
"""The sites of code that is recorded without further ado in this session: no arguments, no limits."""

_limits = _Limits()
_find = _near.get


def forget_codes() -> None:
    """The session is another one."""
    _near.clear()
    calls_start(None)


def _set(code: CodeType, site: Site | None, names: tuple[str, ...] | None, result: bool, chosen: bool) -> _Code:
    _near.pop(id(code), None)
    known = _codes[id(code)] = _Code(code, site, names, result, chosen)
    return known


def _valid(code: CodeType) -> _Code | None:
    """What is known of a code object in this session."""
    known = _codes.get(id(code))
    return known if known is not None and (known.chosen or known.generation == session.generation) else None


def _code_of(code: CodeType) -> _Code | None:
    """The same; if nothing is, ask.  If there is no answer (the stack may be full), its plain name serves."""
    known = _valid(code)
    if known is not None or _limits.hook is None:
        return known
    state = here()  # nothing is recorded yet: the thread may be too young to have a name
    if not session.active or state.busy:
        return None
    site = call_hook(state, _limits.hook, code)
    if site is not None and type(site) is not Site:
        site = site_of(code.co_qualname, code.co_filename)
    return _set(code, site, None, False, False)


# ---- Begin and end.


def _capture(code: CodeType, names: tuple[str, ...]) -> list[Any]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    there = {} if frame is None else frame.f_locals
    return [there.get(name) for name in names]


def _put_begin(code: CodeType, known: _Code, site: Site, first: bool) -> bool:
    """Whether it was recorded."""
    if known.task:
        step_begins()
        if (track := task_track()) and first:
            event(site, ASYNC_BEGIN, (), track)
    state: State = own.state
    if _limits.max_depth and state.session == session.generation and state.depth >= _limits.max_depth:
        return False
    if known.names is not None and first:
        return event(site, BEGIN, _capture(code, known.names))
    return _put_bare_begin(site)


def _put_bare_begin(site: Site) -> bool:
    begun = bare(site, BEGIN, site.begin)
    if begun and _limits.min_ticks:
        state: State = own.state
        view, p = state.view, state.p
        if state.depth < _MOST_BEGUN and p and view[p - 2] == site.begin + state.bits:
            state.begun[state.depth] = view, p - 2, view[p - 1]
    return begun


def _begin(code: CodeType, first: bool) -> bool:
    """A call begins.  False if the code is left out."""
    known = _code_of(code)
    if known is None or not session.active or own.state.busy:
        return True
    site = known.site
    if site is None:
        return False
    begun = _put_begin(code, known, site, first)
    state = own.state
    if state.arrows:
        task_arrives()
    if state.session == session.generation:
        if not begun:
            state.missed += [state.depth]
        state.depth += 1
        limited = _limits.max_depth or _limits.min_ticks
        if begun and site.swift == state.session and not (known.names or known.result or known.task or limited):
            _near[id(code)] = site
    return True


def _taken_back(state: State, depth: int) -> bool:
    """If the call was short and its begin is the last that was recorded, take that back."""
    place = state.begun.pop(depth, None)
    if place is None or monotonic_ns() - state.base - place[2] >= _limits.min_ticks:
        return False
    cover = filler(2)
    view, p, tick = place  # from here on nothing is called, so nothing comes in between
    if state.view is not view or state.p != p + 2 or view[p + 1] != tick:
        return False
    view[p] = cover
    state.p = p
    return True


def _put_end(known: _Code, site: Site, result: Any, error: BaseException | None) -> None:
    if error is not None and not issubclass(type(error), GeneratorExit):
        event_with(site, END, "exception", name_of_type(type(error)))
    elif known.result and result is not _NOTHING:
        event_with(site, END, "result", result)
    else:
        bare(site, END, site.end)


_NOTHING = object()


def _end(code: CodeType, last: bool, result: Any, error: BaseException | None) -> bool:
    """A call ends.  False if the code is left out."""
    known = _valid(code)
    state = own.state
    if known is None or not session.active or state.busy:
        return True
    site = known.site
    if site is None:
        return False
    if known.task and not last and result is not None:
        task_waits(result)
    if not state.depth or state.session != session.generation:
        return True
    held = end_held(state) if state.depth <= state.top else 0
    depth = state.depth - 1
    if not _missed(state, depth) and not (_limits.min_ticks and _taken_back(state, depth)):
        try:
            _put_end(known, site, result if last else _NOTHING, error)
        except RecursionError:  # the stack is full
            end_anyhow(site)
    state.depth = depth
    if held:
        again(state, held)
    if known.task and last and (track := task_track()):
        event(site, ASYNC_END, (), track)
    return True


def _missed(state: State, depth: int) -> bool:
    """Whether the begin at this depth is not in the file."""
    while state.missed and state.missed[-1] > depth:
        del state.missed[-1]
    if state.missed and state.missed[-1] == depth:
        del state.missed[-1]
        return True
    return False


# ---- Calls of something else than Python code.


def _wanted(code: CodeType) -> bool | None:
    """Whether what code does is recorded; None if that cannot be told now."""
    known = _code_of(code)
    return None if known is None else known.site is not None or known.chosen


def on_call(code: CodeType, _offset: int, called: Any, _first: Any = None) -> Any:
    """A function is called.  One in Python tells by itself."""
    if type(called) is FunctionType:
        return None
    try:
        wanted = _wanted(code)
        site = site_of_call(called) if wanted else None
        if site is None:
            return _DISABLE if wanted is False else None
        begun = False
        state: State = own.state
        limit = _limits.max_depth
        if not limit or state.session != session.generation or state.depth < limit:
            begun = _put_bare_begin(site)
        state = own.state
        if state.session == session.generation:
            if not begun:
                state.missed += [state.depth]
            state.depth += 1
    except RecursionError:  # the stack is full
        session.lost += 1
    return None


def on_call_over(code: CodeType, _offset: int, called: Any, _first: Any = None) -> Any:
    """The call is over, in whichever way."""
    if type(called) is FunctionType:
        return
    site = None
    try:
        site = site_of_call(called) if _wanted(code) else None
        state: State = own.state
        if site is None or not state.depth or state.session != session.generation:
            return
        held = end_held(state) if state.depth <= state.top else 0
        depth = state.depth - 1
        if not _missed(state, depth) and not (_limits.min_ticks and _taken_back(state, depth)):
            bare(site, END, site.end)
        state.depth = depth
        if held:
            again(state, held)
    except RecursionError:  # the stack is full
        session.lost += 1


# ---- What is called.  Two ways to begin and three to end; a call of these costs as much as the event.


def _beginning(first: bool, left_out: Any) -> Callable[[CodeType, int], Any]:
    def callback(code: CodeType, _offset: int, _error: object = None) -> Any:
        number = 0
        try:
            number = id(code)
            site = _find(number)
            state = own.state
            if site is not None:
                now = monotonic_ns() - state.base
                p = state.p  # from here on nothing is called, so nothing comes in between
                if p < state.end and site.swift == state.session:
                    if now < state.next:
                        now = state.next
                    state.next = now + state.step
                    view = state.view
                    view[p + 1] = now
                    view[p] = site.begin + state.bits
                    state.p = p + 2
                    state.depth += 1
                    return None
            return None if _begin(code, first) else left_out
        except RecursionError:  # the stack is full
            state = own.state
            if state.session == session.generation and not state.busy and number in _codes:
                known = _codes[number]
                if known.site is not None and (known.chosen or known.generation == session.generation):
                    state.missed += [state.depth]
                    state.depth += 1
            session.lost += 1
            return None

    return callback


def _ending(last: bool, failed: bool, left_out: Any) -> Callable[[CodeType, int, Any], Any]:
    def callback(code: CodeType, _offset: int, value: Any) -> Any:
        number = 0
        try:
            number = id(code)
            site = _find(number)
            state = own.state
            if site is not None and not failed and not state.missed:
                now = monotonic_ns() - state.base
                p = state.p  # as above
                if p < state.end and site.swift == state.session and state.depth > state.top:
                    if now < state.next:
                        now = state.next
                    state.next = now + state.step
                    view = state.view
                    view[p + 1] = now
                    view[p] = site.end + state.bits
                    state.p = p + 2
                    state.depth -= 1
                    return None
            wanted = _end(code, last, None if failed else value, value if failed else None)
            return None if wanted else left_out
        except RecursionError:  # the stack is full, but what began has to end
            state = own.state
            if not state.depth or state.busy or state.session != session.generation or number not in _codes:
                return None
            known = _codes[number]
            site = known.site
            if site is None or not (known.chosen or known.generation == session.generation):
                return None
            state.depth -= 1
            if state.missed and state.missed[-1] == state.depth:
                del state.missed[-1]
                return None
            p = state.p
            if p < state.last and site.swift == state.session:
                view = state.view
                view[p + 1] = state.next
                view[p] = site.end + state.bits
                state.next += state.step
                state.p = p + 2
            else:
                session.lost += 1
            return None

    return callback


on_start = _beginning(True, _DISABLE)
on_resume = _beginning(False, _DISABLE)
on_throw = _beginning(False, None)
on_return = _ending(True, False, _DISABLE)
on_yield = _ending(False, False, _DISABLE)
on_unwind = _ending(True, True, None)


# ---- Before CPython 3.12: a profile function.


def profile_here(frame: FrameType, what: str, value: Any) -> None:
    """What threading.setprofile() gets."""
    if not session.active:
        sys.setprofile(None)
        return
    try:
        whole = not frame.f_code.co_flags & _STEPPED  # else this is one stretch
        if what == "call":
            (on_start if whole else on_resume)(frame.f_code, 0)
        elif what == "return":
            on_return(frame.f_code, 0, value) if whole else on_yield(frame.f_code, 0, None)
        elif calls_wanted():
            (on_call if what == "c_call" else on_call_over)(frame.f_code, 0, value)
    except RecursionError:  # the stack is full; if it was at the begin, it is at the end
        session.lost += 1


def profile_threads(on: bool) -> None:
    """Have the functions of this thread recorded, or not.  In Python there is no way to other threads that run."""
    if sys.getprofile() is (None if on else profile_here):
        sys.setprofile(profile_here if on else None)


# ---- What the tracer calls.


def watch(code: CodeType, site: Site | None, names: Any, result: bool) -> None:
    """Record the calls of this code object; without a site, never."""
    if type(code) is not CodeType:
        raise TypeError(f"watch() argument 1 must be code, not {type(code).__name__}")
    if site is not None and type(site) is not Site:
        raise TypeError(f"watch() argument 2 must be Site, not {type(site).__name__}")
    if names is not None and not (isinstance(names, tuple) and len(names) >= len(site.keys if site else ())):
        raise ValueError("a name for each of the site's keys")
    _set(code, site, names, bool(result), True)


def functions(
    hook: Callable[[CodeType], Any] | None, c_hook: Callable[[Any], Any] | None, max_depth: int, min_ticks: int
) -> None:
    """Record the calls of any code and C function that the hooks have a site for."""
    _limits.hook, _limits.max_depth, _limits.min_ticks = hook, max_depth, min_ticks
    forget_codes()
    calls_start(c_hook)
