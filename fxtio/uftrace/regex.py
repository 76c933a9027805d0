"""Matching of POSIX extended regular expressions and globs in linear time.

The patterns of argument specifications come from a trace and may be hostile: a backtracking matcher could take
exponential time.  This one simulates a nondeterministic automaton and caches the transitions between sets of states.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

_SPECIAL = frozenset(".?*+-^$|()[]{}")
_MAX_STATES = 2000
_MAX_TRANSITIONS = 4000
_CLASSES: dict[str, Callable[[str], bool]] = {
    "alpha": str.isalpha,
    "digit": str.isdigit,
    "alnum": str.isalnum,
    "upper": str.isupper,
    "lower": str.islower,
    "space": str.isspace,
    "punct": lambda character: character.isprintable() and not character.isalnum() and not character.isspace(),
    "xdigit": lambda character: character in "0123456789abcdefABCDEF",
}

CharacterTest = Callable[[str], bool]


class NameTest(Protocol):
    """Tells whether a name matches.

    Attributes:
        states: the number of states that each character of a name may take, in the worst case.
    """

    states: int

    def __call__(self, name: str) -> bool:
        """Return whether a name matches."""


class BadPatternError(ValueError):
    """A text that is not a pattern, or a pattern that is too large."""


@dataclass(slots=True)
class _State:
    """A state of the automaton.

    Attributes:
        test: accepts the character that leads to the next states, or None for a transition without a character.
        anchor: `^` or `$` if the transition is only possible at the beginning or the end of the name.
        to: the next states.
    """

    test: CharacterTest | None = None
    anchor: str = ""
    to: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Fragment:
    """A part of the automaton: its first state, and the states whose next states are not set yet."""

    first: int
    open: tuple[int, ...]


class _Parser:
    """Builds the automaton of an expression of alternatives, sequences, repetitions, groups, sets and anchors."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.states: list[_State] = []

    def add_state(self, test: CharacterTest | None = None, anchor: str = "", to: tuple[int, ...] = ()) -> int:
        if len(self.states) >= _MAX_STATES:
            raise BadPatternError("the pattern is too large")
        self.states.append(_State(test, anchor, list(to)))
        return len(self.states) - 1

    def single(self, test: CharacterTest | None = None, anchor: str = "") -> _Fragment:
        number = self.add_state(test, anchor)
        return _Fragment(number, (number,))

    def link(self, fragment: _Fragment, to: int) -> None:
        for number in fragment.open:
            self.states[number].to.append(to)

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def alternatives(self, depth: int = 0) -> _Fragment:
        if depth > 50:
            raise BadPatternError("groups are nested too deep")
        fragments = [self.sequence(depth)]
        while self.peek() == "|":
            self.at += 1
            fragments.append(self.sequence(depth))
        if len(fragments) == 1:
            return fragments[0]
        fork = self.add_state(to=tuple(fragment.first for fragment in fragments))
        return _Fragment(fork, tuple(number for fragment in fragments for number in fragment.open))

    def sequence(self, depth: int) -> _Fragment:
        whole = self.single()
        while self.peek() and self.peek() not in "|)":
            fragment = self.repeated(depth)
            self.link(whole, fragment.first)
            whole = _Fragment(whole.first, fragment.open)
        return whole

    def repeated(self, depth: int) -> _Fragment:
        begin = self.at
        fragment = self.atom(depth)
        while self.peek() and self.peek() in "*+?{":
            least, most = self.counts()
            fragment = self.repetition(begin, depth, fragment, least, most)
        return fragment

    def counts(self) -> tuple[int, int | None]:
        operator = self.peek()
        self.at += 1
        if operator != "{":
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[operator]
        inside, brace, _ = self.text[self.at :].partition("}")
        low, comma, high = inside.partition(",")
        if not brace or not low.isdecimal() or (high and not high.isdecimal()) or len(inside) > 7:
            raise BadPatternError("a repetition in braces is not closed or has no valid numbers")
        self.at += len(inside) + 1
        return int(low), int(low) if not comma else int(high) if high else None

    def repetition(self, begin: int, depth: int, fragment: _Fragment, least: int, most: int | None) -> _Fragment:
        """Repeat the atom whose text begins at `begin`; every copy after the first is parsed from the text again."""
        after = self.at
        unused = [fragment]

        def copy() -> _Fragment:
            if unused:
                return unused.pop()
            self.at = begin
            another = self.atom(depth)
            self.at = after
            return another

        whole = self.single()
        for _ in range(least):
            required = copy()
            self.link(whole, required.first)
            whole = _Fragment(whole.first, required.open)
        if most is None:
            loop = copy()
            fork = self.add_state(to=(loop.first,))
            self.link(loop, fork)
            self.link(whole, fork)
            return _Fragment(whole.first, (fork,))
        exits: tuple[int, ...] = ()
        for _ in range(most - least):
            optional = copy()
            fork = self.add_state(to=(optional.first,))
            self.link(whole, fork)
            exits += (fork,)
            whole = _Fragment(whole.first, optional.open)
        return _Fragment(whole.first, whole.open + exits)

    def atom(self, depth: int) -> _Fragment:
        character = self.peek()
        self.at += 1
        if character == "(":
            inner = self.alternatives(depth + 1)
            if self.peek() != ")":
                raise BadPatternError("a group is not closed")
            self.at += 1
            return inner
        if character == "[":
            return self.single(self.character_set())
        if character == ".":
            return self.single(lambda _: True)
        if character in "^$":
            return self.single(anchor=character)
        if character == "\\" and self.peek():
            character = self.peek()
            self.at += 1
        return self.single(lambda other: other == character)

    def character_set(self) -> CharacterTest:
        """Parse a set in brackets, from the place after the opening bracket."""
        negated = self.peek() == "^"
        self.at += negated
        tests: list[CharacterTest] = []
        first = True
        while self.peek() and (first or self.peek() != "]"):
            first = False
            if self.text.startswith("[:", self.at):
                name, colon, _ = self.text[self.at + 2 :].partition(":]")
                if not colon or name not in _CLASSES:
                    raise BadPatternError(f"there is no character class {name[:20]!r}")
                tests.append(_CLASSES[name])
                self.at += len(name) + 4
                continue
            low = high = self.peek()
            self.at += 1
            if self.peek() == "-" and self.text[self.at + 1 : self.at + 2] not in ("", "]"):
                high = self.text[self.at + 1]
                self.at += 2
            tests.append(lambda character, low=low, high=high: low <= character <= high)  # type: ignore[misc]
        if not self.peek():
            raise BadPatternError("a set is not closed")
        self.at += 1
        return lambda character: any(test(character) for test in tests) != negated


