"""Names of C++ functions as people write them, by the library pydemumble (the extra `demangle`), if it is there.

uftrace matches its argument specifications with *simple* names: scope and name, without parameters and template
arguments.  So a C++ trace with such specifications needs the library, unless its `.dbg` files name the functions.
"""

from __future__ import annotations

import re
from functools import cache

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
    """The whole name, with parameters; the name itself where it is not mangled, or nothing can read it."""
    library = _library()
    if library is None or not is_mangled(name) or len(name) > 10_000:
        return name
    found: str = library.demangle(name)  # type: ignore[attr-defined]
    return found or name


def simple_name(name: str) -> str:
    """Scope and name only, as uftrace shows and matches them."""
    whole = full_name(name)
    return name if whole == name else _simplified(whole)


_OPERATORS = ("<=>", "<<=", ">>=", "->*", "<<", ">>", "<=", ">=", "->", "()", "<", ">")


_LAMBDA = re.compile(r"'lambda([0-9]{0,6})'\(")


_LOCAL = re.compile(r"(?: const| volatile)*(?=::)")


def _behind(name: str, at: int) -> int:
    """Where the parameters end that begin here."""
    depth = 1
    while at < len(name) and depth:
        depth += {"(": 1, ")": -1}.get(name[at], 0)
        at += 1
    return at


def _is_word(sign: str) -> bool:
    return sign.isalnum() or sign == "_"


def _simplified(name: str) -> str:
    """Cut parameters, template arguments, and a return type."""
    made: list[str] = []
    at = nested = 0
    while at < len(name):
        if nested == 0 and name.startswith("operator", at) and not _is_word(name[at - 1 : at]):
            rest = name[at + 8 :]
            sign = next((one for one in _OPERATORS if rest.startswith(one)), "")
            made.append("operator" + sign)
            at += 8 + len(sign)
            continue
        sign = name[at]
        if nested == 0 and name.startswith("(anonymous namespace)", at):
            made.append("_GLOBAL__N_1")
            at += 21
            continue
        if nested == 0 and (found := _LAMBDA.match(name, at)):
            made.append(f"$_{int(found[1]) + 1 if found[1] else 0}")
            at = _behind(name, found.end())
            continue
        if nested == 0 and sign == "(":
            local = _LOCAL.match(name, _behind(name, at + 1))
            if not local:
                break
            at = local.end()  # parameters of the function around a local class
            continue
        if sign == "<":
            nested += 1
        elif sign == ">" and nested:
            nested -= 1
        elif nested == 0:
            made.append(sign)
        at += 1
    simple = "".join(made).removesuffix(" const")
    cast = simple.find("operator ")
    head, tail = (simple[:cast], simple[cast:]) if cast >= 0 else (simple, "")
    return head.rpartition(" ")[2] + tail  # a template's return type stands in front of its name
