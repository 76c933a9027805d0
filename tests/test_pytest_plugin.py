"""The plug-in of pytest: tests of producers, run by pytest in a folder of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

import fxtio
from fxtio.fxt import synth
from fxtio.testing.asserts import assert_valid
from support.checkout import CORPUS, run_python

BROKEN = CORPUS / "fxt" / "ocaml-trace-second.fxt"


@pytest.fixture(autouse=True)
def _own_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)


def run(pytester: pytest.Pytester, text: str, *options: str) -> pytest.RunResult:
    pytester.makepyfile(text)
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:cov", *options)


def clean(path: Path) -> Path:
    with fxtio.create(path) as writer:
        synth.spans(writer, events=20, seed=0, threads=2)
    return path


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


def test_a_broken_trace_fails_and_shows_its_bytes(pytester: pytest.Pytester) -> None:
    text = f"""
        def test_producer(validate_trace):
            validate_trace({str(BROKEN)!r}, rules=["fxt.bits.*"])
        """
    result = run(pytester, text)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            ">*validate_trace(*",
            "E*AssertionError: *ocaml-trace-second.fxt: 1 finding *",
            "E*required: fxt.bits.padding, 1 finding, at byte 48",
            "E*Mend: *",
            "E*00000038  6f 63 61 6d 6c 2d 74 72  name*! the padding is not zero",
        ]
    )
    result.stdout.no_fnmatch_line("*raise AssertionError*")


def test_rules_can_be_ignored(pytester: pytest.Pytester) -> None:
    text = f"""
        def test_producer(validate_trace):
            validate_trace({str(BROKEN)!r}, ignore=["fxt.*"])
        """
    run(pytester, text).assert_outcomes(passed=1)


def test_the_plug_in_loads_nothing_until_it_is_used(pytester: pytest.Pytester) -> None:
    text = """
        import sys

        def test_nothing():
            assert "fxtio.bridges.pytest" in sys.modules
            assert not {"numpy", "msgspec", "fxtio.formats", "fxtio.validate"} & {*sys.modules}
        """
    run(pytester, text, "-p", "no:hypothesispytest").assert_outcomes(passed=1)


def test_assertions_need_no_pytest(tmp_path: Path) -> None:
    path = clean(tmp_path / "clean.fxt")
    code = (
        f"import sys; from fxtio.testing.asserts import assert_valid; assert_valid({str(path)!r}); print(*sys.modules)"
    )
    assert not {"pytest", "hypothesis"} & {*run_python("-c", code).stdout.split()}
    with pytest.raises(AssertionError, match=r"fxt\.bits\.padding"):
        assert_valid(BROKEN)
