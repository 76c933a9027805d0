"""The directive `options`, which lists the arguments of a command as its parser has them.

    :::{options} conformance run
    `--case`
    : Words for this option, where they say more than the help of the command does.
    :::

Names, values and order come from the parser.  The content is a list of definitions: each is in place of the help of
the options that its term names.  One that names no option of the command fails the build.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from fxtio.cli.parser import parser_of

LITERAL = re.compile(r"`([^`]+)`|('[^' ]*[^\w ' ][^' ]*')|((?<![\w-])--?[a-z][\w-]*\b)")
"""What is shown as code in the help of an option: what is in backticks, patterns in quotes, and names of options."""


def parser_named(words: list[str]) -> argparse.ArgumentParser:
    """Return the parser of a command, or of an action of it.

    Raises:
        KeyError: the command has no such action.
    """
    parser = parser_of(words[0])
    for word in words[1:]:
        (actions,) = (each for each in parser._actions if isinstance(each, argparse._SubParsersAction))
        parser = actions.choices[word]
    return parser


def names_of(action: argparse.Action) -> list[str]:
    """Return the names by which a page speaks of an argument: those of an option, or that of a value."""
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest
    return list(action.option_strings) or [metavar.split()[0]]


def shown(action: argparse.Action, formatter: argparse.HelpFormatter) -> list[str]:
    """Return the forms in which an argument is typed, such as `-n N` and `--limit N`."""
    if action.nargs == 0:
        value = ""
    elif action.nargs == argparse.REMAINDER:
        value = str(action.metavar or action.dest)
    elif action.choices and not action.metavar:
        value = "|".join(map(str, action.choices))
    else:
        value = formatter._format_args(action, action.dest.upper())
    return [f"{name} {value}".rstrip() for name in action.option_strings] or [value]


def phrase(text: str) -> Iterator[nodes.Node]:
    """Yield a sentence with what is to be typed as code."""
    end = 0
    for match in LITERAL.finditer(text):
        yield nodes.Text(text[end : match.start()])
        code = next(filter(None, match.groups()))
        yield nodes.literal(code, code)
        end = match.end()
    yield nodes.Text(text[end:])


class Options(SphinxDirective):
    """The arguments of a command, in groups as in its help."""

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return a list of definitions for each group of arguments.

        Raises:
            docutils.parsers.rst.DirectiveError: the content describes an option that the command does not have.
        """
        parser = parser_named(self.arguments[0].split())
        formatter = parser._get_formatter()
        remarks = self.remarks()
        result: list[nodes.Node] = []
        for group in parser._action_groups:
            entries = nodes.definition_list()
            hidden = (argparse._HelpAction, argparse._SubParsersAction)
            actions = [each for each in group._group_actions if not isinstance(each, hidden)]
            while actions:
                first = actions.pop(0)
                names, definition = next((each for each in remarks if {*names_of(first)} & each[0]), ({*()}, None))
                together = [first, *(each for each in actions if {*names_of(each)} & names)]
                actions = [each for each in actions if each not in together]
                if definition is None:
                    sentence = formatter._expand_help(first) if first.help else ""
                    text = nodes.paragraph("", "", *phrase(f"{sentence[:1].upper()}{sentence[1:]}."))
                    definition = nodes.definition("", text)
                else:
                    remarks.remove((names, definition))
                entries += nodes.definition_list_item("", self.term(together, formatter), definition)
            if entries.children:
                if group.title not in ("positional arguments", "options"):
                    result.append(nodes.rubric(group.title, (group.title or "").capitalize()))
                if group.description:
                    result.append(nodes.paragraph("", "", *phrase(group.description)))
                result.append(entries)
        if remarks:
            raise self.error(f"{parser.prog} has no {', '.join(sorted(remarks[0][0]))}")
        return result

    def remarks(self) -> list[tuple[set[str], nodes.definition]]:
        """Return what the page says of arguments: their names, and the definition."""
        content = nodes.Element()
        self.state.nested_parse(self.content, self.content_offset, content)
        found = []
        for item in content.findall(nodes.definition_list_item):
            if item.parent.parent is content:
                (term,) = (each for each in item.children if isinstance(each, nodes.term))
                (definition,) = (each for each in item.children if isinstance(each, nodes.definition))
                found.append(({each.astext().split()[0] for each in term.findall(nodes.literal)}, definition))
        return found

    def term(self, actions: list[argparse.Action], formatter: argparse.HelpFormatter) -> nodes.term:
        """Return the names of arguments, with commas between them."""
        term = nodes.term()
        for name in (name for action in actions for name in shown(action, formatter)):
            term += [nodes.Text(", ")] if term.children else []
            term += nodes.literal(name, name)
        return term


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directive."""
    app.add_directive("options", Options)
    return {"parallel_read_safe": True}
