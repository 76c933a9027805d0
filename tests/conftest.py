"""Hypothesis profiles, common fixtures, and settings that keep child processes from importing the checkout."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from fxtio._native import extensions

pytest.register_assert_rewrite("judges", "oracle", "support")

# A child started in the checkout would otherwise import fxtio/ from its working directory.
os.environ["PYTHONSAFEPATH"] = "1"

# No deadlines: on a busy machine they depend on other processes.
settings.register_profile("brief", max_examples=20, deadline=None)
settings.register_profile("dev", max_examples=60, deadline=None)
settings.register_profile(
    "ci",
    max_examples=150,
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "fuzz", max_examples=50_000, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests marked `recorder` where the C extension could not be built."""
    _, missing = extensions.load(extensions.RECORDER)
    for item in items:
        if missing and item.get_closest_marker("recorder"):
            item.add_marker(pytest.mark.skip(reason=f"the recorder is missing: {missing}"))


def pytest_collection_finish() -> None:
    """Exempt the collected tests, which live until the end, from garbage collection."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Return the directory of traces that other programs wrote; the tests only read them."""
    return Path(__file__).resolve().with_name("corpus")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Return a path to record a trace to."""
    return tmp_path / "out.fxt"
