"""The conformance runner: harnesses that are right, and harnesses that are wrong on purpose, one for each fault.

Each wrong harness must get exactly the verdict of its fault, in both modes where the fault can occur in both.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import subprocess
import sys
import threading
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from fxtio.conformance import canonical
from fxtio.conformance.harness import HarnessError, Limits
from fxtio.conformance.judge import KnownFailures, MissingJudgeError, standard_judges
from fxtio.conformance.kit import Kit, KitError, read_kit
from fxtio.conformance.runner import Run, Runner
from fxtio.errors import FxtioError
from support.checkout import CHECKOUT
from support.limits import PATIENCE
from support.small_kit import RECORDS, RIGHT, TRACE, add_case, make_harness, make_kit, right_harness

TESTEE = [sys.executable, "-m", "fxtio.conformance.testee"]
WHOLE_KIT = CHECKOUT / "conformance"
IDS = ["fxt/invalid/cut", "fxt/valid/magic", "fxt/valid/two", "fxt/events"]

# What a harness in serve mode does besides what is wrong with it.
SERVE = """
    STATUS = {0: "ok", 1: "refused", 77: "unsupported"}
    def serve(on_request):
        for line in sys.stdin:
            request = json.loads(line)
            if request["op"] == "hello":
                answer(json.dumps(HELLO))
            else:
                on_request(request)

    def right(request):
        status = perform(request["op"], Path(request["in"]), Path(request["out"]))
        answer(json.dumps({"id": request["id"], "status": status}))
