"""The cost of one event: a child process of bench_tracer.py measures all cases of one set-up and prints them as JSON.

    python benchmarks/tracer_cases.py fxtio FOLDER

Blocks of the untraced and the traced statement alternate; the clock is the processor time of the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import statistics
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path
from time import process_time
from typing import Any

PAIRS = 25
BLOCK_SECONDS = 0.0015

LOOP = """
def block(times):
    begin = clock()
    for _ in times:
        {}
    return clock() - begin
"""
AWAITS = LOOP.replace("def ", "async def ", 1)
ITEMS = """
def block(times):
    begin = clock()
    for _ in {}(times):
        pass
    return clock() - begin
"""
FUNCTIONS = """
def work():
    pass

async def coroutine():
    pass

def items(times):
    for one in times:
        yield one
"""


@dataclass(frozen=True)
class Case:
    """A statement without a tracer, and the loop around it."""

    plain: str
    loop: str = LOOP


CASES = {
    "decorated function": Case("plain()"),
    "span": Case("pass"),
    "span, two arguments": Case("pass"),
    "instant": Case("pass"),
    "counter": Case("pass"),
    "await of a decorated coroutine": Case("await plain_coroutine()", AWAITS),
    "item of a decorated generator": Case("plain_items", ITEMS),
}


@dataclass(frozen=True)
class Setup:
    """A tracer, ready.

    Attributes:
        statements: the traced statement of each case that it has.
        names: what the statements use.
        clear: throws away what was recorded, so that its buffer stays in the cache.
    """

    statements: dict[str, str]
    names: dict[str, Any]
    clear: Callable[[], object] = field(default=lambda: None)


def functions(decorate: Callable[[Any], Any]) -> dict[str, Any]:
    """Return a function, a coroutine and a generator, decorated; with new code each time, since the code is marked."""
    names: dict[str, Any] = {}
    exec(FUNCTIONS, names)
    return {name: decorate(names[name]) for name in ("work", "coroutine", "items")}


def fxtio(folder: Path, *, on: bool = True) -> Setup:
    """Set up fxtio."""
    import fxtio

    names = functions(fxtio.trace) | {"span": fxtio.span, "instant": fxtio.instant, "counter": fxtio.counter}
    if on:
        fxtio.start(folder / "out.fxt")
    statements = {
        "decorated function": "work()",
        "span": "with span('step'): pass",
        "span, two arguments": "with span('step', count=1, label='high'): pass",
        "instant": "instant('tick')",
        "counter": "counter('queue', 5)",
        "await of a decorated coroutine": "await coroutine()",
        "item of a decorated generator": "items",
    }
    return Setup(statements, names)


def fxtio_off(folder: Path) -> Setup:
    """Set up fxtio without a recording."""
    return fxtio(folder, on=False)


def floor(folder: Path) -> Setup:
    """Set up the least that a recorder in C can cost."""
    import tracer_floor

    least = tracer_floor.built(folder)
    names = functions(lambda it: it)
    statements = {
        "decorated function": "work()",
        "span": "with span('step'): pass",
        "span, two arguments": "with span('step', count=1, label='high'): pass",
        "instant": "event('tick')",
        "counter": "event('queue', 5)",
    }
    if sys.version_info >= (3, 12):
        tracer_floor.watch(least, [names["work"].__code__, names["coroutine"].__code__])
        statements["await of a decorated coroutine"] = "await coroutine()"
    else:
        names["work"] = least.stands_for(names["work"])
    return Setup(statements, names | {"span": least.span, "event": least.event})


def viztracer(folder: Path) -> Setup:
    """Set up decorators and spans of VizTracer, without the tracing of functions."""
    from viztracer import VizTracer, log_sparse

    tracer = VizTracer(log_sparse=True, verbose=0, output_file=str(folder / "out.json"))
    statements = {"decorated function": "work()", "span": "with tracer.log_event('step'): pass"}
    return Setup(statements, {"work": log_sparse(functions(lambda it: it)["work"]), "tracer": tracer}, tracer.clear)


def viztracer_points(folder: Path) -> Setup:
    """Set up instants and counters of VizTracer, which need the tracing of functions."""
    from viztracer import VizTracer

    tracer = VizTracer(ignore_c_function=True, verbose=0, output_file=str(folder / "out.json"))
    tracer.start()
    statements = {"instant": "tracer.add_instant('tick')", "counter": "tracer.add_counter('queue', {'queue': 5})"}
    return Setup(statements, {"tracer": tracer}, tracer.clear)


def viztracer_off(folder: Path) -> Setup:
    """Set up VizTracer without a tracer for decorators, and with a tracer that is not started for the rest."""
    from viztracer import VizTracer, log_sparse

    work = log_sparse(functions(lambda it: it)["work"])
    tracer = VizTracer(verbose=0, output_file=str(folder / "out.json"))
    statements = {
        "decorated function": "work()",
        "instant": "tracer.add_instant('tick')",
        "counter": "tracer.add_counter('queue', {'queue': 5})",
    }
    return Setup(statements, {"work": work, "tracer": tracer})


def opentelemetry_off(_: Path) -> Setup:
    """Set up OpenTelemetry without a provider, as in a library whose user has no SDK."""
    from opentelemetry import trace

    tracer = trace.get_tracer("benchmark")
    spans = "with tracer.start_as_current_span('step'{}): pass"
    statements = {
        "decorated function": "work()",
        "span": spans.format(""),
        "span, two arguments": spans.format(", attributes={'count': 1, 'label': 'high'}"),
        "instant": "current.add_event('tick')",
        "await of a decorated coroutine": "await coroutine()",
    }
    names = functions(tracer.start_as_current_span("work"))
    return Setup(statements, names | {"tracer": tracer, "current": trace.get_current_span()})


def opentelemetry(folder: Path) -> Setup:
    """Set up OpenTelemetry's SDK with a batch processor and an exporter that discards everything."""
    from opentelemetry import metrics, trace
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

    class Null(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            return SpanExportResult.SUCCESS

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Null()))
    trace.set_tracer_provider(provider)
    metrics.set_meter_provider(MeterProvider([InMemoryMetricReader()]))
    off = opentelemetry_off(folder)
    gauge = metrics.get_meter("benchmark").create_gauge("queue")
    names = off.names | {"current": trace.get_tracer("benchmark").start_span("open"), "gauge": gauge}
    return Setup(off.statements | {"counter": "gauge.set(5)"}, names)


