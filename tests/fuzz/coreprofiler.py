"""The fuzz target of the CoreProfiler reader: every way of reading any bytes gives the same, without a crash.

Checks of each input: no reading raises an exception, except strict ones, which raise `DecodeError` exactly if there
are findings; a copy is the same bytes; records are those that single lines give; reading in small blocks, or a few
bytes at a time, gives the same; tables have the values of the records, and can be written; the commands accept the
trace.
"""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from functools import cache
from typing import Any
from unittest.mock import patch

from fuzz.checks import check_presented, check_strict, counts_and_places
from fuzz.engine import CORPUS, Change, Target, require
from fxtio.coreprofiler import CoreProfilerTrace, CoreProfilerWriter, frames, rules
from fxtio.coreprofiler import records as r
from fxtio.coreprofiler.layout import BYTE_ORDER_MARK, DIALECTS
from fxtio.coreprofiler.state import Samples
from fxtio.coreprofiler.tables import ITEM_TABLES, RECORD_TABLES, row_column
from fxtio.errors import EncodeError
from fxtio.table import Table
from support import coreprofiler as support
from support.fxt_readings import Trickle
from support.simulator import SHAPES

"""The functions that the commands use."""


def check(data: bytes) -> bool:
    """Read one input in every way, see `Target.check`."""
    trace = CoreProfilerTrace(data)
    entries = list(trace.entries())
    check_strict(lambda: list(CoreProfilerTrace(data, strict=True).entries()), trace.findings)
    findings = findings_of(trace)
    check_strict(lambda: CoreProfilerTrace(data, strict=True).info, trace.findings)
    require(findings_one_by_one(CoreProfilerTrace(data)) == findings, "samples one by one break the same rules")
    faults = faults_of(CoreProfilerTrace(data))
    require(findings[0].items() <= faults.items(), "a check finds what readers find")
    samples = list(trace.samples())
    check_strict(lambda: list(CoreProfilerTrace(data, strict=True).samples()), trace.findings)
    sampled = sum(isinstance(entry.record, r.StackSample | r.MemorySample) for entry in entries)
    require(len(samples) == sampled, "a whole stack for each sample")
    tables = trace.tables(*trace.table_names)
    check_tables(tables, entries)
    support.compare_stacks(samples, support.whole_stacks(tables["sample_stacks"], tables["stacks"]))
    check_written_tables(tables, entries)
    if trace.compression is None:
        check_copy(data, entries)
    longest = max(map(len, data.split(b"\n"))) + 1
    with patch.object(frames, "BLOCK", 3 * longest + len(data) % 61), patch.object(frames, "MAX_LINES", 8):
        require(list(CoreProfilerTrace(Trickle(data, 61)).entries()) == entries, "pieces give the same records")
        require(list(CoreProfilerTrace(data).samples()) == samples, "pieces give the same stacks")
        require(findings_of(CoreProfilerTrace(Trickle(data, 61))) == findings, "pieces give the same findings")
        require(faults_of(CoreProfilerTrace(Trickle(data, 61))) == faults, "pieces break the same rules")
        full = [name for name, table in tables.items() if table.num_rows]
        for name, table in CoreProfilerTrace(data).tables(*full).items():
            require(list(table.rows()) == list(tables[name].rows()), "pieces give the same tables")
    return bool(findings[0])


def findings_of(trace: CoreProfilerTrace) -> tuple[dict[str, int], list[tuple[str, str, int]]]:
    """Return how often each rule is broken in the whole trace, and where."""
    trace.watch()
    counts, places = counts_and_places(trace.findings)
    # The place of `pointer-width` is that of a block, not of a line.
    return counts, sorted(place for place in places if place[0] != "coreprofiler.line.pointer-width")


def findings_one_by_one(trace: CoreProfilerTrace) -> tuple[dict[str, int], list[tuple[str, str, int]]]:
    """Return what `findings_of` does, from blocks of a line each, in which no sample counts as one without a fault."""
    left_alone = patch.object(Samples, "follow", lambda samples, *_: samples.rows)
    with patch.object(frames, "MAX_LINES", 1), left_alone:
        return findings_of(trace)


def faults_of(trace: CoreProfilerTrace) -> dict[str, int]:
    """Return how often each rule is broken, those included that only a check finds."""
    rules.check(trace)
    return {**trace.findings.counts}


def check_copy(data: bytes, entries: list[Any]) -> None:
    """Check that copies are the same bytes, and that each line gives the same record as alone."""
    trace = CoreProfilerTrace(data)
    require(support.written(trace.records(resolve=False), trace.style) == data, "records are the same bytes")
    require(support.copied(CoreProfilerTrace(data)) == data, "a copy is the same bytes")
    with patch.object(frames, "BLOCK", 100 + len(data) % 61):  # there may be longer lines
        other = CoreProfilerTrace(Trickle(data, 7))
        require(support.written(other.records(resolve=False), other.style) == data, "a copy by pieces is the same")
    lines = data.removeprefix(BYTE_ORDER_MARK)
    raws, records = support.one_by_one(lines)
    require([entry.record for entry in entries] == records, "each line gives what it gives alone")
    at = len(data) - len(lines)
    for raw, entry in zip(raws, entries, strict=True):
        require(entry.offset == at, "a record stands where the line before it ends")
        at += len(raw)
    require(check_presented(CoreProfilerTrace(data)) == lines, "all bytes are explained")


