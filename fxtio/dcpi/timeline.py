"""The room `timeline`: a profile as samples without times, see `fxtio.timeline.parts`.

Each address of an image is a stack of one frame.  Its samples weigh as many events as are between two of them, if the
profile says how many; otherwise the unit is `samples`.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import TYPE_CHECKING

import numpy as np

from fxtio.codec.integers import MAX_INT64
from fxtio.io.reading import since_epoch
from fxtio.timeline.parts import Registry, TimelinePart
from fxtio.timeline.stacks import Stacks

if TYPE_CHECKING:
    from fxtio.dcpi.reader import DcpiTrace

NOT_CARRIED = (
    "the lines of the header except the image or its path, the event, its period, and the address of the text",
    "the division into chunks, and addresses without samples",
    "bodies whose version was never published",
)
"""The content of a profile that its timeline does not have."""


def parts(trace: DcpiTrace, registry: Registry, tables: Set[str]) -> Iterator[TimelinePart]:
    """Read a profile, and yield what each batch adds to its timeline.

    Args:
        trace: the profile.
        registry: numbers names.
        tables: the tables of the timeline that are needed.
    """
    header, stacks = trace.header, Stacks(registry)
    if header.epoch is not None:
        registry.note_wall_clock(since_epoch(header.epoch))
    module, event, period = header.get("path") or header.get("image"), header.get("event"), header.period
    is_weighted = bool(event and period)
    unit = registry.names.code(event if is_weighted else "samples")
    weight = (period or 1) if is_weighted else 1
    for batch in trace.batches("samples"):
        samples = batch["samples"]
        if not tables & {"samples", "stacks", "frames"}:
            continue
        places = samples["address"]
        addresses = places.values if places.present.all() else samples["text_offset"]
        numbers = [stacks.on(-1, stacks.frame(None, module, address=address)) for address in addresses.tolist()]
        count = samples["count"].astype(np.int64)
        values = {"time": 0, "thread": -1, "cpu": -1, "stack": np.array(numbers, np.int32), "unit": unit}
        values["count"] = np.minimum(count, MAX_INT64 // weight) * weight
        yield TimelinePart(tables={"samples": registry.columns("samples", values), **stacks.new_tables()})
