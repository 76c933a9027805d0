"""CoreProfiler records and traces for the tests: strategies made from the declarations, damage, simulations."""

from __future__ import annotations

import io
from datetime import datetime, timedelta, timezone
from functools import cache
from typing import Any

from hypothesis import strategies as st

from fxtio.codec.integers import MAX_UINT64
from fxtio.codec.record import Opaque
from fxtio.codec.text import items
from fxtio.codec.text.items import layout_of
from fxtio.coreprofiler import CoreProfilerTrace, CoreProfilerWriter
from fxtio.coreprofiler import layout as lay
from fxtio.coreprofiler.layout import DIALECTS, Style
from fxtio.coreprofiler.records import RECORDS, Frame, decode, encode
from fxtio.coreprofiler.state import Sample
from fxtio.errors import DecodeError, EncodeError
from fxtio.table import Table
from support.simulator import SHAPES, Simulator, Truth

Strategy = st.SearchStrategy[Any]

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), max_size=12) | st.sampled_from(
    ["", '"', '" "', '" " "', "Class<T, U>::Method", "\udcff", ": 0x", "UNKNOWN"]
)
WORDS = st.text(st.characters(codec="utf-8", exclude_characters=" :\r\n\0"), min_size=1, max_size=8)
ZONES = st.none() | st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
TIMES = st.builds(
    lambda when, zone: when.replace(microsecond=when.microsecond // 1000 * 1000, tzinfo=zone),
    st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 28)),  # noqa: DTZ001  # local times
    ZONES,
)


EXTREMES = [
    *(sign * number + more for number in (2**31, 2**32, 2**63, 10**8, 10**18, lay.MAX_MS)
      for sign in (1, -1) for more in (-1, 0, 1)),
    0, 1, 10, 2**64 - 1,
]  # fmt: skip
"""Numbers at the limits of types and of the ways to read them."""


def numbers(low: int, high: int) -> Strategy:
    ends = [low, high, *(number for number in EXTREMES if low <= number <= high)]
    return st.sampled_from(ends) | st.integers(low, high)


def values(item: items.FixedItem) -> Strategy:
    """Return a strategy for the values of an item that does not take the rest of the line."""
    if isinstance(item, items.Number):
        result = (st.none() if item.unknown else st.nothing()) | numbers(item.low, item.high)
    elif isinstance(item, lay.Pointer):
        result = st.just(lay.UNDEFINED) | numbers(0, MAX_UINT64)
    elif isinstance(item, lay.ThreadNumber):
        result = st.none() | numbers(0, lay.MAX_32) | st.builds(lay.OsThread, numbers(0, lay.MAX_63))
    else:
        result = {items.Word: WORDS, lay.LocalTime: TIMES}[type(item)]
    return st.none() | result if item.optional else result


def compounds(cls: type[Any]) -> Strategy:
    return st.builds(cls, **{field.name: values(field.item) for field in layout_of(cls).fields})


def records(cls: type[Any]) -> Strategy:
    """Return a strategy for the records of a class that can be written in the style of the given specification."""
    layout = layout_of(cls)
    fields = {field.name: values(field.item) for field in layout.fields}
    tail = layout.tail
    if layout.members:
        for name, member in layout.members.items():
            fields[name] = st.lists(compounds(member), max_size=4).map(tuple)
    elif isinstance(tail, items.Flags):
        fields[layout.tail_fields[0]] = st.lists(st.booleans(), max_size=5).map(tuple)
    elif tail is not None:
        fields |= dict.fromkeys(layout.tail_fields, TEXTS)
    return st.builds(cls, **fields).filter(can_be_written)


def can_be_written(record: Any) -> bool:
    """Return whether the record can be written: names with quotes in them may be read as something else."""
    try:
        encode(record, DIALECTS["D2"])
    except EncodeError:
        return False
    return True


def has_exact_time(record: Any) -> bool:
    """Return whether tables have the time of the record, and not the nearest one that fits them."""
    return lay.MIN_MS <= getattr(record, "timestamp", 0) <= lay.MAX_MS


RECORDS_OF: dict[type[Any], Strategy] = {cls: records(cls) for cls in RECORDS}
ANY_RECORDS = st.one_of([*RECORDS_OF.values()])


@cache
def exact_records(cls: type[Any]) -> Strategy:
    """Return a strategy for lists of records of a class whose times tables have."""
    return st.lists(RECORDS_OF[cls].filter(has_exact_time), max_size=4)


@cache
def styles() -> Strategy:
    """Return a strategy for the styles of all dialects, with pointers of either width."""

    def varied(style: Style, width: int, glued: bool) -> Style:
        result = style.copy()
        result.formats |= {"pointer": f"0x%0{width}X"}
        result.glued_flags = glued
        return result

    return st.builds(varied, st.sampled_from([*DIALECTS.values()]), st.sampled_from([8, 16]), st.booleans())


def written(records: Any, style: Style | str = "D2") -> bytes:
    """Write records and return the bytes."""
    out = io.BytesIO()
    with CoreProfilerWriter(out, style=style) as writer:
        for record in records:
            writer.put(record)
    return out.getvalue()


def copied(trace: CoreProfilerTrace) -> bytes:
    """Copy a trace and return the bytes."""
    out = io.BytesIO()
    with CoreProfilerWriter(out) as writer:
        writer.copy(trace)
    return out.getvalue()


