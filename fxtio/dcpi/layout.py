"""The layout of a profile: the keywords of the header with the syntax of their values, chunks and footer of the body.

Checks, decoding, encoding and descriptions are derived from it.  `CHUNK_HEAD` and `FOOTER` are construct declarations,
for single records; the numpy types of the same fields are derived from them.

spec: DCPI profile format; notes on `version` and `tstart` come from the NT edition of the same page.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from construct import FormatField, Int32ul, Struct

TERMINATOR = "samples"
"""The word of the header's last line."""

STEP = 4
"""Bytes from one counted address to the next: an Alpha instruction.  The specification does not give the number."""

MAX_COUNT = 2**32 - 1
"""The largest count, offset and total that the body can hold."""


@dataclass(frozen=True, slots=True)
class Syntax:
    """The syntax of a value in the header.

    Attributes:
        name: its name in the specification.
        pattern: a regular expression for the whole value.
        description: the same for people.
    """

    name: str
    pattern: re.Pattern[str]
    description: str


HEX = Syntax("hex_digit+", re.compile("[0-9A-Fa-f]+"), "hexadecimal digits without 0x")
DIGITS = Syntax("digit+", re.compile("[0-9]+"), "decimal digits")
TIME = Syntax("time", re.compile("[0-9]{10}|[0-9]{12}|[0-9]{14}"), "YYMMDDHHMM, YYYYMMDDHHMM or YYYYMMDDHHMMSS, in UTC")
REST = Syntax("rest_of_line", re.compile(r"[^ \t\n][^\n]*"), "the rest of the line, which does not begin with a blank")
VERSION = Syntax("version", re.compile(r"pdb-[0-9]+\.[0-9]+"), "pdb-MAJOR.MINOR")


@dataclass(frozen=True, slots=True)
class Keyword:
    """A word that a header line may begin with.

    Attributes:
        name: the word.
        syntax: the syntax of the value.
        description: the meaning of the value.
        required: whether the specification requires it exactly once.
        repeats: whether several lines are allowed.
    """

    name: str
    syntax: Syntax
    description: str
    required: bool = False
    repeats: bool = False


KEYWORDS: dict[str, Keyword] = {
    keyword.name: keyword
    for keyword in (
        Keyword("version", VERSION, "version of the format; only in the NT edition of the specification"),
        Keyword("image", HEX, "the image's identifier; a text of digits, not a number", required=True),
        Keyword("epoch", TIME, "start of the epoch that the samples belong to", required=True),
        Keyword("platform", REST, "the host", required=True),
        Keyword("event", REST, "what was sampled, such as `cycles`", required=True),
        Keyword("period", DIGITS, "events from one sample to the next", required=True),
        Keyword("tstart", HEX, "address of the text; only in the NT edition of the specification"),
        Keyword("tsize", DIGITS, "size of the text in bytes", required=True),
        Keyword("cpuspeed", DIGITS, "the processor's speed; likely MHz, which is not stated", required=True),
        Keyword("cpuamask", HEX, "the Alpha's AMASK bits"),
        Keyword("cpuimplv", DIGITS, "the Alpha's IMPLVER number"),
        Keyword("cpucount", DIGITS, "number of processors"),
        Keyword("path", REST, "path of the image", repeats=True),
    )
}
"""The known words, in the order in which the writer puts them.  spec: required, optional"""

CHUNK_HEAD = Struct("offset" / Int32ul, "number" / Int32ul)
"""The beginning of a chunk: bytes from the beginning of the text, and the number of counts that follow.  spec: chunk"""

FOOTER = Struct("total_offsets" / Int32ul, "total_samples" / Int32ul)
"""The number of addresses with samples, and the number of samples.  spec: footer"""


def _number(field: Any) -> np.dtype[Any]:
    """Return the numpy type of a plain unsigned number."""
    assert isinstance(field, FormatField)
    return np.dtype(f"{field.fmtstr[0]}u{field.length}")


def _dtype(struct: Any) -> np.dtype[Any]:
    """Return the numpy type of a structure of plain numbers."""
    return np.dtype([(field.name, _number(field.subcon)) for field in struct.subcons])


HEAD_TYPE = _dtype(CHUNK_HEAD)
FOOTER_TYPE = _dtype(FOOTER)
WORD_TYPE = _number(Int32ul)
"""The type of every number of the body."""

HEAD_WORDS = HEAD_TYPE.itemsize // WORD_TYPE.itemsize
OFFSET, NUMBER = (HEAD_TYPE.names or ()).index("offset"), (HEAD_TYPE.names or ()).index("number")
"""The indices of a chunk's words in its head."""