"""


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    return make_kit(tmp_path / "kit")


@cache
def whole_kit() -> Kit:
    """Return the kit of the checkout."""
    return read_kit(WHOLE_KIT)


def run(kit: Path, command: list[str], *, mode: str = "exec", **options: Any) -> Run:
    limits = options.pop("limits", Limits(seconds=PATIENCE))
    patterns = options.pop("patterns", ())
    jobs = options.pop("jobs", 1)
    content = whole_kit() if kit == WHOLE_KIT else read_kit(kit)
    runner = Runner(content, command, standard_judges(), mode=mode, limits=limits, **options)
    return runner.run(content.select((), patterns), jobs=jobs)


def verdicts(run: Run) -> dict[str, str]:
    return {result.case: str(result.verdict) for result in run.results}


def details(run: Run, case: str) -> str:
    return "\n".join(next(result.details for result in run.results if result.case == case))


# ------------------------------------------------------------------------------------------------------ right harnesses


@pytest.mark.full
@pytest.mark.parametrize("mode", ["exec", "serve"])
def test_the_testee_of_fxtio_passes(kit: Path, mode: str) -> None:
    result = run(kit, TESTEE, mode=mode, jobs=2)
    assert verdicts(result) == dict.fromkeys(IDS, "pass")
    assert result.successful
    assert result.results[-1].circles == {"valid": True, "same meaning": True, "same bytes": True}
    assert [item.case for item in result.results] == IDS
    if mode == "serve":
        assert result.name == "fxtio"


def test_refusing_and_not_supporting(kit: Path, tmp_path: Path) -> None:
    source = """
        print("I do not know how")
        sys.exit({"fxt/invalid/cut": 1, "fxt/valid/two": 1}.get(case, 77))
    """
    result = run(kit, make_harness(tmp_path / "h.py", source))
    assert verdicts(result) == {
        "fxt/invalid/cut": "refused as expected",
        "fxt/valid/magic": "unsupported",
        "fxt/valid/two": "fail",
        "fxt/events": "unsupported",
    }
    assert "the testee refused the case, but the trace is valid" in details(result, "fxt/valid/two")
    assert details(result, "fxt/valid/magic") == "I do not know how"
    assert not result.successful


def test_an_invalid_case_that_must_be_read_is_not_refused(kit: Path, tmp_path: Path) -> None:
    name = "fxt/invalid/advice"
    add_case(kit, name, TRACE, RECORDS, rules=["fxt.framing.truncated"], may_refuse=False)
    result = run(kit, make_harness(tmp_path / "h.py", "sys.exit(1)"), patterns=[name])
    assert verdicts(result) == {name: "fail"}
    assert "a reader can read everything in spite of the broken rule" in details(result, name)


def test_a_run_that_supports_nothing_is_no_success(kit: Path, tmp_path: Path) -> None:
    result = run(kit, make_harness(tmp_path / "h.py", "sys.exit(77)"))
    assert result.failures == []
    assert not result.successful


def test_skips_of_the_handshake(kit: Path, tmp_path: Path) -> None:
    source = (
        RIGHT
        + SERVE
        + """
    HELLO |= {"formats": {"fxt": ["read"]}, "skip": {"fxt/invalid/*": "too hard"}, "skip_tags": {"record.magic": "no"}}
    serve(right)
    """
    )
    result = run(kit, make_harness(tmp_path / "h.py", source), mode="serve")
    assert verdicts(result) == {
        "fxt/invalid/cut": "unsupported",
        "fxt/valid/magic": "unsupported",
        "fxt/valid/two": "pass",
        "fxt/events": "unsupported",
    }
    assert [details(result, case) for case in IDS[:2]] == ["too hard", "no"]
    assert "does not have 'write'" in details(result, "fxt/events")
    assert (result.name, result.version) == ("small", "3")


# ---------------------------------------------------------------------------------- harnesses that are wrong on purpose

WRONG_RESULTS = {
    "a record is dropped": ('{"records": [{"type": "magic"}]}', "fail", "record 1 is missing"),
    "a record is twice": ('{"records": [{"type": "magic"}, {"type": "magic"}]}', "fail", "record 1 (provider-info)"),
    "nothing is read": ('{"records": []}', "fail", "record 0 is missing"),
    "not JSON": ("rubbish \x01\x02", "protocol error", "the result is not JSON"),
    "half of JSON": ('{"records": [', "protocol error", "the result is not JSON"),
    "deep JSON": ("[" * 100_000, "protocol error", "the result is not JSON"),
    "a long number": ('{"records": ' + "9" * 10_000 + "}", "protocol error", "the result is not JSON"),
    "another JSON": ("[1, 2]", "protocol error", "the result is not a JSON object"),
    "no records": ('{"record": []}', "protocol error", "neither a list 'records'"),
    "records are no list": ('{"records": 7}', "protocol error", "neither a list 'records'"),
    "records are numbers": ('{"records": [1, null, "x"]}', "fail", "record 0 (magic): it is 1"),
    "an unknown form": ('{"records": [], "form": "cooked"}', "protocol error", "neither 'raw' nor 'resolved'"),
    "a list as form": ('{"records": [], "form": []}', "protocol error", "neither 'raw' nor 'resolved'"),
    "numbers as findings": ('{"records": [], "findings": [1]}', "protocol error", "not a list of ids"),
    "a timeline of numbers": ('{"timeline": 3}', "fail", "the timeline is not an object"),
    "an empty timeline": ('{"timeline": {}}', "protocol error", "the timeline has no members"),
    "a timeline with nonsense": ('{"timeline": {"slices": 3, "x": []}}', "fail", "unknown member 'x'"),
}


@pytest.mark.parametrize("fault", WRONG_RESULTS)
def test_wrong_results(kit: Path, tmp_path: Path, fault: str) -> None:
    text, verdict, message = WRONG_RESULTS[fault]
    (tmp_path / "result").write_text(text)
    source = f"target.write_bytes(Path({str(tmp_path / 'result')!r}).read_bytes())"
    result = run(kit, make_harness(tmp_path / "h.py", source), patterns=["fxt/valid/two"])
    assert verdicts(result) == {"fxt/valid/two": verdict}
    assert message in details(result, "fxt/valid/two")
    assert not result.successful


def test_a_wrong_number(kit: Path, tmp_path: Path) -> None:
    source = """
        from fxtio.conformance import canonical
        result = canonical.read(source, "fxt")
        result["records"][2]["event_id"] = "1"
        target.write_text(json.dumps(result))
    """
    result = run(kit, make_harness(tmp_path / "h.py", source), patterns=["fxt/valid/two"])
    assert verdicts(result) == {"fxt/valid/two": "fail"}
    assert details(result, "fxt/valid/two") == 'record 2 (provider-event): event_id is "1", expected "0"'


@pytest.mark.full
def test_findings_are_compared(kit: Path, tmp_path: Path) -> None:
    source = """
        from fxtio.conformance import canonical
        rules = {"fxt/invalid/cut": ["fxt.framing.truncated"], "fxt/valid/two": ["fxt.x"]}.get(case, [])
        target.write_text(json.dumps(canonical.read(source, "fxt") | {"findings": rules}))
    """
    command = make_harness(tmp_path / "h.py", source)
    result = run(kit, command, patterns=["fxt/valid/*", "fxt/invalid/*"])
    assert verdicts(result) == {"fxt/invalid/cut": "pass", "fxt/valid/magic": "pass", "fxt/valid/two": "fail"}
    assert details(result, "fxt/valid/two") == "it reports the rule fxt.x, which is not broken"


def test_a_finding_that_is_missing(kit: Path, tmp_path: Path) -> None:
    source = """
        from fxtio.conformance import canonical
        target.write_text(json.dumps(canonical.read(source, "fxt") | {"findings": []}))
    """
    result = run(kit, make_harness(tmp_path / "h.py", source), patterns=["fxt/invalid/*"])
    assert details(result, "fxt/invalid/cut") == "it does not report the rule fxt.framing.truncated"
    assert not result.successful


WRONG_PROCESSES = {
    "no result": ("sys.exit(0)", "protocol error", "the harness did not write its result"),
    "a link": ("target.symlink_to('/etc/passwd')", "protocol error", "is neither a file nor a directory"),
    "a pipe": ("os.mkfifo(target)", "protocol error", "is neither a file nor a directory"),
    "a directory": ("target.mkdir()", "protocol error", "the result cannot be read"),
    "an exception": ("raise SystemExit(3)", "crash", "it ended with exit status 3"),
    "a signal": ("os.kill(os.getpid(), signal.SIGSEGV)", "crash", "it was ended by the signal SIGSEGV"),
    "a hang": ("time.sleep(1000)", "timeout", "no result after 5 seconds"),
    "a busy loop": ("while True: pass", "timeout", "no result after 0.5 seconds"),
    "much output": ("[print('x' * 10000) for _ in range(500)]; time.sleep(1000)", "timeout", "the harness printed"),
    "large results": (
        "target.mkdir(); [Path(target, str(n)).write_bytes(bytes(1 << 20)) for n in range(3)]",
        "protocol error",
        "the result has 3,145,728 bytes, 2,097,152 at most",
    ),
    "a large result": (
        """
        import resource
        while resource.getrlimit(resource.RLIMIT_FSIZE)[0] < 0:  # it is set when this runs already
            time.sleep(0.01)
        target.write_bytes(bytes(3 << 20))
        """,
        "fail",
        "File too large",
    ),
}


@pytest.mark.full
@pytest.mark.parametrize("fault", WRONG_PROCESSES)
def test_wrong_processes(kit: Path, tmp_path: Path, fault: str) -> None:
    source, verdict, message = WRONG_PROCESSES[fault]
    command = make_harness(tmp_path / "h.py", source)
    seconds = 0.5 if fault == "a busy loop" else 5 if verdict == "timeout" else PATIENCE
    limits = Limits(seconds=seconds, output=2 << 20)
    result = run(kit, command, patterns=["fxt/valid/two"], limits=limits)
    assert verdicts(result) == {"fxt/valid/two": verdict}
    assert message in details(result, "fxt/valid/two")


def test_children_of_a_harness_end_with_it(kit: Path, tmp_path: Path) -> None:
    child = "import sys, time; time.sleep(1000)"
    source = f"""
        import subprocess
        child = subprocess.Popen([sys.executable, "-c", {child!r}])
        Path({str(tmp_path)!r}, "child").write_text(str(child.pid))
        target.write_text('{{"records": [{{"type": "magic"}}]}}')
        os._exit(0)
    """
    result = run(kit, make_harness(tmp_path / "h.py", source), patterns=["fxt/valid/magic"])
    assert verdicts(result) == {"fxt/valid/magic": "pass"}
    pid = int((tmp_path / "child").read_text())
    deadline = time.monotonic() + PATIENCE
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_running(pid)


def is_running(pid: int) -> bool:
    """Return whether a process runs; one that has ended, but was not waited for, does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


