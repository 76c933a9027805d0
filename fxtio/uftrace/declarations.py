"""The program of a new trace: its modules, its functions and variables, and their addresses in memory."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from fxtio.codec.integers import MAX_INT32, checked_integer
from fxtio.errors import EncodeError
from fxtio.uftrace.argspec import ValueSpecs, checked_values
from fxtio.uftrace.directory import is_file_name
from fxtio.uftrace.events import MAX_VARIABLE
from fxtio.uftrace.symbols import DATA, END, PLT, STACK, DebugFile, DebugFunction, MapFile, Symbol, SymbolFile
from fxtio.uftrace.symbols import Mapping as MemoryMapping
from fxtio.uftrace.tasks import check_text

_FIRST_BASE = 0x40_0000
FUNCTION_SIZE = 16
"""The size of every function of a new trace in bytes."""

_PAGE = 4096
_MODULE_DISTANCE = 0x1000_0000
_MAX_SYMBOLS = (_MODULE_DISTANCE - 2 * _PAGE) // FUNCTION_SIZE
_STACK = {8: (0x7FFE_0000_0000, 0x7FFF_0000_0000), 4: (0xBF00_0000, 0xBFFF_F000)}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,200}")

Role = Literal["program", "library", "loaded"]
"""How a module comes into memory: as the program of a session; with every program; or by `dlopen`."""


@dataclass(frozen=True, slots=True)
class NewFunction:
    """A function that can be called in a new trace.

    Attributes:
        name: the name.
        address: the first address in memory.
        arguments: the specifications of its arguments.
        returns: the specification of its return value.
        module: the path of its module.
    """

    name: str
    address: int
    arguments: ValueSpecs
    returns: ValueSpecs
    module: str = ""


@dataclass(frozen=True, slots=True)
class NewVariable:
    """A variable whose changes can be written to a new trace.

    Attributes:
        name: the name.
        address: the address in memory.
        size: the size in bytes.
    """

    name: str
    address: int
    size: int


@dataclass(slots=True)
class NewModule:
    """A program or library of a new trace.

    Attributes:
        path: the path of its file.
        base: its first address.
        role: how it comes into memory.
        symbols: its functions and variables.
        debug: the places of functions in source files.
    """

    path: str
    base: int
    role: Role
    symbols: list[Symbol] = field(default_factory=list)
    debug: dict[str, DebugFunction] = field(default_factory=dict)

    @property
    def basename(self) -> str:
        """Return the last part of the path."""
        return self.path.rpartition("/")[2]

    @property
    def end(self) -> int:
        """Return the address after the module."""
        return self.base + (len(self.symbols) + 1) * FUNCTION_SIZE // _PAGE * _PAGE + _PAGE

    def add(self, name: str, kind: str) -> int:
        """Append a symbol, and return its address."""
        offset = len(self.symbols) * FUNCTION_SIZE
        self.symbols.append(Symbol(offset, name, kind))
        return self.base + offset


class Declarations:
    """The modules and functions of a new trace.

    Methods raise `EncodeError`, and change nothing, if a value cannot be written or contradicts what is there.

    Args:
        path: the path of the program.
        pointer_size: the size of an address in bytes: 4 or 8.

    Attributes:
        modules: the modules by path, the program first.
        functions: the functions by module and name.
        specs: the specifications of arguments and return values, by function.
        enums: the values of enumerations by their names, by enumeration.
    """

    def __init__(self, path: str, pointer_size: int) -> None:
        self.path = path
        self.specs: dict[str, tuple[ValueSpecs, ValueSpecs]] = {}
        self.enums: dict[str, dict[str, int]] = {}
        self.pointer_size = pointer_size
        self.functions: dict[tuple[str, str], NewFunction] = {}
        self._variables: dict[tuple[str, str], NewVariable] = {}
        self.modules: dict[str, NewModule] = {}
        self.add_module(path, "program")

    def check_module(self, path: str, role: Role) -> None:
        """Raise `EncodeError` if a module cannot be used in a role."""
        check_text(path, "module")
        module = self.modules.get(path)
        if module is not None:
            if module.role != role:
                raise EncodeError(f"{path!r} is used as {module.role} before", "module")
            return
        base = path.rpartition("/")[2]
        if not base or not is_file_name(f"{base}.sym") or any(character.isspace() for character in path):
            message = f"{path!r} cannot be the path of a module; it needs a file name and no spaces"
            raise EncodeError(message, "module")
        if any(module.basename == base for module in self.modules.values()):
            raise EncodeError(f"another module has the file name {base!r}", "module")
        if self._next_base() + _MODULE_DISTANCE > _STACK[self.pointer_size][0]:
            raise EncodeError(f"there is no address left for {path!r}", "module")

    def _next_base(self) -> int:
        return _FIRST_BASE + len(self.modules) * _MODULE_DISTANCE

    def add_module(self, path: str, role: Role) -> NewModule:
        """Return the module with a path, which is added if it is new."""
        self.check_module(path, role)
        return self.modules.setdefault(path, NewModule(path, self._next_base(), role))

    def function(
        self, name: str, arguments: str = "", returns: str = "", *, library: bool = False, module: str = "",
        source: str = "", line: int | None = None,
    ) -> NewFunction:  # fmt: skip
        """Return the function with a name, which is added if it is new, with its place in a source file."""
        path = module or self.path
        self.check_function(name, arguments, returns, path)
        if line is not None or source:
            self._check_place(name, path, source, line or 0)
        function = self.functions.get((path, name))
        owner = self.modules.get(path) or self.add_module(path, "library")
        if function is None:
            specs = checked_values(arguments, self.pointer_size), checked_values(returns, self.pointer_size)
            address = owner.add(name, PLT if library else "T")
            function = self.functions[path, name] = NewFunction(name, address, *specs, path)
            self.specs |= {name: specs} if any(specs) else {}
        if line is not None:
            place = DebugFunction(function.address - owner.base, name, line=int(line), source=source)
            owner.debug.setdefault(name, place)
        return function

    def specify(self, function: NewFunction, arguments: str = "", returns: str = "") -> NewFunction:
        """Add specifications to a function that has none of their kind, and return the function with them."""
        declared = self.functions[function.module, function.name]
        specs = checked_values(arguments, self.pointer_size), checked_values(returns, self.pointer_size)
        for new, old in zip(specs, (declared.arguments, declared.returns), strict=True):
            if new and old and new != old:
                raise EncodeError("the function was declared with other arguments before", function.name)
        whole = specs[0] or declared.arguments, specs[1] or declared.returns
        if whole == (declared.arguments, declared.returns):
            return declared
        if function.name not in self.specs:
            self._check_specs(function.name, *whole)
        elif not (declared.arguments or declared.returns):
            raise EncodeError("a function of this name in another module has arguments", function.name)
        else:
            _check_kinds(function.name, *whole)
        changed = replace(declared, arguments=whole[0], returns=whole[1])
        self.functions[function.module, function.name] = changed
        self.specs[function.name] = whole
        return changed

    def _check_place(self, name: str, path: str, source: str, line: int) -> None:
        """Raise `EncodeError` if a function cannot have a place in a source file."""
        number = checked_integer(line, "line", 1, MAX_INT32)
        if not check_text(source, "source"):
            raise EncodeError("a line needs a source file", "source")
        module = self.modules.get(path)
        declared = module.debug.get(name) if module is not None else None
        if declared is not None and (declared.source, declared.line) != (source, number):
            raise EncodeError(f"the function was declared at {declared.source}:{declared.line}", name)

    def owns(self, function: NewFunction) -> bool:
        """Return whether a function was declared here."""
        try:
            return self.functions.get((function.module, function.name)) is function
        except (AttributeError, TypeError):  # no function, or one that was made by hand
            return False

    def check_function(self, name: str, arguments: str = "", returns: str = "", module: str = "") -> None:
        """Raise `EncodeError` if a function cannot be declared."""
        self._check_symbol(name, module)
        specs = checked_values(arguments, self.pointer_size), checked_values(returns, self.pointer_size)
        declared = self.functions.get((module or self.path, name))
        if declared is None:
            self._check_specs(name, *specs)
        elif any(specs) and specs != (declared.arguments, declared.returns):
            raise EncodeError("the function was declared with other arguments before", name)

    def _check_symbol(self, name: str, module: str) -> None:
        """Raise `EncodeError` if a symbol of a module cannot have a name."""
        if not check_text(name, "name") or "\t" in name:
            raise EncodeError("the name of a function or variable must not be empty or contain a tab", repr(name))
        check_text(module, "module")
        owner = self.modules.get(module or self.path)
        if owner is None:
            self.check_module(module, "library")
        elif len(owner.symbols) >= _MAX_SYMBOLS:
            raise EncodeError(f"a module has at most {_MAX_SYMBOLS:,} functions", name)

    def _check_specs(self, name: str, arguments: ValueSpecs, returns: ValueSpecs) -> None:
        if not (arguments or returns):
            return
        if any(character in name for character in ";@,") or name in self.specs:
            raise EncodeError("the name of a function with arguments must be unique and without ; @ and comma", name)
        _check_kinds(name, arguments, returns)

    def variable(self, name: str, size: int, module: str = "") -> NewVariable:
        """Return the variable with a name, which is added if it is new."""
        self._check_symbol(name, module)
        size = checked_integer(size, f"size of {name}", 1, MAX_VARIABLE)
        path = module or self.path
        variable = self._variables.get((path, name))
        if variable is None:
            owner = self.modules.get(path) or self.add_module(path, "library")
            variable = self._variables[path, name] = NewVariable(name, owner.add(name, DATA), size)
        elif variable.size != size:
            raise EncodeError(f"the variable was declared with the size {variable.size}", name)
        return variable

    def enum(self, name: str, values: Mapping[str, int]) -> None:
        """Declare an enumeration."""
        self.check_enum(name, values)
        self.enums.setdefault(name, {label: int(value) for label, value in values.items()})

    def check_enum(self, name: str, values: Mapping[str, int]) -> None:
        """Raise `EncodeError` if an enumeration cannot be declared."""
        try:
            labels = [*values.keys()]
        except AttributeError:
            labels = []
        if not labels:
            raise EncodeError("an enumeration needs values by their names", "enum")
        for text in (name, *labels):
            if not _NAME.fullmatch(check_text(text, "enum")):
                raise EncodeError(f"{text!r} is not a name of letters, digits and underscores", "enum")
        limit = 1 << 8 * self.pointer_size - 1
        for label, value in values.items():
            checked_integer(value, f"{name}.{label}", -limit, limit - 1)
        if len(set(values.values())) < len(values):
            raise EncodeError("two names have the same value", name)
        if self.enums.get(name, values) != values:
            raise EncodeError("the enumeration was declared with other values before", name)

    def numbers(self, specs: ValueSpecs, values: Sequence[Any]) -> Sequence[Any]:
        """Return values with numbers in place of the names of values of enumerations."""
        if not self.enums or len(specs) != len(values):
            return values
        numbers = list(values)
        for place, (spec, value) in enumerate(zip(specs, values, strict=True)):
            if spec.format == "e" and isinstance(value, str):
                names = self.enums.get(spec.type, {})
                if value not in names:
                    raise EncodeError(f"{value!r} is not a name of a value of {spec.type!r}", spec.label)
                numbers[place] = names[value]
        return numbers

    def spec_lines(self) -> list[str]:
        """Return the lines of the argument block of the info file."""
        lines = []
        for key, number in (("argspec", 0), ("retspec", 1)):
            specs = [f"{name}@{','.join(map(str, pair[number]))}" for name, pair in self.specs.items() if pair[number]]
            lines += [f"{key}:{';'.join(specs)}"] if specs else []
        texts = [
            f"enum {name} {{{','.join(f'{label}={value}' for label, value in values.items())}}}"
            for name, values in self.enums.items()
        ]
        lines += [f"enumauto:{';'.join(texts)}"] if texts else []
        return [f"argspec:lines={len(lines)}", *lines]

    def map_file(self, program: str) -> MapFile:
        """Return the map of a session, with a stack, without which uftrace does not look up names.

        Args:
            program: the program of the session.
        """
        modules = [module for module in self.modules.values() if module.path == program or module.role == "library"]
        mappings = [MemoryMapping(module.base, module.end, path=module.path) for module in modules]
        begin, end = _STACK[self.pointer_size]
        return MapFile([*mappings, MemoryMapping(begin, end, "rw-p", path=STACK)])

    def symbol_files(self, *, sized: bool) -> dict[str, SymbolFile | DebugFile]:
        """Return the files of symbols and of debug information by name.

        Args:
            sized: write the sizes of symbols, as uftrace 0.14 and later do; 0.13 cannot read them.
        """
        files: dict[str, SymbolFile | DebugFile] = {}
        for module in self.modules.values():
            symbols = module.symbols
            if sized:
                symbols = [Symbol(s.address, s.name, s.type, FUNCTION_SIZE) for s in symbols]
            else:
                symbols = [*symbols, Symbol(len(symbols) * FUNCTION_SIZE, "__sym_end", END)]
            files[f"{module.basename}.sym"] = SymbolFile(symbols)
            if module.debug:
                files[f"{module.basename}.dbg"] = DebugFile({each.address: each for each in module.debug.values()})
        return files


def _check_kinds(name: str, arguments: ValueSpecs, returns: ValueSpecs) -> None:
    """Raise `EncodeError` if specifications of a function do not stand where they belong."""
    if any(value.kind == "retval" for value in arguments) or any(value.kind != "retval" for value in returns):
        raise EncodeError("arguments are specified by arg1, fparg1 and so on, a return value by retval", name)
    slots = [value.slot for value in (*arguments, *returns)]
    if len(set(slots)) < len(slots):
        raise EncodeError("a value is specified twice", name)
