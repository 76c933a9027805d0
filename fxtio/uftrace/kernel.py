"""What the kernel traced: `kernel_header`, which describes events, and `kernel-cpu<N>.dat`, pages of its ring buffer.

Both are copies of what tracefs gives.  The header has the kernel's own descriptions of its events, so that the data of
any event can be taken apart; nothing about a kernel's version is assumed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from fxtio.errors import EncodeError
from fxtio.finding import Findings, Level
from fxtio.uftrace.enums import RingType
from fxtio.uftrace.layout import CommitWord, ExtendWord, RingWord

HEADER_FILE, SYMBOLS_FILE = "kernel_header", "kallsyms"
FUNCTION_ENTRY, FUNCTION_EXIT = "funcgraph_entry", "funcgraph_exit"
Order = Literal["little", "big"]

_FIELD = re.compile(r"\s*field:(.*?);\s*offset:(\d{1,6});\s*size:(\d{1,6});(?:\s*signed:(\d+);)?")
_BLOCK = re.compile(rb"TRACEFS: ([^\n]{1,200}): (\d{1,8})\n")
_LONGEST_LINE = 1000
_WORD, _TIME = 4, 8
_LONGEST_DELTA = RingWord.fields["delta"].mask
_LARGEST_PAGE = 1 << 20


@dataclass(frozen=True, slots=True)
class EventField:
    """A field of an event's data.

    Attributes:
        name: its name.
        offset: bytes from the data's beginning.
        size: bytes.
        signed: two's complement.
        text: characters, ended by a NUL.
    """

    name: str
    offset: int
    size: int
    signed: bool
    text: bool


@dataclass(frozen=True, slots=True)
class EventFormat:
    """How the data of an event is made up.

    Attributes:
        id: what its first field, `common_type`, holds.
        name: such as `sched_switch`.
        fields: by name.
    """

    id: int
    name: str
    fields: dict[str, EventField]

    def values(self, data: bytes, order: Order) -> dict[str, int | str]:
        """The values of the fields that are wholly there, without those that all events have."""
        found: dict[str, int | str] = {}
        for one in self.fields.values():
            raw = data[one.offset : one.offset + one.size]
            if one.name.startswith("common_") or len(raw) < one.size:
                continue
            if one.text:
                found[one.name] = raw.split(b"\0")[0].decode("utf-8", "surrogateescape")
            elif one.size in (1, 2, 4, 8):
                found[one.name] = int.from_bytes(raw, order, signed=one.signed)
        return found


def parse_format(text: str) -> EventFormat | None:
    """The description of an event, as tracefs has it, or None if it is none."""
    name, number = re.search(r"^name: (\S+)", text, re.MULTILINE), re.search(r"^ID: (\d{1,6})", text, re.MULTILINE)
    if not name or not number:
        return None
    fields = {}
    found = (_FIELD.match(line) for line in text.split("\n") if len(line) < _LONGEST_LINE)
    for kind, offset, size, signed in (one.groups() for one in found if one):
        label = re.search(r"(\w+)(\[[^\]]*\])?$", kind)
        if label:
            is_text = bool(label[2]) and "char" in kind and "__data_loc" not in kind
            fields[label[1]] = EventField(label[1], int(offset), int(size), signed == "1", is_text)
    return EventFormat(int(number[1]), name[1], fields)


@dataclass(slots=True)
class KernelHeader:
    """The file `kernel_header`.

    Attributes:
        page_size: bytes of a page of the ring buffer.
        long_size: bytes of a `long` of the kernel.
        order: the byte order.
        blocks: files of tracefs: path and content.
        formats: the events that they describe, by id.
        rest: bytes behind the last block.
        headless: whether sizes and byte order are missing.
    """

    page_size: int = 4096
    long_size: int = 8
    order: Order = "little"
    blocks: list[tuple[str, bytes]] = field(default_factory=list)
    formats: dict[int, EventFormat] = field(default_factory=dict)
    rest: bytes = b""
    headless: bool = False

    @classmethod
    def parse(cls, raw: bytes, findings: Findings) -> KernelHeader:
        """Read the file."""
        made, at = cls(), 0
        head = re.match(rb"PAGE_SIZE: (\d{1,8})\nLONG_SIZE: (\d)\nENDIAN: (LE|BE)\n", raw)
        if head:
            made.page_size, made.long_size = int(head[1]), int(head[2])
            made.order = "little" if head[3] == b"LE" else "big"
            at = head.end()
        else:
            if raw:
                findings.add("kernel-header", 0, "it does not begin with sizes and a byte order", file=HEADER_FILE)
            return cls(rest=raw, headless=True)
        while block := _BLOCK.match(raw, at):
            content = raw[block.end() : block.end() + int(block[2])]
            if len(content) < int(block[2]):
                findings.add("kernel-header", at, "a description is cut", file=HEADER_FILE)
                break
            made._add(block[1].decode("utf-8", "surrogateescape"), content)
            at = block.end() + len(content)
        made.rest = raw[at:]
        return made

    def _add(self, path: str, content: bytes) -> None:
        self.blocks.append((path, content))
        one = parse_format(content.decode("utf-8", "surrogateescape"))
        if one is not None:
            self.formats[one.id] = one

    @classmethod
    def of(cls, blocks: Iterable[tuple[str, bytes]], *, page_size: int = 4096) -> KernelHeader:
        """A new file of descriptions: path and content."""
        made = cls(page_size)
        for path, content in blocks:
            made._add(path, content)
        return made

    def to_bytes(self) -> bytes:
        """The file's bytes."""
        if self.headless:
            return self.rest
        order = "LE" if self.order == "little" else "BE"
        head = f"PAGE_SIZE: {self.page_size}\nLONG_SIZE: {self.long_size}\nENDIAN: {order}\n".encode()
        blocks = [f"TRACEFS: {path}: {len(content)}\n".encode("utf-8", "surrogateescape") + content
                  for path, content in self.blocks]  # fmt: skip
        return head + b"".join(blocks) + self.rest