WRONG_ANSWERS = {
    "not JSON": ("answer('ok')", "protocol error", "a line is not JSON"),
    "no object": ("answer('[]')", "protocol error", "a line is not a JSON object"),
    "another id": ("answer(json.dumps({'id': 99, 'status': 'ok'}))", "protocol error", "the id is 99"),
    "id as text": ("answer(json.dumps({'id': str(request['id']), 'status': 'ok'}))", "protocol error", "the id is"),
    "no status": ("answer(json.dumps({'id': request['id']}))", "protocol error", "the member 'status' is None"),
    "a wrong status": (
        "answer(json.dumps({'id': request['id'], 'status': 'fine'}))",
        "protocol error",
        "the status is 'fine'",
    ),
    "crash as status": (
        "answer(json.dumps({'id': request['id'], 'status': 'crash'}))",
        "protocol error",
        "the status is 'crash'",
    ),
    "a long line": ("answer('x' * 100_000)", "protocol error", "a line is longer than 65,536 bytes"),
    "an endless line": (
        "while True: sys.stdout.write('x' * 10_000)",
        "protocol error",
        "a line is longer than 65,536 bytes",
    ),
    "no result": (
        "answer(json.dumps({'id': request['id'], 'status': 'ok'}))",
        "protocol error",
        "the harness did not write its result",
    ),
    "an exit": ("sys.stderr.write('I give up\\n'); os._exit(5)", "crash", "it ended with exit status 5"),
    "a signal": ("os.kill(os.getpid(), signal.SIGKILL)", "crash", "it was ended by the signal SIGKILL"),
    "a hang": ("time.sleep(1000)", "timeout", "no answer after 10 seconds"),
}


