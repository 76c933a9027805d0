"""Tests of the installed package: its files, its metadata, and the kernels that it uses."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fxtio
import fxtio._native
from support.checkout import CHECKOUT, hidden_package, run_python

pytestmark = pytest.mark.native

DISTRIBUTION = importlib.metadata.distribution("fxtio")


@pytest.mark.skipif(os.environ.get("FXTIO_TEST_INSTALLED") != "1", reason="FXTIO_TEST_INSTALLED is not 1")
def test_the_installed_package_is_tested() -> None:
    assert fxtio.__file__ is not None
    assert not Path(fxtio.__file__).resolve().is_relative_to(CHECKOUT)


@pytest.mark.skipif(os.environ.get("FXTIO_TEST_INSTALLED") != "1", reason="FXTIO_TEST_INSTALLED is not 1")
def test_the_installed_package_is_small() -> None:
    """It takes 14 MB on a disk, of which half is the bytecode, which not every installer writes."""
    files = [file for file in DISTRIBUTION.files or [] if file.suffix != ".pyc"]
    blocks = sum(-(-Path(str(file.locate())).stat().st_size // 4096) for file in files)
    assert 1 << 20 < blocks * 4096 < 7 << 20


@pytest.mark.skipif("FXTIO_EXPECT_KERNELS" not in os.environ, reason="FXTIO_EXPECT_KERNELS is not set")
def test_the_expected_kernels_run() -> None:
    assert os.environ["FXTIO_EXPECT_KERNELS"] == fxtio._native.IMPLEMENTATION


def test_children_see_the_same_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CHECKOUT)
    assert run_python("-c", "import fxtio; print(fxtio.__file__)").stdout.strip() == fxtio.__file__


def test_package_is_typed() -> None:
    assert fxtio.__file__ is not None
    assert Path(fxtio.__file__).with_name("py.typed").is_file()


def test_run_time_dependencies() -> None:
    required = [line for line in DISTRIBUTION.requires or [] if "extra ==" not in line]
    assert sorted(re.split(r"[<>=!~ ]", line)[0] for line in required) == ["construct", "msgspec", "numpy", "zstandard"]


def test_entry_points_load() -> None:
    points = {(point.group, point.name): point for point in DISTRIBUTION.entry_points}
    assert callable(points["console_scripts", "fxtio"].load())
    formats = [name for group, name in points if group == "fxtio.formats"]
    assert "fxt" in formats
    for name in formats:
        points["fxtio.formats", name].load()


def test_versions_agree() -> None:
    assert fxtio.__version__ == DISTRIBUTION.version
    changelog = (CHECKOUT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## {DISTRIBUTION.version}" in changelog


def test_everything_is_declared_in_pyproject() -> None:
    assert [name for name in ("setup.py", "setup.cfg", "MANIFEST.in") if (CHECKOUT / name).exists()] == []


def test_no_test_package_hides_an_installed_one() -> None:
    """tests/ comes first on sys.path, so a folder tests/fxt would hide the installed package `fxt`."""
    installed = importlib.metadata.packages_distributions()
    folders = [path.name for path in (CHECKOUT / "tests").iterdir() if path.is_dir() and path.name != "__pycache__"]
    assert [name for name in folders if name in installed] == []


@pytest.mark.full
def test_tests_of_the_checkout_are_refused(tmp_path: Path) -> None:
    """`python -m pytest` puts the working directory before the installed package, which it then hides."""
    (tmp_path / "fxtio").mkdir()
    (tmp_path / "fxtio" / "__init__.py").touch()
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    command = ["-m", "pytest", "-n0", "-q", "--collect-only", "tests/packages/codec/test_word.py"]
    done = subprocess.run(
        [sys.executable, *command],
        cwd=CHECKOUT, env=variables | {"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert f"hides the installed {tmp_path / 'fxtio'}; use `pytest`" in done.stderr
    assert hidden_package([str(CHECKOUT)]) is None
    assert hidden_package([str(tmp_path), str(CHECKOUT)]) is None  # an editable install
