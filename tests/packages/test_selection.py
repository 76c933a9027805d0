"""Selections: times as people write them, wall clocks, patterns, and the options of commands."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fxtio
from fxtio.cli.inputs import add_selection, selection_of, with_joined_times
from fxtio.formats import by_name
from fxtio.io.reading import TraceInfo
from fxtio.selection import NS_PER_UNIT, Moment, Selection, SelectionError, time_range

MS = 10**6
S = 10**9
LOCAL = datetime(2026, 11, 22, 14, 3)  # noqa: DTZ001  # some traces tell local time only


def info(start: int | None = 5 * S, end: int | None = 15 * S, at: datetime | None = None) -> TraceInfo:
    return TraceInfo("a.fxt", "fxt", start=start, end=end, started_at=at)


def ranged(begin: str | None, end: str | None, summary: TraceInfo | None = None) -> tuple[int | None, int | None]:
    first, last = (None if text is None else Moment.parse(text) for text in (begin, end))
    return time_range(first, last, summary or info())


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("1.2s", 6_200 * MS),
        ("350ms", 5_350 * MS),
        ("12us", 5 * S + 12_000),
        ("12µs", 5 * S + 12_000),
        ("1200000ns", 5 * S + 1_200_000),
        ("2", 7 * S),
        (".5", 5_500 * MS),
        ("0.1 min", 11 * S),
        (" 1S ", 6 * S),
        ("-1s", 14 * S + 1),
        ("10%", 6 * S),
        ("0%", 5 * S),
        ("1.9ns", 5 * S + 1),
    ],
)
def test_times(text: str, time: int) -> None:
    assert ranged(text, None) == (time, None)


def test_the_end_of_a_range_may_be_relative_to_its_begin() -> None:
    assert ranged("1s", "+50ms") == (6 * S, 6_050 * MS)
    assert ranged(None, "+50ms") == (None, 5_050 * MS)


def test_the_whole_of_a_trace_has_its_last_event() -> None:
    assert ranged("0%", "100%") == (5 * S, 15 * S + 1)
    assert ranged("0", "-0") == (5 * S, 15 * S + 1)


@given(number=st.decimals(0, 9, places=6), unit=st.sampled_from(sorted(NS_PER_UNIT)))
def test_every_unit_is_exact(number: object, unit: str) -> None:
    expected = 5 * S + Fraction(str(number)) * NS_PER_UNIT[unit] // 1
    assert ranged(f"{number}{unit}", None, info(end=10**18)) == (expected, None)


@given(st.text() | st.from_regex(r"[-+]?[0-9.:% ]*[a-zA-Z%-]*", fullmatch=True))
def test_any_text_is_a_time_or_an_error(text: str) -> None:
    try:
        moment = Moment.parse(text)
        begin, _ = time_range(moment, None, info(at=datetime(2026, 11, 22, 14, 3, tzinfo=UTC)))
    except SelectionError:
        return
    assert begin is not None and -(1 << 63) <= begin <= 15 * S


@pytest.mark.parametrize(
    ("begin", "end", "message"),
    [
        ("12 parsecs", None, "'12 parsecs' is not a time; write 1.2s"),
        ("12 ly", None, "the units are ns, us, µs, μs, ms, s, min, h"),
        ("", None, "'' is not a time"),
        ("120%", None, "write 0% to 100%"),
        ("-5%", None, "write 0% to 100%"),
        ("2026-13-01", None, "month must be in 1..12"),
        ("25:00", None, "hour must be in 0..23"),
        ("+5s", None, "only the end can be given so"),
        ("2s", "1s", "the range is empty: 1s is not later than 2s"),
        ("11s", None, "11s is after the end of a.fxt; it lasts 10 s"),
        (None, "0s", "0s is not after the start of a.fxt"),
        ("14:00", None, "a.fxt does not tell its wall-clock time"),
    ],
)
def test_errors(begin: str | None, end: str | None, message: str) -> None:
    with pytest.raises(SelectionError) as caught:
        ranged(begin, end)
    assert message in str(caught.value)


def test_a_trace_without_times_has_no_ranges() -> None:
    with pytest.raises(SelectionError, match="has no times"):
        ranged("1s", None, info(None, None))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("14:03:05.2", 5.2),
        ("14:03:05,000007", 5.000007),
        ("2026-11-22T14:03:05.2", 5.2),
        ("2026-11-22 15:03:05+01:00", 5),
        ("15:03:05+01:00", 5),
        ("13:00", -3780),
        ("2026-11-22", -50580),
    ],
)
def test_wall_clocks(text: str, seconds: float) -> None:
    summary = info(at=datetime(2026, 11, 22, 14, 3, tzinfo=UTC))
    assert ranged(text, None, summary) == (5 * S + round(seconds * S), None)


def test_a_time_of_day_may_be_on_the_next_day() -> None:
    summary = info(0, 3 * 3600 * S, datetime(2026, 11, 22, 23, tzinfo=UTC))
    assert ranged("01:30", None, summary) == (2.5 * 3600 * S, None)
    assert ranged("23:30", None, summary) == (0.5 * 3600 * S, None)
    assert ranged("9:30", "23:30", summary) == (-13.5 * 3600 * S, 0.5 * 3600 * S)


def test_local_times_have_no_zone() -> None:
    summary = info(at=LOCAL)
    assert ranged("14:03:01", None, summary) == (6 * S, None)
    with pytest.raises(SelectionError, match="without a time zone"):
        ranged("14:03:01+01:00", None, summary)
    east = info(at=datetime(2026, 11, 22, 14, 3, tzinfo=timezone(timedelta(hours=5))))
    assert ranged("14:03:01", None, east) == (6 * S, None)


@pytest.mark.parametrize(
    ("patterns", "name", "numbers", "selected"),
    [
        ((), None, (), True),
        (("main",), "main", (), True),
        (("main",), "Main", (), False),
        (("m*",), "main", (), True),
        (("m*",), None, (), False),
        (("7",), None, (3, 7), True),
        (("7",), "77", (3,), False),
        (("7",), "7", (), True),
        (("7",), "7", (3,), False),
        (("!7",), "7", (3,), True),
        (("7*",), "77", (3,), True),
        (("a", "b"), "b", (), True),
        (("!a",), "b", (), True),
        (("!a",), "a", (), False),
        (("!7",), "a", (7,), False),
        (("a*", "!ab"), "ab", (), False),
        (("!ab", "a*"), "ac", (), True),
        (("!ab", "a*"), "x", (), False),
        (("a*", "!ab"), "x", (), False),
        (("x", "y", "z"), "y", (), True),
        (("vector[int]",), "vector[int]", (), True),
    ],
)
def test_patterns(patterns: tuple[str, ...], name: str | None, numbers: tuple[int, ...], selected: bool) -> None:
    assert Selection(threads=patterns).has_thread(name, *numbers) == selected
    assert Selection(processes=patterns).has_process(name, *numbers) == selected
    if name is not None and not numbers:
        assert Selection(names=patterns).has_name(name) == selected
        assert Selection(categories=patterns).has_category(name) == selected


def test_a_selection_tells_what_it_restricts() -> None:
    assert Selection().is_everything and not Selection().has_range
    assert not Selection(names=("a",)).is_everything
    assert Selection(start=0).has_range
    with pytest.raises(SelectionError, match="empty"):
        Selection(5, 5)


# ---- options of commands


def parsed(*arguments: str) -> Namespace:
    parser = ArgumentParser(exit_on_error=False)
    add_selection(parser)
    return parser.parse_args(with_joined_times(arguments))


def test_options_of_commands(tmp_path: Path) -> None:
    path = tmp_path / "a.fxt"
    with fxtio.create(path) as writer:
        writer.thread(1, 1).complete("a", 1_000, 3_000)
    options = parsed("--from", "1us", "--to", "-1ns", "--thread", "1", "--thread=!2", "--name", "a*", "--category", "")
    with by_name("fxt").open(path) as trace:
        expected = Selection(2_000, 3_000, threads=("1", "!2"), categories=("",), names=("a*",))
        assert selection_of(options, trace) == expected
        assert selection_of(parsed(), trace).is_everything


def test_a_range_of_a_pipe_reads_it_again(tmp_path: Path) -> None:
    path = tmp_path / "a.fxt"
    with fxtio.create(path) as writer:
        writer.thread(1, 1).complete("a", 1_000, 3_000)
    with path.open("rb") as file, by_name("fxt").open(file) as trace:
        assert selection_of(parsed("--to", "50%"), trace).end == 2_000
        assert sum(1 for _ in trace.records()) > 0


def test_a_wrong_time_is_an_error_of_usage(capsys: pytest.CaptureFixture[str]) -> None:
    parser = ArgumentParser()
    add_selection(parser)
    with pytest.raises(SystemExit):
        parser.parse_args(["--from", "12 parsecs"])
    assert "--from: '12 parsecs' is not a time; write 1.2s, 350ms" in capsys.readouterr().err


# ---- the wall clock of each format


def test_wall_clocks_of_formats(tmp_path: Path) -> None:
    with fxtio.create(tmp_path / "a.fxt", wall_clock=1_700_000_000_000_000_000) as writer:
        writer.thread(1, 1).instant("a", 2_000_000_000)
        writer.thread(1, 1).instant("b", 4_000_000_000)
    with fxtio.open(tmp_path / "a.fxt") as trace:
        assert ranged("22:13:23", None, trace.info) == (3 * S, None)


def test_a_mono_recording_tells_the_wall_clock_of_its_header(tmp_path: Path) -> None:
    from fxtio.mono.headers import StreamHeader
    from fxtio.mono.reader import Info

    header = StreamHeader(startup_time=1_700_000_000_000, startup_tick=7 * S)
    summary = Info("a.mlpd", "mono", start=5 * S, end=15 * S, started_at=header.started_at, header=header)
    assert ranged("22:13:21", None, summary) == (8 * S, None)
    summary.header = StreamHeader(data_version=2, startup_tick=None)
    with pytest.raises(SelectionError, match="wall-clock"):
        ranged("22:13:21", None, summary)


def test_times_of_coreprofiler_count_from_its_start() -> None:
    from fxtio.coreprofiler.reader import Info

    summary = Info("a.log", "coreprofiler", start=5 * S, end=15 * S, started_at=LOCAL)
    assert ranged("14:03:08", None, summary) == (8 * S, None)
