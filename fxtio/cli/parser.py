"""The parser of the command line, made of the arguments that the commands declare, and the form of its help.

Each command is a module of its name, with `HELP`, `add_arguments(parser)` and `run(options)`, which returns the exit
code.  The names of traces may be those of recordings that have not ended, or were killed.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import textwrap
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

from fxtio.cli.blocking import with_least
from fxtio.cli.console import say
from fxtio.cli.inputs import SEPARATOR, with_joined_times
from fxtio.fxt.live_file import HEAD_BYTES, Chunks
from fxtio.io.source import COMPRESSION_SUFFIXES

GROUPS = {
    "record": ("run", "attach", "recover"),
    "look at a trace": ("info", "top", "tree", "find", "timeline", "open", "report", "query"),
    "compare runs": ("diff", "check", "lake"),
    "check tracers, down to the bytes": ("validate", "conformance", "generate", "dump", "explain", "stats"),
    "write traces": ("convert", "cut", "merge", "pack", "synth"),
    "let agents use it": ("skill", "mcp"),
    "the command line itself": ("completion", "help"),
}
"""The commands by what they are for, in the order of the help."""

COMMANDS = tuple(chain.from_iterable(GROUPS.values()))

ALIASES = {"slice": "cut"}
"""Further names of commands."""

_IN_ORDER = frozenset({"run", "conformance", "lake"})
"""Commands whose arguments are those of a program or of a further command, so that their order matters.

The actions of `lake` are `MixedParser`s.
"""

_EPILOG = """\
where to go next:
  fxtio run -o app.fxt app.py   record a program
  fxtio top app.fxt             what took the time
  fxtio open app.fxt            see it in a browser
  fxtio report app.fxt          share it, as one HTML file
  fxtio help COMMAND            options and examples
{documents}
exit status:
  0  success
  1  the trace was read, but it has faults (findings)
  2  wrong usage, or the input cannot be read
"""


def parse_command(arguments: list[str]) -> argparse.Namespace:
    """Parse the arguments of a command that reads or writes traces; unfinished recordings stand for their traces.

    Raises:
        SystemExit: the arguments are invalid (code 2), or `--help` or `--version` was given (code 0).
    """
    if arguments[:1] == ["diff"]:  # argparse leaves out what divides the two sides
        arguments = [SEPARATOR if argument == "--" else argument for argument in arguments]
    if arguments[:1] == ["top"]:
        arguments = [*with_least(arguments)]
    options = parse(with_joined_times(arguments))
    use_unfinished(options)
    return options


def parse(arguments: list[str]) -> argparse.Namespace:
    """Parse arguments; an unknown one is an error with the usage of its command.

    Options may be between the other arguments, as in `fxtio query app.fxt --csv 'select 1'`.  Without any arguments,
    the help is printed: who types only the name of a program asks what it does, which is no error.
    """
    name = arguments[0] if arguments else "--help"
    name = ALIASES.get(name, name)
    if name not in COMMANDS:
        _parse_without_command(arguments or [name])
    command = parser_of(name)
    parse_known = command.parse_known_args if name in _IN_ORDER else command.parse_known_intermixed_args
    options, unknown = parse_known(arguments[1:])
    if unknown:
        owner: argparse.ArgumentParser = options.parser
        owner.error(f"unrecognized arguments: {' '.join(unknown)}{_nearest(unknown[0], option_names(owner))}")
    return options


def _parse_without_command(arguments: list[str]) -> NoReturn:
    """Print the help or the version, or refuse what is no command."""
    parser = front()
    name = arguments[0]
    if not name.startswith("-"):
        parser.error(f"there is no command {name!r}{_nearest(name, COMMANDS) or _advice(name)}")
    parser.parse_known_args(arguments)  # ends the program at --help and --version
    parser.error(f"unrecognized arguments: {name}{_nearest(name, option_names(parser))}")


def _nearest(word: str, words: Iterable[str]) -> str:
    """Return a question whether a similar word was meant; empty if there is none."""
    from difflib import get_close_matches

    by_letters = {each.lstrip("-"): each for each in words}
    nearest = get_close_matches(word.lstrip("-").partition("=")[0], by_letters, n=1)
    return f"; did you mean {by_letters[nearest[0]]}?" if nearest else ""


def _advice(name: str) -> str:
    """Return what to do with a word that is not like any command."""
    if Path(name).exists():
        return f"; to look at the trace {name}: fxtio info {shlex.quote(name)}"
    return "; `fxtio help` lists the commands"


def option_names(parser: argparse.ArgumentParser) -> list[str]:
    """Return the names of the options of a parser."""
    return [name for action in parser._actions for name in action.option_strings]


def parser_of(name: str) -> argparse.ArgumentParser:
    """Return the parser of a command."""
    module = import_module(f"fxtio.cli.{name}")
    command = argparse.ArgumentParser(
        prog=f"fxtio {name}",
        description=f"{module.HELP}.",
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    module.add_arguments(command)
    command.set_defaults(run=module.run, parser=command)
    return command


def front() -> argparse.ArgumentParser:
    """Return the parser for a command line without a command, whose help lists all of them."""
    url = _documents()
    parser = ListingParser(
        sections=_sections(),
        prog="fxtio",
        usage="%(prog)s COMMAND [ARGUMENT ...]",
        description="Record Python programs, and read, inspect and write traces.",
        epilog=_EPILOG.format(documents=f"  {url}\n" if url else ""),
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, help="show the version, and which C extensions are there")
    return parser


def _sections() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield the lists of the help: titles, and pairs of a word and its description."""
    for title, names in GROUPS.items():
        yield title, [(name, import_module(f"fxtio.cli.{name}").HELP) for name in names]
    from fxtio.exchange import exchanges
    from fxtio.formats import formats

    known = [(each.name, each.title, each.suffixes) for each in formats().values()]
    known += [(each.name, each.title, each.suffixes) for each in exchanges().values() if each.imports]
    rows = [(name, f"{title} ({', '.join(suffixes) or 'a directory'})") for name, title, suffixes in known]
    yield "formats that are read, compressed or not", rows


