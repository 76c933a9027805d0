"""Events with arguments, log records, and what in the swift ways had no room."""
# ruff: noqa: PLR1730  # max() is a call

from __future__ import annotations

import struct
from array import array
from time import monotonic_ns
from typing import Any

from fxtio.tracer.python import store
from fxtio.tracer.python.site import MOST_NAME, Site, bind, cut, padded, text_slot, utf8
from fxtio.tracer.python.store import MOST_WORDS, State, alone, call_hook, filler, layout, own, own_state, session

KINDS = (
    "instant", "counter", "begin", "end", "async_begin", "async_instant", "async_end", "flow_begin", "flow_step",
    "flow_end",
)  # fmt: skip
INSTANT, COUNTER, BEGIN, END, ASYNC_BEGIN, ASYNC_INSTANT, ASYNC_END, FLOW_BEGIN, FLOW_STEP, FLOW_END = range(10)

MOST_TEXT = 1000
MOST_MESSAGE = 4000
WORDS = 2**64
_INT32, _INT64 = 2**31, 2**63
_PLAIN = (int, str, float, type(None))
_double = struct.Struct("d").pack


def argument(key: int, name: str, value: Any) -> array[int]:
    """The words of an argument; without a slot for its name (`key` 0), that stands in it."""
    words = array("Q", [0])
    kind, held = "null", 0
    if not key:
        key, text = _inline(name, MOST_NAME)
        key *= layout["argument_name"]
        words.frombytes(text)
    cls = type(value)  # not isinstance(): an object may pretend to be something else
    if issubclass(cls, str):
        kind = "text"
        held, text = _inline(value, MOST_TEXT)
        words.frombytes(text)
    elif cls is bool:
        kind, held = "bool", int(value)
    elif issubclass(cls, int):
        number = int.__int__(value)
        if -_INT32 <= number < _INT32:
            kind, held = "int32", number % (2 * _INT32)
        elif -_INT64 <= number < WORDS:
            kind = "int64" if number < _INT64 else "uint64"
            words.append(number % WORDS)
        else:
            kind = "double"
            words.frombytes(_double(_near(number)))
    elif issubclass(cls, float):
        kind = "double"
        words.frombytes(_double(value))
    words[0] = layout[kind] + key + held * layout["argument_value"] + len(words) * layout["size"]
    return words


def _inline(text: str, most: int) -> tuple[int, bytes]:
    """The reference of a text that stands in an argument, and its words."""
    data = cut(utf8(text), most)
    return (layout["text_inline"] + len(data) if data else 0), padded(data)


def _near(value: int) -> float:
    """No integer type holds it: as near as a double comes."""
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def write(state: State, header: int, body: array[int]) -> bool:
    """Write a record: the header still without its size, the time, and the words behind that."""
    words = len(body) + 2
    even = words + words % 2
    cover, tail, header = filler(even), filler(1), header + words * layout["size"]
    while True:
        if state.p + even > state.room and not store.turn(state):
            state.lost += 1
            return False
        now = monotonic_ns() - state.base
        # From here to where the place is taken nothing is called, so nothing comes in between.
        p, view = state.p, state.view
        after = p + even
        if after <= state.room:  # else something came in between just now
            break
    if now < state.next:
        now = state.next
    state.next = now + state.step
    view[p] = cover
    state.p = after
    # The place is ours, and whatever comes in between sees a filler.
    view[p + 1] = now
    view[p + 2 : p + words] = body
    if even > words:
        view[p + words] = tail
    view[p] = header
    return True


def _plain(state: State, value: Any) -> Any:
    """A value as the recorder writes it by itself; others are described.  NotImplemented if that failed."""
    if issubclass(type(value), _PLAIN):
        return value
    made = call_hook(state, session.value_hook, value)
    return made if isinstance(made, str) else NotImplemented


def _put(
    state: State, kind: int, site: Site, said: list[tuple[int, str, Any]], tail: int | None, where: State | None = None
) -> bool:
    thread = where or state
    body = array("Q")
    body.extend(thread.front)
    body.frombytes(site.front)
    most = MOST_WORDS - 2 - (tail is not None)
    count = 0
    for key, name, given in said:
        value = _plain(state, given)
        if value is NotImplemented:
            continue
        words = argument(key, name, value)
        if len(body) + len(words) > most:
            session.dropped += 1
            continue
        body.extend(words)
        count += 1
    if tail is not None:
        body.append(tail % WORDS)
    return write(state, layout[KINDS[kind]] + count * layout["event_args"] + thread.bits + site.refs, body)


def bare(site: Site, kind: int, header: int) -> bool:
    """An event without arguments, of the header that the site has for its kind.  Whether it was recorded."""
    state = own.state
    now = monotonic_ns() - state.base
    p = state.p  # from here on nothing is called, so nothing comes in between
    if p < state.end and site.swift == state.session:
        if now < state.next:
            now = state.next
        state.next = now + state.step
        view = state.view
        view[p + 1] = now
        view[p] = header + state.bits
        state.p = p + 2
        return True
    return event(site, kind)


def event(site: Site, kind: int, values: Any = (), tail: int | None = None, where: State | None = None) -> bool:
    """Record an event with the site's arguments, or none, perhaps for another thread.  Whether it was recorded."""
    state = own_state()
    if state is None or not bind(site):
        return False
    if values:
        session.dropped += site.left_out
    return _put(state, kind, site, list(zip(site.keys_at, site.keys, values, strict=False)), tail, where)


def end_anyhow(site: Site) -> None:
    """The end of what began, though the stack is full; this calls nothing, and takes the room that is spared for it."""
    state = own.state
    p = state.p
    if p < state.last and site.swift == state.session and not state.busy:
        view = state.view
        view[p + 1] = state.next
        view[p] = site.end + state.bits
        state.next += state.step
        state.p = p + 2
    else:
        session.lost += 1


def event_with(
    site: Site, kind: int, name: str, value: Any, tail: int | None = None, where: State | None = None
) -> bool:
    """Record an event with one argument that is none of the site's, perhaps for another thread.  Whether it was."""
    state = own_state()
    if state is None or not bind(site):
        return False
    key = alone(text_slot, name, 0) * layout["argument_name"]
    return _put(state, kind, site, [(key, name, value)], tail, where)


def log_record(text: str) -> bool:
    """Record a log message.  Whether it was recorded."""
    state = own_state()
    if state is None:
        return False
    data = cut(utf8(text), MOST_MESSAGE)
    body = array("Q")
    body.extend(state.front)
    body.frombytes(padded(data))
    thread = state.bits // layout["event_thread"] * layout["log_thread"]
    return write(state, layout["log"] + len(data) * layout["log_size"] + thread, body)
