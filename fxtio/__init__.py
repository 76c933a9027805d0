"""fxtio reads, writes and emits traces.

    trace = fxtio.open("app.fxt")
    for record in trace: ...
    events = trace.table("events")

    with fxtio.create("out.fxt") as writer: ...

    with fxtio.tracing("app.fxt"):
        with fxtio.span("request", path="/"): ...

Importing this package is cheap; what reads, writes and traces is loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, overload

from fxtio.errors import DecodeError, EncodeError, FormatError, FxtioError, LayoutError

if TYPE_CHECKING:
    from fxtio.fxt.reader import FxtTrace
    from fxtio.fxt.writer import FxtWriter
    from fxtio.io.reading import Progress
    from fxtio.tracer import counter, dump, flow, instant, log, span, start, stop, trace, tracing

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
    "span",
    "start",
    "stop",
    "trace",
    "tracing",
]

_TRACER = frozenset({"counter", "dump", "flow", "instant", "log", "span", "start", "stop", "trace", "tracing"})


def __getattr__(name: str) -> Any:
    if name in _TRACER:
        found = globals()[name] = getattr(import_module("fxtio.tracer"), name)
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@overload
def open(  # noqa: A001
    target: Any,
    *,
    format: Literal["fxt"] | None = ...,
    strict: bool = ...,
    max_bytes: int | None = ...,
    progress: Progress | None = ...,
    **options: Any,
) -> FxtTrace: ...
@overload
def open(  # noqa: A001
    target: Any,
    *,
    format: str,
    strict: bool = ...,
    max_bytes: int | None = ...,
    progress: Progress | None = ...,
    **options: Any,
) -> Any: ...
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
            Compression (gzip, zstd, xz) is told by content.  A directory is a trace in some formats.
        format: the format's name; told by content, then by suffix, unless given.
        strict: raise `DecodeError` at the first fault, instead of collecting findings and reading on.
        max_bytes: read no more than so many decompressed bytes.
        progress: called now and then with the bytes read and the bytes in all (or None).
        options: what else the format's reader takes, for example `data_version` of `fxtio.mono.MonoTrace`.

    Returns:
        The trace, of its format's class; for type checkers that of `fxtio.fxt.FxtTrace`, unless another format is
        asked for.

    Raises:
        FormatError: it is not a trace of a known format.
        OSError: it cannot be opened.
        TypeError: the format's reader has no such option.
    """
    from fxtio.formats import by_name, of_directory, of_source
    from fxtio.io.source import is_directory, open_source

    options |= {"strict": strict, "max_bytes": max_bytes, "progress": progress}
    folder = is_directory(target)
    source = None if folder else open_source(target, limit=max_bytes)
    try:
        chosen = by_name(format) if format else of_directory(target) if source is None else of_source(source)
        if chosen.directory != folder:
            is_what, wanted = ("a directory", "a file") if folder else ("no directory", "one")
            name = target if source is None else source.name
            raise FormatError(f"{name} is {is_what}; a trace in the format {chosen.name} is {wanted}")
        return chosen.open(target, source=source, **options)
    except (FxtioError, TypeError):
        if source is not None:
            source.close()
        raise


@overload
def create(target: Any, *, format: Literal["fxt"] | None = ..., **options: Any) -> FxtWriter: ...
@overload
def create(target: Any, *, format: str, **options: Any) -> Any: ...
def create(target: Any, *, format: str | None = None, **options: Any) -> Any:
    """Create a trace.

    Args:
        target: a path (`.gz`, `.zst` and `.xz` compress), `-` for standard output, or a binary file object.
        format: the format's name; told by the suffix unless given.
        options: what the format's writer takes, see `fxtio.fxt.FxtWriter`.

    Returns:
        The writer, of its format's class.

    Raises:
        FormatError: the suffix tells no format.
        OSError: it cannot be created.
    """
    from fxtio.formats import by_name, by_suffix

    if format is None:
        chosen = by_suffix(str(target))
        if chosen is None:
            raise FormatError(f"{target}: the name tells no format; say format='fxt'")
    else:
        chosen = by_name(format)
    return chosen.create(target, **options)
