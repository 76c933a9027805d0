"""The tree of calls: slices merged by the names of the slices around them, or the frames of samples."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from fxtio.arrays import Array
from fxtio.report import counted
from fxtio.selection import EVERYTHING, Selection
from fxtio.table import Categories, Table
from fxtio.timeline.answers.answer import Answer, QuestionError, text_of
from fxtio.timeline.answers.rows import Chosen, Rows, chosen
from fxtio.timeline.answers.stack_tree import depths
from fxtio.timeline.answers.top import Weighted
from fxtio.timeline.parts import Registry
from fxtio.timeline.stacks import SliceNodes
from fxtio.timeline.sums import add_by_group, add_to_parents
from fxtio.timeline.typecheck import check_types

if TYPE_CHECKING:
    from fxtio.timeline.timeline import Timeline

CONTENTS = ("slices", "samples", "allocations")
"""The contents of which there are trees; the first one that a trace has is the default."""

MAX_DEPTH = 1_000
"""The depth of the deepest slices that a tree has, and one more."""

MAX_NODES = 1_000_000
"""The most nodes of a tree."""

_TABLES = {
    "slices": ("slices",),
    "samples": ("samples", "stacks", "frames"),
    "allocations": ("allocations", "stacks", "frames"),
}


def tree(
    timeline: Timeline,
    *,
    share: float = 0.0,
    depth: int | None = None,
    what: str | None = None,
    selection: Selection | None = None,
) -> Answer:
    """Merge calls with the same names from the outermost one on, in one reading of bounded memory.

    Slices that are not selected are left out, and those within them are children of the next slice around them.

    Args:
        timeline: the timeline.
        share: leave out nodes with a smaller share of the time of all roots (0 to 1).
        depth: the most levels, None for all.
        what: one of `CONTENTS`; by default the first one that the trace has.
        selection: the part of the trace.

    Returns:
        A table with the columns `depth`, `parent` (row of the table, -1 for a root), `name`, `calls`, `total`, `self`
        and `share` of the total of all roots; for slices `open` is the number of calls without an end.  A node is
        before its children, the largest child first.

    Raises:
        QuestionError: there is no such content.
        TypeError: an argument is of a wrong type.
    """
    check_types(timeline=timeline, share=share, depth=depth, what=what, selection=selection)
    if what is not None and what not in CONTENTS:
        raise QuestionError(f"there is no tree of {what!r}; there are trees of {', '.join(CONTENTS)}")
    selection = selection or EVERYTHING
    contents = CONTENTS if what is None else (what,)
    names = {name: None for content in contents for name in _TABLES[content]}
    subset = chosen(timeline, selection, *names)
    forest, registry = timeline.fold(partial(_Forest, contents=contents, selection=selection, subset=subset), *names)
    what, nodes = forest.finish()
    answer = Answer(what, Table({}), "bytes" if what == "allocations" else nodes.unit)
    rows = nodes.rows(share, depth)
    answer.more = nodes.count - len(rows)
    answer.table = nodes.table(rows, registry)
    if forest.slices.lost:
        answer.notes.append(
            f"left out, since too deep or on too many different paths: {counted(forest.slices.lost, 'slice')}"
        )
    return answer


class Nodes:
    """Nodes of a tree; a parent is before its children.

    Attributes:
        parent: the parent of each node, -1 for a root.
        code: the code of its name.
        calls: the number of its calls.
        total: their time, or their weight.
        own: the part of it that no child has.
        unit: the unit of times and weights.
        depth: the number of nodes above it (int64); a last item is -1, for no node.
        open: the number of its calls without an end, None for samples and allocations.
        used: whether it, or a node below it, has calls (bool).
        count: the number of used nodes.
    """

    def __init__(
        self,
        parent: Array,
        code: Array,
        calls: Array,
        total: Array,
        own: Array,
        unit: str = "ns",
        unended: Array | None = None,
    ) -> None:
        used = np.append(calls > 0, True)
        for node in range(len(parent) - 1, -1, -1):
            if used[node]:
                used[parent[node]] = True
        self.used = used[:-1]
        self.count = int(self.used.sum())
        self.unit = unit
        self.open = unended
        self.parent, self.code, self.calls, self.total, self.own = parent, code, calls, total, own
        self._whole = float(total[(parent < 0) & self.used].sum(dtype=np.float64))
        self.depth = depths(parent)

    def rows(self, share: float, depth: int | None) -> list[int]:
        """Return the nodes that are shown, a node before its children, the largest first."""
        shown = self.used & (self.total >= share * self._whole)
        if depth is not None:
            shown &= self.depth[:-1] < depth
        nodes = np.flatnonzero(shown)
        nodes = nodes[np.lexsort((nodes, -self.calls[nodes], -self.total[nodes]))]
        return depth_first(nodes, self.parent[nodes])

    def table(self, rows: list[int], registry: Registry) -> Table:
        """Return nodes as a table."""
        at = np.array(rows, np.int64)
        row_of = np.full(len(self.parent) + 1, -1, np.int64)
        row_of[at] = np.arange(len(at))
        values = registry.names.values
        return Table(
            {
                "depth": self.depth[at],
                "parent": row_of[self.parent[at]],
                "name": Categories.of([text_of(values, code) for code in self.code[at].tolist()]),
                "calls": self.calls[at],
                "total": self.total[at],
                "self": self.own[at],
                **({} if self.open is None else {"open": self.open[at]}),
                "share": self.total[at] / self._whole if self._whole else np.zeros(len(at)),
            }
        )


def depth_first(nodes: Array, parents: Array) -> list[int]:
    """Return nodes, each before its children, and these in the order in which they are given.

    Args:
        nodes: the nodes, in any order.
        parents: the parent of each, -1 for a root.
    """
    children: dict[int, list[int]] = {}
    for node, parent in zip(nodes.tolist(), parents.tolist(), strict=True):
        children.setdefault(parent, []).append(node)
    result: list[int] = []
    waiting = children.get(-1, [])[::-1]
    while waiting:
        node = waiting.pop()
        result.append(node)
        waiting += children.get(node, [])[::-1]
    return result


class _Forest:
    """The tree of the first of several contents that a trace has."""

    def __init__(
        self, registry: Registry, *, contents: tuple[str, ...], selection: Selection, subset: Chosen | None
    ) -> None:
        self._registry = registry
        self._contents = contents
        self._seen: set[str] = set()
        self.slices = SliceTree(registry, selection, subset)
        self._weighted = {
            what: Weighted(what, registry, by="name", selection=selection, subset=subset)
            for what in contents
            if what != "slices"
        }

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the slices, samples or allocations of a batch, and their stacks."""
        self._seen.update(name for name in self._contents if name in tables)
        if "slices" in self._contents and "slices" in tables:
            self.slices.enter(tables["slices"])
        for weighted in self._weighted.values():
            weighted.enter(tables)

    def finish(self) -> tuple[str, Nodes]:
        """Return the content and its nodes."""
        what = next((name for name in self._contents if name in self._seen), self._contents[0])
        if what == "slices":
            return what, self.slices.finish()
        unit, stacks, sums = self._weighted[what].of_stacks()
        node, parent, code = stacks.nodes(stacks.groups("function", self._registry.names))
        of_nodes = np.zeros((2, len(parent)), np.int64)
        for of_node, of_stack in zip(of_nodes, sums[:, 1:], strict=True):
            add_by_group(of_node, node, of_stack)
        number, total = (add_to_parents(each, parent) for each in of_nodes)
        return what, Nodes(parent, code, number, total, of_nodes[1], unit)


