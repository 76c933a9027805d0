"""Argument specifications: the values in the payloads of a function's entry and exit records.

The info file has those that the user asked for, and prototypes of well-known functions; `.dbg` files have those of the
debug information.  `ArgumentSpecs` collects them, and returns the specifications that apply to a function.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, get_args

from fxtio.errors import EncodeError
from fxtio.finding import Findings
from fxtio.uftrace.demangle import HINT, available, is_mangled, simple_name
from fxtio.uftrace.directory import byte_size
from fxtio.uftrace.info import INFO_FILE, InfoFile
from fxtio.uftrace.patterns import BadPatternError, Pattern, is_name, pattern
from fxtio.uftrace.symbols import PLT, DebugFile, Symbol
from fxtio.uftrace.tasks import check_text

Kind = Literal["arg", "fparg", "retval"]

_ITEM = re.compile(
    r"(?:(arg|fparg)([0-9]{1,4})|(retval))"  # the argument
    r"(?:/(?:t([0-9]{1,5})(?::([^%]*))?|e:([^%]*)|([diuxoscpSf])([0-9]{1,2})?|([0-9]{1,2})))?"  # its format and size
    r"(%.+)?"  # its register or place on the stack
)
_KINDS = get_args(Kind)
_SIZES = (1, 2, 4, 8)
_FLOAT_SIZES = (4, 8, 10)
MAX_PAYLOAD = 1020
"""The largest number of bytes of a payload that uftrace records."""


@dataclass(frozen=True, slots=True)
class ValueSpec:
    """The specification of one value of a payload.

    Attributes:
        kind: an argument, an argument in a floating-point register, or the return value.
        index: the number of the argument, from 1; 0 for the return value.
        format: the letter of the format: `d` (any integer), `i`, `u`, `x`, `o`, `c` (a character), `p` (a pointer), `e`
            (an enumeration), `f`, `s`, `S` (a C++ string), `t` (a structure).
        size: the size in bytes; 0 for a string, whose length precedes it in the payload.
        type: the name of the enumeration or structure, or empty.
        place: the register or the place on the stack that it was read from, such as `%rdi` or `%stack+1`, or empty.
    """

    kind: Kind
    index: int
    format: str = "d"
    size: int = 8
    type: str = ""
    place: str = ""

    @property
    def label(self) -> str:
        """Return the name of the value, such as `arg1`."""
        return self.kind if self.kind == "retval" else f"{self.kind}{self.index}"

    @property
    def slot(self) -> tuple[str, object]:
        """Return a key that is equal for two specifications of the same value."""
        if self.place:
            return ("place", self.place.lower().replace("+", ""))
        return (self.kind, self.index)

    @property
    def in_register(self) -> bool:
        """Return whether a register is specified, for which readers need the type of the processor."""
        return bool(self.place) and not self.place.startswith("%stack")

    @property
    def is_text(self) -> bool:
        """Return whether the value is a string."""
        return self.format in "sS"

    def __str__(self) -> str:
        if self.format == "t":
            suffix = f"/t{self.size}" + (f":{self.type}" if self.type else "")
        elif self.format == "e":
            suffix = f"/e:{self.type}"
        elif self.is_text or self.format in "cp":
            suffix = f"/{self.format}"
        elif self.kind == "fparg":
            suffix = f"/{self.size * 8}"
        else:
            suffix = f"/{self.format}{self.size * 8}"
        return f"{self.label}{suffix}{self.place}"


ValueSpecs = tuple[ValueSpec, ...]

_ENUM = re.compile(r"enum\s+([\w:]+)\s*$")
_MAX_NAME = 300
_MAX_COMMAND = 1 << 16
MAX_VALUES = MAX_PAYLOAD // 4
"""The largest number of values of a function's arguments: those that fit in a payload, each with its padding."""

MAX_PATTERNS = 256
"""The largest number of patterns of a trace that are used."""

_MAX_PATTERN_TEXT = 1 << 14
"""The number of characters of all patterns from which on further patterns are not used."""

MAX_PATTERN_STEPS = 1_000_000_000
"""The largest number of steps that finding the specifications of functions may take in the worst case."""

_STEPS_PER_VALUE = 50
"""The steps of matching a pattern that take as long as a value of a specification."""


