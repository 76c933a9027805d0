"""CPU profiles of V8, `.cpuprofile`: a tree of nodes, samples that refer to them, and the times between samples.

Node.js and Chromium write them; VS Code and the DevTools of Chromium show them.  A sample lasts until the next one.  A
file has one line of time, so threads come one after the other, each below a node of its own.  What a thread does is
that of its samples, or else of its slices, where each begin or end is a sample.  In both directions the tree is in
memory; reading needs memory for the whole file.

https://chromedevtools.github.io/devtools-protocol/tot/Profiler/#type-Profile
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any, ClassVar

import msgspec
import numpy as np

from fxtio.arrays import Array
from fxtio.codec.integers import MAX_INT32
from fxtio.errors import FormatError
from fxtio.exchange.collect import StackExporter, label, thread_titles, track_titles
from fxtio.exchange.json_columns import EMPTY, ROWS, at_each, integers, numbers
from fxtio.exchange.json_events import UNREADABLE, items
from fxtio.io.source import Source, read_whole
from fxtio.table import MAX_TIME, Table
from fxtio.timeline.losses import plain
from fxtio.timeline.parts import Registry, TimelinePart
from fxtio.timeline.replay import nested_events
from fxtio.timeline.stacks import MAX_FRAMES, Stacks

NOT_CARRIED = (
    "times of threads but the first, which come one after the other, each below a node of its own; processors",
    "slices that last 0 ns; weights of samples other than times, if these have times",
    "slices beside samples; samples in more than one unit; allocations",
    "categories, arguments but the places of functions, states and ids of slices; addresses and modules of frames",
    "instants, flows, counters, logs, scheduling",
)
"""The content of a timeline that a file does not have."""

_ROOT, _IDLE, _ANONYMOUS = "(root)", "(idle)", "(anonymous)"
"""The names of the outermost node, of the time in which nothing runs, and of functions without one, as in DevTools."""

_US, _MS = 1000, 1_000_000
_LATEST = 1 << 61
"""The latest time, and the longest duration (ns) that is written."""


def sniff(head: bytes) -> bool:
    """Return whether a file that begins with these bytes is of this format."""
    return head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") and b'"nodes"' in head and b'"callFrame"' in head


class _Call(msgspec.Struct, gc=False):
    functionName: Any = None  # noqa: N815
    url: Any = None
    lineNumber: Any = None  # noqa: N815


class _Node(msgspec.Struct, gc=False):
    id: Any
    callFrame: _Call  # noqa: N815
    hitCount: Any = 0  # noqa: N815
    children: msgspec.Raw = EMPTY
    parent: Any = None


class _File(msgspec.Struct):
    nodes: msgspec.Raw
    startTime: Any = 0  # noqa: N815
    endTime: Any = None  # noqa: N815
    samples: msgspec.Raw = EMPTY
    timeDeltas: msgspec.Raw = EMPTY  # noqa: N815


def parts(source: Source, registry: Registry, tables: Set[str]) -> Iterator[TimelinePart]:
    """Read a file, and yield its samples, or the sums of the nodes if it has none, see `fxtio.formats.TimelineRoom`.

    Raises:
        FormatError: the file is not a CPU profile.
    """
    stacks = Stacks(registry)
    try:
        file = msgspec.json.decode(read_whole(source), type=_File)
        ids, stack, hits = _nodes(file.nodes, stacks, registry)
    except UNREADABLE as error:
        raise FormatError(f"{source.name} is not a whole CPU profile: {error}") from None
    order = np.argsort(ids, kind="stable")
    new, thread, unit = stacks.new_tables(), registry.thread(0, 1), registry.names.code("ns")
    is_empty = True
    for sample, time, duration in _samples(file, registry):
        is_empty = False
        row = at_each(order, np.searchsorted(ids, sample, sorter=order))
        is_wrong = (row < 0) | (at_each(ids, row) != sample)
        registry.losses["samples of nodes that are not defined"] += int(is_wrong.sum())
        own = at_each(stack, np.where(is_wrong, -1, row))
        taken = (duration > 0) | (own >= 0)  # but for a sample of the root at the end
        columns = {"time": time[taken], "thread": thread, "cpu": -1, "stack": own[taken], "count": duration[taken]}
        yield TimelinePart(tables={**new, "samples": registry.columns("samples", {**columns, "unit": unit})})
        new = {}
    if is_empty:
        hit, unit = np.flatnonzero(hits > 0), registry.names.code("samples")
        columns = {"time": 0, "thread": -1, "cpu": -1, "stack": stack[hit], "count": hits[hit], "unit": unit}
        yield TimelinePart(tables={**new, "samples": registry.columns("samples", columns)})


def _samples(file: _File, registry: Registry) -> Iterator[tuple[Array, Array, Array]]:
    """Yield the nodes, times and durations of samples (int64, ns): each lasts until the next one."""
    end = _ns([file.endTime])[0]
    latest = max(int(_ns([file.startTime])[0]), 0)
    node, time = np.empty((2, 0), np.int64)
    samples, deltas = items(file.samples or EMPTY, Any), items(file.timeDeltas or EMPTY, Any)
    try:
        while piece := [*islice(samples, ROWS)]:
            own, before = integers(piece), latest
            delta = _ns([*islice(deltas, len(own)), *[0] * len(own)][: len(own)])
            own_time = np.minimum(before + np.cumsum(np.clip(delta, -_LATEST // ROWS, _LATEST // ROWS)), _LATEST)
            in_order = np.maximum.accumulate(np.maximum(own_time, before))
            moved = int((in_order != own_time).sum())
            registry.losses["samples that are earlier than the one before, which are moved"] += moved
            node, time, latest = np.append(node, own), np.append(time, in_order), int(in_order[-1])
            yield node[:-1], np.maximum(time[:-1], 1), np.diff(time)  # 0 is the time of a sample that has none
            node, time = node[-1:], time[-1:]
    except UNREADABLE:
        registry.losses["lists of samples that cannot be read to their end"] += 1
    if len(node):
        yield node, np.maximum(time, 1), np.maximum(end - time, 0)


def _ns(us: list[Any]) -> Array:
    """Return times of JSON, in microseconds, as ns (int64), 0 for what is none."""
    result: Array = np.clip(np.rint(np.nan_to_num(numbers(us)) * _US), -_LATEST, _LATEST).astype(np.int64)
    return result


def _nodes(raw: msgspec.Raw, stacks: Stacks, registry: Registry) -> tuple[Array, Array, Array]:
    """Return the ids of nodes, the stacks that they are the innermost frames of, and how many samples they have."""
    ids, frames, hits, outer_ids = array("q"), array("q"), array("q"), array("q")
    children, rows = array("q"), array("i")  # the ids of nodes, and the rows of those around them
    for node in items(raw, _Node):
        if len(ids) >= MAX_FRAMES:
            registry.losses[f"nodes beyond the first {MAX_FRAMES:,}"] += 1
            continue
        call, below = node.callFrame, items(node.children or EMPTY, Any)
        while piece := [*islice(below, ROWS)]:
            children.frombytes(integers(piece).tobytes())
            rows.extend([len(ids)] * len(piece))
        name, file = (value if isinstance(value, str) and value else None for value in (call.functionName, call.url))
        identity, hit, line, outer = integers([node.id, node.hitCount, call.lineNumber, node.parent]).tolist()
        line = line + 1 if 0 <= line < MAX_INT32 else -1
        ids.append(identity)
        frames.append(-1 if name == _ROOT else stacks.frame(name or _ANONYMOUS, file=file, line=line))
        hits.append(hit)
        outer_ids.append(outer)
    row_of = dict(zip(reversed(ids), range(len(ids) - 1, -1, -1), strict=True))  # the first one of an id
    outer_rows = array("q", [row_of.get(each, -1) for each in outer_ids])
    for child, row in zip(children, rows, strict=True):
        inner = row_of.get(child)
        if inner is not None:
            outer_rows[inner] = row
    return np.array(ids), _numbered(outer_rows, frames, stacks), np.array(hits)


def _numbered(outer: array[int], frames: array[int], stacks: Stacks) -> Array:
    """Return the stack of each node (int64), from the rows of the nodes around them and their frames."""
    unknown = -2
    result = array("q", [unknown]) * len(outer)
    for row in range(len(outer)):
        path = []
        while row >= 0 and result[row] == unknown:
            path.append(row)
            result[row] = -1  # in case that it is around itself
            row = outer[row]
        stack = result[row] if row >= 0 else -1
        for inner in reversed(path):
            stack = result[inner] = stack if frames[inner] < 0 else stacks.on(stack, frames[inner])
    return np.array(result)


class _Tree:
    """The nodes of a file: each is a function below another node; the first one is the root."""

    def __init__(self) -> None:
        self._hits = array("q")
        self._calls: dict[str, int] = {}
        self._nodes: dict[tuple[int, int], int] = {}
        self._children: list[array[int]] = []
        self.root = self.node(-1, self.call(_ROOT))

    def call(self, name: str, file: str = "", line: int = -1) -> int:
        """Return the number of a function, whose line is the first one or more, or -1."""
        frame = {"functionName": name, "scriptId": "0", "url": file, "lineNumber": max(line - 1, -1)}
        text = msgspec.json.encode({**frame, "columnNumber": -1}).decode()
        return self._calls.setdefault(text, len(self._calls))

    def function(self, frame: Mapping[str, Any], losses: Counter[str]) -> int:
        """Return the number of the function of a frame, a row of the table `frames`."""
        return self.call(label({**frame}, losses), plain(frame["file"] or "", losses), frame["line"])

    def owner(self, title: str | None) -> int:
        """Return the node of a thread or another track, the root if it has no title."""
        return self.root if title is None else self.node(self.root, self.call(title))

    def node(self, outer: int, call: int) -> int:
        """Return the number of the node of a function below another node."""
        number = self._nodes.setdefault((outer, call), len(self._nodes))
        if number == len(self._hits):
            self._hits.append(0)
            self._children.append(array("q"))
            if outer >= 0:
                self._children[outer].append(number + 1)
        return number

    def count(self, nodes: Array, hits: Array) -> None:
        """Add the numbers of samples of nodes."""
        distinct, place = np.unique(nodes, return_inverse=True)
        for node, sum_of_node in zip(distinct.tolist(), np.bincount(place, hits).tolist(), strict=True):
            self._hits[node] = int(min(self._hits[node] + sum_of_node, MAX_TIME // 2))

    def texts(self) -> Iterator[str]:
        """Yield the nodes as JSON; their ids are their numbers and 1."""
        calls, each = [*self._calls], zip(self._nodes, self._children, self._hits, strict=True)
        for number, ((_, call), children, hits) in enumerate(each, 1):
            below = f',"children":[{",".join(map(str, children))}]' if children else ""
            yield f'{{"id":{number},"callFrame":{calls[call]},"hitCount":{hits}{below}}}'


_NO_FRAME = {"file": None, "line": -1, "address": 0}


@dataclass(frozen=True, slots=True)
class _Run:
    """Tells what a thread or another track did: arrays of one length, in the order of time.

    Attributes:
        node: the node of each piece of time.
        begin: its begin (int64 ns), not before the end of the piece before.
        end: its end.
        hits: the number of samples that it stands for.
    """

    node: Array
    begin: Array
    end: Array
    hits: Array


class Exporter(StackExporter):
    """Writes a timeline as a CPU profile, see `fxtio.formats.Exporter`."""

    LOST = ("slices.category", "samples.cpu", "frames.module", "frames.address")
    KEPT: ClassVar = {
        "slices": ("id", "start", "duration", "depth", "track", "name"),
        "samples": ("time", "thread", "stack", "count", "unit"),
        "allocations": ("size",),
        "stacks": None,
        "frames": None,
    }

    def finish(self) -> None:
        """Write the file."""
        tree, samples, slices = _Tree(), self._whole.table("samples"), self._whole.table("slices")
        self.losses["allocations"] += self._whole.table("allocations").num_rows
        if samples.num_rows:
            self.losses["slices, beside samples"] += slices.num_rows
            runs = [*self._of_samples(samples, tree)]
        else:
            runs = [*self._of_slices(slices, tree)]
        self._write(runs, tree)

    def _of_samples(self, samples: Table, tree: _Tree) -> Iterator[_Run]:
        """Yield what each thread did by its samples in the unit of time, or else in the most usual one."""
        names, units = self._registry.names, np.unique(samples["unit"].codes).tolist()
        unit = next((code for code in map(names.code, ("ns", "samples")) if code in units), units[0])
        is_taken = samples["unit"].codes == unit
        self.losses[f"samples in units other than {names.values[unit]!r}"] += int((~is_taken).sum())
        is_positive = samples["count"] > 0
        self.losses["samples without a positive weight"] += int((is_taken & ~is_positive).sum())
        samples = samples.take(is_taken & is_positive)
        thread = samples["thread"]
        order = np.lexsort((samples["time"], thread))
        groups = np.split(order, np.flatnonzero(np.diff(thread[order])) + 1) if len(order) else []
        titles = [*thread_titles(self._registry.tables(), self.losses), "samples"]  # the last one is that of no thread
        nodes = _StackNodes(self._whole.table("stacks"), self._whole.table("frames"), tree, self.losses)
        for rows in groups:
            title = titles[thread[rows[0]]] if len(groups) > 1 else None
            count, time = samples["count"][rows], samples["time"][rows]
            node = nodes.of(samples["stack"][rows], tree.owner(title))
            is_time = names.values[unit] == "ns"
            yield _Run(node, *self._times(time, count, is_time=is_time), np.ones_like(count) if is_time else count)

    def _times(self, time: Array, count: Array, *, is_time: bool) -> tuple[Array, Array]:
        """Return begins and ends of samples, which last as long as their weights say, or until the next one."""
        time = np.minimum(time, _LATEST)
        if not is_time and time[-1] > 0:
            self.losses["weights of samples, which last until the next one"] += int((count != 1).sum())
            return time, np.append(time[1:], time[-1] + int(np.median(np.diff(time))) if len(time) > 1 else time + _MS)
        if not is_time:
            self.losses["samples without a time, which last 1 ms"] += int(count.sum())
        lasts = np.minimum(count, _LATEST // (_MS * len(count))) * (1 if is_time else _MS)
        # A sample begins at its time, or where the one before ends.
        total = np.cumsum(lasts)
        end = np.maximum.accumulate(time - (total - lasts)) + total
        return end - lasts, end

    def _of_slices(self, slices: Table, tree: _Tree) -> Iterator[_Run]:
        """Yield what each track did by its slices."""
        if not slices.num_rows:
            return
        events = nested_events(slices)
        self.losses["slices that last 0 ns"] += int((slices["duration"] == 0).sum())
        self.losses["slices that end after the slice around them, which are cut"] += events.cut
        codes, name = np.unique(slices["name"].codes, return_inverse=True)
        texts = [self._registry.names.values[code] if code >= 0 else "" for code in codes.tolist()]
        calls = [tree.function(self._places.with_place({**_NO_FRAME, "name": text}), self.losses) for text in texts]
        track, call = slices["track"][events.row], name[events.row]
        borders = [0, *(np.flatnonzero(np.diff(track)) + 1).tolist(), len(track)]
        titles = track_titles(self._registry.tables(), self.losses)
        for begin, end in pairwise(borders):
            path = [tree.owner(titles[track[begin]] if len(borders) > 2 else None)]
            node, time = array("q"), events.time[begin:end]
            for is_end, number in zip(events.is_end[begin:end].tolist(), call[begin:end].tolist(), strict=True):
                if is_end:
                    path.pop()
                else:
                    path.append(tree.node(path[-1], calls[number]))
                node.append(path[-1] if len(path) > 1 else -1)
            runs = np.flatnonzero((np.array(node)[:-1] >= 0) & (np.diff(time) > 0))
            yield _Run(np.array(node)[runs], time[runs], time[runs + 1], np.ones(len(runs), np.int64))

    def _write(self, runs: list[_Run], tree: _Tree) -> None:
        """Write the file, with one thread after the other."""
        node, time, latest = [np.empty(0, np.int64)], [np.empty(0, np.int64)], 0
        for run in runs:
            if not len(run.node):
                continue
            own, bounds = self._without_gaps(run, tree)
            if latest:
                self.losses["times of threads but the first, which come one after the other"] += len(own)
                bounds += latest - bounds[0]
            node.append(own)
            time.append(bounds[:-1])
            latest = int(bounds[-1])
        if latest:  # a last sample, for readers that do not know how long the last one lasts
            node.append(np.array([tree.root]))
            time.append(np.array([latest]))
        nodes, times = np.concatenate(node), np.concatenate(time)
        start = int(times[0]) if len(times) else 0
        self._list('{"nodes":[', tree.texts())
        self._sink.write(f'],"startTime":{_us(start)},"endTime":{_us(max(latest, start))}'.encode())
        self._list(',"samples":[', map(str, (nodes + 1).tolist()))
        self._list('],"timeDeltas":[', map(_us, np.diff(times, prepend=start).tolist()))
        self._sink.write(b"]}\n")

    def _without_gaps(self, run: _Run, tree: _Tree) -> tuple[Array, Array]:
        """Return the nodes of a run, and where their pieces of time begin, with the last end (ns)."""
        gaps = np.flatnonzero(run.begin[1:] > run.end[:-1]) + 1
        idle = tree.node(tree.root, tree.call(_IDLE)) if len(gaps) else 0
        node, hits = np.insert(run.node, gaps, idle), np.insert(run.hits, gaps, 1)
        bounds = np.append(np.insert(run.begin, gaps, run.end[gaps - 1]), run.end[-1:])
        tree.count(node, hits)
        return node, bounds

    def _list(self, before: str, texts: Iterator[str]) -> None:
        """Write the items of a list in JSON."""
        while piece := [*islice(texts, ROWS)]:
            self._sink.write(f"{before}{','.join(piece)}".encode())
            before = ","
        if before != ",":
            self._sink.write(before.encode())


def _us(ns: int) -> str:
    """Return ns as us: a whole number, as V8 writes it, where it is one."""
    whole, rest = divmod(ns, _US)
    return f"{whole}.{rest:03}" if rest else str(whole)


class _StackNodes:
    """The nodes of stacks.

    Args:
        stacks: the table `stacks`, whole.
        frames: the table `frames`, whole.
        tree: has the nodes.
        losses: counts names that are not texts.
    """

    def __init__(self, stacks: Table, frames: Table, tree: _Tree, losses: Counter[str]) -> None:
        self._outer, self._inner = stacks["parent"].tolist(), stacks["frame"].tolist()
        self._calls = [tree.function(row, losses) for row in frames.rows()]
        self._tree = tree

    def of(self, stacks: Array, root: int) -> Array:
        """Return the node of each stack below a node."""
        distinct, place = np.unique(stacks, return_inverse=True)
        known = {-1: root}
        nodes = []
        for stack in distinct.tolist():
            path = []
            while stack not in known:
                path.append(stack)
                stack = self._outer[stack]
            node = known[stack]
            for inner in reversed(path):
                node = known[inner] = self._tree.node(node, self._calls[self._inner[inner]])
            nodes.append(node)
        return np.array(nodes, np.int64)[place]
