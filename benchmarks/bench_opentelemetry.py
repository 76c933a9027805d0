"""The cost of the bridges: a span of OpenTelemetry, a request through the middleware, and a task of Celery.

    python benchmarks/bench_opentelemetry.py

Rounds of all kinds alternate in one process.  Figures are processor time in microseconds: of the best round each, and
what it takes more than that of the first kind.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import celery
from celery import signals
from celery.app import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

import fxtio
from fxtio.bridges import opentelemetry, requests

ROUNDS = 400
TIMES = 200
ATTRIBUTES = {"http.method": "GET", "http.route": "/orders/{number}", "number": 7}


class NoExporter(SpanExporter):
    """Exports nothing, as that would run in another thread anyway."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Do nothing."""
        return SpanExportResult.SUCCESS


def spans(processor: SpanProcessor, attributes: dict[str, Any] | None) -> Callable[[], None]:
    """Return what makes spans, of which each tenth one is around the others."""
    provider = TracerProvider()
    provider.add_span_processor(processor)
    tracer = provider.get_tracer("shop")

    def run() -> None:
        for _ in range(TIMES // 10):
            with tracer.start_as_current_span("outer", attributes=attributes):
                for _ in range(9):
                    with tracer.start_as_current_span("inner", attributes=attributes):
                        pass

    return run


def wsgi_requests(wrap: Callable[[Any], Any]) -> Callable[[], None]:
    """Return what sends requests to a WSGI application that does nothing."""

    def app(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return [b""]

    wrapped, environ = wrap(app), {"REQUEST_METHOD": "GET", "PATH_INFO": "/orders/7"}

    def run() -> None:
        for _ in range(TIMES):
            wrapped(environ, lambda status, headers: None)

    return run


def asgi_requests(wrap: Callable[[Any], Any]) -> Callable[[], None]:
    """Return what sends requests to an ASGI application that does nothing, all in one task."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    wrapped = wrap(app)
    headers = [(b"host", b"shop"), (b"accept", b"*/*"), (b"user-agent", b"none"), (b"cookie", b"a=b")]

    async def send(message: Any) -> None:
        pass

    async def serve() -> None:
        for _ in range(TIMES):
            await wrapped({"type": "http", "method": "GET", "path": "/orders/7", "headers": headers}, None, send)

    return lambda: asyncio.run(serve())


def celery_tasks(prepare: Callable[[], object]) -> Callable[[], None]:
    """Return what runs tasks of Celery that do nothing, as a worker does, with the header of an arrow.

    Args:
        prepare: is called before the function is made by which a worker runs the task.
    """
    shop = celery.Celery("shop", broker="memory://", set_as_current=False)

    def pay() -> None:
        pass

    prepare()
    run_task = trace.build_tracer("pay", shop.task(pay, name="pay", shared=False), app=shop)

    def run() -> None:
        for number in range(1, TIMES + 1):
            run_task(str(number), (), {}, {"fxtio_flow": str(number)})

    return run


def with_signals(run: Callable[[], None]) -> Callable[[], None]:
    """Return what does the same while functions that do nothing are connected to the signals around a task."""

    def connected() -> None:
        for signal in (signals.task_prerun, signals.task_postrun):
            signal.connect(do_nothing)
        run()
        for signal in (signals.task_prerun, signals.task_postrun):
            signal.receivers.clear()

    return connected


def do_nothing(task: Any = None, **_: Any) -> None:
    """Take what a signal is sent with."""


def microseconds(work: Callable[[], None]) -> float:
    """Return the processor time of a round, for each span or request."""
    begin = time.process_time_ns()
    work()
    return (time.process_time_ns() - begin) / TIMES / 1000


def compare(title: str, works: dict[str, Callable[[], None]]) -> None:
    """Print the time of each kind of work, and what it takes more than the first one."""
    print(title)
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(ROUNDS):
        for name, work in works.items():
            times[name].append(microseconds(work))
    base = min(next(iter(times.values())))
    for name, figures in times.items():
        print(f"  {name:26}{min(figures):6.2f} us  +{min(figures) - base:5.2f} us")


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder, fxtio.tracing(Path(folder, "out.fxt"), ring="64MiB"):
        for title, attributes in (("a span", None), ("a span with three attributes", ATTRIBUTES)):
            compare(title, {
                "no processor does a thing": spans(SpanProcessor(), attributes),
                "fxtio": spans(opentelemetry.SpanProcessor(), attributes),
                "BatchSpanProcessor": spans(BatchSpanProcessor(NoExporter()), attributes),
            })  # fmt: skip
        compare("a request of WSGI", {"plain": wsgi_requests(lambda app: app), "fxtio": wsgi_requests(requests.wsgi)})
        compare("a request of ASGI", {"plain": asgi_requests(lambda app: app), "fxtio": asgi_requests(requests.asgi)})
        compare("a task of Celery", {
            "plain": celery_tasks(lambda: None),
            "signals do nothing": with_signals(celery_tasks(lambda: None)),
            "fxtio": celery_tasks(requests.celery),
        })  # fmt: skip


if __name__ == "__main__":
    main()
