"""Listings of `dcpicat`: written ones are read back, variations of the form are accepted, faults are reported."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fxtio.dcpi import DcpiTrace, dcpicat
from fxtio.dcpi.records import Line
from fxtio.errors import DecodeError, EncodeError
from support import dcpi as support
from support.checkout import CORPUS
from support.fxt_readings import Trickle

LISTING = b"""name         synthetic
image        19970601120000a1b2c3
label        never measured
path         /synthetic/a
path         /synthetic/b
epoch        200212042334
platform     synthetic.example
text_start   0x000120000000
text_size    0x2000
event        10 cycles:62000:9900
event        3 retired^!notrap:m0count:1000:100
0x120000000   4    0
0x120000008   6    3
"""


def test_a_listing() -> None:
    listing = dcpicat.read(LISTING, strict=True)
    assert [line.word for line in listing.lines][2:5] == ["label", "path", "path"]
    assert listing.get("text_size") == "0x2000"
    assert listing.events == [
        dcpicat.Event(10, "cycles", 62000, 9900),
        dcpicat.Event(3, "retired^!notrap:m0count", 1000, 100),
    ]
    assert listing.table()["cycles"].tolist() == [4, 6]
    assert listing.address.tolist() == [0x120000000, 0x120000008]
    twice = dcpicat.read(LISTING.replace(b"3 retired^!notrap:m0count", b"3 cycles"))
    assert list(twice.table()) == ["address", "cycles", "cycles#1"]


@given(data=support.profiles())
def test_a_written_listing_is_read_back(data: bytes) -> None:
    listing = dcpicat.of_profile(DcpiTrace(data))
    text = "\n".join(dcpicat.text(listing)).encode() + b"\n"
    for target in (text, text.replace(b"\n", b"\r\n"), Trickle(text, 11)):
        reread = dcpicat.read(target, strict=True)
        assert (reread.lines, reread.events) == (listing.lines, listing.events)
        assert reread.address.tolist() == listing.address.tolist()
        assert [column.tolist() for column in reread.counts] == [column.tolist() for column in listing.counts]


@given(data=st.binary(max_size=80) | st.sampled_from([LISTING[:n] for n in range(0, len(LISTING), 7)]))
def test_anything_gives_a_listing(data: bytes) -> None:
    listing = dcpicat.read(data)
    assert all(len(column) == len(listing.address) for column in listing.counts)


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (LISTING + b"0x120000004 1 1\n", "dcpi.listing.order"),
        (LISTING + b"0x120000010 1\n", "dcpi.listing.row"),
        (LISTING.replace(b"10 cycles", b"11 cycles"), "dcpi.listing.total"),
        (LISTING.replace(b"10 cycles:62000", b"cycles"), "dcpi.listing.line"),
        (LISTING + b"label late\n", "dcpi.listing.line"),
        (b"lonely\n", "dcpi.listing.line"),
        (b"label " + b"x" * 3_000_000, "dcpi.listing.line"),
    ],
)
def test_faults(data: bytes, rule: str) -> None:
    assert rule in dcpicat.read(data).findings.counts
    with pytest.raises(DecodeError):
        dcpicat.read(data, strict=True)


def test_listings_that_are_refused() -> None:
    with pytest.raises(EncodeError, match="tstart"):
        dcpicat.of_profile(DcpiTrace(CORPUS / "dcpi" / "given-specification.dcpi"))
    with pytest.raises(EncodeError, match="overlap"):
        dcpicat.of_profile(DcpiTrace(CORPUS / "dcpi" / "overlapping.dcpi"))
    listing = dcpicat.read(LISTING)
    listing.lines.append(Line("label", "a\nb"))
    with pytest.raises(EncodeError, match="line end"):
        list(dcpicat.text(listing))
    listing.lines.pop()
    listing.counts[0] = np.array([-1, 1])
    with pytest.raises(EncodeError, match="32 bits"):
        list(dcpicat.text(listing))
