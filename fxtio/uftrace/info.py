"""The `info` file: a header of 40 bytes, then blocks of text, one for each bit of a mask."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from construct import Byte as ByteField
from construct import Bytes, ConstructError, Int16ub, Int16ul, Int32ub, Int32ul, Int64ub, Int64ul, Struct

from fxtio.codec.generate import Order
from fxtio.errors import DecodeError, EncodeError
from fxtio.finding import Findings
from fxtio.report import counted
from fxtio.uftrace.directory import byte_size, has_carriage_returns, join_lines
from fxtio.uftrace.enums import ByteOrder, WordClass
from fxtio.uftrace.layout import INFO_MAGIC, Feature, InfoBit

_NS_PER_SECOND = 10**9

INFO_FILE = "info"
HEADER_SIZE = 40
DEFAULT_MAX_STACK = 1024
MAX_UTC_OFFSET = 10**11
"""The end of the range of seconds since 1970 that a trace may give as the time at which its clock was 0."""

VERSIONS = (3, 4)
TEXT_VERSION = 4
"""The first version with a task file of text, with payloads, and with a date in `info`."""

BLOCKS: dict[InfoBit, tuple[str, ...]] = {
    InfoBit.EXE_NAME: ("exename",),
    InfoBit.EXE_BUILD_ID: ("build_id",),
    InfoBit.EXIT_STATUS: ("exit_status",),
    InfoBit.CMDLINE: ("cmdline",),
    InfoBit.CPUINFO: ("cpuinfo",),
    InfoBit.MEMINFO: ("meminfo",),
    InfoBit.OSINFO: ("osinfo",),
    InfoBit.TASKINFO: ("taskinfo",),
    InfoBit.USAGEINFO: ("usageinfo",),
    InfoBit.LOADINFO: ("loadinfo",),
    InfoBit.ARG_SPEC: ("argspec", "retspec", "argauto", "retauto", "enumauto", "auto-args"),
    InfoBit.RECORD_DATE: ("record_date", "elapsed_time"),
    InfoBit.PATTERN_TYPE: ("pattern_type",),
    InfoBit.VERSION: ("uftrace_version",),
    InfoBit.UTC_OFFSET: ("utc_offset",),
    InfoBit.SYSCTL: ("sysctl",),
}
"""The keys of the lines of each block, in the order of the blocks in the file."""


def _header(big: bool) -> Any:
    u16, u32, u64 = (Int16ub, Int32ub, Int64ub) if big else (Int16ul, Int32ul, Int64ul)
    return Struct(
        "magic" / Bytes(len(INFO_MAGIC)),
        "version" / u32,
        "header_size" / u16,
        "endian" / ByteField,
        "word_class" / ByteField,
        "features" / u64,
        "blocks" / u64,
        "max_stack" / u16,
        "reserved" / Bytes(6),
    )


HEADERS = {"little": _header(False), "big": _header(True)}
"""The header by byte order; its byte `endian` selects one.  spec: The info file"""


def field_offset(name: str) -> int:
    """Return the byte offset of a field of the header."""
    offset = 0
    for part in HEADERS["little"].subcons:
        if part.name == name:
            return offset
        offset += part.sizeof()
    raise KeyError(name)


_ENDIAN = Struct("before" / Bytes(14), "endian" / ByteField)


@dataclass(slots=True)
class InfoFile:
    """The `info` file.

    Attributes:
        version: the version of the format: 4, or 3 before uftrace 0.6.
        header_size: 40.
        order: the byte order of the header and of records.
        word_class: whether the traced program has 32-bit or 64-bit pointers.
        features: the kinds of data in the trace.
        blocks: the blocks of text that follow the header.
        max_stack: the greatest depth of a recorded call.
        reserved: six zero bytes.
        lines: the lines of the text; a final line end gives an empty last line.
        magic: the first bytes, which may be damaged.
        carriage_returns: whether lines end in CR LF, as after a transfer in text mode.
    """

    version: int = 4
    header_size: int = HEADER_SIZE
    order: Order = "little"
    word_class: int = WordClass.BITS64
    features: Feature = field(default=Feature(0))
    blocks: InfoBit = field(default=InfoBit(0))
    max_stack: int = DEFAULT_MAX_STACK
    reserved: bytes = bytes(6)
    lines: list[str] = field(default_factory=list)
    magic: bytes = INFO_MAGIC
    carriage_returns: bool = False

    @classmethod
    def parse(cls, raw: bytes, findings: Findings) -> InfoFile:
        """Parse the file.

        Raises:
            DecodeError: it does not begin with a header of uftrace.
        """
        damaged = has_carriage_returns(raw, INFO_FILE, findings)
        if damaged:
            raw = raw.replace(b"\r\n", b"\n")
        try:
            order: Order = "big" if _ENDIAN.parse(raw).endian == ByteOrder.BIG else "little"
            header = HEADERS[order].parse(raw)
        except ConstructError:
            fault = f"ends after {counted(len(raw), 'byte')} of its header" if raw else "is missing or empty"
            raise DecodeError("info.header", f"the file info {fault}", 0) from None
        has_known_form = header.endian in tuple(ByteOrder) and header.version in VERSIONS
        if header.magic != INFO_MAGIC:
            fault = f"begins with the bytes {header.magic.hex(' ')} instead of {INFO_MAGIC.hex(' ')} (Ftrace!)"
            if not (has_known_form and header.word_class in tuple(WordClass)):
                raise DecodeError("info.header", f"the file info {fault}, and no header of uftrace follows", 0)
            findings.add("info.magic", 0, f"the file {fault}; the rest is read as usual", file=INFO_FILE)
        if not has_known_form:
            message = f"unknown version {header.version} or byte order {header.endian}; the file is read as version 4"
            findings.add("info.version", len(INFO_MAGIC), message, file=INFO_FILE)
        lines = raw[HEADER_SIZE:].decode("utf-8", "surrogateescape").split("\n")
        parsed = cls(
            header.version, header.header_size, order, header.word_class, Feature(header.features),
            InfoBit(header.blocks), header.max_stack, header.reserved, lines, header.magic, damaged,
        )  # fmt: skip
        for bit, keys in BLOCKS.items():
            if bit in parsed.blocks and not any(key in keys for key, _ in parsed.items()):
                message = f"the header lists the block {bit.name}, but the text has no such block"
                findings.add("info.block", HEADER_SIZE, message, file=INFO_FILE)
        return parsed

    def to_bytes(self) -> bytes:
        """Return the bytes of the file.

        Raises:
            EncodeError: a number does not fit its field.
        """
        raw = self._header() + join_lines(self.lines)
        return raw.replace(b"\n", b"\r\n") if self.carriage_returns else raw

    def _header(self) -> bytes:
        names = [part.name for part in HEADERS[self.order].subcons if part.name != "endian"]
        values = {name: getattr(self, name) for name in names} | {"endian": ByteOrder[self.order.upper()]}
        try:
            header: bytes = HEADERS[self.order].build(values)
        except ConstructError as error:
            raise EncodeError(str(error), "InfoFile") from None
        return header

    @property
    def pointer_size(self) -> int:
        """Return the size in bytes of an address of the traced program."""
        return 4 if self.word_class == WordClass.BITS32 else 8

    def placed_items(self) -> Iterator[tuple[int, str, str]]:
        """Yield the byte offset of the value, the key and the value of each line."""
        offset = HEADER_SIZE + (self._header().count(b"\n") if self.carriage_returns else 0)
        for line in self.lines:
            key, colon, value = line.partition(":")
            if colon:
                yield offset + byte_size(key) + 1, key, value
            offset += byte_size(line) + 1 + self.carriage_returns

    def items(self) -> Iterator[tuple[str, str]]:
        """Return the keys and values of all lines."""
        return ((key, value) for _, key, value in self.placed_items())

    def get(self, key: str, part: str = "") -> str | None:
        """Return the value of the first line with a key, or None; `part` selects a line `<part>=...` of a block."""
        start = f"{part}=" if part else ""
        values = (value for name, value in self.items() if name == key and value.startswith(start))
        value = next(values, None)
        return None if value is None else value[len(start) :]

    @property
    def tids(self) -> list[int]:
        """Return the ids of the tasks that the file lists."""
        listed = (self.get("taskinfo", "tids") or "").split(",")
        return [int(tid) for tid in listed if tid.isascii() and tid.isdigit() and len(tid) < 20]

    @property
    def recorded_by(self) -> str | None:
        """Return the version of uftrace that wrote the trace, such as `v0.13`, or None."""
        version = self.get("uftrace_version")
        return version.split(" (")[0].strip() if version is not None else None

    @property
    def clock(self) -> str:
        """The clock of the records, by the name that `uftrace record --clock` has for it, such as `mono`."""
        match = re.search(r"--clock[ =](\w+)", self.get("cmdline") or "")
        return match[1] if match else "mono"

    @property
    def clock_origin(self) -> int | None:
        """Return the Unix time in seconds at which the clock of the records was 0, or None if it is unknown."""
        offset = self.get("utc_offset") or ""
        seconds = int(offset) if offset.isascii() and offset.isdigit() and len(offset) < 20 else MAX_UTC_OFFSET
        return seconds if seconds < MAX_UTC_OFFSET else None

    @property
    def wall_clock(self) -> int | None:
        """Return the nanoseconds since the Unix epoch at the time 0 of the records, to the second, or None."""
        return None if self.clock_origin is None else self.clock_origin * _NS_PER_SECOND

    def specs(self, key: str) -> list[str]:
        """Return the values of all lines with a key, such as one of the argument block, without the count of lines."""
        return [value for _, value in self.placed_specs(key)]

    def placed_specs(self, key: str) -> list[tuple[int, str]]:
        """Return what `specs` returns, each with its byte offset in the file."""
        items = self.placed_items()
        return [(offset, value) for offset, name, value in items if name == key and not value.startswith("lines=")]

    def set_block(self, bit: InfoBit, *lines: str) -> None:
        """Append a block; blocks must be appended in the order of their bits."""
        self.blocks |= bit
        if not self.lines:
            self.lines = [""]
        self.lines[-1:] = [*lines, ""]
