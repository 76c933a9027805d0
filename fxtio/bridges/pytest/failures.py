"""The last moments of tests: of those that fail, and of those in which a span is slow, each as a trace of its own."""

from __future__ import annotations

import re
import zlib
from collections.abc import Generator
from typing import Any

import pytest

from fxtio.bridges.pytest import around
from fxtio.errors import described
from fxtio.report import printable
from fxtio.tracer import session
from fxtio.tracer.flight import MAX_DUMPS
from fxtio.tracer.options import COMPRESSED

_MAX_NAME = 80
_NO_NAME = re.compile(r"[^\w.]+", re.ASCII)


class LastMoments:
    """The plug-in that takes the dumps; at most `MAX_DUMPS` in a process, as of other triggers."""

    def __init__(self) -> None:
        self._names: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take a dump if the test has failed here, not in a worker, and say in its report where it is."""
        if report.failed and not hasattr(report, "node"):
            report.sections.append(("fxtio: last moments", self._dump(report.nodeid)))

    def _dump(self, test: str) -> str:
        """Take a dump; return where it is, or why there is none."""
        recording = session.current()
        if recording is None:
            return "none: nothing is recorded any more"
        if len(self._names) == MAX_DUMPS:
            return f"none: {MAX_DUMPS} other tests have failed before"
        trace = recording.trace
        compression = trace.suffix if trace.suffix in COMPRESSED else ""
        stem = trace.name.removesuffix(compression).removesuffix(".fxt")
        name = self._name(test)
        try:
            return printable(str(session.dump(trace.with_name(f"{stem}-{name}.fxt{compression}"))))
        except OSError as error:
            return f"none: {described(error)}"

    def _name(self, test: str) -> str:
        """Return a name for a file which says which test it is, and is different for each report."""
        name = _NO_NAME.sub("-", test).strip("-")
        if len(name) > _MAX_NAME or not test.isascii():
            name = f"{name[-_MAX_NAME:]}-{zlib.crc32(test.encode(errors='backslashreplace')):08x}"
        self._names.append(name)
        count = self._names.count(name)
        return name if count == 1 else f"{name}-{count}"


class SlowMoments:
    """The plug-in that has dumps for slow spans say in which test these are."""

    @around
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[Any, Any, Any]:
        """Note which test runs; one may run others."""
        recording = session.current()
        if recording is None:
            return (yield)
        triggers = recording.triggers
        before, triggers.within = triggers.within, item.nodeid
        try:
            return (yield)
        finally:
            triggers.within = before
