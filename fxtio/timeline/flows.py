"""Arrows between slices, from the points of flows."""

from __future__ import annotations

import numpy as np

from fxtio.table import Table
from fxtio.timeline.schema import FLOW_TYPES

_BEGIN = FLOW_TYPES.index("begin")


def arrows(points: Table) -> Table:
    """Return an arrow from each point of a flow to the next one with its id.

    A flow begins with a point of the type `begin`, or where its first point stands if that is missing.

    Args:
        points: the table `flow_points`.

    Returns:
        A table with the columns `start` and `end` (int64 ns), `from_slice` and `to_slice` (ids, -1 for none),
        `from_point` and `to_point` (rows in `points`), `id`, `category` and `name`; in the order of `start`.
    """
    ids, time = points["id"], points["time"]
    order = np.lexsort((time, ids))
    begins = points["type"].codes[order] == _BEGIN
    follows = (ids[order][1:] == ids[order][:-1]) & ~begins[1:]
    first, second = order[:-1][follows], order[1:][follows]
    in_time = np.argsort(time[first], kind="stable")
    first, second = first[in_time], second[in_time]
    return Table(
        {
            "start": time[first],
            "end": time[second],
            "from_slice": points["slice"][first],
            "to_slice": points["slice"][second],
            "from_point": first,
            "to_point": second,
            "id": ids[first],
            "category": points["category"].take(first),
            "name": points["name"].take(first),
        }
    )
