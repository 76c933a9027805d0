"""The patterns of argument specifications: POSIX extended expressions and globs, matched in linear time.

They come from the trace, so they are hostile: a backtracking matcher could run for ages.  This one follows all states
at once, and remembers the sets of states that it has seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

_SPECIAL = frozenset(".?*+-^$|()[]{}")
_MOST_STATES = 2000
_MOST_REMEMBERED = 4000
_CLASSES: dict[str, Callable[[str], bool]] = {
    "alpha": str.isalpha,
    "digit": str.isdigit,
    "alnum": str.isalnum,
    "upper": str.isupper,
    "lower": str.islower,
    "space": str.isspace,
    "punct": lambda sign: sign.isprintable() and not sign.isalnum() and not sign.isspace(),
    "xdigit": lambda sign: sign in "0123456789abcdefABCDEF",
}

Test = Callable[[str], bool]
Names = Callable[[str], bool]
"""Whether a name matches."""


class BadPatternError(ValueError):
    """The text is no pattern, or one that is too large."""


@dataclass(slots=True)
class _State:
    """A state: it takes a sign (`test`), needs a side (`anchor`), or only leads on."""

    test: Test | None = None
    anchor: str = ""
    to: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of the machine: where it begins, and the states whose way out is not set yet."""

    first: int
    open: tuple[int, ...]


