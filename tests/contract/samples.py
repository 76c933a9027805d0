"""Traces of every format for the contract tests: one of each synthetic shape, and the files of the corpus."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fxtio
from fxtio import synth
from fxtio.formats import Format, formats
from support.checkout import CHECKOUT

CORPUS = CHECKOUT / "tests" / "corpus"

EVENTS = 300

_NO_TRACES = {".md", ".json", ".tsv", ".py"}


@dataclass(frozen=True)
class Sample:
    """A trace to read.

    Attributes:
        format: its format.
        shape: the synthetic shape, or empty.
        path: the file or directory of the corpus, or None.
        write: writes a synthetic trace that no shape has by itself.
        events: the number of events of a synthetic trace, about.
    """

    format: Format
    shape: str = ""
    path: Path | None = None
    write: Callable[[Path], object] | None = None
    events: int = EVENTS

    def __str__(self) -> str:
        return f"{self.format.name}-{self.shape or (self.path and self.path.name)}"

    def make(self, folder: Path) -> Path:
        """Return the path of the trace, which is written below `folder` if it is synthetic."""
        if self.path is not None:
            return self.path
        path = folder / f"sample{self.format.suffixes[0]}"
        if not path.exists() and self.write is not None:
            self.write(path)
        elif not path.exists():
            synth.write(str(path), self.shape, format=self.format.name, events=self.events, seed=1)
        return path


def _big_endian(path: Path) -> None:
    """Write the shape `everything` of FXT as a machine with the other byte order does."""
    synth.write(path, "everything", events=EVENTS, seed=1, order="big")


def _base_ticks_only(path: Path) -> None:
    """Write that shape with clocks whose base tick is known, but not the time on the wall."""
    whole = io.BytesIO()
    synth.write(whole, "everything", events=EVENTS, seed=1)
    with fxtio.create(path) as writer, fxtio.open(whole.getvalue()) as trace:
        for record in trace.records(resolve=False):
            is_clock = type(record).__name__ == "Initialization"
            writer.put(record.replace(base_ticks=5, wall_clock=None) if is_clock else record)


SYNTHETIC = [Sample(item, shape) for item in formats().values() for shape in synth.shapes_of(item)]
SYNTHETIC += [
    Sample(formats()["fxt"], "everything big-endian", write=_big_endian),
    Sample(formats()["fxt"], "everything with base ticks only", write=_base_ticks_only),
]

RECORDED = [
    Sample(item, path=path)
    for item in formats().values()
    for path in sorted((CORPUS / item.name).glob("*"))
    if (path.is_dir() if item.directory else path.is_file() and path.suffix not in _NO_TRACES)
    and path.name not in {"expected", "SHA256SUMS"}
]

SAMPLES = [*SYNTHETIC, *RECORDED]


def files_of(path: Path) -> dict[str, bytes]:
    """Return what a trace is made of: the bytes of its file, or of all files of its directory."""
    if path.is_file():
        return {"": path.read_bytes()}
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def open_sample(sample: Sample, folder: Path, **options: Any) -> Any:
    """Open a sample; synthetic ones are written below `folder` first."""
    return fxtio.open(sample.make(folder), format=sample.format.name, **options)


def same_style(trace: Any, *, resolve: bool = False) -> dict[str, Any]:
    """Return the options of a writer that writes the (resolved) records of a trace to the same bytes."""
    if trace.format == "coreprofiler":
        return {"style": trace.style}
    if trace.format == "fxt":
        return {"order": trace.info.byte_order}
    if trace.format == "uftrace":
        return {"order": trace.info.byte_order, "word_class": 8 * trace.info_file.pointer_size}
    if trace.format == "mono" and resolve:  # headers are raw records only
        return {"header": trace.recording.header}
    return {}


def recordings(sample: Sample, folder: Path) -> list[Path]:
    """Return the path of a sample, or of each of its recordings if it is a file of several ones in different styles."""
    path = sample.make(folder)
    if sample.format.name != "mono":
        return [path]
    from fxtio.mono.headers import OpaqueHeader, StreamHeader

    paths: list[Path] = []
    with fxtio.open(path, format="mono") as trace:
        if trace.info.recordings == 1:
            return [path]
        parts: list[list[Any]] = []
        for record in trace.records(resolve=False):
            if isinstance(record, StreamHeader | OpaqueHeader):
                parts.append([])
            parts[-1].append(record)
    for number, records in enumerate(parts):
        paths.append(folder / f"recording-{number}.mlpd")
        with fxtio.create(paths[-1]) as writer:
            for record in records:
                writer.put(record)
    return paths
