"""The plug-in of pytest: tests of producers, run by pytest in a folder of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fxtio
from fxtio import synth
from fxtio.conformance import canonical
from fxtio.fxt import records as r
from fxtio.fxt.records import Thread
from fxtio.testing.asserts import assert_same_meaning, assert_valid
from fxtio.testing.strategies import encoded
from support.broken import write_broken
from support.checkout import CORPUS, FEW_PLUGINS, run_python
from support.limits import PATIENCE
from support.tracer_view import View

RULE = "fxt.bits.padding"


@pytest.fixture(autouse=True)
def _own_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    write_broken(RULE, path := tmp_path / "broken.fxt")
    return path


def run(pytester: pytest.Pytester, text: str, *options: str) -> pytest.RunResult:
    pytester.makepyfile(text)
    return pytester.runpytest_subprocess(*FEW_PLUGINS, "-p", "no:xdist", *options)


def clean(path: Path) -> Path:
    synth.write(path, "spans", events=20, threads=2)
    return path


@pytest.mark.full
def test_a_valid_trace_passes(pytester: pytest.Pytester) -> None:
    path = clean(pytester.path / "clean.fxt")
    text = f"""
        from pathlib import Path

        PATH = Path({str(path)!r})

        def test_path(validate_trace):
            assert validate_trace(PATH).format == "fxt"

        def test_bytes(validate_trace):
            validate_trace(PATH.read_bytes(), profile="all")

        def test_directory(validate_trace):
            validate_trace({str(CORPUS / "uftrace" / "args-all-v013")!r}, profile="required")
        """
    run(pytester, text).assert_outcomes(passed=3)


@pytest.mark.full
def test_a_broken_trace_fails_and_shows_its_bytes(pytester: pytest.Pytester, broken: Path) -> None:
    text = f"""
        def test_producer(validate_trace):
            validate_trace({str(broken)!r})

        def test_ignored(validate_trace):
            validate_trace({str(broken)!r}, ignore=["{RULE}"])
        """
    result = run(pytester, text)
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(
        [
            ">*validate_trace(*",
            "E*AssertionError: *broken.fxt: 1 finding *",
            f"E*required: {RULE}, 1 finding, at byte *",
            "E*Fix: *",
            "E*text *! the padding is not zero",
        ]
    )
    result.stdout.no_fnmatch_line("*raise AssertionError*")


@pytest.mark.native
def test_the_plug_in_loads_nothing_until_it_is_used(pytester: pytest.Pytester) -> None:
    text = """
        import sys

        def test_nothing():
            assert "fxtio.bridges.pytest" in sys.modules
            assert not {"numpy", "msgspec", "fxtio.formats", "fxtio.validate"} & {*sys.modules}
        """
    run(pytester, text, "-p", "no:hypothesispytest").assert_outcomes(passed=1)


def test_assertions_need_no_pytest(tmp_path: Path, broken: Path) -> None:
    path = clean(tmp_path / "clean.fxt")
    code = (
        f"import sys; from fxtio.testing.asserts import assert_valid; assert_valid({str(path)!r}); print(*sys.modules)"
    )
    assert not {"pytest", "hypothesis"} & {*run_python("-c", code).stdout.split()}
    with pytest.raises(AssertionError, match=r"fxt\.bits\.padding"):
        assert_valid(broken)


# ---- the same meaning


def fxt(*, tables: bool, name: str = "work", rate: int = 1_000_000_000, provider: int = 1) -> bytes:
    """Return a trace with a span of 10 us; its strings and threads are in tables, or inline."""
    thread: Any = 1 if tables else Thread(100, 101)
    text: Any = 1 if tables else name
    scale = rate // 1_000_000
    records: list[Any] = [r.Magic(), r.ProviderInfo(provider, "demo"), r.Initialization(rate)]
    if tables:
        records += [r.String(1, name), r.ThreadRecord(1, 100, 101)]
    records.append(r.DurationComplete(10 * scale, thread, 0, text, (), 20 * scale))
    return encoded(records)


@pytest.mark.parametrize("change", [{"tables": False}, {"rate": 24_000_000}])
def test_slots_and_rates_do_not_matter(change: dict[str, Any]) -> None:
    assert_same_meaning(fxt(**{"tables": True} | change), fxt(tables=True))


def test_names_matter() -> None:
    with pytest.raises(AssertionError, match=r'name is \{"text": "play"\}, expected|"play"'):
        assert_same_meaning(fxt(tables=True, name="play"), fxt(tables=False))


def test_formats_without_canonical_form_are_compared_by_their_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [tmp_path / name for name in ("a.data", "b.data", "c.data")]
    for seed, path in zip([1, 1, 2], paths, strict=True):
        synth.write(path, "calls", format="uftrace", events=40, threads=1, seed=seed)
    monkeypatch.setattr(canonical, "formats", lambda: ("fxt",))
    assert_same_meaning(paths[0], paths[1])
    with pytest.raises(AssertionError, match=r"record 0 is .*, expected "):
        assert_same_meaning(paths[0], paths[2])
    with pytest.raises(AssertionError, match="the trace has the format fxt, expected uftrace"):
        assert_same_meaning(fxt(tables=True), paths[0])


@pytest.mark.full
def test_a_trace_is_compared_with_an_expected_one(pytester: pytest.Pytester) -> None:
    for name, trace in (("a", fxt(tables=True)), ("b", fxt(tables=False)), ("c", fxt(tables=True, name="play"))):
        (pytester.path / f"{name}.fxt").write_bytes(trace)
    text = """
        def test_equal(validate_trace):
            validate_trace("a.fxt", expected="b.fxt", profile="required")

        def test_other(validate_trace):
            validate_trace("a.fxt", expected="c.fxt", profile="required")
        """
    result = run(pytester, text)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["E*AssertionError: the trace does not mean what was expected", 'E*"play"*'])


TESTS = """
    import pytest

    @pytest.mark.parametrize("number", [1, 2])
    @pytest.mark.parametrize("text", ["x", "y z"])
    def test_one(number, text):
        assert number == 1

    @pytest.fixture
    def broken():
        yield
        raise RuntimeError

    def test_two(broken):
        pass

    def test_three():
        pytest.skip("not today")
