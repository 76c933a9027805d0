"""`sid-<session>.map`: where the modules of a session lie in memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from fxtio.finding import Findings, Level
from fxtio.uftrace.directory import from_lines, to_lines
from fxtio.uftrace.layout import kernel_base

STACK = "[stack]"
_LINE = re.compile(
    r"([0-9a-fA-F]{1,16})-([0-9a-fA-F]{1,16}) (\S{4}) ([0-9a-fA-F]{1,16}) (\S{1,20}) (\d{1,20})(?: *)(.*)", re.DOTALL
)
_BUILD_ID = " build-id:"


@dataclass(frozen=True, slots=True)
class Mapping:
    """A line of a map.

    Attributes:
        begin: its first address.
        end: the address behind it.
        perms: such as `r-xp`.
        offset: in the file.
        device: such as `08:01`.
        inode: of the file.
        path: the file, or such as `[stack]`; empty for memory without a file.
        build_id: of the file, in hexadecimal, where it is known.
    """

    begin: int
    end: int
    perms: str = "r-xp"
    offset: int = 0
    device: str = "00:00"
    inode: int = 0
    path: str = ""
    build_id: str = ""

    def __str__(self) -> str:
        begin = f"{self.begin:08x}-{self.end:08x} {self.perms} {self.offset:08x} {self.device} {self.inode}"
        build_id = f"{_BUILD_ID}{self.build_id}" if self.build_id else ""
        return f"{begin:<72} {self.path}{build_id}" if self.path else f"{begin} "


@dataclass(frozen=True, slots=True)
class Module:
    """A program or a library in memory.

    Attributes:
        base: what the addresses of its symbols count from.
        end: the address behind it.
        path: its file.
        build_id: of the file, or empty.
    """

    base: int
    end: int
    path: str
    build_id: str = ""


def parse_mapping(line: str) -> Mapping | None:
    """The mapping that a line tells, or None."""
    found = _LINE.fullmatch(line)
    if not found:
        return None
    begin, end, perms, offset, device, inode, path = found.groups()
    path, _, build_id = path.partition(_BUILD_ID)
    return Mapping(int(begin, 16), int(end, 16), perms, int(offset, 16), device, int(inode), path, build_id)


@dataclass(slots=True)
class MapFile:
    """The file.

    Attributes:
        lines: the text, line by line.
        mappings: what they tell.
    """

    lines: list[str] = field(default_factory=list)
    mappings: list[Mapping] = field(default_factory=list)

    @classmethod
    def parse(cls, raw: bytes, name: str, findings: Findings) -> MapFile:
        """Read the file."""
        made, offset = cls(to_lines(raw)), 0
        for line in made.lines:
            mapping = parse_mapping(line)
            if mapping is not None:
                made.mappings.append(mapping)
            elif line and not line.startswith("#"):
                findings.add("map-line", offset, "a line is not understood", level=Level.WARNING, file=name)
            offset += len(line.encode("utf-8", "surrogateescape")) + 1
        return made

    @classmethod
    def of(cls, mappings: list[Mapping]) -> MapFile:
        """A new file."""
        return cls([*(str(mapping) for mapping in mappings), ""], mappings)

    def to_bytes(self) -> bytes:
        """The file's bytes."""
        return from_lines(self.lines)

    @property
    def modules(self) -> list[Module]:
        """The files in memory: mappings of one file that follow each other are one module."""
        return list(self._modules())

    def _modules(self) -> Iterator[Module]:
        last: Module | None = None
        for mapping in self.mappings:
            if not mapping.path or mapping.path.startswith("["):
                continue
            if last is not None and last.path == mapping.path:
                last = Module(last.base, max(last.end, mapping.end), last.path, last.build_id or mapping.build_id)
                continue
            if last is not None:
                yield last
            last = Module(mapping.begin, mapping.end, mapping.path, mapping.build_id)
        if last is not None:
            yield last

    @property
    def kernel_base(self) -> int | None:
        """Where the kernel's addresses begin, as far as the stack tells."""
        stack = next((mapping.begin for mapping in self.mappings if mapping.path == STACK), None)
        return None if stack is None else kernel_base(stack)