@dataclass(frozen=True, slots=True)
class KernelEvent:
    """An event of the kernel.

    Attributes:
        time: nanoseconds.
        tid: the task that ran.
        id: which event.
        name: its name; empty where the header does not describe it.
        values: its data by field, without the fields that all events have.
        data: its data.
        missed: whether the kernel says that events before it are missing.
    """

    time: int
    tid: int
    id: int
    name: str
    values: dict[str, Any]
    data: bytes
    missed: bool = False


def is_name(name: str) -> bool:
    """Whether a file is called like one of a CPU."""
    return name.startswith("kernel-cpu") and name.endswith(".dat") and name[10:-4].isdecimal()


def cpu_of(name: str) -> int:
    """The number in the file's name."""
    return int(name[10:-4][:9])


def parse_pages(pages: Iterable[bytes], header: KernelHeader, name: str, findings: Findings) -> Iterator[KernelEvent]:
    """The events of a CPU's file, from its pages (see `sound_page_size`)."""
    for number, page in enumerate(pages):
        yield from _page(page, number * header.page_size, header, name, findings)


def sound_page_size(header: KernelHeader, findings: Findings) -> int:
    """The size of a page; where what the header tells makes no sense, the usual one."""
    if not _TIME + header.long_size < header.page_size <= _LARGEST_PAGE:
        told = f"pages of {header.page_size:,} bytes make no sense; read as pages of 4,096"
        findings.add("kernel-header", 0, told, file=HEADER_FILE)
        header.page_size = 4096
    return header.page_size


