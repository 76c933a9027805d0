"""Patterns of names: POSIX extended regular expressions and globs, as expressions of Python's `re`.

The patterns of argument specifications come from a trace and may be hostile, and `re` tries all ways in which a name
could match.  So the ways are counted: what can match in several ways is not repeated without end, and a pattern tells
how many steps it may take.  What has a fixed width is searched only once after `.*`, because its first occurrence
leaves the most for the rest; thus usual patterns take linear time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import translate
from itertools import groupby
from math import inf, prod
from typing import NamedTuple

_SPECIAL = frozenset(".?*+-^$|()[]{}")
_TOKEN = re.compile(
    r"\\(?P<escaped>.)|(?P<open>\()|(?P<close>\))|(?P<or>\|)|(?P<any>\.)|(?P<anchor>[$^])"
    r"|(?P<repeat>[*+?]|\{(?P<low>\d{1,3})(?P<more>,?)(?P<high>\d{0,3})\})"
    r"|\[(?P<negated>\^?)(?P<set>\]?+[^]]*)\]|(?P<plain>[^\\[{])|(?P<bad>.)",
    re.DOTALL,
)
_COUNTS: dict[str, tuple[int, float]] = {"*": (0, inf), "+": (1, inf), "?": (0, 1)}
_CLASS, _RANGE = re.compile(r"\[:(\w*):\]"), re.compile("(.)(?:-(.))?", re.DOTALL)
_CLASSES = {
    "alpha": "a-zA-Z", "digit": "0-9", "alnum": "a-zA-Z0-9", "upper": "A-Z", "lower": "a-z", "space": " \t-\r",
    "punct": ":-@!-/[-`{-~", "xdigit": "0-9a-fA-F",
}  # fmt: skip
_MAX_DEPTH, _MAX_WAYS, _MAX_DEGREE = 50, 10_000, 8


class BadPatternError(ValueError):
    """A text that is not a pattern, or a pattern that could match in too many ways."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern of names.

    Attributes:
        matches: returns what is true if a name matches.
        size: the length of the pattern, times the number of ways in which its parts can match.
        degree: the power of the length of a name with which the steps grow.
    """

    matches: Callable[[str], object]
    size: int
    degree: int = 1

    def steps(self, name: str) -> int:
        """Return how many steps a name may take; a thousand million take a few seconds."""
        return self.size * int((len(name) + 1) ** self.degree)


class _Part(NamedTuple):
    """A part of an expression.

    Attributes:
        text: the expression for `re`.
        low: the smallest width of what it matches.
        high: the largest width.
        ways: in how many ways it can match at a place, but for repetitions without end.
        degree: the number of these.
    """

    text: str
    low: float = 1
    high: float = 1
    ways: int = 1
    degree: int = 0


def _checked(part: _Part) -> _Part:
    if part.ways > _MAX_WAYS or part.degree > _MAX_DEGREE:
        raise BadPatternError("it can match in too many ways")
    return part


def _sequence(parts: list[_Part]) -> _Part:
    """Return parts that follow each other as one."""
    texts, lows, highs, ways, degrees = zip(*parts, strict=True) if parts else ((),) * 5
    return _checked(_Part("".join(texts), sum(lows), sum(highs), prod(ways), sum(degrees)))


def _either(branches: list[list[_Part]]) -> _Part:
    """Return a group of alternatives as one part."""
    texts, lows, highs, ways, degrees = zip(*map(_sequence, branches), strict=True)
    return _Part(f"(?:{'|'.join(texts)})", min(lows), max(highs), sum(ways), max(degrees))


def _repeated(part: _Part, token: re.Match[str]) -> _Part:
    """Return a part with the repetition that follows it."""
    text, ways, degree = f"(?:{part.text}{token[0]})", part.ways, part.degree
    low, high = _COUNTS.get(token[0]) or (
        int(token["low"]),
        int(token["high"] or (0 if token["more"] else token["low"])),
    )
    if high == inf or (token["more"] and not token["high"]):
        if ways > 1 or degree or not part.high:
            raise BadPatternError("what is repeated can match in several ways")
        return _Part(text, part.low * low, inf, degree=1)
    count = int(high)
    width = part.high * count if count else 0
    return _checked(_Part(text, part.low * low, width, ways**count * max(count - low + 1, 1), degree * count))


def _members(match: re.Match[str]) -> str:
    """Return the characters of a class such as `[:alpha:]`, as in a set."""
    if match[1] not in _CLASSES:
        raise BadPatternError(f"there is no character class {match[1][:20]!r}")
    return _CLASSES[match[1]]


def _range(match: re.Match[str]) -> str:
    """Return a character or a range of a set for `re`."""
    return re.escape(match[1]) + (f"-{re.escape(match[2])}" if match[2] else "")


def _branches(text: str) -> list[list[_Part]]:
    """Return the alternatives of an expression, each as its parts."""
    groups: list[list[list[_Part]]] = [[[]]]  # the alternatives of the whole and of every group that is open
    for token in _TOKEN.finditer(text):
        parts = groups[-1][-1]
        match token.lastgroup:
            case "open" if len(groups) < _MAX_DEPTH:
                groups.append([[]])
            case "close" if len(groups) > 1:
                group = _either(groups.pop())
                groups[-1][-1].append(group)
            case "or":
                groups[-1].append([])
            case "repeat" if parts:
                parts.append(_repeated(parts.pop(), token))
            case "set":
                parts.append(_Part(f"[{token['negated']}{_RANGE.sub(_range, token['set'])}]"))
            case "any":
                parts.append(_Part("."))
            case "anchor":
                parts.append(_Part(r"\A" if token[0] == "^" else r"\Z", 0, 0))
            case "escaped" | "plain":
                parts.append(_Part(re.escape(token[0][-1])))
            case _:
                raise BadPatternError(f"{text[token.start() :][:20]!r} is no expression, or is nested too deep")
    if len(groups) > 1:
        raise BadPatternError("a group is not closed")
    return groups[0]


def _regex(text: str) -> Pattern:
    """Return the pattern of an expression, which may occur anywhere in a name."""
    expressions, size, most = [], 0, 1
    for branch in _branches(text):
        expression, ways, degree, has_fixed = "", len(text), 0, 0
        for is_gap, parts in groupby(branch, key=lambda part: part.text == "(?:.*)"):
            part = _sequence(list(parts))
            if is_gap:
                continue
            ways *= part.ways
            if part.low == part.high:
                expression, has_fixed = f"{expression}(?>.*?{part.text})", 1
            else:
                expression, degree = f"{expression}.*?{part.text}", degree + 1 + part.degree
        expressions.append(expression)
        size, most = size + ways, max(most, degree + has_fixed)
    try:
        return Pattern(re.compile("|".join(expressions), re.DOTALL).match, size, most)
    except re.error as error:
        raise BadPatternError(error.msg) from None


def is_name(text: str) -> bool:
    """Return whether the text is the name of a function, and not a pattern."""
    return text.startswith("operator ") or not _SPECIAL.intersection(text)


def pattern(text: str, kind: str) -> Pattern:
    """Return a pattern.

    Args:
        text: the pattern.
        kind: the kind of pattern: `regex` or `glob`.

    Raises:
        BadPatternError: the text is not a valid pattern, or could match in too many ways.
    """
    if "[" in text and max(text) > "\xff":  # `re` takes milliseconds to compile such a set
        raise BadPatternError("it has a set, and characters beyond Latin-1")
    text = _CLASS.sub(_members, text)
    return Pattern(re.compile(translate(text)).match, len(text)) if kind == "glob" else _regex(text)