def parse_value(text: str, pointer_size: int) -> ValueSpec | None:
    """Return the value that a text such as `arg1/i32` specifies, or None if it is not a specification."""
    match = _ITEM.fullmatch(text)
    if not match:
        return None
    kind, index, retval, struct_size, struct_type, enum, letter, bits, float_bits, place = match.groups()
    name: Kind = "retval" if retval else "fparg" if kind == "fparg" else "arg"
    format_, size, type_name = "d", pointer_size, ""
    if name == "fparg":
        format_, size = "f", 8
    if struct_size is not None:
        format_, size, type_name = "t", int(struct_size), struct_type or ""
    elif enum is not None:
        format_, type_name = "e", enum
    elif letter is not None:
        format_ = letter
        size = {"s": 0, "S": 0, "c": 1, "f": 8}.get(letter, pointer_size)
    width = bits or float_bits
    if width is not None and format_ not in "sScpet":
        size = int(width) // 8
        if int(width) % 8 or size not in (_FLOAT_SIZES if format_ == "f" else _SIZES):
            return None
    if format_ == "t" and size > MAX_PAYLOAD:
        return None
    return ValueSpec(name, int(index or 0), format_, size, type_name, place or "")


@dataclass(frozen=True, slots=True)
class SpecRule:
    """One specification of the info file.

    Attributes:
        text: the name or pattern of functions.
        pattern: the pattern, or None if the text is a name.
        module: the module that the rule is limited to, or empty.
        values: the specified values; none if the values of the prototype or debug information are meant.
        place: the byte offset of the rule in the info file.
    """

    text: str
    pattern: Pattern | None
    module: str
    values: ValueSpecs
    place: int = 0


class _Parser:
    """Parses the specifications of a trace, of whose patterns it takes not too many.

    Args:
        pointer_size: the size in bytes of an address of the traced program.
        findings: receives faults.
    """

    def __init__(self, pointer_size: int, findings: Findings) -> None:
        self._pointer_size = pointer_size
        self._findings = findings
        self._patterns = self._size = 0  # those so far, and their characters
        self._is_full = False

    def rules(self, text: str, kind: str, place: int = 0) -> Iterator[SpecRule]:
        """Yield the specifications in one line of the info file.

        Args:
            text: the specifications.
            kind: the kind of their patterns: `regex`, `glob` or `simple`.
            place: the byte offset of the text in the info file.
        """
        for begin, spec in _placed_parts(text, ";", place):
            name, _, rest = spec.partition("@")
            is_pattern = kind != "simple" and not is_name(name)
            if is_pattern and not self._takes_pattern(name, begin):
                continue
            values, module = self._values(name, rest, begin + byte_size(name) + 1)
            try:
                compiled = pattern(name, kind) if is_pattern else None
            except BadPatternError as error:
                self._findings.add("argspec.pattern", begin, f"{name!r}: {error}", file=INFO_FILE)
                continue
            yield SpecRule(name, compiled, module, values, begin)

    def _takes_pattern(self, text: str, place: int) -> bool:
        """Return whether there is room for another pattern; report the first one for which there is none."""
        self._patterns += 1
        self._size += len(text)
        if self._patterns <= MAX_PATTERNS and self._size <= _MAX_PATTERN_TEXT:
            return True
        if not self._is_full:
            self._is_full = True
            message = f"the patterns are more than {MAX_PATTERNS} or too large; those from here on are not used"
            self._findings.add("argspec.too-much-work", place, message, file=INFO_FILE)
        return False

    def _values(self, name: str, text: str, place: int) -> tuple[ValueSpecs, str]:
        """Return the values and the module in a specification, which begin at a byte offset in the info file."""
        values, module = [], ""
        for at, item in _placed_parts(text, ",", place):
            value = parse_value(item, self._pointer_size)
            if value is not None:
                values.append(value)
            elif item.startswith(("arg", "fparg", "retval")):
                message = f"the argument specification {item!r} of {name!r} is invalid"
                self._findings.add("argspec.invalid", at, message, file=INFO_FILE)
            elif "=" not in item and "/" not in item:
                module = item
        return tuple(values), module


def _placed_parts(text: str, separator: str, place: int) -> Iterator[tuple[int, str]]:
    """Yield the byte offset and the text of each part that is not empty."""
    for part in text.split(separator):
        if part:
            yield place, part
        place += byte_size(part) + 1


EnumNames = dict[int, str]
"""The names of the values of an enumeration."""

MAX_FLAGS = 128
"""The largest number of values of an enumeration whose names are combined."""

_MAX_LABEL = 1000


def enum_label(names: EnumNames, value: int) -> str | None:
    """Return the name of a value of an enumeration, as uftrace shows it.

    Returns:
        The name; or the names of flags that add up to the value, joined by `|`, with a rest in hexadecimal; or None if
        there are no such names, or they are longer than 1,000 characters, or the enumeration has over 128 values.
    """
    if value in names:
        return names[value]
    if len(names) > MAX_FLAGS:
        return None
    labels, rest, size = [], value, 0
    for flag in sorted(names, reverse=True):
        if flag <= rest:
            labels.append(names[flag])
            size += len(names[flag])
            rest -= flag
        if rest == 0:
            break
    if not 0 < size <= _MAX_LABEL:
        return None
    return "|".join(labels) + (f"+{rest:#x}" if rest else "")


