"""The writer of DCPI profiles: chunks, footer and padding, and refusals before a byte is written."""

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
from fxtio.coreprofiler import CoreProfilerTrace
from fxtio.dcpi import DcpiTrace, DcpiWriter
from fxtio.dcpi import records as r
from fxtio.dcpi import writer as room
from fxtio.errors import EncodeError
from oracle import dcpi as oracle
from support.dcpi import HEADER


def written(*columns: tuple[Any, Any], **header: Any) -> bytes:
    out = io.BytesIO()
    with DcpiWriter(out, header=HEADER | header) as writer:
        for offset, count in columns:
            writer.write_table("samples", {"text_offset": offset, "count": count})
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
        patch.setattr(room, "MAX_LENGTH", longest)
        patch.setattr(room, "BATCH", at_once)
        data = written((offset[:cut], count[:cut]), (offset[cut:], count[cut:]))
    chunks = oracle.parse(data)["chunks"]
    samples = [(at + 4 * i, value) for at, numbers in chunks for i, value in enumerate(numbers) if value]
    assert samples == [(at, value) for at, value in zip(offset.tolist(), count.tolist(), strict=True) if value]
    assert all(len(numbers) <= longest for _, numbers in chunks)
    assert data.index(b"samples") and len(data) % 4 == 0
    assert not DcpiTrace(data).findings


def test_gaps_of_two_are_written_as_zeros() -> None:
    chunks = oracle.parse(written(([0, 12, 28], [1, 1, 1])))["chunks"]
    assert chunks == [(0, [1, 0, 0, 1]), (28, [1])]


def test_single_chunks_are_written_as_given() -> None:
    out = io.BytesIO()
    with DcpiWriter(out, header=HEADER) as writer:
        writer.write_table("samples", {"text_offset": [0], "count": [1]})
        writer.chunk(4, [0, 0, 2])
        writer.chunk(16, [0])
    assert oracle.parse(out.getvalue())["chunks"] == [(0, [1]), (4, [0, 0, 2]), (16, [0])]


def test_header_lines_keep_their_order_and_unknown_lines_are_kept(tmp_path: Path) -> None:
    first = written(([0], [1]))
    lines = [r.Line("label", "synthetic", "\t "), *reversed(DcpiTrace(first).header.lines), r.Line("later", "a b ")]
    path = tmp_path / "out.dcpi"
    with fxtio.create(path, format="dcpi", header=lines) as writer:
        writer.write_table("samples", {"text_offset": [8], "count": [2]})
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
        ({"epoch": "9713010000"}, "not a date"),
        ({"period": -1}, "unsigned integer"),
        ({"tstart": 2**64}, "64 bits"),
        ({"version": "pdb-1.01"}, "never published"),
        ({"two words": "x"}, "not a word"),
        ({"platform": None}, "neither a text"),
        ({"platform": 1.5}, "neither a text"),
        ({"period": True}, "neither a text"),
        ({"period": 0}, "the period is 0"),
        ({"tstart": 2}, "not a multiple of four"),
        ({"epoch": datetime(1997, 6, 1, 12, 30, 0, 5, tzinfo=UTC)}, "finer than a second"),
    ],
)
def test_headers_that_are_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "out.dcpi"
    with pytest.raises(EncodeError, match=message):
        DcpiWriter(path, header=HEADER | change)
    assert not path.exists()


