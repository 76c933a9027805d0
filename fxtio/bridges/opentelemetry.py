"""OpenTelemetry: a span processor that records each span when it starts, and again when it ends.

    provider.add_span_processor(fxtio.bridges.opentelemetry.SpanProcessor())

A span is an operation.  One that starts in the thread or task in which its parent has started, while nothing else in
that is open, is drawn within it.  Any other one has a track of its own.  In both cases the arguments `traceId`,
`spanId` and `parentSpanId` are the ids as OTLP has them.

What is sent to other processes is an arrow.  Its id is that of the span which sends, as in the header `traceparent`, so
arrows join what several processes have recorded.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from functools import cache, wraps
from itertools import islice
from operator import attrgetter, is_not
from threading import get_ident
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk import trace as sdk
from opentelemetry.trace import SpanKind, StatusCode

from fxtio import otel
from fxtio.bridges import arrows
from fxtio.fxt.constants import MAX_ARGUMENTS
from fxtio.tracer.backend import KINDS, recorder

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Link

MAX_OPEN = 100_000
"""The most spans that are open at once: if there are more, the ends of the oldest are not recorded."""

_BEGIN, _INSTANT, _END = (KINDS[name] for name in ("async_begin", "async_instant", "async_end"))
_SENDERS = (SpanKind.CLIENT, SpanKind.PRODUCER)
_DATABASE = "db."
"""How attributes of requests to databases begin, from which no arrow leads on."""

_MAX_STARTED = MAX_ARGUMENTS - 4  # which are three ids and the kind
_MAX_MORE = MAX_ARGUMENTS - 1  # which is the id of the span
# Global names are found faster than attributes.
_mark, _active, _running_loop = recorder.mark, recorder.active, asyncio._get_running_loop
_INTERNAL, _UNSET = SpanKind.INTERNAL, StatusCode.UNSET

_TRACE_ID, _SPAN_ID, _PARENT_ID = _IDS = (otel.TRACE_ID, otel.SPAN_ID, otel.PARENT_ID)
_OF_END = frozenset({otel.NAME, otel.STATUS, otel.MESSAGE})
_STACK = "exception.stacktrace"
_MAX_STACK = 1000  # bytes, which are as many as an event has of any text
_SIMPLE = frozenset({str, int, float, bool, type(None)})
_NOTHING = object()

# Of what spans have, the public names give copies and take longer, all together as long as the recorder.
_started = attrgetter("context", "parent", "kind", "instrumentation_scope", "name", "attributes", "links")
_ended = attrgetter("context", "attributes", "name", "status")


class _Open:
    """A span that is open and recorded.

    Attributes:
        session: the number of the recording.
        track: the id of the track.
        stack: the open spans of the track, the innermost last.
        place: tells the thread or task in which it has started from others.
        name: its name when it started.
        category: the name of its tracer.
        trace_id, span_id: its ids, in hexadecimal.
        started: the attributes that it had when it started.
        is_client: whether its end is the end of an arrow.
    """

    started: Mapping[str, Any] = MappingProxyType({})
    is_client = False

    def __init__(
        self,
        session: int,
        track: int,
        stack: list[_Open],
        place: int,
        name: str,
        category: str,
        trace_id: str,
        span_id: str,
    ) -> None:
        self.session = session
        self.track = track
        self.stack = stack
        self.place = place
        self.name = name
        self.category = category
        self.trace_id = trace_id
        self.span_id = span_id

    def mark(self, kind: int, name: str, arguments: Mapping[str, object]) -> int:
        """Record an event on its track, see `mark` of the recorder."""
        return recorder.mark(kind, self.track, self.session, name, self.category, **arguments)

    def add(self, name: str, arguments: dict[str, Any]) -> None:
        """Record an instant in it, and say so if another span on its track is open within it."""
        if self.stack and self.stack[-1] is not self:
            owner = {otel.OWNER: self.span_id}
            arguments = {**owner, **arguments, **owner}
        self.mark(_INSTANT, name, arguments)

    def link(self, link: Link) -> None:
        """Record a link to another span."""
        ids = {_TRACE_ID: f"{link.context.trace_id:032x}", _SPAN_ID: f"{link.context.span_id:016x}"}
        self.add(otel.LINK, {**ids, **_values(link.attributes), **ids})

    def leave(self) -> None:
        """Leave the stack of its track, as it ends."""
        if self.stack and self.stack[-1] is self:
            del self.stack[-1:]
        else:
            self._part_from_inner()

    def _part_from_inner(self) -> None:
        """Move the spans that began later on its track, and have not ended, to another one, as it ends before them.

        Nothing waits here.  Who removes a span from `_open` records its end.  One that another thread ends while it is
        moved ends right after that.
        """
        try:
            place = self.stack.index(self)
        except ValueError:  # another thread has just moved it, or ended
            return
        later = {int(each.span_id, 16): each for each in self.stack[place + 1 :]}
        del self.stack[place:]
        inner: dict[int, _Open] = {}
        for number, each in later.items():
            if _moving.setdefault(number, self) is self:
                if _open.pop(number, None):
                    inner[number] = each
                else:
                    _moving.pop(number, None)
        stack = [*inner.values()]
        try:
            for each in reversed(stack):
                each.mark(_END, each.name, {})
            for each in stack:
                each.track, each.stack = int(stack[0].span_id, 16), stack
                each.mark(_BEGIN, each.name, {})
        finally:
            _open.update(inner)
            ended = [number for number in inner if _moving.pop(number, None) is not self]
        for number in ended:
            if _open.pop(number, None):
                inner[number].leave()
                inner[number].mark(_END, inner[number].name, {})


_open: dict[int, _Open] = {}
"""The spans that are open and recorded, by their ids."""

_moving: dict[int, _Open] = {}
"""The spans for whose end others move to another track at this moment, by the ids of these.