def parse_enums(texts: Iterable[str]) -> dict[str, EnumNames]:
    """Return the enumerations in some texts: by name, the names of their values."""
    enums: dict[str, EnumNames] = {}
    for text in ";".join(texts).split("}")[:-1]:
        head, _, body = text.rpartition("{")
        name = _ENUM.search(head[-_MAX_NAME:])
        if not name:
            continue
        values: EnumNames = {}
        number = 0
        for item in filter(None, (part.strip() for part in body.split(","))):
            label, equal, digits = (part.strip() for part in item.partition("="))
            if equal and re.fullmatch(r"-?(0x[0-9a-fA-F]{1,16}|[0-9]{1,19})", digits):
                number = int(digits, 0) if not digits.lstrip("-0").isdecimal() else int(digits)
            values[number] = label  # of several names, uftrace shows the last one
            number += 1
        enums.setdefault(name[1], values)
    return enums


_Slots = dict[tuple[str, object], tuple[ValueSpec, bool]]
"""The values of the entries or exits of a function by their slots, and whether a name, not a pattern, has each."""


def _add(slots: _Slots, value: ValueSpec, exact: bool) -> None:
    """Add a value in place of that in its slot; one that only a pattern has replaces none that a name has."""
    previous = slots.get(value.slot)
    if previous is None:
        slots[value.slot] = value, exact
    elif exact or not previous[1]:
        slots[value.slot] = replace(value, index=previous[0].index, kind=previous[0].kind), exact


