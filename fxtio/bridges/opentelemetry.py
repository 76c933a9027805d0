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
from collections.abc import Mapping
from functools import cache, wraps
from itertools import islice
from threading import get_ident
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk import trace as sdk
from opentelemetry.trace import SpanKind, StatusCode

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
# Global names are found faster than attributes.
_mark, _active, _running_loop = recorder.mark, recorder.active, asyncio._get_running_loop
_INTERNAL, _ERROR = SpanKind.INTERNAL, StatusCode.ERROR

_SIMPLE = frozenset({str, int, float, bool})
_NOTHING = object()


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

    def link(self, link: Link) -> None:
        """Record a link to another span."""
        ids = {"traceId": f"{link.context.trace_id:032x}", "spanId": f"{link.context.span_id:016x}"}
        self.mark(_INSTANT, "link", {**ids, **_values(link.attributes), **ids})

    def part_from_inner(self) -> None:
        """Move the spans that began later on its track, and have not ended, to another one, as it ends before them."""
        place = self.stack.index(self)
        inner = self.stack[place + 1 :]
        del self.stack[place:]
        for each in reversed(inner):
            each.mark(_END, each.name, {})
        for each in inner:
            each.track, each.stack = int(inner[0].span_id, 16), inner
            each.mark(_BEGIN, each.name, {})


_open: dict[int, _Open] = {}
"""The spans that are open and recorded, by their ids."""


class SpanProcessor(sdk.SpanProcessor):
    """Records spans of OpenTelemetry while a recording runs; otherwise it does next to nothing.

    What the sampler lets a program record is recorded.  The name of the tracer is the category.
    """

    # Of attributes and links, the public names give copies, which take as long as all else here.

    def __init__(self) -> None:
        _watch_additions()

    def on_start(self, span: sdk.Span, parent_context: Context | None = None) -> None:
        """Record the start of a span: its ids, its kind, its links, and the attributes that it has already."""
        session = _active()
        if not session:
            return
        context, parent, kind, scope = span.context, span.parent, span.kind, span.instrumentation_scope
        attributes: Any = span._attributes
        number = context.span_id
        span_id = number.to_bytes(8).hex()
        around = _open.get(parent.span_id) if parent else None
        trace_id = around.trace_id if around else context.trace_id.to_bytes(16).hex()
        loop = _running_loop()
        place = get_ident() if loop is None else id(asyncio.current_task(loop))
        is_near = around is not None and around.session == session and around.place == place
        if around and is_near and around.stack and around.stack[-1] is around:
            track, stack = around.track, around.stack
        else:
            track, stack = number, []
        opened = _Open(session, track, stack, place, str(span.name), scope.name if scope else "", trace_id, span_id)
        if around and not attributes and kind is _INTERNAL:  # as most are; names that are written here are faster
            is_recorded = _mark(
                _BEGIN, track, session, opened.name, opened.category,
                traceId=trace_id, spanId=span_id, parentSpanId=around.span_id,
            )  # fmt: skip
        else:
            ids = {"traceId": trace_id, "spanId": span_id}
            if parent:
                ids["parentSpanId"] = parent.span_id.to_bytes(8).hex()
            if kind is not _INTERNAL:
                ids["kind"] = kind.name.lower()
            if attributes:
                opened.started = started = attributes.copy()
                if len(started) > _MAX_STARTED:
                    opened.started = started = dict(islice(started.items(), _MAX_STARTED))
                ids = {**_values(started), **ids}
            is_recorded = _mark(_BEGIN, track, session, opened.name, opened.category, **ids)
        if not is_recorded:
            return
        stack.append(opened)
        _open[number] = opened
        if len(_open) > MAX_OPEN:
            _open.pop(next(iter(_open)), None)
        if len(span._links):
            for link in span.links:
                opened.link(link)
        if kind is not _INTERNAL or (parent and parent.is_remote):
            _draw_arrows(span, opened)

    def on_end(self, span: sdk.ReadableSpan) -> None:
        """Record the end of a span, its status if it failed, its name if that has changed, and further attributes."""
        opened = _open.pop(span.context.span_id, None)
        if opened is None:
            return
        arguments: dict[str, Any] = {}
        attributes: Any = span._attributes
        status = span.status
        if attributes and (now := attributes.copy()) != opened.started:
            before = opened.started
            arguments = _values({key: now[key] for key in now if before.get(key, _NOTHING) != now[key]})
        if span.name != opened.name:
            arguments["name"] = str(span.name)
        if status.status_code is _ERROR:
            arguments["status"] = "error"
            if status.description:
                arguments["message"] = status.description
        while len(arguments) > MAX_ARGUMENTS:
            first = [*arguments][:MAX_ARGUMENTS]
            opened.mark(_INSTANT, "attributes", {key: arguments.pop(key) for key in first})
        stack = opened.stack
        if stack and stack[-1] is opened:
            stack.pop()
        else:
            opened.part_from_inner()
        is_recorded = _mark(_END, opened.track, opened.session, opened.name, opened.category, **arguments)
        if is_recorded and opened.is_client:
            arrows.draw(arrows.END, span.context.span_id)


@cache
def _watch_additions() -> None:
    """Have events and links recorded when they are added to spans, of which the SDK tells no processor."""
    add_event, add_link = sdk.Span.add_event, sdk.Span.add_link

    @wraps(add_event)
    def recorded_event(self: sdk.Span, /, *args: Any, **kwargs: Any) -> None:
        add_event(self, *args, **kwargs)
        opened = _open.get(self.context.span_id)
        if opened and self.events:
            event = self.events[-1]  # whose attributes are as the SDK wants them
            opened.mark(_INSTANT, str(event.name), _values(event.attributes))

    @wraps(add_link)
    def recorded_link(self: sdk.Span, /, *args: Any, **kwargs: Any) -> None:
        count = len(self.links)
        add_link(self, *args, **kwargs)
        opened = _open.get(self.context.span_id)
        if opened:
            for link in self.links[count:]:
                opened.link(link)

    for function in (recorded_event, recorded_link):
        setattr(sdk.Span, function.__name__, function)


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
    if _SIMPLE.issuperset(map(type, attributes.values())):
        return {**attributes}
    return {
        key: value if type(value) in _SIMPLE else json.dumps(value, default=repr) for key, value in attributes.items()
    }
