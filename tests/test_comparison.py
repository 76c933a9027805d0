"""Comparisons of runs: p-values agree with scipy, equal runs raise no alarm, a slowdown is found; diff and check."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fxtio
from fxtio.cli import main
from fxtio.cli.compared import DEFAULT_FLOOR, floor
from fxtio.timeline import comparison
from fxtio.timeline.comparison import Change, Floor, Run, compare, run_of
from fxtio.timeline.permutation import permutation_test

pytestmark = pytest.mark.once

VALUES = st.lists(st.integers(0, 50).map(float), min_size=2, max_size=6)


@pytest.fixture(scope="module")
def stats() -> Any:
    """Return the judge, which takes long to import: not when tests are collected, but where they run."""
    return importlib.import_module("scipy.stats")


def scipy_p(stats: Any, first: list[float], second: list[float], **options: Any) -> float:
    """Return the p-value of the means of two runs by `scipy.stats`."""
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
    assert permutation_test(np.array(first), np.array(second)) == pytest.approx(expected)


@pytest.mark.parametrize("shift", [0.0, 0.02, 0.06, 0.1])
def test_random_p_values_are_like_those_of_scipy(stats: Any, shift: float) -> None:
    random = np.random.default_rng(5)
    first, second = random.lognormal(0, 0.3, 80), random.lognormal(shift, 0.3, 90)
    expected = scipy_p(stats, list(first), list(second), n_resamples=9999, rng=random)
    assert permutation_test(first, second) == pytest.approx(expected, rel=0.15, abs=0.006)


@given(values=st.lists(st.integers(0, 9).map(float), min_size=2, max_size=12), size=st.integers(1, 11))
def test_ranks_are_those_of_scipy(stats: Any, values: list[float], size: int) -> None:
    size = min(size, len(values) - 1)
    ranks = comparison._ranks(np.array(values[:size]), np.array(values[size:]))
    assert [len(each) for each in ranks] == [size, len(values) - size]
    assert np.concatenate(ranks).tolist() == stats.rankdata(values).tolist()


def test_a_disturbed_run_hides_no_difference() -> None:
    random = np.random.default_rng(7)

    def run(mean: float) -> dict[str, tuple[Any, Any]]:
        return {"f": (random.normal(mean, mean / 50, 100), np.ones(100))}

    before, after = [run(1e6) for _ in range(9)], [run(1.1e6) for _ in range(10)]
    (difference,) = compare([*before, run(2e6)], after)
    assert difference.change is Change.SLOWER


NAMES = 6
MEANS = np.random.default_rng(1).lognormal(11.5, 1, NAMES)
CALLS = np.random.default_rng(2).integers(1000, 3000, NAMES)


def simulated(random: np.random.Generator, slow: int | None = None) -> dict[str, Any]:
    """Return a run of a program: durations with noise, slow calls, disturbances, and another speed of the whole."""
    blocks, whole = {}, random.normal(1, 0.005)
    for number, (mean, calls) in enumerate(zip(MEANS, CALLS, strict=True)):
        times = mean * whole * random.normal(1, 0.005) * np.exp(random.normal(0, 0.3, calls))
        times[random.random(calls) < 0.002] *= 10
        for begin in random.integers(0, calls, random.poisson(1)):
            times[begin : begin + calls // 50] *= 2
        if number == slow:
            times *= 1.1
        first = np.arange(0, calls, -(-calls // comparison.MAX_BLOCKS))
        blocks[str(number)] = (np.add.reduceat(times, first), np.diff(np.append(first, calls)).astype(np.float64))
    return blocks


@pytest.mark.full
def test_equal_runs_raise_no_alarm() -> None:
    """Of 1,000 pairs of runs of the same program, at most 1 % raise an alarm about any name."""
    random = np.random.default_rng(3)
    pairs = (compare([simulated(random)], [simulated(random)]) for _ in range(1000))
    assert sum(any(each.change is not Change.SAME for each in pair) for pair in pairs) <= 10


@pytest.mark.full
@pytest.mark.parametrize(("runs", "attempts"), [(1, 100), (3, 20), (5, 20)])
def test_a_slowdown_is_found(runs: int, attempts: int) -> None:
    """Of slowdowns by 10 %, at least 95 % are found, and nothing else is."""
    random, found, others = np.random.default_rng(4), 0, 0
    matter = [number for number in range(NAMES) if MEANS[number] * CALLS[number] * 0.1 > 2e6]
    for attempt in range(attempts):
        slow = matter[attempt % len(matter)]
        before, after = ([simulated(random, each) for _ in range(runs)] for each in (None, slow))
        changed = {each.name: each.change for each in compare(before, after) if each.change is not Change.SAME}
        found += changed.pop(str(slow), None) is Change.SLOWER
        others += bool(changed)
    assert found >= 0.95 * attempts
    assert others <= 0.02 * attempts


@given(counts=st.lists(st.integers(0, 60), min_size=1, max_size=3), rows=st.integers(1, 50))
def test_blocks_keep_all_calls(counts: list[int], rows: int) -> None:
    """However often values are joined, sums and numbers of calls stay, and consecutive calls stay together."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparison, "MAX_ROWS", rows)
        patch.setattr(comparison, "MAX_BLOCKS", 7)
        data = trace(
            {f"name {number}": [1000 + place for place in range(count)] for number, count in enumerate(counts)}
        )
        with fxtio.open_timeline(data) as timeline:
            blocks = run_of(timeline)
    for number, count in enumerate(counts):
        if count == 0:
            assert f"name {number}" not in blocks
            continue
        sums, calls = blocks[f"name {number}"]
        assert len(sums) <= 7
        assert calls.sum() == count
        assert sums.sum() == sum(1000 + place for place in range(count))
        assert (np.diff(sums / calls) > 0).all()


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
    after = {"same": times(ms, 50), "slow": times(1.2 * ms, 50), "quick": times(0.8 * ms, 50), "many": times(ms, 70),
             "few": times(ms, 30), "new": times(ms, 5), "short": times(2000, 50), "rare": times(2 * ms, 3)}  # fmt: skip
    runs = []
    for durations in (before, after):
        with fxtio.open_timeline(trace(durations)) as timeline:
            runs.append(run_of(timeline))
    differences = {each.name: each for each in compare(runs[:1], runs[1:])}
    assert {name: str(each.change) for name, each in differences.items()} == {
        "same": "same", "slow": "slower", "quick": "faster", "many": "more", "few": "fewer", "gone": "gone",
        "new": "new", "short": "same", "rare": "same",
    }  # fmt: skip
    assert differences["slow"].ratio == pytest.approx(0.2, abs=0.03)
    assert differences["slow"].cost == pytest.approx(10 * ms, rel=0.2)
    assert differences["rare"].p is None
    finer = {each.name: str(each.change) for each in compare(runs[:1], runs[1:], Floor(0.05, 1000))}
    assert finer["short"] == "slower"


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path]:
    random = np.random.default_rng(7)
    paths = tmp_path / "before.fxt", tmp_path / "after.fxt"
    for path, mean in zip(paths, (1e6, 1.3e6), strict=True):
        values = [*map(int, random.normal(mean, mean / 20, 60))]
        path.write_bytes(trace({"request": values, "other": [10**6] * 60}))
    return paths


