"""Checks of the header of a recording."""

from __future__ import annotations

from collections.abc import Iterator

from fxtio.codec.stream.declare import SizedText, parts_of
from fxtio.finding import Findings
from fxtio.mono.frames import Recording
from fxtio.mono.headers import StreamHeader, profiler_of


def check_header(recording: Recording, findings: Findings) -> None:
    """Add findings for the faults in the header of a recording."""
    header, offset = recording.header, recording.offset
    if header.major != profiler_of(header.data_version)[0]:
        message = (
            f"version {header.major}.{header.minor} of the profiler does not write data version {header.data_version}"
        )
        findings.add("header.version-pair", offset, message)
    for name, text in _texts(header):
        raw = text.encode("utf-8", "surrogateescape")
        if any("\udc80" <= character <= "\udcff" for character in text):
            findings.add("text.not-utf8", offset, f"the text {name} of the header is not UTF-8: {raw[:60]!r}")


def _texts(header: StreamHeader) -> Iterator[tuple[str, str]]:
    for name, parts in parts_of(StreamHeader).items():
        if any(isinstance(part, SizedText) for part in parts) and (text := getattr(header, name)) is not None:
            yield name, text