def _page(page: bytes, begin: int, header: KernelHeader, name: str, findings: Findings) -> Iterator[KernelEvent]:
    order = header.order
    at = _TIME + header.long_size
    if len(page) < at:
        findings.add("kernel-page", begin, "a page is cut", file=name)
        return
    time = int.from_bytes(page[:_TIME], order)
    commit = CommitWord.read(int.from_bytes(page[_TIME:at], order))
    end, missed = at + commit.size, bool(commit.missed)
    if end > len(page):
        findings.add("kernel-page", begin, f"a page tells {commit.size:,} bytes, which it has not", file=name)
        end = len(page)
    if missed:
        told = "the kernel says that events before this page are missing"
        findings.add("kernel-missed", begin, told, level=Level.WARNING, file=name)
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
            findings.add("kernel-entry", begin + at, "an entry goes beyond its page", file=name)
            return
        time += entry.delta
        at = start + (size + _WORD - 1) // _WORD * _WORD
        if entry.kind != RingType.PADDING:
            yield _event(time, page[start : start + size], header, missed=missed)
            missed = False


def _event(time: int, data: bytes, header: KernelHeader, *, missed: bool) -> KernelEvent:
    number, tid = int.from_bytes(data[:2], header.order), int.from_bytes(data[4:8], header.order, signed=True)
    known = header.formats.get(number)
    if known is None:
        return KernelEvent(time, tid, number, "", {}, data, missed)
    return KernelEvent(time, tid, number, known.name, known.values(data, header.order), data, missed)


def build_data(one: EventFormat, tid: int, values: dict[str, Any], order: Order = "little") -> bytes:
    """The data of an event.

    Raises:
        EncodeError: a value does not fit, or there is no such field.
    """
    data = bytearray(max((part.offset + part.size for part in one.fields.values()), default=8))
    for name, value in {"common_type": one.id, "common_pid": tid, **values}.items():
        part = one.fields.get(name)
        if part is None:
            raise EncodeError("no such field", f"{one.name}.{name}")
        try:
            raw = value.encode() if part.text else value.to_bytes(part.size, order, signed=part.signed)
        except (OverflowError, AttributeError):
            raise EncodeError(f"{value!r} does not fit in {part.size} bytes", f"{one.name}.{name}") from None
        if len(raw) > part.size - part.text:
            raise EncodeError(f"{value!r} does not fit in {part.size} bytes", f"{one.name}.{name}")
        data[part.offset : part.offset + len(raw)] = raw
    return bytes(data)


def build_pages(events: Iterable[tuple[int, bytes]], header: KernelHeader) -> bytes:
    """Pages of the ring buffer, from the times and the data of events in the order of time.

    Raises:
        EncodeError: time goes back, or an event is larger than a page.
    """
    order, made = header.order, bytearray()
    first = last = 0
    held = bytearray()

    def flush() -> None:
        if held:
            commit = int(CommitWord(size=len(held), stored=0, missed=0)).to_bytes(header.long_size, order)
            page = first.to_bytes(_TIME, order) + commit + held
            made.extend(page + bytes(header.page_size - len(page)))
            held.clear()

    room = header.page_size - _TIME - header.long_size
    for time, data in events:
        if held and time < last:
            raise EncodeError(f"time goes back, from {last} to {time}", "kernel event")
        entry = _entry(time - last if held else 0, data, order)
        if len(held) + len(entry) > room:
            flush()
        if not held:
            first, entry = time, _entry(0, data, order)
        if len(entry) > room:
            raise EncodeError(f"{len(data):,} bytes do not fit in a page", "kernel event")
        held += entry
        last = time
    flush()
    return bytes(made)


def _entry(delta: int, data: bytes, order: Order) -> bytes:
    extend = b""
    if delta > _LONGEST_DELTA:
        whole = ExtendWord.read(delta)
        extend = int(RingWord(kind=RingType.TIME_EXTEND, delta=whole.low)).to_bytes(_WORD, order)
        extend += whole.high.to_bytes(_WORD, order)
        delta = 0
    data += bytes(-len(data) % _WORD)
    words = len(data) // _WORD
    if 0 < words < RingType.PADDING:
        fields: dict[str, Any] = {"kind": words, "delta": delta}
        return extend + int(RingWord(**fields)).to_bytes(_WORD, order) + data
    head = int(RingWord(kind=RingType.LONG, delta=delta)).to_bytes(_WORD, order)
    return extend + head + (len(data) + _WORD).to_bytes(_WORD, order) + data
