"""Pages about layouts, as Markdown: what the declarations of records, words and enumerations say, for the reference."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from functools import singledispatch
from types import ModuleType

from fxtio.codec.docstrings import doc_of, title_of
from fxtio.codec.parts import Many, Number, Part, Rest, Sized, Stream, Words
from fxtio.codec.record import Record, layout_of, load_extensions
from fxtio.codec.word import Field, Word


def section_head(level: int, title: str, *texts: str) -> list[str]:
    """Return the lines that begin a section: its heading, and sentences."""
    return [f"{'#' * level} {title}", "", " ".join(filter(None, texts)), ""]


@singledispatch
def part_text(part: Part, name: str) -> str:
    """Describe the part in a line of the reference, as Markdown."""
    padded = "padded with zeros to whole words"
    match part:
        case Number(kind, optional):
            form = {"u": "unsigned", "i": "signed, two's complement", "f": "a double-precision number"}[kind]
            return f"`{name}`: a word, {form}{'; there if the record has room for it' if optional else ''}"
        case Stream(size, text):
            return f"`{name}`: `{size}` bytes of {'UTF-8 text' if text else 'data'}, {padded}"
        case Sized():
            return f"`{name}`: a word with the length in bytes, then that many bytes of data, {padded}"
        case Words(count):
            return f"`{name}`: `{count}` words"
        case Rest(flag):
            return f"`{name}`: whole words up to the next record; there if `{flag}` is 1"
        case Many(union, count):
            return f"`{name}`: `{count}` times a small record, see {title_of(union.base)}"
        case _:
            raise TypeError(f"{type(part).__name__} cannot be described")


def layout_markdown(cls: type[Record], *, level: int = 3) -> str:
    """Return a section of Markdown about a record: its purpose, its header words bit by bit, its body part by part.

    Args:
        cls: the record.
        level: of the heading.  Enumerations are linked to; `enumeration_markdown` makes their sections.
    """
    doc, layout = doc_of(cls), layout_of(cls)
    lines = section_head(level, title_of(cls), f"`{cls.__name__}`.", doc.text)[:-1]
    for number, word in enumerate(layout.words):
        title = f"**Header word {number + 1}** {doc_of(word).text}" if number else "**Header word**"
        lines += ["", title, "", *_word_table(word)]
    if layout.body:
        lines += ["", "**Body**", ""]
    load_extensions(cls)
    for name, part in layout.body:
        text = doc.attributes.get(name)
        lines.append(f"1. {part_text(part, name)}{f': {text}' if text else '.'}")
    return "\n".join([*lines, ""])


def word_markdown(word: type[Word], *, level: int = 3) -> str:
    """Return a section of Markdown about a word."""
    return "\n".join([*section_head(level, title_of(word), doc_of(word).text), *_word_table(word), ""])


def _word_table(word: type[Word]) -> Iterator[str]:
    """Yield the lines of a Markdown table with the declared fields of a word."""
    yield "| Bits | Field | Value | Meaning |"
    yield "|---|---|---|---|"
    for field in word.fields.values():
        name = field.meaning.__name__ if field.meaning else ""
        texts = [field.doc, f"see [{name}](#{name.lower()})" if name else ""]
        meaning = "reserved, must be zero" if field.role == "reserved" else "; ".join(filter(None, texts))
        name = f"`{field.name}`" if field.role != "reserved" else ""
        bits = f"{field.lo} .. {field.hi}" if field.width > 1 else str(field.lo)
        yield f"| {bits} | {name} | {_legal(field)} | {meaning} |"


def _legal(field: Field) -> str:
    """Return the values that a field may have, or an empty string where that is every value that fits."""
    if field.role == "bits":
        return f"{field.limits[0]} to {field.limits[1]}" if field.least else "signed" if field.signed else ""
    if field.role == "const":
        return f"{field.value:#x}"
    labels = {member.value: member.name for member in field.meaning} if field.meaning else {}
    return f"{field.value} = {labels[field.value]}" if field.value in labels else str(field.value)


def enumeration_markdown(enumeration: type[IntEnum]) -> str:
    """Return a section of Markdown about an enumeration, with the anchor that the tables of words link to."""
    doc = doc_of(enumeration)
    head = section_head(3, enumeration.__name__, doc.text or f"Specification: {doc.spec}.")
    return "\n".join(
        [
            *head,
            "| Value | Name |",
            "|---|---|",
            *(f"| {member.value} | `{member.name}` |" for member in enumeration),
            "",
        ]
    )


def enumerations_markdown(module: ModuleType) -> str:
    """Return a chapter of Markdown about all enumerations of a module, in its order."""
    classes = [value for value in vars(module).values() if isinstance(value, type) and issubclass(value, IntEnum)]
    own = [cls for cls in classes if cls.__module__ == module.__name__]
    return "\n".join(["## Enumerations", "", *(enumeration_markdown(cls) for cls in own)])
