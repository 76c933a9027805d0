"""Readable names of Rust functions, of the current (v0) and of the legacy mangling, as the newest uftrace shows them.

A method is shown with its type but without the trait: `<shapes::Square>::area`.  Not shown are crate hashes, lifetimes
and the return types of function pointers.  Unlike uftrace, names in Unicode are decoded, and an alias may stand for any
type.  See https://doc.rust-lang.org/rustc/symbol-mangling/v0.html for the grammar.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

_MAX_STEPS = 5000  # an alias repeats a part of the name, so a short name may stand for a very long one
_MAX_DEPTH = 100
_MAX_RESULT = 1 << 16

_TYPES = {
    "a": "i8", "b": "bool", "c": "char", "d": "f64", "e": "str", "f": "f32", "h": "u8", "i": "isize", "j": "usize",
    "l": "i32", "m": "u32", "n": "i128", "o": "u128", "p": "_", "s": "i16", "t": "u16", "u": "()", "v": "...",
    "x": "i64", "y": "u64", "z": "!",
}  # fmt: skip
_POINTERS = {"R": "&", "Q": "&mut_", "P": "*const_", "O": "*mut_"}
_COMPOUND = frozenset("ABDFOPQRSTW")
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_BASE62 = re.compile(r"([0-9a-zA-Z]{0,12})_")
_IDENTIFIER = re.compile(r"(u?)(0|[1-9][0-9]{0,4})_?")
_CONSTANT = re.compile(r"(n?)([0-9a-f]{0,64})_")


class _NotRustError(Exception):
    """The name does not follow the grammar, or is too large."""


class _V0:
    """The state of demangling one name.

    Args:
        text: the mangled name without its prefix.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self._steps = 0
        self._depth = 0

    def whole(self) -> str:
        """Return the demangled name; a suffix of the compiler is left out."""
        name = self.path()
        if self._peek() in ("B", "C"):
            self.path()  # the crate that needed the function
        if self._peek() not in ("", ".", "$"):
            raise _NotRustError
        return name

    def path(self) -> str:
        """Return the path that begins here."""
        with_depth = self._nested
        kind = self._next()
        if kind == "C":
            return self._name()
        if kind == "N":
            namespace = self._next()
            outer, name = with_depth(self.path), self._name()
            parts = [outer, name, "{closure}" if namespace == "C" else ""]
            return "::".join(part for part in parts if part)
        if kind in "MX":
            self._disambiguator()
            with_depth(self.path)  # where the implementation is
        if kind in "MXY":
            target = with_depth(self.type)
            if kind != "M":
                with_depth(self.path)  # the trait
            return f"<{target}>"
        if kind == "I":
            generic = with_depth(self.path)
            arguments = [text for text in self._until_end(self._argument) if text]
            return f"{generic}<{','.join(arguments)}>" if arguments else generic
        if kind == "B":
            return self._alias(self.path)
        raise _NotRustError

    def type(self) -> str:
        """Return the type that begins here."""
        kind = self._peek()
        if kind in _TYPES:
            self.at += 1
            return _TYPES[kind]
        if kind not in _COMPOUND:
            return self._nested(self.path)
        self.at += 1
        if kind in _POINTERS:
            if self._peek() == "L":
                self._lifetime()
            return _POINTERS[kind] + self._nested(self.type)
        if kind == "A":
            return f"[{self._nested(self.type)};{self._constant()}]"
        if kind == "S":
            return f"[{self._nested(self.type)}]"
        if kind == "T":
            return f"({','.join(self._until_end(self.type))})"
        if kind == "B":
            return self._alias(self.type)
        return {"F": self._function, "D": self._traits, "W": self._pattern}[kind]()

    # ---- parts of types

    def _function(self) -> str:
        self._binder()
        self._skip("U")
        if self._skip("K") and not self._skip("C"):
            self._identifier()
        text = f"fn({','.join(self._until_end(self.type))})"
        self._nested(self.type)
        return text

    def _traits(self) -> str:
        self._binder()
        text = "+".join(self._until_end(self._trait))
        self._lifetime()
        return text

    def _trait(self) -> str:
        path = self._nested(self.path)
        bindings = []
        while self._skip("p"):
            name = self._identifier()
            bindings.append(f"{name}={self._nested(self.type)}")
        if not bindings:
            return path
        start = f"{path[:-1]}," if path.endswith(">") and not path.startswith("<") else f"{path}<"
        return f"{start}{','.join(bindings)}>"

    def _pattern(self) -> str:
        text = self._nested(self.type)
        self._pattern_kind()
        return text

    def _pattern_kind(self) -> str:
        kind = self._next()
        if kind == "R":
            self._constant()
            self._constant()
        elif kind == "O":
            list(self._until_end(self._pattern_kind))
        elif kind != "N":
            raise _NotRustError
        return ""

    def _argument(self) -> str:
        if self._peek() == "L":
            self._lifetime()
            return ""
        return self._constant() if self._skip("K") else self._nested(self.type)

    def _constant(self) -> str:
        if self._skip("p"):
            return "_"
        if self._skip("B"):
            return self._alias(self._constant)
        self._nested(self.type)
        sign, digits = self._matched(_CONSTANT)
        return f"{'-' if sign else ''}{int(digits or '0', 16)}"

    # ---- names and numbers

    def _name(self) -> str:
        self._disambiguator()
        return self._identifier()

    def _identifier(self) -> str:
        unicode, digits = self._matched(_IDENTIFIER)
        begin, self.at = self.at, self.at + int(digits)
        text = self.text[begin : self.at]
        if len(text) < int(digits):
            raise _NotRustError
        if not unicode:
            return text
        ascii_part, _, rest = text.rpartition("_")
        try:
            decoded = (f"{ascii_part}-{rest}" if ascii_part else rest).encode("ascii").decode("punycode")
            decoded.encode()  # fails for surrogates
        except UnicodeError:
            raise _NotRustError from None
        return decoded

    def _disambiguator(self) -> None:
        if self._skip("s"):
            self._number()

    def _binder(self) -> None:
        if self._skip("G"):
            self._number()

    def _lifetime(self) -> None:
        if not self._skip("L"):
            raise _NotRustError
        self._number()

    def _number(self) -> int:
        """Return the number in base 62 that begins here."""
        (digits,) = self._matched(_BASE62)
        value = 0
        for digit in digits:
            value = value * 62 + _DIGITS.index(digit)
        return value + 1 if digits else 0

    def _alias(self, parse: Callable[[], str]) -> str:
        """Return what an earlier place of the name means."""
        begin = self.at - 1
        target = self._number()
        if target >= begin:
            raise _NotRustError
        after, self.at = self.at, target
        text = self._nested(parse)
        self.at = after
        return text

    # ---- reading

    def _nested(self, parse: Callable[[], str]) -> str:
        """Parse a part of a part, with limits for the depth, the work and the result."""
        self._steps += 1
        self._depth += 1
        if self._steps > _MAX_STEPS or self._depth > _MAX_DEPTH:
            raise _NotRustError
        text = parse()
        self._depth -= 1
        if len(text) > _MAX_RESULT:
            raise _NotRustError
        return text

    def _until_end(self, parse: Callable[[], str]) -> Iterator[str]:
        while not self._skip("E"):
            yield self._nested(parse)

    def _peek(self) -> str:
        """Return the next character, or nothing at the end."""
        return self.text[self.at : self.at + 1]

    def _next(self) -> str:
        if self.at >= len(self.text):
            raise _NotRustError
        self.at += 1
        return self.text[self.at - 1]

    def _skip(self, character: str) -> bool:
        matches = self._peek() == character
        self.at += matches
        return matches

    def _matched(self, pattern: re.Pattern[str]) -> tuple[str, ...]:
        match = pattern.match(self.text, self.at)
        if not match:
            raise _NotRustError
        self.at = match.end()
        return match.groups()


