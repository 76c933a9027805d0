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

_OPERATOR = re.compile(
    r"\boperator\b(?:((?:<=>|<<=?|>>=?|->\*|<=|>=|->|\(\)|<|>)(?![^(< ]))"
    r"|( (?:new|delete|co_await)(?:\[\])?|\"\" ?\w+|\[\]|[-+*/%^&|~!=,]+))"
)
_CAST = re.compile(r"\boperator\b[^(]*")
_LAMBDA = re.compile(r"'lambda([0-9]{0,6})'(?=\()")
_LOCAL = re.compile(r"(?: const| volatile)*(?=::)")
_TAG = re.compile(r"\[abi:(\w+)\]")
_ANONYMOUS = "(anonymous namespace)"
_PARENTHESIS = re.compile("[()]")
_HIDDEN, _SHOWN = str.maketrans("<>() ", "\1\2\3\4\0"), str.maketrans("\1\2\3\4\0", "<>() ")


def _simplified(name: str) -> str:
    """Return a demangled name without parameters, template arguments and return type.

    The brackets and blanks in names of operators are hidden while those of parameters and templates are removed.
    """
    text = _OPERATOR.sub(lambda match: f"\5{(match[1] or match[2]).translate(_HIDDEN)}", name)
    text = _TAG.sub(r"::\1", text.replace(_ANONYMOUS, "_GLOBAL__N_1"))
    text = _LAMBDA.sub(lambda match: f"$_{int(match[1]) + 1 if match[1] else 0}", _without_templates(text))
    text = _CAST.sub(f"\5{'(cast)'.translate(_HIDDEN)}", text)
    simple, at = "", 0
    while (begin := text.find("(", at)) >= 0:
        simple += text[at:begin]
        if text.startswith(("&", "*"), begin + 1):
            simple, at = "", begin + 2  # the return type is a reference or pointer to an array or function
        elif local := _LOCAL.match(text, _after_parameters(text, begin)):
            at = local.end()  # these are the parameters of the function around a local class
        else:
            at = len(text)
    simple = (simple + text[at:]).rstrip().removesuffix(" const")
    # The return type of a template precedes its name.
    return simple.rpartition(" ")[2].translate(_SHOWN).replace("\5", "operator")


def _without_templates(text: str) -> str:
    """Return a name without the arguments of templates."""
    kept, depth = "", 0
    for part in re.split("([<>])", text):
        if part == "<" or (part == ">" and depth):
            depth += 1 if part == "<" else -1
        elif not depth:
            kept += part
    return kept


def _after_parameters(text: str, begin: int) -> int:
    """Return the place after the parameters that begin with the parenthesis at a place."""
    depth = 0
    for match in _PARENTHESIS.finditer(text, begin):
        depth += 1 if match[0] == "(" else -1
        if not depth:
            return match.end()
    return len(text)
