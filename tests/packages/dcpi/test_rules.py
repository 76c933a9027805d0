"""The rules of DCPI profiles and listings that only a check finds: where, how often, across blocks, within bounds."""

from __future__ import annotations

import io
import random
import struct

import pytest

import fxtio
from fxtio.dcpi import dcpicat, frames, rules
from fxtio.dcpi.reader import DcpiTrace
from fxtio.errors import DecodeError
from fxtio.finding import Findings
from fxtio.rules import rule
from oracle import dcpi as oracle
from oracle.fxt_words import OracleError
from support.broken.dcpi import HEADER, LISTING, SOUND

pytestmark = pytest.mark.once

BODY = len(SOUND) - 20


def checked(data: bytes, *, strict: bool = False) -> Findings:
    trace = fxtio.open(data, format="dcpi", strict=strict)
    assert isinstance(trace, DcpiTrace)
    rules.check(trace)
    return trace.findings


def places(findings: Findings) -> list[tuple[str, int]]:
    return [(finding.rule.removeprefix("dcpi."), finding.offset) for finding in findings]


def body(*chunks: list[int]) -> bytes:
    """Return a profile of chunks, each an index of an instruction and counts."""
    words = [word for begin, *counts in chunks for word in (4 * begin, len(counts), *counts)]
    counts = [count for _, *counts in chunks for count in counts]
    words += [sum(count > 0 for count in counts), sum(counts)]
    return SOUND[:BODY] + struct.pack(f"<{len(words)}I", *words)


def test_a_sound_profile_and_a_sound_listing() -> None:
    assert places(checked(SOUND)) == []
    assert places(checked(LISTING)) == []


CHUNKS = ([0, 1, 0, 2], [3, 0, 4], [5, 6, 0], [9, 0, 0, 0], [20, 1], [21, 0])
PLACES = [
    ("chunk.mergeable", 20), ("chunk.padded", 20), ("chunk.mergeable", 36), ("chunk.padded", 36), ("chunk.zeros", 52),
    ("chunk.mergeable", 84), ("chunk.zeros", 84),
]  # fmt: skip


def test_where_chunks_are_too_long() -> None:
    assert sorted(places(checked(body(*CHUNKS)))) == sorted((rule, BODY + at) for rule, at in PLACES)


@pytest.mark.parametrize("block", [12, 16, 20, 28, 40])
def test_blocks_make_no_difference(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "BLOCK", block)
    test_where_chunks_are_too_long()


def test_chunks_that_a_writer_had_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    data = body([0, *[1] * 8], [8, 1], [9, 1])
    assert [rule for rule, _ in places(checked(data))] == ["chunk.mergeable", "chunk.mergeable"]
    monkeypatch.setattr(rules, "MAX_COUNTS", 8)
    assert places(checked(data)) == [("chunk.mergeable", BODY + 52)]


def test_many_faults_are_counted() -> None:
    findings = checked(body(*([2 * number, 0] for number in range(500))))
    assert findings.counts == {"dcpi.chunk.zeros": 500}
    assert len(list(findings)) <= 100


def test_times_that_the_grammar_does_not_have() -> None:
    data = SOUND.replace(b"epoch 9706011230", b"epoch 19970601123000")
    assert places(checked(data)) == [("header.epoch-form", HEADER.index(b"epoch"))]


@pytest.mark.parametrize(
    ("old", "new", "rule", "at"),
    [
        (b"text_start 0x120000000\ntext_size 0x1000", b"text_size 0x1000\ntext_start 0x120000000", "lines-order", b""),
        (b"image", b"label x\nimage", "lines-order", b""),
        (b":9900", b":0", "duty", b"event 10"),
        (b"0x120000008 6", b"0x120000006 6", "unaligned", b"0x120000006"),
        (b"0x120000008 6", b"0x120001000 6", "outside-text", b"0x120001000"),
        (b"0x120000008 6", b"0x120000004 0 0\n0x120000008 6", "zero-row", b"0x120000004"),
    ],
)
def test_listings(old: bytes, new: bytes, rule: str, at: bytes) -> None:
    data = LISTING.replace(old, new)
    assert places(checked(data)) == [(f"listing.{rule}", data.index(at))]


@pytest.mark.parametrize("line", [b"label a", b"path /a\npath /b", b"label a\npath /a", b"other word"])
def test_lines_that_listings_may_have(line: bytes) -> None:
    assert places(checked(LISTING.replace(b"epoch", line + b"\nepoch"))) == []


