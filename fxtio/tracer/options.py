"""The options of a recording, as texts that people write, and as the environment of a process has them.

`FXTIO=out.fxt python app.py` records a program by environment variables.  A recording sets them for the processes that
its program starts, so that these record parts of the same trace.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fxtio.errors import FxtioError, require_type, shown
from fxtio.labels import checked
from fxtio.tracer.clock import RecordingClock
from fxtio.tracer.functions import absolute_pattern

COMPRESSED = (".zst", ".gz", ".xz")
"""The suffixes of traces that are compressed at the end."""

DEFAULT_OUTPUT = "trace.fxt"
_DEEPEST = 2**32 - 1
"""The recorder counts calls that are nested in 32 bits."""

_PATTERNS = ("include", "exclude", "args", "results")
_LISTS = ("categories", *_PATTERNS, "sources", "dump_on")
_TYPES: tuple[tuple[tuple[str, ...], tuple[type, ...], str], ...] = (
    (("output",), (str, os.PathLike), "a path"),
    (("functions", "c_functions", "children"), (bool,), "True or False"),
    (("max_depth",), (int,), "an integer"),
    (("min_duration", "max_size", "ring"), (str, int), "a text with a unit, or an integer"),
    ((*_LISTS, "labels"), (Iterable,), "a text or several texts"),
)
"""Names of options, their types, and what an error says of these."""


class Options(NamedTuple):
    """The options of a recording.

    Attributes:
        output: the file; `.zst`, `.gz` and `.xz` compress it at the end.
        categories: record only events of these categories; a name that begins with `-` is left out instead.
        functions: whether to record the calls of Python functions that are not decorated.
        c_functions: whether to record the calls of C functions by these as well.
        include: files, folders and modules (with `*`) whose functions are recorded; all if empty.
        exclude: files, folders and modules whose functions are not recorded.
        args: functions (`app.handle`), files, folders and modules whose functions are recorded with their arguments.
        results: functions, files, folders and modules whose functions are recorded with their results.
        max_depth: calls nested deeper are left out; 0 for no limit.
        min_duration: calls shorter than this, such as "10us", are left out if nothing was recorded within them.
        max_size: the file does not grow beyond this, such as "1GiB"; then nothing more is recorded.
        ring: keep only about this many bytes of the latest events, such as "64MiB"; None keeps everything.
        children: whether to record the processes that this one starts, as parts of the same trace.
        sources: what to record besides, such as "gc" and "logging"; "all" for all of `fxtio.tracer.sources`.
        dump_on: what takes dumps: "exception" for one that nobody catches, a signal such as "SIGUSR2", or a span that
            takes longer than a time, such as "slow:100ms", or a step that holds an event loop: "blocking:100ms".
        labels: what tells this recording from others: texts by name, or texts such as "build=1a2b".
    """

    output: str | os.PathLike[str] = DEFAULT_OUTPUT
    categories: Iterable[str] = ()
    functions: bool = False
    c_functions: bool = False
    include: Iterable[str] = ()
    exclude: Iterable[str] = ()
    args: Iterable[str] = ()
    results: Iterable[str] = ()
    max_depth: int = 0
    min_duration: str | int = 0
    max_size: str | int = 0
    ring: str | int | None = None
    children: bool = True
    sources: Iterable[str] = ()
    dump_on: Iterable[str] = ()
    labels: Mapping[str, str] | Iterable[str] = ()

    def normalized(self) -> Options:
        """Return the options with tuples for other collections, and with absolute paths in patterns.

        Raises:
            TypeError: an option is of a wrong type.
            ValueError: the greatest depth is negative, or a label cannot be recorded.
        """
        for names, types, expected in _TYPES:
            for name in names:
                self._check(name, types, expected)
        lists: dict[str, Any] = {}
        for name in _LISTS:
            value = getattr(self, name)
            values = (value,) if isinstance(value, str) else tuple(value)
            for each in values:
                require_type(each, (str,), f"each of {name} is a text")
            lists[name] = tuple(map(absolute_pattern, values)) if name in _PATTERNS else values
        if not 0 <= self.max_depth <= _DEEPEST:
            depth = shown(self.max_depth)
            raise ValueError(f"the greatest depth is {depth}; it is from 1 to {_DEEPEST:,}, or 0 for no limit")
        labels = tuple(f"{name}={text}" for name, text in checked(self.labels).items())
        return self._replace(**lists, labels=labels)

    def _check(self, name: str, types: tuple[type, ...], expected: str) -> None:
        """Raise TypeError if an option is of another type; True is no number here, and only a ring may be None."""
        value = getattr(self, name)
        if isinstance(value, bool) and bool not in types:
            types = ()
        if value is not None or name != "ring":
            require_type(value, types, f"{name} is {expected}")


def refuse_other_outputs(output: str | os.PathLike[str]) -> None:
    """Make sure that the trace is a file, and not named like one in another format.

    Raises:
        ValueError: it is a URL, or named so.
    """
    path = os.fsdecode(output)
    if "://" in path:
        raise ValueError(f"{path}: a recording cannot be written to a URL; record to a file, and copy it there")
    name = next((path.removesuffix(each) for each in COMPRESSED if path.endswith(each)), path)
    stem, dot, suffix = name.rpartition(".")
    if not dot or os.sep in suffix or suffix == "fxt":
        return  # nearly always, and without the registry of formats, which takes long to import
    from fxtio.exchange.convert import format_of

    try:
        other = format_of(path)
    except FxtioError:
        return
    if other != "fxt":
        advice = f"record to {stem}.fxt, then `fxtio convert {stem}.fxt {path}`"
        raise ValueError(f"{path} is named like a trace in the format {other}, but a recording is FXT: {advice}")


_SIZES = {"": 1, "b": 1, "k": 1000, "kb": 1000, "m": 10**6, "mb": 10**6, "g": 10**9, "gb": 10**9}
_SIZES |= {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
_TIMES = {"ns": 1, "us": 1000, "µs": 1000, "ms": 10**6, "s": 10**9}
_TOO_LARGE = 1 << 60
"""What is not a size or a time any more: an exbibyte, 36 years.  The recorder counts in 64 bits, times in ticks."""

_NUMBER_AND_UNIT = r"\s*(\d+(?:\.\d+)?)\s*([a-zµ]*)\s*"


def size_in_bytes(size: str | int) -> int:
    """Return the bytes in `64MiB`, `1.5 GB` or a number of bytes, see `_parse`."""
    return _parse(size, _SIZES, "a size such as 64MiB")


def time_in_ns(time: str | int) -> int:
    """Return the nanoseconds in a text such as `10us` or `1.5 ms`, or in an integer, see `_parse`.

    A text without a unit is refused: some commands took it for seconds, others for nanoseconds.
    """
    return _parse(time, _TIMES, "a time such as 10us")


def time_as_text(ns: int) -> str:
    """Return a time in nanoseconds as people read it: `2.35 s`, `350 ms`."""
    return f"{ns / 1e9:,.2f} s" if ns >= 10**9 else f"{ns / 1e6:.3g} ms"


def _parse(text: str | int, units: dict[str, int], expected: str) -> int:
    """Return the number that a text with a unit, or an integer, stands for.

    Raises:
        ValueError: it is something else than expected, or too large.
        TypeError: it is neither a text nor an integer.
    """
    if isinstance(text, int):
        if not 0 <= text < _TOO_LARGE:
            raise ValueError(f"{shown(text)} is {'not' if text < 0 else 'too large for'} {expected}")
        return text
    if not isinstance(text, str):
        raise TypeError(f"{shown(text)} is not {expected}")
    match = re.fullmatch(_NUMBER_AND_UNIT, text, re.IGNORECASE)
    if match is not None and not match[2] and not float(match[1]):
        return 0
    unit = units.get(match[2].lower()) if match else None
    if match is None or unit is None:
        reason = f": its unit is missing, one of {', '.join(units)}" if match and not match[2] else ""
        raise ValueError(f"{shown(text)} is not {expected}{reason}")
    number = float(match[1]) * unit
    if number >= _TOO_LARGE:
        raise ValueError(f"{shown(text)} is too large for {expected}")
    return round(number)


# ---- The environment.

OUTPUT = "FXTIO"
OPTIONS = "FXTIO_OPTIONS"
PARENT = "FXTIO_PARENT"
WAIT = "wait"
"""The value of `FXTIO` that records nothing, but lets `fxtio attach` do so at any time."""

_USUAL = '{"functions": true}'  # as json prints it, which takes long to import
# Processes of multiprocessing, joblib and billiard that outlive the program and do nothing of interest.
_HELPERS = ("resource_tracker import main", "semaphore_tracker import main")
_FORK_SERVER = "multiprocessing.forkserver"  # so does this one, but what it forks are the program's


def variables_of(trace: Path, options: Options, clock: RecordingClock) -> dict[str, str]:
    """Return the variables that let child processes record parts of the same trace."""
    text = _USUAL if options._replace(output=DEFAULT_OUTPUT) == Options(functions=True) else _as_json(options)
    return {OUTPUT: str(trace), OPTIONS: text, PARENT: " ".join(map(str, clock.facts()))}


def _as_json(options: Options) -> str:
    from json import dumps

    return dumps({name: value for name, value in options._asdict().items() if name != "output"})


def is_fork_server() -> bool:
    """Return whether this is the server of `multiprocessing` that forks processes, or a fork of it."""
    return any(_FORK_SERVER in argument for argument in sys.orig_argv)


def is_foreign() -> bool:
    """Return whether somebody with less rights than this process may have set its variables, as in a setuid program."""
    return hasattr(os, "geteuid") and (os.getuid() != os.geteuid() or os.getgid() != os.getegid())


def waits() -> bool:
    """Return whether the environment asks to wait for `fxtio attach`."""
    return os.environ.get(OUTPUT) == WAIT


def requested() -> tuple[Options, RecordingClock | None] | None:
    """Return the recording that the environment asks for.

    Returns:
        The options, and the clock of the parent process if that is recorded; None if nothing is asked for.

    Raises:
        ValueError, TypeError: the variables make no sense.
    """
    output = os.environ.get(OUTPUT)
    if not output or any(helper in argument for helper in _HELPERS for argument in sys.orig_argv):
        return None
    if output == "1":  # the usual way to switch something on is no name
        output = DEFAULT_OUTPUT
    parent = os.environ.get(PARENT)
    clock = RecordingClock(*map(int, parent.split())) if parent else None
    return _of_json(output, os.environ.get(OPTIONS) or _USUAL), clock


def _of_json(output: str, text: str) -> Options:
    if text == _USUAL:
        return Options(output, functions=True)
    from json import loads

    return Options(output, **{name: value for name, value in loads(text).items() if name in Options._fields})
