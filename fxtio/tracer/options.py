"""What a program can say about a recording."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from fxtio.tracer.functions import absolute

DEFAULT_OUTPUT = "trace.fxt"
_PLACES = ("include", "exclude")
_SEVERAL = ("categories", "include", "exclude", "sources", "dump_on")


@dataclass(frozen=True)
class Options:
    """What is recorded.

    Attributes:
        output: the file; `.zst`, `.gz` and `.xz` compress it at the end.
        categories: only events of these; those that begin with `-` are left out instead.
        functions: whether to record the calls of Python functions without being asked to by a decorator.
        c_functions: whether to record the calls of C functions by these as well.
        include: files, folders and modules (with `*`) of which functions are recorded; all, unless told.
        exclude: those of which none are.
        max_depth: calls nested deeper are left out; 0 for no limit.
        min_duration: calls shorter than this are left out where nothing was recorded within, such as "10us".
        max_size: the file does not grow beyond, such as "1GiB"; what comes later is lost and counted.
        ring: keep only about the last so many bytes, such as "64MiB"; None keeps everything.
        children: whether processes that this one starts record as well, to become part of the same trace.
        sources: what is recorded besides, such as "gc" and "logging"; "all" for all that `fxtio.tracer.sources` has.
        dump_on: what takes dumps: "exception" that nobody catches, a signal as "SIGUSR2", a span that takes longer than
            a time as "slow:100ms".
    """

    output: str | os.PathLike[str] = DEFAULT_OUTPUT
    categories: Iterable[str] = ()
    functions: bool = False
    c_functions: bool = False
    include: Iterable[str] = ()
    exclude: Iterable[str] = ()
    max_depth: int = 0
    min_duration: str | int = 0
    max_size: str | int = 0
    ring: str | int | None = None
    children: bool = True
    sources: Iterable[str] = ()
    dump_on: Iterable[str] = ()

    def __post_init__(self) -> None:
        for name in _SEVERAL:
            given = getattr(self, name)
            several = (given,) if isinstance(given, str) else tuple(given)
            object.__setattr__(self, name, tuple(map(absolute, several)) if name in _PLACES else several)