def test_listings_that_are_made_of_profiles() -> None:
    profile = SOUND.replace(b"cpuspeed", b"path /a/b\ncpuspeed").replace(b"samples ", b"samples")
    with DcpiTrace(profile) as trace:
        text = "".join(f"{line}\n" for line in dcpicat.text(dcpicat.of_profile(trace)))
    assert places(checked(text.encode())) == []


def test_a_listing_from_a_pipe() -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    trace = fxtio.open(Pipe(LISTING + b"0x120000010 0 0\n"), format="dcpi")
    assert isinstance(trace, DcpiTrace)
    rules.check(trace)
    assert [*trace.findings.counts] == ["dcpi.listing.zero-row"]


def test_a_profile_is_no_listing() -> None:
    assert not dcpicat.looks_like_listing(SOUND)
    assert not dcpicat.looks_like_listing(b"samples\n" + LISTING)
    assert dcpicat.looks_like_listing(LISTING.replace(b"\n", b"\r\n"))


def test_the_lines_of_a_listing_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    data = LISTING.replace(b"event 10", b"word value\n" * 9 + b"event 10")
    monkeypatch.setattr(dcpicat, "MAX_HEADER", data.index(b"event 10") - 11)
    findings = checked(data)
    assert findings.counts["dcpi.listing.line"] == 3  # a word and two events do not fit
    assert len(dcpicat.read(data).lines) == len(dcpicat.read(LISTING).lines) + 8


@pytest.mark.parametrize("size", [dcpicat._MAX_LINE + 1, dcpicat._READ, 2 * dcpicat._READ])
@pytest.mark.parametrize("before", [0, dcpicat._READ - len(LISTING)])
def test_a_line_that_is_too_long_is_one_fault(size: int, before: int) -> None:
    blanks = b"\n" * before
    data = LISTING + blanks + b"z" * size + b"0x120000010 1 1\n0x120000010 0 0\n"
    begin = len(LISTING) + before
    assert places(checked(data)) == [
        ("listing.line", begin),
        ("listing.zero-row", begin + size + len(b"0x120000010 1 1\n")),
    ]


def test_blanks_within_a_value_cost_no_more_than_their_number() -> None:
    line = b"name x" + b" " * 60_000 + b"y"
    assert dcpicat._word_and_value(line) == ("name", line[5:].decode())
    assert dcpicat._word_and_value(b" \tlabel \t") == ("label", "")


def test_a_strict_check_raises() -> None:
    with pytest.raises(DecodeError, match="begins where"):
        checked(body([0, 1], [1, 1]), strict=True)


LINES = [(line.split(b" ", 1)[0].decode(), line.split(b" ", 1)[1]) for line in HEADER.splitlines()]


def mutant(draw: random.Random) -> bytes:
    """Return a profile with another value in one field, or with one line more or less."""
    lines = list(LINES)
    chunks = [(4 * begin, [draw.randrange(1, 9) for _ in range(draw.randrange(1, 5))]) for begin in (0, 8, 20)]
    kind = draw.choice(["value", "less", "more", "word", "word", "word"])
    at = draw.randrange(len(lines))
    if kind == "value":
        lines[at] = lines[at][0], draw.choice([b"0", b"x", b"-1", b"12 ", b"0x10", b"9" * 40, b"9713011230", b"pdb-1"])
    elif kind == "less":
        del lines[at]
    elif kind == "more":
        lines.insert(draw.randrange(len(lines)), lines[at])
    data = bytearray(oracle.build(lines, chunks))
    if kind == "word":
        body = oracle.HEADER.match(data)
        assert body is not None
        place = draw.randrange(body.end(), len(data), 4)
        word = int.from_bytes(data[place : place + 4], "little")
        changed = draw.choice([word + 1, word - 1, word + 4, 0, 2**32 - 1, draw.randrange(2**32)])
        data[place : place + 4] = (changed % 2**32).to_bytes(4, "little")
    return bytes(data)


WARNED = {"dcpi.header.version-form", "dcpi.header.repeated-optional"}
"""The rules of faults that the oracle has and that are recommendations: of `version`, and of two lines `period`."""


@pytest.mark.parametrize("seed", range(300))
def test_what_the_specification_forbids_is_found(seed: int) -> None:
    data = mutant(random.Random(seed))
    broken = {*checked(data).counts}
    required = {each for each in broken if rule(each).level == "required"}
    try:
        oracle.parse(data)
    except OracleError:
        assert required | broken & WARNED
    else:  # the oracle knows no dates, and numbers of any size
        assert required <= {"dcpi.header.value"}
