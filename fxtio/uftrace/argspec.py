"""Argument specifications: what a payload holds, by function.

They stand in the info file (what the user asked for, and prototypes of well-known functions) and in `.dbg` files (what
the debug information says).  `Specs` gathers them, and tells for a function what its payloads hold.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal

from fxtio.errors import EncodeError
from fxtio.finding import Findings, Level
from fxtio.uftrace.debug import DebugFile
from fxtio.uftrace.demangle import available, is_mangled, simple_name
from fxtio.uftrace.info import InfoFile
from fxtio.uftrace.patterns import BadPatternError, Names, is_exact, matcher
from fxtio.uftrace.symbols import PLT, Symbol

Kind = Literal["arg", "fparg", "retval"]

_ITEM = re.compile(
    r"(?:(arg|fparg)([0-9]{1,4})|(retval))"  # which one
    r"(?:/(?:t([0-9]{1,5})(?::([^%]*))?|e:([^%]*)|([diuxoscpSf])([0-9]{1,2})?|([0-9]{1,2})))?"  # what it is
    r"(%.+)?"  # where it was
)
_SIZES = (1, 2, 4, 8)
_FLOAT_SIZES = (4, 8, 10)
LONGEST = 1020
"""The most bytes of a payload that uftrace records."""


@dataclass(frozen=True, slots=True)
class Value:
    """One value of a payload.

    Attributes:
        kind: an argument, an argument in a floating-point register, or the return value.
        index: which one, from 1; 0 for the return value.
        format: how it is to be shown: `d` (any integer), `i`, `u`, `x`, `o`, `c` (a character), `p` (a pointer), `e`
            (an enumeration), `f`, `s`, `S` (a C++ string), `t` (a structure).
        size: in bytes; 0 for a string, which tells its length itself.
        type: the name of the enumeration or structure, or empty.
        place: where the recorder took it from, such as `%rdi` or `%stack+1`, or empty.
    """

    kind: Kind
    index: int
    format: str = "d"
    size: int = 8
    type: str = ""
    place: str = ""

    @property
    def label(self) -> str:
        """Such as `arg1`."""
        return self.kind if self.kind == "retval" else f"{self.kind}{self.index}"

    @property
    def slot(self) -> tuple[str, object]:
        """What two specifications of the same value have in common."""
        if self.place:
            return ("place", self.place.lower().replace("+", ""))
        return (self.kind, self.index)

    @property
    def is_text(self) -> bool:
        """Whether it is a string."""
        return self.format in "sS"

    def __str__(self) -> str:
        if self.format == "t":
            form = f"/t{self.size}" + (f":{self.type}" if self.type else "")
        elif self.format == "e":
            form = f"/e:{self.type}"
        elif self.is_text or self.format in "cp":
            form = f"/{self.format}"
        elif self.kind == "fparg":
            form = f"/{self.size * 8}"
        else:
            form = f"/{self.format}{self.size * 8}"
        return f"{self.label}{form}{self.place}"


Values = tuple[Value, ...]

_ENUM = re.compile(r"enum\s+([\w:]+)\s*$")
_LONGEST_NAME = 300
_LONGEST_COMMAND = 1 << 16
MOST_PATTERNS = 256
"""The most patterns of a trace that are looked at."""

MOST_WORK = 300_000_000
"""How many states of patterns may be looked at, at the worst; hostile ones could keep us busy for ages."""


def parse_value(text: str, pointer_size: int) -> Value | None:
    """The value that a specification describes, or None if it is none."""
    found = _ITEM.fullmatch(text)
    if not found:
        return None
    kind, index, retval, struct_size, struct_type, enum, letter, bits, float_bits, place = found.groups()
    name: Kind = "retval" if retval else "fparg" if kind == "fparg" else "arg"
    form, size, type_name = "d", pointer_size, ""
    if name == "fparg":
        form, size = "f", 8
    if struct_size is not None:
        form, size, type_name = "t", int(struct_size), struct_type or ""
    elif enum is not None:
        form, type_name = "e", enum
    elif letter is not None:
        form = letter
        size = {"s": 0, "S": 0, "c": 1, "f": 8}.get(letter, pointer_size)
    width = bits or float_bits
    if width is not None and form not in "sScpet":
        size = int(width) // 8
        if int(width) % 8 or size not in (_FLOAT_SIZES if form == "f" else _SIZES):
            return None
    if form == "t" and size > LONGEST:
        return None
    return Value(name, int(index or 0), form, size, type_name, place or "")


@dataclass(frozen=True, slots=True)
class Rule:
    """One specification of the info file.

    Attributes:
        text: the function's name or pattern.
        matches: whether a name is meant.
        exact: whether it is a name.
        module: the module that it is limited to, or empty.
        values: what it says; none for an automatic one.
    """

    text: str
    matches: Names
    exact: bool
    module: str
    values: Values


def parse_rules(text: str, kind: str, pointer_size: int, findings: Findings) -> list[Rule]:
    """The specifications of one line of the info file."""
    rules = []
    for one in filter(None, text.split(";")):
        name, _, rest = one.partition("@")
        values, module = [], ""
        for item in filter(None, rest.split(",")):
            value = parse_value(item, pointer_size)
            if value is not None:
                values.append(value)
            elif item.startswith(("arg", "fparg", "retval")):
                told = f"the argument specification {item!r} of {name!r} is not understood"
                findings.add("argspec", 0, told, level=Level.WARNING, file="info")
            elif "=" not in item and "/" not in item:
                module = item
        try:
            matches = matcher(name, kind)
        except BadPatternError as error:
            findings.add("argspec-pattern", 0, f"{name!r}: {error}", level=Level.WARNING, file="info")
            continue
        rules.append(Rule(name, matches, is_exact(name) or kind == "simple", module, tuple(values)))
    return rules


def parse_enums(texts: Iterable[str]) -> dict[str, dict[int, str]]:
    """Enumerations by name: the names of their values."""
    found: dict[str, dict[int, str]] = {}
    for piece in ";".join(texts).split("}")[:-1]:
        head, _, body = piece.rpartition("{")
        name = _ENUM.search(head[-_LONGEST_NAME:])
        if not name:
            continue
        values: dict[int, str] = {}
        number = 0
        for item in filter(None, (part.strip() for part in body.split(","))):
            label, equal, given = (part.strip() for part in item.partition("="))
            if equal and re.fullmatch(r"-?(0x[0-9a-fA-F]{1,16}|[0-9]{1,19})", given):
                number = int(given, 0) if not given.lstrip("-0").isdecimal() else int(given)
            values.setdefault(number, label)
            number += 1
        found[name[1]] = values
    return found


@dataclass(slots=True)
class _Slots:
    """The values of one function, in the order in which they were first named."""

    values: dict[tuple[str, object], tuple[Value, bool]] = field(default_factory=dict)

    def add(self, value: Value, exact: bool) -> None:
        known = self.values.get(value.slot)
        if known is None:
            self.values[value.slot] = value, exact
        elif exact or not known[1]:
            self.values[value.slot] = replace(value, index=known[0].index, kind=known[0].kind), exact


class Specs:
    """What the payloads of a trace hold.

    Args:
        info: the info file.
        findings: where faults go.
    """

    def __init__(self, info: InfoFile, findings: Findings) -> None:
        self._pointer_size = info.pointer_size
        self._findings = findings
        self._told_missing = False
        kind = info.get("pattern_type") or "regex"

        def rules(key: str, kind: str = "simple") -> list[Rule]:
            return [rule for text in info.specs(key) for rule in parse_rules(text, kind, info.pointer_size, findings)]

        self._rules = rules("argspec", kind) + rules("retspec", kind) + self._lost_formats(info, kind)
        prototypes = rules("argauto") + rules("retauto")
        self._prototypes: dict[str, Values] = {}
        for rule in prototypes:
            name = simple_name(rule.text)
            self._prototypes[name] = self._prototypes.get(name, ()) + rule.values
        self._automatic = bool(info.specs("auto-args"))
        self._enums = parse_enums(info.specs("enumauto"))
        self._debug_enums: dict[int, dict[str, dict[int, str]]] = {}
        self._by_name = any(not rule.exact or not is_mangled(rule.text) for rule in self._rules)
        self._exact: dict[str, list[int]] = {}
        self._patterns = [number for number, rule in enumerate(self._rules) if not rule.exact]
        for number, rule in enumerate(self._rules):
            if rule.exact:
                self._exact.setdefault(rule.text, []).append(number)
        self._work = 0
        if len(self._patterns) > MOST_PATTERNS:
            told = f"{len(self._patterns):,} patterns; the first {MOST_PATTERNS} are looked at"
            findings.add("argspec-work", 0, told, file="info")
            del self._patterns[MOST_PATTERNS:]

    def _lost_formats(self, info: InfoFile, kind: str) -> list[Rule]:
        """Return values of triggers: uftrace does not save their formats, but the command line has them."""
        try:
            words = shlex.split((info.get("cmdline") or "")[:_LONGEST_COMMAND])
        except ValueError:
            return []
        triggers = [b for a, b in pairwise(words) if a in ("-T", "--trigger")]
        triggers += [word.removeprefix("--trigger=") for word in words if word.startswith("--trigger=")]
        quiet = Findings()
        found = [rule for text in triggers for rule in parse_rules(text, kind, self._pointer_size, quiet)]
        kept = [replace(rule, values=tuple(v for v in rule.values if v.kind == "retval")) for rule in found]
        return [rule for rule in kept if rule.values]

    @property
    def nothing(self) -> bool:
        """Whether no function has any."""
        return not self._rules and not self._automatic

    def of(self, symbol: Symbol, module: str, debug: DebugFile | None) -> tuple[Values, Values]:
        """What the payloads of a function's entries and exits hold."""
        if self.nothing:
            return (), ()
        name = self._name(symbol, debug)
        arguments, returns, automatic = _Slots(), _Slots(), self._automatic
        for rule in self._matching({name, symbol.name}):
            if rule.module and not _is_module(rule.module, symbol, module):
                continue
            automatic = automatic or not rule.values
            for value in rule.values:
                (returns if value.kind == "retval" else arguments).add(value, rule.exact)
        found = [tuple(value for value, _ in slots.values.values()) for slots in (arguments, returns)]
        if automatic and not all(found):
            told = self._automatic_values(symbol, name, debug)
            found[0] = found[0] or tuple(value for value in told if value.kind != "retval")
            found[1] = found[1] or tuple(value for value in told if value.kind == "retval")
        return found[0], found[1]

    def enum(self, name: str, debug: DebugFile | None) -> dict[int, str]:
        """The names of an enumeration's values: of the module, else of the prototypes."""
        if debug is not None:
            if id(debug) not in self._debug_enums:
                self._debug_enums[id(debug)] = parse_enums(debug.enums)
            known = self._debug_enums[id(debug)].get(name)
            if known is not None:
                return known
        return self._enums.get(name, {})

    def _matching(self, names: set[str]) -> list[Rule]:
        """The rules that mean one of the names, in order."""
        found = {number for name in names for number in self._exact.get(name, ())}
        for number in self._patterns:
            self._work += sum(map(len, names)) * (len(self._rules[number].text) + 1)
            if self._work > MOST_WORK:
                self._patterns = []
                told = "the patterns take too long; payloads that they tell of are kept as they are"
                self._findings.add("argspec-work", 0, told, file="info")
                break
            if any(map(self._rules[number].matches, names)):
                found.add(number)
        return [self._rules[number] for number in sorted(found)]

    def _automatic_values(self, symbol: Symbol, name: str, debug: DebugFile | None) -> Values:
        known = debug.functions.get(symbol.address) if debug is not None and symbol.type != PLT else None
        if known is not None:
            items = [item for text in (known.arguments, known.returns) for item in _split(text)]
            values = [parse_value(item, self._pointer_size) for item in items]
            return tuple(value for value in values if value is not None)
        return self._prototypes.get(name, self._prototypes.get(symbol.name, ()))

    def _name(self, symbol: Symbol, debug: DebugFile | None) -> str:
        if not is_mangled(symbol.name):
            return symbol.name
        known = debug.functions.get(symbol.address) if debug is not None else None
        if not available() and known is not None:
            return known.name
        if not available() and not self._told_missing and self._by_name and self._rules:
            self._told_missing = True
            told = "C++ names cannot be matched with argument specifications; install the extra 'demangle'"
            self._findings.add("no-demangler", 0, told, level=Level.WARNING, file="info")
        return simple_name(symbol.name)


def _split(text: str) -> list[str]:
    """The items of a `.dbg` line; a structure's name may hold commas in template arguments."""
    items: list[str] = []
    for part in filter(None, text.split(",")):
        starts = part.removeprefix("@").startswith(("arg", "fparg", "retval"))
        if starts or not items:
            items.append(part.removeprefix("@"))
        else:
            items[-1] += "," + part
    return items


def _is_module(wanted: str, symbol: Symbol, module: str) -> bool:
    if wanted.upper() == "PLT":
        return symbol.type == PLT
    return module.rpartition("/")[2].startswith(wanted)


def checked_values(text: str, pointer_size: int) -> Values:
    """What a specification such as `arg1/i32,arg2/s` says, for writing.

    Raises:
        EncodeError: it is not understood.
    """
    made = []
    for item in filter(None, text.split(",")):
        value = parse_value(item.strip(), pointer_size)
        if value is None:
            raise EncodeError(f"{item!r} is no specification such as arg1/i32, fparg1/64, arg2/s or retval/x64")
        made.append(value)
    return tuple(made)
