"""DCPI profiles restated from the specification text: bytes to plain values and back, or `OracleError`.

Regular expressions follow the grammar of the header line by line; the binary section is a construct declaration.
Nothing is shared with the codec under test. The specification does not give the distance of consecutive addresses; the
oracle also uses 4 bytes, an Alpha instruction.
"""

from __future__ import annotations

import re
from typing import Any

from construct import Array, ConstructError, GreedyRange, Int32ul, Struct, Terminated, this

from oracle.fxt_words import OracleError, require

REQUIRED = {
    "image": rb"[0-9a-fA-F]+",
    "epoch": rb"(?:\d{10}|\d{12}|\d{14})",
    "platform": rb"[^ \t\n][^\n]*",
    "event": rb"[^ \t\n][^\n]*",
    "period": rb"[0-9]+",
    "tsize": rb"[0-9]+",
    "cpuspeed": rb"[0-9]+",
}
OPTIONAL = {
    "cpuamask": rb"[0-9a-fA-F]+",
    "cpuimplv": rb"[0-9]+",
    "cpucount": rb"[0-9]+",
    "path": rb"[^ \t\n][^\n]*",
    "tstart": rb"[0-9a-fA-F]+",
    "version": rb"pdb-\d+\.\d+",
}

HEADER = re.compile(rb"((?:[^ \t\n]+[ \t]+[^ \t\n][^\n]*\n)*?)samples[ \t]*\n")
LINE = re.compile(rb"([^ \t\n]+)[ \t]+([^ \t\n][^\n]*)\n")

CHUNK = Struct("offset" / Int32ul, "number" / Int32ul, "count" / Array(this.number, Int32ul))


def parse(data: bytes) -> dict[str, Any]:
    """Convert a profile to a dictionary.

    Returns:
        `{"header": [(word, value)], "chunks": [(offset, [count])], "totals": (addresses, samples)}`.
    """
    match = HEADER.match(data)
    if match is None:
        raise OracleError("no header that ends with a line `samples`")
    header = [(each[1].decode("ascii", "surrogateescape"), each[2]) for each in LINE.finditer(match[1])]
    for word, value in header:
        pattern = (REQUIRED | OPTIONAL).get(word)
        require(pattern is None or re.fullmatch(pattern, value) is not None, f"the value of {word}")
    for word in REQUIRED:
        require(sum(name == word for name, _ in header) == 1, f"exactly one line {word}")
    body = data[match.end() :]
    require(len(body) % 4 == 0 and len(body) >= 8, "the body is whole numbers, a footer at least")
    try:
        chunks = (GreedyRange(CHUNK) if len(body) == 8 else Struct("all" / GreedyRange(CHUNK), Terminated)).parse(
            body[:-8]
        )
    except ConstructError as error:
        raise OracleError(str(error)) from error
    parsed = [(chunk.offset, list(chunk.count)) for chunk in (chunks if len(body) == 8 else chunks.all)]
    end = 0
    for place, (offset, counts) in enumerate(parsed):
        require(bool(counts), "a chunk without counts")
        require(offset >= end, "chunks rise and do not overlap")
        require(place == 0 or offset > parsed[place - 1][0], "offsets rise")
        end = offset + 4 * len(counts)
    totals = tuple(Array(2, Int32ul).parse(body[-8:]))
    addresses = sum(count > 0 for _, counts in parsed for count in counts)
    samples = sum(count for _, counts in parsed for count in counts)
    require(totals == (addresses, samples % 2**32), "the footer's totals")
    return {"header": header, "chunks": parsed, "totals": totals}


def build(header: list[tuple[str, bytes]], chunks: list[tuple[int, list[int]]]) -> bytes:
    """Return the bytes of a valid profile."""
    text = b"".join(word.encode() + b" " + value + b"\n" for word, value in header) + b"samples\n"
    body = b"".join(CHUNK.build({"offset": at, "number": len(counts), "count": counts}) for at, counts in chunks)
    addresses = sum(count > 0 for _, counts in chunks for count in counts)
    samples = sum(count for _, counts in chunks for count in counts) % 2**32
    totals: bytes = Array(2, Int32ul).build([addresses, samples])
    return text + body + totals
