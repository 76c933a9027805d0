"""Cut traces, and what a cut has to have: slices of a reader that pairs begins and ends one by one."""

from __future__ import annotations

import io
import random
from collections import Counter
from typing import Any, NamedTuple
from unittest.mock import patch

import fxtio
from fxtio.codec.generate import encode
from fxtio.codec.record import Record
from fxtio.fxt import frames, rules
from fxtio.fxt import records as r
from fxtio.fxt.cut import Cut, cut_to
from fxtio.fxt.layout import MAGIC
from fxtio.fxt.records import Int32Argument, KoidArgument, StringArgument, Thread
from fxtio.io.sink import open_sink
from fxtio.selection import Selection


def cut(data: bytes, selection: Selection, words: int = frames.BATCH_WORDS) -> tuple[bytes, Cut]:
    """Return a part of a trace, which is read in batches of this many words."""
    out = io.BytesIO()
    with (
        patch.object(frames, "BATCH_WORDS", words),
        patch.object(frames, "BATCH_RECORDS", words),
        fxtio.open(data, format="fxt") as trace,
    ):
        done = cut_to(trace, selection, open_sink(out))
    return out.getvalue(), done


def faults(data: bytes) -> Counter[str]:
    """Return how many faults of each rule a trace has."""
    with fxtio.open(data, format="fxt") as trace:
        rules.check(trace)
        return Counter(trace.findings.counts)


class Slice(NamedTuple):
    """A span of a thread, or an operation (then `thread` is None), with its depth; `end` is None if it has none."""

    thread: Thread | None
    id: int
    name: str
    args: tuple[Any, ...]
    begin: int
    end: int | None
    depth: int


class Seen(NamedTuple):
    """What a trace shows, each thing as often as it is there.

    Attributes:
        slices: the slices.
        points: time and record of instants, counters, logs and the like.
        arrows: id, and times, of the points of flows that follow each other.
    """

    slices: Counter[Slice]
    points: Counter[tuple[int, str]]
    arrows: Counter[tuple[int, int, int]]


def seen(data: bytes) -> Seen:
    """Return what a trace shows, in nanoseconds."""
    with fxtio.open(data, format="fxt") as trace:
        entries = sorted(
            (entry for entry in trace.entries() if entry.time is not None), key=lambda entry: entry.time or 0
        )
    slices, points, arrows = Counter[Slice](), Counter[tuple[int, str]](), Counter[tuple[int, int, int]]()
    stacks: dict[Any, list[Any]] = {}
    flows: dict[int, int] = {}
    for entry in entries:
        record, time = entry.record, entry.time
        assert time is not None
        is_async = isinstance(record, r.AsyncBegin | r.AsyncEnd)
        key: Any = record.id if is_async else getattr(record, "thread", None)
        stack = stacks.setdefault((is_async, key), [])
        if isinstance(record, r.DurationBegin | r.DurationComplete | r.AsyncBegin):
            end = getattr(entry, "end_time", None)
            while stack and stack[-1][1] is not None and stack[-1][1] <= time:
                stack.pop()
            thread, number = (None, key) if is_async else (key, 0)
            one = Slice(thread, number, str(record.name), record.args, time, end, len(stack))
            if isinstance(record, r.DurationComplete):
                slices[one] += 1
            stack.append([one, end])
        elif isinstance(record, r.DurationEnd | r.AsyncEnd):
            while stack and stack[-1][1] is not None:
                stack.pop()
            if stack:
                slices[stack.pop()[0]._replace(end=time)] += 1
        elif isinstance(record, r.FlowBegin | r.FlowStep | r.FlowEnd):
            if record.id in flows:
                arrows[record.id, flows[record.id], time] += 1
            flows[record.id] = time
            if isinstance(record, r.FlowEnd):
                del flows[record.id]
        else:
            points[time, repr(record.replace(timestamp=0))] += 1
    for stack in stacks.values():
        slices.update(one for one, end in stack if end is None)
    return Seen(slices, points, arrows)


def within(whole: Seen, start: int, end: int) -> Seen:
    """Return what a part of a trace has to show, without the values that are repeated at its start."""
    slices = Counter[Slice]()
    for one, count in whole.slices.items():
        is_in = start <= one.begin < end
        if is_in or (one.begin < start and (one.end is None or one.end > start)):
            last = None if one.end is None else min(one.end, end)
            slices[one._replace(begin=max(one.begin, start), end=last)] += count
    points = Counter({point: count for point, count in whole.points.items() if start <= point[0] < end})
    arrows = Counter({arrow: count for arrow, count in whole.arrows.items() if start < arrow[1] and arrow[2] < end})
    return Seen(slices, points, arrows)


