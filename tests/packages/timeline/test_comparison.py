"""Comparisons of runs: p-values agree with scipy, equal runs raise no alarm, a slowdown is found; diff and check."""

from __future__ import annotations

import importlib
import json
import math
from itertools import chain, combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fxtio
from fxtio.cli import main
from fxtio.cli.diff import DEFAULT_FLOOR, floor
from fxtio.table import Categories, Table
from fxtio.timeline import comparison
from fxtio.timeline.comparison import Block, Change, Floor, Run, Times, blocks_of, compare, permutation_test, run_of
from support.simulated_runs import CALLS, MEANS, NAMES, simulated_gate, simulated_run

pytestmark = pytest.mark.once

VALUES = st.lists(st.integers(0, 50).map(float), min_size=2, max_size=6)


@pytest.fixture(scope="module")
def stats() -> Any:
    """Return the judge, which takes long to import: not when tests are collected, but where they run."""
    return importlib.import_module("scipy.stats")


def scipy_p(stats: Any, first: list[float], second: list[float], **options: Any) -> float:
    """Return the p-value of the means of two groups by `scipy.stats`."""
    result = stats.permutation_test(
        (np.array(first), np.array(second)),
        lambda x, y, axis: x.mean(axis=axis) - y.mean(axis=axis),
        vectorized=True,
        permutation_type="independent",
        **options,
    )
    return float(result.pvalue)


@given(first=VALUES, second=VALUES)
def test_exact_p_values_are_those_of_scipy(stats: Any, first: list[float], second: list[float]) -> None:
    expected = scipy_p(stats, first, second, n_resamples=np.inf)
    if len(set(first + second)) == 1:
        expected = 1.0
    (found,) = permutation_test(np.array([first + second]), blocks_of(len(first), len(second)))
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("shift", [0.0, 0.02, 0.06, 0.1])
def test_random_p_values_are_like_those_of_scipy(stats: Any, shift: float) -> None:
    random = np.random.default_rng(5)
    first, second = random.lognormal(0, 0.3, 80), random.lognormal(shift, 0.3, 90)
    expected = scipy_p(stats, list(first), list(second), n_resamples=9999, rng=random)
    (found,) = permutation_test(np.array([[*first, *second]]), blocks_of(len(first), len(second)))
    assert found == pytest.approx(expected, rel=0.15, abs=0.006)


ROWS = st.integers(4, 6).flatmap(
    lambda columns: st.lists(st.lists(st.integers(0, 9), min_size=columns, max_size=columns), min_size=2, max_size=4)
)


@given(rows=ROWS, size=st.integers(1, 3))
def test_p_values_are_corrected_for_all_rows(rows: list[list[int]], size: int) -> None:
    """A p-value is twice the share of divisions in which any row differs as much in this direction."""
    values = np.array(rows, np.float64)
    scaled = [(row - row.mean()) / (row.std() or 1) for row in values]
    divisions = [*combinations(range(values.shape[1]), size)]
    sums = np.array([[row[list(chosen)].sum() for row in scaled] for chosen in divisions])
    least, greatest = sums.min(axis=1), sums.max(axis=1)
    expected = [
        min(2 * min((least <= own + 1e-9).mean(), (greatest >= own - 1e-9).mean()), 1.0) for own in sums[0].tolist()
    ]
    assert permutation_test(values, blocks_of(size, values.shape[1] - size)) == pytest.approx(expected)


def test_many_rows_at_once_have_the_p_values_of_few() -> None:
    random = np.random.default_rng(8)
    rows = random.normal(0, 1, (40, 24))
    expected = permutation_test(rows, blocks_of(10, 14))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparison, "_BLOCK", 5000)
        assert permutation_test(rows, blocks_of(10, 14)) == pytest.approx(expected, abs=0.02)
        assert (
            permutation_test(rows[:, :9], blocks_of(4, 5)).tolist()
            == permutation_test(rows[:, :9], blocks_of(4, 5)).tolist()
        )


