"""`<module>.sym`: names of functions by address, and `kallsyms`, which is like it.

Four forms of line exist: with and without a size, with and without a heading.  Without sizes a symbol ends where the
next one begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fxtio.finding import Findings, Level
from fxtio.uftrace.directory import from_lines, to_lines

Array = np.ndarray[Any, Any]

_LINE = re.compile(r"([0-9a-fA-F]{1,16}) (?:([0-9][0-9a-fA-F]{0,15}) )?(\S) ([^\t]*)(.*)", re.DOTALL)
_HEAD = re.compile(r"# (symbols|path name|build-id): (.*)", re.DOTALL)

END = "?"
"""The type of a symbol that only marks the end of the one before it."""

PLT = "P"
"""The type of a library function, in the table of the module that calls it."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """A symbol.

    Attributes:
        address: from the module's base.
        name: as the linker has it.
        type: `T`, `t`, `w` for functions, `P` for library functions, `K` for the kernel's, others for data.
        size: in bytes, or None where the file does not tell.
    """

    address: int
    name: str
    type: str = "T"
    size: int | None = None

    def __str__(self) -> str:
        size = "" if self.size is None else f"{self.size:08x} "
        return f"{self.address:016x} {size}{self.type} {self.name}"


@dataclass(slots=True)
class SymbolFile:
    """The file.

    Attributes:
        lines: the text, line by line.
        symbols: in the order of the file.
        path: the module, where the heading tells it.
        build_id: likewise.
    """

    lines: list[str] = field(default_factory=list)
    symbols: list[Symbol] = field(default_factory=list)
    path: str = ""
    build_id: str = ""

    @classmethod
    def parse(cls, raw: bytes, name: str, findings: Findings) -> SymbolFile:
        """Read the file."""
        made, offset = cls(to_lines(raw)), 0
        for line in made.lines:
            found = _LINE.fullmatch(line)
            if found:
                address, size, kind, text, _ = found.groups()
                made.symbols.append(Symbol(int(address, 16), text, kind, int(size, 16) if size else None))
            elif head := _HEAD.fullmatch(line):
                if head[1] == "path name":
                    made.path = head[2]
                elif head[1] == "build-id":
                    made.build_id = head[2]
            elif line and not line.startswith("#"):
                findings.add("symbol-line", offset, "a line is not understood", level=Level.WARNING, file=name)
            offset += len(line.encode("utf-8", "surrogateescape")) + 1
        return made

    @classmethod
    def of(cls, symbols: Iterable[Symbol], *, path: str = "", build_id: str = "") -> SymbolFile:
        """A new file, with a heading if there is a path."""
        made = cls([], list(symbols), path, build_id)
        if path:
            made.lines += [f"# symbols: {len(made.symbols)}", f"# path name: {path}"]
            made.lines += [f"# build-id: {build_id}"] if build_id else []
        made.lines += [*(str(symbol) for symbol in made.symbols), ""]
        return made

    def to_bytes(self) -> bytes:
        """The file's bytes."""
        return from_lines(self.lines)

    def ranges(self) -> tuple[Array, Array, list[Symbol]]:
        """Where the symbols begin and end, from the module's base (uint64, ascending), and the symbols.

        Of two symbols with the same address and type the first one counts.
        """
        seen: set[tuple[int, str]] = set()
        ordered = sorted(self.symbols, key=lambda symbol: symbol.address)
        kept = []
        for symbol in ordered:
            if (symbol.address, symbol.type) not in seen:
                seen.add((symbol.address, symbol.type))
                kept.append(symbol)
        begin = np.array([symbol.address for symbol in kept], np.uint64)
        after = np.append(begin[1:], begin[-1:])
        size = np.array([symbol.size or 0 for symbol in kept], np.uint64)
        told = np.array([symbol.size is not None for symbol in kept], bool)
        end = np.where(told, begin + size, after)
        real = np.array([symbol.type != END for symbol in kept], bool) & (end > begin)
        rows = np.flatnonzero(real)
        return begin[rows], end[rows], [kept[row] for row in rows.tolist()]