class Program:
    """A program that writes a trace: threads with nested spans, operations, flows, counters; slots are used anew often.

    Each thread writes its records in order, and the records of all threads alternate in the file.
    """

    NAMES = tuple(f"name{number}" for number in range(9))

    def __init__(self, seed: int, events: int, *, rate: int = 10**9, provider: int = 1) -> None:
        self.random = random.Random(seed)
        self.rate = rate
        self.strings: dict[int, str] = {}
        self.threads: dict[int, Thread] = {}
        self.out: list[Record] = [r.ProviderInfo(provider, f"p{provider}"), r.Initialization(rate)]
        tracks = [Thread(provider, provider * 10 + number) for number in range(3)]
        for thread in tracks:
            self.out += [
                r.KernelObject(1, thread.process, "process", ()),
                r.KernelObject(2, thread.thread or 0, "thread", (KoidArgument("process", thread.process),)),
            ]
        lists = [
            self._events(thread, provider * 10_000 + number * 1_000, events) for number, thread in enumerate(tracks)
        ]
        while any(lists):
            events_of = self.random.choice([each for each in lists if each])
            for event in events_of[: self.random.randrange(1, 5)]:
                self.out.append(self._with_slots(event))
                del events_of[0]

    def _events(self, thread: Thread, first_id: int, count: int) -> list[Record]:
        """Return the events of a thread in the order of the file."""
        time, stack, flows, events = self.random.randrange(20), list[str](), list[int](), list[Record]()
        operations = list[tuple[int, str]]()
        ids = iter(range(first_id, first_id + 1_000))
        for _ in range(count):
            time += self.random.randrange(1, 12)
            name = self.random.choice(self.NAMES)
            both = (StringArgument(self.random.choice(self.NAMES), name), Int32Argument("n", time % 1000))
            args = both[: self.random.randrange(3)]
            kind = self.random.randrange(12)
            if kind < 3 and len(stack) < 6:
                stack.append(name)
                events.append(r.DurationBegin(time, thread, "c", name, args))
            elif kind < 5 and stack:
                events.append(r.DurationEnd(time, thread, "c", stack.pop(), ()))
            elif kind == 5:
                end = time + self.random.randrange(9)
                events += [r.DurationComplete(time, thread, "c", name, args, end)]
                if end > time + 2:
                    events.append(r.DurationComplete(time + 1, thread, "c", "inner", (), end - 1))
                time = end
            elif kind == 6:
                operations.append((next(ids), name))
                events.append(r.AsyncBegin(time, thread, "a", name, args, operations[-1][0]))
            elif kind == 7 and operations:
                number, name = operations.pop(self.random.randrange(len(operations)))
                events.append(r.AsyncEnd(time, thread, "a", name, (), number))
            elif kind == 8 and stack:
                flows.append(next(ids))
                events.append(r.FlowBegin(time, thread, "f", "flow", (), flows[-1]))
            elif kind == 9 and flows and stack:
                events.append(r.FlowStep(time, thread, "f", "flow", (), self.random.choice(flows)))
            elif kind == 10 and flows and stack:
                events.append(r.FlowEnd(time, thread, "f", "flow", (), flows.pop()))
            elif kind == 11:
                events.append(r.Counter(time, thread, "c", name, (Int32Argument("v", time % 100),), 0))
        events += [r.DurationEnd(time + 1, thread, "c", name, ()) for name in reversed(stack)]
        return events

    def _with_slots(self, event: Any) -> Any:
        """Return an event whose strings and thread are slots, which are defined before it if they are not yet."""
        used: set[int] = set()
        args = tuple(arg.replace(**self._slots(arg, used, "name", "value")) for arg in event.args)
        changes = self._slots(event, used, "category", "name")
        if self.random.random() < 0.8:
            slot = self.random.randrange(1, 3)
            if self.threads.get(slot) != event.thread:
                self.threads[slot] = event.thread
                self.out.append(r.ThreadRecord(slot, event.thread.process, event.thread.thread))
            changes["thread"] = slot
        return event.replace(args=args, **changes)

    def _slots(self, record: Any, used: set[int], *fields: str) -> dict[str, Any]:
        """Return slots for texts of a record; slots in `used` are not defined anew."""
        changes: dict[str, Any] = {}
        for field in fields:
            text = getattr(record, field)
            if isinstance(text, str) and self.random.random() < 0.9:
                slot = next((slot for slot, value in self.strings.items() if value == text), 0)
                if not slot:
                    slot = self.random.choice([slot for slot in range(1, 9) if slot not in used])
                    self.strings[slot] = text
                    self.out.append(r.String(slot, text))
                used.add(slot)
                changes[field] = slot
        return changes

    def encoded(self) -> bytes:
        """Return the trace."""
        return MAGIC + b"".join(map(encode, self.out))
