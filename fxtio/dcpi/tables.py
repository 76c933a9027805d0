"""The tables of a profile, made of blocks without a Python loop over samples."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from fxtio.arrays import Array
from fxtio.codec.docstrings import doc_of
from fxtio.dcpi.frames import PlacedRecord, Segments
from fxtio.dcpi.records import Footer
from fxtio.dcpi.state import Header
from fxtio.schema import OPTIONAL, REQUIRED, TEXT, ColumnSpec, TableSpec, writable_tables
from fxtio.table import Categories, Column, Derived, GrowingTable, Optional, Table

SPECS = {
    "samples": TableSpec(
        "Samples by address; only addresses that have some",
        {
            "text_offset": ColumnSpec("int64", "bytes from the beginning of the text", REQUIRED),
            "count": ColumnSpec("uint32", "the number of samples", REQUIRED),
            "address": ColumnSpec("uint64?", "the address, null without a line `tstart` in the header"),
        },
    ),
    "chunks": TableSpec(
        "Chunks: counts of samples at consecutive addresses",
        {
            "offset": ColumnSpec("int64", "the place of the chunk in the file, in bytes"),
            "text_offset": ColumnSpec("int64", "bytes from the beginning of the text to the first address"),
            "number": ColumnSpec("int64", "the number of counts"),
        },
    ),
    "header": TableSpec(
        "Lines of the header",
        {
            "offset": ColumnSpec("int64", "the place of the line in the file, in bytes"),
            "word": ColumnSpec(TEXT, "the first word", REQUIRED),
            "value": ColumnSpec(TEXT, "the rest of the line", REQUIRED),
            "blanks": ColumnSpec(TEXT, "the blanks between the two", OPTIONAL),
        },
    ),
    "footer": TableSpec(
        "The footer; no row if there is none",
        {
            "offset": ColumnSpec("int64", "its place in the file, in bytes"),
            **{name: ColumnSpec("int64", meaning) for name, meaning in doc_of(Footer).attributes.items()},
        },
    ),
}
"""The columns of all tables."""

TABLES = tuple(SPECS)
"""The names of the tables."""

WRITABLE = writable_tables(SPECS)
"""The columns of the tables that can be written."""


def specs() -> dict[str, TableSpec]:
    """Return the columns of all tables."""
    return SPECS


class SegmentCollector:
    """Builds the tables of many blocks.

    Args:
        names: the tables, of `TABLES`.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        self._tables = {name: GrowingTable() for name in names}
        self.add(_no_segments(), 0.0)  # so that every table has its columns

    def add(self, block: Segments, share: float) -> None:
        """Take in the next block.

        Args:
            block: the block.
            share: the part of the whole that has been read with it (0 to 1), or 0 where it is unknown.
        """
        for name, table in self._tables.items():
            table.append(_columns_of(name, block), share)

    def tables(self, header: Header, footer: PlacedRecord | None) -> dict[str, Table]:
        """Return the tables.

        Args:
            header: the header.
            footer: the footer, or None if there is none.
        """
        return {name: _table(name, table.columns(), header, footer) for name, table in self._tables.items()}


def tables_of(
    names: tuple[str, ...],
    block: Segments | None,
    header: Header,
    footer: PlacedRecord | None = None,
    *,
    with_header: bool,
) -> dict[str, Table]:
    """Return the tables of one block.

    Args:
        names: the tables, of `TABLES`.
        block: the block, or None for no chunks.
        header: the header.
        footer: the footer, for the table `footer`.
        with_header: whether the table `header` has rows.
    """
    segments = _no_segments() if block is None else block
    lines = header if with_header else Header()
    return {
        name: _table(name, _columns_of(name, segments), lines if name == "header" else header, footer) for name in names
    }


def _no_segments() -> Segments:
    none = np.empty(0, np.int64)
    return Segments(np.empty(0, np.uint32), 0, none, none, none, continues=False, remaining=0)


def _columns_of(name: str, block: Segments) -> dict[str, Column]:
    """Return the columns of a table that come from a block; those of the header come from elsewhere."""
    if name == "samples":
        text_offset, count = block.samples()
        return {"text_offset": text_offset, "count": count}
    if name == "chunks":
        offset, text_offset, number = block.chunks()
        return {"offset": offset, "text_offset": text_offset, "number": number}
    return {}


def _table(name: str, columns: dict[str, Any], header: Header, footer: PlacedRecord | None) -> Table:
    if name == "header":
        return Table(
            {
                "offset": np.array(header.offsets, np.int64),
                "word": Categories.of(line.word for line in header.lines),
                "value": Categories.of(header.value_of(line) for line in header.lines),
                "blanks": Categories.of(line.blanks for line in header.lines),
            }
        )
    if name == "footer":
        rows = [] if footer is None else [{"offset": footer.offset, **msgspec.structs.asdict(footer.record)}]
        return Table({field: np.array([row[field] for row in rows], np.int64) for field in SPECS[name].columns})
    if name == "samples":
        return Table({**columns, "address": Derived(lambda: _addresses(header, columns["text_offset"]))})
    return Table(columns)


def _addresses(header: Header, text_offset: Array) -> Optional:
    start = header.text_start
    address = text_offset.view(np.uint64) + np.uint64(start or 0)  # no offset is negative
    return Optional(address, np.full(len(text_offset), start is not None))