@given(values=st.lists(st.integers(0, 9).map(float), min_size=2, max_size=12), size=st.integers(1, 11))
def test_the_quickness_of_runs_is_by_their_ranks(stats: Any, values: list[float], size: int) -> None:
    size = min(size, len(values) - 1)
    most = max(size, len(values) - size) + 1
    expected = [max(most - rank, 0) ** 2 for rank in stats.rankdata(values).tolist()]
    assert comparison.quickness(np.array(values), size).tolist() == expected


def changed(before: list[dict[str, Times]], after: list[dict[str, Times]]) -> dict[str, Change]:
    """Return the names about which the comparison of two sides alarms."""
    return {each.name: each.change for each in compare(before, after).differences if each.change.is_sure}


def alarms(seed: int, runs: int, pairs: int, busy: bool) -> int:
    """Return in how many comparisons of runs of the same program there is an alarm about any name."""
    random = np.random.default_rng(seed)
    sides = (([simulated_run(random, busy=busy) for _ in range(runs)] for _ in range(2)) for _ in range(pairs))
    return sum(bool(changed(*pair)) for pair in sides)


@pytest.mark.full
@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.parametrize(("runs", "pairs"), [(1, 1000), (3, 200), (20, 50)])
def test_equal_runs_raise_no_alarm(runs: int, pairs: int, busy: bool) -> None:
    """Of the comparisons of equal runs, at most 1 % raise an alarm about any name."""
    assert alarms(3, runs, pairs, busy) <= pairs / 100


def test_single_equal_runs_raise_no_alarm() -> None:
    assert [alarms(9, 1, 50, busy) for busy in (False, True)] == [0, 0]


@pytest.mark.full
@pytest.mark.parametrize(
    ("runs", "by", "busy", "least"), [(10, 0.1, False, 0.95), (20, 0.1, False, 0.95), (20, 0.3, True, 0.85)]
)
def test_a_slowdown_is_found(runs: int, by: float, busy: bool, least: float) -> None:
    """Slowdowns are found, and nothing else is."""
    random, attempts, found, others = np.random.default_rng(4), 20, 0, 0
    matter = [number for number in range(NAMES) if MEANS[number] * CALLS[number] * by > 2e6]
    for attempt in range(attempts):
        slow = matter[attempt % len(matter)]
        before, after = ([simulated_run(random, each, by, busy=busy) for _ in range(runs)] for each in (None, slow))
        names = changed(before, after)
        found += names.pop(str(slow), None) is Change.SLOWER
        others += bool(names)
    assert found >= least * attempts
    assert others <= 0.02 * attempts


def test_few_runs_tell_what_is_beyond_their_spread() -> None:
    """With few runs, only a difference counts that no busy machine makes; the advice says how many runs it takes."""
    random = np.random.default_rng(12)
    for runs in (1, 2, 4):
        for by, expected in ((0.3, {}), (4.0, {"2": Change.SLOWER})):
            before, after = ([simulated_run(random, each, by) for _ in range(runs)] for each in (None, 2))
            assert changed(before, after) == expected
            comparison = compare(before, after)
            assert comparison.advice.startswith(f"{runs} run")
            assert comparison.advice.endswith("compare at least 8 runs of each side, recorded in turn")
            unclear = [each.name for each in comparison.differences if each.change is Change.UNCLEAR]
            assert ("2" in unclear) == (by < 1)
    before, after = ([simulated_run(random, each, 0.3) for _ in range(8)] for each in (None, 2))
    assert compare(before, after).advice == ""
    assert changed(before, after) == {"2": Change.SLOWER}


def run_with(mean: float, fastest: float = 0.0, calls: int = 100) -> dict[str, Times]:
    """Return a run with one name."""
    return {"f": Times(calls, mean * calls, fastest or mean)}


def test_a_disturbed_run_hides_no_difference() -> None:
    random = np.random.default_rng(7)
    before, after = ([run_with(random.normal(mean, mean / 50)) for _ in range(9)] for mean in (1e6, 1.15e6))
    (difference,) = compare([*before, run_with(2e6)], after).differences
    assert (difference.change, difference.by) == (Change.SLOWER, "mean")