LINE_PIECES = st.sampled_from(
    [b" ", b":", b"\n", b"\r\n", b"?", b"0x", b"0x1F", b"-1", b"9" * 19, b"9" * 25, b"0x" + b"f" * 17, b'"', b'" "',
     b"\0", b"sam str", b"fun nam 0x1 ", b"thr crt 0x1", b"\nthr dst 0x1 0x2\n", b"gch gcs 0x0 1 ? ", b"tttf", b"\xff",
     b"\xef\xbb\xbf"]
)  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Draw lines with bytes changed, removed or inserted."""
    style = draw(styles())
    data = bytearray(written(draw(st.lists(ANY_RECORDS, max_size=6)), style))
    for _ in range(draw(st.integers(0, 5))):
        at = draw(st.integers(0, len(data)))
        match draw(st.sampled_from(["put", "cut", "drop", "byte"])):
            case "put":
                data[at:at] = draw(LINE_PIECES)
            case "cut":
                del data[at : at + draw(st.integers(1, 12))]
            case "drop":
                del data[at + (len(data) - at) * 3 // 4 :]
            case _ if at < len(data):
                data[at] = draw(st.integers(0, 255))
    return bytes(data)


def simulated(seed: int, *, steps: int = 300, style: str = "D2", **how: Any) -> tuple[bytes, list[Any], list[Truth]]:
    """Simulate a program; return its trace, the records, and the true stacks."""
    truth: list[Truth] = []
    records: list[Any] = []
    os_threads = style in ("D3", "D4")
    simulator = Simulator(records.append, seed=seed, os_threads=os_threads, truth=truth.append, **how)
    for _ in range(steps):
        simulator.step()
    simulator.finish()
    return written(records, style), records, truth


@st.composite
def simulated_traces(draw: st.DrawFn) -> bytes:
    """Draw traces without faults, of any shape and style."""
    shape, style = draw(st.sampled_from([*SHAPES])), draw(st.sampled_from([*DIALECTS]))
    how: dict[str, Any] = {"threads": draw(st.integers(1, 3)), "lines": draw(st.booleans())}
    return simulated(draw(st.integers(0, 2**32)), shape=shape, style=style, steps=draw(st.integers(1, 80)), **how)[0]


def decoded(line: bytes) -> Any:
    """Return the record of a line, or the error about it."""
    try:
        return decode(line)
    except DecodeError as error:
        return error


def one_by_one(data: bytes) -> tuple[list[bytes], list[Any]]:
    """Return the lines with their ends, and the record (or `Opaque`) that each gives alone."""
    raws = [raw + b"\n" for raw in data.split(b"\n")]
    raws[-1] = raws[-1].removesuffix(b"\n")
    if not raws[-1]:
        del raws[-1]
    records: list[Any] = []
    for raw in raws:
        result = decoded(raw.removesuffix(b"\n").removesuffix(b"\r"))
        records.append(Opaque(raw) if isinstance(result, DecodeError) else result)
    return raws, records


def row_of(offset: int, record: Any) -> dict[str, Any]:
    """Return a record as a row of its table."""
    layout = layout_of(type(record))
    row: dict[str, Any] = {"offset": offset}
    if hasattr(record, "timestamp"):
        row["time"] = min(max(record.timestamp * 1_000_000, -(2**63)), 2**63 - 1)
    row |= cells_of(record)
    for name in layout.tail_fields:
        value = getattr(record, name)
        if name in layout.members:
            value = [cells_of(item) for item in value]
        elif isinstance(layout.tail, items.Flags):
            value = "".join("t" if flag else "f" for flag in value)
        row[name] = value
    return row


def cells_of(record: Any) -> dict[str, Any]:
    """Return the columns of a record's (or a compound's) items of fixed number, without the time."""
    cells: dict[str, Any] = {}
    for field in layout_of(type(record)).fields:
        name, item, value = field.name, field.item, getattr(record, field.name)
        if name == "timestamp":
            continue
        if isinstance(item, lay.ThreadNumber):
            is_os = isinstance(value, lay.OsThread)
            cells[name], cells[f"{name}_is_os"] = value.number if is_os else -1 if value is None else value, is_os
        elif isinstance(item, lay.LocalTime):
            cells[name] = value.isoformat(sep=" ", timespec="milliseconds")
        elif isinstance(item, lay.Pointer):
            cells[name] = None if value == lay.UNDEFINED else value
            cells[f"{name}_undefined"] = value == lay.UNDEFINED
        else:
            cells[name] = -1 if value is None and not item.optional else value
    return cells


def whole_stacks(samples: Table, stacks: Table) -> list[dict[str, Any]]:
    """Return the rows of `sample_stacks` with whole stacks in place of rows of `stacks`."""
    rows = list(stacks.rows())
    result = []
    for sample in samples.rows():
        frames, at = [], sample["stack"]
        while at >= 0:
            row = rows[at]
            function = None if row["function_iid"] < 0 else row["function_iid"]
            frames.append(Frame(function, lay.UNDEFINED if row["ip_undefined"] else row["ip"]))
            at = row["parent"]
            assert row["depth"] == (0 if at < 0 else rows[at]["depth"] + 1)
        result.append(sample | {"stack": tuple(reversed(frames))})
    return result


def compare_stacks(samples: list[Sample], rows: list[dict[str, Any]]) -> None:
    """Check that rows of `whole_stacks` have what samples have."""
    for sample, row in zip(samples, rows, strict=True):
        expected = sample._asdict() | {"thread": -1 if sample.thread is None else sample.thread, "count": sample.ticks}
        names = ("offset", "time", "thread", "count", "stack", "matched", "paused", "complete")
        assert {name: row[name] for name in names} == {name: expected[name] for name in names}
