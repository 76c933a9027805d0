"""Losses of exporters: text that is not UTF-8, and whole tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

from fxtio.table import Table
from fxtio.timeline.parts import Names

EncodedT = TypeVar("EncodedT")

NOT_UTF8 = "names and texts with bytes that are not UTF-8, which are replaced"


class Texts(Generic[EncodedT]):
    """The names of a timeline as a format has them, each converted once.

    Args:
        names: the names.
        encode: converts a text.

    Attributes:
        encode: converts a text that is no name.
    """

    def __init__(self, names: Names, encode: Callable[[str], EncodedT]) -> None:
        self.encode = encode
        self._names = names
        self._encoded: list[EncodedT] = []

    def text(self, code: int) -> EncodedT:
        """Return the name with this code; an empty one for -1."""
        if code < 0:
            return self.encode("")
        encoded, values = self._encoded, self._names.values
        while len(encoded) <= code:
            encoded.append(self.encode(values[len(encoded)]))
        return encoded[code]


def plain(text: str, losses: Counter[str]) -> str:
    """Return a text that has no surrogates, which replacement characters replace."""
    if text.isascii():
        return text
    replaced = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if replaced != text:
        losses[NOT_UTF8] += 1
    return replaced


LOST_ROWS = {
    "args": "arguments",
    "instants": "instants",
    "flow_points": "points of flows",
    "counters": "values of counters",
    "logs": "log messages",
    "scheduling": "intervals in which a thread ran on a processor",
    "wakeups": "wakeups of threads",
    "samples": "samples",
    "allocations": "allocations",
}
"""Phrases for the rows of tables that a format does not have."""


def count_lost(losses: Counter[str], tables: Mapping[str, Table], lost: Iterable[str]) -> None:
    """Count the rows of the tables that a format does not have, given by their names, see `LOST_ROWS`."""
    for name in lost:
        if name in tables:
            losses[LOST_ROWS[name]] += tables[name].num_rows
