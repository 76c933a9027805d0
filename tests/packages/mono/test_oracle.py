"""The declarations against the specification, restated in construct without looking at them."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fxtio.errors import DecodeError
from fxtio.mono.buffers import decode_events
from fxtio.mono.headers import BufferHeader
from fxtio.mono.reader import MonoTrace
from fxtio.mono.records import dialect_of
from fxtio.testing.strategies import buffers
from oracle import mono as oracle
from support.mono_every import encode_events
from support.mono_samples import FILES, content

BASES = {"time_base": "time", "ptr_base": "pointer", "obj_base": "object", "method_base": "method"}
_LEFT_OUT = {"_io", "exinfo", "num", "mtype", "num_roots", "there"}


def values_of_event(event: Any) -> list[Any]:
    """Return all values of fxtio's event, in the order of the declaration, without those that the version lacks."""
    parsed: list[Any] = []
    for name in event.__struct_fields__:
        value = getattr(event, name)
        if name in ("action", "backtrace_flags", "flags") or value is None:
            continue
        parsed += _flat(value)
    return parsed


def _flat(value: Any) -> list[Any]:
    if isinstance(value, tuple):
        return [leaf for item in value for leaf in _flat(item)]
    if hasattr(value, "__struct_fields__"):
        return values_of_event(value)
    return [value.encode("utf-8", "surrogateescape") if isinstance(value, str) else _bits(value)]


def _bits(value: Any) -> Any:
    """Return doubles as their bits, so that minus zero differs from zero."""
    return struct.pack("<d", value) if isinstance(value, float) else value


def values_of_oracle(parsed: Any) -> list[Any]:
    """Return all values of the oracle's event, in the order of the specification."""
    if isinstance(parsed, dict):
        names = [name for name in parsed if name not in _LEFT_OUT]
        return [leaf for name in names for leaf in values_of_oracle(parsed[name])]
    if isinstance(parsed, list):
        return [leaf for item in parsed for leaf in values_of_oracle(item)]
    return [] if parsed is None else [_bits(parsed)]


def normalized(key: tuple[int, int], event: Any) -> list[Any]:
    """Return the oracle's values as fxtio has them: offsets of references added up, counters without end mark."""
    if key == (6, 2):
        total = 0
        for reference in event["refs"]["items"]:
            total = reference["offset"] = (total + reference["offset"]) % (1 << 64)
    if key == (7, 4):
        event["counters"].pop()
    return values_of_oracle(event)


def compare(data: bytes, version: int, bits: int, header: BufferHeader) -> None:
    dialect = dialect_of(version, bits // 8)
    events = [event for _, event in decode_events(dialect, header, data)]
    bases = {theirs: getattr(header, name) for theirs, name in BASES.items()}
    theirs = oracle.parse_events(data, version, bits, bases)
    assert len(events) == len(theirs)
    for event, (key, parsed) in zip(events, theirs, strict=True):
        assert values_of_event(event) == normalized(key, parsed)


@pytest.mark.parametrize("version", [14, 17])
@given(st.data(), st.sampled_from([32, 64]))
def test_the_oracle_reads_events_written_by_fxtio(version: int, draw: st.DataObject, bits: int) -> None:
    dialect = dialect_of(version, bits // 8)
    header, events = draw.draw(buffers(dialect))
    compare(encode_events(dialect, header, events), version, bits, header)


@pytest.mark.parametrize("version", [14, 17])
@given(st.data())
def test_fxtio_refuses_events_that_the_specification_forbids(version: int, draw: st.DataObject) -> None:
    head = draw.draw(st.integers(0, 255))
    is_specified = (head & 15, head >> 4) in oracle.BY_VERSION[version]
    dialect = dialect_of(version, 8)
    rule = ""
    try:
        list(decode_events(dialect, BufferHeader(), bytes([head])))
    except DecodeError as error:
        rule = error.rule
    assert rule == ("event.cut" if is_specified else "event.unknown")


@pytest.mark.parametrize("path", [path for path in FILES if "v13" not in path.name and "v16" not in path.name],
                         ids=lambda path: path.name)  # fmt: skip
def test_the_corpus_reads_the_same(path: Path) -> None:
    parsed = oracle.FILE.parse(content(path))
    headers = [record for record in MonoTrace(path).records(resolve=False) if isinstance(record, BufferHeader)]
    assert len(parsed.buffers) == len(headers)
    for theirs, header in zip(parsed.buffers, headers, strict=True):
        assert theirs["thread id"] == header.thread
        compare(theirs.data, parsed.header.format, 8 * parsed.header.ptrsize, header)