@pytest.mark.parametrize("fault", WRONG_ANSWERS)
def test_wrong_answers(kit: Path, tmp_path: Path, fault: str) -> None:
    source, verdict, message = WRONG_ANSWERS[fault]
    body = f"""
    def wrong(request):
        if request["case"] != "fxt/valid/magic":
            return right(request)
        {source}
    serve(wrong)
    """
    command = make_harness(tmp_path / "h.py", RIGHT + SERVE + body)
    result = run(kit, command, mode="serve", limits=Limits(seconds=10 if fault == "a hang" else PATIENCE))
    assert verdicts(result) == {**dict.fromkeys(IDS, "pass"), "fxt/valid/magic": verdict}
    assert message in details(result, "fxt/valid/magic")
    if fault == "an exit":
        assert "I give up" in details(result, "fxt/valid/magic")


def test_answers_out_of_turn(kit: Path, tmp_path: Path) -> None:
    body = """
    def wrong(request):
        right(request)
        if request["case"] == "fxt/invalid/cut":
            answer(json.dumps({"id": request["id"] + 1, "status": "unsupported"}))
    serve(wrong)
    """
    result = run(kit, make_harness(tmp_path / "h.py", RIGHT + SERVE + body), mode="serve")
    # The second answer is there before the next request, or is taken for its answer. Then the right answer comes out
    # of turn, or the harness fails because its output is not wanted any more.
    assert {"protocol error", "crash"} & {*verdicts(result).values()}
    assert not result.successful


def test_lines_without_a_request_are_protocol_errors(kit: Path, tmp_path: Path) -> None:
    body = """
    def wrong(request):
        if request["case"] == "fxt/invalid/cut":
            sys.stdout.write(json.dumps({"id": request["id"], "status": "refused"}) + "\\nby the way\\n")
            sys.stdout.flush()
        else:
            right(request)
    serve(wrong)
    """
    result = run(kit, make_harness(tmp_path / "h.py", RIGHT + SERVE + body), mode="serve")
    expected = {
        **dict.fromkeys(IDS, "pass"),
        "fxt/invalid/cut": "refused as expected",
        "fxt/valid/magic": "protocol error",
    }
    assert verdicts(result) == expected


WRONG_GREETINGS = {
    "no answer": ("time.sleep(1000)", "no answer to the handshake: no answer after 5 seconds"),
    "an end": ("sys.exit(4)", "it ended with exit status 4"),
    "rubbish": ("answer('hello')", "a line is not JSON"),
    "another protocol": ("answer(json.dumps(HELLO | {'protocol': 2}))", "the protocol is 2; this runner speaks 1"),
    "no formats": ("del HELLO['formats']; answer(json.dumps(HELLO))", "the member 'formats' is None"),
    "odd formats": ("answer(json.dumps(HELLO | {'formats': {'fxt': ['eat']}}))", "not an object of lists"),
    "formats as numbers": ("answer(json.dumps(HELLO | {'formats': {'fxt': [[]]}}))", "not an object of lists"),
    "odd skips": ("answer(json.dumps(HELLO | {'skip': ['a']}))", "the member 'skip'"),
    "no name": ("answer(json.dumps(HELLO | {'name': 7}))", "the member 'name' is 7"),
}


