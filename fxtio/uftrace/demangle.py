"""Names of C++ functions as people write them, by the library pydemumble (the extra `demangle`), if it is there.

uftrace matches its argument specifications with *simple* names: scope and name, without parameters and template
arguments.  So a C++ trace with such specifications needs the library, unless its `.dbg` files name the functions.
"""

from __future__ import annotations

import re
from functools import cache

_LONGEST, _MOST_REFERENCES = 4096, 40
_REFERENCE = re.compile(r"[ST][0-9A-Z]*_")
_PREFIXES = ("_Z", "__Z", "_R")


def is_mangled(name: str) -> bool:
    """Whether the name is one that only a linker reads."""
    return name.startswith(_PREFIXES)


@cache
def _library() -> object:
    try:
        import pydemumble
    except ImportError:
        return None
    return pydemumble


def available() -> bool:
    """Whether names can be demangled."""
    return _library() is not None


def full_name(name: str) -> str:
    """The whole name, with parameters; the name itself where it is not mangled, or nothing can read it.

    A name that refers to its own parts very often is left as it is: two hundred bytes can stand for gigabytes.
    """
    library = _library()
    if library is None or not is_mangled(name) or not name.isascii() or len(name) > _LONGEST:
        return name
    if len(_REFERENCE.findall(name)) > _MOST_REFERENCES:
        return name
    found: str = library.demangle(name)  # type: ignore[attr-defined]
    return found or name


def simple_name(name: str) -> str:
    """Scope and name only, as uftrace shows and matches them."""
    start = next((one for one in _STARTS if name.startswith(one)), "")
    rest = name[len(start) :]
    if is_mangled(rest):
        rest = rest.partition("@")[0]  # what follows is a symbol's version
    whole = full_name(rest)
    if whole == rest:
        return start + _plain(rest) if is_mangled(rest) else name
    simple = _simplified(whole)
    for short, long in _SHORT.items():
        if simple.startswith(short):
            simple = long + simple[len(short) :]
    return start + simple


def _plain(name: str) -> str:
    """The simple name of the plainest of mangled names, without the library; others stay as they are."""
    found = _PLAIN.match(name)
    if not found:
        return name
    nested, parts = (found[1] or "").startswith("N"), ["std"] if found[2] else []
    at = found.end()
    while digits := _LENGTH.match(name, at):
        at = digits.end() + int(digits[0])
        parts.append(name[digits.end() : at])
        if not nested:
            break
    whole = at <= len(name) and (not nested or name.startswith("E", at))
    return "::".join(parts) if whole else name


_PLAIN = re.compile(r"_Z(N[rVK]{0,3}|L)?(St)?(?=[0-9])")
_LENGTH = re.compile(r"[0-9]{1,4}")
_SHORT = {f"std::{short}::": f"std::basic_{short}::" for short in ("ostream", "istream", "iostream", "string")}
"""What the library abbreviates and uftrace does not."""


_STARTS = ("_GLOBAL__sub_I_", "_GLOBAL__sub_D_")
"""What the compiler calls its own functions that initialize globals; a name follows."""

_OPERATORS = ("<=>", "<<=", ">>=", "->*", "<<", ">>", "<=", ">=", "->", "()", "<", ">")
_WORDS = re.compile(r' (?:new|delete|co_await)(?:\[\])?|"" ?\w+|\[\]|[-+*/%^&|~!=,]+')
_LAMBDA = re.compile(r"'lambda([0-9]{0,6})'\(")
_LOCAL = re.compile(r"(?: const| volatile)*(?=::)")
_TAG = re.compile(r"\[abi:(\w+)\]")
_ANONYMOUS = "(anonymous namespace)"


def _behind(name: str, at: int) -> int:
    """Where the parameters end that begin here."""
    depth = 1
    while at < len(name) and depth:
        depth += {"(": 1, ")": -1}.get(name[at], 0)
        at += 1
    return at


def _operator(name: str, at: int) -> tuple[str, int]:
    """What stands for the operator whose sign begins here, and where its parameters or template arguments begin."""
    for sign in _OPERATORS:
        end = at + len(sign)
        if name.startswith(sign, at) and name[end : end + 1] in ("", "(", "<", " "):
            return sign, end
    word = _WORDS.match(name, at)
    if word:
        return word[0], word.end()
    nested = 0
    for end in range(at, len(name)):  # a conversion, to a type that may have template arguments
        nested += {"<": 1, ">": -1}.get(name[end], 0)
        if nested == 0 and name[end] == "(":
            return "(cast)", end
    return "(cast)", len(name)


def _simplified(name: str) -> str:
    """Cut parameters, template arguments, and a return type."""
    made = ""
    at = nested = 0
    while at < len(name):
        sign = name[at]
        if nested:
            nested += {"<": 1, ">": -1}.get(sign, 0)
        elif (
            name.startswith("operator", at) and not _is_word(name[at - 1 : at]) and not _is_word(name[at + 8 : at + 9])
        ):
            told, at = _operator(name, at + 8)
            made += "operator" + told.replace(" ", _BLANK)
            continue
        elif name.startswith(_ANONYMOUS, at):
            made += "_GLOBAL__N_1"
            at += len(_ANONYMOUS)
            continue
        elif found := _LAMBDA.match(name, at):
            made += f"$_{int(found[1]) + 1 if found[1] else 0}"
            at = _behind(name, found.end())
            continue
        elif tag := _TAG.match(name, at):
            made += f"::{tag[1]}"
            at = tag.end()
            continue
        elif sign == "(" and name[at + 1 : at + 2] in ("&", "*"):
            made = ""  # it returns a reference to an array, or the like
            at += 2
            continue
        elif sign == "(":
            local = _LOCAL.match(name, _behind(name, at + 1))
            if not local:
                break
            at = local.end()  # parameters of the function around a local class
            continue
        elif sign == "<":
            nested = 1
        else:
            made += sign
        at += 1
    made = made.rstrip().removesuffix(" const")
    return made.rpartition(" ")[2].replace(_BLANK, " ")  # a template's return type stands in front of its name


_BLANK = "\0"
"""Stands for the blank within `operator new` meanwhile."""


def _is_word(sign: str) -> bool:
    return sign.isalnum() or sign == "_"
