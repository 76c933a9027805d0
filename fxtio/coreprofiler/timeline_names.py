"""The names of functions, classes and threads of a whole trace, which may stand behind their use."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from datetime import datetime
from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.coreprofiler.layout import NS_PER_MS
from fxtio.io.reading import since_epoch
from fxtio.table import Table
from fxtio.timeline.parts import Registry

TABLES = (
    "function_names", "function_names_old", "class_names", "functions", "compiled_functions", "cached_functions",
    "thread_assignments", "app_domains", "config", "starts",
)  # fmt: skip
"""The tables from which names are taken."""

CLASS_END = "::"
"""The text between the class and the method in the name of a function."""

_MAX_PID = 2**31


class WholeNames:
    """The names of a trace.

    Args:
        registry: has the names and threads.
        tables: the tables `TABLES`.

    Attributes:
        pid: the process, 0 if it is not known.
        wall_clock: the nanoseconds since the Unix epoch at the start of profiling; None if only local time is known.
        tick: the nanoseconds of a sampling tick, None if they are not known.
    """

    def __init__(self, registry: Registry, tables: dict[str, Table]) -> None:
        self._registry = registry
        self._function: dict[int, str] = {}
        for table in ("function_names_old", "function_names"):
            self._function |= zip(tables[table]["function_iid"].tolist(), tables[table]["name"], strict=True)
        names = tables["class_names"]
        self._class: dict[int, str] = dict(zip(names["class_iid"].tolist(), names["name"], strict=True))
        self._by_id = _ByPlace(
            (row["function_id"], row["offset"], row["function_iid"])
            for table in ("functions", "compiled_functions", "cached_functions")
            for row in _rows(tables[table], "function_id", "offset", "function_iid")
        )
        assignments = tables["thread_assignments"]
        self._by_os_thread = _ByPlace(
            (row["os_thread"], row["offset"], row["thread"])
            for row in _rows(assignments, "os_thread", "offset", "thread")
        )
        self._os_thread = dict(zip(assignments["thread"].tolist(), assignments["os_thread"].tolist(), strict=True))
        processes = [pid for pid in tables["app_domains"]["process_id"].tolist() if 0 < pid < _MAX_PID]
        self.pid = processes[0] if processes else 0
        self.wall_clock = _wall_clock(tables["starts"]["started_at"].tolist())
        self.tick = _tick(dict(zip(tables["config"]["name"], tables["config"]["value"], strict=True)))

    def function(self, iid: int) -> str:
        """Return the name of a function."""
        return self._function.get(iid, f"<function {iid}>" if iid >= 0 else "<unknown>")

    def class_codes(self, iids: Array) -> Array:
        """Return the codes of the names of classes (int32), -1 for those without one."""
        distinct, place = np.unique(iids, return_inverse=True)
        codes = [self._registry.names.code(self._class.get(iid)) for iid in distinct.tolist()]
        return np.array(codes, np.int32)[place]

    def function_of_id(self, identifier: int, offset: int) -> str:
        """Return the name of the function that has an identifier at a place; it is usually defined behind it."""
        iid = self._by_id.following(identifier, offset)
        return f"<{identifier:x}>" if iid is None else self.function(iid)

    def thread(self, number: int, *, is_os: bool = False, offset: int = 0) -> int:
        """Return the row of a thread, given by its Internal ID or by its number in the operating system at a place."""
        if is_os:
            iid = self._by_os_thread.last(number, offset)
            if iid is None:
                return self._registry.thread(self.pid, number, f"OS thread {number}")
            number = iid
        os_number = self._os_thread.get(number)
        return self._registry.thread(self.pid, number, None if os_number is None else f"OS thread {os_number}")


class _ByPlace:
    """The meanings of numbers, which may change from one place of the file to the next.

    Args:
        rows: the number, the offset in bytes, and what it stands for from there on.
    """

    def __init__(self, rows: Any) -> None:
        self._places: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for number, offset, meaning in sorted(rows):
            self._places[number].append((offset, meaning))

    def last(self, number: int, offset: int) -> int | None:
        """Return the meaning at an offset; the first one if all come later."""
        places = self._places.get(number)
        return places[max(bisect_right(places, offset, key=_first) - 1, 0)][1] if places else None

    def following(self, number: int, offset: int) -> int | None:
        """Return the first meaning that is defined behind an offset; the last one if there is none."""
        places = self._places.get(number)
        return places[min(bisect_left(places, offset, key=_first), len(places) - 1)][1] if places else None


def _first(pair: tuple[int, int]) -> int:
    return pair[0]


def _rows(table: Table, *names: str) -> Any:
    """Yield the rows of some columns of numbers as dictionaries."""
    for values in zip(*(table[name].tolist() for name in names), strict=True):
        yield dict(zip(names, values, strict=True))


def _wall_clock(starts: list[str | None]) -> int | None:
    """Return the wall-clock time of the first start of profiling, see `WholeNames.wall_clock`."""
    return since_epoch(datetime.fromisoformat(starts[0])) if starts and starts[0] is not None else None


def _tick(config: dict[str, str]) -> int | None:
    """Return the nanoseconds of a sampling tick."""
    text = config.get("SamplingTimeoutMs", "")
    is_sampled = config.get("CollectionMethod") == "Sampling" and text.isascii() and text.isdigit() and len(text) < 7
    return int(text) * NS_PER_MS or None if is_sampled else None
