"""Judges: programs of other projects whose reading of a trace is compared with that of fxtio.

A test of our own writer against our own reader proves only that the two agree. Each module here wraps one foreign
reader, hides its quirks as far as they are known, and returns plain data that a test can compare with what it meant
to write. None of them imports fxtio.

    perfetto    the trace processor of the Perfetto UI, as WebAssembly under Node.js
    pypi_fxt    the `fxt` reader from PyPI, pure Python
    speedscope  the importer of speedscope's npm package, under Node.js: speedscope JSON, collapsed stacks, pprof
    firefox_profiler  the Firefox Profiler's npm package, under Node.js: both forms of its profiles, `.cpuprofile`
    go_pprof    the pprof of Go
    engines     Dask, Sail, deltalake, pyiceberg and DuckLake, which read lakes
    pytest_plugins  the largest plug-ins of pytest, which run tests while these are recorded
    chromium    Debian's Chromium, which shows the Perfetto UI

A judge may be missing from a machine. Every judge module therefore has `available()`, which returns None or the
reason in one sentence, and tests pass that to `require`::

    judges.require(perfetto.available())
"""

from __future__ import annotations

import os

import pytest

__all__ = ["on_ci", "require"]


def on_ci() -> bool:
    """Return whether the tests run on a CI service, where every judge has to be installed."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false", "no")


def require(reason: str | None, *, must: bool = False) -> None:
    """Stop the calling test if `reason` says that its judge is missing.

    Elsewhere the test is skipped and the reason shows in pytest's report (`-rs`). On CI it fails: a judge that
    silently stopped being installed would leave nothing tested.  With `must` it fails everywhere.
    """
    if reason is None:
        return
    if must:
        pytest.fail(reason)
    if on_ci():
        pytest.fail(f"CI must have every judge: {reason}", pytrace=False)
    pytest.skip(reason)
