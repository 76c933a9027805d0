"""The fuzz target of the DCPI reader: every way of reading any bytes gives the same, without a crash.

Checks of each input: no reading raises an exception, except strict ones, which raise `DecodeError` exactly if there
are findings; a copy is the same bytes, and each record begins where the bytes before it end; reading in small blocks,
or a few bytes at a time, gives the same; columns have the values of the records; the oracle has the same chunks, and
accepts inputs without findings; the commands accept the profile.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any
from unittest.mock import patch

import numpy as np

from fuzz.checks import check_presented, check_strict, counts_and_places
from fuzz.engine import CORPUS, Change, Target, require
from fxtio.dcpi import DcpiTrace, dcpicat, frames, reader, rules
from fxtio.dcpi import records as r
from fxtio.dcpi.layout import HEAD_WORDS, STEP, WORD_TYPE
from oracle import dcpi as oracle
from oracle.fxt_words import OracleError
from support import dcpi as support
from support.fxt_readings import Trickle

SIZE = WORD_TYPE.itemsize


"""The functions that the commands use."""


def check(data: bytes) -> bool:
    """Read one input in every way, see `Target.check`."""
    trace = DcpiTrace(data)
    entries = list(trace.entries())
    findings = trace.findings
    check_strict(lambda: list(DcpiTrace(data, strict=True)), findings)
    if trace.compression is None:
        check_copy(data, trace)
        check_oracle(data, trace, entries)
    chunks, samples = samples_of(entries)
    tables = trace.tables(*trace.table_names)
    heads = [row for row in tables["chunks"].rows() if row["number"]]  # an empty chunk is not a record
    require(heads == chunks, "the chunks' columns hold what records hold")
    columns = zip(tables["samples"]["text_offset"].tolist(), tables["samples"]["count"].tolist(), strict=True)
    require(list(columns) == samples, "the samples' columns hold what records hold")
    info = trace.info
    require(info.chunks == tables["chunks"].num_rows, "the summary counts what there is")
    require(info.records == class_names(entries), "the summary counts the records")
    total = sum(count for _, count in samples)
    require((info.addresses, info.samples) == (len(samples), total), "the summary adds up what there is")
    faults = faults_of(DcpiTrace(data))
    is_listing = dcpicat.looks_like_listing(DcpiTrace(data).head())
    require(is_listing or findings.counts.items() <= faults.items(), "a check finds what readers find")
    block = HEAD_WORDS * SIZE + SIZE * (1 + len(data) % 9)
    with patch.object(frames, "BLOCK", block), patch.object(reader, "MAX_COUNTS", 3):
        for other in (DcpiTrace(data), DcpiTrace(Trickle(data, 61))):
            other_entries = list(other.entries())
            require(samples_of(other_entries) == (chunks, samples), "pieces give the same records")
            require(counts_and_places(other.findings) == counts_and_places(findings), "pieces give the same findings")
            require(faults_of(DcpiTrace(Trickle(data, 61))) == faults, "pieces break the same rules")
        require(DcpiTrace(data).info.records == class_names(other_entries), "the summary counts the records")
        for name, table in DcpiTrace(Trickle(data, 5)).tables(*trace.table_names).items():
            require(list(table.rows()) == list(tables[name].rows()), "pieces give the same columns")
    return bool(findings)


def faults_of(trace: DcpiTrace) -> dict[str, int]:
    """Return how often each rule is broken, those included that only a check finds."""
    rules.check(trace)
    return {**trace.findings.counts}


def class_names(entries: list[Any]) -> Counter[str]:
    """Count the records by class."""
    return Counter(type(entry.record).__name__ for entry in entries)


def check_copy(data: bytes, trace: DcpiTrace) -> None:
    """Check that copies are the same bytes, and that `explain` shows all of them."""
    at = 0
    for offset, _, record in trace.entries(resolve=False):
        require(offset == at, "a record stands where the one before it ends")
        at += len(r.encode(record))
    require(support.written(trace.records(resolve=False)) == data, "records are the same bytes")
    require(support.copied(DcpiTrace(data)) == data, "a copy is the same bytes")
    require(check_presented(DcpiTrace(data)) == data, "all bytes are explained")


def samples_of(entries: list[Any]) -> tuple[list[dict[str, int]], list[tuple[int, int]]]:
    """Return the chunks as rows of their table, and the samples."""
    chunks: list[dict[str, int]] = []
    samples: list[tuple[int, int]] = []
    at = 0
    for entry in entries:
        record = entry.record
        if isinstance(record, r.Chunk):
            number = len(record.counts) + record.remaining
            chunks.append({"offset": entry.offset, "text_offset": record.text_offset, "number": number})
            at = record.text_offset
        if isinstance(record, r.Chunk | r.MoreCounts):
            samples += [(at + STEP * row, count) for row, count in enumerate(record.counts) if count]
            at += STEP * len(record.counts)
    return chunks, samples


def check_oracle(data: bytes, trace: DcpiTrace, entries: list[Any]) -> None:
    """Check that the oracle agrees."""
    wrong = [finding for finding in trace.findings if finding.severity == "error"]
    try:
        parsed = oracle.parse(data)
    except OracleError:
        # A version with another syntax and a second `period` are warnings; the oracle does not know versions.
        warned = {"dcpi.body.opaque", "dcpi.header.version-form", "dcpi.header.repeated-optional"}
        require(bool(wrong or trace.findings.counts.keys() & warned), "the oracle's faults are findings")
        return
    # The oracle does not check dates, and accepts numbers of any size.
    require(all(finding.rule == "dcpi.header.value" for finding in wrong), "what is an error is one to the oracle")
    if "dcpi.body.opaque" not in trace.findings.counts:
        chunks = [
            (entry.record.text_offset, list(entry.record.counts))
            for entry in entries
            if isinstance(entry.record, r.Chunk)
        ]
        require(chunks == parsed["chunks"], "the oracle finds the same chunks")


def seeds() -> Iterator[bytes]:
    """Yield the profiles of the corpus, and profiles with many chunks, long chunks, and chunks longer than the file."""
    for path in sorted((CORPUS / "dcpi").glob("*.dcpi")):
        yield path.read_bytes()
    header = [(word, str(value).encode()) for word, value in support.HEADER.items()]
    for chunks in ([], [(0, [1] * 40)], [(16 * n, [n, 0, 2**32 - 1]) for n in range(12)], [(0, [0, 5]), (8, [2, 0])]):
        yield oracle.build(header, chunks)
    yield oracle.build([("version", b"pdb-0.07"), *header], [(0, [1])])[:-8] + bytes(
        [0, 0, 0, 0, 255, 255, 255, 255, 1]
    )


_END = re.compile(rb"(?<![^\n])samples[ \t]*\n")


@cache
def _lines() -> list[bytes]:
    """Return the header lines of all seeds."""
    return sorted({line for seed in seeds() for line in seed.partition(b"samples")[0].splitlines(keepends=True)})


def mutate(data: bytes, most: int, draw: random.Random, change: Change) -> bytes:
    """Change a profile by whole lines of the header or whole numbers of the body; often correct the footer."""
    parts = _END.split(data, 1)
    choice = draw.randrange(5)
    if choice == 0 or len(parts) < 2:
        return change(data, most)
    head, rest = parts
    lines = head.splitlines(keepends=True)
    if choice == 1:
        at = draw.randrange(len(lines) + 1)
        lines[at : at + draw.randrange(2)] = [draw.choice(_lines())] * draw.randrange(2)
    elif choice == 2:
        at = draw.randrange(len(lines) + 1)
        lines[at : at + 1] = [change(b"".join(lines[at : at + 1]), 80)]
    elif choice == 3:
        rest = _renumbered(rest, draw)
    else:
        rest = change(rest, max(most - len(head) - 8, 8))
    if draw.randrange(2):
        rest = _added_up(rest)
    head = b"".join(lines) + b"samples"
    padding = b" " * (-(len(head) + 1) % SIZE) if draw.randrange(4) else b"\t"
    return (head + padding + b"\n" + rest)[:most]


def _renumbered(body: bytes, draw: random.Random) -> bytes:
    """Return the body with a number changed, inserted or removed."""
    at = draw.randrange(len(body) // SIZE + 1) * SIZE
    number = draw.choice([0, 1, 2, 3, 4, 8, len(body) // SIZE, 2**31, 2**32 - 1, draw.randrange(64)])
    return body[:at] + number.to_bytes(SIZE, "little") * draw.randrange(3) + body[at + SIZE * draw.randrange(3) :]


def _added_up(body: bytes) -> bytes:
    """Return the body with the last two numbers replaced by the totals of the whole chunks before them."""
    words = np.frombuffer(body[: len(body) // SIZE * SIZE], WORD_TYPE).tolist()[:-2]
    counts: list[int] = []
    at = 0
    while at + HEAD_WORDS < len(words):
        counts += words[at + HEAD_WORDS : at + HEAD_WORDS + words[at + 1]]
        at += HEAD_WORDS + words[at + 1]
    totals = r.Footer(sum(count > 0 for count in counts), sum(counts) % 2**32)
    return body[: len(words) * SIZE] + r.encode(totals)


def drawn() -> Any:
    """Return a strategy for damaged and arbitrary profiles."""
    from hypothesis import strategies as st

    return support.damaged() | st.binary(max_size=300)


TARGET = Target(check, seeds, drawn, mutate)
