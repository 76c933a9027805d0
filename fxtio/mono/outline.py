"""The tables of headers: the recordings of a file, and their buffers."""

from __future__ import annotations

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.pages import doc_of
from fxtio.codec.stream.declare import SizedText, parts_of
from fxtio.mono.frames import Frame, Recording
from fxtio.mono.headers import BUFFER_HEADER_SIZE, BufferHeader, StreamHeader
from fxtio.table import Categories, Column, Optional, Table, joined, saturated

OUTLINE_TABLES = ("recordings", "buffers")
"""The tables of headers."""

OUTLINE_MEANINGS = {
    "recordings": (
        "Headers; a file has several if recordings were joined",
        {"offset": "the place of the header in the file, in bytes"} | doc_of(StreamHeader).attributes,
    ),
    "buffers": (
        "Headers of buffers",
        {"offset": "the place of the header in the file, in bytes", "size": "the bytes of events"}
        | doc_of(BufferHeader).attributes
        | {"time": "the time in nanoseconds"},
    ),
}
"""What the rows of each table are, and the values of its columns."""


class Outline:
    """Collects the headers of frames."""

    def __init__(self) -> None:
        self._recordings: list[Recording] = []
        self._buffers: list[dict[str, Array]] = []

    def add(self, frame: Frame) -> None:
        """Add the headers of the next frame."""
        self._recordings += [recording for _, recording in frame.recordings]
        self._buffers.append(buffer_columns(frame))

    def tables(self) -> dict[str, Table]:
        """Return the tables of headers; there must have been a frame."""
        headers = [recording.header for recording in self._recordings]
        columns: dict[str, Column] = {
            "offset": np.array([recording.offset for recording in self._recordings], np.int64)
        }
        for name, parts in parts_of(StreamHeader).items():
            values = [getattr(header, name) for header in headers]
            if isinstance(parts[0], SizedText):
                columns[name] = _texts(values)
            else:
                present = np.array([value is not None for value in values], bool)
                columns[name] = Optional(np.array([value or 0 for value in values], np.uint64), present)
        buffers = {name: joined([part[name] for part in self._buffers]) for name in self._buffers[0]}
        return {"recordings": Table(columns), "buffers": Table(buffers)}


def buffer_columns(frame: Frame) -> dict[str, Array]:
    """Return the columns of the table `buffers` for the buffers of a frame."""
    columns = {name: frame.headers[name].astype(np.uint64) for name in BufferHeader.__struct_fields__}
    columns["time"] = saturated(columns["time"])
    return {"offset": frame.base + frame.begin - BUFFER_HEADER_SIZE, "size": frame.end - frame.begin, **columns}


def _texts(values: list[str | None]) -> Categories:
    distinct = [value for value in dict.fromkeys(values) if value is not None]
    code_of = {value: code for code, value in enumerate(distinct)}
    return Categories(np.array([-1 if value is None else code_of[value] for value in values], np.int32), distinct)
