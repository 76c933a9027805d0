"""The program of a new trace: its modules, its functions, and their addresses in memory."""

from __future__ import annotations

from dataclasses import dataclass, field

from fxtio.errors import EncodeError
from fxtio.uftrace.argspec import ValueSpec, ValueSpecs, checked_values
from fxtio.uftrace.directory import is_file_name
from fxtio.uftrace.symbols import END, STACK, MapFile, Mapping, Symbol, SymbolFile
from fxtio.uftrace.tasks import check_text

_FIRST_BASE = 0x40_0000
FUNCTION_SIZE = 16
"""The size of every function of a new trace in bytes."""

_PAGE = 4096
_MODULE_DISTANCE = 0x1000_0000
_STACK = {8: (0x7FFE_0000_0000, 0x7FFF_0000_0000), 4: (0xBF00_0000, 0xBFFF_F000)}


@dataclass(frozen=True, slots=True)
class NewFunction:
    """A function that can be called in a new trace.

    Attributes:
        name: the name.
        address: the first address in memory.
        arguments: the specifications of its arguments.
        returns: the specification of its return value.
    """

    name: str
    address: int
    arguments: ValueSpecs
    returns: ValueSpecs


@dataclass(slots=True)
class NewModule:
    """A program or library of a new trace.

    Attributes:
        path: the path of its file.
        base: its first address.
        symbols: its functions.
    """

    path: str
    base: int
    symbols: list[Symbol] = field(default_factory=list)

    @property
    def basename(self) -> str:
        """Return the last part of the path."""
        return self.path.rpartition("/")[2]

    @property
    def end(self) -> int:
        """Return the address after the module."""
        return self.base + (len(self.symbols) + 1) * FUNCTION_SIZE // _PAGE * _PAGE + _PAGE


class Program:
    """The modules and functions of a new trace.

    Args:
        path: the path of the program.
        pointer_size: the size of an address in bytes: 4 or 8.

    Attributes:
        path: the path of the program.
        specs: the specifications of arguments and return values, by function.
    """

    def __init__(self, path: str, pointer_size: int) -> None:
        self.path = path
        self.specs: dict[str, tuple[ValueSpecs, ValueSpecs]] = {}
        self._pointer_size = pointer_size
        self._functions: dict[tuple[str, str], NewFunction] = {}
        self._modules: dict[str, NewModule] = {}
        self.module(path)

    @property
    def modules(self) -> list[NewModule]:
        """Return the modules, the program first."""
        return list(self._modules.values())

    def module(self, path: str) -> NewModule:
        """Return the module with a path, which is added if it is new.

        Raises:
            EncodeError: the path cannot be written in a map, or another module has the same base name.
        """
        if path not in self._modules:
            check_text(path, "module")
            base = path.rpartition("/")[2]
            if not is_file_name(base) or any(character.isspace() for character in path):
                message = f"{path!r} cannot be the path of a module; it needs a file name and no spaces"
                raise EncodeError(message, "module")
            if any(module.basename == base for module in self.modules):
                raise EncodeError(f"another module has the file name {base!r}", "module")
            self._modules[path] = NewModule(path, _FIRST_BASE + len(self._modules) * _MODULE_DISTANCE)
        return self._modules[path]

    def function(
        self, name: str, arguments: str = "", returns: str = "", kind: str = "T", module: str = ""
    ) -> NewFunction:
        """Return the function with a name, which is added if it is new.

        Raises:
            EncodeError: the name or a specification cannot be written, or the function has other specifications.
        """
        path = module or self.path
        function = self._functions.get((path, name))
        specs = checked_values(arguments, self._pointer_size), checked_values(returns, self._pointer_size)
        if function is not None:
            if any(specs) and specs != (function.arguments, function.returns):
                raise EncodeError("the function was declared with other arguments before", name)
            return function
        if not check_text(name, "function") or "\t" in name:
            raise EncodeError("the name of a function must not be empty or contain a tab", repr(name))
        self._check(name, *specs)
        owner = self.module(path)
        offset = len(owner.symbols) * FUNCTION_SIZE
        owner.symbols.append(Symbol(offset, name, kind))
        function = self._functions[path, name] = NewFunction(name, owner.base + offset, *specs)
        if any(specs):
            self.specs[name] = specs
        return function

    def _check(self, name: str, arguments: ValueSpecs, returns: ValueSpecs) -> None:
        if not (arguments or returns):
            return
        if any(character in name for character in ";@,") or name in self.specs:
            raise EncodeError("the name of a function with arguments must be unique and without ; @ and comma", name)
        if any(value.kind == "retval" for value in arguments) or any(value.kind != "retval" for value in returns):
            raise EncodeError("arguments are specified by arg1, fparg1 and so on, a return value by retval", name)
        slots = [value.slot for value in (*arguments, *returns)]
        if len(set(slots)) < len(slots):
            raise EncodeError("a value is specified twice", name)

    @property
    def needs_registers(self) -> bool:
        """Return whether a specification names a register, for which readers need the type of the processor."""
        values: list[ValueSpec] = [value for pair in self.specs.values() for specs in pair for value in specs]
        return any(value.place and not value.place.startswith("%stack") for value in values)

    def spec_lines(self) -> list[str]:
        """Return the lines of the argument block of the info file."""
        lines = []
        for key, number in (("argspec", 0), ("retspec", 1)):
            specs = [f"{name}@{','.join(map(str, pair[number]))}" for name, pair in self.specs.items() if pair[number]]
            lines += [f"{key}:{';'.join(specs)}"] if specs else []
        return [f"argspec:lines={len(lines)}", *lines]

    def map_file(self) -> MapFile:
        """Return the map, with a stack, without which uftrace does not look up names."""
        mappings = [Mapping(module.base, module.end, path=module.path) for module in self.modules]
        begin, end = _STACK[self._pointer_size]
        return MapFile.of([*mappings, Mapping(begin, end, "rw-p", path=STACK)])

    def symbol_files(self, *, sized: bool) -> dict[str, SymbolFile]:
        """Return the symbol files by name.

        Args:
            sized: write the sizes of symbols, as uftrace 0.14 and later do; 0.13 cannot read them.
        """
        files = {}
        for module in self.modules:
            symbols = module.symbols
            if sized:
                symbols = [Symbol(s.address, s.name, s.type, FUNCTION_SIZE) for s in symbols]
            else:
                symbols = [*symbols, Symbol(len(symbols) * FUNCTION_SIZE, "__sym_end", END)]
            files[f"{module.basename}.sym"] = SymbolFile.of(symbols)
        return files
