"""Files about addresses: the maps of sessions, and the symbols and debug information of modules.

- `sid-<session>.map` lists the modules of a session and their places in memory.
- `<module>.sym` and `kallsyms` list functions by address.  Lines exist with and without a size, with and without a
  heading; a symbol without a size ends where the next one begins.
- `<module>.dbg` has argument specifications, enumerations and source lines of functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec
import numpy as np

from fxtio.arrays import Array
from fxtio.codec.canonical import Identifier
from fxtio.finding import Findings
from fxtio.uftrace.directory import placed_lines, text_file

STACK = "[stack]"
"""The path of the mapping of the stack."""

END = "?"
"""The type of a symbol that only marks the end of the previous one."""

END_MARKS = frozenset({"__sym_end", "__dynsym_end", "__func_end"})
"""The names of such marks; in old files, they have the types of functions."""

SYMBOL_TYPES = frozenset("TtwWPKDdvVuibBrR?")
"""The types that symbols have: those of nm(1), P for library functions, K for the kernel, and ? for marks."""

PLT = "P"
"""The type of a library function in the symbol table of a module that calls it."""

DATA = "D"
"""The type of a variable."""

KERNEL = "T"
"""The type of a function of the kernel."""

_MAPPING = re.compile(
    r"([0-9a-fA-F]{1,16})-([0-9a-fA-F]{1,16}) (\S{4}) ([0-9a-fA-F]{1,16}) (\S{1,20}) (\d{1,20})(?: *)(.*)", re.DOTALL
)
_BUILD_ID = " build-id:"
_SYMBOL = re.compile(r"([0-9a-fA-F]{1,16}) (?:([0-9][0-9a-fA-F]{0,15}) )?(\S) ([^\t]*)(.*)", re.DOTALL)
_HEADING = re.compile(r"# (symbols|path name|build-id): (.*)", re.DOTALL)
_HEX = frozenset("0123456789abcdefABCDEF")


# ---- maps


class Mapping(msgspec.Struct, frozen=True, gc=False, tag="mapping"):
    """A line of a map.

    Attributes:
        begin: the first address.
        end: the address after the last one.
        perms: the permissions, such as `r-xp`.
        offset: the offset in the file in bytes.
        device: the device of the file, such as `08:01`.
        inode: the inode of the file.
        path: the file, or a name such as `[stack]`; empty for memory without a file.
        build_id: the build id of the file in hexadecimal, or empty.
    """

    begin: int = msgspec.field(name="start")
    end: int
    perms: Identifier = msgspec.field(default="r-xp", name="permissions")
    offset: int = msgspec.field(default=0, name="_offset")
    device: str = msgspec.field(default="00:00", name="_device")
    inode: int = msgspec.field(default=0, name="_inode")
    path: str = ""
    build_id: Identifier = ""

    def __str__(self) -> str:
        begin = f"{self.begin:08x}-{self.end:08x} {self.perms} {self.offset:08x} {self.device} {self.inode}"
        build_id = f"{_BUILD_ID}{self.build_id}" if self.build_id else ""
        return f"{begin:<72} {self.path}{build_id}" if self.path else f"{begin} "


@dataclass(frozen=True, slots=True)
class Module:
    """A program or a library in memory.

    Attributes:
        base: the address that its symbols count from.
        path: its file.
        build_id: the build id of the file, or empty.
    """

    base: int
    path: str
    build_id: str = ""


@dataclass(slots=True)
class MapFile:
    """A map of a session.

    Attributes:
        mappings: the mappings.
        places: the byte offsets of the mappings that were read.
    """

    mappings: list[Mapping] = field(default_factory=list)
    places: list[int] = field(default_factory=list)

    @classmethod
    def parse(cls, raw: bytes, name: str, findings: Findings) -> MapFile:
        """Parse the file `name`."""
        parsed = cls()
        for offset, line in placed_lines(raw, name, findings):
            match = _MAPPING.fullmatch(line)
            if match:
                begin, end, perms, at, device, inode, path = match.groups()
                place = int(begin, 16), int(end, 16), perms, int(at, 16), device, int(inode)
                path, _, build_id = path.partition(_BUILD_ID)
                parsed.mappings.append(Mapping(*place, path, build_id))
                parsed.places.append(offset)
            elif line and not line.startswith("#"):
                findings.add("session.map-line", offset, file=name)
        return parsed

    def to_bytes(self) -> bytes:
        """Return the bytes of a file with these mappings."""
        return text_file(self.mappings)

    @property
    def modules(self) -> list[Module]:
        """Return the files in memory; consecutive mappings of one file are one module."""
        modules: list[Module] = []
        for mapping in self.mappings:
            if not mapping.path or mapping.path.startswith("["):
                continue
            new = Module(mapping.begin, mapping.path, mapping.build_id)
            if modules and (last := modules[-1]).path == new.path:
                modules[-1] = Module(last.base, last.path, last.build_id or new.build_id)
            else:
                modules.append(new)
        return modules


# ---- symbols


class Symbol(msgspec.Struct, frozen=True, gc=False, tag="symbol"):
    """A symbol of a module.

    Attributes:
        address: the address, counted from the base of the module.
        name: the name as the linker has it.
        type: `T`, `t` or `w` for functions, `P` for library functions, `K` for the kernel's, other letters for data.
        size: the size in bytes, or None if the file does not give it.
    """

    address: int
    name: str
    type: Identifier = msgspec.field(default="T", name="symbol_type")
    size: int | None = None

    def __str__(self) -> str:
        size = "" if self.size is None else f"{self.size:08x} "
        return f"{self.address:016x} {size}{self.type} {self.name}"


@dataclass(slots=True)
class SymbolFile:
    """The symbols of a module, or of the kernel.

    Attributes:
        symbols: the symbols in the order of the file.
        path: the path of the module in the heading, or empty.
        build_id: the build id in the heading, or empty.
        places: the byte offsets of the symbols that were read.
        count: the number of symbols without marks in the heading, or None.
    """

    symbols: list[Symbol] = field(default_factory=list)
    path: str = ""
    build_id: str = ""
    places: list[int] = field(default_factory=list)
    count: int | None = None

    @classmethod
    def parse(cls, raw: bytes, name: str, findings: Findings) -> SymbolFile:
        """Parse the file `name`."""
        parsed = cls()
        for offset, line in placed_lines(raw, name, findings):
            match = _SYMBOL.fullmatch(line)
            if match:
                address, size, kind, text, _ = match.groups()
                parsed.symbols.append(Symbol(int(address, 16), text, kind, int(size, 16) if size else None))
                parsed.places.append(offset)
            elif heading := _HEADING.fullmatch(line):
                if heading[1] == "path name":
                    parsed.path = heading[2]
                elif heading[1] == "build-id":
                    parsed.build_id = heading[2]
                elif re.fullmatch(r"\d{1,12}", heading[2], re.ASCII):
                    parsed.count = int(heading[2])
            elif line and not line.startswith("#"):
                findings.add("symbol.line", offset, file=name)
        return parsed

    def to_bytes(self) -> bytes:
        """Return the bytes of a file with these symbols, without a heading."""
        return text_file(self.symbols)

    def ranges(self) -> tuple[Array, Array, list[Symbol]]:
        """Return the first addresses and the ends of the symbols, and the symbols.

        Addresses count from the base of the module (uint64, ascending).  Of several symbols with the same address and
        type, the first one is taken.
        """
        seen: set[tuple[int, str]] = set()
        symbols = []
        for symbol in sorted(self.symbols, key=lambda symbol: symbol.address):
            if (symbol.address, symbol.type) not in seen:
                seen.add((symbol.address, symbol.type))
                symbols.append(symbol)
        begin = np.array([symbol.address for symbol in symbols], np.uint64)
        after = np.append(begin[1:], begin[-1:])
        size = np.array([symbol.size or 0 for symbol in symbols], np.uint64)
        has_size = np.array([symbol.size is not None for symbol in symbols], bool)
        end = np.where(has_size, begin + size, after)
        real = np.array([symbol.type != END for symbol in symbols], bool) & (end > begin)
        rows = np.flatnonzero(real)
        return begin[rows], end[rows], [symbols[row] for row in rows.tolist()]


class FunctionNames:
    """The names of the symbols of a file, by address.

    Args:
        file: the file.
    """

    def __init__(self, file: SymbolFile) -> None:
        self._begin, self._end, self._symbols = file.ranges()

    def of(self, address: Array) -> list[str]:
        """Return the names of the symbols at some addresses (uint64), empty where there is none."""
        rows = rows_at(self._begin, self._end, address).tolist()
        return [self._symbols[row].name if row >= 0 else "" for row in rows]


def rows_at(begin: Array, end: Array, address: Array) -> Array:
    """Return for each address the row of the range that holds it, -1 for none; all are uint64, the ranges sorted."""
    row = np.searchsorted(begin, address, "right") - 1
    return np.where((row >= 0) & (address < np.append(end, np.uint64(0))[row]), row, -1)


# ---- debug information


@dataclass(slots=True)
class DebugFunction:
    """The debug information of a function.

    Attributes:
        address: the address of its symbol.
        name: its demangled name.
        arguments: the specification of its arguments, without the `@`, or empty.
        returns: the specification of its return value, without the `@`, or empty.
        line: the line at which it begins in its source file, or None.
        source: the source file, or empty.
    """

    address: int
    name: str
    arguments: str = ""
    returns: str = ""
    line: int | None = None
    source: str = ""

    def lines(self) -> Iterator[str]:
        """Yield the lines of the file."""
        yield f"F: {self.address:x} {self.name}"
        if self.line is not None:
            yield f"L: {self.line} {self.source}"
        if self.arguments:
            yield f"A: @{self.arguments}"
        if self.returns:
            yield f"R: @{self.returns}"


@dataclass(slots=True)
class DebugFile:
    """The debug information of a module.

    Attributes:
        functions: the functions by address.
        enums: the texts of the enumerations.
        path: the path of the module in the heading, or empty.
        build_id: the build id in the heading, or empty.
    """

    functions: dict[int, DebugFunction] = field(default_factory=dict)
    enums: list[str] = field(default_factory=list)
    path: str = ""
    build_id: str = ""

    @classmethod
    def parse(cls, raw: bytes, name: str, findings: Findings) -> DebugFile:
        """Parse the file `name`."""
        parsed = cls()
        current: DebugFunction | None = None
        for offset, line in placed_lines(raw, name, findings):
            kind, rest = line[:3], line[3:]
            words = rest.split(" ", 1)
            if kind == "F: " and (digits := words[0].removeprefix("0x")) and _HEX.issuperset(digits[:17]):
                current = DebugFunction(int(digits[:16], 16), words[1] if len(words) > 1 else "")
                parsed.functions[current.address] = current
            elif kind == "E: ":
                parsed.enums.append(rest)
            elif line.startswith("# path name: "):
                parsed.path = line[13:]
            elif line.startswith("# build-id: "):
                parsed.build_id = line[12:]
            elif current is not None and kind == "A: ":
                current.arguments = rest.removeprefix("@")
            elif current is not None and kind == "R: ":
                current.returns = rest.removeprefix("@")
            elif current is not None and kind == "L: " and words[0].isascii() and words[0][:10].isdigit():
                current.line, current.source = int(words[0][:10]), words[1] if len(words) > 1 else ""
            elif line and not line.startswith("#"):
                findings.add("symbol.debug-line", offset, file=name)
        return parsed

    def to_bytes(self) -> bytes:
        """Return the bytes of a file with these functions."""
        return text_file(line for function in self.functions.values() for line in function.lines())
