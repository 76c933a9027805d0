"""Bad DCPI profiles: each fault with its rule and place, the rest that is still delivered, and bounded memory."""

from __future__ import annotations

import io
import tracemalloc
from pathlib import Path

import pytest

import fxtio
from fxtio.codec.record import Opaque
from fxtio.dcpi import DcpiTrace
from fxtio.dcpi import records as r
from fxtio.errors import FormatError
from oracle import dcpi as oracle
from support import dcpi as support
from support.fxt_readings import Trickle

HEADER = [
    ("image", b"0011223344"),
    ("epoch", b"9706011230"),
    ("platform", b"synthetic"),
    ("event", b"cycles"),
    ("period", b"62000"),
    ("tstart", b"120000000"),
    ("tsize", b"4096"),
    ("cpuspeed", b"333"),
    ("label", b"synth"),
]
GOOD = oracle.build(HEADER, [(0, [1, 0, 2]), (64, [5])])
BODY = GOOD.index(b"samples\n") + 8


def without(word: str) -> bytes:
    return oracle.build([(name, value) for name, value in HEADER if name != word], [(0, [1])])


def with_value(word: str, value: bytes) -> bytes:
    return oracle.build([(name, value if name == word else old) for name, old in HEADER], [(0, [1])])


def with_line(word: str, value: bytes) -> bytes:
    return oracle.build([*HEADER, (word, value)], [(0, [1])])


def numbers(*values: int) -> bytes:
    return b"".join(value.to_bytes(4, "little") for value in values)


def with_body(*values: int) -> bytes:
    return GOOD[:BODY] + numbers(*values)


def errors(data: bytes) -> list[tuple[str, int]]:
    return [
        (finding.rule, finding.offset) for finding in DcpiTrace(data).findings if finding.rule != "dcpi.header.size"
    ]


def test_the_valid_profile_has_no_findings() -> None:
    assert BODY % 4 == 0
    assert errors(GOOD) == []


@pytest.mark.parametrize("word", ["image", "epoch", "platform", "event", "period", "tsize", "cpuspeed"])
def test_missing_lines(word: str) -> None:
    assert errors(without(word)) == [("dcpi.header.missing", 0)]


@pytest.mark.parametrize(
    ("data", "rules"),
    [
        (without("tstart"), ["dcpi.header.no-text-start"]),
        (with_value("image", b"xyz"), ["dcpi.header.value"]),
        (with_value("epoch", b"97060112"), ["dcpi.header.value"]),
        (with_value("epoch", b"9799011230"), ["dcpi.header.value"]),
        (with_value("period", b"-1"), ["dcpi.header.value"]),
        (with_value("period", b"0"), ["dcpi.header.zero-period"]),
        (with_value("period", b"9" * 500), ["dcpi.header.value"]),
        (with_value("period", b"0" * 5_000), ["dcpi.header.zero-period"]),
        (with_value("period", b"0" * 5_000 + b"1"), []),
        (with_value("tsize", b"0" * 20 + b"3"), ["dcpi.chunk.beyond-text"]),
        (with_value("tsize", b"9" * 100_000), ["dcpi.header.value"]),
        (with_value("tstart", b"f" * 100_000), ["dcpi.header.value"]),
        (with_value("tstart", b"120000002"), ["dcpi.header.unaligned"]),
        (with_value("tsize", b"3"), ["dcpi.chunk.beyond-text"]),
        (with_value("platform", b"crlf\r"), ["dcpi.header.bytes"]),
        (with_value("platform", b"nul\0 quote\" \xff"), ["dcpi.header.bytes"]),
        (with_line("image", b"12"), ["dcpi.header.repeated"]),
        (with_line("period", b"12"), ["dcpi.header.repeated-optional"]),
        (with_line("cpucount", b"2"), []),
        (with_line("version", b"pdb-0.07"), ["dcpi.header.version-place"]),
        (oracle.build([("version", b"0.07"), *HEADER], []), ["dcpi.header.version-form"]),
        (oracle.build([("version", b"pdb-1%019d.0" % 0), *HEADER], []), ["dcpi.body.opaque"]),
        (oracle.build([("version", b"pdb-0.07"), *HEADER, ("path", b"/a"), ("path", b"/b")], []), []),
        (GOOD.replace(b"label synth", b"label\nsynth", 1), ["dcpi.header.line", "dcpi.header.line"]),
        (GOOD.replace(b"\n", b"\r\n"), ["dcpi.header.text-transfer"]),
        (GOOD.replace(b"samples", b"samples \t", 1).replace(b"\n", b"\r\n"), ["dcpi.header.text-transfer"]),
        (with_value("event", b"\xe9v").replace(b"\n", b"\r\n"), ["dcpi.header.bytes", "dcpi.header.text-transfer"]),
        (without("tstart").replace(b"\n", b"\r\n"), ["dcpi.header.no-text-start", "dcpi.header.text-transfer"]),
        (GOOD.replace(b"samples\n", b"samples\r\n", 1), ["dcpi.header.end", "dcpi.header.line"]),
        (GOOD[: BODY - 4], ["dcpi.header.end"]),
        (with_body(0, 0), []),
        (with_body(0), ["dcpi.footer.missing"]),
        (GOOD[:BODY], ["dcpi.footer.missing"]),
        (with_body(0, 0) + b"\0", ["dcpi.footer.trailing"]),
        (with_body(0, 1, 5, 2, 5), ["dcpi.footer.addresses"]),
        (with_body(0, 1, 5, 1, 4), ["dcpi.footer.samples"]),
        (with_body(0, 2, 2**32 - 1, 3, 2, 2), ["dcpi.footer.overflow"]),
        (with_body(0, 0, 0, 1, 5, 1, 5), ["dcpi.chunk.empty", "dcpi.chunk.order"]),
        (with_body(8, 1, 5, 4, 1, 5, 2, 10), ["dcpi.chunk.order"]),
        (with_body(0, 2, 5, 5, 4, 1, 5, 3, 15), ["dcpi.chunk.overlap"]),
        (with_body(0, 1, 5, 0, 1, 5, 2, 10), ["dcpi.chunk.order"]),
        (with_body(2, 1, 5, 1, 5), ["dcpi.chunk.unaligned"]),
        (with_body(0, 4, 5, 5, 5), ["dcpi.chunk.over-end"]),
        (with_body(0, 2**32 - 1, 5, 5, 5), ["dcpi.chunk.beyond-text", "dcpi.chunk.over-end"]),
        (with_body(2**32 - 4, 1, 5, 1, 5), ["dcpi.chunk.beyond-text"]),
    ],
)  # fmt: skip
def test_faults(data: bytes, rules: list[str]) -> None:
    assert sorted({rule for rule, _ in errors(data)}) == sorted(set(rules))
    for target in (data, Trickle(data, 5)):
        list(DcpiTrace(target))
    assert support.written(DcpiTrace(data).records(resolve=False)) == data
    assert support.copied(DcpiTrace(data)) == data


