"""`pytest --fxtio`: test runs in a folder of their own, and what is in their traces."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest

import fxtio
import judges
from fxtio.exchange.opening import open_timeline  # here, since pytester forgets what is imported in a test
from fxtio.timeline import answers
from fxtio.timeline.answers import Hit
from judges import perfetto
from support.checkout import FEW_PLUGINS
from support.limits import PATIENCE

pytestmark = [pytest.mark.recorder, pytest.mark.full]

PHASES = ("setup", "call", "teardown")


@pytest.fixture(autouse=True)
def _own_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)


def run(pytester: pytest.Pytester, text: str, *options: str) -> pytest.RunResult:
    pytester.makepyfile(test_it=text)
    if "-n2" not in options:
        options = ("-p", "no:xdist", *options)
    return pytester.runpytest_subprocess(*FEW_PLUGINS, *options, timeout=PATIENCE)


def hits(path: str = "pytest.fxt") -> list[Hit]:
    """Return all slices, instants and messages in the order of time."""
    with open_timeline(path) as timeline:
        return answers.find(timeline, order="time").rows


def named(rows: list[Hit], name: str) -> list[Hit]:
    return [row for row in rows if row.name == name]


FIXTURES = """
    import time
    import pytest

    @pytest.fixture(scope="session")
    def server():
        time.sleep(0.03)
        yield 1
        time.sleep(0.02)

    @pytest.fixture
    def client(server):
        time.sleep(0.01)
        yield 2
        time.sleep(0.005)

    @pytest.fixture
    def late(request, client):
        yield request.getfixturevalue("slow")

    @pytest.fixture
    def slow():
        time.sleep(0.2)

    def test_one(client):
        time.sleep(0.01)

    def test_two(late):
        pass
    """


def test_operations_of_tests_are_on_other_tracks_than_shared_fixtures(pytester: pytest.Pytester) -> None:
    text = """
        import fxtio
        import pytest

        @pytest.fixture(scope="session")
        def server():
            yield 1

        def test_one(server):
            fxtio.operation("own").end()
    """
    run(pytester, text, "--fxtio").assert_outcomes(passed=1)
    with fxtio.open("pytest.fxt") as trace:
        events = trace.table("events")
    begins = events.take(events["type"].is_in("async_begin"))
    tracks = {name: {*begins.take(begins["name"].is_in(name))["id"].tolist()} for name in ("server", "own")}
    assert len(tracks["server"]) == len(tracks["own"]) == 1
    assert tracks["server"] != tracks["own"]


def test_a_shared_fixture_is_charged_to_no_test(pytester: pytest.Pytester) -> None:
    result = run(pytester, FIXTURES, "--fxtio")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        [
            "2 tests; the time of fixtures that tests share is in none of them",
            "* test_it.py::test_two * slow * ms, client * ms, late *",
            "* test_it.py::test_one * client * ms",
            "*shared fixture  scope",
            "* server *session",
            "pytest.fxt: *events in *, none lost, * see `fxtio top pytest.fxt`, or `open`, `report`",
        ]
    )
    rows = hits()
    own = named(rows, "server")
    assert [row.arguments for row in own] == [{"phase": phase, "scope": "session"} for phase in ("setup", "teardown")]
    assert len({row.track for row in own}) == 1 and all(not row.ancestors for row in own)
    waits = named(rows, "server (session)")
    assert [row.ancestors for row in waits] == [["test_it.py::test_one", "setup"], ["test_it.py::test_two", "teardown"]]
    assert own[0].track != waits[0].track
    clients = named(rows, "client")
    assert [row.ancestors[-1] for row in clients] == ["setup", "teardown"] * 2
    assert named(rows, "slow")[0].ancestors[-2:] == ["setup", "late"]
    assert named(rows, "request") == []


def test_perfetto_shows_each_shared_fixture_on_one_track(pytester: pytest.Pytester) -> None:
    judges.require(perfetto.available())
    run(pytester, FIXTURES, "--fxtio")
    with perfetto.load(Path("pytest.fxt")) as p:
        assert p.errors() == {}
        own = [each for each in p.slices() if each.name == "server"]
    assert len(own) == 2 and all(each.depth == 0 for each in own)


def test_phases_last_as_long_as_pytest_says(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import json

        def pytest_runtest_logreport(report):
            with open("durations.txt", "a") as file:
                file.write(json.dumps([report.nodeid, report.when, report.duration]) + "\\n")
        """
    )
    result = run(pytester, FIXTURES, "--fxtio", "--durations=0", "--durations-min=0", "-vv")
    rows = hits()
    spans = {(row.ancestors[-1], row.name): (row.duration or 0) / 1e9 for row in rows if row.name in PHASES}
    said = [json.loads(line) for line in Path("durations.txt").read_text().splitlines()]
    assert {(test, phase) for test, phase, _ in said} == set(spans) and len(said) == 6
    differences = [seconds - spans[test, phase] for test, phase, seconds in said]
    assert min(differences) > -1e-3  # a span is within what pytest measures
    assert median(differences) < 1e-3
    printed = re.findall(r"^(\d+\.\d\d)s (\w+) +(\S+)$", result.stdout.str(), re.MULTILINE)
    assert len(printed) == 6
    assert median(abs(spans[test, phase] - float(seconds)) for seconds, phase, test in printed) < 6e-3