A thread that ends one that moves removes it here.
"""


class SpanProcessor(sdk.SpanProcessor):
    """Records spans of OpenTelemetry while a recording runs; otherwise it does next to nothing.

    What the sampler lets a program record is recorded.  The name of the tracer is the category.  No error leaves it:
    where something cannot be recorded, a log message in the recording says so.
    """

    def __init__(self) -> None:
        _watch_additions()

    def on_start(self, span: sdk.Span, parent_context: Context | None = None) -> None:
        """Record the start of a span: its ids, its kind, its links, and the attributes that it has already."""
        session = _active()
        if session:
            try:
                _start(span, session)
            except Exception as error:  # noqa: BLE001  # the program must not notice
                _lose(error)

    def on_end(self, span: sdk.ReadableSpan) -> None:
        """Record the end of a span, its status if it is set, its name if that has changed, and further attributes."""
        if _open or _moving:
            try:
                _end(span)
            except Exception as error:  # noqa: BLE001  # the program must not notice
                _lose(error)


def _lose(error: Exception) -> None:
    """Say in the recording that something is not in it.  This needs no more of the stack, which may be full."""
    recorder.message("of a span of OpenTelemetry, something is not recorded: " + type(error).__name__)


def _start(span: Any, session: int) -> None:
    """Record the start of a span in a recording."""
    try:
        context, parent, kind, scope = span._context, span._parent, span._kind, span._instrumentation_scope
        name, attributes, links = span._name, span._attributes._dict, span._links._dq
    except AttributeError:  # another version of the SDK
        context, parent, kind, scope, name, attributes, links = _started(span)
    number = context.span_id
    if number in _open:  # another processor has told it
        return
    span_id = number.to_bytes(8).hex()
    around = _open.get(parent.span_id) if parent else None
    trace_id = around.trace_id if around else context.trace_id.to_bytes(16).hex()
    loop = _running_loop()
    place = get_ident() if loop is None else id(asyncio.current_task(loop))
    track, stack = number, []
    if around and around.place == place and around.session == session and around.stack and around.stack[-1] is around:
        track, stack = around.track, around.stack
    opened = _Open(session, track, stack, place, str(name), scope.name if scope else "", trace_id, span_id)
    if around and not attributes and kind is _INTERNAL:  # as most are; names that are written here are faster
        is_recorded = _mark(
            _BEGIN, track, session, opened.name, opened.category,
            traceId=trace_id, spanId=span_id, parentSpanId=around.span_id,
        )  # fmt: skip
    else:
        arguments: dict[str, Any] = {}
        if attributes:
            opened.started = started = attributes.copy()
            if len(started) > _MAX_STARTED:
                opened.started = started = dict(islice(started.items(), _MAX_STARTED))
            arguments = _values(started)
        arguments[_TRACE_ID], arguments[_SPAN_ID] = trace_id, span_id
        if parent:
            arguments[_PARENT_ID] = around.span_id if around else parent.span_id.to_bytes(8).hex()
        if kind is not _INTERNAL:
            arguments[otel.KIND] = kind.name.lower()
        is_recorded = _mark(_BEGIN, track, session, opened.name, opened.category, **arguments)
    if not is_recorded:
        return
    stack.append(opened)
    _open[number] = opened
    if len(_open) > MAX_OPEN:
        _forget_oldest()
    if links:
        for link in links:
            opened.link(link)
    if kind is not _INTERNAL or (parent and parent.is_remote):
        _draw_arrows(span, opened)


def _forget_oldest() -> None:
    """Forget the span that has been open for the longest time."""
    oldest = _open.pop(next(iter(_open)), None)
    if oldest and oldest in oldest.stack:
        oldest.stack.remove(oldest)


def _end(span: Any) -> None:
    """Record the end of a span, if its start is recorded."""
    try:
        context, attributes, name, status = span._context, span._attributes._dict, span._name, span._status
    except AttributeError:
        context, attributes, name, status = _ended(span)
    number = context.span_id
    opened = _open.pop(number, None)
    if opened is None:
        _moving.pop(number, None)
        return
    arguments: dict[str, Any] = {}
    before = opened.started
    # Attributes do not change any more.  Equal values may be of different types.
    if attributes and (attributes != before or any(map(is_not, attributes.values(), before.values()))):
        late = (item for item in attributes.items() if item[0] not in _IDS)
        arguments = _values({key: value for key, value in late if before.get(key, _NOTHING) is not value})
    if name != opened.name:
        arguments[otel.NAME] = str(name)
    if status.status_code is not _UNSET:
        arguments[otel.STATUS] = status.status_code.name
        if status.description:
            arguments[otel.MESSAGE] = status.description
    if len(arguments) > MAX_ARGUMENTS:  # what replaces attributes of the start, which instants only add to, comes last
        arguments = dict(sorted(arguments.items(), key=lambda item: item[0] in before or item[0] in _OF_END))
    while (count := len(arguments) - MAX_ARGUMENTS) > 0:
        first = [*arguments][: min(count, _MAX_MORE)]
        opened.add(otel.MORE, {key: arguments.pop(key) for key in first})
    opened.leave()
    is_recorded = _mark(_END, opened.track, opened.session, opened.name, opened.category, **arguments)
    if is_recorded and opened.is_client:
        arrows.draw(arrows.END, number)


@cache
def _watch_additions() -> None:
    """Have events and links recorded when they are added to spans, of which the SDK tells no processor."""

    def record_event(opened: _Open, event: Any) -> None:
        arguments = _values(event.attributes)  # which are as the SDK wants them
        if type(stack := arguments.get(_STACK)) is str:
            arguments[_STACK] = _last_lines(stack)
        opened.add(str(event.name), arguments)

    _watch("add_event", record_event)
    _watch("add_link", _Open.link)


def _last_lines(stack: str) -> str:
    """Return as much of a stack trace as an event has: its end, which says where the exception comes from."""
    text = stack.encode("utf-8", "backslashreplace")
    if len(text) <= _MAX_STACK:
        return stack
    last = text[-_MAX_STACK:]
    return last[last.find(b"\n", 0, -1) + 1 :].decode("utf-8", "ignore")


def _watch(method: str, record: Callable[[_Open, Any], None]) -> None:
    """Have what a method adds to a span recorded.

    The private method of the SDK gets the item that the public one has made.  If there is no private one, the item is
    not known; a message in the recording says that it is missing.
    """
    if hasattr(sdk.Span, f"_{method}"):
        method = f"_{method}"
    add = getattr(sdk.Span, method)

    @wraps(add)
    def recorded(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        opened = _open.get(self.get_span_context().span_id) if self.is_recording() else None
        result = add(self, *args, **kwargs)
        if opened is not None:
            try:
                record(opened, *args, **kwargs)
            except Exception as error:  # noqa: BLE001  # the program must not notice
                _lose(error)
        return result

    setattr(sdk.Span, method, recorded)


def _draw_arrows(span: sdk.Span, opened: _Open) -> None:
    """Record the points of arrows at the start of a span, which sends something, or has been caused by others.

    An arrow leads from a client to the servers and back, and from a producer to the consumer.
    """
    if span.kind in _SENDERS and not any(key.startswith(_DATABASE) for key in opened.started):
        arrows.draw(arrows.BEGIN, span.context.span_id)
        opened.is_client = span.kind is SpanKind.CLIENT
    causes = [span.parent] if span.parent else []
    if is_consumer := span.kind is SpanKind.CONSUMER:
        causes += [link.context for link in span.links]
    for cause in causes:
        if cause.is_remote:
            arrows.draw(arrows.END if is_consumer else arrows.STEP, cause.span_id)


def _values(attributes: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return attributes as arguments; values that are not simple become JSON."""
    if not attributes:
        return {}
    for value in attributes.values():
        if type(value) not in _SIMPLE:
            return {key: _simple(value) for key, value in attributes.items()}
    return {**attributes}


def _simple(value: object) -> object:
    """Return a value as JSON, unless it is simple already, or cannot be JSON."""
    if type(value) in _SIMPLE:
        return value
    try:
        return json.dumps(value, default=repr)
    except Exception:  # noqa: BLE001  # of values of the program
        return value  # which the recorder describes
