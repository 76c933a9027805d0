"""Combine profiles of one image into one: the samples at each address are added.

The result has the header of the first profile, with the earliest epoch of all.  Memory is needed for the addresses that
have samples.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from os import PathLike

import numpy as np
from msgspec.structs import replace

from fxtio.arrays import Array
from fxtio.dcpi.layout import MAX_COUNT
from fxtio.dcpi.reader import DcpiTrace
from fxtio.dcpi.records import Line
from fxtio.dcpi.state import Header
from fxtio.dcpi.writer import DcpiWriter
from fxtio.formats import MergeError
from fxtio.io.sink import whole_file
from fxtio.report import counted, human_size

_SAME = ("version", "image", "event", "period", "tstart", "tsize")
"""The words of the header that must have the same value in all profiles."""

_MOST_PENDING = 1 << 22  # samples that are added together


def merge(traces: Sequence[DcpiTrace], target: str | PathLike[str]) -> str:
    """Write several profiles as one, see `fxtio.formats.MergeRoom`."""
    sums = _Sums()
    headers = []
    for trace in traces:
        trace.reads_again = True
        headers.append(trace.header)
        _check(trace, traces[0], headers)
        for batch in trace.batches("samples"):
            table = batch["samples"]
            sums.add(np.asarray(table["text_offset"], np.int64), np.asarray(table["count"], np.uint64))
    offsets, counts = sums.total()
    if int(counts.max(initial=0)) > MAX_COUNT:
        raise MergeError(f"an address has more than {MAX_COUNT:,} samples in all, which a profile cannot express")
    data = io.BytesIO()
    with DcpiWriter(data, header=_header(headers)) as writer:
        writer.write_table("samples", {"text_offset": offsets, "count": counts})
    with whole_file(target) as sink:
        sink.write(data.getbuffer())
    samples = counted(int(counts.sum()), "sample")
    return f"{counted(len(offsets), 'address')} with {samples} ({human_size(sink.position)})"


def _check(trace: DcpiTrace, first: DcpiTrace, headers: Sequence[Header]) -> None:
    """Check that a profile can be added to the first one."""
    for word in _SAME:
        mine, other = headers[-1].get(word), headers[0].get(word)
        if mine != other:
            raise MergeError(f"{trace.name} and {first.name} differ in the header line {word}: {mine} and {other}")


def _header(headers: Sequence[Header]) -> list[Line]:
    """Return the header of the first profile with the earliest epoch."""
    epochs = [(header.epoch, header.get("epoch")) for header in headers if header.epoch is not None]
    if not epochs:
        return headers[0].lines
    _, earliest = min(epochs, key=lambda epoch: epoch[0])
    return [replace(line, value=earliest) if line.word == "epoch" else line for line in headers[0].lines]


class _Sums:
    """The sums of samples by address."""

    def __init__(self) -> None:
        self._offsets: list[Array] = []
        self._counts: list[Array] = []
        self._pending = 0

    def add(self, offsets: Array, counts: Array) -> None:
        """Add samples."""
        self._offsets.append(offsets)
        self._counts.append(counts)
        self._pending += len(offsets)
        if self._pending > _MOST_PENDING:
            offsets, counts = self.total()
            self._offsets, self._counts, self._pending = [offsets], [counts], 0

    def total(self) -> tuple[Array, Array]:
        """Return the addresses as offsets in the text (int64, ascending), and their samples (uint64)."""
        if not self._offsets:
            return np.empty(0, np.int64), np.empty(0, np.uint64)
        offsets, counts = np.concatenate(self._offsets), np.concatenate(self._counts)
        order = np.argsort(offsets, kind="stable")
        offsets, counts = offsets[order], counts[order]
        starts = np.flatnonzero(np.diff(offsets, prepend=-1))
        return offsets[starts], np.add.reduceat(counts, starts) if len(starts) else counts
