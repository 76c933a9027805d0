"""The wall clock of timelines: from each format, into each format that has one, and for ranges of times."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import fxtio
from fxtio.cli import main
from fxtio.codec.protobuf import number_field
from fxtio.exchange.convert import convert
from fxtio.mono.headers import StreamHeader

CORPUS = Path(__file__).parents[2] / "corpus"
AT_ZERO = 1_700_000_000_000_000_000
"""2023-11-14 22:13:20 UTC"""

S = 10**9
MS = 10**6


def wall_clock(target: Any) -> int | None:
    """Return the wall clock of a trace from whose timeline nothing was read; a whole reading must find the same."""
    with fxtio.open_timeline(target) as timeline:
        first = timeline.wall_clock
        timeline.tables("slices", "samples")
        assert timeline.wall_clock == first
        return first


def write_fxt(path: Path, **clock: Any) -> Path:
    with fxtio.create(path, **clock) as writer:
        for start in (3, 9):
            writer.thread(1, 2).complete(f"from {start}", start * S, (start + 1) * S)
    return path


@pytest.mark.parametrize(
    ("clock", "expected"),
    [
        ({"wall_clock": AT_ZERO}, AT_ZERO),
        ({"wall_clock": AT_ZERO, "base_ticks": 7}, AT_ZERO - 7),
        ({"wall_clock": AT_ZERO, "base_ticks": 3000, "ticks_per_second": 1000}, AT_ZERO - 3 * S),
        ({"wall_clock": 0, "base_ticks": 5}, -5),
        ({"wall_clock": 2**64 - 1}, None),  # in the year 2554
        ({"ticks_per_second": 1000}, None),
    ],
)
def test_fxt(clock: dict[str, int], expected: int | None, tmp_path: Path) -> None:
    assert wall_clock(write_fxt(tmp_path / "a.fxt", **clock)) == expected


def test_the_first_clock_of_an_fxt_trace_that_has_one_counts(tmp_path: Path) -> None:
    plain = write_fxt(tmp_path / "a.fxt").read_bytes()
    parts = [write_fxt(tmp_path / f"{base}.fxt", wall_clock=AT_ZERO, base_ticks=base).read_bytes() for base in (5, 6)]
    (tmp_path / "all.fxt").write_bytes(plain + b"".join(parts))
    assert wall_clock(tmp_path / "all.fxt") == AT_ZERO - 5


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (StreamHeader(startup_time=AT_ZERO // MS, startup_tick=7 * S), AT_ZERO - 7 * S),
        (StreamHeader(startup_time=0, startup_tick=7 * S), None),
        (StreamHeader(startup_time=2**64 - 1, startup_tick=0), None),
        (StreamHeader(major=2, data_version=13, startup_time=AT_ZERO // MS, startup_tick=None), None),
    ],
)
def test_mono(header: StreamHeader, expected: int | None, tmp_path: Path) -> None:
    with fxtio.create(tmp_path / "a.mlpd", format="mono", header=header) as writer:
        writer.thread(1, "main", time=7 * S)
    assert wall_clock(tmp_path / "a.mlpd") == expected


def test_uftrace(tmp_path: Path) -> None:
    with fxtio.create(tmp_path / "a", format="uftrace", utc_offset=AT_ZERO // S) as writer:
        writer.task(5).enter("main", 3 * S)
    assert wall_clock(tmp_path / "a") == AT_ZERO
    assert wall_clock(CORPUS / "uftrace" / "thread-v019") == 1_795_172_467 * S
    assert wall_clock(CORPUS / "uftrace" / "fork-v013") is None
    for seconds in (-1, 10**11):
        with pytest.raises(fxtio.EncodeError, match="utc_offset"):
            fxtio.create(tmp_path / "b", format="uftrace", utc_offset=seconds)


@pytest.mark.parametrize(
    ("start", "expected"),
    [("2023-11-14 22:13:20.000", None), ("2023-11-15 00:13:20.000 +02:00", AT_ZERO)],
)
def test_coreprofiler(start: str, expected: int | None, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(f"prf stm {start}\nprf cfg CollectionMethod Sampling\n")
    assert wall_clock(tmp_path / "a.log") == expected


def test_the_epoch_of_a_profile_without_times() -> None:
    assert wall_clock(CORPUS / "dcpi" / "given-specification.dcpi") == 865_168_200 * S  # 1997-06-01 12:30 UTC


def event(time: float) -> dict[str, Any]:
    return {"ph": "X", "ts": time, "dur": 2, "name": "a", "pid": 1, "tid": 1}


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"baseTimeNanoseconds": AT_ZERO}, AT_ZERO),  # as torch.profiler writes it
        ({"viztracer_metadata": {"baseTimeNanoseconds": AT_ZERO}}, AT_ZERO),
        ({"baseTimeNanoseconds": "1", "viztracer_metadata": [1]}, None),
        ({"baseTimeNanoseconds": 2**70}, None),
        ({}, None),
    ],
)
@pytest.mark.parametrize("first", [False, True])
def test_chrome_json(members: dict[str, Any], first: bool, expected: int | None, tmp_path: Path) -> None:
    events = {"traceEvents": [event(1.5)]}
    (tmp_path / "a.json").write_text(json.dumps({**members, **events} if first else {**events, **members}))
    assert wall_clock(tmp_path / "a.json") == expected


def test_pprof(tmp_path: Path) -> None:
    with fxtio.open_timeline(write_fxt(tmp_path / "a.fxt")) as timeline:
        convert(timeline, tmp_path / "a.pprof")
    data = gzip.decompress((tmp_path / "a.pprof").read_bytes())
    (tmp_path / "b.pprof").write_bytes(data + number_field(9, AT_ZERO))
    assert wall_clock(tmp_path / "a.pprof") is None
    assert wall_clock(tmp_path / "b.pprof") == AT_ZERO


@pytest.mark.parametrize("to", ["fxt", "mono", "uftrace", "chrome", "perfetto"])
@pytest.mark.parametrize("rest", [0, 1, 999_999_999])
def test_exporters_write_it(to: str, rest: int, tmp_path: Path) -> None:
    """All but uftrace, which has whole seconds, give the same nanosecond."""
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"baseTimeNanoseconds": AT_ZERO + rest, "traceEvents": [event(1)]}))
    with fxtio.open_timeline(path) as timeline:
        losses = convert(timeline, tmp_path / "b", to=to)
    is_whole = to != "uftrace"
    assert wall_clock(tmp_path / "b") == AT_ZERO + rest * is_whole
    assert losses["fractions of a second of the wall-clock time"] == (rest > 0 and not is_whole)
    path.write_text(json.dumps([event(1)]))
    with fxtio.open_timeline(path) as timeline:
        convert(timeline, tmp_path / "c", to=to)
    assert wall_clock(tmp_path / "c") is None


@pytest.mark.parametrize("to", ["fxt", "mono", "chrome"])
def test_clocks_that_begin_before_1970(to: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"baseTimeNanoseconds": -5, "traceEvents": [event(1)]}))
    with fxtio.open_timeline(tmp_path / "a.json") as timeline:
        assert timeline.wall_clock == -5
        convert(timeline, tmp_path / "c", to=to)
    assert wall_clock(tmp_path / "c") == (None if to == "mono" else -5)  # a header without a time has the time 0


@pytest.mark.parametrize("suffix", [".fxt", ".json", ".otlp.jsonl"])
def test_ranges_of_wall_clock_time(suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_fxt(tmp_path / "a.fxt", wall_clock=AT_ZERO)
    if suffix == ".json":
        path = tmp_path / "a.json"
        events = [event(3 * 10**6), {**event(9 * 10**6), "name": "from 9"}]
        path.write_text(json.dumps({"traceEvents": events, "baseTimeNanoseconds": AT_ZERO}))
    elif suffix == ".otlp.jsonl":
        path = tmp_path / "a.otlp.jsonl"
        spans = [
            {"name": f"from {at}", "spanId": f"{at:016x}", "traceId": f"{at:032x}", "kind": 1,
             "startTimeUnixNano": str(AT_ZERO + at * S), "endTimeUnixNano": str(AT_ZERO + at * S + S)}
            for at in (3, 9)
        ]  # fmt: skip
        path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}) + "\n")
    assert main(["find", str(path), "--from", "22:13:28", "--until", "2023-11-14T22:13:40"]) == 0
    assert "from 9" in (out := capsys.readouterr().out)
    assert "1 match" in out


def test_a_pipe_is_read_again_after_the_wall_clock(tmp_path: Path) -> None:
    data = write_fxt(tmp_path / "a.fxt", wall_clock=AT_ZERO).read_bytes()

    class Pipe:
        """A stream that cannot be rewound."""

        def __init__(self) -> None:
            self._rest = data

        def read(self, size: int = -1) -> bytes:
            size = len(self._rest) if size < 0 else size
            result, self._rest = self._rest[:size], self._rest[size:]
            return result

    with fxtio.open_timeline(Pipe()) as timeline:
        assert timeline.wall_clock == AT_ZERO
        assert timeline.table("slices").num_rows == 2