def test_a_test_that_stops_the_clock_changes_no_time(pytester: pytest.Pytester) -> None:
    text = """
        import time
        import pytest

        @pytest.fixture
        def frozen(monkeypatch):
            for name in ("monotonic_ns", "perf_counter_ns", "time_ns"):
                monkeypatch.setattr(time, name, lambda: 10**18)
            yield

        def test_one(frozen):
            pass
        """
    run(pytester, text, "--fxtio").stdout.re_match_lines([r".* test_it.py::test_one  .*frozen \d+\.\d+ [um]s"])


def test_subtests_are_a_part_of_their_test(pytester: pytest.Pytester) -> None:
    """Their times are in that of the call already, and one that fails lets the test fail."""
    text = """
        import time
        import unittest
        import pytest

        @pytest.fixture
        def late():
            time.sleep(0.02)

        class TestClass(unittest.TestCase):
            @pytest.fixture(autouse=True)
            def _request(self, request):
                self.request = request

            def test_one(self):
                self.request.getfixturevalue("late")
                for number in range(3):
                    with self.subTest(number=number):
                        time.sleep(0.1)
                        self.assertEqual(number, 0)
        """
    result = run(pytester, text, "--fxtio")
    (told,) = re.findall(r"^ *(\d+) ms .*::test_one +late [\d.]+ m?s", result.stdout.str(), re.MULTILINE)
    (test,) = named(hits(), "test_it.py::TestClass::test_one")
    assert 300 < int(told) <= (test.duration or 0) / 1e6 + 1
    assert test.arguments["outcome"] == "failed" or int(pytest.__version__.split(".")[0]) < 9


ALL_SORTS = """
    import logging
    import pytest

    class Thing:
        def __repr__(self):
            raise AssertionError

    @pytest.mark.parametrize("thing", [Thing()])
    @pytest.mark.parametrize("number", [1, 2])
    @pytest.mark.parametrize("text", ["ä€\\n\\x1b[31m", "x" * 100_000, "\\ud800"], ids=["odd", "long", "half"])
    def test_many(thing, number, text):
        logging.getLogger("app").warning("number %d", number)
        assert number == 1

    @pytest.mark.parametrize("n", ["x" * 70_000])
    def test_long(n):
        pass

    def test_skipped():
        pytest.skip("not today")

    @pytest.fixture
    def broken():
        yield
        raise RuntimeError

    def test_error(broken):
        pass

    def test_skipped_and_error(broken):
        pytest.skip("not today")

    @pytest.mark.xfail
    def test_expected():
        raise RuntimeError

    @pytest.mark.xfail
    def test_unexpected():
        pass

    @pytest.mark.xfail(strict=True)
    def test_strict():
        pass
    """


