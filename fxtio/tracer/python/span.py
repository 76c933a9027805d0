"""What a program calls: spans, instants, counters, flows, log messages.

The swift way of an event stands in each of these in full: a call costs as much as the event.
"""
# ruff: noqa: PLR1730  # max() is a call

from __future__ import annotations

import operator
from time import monotonic_ns
from typing import Any

from fxtio.tracer.python.event import (
    ASYNC_BEGIN,
    ASYNC_END,
    ASYNC_INSTANT,
    BEGIN,
    COUNTER,
    END,
    INSTANT,
    KINDS,
    WORDS,
    bare,
    event,
    event_with,
    log_record,
)
from fxtio.tracer.python.flight import tell_slow
from fxtio.tracer.python.held import MOST_OPEN, forget
from fxtio.tracer.python.site import Site, by_name, exact, site_of, sites
from fxtio.tracer.python.store import State, call_hook, own, session
from fxtio.tracer.python.task import modules
from fxtio.tracer.python.task import task_track as running_track

name_of_type = type.__dict__["__name__"].__get__
"""The name of a class, whatever its metaclass says."""

_NOTHING: Any = object()
_new = object.__new__
_find_name = by_name.get
_find = sites.get
_VALUE = ("value",)
_LAST_OPEN = MOST_OPEN - 1


def _called(name: Any, category: Any, values: Any, wrong: bool, middle: str = "") -> Site | None:
    """The site of a call.  None if nothing can be recorded."""
    if name is _NOTHING or wrong:
        raise TypeError(f"takes a name{middle} and a category by position, the rest by name")
    if not (issubclass(type(name), str) and issubclass(type(category), str)):
        raise TypeError("name and category are strings")
    if not session.active:
        return None
    return site_of(exact(name), exact(category), tuple(map(exact, values)))


def _odd(*texts: Any) -> bool:
    """Whether one of these is no plain string: its own methods may have raised anything while it was looked for."""
    return any(type(text) is not str for text in texts)


class Span:
    """What span() gives: a context manager."""

    __slots__ = ("_begun", "_entry", "_late", "_open", "_session", "_site", "_track", "_values")

    _begun: State | None
    _entry: list[Any] | None
    _site: Site
    _values: dict[str, Any]
    _late: dict[str, Any] | None
    _open: int
    _session: int
    _track: int

    def __new__(cls) -> Span:
        """Not for the program."""
        raise TypeError("cannot create 'fxtio.Span' instances")

    def __enter__(self) -> Span:
        site, track = self._site, 0
        try:
            state = own.state
            if "asyncio" in modules:
                track = running_track()
            now = monotonic_ns() - state.base
            p = state.p  # from here on nothing is called, so nothing comes in between
            if p < state.end and site.swift == state.session and not (track or self._values):
                if now < state.next:
                    now = state.next
                state.next = now + state.step
                view = state.view
                view[p + 1] = now
                view[p] = site.begin + state.bits
                state.p = p + 2
            elif event(site, ASYNC_BEGIN if track else BEGIN, self._values.values(), track or None):
                state = own.state
            else:
                return self
        except RecursionError:  # the stack is full
            session.lost += 1
            return self
        if not self._open or self._session != state.session:
            # What a recording before has left open does not count.
            self._open, self._begun, self._entry = 0, state, None
        elif self._begun is not state:
            self._begun = None  # open in several threads: it ends where it ends
        self._open += 1
        self._track, self._session = track, state.session
        if state.depth and not track and not state.opened[_LAST_OPEN:]:
            self._entry = entry = [site, state.depth, self._entry]
            state.opened += [entry]
            state.top = state.depth
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any, /) -> None:
        if not self._open:
            return
        self._open -= 1
        if self._session != session.generation:
            return
        site = self._site
        try:
            state = own.state
            entry, opened = self._entry, state.opened
            if entry is not None:
                self._entry = entry[2]
                if opened and opened[-1] is entry:
                    del opened[-1]
                    state.top = opened[-1][1] if opened else 0
                else:
                    forget(entry)
            if kind is not None or self._late is not None or self._track or state is not self._begun:
                self._leave(kind)
                return
            now = monotonic_ns() - state.base
            p = state.p  # as above
            if p < state.end and site.swift == state.session:
                if now < state.next:
                    now = state.next
                state.next = now + state.step
                view = state.view
                view[p + 1] = now
                view[p] = site.end + state.bits
                state.p = p + 2
                return
            event(site, END)
        except RecursionError:  # the stack is full, but what began has to end
            state = own.state
            p = state.p
            if (
                p < state.last
                and site.swift == state.session
                and not (state.busy or self._track or state is not self._begun)
            ):
                view = state.view
                view[p + 1] = state.next
                view[p] = site.end + state.bits
                state.next += state.step
                state.p = p + 2
            else:
                session.lost += 1

    def _leave(self, kind: Any) -> None:
        """End where it began: on a track, in another thread, with what was set meanwhile, with an exception's name."""
        site, track, late = self._site, self._track or None, self._late
        end, failed = ASYNC_END if track else END, kind is not None and issubclass(type(kind), type)
        if failed and late is None:
            event_with(site, end, "exception", name_of_type(kind), track, self._begun)
            return
        said = {**(late or {}), **({"exception": name_of_type(kind)} if failed else {})}
        if said:
            site = site_of(site.name, site.category, tuple(said))
        event(site, end, said.values(), track, self._begun)

    def set(self, *wrong: object, **values: object) -> None:
        """Arguments that are known when the span ends."""
        if wrong:
            raise TypeError("set() takes its arguments by name")
        if self._open and values:
            self._late = {**(self._late or {}), **values}