@pytest.mark.parametrize("fault", WRONG_GREETINGS)
def test_wrong_handshakes(kit: Path, tmp_path: Path, fault: str) -> None:
    source, message = WRONG_GREETINGS[fault]
    begin = "print('my complaint', file=sys.stderr)\nsys.stdin.readline()\n"
    command = make_harness(tmp_path / "h.py", f"{begin}{source}\ntime.sleep(1000)\n")
    limits = Limits(seconds=5 if fault == "no answer" else PATIENCE)
    with pytest.raises(HarnessError, match="my complaint") as caught:
        run(kit, command, mode="serve", limits=limits)
    assert message in str(caught.value)


def test_a_harness_that_does_not_exist(kit: Path) -> None:
    with pytest.raises(HarnessError, match="cannot be started"):
        run(kit, ["/nonexistent/harness"])


WRONG_WRITERS = {
    "another name": (
        "records[1]['name']['text'] = 'q'",
        {"same meaning", "same bytes"},
        'name.text is "q", expected "p"',
    ),
    "a record too few": ("del records[2]", {"same meaning", "same bytes"}, "is missing"),
    "a further definition": (
        "records.append({'type': 'string', 'provider': '1', 'index': '5', 'value': {'text': 'x'}})",
        {"same bytes"},
        "the bytes differ from byte 32 on: 22 00 05 00 01 00 00 00, expected the end",
    ),
}


@pytest.mark.parametrize("fault", WRONG_WRITERS)
def test_wrong_writers(kit: Path, tmp_path: Path, fault: str) -> None:
    change, outside, message = WRONG_WRITERS[fault]
    source = f"""
        from fxtio.conformance import canonical
        scenario = json.loads(source.read_text())
        records = scenario["write"]
        {change}
        canonical.write(scenario, target)
    """
    result = run(kit, make_harness(tmp_path / "h.py", source), patterns=["fxt/events"])
    assert verdicts(result) == {"fxt/events": "fail"}
    circles = result.results[0].circles
    assert {name for name, inside in circles.items() if not inside} == outside
    assert message in details(result, "fxt/events")


INTERNING = CHECKOUT / "conformance" / "harness" / "fxt_interning_writer.py"


@pytest.mark.full
@pytest.mark.parametrize("name", ["threads-koids", "names-alike", "providers-tables"])
def test_slots_and_inline_references_mean_the_same(tmp_path: Path, name: str) -> None:
    scenario = json.loads((CHECKOUT / f"conformance/scenarios/fxt/{name}.json").read_text())
    canonical.write(scenario, tmp_path / "inline.fxt")
    runpy.run_path(str(INTERNING))["write"](scenario, tmp_path / "slots.fxt")
    assert (tmp_path / "slots.fxt").read_bytes() != (tmp_path / "inline.fxt").read_bytes()
    for command in ([sys.executable, str(INTERNING)], TESTEE):
        result = run(WHOLE_KIT, command, patterns=[f"fxt/{name}"])
        assert result.results[0].circles == {"valid": True, "same meaning": True}
        assert result.successful


WRONG_INTERNING = {
    "two names are mixed up": (
        "names-alike",
        "a, b = map(text_of, strings[-2:]); change(strings[-2], text=b); change(strings[-1], text=a)",
        {"same meaning"},
    ),
    "names that are alike have one slot": (
        "names-alike",
        "[change(at, text=text_of(at).lower()) for at in strings]",
        {"same meaning"},
    ),
    "a definition is missing": ("shared-texts", "remove(strings[:1])", {"valid", "same meaning"}),
    "a definition is after its first use": (
        "threads-koids",
        "records.append(records.pop(threads[-1]))",
        {"valid", "same meaning"},
    ),
    "threads are told apart by their koids only": (
        "threads-koids",
        "[change(at, process=100) for at in threads]",
        {"same meaning"},
    ),
    "providers share a table": (
        "providers-tables",
        "first = {}; remove([at for at in strings if first.setdefault(text_of(at), at) != at])",
        {"valid", "same meaning"},
    ),
    "a slot is not bound again": ("threads-return", "remove(threads[-1:])", {"same meaning"}),
}


