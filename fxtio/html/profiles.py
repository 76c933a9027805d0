"""Speedscope JSON of a page: how large it gets, and how it is written."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from fxtio.exchange.speedscope import Exporter
from fxtio.html.cells import short
from fxtio.html.contents import Flame
from fxtio.io.sink import Sink
from fxtio.table import Table
from fxtio.timeline.losses import plain
from fxtio.timeline.parts import Registry

FRAME_SIZE: Final = 60
"""The most bytes of JSON of a frame, besides its texts."""

PROFILE_SIZE: Final = 400
"""The most bytes of JSON of a profile, besides its title and its content."""

EVENT_SIZE: Final = len('{"type":"O","frame":,"at":},')
"""The bytes of JSON of the begin or end of a slice, besides its numbers."""

HEAD_SIZE: Final = 1_000
"""The most bytes of JSON of a file without frames and profiles."""


@dataclass(slots=True)
class Reduced:
    """A flame graph, and what it does not show.

    Attributes:
        flame: the flame graph.
        notes: sentences about what was left out.
        count: the number of slices, samples or allocations that are shown.
        total: the time of the outermost ones, or the weight.
        profiles: the number of tracks, or of other profiles.
    """

    flame: Flame
    notes: list[str]
    count: int
    total: int
    profiles: int = 1


def exported(title: str, registry: Registry, tables: Mapping[str, Table], *, unnamed: str = "samples") -> bytes:
    """Return tables as speedscope JSON.

    Args:
        title: the name of the file.
        registry: the names, threads and tracks of the tables.
        tables: the rows.
        unnamed: the title of samples without a thread.
    """
    stream = io.BytesIO()
    name = plain(short(title), Counter())
    exporter = Exporter(Sink(stream, owned=False), registry, name=name, unnamed=unnamed)
    exporter.enter(tables)
    exporter.finish()
    return stream.getvalue()


def json_size(text: str) -> int:
    """Return the most bytes that a text takes in JSON in UTF-8."""
    return len(msgspec.json.encode(plain(text, Counter())))