class _Parser:
    """Makes a machine of an expression: alternatives, sequences, repetitions, groups, sets, anchors."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.states: list[_State] = []

    def state(self, test: Test | None = None, anchor: str = "", to: tuple[int, ...] = ()) -> int:
        if len(self.states) >= _MOST_STATES:
            raise BadPatternError("the pattern is too large")
        self.states.append(_State(test, anchor, list(to)))
        return len(self.states) - 1

    def one(self, test: Test | None = None, anchor: str = "") -> _Piece:
        number = self.state(test, anchor)
        return _Piece(number, (number,))

    def link(self, piece: _Piece, to: int) -> None:
        for number in piece.open:
            self.states[number].to.append(to)

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def alternatives(self, depth: int = 0) -> _Piece:
        if depth > 50:
            raise BadPatternError("groups are nested too deep")
        pieces = [self.sequence(depth)]
        while self.peek() == "|":
            self.at += 1
            pieces.append(self.sequence(depth))
        if len(pieces) == 1:
            return pieces[0]
        fork = self.state(to=tuple(piece.first for piece in pieces))
        return _Piece(fork, tuple(number for piece in pieces for number in piece.open))

    def sequence(self, depth: int) -> _Piece:
        whole = self.one()
        while self.peek() and self.peek() not in "|)":
            piece = self.repeated(depth)
            self.link(whole, piece.first)
            whole = _Piece(whole.first, piece.open)
        return whole

    def repeated(self, depth: int) -> _Piece:
        begin = self.at
        piece = self.atom(depth)
        end = self.at
        while self.peek() and self.peek() in "*+?{":
            least, most = self.counts()
            piece = self.times(begin, end, depth, piece, least, most)
        return piece

    def counts(self) -> tuple[int, int | None]:
        sign = self.peek()
        self.at += 1
        if sign != "{":
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[sign]
        inside, brace, _ = self.text[self.at :].partition("}")
        low, comma, high = inside.partition(",")
        if not brace or not low.isdecimal() or (high and not high.isdecimal()) or len(inside) > 7:
            raise BadPatternError("a repetition is not closed, or no numbers are in it")
        self.at += len(inside) + 1
        return int(low), int(low) if not comma else int(high) if high else None

    def times(self, begin: int, end: int, depth: int, piece: _Piece, least: int, most: int | None) -> _Piece:
        """A piece repeated; for more than one copy its text is read again."""
        after = self.at

        def copy() -> _Piece:
            self.at = begin
            made = self.atom(depth)
            self.at = after
            return made

        whole = self.one()
        fresh = [piece]
        for _ in range(least):
            next_piece = fresh.pop() if fresh else copy()
            self.link(whole, next_piece.first)
            whole = _Piece(whole.first, next_piece.open)
        if most is None:
            again = fresh.pop() if fresh else copy()
            fork = self.state(to=(again.first,))
            self.link(again, fork)
            self.link(whole, fork)
            return _Piece(whole.first, (fork,))
        done: tuple[int, ...] = ()
        for _ in range(most - least):
            maybe = fresh.pop() if fresh else copy()
            fork = self.state(to=(maybe.first,))
            self.link(whole, fork)
            done += (fork,)
            whole = _Piece(whole.first, maybe.open)
        return _Piece(whole.first, whole.open + done)

    def atom(self, depth: int) -> _Piece:
        sign = self.peek()
        self.at += 1
        if sign == "(":
            inner = self.alternatives(depth + 1)
            if self.peek() != ")":
                raise BadPatternError("a group is not closed")
            self.at += 1
            return inner
        if sign == "[":
            return self.one(self.signs())
        if sign == ".":
            return self.one(lambda _: True)
        if sign in "^$":
            return self.one(anchor=sign)
        if sign == "\\" and self.peek():
            sign = self.peek()
            self.at += 1
        return self.one(lambda other: other == sign)

    def signs(self) -> Test:
        """A set in brackets; the bracket that opens it is behind us."""
        negated = self.peek() == "^"
        self.at += negated
        tests: list[Test] = []
        first = True
        while self.peek() and (first or self.peek() != "]"):
            first = False
            if self.text.startswith("[:", self.at):
                name, colon, _ = self.text[self.at + 2 :].partition(":]")
                if not colon or name not in _CLASSES:
                    raise BadPatternError("no such class of signs")
                tests.append(_CLASSES[name])
                self.at += len(name) + 4
                continue
            low = high = self.peek()
            self.at += 1
            if self.peek() == "-" and self.text[self.at + 1 : self.at + 2] not in ("", "]"):
                high = self.text[self.at + 1]
                self.at += 2
            tests.append(lambda sign, low=low, high=high: low <= sign <= high)  # type: ignore[misc]
        if not self.peek():
            raise BadPatternError("a set is not closed")
        self.at += 1
        return lambda sign: any(test(sign) for test in tests) != negated


class _Machine:
    """An expression, ready to search names for it."""

    def __init__(self, text: str) -> None:
        parser = _Parser(text)
        piece = parser.alternatives()
        if parser.at != len(text):
            raise BadPatternError("a group is closed that is not open")
        self._final = parser.state()
        parser.link(piece, self._final)
        self._states = parser.states
        self._first = piece.first
        self._known: dict[tuple[frozenset[int], str], frozenset[int]] = {}

    def search(self, name: str) -> bool:
        """Whether the expression occurs anywhere in the name."""
        here = self._reach({self._first}, at_begin=True, at_end=not name)
        for position, sign in enumerate(name):
            if self._final in here:
                return True
            last = position == len(name) - 1
            here = self._step(here, sign) if not last else self._take(here, sign, at_end=True)
        return self._final in here

    def _step(self, here: frozenset[int], sign: str) -> frozenset[int]:
        after = self._known.get((here, sign))
        if after is None:
            if len(self._known) > _MOST_REMEMBERED:
                self._known.clear()
            after = self._known[here, sign] = self._take(here, sign, at_end=False)
        return after

    def _take(self, here: frozenset[int], sign: str, *, at_end: bool) -> frozenset[int]:
        after = {self._first}  # it may begin anywhere
        for number in here:
            state = self._states[number]
            if state.test is not None and state.test(sign):
                after.update(state.to)
        return self._reach(after, at_begin=False, at_end=at_end)

    def _reach(self, begin: set[int], *, at_begin: bool, at_end: bool) -> frozenset[int]:
        """All states that can be reached without a sign."""
        found, ahead = set(begin), list(begin)
        while ahead:
            state = self._states[ahead.pop()]
            closed = (state.anchor == "^" and not at_begin) or (state.anchor == "$" and not at_end)
            if state.test is None and not closed:
                fresh = [number for number in state.to if number not in found]
                found.update(fresh)
                ahead += fresh
        return frozenset(found)


def is_exact(text: str) -> bool:
    """Whether a specification's name is a name and no pattern."""
    return text.startswith("operator ") or not _SPECIAL.intersection(text)


def matcher(text: str, kind: str) -> Names:
    """What tells whether a name matches.

    Args:
        text: the name or pattern.
        kind: `regex`, `glob` or `simple`, as the info file says.

    Raises:
        BadPatternError: it is no pattern.
    """
    if kind == "simple" or is_exact(text):
        return lambda name: name == text
    return _Machine(_from_glob(text) if kind == "glob" else text).search


def _from_glob(text: str) -> str:
    made, at = "^", 0
    while at < len(text):
        sign = text[at]
        close = text.find("]", at + 2)
        if sign == "[" and close > 0:
            made += text[at : close + 1].replace("[!", "[^", 1)
            at = close
        else:
            made += {"*": ".*", "?": "."}.get(sign, sign if sign.isalnum() or sign == "_" else "\\" + sign)
        at += 1
    return made + "$"