@pytest.mark.full
@pytest.mark.parametrize("fault", WRONG_INTERNING)
def test_writers_that_use_tables_wrongly(tmp_path: Path, fault: str) -> None:
    name, change, outside = WRONG_INTERNING[fault]
    source = f"""
        import runpy
        import fxtio
        from fxtio.fxt.records import String, ThreadRecord
        from msgspec.structs import replace
        runpy.run_path({str(INTERNING)!r})["write"](json.loads(source.read_text()), target)
        with fxtio.open(target) as trace:
            records = [entry.record for entry in trace.entries(resolve=False)]
        strings = [at for at, record in enumerate(records) if isinstance(record, String)]
        threads = [at for at, record in enumerate(records) if isinstance(record, ThreadRecord)]
        def change(at, **values):
            records[at] = replace(records[at], **values)
        def remove(places):
            records[:] = [record for at, record in enumerate(records) if at not in places]
        def text_of(at):
            return records[at].text
        {change}
        with fxtio.create(target) as writer:
            for record in records:
                writer.put(record)
    """
    result = run(WHOLE_KIT, make_harness(tmp_path / "h.py", source), patterns=[f"fxt/{name}"])
    assert verdicts(result) == {f"fxt/{name}": "fail"}
    circles = result.results[0].circles
    assert {circle for circle, inside in circles.items() if not inside} == outside


WRONG_DIRECTORIES = {
    "a further line": (
        "(target / 'task.txt').open('a').write('\\n')",
        {"same bytes"},
        "task.txt: the bytes differ from byte 111 on",
    ),
    "a number with a further digit": (
        "info = target / 'info'; info.write_bytes(info.read_bytes().replace(b'tids=1\\n', b'tids=01\\n'))",
        {"same bytes"},
        "info: the bytes differ from byte 1",
    ),
    "a missing file": (
        "(target / '1.dat').unlink()",
        {"same meaning", "same bytes"},
        "there is no file 1.dat",
    ),
}


@pytest.mark.full
@pytest.mark.parametrize("fault", WRONG_DIRECTORIES)
def test_wrong_writers_of_directories(tmp_path: Path, fault: str) -> None:
    change, outside, message = WRONG_DIRECTORIES[fault]
    source = f"""
        from fxtio.conformance import canonical
        canonical.write(json.loads(source.read_text()), target)
        {change}
    """
    real = CHECKOUT / "conformance"
    result = run(real, make_harness(tmp_path / "h.py", source), patterns=["uftrace/exact-calls"])
    assert verdicts(result) == {"uftrace/exact-calls": "fail"}
    circles = result.results[0].circles
    assert {name for name, inside in circles.items() if not inside} == outside
    assert message in details(result, "uftrace/exact-calls")


@pytest.mark.parametrize("content", [b"", b"rubbish!rubbish!", bytes(64)])
def test_writers_of_rubbish(kit: Path, tmp_path: Path, content: bytes) -> None:
    command = make_harness(tmp_path / "h.py", f"target.write_bytes({content!r})")
    result = run(kit, command, patterns=["fxt/events"])
    assert verdicts(result) == {"fxt/events": "fail"}
    assert result.results[0].circles["valid"] is False


def test_a_missing_judge_is_an_error(kit: Path, tmp_path: Path) -> None:
    """A written trace of a format that fxtio cannot judge must not look like a success."""
    (kit / "kit.toml").write_text('version = "9"\n[formats.fxt]\nsuffix = ".fxt"\n[formats.other]\n')
    scenario = json.loads((kit / "scenarios" / "fxt" / "events.json").read_text())
    (kit / "scenarios" / "other").mkdir()
    (kit / "scenarios" / "other" / "x.json").write_text(json.dumps(scenario | {"id": "other/x", "format": "other"}))
    command = make_harness(tmp_path / "h.py", "target.write_bytes(b'trace')")
    with pytest.raises(MissingJudgeError, match="of the format other cannot be judged"):
        run(kit, command, patterns=["other/x"])


# ------------------------------------------------------------------------------------------------------- known failures


def test_known_failures(kit: Path, tmp_path: Path) -> None:
    command = make_harness(tmp_path / "h.py", "sys.exit(3)")
    known = KnownFailures({"fxt/valid/*": "crashes on all", "fxt/invalid/cut": "likewise", "fxt/events": "no writer"})
    result = run(kit, command, known=known)
    assert set(verdicts(result).values()) == {"known failure"}
    assert details(result, "fxt/valid/two").splitlines()[:2] == ["crashes on all", "verdict: crash"]
    assert not result.successful  # nothing passed


