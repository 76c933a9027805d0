"""How a file writes what can be written in several ways: dialects by name, and what a file itself shows.

The forms of numbers are printf forms, as in the specification's table of items.  What a file has not yet shown is as in
the given specification.  Once shown, a trait does not change: so records that were read and a writer that has the same
style agree, whatever came first.

spec: Format rules
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

FORMS = ("hex32", "hex", "pointer", "ip", "sample")
"""Forms of hexadecimal numbers: of 32 bits; of any size; of pointers and identifiers; of instruction pointers; of
Internal IDs within samples."""


@dataclass(slots=True)
class Style:
    """How a file is written.

    Attributes:
        forms: the printf form of each of `FORMS`.
        newline: the line end.
        mark: whether a byte-order mark begins the file.
        destroyed: the subtype that says that a thread was destroyed; the given specification misprints it.
        stack: the type and subtype of a stack sample.
        glued_flags: the flags of a collection stand together.
        shown: what the file has shown of this so far.
    """

    forms: dict[str, str]
    newline: str = "\n"
    mark: bool = False
    destroyed: str = "thr crt"
    stack: str = "sam str"
    glued_flags: bool = True
    shown: set[str] = field(default_factory=set)

    def form(self, name: str) -> str:
        """The printf form of one of `FORMS`."""
        return self.forms[name]

    def copy(self) -> Style:
        """The same, to be changed apart from it."""
        return replace(self, forms=dict(self.forms), shown=set(self.shown))


def _forms(hex32: str, pointer: str, ip: str, sample: str) -> dict[str, str]:
    return {"hex32": hex32, "hex": "0x%x", "pointer": pointer, "ip": ip, "sample": sample}


DIALECTS: dict[str, Style] = {
    "D0": Style(
        _forms("0x%08x", "0x%08X", "%08X", "0x%x"), destroyed="thr dst", stack="str sam",
    ),
    "D1": Style(_forms("0x%08x", "0x%08X", "%08X", "0x%x"), destroyed="thr dst"),
    "D2": Style(_forms("0x%08X", "0x%016X", "0x%016X", "0x%08X")),
    "D3": Style(_forms("0x%08x", "0x%08X", "0x%08X", "0x%x"), destroyed="thr dst"),
    "D4": Style(_forms("0x%08x", "0x%08X", "0x%08X", "0x%x"), newline="\r\n", mark=True, destroyed="thr dst"),
}  # fmt: skip
"""The dialects; D2 is the given specification.  The others are as the notes infer them, on a 32-bit device."""


def dialect(name: str) -> Style:
    """A style of its own, as a dialect has it.

    Raises:
        KeyError: there is no such dialect.
    """
    if name not in DIALECTS:
        raise KeyError(f"no dialect {name!r}; there are {', '.join(DIALECTS)}")
    return DIALECTS[name].copy()


_WIDTHS = (8, 16)


class Detector:
    """Takes a file's style from its lines; its byte-order mark is none of them.

    Args:
        style: is changed as the file shows how it is written.
        places: for each of `FORMS`, what finds any such number, and what finds one whose case shows; the last group.
    """

    def __init__(self, style: Style, places: dict[str, tuple[re.Pattern[bytes], re.Pattern[bytes]]]) -> None:
        self.style = style
        self._places = places

    def look(self, data: bytes, *, first: bool) -> None:
        """Look at some whole lines.

        Args:
            data: the lines.
            first: they begin the file.
        """
        style = self.style
        if first and "file" not in style.shown:
            style.shown.add("file")
            end = data.find(b"\n")
            style.newline = "\r\n" if end > 0 and data[end - 1 : end] == b"\r" else "\n"
        for form in FORMS:
            if f"{form} size" not in style.shown or f"{form} case" not in style.shown:
                self._look_for(form, data)
        for trait, pattern in _TRAITS.items():
            if trait not in style.shown and (match := pattern.search(data)):
                style.shown.add(trait)
                if trait == "glued_flags":
                    style.glued_flags = len(match[1]) > 1
                else:
                    setattr(style, trait, match[1].decode("ascii"))

    def _look_for(self, form: str, data: bytes) -> None:
        """Take the form of a kind of numbers from the first one, and its case from the first one with letters."""
        style = self.style
        for trait, pattern in zip((f"{form} size", f"{form} case"), self._places[form], strict=True):
            match = None if trait in style.shown else pattern.search(data)
            if match is None:
                continue
            style.shown.add(trait)
            text = match[match.lastindex or 0].decode("ascii")
            digits = text.removeprefix("0x")
            prefix, _, rest = style.forms[form].partition("%")
            size, letter = rest[:-1], rest[-1]
            if trait.endswith("size"):
                prefix = "0x" if text.startswith("0x") else ""
                size = f"0{len(digits)}" if len(digits) in _WIDTHS else ""
            else:
                letter = "X" if digits == digits.upper() else "x"
            style.forms[form] = f"{prefix}%{size}{letter}"


_TRAITS = {
    "destroyed": re.compile(rb"^(thr dst(?= )|thr crt(?= [^ \r\n]+\r?$))", re.MULTILINE),
    "stack": re.compile(rb"^(sam str|str sam)(?= )", re.MULTILINE),
    "glued_flags": re.compile(rb"^gch gcs [^ \n]+ [^ \n]+ [^ \n]+ ([tf]{2,}|[tf](?= [tf]))", re.MULTILINE),
}
