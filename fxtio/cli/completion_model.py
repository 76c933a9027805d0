"""The words that can follow on a command line, for shells: derived from the parsers, so that they are declared once."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from importlib import import_module


class Kind(Enum):
    """The completion of an argument."""

    NOTHING = auto()
    """The option has no value."""

    TEXT = auto()
    """Nothing is known about the value."""

    WORDS = auto()
    """One of some words."""

    FILE = auto()
    """A file, or a directory that is a trace."""

    FOLDER = auto()
    """A directory."""

    REST = auto()
    """A program or a module, with arguments of its own."""


_KINDS = {
    "FILE": Kind.FILE, "IN": Kind.FILE, "OUT": Kind.FILE, "REPORT": Kind.FILE, "HARNESS": Kind.FILE,
    "DIR": Kind.FOLDER,
}  # fmt: skip
"""The placeholders in help texts that stand for files and directories."""


def _commands() -> tuple[str, ...]:
    from fxtio.cli.parser import COMMANDS

    return COMMANDS


def _formats() -> tuple[str, ...]:
    from fxtio.exchange import exchanges
    from fxtio.formats import formats

    return (*formats(), *exchanges())


_WORDS: dict[str, Callable[[], tuple[str, ...]]] = {"COMMAND": _commands, "FORMAT": _formats}
"""The placeholders that stand for one of some words; the choices of a parser need no entry."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An option, or an argument that is known by its place.

    Attributes:
        names: the names of the option, none for an argument without a name.
        help: a description of one line.
        value: the placeholder of the value.
        kind: what completes the value.
        words: the words, if it is one of some.
        repeats: whether it can be given several times.
    """

    names: tuple[str, ...]
    help: str
    value: str
    kind: Kind
    words: tuple[str, ...]
    repeats: bool


@dataclass(frozen=True, slots=True)
class Command:
    """A command.

    Attributes:
        path: its words behind `fxtio`, such as `("conformance", "run")`; none for `fxtio` itself.
        help: a description of one line.
        options: its options.
        arguments: its other arguments.
        commands: the commands that can follow.
    """

    path: tuple[str, ...]
    help: str
    options: tuple[Argument, ...]
    arguments: tuple[Argument, ...]
    commands: tuple[Command, ...]

    @property
    def takes_program(self) -> bool:
        """Whether a program with arguments of its own follows."""
        return any(each.kind is Kind.REST for each in self.arguments)

    @property
    def words(self) -> tuple[str, ...]:
        """The words that can stand in the place of an argument."""
        return (*(each.path[-1] for each in self.commands), *(word for each in self.arguments for word in each.words))

    @property
    def takes_files(self) -> bool:
        """Whether an argument can be a file."""
        return any(each.kind in (Kind.FILE, Kind.REST) for each in self.arguments)

    def all(self) -> Iterator[Command]:
        """Yield the command and all commands below it."""
        yield self
        for command in self.commands:
            yield from command.all()


def fxtio_command() -> Command:
    """Return `fxtio` with all of its commands."""
    from fxtio.cli.parser import COMMANDS, front, parser_of

    commands = [_command(parser_of(name), (name,), import_module(f"fxtio.cli.{name}").HELP) for name in COMMANDS]
    whole = _command(front(), (), "")
    return Command((), whole.help, whole.options, (), tuple(commands))


def _command(parser: argparse.ArgumentParser, path: tuple[str, ...], text: str) -> Command:
    options, arguments, commands = [], [], []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, child in action.choices.items():
                commands.append(_command(child, (*path, name), (child.description or "").removesuffix(".")))
        elif action.option_strings:
            options.append(_argument(action, parser))
        else:
            arguments.append(_argument(action, parser))
    return Command(path, text, tuple(options), tuple(arguments), tuple(commands))


def _argument(action: argparse.Action, parser: argparse.ArgumentParser) -> Argument:
    value = action.metavar if isinstance(action.metavar, str) else action.dest
    words: tuple[str, ...] = ()
    if action.nargs == 0:
        kind = Kind.NOTHING
    elif action.nargs == argparse.REMAINDER:
        kind = Kind.REST
    elif action.choices is not None or value in _WORDS:
        kind = Kind.WORDS
        words = tuple(map(str, action.choices)) if action.choices is not None else _WORDS[value]()
    else:
        kind = _KINDS.get(value, Kind.TEXT)
    text = (action.help or "") % {**vars(action), "prog": parser.prog}
    repeats = action.nargs in ("*", "+") or isinstance(action, argparse._AppendAction)
    return Argument(tuple(action.option_strings), " ".join(text.split()), value, kind, words, repeats)
