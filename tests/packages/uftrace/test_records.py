"""Records and headers: the codec against the oracle, and both ways."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fxtio.codec.record import Opaque
from fxtio.errors import DecodeError, EncodeError
from fxtio.finding import Findings
from fxtio.testing import strategies
from fxtio.uftrace.info import InfoFile
from fxtio.uftrace.layout import CommitWord, Feature, InfoBit, RecordWord
from fxtio.uftrace.records import CLASSES, Event, FunctionEntry, FunctionExit, Lost, decode, encode
from oracle.uftrace import INFO, RECORD

TYPE_OF = {cls: kind.name for kind, cls in CLASSES.items()}
ORDERS = st.sampled_from(["little", "big"])


def records() -> st.SearchStrategy[Any]:
    return st.one_of([strategies.records(cls) for cls in CLASSES.values()])


def words_of(raw: bytes, order: str) -> list[int]:
    return list(struct.unpack(f"{'<' if order == 'little' else '>'}{len(raw) // 8}Q", raw))


@given(record=records(), order=ORDERS)
def test_records_come_back(record: Any, order: str) -> None:
    raw = encode(record, order)
    words = words_of(raw, order)
    assert decode(words, raw, 0, len(words)) == record


@given(record=records(), order=ORDERS)
def test_the_oracle_reads_the_same_records(record: Any, order: str) -> None:
    result = RECORD[order].parse(encode(record, order))
    assert result.time == record.time
    assert TYPE_OF[type(record)] == result.second.type
    assert result.second.depth == record.depth
    assert result.second.marker == (record.payload is not None)
    rest = {FunctionEntry: "address", FunctionExit: "address", Lost: "count", Event: "event"}[type(record)]
    assert result.second.address == getattr(record, rest)


@given(time=st.integers(0, 2**64 - 1), address=st.integers(0, 2**48 - 1), depth=st.integers(0, 1023),
       kind=st.sampled_from(["ENTRY", "EXIT", "LOST", "EVENT"]), order=ORDERS)  # fmt: skip
def test_records_written_by_the_oracle_are_read(time: int, address: int, depth: int, kind: str, order: str) -> None:
    second = {"address": address, "depth": depth, "marker": False, "type": kind}
    raw = RECORD[order].build({"time": time, "second": second})
    record: Any = decode(words_of(raw, order), raw, 0, 2)
    assert TYPE_OF[type(record)] == kind
    assert (record.time, record.depth, record.payload) == (time, depth, None)
    assert encode(record, order) == raw


def test_the_numbers_that_real_files_hold() -> None:
    low = {FunctionEntry: 0x28, FunctionExit: 0x29, Lost: 0x2A, Event: 0x2B}
    for cls, value in low.items():
        raw = encode(cls(0, 0, 0))
        assert int.from_bytes(raw[8:], "little") == value
        deeper = encode(cls(0, 1, 0, b""))
        assert int.from_bytes(deeper[8:], "little") == value + 0x40 + 4


def test_values_beyond_the_format_are_refused() -> None:
    for bad in (
        FunctionEntry(0, 1024, 0),
        FunctionEntry(0, 0, 2**48),
        FunctionEntry(2**64, 0, 0),
        FunctionEntry(-1, 0, 0),
        FunctionExit(0, 0, 0, b"1234567"),
    ):
        with pytest.raises(EncodeError):
            encode(bad)
    with pytest.raises(EncodeError, match="is not a record of uftrace"):
        encode("x")  # type: ignore[arg-type]
    assert encode(Opaque(b"123")) == b"123"


def test_a_wrong_magic_number_is_refused() -> None:
    raw = bytearray(encode(FunctionEntry(1, 2, 3)))
    raw[8] ^= 0x08
    with pytest.raises(DecodeError, match="constant field"):
        decode(words_of(bytes(raw), "little"), raw, 0, 2)


@given(
    version=st.integers(3, 4),
    features=st.integers(0, 2**14 - 1),
    blocks=st.integers(0, 2**16 - 1),
    stack=st.integers(0, 2**16 - 1),
    size=st.sampled_from([1, 2]),
    text=st.binary(max_size=60),
    order=ORDERS,
)
def test_the_oracle_reads_the_same_info_headers(
    version: int, features: int, blocks: int, stack: int, size: int, text: bytes, order: Any
) -> None:
    lines = text.decode("utf-8", "surrogateescape").split("\n")
    new = InfoFile(version, 40, order, size, Feature(features), InfoBit(blocks), stack, b"123456", lines)
    result = INFO[order].parse(new.to_bytes())
    assert (result.version, result.header_size, result.address_size) == (version, 40, size)
    assert result.byte_order == {"little": 1, "big": 2}[order]
    assert (result.feat_mask, result.info_mask, result.max_stack_depth) == (features, blocks, stack)
    assert result.info_string == text
    assert InfoFile.parse(INFO[order].build(result), Findings("uftrace")).to_bytes() == new.to_bytes()


def test_the_example_of_the_specification() -> None:
    raw = (
        bytes.fromhex(
            "4674726163652100 04000000 2800 01 02 6300000000000000 fd03000000000000 0004 000000000000".replace(" ", "")
        )
        + b"exename:/x\n"
    )
    info = InfoFile.parse(raw, Findings("uftrace"))
    assert info.features == Feature.PLTHOOK | Feature.TASK_SESSION | Feature.SYM_REL_ADDR | Feature.MAX_STACK
    assert info.max_stack == 1024 and info.get("exename") == "/x"
    assert InfoBit.EXE_BUILD_ID not in info.blocks and InfoBit.LOADINFO in info.blocks


def test_numbers_that_do_not_fit_a_header() -> None:
    with pytest.raises(EncodeError):
        InfoFile(max_stack=2**16).to_bytes()


def test_words_for_many() -> None:

    kinds = np.array([0, 1, 3], np.uint64)
    word = RecordWord(type=kinds, more=0, depth=np.array([0, 1, 2]), address=np.array([1, 2, 3]))  # type: ignore[arg-type]
    single = [encode(cls(0, n, n + 1))[8:] for n, cls in enumerate((FunctionEntry, FunctionExit, Event))]
    assert [int(item).to_bytes(8, "little") for item in word.value] == single
    assert CommitWord.read(0x8000_0010).missed == 1
