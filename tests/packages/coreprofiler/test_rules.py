"""The rules of CoreProfiler traces that only a check finds: where, how often, across blocks, within bounds."""

from __future__ import annotations

import random
import re

import pytest

import fxtio
from fxtio.coreprofiler import frames, rules
from fxtio.coreprofiler.reader import CoreProfilerTrace
from fxtio.errors import DecodeError
from fxtio.finding import Findings
from fxtio.rules import rule as rule_of
from fxtio.rules import rules_of
from oracle import coreprofiler as oracle
from oracle.fxt_words import OracleError
from support import coreprofiler as support
from support.broken.coreprofiler import SOUND

pytestmark = pytest.mark.once

CLASS = b"cls ldf 0x0000000000000020 0x%08X 0x0000000000000000 0x02000001 0x00000000"
SAMPLE = b"sam str 0x00000000 5 1 0:0 0x00000001"
NOTHING = b"sam str 0x00000000 6 0 1:1"


def checked(*lines: bytes, sound: bytes = SOUND, strict: bool = False) -> Findings:
    """Return the findings of sound lines and these after them."""
    trace = fxtio.open(sound + b"".join(line + b"\n" for line in lines), format="coreprofiler", strict=strict)
    assert isinstance(trace, CoreProfilerTrace)
    rules.check(trace)
    return trace.findings


def places(findings: Findings) -> list[tuple[str, int]]:
    return [(finding.rule.removeprefix("coreprofiler."), finding.offset) for finding in findings]


def test_a_sound_trace() -> None:
    assert places(checked()) == []


@pytest.mark.parametrize(
    ("lines", "rule", "at"),
    [
        ([b"prf cfg LineTraceEnabled T", b"prf cfg LineTraceEnabled F"], "profiling.config-again", 1),
        ([b"prf cfg StackTrackingEnabled 1"], "profiling.config-value", 0),
        ([b"prf cfg CpuTraceTimeoutMs ten"], "profiling.config-value", 0),
        ([b"thr cpu 0x00000000 5 1", b"prf cfg CpuTraceThreadEnabled F", b"thr cpu 0x00000000 6 1"],
         "profiling.disabled", 2),
        ([b"prf cfg MemoryTraceEnabled F", SAMPLE, b"sam mem 0x00000000 5 0x00000001:1:24"], "profiling.disabled", 2),
        ([b"thr crt 0x0000000000000011 0x00000001", b"thr dst 0x00000001", b"thr dst 0x00000001"],
         "thread.not-alive", 2),
        ([b"thr dst 0x00000005"], "thread.not-alive", 0),
        ([b"thr cpu 0x00000000 5 1", b"prc cpu 3 1", b"thr cpu 0x00000000 4 1", b"prc cpu 4 1"],
         "time.cpu-backwards", 2),
        ([SAMPLE, NOTHING], "stack.nothing", 1),
        ([b"prf cfg LineTraceEnabled F", b"sam mem 0x00000000 5 0x00000001:1:24:0x0000000000000007"],
         "stack.ip-without-lines", 1),
        ([b"prf cfg LineTraceEnabled F", SAMPLE, b"sam str 0x00000000 6 1 1:1:?"], "stack.ip-without-lines", 2),
        ([b"gch gcs 0x00000000 1 ? tfff", b"gch gcf 0x00000000 2", b"gch gcs 0x00000000 3 low tfff",
          b"gch gcf 0x00000000 4"], "gc.reason", 2),
        ([b"gch alt 1 0x00000001:1:1", b"gch alt 2 ?:1:1 ?:1:1", b"gch alt 3 0x00000001:1:1 ?:1:1 0x00000001:1:1"],
         "gc.class-again", 2),
        ([CLASS % 5, CLASS % 5, (CLASS % 5).replace(b"02000001", b"02000002")], "id.again", 2),
        ([b'fun nam 0x00000001 "synthetic" "void" "()"', b'fun nam 0x00000001 "other" "" ""'], "id.name-again", 1),
        ([b"mod ldf 0x0000000000000009 0x0000000000400000 0x00000000FFFFFFFD 0x00000000 \"m\"",
          b"mod ata 0x0000000000000009 0x0000000000000008"], "load.assembly-missing", 1),
        ([b'cls nam 0x00000002 "caf\xc3\xa9"', b'cls nam 0x00000003 "caf\xc3"'], "line.not-utf8", 1),
    ],
)  # fmt: skip
def test_where_a_fault_is(lines: list[bytes], rule: str, at: int) -> None:
    assert places(checked(*lines)) == [(rule, len(SOUND) + sum(len(line) + 1 for line in lines[:at]))]


def test_a_sample_with_several_instruction_pointers_is_told_once() -> None:
    sample = b"sam str 0x00000000 5 1 0:0:0x0000000000000005 0x00000001:0x0000000000000002"
    counts = checked(b"prf cfg LineTraceEnabled F", sample).counts
    assert counts == {"coreprofiler.stack.ip-without-lines": 1, "coreprofiler.stack.ip-without-frame": 1}