def test_required_lines_occur_once(tmp_path: Path) -> None:
    with pytest.raises(EncodeError, match="no line `image`"):
        DcpiWriter(tmp_path / "out", header={name: value for name, value in HEADER.items() if name != "image"})
    lines = [r.Line(name, str(value)) for name, value in HEADER.items()]
    for again in ("image", "period"):
        with pytest.raises(EncodeError, match="another line"):
            DcpiWriter(tmp_path / "out", header=[*lines, r.Line(again, "12")])
    with pytest.raises(EncodeError, match="is not a Line"):
        DcpiWriter(tmp_path / "out", header=[("image", "12")])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("offset", "count", "message"),
    [
        ([4, 0], [1, 1], "must rise"),
        ([0, 2], [1, 1], "must rise"),
        ([4, 4], [1, 1], "must rise"),
        ([-4], [1], "32 bits"),
        ([2**32], [1], "32 bits"),
        ([0], [-1], "does not fit in uint32"),
        ([0], [2**32], "does not fit in uint32"),
        ([0, 6], [1, 1], "not multiples of 4"),
        ([0, True], [1, 1], "must rise|types"),
        ([True], [1], "not a column of integers"),
        ([0.5], [1], "not a column of integers"),
        ([0], ["x"], "not a column of integers"),
        ([0, 4], [1, None], "count: has a null"),
        ([0, 4], [1], "different lengths"),
        (np.zeros((1, 1), np.int64), np.zeros((1, 1), np.int64), "dimensions"),
    ],
)
def test_samples_that_are_refused(offset: Any, count: Any, message: str) -> None:
    for with_header in (True, False):
        out = io.BytesIO()
        with DcpiWriter(out, header=HEADER if with_header else None) as writer:
            writer.flush()
            before = out.getvalue()
            with pytest.raises(EncodeError, match=message):
                writer.write_table("samples", {"text_offset": offset, "count": count})
            writer.flush()
            assert out.getvalue() == before
            writer.write_table("samples", {"text_offset": [100], "count": [7]})
            with pytest.raises(EncodeError, match="must rise"):
                writer.chunk(100, [1])
        assert oracle.parse(out.getvalue())["chunks"] == [(100, [7])]


ABSURD = (-1, 2**63, 2**64, 2**70, float("nan"), float("inf"), None, "\ud800", "", b"", object(), "x" * 100, 1.5, True)


@pytest.mark.parametrize("counts", [[], [2**32], [[1], [1, 2]], [[1]], 5, *([each] for each in ABSURD), *ABSURD])
def test_chunks_that_are_refused(counts: Any) -> None:
    out = io.BytesIO()
    with DcpiWriter(out) as writer, pytest.raises(EncodeError):
        writer.chunk(0, counts)
    assert out.getvalue() == b""


@pytest.mark.parametrize("offset", [*ABSURD, [], 2, 2**32])
def test_offsets_of_chunks_that_are_refused(offset: Any) -> None:
    out = io.BytesIO()
    with DcpiWriter(out) as writer, pytest.raises(EncodeError):
        writer.chunk(offset, [1])
    assert out.getvalue() == b""


@pytest.mark.parametrize("as_table", [False, True])
def test_nothing_is_written_beyond_the_text(as_table: bool) -> None:
    out = io.BytesIO()
    with DcpiWriter(out, header=None if as_table else HEADER | {"tsize": 8}) as writer:
        if as_table:
            words = HEADER | {"image": "12", "epoch": "9706011230", "tstart": "1000", "tsize": "8"}
            writer.write_table("header", {"word": [*words], "value": [*map(str, words.values())]})
        with pytest.raises(EncodeError, match="the text, which has 8 bytes"):
            writer.chunk(4, [1, 1])
        with pytest.raises(EncodeError, match="the text, which has 8 bytes"):
            write_sample(writer, 8)
        writer.chunk(4, [1])
    assert not DcpiTrace(out.getvalue()).findings


def test_a_sum_beyond_32_bits_is_in_the_footer_modulo() -> None:
    counts = [2**32 - 1, 2**32 - 1, 2]
    out = io.BytesIO()
    with DcpiWriter(out, header=HEADER) as writer:
        writer.chunk(0, counts[:2])
        writer.write_table("samples", {"text_offset": [8], "count": counts[2:]})
    for data in (out.getvalue(), written(([0, 4, 8], counts))):
        trace = DcpiTrace(data)
        assert trace.info.samples == sum(counts) == 2**33
        assert list(trace)[-1] == r.Footer(3, 0)
        assert [finding.rule for finding in trace.findings] == ["dcpi.footer.overflow"]
        assert trace.table("footer")["total_samples"].tolist() == [0]


