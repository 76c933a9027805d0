"""Texts of the formats that store stacks: labels of frames, titles of threads and tracks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.table import Table
from fxtio.timeline.losses import plain
from fxtio.timeline.stacks import MAX_STACK_DEPTH

UNKNOWN = "[unknown]"
"""The label of a frame of which nothing is known."""


def label(frame: dict[str, Any], losses: Counter[str]) -> str:
    """Return the name of a frame, a row of the table `frames`; the address or `UNKNOWN` if it has none."""
    if frame["name"]:
        return plain(frame["name"], losses)
    return f"0x{frame['address']:x}" if frame["address"] else UNKNOWN


def thread_titles(tables: dict[str, Table], losses: Counter[str]) -> list[str]:
    """Return a title for each thread, from the tables `processes` and `threads` of a registry.

    Files without numbers of processes are read as the process 0, and their threads are counted.  The title of such a
    thread is its name alone, so that a file has the same titles when it was read and written again.
    """
    pids = tables["processes"]["pid"].tolist()
    processes = [_titled(row["name"], "process", row["pid"], losses) for row in tables["processes"].rows()]
    several = len(processes) > 1
    titles = []
    for row in tables["threads"].rows():
        is_counted = row["name"] and pids[row["process"]] == 0
        title = plain(row["name"], losses) if is_counted else _titled(row["name"], "thread", row["tid"], losses)
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


MAX_DEPTH = 1024
"""The most frames of a stack in formats that repeat all of them for each stack; deeper ones lose the innermost.

So a file has at most this number of times the frames of the trace.  It is the limit of Java's virtual machines, too.
"""


def shallow(stacks: Table, losses: Counter[str]) -> Array:
    """Return for each stack itself, or that of its outermost `MAX_DEPTH` frames; a last item is -1, for no stack.

    Args:
        stacks: the table `stacks`, whole.
        losses: counts the stacks that are cut.
    """
    is_deep = stacks["depth"] >= MAX_DEPTH
    losses[f"stacks of more than {MAX_DEPTH:,} frames, of which the innermost are left out"] += int(is_deep.sum())
    result = np.where(is_deep, stacks["parent"], np.arange(len(is_deep))).astype(np.int64)
    for _ in range(MAX_STACK_DEPTH.bit_length()):
        result = result[result]
    return np.append(result, -1)


class StackTexts:
    """The stacks of a timeline as texts.

    Args:
        stacks: the table `stacks`, whole.
        frames: a text for each frame.
        losses: counts the stacks that are cut.
    """

    def __init__(self, stacks: Table, frames: Sequence[str], losses: Counter[str]) -> None:
        self._shallow = shallow(stacks, losses).tolist()
        self._parents, self._inner = stacks["parent"].tolist(), stacks["frame"].tolist()
        self._frames = frames

    def frames(self, stack: int) -> list[str]:
        """Return the texts of the frames of a stack, the outermost first; none for -1."""
        texts, stack = [], self._shallow[stack]
        while stack >= 0:
            texts.append(self._frames[self._inner[stack]])
            stack = self._parents[stack]
        return texts[::-1]
