"""Readable names of C++ and Rust functions, by the library pydemumble (the extra `demangle`).

uftrace shows *simple* names and matches its argument specifications with them.  A C++ name is scope and name, without
parameters and template arguments.  A Rust name has its types, but no trait, crate hash, lifetime or return type:
`<shapes::Square>::area`.  Unlike uftrace, constants are written as in Rust, and names in Unicode are decoded.
"""

from __future__ import annotations

import re
from functools import cache

_PREFIXES = ("_Z", "__Z", "_R")
_MAX_NAME, _MAX_RESULT = 4096, 1 << 16
_REFERENCES = {True: (re.compile(r"B[0-9a-zA-Z]*_"), 30), False: (re.compile(r"[ST][0-9A-Z]*_"), 40)}
"""What refers to a part of the name, and how often it may, in Rust and in C++: a megabyte of text in 10 ms at most."""


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


HINT = "names of C++ and Rust functions are mangled; pip install 'fxtio[demangle]' makes them readable"
"""What is said where the library would help."""


def would_help(name: str) -> bool:
    """Return whether a name is mangled because the library is not installed."""
    return is_mangled(name) and not available()


def full_name(name: str) -> str:
    """Return the demangled name with everything in it, or the name itself if it is not one or cannot be demangled.

    A name that refers to its own parts very often is not demangled: two hundred bytes could expand to gigabytes.
    """
    library = _library()
    if library is None or not is_mangled(name) or not name.isascii() or len(name) > _MAX_NAME:
        return name
    reference, most = _REFERENCES[name.startswith("_R")]
    if len(reference.findall(name)) > most:
        return name
    demangled: str = library.demangle(name)  # type: ignore[attr-defined]
    return demangled if 0 < len(demangled) <= _MAX_RESULT else name


def simple_name(name: str) -> str:
    """Return the name as uftrace shows and matches it."""
    start = next((prefix for prefix in _STARTS if name.startswith(prefix)), "")
    rest = name[len(start) :]
    if not is_mangled(rest):
        return name
    rest = rest.partition("@")[0]  # the version of the symbol follows
    if rest.startswith(_CLONES):
        rest = "_Z" + rest[len(_CLONES[0]) :]
    whole = full_name(rest)
    if whole == rest:
        whole = _plain(rest)
    if whole == rest:
        return start + rest
    if rest.startswith("_R") or _LEGACY_RUST.search(rest):
        return start + _rust(whole, _LEGACY_FORM if rest.startswith("_Z") else _V0_FORM)
    simple = _simplified(whole)
    if _STRING.match(rest):
        simple = simple.replace("std::string", "std::basic_string").replace("basic_string", "basic_string<>")
    for short, long in _SHORT.items():
        if simple.startswith(short):
            simple = long + simple[len(short) :]
    return start + (simple or rest)


def _plain(name: str) -> str:
    """Demangle a plain name that the library does not, or without it; return other names unchanged."""
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


_PLAIN = re.compile(r"_Z(N[rVK]{0,3}|L)?(St)?(?=[0-9])(?!.*\$)")
_LENGTH = re.compile(r"[0-9]{1,4}")
_CLONES = ("_ZGTt", "_ZGTn")
"""Prefixes of copies of functions for transactional memory, which have the name of the function."""

_STARTS = ("_GLOBAL__sub_I_", "_GLOBAL__sub_D_")
"""Prefixes of the functions with which the compiler initializes globals; a mangled name follows."""


# ---- Rust: the names of the current mangling (v0), and those of the legacy one, which end with a hash

_LEGACY_RUST = re.compile(r"17h[0-9a-f]{16}E")
_LEGACY_FORM = {r"::h[0-9a-f]{16}$": "", r"(^|::)(?=[<{])": r"\1_"}
_V0_FORM = {
    r"::<": "<",
    r" \(\.[^()]*\)$": "",  # a suffix of the compiler
    r"\bfor<[^<>]*> |<'\w+>|'\w+,? |\b(?:dyn|unsafe) |\bextern \"[^\"]*\" ": "",
    r"\{shim:(\w+)#\d+\}": r"\1",
    r"(\{\w+)[^}]*": r"\1",
    r"\b(const|mut) ": r"\1_",
    r" ?([,;=+]) ": r"\1",
    r",\)": ")",
}
_MARKS = re.compile(r"( as | -> |[<>()\[\],;])")


def _rust(name: str, form: dict[str, str]) -> str:
    """Return a demangled name without traits and return types, in the form in which uftrace has it."""
    kept, depth, hidden = "", 0, 0
    for part in _MARKS.split(name):
        if part in (" as ", " -> "):
            hidden = hidden or depth  # until these brackets close or their next item begins
        depth += (part in ("<", "(", "[")) - (part in (">", ")", "]"))
        if depth < hidden or (depth == hidden and part in (",", ";")):
            hidden = 0
        if not hidden:
            kept += part
    for pattern, text in form.items():
        kept = re.sub(pattern, text, kept)
    return kept


# ---- C++

_SHORT = {f"std::{short}::": f"std::basic_{short}::" for short in ("ostream", "istream", "iostream")}
"""Names that the library abbreviates and uftrace does not."""

_STRING = re.compile("_ZN[rVK]*Ss")
"""The beginning of the methods of strings, whose template arguments uftrace shows as empty."""

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