class SliceTree:
    """The tree of slices.

    Args:
        registry: the registry of the reading.
        selection: the part of the trace.
        subset: the tracks that are selected, None for all.
        most: the most nodes.

    Attributes:
        lost: the number of slices that are not in it.
    """

    def __init__(
        self,
        registry: Registry,
        selection: Selection = EVERYTHING,
        subset: Chosen | None = None,
        *,
        most: int = MAX_NODES,
    ) -> None:
        self.lost = 0
        self._most = most
        self._registry = registry
        self._rows = Rows(registry, selection, subset)
        self._node_of: dict[tuple[int, int], int] = {}
        self._nodes = SliceNodes(self._below)
        self._sums = np.zeros((4, 1024), np.int64)

    def enter(self, slices: Table) -> None:
        """Take the slices of a batch."""
        slices, opened = self._rows.cut(slices), self._registry.open_slices()
        count = slices.num_rows
        masks = ((self._rows.matches(table), table.num_rows) for table in (slices, opened))
        selected = np.concatenate([np.ones(rows, bool) if mask is None else mask for mask, rows in masks])
        names = np.concatenate([slices["name"].codes, opened["name"].codes]).astype(np.int64)
        own = self._nodes.of(slices, opened, np.where(selected, names, _UNSELECTED))[:count]
        is_counted = (own >= 0) & selected[:count]
        self.lost += int((own == _LOST).sum())
        at = own[is_counted]
        np.add.at(self._sums[0], at, 1)
        np.add.at(self._sums[3], own[is_counted & slices["state"].is_in("open")], 1)
        for sums, name in zip(self._sums[1:3], ("duration", "self_time"), strict=True):
            add_by_group(sums, at, slices[name][is_counted])

    def _below(self, names: Array, around: Array, depth: int) -> Array:
        """Return the nodes of slices, which are those around them for slices that are not selected."""
        if depth >= MAX_DEPTH:
            return np.full(len(names), _LOST, np.int64)
        new = np.flatnonzero((names != _UNSELECTED) & (around != _LOST))
        result = around.copy()
        result[new] = self._children(around[new], names[new])
        return result

    def _children(self, parent: Array, name: Array) -> Array:
        """Return the child of each node with this name."""
        if not len(parent):
            return parent
        width = int(name.max()) + 2
        keys, place = np.unique((parent + 1) * width + name + 1, return_inverse=True)
        above, code = np.divmod(keys, width)
        return np.array(
            [self._child(*pair) for pair in zip((above - 1).tolist(), (code - 1).tolist(), strict=True)], np.int64
        )[place]  # fmt: skip

    def _child(self, parent: int, name: int) -> int:
        node = self._node_of.get((parent, name))
        if node is None:
            node = len(self._node_of)
            if node >= self._most:
                return _LOST
            self._node_of[parent, name] = node
            if node >= self._sums.shape[1]:
                self._sums = np.concatenate([self._sums, np.zeros_like(self._sums)], axis=1)
        return node

    def finish(self) -> Nodes:
        """Return the nodes."""
        keys = np.array([*self._node_of], np.int64).reshape(-1, 2)
        calls, total, own, unended = self._sums[:, : len(keys)]
        return Nodes(keys[:, 0], keys[:, 1], calls, total, own, unended=unended)


_LOST = -2
"""The node of slices that are not in the tree."""

_UNSELECTED = -2
"""In place of the code of the name of a slice that is not selected."""
