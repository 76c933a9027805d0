"""Join recordings: a file may have several, one after the other, and readers take each with its own header."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike

from fxtio.io.sink import whole_file
from fxtio.mono.reader import MonoTrace
from fxtio.report import counted, human_size


def merge(traces: Sequence[MonoTrace], target: str | PathLike[str]) -> str:
    """Write the recordings of several files to one, see `fxtio.formats.MergeRoom`."""
    recordings = 0
    with whole_file(target) as sink:
        for trace in traces:
            for block in trace.raw_blocks():
                sink.write(block)
            recordings += 1
    return f"the recordings of {counted(recordings, 'file')} ({human_size(sink.position)})"
