"""fxtio records Python programs, and reads and writes traces.

    trace = fxtio.open("app.fxt")
    for record in trace: ...
    events = trace.table("events")

    with fxtio.create("out.fxt") as writer: ...

    with fxtio.tracing("app.fxt"):
        with fxtio.span("request", path="/"): ...

Importing this package is cheap; readers, writers and the tracer are loaded on first use.

For pytest: PYTEST_DONT_REWRITE.  (It warns of plugins that are imported before it is, as in `fxtio run -m pytest`.)
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, overload

from fxtio import noop
from fxtio.errors import DecodeError, EncodeError, FormatError, FxtioError, LayoutError

if TYPE_CHECKING:
    from fxtio.coreprofiler.reader import CoreProfilerTrace
    from fxtio.coreprofiler.writer import CoreProfilerWriter
    from fxtio.dcpi.reader import DcpiTrace
    from fxtio.dcpi.writer import DcpiWriter
    from fxtio.formats import Trace, Writer
    from fxtio.fxt.reader import FxtTrace
    from fxtio.fxt.writer import FxtWriter
    from fxtio.io.reading import Progress
    from fxtio.mono.reader import MonoTrace
    from fxtio.mono.writer import MonoWriter
    from fxtio.timeline import Timeline
    from fxtio.tracer import counter, dump, flow, instant, log, operation, span, start, stop, trace, tracing
    from fxtio.uftrace.reader import UftraceTrace
    from fxtio.uftrace.writer import UftraceWriter

__version__ = "0.1.0"

__all__ = [
    "DecodeError",
    "EncodeError",
    "FormatError",
    "FxtioError",
    "LayoutError",
    "counter",
    "create",
    "dump",
    "flow",
    "instant",
    "log",
    "open",
    "open_timeline",
    "operation",
    "span",
    "start",
    "stop",
    "trace",
    "tracing",
]

_TRACER = frozenset(
    {"counter", "dump", "flow", "instant", "log", "operation", "span", "start", "stop", "trace", "tracing"}
)


# IPython looks for these names here, where `%load_ext fxtio` says; what they stand for is far above.
_EXTENSION = ("fxtio.bridges.notebook", {"load_ipython_extension": "load", "unload_ipython_extension": "unload"})


def __getattr__(name: str) -> Any:
    module, functions = _EXTENSION
    if name in functions:
        return getattr(import_module(module), functions[name])
    if name in _TRACER:
        return _of_tracer(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _of_tracer(name: str) -> Any:
    """Return a function of the tracer; one that does nothing where that cannot be imported, see `noop`."""
    tracer = sys.modules.get("fxtio.tracer") if sys.is_finalizing() else import_module("fxtio.tracer")
    if not hasattr(tracer, "__all__"):  # its last line: this is a signal handler in the middle of the import
        return getattr(noop, name)
    value = globals()[name] = getattr(tracer, name)
    if not sys.is_finalizing():
        listen = getattr(import_module("fxtio.tracer.startup"), "listen", None)
        if listen is not None:  # else who has begun to import it calls it
            listen()
    return value


def __dir__() -> list[str]:
    """Return the names that the package offers, those included that are loaded on first use."""
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])


@overload
def open(target: Any, *, format: Literal["fxt"] | None = ..., **options: Any) -> FxtTrace: ...  # noqa: A001
@overload
def open(target: Any, *, format: Literal["mono"], **options: Any) -> MonoTrace: ...  # noqa: A001
@overload
def open(target: Any, *, format: Literal["uftrace"], **options: Any) -> UftraceTrace: ...  # noqa: A001
@overload
def open(target: Any, *, format: Literal["coreprofiler"], **options: Any) -> CoreProfilerTrace: ...  # noqa: A001
@overload
def open(target: Any, *, format: Literal["dcpi"], **options: Any) -> DcpiTrace: ...  # noqa: A001
@overload
def open(target: Any, *, format: str, **options: Any) -> Trace: ...  # noqa: A001
def open(  # noqa: A001  # as in gzip and codecs
    target: Any,
    *,
    format: str | None = None,
    strict: bool = False,
    max_bytes: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Any:
    """Open a trace for reading.

    Args:
        target: a path, `-` for standard input, a URL (with the extra `fsspec`), a binary file object or bytes.
            Compression (gzip, zstd, xz) is recognized by content.  In some formats a trace is a directory.
        format: the name of the format; by default it is recognized by content, then by suffix.
        strict: raise `DecodeError` at the first fault, instead of collecting findings and reading on.
        max_bytes: the greatest number of decompressed bytes to read.
        progress: called now and then with the number of bytes read and the number of bytes in total (or None).
        options: further options of the format's reader, for example `data_version` of `fxtio.mono.MonoTrace`.

    Returns:
        The trace, an object of the format's reader class.  Type checkers take it for an FXT trace unless another
        format is given.

    Raises:
        FormatError: the target is not a trace of a known format; files of exchange formats, such as Chrome JSON, are
            for `open_timeline`.
        OSError: the target cannot be opened.
        TypeError: the format's reader does not have an option.
    """
    from fxtio.exchange.opening import open_trace

    return open_trace(target, format=format, strict=strict, max_bytes=max_bytes, progress=progress, **options)


def open_timeline(target: Any, *, format: str | None = None, **options: Any) -> Timeline:
    """Open a trace as format-neutral tables: slices, instants, counters, samples and others.

    Args:
        target: what to read, see `open`.  Files of exchange formats, such as Chrome JSON, can be read, too.
        format: the name of the format; by default it is recognized by content, then by suffix.
        options: further options of `open`.

    Returns:
        The timeline, which closes the trace when it is closed.

    Raises:
        FormatError: the target is not a trace of a known format.
        OSError: the target cannot be opened.
    """
    from fxtio.exchange.opening import open_timeline

    return open_timeline(target, format=format, **options)


@overload
def create(target: Any, *, format: Literal["fxt"] | None = ..., **options: Any) -> FxtWriter: ...
@overload
def create(target: Any, *, format: Literal["mono"], **options: Any) -> MonoWriter: ...
@overload
def create(target: Any, *, format: Literal["uftrace"], **options: Any) -> UftraceWriter: ...
@overload
def create(target: Any, *, format: Literal["coreprofiler"], **options: Any) -> CoreProfilerWriter: ...
@overload
def create(target: Any, *, format: Literal["dcpi"], **options: Any) -> DcpiWriter: ...
@overload
def create(target: Any, *, format: str, **options: Any) -> Writer: ...
def create(target: Any, *, format: str | None = None, **options: Any) -> Any:
    """Create a trace.

    Args:
        target: a path (`.gz`, `.zst` and `.xz` compress), `-` for standard output, or a binary file object.
        format: the name of the format; by default it is recognized by the suffix of the target.
        options: options of the format's writer, for example `wall_clock` of `fxtio.fxt.FxtWriter`.

    Returns:
        The writer, an object of the format's writer class.

    Raises:
        FormatError: the format is not known.
        OSError: the target cannot be created.
        TypeError: the format's writer does not have an option.
    """
    from fxtio.formats import by_name, by_suffix

    if format is None:
        chosen = by_suffix(str(target))
        if chosen is None:
            raise FormatError(f"{target}: the suffix is of no known format; give one, for example format='fxt'")
    else:
        chosen = by_name(format)
    return chosen.create(target, **options)