def _documents() -> str:
    """Return the address of the documents, as the metadata of the package have it; empty without them."""
    from importlib.metadata import PackageNotFoundError, metadata

    try:
        links = metadata("fxtio").get_all("Project-URL") or []
    except PackageNotFoundError:
        return ""
    return next((url for label, url in (link.split(", ", 1) for link in links) if label == "Documentation"), "")


class _Version(argparse.Action):
    """Print the version, and whether the C extensions are there."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str | None = None) -> None:
        super().__init__(option_strings, dest, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *ignored: Any) -> None:
        from fxtio import __version__
        from fxtio._native.extensions import status

        print(f"fxtio {__version__}", *status(), sep="\n")
        parser.exit()


_WIDEST = 120
"""The greatest width of a help text in columns: longer lines are hard to read."""

_MARGIN = 2
_HELP_INDENT = "  "


def add_action(actions: Any, name: str, text: str, function: Any) -> argparse.ArgumentParser:
    """Add an action to a command that has several, and return its parser.

    Args:
        actions: what `add_subparsers` of the command's parser has returned.
        name: the name of the action.
        text: what it does, without a full stop.
        function: runs it, with the options, and returns the exit code.
    """
    parser: argparse.ArgumentParser = actions.add_parser(
        name, help=text, description=f"{text}.", formatter_class=HelpFormatter, allow_abbrev=False
    )
    parser.set_defaults(action=function, refuse=parser.error, parser=parser)
    return parser


class MixedParser(argparse.ArgumentParser):
    """The parser of an action whose options may be between its other arguments, as those of most commands."""

    _is_mixing = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse arguments, which is what the parser of the command calls; return the options and what is not known."""
        if self._is_mixing:  # the options by themselves, or the others
            return super().parse_known_args(args, namespace)
        self._is_mixing = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_mixing = False


class HelpFormatter(argparse.HelpFormatter):
    """Wraps the paragraphs of descriptions; those with indented lines, such as lists of examples, stay as they are."""

    def __init__(self, prog: str, **options: Any) -> None:
        if options.get("width") is None:
            options["width"] = min(shutil.get_terminal_size().columns, _WIDEST) - _MARGIN
        super().__init__(prog, **options)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = text.strip("\n").split("\n\n")
        return "\n\n".join(self._paragraph(paragraph, width, indent) for paragraph in paragraphs)

    def _paragraph(self, paragraph: str, width: int, indent: str) -> str:
        if any(line.startswith(_HELP_INDENT) for line in paragraph.splitlines()):
            return textwrap.indent(paragraph, indent)
        words = " ".join(paragraph.split())
        return textwrap.fill(words, width, initial_indent=indent, subsequent_indent=indent)


class ListingParser(argparse.ArgumentParser):
    """A parser whose help begins with lists, as of all commands: titles, and pairs of a word and its description."""

    def __init__(self, *, sections: Iterable[tuple[str, Iterable[tuple[str, str]]]], **options: Any) -> None:
        super().__init__(**options)
        self._sections = sections

    def format_help(self) -> str:
        """Return the help: usage, description, lists, options, epilog."""
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        for title, rows in self._sections:
            formatter.start_section(title)
            formatter.add_arguments(_row(word, text) for word, text in rows)
            formatter.end_section()
        formatter.start_section("options")
        formatter.add_arguments(self._actions)
        formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()


def _row(word: str, text: str) -> argparse.Action:
    """Return a row of a list as the positional argument that argparse formats."""
    return argparse.Action([], dest=word, metavar=word, help=text.replace("%", "%%"))


_TRACES = ("file", "files", "baseline", "diff")
"""The arguments of commands that are traces to read."""


def use_unfinished(options: Namespace) -> None:
    """Replace names of traces by those of the files that are recorded to, where only these exist.

    It says which are such, unless the command follows a recording that is not finished.
    """
    says = not getattr(options, "live", False)
    for argument, value in vars(options).items():
        if argument in _TRACES and isinstance(value, str):
            setattr(options, argument, _existing(value, says=says))
        elif argument in _TRACES and isinstance(value, list):
            setattr(
                options, argument, [_existing(file, says=says) if isinstance(file, str) else file for file in value]
            )


def _existing(name: str, *, says: bool) -> str:
    """Return the name of a trace, or that of the file to which it is recorded before it is compressed."""
    path = Path(name)
    part = path.with_name(f"{path.name}.part") if path.suffix in COMPRESSION_SUFFIXES else path
    try:
        if part != path and not path.exists() and part.is_file():
            if says:
                say(f"there is no {name} yet, so {part.name} is read: {_reason(name)}")
            return str(part)
        if says and path.is_file() and _is_unfinished(path):
            say(f"{name} is not finished: {_reason(name)}")
    except (OSError, ValueError):  # the command will say what is wrong with the name
        pass
    return name


def _is_unfinished(path: Path) -> bool:
    with open(path, "rb") as file:
        return Chunks.of(file.read(HEAD_BYTES)) is not None


def _reason(name: str) -> str:
    return f"its program still runs, or was killed; after that, `fxtio recover {name}` finishes it"