def test_the_fastest_calls_tell_what_a_busy_machine_hides() -> None:
    random = np.random.default_rng(11)
    before, after = (
        [run_with(random.uniform(4e5, 9e5), random.normal(fastest, 3e3)) for _ in range(20)]
        for fastest in (291e3, 378e3)
    )
    (difference,) = compare(before, after).differences
    assert (difference.change, difference.by) == (Change.SLOWER, "fastest")
    assert difference.ratio == pytest.approx(0.3, abs=0.02)
    assert difference.cost == pytest.approx(100 * 87e3, rel=0.1)
    more = [run_with(each["f"].total / 100, each["f"].fastest, 110) for each in after]
    (difference,) = compare(before, more).differences
    assert (difference.change, difference.by) == (Change.MORE, "calls")  # of more calls, the fastest is faster


@given(
    ratio=st.floats(0.5, 1.6), spread=st.sampled_from([0.001, 0.05, 0.3]), runs=st.integers(1, 10),
    mean=st.sampled_from([2e4, 1e5, 1e6]), calls=st.sampled_from([(100, 100), (100, 103), (100, 120), (100, 0)]),
)  # fmt: skip
def test_each_printed_number_reaches_the_floor(
    ratio: float, spread: float, runs: int, mean: float, calls: tuple[int, int]
) -> None:
    """A row that says that something changed has numbers that say so."""
    random = np.random.default_rng(runs)
    before, after = (
        [
            {"f": Times(count, side * count * (1 + random.exponential(spread)), side)} if count else {}
            for _ in range(runs)
        ]
        for side, count in zip((mean, mean * ratio), calls, strict=True)
    )
    floor = Floor()
    for each in compare(before, after).differences:
        worse = {Change.SLOWER: 1, Change.MORE: 1, Change.NEW: 1, Change.FASTER: -1, Change.FEWER: -1, Change.GONE: -1}
        if not each.change.is_sure:
            continue
        sign = worse[each.change]
        assert sign * each.cost >= floor.time
        if each.change not in (Change.NEW, Change.GONE):
            assert sign * each.ratio >= floor.share
            then, now = each.calls if each.by == "calls" else each.time
            assert each.ratio == pytest.approx(now / then - 1)
        if each.by != "calls":
            assert each.cost == pytest.approx((each.time[1] - each.time[0]) * each.calls[1])
            assert each.p is None or each.p <= comparison.CHANCE


@given(batches=st.lists(st.lists(st.tuples(st.integers(-1, 5), st.integers(0, 99)), max_size=9), max_size=5))
def test_times_of_a_run_are_those_of_all_batches(batches: list[list[tuple[int, int]]]) -> None:
    """However many batches there are, and whichever names come first in each."""
    registry = SimpleNamespace(names=SimpleNamespace(values=[f"name {number}" for number in range(6)]))
    run = Run(cast(Any, registry))
    for rows in batches:
        codes, times = (np.array(column, np.int64) for column in (zip(*rows, strict=True) if rows else ([], [])))
        texts = [*registry.names.values, "closed"]
        run.enter({"slices": Table({
            "name": Categories(codes.astype(np.int32), texts), "duration": times,
            "state": Categories(np.full(len(rows), 6, np.int32), texts),
        })})  # fmt: skip
    expected: dict[str, Times] = {}
    for code, time in chain.from_iterable(batches):
        name = "" if code < 0 else f"name {code}"
        calls, total, fastest = expected.get(name, Times(0, 0, math.inf))
        expected[name] = Times(calls + 1, total + time, min(fastest, time))
    assert run.times() == expected


def trace(durations: dict[str, list[int]]) -> bytes:
    """Return a trace with slices of these names and durations (ns), one after the other."""
    import io

    out, time = io.BytesIO(), 10
    with fxtio.create(out, format="fxt") as writer:
        track = writer.thread(1, 2)
        for name, values in durations.items():
            for value in values:
                track.complete(name, time, time + value)
                time += value + 1
    return out.getvalue()


