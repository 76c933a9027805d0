"""Everything that can be read from a trace, in comparable form; and ways to read it in pieces of any size."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import strategies as st

from fxtio.codec.generate import Order
from fxtio.codec.parts import Many
from fxtio.codec.record import Opaque, Record, layout_of
from fxtio.finding import Findings
from fxtio.fxt import FxtTrace, faults, frames, state
from fxtio.fxt import records as rec
from fxtio.fxt.records import StringReference, ThreadReference
from fxtio.table import Table
from fxtio.testing import strategies

from .fxt_twins import plain


@contextmanager
def in_batches(words: int, records: int | None = None, kept_names: int | None = None) -> Iterator[None]:
    """Read so few words, and so few records, at once; and keep so few names that are not in use."""
    with (
        patch.object(frames, "BATCH_WORDS", words),
        patch.object(frames, "BATCH_RECORDS", records or words),
        patch.object(state, "MAX_UNUSED", kept_names or state.MAX_UNUSED),
    ):
        yield


@contextmanager
def faults_of_the_codec() -> Iterator[None]:
    """Let readers report faults as the shared codec notices them, without telling them apart further."""
    with (
        patch.object(faults, "can_refine", lambda cls, rule: False),
        patch.object(faults, "refusal", lambda cls, rule, message, words, is_right: (rule, message)),
        patch.object(faults, "undefined_value", lambda cls: "bits.unknown-value"),
        patch.object(faults, "undefined_type", lambda header: ("framing.unknown-record", "an unknown type")),
    ):
        yield


class Trickle(io.RawIOBase):
    """A file object without a size that gives only a few bytes at a time."""

    def __init__(self, data: bytes, chunks: random.Random | int = 1) -> None:
        self._data = io.BytesIO(data)
        self._chunks = chunks

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        most = self._chunks if isinstance(self._chunks, int) else self._chunks.randint(1, 97)
        data = self._data.read(min(most, len(target)))
        target[: len(data)] = data
        return len(data)


def kept_findings(findings: Findings) -> list[tuple[str, str, int]]:
    """Return rule, level and offset of every finding that was kept."""
    return [(finding.rule, str(finding.severity), finding.offset) for finding in findings]


def rules(findings: Findings) -> dict[str, int]:
    """Return how often each rule was broken."""
    return dict(findings.counts)


def rows_of(table: Table) -> list[Any]:
    """Return a table as rows of plain values, floats as their bits."""
    return [tuple([(name, plain(value)) for name, value in row.items()]) for row in table.rows()]


def tables_of(trace: FxtTrace) -> dict[str, list[Any]]:
    """Return the rows of all tables."""
    return {name: rows_of(table) for name, table in trace.tables(*trace.table_names).items()}


def read_everything(data: bytes) -> dict[str, Any]:
    """Read a trace in memory in every way and return all results."""
    trace = FxtTrace(data)
    result: dict[str, Any] = {"records": plain(list(trace)), "findings": kept_findings(trace.findings)}
    result["raw"] = plain(list(trace.records(resolve=False)))
    result["entries"] = plain(list(trace.entries()))[1:]
    result["tables"] = tables_of(trace)
    info = trace.info
    result["info"] = (
        dict(info.records),
        info.size,
        info.start,
        info.end,
        info.byte_order,
        info.processes,
        info.threads,
    )
    result["providers"] = [
        (provider.id, provider.name, provider.records, provider.clock) for provider in info.providers
    ]
    return result


def narrow(record: Any) -> Any:
    """Map slots, providers and ticks of a record to few values, so that slots are redefined often."""
    if isinstance(record, Opaque):
        return record
    changes: dict[str, Any] = {}
    for name, part in layout_of(type(record)).parts:
        value = getattr(record, name)
        if isinstance(part, StringReference) and isinstance(value, int):
            changes[name] = value % 5
        elif isinstance(part, ThreadReference) and isinstance(value, int):
            changes[name] = 1 + value % 3
        elif isinstance(part, Many):
            changes[name] = tuple([narrow(item) for item in value])
    if isinstance(record, rec.String | rec.ThreadRecord):
        changes["index"] = 1 + record.index % 3
    if isinstance(record, rec.ProviderInfo | rec.ProviderSection):
        changes["provider_id"] = record.provider_id % 3
    return record.replace(**changes)


@cache
def narrow_traces(order: Order = "little", most: int = 20) -> st.SearchStrategy[list[Any]]:
    """Generate traces that redefine a few slots of a few providers, and refer to undefined slots."""
    state: list[type[Record]] = [
        rec.String,
        rec.String,
        rec.ThreadRecord,
        rec.ProviderInfo,
        rec.ProviderSection,
        rec.Initialization,
    ]
    others: list[type[Record]] = [
        rec.Instant,
        rec.DurationComplete,
        rec.LegacyContextSwitch,
        rec.KernelObject,
        rec.ProfilerMmap,
        rec.Log,
    ]
    often = st.sampled_from(state + others).flatmap(lambda cls: strategies.records(cls, order=order))
    any_record = often | strategies.records(order=order) | strategies.unknown_records(order=order)
    return st.lists((often | often | any_record).map(narrow), max_size=most).map(
        lambda records: [rec.Magic(), *records]
    )


def many_records(seed: int, count: int) -> list[Any]:
    """Return a long trace of random definitions and references of several providers; cheap to make."""
    draw = random.Random(seed)
    records: list[Any] = [rec.Magic(), rec.ProviderInfo(0, "p")]

    def slot() -> int:
        return draw.randint(0, 40)

    def thread() -> int:
        return draw.randint(1, 12)

    makers: list[Callable[[], Any]] = [
        lambda: rec.String(draw.randint(1, 40), f"name {draw.randint(0, 99)}" * draw.randint(0, 4)),
        lambda: rec.ThreadRecord(thread(), draw.randint(1, 9), draw.randint(1, 99)),
        lambda: rec.Instant(draw.randint(0, 10**9), thread(), slot(), slot(), ()),
        lambda: rec.DurationComplete(draw.randint(0, 10**9), thread(), slot(), slot(), (), draw.randint(0, 2**63)),
    ]
    rare: list[Callable[[], Any]] = [
        lambda: rec.ProviderSection(draw.randint(0, 3)),
        lambda: rec.ProviderInfo(draw.randint(0, 3), "again"),
        lambda: rec.Initialization(draw.choice([1, 1000, 10**9, 3 * 10**9, 2**64 - 1])),
    ]
    records += [(draw.choice(rare) if draw.random() < 0.05 else draw.choice(makers))() for _ in range(count)]
    return records


def u64(*values: int) -> Any:
    return np.array(values, np.uint64)