def test_findings_have_byte_offsets() -> None:
    assert errors(with_body(8, 1, 5, 4, 1, 5, 2, 10)) == [("dcpi.chunk.order", BODY + 12)]
    assert errors(with_body(0, 1, 5, 1, 4)) == [("dcpi.footer.samples", BODY + 12)]
    assert errors(with_body(0, 4, 5, 5, 5)) == [("dcpi.chunk.over-end", BODY)]
    bad = GOOD.replace(b"event cycles", b"event\ncycles", 1)
    assert ("dcpi.header.line", bad.index(b"event\n")) in errors(bad)


def test_a_cut_profile_gives_its_beginning() -> None:
    trace = DcpiTrace(with_body(0, 4, 5, 6, 7))
    assert [record for record in trace if isinstance(record, r.Chunk)] == [r.Chunk(0, (5, 6, 7), 1)]
    assert trace.table("samples")["count"].tolist() == [5, 6, 7]


def test_a_later_version_is_opaque() -> None:
    data = oracle.build([("version", b"pdb-1.01"), *HEADER], [(0, [1])])
    trace = DcpiTrace(data)
    assert isinstance(list(trace)[-1], Opaque)
    assert {finding.rule: finding.severity.value for finding in trace.findings}["dcpi.body.opaque"] == "warning"
    assert trace.info.is_opaque
    assert trace.table("samples").num_rows == 0
    assert support.copied(trace) == data


def test_a_transfer_as_text_is_recognized() -> None:
    """The header is read as it was; the numbers are changed, and kept as bytes."""
    body = numbers(0, 2, 0x0A0A0D0A, 3, 2, 0x0A0A0D0D)
    data = (GOOD[:BODY] + body).replace(b"\n", b"\r\n")
    assert fxtio.open(data).format == "dcpi"
    with DcpiTrace(data) as trace:
        assert [(finding.rule, finding.offset) for finding in trace.findings] == [
            ("dcpi.header.text-transfer", data.index(b"samples"))
        ]
        header = trace.header
    assert (header.get("event"), header.period, header.text_start) == ("cycles", 62000, 0x120000000)
    assert str(header.epoch) == "1997-06-01 12:30:00+00:00"
    assert trace.info.is_opaque
    records = list(trace)
    assert records[-1] == Opaque(body.replace(b"\n", b"\r\n"))
    assert [record.value for record in records if isinstance(record, r.Line)][3] == "cycles\r"
    assert trace.table("header")["value"].tolist() == [trace.header.value_of(line) for line in trace.header.lines]
    assert trace.table("header")["value"].tolist()[3] == "cycles"
    assert trace.table("samples").num_rows == 0


def test_many_faults_are_counted() -> None:
    data = with_body(*[0, 1, 1] * 5_000, 5_000, 5_000)
    trace = DcpiTrace(data)
    assert trace.findings.counts["dcpi.chunk.order"] == 4_999
    assert len(list(trace.findings)) <= 101


@pytest.mark.parametrize("begin", [b"image 12\n" * 3 + b"x" * 30_000_000, GOOD[:BODY] + numbers(0, 2**31)])
def test_memory_is_bounded(begin: bytes) -> None:
    data = begin + bytes(30_000_000)
    tracemalloc.start()
    try:
        for tables in DcpiTrace(io.BytesIO(data)).batches("samples"):
            assert tables["samples"].num_rows <= 1 << 18
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 25_000_000


def test_sniffing(tmp_path: Path) -> None:
    for name, data in (("a.bin", GOOD), ("b.bin", b"version pdb-1.00\n" + GOOD)):
        (tmp_path / name).write_bytes(data)
        with fxtio.open(tmp_path / name, format=None) as trace:
            assert trace.format == "dcpi"
    for text in (
        b"event horizons are\n",
        b"image 12\nhello world\n",
        b"samples\n",
        b"image 12\nperiod x\ntsize 3\n",
        b"",
    ):
        with pytest.raises(FormatError):
            fxtio.open(text)


def test_empty_and_cut_containers() -> None:
    assert [finding.rule for finding in DcpiTrace(b"").findings] == ["dcpi.source.empty"]
    import gzip

    trace = DcpiTrace(gzip.compress(GOOD * 50)[:-20])
    assert "dcpi.source.cut" in {finding.rule for finding in trace.findings}
