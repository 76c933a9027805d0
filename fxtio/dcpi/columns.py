"""The tables of a profile, made of blocks without a Python loop over samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from fxtio.dcpi.framing import Segments
from fxtio.dcpi.header import Header
from fxtio.table import Categories, Column, Growing, Optional, Table

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
        makers = {"samples": self._samples, "chunks": _chunks}
        for name in self._names:
            if name in makers:
                for column, piece in makers[name](made).items():
                    self._columns[name].setdefault(column, Growing()).append(piece, share)

    def tables(self) -> dict[str, Table]:
        """The tables, of all blocks since they were last asked for; those of the header are always whole."""
        made = {name: Table({key: one.column() for key, one in grown.items()}) for name, grown in self._columns.items()}
        if "header" in made:
            made["header"] = _header(self._header)
        self._columns = {name: {} for name in self._names}
        return made

    def _samples(self, made: Segments) -> dict[str, Column]:
        hits = made.hits()
        offset = made.offsets(hits)
        start = self._header.text_start
        address = Optional(offset.astype(np.uint64), np.full(len(hits), start is not None))
        if start:
            address.values += np.uint64(start)
        return {"address": address, "offset": offset, "count": made.words[hits]}


def _chunks(made: Segments) -> dict[str, Column]:
    """Chunks by their heads."""
    first = made.first
    return {"offset": made.offset[first], "number": made.count[first] + made.behind[first]}


def _header(header: Header) -> Table:
    words = list(dict.fromkeys(line.word for line in header.lines))
    values = list(dict.fromkeys(line.value for line in header.lines))
    return Table(
        {
            "line": np.array(header.places, np.int64),
            "word": Categories(np.array([words.index(line.word) for line in header.lines], np.int32), words),
            "value": Categories(np.array([values.index(line.value) for line in header.lines], np.int32), values),
        }
    )


def _nothing() -> Segments:
    none = np.empty(0, np.int64)
    return Segments(np.empty(0, np.uint32), 0, none, none, none, none, none.astype(bool))