def test_few_slow_calls_beside_many_quick_ones() -> None:
    """The calls of a side that has few of them are not taken for the slowest blocks of both."""
    sides = []
    for times in ([2_000_000 + each for each in range(200)], [6_000_000 + each for each in range(8)]):
        with fxtio.open_timeline(trace({"request": times})) as timeline:
            sides.append(run_of(timeline))
    (difference,) = compare(sides[:1], sides[1:])
    assert difference.change is Change.SLOWER


def test_the_default_of_the_commands_is_that_of_the_function() -> None:
    assert floor(DEFAULT_FLOOR) == Floor()


def test_diff(runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    before, after = map(str, runs)
    assert main(["diff", before, after]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:4] == ["request", "slower", "60", "60"]
    assert lines[-1] == "1 slower, 1 same"
    assert main(["diff", before, before]) == 0
    assert capsys.readouterr().out == "2 same\n"
    assert main(["diff", "--json", "--all", before, before, "--", after, after]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["runs"] == [2, 2]
    assert [row["change"] for row in report["differences"]] == ["slower", "same"]
    assert main(["diff", "--floor", "+50%", before, after]) == 0
    assert main(["diff", before]) == 2
    assert main(["diff", before, after, "--"]) == 2


def test_what_is_too_short_is_not_called_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = (str(tmp_path / name) for name in ("before.fxt", "after.fxt"))
    Path(before).write_bytes(trace({"request": [1_000] * 60, "long": [10**6] * 60}))
    Path(after).write_bytes(trace({"request": [9_000] * 60, "long": [10**6] * 60}))
    assert main(["diff", before, after]) == 0
    short = "1 too short: less than 1.00 ms per run (--floor +5% compares them as well)"
    assert capsys.readouterr().out == f"1 same, {short}\n"
    assert main(["diff", "--json", before, after]) == 0
    assert json.loads(capsys.readouterr().out)["too_short"] == 1
    assert main(["check", after, "--baseline", before]) == 0
    short = "1 too short to fail: less than the time of their limit per run (--limit)"
    assert capsys.readouterr().out == f"2 checked, 0 failed; {short}\n"
    assert main(["diff", "--floor", "+5%", before, after]) == 1
    assert capsys.readouterr().out.endswith("1 slower, 1 same\n")


def test_check(runs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = map(str, runs)
    assert main(["check", before, "--baseline", before]) == 0
    assert capsys.readouterr().out == "2 checked, 0 failed\n"
    report = tmp_path / "report.xml"
    assert main(["check", after, "--baseline", before, "--report", "junit", "-o", str(report)]) == 1
    assert "FAILED request (+5%,1ms)" in capsys.readouterr().out
    suites = ET.fromstring(report.read_text())
    assert [suites.get(name) for name in ("tests", "failures", "errors")] == ["2", "1", "0"]
    assert [case.get("name") for case in suites.iter("testcase") if case.find("failure") is not None] == ["request"]
    assert main(["check", after, "--baseline", before, "--limit", "req*=+40%", "--report", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["failed"] == 0


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
