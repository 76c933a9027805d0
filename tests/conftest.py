"""Hypothesis profiles, common fixtures, and settings that keep child processes from importing the checkout."""

from __future__ import annotations

import gc
import os
import random
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal import entropy

from fxtio._native import extensions

pytest_plugins = ["pytester", "support.full_run"]

pytest.register_assert_rewrite("judges", "oracle", "support")

# A child started in the checkout would otherwise import fxtio/ from its working directory.
os.environ["PYTHONSAFEPATH"] = "1"
for name in ("COLUMNS", "LINES"):  # GNU readline, which pytest imports, sets them for workers and children
    os.environ.pop(name, None)
    os.unsetenv(name)

# What a shell starts in the background ignores interrupts, and so would the programs that the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Hypothesis would set the state of numpy's global generator, which nothing here uses, twice for each example.  That
# took a tenth of the time of all properties.  `random` stands for it: a generator that hypothesis manages anyway.
entropy.NP_RANDOM = random

# No deadlines: on a busy machine they depend on other processes.
settings.register_profile("brief", max_examples=20, deadline=None)
settings.register_profile(
    "ci",
    max_examples=30,
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "fuzz", max_examples=50_000, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "brief"))


def pytest_configure() -> None:
    """Refuse to test the checkout where it hides the installed package, as in `python -m pytest`."""
    from support.checkout import PACKAGE, hidden_package

    installed = hidden_package(sys.path)
    if installed is not None:
        hint = "use `pytest`, or `python -P -m pytest`"
        raise pytest.UsageError(f"the tests would import {PACKAGE}, which hides the installed {installed}; {hint}")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return one worker more than there are cores, as many tests wait for a child process."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests marked `recorder` where the C extension could not be built.

    `.ci/run` finds the modules with tests of a mark by their text, so a mark that is not in it is refused.
    """
    _, missing = extensions.load(extensions.RECORDER)
    texts: dict[Path, str] = {}
    for item in items:
        names = {mark.name for mark in item.iter_markers()} & {"native", "recorder", "once"}
        for name in names:
            if item.path not in texts:
                texts[item.path] = item.path.read_text("utf-8")
            if f"mark.{name}" not in texts[item.path]:
                raise pytest.UsageError(f"{item.nodeid} has a mark that its module does not name: mark.{name}")
        if missing and "recorder" in names:
            item.add_marker(pytest.mark.skip(reason=f"the recorder is missing: {missing}"))


def pytest_collection_finish() -> None:
    """Exempt the collected tests, which live until the end, from garbage collection, and collect less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Return the directory of traces that other programs wrote; the tests only read them."""
    return Path(__file__).resolve().with_name("corpus")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Return a path to record a trace to."""
    return tmp_path / "out.fxt"