class _Name:
    """A name that only an equal one matches, see `NameTest`."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.states = 1

    def __call__(self, name: str) -> bool:
        return name == self._text


class _Automaton:
    """A compiled expression that names can be searched for, see `NameTest`."""

    def __init__(self, text: str) -> None:
        parser = _Parser(text)
        whole = parser.alternatives()
        if parser.at != len(text):
            raise BadPatternError("a closing parenthesis has no opening one")
        self._final = parser.add_state()
        parser.link(whole, self._final)
        self._states = parser.states
        self.states = len(parser.states)
        self._first = whole.first
        self._transitions: dict[tuple[frozenset[int], str], frozenset[int]] = {}

    def __call__(self, name: str) -> bool:
        """Return whether the expression occurs anywhere in the name."""
        states = self._closure({self._first}, at_begin=True, at_end=not name)
        for position, character in enumerate(name):
            if self._final in states:
                return True
            last = position == len(name) - 1
            states = self._step(states, character) if not last else self._after(states, character, at_end=True)
        return self._final in states

    def _step(self, states: frozenset[int], character: str) -> frozenset[int]:
        after = self._transitions.get((states, character))
        if after is None:
            if len(self._transitions) > _MAX_TRANSITIONS:
                self._transitions.clear()
            after = self._transitions[states, character] = self._after(states, character, at_end=False)
        return after

    def _after(self, states: frozenset[int], character: str, *, at_end: bool) -> frozenset[int]:
        after = {self._first}  # an occurrence may begin at any character
        for number in states:
            state = self._states[number]
            if state.test is not None and state.test(character):
                after.update(state.to)
        return self._closure(after, at_begin=False, at_end=at_end)

    def _closure(self, states: set[int], *, at_begin: bool, at_end: bool) -> frozenset[int]:
        """Return all states that can be reached without a character."""
        reached, pending = set(states), list(states)
        while pending:
            state = self._states[pending.pop()]
            closed = (state.anchor == "^" and not at_begin) or (state.anchor == "$" and not at_end)
            if state.test is None and not closed:
                new = [number for number in state.to if number not in reached]
                reached.update(new)
                pending += new
        return frozenset(reached)


def is_exact(text: str) -> bool:
    """Return whether the text is the name of a function, and not a pattern."""
    return text.startswith("operator ") or not _SPECIAL.intersection(text)


def matcher(text: str, kind: str) -> NameTest:
    """Return what tells whether a name matches a pattern.

    Args:
        text: the name or pattern.
        kind: the kind of pattern: `regex`, `glob` or `simple`.

    Raises:
        BadPatternError: the text is not a valid pattern.
    """
    if kind == "simple" or is_exact(text):
        return _Name(text)
    return _Automaton(_from_glob(text) if kind == "glob" else text)


def _from_glob(text: str) -> str:
    """Return the regular expression of a glob."""
    expression, at = "^", 0
    while at < len(text):
        character = text[at]
        close = text.find("]", at + 2)
        if character == "[" and close > 0:
            expression += text[at : close + 1].replace("[!", "[^", 1)
            at = close
        else:
            literal = character if character.isalnum() or character == "_" else "\\" + character
            expression += {"*": ".*", "?": "."}.get(character, literal)
        at += 1
    return expression + "$"
