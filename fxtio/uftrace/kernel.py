"""Events of the Linux kernel: their descriptions in `kernel_header`, and ring buffer pages in `kernel-cpu<N>.dat`.

Both are copies of files in tracefs.  The data of any event is decoded by the kernel's own description of it, so nothing
depends on the version of the kernel.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from fxtio.codec.generate import Order
from fxtio.codec.integers import checked_integer, limits_of
from fxtio.errors import EncodeError
from fxtio.finding import Findings
from fxtio.table import MAX_TIME
from fxtio.uftrace.directory import text_bytes
from fxtio.uftrace.enums import RingType
from fxtio.uftrace.layout import CommitWord, DataLocWord, ExtendWord, RingWord

HEADER_FILE, SYMBOLS_FILE = "kernel_header", "kallsyms"
FUNCTION_ENTRY, FUNCTION_EXIT = "funcgraph_entry", "funcgraph_exit"
FUNCTION = "func"
"""The field with the address of the function of a call."""


_FIELD = re.compile(r"\s*field:(.*?);\s*offset:(\d{1,6});\s*size:(\d{1,6});(?:\s*signed:(\d+);)?")
_BLOCK = re.compile(rb"TRACEFS: ([^\n]{1,200}): (\d{1,8})\n")
_SYSTEM = re.compile(r"([^/]+)/[^/]+/format$")
_MAX_LINE = 1000
_WORD, _TIME = 4, 8
_MAX_DELTA = RingWord.fields["delta"].mask
_MAX_PAGE = 1 << 20


@dataclass(frozen=True, slots=True)
class EventField:
    """A field in the data of an event.

    Attributes:
        name: the name.
        offset: the offset in the data in bytes.
        size: the size in bytes.
        signed: whether the value is in two's complement.
        text: whether the value is text that ends with a NUL.
        dynamic: whether the value is the place of such a text in the data (`DataLocWord`).
    """

    name: str
    offset: int
    size: int
    signed: bool
    text: bool
    dynamic: bool = False


@dataclass(frozen=True, slots=True)
class EventFormat:
    """The layout of the data of an event.

    Attributes:
        id: the value of the first field, `common_type`.
        name: the name, such as `sched_switch`.
        fields: the fields by name.
        system: the subsystem of the kernel, such as `sched`, or empty.
    """

    id: int
    name: str
    fields: dict[str, EventField]
    system: str = ""

    def values(self, data: bytes, order: Order) -> tuple[dict[str, int | str], bool]:
        """Decode the fields that are completely in the data, without the fields common to all events.

        Returns:
            The values by field, and whether all are there: as fields of a sound description do not overlap, decoding
            ends when fields and texts together have more than twice the size of the data.
        """
        values: dict[str, int | str] = {}
        left = 2 * len(data)
        for part in self.fields.values():
            raw = data[part.offset : part.offset + part.size]
            left -= max(len(raw), 1)
            if left < 0:
                return values, False
            if part.name.startswith("common_") or len(raw) < part.size:
                continue
            if part.dynamic:
                place = DataLocWord.read(int.from_bytes(raw, order))
                raw = data[place.offset : place.offset + place.size]
                left -= len(raw)
                if left < 0:
                    return values, False
            if part.text or part.dynamic:
                values[part.name] = raw.split(b"\0")[0].decode("utf-8", "surrogateescape")
            elif part.size in (1, 2, 4, 8):
                values[part.name] = int.from_bytes(raw, order, signed=part.signed)
        return values, True


def parse_format(text: str, path: str = "") -> EventFormat | None:
    """Parse a description of an event.

    Args:
        text: the content of a file `format` of tracefs.
        path: the path of the file, such as `events/sched/sched_switch/format`.

    Returns:
        The layout, or None if the text is not a description of an event.
    """
    name, number = re.search(r"^name: (\S+)", text, re.MULTILINE), re.search(r"^ID: (\d{1,6})", text, re.MULTILINE)
    if not name or not number:
        return None
    fields = {}
    matches = (_FIELD.match(line) for line in text.split("\n") if len(line) < _MAX_LINE)
    for kind, offset, size, signed in (match.groups() for match in matches if match):
        label = re.search(r"\b(\w+)(\[[^\]]*\])?$", kind)
        if label:
            is_dynamic = "__data_loc" in kind and "char" in kind and int(size) == _WORD
            is_text = bool(label[2]) and "char" in kind and "__data_loc" not in kind
            fields[label[1]] = EventField(label[1], int(offset), int(size), signed == "1", is_text, is_dynamic)
    system = _SYSTEM.search(path)
    return EventFormat(int(number[1]), name[1], fields, system[1] if system else "")


@dataclass(slots=True)
class KernelHeader:
    """The file `kernel_header`.

    Attributes:
        page_size: the size of a page of the ring buffer in bytes.
        long_size: the size of a `long` of the kernel in bytes.
        order: the byte order.
        blocks: paths and contents of files of tracefs.
        formats: the layouts of the events that they describe, by id.
        headless: whether the sizes and the byte order are missing.
    """

    page_size: int = 4096
    long_size: int = 8
    order: Order = "little"
    blocks: list[tuple[str, bytes]] = field(default_factory=list)
    formats: dict[int, EventFormat] = field(default_factory=dict)
    headless: bool = False

    @classmethod
    def parse(cls, raw: bytes, findings: Findings) -> KernelHeader:
        """Parse the file."""
        parsed, at = cls(), 0
        head = re.match(rb"PAGE_SIZE: (\d{1,8})\nLONG_SIZE: (\d)\nENDIAN: (LE|BE)\n", raw)
        if head:
            parsed.page_size, parsed.long_size = int(head[1]), int(head[2])
            parsed.order = "little" if head[3] == b"LE" else "big"
            at = head.end()
        else:
            if raw:
                findings.add(
                    "kernel.header", 0, "the file does not begin with sizes and a byte order", file=HEADER_FILE
                )
            return cls(headless=True)
        while block := _BLOCK.match(raw, at):
            content = raw[block.end() : block.end() + int(block[2])]
            if len(content) < int(block[2]):
                findings.add("kernel.header", at, "the file ends within a description", file=HEADER_FILE)
                break
            parsed._add(block[1].decode("utf-8", "surrogateescape"), content)
            at = block.end() + len(content)
        return parsed

    def _add(self, path: str, content: bytes) -> None:
        self.blocks.append((path, content))
        layout = parse_format(content.decode("utf-8", "surrogateescape"), path)
        if layout is not None:
            self.formats[layout.id] = layout

    @classmethod
    def of(cls, blocks: Iterable[tuple[str, bytes]], *, page_size: int = 4096) -> KernelHeader:
        """Return a new file of descriptions, given by their paths and contents."""
        header = cls(page_size)
        for path, content in blocks:
            header._add(path, content)
        return header

    def to_bytes(self) -> bytes:
        """Return the bytes of the file."""
        return b"".join([self._head(), *map(_block_bytes, self.blocks)])

    def _head(self) -> bytes:
        if self.headless:
            return b""
        order = "LE" if self.order == "little" else "BE"
        return f"PAGE_SIZE: {self.page_size}\nLONG_SIZE: {self.long_size}\nENDIAN: {order}\n".encode()

    def placed_blocks(self) -> Iterator[tuple[int, str, int]]:
        """Yield the byte offset of each block in the file, its path, and the size of its content in bytes."""
        offset = len(self._head())
        for path, content in self.blocks:
            yield offset, path, len(content)
            offset += len(_block_bytes((path, content)))


def _block_bytes(block: tuple[str, bytes]) -> bytes:
    path, content = block
    return f"TRACEFS: {path}: {len(content)}\n".encode("utf-8", "surrogateescape") + content


@dataclass(frozen=True, slots=True)
class KernelEvent:
    """An event of the kernel.

    Attributes:
        time: nanoseconds.
        tid: the task that was running.
        id: the id of the event.
        name: the name of the event, or empty if the header does not describe it.
        values: the values by field, without the fields common to all events.
        data: the data.
        missed: whether the kernel lost events before this one.
        system: the subsystem of the kernel, such as `sched`, or empty.
        cpu: the CPU, if the event was read.
        offset: the byte offset of the data in the file, if the event was read.
    """

    time: int
    tid: int
    id: int
    name: str
    values: dict[str, Any]
    data: bytes
    missed: bool = False
    system: str = ""
    cpu: int = 0
    offset: int = 0

    @property
    def label(self) -> str:
        """Return the name with the subsystem in front of it, such as sched:sched_switch, as uftrace shows it."""
        return f"{self.system}:{self.name}" if self.system else self.name

    @property
    def is_call(self) -> bool:
        """Return whether the event is the entry or exit of a function of the kernel."""
        return self.name in (FUNCTION_ENTRY, FUNCTION_EXIT)

    @property
    def function(self) -> int:
        """Return the address of the function of a call, or 0."""
        value = self.values.get(FUNCTION, 0)
        return value % 2**64 if isinstance(value, int) else 0

    @property
    def depth(self) -> int:
        """Return the depth of a call, or 0."""
        value = self.values.get("depth", 0)
        return value if isinstance(value, int) else 0


def is_name(name: str) -> bool:
    """Return whether a file has the name of a file of kernel events."""
    return name.startswith("kernel-cpu") and name.endswith(".dat") and name[10:-4].isdecimal()


def parse_pages(
    pages: Iterable[bytes], header: KernelHeader, name: str, findings: Findings, *, decode: bool = True
) -> Iterator[KernelEvent]:
    """Yield the events in the pages of a file, which have the size that `checked_page_size` returns.

    Args:
        pages: the pages.
        header: the descriptions of events.
        name: the name of the file.
        findings: receives faults.
        decode: decode values; else events have no names and values.
    """
    cpu = int(name[10:-4][:9]) if is_name(name) else 0
    for number, page in enumerate(pages):
        for offset, time, data, missed in _page(page, number * header.page_size, header, name, findings):
            id_, tid = int.from_bytes(data[:2], header.order), int.from_bytes(data[4:8], header.order, signed=True)
            layout = header.formats.get(id_) if decode else None
            if layout is None:
                yield KernelEvent(time, tid, id_, "", {}, data, missed, cpu=cpu, offset=offset)
                continue
            values, complete = layout.values(data, header.order)
            event = KernelEvent(time, tid, id_, layout.name, values, data, missed, layout.system, cpu, offset)
            if not complete:
                message = f"the fields of {event.label} overlap or are beyond its data; some values are not decoded"
                findings.add("kernel.fields", offset, message, file=name)
            yield event


def checked_page_size(header: KernelHeader, findings: Findings) -> int:
    """Return the size of a page in bytes; an impossible size in the header is replaced by 4,096."""
    if not _TIME + header.long_size < header.page_size <= _MAX_PAGE:
        message = f"the page size {header.page_size:,} is impossible; pages of 4,096 bytes are read"
        findings.add("kernel.header", 0, message, file=HEADER_FILE)
        header.page_size = 4096
    return header.page_size


def _page(
    page: bytes, begin: int, header: KernelHeader, name: str, findings: Findings
) -> Iterator[tuple[int, int, bytes, bool]]:
    """Yield the entries of a page that begins at a byte offset in the file: place, time, data, and `missed`."""
    order = header.order
    at = _TIME + header.long_size
    if len(page) < at:
        findings.add("kernel.page", begin, "the file ends within the head of a page", file=name)
        return
    time = int.from_bytes(page[:_TIME], order)
    commit = CommitWord.read(int.from_bytes(page[_TIME:at], order))
    end, missed = at + commit.size, bool(commit.missed)
    if end > len(page):
        findings.add("kernel.page", begin, f"the page claims {commit.size:,} bytes, more than there are", file=name)
        end = len(page)
    if missed:
        findings.add("kernel.missed", begin, file=name)
    while at + _WORD <= end:
        entry = RingWord.read(int.from_bytes(page[at : at + _WORD], order))
        first = int.from_bytes(page[at + _WORD : at + 2 * _WORD], order)
        start, size = at + _WORD, entry.kind * _WORD
        if entry.kind == RingType.PADDING and entry.delta == 0:
            return
        if entry.kind in (RingType.TIME_EXTEND, RingType.TIME_STAMP):
            extended = int(ExtendWord(low=entry.delta, high=ExtendWord.fields["high"].mask & first))
            time = time + extended if entry.kind == RingType.TIME_EXTEND else extended
            at += 2 * _WORD
            continue
        if entry.kind in (RingType.LONG, RingType.PADDING):
            start, size = at + 2 * _WORD, first - _WORD
        if size < 0 or start + size > end:
            findings.add("kernel.entry", begin + at, file=name)
            return
        time += entry.delta
        at = start + (size + _WORD - 1) // _WORD * _WORD
        if entry.kind != RingType.PADDING:
            if time > MAX_TIME:
                findings.add("time.overflow", begin + start, file=name)
            yield begin + start, time, page[start : start + size], missed
            missed = False


def build_data(layout: EventFormat, tid: int, values: dict[str, Any], order: Order = "little") -> bytes:
    """Return the data of an event.

    Raises:
        EncodeError: a value does not fit its field, or there is no such field.
    """
    data = bytearray(max((part.offset + part.size for part in layout.fields.values()), default=8))
    for name, value in {"common_type": layout.id, "common_pid": tid, **values}.items():
        part = layout.fields.get(name)
        if part is None:
            raise EncodeError("the event has no such field", f"{layout.name}.{name}")
        raw = _raw_value(part, value, len(data), order, f"{layout.name}.{name}")
        if part.dynamic:
            data += value.encode("utf-8", "surrogateescape") + b"\0"
        data[part.offset : part.offset + len(raw)] = raw
    return bytes(data)


def _raw_value(part: EventField, value: Any, end: int, order: Order, where: str) -> bytes:
    """Return the bytes of a field, given the size of the data so far."""
    if not (part.text or part.dynamic):
        number = checked_integer(value, where, *limits_of(part.size, signed=part.signed))
        return number.to_bytes(part.size, order, signed=part.signed)
    text = text_bytes(value, where)
    if b"\0" in text:
        raise EncodeError(f"{value[:60]!r} contains a NUL", where)
    longest = DataLocWord.fields["size"].mask - 1 if part.dynamic else part.size - 1
    if len(text) > longest:
        raise EncodeError(f"{len(text):,} bytes of text are over the limit of {longest:,}", where)
    if part.dynamic:
        return int(DataLocWord(offset=end, size=len(text) + 1)).to_bytes(part.size, order)
    return text


def build_pages(
    events: Iterable[tuple[int, bytes]], header: KernelHeader, missed: Container[int] = frozenset()
) -> bytes:
    """Return pages of the ring buffer that contain events.

    Args:
        events: times in nanoseconds and data, ordered by time.
        header: the header, which has the size of a page.
        missed: the numbers of the events before which others are missing; each begins a page.

    Raises:
        EncodeError: time goes back, or an event is larger than a page.
    """
    order, pages = header.order, bytearray()
    first = last = 0
    is_missed = False
    entries = bytearray()

    def flush() -> None:
        if entries:
            commit = int(CommitWord(size=len(entries), stored=0, missed=int(is_missed)))
            page = first.to_bytes(_TIME, order) + commit.to_bytes(header.long_size, order) + entries
            pages.extend(page + bytes(header.page_size - len(page)))
            entries.clear()

    capacity = header.page_size - _TIME - header.long_size
    for number, (time, data) in enumerate(events):
        if entries and time < last:
            raise EncodeError(f"time goes back, from {last} to {time}", "kernel event")
        entry = _entry(time - last if entries else 0, data, order)
        if len(entries) + len(entry) > capacity or number in missed:
            flush()
        if not entries:
            is_missed = number in missed
            first, entry = time, _entry(0, data, order)
        if len(entry) > capacity:
            raise EncodeError(f"{len(data):,} bytes do not fit in a page", "kernel event")
        entries += entry
        last = time
    flush()
    return bytes(pages)


def _entry(delta: int, data: bytes, order: Order) -> bytes:
    extend = b""
    if delta > _MAX_DELTA:
        extended = ExtendWord.read(delta)
        extend = int(RingWord(kind=RingType.TIME_EXTEND, delta=extended.low)).to_bytes(_WORD, order)
        extend += extended.high.to_bytes(_WORD, order)
        delta = 0
    data += bytes(-len(data) % _WORD)
    words = len(data) // _WORD
    if 0 < words < RingType.PADDING:
        fields: dict[str, Any] = {"kind": words, "delta": delta}
        return extend + int(RingWord(**fields)).to_bytes(_WORD, order) + data
    head = int(RingWord(kind=RingType.LONG, delta=delta)).to_bytes(_WORD, order)
    return extend + head + (len(data) + _WORD).to_bytes(_WORD, order) + data
