"""The base of the readers: progress, the summary of a trace, files that can be opened again."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from fxtio.display import as_html, as_text
from fxtio.report import Report, ReportTable, human_duration, human_size, seconds

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Progress = Callable[[int, int | None], None]
"""Called with the bytes read so far and the bytes in all (None where unknown)."""


@dataclass(slots=True)
class TraceInfo:
    """A summary of a trace: what all formats know.

    Attributes:
        name: where it was read from.
        format: the name of the format.
        compression: `gzip`, `zstd`, `xz` or None.
        size: bytes, decompressed.
        records: the number of records of each class; `Opaque` are those that could not be decoded.
        start: the earliest time in nanoseconds, or None without timed records.
        end: the latest time in nanoseconds, or None.
        started_at: the wall-clock time of the start, where the trace has it.
    """

    name: str
    format: str
    compression: str | None = None
    size: int = 0
    records: Counter[str] = field(default_factory=Counter)
    start: int | None = None
    end: int | None = None
    started_at: datetime | None = None

    def __str__(self) -> str:
        """Return the summary as text, as `fxtio info` begins, see `fxtio.display`; the longest tables are cut."""
        return as_text(self.report())

    def _repr_html_(self) -> str:
        """Return the summary as HTML for notebooks."""
        return as_html(self.report())

    def report(self) -> Report:
        """Describe this summary for people."""
        return Report(self.name, [*self._facts()], [*self._report_tables()], [*self._notes()], self.as_json())

    def _facts(self) -> Iterator[tuple[str, str]]:
        yield "format", self._form()
        yield "size", self._size_text()
        yield "records", f"{self.records.total():,}"
        yield from self._duration()
        if self.started_at is not None:
            yield "started", self._started_text(self.started_at)

    def _duration(self) -> Iterator[tuple[str, str]]:
        if self.start is not None and self.end is not None:
            times = f"from {seconds(self.start)} s to {seconds(self.end)} s"
            yield "duration", f"{human_duration(self.end - self.start)}, {times}"

    def _report_tables(self) -> Iterator[ReportTable]:
        yield ReportTable([">records", "class"], [(number, name) for name, number in self.records.most_common()])

    def _notes(self) -> Iterator[str]:
        return iter(())

    def _form(self) -> str:
        return f"{self.format}, {self.compression}" if self.compression else self.format

    def _size_text(self) -> str:
        return f"{human_size(self.size)}{' decompressed' if self.compression else ''}"

    def _started_text(self, moment: datetime) -> str:
        return f"{moment:%Y-%m-%d %H:%M:%S.%f} UTC"

    @property
    def started_at_time(self) -> int | None:
        """The time in nanoseconds whose wall-clock time is `started_at`; None if it is not known."""
        return self.start

    def set_started_at(self, wall_clock: int | None) -> None:
        """Set the wall-clock time of the start, if there is one within the range of dates.

        Args:
            wall_clock: nanoseconds since the Unix epoch at the time 0 of the trace, None if they are not known.
        """
        if wall_clock is not None and self.start is not None:
            with suppress(OverflowError):
                self.started_at = _EPOCH + timedelta(microseconds=(wall_clock + self.start) // 1000)

    def as_json(self) -> dict[str, Any]:
        """Return the attributes for `fxtio.report.json_document`, see `pairs_of` and `NOT_SHOWN`.

        A format replaces those whose values JSON does not have.
        """
        forms = {each.name: each.metadata.get("form", _json_of) for each in fields(self)}
        return {name: form(getattr(self, name)) for name, form in forms.items() if form is not None}


NOT_SHOWN: dict[str, Any] = {"form": None}
"""The metadata of a field of a summary that JSON does not have."""


def pairs_of(key: str, value: str) -> dict[str, Any]:
    """Return the metadata of a dict that JSON has as a list of objects: its keys and values by these names."""
    return {"form": lambda items: [{key: each, value: text} for each, text in items.items()]}


def _json_of(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else dict(value) if isinstance(value, dict) else value


def since_epoch(moment: datetime) -> int | None:
    """Return a wall-clock time in nanoseconds since the Unix epoch; None for local time without a time zone."""
    return None if moment.tzinfo is None else (moment - _EPOCH) // timedelta(microseconds=1) * 1000


def can_reopen(target: Any) -> bool:
    """Return whether opening it again gives the same bytes; standard input and named pipes do not."""
    if isinstance(target, bytes | bytearray | memoryview):
        return True
    return isinstance(target, str | os.PathLike) and ("://" in str(target) or Path(target).is_file())