def test_changes() -> None:
    random = np.random.default_rng(6)

    def times(mean: float, count: int) -> list[int]:
        return [*map(int, random.normal(mean, mean / 20, count))]

    ms = 1_000_000
    before = {"same": times(ms, 50), "slow": times(ms, 50), "quick": times(ms, 50), "many": times(ms, 50),
              "few": times(ms, 50), "gone": times(ms, 5), "short": times(1000, 50), "rare": times(ms, 3)}  # fmt: skip
    after = {"same": times(ms, 50), "slow": times(4 * ms, 50), "quick": times(ms / 4, 50), "many": times(ms, 70),
             "few": times(ms, 30), "new": times(ms, 5), "short": times(4000, 50), "rare": times(4 * ms, 3)}  # fmt: skip
    runs = []
    for durations in (before, after):
        with fxtio.open_timeline(trace(durations)) as timeline:
            runs.append(run_of(timeline))
    differences = {each.name: each for each in compare(runs[:1], runs[1:]).differences}
    assert {name: str(each.change) for name, each in differences.items()} == {
        "same": "same", "slow": "slower", "quick": "faster", "many": "more", "few": "fewer", "gone": "gone",
        "new": "new", "short": "same", "rare": "unclear",
    }  # fmt: skip
    assert differences["slow"].ratio == pytest.approx(3, rel=0.1)
    assert differences["slow"].cost == pytest.approx(150 * ms, rel=0.1)
    assert differences["few"].cost == pytest.approx(-20 * ms, rel=0.1)
    assert differences["slow"].p is None
    finer = {each.name: str(each.change) for each in compare(runs[:1], runs[1:], Floor(0.05, 1000)).differences}
    assert finer["short"] == "slower"


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path]:
    random = np.random.default_rng(7)
    paths = tmp_path / "before.fxt", tmp_path / "after.fxt"
    for path, mean in zip(paths, (1e6, 4e6), strict=True):
        values = [*map(int, random.normal(mean, mean / 20, 60))]
        path.write_bytes(trace({"request": values, "other": [10**6] * 60}))
    return paths


def test_of_two_changes_the_larger_one_is_told() -> None:
    """A name that is called less often, and takes longer each time, is slower or has fewer calls."""
    before = [run_with(1e6, calls=100)]
    for after, expected in ((run_with(5e6, calls=90), Change.SLOWER), (run_with(5e6, calls=10), Change.FEWER)):
        assert changed(before, [after]) == {"f": expected}


def test_the_default_of_the_commands_is_that_of_the_function() -> None:
    assert floor(DEFAULT_FLOOR) == Floor()


ADVICE = (
    "1 run against 1 cannot tell a change below a factor of 3 from the spread between runs: "
    "compare at least 7 runs of each side, recorded in turn"
)


