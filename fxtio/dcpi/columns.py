"""The tables of a profile, made of blocks without a Python loop over samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from fxtio.dcpi.framing import Segments
from fxtio.dcpi.header import Header
from fxtio.table import Array, Categories, Column, Derived, Growing, Optional, Table

TABLES = ("samples", "chunks", "header")
"""The tables of a profile."""


class Collector:
    """Puts tables together, block by block.

    Args:
        names: which tables.
        header: the header, complete before the first block.
    """

    def __init__(self, names: tuple[str, ...], header: Header) -> None:
        unknown = [name for name in names if name not in TABLES]
        if unknown:
            raise KeyError(f"no table {unknown[0]!r}; there are {', '.join(TABLES)}")
        self._names = names
        self._header = header
        self._columns: dict[str, dict[str, Growing]] = {name: {} for name in names}
        self.add(_nothing(), 0.0)  # so that there are columns in any case

    def add(self, made: Segments, share: float) -> None:
        """Take in the next block.

        Args:
            made: the block.
            share: how much of the whole is there with it (0 to 1), or 0 where nobody knows.
        """
        for name, make in (("samples", _samples), ("chunks", _chunks)):
            if name in self._columns:
                for column, piece in make(made).items():
                    self._columns[name].setdefault(column, Growing()).append(piece, share)

    def tables(self) -> dict[str, Table]:
        """The tables, of all blocks since they were last asked for; those of the header are always whole."""
        made = {}
        for name, grown in self._columns.items():
            columns: dict[str, Column | Derived] = {key: one.column() for key, one in grown.items()}
            made[name] = Table(columns | self._more(name, columns))
        self._columns = {name: {} for name in self._names}
        self.add(_nothing(), 0.0)
        return made

    def _more(self, name: str, columns: dict[str, Any]) -> dict[str, Column | Derived]:
        """What follows from the header."""
        if name == "header":
            return _lines(self._header)
        if name == "samples":
            return {"address": Derived(lambda: _addresses(self._header, columns["offset"]))}
        return {}


def _addresses(header: Header, offset: Array) -> Optional:
    start = header.text_start
    return Optional(offset.astype(np.uint64) + np.uint64(start or 0), np.full(len(offset), start is not None))


def _samples(made: Segments) -> dict[str, Column]:
    offset, count = made.samples()
    return {"offset": offset, "count": count}


def _chunks(made: Segments) -> dict[str, Column]:
    """Chunks by their heads."""
    first = made.first
    return {"offset": made.offset[first], "number": made.count[first] + made.behind[first]}


def _lines(header: Header) -> dict[str, Column | Derived]:
    words = list(dict.fromkeys(line.word for line in header.lines))
    values = list(dict.fromkeys(line.value for line in header.lines))
    return {
        "line": np.array(header.places, np.int64),
        "word": Categories(np.array([words.index(line.word) for line in header.lines], np.int32), words),
        "value": Categories(np.array([values.index(line.value) for line in header.lines], np.int32), values),
    }


def _nothing() -> Segments:
    none = np.empty(0, np.int64)
    return Segments(np.empty(0, np.uint32), 0, none, none, none, none, none.astype(bool))
