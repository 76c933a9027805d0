"""Readable names of C++ and Rust functions; those of C++ by the library pydemumble (the extra `demangle`).

uftrace matches its argument specifications with *simple* names: scope and name, without parameters and template
arguments.  So a C++ trace with such specifications needs the library, unless its `.dbg` files name the functions.
"""

from __future__ import annotations

import re
from functools import cache

from fxtio.uftrace.rust import rust_name

_MAX_NAME, _MAX_REFERENCES = 4096, 40
_REFERENCE = re.compile(r"[ST][0-9A-Z]*_")
_CPP = ("_Z", "__Z")
_PREFIXES = (*_CPP, "_R")


def is_mangled(name: str) -> bool:
    """Return whether a name is mangled."""
    return name.startswith(_PREFIXES)


@cache
def _library() -> object:
    try:
        import pydemumble
    except ImportError:
        return None
    return pydemumble


def available() -> bool:
    """Return whether the library is installed."""
    return _library() is not None


HINT = "names of C++ functions are mangled; pip install 'fxtio[demangle]' makes them readable"
"""What is said where the library would help."""


def would_help(name: str) -> bool:
    """Return whether a name is mangled because the library is not installed."""
    return name.startswith(_CPP) and not available()


def full_name(name: str) -> str:
    """Return the demangled C++ name with parameters, or the name itself if it is not one or cannot be demangled.

    A name that refers to its own parts very often is not demangled: two hundred bytes could expand to gigabytes.
    """
    library = _library()
    if library is None or not name.startswith(_CPP) or not name.isascii() or len(name) > _MAX_NAME:
        return name
    if len(_REFERENCE.findall(name)) > _MAX_REFERENCES:
        return name
    demangled: str = library.demangle(name)  # type: ignore[attr-defined]
    return demangled or name


def simple_name(name: str) -> str:
    """Return scope and name only, as uftrace shows and matches them."""
    start = next((prefix for prefix in _STARTS if name.startswith(prefix)), "")
    rest = name[len(start) :]
    if is_mangled(rest):
        rest = rest.partition("@")[0]  # the version of the symbol follows
        if rest.startswith(_CLONES):
            rest = "_Z" + rest[len(_CLONES[0]) :]
        if len(rest) <= _MAX_NAME and (rust := rust_name(rest)):
            return start + rust
    whole = full_name(rest)
    if whole == rest:
        return start + _plain(rest) if is_mangled(rest) else name
    simple = _simplified(whole)
    if _STRING.match(rest):
        simple = simple.replace("std::string", "std::basic_string").replace("basic_string", "basic_string<>")
    for short, long in _SHORT.items():
        if simple.startswith(short):
            simple = long + simple[len(short) :]
    return start + (simple or rest)


def _plain(name: str) -> str:
    """Demangle a plain function name without the library; return other names unchanged."""
    match = _PLAIN.match(name)
    if not match:
        return name
    nested, parts = (match[1] or "").startswith("N"), ["std"] if match[2] else []
    at = match.end()
    while digits := _LENGTH.match(name, at):
        at = digits.end() + int(digits[0])
        parts.append(name[digits.end() : at])
        if not nested:
            break
    whole = all(parts) and at <= len(name) and (not nested or name.startswith("E", at))
    return "::".join(parts) if whole else name


_PLAIN = re.compile(r"_Z(N[rVK]{0,3}|L)?(St)?(?=[0-9])")
_LENGTH = re.compile(r"[0-9]{1,4}")
_SHORT = {f"std::{short}::": f"std::basic_{short}::" for short in ("ostream", "istream", "iostream")}
"""Names that the library abbreviates and uftrace does not."""

_STRING = re.compile("_ZN[rVK]*Ss")
"""The beginning of the methods of strings, whose template arguments uftrace shows as empty."""

_CLONES = ("_ZGTt", "_ZGTn")
"""Prefixes of copies of functions for transactional memory, which have the name of the function."""

_STARTS = ("_GLOBAL__sub_I_", "_GLOBAL__sub_D_")
"""Prefixes of the functions with which the compiler initializes globals; a mangled name follows."""

_OPERATORS = ("<=>", "<<=", ">>=", "->*", "<<", ">>", "<=", ">=", "->", "()", "<", ">")
_WORDS = re.compile(r' (?:new|delete|co_await)(?:\[\])?|"" ?\w+|\[\]|[-+*/%^&|~!=,]+')
_LAMBDA = re.compile(r"'lambda([0-9]{0,6})'\(")
_LOCAL = re.compile(r"(?: const| volatile)*(?=::)")
_TAG = re.compile(r"\[abi:(\w+)\]")
_ANONYMOUS = "(anonymous namespace)"


def _after_parameters(name: str, at: int) -> int:
    """Return the place after the parameters that begin at `at`."""
    depth = 1
    while at < len(name) and depth:
        depth += {"(": 1, ")": -1}.get(name[at], 0)
        at += 1
    return at


def _operator(name: str, at: int) -> tuple[str, int]:
    """Return the text for the operator that begins at `at`, and the place after it."""
    for operator in _OPERATORS:
        end = at + len(operator)
        if name.startswith(operator, at) and name[end : end + 1] in ("", "(", "<", " "):
            return operator, end
    word = _WORDS.match(name, at)
    if word:
        return word[0], word.end()
    nested = 0
    for end in range(at, len(name)):  # a conversion operator; its type may have template arguments
        nested += {"<": 1, ">": -1}.get(name[end], 0)
        if nested == 0 and name[end] == "(":
            return "(cast)", end
    return "(cast)", len(name)


def _simplified(name: str) -> str:
    """Return a demangled name without parameters, template arguments and return type."""
    simple = ""
    at = nested = 0
    while at < len(name):
        character = name[at]
        if nested:
            nested += {"<": 1, ">": -1}.get(character, 0)
        elif (
            name.startswith("operator", at) and not _is_word(name[at - 1 : at]) and not _is_word(name[at + 8 : at + 9])
        ):
            operator, at = _operator(name, at + 8)
            simple += "operator" + operator.replace(" ", _BLANK)
            continue
        elif name.startswith(_ANONYMOUS, at):
            simple += "_GLOBAL__N_1"
            at += len(_ANONYMOUS)
            continue
        elif match := _LAMBDA.match(name, at):
            simple += f"$_{int(match[1]) + 1 if match[1] else 0}"
            at = _after_parameters(name, match.end())
            continue
        elif tag := _TAG.match(name, at):
            simple += f"::{tag[1]}"
            at = tag.end()
            continue
        elif character == "(" and name[at + 1 : at + 2] in ("&", "*"):
            simple = ""  # the return type is a reference or pointer to an array or function
            at += 2
            continue
        elif character == "(":
            local = _LOCAL.match(name, _after_parameters(name, at + 1))
            if not local:
                break
            at = local.end()  # skip the parameters of the function around a local class
            continue
        elif character == "<":
            nested = 1
        else:
            simple += character
        at += 1
    simple = simple.rstrip().removesuffix(" const")
    return simple.rpartition(" ")[2].replace(_BLANK, " ")  # the return type of a template precedes its name


_BLANK = "\0"
"""Replaces the blank within `operator new` while the name is cut at blanks."""


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"
