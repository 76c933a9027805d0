"""Shapes as FXT traces: their columns are those of the writer, which takes gigabytes in no time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fxtio.fxt.writer import FxtWriter, Track
from fxtio.synth.columns import Amount, Events, Group, Part, Rows, Shape
from fxtio.synth.export import Names, thread_names


def write(
    target: Any, shapes: Sequence[Shape], names: Names, amount: Amount, options: dict[str, Any]
) -> tuple[int, int]:
    """Write shapes as an FXT trace.

    Args:
        target: see `fxtio.create`.
        shapes: the shapes, which are written in turn.
        names: returns the names of threads.
        amount: the amount.
        options: those of `FxtWriter`.

    Returns:
        The number of events and of bytes.

    Raises:
        OSError: the target cannot be written.
    """
    written, tracks, groups = 0, [], amount.groups()
    with FxtWriter(target, **options) as writer:
        processes: set[int] = set()
        for pid, tid, process_name, name in thread_names(amount.threads, names):
            tracks.append(writer.thread(pid, tid, name, None if pid in processes else process_name))
            processes.add(pid)
        for number, parts in amount.chunks(shapes, groups, lambda: writer.position):
            group = groups[number]
            _write(writer, group, tracks[group.first : group.first + group.width], parts)
            written += sum(map(len, parts))
    return written, writer.position


def _write(writer: FxtWriter, group: Group, tracks: list[Track], parts: Sequence[Part]) -> None:
    """Write events in the order of their times, then rows of tables."""
    events = [
        {"kind": part.kind, "timestamp": part.timestamp, "thread": (tracks, part.thread), "name": part.name}
        | part.columns
        for part in parts
        if isinstance(part, Events)
    ]
    if events:
        writer.main.write_mixed(*events)
    for part in parts:
        if isinstance(part, Rows):
            columns = part.columns
            if "thread" in columns:
                thread = columns["thread"]
                columns = {**columns, "process": group.process_ids(thread), "thread": group.thread_ids(thread)}
            writer.write_table(part.table, columns)