class WatchedSpan(Span):
    """A span while slow ones are told of."""

    __slots__ = ("_after",)

    _after: int

    def __enter__(self) -> Span:
        super().__enter__()
        self._after = own.state.next
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any, /) -> None:
        ours = self._open and self._session == session.generation
        super().__exit__(kind, error, trace)
        if ours:
            try:  # noqa: SIM105  # suppress() takes stack
                tell_slow(self._site, own.state.next - self._after)
            except RecursionError:
                pass


class _NoSpan(Span):
    """The span of a time when nothing is recorded."""

    __slots__ = ()

    def __enter__(self) -> Span:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any, /) -> None:
        pass

    def set(self, *wrong: object, **values: object) -> None:
        if wrong:
            raise TypeError("set() takes its arguments by name")


_NO_SPAN = _new(_NoSpan)
session.span = Span


def span(name: str = _NOTHING, category: str = "", /, *wrong: object, **args: Any) -> Span:
    """A span of time, used by `with`."""
    try:
        site = _find_name(name) if category == "" and not args else _find((name, category, *args))
    except RecursionError:  # the stack is full
        site = None
    except Exception:
        if not _odd(name, category, *args):
            raise
        site = None
    if site is None or wrong:
        try:
            site = _called(name, category, args, bool(wrong))
        except RecursionError:
            session.lost += 1
        if site is None:
            return _NO_SPAN
    made: Span = _new(session.span)
    made._site, made._values, made._late, made._open = site, args, None, 0
    return made


def instant(name: str = _NOTHING, category: str = "", /, *wrong: object, **args: Any) -> None:
    """A moment."""
    try:
        site = _find_name(name) if category == "" and not args else _find((name, category, *args))
    except RecursionError:  # the stack is full
        site = None
    except Exception:
        if not _odd(name, category, *args):
            raise
        site = None
    try:
        if site is None or wrong:
            site = _called(name, category, args, bool(wrong))
            if site is None:
                return
        track = running_track() if "asyncio" in modules else 0
        if track or args:
            event(site, ASYNC_INSTANT if track else INSTANT, args.values(), track or None)
        else:
            bare(site, INSTANT, site.instant)
    except RecursionError:
        session.lost += 1


def _number(value: Any) -> Any:
    """A counter's value as an int or a float, if it can be one."""
    if type(value) is int or type(value) is float:
        return value
    made = call_hook(own.state, _as_number, value)
    return value if made is NotImplemented else made


