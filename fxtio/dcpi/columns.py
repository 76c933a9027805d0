"""The tables of a profile, made of blocks without a Python loop over samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from fxtio.dcpi.framing import Segments
from fxtio.dcpi.header import Header
from fxtio.table import Array, Categories, Column, Derived, Growing, Optional, Table

TABLES = ("samples", "chunks", "header")
"""The tables of a profile."""


def check_names(names: tuple[str, ...]) -> None:
    """Refuse what is no table.

    Raises:
        KeyError: it is none.
    """
    unknown = [name for name in names if name not in TABLES]
    if unknown:
        raise KeyError(f"no table {unknown[0]!r}; there are {', '.join(TABLES)}")


def tables_of(names: tuple[str, ...], made: Segments, header: Header) -> dict[str, Table]:
    """The tables of one block; that of the header is whole."""
    return {name: _finished(name, _MAKERS[name](made) if name in _MAKERS else {}, header) for name in names}


def nothing() -> Segments:
    """A block without segments."""
    none = np.empty(0, np.int64)
    return Segments(np.empty(0, np.uint32), 0, none, none, none, begun=False, behind=0)


class Collector:
    """Puts tables together, block by block.

    Args:
        names: which tables.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        check_names(names)
        self._columns: dict[str, dict[str, Growing]] = {name: {} for name in names}
        self.add(nothing(), 0.0)  # so that there are columns in any case

    def add(self, made: Segments, share: float) -> None:
        """Take in the next block.

        Args:
            made: the block.
            share: how much of the whole is there with it (0 to 1), or 0 where nobody knows.
        """
        for name, columns in self._columns.items():
            for column, piece in _MAKERS[name](made).items() if name in _MAKERS else ():
                columns.setdefault(column, Growing()).append(piece, share)

    def tables(self, header: Header) -> dict[str, Table]:
        """The tables."""
        return {
            name: _finished(name, {key: one.column() for key, one in grown.items()}, header)
            for name, grown in self._columns.items()
        }


def _finished(name: str, columns: dict[str, Any], header: Header) -> Table:
    """A table with what follows from the header."""
    if name == "header":
        return Table(_lines(header))
    if name == "samples":
        return Table({**columns, "address": Derived(lambda: _addresses(header, columns["offset"]))})
    return Table(columns)


def _addresses(header: Header, offset: Array) -> Optional:
    start = header.text_start
    address = offset.view(np.uint64) + np.uint64(start or 0)  # offsets are not below zero
    return Optional(address, np.full(len(offset), start is not None))


def _samples(made: Segments) -> dict[str, Column]:
    offset, count = made.samples()
    return {"offset": offset, "count": count}


def _chunks(made: Segments) -> dict[str, Column]:
    """Chunks by their heads."""
    offset, number = made.chunks()
    return {"offset": offset, "number": number}


def _lines(header: Header) -> dict[str, Column | Derived]:
    words = list(dict.fromkeys(line.word for line in header.lines))
    values = list(dict.fromkeys(line.value for line in header.lines))
    return {
        "line": np.array(header.places, np.int64),
        "word": Categories(np.array([words.index(line.word) for line in header.lines], np.int32), words),
        "value": Categories(np.array([values.index(line.value) for line in header.lines], np.int32), values),
    }


_MAKERS = {"samples": _samples, "chunks": _chunks}
