"""CoreProfiler: all records and all forms of their items, in small rounds that define, use and end things.

Records that only some dialects have stand beside each other, which no real profiler does.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from itertools import count
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np

from fxtio.coreprofiler import records as r
from fxtio.coreprofiler.layout import MAX_32, UNDEFINED, OsThread
from fxtio.coreprofiler.writer import CoreProfilerWriter
from fxtio.synth.columns import Amount, Draw
from fxtio.synth.everything import variants

_ONCE = (r.ProfilerStart, r.ProfilerConfig)
_FIRST = (
    r.ThreadCreated, r.ThreadAssigned, r.AppDomainCreated, r.AssemblyLoaded, r.ModuleLoaded, r.ModuleAttached,
    r.ClassLoaded, r.ClassLoadedOld, r.ClassName, r.JitStarted, r.JitFinished, r.JitSearchStarted, r.JitSearchFinished,
)  # fmt: skip
_LAST = (r.ThreadDestroyed,)
_CLASSES: list[type[Any]] = [*_FIRST, *(cls for cls in r.RECORDS if cls not in (*_ONCE, *_FIRST, *_LAST)), *_LAST]
"""The classes of the records of a round, in their order: others refer to what the first ones define."""

_START = datetime(2019, 3, 1, 9, 30, 15, 250000, timezone(timedelta(hours=9)))
_CONFIG = {"CollectionMethod": "Sampling", "SamplingTimeoutMs": "10", "StackTrackingEnabled": "T", "Empty": ""}
_CONFIG["Synthetic"] = "written by fxtio synth, never measured"

_FAILURE = 0x80004005  # E_FAIL
_NO_MAPPING, _PROLOG, _EPILOG = MAX_32, MAX_32 - 1, MAX_32 - 2
_NAMES = ("Synthetic.Plain::Method", "Synthetic.Generic<T, U>::Méthode<V>", 'Synthetic.Quoted::"x" "y"', "<UNKNOWN>")


def write(target: Any, amount: Amount, options: dict[str, Any]) -> tuple[int, int]:
    """Write whole rounds until there is enough; events are records, and each round has a thread of its own.

    Args:
        target: see `fxtio.create`.
        amount: the amount.
        options: those of `CoreProfilerWriter`; the style is `D3` by default, which has all forms.

    Returns:
        The number of records and of bytes.

    Raises:
        OSError: the target cannot be written.
    """
    draw, timestamp = Draw(np.random.PCG64(amount.seed)), 0
    with CoreProfilerWriter(target, **{"style": "D3"} | options) as writer:
        has_os_threads = options.get("style", "D3") in ("D3", "D4")
        writer.put(r.ProfilerStart(_START))
        for name, value in _CONFIG.items():
            writer.put(r.ProfilerConfig(name, value))
        written = 1 + len(_CONFIG)
        for number in count():
            if amount.left(written, writer.position) <= 0:
                break
            one = _Round(number, timestamp, draw, has_os_threads=has_os_threads)
            for record in one.records():
                writer.put(record)
                written += 1
            timestamp = one.timestamp
    return written, writer.position


class _Round:
    """Makes the records of a round.

    Args:
        number: the number of the round, which is that of its thread and of what it defines.
        timestamp: the first millisecond that no earlier round has.
        draw: the random numbers.
        has_os_threads: the threads of compilations and collections have numbers of the operating system.

    Attributes:
        timestamp: the last millisecond.
    """

    def __init__(self, number: int, timestamp: int, draw: Draw, *, has_os_threads: bool) -> None:
        self.timestamp = timestamp
        self._number, self._draw = number, draw
        self._thread = OsThread(1000 + number) if has_os_threads else number
        self._known = self._known_values()

    def records(self) -> Iterator[Any]:
        """Yield the records."""
        for cls in _CLASSES:
            yield from self._variants(cls)

    def _tick(self) -> int:
        self.timestamp += int(self._draw.below(12, 1)[0])
        return self.timestamp

    def _known_values(self) -> dict[tuple[type[Any] | None, str], list[Any]]:
        """Return the values of fields that other records know, or that mean more than their declaration says."""
        number = self._number
        functions = [4 * number + place for place in range(4)]
        classes = [3 * number + place for place in range(3)]
        frames = [
            r.Frame(*frame) for frame in zip((*functions[:3], None), (None, UNDEFINED, 0x40000020, None), strict=True)
        ]
        # A stack grows, stays, changes in the middle and below its top, and ends.
        samples = [
            (1, 0, 0, None, ()),
            (1, 0, 0, None, tuple(frames)),
            (250, 4, 4, None, ()),
            (0, 2, 4, 0x40000030, (r.Frame(functions[3], 0x40000040),)),
            (None, 2, 3, UNDEFINED, ()),
            (1, 0, 2, None, ()),
        ]
        columns = zip(("count", "match", "size", "ip", "frames"), map(list, zip(*samples, strict=True)), strict=True)
        oldest = number % 3
        return {
            **{(r.StackSample, name): column for name, column in columns},
            (r.StackSample, "thread"): [number] * len(samples) + [None] * len(samples),
            (None, "timestamp"): [self._tick],
            (None, "status"): [_FAILURE if number % 3 == 1 else 0],
            (None, "function_iid"): [*functions, None],
            (None, "function_id"): [*(0x40000000 + 0x1000 * function for function in functions), 0x40],
            (None, "class_iid"): [*classes, None],
            (None, "class_id"): [0x4000 + classes[0]],
            (None, "token"): [0x06000001 + number],
            (None, "module_id"): [0x300 + number],
            (None, "assembly_id"): [0x200 + number],
            (None, "app_domain_id"): [0x100 + number],
            (None, "thread_id"): [0x5000 + number],
            (None, "file_iid"): [number],
            (None, "ip"): [None, UNDEFINED, 0x40000010],
            (None, "il_offset"): [_PROLOG, 0, 7, _NO_MAPPING, _EPILOG],
            (r.ClassLoaded, "class_id"): [*(0x4000 + cls for cls in classes), 0x4000],
            (r.CodeInfo, "size"): [0x80 + 8 * number],
            (r.IlMap, "native_start"): [0, 8, 16, 24, 32],
            (r.IlMap, "native_end"): [8, 16, 24, 32, 40],
            (r.HeapGenerations, "items"): [lambda: tuple(self._variants(r.HeapItem))],
            (r.SourceLine, "end_line"): [200 + number],
            (r.ThreadCpu, "thread"): [number, None],
            (r.MemorySample, "thread"): [number, None],
            (r.ThreadCreated, "thread"): [number],
            (r.ThreadAssigned, "thread"): [number],
            (r.ThreadAssigned, "os_thread"): [1001 + number, 1000 + number],
            (r.ThreadDestroyed, "thread"): [number],
            (r.ThreadDestroyed, "extra"): [number if number % 2 else None],
            (r.SourceLine, "line_iid"): [number + 1],
            (r.FunctionName, "return_type"): ["ref int"],
            (r.FunctionName, "signature"): ["(T[] a, string b)"],
            (r.GcStarted, "reason"): ["induced" if oldest == 2 else "?"],
            (r.GcStarted, "generations"): [(*(generation <= oldest for generation in range(3)), oldest == 2)],
            (r.HeapItem, "name"): ["LOH", "gen2", "gen1", "gen0"],
        }

    def _variants(self, cls: type[Any]) -> Iterator[Any]:
        """Yield records of a class, or items of their lists, with each value of each field."""
        known = self._known
        fields = {
            name: known.get((cls, name)) or known.get((None, name)) or self._values(hint)
            for name, hint in _hints(cls).items()
        }
        for values in variants(fields):
            yield cls(**values)

    def _values(self, hint: Any) -> list[Any]:
        """Return the values of a type."""
        members = get_args(hint)
        number = 1 + int(self._draw.below(100, 1)[0])
        if get_origin(hint) is tuple:
            return [tuple(self._variants(members[0])), ()]
        if hint is str:
            return [*_NAMES]
        return [self._thread if OsThread in members else number, *([None] if NoneType in members else [])]


def _hints(cls: type[Any]) -> dict[str, Any]:
    """Return the types of the fields of a class."""
    hints = get_type_hints(cls)
    return {name: hints[name] for name in cls.__struct_fields__}
