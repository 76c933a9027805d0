"""Docstrings of declarations: what pages, annotations and tables say about words, records and enumerations."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import Any

from fxtio.codec.record import once


@dataclass(frozen=True, slots=True)
class Doc:
    """The parts of a docstring.

    Attributes:
        text: the sentences before the sections.
        spec: the title in the specification, or empty.
        attributes: the description of every attribute.
    """

    text: str
    spec: str
    attributes: dict[str, str]


@once
def doc_of(cls: type[Any]) -> Doc:
    """Return the parts of a class's own docstring."""
    whole, _, listed = inspect.cleandoc(cls.__doc__ or "").partition("Attributes:\n")
    spec = re.search(r"spec: ([^.\n]+)\.?", whole)
    text = whole.replace(spec[0], "") if spec else whole
    attributes = re.findall(r"^    (\w+): (.*(?:\n {8,}.*)*)", listed, re.MULTILINE)
    return Doc(
        " ".join(text.split()), spec[1] if spec else "", {name: " ".join(lines.split()) for name, lines in attributes}
    )


def title_of(cls: type[Any]) -> str:
    """Return the title that the specification has for a word or a record, else the name of its class."""
    return doc_of(cls).spec or cls.__name__
