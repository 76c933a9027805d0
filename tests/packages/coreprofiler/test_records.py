"""Encoding and decoding of CoreProfiler lines: every record of every dialect, singly, by columns, and by the oracle."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fxtio.codec.docstrings import doc_of
from fxtio.codec.record import Opaque
from fxtio.coreprofiler import CoreProfilerTrace, describe_markdown, frames
from fxtio.coreprofiler import records as r
from fxtio.coreprofiler.explain import ranges_of, usage
from fxtio.coreprofiler.layout import BYTE_ORDER_MARK, DIALECTS, UNDEFINED, OsThread
from fxtio.coreprofiler.records import decode, encode
from fxtio.errors import DecodeError, EncodeError
from fxtio.finding import Findings
from oracle import coreprofiler as oracle
from oracle.fxt_words import OracleError
from support import coreprofiler as support
from support.fxt_readings import Trickle

D2 = DIALECTS["D2"]
CLASSES = pytest.mark.parametrize("cls", r.RECORDS, ids=lambda cls: cls.__name__)


@CLASSES
@given(data=st.data())
def test_an_encoded_record_decodes_to_itself(cls: type[Any], data: st.DataObject) -> None:
    record, style = data.draw(support.RECORDS_OF[cls]), data.draw(support.styles())
    raw = encode(record, style)
    line = raw.removesuffix(style.newline.encode())
    assert decode(line) == record
    assert encode(decode(line), style) == raw
    block = frames.Block(raw, 1, Findings("coreprofiler"))
    assert block.records() == [record]
    assert b"".join(span.raw for span in ranges_of(raw, record)) == raw


@given(line=support.damaged().map(lambda data: data.partition(b"\n")[0]) | st.binary(max_size=60))
def test_any_line_is_a_record_or_a_fault(line: bytes) -> None:
    result = support.decoded(line)
    if isinstance(result, DecodeError):
        assert result.message
    else:
        try:
            encoded = encode(result, D2)
        except EncodeError:
            return  # a name with NUL, a line end within, or a line that would be read as something else
        assert decode(encoded.removesuffix(b"\n")) == result


@given(data=support.damaged())
def test_columns_give_the_same_records_as_lines(data: bytes) -> None:
    data = data.removeprefix(BYTE_ORDER_MARK)
    assume(data)
    block = frames.Block(data, 0, Findings("coreprofiler"))
    raws, plain = support.one_by_one(data)
    assert block.records() == plain
    for cls in block.classes():
        rows, _ = block.columns(cls)
        assert [type(plain[row]) for row in rows.tolist()] == [cls] * len(rows)
    for raw, record in zip(raws, plain, strict=True):
        assert b"".join(span.raw for span in ranges_of(raw, record)) == raw


@given(data=support.damaged() | st.binary(max_size=200), size=st.sampled_from([40, 100, 1 << 21]))
def test_any_file_is_copied(data: bytes, size: int) -> None:
    trace = CoreProfilerTrace(data)
    assume(trace.compression is None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames, "BLOCK", size)
        assert support.written(trace.records(resolve=False), trace.style) == data
        assert support.copied(CoreProfilerTrace(data)) == data
        records = list(trace.records())
        findings = {(finding.rule, finding.offset) for finding in trace.findings}
        assert list(CoreProfilerTrace(Trickle(data, 7)).records()) == records
        _ = trace.info
        strict = CoreProfilerTrace(data, strict=True)
        if findings:
            with pytest.raises(DecodeError) as caught:
                list(strict)
            assert (caught.value.rule, caught.value.offset) in findings
        else:
            list(strict)


@given(data=support.damaged())
def test_the_oracle_agrees(data: bytes) -> None:
    for line in data.decode("utf-8", "replace").split("\n"):
        result = support.decoded(line.encode())
        try:
            expected = oracle.parse(line)
        except OracleError:
            continue  # a line of another dialect, or not a record
        if isinstance(result, DecodeError):  # a number that does not fit, or an invalid date
            assert result.rule in ("line.field-form", "line.field-missing")
            continue
        if r.tag_of(type(result)) == "thr dst":
            assert expected["threadIid"] == result.thread
        elif isinstance(result, r.StackSample):
            ip = () if result.ip is None else (None if result.ip == UNDEFINED else result.ip,)
            assert expected["change"] == (result.match, result.size, *ip)
            assert [frame[0] for frame in expected["frame"]] == [frame.function_iid for frame in result.frames]
            assert (expected["threadIid"], expected["timestamp"], expected["count"]) == (
                result.thread,
                result.timestamp,
                result.count,
            )
        elif isinstance(result, r.MemorySample):
            assert [item[:3] for item in expected["alloc_item"]] == [
                (i.class_iid, i.count, i.size) for i in result.items
            ]
        elif isinstance(result, r.FunctionInfo):
            assert expected["code_info"] == [(block.address, block.size) for block in result.code]
            assert len(expected["il_map"]) == len(result.il_map)
        elif not isinstance(result, r.GcStarted | r.ProfilerStart | r.AllocationTable):
            assert list(expected.values())[1:] == [getattr(result, name) for name in result.__struct_fields__]


def in_the_specification(record: Any) -> bool:
    """Return whether the specification defines how the record is written: without quotes in texts, blanks in words."""
    other = (
        isinstance(getattr(record, "thread", None), OsThread),
        isinstance(record, r.ThreadDestroyed) and record.extra is not None,
        isinstance(record, r.ProfilerStart) and record.started_at.tzinfo is not None,
        isinstance(record, r.StackSample) and record.count is None,
        isinstance(record, r.GcStarted) and len(record.generations) > 1,
        isinstance(record, r.ProfilerConfig) and (" " in record.value or not record.value),
        any('"' in getattr(record, name, "") for name in ("name", "return_type", "signature")),
    )
    return bool(doc_of(type(record)).spec) and not any(other)


@CLASSES
@given(data=st.data())
def test_the_oracle_reads_encoded_records(cls: type[Any], data: st.DataObject) -> None:
    record = data.draw(support.RECORDS_OF[cls])
    line = encode(record, D2).decode("utf-8", "surrogateescape").removesuffix("\n")
    if in_the_specification(record):
        assert oracle.parse(line)["record"] == line[:7]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (r.ClassName(1, "line\nend"), "line end"),
        (r.ClassName(1, "return\r"), "carriage return"),
        (r.ClassName(1, "nul\0"), "NUL"),
        (r.ClassName(1, "\ud800"), "surrogate"),
        (r.ClassName(2**32, "a"), "not from 0"),
        (r.ClassName(-1, "a"), "not from 0"),
        (r.ClassName(1, None), "not text"),  # type: ignore[arg-type]
        (r.FunctionName(1, "a", '" "', "()"), "other texts"),
        (r.FunctionNameOld(1, 'a" "b" "c'), "another record"),
        (r.ProfilerConfig("two words", "x"), "not a word"),
        (r.ProfilerConfig("", "x"), "not a word"),
        (r.ProcessCpu(0, 2**64), "not from 0"),
        (r.ProcessCpu(0, -1), "not from 0"),
        (r.ProcessCpu(0.5, 1), "not an integer"),  # type: ignore[arg-type]
        (r.ProcessCpu(True, 1), "not an integer"),
        (r.ThreadCreated(2**64, 1), "not from 0"),
        (r.JitStarted(OsThread(-1), 0, 0), "not from 0"),
        (r.GcStarted(0, 0, "?", (1,)), "True and False"),  # type: ignore[arg-type]
        (r.GcStarted(0, 0, "?", None), "True and False"),  # type: ignore[arg-type]
        (r.StackSample(0, 0, 1, 0, 0, None, None), "not a tuple"),  # type: ignore[arg-type]
        (r.StackSample(0, 0, 1, 0, 0, None, "frame"), "not a tuple"),  # type: ignore[arg-type]
        (Opaque("text"), "not bytes"),  # type: ignore[arg-type]
        (r.StackSample(0, 0, 1, 0, 0, None, ("x",)), "not a Frame"),  # type: ignore[arg-type]
        (r.HeapGenerations(0, (r.HeapItem("a:b", 1, 2),)), "not a word"),
        ("no record", "not a record"),
    ],
)
def test_records_that_are_refused(record: Any, message: str) -> None:
    with pytest.raises(EncodeError, match=message):
        encode(record, D2)


@pytest.mark.parametrize(
    ("line", "record"),
    [
        (b"thr dst 0x00000005", r.ThreadDestroyed(5)),
        (b"thr dst 0x00000005 0x00000007", r.ThreadDestroyed(5, 7)),
        (b"thr crt 0x00000005", r.ThreadDestroyed(5)),
        (b"thr cpu 0x00000000 85403 18446744073709551586", r.ThreadCpu(0, 85403, 2**64 - 30)),
        (b"jit cms 1234 5 0xAB", r.JitStarted(OsThread(1234), 5, 0xAB)),
        (b"jit cms 0x4d2 5 0xAB", r.JitStarted(0x4D2, 5, 0xAB)),
        (b"str sam 0x0 5 ? 0:0 0x1:00ABCDEF", r.StackSample(0, 5, None, 0, 0, None, (r.Frame(1, 0xABCDEF),))),
        (b"sam str 0x0 -5 1 1:2:?", r.StackSample(0, -5, 1, 1, 2, UNDEFINED)),
        (b"gch gcs 7 5 ? tfff", r.GcStarted(OsThread(7), 5, "?", (True, False, False, False))),
        (b"gch gcs 0x7 5 induced t f", r.GcStarted(7, 5, "induced", (True, False))),
        (b"gch gen 5 LOH:1:2 g2:3:4", r.HeapGenerations(5, (r.HeapItem("LOH", 1, 2), r.HeapItem("g2", 3, 4)))),
        (b"cls ldf 0x1 0x2 0x3 0x4", r.ClassLoadedOld(1, 2, 3, 4)),
        (b'cls nam ? "a"b"', r.ClassName(None, 'a"b')),
        (b'fun nam 0x1 "C::M"', r.FunctionNameOld(1, "C::M")),
        (b'fun nam 0x1 "a" "b" "c" "d"', r.FunctionName(1, 'a" "b', "c", "d")),
        (b"fun cmf 0x1 0x2 0x3 0x4 0x5 0x0 0x10:0x20",
         r.FunctionCompiled(1, 2, 3, 4, 5, 0, (r.CodeInfo(16, 32),))),
        (b"fun inf 0x2 0x1 0x3 0x4 0x5 0x10:0x20 0xffffffff:0x0:0x4",
         r.FunctionInfo(2, 1, 3, 4, 5, (r.CodeInfo(16, 32),), (r.IlMap(0xFFFFFFFF, 0, 4),))),
        (b'fil src 0x00000000 "C:\\a b.cs"', r.SourceFile(0, "C:\\a b.cs")),
        (b"lin src 0x1 0x0 0x2 3 4 5 6", r.SourceLine(1, 0, 2, 3, 4, 5, 6)),
    ],
)  # fmt: skip
def test_dialects(line: bytes, record: Any) -> None:
    assert decode(line) == record
    assert frames.Block(line + b"\n", 1, Findings("coreprofiler")).records() == [record]


@pytest.mark.parametrize(
    ("line", "rule", "field"),
    [
        (b"foo bar 1", "line.unknown", ""),
        (b"", "line.unknown", ""),
        (b"thr cpu", "line.field-missing", "thread"),
        (b"thr cpu 0x1 5", "line.field-missing", "usage"),
        (b"thr cpu 0x1 5 x", "line.field-form", "usage"),
        (b"thr cpu 0x1 5 -6", "line.field-form", "usage"),
        (b"thr cpu 0x1 5 18446744073709551616", "line.field-form", "usage"),
        (b"thr cpu 0x123456789 5 6", "line.field-form", "thread"),
        (b"thr crt 0x1 0x123456789", "line.field-form", "thread"),
        (b"thr cpu 0x1  5 6", "line.field-form", "timestamp"),
        (b"thr cpu 0x1 5 6 ", "line.extra-fields", ""),
        (b"prc cpu " + b"9" * 5000 + b" 1", "line.field-form", "timestamp"),
        (b"prc cpu 9223372036854775808 1", "line.field-form", "timestamp"),
        (b"prc cpu -9223372036854775809 1", "line.field-form", "timestamp"),
        (b"prc cpu 1e400 1", "line.field-form", "timestamp"),
        (b"prc cpu nan 1", "line.field-form", "timestamp"),
        (b"prc cpu 1.5 1", "line.field-form", "timestamp"),
        (b"prf stm 2018-13-10 00:00:00.000", "line.field-form", "started_at"),
        (b"prf cfg name", "line.field-form", "value"),
        (b'cls nam 0x1 "abc', "line.open-quote", "name"),
        (b'cls nam 0x1 "', "line.open-quote", "name"),
        (b"cls nam 0x1 abc", "line.open-quote", "name"),
        (b"sam str 0x1 1 1 0", "line.field-missing", "size"),
        (b"sam str 0x1 1 1 0:0 0x1:0x2:0x3", "line.field-form", "frames"),
        (b"fun inf 0x1 0x1 0x1 0x1 0x1 0x1:0x1:0x1 0x1:0x1", "line.field-form", "code"),
        (b"gch gcs 0x1 1 ? tx", "line.field-form", "generations"),
    ],
)
def test_faults_name_the_rule_and_the_field(line: bytes, rule: str, field: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(line)
    assert caught.value.rule == rule
    assert caught.value.message.partition(":")[0].partition(".")[2] == field
    findings = Findings("coreprofiler")
    assert frames.Block(b"\n" + line + b"\n", 100, findings).records()[1] == Opaque(line + b"\n")
    reported = {(finding.rule, finding.offset) for finding in findings}
    assert (f"coreprofiler.{rule}", 101) in reported or rule == "line.unknown"


def test_the_reference_shows_every_record_as_the_specification_does() -> None:
    assert usage(r.ThreadCpu) == "thr cpu <thread:iid> <timestamp:ms> <usage:us>"
    assert usage(r.StackSample).endswith("<match:num>:<size:num>[:<ip:ip>] <frame>...")
    text = describe_markdown()
    assert all(f"## {cls.__name__}\n" in text for cls in r.RECORDS)
    kinds = {tag: [kind for _, kind in fields] for tag, ((_, fields), *_) in oracle.FORMS.items()}
    for cls in r.RECORDS:
        if doc_of(cls).spec and r.tag_of(cls) in kinds and cls not in (r.StackSample, r.GcStarted, r.ProfilerConfig):
            shown = [part.split(":")[-1].strip("<>[] ") for part in usage(cls)[8:].replace("...", "").split(" ")]
            assert shown == [kind.removesuffix("...") for kind in kinds[r.tag_of(cls)]], cls.__name__
