"""The `info` file: a header of 40 bytes, then blocks of text, one for each bit of a mask."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from construct import Byte as ByteField
from construct import Bytes, Const, ConstructError, Int16ub, Int16ul, Int32ub, Int32ul, Int64ub, Int64ul, Struct

from fxtio.errors import DecodeError, EncodeError
from fxtio.finding import Findings, Level
from fxtio.uftrace.directory import from_lines, to_lines
from fxtio.uftrace.enums import ByteOrder, WordClass
from fxtio.uftrace.layout import Feature, InfoBit

MAGIC = b"Ftrace!\0"
HEADER_SIZE = 40
DEFAULT_MAX_STACK = 1024
VERSIONS = (3, 4)

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
"""The keys of the lines of every block, in the order in which the blocks must stand."""


def _header(big: bool) -> Any:
    u16, u32, u64 = (Int16ub, Int32ub, Int64ub) if big else (Int16ul, Int32ul, Int64ul)
    return Struct(
        "magic" / Const(MAGIC),
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
"""The header in either byte order; the byte `endian` says which.  spec: The info file"""

_ENDIAN = Struct("before" / Bytes(14), "endian" / ByteField)


@dataclass(slots=True)
class InfoFile:
    """The `info` file.

    Attributes:
        version: of the format; 4, and 3 before uftrace 0.6.
        header_size: 40.
        order: the byte order of header and records.
        word_class: whether the traced program was of 32 or 64 bits.
        features: what the trace has.
        blocks: which blocks of text follow.
        max_stack: the deepest call that was recorded.
        reserved: zeros.
        lines: the text, line by line; an empty last one for the line end.
    """

    version: int = 4
    header_size: int = HEADER_SIZE
    order: Literal["little", "big"] = "little"
    word_class: int = WordClass.BITS64
    features: Feature = field(default=Feature(0))
    blocks: InfoBit = field(default=InfoBit(0))
    max_stack: int = DEFAULT_MAX_STACK
    reserved: bytes = bytes(6)
    lines: list[str] = field(default_factory=list)

    @classmethod
    def parse(cls, raw: bytes, findings: Findings) -> InfoFile:
        """Read the file.

        Raises:
            DecodeError: it has no header.
        """
        try:
            order: Literal["little", "big"] = "big" if _ENDIAN.parse(raw).endian == ByteOrder.BIG else "little"
            header = HEADERS[order].parse(raw)
        except ConstructError:
            raise DecodeError("info-header", "info does not begin with a header of uftrace", 0) from None
        if header.endian not in (ByteOrder.LITTLE, ByteOrder.BIG) or header.version not in VERSIONS:
            told = f"version {header.version} and byte order {header.endian} are not known; read as version 4"
            findings.add("info-version", 8, told, level=Level.WARNING, file="info")
        lines = to_lines(raw[HEADER_SIZE:])
        found = cls(
            header.version, header.header_size, order, header.word_class, Feature(header.features),
            InfoBit(header.blocks), header.max_stack, header.reserved, lines,
        )  # fmt: skip
        for bit, keys in BLOCKS.items():
            if bit in found.blocks and not any(key in keys for key, _ in found.items()):
                told = f"the block {bit.name} is missing, which the mask says is there"
                findings.add("info-block", HEADER_SIZE, told, level=Level.WARNING, file="info")
        return found

    def to_bytes(self) -> bytes:
        """The file's bytes.

        Raises:
            EncodeError: a number does not fit.
        """
        values = {
            "version": self.version,
            "header_size": self.header_size,
            "endian": ByteOrder.BIG if self.order == "big" else ByteOrder.LITTLE,
            "word_class": self.word_class,
            "features": int(self.features),
            "blocks": int(self.blocks),
            "max_stack": self.max_stack,
            "reserved": self.reserved,
        }
        try:
            header: bytes = HEADERS[self.order].build(values)
        except ConstructError as error:
            raise EncodeError(str(error), "InfoFile") from None
        return header + from_lines(self.lines)

    @property
    def pointer_size(self) -> int:
        """Bytes of an address of the traced program."""
        return 4 if self.word_class == WordClass.BITS32 else 8

    def items(self) -> Iterator[tuple[str, str]]:
        """Keys and values of all lines."""
        for line in self.lines:
            key, colon, value = line.partition(":")
            if colon:
                yield key, value

    def get(self, key: str, part: str = "") -> str | None:
        """The value of the first line of this key; of a block of several lines, of its part `<part>=`."""
        start = f"{part}=" if part else ""
        found = (value for name, value in self.items() if name == key and value.startswith(start))
        value = next(found, None)
        return None if value is None else value[len(start) :]

    @property
    def tids(self) -> list[int]:
        """The tasks that the file lists."""
        listed = (self.get("taskinfo", "tids") or "").split(",")
        return [int(tid) for tid in listed if tid.isascii() and tid.isdigit() and len(tid) < 20]

    @property
    def recorded_by(self) -> str | None:
        """The version of uftrace that wrote the trace, as it calls itself."""
        version = self.get("uftrace_version")
        return version.split(" (")[0].strip() if version is not None else None

    def specs(self, key: str) -> list[str]:
        """The values of an argument block's lines of this key, without the count of lines."""
        return [value for name, value in self.items() if name == key and not value.startswith("lines=")]

    def set_block(self, bit: InfoBit, *lines: str) -> None:
        """Append a block; the blocks must come in the order of their bits."""
        self.blocks |= bit
        if not self.lines:
            self.lines = [""]
        self.lines[-1:] = [*lines, ""]