def test_tests_have_parameters_and_outcomes_and_logs(pytester: pytest.Pytester) -> None:
    run(pytester, ALL_SORTS, "--fxtio=out.fxt.zst", "-W", "error").assert_outcomes(
        passed=5, failed=4, skipped=2, errors=2, xfailed=1, xpassed=1
    )
    rows = hits("out.fxt.zst")
    tests = {row.name: row.arguments for row in rows if row.category == "pytest" and not row.ancestors}
    assert tests["test_it.py::test_many[odd-2-thing0]"] == {
        "number": 2, "text": "ä€\n\x1b[31m", "thing": "<Thing>", "outcome": "failed",
    }  # fmt: skip
    assert tests["test_it.py::test_many[odd-1-thing0]"]["outcome"] == "passed"
    assert tests["test_it.py::test_skipped"] == {"outcome": "skipped"}
    outcomes = {"error": "failed", "skipped_and_error": "failed", "strict": "failed", "expected": "xfailed",
                "unexpected": "xpassed"}  # fmt: skip
    assert all(tests[f"test_it.py::test_{name}"] == {"outcome": outcome} for name, outcome in outcomes.items())
    assert len(tests) == 13
    logged = [row for row in rows if row.kind == "log"]
    assert [row.name for row in logged] == ["WARNING:app:number 1", "WARNING:app:number 2"] * 3
    messages = [row for row in rows if row.category == "logging"]
    assert {row.ancestors[-1] for row in messages} == {"call"}
    collected = [row for row in rows if row.category == "pytest.collection"]
    assert [row.name for row in collected][:2] == ["conftest", "collection"] and named(collected, "test_it.py")


