"""Detection of a file's style from its lines, see `layout.Style`."""

from __future__ import annotations

import re

from fxtio.codec.text.items import ItemField, layout_of
from fxtio.coreprofiler.layout import NUMBER_KINDS, Pointer, Style
from fxtio.coreprofiler.records import TAGS

_WIDTHS = (8, 16)
"""Numbers of so many digits are taken as padded with zeros; numbers of other lengths as not padded."""

_TRAITS = {
    "destroyed": re.compile(rb"^(thr dst(?= )|thr crt(?= [^ \r\n]+\r?$))", re.MULTILINE),
    "stack": re.compile(rb"^(sam str|str sam)(?= )", re.MULTILINE),
    "glued_flags": re.compile(rb"^gch gcs [^ \n]+ [^ \n]+ [^ \n]+ ([tf]{2,}|[tf](?= [tf]))", re.MULTILINE),
}


class Detector:
    """Takes a file's style from its lines.  The byte-order mark is not part of them.

    Args:
        style: is changed while the file shows its traits.
    """

    def __init__(self, style: Style) -> None:
        self.style = style
        self._patterns = _number_patterns()

    def look(self, data: bytes, *, first: bool) -> None:
        """Take the traits that some whole lines show.

        Args:
            data: the lines.
            first: whether they begin the file.
        """
        style = self.style
        if first and "file" not in style.detected:
            style.detected.add("file")
            end = data.find(b"\n")
            style.newline = "\r\n" if end > 0 and data[end - 1 : end] == b"\r" else "\n"
        for kind in NUMBER_KINDS:
            if f"{kind} size" not in style.detected or f"{kind} case" not in style.detected:
                self._detect_format(kind, data)
        for trait, pattern in _TRAITS.items():
            if trait not in style.detected and (match := pattern.search(data)):
                style.detected.add(trait)
                if trait == "glued_flags":
                    style.glued_flags = len(match[1]) > 1
                else:
                    setattr(style, trait, match[1].decode("ascii"))

    def _detect_format(self, kind: str, data: bytes) -> None:
        """Take the width of a kind of numbers from the first one, and the case from the first one with letters."""
        style = self.style
        for trait, pattern in zip((f"{kind} size", f"{kind} case"), self._patterns[kind], strict=True):
            match = None if trait in style.detected else pattern.search(data)
            if match is None:
                continue
            style.detected.add(trait)
            text = match[match.lastindex or 0].decode("ascii")
            digits = text.removeprefix("0x")
            prefix, _, rest = style.formats[kind].partition("%")
            size, letter = rest[:-1], rest[-1]
            if trait.endswith("size"):
                prefix = "0x" if text.startswith("0x") else ""
                size = f"0{len(digits)}" if len(digits) in _WIDTHS else ""
            else:
                letter = "X" if digits == digits.upper() else "x"
            style.formats[kind] = f"{prefix}%{size}{letter}"


def _number_patterns() -> dict[str, tuple[re.Pattern[bytes], re.Pattern[bytes]]]:
    """Return patterns that find hexadecimal numbers of each kind in lines; the number is the only group that matches.

    Returns:
        For each of `NUMBER_KINDS`, a pattern for any such number, and one for those that have letters.
    """
    places: dict[str, list[str]] = {kind: [] for kind in NUMBER_KINDS}
    for tag, classes in TAGS.items():
        for cls in classes:
            layout = layout_of(cls)
            prefix = re.escape(tag.decode("ascii"))
            _add_places(places, prefix, layout.fields, "")
            for member in [*layout.members.values()][:1]:
                items = layout_of(member).fields
                prefix += "".join(map(_plain_pattern, layout.fields)) + r"(?: [^ \r\n]*+)*?"
                _add_places(places, prefix, items, r"(?=[ \r\n])")
    digits, with_letters = "[0-9A-Fa-f]++", "[0-9]*+[A-Fa-f][0-9A-Fa-f]*+"
    return {kind: (_any_of(texts, digits), _any_of(texts, with_letters)) for kind, texts in places.items()}


def _add_places(places: dict[str, list[str]], prefix: str, fields: tuple[ItemField, ...], end: str) -> None:
    """Add the patterns of the places of some items' numbers, with DIGITS in place of each number's digits."""
    for index, field in enumerate(fields):
        kind = getattr(field.item, "kind", "")
        if kind:
            before = "".join(map(_plain_pattern, fields[:index]))
            after = "".join(map(_plain_pattern, fields[index + 1 :])) if end else ""
            number = "(?:0x)?+" if isinstance(field.item, Pointer) else "0x"
            places[kind].append(f"{prefix}{before}{re.escape(field.item.separator)}({number}DIGITS){after}{end}")


def _plain_pattern(field: ItemField) -> str:
    """Return an item's pattern without a group."""
    whole = f"{re.escape(field.item.separator)}(?:{field.item.body})"
    return f"(?:{whole})?+" if field.item.optional else whole


def _any_of(texts: list[str], digits: str) -> re.Pattern[bytes]:
    text = "|".join(texts).replace("DIGITS", digits)
    return re.compile(f"^(?:{text})".encode("ascii"), re.MULTILINE)
