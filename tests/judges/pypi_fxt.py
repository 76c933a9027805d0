"""The `fxt` package from PyPI (0.3.0) as a judge: pure Python, read-only, and strict.

Useful because it resolves references the way a simple reader does, provider by provider and in file order, and keeps
what Perfetto drops: full koids, counter categories, log records, blobs. Its defects, and what is done about them:

Undone:

- It takes the end of a duration-complete event for its duration. The value is returned as `end_ns`.

Repaired, by rewriting the framing before the package sees the trace (`repair`); a record that the package can read is
never touched, and `read(..., repaired=False)` and `timed_read` give it the file as it is:

- It refuses records before the first provider info. A nameless provider 0 is put before them.
- It refuses timestamps without an initialization record. One with 1 tick = 1 ns is put after each provider info,
  where a real one overrides it.
- It refuses record types 10 to 14, unknown subtypes, legacy context switches, provider events other than 0, and
  kernel objects that are neither process nor thread. Such records are left out and counted in `left_out`.

Staying:

- It raises an error (`PypiFxtError`) on blob arguments, unknown argument types, text that is not UTF-8, a provider
  info that repeats an id, and unbound references.
- Of several arguments with the same name it keeps the last.
- It takes bits 47 to 60 of a string record, which are zero or reserved, for a part of the length.
- It never reads the wall-clock words of a 4-word initialization record.
- It does not hand out its string and thread tables; `texts` and `threads` collect what the records used.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import io
import os
import struct
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, BinaryIO

VERSION = "0.3.0"
_METADATA, _EVENT, _KERNEL_OBJECT, _SCHEDULING, _LARGE = 0, 4, 7, 8, 15
_UNKNOWN_TYPES = range(10, 15)
_PROVIDER_0 = struct.pack("<Q", 0x10010)  # provider info without a name
_ONE_TICK_IS_ONE_NS = struct.pack("<QQ", 0x21, 1_000_000_000)

KINDS = {
    "InstantEventRecord": "instant",
    "CounterEventRecord": "counter",
    "DurationBeginEventRecord": "duration_begin",
    "DurationEndEventRecord": "duration_end",
    "DurationCompleteEventRecord": "duration_complete",
    "AsyncBeginEventRecord": "async_begin",
    "AsyncInstantEventRecord": "async_instant",
    "AsyncEndEventRecord": "async_end",
    "FlowBeginEventRecord": "flow_begin",
    "FlowStepEventRecord": "flow_step",
    "FlowEndEventRecord": "flow_end",
    "BlobRecord": "blob",
    "UserspaceObjectRecord": "userspace_object",
    "KernelObjectRecord": "kernel_object",
    "ContextSwitchRecord": "context_switch",
    "ThreadWakeupRecord": "thread_wakeup",
    "LogRecord": "log",
    "LargeBlobWithMetadataRecord": "large_blob",
    "LargeBlobNoMetadataRecord": "large_blob_no_metadata",
}


class PypiFxtError(Exception):
    """An error: the package refused the trace. The message is that of the package."""


@dataclass
class Provider:
    """The records of a provider, in file order.

    Each record is a dict: `kind`, named as in the corpus's expectations, and the package's own fields, which are
    `timestamp_ns`, `category`, `name`, `args` (a dict), `counter_id`, `correlation_id`, `payload` and so on. A thread
    is a pair `(process, thread)`. Enumerations are plain ints. A complete event has `end_ns`.
    """

    name: str
    records: list[dict[str, Any]] = field(default_factory=list)
    buffer_filled_up: int = 0


@dataclass
class PypiTrace:
    """A trace as the package read it.

    Attributes:
        providers: By provider id.
        truncated: The file ended inside a record; everything before it is here.
        left_out: Records that the package cannot read and that were kept from it, counted by what they are.
    """

    providers: dict[int, Provider]
    truncated: bool
    left_out: Counter[str]

    @property
    def records(self) -> list[dict[str, Any]]:
        """The records of all providers, one provider after another."""
        return [record for provider in self.providers.values() for record in provider.records]

    @property
    def texts(self) -> set[str]:
        """All categories, names, argument names and text values, log messages excepted."""
        texts: set[str] = set()
        for record in self.records:
            texts.update(record[key] for key in ("category", "name") if key in record)
            for name, value in record.get("args", {}).items():
                texts.add(name)
                if isinstance(value, str):
                    texts.add(value)
        return texts

    @property
    def threads(self) -> set[tuple[int, int]]:
        """All (process, thread) pairs that records name."""
        return {record["thread"] for record in self.records if "thread" in record}


def available() -> str | None:
    """Return None if the package can be used here, otherwise the reason why not, in one sentence."""
    try:
        version = importlib.metadata.version("fxt")
    except importlib.metadata.PackageNotFoundError:
        return f"the fxt reader cannot run: `pip install fxt=={VERSION}`"
    if version != VERSION:
        return f"the fxt reader cannot run: its quirks are known for version {VERSION}, this is {version}"
    return None


def read(trace: str | os.PathLike[str] | bytes, *, repaired: bool = True) -> PypiTrace:
    """Read a trace, given as a path or as the bytes themselves.

    Args:
        trace: The trace, uncompressed.
        repaired: Work around what the package refuses for no fault of the trace; see the module's text.

    Raises:
        PypiFxtError: The package refused the trace.
    """
    data = trace if isinstance(trace, bytes) else Path(trace).read_bytes()
    left_out: Counter[str] = Counter()
    if repaired:
        data = repair(data, left_out)
    result = _parse(io.BytesIO(data))
    providers = {
        number: Provider(state.name, [_plain(record) for record in state.records], len(state.events))
        for number, state in result.records_by_provider.items()
    }
    return PypiTrace(providers, result.had_unexpected_eof, left_out)


def timed_read(path: str | os.PathLike[str]) -> float:
    """Return the seconds that the package takes to read the file as it is.

    Raises:
        PypiFxtError: The package refused the trace.
    """
    importlib.import_module("fxt.reader")  # before the clock starts
    with open(path, "rb") as stream:
        started = time.perf_counter()
        _parse(stream)
        return time.perf_counter() - started


def _parse(stream: BinaryIO) -> Any:
    reader = importlib.import_module("fxt.reader")
    try:
        return reader.parse_records(stream)
    except ValueError as error:  # its own FxtParseError, and UnicodeDecodeError
        raise PypiFxtError(str(error)) from error


def _plain(record: Any) -> dict[str, Any]:
    plain: dict[str, Any] = {"kind": KINDS[type(record).__name__]}
    for part in fields(record):
        value = getattr(record, part.name)
        if part.name == "thread":
            value = (value.process_id, value.thread_id)
        elif isinstance(value, int) and not isinstance(value, bool):
            value = int(value)
        plain["end_ns" if part.name == "duration_ns" else part.name] = value
    return plain


def repair(data: bytes, left_out: Counter[str]) -> bytes:
    """Return the trace changed so that the package can read it; count what is left out in `left_out`."""
    repaired = bytearray()
    provider_known = False
    for header, record in _records(data):
        reason = _unreadable(header)
        if reason is not None:
            left_out[reason] += 1
            continue
        is_metadata = header & 0xF == 0
        if not provider_known and not is_metadata:
            repaired += _PROVIDER_0 + _ONE_TICK_IS_ONE_NS
            provider_known = True
        repaired += record
        if is_metadata and header >> 16 & 0xF == 1:
            repaired += _ONE_TICK_IS_ONE_NS
            provider_known = True
    return bytes(repaired)


def _unreadable(header: int) -> str | None:
    """Return the kind of a record that the package cannot read, or None."""
    record_type = header & 0xF
    subtype = header >> 16 & 0xF
    if record_type in _UNKNOWN_TYPES:
        return f"record type {record_type}"
    if record_type == _METADATA and subtype not in (1, 2, 3, 4):
        return f"metadata type {subtype}"
    if record_type == _METADATA and subtype == 3 and header >> 52 & 0xF != 0:
        return f"provider event {header >> 52 & 0xF}"
    if record_type == _METADATA and subtype == 4 and header >> 20 & 0xF != 0:
        return f"trace info type {header >> 20 & 0xF}"
    if record_type == _EVENT and subtype > 10:
        return f"event type {subtype}"
    if record_type == _KERNEL_OBJECT and header >> 16 & 0xFF not in (1, 2):
        return f"kernel object type {header >> 16 & 0xFF}"
    if record_type == _SCHEDULING and header >> 60 not in (1, 2):
        return f"scheduling type {header >> 60}"
    if record_type == _LARGE and (header >> 36 & 0xF != 0 or header >> 40 & 0xF > 1):
        return f"large record type {header >> 36 & 0xF}, format {header >> 40 & 0xF}"
    return None


def _records(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield (header, record). Yield what cannot be framed unchanged, so that the package reports it."""
    at = 0
    while at + 8 <= len(data):
        (header,) = struct.unpack_from("<Q", data, at)
        words = header >> 4 & (0xFFFF_FFFF if header & 0xF == _LARGE else 0xFFF)
        end = at + 8 * words
        if words == 0 or end > len(data):
            break
        yield header, data[at:end]
        at = end
    if at < len(data):
        rest = data[at:].ljust(8, b"\0")
        yield struct.unpack_from("<Q", rest)[0], data[at:]
