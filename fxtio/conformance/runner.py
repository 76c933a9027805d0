"""A run of the kit: all cases are given to harnesses, several at once, and their answers are judged."""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from fxtio.conformance.files import copy
from fxtio.conformance.harness import ExecHarness, Harness, HarnessError, Limits, Request, ServeHarness
from fxtio.conformance.judge import Judges, KnownFailures, Result, Verdict, judge
from fxtio.conformance.kit import READ, Case, Kit

MODES = ("exec", "serve")


@dataclass(frozen=True)
class Run:
    """The results of a run.

    Attributes:
        kit: the version of the kit.
        name: the name of the testee; in exec mode, the command.
        version: the version of the testee, or empty.
        mode: `exec` or `serve`.
        results: one for each case, in the order of the kit.
    """

    kit: str
    name: str
    version: str
    mode: str
    results: tuple[Result, ...]

    @property
    def counts(self) -> Counter[Verdict]:
        """The number of cases with each verdict."""
        return Counter(result.verdict for result in self.results)

    @property
    def failures(self) -> list[Result]:
        """The results that make the run fail."""
        return [result for result in self.results if result.verdict.is_failure]

    @property
    def successful(self) -> bool:
        """Whether there is no failure, and at least one case that the testee does as expected."""
        return not self.failures and any(result.verdict.is_success for result in self.results)


class Runner:
    """Gives cases to harnesses; each job has a harness of its own.

    Args:
        kit: the kit.
        command: the program of the harness, and its first arguments.
        mode: `exec` or `serve`.
        judges: the judges of written traces.
        limits: the limits for each case.
        known: the known failures.
        name: the name of the testee; by default what the harness says, or the command.
    """

    def __init__(
        self,
        kit: Kit,
        command: Sequence[str],
        judges: Judges,
        *,
        mode: str = "exec",
        limits: Limits | None = None,
        known: KnownFailures | None = None,
        name: str = "",
    ) -> None:
        self.kit = kit
        self.command = list(command)
        self.judges = judges
        self.mode = mode
        self.limits = limits or Limits()
        self.known = known or KnownFailures()
        self.name = name
        self.known.check(case.id for case in kit.cases)
        self._own = threading.local()
        self._harnesses: list[Harness] = []
        self._lock = threading.Lock()
        self._stopped = False

    def run(
        self,
        cases: Sequence[Case],
        *,
        jobs: int = 1,
        progress: Callable[[int, int | None], None] = lambda done, total: None,
    ) -> Run:
        """Run cases; `progress` is called with the number of cases that are done, and of all.

        Raises:
            HarnessError: a harness cannot be started.
            KitError: a case cannot be read.
        """
        pool = ThreadPoolExecutor(max(1, min(jobs, len(cases))), thread_name_prefix="conformance")
        results = []
        try:
            for done, result in enumerate(pool.map(self._result, cases), 1):
                results.append(result)
                progress(done, len(cases))
            for harness in self._harnesses:
                harness.close()
        finally:
            self._stop()
            pool.shutdown(cancel_futures=True)
        first = self._harnesses[0]
        return Run(self.kit.version, self.name or first.name, first.version, self.mode, tuple(results))

    def _stop(self) -> None:
        """Kill all harnesses, and let no new one start."""
        with self._lock:
            self._stopped = True
            harnesses = list(self._harnesses)
        for harness in harnesses:
            harness.kill()

    def _harness(self) -> Harness:
        """Return the harness of this thread."""
        harness: Harness | None = getattr(self._own, "harness", None)
        if harness is None:
            if self.mode == "serve":
                harness = ServeHarness(self.command, self.limits, self.kit.version)
            else:
                harness = ExecHarness(self.command, self.limits)
            self._own.harness = harness
            with self._lock:
                if self._stopped:
                    raise HarnessError("the run was stopped")
                self._harnesses.append(harness)
        return harness

    def _result(self, case: Case) -> Result:
        """Run one case in a directory of its own."""
        folder = Path(tempfile.mkdtemp(prefix="fxtio-case-")).resolve()
        try:
            request = _prepare(case, folder, self.kit.suffixes[case.format])
            answer = self._harness().run(request)
            return self.known.apply(judge(case, answer, request.target, self.judges, self.limits))
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _prepare(case: Case, folder: Path, suffix: str) -> Request:
    """Copy the input of a case into a directory, so that no harness can change the kit."""
    if case.operation == READ:
        source, target = folder / f"in{suffix}", folder / "out.json"
        copy(case.path, source)
    else:
        source, target = folder / "scenario.json", folder / f"out{suffix}"
        scenario = {"id": case.id, "format": case.format, "title": case.title, "write": case.write}
        source.write_text(json.dumps(scenario, ensure_ascii=False, indent=1), "utf-8")
    return Request(case.operation, case.id, case.format, source, target, case.tags)
