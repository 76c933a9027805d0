"""`<module>.dbg`: argument specifications, enumerations and source lines of a module's functions."""

from __future__ import annotations

from dataclasses import dataclass, field

from fxtio.finding import Findings, Level
from fxtio.uftrace.directory import from_lines, to_lines

_HEX = frozenset("0123456789abcdefABCDEF")


@dataclass(slots=True)
class DebugFunction:
    """What the file says of a function.

    Attributes:
        address: as that of its symbol.
        name: demangled.
        arguments: the specification of its arguments, without the `@`; empty where there is none.
        returns: likewise of its return value.
        line: where it begins in its source, or None.
        source: the source file.
    """

    address: int
    name: str
    arguments: str = ""
    returns: str = ""
    line: int | None = None
    source: str = ""


@dataclass(slots=True)
class DebugFile:
    """The file.

    Attributes:
        lines: the text, line by line.
        functions: by address.
        enums: the enumerations, as text.
        path: the module, where the heading tells it.
        build_id: likewise.
    """

    lines: list[str] = field(default_factory=list)
    functions: dict[int, DebugFunction] = field(default_factory=dict)
    enums: list[str] = field(default_factory=list)
    path: str = ""
    build_id: str = ""

    @classmethod
    def parse(cls, raw: bytes, name: str, findings: Findings) -> DebugFile:
        """Read the file."""
        made, offset = cls(to_lines(raw)), 0
        current: DebugFunction | None = None
        for line in made.lines:
            kind, rest = line[:3], line[3:]
            words = rest.split(" ", 1)
            if kind == "F: " and (digits := words[0].removeprefix("0x")) and _HEX.issuperset(digits[:17]):
                current = DebugFunction(int(digits[:16], 16), words[1] if len(words) > 1 else "")
                made.functions[current.address] = current
            elif kind == "E: ":
                made.enums.append(rest)
            elif line.startswith("# path name: "):
                made.path = line[13:]
            elif line.startswith("# build-id: "):
                made.build_id = line[12:]
            elif current is not None and kind == "A: ":
                current.arguments = rest.removeprefix("@")
            elif current is not None and kind == "R: ":
                current.returns = rest.removeprefix("@")
            elif current is not None and kind == "L: " and words[0].isascii() and words[0][:10].isdigit():
                current.line, current.source = int(words[0][:10]), words[1] if len(words) > 1 else ""
            elif line and not line.startswith("#"):
                findings.add("debug-line", offset, "a line is not understood", level=Level.WARNING, file=name)
            offset += len(line.encode("utf-8", "surrogateescape")) + 1
        return made

    def to_bytes(self) -> bytes:
        """The file's bytes."""
        return from_lines(self.lines)
