"""Detection of a file's style from its lines, see `layout.Style`."""

from __future__ import annotations

import re

from fxtio.coreprofiler.layout import NUMBER_KINDS, Style
from fxtio.coreprofiler.lines import number_patterns

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
        self._patterns = number_patterns()

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