def test_functions_are_recorded_on_request(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(app="def work():\n    return helper()\n\ndef helper():\n    return 1\n")
    text = "import app, pprint\n\ndef test_one():\n    pprint.pformat({})\n    assert app.work() == 1\n"
    result = run(pytester, text, "--fxtio-functions=app", "--fxtio-functions=nosuch")
    result.stdout.fnmatch_lines(["nothing in the program matches --include nosuch"])
    rows = hits()
    assert named(rows, "app.helper")[0].ancestors == ["test_it.py::test_one", "call", "app.work"]
    assert not any("pprint" in (row.name or "") for row in rows)


LIMITS = """
    import time
    import fxtio
    import pytest

    @pytest.mark.fxtio(limit="5ms")
    class TestClass:
        def test_slow(self):
            time.sleep(0.01)

        @pytest.mark.fxtio(limit="60s", span="db.*")
        def test_both(self):
            with fxtio.span("db.query"):
                pass
            time.sleep(0.01)

    @pytest.mark.fxtio(limit="5ms", span="db.*")
    def test_span():
        with fxtio.span("http"):
            with fxtio.span("db.query"):
                time.sleep(0.01)

    @pytest.mark.fxtio(limit="10s", span="db.*")
    def test_kept():
        with fxtio.span("db.query"):
            pass

    @pytest.fixture
    def begun():
        with fxtio.span("db.query"):
            time.sleep(0.01)
            yield

    @pytest.mark.fxtio(limit="5ms", span="db.*")
    @pytest.mark.fxtio(limit="60s", span="db.c*")
    @pytest.mark.fxtio(limit="60s", span="http")
    def test_begun_before(begun):
        with fxtio.span("http"):
            with fxtio.span("db.connect"):
                pass

    @pytest.mark.fxtio(limit="1s", span="db.*")
    def test_no_such_span(begun):
        pass

    @pytest.mark.xfail(strict=True)
    @pytest.mark.fxtio(limit="1ns")
    def test_expected():
        pass

    @pytest.mark.fxtio(limit="5")
    def test_no_unit():
        pass

    @pytest.mark.fxtio(limit=5)
    def test_number():
        pass

    @pytest.fixture
    def limited(request):
        request.node.add_marker(pytest.mark.fxtio(limit="5ms"))

    def test_marked_late(limited):
        time.sleep(0.01)

    @pytest.mark.fxtio(limits="5ms")
    def test_no_such_argument():
        pass

    @pytest.mark.fxtio(span="db.*")
    def test_no_limit():
        pass
    """


def test_a_test_fails_beyond_its_limit(pytester: pytest.Pytester) -> None:
    result = run(pytester, LIMITS, "--fxtio", "--strict-markers")
    result.assert_outcomes(failed=9, passed=2, xfailed=1)
    result.stdout.fnmatch_lines(
        [
            "the test took * ms, more than 5.00 ms",
            "the test took * ms, more than 5.00 ms",
            "db.query took * ms, more than 5.00 ms",
            "no span has the name 'db.[*]', so its limit means nothing",
            "@pytest.mark.fxtio: '5' is not a time such as 10us: its unit is missing, *",
            "@pytest.mark.fxtio: the limit 5 is no time with its unit, as in limit='50ms'",
            "the test took * ms, more than 5.00 ms",
            "@pytest.mark.fxtio: there is no argument limits; there are limit and span",
            "@pytest.mark.fxtio: the limit is missing, as in limit='50ms'",
        ]
    )


def test_a_recording_of_a_conftest_has_the_tests(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("import fxtio\n\nfxtio.start('own.fxt')\n")
    result = run(pytester, "def test_one(): pass")
    result.assert_outcomes(passed=1)
    assert "fxtio ===" not in result.stdout.str()
    assert named(hits("own.fxt"), "call")[0].ancestors == ["test_it.py::test_one"]


def test_a_test_may_end_the_recording(pytester: pytest.Pytester) -> None:
    text = """
        import fxtio

        def test_one():
            fxtio.stop()
            fxtio.start("own.fxt")

        def test_two():
            fxtio.stop()
        """
    run(pytester, text, "--fxtio").assert_outcomes(passed=2)
    with fxtio.open("own.fxt") as trace:
        names = [record.name for record in trace.records() if hasattr(record, "name")]
    assert "test_it.py::test_two" in names
    assert "test_it.py::test_one" not in names  # neither its begin nor its end


def test_nothing_happens_without_the_option(pytester: pytest.Pytester) -> None:
    text = """
        import sys
        import pytest

        @pytest.mark.fxtio(limit="1ns")
        def test_nothing():
            assert not {"fxtio.tracer", "fxtio.bridges.pytest.run", "fxtio.report"} & {*sys.modules}

        def test_no_hook(pytestconfig):
            plugins = pytestconfig.pluginmanager
            plugin = plugins.get_plugin("fxtio")
            hooks = {hook.name for hook in plugins.get_hookcallers(plugin)}
            assert not [name for name in hooks if name.startswith(("pytest_runtest", "pytest_fixture"))]
        """
    result = run(pytester, text, "--strict-markers", "-p", "no:hypothesispytest")
    result.assert_outcomes(passed=2)
    assert not list(pytester.path.glob("*.fxt")) and "fxtio ===" not in result.stdout.str()


def test_failed_tests_have_traces_of_their_last_moments(pytester: pytest.Pytester) -> None:
    text = """
        import fxtio
        import pytest

        @pytest.mark.parametrize("name", ["a/b", "x" * 100])
        def test_bad(name):
            with fxtio.span("last"):
                assert not name

        def test_good():
            pass
        """
    result = run(pytester, text, "--fxtio-on-failure")
    result.assert_outcomes(failed=2, passed=1)
    dumps = sorted(pytester.path.glob("pytest-*.fxt"))
    assert dumps[0].name == "pytest-test_it.py-test_bad-a-b.fxt"
    assert re.fullmatch("pytest-x{80}-[0-9a-f]{8}.fxt", dumps[1].name) and len(dumps) == 2
    result.stdout.fnmatch_lines(["*- fxtio: last moments -*", f"*{dumps[0].name}"])
    for dump in dumps:
        assert "last" in {row.name for row in hits(str(dump))}
    assert Path("pytest.fxt").exists()


WORKERS = """
    import os
    import pytest

    @pytest.fixture(scope="module")
    def shared():
        yield

    @pytest.mark.parametrize("number", range(8))
    def test_one(shared, number):
        if os.environ.get("CRASH") and number == 3:
            os.kill(os.getpid(), 9)
    """


def test_workers_of_xdist_are_processes_of_one_trace(pytester: pytest.Pytester) -> None:
    result = run(pytester, WORKERS, "--fxtio", "-n2")
    result.assert_outcomes(passed=8)
    result.stdout.fnmatch_lines(["8 tests; *", "*shared fixture  scope", "* shared *module"])
    with fxtio.open("pytest.fxt") as trace:
        assert sorted(trace.info.processes.values()) == ["gw0", "gw1", "pytest"]
    assert sum(row.category == "pytest" and not row.ancestors for row in hits()) == 8
    assert not list(pytester.path.glob("*.part"))


def test_a_worker_that_crashes_leaves_what_it_has_recorded(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRASH", "1")
    run(pytester, WORKERS, "--fxtio", "-n2").assert_outcomes(passed=7, failed=1)
    with fxtio.open("pytest.fxt") as trace:
        assert {"gw0", "gw1", "gw2", "pytest"} == {*trace.info.processes.values()}
    assert named(hits(), "test_it.py::test_one[3]")


@pytest.mark.parametrize("end", ["raise KeyboardInterrupt", "os.kill(os.getpid(), 9)", "os._exit(3)"])
def test_a_run_that_is_interrupted_leaves_a_trace(end: str, pytester: pytest.Pytester) -> None:
    run(pytester, f"import os\n\ndef test_one():\n    {end}\n", "--fxtio")
    with fxtio.open("pytest.fxt", strict=True) as trace:
        assert trace.info.records
    (test,) = named(hits(), "test_it.py::test_one")
    assert "outcome" not in test.arguments


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--fxtio", "tests"], "*argument --fxtio: 'tests' is no name of a trace: *--fxtio=out.fxt*"),
        (["--fxtio=nosuch/out.fxt"], "ERROR: --fxtio: *nosuch*"),
    ],
)
def test_what_cannot_be_recorded_is_a_usage_error(options: list[str], message: str, pytester: pytest.Pytester) -> None:
    result = run(pytester, "def test_one(): pass", *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


def test_a_recorded_run_goes_on_with_its_recording(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=FIXTURES)
    command = [sys.executable, "-P", "-m", "fxtio", "run", "--spans-only", "-o", "out.fxt", "-m", "pytest", "-p",
               "no:cacheprovider", "--fxtio"]  # fmt: skip
    done = subprocess.run(
        command, env=os.environ, capture_output=True, text=True, check=True, timeout=PATIENCE, cwd=pytester.path
    )
    assert "this was recorded to " in done.stdout and "out.fxt, by another recording" in done.stdout
    assert len(named(hits("out.fxt"), "server")) == 2 and not Path("pytest.fxt").exists()


def test_dumps_for_slow_spans_say_which_test_runs(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        import time
        import pytest

        def test_fast():
            pass

        @pytest.mark.parametrize("number", [7])
        def test_slow(number):
            time.sleep(0.3)
        """
    )
    command = ["run", "--ring", "8MiB", "--dump-on", "slow:200ms", "--category", "pytest", "--category", "fxtio"]
    command += ["-o", "run.fxt", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "test_it.py"]
    done = pytester.run(sys.executable, "-m", "fxtio", *command, timeout=PATIENCE)
    assert done.ret == 0
    reasons = [hit.arguments["reason"] for hit in named(hits("run.fxt"), "dump")]
    assert reasons == ["slow call in test_it.py::test_slow[7]"]