def test_records_have_their_order() -> None:
    with DcpiWriter(io.BytesIO()) as writer:
        with pytest.raises(EncodeError, match="Chunk cannot be before the end of the header"):
            writer.put(r.Chunk(0, (1,)))
        with pytest.raises(EncodeError, match="MoreCounts cannot be before"):
            writer.put(r.MoreCounts((1,)))
        writer.put(r.Line("image", "12"))
        for write in (lambda: writer.chunk(0, [1]), lambda: write_sample(writer, 0)):
            with pytest.raises(EncodeError, match="put a Terminator first"):
                write()
        with pytest.raises(EncodeError, match="must be the first"):
            writer.write_table("header", {"word": ["image"], "value": ["12"]})
        writer.put(r.Terminator())
        for line in (r.Line("image", "12"), r.Terminator()):
            with pytest.raises(EncodeError, match="cannot be after the end of the header"):
                writer.put(line)
        writer.put(r.Chunk(0, (1,), 2))
        with pytest.raises(EncodeError, match="3 counts follow a chunk that lacks 2"):
            writer.put(r.MoreCounts((1, 2, 3)))
        for write in (lambda: writer.put(r.Footer(0, 0)), lambda: writer.put(r.Chunk(8, (1,))),
                      lambda: write_sample(writer, 100)):  # fmt: skip
            with pytest.raises(EncodeError, match="2 counts of the last chunk must come first"):
                write()
        writer.put(r.MoreCounts((1, 2)))
        writer.put(r.Footer(0, 0))
        with pytest.raises(EncodeError, match="cannot be after the end"):
            writer.put(r.Chunk(0, (1,)))
        with pytest.raises(EncodeError, match="nothing can follow the footer"):
            write_sample(writer, 100)


def write_sample(writer: DcpiWriter, offset: int) -> int:
    return writer.write_table("samples", {"text_offset": [offset], "count": [1]})


def test_records_and_columns_are_mixed() -> None:
    """With a header, chunks may be put as well; the footer counts them."""
    out = io.BytesIO()
    with DcpiWriter(out, header=HEADER) as writer:
        for line in (r.Line("note", "late"), r.Terminator()):
            with pytest.raises(EncodeError, match="cannot be after the end of the header"):
                writer.put(line)
        write_sample(writer, 0)
        writer.put(r.Chunk(8, (5, 0), 1))
        writer.put(r.MoreCounts((6,)))
        write_sample(writer, 20)
        writer.chunk(24, [7])
    profile = oracle.parse(out.getvalue())
    assert profile["chunks"] == [(0, [1]), (8, [5, 0, 6]), (20, [1]), (24, [7])]
    assert profile["totals"] == (5, 20)


def test_a_footer_that_is_put_replaces_the_computed_footer() -> None:
    out = io.BytesIO()
    with DcpiWriter(out, header=HEADER) as writer:
        write_sample(writer, 0)
        writer.put(r.Footer(9, 9))
    assert list(DcpiTrace(out.getvalue()))[-2:] == [r.Chunk(0, (1,)), r.Footer(9, 9)]


def test_records_alone_get_no_footer() -> None:
    out = io.BytesIO()
    with DcpiWriter(out) as writer:
        writer.put(r.Terminator())
        writer.put(r.Chunk(0, (1,)))
    assert out.getvalue() == b"samples\n" + np.array([0, 1, 1], "<u4").tobytes()


def test_a_chunk_that_lacks_counts_gets_no_footer() -> None:
    """The reader would take the footer for counts."""
    out = io.BytesIO()
    with DcpiWriter(out, header=HEADER) as writer:
        writer.put(r.Chunk(0, (1,), 5))
    trace = DcpiTrace(out.getvalue())
    assert list(trace)[-1] == r.Chunk(0, (1,), 5)
    assert set(trace.findings.counts) == {"dcpi.chunk.over-end"}


