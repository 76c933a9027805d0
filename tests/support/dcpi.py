"""Profiles for the tests: hypothesis strategies for records and whole files, and damage."""

from __future__ import annotations

import io
from typing import Any

from hypothesis import strategies as st

from fxtio.dcpi import DcpiTrace, DcpiWriter
from fxtio.dcpi import records as r
from fxtio.dcpi.layout import DIGITS, HEX, KEYWORDS, REST, TIME, VERSION
from fxtio.dcpi.reader import Info

U32 = st.sampled_from([0, 1, 2**31 - 1, 2**31, 2**32 - 4, 2**32 - 1]) | st.integers(0, 2**32 - 1)
BLANKS = st.text(" \t", min_size=1, max_size=3)
WORDS = st.text(st.characters(max_codepoint=126, exclude_characters=" \t\n"), min_size=1, max_size=12)
OCTETS = st.binary(max_size=20).map(lambda raw: raw.replace(b"\n", b"").decode("ascii", "surrogateescape"))
VALUES = {
    HEX: st.text("0123456789abcdefABCDEF", min_size=1, max_size=20),
    DIGITS: st.text("0123456789", min_size=1, max_size=25)
    | st.sampled_from([str(2**bits + more) for bits in (31, 32, 63, 64) for more in (-1, 0)]),
    TIME: st.sampled_from([10, 12, 14]).flatmap(lambda size: st.text("0123456789", min_size=size, max_size=size)),
    REST: st.builds(lambda first, rest: first + rest, st.characters(min_codepoint=33, max_codepoint=126), OCTETS),
    VERSION: st.builds("pdb-{}.{:02}".format, st.integers(0, 2), st.integers(0, 99)),
}

KNOWN_LINES = st.one_of(
    [st.builds(r.Line, st.just(keyword.name), VALUES[keyword.syntax], BLANKS) for keyword in KEYWORDS.values()]
)
OTHER_LINES = st.builds(r.Line, WORDS.filter(lambda word: word not in KEYWORDS), VALUES[REST], BLANKS)
COUNTS = st.lists(U32, min_size=1, max_size=12).map(tuple)

RECORDS: dict[str, st.SearchStrategy[Any]] = {
    "Line": KNOWN_LINES | OTHER_LINES,
    "Terminator": st.builds(r.Terminator, st.just("") | BLANKS),
    "Chunk": st.builds(r.Chunk, U32, COUNTS, st.integers(0, 100)),
    "MoreCounts": st.builds(r.MoreCounts, COUNTS),
    "Footer": st.builds(r.Footer, U32, U32),
}

HEADER: dict[str, Any] = {
    "image": "00112233",
    "epoch": "9706011230",
    "platform": "synthetic",
    "event": "cycles",
    "period": 1000,
    "tstart": 0x1000,
    "tsize": 4096,
    "cpuspeed": 333,
}


@st.composite
def profiles(draw: st.DrawFn) -> bytes:
    """Draw profiles without errors, of any chunks."""
    out = io.BytesIO()
    at = 0
    with DcpiWriter(out, header=HEADER | {"tsize": 2**40}) as writer:
        for gap, counts in draw(
            st.lists(st.tuples(st.integers(0, 5), st.lists(st.integers(0, 9), min_size=1, max_size=6)))
        ):
            at += gap * 4
            writer.chunk(at, counts)
            at += 4 * len(counts)
    return out.getvalue()


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Draw profiles with bytes changed, removed or inserted."""
    data = bytearray(draw(profiles()))
    for change in draw(st.lists(st.sampled_from(["byte", "cut", "more", "head"]), min_size=1, max_size=4)):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        if change == "byte" and data:
            data[at] = draw(st.sampled_from([0, 10, 13, 32, 255]) | st.integers(0, 255))
        elif change == "cut":
            del data[at:]
        elif change == "more":
            data[at:at] = draw(st.binary(max_size=12))
        else:
            del data[: at // 4]
    return bytes(data)


def written(records: Any) -> bytes:
    """Write records one by one and return the bytes."""
    out = io.BytesIO()
    with DcpiWriter(out) as writer:
        for record in records:
            writer.put(record)
    return out.getvalue()


def copied(trace: DcpiTrace) -> bytes:
    """Copy a profile and return the bytes."""
    out = io.BytesIO()
    with DcpiWriter(out) as writer:
        writer.copy(trace)
    return out.getvalue()


def sums(info: Info) -> dict[str, int]:
    """Return the sums of a profile."""
    names = ("chunks", "counts", "addresses", "samples", "mergeable", "padded")
    return {name: getattr(info, name) for name in names}