def test_an_unexpected_pass_fails(kit: Path, tmp_path: Path) -> None:
    result = run(kit, right_harness(tmp_path / "h.py"), known=KnownFailures({"fxt/valid/two": "it is broken"}))
    assert verdicts(result) == {**dict.fromkeys(IDS, "pass"), "fxt/valid/two": "unexpected pass"}
    assert not result.successful


def test_a_known_failure_that_is_no_case(kit: Path) -> None:
    with pytest.raises(FxtioError, match="'fxt/valid/tow', which matches no case"):
        run(kit, TESTEE, known=KnownFailures({"fxt/valid/tow": "a typing error"}))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("known = 3", "one table"),
        ("[known]\n[other]", "one table"),
        ("[known]\na = 1", "must be a text"),
        ("[known]\na = ' '", "must be a text"),
        ("[known", "is not a TOML file"),
    ],
)
def test_wrong_lists_of_known_failures(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "known.toml"
    path.write_text(text)
    with pytest.raises(FxtioError, match=message):
        KnownFailures.read(path)


# ------------------------------------------------------------------------------------------------------------- the kit


def test_selecting_cases(kit: Path) -> None:
    content = read_kit(kit)
    assert (content.version, content.formats) == ("9", ("fxt",))
    assert [case.id for case in content.select(["fxt"], ["*/two", "fxt/events"])] == ["fxt/valid/two", "fxt/events"]
    assert [case.id for case in content.select((), (), "write")] == ["fxt/events"]
    assert [case.id for case in content.select((), ["*/magic", "*/two"], "read")] == [
        "fxt/valid/magic",
        "fxt/valid/two",
    ]
    with pytest.raises(KitError, match="no case matches 'fxt/valid/"):
        content.select((), ["fxt/valid/*"], "write")
    with pytest.raises(KitError, match="no cases of the format 'mono'"):
        content.select(["mono"])
    with pytest.raises(KitError, match="no case matches 'x'"):
        content.select((), ["x", "fxt/*"])


def test_wrong_kits(kit: Path, tmp_path: Path) -> None:
    with pytest.raises(KitError, match="is not a conformance kit"):
        read_kit(tmp_path / "nothing")
    add_case(kit, "fxt/valid/extra", b"", [])
    (kit / "cases" / "fxt" / "valid" / "extra.fxt").unlink()
    with pytest.raises(KitError, match="one trace beside it, but there are 0"):
        read_kit(kit)
    (kit / "cases" / "fxt" / "valid" / "extra.json").write_text('{"id": "other"}')
    with pytest.raises(KitError, match="with the id 'fxt/valid/extra'"):
        read_kit(kit)


@pytest.mark.parametrize("name", ["../events.json", "/etc/passwd", "missing"])
def test_files_outside_of_the_directory_of_a_scenario(kit: Path, name: str) -> None:
    path = kit / "scenarios" / "fxt" / "events.json"
    scenario = json.loads(path.read_text()) | {"files": [name]}
    path.write_text(json.dumps(scenario))
    (path.with_suffix("")).mkdir()
    with pytest.raises(KitError, match="is missing or wrong"):
        read_kit(kit)


def test_a_harness_cannot_change_the_kit(kit: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in kit.rglob("*") if path.is_file()}
    source = """
        source.write_bytes(b"overwritten")
        target.write_text('{"records": []}')
    """
    run(kit, make_harness(tmp_path / "h.py", source))
    assert before == {path: path.read_bytes() for path in kit.rglob("*") if path.is_file()}


# ------------------------------------------------------------------------------------------------------------- Ctrl-C


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="there are no process groups")
def test_an_interrupt_ends_all_harnesses(kit: Path, tmp_path: Path) -> None:
    source = f"""
        Path({str(tmp_path)!r}, f"pid-{{os.getpid()}}").touch()
        time.sleep(1000)
    """
    command = make_harness(tmp_path / "h.py", source)
    arguments = ["conformance", "run", "--kit", str(kit), "--jobs", "2", "--timeout", "500", "--", *command]
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "fxtio", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    watchdog = threading.Timer(PATIENCE, child.kill)
    watchdog.start()
    while len(list(tmp_path.glob("pid-*"))) < 2 and child.poll() is None:
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=PATIENCE)
    watchdog.cancel()
    assert (child.returncode, out, err) == (130, "", "fxtio: interrupted\n")
    assert len(list(tmp_path.glob("pid-*"))) == 2  # no new ones
    assert [path.name for path in tmp_path.glob("pid-*") if is_running(int(path.name.removeprefix("pid-")))] == []
