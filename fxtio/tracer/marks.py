"""The marks that a program sets: spans, instants, counters, flows and log messages.

Spans, instants and counters are functions of the recorder itself.
"""

from __future__ import annotations

import itertools
import os

from fxtio.tracer.backend import recorder
from fxtio.tracer.layout import KINDS

span = recorder.span
instant = recorder.instant
counter = recorder.counter

_numbers = itertools.count(1)
_PER_PROCESS = 1 << 40


class Flow:
    """An arrow from span to span, across threads and processes.

    Each method marks the span that is open where it is called; a step or an end elsewhere needs only the id.

    Args:
        name: its name.
        category: its category.
        id: the same for all of its points; a new one unless given.

    Attributes:
        id: what another process needs to continue the arrow.
    """

    __slots__ = ("_site", "id")

    def __init__(self, name: str, category: str = "", /, *, id: int | None = None) -> None:
        self.id = os.getpid() * _PER_PROCESS + next(_numbers) if id is None else id
        self._site = recorder.Site(category, name)

    def begin(self) -> None:
        """Begin the arrow in the span that is open here."""
        recorder.record(KINDS["flow_begin"], self._site, (), self.id)

    def step(self) -> None:
        """Lead the arrow through the span that is open here."""
        recorder.record(KINDS["flow_step"], self._site, (), self.id)

    def end(self) -> None:
        """End the arrow in the span that is open here."""
        recorder.record(KINDS["flow_end"], self._site, (), self.id)


def flow(name: str, category: str = "", /, *, id: int | None = None) -> Flow:
    """Begin an arrow in the span that is open here, or continue the arrow with the given id.

    Args:
        name: its name.
        category: its category.
        id: the id of the arrow to continue; without it, a new arrow begins.
    """
    arrow = Flow(name, category, id=id)
    if id is None:
        arrow.begin()
    return arrow


def log(message: str, category: str = "log", /) -> None:
    """Record a message: as a log record, and as an instant, because not every viewer shows log records.

    Args:
        message: the text; at most 1,000 bytes of it are in the instant, 4,000 in the log record.
        category: the category of the instant.
    """
    recorder.message(message)
    recorder.instant("log", category, message=message)