def _as_number(value: Any) -> Any:
    try:
        return int(operator.index(value))
    except Exception:
        try:
            return float(value)
        except Exception:
            return value


def counter(name: str = _NOTHING, value: Any = None, category: str = "", /, *wrong: object, **series: Any) -> None:
    """A sample of a value, or of several series."""
    single = value is not None
    if single is bool(series):
        raise TypeError("counter() takes a value, or series by name")
    keys: Any = _VALUE if single else series
    try:
        site = None if wrong else _find((name, category, *keys))
    except RecursionError:  # the stack is full
        site = None
    except Exception:
        if not _odd(name, category, *keys):
            raise
        site = None
    try:
        if site is None:
            site = _called(name, category, keys, bool(wrong), ", a value")
        if site is not None:
            event(site, COUNTER, [_number(one) for one in ((value,) if single else series.values())], 0)
    except RecursionError:
        session.lost += 1


def begin(site: Site, *values: Any) -> bool:
    """A function begins.  Whether it was recorded."""
    if type(site) is not Site or (values and len(values) < len(site.keys)):
        raise TypeError("begin() takes a site and a value for each of its keys")
    try:
        return event(site, BEGIN, values) if values else bare(site, BEGIN, site.begin)
    except RecursionError:
        session.lost += 1
        return False


def end(site: Site, *said: Any) -> bool:
    """It ends, perhaps with an argument.  Whether it was recorded."""
    if type(site) is not Site or len(said) not in (0, 2) or (said and not issubclass(type(said[0]), str)):
        raise TypeError("end() takes a site, and perhaps a name and a value")
    try:
        if said:
            return event_with(site, END, exact(said[0]), said[1])
        return bare(site, END, site.end)
    except RecursionError:
        state = own.state
        p = state.p
        if p < state.last and site.swift == state.session and not state.busy:
            view = state.view
            view[p + 1] = state.next
            view[p] = site.end + state.bits
            state.next += state.step
            state.p = p + 2
            return True
        session.lost += 1
        return False


def record(kind: int, site: Site, values: tuple[Any, ...], id: int | None, /) -> bool:
    """An event of any kind.  Whether it was recorded."""
    if type(site) is not Site or not isinstance(values, tuple):
        raise TypeError("record() takes a kind, a site, a tuple and an id")
    if not 0 <= kind < len(KINDS) or len(values) < len(site.keys):
        raise ValueError("no such kind of event, or fewer values than the site has keys")
    if id is not None and not isinstance(id, int):
        raise TypeError("an integer is required")
    try:
        return event(site, kind, values, None if id is None else int(id) % WORDS)
    except RecursionError:
        session.lost += 1
        return False


class _Collection:
    """The present garbage collection; there is never more than one."""

    begun = 0
    """The session in which it began."""


def collection(begin: Site, end: Site, phase: str, info: dict[str, Any], /) -> None:
    """What the garbage collector calls, behind a site with one key and one with two."""
    if [type(site) is Site and len(site.keys) for site in (begin, end)] != [1, 2] or not isinstance(info, dict):
        raise TypeError("collection() takes a site with one key, one with two, a phase and a dict")
    try:
        if phase == "start":
            _Collection.begun = session.generation if event(begin, BEGIN, (info.get("generation"),)) else 0
        elif _Collection.begun:
            begun, _Collection.begun = _Collection.begun, 0
            if begun == session.generation:
                event(end, END, (info.get("collected"), info.get("uncollectable")))
    except RecursionError:
        session.lost += 1


def message(text: str, /) -> bool:
    """A log record; whether it was recorded."""
    if not issubclass(type(text), str):
        raise TypeError("a message is a string")
    try:
        return session.active and log_record(text)
    except RecursionError:
        session.lost += 1
        return False


def task_track() -> int:
    """The id of the running task's track, or 0."""
    try:
        return running_track() if session.active else 0
    except RecursionError:
        return 0