def check_tables(tables: dict[str, Table], entries: list[Any]) -> None:
    """Check that the tables have the values of the records."""
    of_class: dict[type[Any], list[Any]] = {cls: [] for cls in r.RECORDS}
    for entry in entries:
        of_class.get(type(entry.record), []).append(entry)
    for name in (*RECORD_TABLES, *ITEM_TABLES):
        rows = list(tables[name].rows())
        if name in RECORD_TABLES:
            expected = [support.row_of(entry.offset, entry.record) for entry in of_class[RECORD_TABLES[name]]]
        else:  # of compound items: the first column has the row of the record
            cls, field = ITEM_TABLES[name]
            expected = [
                {row_column(cls): row} | support.cells_of(item)
                for row, entry in enumerate(of_class[cls])
                for item in getattr(entry.record, field)
            ]
        require(rows == expected, "tables hold what records hold")


def check_written_tables(tables: dict[str, Table], entries: list[Any]) -> None:
    """Check that a written table has the same rows, and is refused only if one of its records would be."""
    for name, cls in RECORD_TABLES.items():
        expected = [{**row, "offset": 0} for row in tables[name].rows()]
        out = io.BytesIO()
        with CoreProfilerWriter(out) as writer:
            try:
                require(writer.write_table(name, tables[name]) == len(expected), "every row is counted")
            except EncodeError:
                records = [entry.record for entry in entries if type(entry.record) is cls]
                writable = all(support.can_be_written(record) and support.has_exact_time(record) for record in records)
                require(not writable, "what can be written is not refused")
                expected = []
        rows = [{**row, "offset": 0} for row in CoreProfilerTrace(out.getvalue()).table(name).rows()]
        require(rows == expected, "a written table has the same rows")


def seeds() -> Iterator[bytes]:
    """Yield the traces of the corpus, simulated traces of all shapes in all dialects, and a line of each kind."""
    for path in sorted((CORPUS / "coreprofiler").glob("*.log")):
        yield path.read_bytes()
    for place, style in enumerate(DIALECTS):
        for seed, shape in enumerate(SHAPES):
            data, _, _ = support.simulated(seed, shape=shape, style=style, lines=bool(place % 2), steps=40)
            lines = data.splitlines(keepends=True)
            yield b"".join(lines[:2] + lines[-10:])
    yield from ODD


ODD = (
    b"thr crt 0x00000005\r\nthr dst 0x5 0x7\r\nthr cpu ? 85403 18446744073709551586\r\n",
    b"jit cms 1234 5 0xAB\njit csf 0x4d2 -5 0xab\ngch gcs 7 5 ? tfff\ngch gcs 0x7 5 induced t f\ngch gcf 7 8\n",
    b"str sam 0x0 5 ? 0:0 0x1:00ABCDEF ?:?\nsam str 0x0 -5 1 1:2:?\nsam mem 0x0 5 0x1:1:2:0x3 ?:0:0\n",
    b'gch gen 5 LOH:1:2 gen2:3:4\ngch alt 5 0x1:2:3\nfil src 0x0 "a b.cs"\nlin src 0x1 0x0 0x2 3 4 5 6\n',
    b"fun inf 0x2 0x1 0x3 0x4 0x5 0x10:0x20 0xffffffff:0x0:0x4\nfun csf 0x1 0x2 0x3 0x4 0x5\nprf cfg a b c\n",
    b'fun cmf 0x1 0x2 0x3 0x4 0x5 0x0 0x10:0x20\nfun nam 0x1 "a" "b" "c" "d"\ncls nam ? "a"b"\n',
    b"prf stm 2018-04-10 12:00:00.500 +09:00\nprf tps 1\nprf trs 2\nprc cpu 1500 7\ncls ldf 0x1 0x2 0x3 0x4\n",
)


@cache
def _lines() -> list[bytes]:
    """Return the lines of all seeds."""
    return sorted({line for seed in seeds() for line in seed.splitlines(keepends=True)})


ITEMS = (b"", b"?", b"0x", b"0x0", b"0x00000001", b"-1", b"0", b"1", b"9" * 19, b"0x" + b"f" * 17, b'"', b'" "', b"t f")


SHORT = 600  # bytes; a few lines show every fault, and more take longer


def mutate(data: bytes, most: int, draw: random.Random, change: Change) -> bytes:
    """Change a trace by whole lines or by whole items of lines."""
    most = min(most, SHORT)
    choice = draw.randrange(5)
    lines = data.splitlines(keepends=True)
    at = draw.randrange(len(lines) + 1)
    selected = lines[at : at + 1]
    if choice == 0 or not selected:
        lines[at:at] = [draw.choice(_lines())]
    elif choice == 1:
        del lines[at : at + draw.randrange(1, 4)]
    elif choice == 2:
        lines[at : at + 1] = [_with_item(selected[0], draw)]
    elif choice == 3:
        lines[at : at + 1] = [change(selected[0], 200)]
    else:
        return change(data, most)
    return b"".join(lines)[:most]


def _with_item(line: bytes, draw: random.Random) -> bytes:
    """Return the line with an item, or a part of an item, changed, inserted or removed."""
    separator = draw.choice([b" ", b":"])
    items = line.split(separator)
    at = draw.randrange(len(items))
    other = draw.choice(items) if draw.randrange(3) == 0 else draw.choice(ITEMS)
    items[at : at + draw.randrange(2)] = [other] * draw.randrange(1, 3)
    return separator.join(items)


def drawn() -> Any:
    """Return a strategy for damaged and arbitrary traces."""
    from hypothesis import strategies as st

    return support.damaged() | st.binary(max_size=200)


TARGET = Target(check, seeds, drawn, mutate)
