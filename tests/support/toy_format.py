"""Two small formats of text lines, as unlike FXT as possible, for testing that the commands know no format.

A `toy` trace is a file that begins with `toy 1`; a `toys` trace is a directory with such a file named `lines`.  Every
line after the first is a record, and an empty line is a fault.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from fxtio.codec.annotation import AnnotatedRecord, ByteRange
from fxtio.errors import FormatError, FxtioError
from fxtio.finding import Findings
from fxtio.formats import Format
from fxtio.io.source import Source, open_source
from fxtio.report import Report, ReportTable

HEADER = b"toy 1\n"


class Line(NamedTuple):
    offset: int
    text: str


class ToyTrace:
    compression = None

    def __init__(self, target: Any, format: str, source: Source) -> None:
        data = bytearray(source.remaining or 0)
        source.readinto(memoryview(data))
        source.close()
        self.name, self.format, self.findings = str(target), format, Findings(format)
        self.lines = list[Line]()
        offset = 0
        for raw in bytes(data).splitlines(keepends=True):
            if offset:
                self.lines.append(Line(offset, raw.decode("utf-8", "surrogateescape").rstrip("\n")))
            if raw == b"\n":
                self.findings.add("line.empty", offset, "the line has no text")
            offset += len(raw)

    def __enter__(self) -> ToyTrace:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def entries(self, *, resolve: bool = True) -> Iterator[Line]:
        return iter(self.lines)

    def timeline(self) -> NoReturn:
        raise FormatError(f"the format {self.format} has no timeline")


class Toy(Format):
    """A format whose rooms are all in this module."""

    def room(self, name: str) -> Any:
        return sys.modules[__name__]

    @property
    def cut(self) -> None:
        """None, as of a format without the room."""

    @property
    def exporter(self) -> None:
        return None

    def open(self, target: Any, *, source: Source | None = None, **options: Any) -> Any:
        return ToyTrace(target, self.name, source or open_source(Path(target) / "lines"))

    def create(self, target: Any, **options: Any) -> Any:
        raise FxtioError("this format has no writer")


def info(trace: ToyTrace) -> Report:
    facts = [("format", trace.format), ("number of lines", f"{len(trace.lines):,}")]
    return Report(trace.name, facts, json={"lines": len(trace.lines)})


def stats(trace: ToyTrace, top: int) -> Report:
    rows = sorted(((len(line.text), line.text) for line in trace.lines), reverse=True)
    table = ReportTable([">characters", "text"], rows[:top], len(rows) - len(rows[:top]))
    return Report(trace.name, tables=[table], notes=["every record is text"], json={"longest": rows[0][1]})


def text_lines(entries: Iterable[Line]) -> Iterator[str]:
    return (f"{line.offset} {line.text}" for line in entries)


def json_objects(entries: Iterable[Line]) -> list[dict[str, Any]]:
    return [{"offset": line.offset, "texts": [line.text]} for line in entries]


def kinds_of(name: str) -> str:
    if name != "shouted":
        raise FxtioError(f"no record type {name!r}; there is shouted")
    return name


def explain(trace: ToyTrace, *, record: int | None, offset: int, kinds: str | None) -> Iterator[AnnotatedRecord]:
    for number, line in enumerate(trace.lines):
        raw = line.text.encode("utf-8", "surrogateescape")
        if line.offset + len(raw) < offset or number < (record or 0) or (kinds and not line.text.isupper()):
            continue
        findings = [finding for finding in trace.findings if finding.offset == line.offset]
        yield AnnotatedRecord(
            number, line.offset, len(raw), "Line", "", [ByteRange(0, raw, "text", line.text)], findings
        )


BROKEN = HEADER + b"hello\n\n"
"""A trace that breaks the rule `toy.line.empty`."""


def _toy(name: str, **sniff: Any) -> Toy:
    return Toy(name, "a toy", __name__, (), "ToyTrace", "", **sniff)


FILES = _toy("toy", sniff=lambda head: head.startswith(HEADER))
DIRECTORIES = _toy("toys", sniff_directory=lambda path: (path / "lines").is_file())
