"""Suites of packages that PyPI has as source distributions with their tests, for `compare.py`."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

Outcomes = dict[str, str]


class Package(NamedTuple):
    """A package whose tests are run by pytest.

    Attributes:
        version: the release of the package.
        tests: what pytest is given, in the folder of the source distribution.
        needs: what the tests need besides the package and pytest.
    """

    version: str
    tests: str = "tests"
    needs: tuple[str, ...] = ()


PACKAGES = {
    "attrs": Package("25.3.0", needs=("hypothesis", "cloudpickle")),
    "cachetools": Package("5.5.2"),
    "click": Package("8.1.8"),
    "itsdangerous": Package("2.2.0", needs=("freezegun",)),
    "jinja2": Package("3.1.6", needs=("trio",)),
    "markupsafe": Package("3.0.2"),
    "more-itertools": Package("10.7.0"),
    "packaging": Package("24.2", needs=("pretend",)),
    "pluggy": Package("1.6.0", tests="testing"),
    "tornado": Package("6.5.1", tests="tornado/test"),
}


class Suite:
    """The tests of a package, with the package and what it needs in a folder of its own.

    Args:
        name: the package, one of `PACKAGES`.
        folder: where it is installed.

    Raises:
        subprocess.CalledProcessError: pip cannot install it.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self._package = package = PACKAGES[name]
        self._installed, self._report = folder / "installed", folder / "report.xml"
        requirement = f"{name}=={package.version}"
        _pip("install", "--target", str(self._installed), requirement, *package.needs)
        _pip("download", "--no-deps", "--no-binary", ":all:", "--dest", str(folder), requirement)
        with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
            archive.extractall(folder / "source", filter="data")
        self._source = next((folder / "source").iterdir())

    def outcomes(self, environment: dict[str, str], tracer: list[str]) -> Outcomes:
        """Return the outcome of each test.

        Args:
            environment: the variables of the process.
            tracer: the arguments of Python before those that run pytest.

        Raises:
            RuntimeError: they do not run even without the tracer.
        """
        self._report.unlink(missing_ok=True)
        quiet = [
            "-q",
            "-n0",
            "-p",
            "no:cacheprovider",
            "-o",
            "addopts=",
            "-W",
            "ignore::pytest.PytestDeprecationWarning",
        ]
        done = subprocess.run(
            [sys.executable, *tracer, "-m", "pytest", *quiet, f"--junitxml={self._report}", self._package.tests],
            cwd=self._source,
            env=environment | {"PYTHONPATH": str(self._installed)},
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        found = {"exit status": str(done.returncode)}
        if not self._report.exists() or done.returncode not in (0, 1):  # all passed, some failed
            if not tracer:
                raise RuntimeError(f"the tests do not run:\n{done.stdout[-1000:]}{done.stderr[-1000:]}")
            return found
        for case in ET.parse(self._report).iter("testcase"):
            outcome = "+".join(sorted(child.tag for child in case if child.tag in ("failure", "error", "skipped")))
            found[f"{case.get('classname')}.{case.get('name')}"] = outcome or "ok"
        return found


def _pip(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments], check=True)
