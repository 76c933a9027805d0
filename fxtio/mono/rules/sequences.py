"""Checks of the order of events: of buffers and times, and of events that come in pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fxtio._native.constants import UNWIND, SpanStep
from fxtio.arrays import Array
from fxtio.codec.distinct import number_distinct
from fxtio.mono import enums
from fxtio.mono import records as r
from fxtio.mono.rules.view import Check, EventClass, View, mixed
from fxtio.pairing import Matched, pair
from fxtio.references import LastOfEach, Numbers
from fxtio.table import MAX_TIME

_WRITTEN_LATE = (r.JitMethod, r.SampleHit, r.NativeSymbol, r.CounterDescriptions, r.CounterValues)
"""The events that Mono writes with the time of something that happened before."""

_ON_TIME = tuple(cls for cls in r.EVENTS if cls not in _WRITTEN_LATE)

MOST_OPEN_CALLS = 1 << 20
"""The most open calls of a thread that are remembered; the outermost ones are forgotten first."""

_MOST_THREADS = 1 << 16


class Times(Check):
    """Finds events that are earlier than those before them: in their buffer, or before a synchronization point."""

    classes = _ON_TIME

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._last_sync = -1  # the time of the latest synchronization point so far

    def _add(self, view: View) -> None:
        # `syncs[n]` is the time of the last synchronization point before buffer n.
        syncs = np.full(len(view.headers) + 1, self._last_sync)
        np.maximum.at(syncs, view.buffers(r.SyncPoint) + 1, view.times(r.SyncPoint))
        syncs = np.maximum.accumulate(syncs)
        self._last_sync = int(syncs[-1])
        # The events of the other buffers are not earlier than their header, nor than the event before.
        is_odd = view.goes_back | (np.minimum(view.headers["time"], MAX_TIME).astype(np.int64) < syncs[:-1])
        if is_odd.any():
            self._check(view, is_odd, syncs)

    def _check(self, view: View, is_odd: Array, syncs: Array) -> None:
        """Check the events of some buffers."""
        present = [cls for cls in _ON_TIME if view.has(cls)]
        buffers = np.concatenate([view.buffers(cls) for cls in present])
        offsets = np.concatenate([view.offsets(cls) for cls in present])
        rows = np.flatnonzero(is_odd[buffers])
        rows = rows[np.argsort(offsets[rows], kind="stable")]
        buffers, offsets = buffers[rows], offsets[rows]
        times = np.concatenate([view.times(cls) for cls in present])[rows]
        is_sync = np.concatenate([np.full(len(view.offsets(cls)), cls is r.SyncPoint) for cls in present])[rows]
        back = np.append(False, (np.diff(times) < 0) & (np.diff(buffers) == 0))
        self.report(
            "time.backwards", back, offsets,
            lambda row: f"the event is {int(times[row - 1] - times[row]):,} ns earlier than the one before it",
        )  # fmt: skip
        # `latest[n]` is the time of the last synchronization point before event n.
        latest = np.maximum.accumulate(np.where(is_sync, times, -1))
        latest = np.maximum(np.append(-1, latest)[:-1], syncs[buffers])
        self.report(
            "sync.earlier-event", (times < latest) & ~back, offsets,
            lambda row: f"the event is {int(latest[row] - times[row]):,} ns earlier than a synchronization point",
        )  # fmt: skip


class Buffers(Check):
    """Finds faults in the headers of buffers."""

    classes = r.EVENTS

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._times = LastOfEach(_MOST_THREADS)  # by thread: the time of its last buffer

    def _add(self, view: View) -> None:
        headers, offsets = view.headers, view.header_offsets
        threads, times = headers["thread"], headers["time"]
        self.report(
            "buffer.order", times < self._times.before(threads, times, 0), offsets,
            lambda row: f"the buffer begins at {int(times[row]):,} ns, earlier than the last of thread "
            f"{int(threads[row]):#x}",
        )  # fmt: skip
        self.report("buffer.thread-zero", headers["thread"] == 0, offsets)
        if view.pointer_bits < 64:
            bases = np.maximum(headers["pointer"], headers["method"])
            self.report(
                "buffer.wide-base", bases >= 1 << view.pointer_bits, offsets,
                lambda row: f"the base {int(bases[row]):#x} has more than 32 bits",
            )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Step:
    """The events that open or close something.

    Attributes:
        cls: their class.
        values: of `field`; empty for all events.
        field: the field that decides.
    """

    cls: EventClass
    values: tuple[int, ...] = ()
    field: str = "event"

    def rows(self, view: View) -> Array:
        """Return the rows of the events."""
        if not view.has(self.cls):
            return np.empty(0, np.int64)
        if not self.values:
            return np.arange(len(view.offsets(self.cls)))
        return np.flatnonzero(np.isin(view.values(self.cls, self.field), self.values))


@dataclass(frozen=True, slots=True)
class PairRule:
    """Events that come in pairs.

    Attributes:
        opens: the first event of a pair.
        closes: the second one.
        key: what a pair has in common: `thread` for that of the buffer, or fields of the events.
        not_open: the rule that is broken by the second event without the first.
        already_open: the rule that is broken by the first event twice; empty if that is allowed.
    """

    opens: Step
    closes: Step
    key: tuple[str, ...]
    not_open: str
    already_open: str = ""


_GC, _MONITOR = enums.GcEventType, enums.MonitorEvent

PAIR_RULES = (
    PairRule(
        Step(r.GcEvent, (_GC.START,)), Step(r.GcEvent, (_GC.END,)), ("generation",), "gc.end-without-start",
        "gc.start-twice",
    ),
    PairRule(
        Step(r.GcEvent, (_GC.PRE_STOP_WORLD,)), Step(r.GcEvent, (_GC.POST_START_WORLD,)), ("thread",),
        "gc.world-not-stopped",
    ),
    PairRule(Step(r.FinalizeStart), Step(r.FinalizeEnd), ("thread",), "finalizer.end-without-start"),
    PairRule(
        Step(r.FinalizeObjectStart), Step(r.FinalizeObjectEnd), ("thread", "object"),
        "finalizer.object-end-without-start",
    ),
    PairRule(
        Step(r.Monitor, (_MONITOR.CONTENTION,)), Step(r.Monitor, (_MONITOR.ACQUIRED, _MONITOR.FAILED)),
        ("thread", "object"), "monitor.no-contention",
    ),
    PairRule(Step(r.HeapStart), Step(r.HeapEnd), (), "heap.end-without-start", "heap.nested"),
    PairRule(Step(r.HandleCreated), Step(r.HandleDestroyed), ("handle",), "handle.not-created"),
)  # fmt: skip
"""The rules about pairs of events."""


class Pairs(Check):
    """Finds second events of a pair without the first one."""

    classes = tuple({step.cls for rule in PAIR_RULES for step in (rule.opens, rule.closes)})

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._open = [Numbers() for _ in PAIR_RULES]

    def _add(self, view: View) -> None:
        for rule, open_ in zip(PAIR_RULES, self._open, strict=True):
            parts = [_keyed(rule, step, view) for step in (rule.opens, rule.closes)]
            keys, offsets = (np.concatenate(columns) for columns in zip(*parts, strict=True))
            if not len(keys):
                continue
            opens = np.arange(len(keys)) < len(parts[0][0])
            order = np.lexsort((offsets, keys))
            keys, offsets, opens = keys[order], offsets[order], opens[order]
            # In the order of keys, the row before is the event of the same key before it, if this batch has one.
            same = np.append(False, keys[1:] == keys[:-1])
            was_open = np.where(same, np.append(False, opens[:-1]), open_.has(keys))
            self.report(rule.not_open, ~opens & ~was_open, offsets)
            if rule.already_open and not open_.is_full:
                self.report(rule.already_open, opens & was_open, offsets)
            is_last = np.append(~same[1:], True)
            open_.remove(keys[is_last & ~opens])
            open_.add(keys[is_last & opens])


def _keyed(rule: PairRule, step: Step, view: View) -> tuple[Array, Array]:
    """Return the keys and the byte offsets of events; a key is a hash of what the pair has in common."""
    rows = step.rows(view)
    if not len(rows):
        return np.empty(0, np.uint64), np.empty(0, np.int64)
    columns = [view.threads(step.cls) if name == "thread" else view.values(step.cls, name) for name in rule.key]
    keys = mixed(*(column[rows] for column in columns)) if columns else np.zeros(len(rows), np.uint64)
    return keys, view.offsets(step.cls)[rows]


_STEPS = (
    _GC.PRE_STOP_WORLD, _GC.PRE_STOP_WORLD_LOCKED, _GC.POST_STOP_WORLD, _GC.START, _GC.MARK_START, _GC.MARK_END,
    _GC.RECLAIM_START, _GC.RECLAIM_END, _GC.END, _GC.PRE_START_WORLD, _GC.POST_START_WORLD,
    _GC.POST_START_WORLD_UNLOCKED,
)  # fmt: skip
"""The steps of a collection in their order; within one stop of the world, another collection can begin."""

_RANK = np.argsort(np.array(_STEPS))
"""The place of each step in this order."""


class GcSteps(Check):
    """Finds steps of collections on a thread that come after a later step of the same stop of the world."""

    classes = (r.GcEvent,)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._last = LastOfEach(_MOST_THREADS)  # by thread: its last step

    def _add(self, view: View) -> None:
        rows = np.flatnonzero(view.values(r.GcEvent, "event") < len(_STEPS))  # another rule is about the others
        steps, offsets = view.values(r.GcEvent, "event")[rows].astype(np.int64), view.offsets(r.GcEvent)[rows]
        before = self._last.before(view.threads(r.GcEvent)[rows], steps, -1)
        is_late = (before >= 0) & (_RANK[steps] < _RANK[before])
        is_new = (steps == _GC.PRE_STOP_WORLD) & (_RANK[before] >= _RANK[_GC.POST_START_WORLD])
        is_next = (steps == _GC.START) & (before == _GC.END)
        self.report(
            "gc.step-order", is_late & ~is_new & ~is_next, offsets,
            lambda row: f"step {_GC(steps[row]).name} comes after {_GC(before[row]).name}",
        )  # fmt: skip


class Calls(Check):
    """Finds exits from methods without an entry, and entries without an exit, for each thread."""

    classes = (r.Call,)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._open: dict[int, Array] = {}  # by thread: the methods that are open, the outermost first

    def _add(self, view: View) -> None:
        methods, counts = view.values(r.Call, "method"), view.counts(r.Call)
        threads = view.headers["thread"][counts > 0]
        codes, first = number_distinct(threads)
        owners, codes = threads[first].tolist(), np.repeat(codes, counts[counts > 0])
        # What was open before the batch goes before its rows, as entries without a byte offset.
        carried = [self._open.get(owner, methods[:0]) for owner in owners]
        before = sum(map(len, carried))
        codes = np.append(np.repeat(np.arange(len(owners), dtype=np.int32), [*map(len, carried)]), codes)
        methods = np.concatenate([*carried, methods])
        is_entry = view.values(r.Call, "action") == enums.MethodAction.ENTER
        step = np.full(len(codes), SpanStep.BEGIN, np.int8)
        step[before:] = np.where(is_entry, np.int8(SpanStep.BEGIN), np.int8(SpanStep.END))
        pairs = pair(step, codes, tracks=len(owners), key=np.maximum(methods, 1), level=UNWIND)
        self._report(view, step, methods, pairs, before)
        still = pairs.open
        still = still[np.argsort(codes[still], kind="stable")]
        counts = np.bincount(codes[still], minlength=len(owners))
        for owner, open_ in zip(owners, np.split(methods[still], np.cumsum(counts)[:-1]), strict=True):
            if owner in self._open or len(self._open) < _MOST_THREADS:
                self._open[owner] = open_[-MOST_OPEN_CALLS:]

    def _report(self, view: View, step: Array, methods: Array, pairs: Matched, before: int) -> None:
        """Report the faults of a batch, whose rows comes after some that were open before."""
        offsets, threads = view.offsets(r.Call), view.threads(r.Call)
        self.report(
            "call.leave-without-enter", np.flatnonzero((step == SpanStep.END) & (pairs.parent < 0)) - before, offsets,
            lambda row: f"thread {int(threads[row]):#x} leaves the method {int(methods[row + before]):#x}, "
            "which it did not enter",
        )  # fmt: skip
        unwound = (step == SpanStep.BEGIN) & (pairs.closer < 0) & (pairs.on_stack == 0)
        self.report(
            "call.not-left", np.sort(pairs.end[unwound]) - before, offsets,
            lambda row: f"thread {int(threads[row]):#x} leaves the method {int(methods[row + before]):#x} "
            "before one called there",
        )  # fmt: skip
