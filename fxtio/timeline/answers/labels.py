"""Texts for people: processes, threads, tracks, the values of arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fxtio.table import Table
from fxtio.timeline.schema import LABELS, ArgumentKind, TrackKind

UNNAMED = "(no name)"
"""The text for what has no name."""

ArgumentValue = int | float | str | bool | None
"""The value of an argument in Python."""


class Labels:
    """The texts for the processes, threads and tracks of a whole reading.

    Args:
        tables: `processes`, `threads` and `tracks`, see `Registry.tables`.
    """

    def __init__(self, tables: Mapping[str, Table]) -> None:
        self._tables = tables

    def process(self, row: int) -> str:
        """Return the text for a process, `name (pid)`; -1 is none."""
        return self._numbered("processes", "pid", "process", row)

    def thread(self, row: int) -> str:
        """Return the text for a thread, `name (tid)`; -1 is none."""
        return self._numbered("threads", "tid", "thread", row)

    def track(self, row: int) -> str:
        """Return the text for a track: that of its thread, and its name and id, if it has them."""
        tracks = self._tables["tracks"]
        thread, name = int(tracks["thread"][row]), tracks["name"][row]
        if thread >= 0:
            return f"{self.thread(thread)}: {name}" if name else self.thread(thread)
        kind = LABELS["tracks", "kind"][int(tracks["kind"].codes[row])]
        number = int(tracks["id"][row])
        if tracks["kind"].codes[row] == TrackKind.ASYNC:
            return f"{name or kind} ({number})"
        process = int(tracks["process"][row])
        return name or (self.process(process) if process >= 0 else kind)

    def _numbered(self, table: str, column: str, noun: str, row: int) -> str:
        if row < 0:
            return f"(no {noun})"
        name, number = self._tables[table]["name"][row], int(self._tables[table][column][row])
        return f"{name} ({number})" if name else f"{noun} {number}"


def argument_value(kind: int, bits: int, text: str | None) -> ArgumentValue:
    """Return the value of an argument, see `fxtio.timeline.schema.ARGS`.

    Args:
        kind: its type, see `ArgumentKind`.
        bits: its bits.
        text: its text.
    """
    if kind == ArgumentKind.TEXT:
        return text
    if kind == ArgumentKind.NUMBER:
        return float(np.uint64(bits).view(np.float64))
    if kind == ArgumentKind.INTEGER:
        return int(np.uint64(bits).view(np.int64))
    if kind == ArgumentKind.BOOLEAN:
        return bool(bits)
    return None if kind == ArgumentKind.NULL else bits


def argument_text(kind: int, bits: int, text: str | None) -> str:
    """Return the value of an argument as text; pointers are hexadecimal."""
    value = argument_value(kind, bits, text)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:#x}" if kind == ArgumentKind.POINTER else str(value)


def text_of(values: Sequence[str], code: int) -> str:
    """Return the text of a code, `UNNAMED` for -1."""
    return values[code] if code >= 0 else UNNAMED