def test_a_reason_with_a_zero_at_its_end_is_another_one() -> None:
    at = len(SOUND)
    found = places(checked(b"gch gcs 0x00000000 1 induced\0 tfff", b"gch gcf 0x00000000 2"))
    assert found == [("line.bytes", at), ("gc.reason", at)]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([CLASS % 5, (CLASS % 5).replace(b"0020 0x", b"0021 0x")], "class 0x5 stands for another class already"),
        # Python gives 0 and 2**61 - 1 the same hash.
        ([(CLASS % 5).replace(b"0x0000000000000020", b"0x%016X" % number) for number in (0, 2**61 - 1)],
         "class 0x5 stands for another class already"),
        ([b'cls nam 0x00000002 "a"', b'cls nam 0x00000002 "b"'], "class 0x2 has another name already"),
    ],
)  # fmt: skip
def test_an_id_stands_for_one_thing(lines: list[bytes], message: str) -> None:
    assert [finding.message for finding in checked(*lines)] == [message]


def test_an_end_of_a_compilation_without_a_beginning_is_told_with_the_function() -> None:
    finding, *others = checked(b"jit cmf 0x00000000 1 0x0000000000000007 0x00000000")
    assert (finding.rule, others) == ("coreprofiler.jit.pairs", [])
    assert finding.message == "function 0x7 ends on a thread where it did not begin"


def test_a_start_behind_a_byte_order_mark_is_the_first_record() -> None:
    assert places(checked(sound=b"\xef\xbb\xbf" + SOUND)) == [("source.windows-lines", 0)]


def test_blocks_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [b"prf cfg CollectionMethod Instrumentation", SAMPLE, *[NOTHING, SAMPLE.replace(b"0:0", b"0:1")] * 50]
    lines += [b"thr cpu 0x00000000 5 1", b"prc cpu 9 1", b"thr cpu 0x00000000 4 1", b"prc cpu 8 1"]
    lines += [b"prf stm 2018-04-10 12:00:00.000", b'fun nam 0x00000001 "synthetic"', b"mod ata 0x09 0x08"]
    whole = checked(*lines)
    expected = {
        "stack.nothing": 50, "stack.count-in-instrumentation": 51, "time.cpu-backwards": 2, "line.dialects": 1,
        "profiling.start-again": 1, "load.assembly-missing": 1, "load.module-missing": 1, "line.pointer-width": 1,
    }  # fmt: skip
    assert {rule.removeprefix("coreprofiler."): count for rule, count in whole.counts.items()} == {
        **expected, "time.backwards": 50,
    }  # fmt: skip
    monkeypatch.setattr(frames, "BLOCK", 100)
    assert checked(*lines).counts == whole.counts


def test_what_is_followed_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "MAX_IDS", 4)
    lines = [b"mod ata 0x%016X 0x0000000000000000" % number for number in range(1, 10)]
    lines += [b"thr crt 0x0000000000000010 0x%08X" % number for number in range(1, 10)]
    lines += [b"thr dst 0x%08X" % number for number in range(10)]
    lines += [b'cls nam 0x%08X "%d"' % (number, number) for number in (2, 3, 4, 5, 2, 3, 4, 5)]
    assert checked(*lines).counts == {"coreprofiler.load.module-missing": 4}


def test_a_strict_check_raises() -> None:
    with pytest.raises(DecodeError, match="changes nothing"):
        checked(SAMPLE, NOTHING, strict=True)


def test_readers_do_not_report_the_rules_of_a_check() -> None:
    trace = fxtio.open(SOUND + SAMPLE + b"\n" + NOTHING + b"\n", format="coreprofiler")
    assert trace.findings.counts == {}
    assert rules_of("coreprofiler")["coreprofiler.stack.nothing"].reading == ""


OTHERS = {"coreprofiler.stack.ip-without-lines", "coreprofiler.stack.count-in-instrumentation"}
"""Rules about the parameters of the profiler, which the oracle does not know."""

_PART = re.compile(rb"(?<=[ :])(?:0x[0-9A-F]+|[0-9]+|[tf]{4})(?=[ :]|$)")


_FLAGS = re.compile(rb" ([tf])([tf])([tf])([tf])$")  # the specification has spaces between them


def mutant(draw: random.Random) -> list[bytes]:
    """Return the lines of a trace, with another value in one item of one line, or without a line."""
    data, *_ = support.simulated(draw.randrange(5), shape="mixed", threads=2, steps=40)
    lines = [line for line in data.splitlines() if not line.startswith((b"prf stm", b"prf cfg"))]
    at = draw.randrange(len(lines))
    parts = list(_PART.finditer(lines[at]))
    if not parts or draw.randrange(10) == 0:
        del lines[at]
        return lines
    part = draw.choice(parts)
    value = draw.choice([b"0", b"1", b"3", b"7", b"0x3", b"?", b"", b"x", b"0xG", b"tf", b"1.5"])
    lines[at] = lines[at][: part.start()] + value + lines[at][part.end() :]
    return lines


@pytest.mark.full
@pytest.mark.parametrize("seed", range(300))
def test_what_the_specification_forbids_is_found(seed: int) -> None:
    lines = mutant(random.Random(seed))
    broken = {*checked(*lines, sound=b"prf stm 2018-04-10 12:00:00.000\n").counts}
    required = {each for each in broken - OTHERS if rule_of(each).level == "required"}
    try:
        for line in lines:
            oracle.parse(_FLAGS.sub(rb" \1 \2 \3 \4", line).decode())
        oracle.stacks([line.decode() for line in lines])
    except OracleError:
        assert required or "coreprofiler.thread.os-number" in broken
    else:  # the oracle does not compare records of other kinds with each other
        assert not any(each.startswith(("coreprofiler.line.", "coreprofiler.stack.")) for each in required)