def test_diff(runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    before, after = map(str, runs)
    assert main(["diff", before, after]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:4] == ["request", "slower", "60", "60"]
    assert lines[-2:] == ["1 slower, 1 same", f"{ADVICE} (fxtio diff before*.fxt -- after*.fxt)"]
    assert main(["diff", before, before]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "2 same"
    assert main(["diff", "--json", "--all", before, before, "--", after, after]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["runs"] == [2, 2]
    assert report["advice"] == ADVICE.replace("1 run against 1", "2 runs against 2")
    assert [row["change"] for row in report["differences"]] == ["slower", "same"]
    assert main(["diff", "--floor", "+500%", before, after]) == 0
    assert main(["diff", before]) == 2
    assert main(["diff", before, after, "--"]) == 2


def test_one_run_of_each_side_tells_nothing_small(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The numbers are printed, but nothing is called slower; neither command fails."""
    before, after = (str(tmp_path / name) for name in ("before.fxt", "after.fxt"))
    Path(before).write_bytes(trace({"request": [10**6] * 60, "other": [10**6] * 60}))
    Path(after).write_bytes(trace({"request": [1_300_000] * 60, "other": [10**6] * 60}))
    assert main(["diff", before, after]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:2] == ["request", "unclear"]
    assert "+30.0%" in lines[1]
    assert lines[3:] == ["1 unclear, 1 same", f"{ADVICE} (fxtio diff before*.fxt -- after*.fxt)"]
    assert main(["check", after, "--baseline", before]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:2] == ["request", "unclear"]
    assert lines[3:] == ["2 checked, 0 failed, 1 unclear", f"{ADVICE} (fxtio check new*.fxt --baseline main*.fxt)"]
    assert main(["check", after, "--baseline", before, "--report", "junit"]) == 0
    properties = [each.get("value") for each in ET.fromstring(capsys.readouterr().out).iter("property")]
    assert properties[0] == ADVICE
    assert main(["diff", *[before] * 7, "--", *[after] * 7]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:2] == ["request", "slower"]
    assert lines[3:] == ["1 slower, 1 same"]
    assert main(["check", *[after] * 7, "--baseline", *[before] * 7]) == 1
    assert "FAILED request (+5%,1ms): +30.0% for the mean call, 18.0 ms for a run (p = 0." in capsys.readouterr().out


def test_what_is_too_short_is_not_called_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = (str(tmp_path / name) for name in ("before.fxt", "after.fxt"))
    Path(before).write_bytes(trace({"request": [1_000] * 60, "long": [10**6] * 60}))
    Path(after).write_bytes(trace({"request": [9_000] * 60, "long": [10**6] * 60}))
    assert main(["diff", before, after]) == 0
    short = "1 too short: less than 1.00 ms per run (--floor +5% compares them as well)"
    assert capsys.readouterr().out.splitlines()[0] == f"1 same, {short}"
    assert main(["diff", "--json", before, after]) == 0
    assert json.loads(capsys.readouterr().out)["too_short"] == 1
    assert main(["check", after, "--baseline", before]) == 0
    short = "1 too short to fail: less than the time of their limit per run (--limit)"
    assert capsys.readouterr().out.splitlines()[0] == f"2 checked, 0 failed; {short}"
    assert main(["diff", "--floor", "+5%", before, after]) == 1
    assert "\n1 slower, 1 same\n" in capsys.readouterr().out


def test_check(runs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = map(str, runs)
    assert main(["check", before, "--baseline", before]) == 0
    sentence = f"{ADVICE} (fxtio check new*.fxt --baseline main*.fxt)"
    assert capsys.readouterr().out.splitlines() == ["2 checked, 0 failed", sentence]
    report = tmp_path / "report.xml"
    assert main(["check", after, "--baseline", before, "--report", "junit", "-o", str(report)]) == 1
    assert "FAILED request (+5%,1ms): +30" in capsys.readouterr().out
    suites = ET.fromstring(report.read_text())
    assert [suites.get(name) for name in ("tests", "failures", "errors")] == ["2", "1", "0"]
    assert [case.get("name") for case in suites.iter("testcase") if case.find("failure") is not None] == ["request"]
    assert main(["check", after, "--baseline", before, "--limit", "req*=+400%", "--report", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["failed"], found["advice"][:44]) == (0, "1 run against 1 cannot tell a change below a")


def test_reports_have_the_losses_and_findings_of_both_sides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torn, whole, lossy = (tmp_path / name for name in ("torn.fxt", "whole.fxt", "lossy.fxt"))
    content = trace({"request": [10**6] * 60})
    whole.write_bytes(content)
    torn.write_bytes(content[:-8])
    with fxtio.create(lossy) as writer:
        writer.thread(1, 2).complete("request", 0, 10**6)
        writer.thread(1, 2).end("request", 2 * 10**6)
    cut, phrase = "fxt.framing.truncated", "ends of spans that have not begun"
    none: dict[str, Any] = {"counts": {}, "first": []}
    assert main(["diff", "--json", "--floor", "+500%", str(torn), "--", str(whole), str(lossy)]) == 1
    report = json.loads(capsys.readouterr().out)
    ((before,), after) = report["before"], report["after"]
    assert (before["name"], before["losses"], before["findings"]["counts"]) == (str(torn), {}, {cut: 1})
    assert before["findings"]["first"][0]["rule"] == cut
    assert after[0] == {"name": str(whole), "losses": {}, "findings": none}
    assert after[1] == {"name": str(lossy), "losses": {phrase: 1}, "findings": none}
    arguments = ["check", str(whole), str(lossy), "--baseline", str(torn), "--limit", "request=+500%,1h", "--report"]
    assert main([*arguments, "json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["failed"], report["baseline"], report["traces"]) == (0, [before], after)
    assert main([*arguments, "junit"]) == 1
    suites = ET.fromstring(capsys.readouterr().out)
    assert [(each.get("name"), each.get("value")) for each in suites.iter("property")] == [
        ("baseline", str(torn)),
        ("baseline.findings", f"{torn}: 1 {cut}"),
        ("trace", str(whole)),
        ("trace", str(lossy)),
        ("trace.not-shown", f"{lossy}: 1 {phrase}"),
    ]


def test_check_fails_closed(runs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A limit for a slice that is missing fails, and so does a slice that only the baseline has."""
    before, after = map(str, runs)
    assert main(["check", after, "--baseline", before, "--limit", "requst=+40%"]) == 1
    assert "no slice on both sides has the name 'requst'" in capsys.readouterr().out
    less = tmp_path / "less.fxt"
    less.write_bytes(trace({"other": [10**6] * 60}))
    assert main(["check", str(less), "--baseline", before]) == 1
    assert "FAILED request (+5%,1ms): the slice is missing" in capsys.readouterr().out
    assert main(["check", str(less), "--baseline", before, "--limit", "request=+5%"]) == 1


@pytest.mark.parametrize("limit", ["request", "=5%", "request=", "request=5x", "request=+5%,", "request=nan%"])
def test_a_wrong_limit_is_refused(limit: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["check", "x.fxt", "--baseline", "y.fxt", "--limit", limit])
    assert "is not a limit" in capsys.readouterr().err


def test_open_slices_do_not_count() -> None:
    assert Run.TABLES == ("slices",)
    with fxtio.open_timeline(open_trace()) as timeline:
        assert run_of(timeline) == {}


def open_trace() -> bytes:
    import io

    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        writer.thread(1, 2).begin("open", 10)
        writer.thread(1, 2).instant("later", 50)
    return out.getvalue()


def test_thousands_of_runs() -> None:
    """There are more ways to divide them than a float can say."""
    runs = [{"a": Times(10, 1e9 + number, 1e8)} for number in range(1_100)]
    comparison = compare(runs[::2], runs[1::2])
    assert comparison.is_told
    assert [each.change for each in comparison.differences] == [Change.SAME]


def test_reports_as_markdown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What failed comes first, then what else changed; a name of a trace is code."""
    ms, hostile = 10**6, "a|b`@all</td>\n#1"
    paths = [tmp_path / name for name in ("before.fxt", "after.fxt", "torn.fxt")]
    before = trace({hostile: [ms] * 60, "quick": [9 * ms] * 60, "few": [ms] * 3, "same": [ms] * 9})
    after = trace({hostile: [4 * ms] * 60, "quick": [ms] * 60, "few": [2 * ms] * 3, "same": [ms] * 9})
    for path, content in zip(paths, (before, after, after[:-8]), strict=True):
        path.write_bytes(content)
    old, new, torn = map(str, paths)
    limits = ["--limit", "*=+5%", "--limit", "none=+5%"]
    assert main(["check", new, "--baseline", old, *limits, "--report", "markdown"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "## 2 of 5 names failed"
    assert lines[2] == "| name | change | calls | then | time | then | ratio | of | per run | p | result |"
    assert lines[4] == (
        "| `a`&#124;``b`@all</td>\\n#1`` |"
        " slower | 60 | 60 | 1.00 ms | 4.00 ms | +300.0% | mean | +180 ms |  | failed +5% |"
    )
    assert [line.split(" | ")[:2] for line in lines[5:7]] == [["| `quick`", "faster"], ["| `few`", "unclear"]]
    assert lines[8] == "FAILED none `(+5%):` no slice on both sides has the name `'none'`"
    assert lines[10] == "5 checked, 2 failed, 1 unclear"
    assert lines[12].startswith("1 run against 1 cannot tell")
    assert main(["check", torn, "--baseline", old, "--limit", "*=+9000%", "--report", "markdown"]) == 1
    shown = capsys.readouterr().out
    assert shown.startswith("## None of 4 names failed\n")
    assert "\n1 of 1 trace of the runs have findings\n" in shown
    assert main(["diff", "--report", "markdown", old, new]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "## 1 run against 1"
    assert lines[8] == "1 faster, 1 slower, 1 unclear, 1 same"


@given(rows=ROWS)
def test_runs_in_turn_are_divided_within_blocks(rows: list[list[int]]) -> None:
    values = np.array(rows, np.float64)
    half = values.shape[1] // 2
    blocks = [Block(np.array([0]), np.array([half])), Block(np.arange(1, half), np.arange(half + 1, 2 * half))]
    values = values[:, : 2 * half]
    scaled = [(row - row.mean()) / (row.std() or 1) for row in values]
    others = [*range(1, half), *range(half + 1, 2 * half)]
    divisions = [(first, *rest) for first in (0, half) for rest in combinations(others, half - 1)]
    sums = np.array([[row[list(chosen)].sum() for row in scaled] for chosen in divisions])
    least, greatest = sums.min(axis=1), sums.max(axis=1)
    own = [row[:half].sum() for row in scaled]
    expected = [min(2 * min((least <= each + 1e-9).mean(), (greatest >= each - 1e-9).mean()), 1.0) for each in own]
    assert permutation_test(values, blocks) == pytest.approx(expected)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparison, "MOST_EXACT", 0)
        assert permutation_test(values, blocks) == pytest.approx(expected, abs=0.05)


@given(before=st.integers(1, 40), after=st.integers(1, 40))
def test_blocks_have_runs_of_about_the_same_time(before: int, after: int) -> None:
    blocks = blocks_of(before, after, in_turn=True)
    places = [[*chain.from_iterable(each[side].tolist() for each in blocks)] for side in (0, 1)]
    assert places == [[*range(before)], [*range(before, before + after)]]
    assert len(blocks) == 1 or min(len(side) for each in blocks for side in each) >= comparison.TOGETHER
    assert max(len(each.before) for each in blocks) < 2 * comparison.TOGETHER or before > after
    (whole,) = blocks_of(before, after)
    assert [each.tolist() for each in whole] == places


def judged_jobs(seed: int, pairs: int) -> tuple[int, int]:
    """Return in how many jobs of equal sides there is an alarm, and in how many a function is found that is slower."""
    random, alarms, found = np.random.default_rng(seed), 0, 0
    matter = [number for number in range(NAMES) if MEANS[number] * CALLS[number] > 2e7]
    for pair in range(pairs):
        slow = matter[pair % len(matter)]
        equal, slower = (compare(*simulated_gate(random, 12, each), in_turn=True) for each in (None, slow))
        alarms += any(each.change.is_sure for each in equal.differences)
        found += any(each.change is Change.SLOWER for each in slower.differences if each.name == str(slow))
    return alarms, found


@pytest.mark.full
def test_jobs_that_record_in_turn() -> None:
    """The speed of jobs differs by 30 %: at most 1 % alarm if nothing changed, and 95 % find what is 10 % slower."""
    alarms, found = judged_jobs(11, 100)
    assert (alarms <= 1, found >= 95) == (True, True)


def test_commands_compare_runs_in_turn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On a machine that gets slower all the time, a difference is found only so."""
    sides: list[list[str]] = [[], []]
    for number in range(16):
        for side, paths in enumerate(sides):
            paths.append(str(tmp_path / f"{side}-{number}.fxt"))
            duration = 10**6 * (1 + 0.1 * number) * (1 + 0.1 * side)
            Path(paths[-1]).write_bytes(trace({"request": [int(duration)] * 10}))
    before, after = sides
    assert main(["diff", *before, "--", *after]) == 0
    assert main(["diff", "--in-turn", *before, "--", *after]) == 1
    assert main(["check", *after, "--baseline", *before]) == 0
    assert main(["check", *after, "--in-turn", "--baseline", *before]) == 1
    assert "FAILED request" in capsys.readouterr().out