def test_samples_without_a_header_get_a_placeholder_header() -> None:
    for write in (lambda writer: writer.chunk(2**32 - 4, [1]), lambda writer: write_sample(writer, 2**32 - 4)):
        out = io.BytesIO()
        with DcpiWriter(out) as writer:
            write(writer)
        trace = DcpiTrace(out.getvalue(), strict=True)
        assert trace.header.get("platform") == "unknown"
        assert trace.table("samples")["text_offset"].tolist() == [2**32 - 4]


def test_a_whole_profile_from_its_tables() -> None:
    lines = [r.Line(line.word, line.value, " \t") for line in DcpiTrace(written()).header.lines]
    out = io.BytesIO()
    with DcpiWriter(out, header=[*lines, r.Line("label", "synthetic")]) as writer:
        writer.write_table("samples", {"text_offset": [0, 8, 400], "count": [1, 2, 3]})
    first = DcpiTrace(out.getvalue())
    out = io.BytesIO()
    with DcpiWriter(out) as writer:
        assert writer.write_table("header", first.table("header")) == len(HEADER) + 1
        assert writer.write_table("samples", first.table("samples")) == 3
    result = DcpiTrace(out.getvalue(), strict=True)
    assert result.header.lines == first.header.lines
    assert list(result) == list(first)
    assert list(result.table("footer").rows()) == list(first.table("footer").rows())
    footer = {"offset": first.info.size - 8, "total_offsets": 3, "total_samples": 6}
    assert [row for batch in first.batches("footer", "header") for row in batch["footer"].rows()] == [footer]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"word": ["image"], "value": ["12"]}, "no line `epoch`"),
        ({"word": ["two words"], "value": ["12"]}, "not a word"),
        ({"word": ["image"], "value": [12]}, "value: is not a column of text"),
        ({"word": ["image", None], "value": "12"}, "word: has a null"),
        ({"word": "image", "value": "12", "blanks": 5}, "blanks: is not a column of text"),
        ({"word": "image", "value": "12", "blanks": "x"}, "spaces and tabs"),
    ],
)
def test_headers_in_columns_that_are_refused(columns: dict[str, Any], message: str) -> None:
    out = io.BytesIO()
    with DcpiWriter(out) as writer, pytest.raises(EncodeError, match=message):
        writer.write_table("header", columns)
    assert out.getvalue() == b""


def test_copies_that_are_refused() -> None:
    profile = DcpiTrace(written(([0], [1])))
    for header in (HEADER, None):
        with DcpiWriter(io.BytesIO(), header=header) as writer:
            if header is None:
                writer.put(r.Line("image", "12"))
            with pytest.raises(EncodeError, match="must be the first"):
                writer.copy(profile)
    with DcpiWriter(io.BytesIO()) as writer:
        with pytest.raises(EncodeError, match="coreprofiler trace cannot be copied"):
            writer.copy(CoreProfilerTrace(b"prf tps 1\n"))
        writer.copy(profile)
        with pytest.raises(EncodeError, match="cannot be after the end"):
            writer.put(r.Chunk(0, (1,)))


def test_a_closed_writer_refuses() -> None:
    out = io.BytesIO()
    with DcpiWriter(out, header=HEADER) as writer:
        pass
    before = out.getvalue()
    for write in (
        lambda: writer.put(r.Chunk(0, (1,))),
        lambda: writer.put("not a record"),  # type: ignore[arg-type]
        lambda: writer.chunk(0, [1]),
        lambda: write_sample(writer, 0),
        lambda: writer.copy(DcpiTrace(before)),
    ):
        with pytest.raises(ValueError, match="the writer is closed") as caught:
            write()
        assert not isinstance(caught.value, EncodeError)
    writer.close()
    assert out.getvalue() == before


def test_nothing_is_written_beyond_the_text_of_a_header_that_was_put() -> None:
    with DcpiWriter(io.BytesIO()) as writer:
        for record in (r.Line("tsize", "8"), r.Terminator()):
            writer.put(record)
        with pytest.raises(EncodeError, match="beyond the text"):
            writer.write_table("samples", {"text_offset": [8], "count": [1]})
        writer.chunk(4, [1])
