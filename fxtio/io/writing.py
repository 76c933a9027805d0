"""What the writers of formats that are one file have in common: bytes are gathered, then go to the file."""

from __future__ import annotations

from typing import Any, Self

from fxtio.io.sink import Sink, open_sink


class TraceWriter:
    """A trace in one file, written from its beginning.

    Args:
        target: where to, see `fxtio.create`.
        out: gathers the bytes; what it holds comes first in the file.

    Raises:
        OSError: the target cannot be created.
    """

    def __init__(self, target: Any, out: bytearray) -> None:
        self._out = out
        self._closed = False
        self._sink: Sink = open_sink(target)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def position(self) -> int:
        """How many bytes were written, before compression."""
        return self._sink.position + len(self._out)

    def flush(self) -> None:
        """Hand what was written to the file."""
        self._sink.write(self._out)
        self._out.clear()

    def close(self) -> None:
        """Write what is left and close the file."""
        if self._closed:
            return
        try:
            self._finish()
            self.flush()
        finally:
            self._closed = True
            self._sink.close()

    def _finish(self) -> None:
        """Append what stands at the end; the formats' own."""
