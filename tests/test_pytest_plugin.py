"""The plug-in of pytest: tests of producers, run by pytest in a folder of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fxtio
from fxtio.conformance import canonical
from fxtio.formats import by_name
from fxtio.fxt import records as r
from fxtio.fxt import synth
from fxtio.fxt.records import Thread
from fxtio.testing.asserts import assert_same_meaning, assert_valid
from fxtio.testing.strategies import encoded
from support.checkout import CORPUS, run_python

pytestmark = pytest.mark.native

RULE = "fxt.bits.padding"


@pytest.fixture(autouse=True)
def _own_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    by_name("fxt").breaks.BREAKS[RULE](path := tmp_path / "broken.fxt")
    return path


def run(pytester: pytest.Pytester, text: str, *options: str) -> pytest.RunResult:
    pytester.makepyfile(text)
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:cov", *options)


def clean(path: Path) -> Path:
    with fxtio.create(path) as writer:
        synth.spans(writer, events=20, seed=0, threads=2)
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
            "E*Mend: *",
            "E*text *! the padding is not zero",
        ]
    )
    result.stdout.no_fnmatch_line("*raise AssertionError*")


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
        by_name("uftrace").synth.synth(
            path, "calls", events=40, size=None, threads=1, seed=seed, progress=lambda done, total: None
        )
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