class ArgumentSpecs:
    """The argument specifications of a trace.

    Args:
        info: the info file.
        findings: receives the faults in the specifications, also those that are met later.

    Attributes:
        saved: the specifications that the info file has.
        triggers: the return values of triggers, whose formats uftrace saves nowhere but in the command line.
    """

    def __init__(self, info: InfoFile, findings: Findings) -> None:
        self._pointer_size = info.pointer_size
        self._findings = findings
        self._warned = False
        kind = info.get("pattern_type") or "regex"
        parser = _Parser(info.pointer_size, findings)

        def rules(key: str, kind: str = "simple") -> list[SpecRule]:
            return [rule for place, text in info.placed_specs(key) for rule in parser.rules(text, kind, place)]

        self.saved = rules("argspec", kind) + rules("retspec", kind)
        self.triggers = self._trigger_rules(info, kind)
        self._rules = self.saved + self.triggers
        self._prototypes: dict[str, list[ValueSpec]] = {}
        for rule in rules("argauto") + rules("retauto"):
            self._prototypes.setdefault(simple_name(rule.text), []).extend(rule.values)
        automatic = info.placed_specs("auto-args")
        self._automatic, self._place = bool(automatic), automatic[0][0] if automatic else 0
        self._enums = parse_enums(info.specs("enumauto"))
        self._debug_enums: dict[int, dict[str, EnumNames]] = {}
        self._by_name = any(rule.pattern or not is_mangled(rule.text) for rule in self._rules)
        self._exact: dict[str, list[int]] = {}
        self._patterns: list[tuple[int, Pattern]] = []
        for number, rule in enumerate(self._rules):
            if rule.pattern:
                self._patterns.append((number, rule.pattern))
            else:
                self._exact.setdefault(rule.text, []).append(number)
        self._steps_left = MAX_PATTERN_STEPS

    def _trigger_rules(self, info: InfoFile, kind: str) -> list[SpecRule]:
        """Return the return values of the triggers in the command line."""
        try:
            words = shlex.split((info.get("cmdline") or "")[:_MAX_COMMAND])
        except ValueError:
            return []
        triggers = [b for a, b in pairwise(words) if a in ("-T", "--trigger")]
        triggers += [word.removeprefix("--trigger=") for word in words if word.startswith("--trigger=")]
        # A command line may have any text, so what is no specification in it is no fault.
        parser = _Parser(self._pointer_size, Findings("uftrace"))
        rules = [rule for text in triggers for rule in parser.rules(text, kind)]
        returns = [replace(rule, values=tuple(v for v in rule.values if v.kind == "retval")) for rule in rules]
        return [rule for rule in returns if rule.values]

    def of(self, symbol: Symbol, module: str, debug: DebugFile | None) -> tuple[ValueSpecs, ValueSpecs]:
        """Return the specifications of a function's arguments and of its return value.

        Args:
            symbol: the symbol of the function.
            module: the path of its module.
            debug: the debug information of the module, if there is any.
        """
        if not (self._rules or self._automatic) or self._steps_left < 0:
            return (), ()
        name = self._name(symbol, debug)
        automatic, place = self._automatic, self._place
        arguments: _Slots = {}
        returns: _Slots = {}
        for rule in self._matching({name, symbol.name}):
            is_plt = rule.module.upper() == "PLT"
            if not (symbol.type == PLT if is_plt else module.rpartition("/")[2].startswith(rule.module)):
                continue  # the rule is about another module
            automatic, place = automatic or not rule.values, rule.place
            for value in rule.values:
                _add(returns if value.kind == "retval" else arguments, value, rule.pattern is None)
        specs = [tuple(value for value, _ in slots.values()) for slots in (arguments, returns)]
        if automatic and not all(specs):
            values = self._automatic_values(symbol, name, debug)
            if self._takes_steps(_STEPS_PER_VALUE * len(values), place):
                specs[0] = specs[0] or tuple(value for value in values if value.kind != "retval")
                specs[1] = specs[1] or tuple(value for value in values if value.kind == "retval")
        if (most := max(map(len, specs))) > MAX_VALUES:
            message = f"{name[:60]!r} has {most:,} values, more than a payload can hold; its payloads are not decoded"
            self._findings.add("argspec.invalid", place, message, file=INFO_FILE)
            return (), ()
        return specs[0], specs[1]

    def enum(self, name: str, debug: DebugFile | None) -> EnumNames:
        """Return the names of the values of an enumeration, of the module or else of the prototypes."""
        if debug is not None:
            if id(debug) not in self._debug_enums:
                self._debug_enums[id(debug)] = parse_enums(debug.enums)
            values = self._debug_enums[id(debug)].get(name)
            if values is not None:
                return values
        return self._enums.get(name, {})

    def _matching(self, names: set[str]) -> list[SpecRule]:
        """Return the rules that match one of the names, in the order of the file."""
        numbers = {number for name in names for number in self._exact.get(name, ())}
        for number, each in self._patterns:
            steps = sum(map(each.steps, names))
            if self._takes_steps(steps, self._rules[number].place) and any(map(each.matches, names)):
                numbers.add(number)
        rules = [self._rules[number] for number in sorted(numbers)]
        costs = [(_STEPS_PER_VALUE * (1 + len(rule.values)), rule.place) for rule in rules]
        return rules if all(self._takes_steps(*cost) for cost in costs) else []

    def _takes_steps(self, count: int, place: int) -> bool:
        """Return whether this many steps more may be taken; report the first ones that may not, at a byte offset."""
        before = self._steps_left
        self._steps_left -= count
        if self._steps_left < 0 <= before:
            message = "finding the specifications takes too long; payloads of further functions are not decoded"
            self._findings.add("argspec.too-much-work", place, message, file=INFO_FILE)
        return self._steps_left >= 0

    def _automatic_values(self, symbol: Symbol, name: str, debug: DebugFile | None) -> Sequence[ValueSpec]:
        function = debug.functions.get(symbol.address) if debug is not None and symbol.type != PLT else None
        if function is not None:
            items = [item for text in (function.arguments, function.returns) for item in _split(text)]
            values = [parse_value(item, self._pointer_size) for item in items]
            return [value for value in values if value is not None]
        return self._prototypes.get(name, self._prototypes.get(symbol.name, ()))

    def look_at(self, name: str) -> None:
        """Give a hint if a function's name is one that could be shown better."""
        if is_mangled(name) and not available():
            self._findings.hints[HINT] = None

    def _name(self, symbol: Symbol, debug: DebugFile | None) -> str:
        name = simple_name(symbol.name)
        if available() or not is_mangled(name):
            return name
        function = debug.functions.get(symbol.address) if debug is not None else None
        if function is not None:
            return function.name
        if not self._warned and self._by_name and self._rules:
            self._warned = True
            place = min(rule.place for rule in self._rules)
            self._findings.add("argspec.no-demangler", place, file=INFO_FILE)
        return name


def _split(text: str) -> list[str]:
    """Return the items of a `.dbg` line; the name of a structure may contain commas in template arguments."""
    items: list[list[str]] = []
    for part in filter(None, text.split(",")):
        is_first = not items or part.removeprefix("@").startswith(_KINDS)
        if is_first:
            items.append([part.removeprefix("@")])
        else:
            items[-1].append(part)
    return [",".join(parts) for parts in items]


def checked_values(text: str, pointer_size: int) -> ValueSpecs:
    """Return the values that a text such as `arg1/i32,arg2/s` specifies, for writing.

    Raises:
        EncodeError: the text is not a specification.
    """
    if any(character in check_text(text, "specification") for character in ";@"):
        raise EncodeError(f"{text!r} has one of the characters ; and @", "specification")
    values = []
    for item in filter(None, text.split(",")):
        value = parse_value(item.strip(), pointer_size)
        if value is None or parse_value(str(value), pointer_size) != value:
            raise EncodeError(f"{item!r} is not a specification such as arg1/i32, fparg1/64, arg2/s or retval/x64")
        values.append(value)
    return tuple(values)
