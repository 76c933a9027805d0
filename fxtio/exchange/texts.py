"""Texts of the formats that store stacks: labels of frames, titles of threads and tracks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from fxtio.table import Table
from fxtio.timeline.losses import plain

UNKNOWN = "[unknown]"
"""The label of a frame of which nothing is known."""


def label(frame: dict[str, Any], losses: Counter[str]) -> str:
    """Return the name of a frame, a row of the table `frames`; the address or `UNKNOWN` if it has none."""
    if frame["name"]:
        return plain(frame["name"], losses)
    return f"0x{frame['address']:x}" if frame["address"] else UNKNOWN


def thread_titles(tables: dict[str, Table], losses: Counter[str]) -> list[str]:
    """Return a title for each thread, from the tables `processes` and `threads` of a registry."""
    processes = [_titled(row["name"], "process", row["pid"], losses) for row in tables["processes"].rows()]
    several = len(processes) > 1
    titles = []
    for row in tables["threads"].rows():
        title = _titled(row["name"], "thread", row["tid"], losses)
        titles.append(f"{processes[row['process']]} / {title}" if several else title)
    return titles


def track_titles(tables: dict[str, Table], losses: Counter[str]) -> list[str]:
    """Return a title for each track, from the tables `processes`, `threads` and `tracks` of a registry."""
    threads = thread_titles(tables, losses)
    return [
        threads[row["thread"]] if row["thread"] >= 0 else _titled(row["name"], row["kind"], row["id"], losses)
        for row in tables["tracks"].rows()
    ]


def _titled(name: str | None, kind: str, number: int, losses: Counter[str]) -> str:
    return f"{plain(name, losses)} ({number})" if name else f"{kind} {number}"


class StackTexts:
    """The stacks of a timeline as texts.

    Args:
        stacks: the table `stacks`, whole.
        frames: a text for each frame.
    """

    def __init__(self, stacks: Table, frames: Sequence[str]) -> None:
        self._parents, self._inner = stacks["parent"].tolist(), stacks["frame"].tolist()
        self._frames = frames

    def frames(self, stack: int) -> list[str]:
        """Return the texts of the frames of a stack, the outermost first; none for -1."""
        texts = []
        while stack >= 0:
            texts.append(self._frames[self._inner[stack]])
            stack = self._parents[stack]
        return texts[::-1]
