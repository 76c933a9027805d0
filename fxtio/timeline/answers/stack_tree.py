"""Samples and allocations by function: sums of each stack, and the functions that it has."""

from __future__ import annotations

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.distinct import number_rows
from fxtio.table import Table
from fxtio.timeline.answers.places import names_with_places
from fxtio.timeline.parts import Names
from fxtio.timeline.stacks import WholeTables
from fxtio.timeline.sums import add_to_parents


def depths(parent: Array) -> Array:
    """Return the number of nodes above each node of a tree (int64); a last item is -1, for no node.

    Args:
        parent: the number of the parent of each node, which is lower than its own; -1 for a root.
    """
    depth = [*parent.tolist(), -1]
    for node, above in enumerate(depth[:-1]):
        depth[node] = depth[above] + 1
    return np.array(depth, np.int64)


class StackCollector(WholeTables):
    """Collects the stacks and frames of a timeline from its batches."""

    def __init__(self) -> None:
        super().__init__({"stacks": None, "frames": None})

    def finish(self) -> StackTree:
        """Return the stacks as a tree."""
        return StackTree(self.table("stacks"), self.table("frames"))


class StackTree:
    """Stacks as a tree whose nodes are stacks: each is the call of its innermost frame.

    Attributes:
        parent: the stack around each stack (int64), -1 for none.
        frames: the table of frames.
        frame: the innermost frame of each stack (int64).
        depth: the number of stacks around each stack (int64); a last item is -1, for no stack.

    Args:
        stacks: the table of stacks; a stack is after the one around it.
        frames: the table of frames.
    """

    def __init__(self, stacks: Table, frames: Table) -> None:
        self.frames = frames
        self.frame = stacks["frame"].astype(np.int64)
        parent = stacks["parent"].astype(np.int64)
        self.parent = np.where(parent < np.arange(len(parent)), parent, -1)
        self.depth = depths(self.parent)

    def inclusive(self, own: Array) -> Array:
        """Return the sum of each stack and of all that are deeper (int64).

        Args:
            own: the sum of each stack by itself.
        """
        return add_to_parents(own, self.parent)

    def nodes(self, group: Array) -> tuple[Array, Array, Array]:
        """Merge the stacks that have the same groups from the outermost frame on.

        Args:
            group: the group of each stack, that of its innermost frame.

        Returns:
            The node of each stack, the parent of each node (-1 for none), and the group of each node.
        """
        node = np.full(len(group) + 1, -1, np.int64)  # the last item stands for no parent
        parents, groups = [], []
        count = 0
        # Level by level: the nodes around a level have numbers, so equal pairs of outer node and group are one node.
        depth = self.depth[:-1]
        order = np.argsort(depth, kind="stable")
        for rows in np.split(order, np.cumsum(np.bincount(depth)))[:-1] if len(depth) else []:
            outer, own = node[self.parent[rows]], group[rows]
            codes, first = number_rows([outer, own])
            node[rows] = codes + count
            parents.append(outer[first])
            groups.append(own[first])
            count += len(first)
        if not count:
            return node[:-1], np.empty(0, np.int64), np.empty(0, np.int64)
        return node[:-1], np.concatenate(parents), np.concatenate(groups)

    def is_outermost(self, group: Array) -> Array:
        """Return for each stack whether its group occurs in none of the stacks around it (bool)."""
        result = np.ones(len(group), bool)
        rows, around = np.arange(len(group)), self.parent.copy()
        while True:
            left = around >= 0
            rows, around = rows[left], around[left]
            if not len(rows):
                return result
            same = group[rows] == group[around]
            result[rows[same]] = False
            rows, around = rows[~same], self.parent[around[~same]]

    def groups(self, by: str, names: Names) -> Array:
        """Return the code of the name of each stack's innermost frame, or of its module, -1 for none (int64).

        Args:
            by: `name`; `function`, the name with the file if functions of several files have this name; or `module`.
            names: the names; a function without one gets its address as a new name.
        """
        codes = self.frames["module" if by == "module" else "name"].codes.astype(np.int64)
        if by != "module":
            for row in np.flatnonzero((codes < 0) & (self.frames["address"] > 0)).tolist():
                codes[row] = names.code(f"{int(self.frames['address'][row]):#x}")
        if by == "function":
            codes = names_with_places(codes, self.frames["file"].codes, names)
        return codes[self.frame] if len(self.frame) else np.empty(0, np.int64)
