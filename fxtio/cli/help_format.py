"""The form of help texts: as wide as the terminal, with examples as they are to be typed."""

from __future__ import annotations

import argparse
import shutil
import textwrap
from collections.abc import Iterable
from typing import Any

_WIDEST = 120
"""The greatest width of a help text in columns: longer lines are hard to read."""

_MARGIN = 2
_INDENT = "  "


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
        if any(line.startswith(_INDENT) for line in paragraph.splitlines()):
            return textwrap.indent(paragraph, indent)
        words = " ".join(paragraph.split())
        return textwrap.fill(words, width, initial_indent=indent, subsequent_indent=indent)


class ListingParser(argparse.ArgumentParser):
    """A parser whose help begins with lists, such as that of all commands.

    Args:
        sections: the lists: a title, and pairs of a word and its description.
        options: those of the base class.
    """

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