"""

OUTCOMES = {
    "test_one[x-1]": "passed",
    "test_one[x-2]": "failed",
    "test_one[y z-1]": "passed",
    "test_one[y z-2]": "failed",
    "test_two": "failed",
    "test_three": "skipped",
}


@pytest.mark.full
@pytest.mark.recorder
@pytest.mark.parametrize("options", [[], ["--spans-only"], ["--include", "nosuch"]], ids=" ".join)
def test_a_recorded_run_has_a_span_for_each_test(options: list[str], pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS)
    command = ["-m", "fxtio", "run", "-q", "-o", "out.fxt", *options, "-m", "pytest", "-p", "no:cacheprovider", "-q"]
    subprocess.run([sys.executable, *command], cwd=pytester.path, check=False, capture_output=True, timeout=60)
    view = View(pytester.path / "out.fxt")
    tests = [item for item in view.slices if "::" in (item.name or "")]
    file = "test_a_recorded_run_has_a_span_for_each_test.py"
    assert {str(item.name).removeprefix(f"{file}::"): item.args["outcome"] for item in tests} == OUTCOMES
    assert len(tests) == len(OUTCOMES)
    phases = [item for item in view.slices if item.category == "pytest" and "::" not in (item.name or "")]
    assert [item.name for item in phases] == ["setup", "call", "teardown"] * 5 + ["setup", "call", "teardown"]


@pytest.mark.recorder
def test_the_output_of_a_recorded_run_is_the_same(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS)
    words = ["-m", "pytest", "-p", "no:cacheprovider", "-q"]
    outputs = []
    for before in ([], ["-m", "fxtio", "run", "-q"]):
        command = [sys.executable, *before, *words]
        done = subprocess.run(command, cwd=pytester.path, check=False, capture_output=True, text=True, timeout=60)
        assert done.returncode == 1
        outputs.append(re.sub(r"in \d+\.\d+s", "", done.stdout))
    assert outputs[0] == outputs[1]


@pytest.mark.recorder
@pytest.mark.full
def test_workers_have_the_names_that_pytest_shows(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import subprocess, sys

        def test_one():
            subprocess.run([sys.executable, "-c", "pass"], check=True)

        def test_two():
            pass
        """
    )
    # An editable install has no fxtio.pth.
    pytester.makepyfile(sitecustomize="import fxtio.tracer.startup as s; s.start_from_environment()")
    arguments = ["run", "-q", "-o", "out.fxt", "--spans-only", "-m", "pytest", "-p", "no:cacheprovider", "-n2"]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "fxtio", *arguments],
        env=os.environ | {"PYTHONPATH": str(pytester.path)},
        capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    with fxtio.open("out.fxt") as trace:
        names = sorted(trace.info.processes.values())
    assert names == ["gw0", "gw1", "pytest", "python -c"]
