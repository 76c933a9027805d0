"""Arrows between spans, and log messages."""

from __future__ import annotations

import itertools
import os

from fxtio.tracer.backend import recorder
from fxtio.tracer.layout import KINDS

_numbers = itertools.count(1)
_PER_PROCESS = 1 << 40


class Flow:
    """An arrow from span to span, across threads and processes.

    Each method marks the span that is open where it is called; a step or an end elsewhere needs only the id.

    Args:
        name: its name.
        category: its category.
        id: the same for all of its points; a new one, unless given.

    Attributes:
        id: what another process needs to go on with it.
    """

    __slots__ = ("_site", "id")

    def __init__(self, name: str, category: str = "", /, *, id: int | None = None) -> None:
        self.id = os.getpid() * _PER_PROCESS + next(_numbers) if id is None else id
        self._site = recorder.Site(category, name)

    def begin(self) -> None:
        """The arrow starts in the span that is open here."""
        recorder.record(KINDS["flow_begin"], self._site, (), self.id)

    def step(self) -> None:
        """It passes through the span that is open here."""
        recorder.record(KINDS["flow_step"], self._site, (), self.id)

    def end(self) -> None:
        """It ends in the span that is open here."""
        recorder.record(KINDS["flow_end"], self._site, (), self.id)


def flow(name: str, category: str = "", /, *, id: int | None = None) -> Flow:
    """An arrow that starts in the span that is open here; see `Flow`.  With an id, it goes on with that arrow.

    Args:
        name: its name.
        category: its category.
        id: of the arrow to go on with.
    """
    made = Flow(name, category, id=id)
    if id is None:
        made.begin()
    return made


def log(message: str, category: str = "log", /) -> None:
    """Record a message: as a log record, and as an instant, because not every viewer shows log records.

    Args:
        message: the text; at most 1,000 bytes of it are in the instant, 4,000 in the log record.
        category: of the instant.
    """
    recorder.message(message)
    recorder.instant("log", category, message=message)
