"""The shapes of profilers: samples of stacks, and allocations with the stacks that made them."""

from __future__ import annotations

import numpy as np

from fxtio.arrays import Array
from fxtio.synth.columns import Draw, Group, Rows

_CLASSES_OF_CODE = ("Server", "Session", "Router", "Query", "Cache", "Json.Writer", "Log", "Socket")
_VERBS = ("Run", "Handle", "Read", "Parse", "Find", "Write", "Flush", "Wait")

FUNCTIONS = tuple(f"Shop.{cls}:{verb}" for cls in _CLASSES_OF_CODE for verb in _VERBS)
TYPES = ("System.String", "System.Byte[]", "Shop.Request", "Shop.Row", "System.Collections.Generic.List<T>")

_STACKS = 512
_COLLECT_EVERY = 1_000


def _tree() -> tuple[Array, Array]:
    """Return the stacks of the program, each as another one (before it, -1 for none) and a function on top of that."""
    draw, numbers = Draw(np.random.PCG64(0)), np.arange(_STACKS)
    parent = draw.below(np.maximum(numbers, 1), _STACKS)
    parent[0] = -1
    return parent, np.where(numbers == 0, 0, draw.below(len(FUNCTIONS), _STACKS))


PARENT, FRAME = _tree()


def _stacks(state: Draw, count: int) -> Array:
    """Return stacks, some of them much more often than others."""
    return state.below(_STACKS, count) * state.below(_STACKS, count) // _STACKS


def sampling(state: Draw, group: Group, count: int) -> list[Rows]:
    """Generate samples of stacks, of each thread about every 10 ms."""
    ticks = group.now + (1 + state.below(20_000_000 // group.width, count)).cumsum()
    group.now = int(ticks[-1]) + 1
    return [
        Rows("samples", {"ticks": ticks, "thread": state.below(group.width, count), "stack": _stacks(state, count)})
    ]


def memory(state: Draw, group: Group, count: int) -> list[Rows]:
    """Generate allocations, and a garbage collection after every thousand of them."""
    ticks = group.now + (10_000 + state.below(40_000, count)).cumsum()
    group.now = int(ticks[-1]) + 10_000
    number, type_ = 1 + state.below(4, count), state.below(len(TYPES), count)
    allocations = {
        "ticks": ticks,
        "thread": state.below(group.width, count),
        "stack": _stacks(state, count),
        "type": type_,
        "count": number,
        "size": number * 8 * (2 + 3 * type_),
    }
    start = ticks[_COLLECT_EVERY - 1 :: _COLLECT_EVERY] + 1
    collections = {
        "ticks": start,
        "thread": state.below(group.width, len(start)),
        "duration": 1_000 + state.below(8_000, len(start)),
        "generation": (state.below(8, len(start)) == 0).astype(np.int64),
    }
    return [Rows("allocations", allocations), *([Rows("collections", collections)] if len(start) else [])]