def _v0(name: str) -> str | None:
    digit = 3 if name[2:3].isdecimal() else 2  # the version of the mangling may follow the prefix
    try:
        return _V0(name[digit:]).whole()
    except _NotRustError:
        return None


# ---- the legacy mangling: a name of C++ whose last part is a hash; characters that C++ does not allow are escaped

_LEGACY = re.compile(r"_ZN(?=[1-9])")
_LENGTH = re.compile(r"[1-9][0-9]{0,3}")
_HASH = re.compile(r"h[0-9a-f]{16}")
_ESCAPE = re.compile(r"\$(SP|BP|RF|LT|GT|LP|RP|C|u[0-9a-f]{1,6})\$")
_CHARACTERS = {"SP": "@", "BP": "*", "RF": "&", "LT": "<", "GT": ">", "LP": "(", "RP": ")", "C": ","}
_TRAIT = " as "


def _legacy(name: str) -> str | None:
    start = _LEGACY.match(name)
    if not start:
        return None
    parts, at = [], start.end()
    while length := _LENGTH.match(name, at):
        at = length.end() + int(length[0])
        parts.append(name[length.end() : at])
    if name[at : at + 1] != "E" or name[at + 1 : at + 2] not in ("", ".", "@"):
        return None
    if _HASH.fullmatch(parts[-1]):
        return "::".join(map(_unescaped, parts[:-1])) or None
    return "::".join(map(_unescaped, parts)) if any(map(_ESCAPE.search, parts)) else None


def _unescaped(part: str) -> str:
    """Return a part of a legacy name without escapes, and without the traits of methods."""
    text = _ESCAPE.sub(lambda escape: _CHARACTERS.get(escape[1]) or _character(escape), part)
    if text == part:
        return part
    text = text.replace("..", "::")
    while (at := text.find(_TRAIT)) >= 0:
        text = text[:at] + text[_end_of_brackets(text, at) :]
    return text


def _character(escape: re.Match[str]) -> str:
    code = int(escape[1][1:], 16)
    return chr(code) if code < 0xD800 or 0xDFFF < code <= 0x10FFFF else escape[0]


def _end_of_brackets(text: str, at: int) -> int:
    """Return the place of the `>` that ends the brackets around `at`, or the end."""
    depth = 0
    for place in range(at, len(text)):
        if text[place] == "<":
            depth += 1
        elif text[place] == ">" and text[place - 1] != "-":
            if depth == 0:
                return place
            depth -= 1
    return len(text)


def rust_name(name: str) -> str | None:
    """Return the readable name of a Rust function, or None if the name is not one of a Rust function.

    Args:
        name: the mangled name; a suffix of the compiler is left out.
    """
    return _v0(name) if name.startswith("_R") else _legacy(name)
