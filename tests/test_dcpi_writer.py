"""The writer of DCPI profiles: chunks, footer and padding, and what it refuses before a byte is written."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fxtio
from fxtio.dcpi import DcpiTrace, DcpiWriter, writer
from fxtio.dcpi import records as r
from fxtio.errors import EncodeError
from oracle import dcpi as oracle
from support.dcpi import HEADER


def written(*columns: tuple[Any, Any], **header: Any) -> bytes:
    out = io.BytesIO()
    with DcpiWriter(out, header=HEADER | header) as made:
        for offset, count in columns:
            made.write(offset, count)
    return out.getvalue()


@given(
    gaps=st.lists(st.integers(1, 6), max_size=40),
    cut=st.integers(0, 40),
    counts=st.data(),
    longest=st.sampled_from([1, 3, 1 << 20]),
    at_once=st.sampled_from([2, 1 << 17]),
)
def test_columns_come_back(gaps: list[int], cut: int, counts: st.DataObject, longest: int, at_once: int) -> None:
    offset = np.cumsum(np.array(gaps, np.int64)) * 4
    count = np.array(counts.draw(st.lists(st.integers(0, 99), min_size=len(gaps), max_size=len(gaps))), np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "LONGEST", longest)
        patch.setattr(writer, "_AT_ONCE", at_once)
        data = written((offset[:cut], count[:cut]), (offset[cut:], count[cut:]))
    told = oracle.parse(data)
    there = [(at + 4 * i, one) for at, numbers in told["chunks"] for i, one in enumerate(numbers) if one]
    assert there == [(at, one) for at, one in zip(offset.tolist(), count.tolist(), strict=True) if one]
    assert all(len(numbers) <= longest for _, numbers in told["chunks"])
    assert data.index(b"samples") and len(data) % 4 == 0
    assert not DcpiTrace(data).findings or set(DcpiTrace(data).findings.counts) == {"beyond-text"}


def test_gaps_of_two_are_written_as_zeros() -> None:
    chunks = oracle.parse(written(([0, 12, 28], [1, 1, 1])))["chunks"]
    assert chunks == [(0, [1, 0, 0, 1]), (28, [1])]
    assert oracle.parse(written(([0, 6], [1, 1])))["chunks"] == [(0, [1]), (6, [1])]  # not of one row of addresses


def test_chunks_are_kept_on_request() -> None:
    out = io.BytesIO()
    with DcpiWriter(out, header=HEADER) as made:
        made.write([0], [1])
        made.chunk(4, [0, 0, 2])
        made.chunk(16, [0])
    assert oracle.parse(out.getvalue())["chunks"] == [(0, [1]), (4, [0, 0, 2]), (16, [0])]


def test_lines_keep_their_order_and_unknown_ones_stay(tmp_path: Path) -> None:
    first = written(([0], [1]))
    lines = [r.Line("label", "synthetic", "\t "), *reversed(DcpiTrace(first).header.lines), r.Line("later", "a b ")]
    path = tmp_path / "out.dcpi"
    with fxtio.create(path, format="dcpi", header=lines) as made:
        made.write([8], [2])
    assert fxtio.open(path, format="dcpi").header.lines == lines
    assert path.read_bytes().index(b"samples") % 4 in range(4)
    assert DcpiTrace(path).header.end % 4 == 0


def test_header_values() -> None:
    data = written(epoch=datetime(1997, 6, 1, 12, 30, tzinfo=UTC), tstart=0x120000000, period=5)
    header = dict(oracle.parse(data)["header"])
    assert (header["epoch"], header["tstart"], header["period"]) == (b"9706011230", b"120000000", b"5")
    assert dict(oracle.parse(written(epoch=datetime(1950, 1, 1, tzinfo=UTC)))["header"])["epoch"] == b"195001010000"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"image": "xyz"}, "hexadecimal"),
        ({"platform": ""}, "rest of the line"),
        ({"platform": "a\nb"}, "rest of the line"),
        ({"epoch": "9713010000"}, "no date"),
        ({"period": -1}, "decimal digits"),
        ({"tstart": 2**64}, "64 bits"),
        ({"version": "pdb-1.01"}, "never published"),
        ({"two words": "x"}, "no word"),
    ],
)
def test_headers_that_are_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "out.dcpi"
    with pytest.raises(EncodeError, match=message):
        DcpiWriter(path, header=HEADER | change)
    assert not path.exists()


def test_lines_that_must_be_there_once(tmp_path: Path) -> None:
    with pytest.raises(EncodeError, match="no line `image`"):
        DcpiWriter(tmp_path / "out", header={name: value for name, value in HEADER.items() if name != "image"})
    lines = [r.Line(name, str(value)) for name, value in HEADER.items()]
    with pytest.raises(EncodeError, match="another line"):
        DcpiWriter(tmp_path / "out", header=[*lines, r.Line("image", "12")])


@pytest.mark.parametrize(
    ("offset", "count", "message"),
    [
        ([4, 0], [1, 1], "must rise"),
        ([0, 2], [1, 1], "must rise"),
        ([4, 4], [1, 1], "must rise"),
        ([-4], [1], "32 bits"),
        ([2**32], [1], "32 bits"),
        ([0], [-1], "32 bits"),
        ([0], [2**32], "32 bits"),
        ([0, 4], [2**32 - 1, 1], "footer cannot tell"),
        ([0.5], [1], "whole numbers"),
        ([0], ["x"], "whole numbers"),
        ([0, 4], [1], "as many"),
        ([[0]], [[1]], "as many"),
    ],
)
def test_samples_that_are_refused(offset: Any, count: Any, message: str) -> None:
    out = io.BytesIO()
    with DcpiWriter(out, header=HEADER) as made:
        made.flush()
        before = out.getvalue()
        with pytest.raises(EncodeError, match=message):
            made.write(offset, count)
        made.flush()
        assert out.getvalue() == before
        made.write([100], [7])
        with pytest.raises(EncodeError, match="must rise"):
            made.chunk(100, [1])
        with pytest.raises(EncodeError, match="takes samples"):
            made.put(r.Terminator())
    assert oracle.parse(out.getvalue())["chunks"] == [(100, [7])]
    with pytest.raises(ValueError, match="closed"):
        made.write([104], [7])


def test_records_have_their_order() -> None:
    with DcpiWriter(io.BytesIO()) as made:
        with pytest.raises(EncodeError, match="no end yet"):
            made.put(r.Chunk(0, (1,)))
        with pytest.raises(EncodeError, match="no header"):
            made.write([0], [1])
        made.put(r.Terminator())
        with pytest.raises(EncodeError, match="cannot stand here"):
            made.put(r.Line("image", "12"))
        made.put(r.Footer(0, 0))
        with pytest.raises(EncodeError, match="cannot stand here"):
            made.put(r.Chunk(0, (1,)))
