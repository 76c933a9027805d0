"""What the readers of formats that are one file have in common: opening it once or again, findings, progress."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from fxtio.errors import FormatError
from fxtio.finding import Findings
from fxtio.io.source import Source, open_source

Progress = Callable[[int, int | None], None]
"""Called with the bytes read so far and the bytes in all (None where unknown)."""


class TraceFile:
    """A trace in one file, read from its beginning as often as the target allows.

    Args:
        target: what to read, see `fxtio.open`.
        strict: raise `DecodeError` at the first fault, instead of collecting findings.
        max_bytes: read no more than so many (decompressed) bytes.
        progress: called now and then while reading.
        source: the already opened `target`.

    Attributes:
        name: where it is read from.
        compression: `gzip`, `zstd`, `xz` or None.
        position: how many bytes (decompressed) the last reading has read so far.
    """

    def __init__(
        self,
        target: Any,
        *,
        strict: bool = False,
        max_bytes: int | None = None,
        progress: Progress | None = None,
        source: Source | None = None,
    ) -> None:
        self._target = target
        self._strict = strict
        self._max_bytes = max_bytes
        self._progress = progress
        first = source or open_source(target, limit=max_bytes)
        self._source: Source | None = first
        self._again = can_reopen(target)
        if self._again:  # a file is open only while it is read
            first.close()
            self._source = None
        self._findings: Findings | None = None
        self.name = first.name
        self.compression = first.compression
        self.position = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close what was opened here and is still open."""
        if self._source is not None:
            self._source.close()

    @property
    def findings(self) -> Findings:
        """What was wrong, as far as the last reading came; reads the trace if nothing was read yet.

        Raises:
            DecodeError: in strict mode, at the first fault.
        """
        if self._findings is None:
            _ = self.info
        assert self._findings is not None
        return self._findings

    @property
    def info(self) -> Any:
        """A summary, for which the trace is read once; the formats' own."""
        raise NotImplementedError

    def _open(self) -> Source:
        """The source from its beginning.

        Raises:
            FormatError: it can be read only once.
        """
        if self._again:
            return open_source(self._target, limit=self._max_bytes)
        if self._source is None:
            raise FormatError(f"{self.name} can be read only once; open a path to read it again")
        source, self._source = self._source, None
        return source

    @contextmanager
    def _reading(self) -> Iterator[tuple[Source, Findings]]:
        """Read from the beginning, in a `with` block: the source, and what takes the findings.

        Raises:
            FormatError: it can be read only once.
            DecodeError: in strict mode, where there is not a byte.
        """
        source = self._open()
        findings = self._findings = Findings(strict=self._strict)
        try:
            if source.head == b"":
                findings.add("empty", 0, "the trace is empty")
            yield source, findings
            if source.fault is not None:
                findings.add("source", source.position, source.fault)
        finally:
            self.position = source.position
            source.close()

    def _tell(self, source: Source) -> None:
        """Say how far the reading is."""
        self.position = source.position
        if self._progress is not None:
            self._progress(source.consumed or source.position, source.total)


def can_reopen(target: Any) -> bool:
    """Whether the same bytes come when it is opened again: not from standard input or a named pipe."""
    if isinstance(target, bytes | bytearray | memoryview):
        return True
    return isinstance(target, str | os.PathLike) and ("://" in str(target) or Path(target).is_file())
