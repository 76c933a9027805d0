"""The program that a new trace pretends to have recorded: modules with functions, and where they lie in memory."""

from __future__ import annotations

from dataclasses import dataclass, field

from fxtio.errors import EncodeError
from fxtio.uftrace.argspec import Value, Values, checked_values
from fxtio.uftrace.directory import is_plain
from fxtio.uftrace.maps import STACK, MapFile, Mapping
from fxtio.uftrace.symbols import END, Symbol, SymbolFile
from fxtio.uftrace.tasks import check_name

_FIRST_BASE = 0x40_0000
_SLOT = 16
_PAGE = 4096
_BETWEEN = 0x1000_0000
_STACK = {8: (0x7FFE_0000_0000, 0x7FFF_0000_0000), 4: (0xBF00_0000, 0xBFFF_F000)}


@dataclass(frozen=True, slots=True)
class Target:
    """A function that can be called in a new trace.

    Attributes:
        name: its name.
        address: in memory.
        arguments: what its arguments are.
        returns: what it returns.
    """

    name: str
    address: int
    arguments: Values
    returns: Values


@dataclass(slots=True)
class Library:
    """A program or a library in the making.

    Attributes:
        path: its file.
        base: where it lies.
        symbols: its functions.
    """

    path: str
    base: int
    symbols: list[Symbol] = field(default_factory=list)

    @property
    def basename(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    @property
    def end(self) -> int:
        """The address behind it."""
        return self.base + (len(self.symbols) + 1) * _SLOT // _PAGE * _PAGE + _PAGE


class Image:
    """Modules and functions.

    Args:
        program: the path of the program.
        pointer_size: 4 or 8.

    Attributes:
        specs: the argument specifications, by function.
    """

    def __init__(self, program: str, pointer_size: int) -> None:
        self.pointer_size = pointer_size
        self.specs: dict[str, tuple[Values, Values]] = {}
        self._targets: dict[tuple[str, str], Target] = {}
        self._libraries: dict[str, Library] = {}
        self.program = program
        self.library(program)

    @property
    def libraries(self) -> list[Library]:
        """The modules, the program first."""
        return list(self._libraries.values())

    def library(self, path: str) -> Library:
        """A module, new or known.

        Raises:
            EncodeError: the path cannot stand in a map, or another module has the same base name.
        """
        if path not in self._libraries:
            check_name(path, "module")
            base = path.rpartition("/")[2]
            if not is_plain(base) or any(sign.isspace() for sign in path):
                raise EncodeError(f"{path!r} cannot be the path of a module: uftrace cuts it at spaces", "module")
            if any(one.basename == base for one in self.libraries):
                raise EncodeError(f"another module is called {base!r}, too", "module")
            self._libraries[path] = Library(path, _FIRST_BASE + len(self._libraries) * _BETWEEN)
        return self._libraries[path]

    def function(self, name: str, arguments: str = "", returns: str = "", kind: str = "T", module: str = "") -> Target:
        """A function, new or known.

        Raises:
            EncodeError: the name or a specification cannot be written, or it was declared otherwise before.
        """
        path = module or self.program
        known = self._targets.get((path, name))
        wanted = checked_values(arguments, self.pointer_size), checked_values(returns, self.pointer_size)
        if known is not None:
            if any(wanted) and wanted != (known.arguments, known.returns):
                raise EncodeError("was declared with other arguments before", name)
            return known
        if not check_name(name, "function") or "\t" in name:
            raise EncodeError("a function's name is neither empty nor has a tab", repr(name))
        self._check(name, *wanted)
        library = self.library(path)
        offset = len(library.symbols) * _SLOT
        library.symbols.append(Symbol(offset, name, kind))
        made = self._targets[path, name] = Target(name, library.base + offset, *wanted)
        if any(wanted):
            self.specs[name] = wanted
        return made

    def _check(self, name: str, arguments: Values, returns: Values) -> None:
        if not (arguments or returns):
            return
        if any(sign in name for sign in ";@,") or name in self.specs:
            raise EncodeError("a function with arguments needs a name of its own, without ; @ and comma", name)
        if any(value.kind == "retval" for value in arguments) or any(value.kind != "retval" for value in returns):
            raise EncodeError("arguments are arg1, fparg1 and the like, the value that is returned is retval", name)
        slots = [value.slot for value in (*arguments, *returns)]
        if len(set(slots)) < len(slots):
            raise EncodeError("two specifications are of the same value", name)

    @property
    def needs_registers(self) -> bool:
        """Whether a specification names a register, which readers look up by the processor."""
        values: list[Value] = [value for both in self.specs.values() for one in both for value in one]
        return any(value.place and not value.place.startswith("%stack") for value in values)

    def spec_lines(self) -> list[str]:
        """The lines of the info file's block."""
        made = []
        for key, number in (("argspec", 0), ("retspec", 1)):
            told = [f"{name}@{','.join(map(str, both[number]))}" for name, both in self.specs.items() if both[number]]
            made += [f"{key}:{';'.join(told)}"] if told else []
        return [f"argspec:lines={len(made)}", *made]

    def map_file(self) -> MapFile:
        """The map; without a stack in it, no reader but fxtio finds a function's name."""
        mappings = [Mapping(one.base, one.end, path=one.path) for one in self.libraries]
        begin, end = _STACK[self.pointer_size]
        return MapFile.of([*mappings, Mapping(begin, end, "rw-p", path=STACK)])

    def symbol_files(self, *, sized: bool) -> dict[str, SymbolFile]:
        """The symbol files by name.

        Args:
            sized: with sizes, as uftrace 0.14 and later have them; 0.13 cannot read those.
        """
        made = {}
        for one in self.libraries:
            symbols = one.symbols
            if sized:
                symbols = [Symbol(s.address, s.name, s.type, _SLOT) for s in symbols]
            else:
                symbols = [*symbols, Symbol(len(symbols) * _SLOT, "__sym_end", END)]
            made[f"{one.basename}.sym"] = SymbolFile.of(symbols)
        return made