SETUPS: dict[str, Callable[[Path], Setup]] = {
    "fxtio": fxtio,
    "fxtio_off": fxtio_off,
    "floor": floor,
    "viztracer": viztracer,
    "viztracer_points": viztracer_points,
    "viztracer_off": viztracer_off,
    "opentelemetry": opentelemetry,
    "opentelemetry_off": opentelemetry_off,
}


@contextlib.contextmanager
def runner() -> Iterator[Callable[[Any], Any]]:
    """Return what runs a block; a coroutine function runs in a task of an event loop, as in an asyncio program."""
    with asyncio.Runner() as loop:
        loop.get_loop()

        def run(block: Any) -> Any:
            return loop.run(block) if isinstance(block, types.CoroutineType) else block

        yield run


def compiled(loop: str, statement: str, names: dict[str, Any]) -> Callable[..., Any]:
    """Return a block: a function that repeats the statement and returns the seconds."""
    namespace = names | {"clock": process_time}
    exec(loop.format(statement), namespace)
    block: Callable[..., Any] = namespace["block"]
    return block


def measure(case: Case, setup: Setup, statement: str, run: Callable[[Any], Any]) -> float:
    """Return how many nanoseconds longer the traced statement takes: the median of some pairs of blocks."""
    untraced = functions(lambda it: it)
    names = {"plain": untraced["work"], "plain_coroutine": untraced["coroutine"], "plain_items": untraced["items"]}
    plain, traced = compiled(case.loop, case.plain, names), compiled(case.loop, statement, setup.names)
    times = 100
    while (seconds := run(traced(repeat(None, times)))) < BLOCK_SECONDS / 2:
        times *= 2
    times = max(100, int(times * BLOCK_SECONDS / seconds))
    run(plain(repeat(None, times)))
    pairs: list[float] = []
    for _ in range(PAIRS):
        setup.clear()
        longer = run(traced(repeat(None, times))) - run(plain(repeat(None, times)))
        pairs.append(longer / times * 1e9)
    return statistics.median(pairs)


def main() -> None:
    """Measure all cases of a set-up."""
    setup = SETUPS[sys.argv[1]](Path(sys.argv[2]))
    gc.collect()
    gc.freeze()
    with runner() as run:
        results = {name: measure(CASES[name], setup, text, run) for name, text in setup.statements.items()}
    print(json.dumps(results))


if __name__ == "__main__":
    main()
