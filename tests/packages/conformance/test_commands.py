"""Tests of the actions of `fxtio conformance`, their reports and errors, and of the harnesses that it writes."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from fxtio.cli import main
from fxtio.conformance import canonical, reports
from fxtio.conformance.judge import Result, Verdict
from fxtio.conformance.runner import Run
from fxtio.errors import FxtioError
from fxtio.validate import validate
from support.checkout import CHECKOUT
from support.limits import PATIENCE
from support.small_kit import make_harness, make_kit, right_harness

KIT = CHECKOUT / "conformance"
TESTEE = [sys.executable, "-m", "fxtio.conformance.testee"]
Capture = pytest.CaptureFixture[str]

HOSTILE = "\x1b[31m<script>&]]>\x00\udcff\n`|*"


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    return make_kit(tmp_path / "kit")


def conformance(*words: object) -> int:
    return main(["conformance", *map(str, words)])


def refused(capsys: Capture, *words: object) -> str:
    """Run an action that must be refused, and return what it prints on standard error."""
    try:
        code: object = conformance(*words)
    except SystemExit as stop:
        code = stop.code
    assert code == 2
    return capsys.readouterr().err


# ----------------------------------------------------------------------------------------------------------------- run


def test_run(kit: Path, tmp_path: Path, capsys: Capture) -> None:
    harness = right_harness(tmp_path / "h.py")
    assert conformance("run", "--kit", kit, "--operation", "write", "--name", "mine", "--", *harness) == 0
    assert capsys.readouterr().out.endswith("mine: 1 case of the kit 9: 1 pass\n")
    assert conformance("run", "--kit", kit, "--name", "mine", "--", *harness) == 0
    out = capsys.readouterr().out
    assert out.endswith("mine: 4 cases of the kit 9: 4 pass\n")
    assert re.search(r"^fxt +read +3\nfxt +write +1\n", out, re.MULTILINE)


def test_run_prints_failures(kit: Path, tmp_path: Path, capsys: Capture) -> None:
    command = make_harness(tmp_path / "h.py", f"print({HOSTILE!r}.encode('ascii', 'replace').decode()); sys.exit(5)")
    assert conformance("run", "--kit", kit, "--case", "*/magic", "--", *command) == 1
    out = capsys.readouterr().out
    assert out.startswith("CRASH  read fxt/valid/magic\n    it ended with exit status 5\n    the harness printed:\n")
    assert "\x1b" not in out
    assert "\\x1b[31m<script>" in out


@pytest.mark.full
def test_the_variable_names_the_harness(kit: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setenv("FXTIO_HARNESS", f"'{sys.executable}' -m fxtio.conformance.testee")
    assert conformance("run", "--kit", kit, "--mode", "serve") == 0
    assert "4 pass" in capsys.readouterr().out
    monkeypatch.setenv("FXTIO_HARNESS", "'")
    assert "FXTIO_HARNESS cannot be parsed" in refused(capsys, "run", "--kit", kit)
    monkeypatch.delenv("FXTIO_HARNESS")
    assert "HARNESS is missing" in refused(capsys, "run", "--kit", kit)


def test_wrong_usage_of_run(kit: Path, tmp_path: Path, capsys: Capture) -> None:
    run = ["run", "--kit", str(kit)]
    error = refused(capsys, *run, "--", "/nonexistent/harness")
    assert error == "fxtio: the harness '/nonexistent/harness' cannot be started: No such file or directory\n"
    no_folder = tmp_path / "none" / "report.json"
    assert "there is no such directory" in refused(
        capsys, *run, "--report", "json", "-o", no_folder, "--", "/nonexistent/harness"
    )
    assert "there was no answer to the handshake" in refused(capsys, *run, "--mode", "serve", "--", "false")
    assert "belong together" in refused(capsys, *run, "--report", "json", "--", *TESTEE)
    assert "no cases of the format 'mono'" in refused(capsys, *run, "--format", "mono", "--", *TESTEE)
    assert "no case matches" in refused(capsys, *run, "--case", "nothing", "--", *TESTEE)
    assert "not a positive number of seconds" in refused(capsys, *run, "--timeout", "nan", "--", *TESTEE)
    assert "is not a conformance kit" in refused(capsys, "run", "--kit", tmp_path, "--", *TESTEE)
    assert "usage: fxtio conformance run" in refused(capsys, *run, "--nonsense", "--", *TESTEE)
    known = tmp_path / "known.toml"
    assert "No such file" in refused(capsys, *run, "--known", known, "--", *TESTEE)
    known.write_text("[known]\n'fxt/valid/tow' = 'a typing error'\n")
    assert "matches no case of the kit" in refused(capsys, *run, "--known", known, "--", *TESTEE)


def test_options_of_the_harness_are_its_own(kit: Path, tmp_path: Path) -> None:
    source = f"Path({str(tmp_path / 'arguments')!r}).write_text(repr(sys.argv[1:])); sys.exit(77)"
    command = make_harness(tmp_path / "h.py", source)
    assert conformance("run", "--kit", kit, "--jobs", "1", "--", *command, "--report", "--", "x") == 1
    assert (tmp_path / "arguments").read_text().startswith("['--report', '--', 'x', 'write'")


@pytest.mark.parametrize("kind", ["json", "junit", "html"])
def test_reports_go_to_a_file_or_to_standard_output(kit: Path, tmp_path: Path, capsys: Capture, kind: str) -> None:
    run = ["run", "--kit", str(kit), "--report", kind, "-o"]
    harness = right_harness(tmp_path / "h.py")
    assert conformance(*run, tmp_path / "report", "--", *harness) == 0
    assert "4 pass" in capsys.readouterr().out
    assert conformance(*run, "-", "--", *harness) == 0

    def timeless(text: str) -> str:
        return re.sub(r'("seconds": |time=")[\d.]+', "", text)

    assert timeless(capsys.readouterr().out) == timeless((tmp_path / "report").read_text("utf-8"))


def test_the_scenario_in_the_protocol(tmp_path: Path) -> None:
    text = (KIT / "PROTOCOL.md").read_text("utf-8")
    (block,) = [block for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL) if '"write": [\n' in block]
    canonical.write(json.loads(block), tmp_path / "example.fxt")
    assert validate(tmp_path / "example.fxt", profile="required").broken == []
    records = canonical.read(tmp_path / "example.fxt", "fxt")["records"]
    assert [record["type"] for record in records] == [
        "magic",
        "provider-info",
        "initialization",
        "duration-complete",
    ]


# ------------------------------------------------------------------------------------------------------------- reports


def some_run(name: str = "mine") -> Run:
    """Return a run with all verdicts, whose details are hostile."""
    results = [
        Result(f"fxt/valid/{number}", "fxt", "read", verdict, ("reason", HOSTILE), 0.25)
        for number, verdict in enumerate(Verdict)
    ]
    write = Result("fxt/spans", "fxt", "write", Verdict.PASS, (), 1.5, {"valid": True, "same meaning": True})
    return Run("1", name, "2.0", "exec", (*results, write))


def test_json_reports() -> None:
    content: dict[str, Any] = json.loads(reports.to_json(some_run()))
    assert content["testee"] == {"name": "mine", "version": "2.0"}
    assert (content["kit"], content["mode"], content["successful"]) == ("1", "exec", False)
    assert content["counts"] == {str(verdict): 2 if verdict is Verdict.PASS else 1 for verdict in Verdict}
    assert content["results"][-1]["circles"] == {"valid": True, "same meaning": True}
    again = reports.from_json(reports.to_json(some_run()), "here")
    assert reports.to_json(again) == reports.to_json(some_run())
    changes: list[dict[str, Any]] = [{"mode": "x"}, {"mode": []}, {"kit": 1}, {"testee": "x"}]
    odd = [json.dumps(content | change) for change in changes]
    odd += [json.dumps(content | {"results": [content["results"][0] | {"details": [1]}]})]
    for wrong in ("", "[]", "{}", '{"results": [1]}', "[" * 10_000, *odd):
        with pytest.raises(FxtioError, match="here is not a JSON report"):
            reports.from_json(wrong, "here")


def test_junit_reports() -> None:
    root = ET.fromstring(reports.to_junit(some_run(HOSTILE)).encode())
    (suite,) = root
    assert suite.attrib == {"name": "fxt", "tests": "10", "failures": "2", "errors": "3", "skipped": "2"}
    assert [child.tag for case in suite for child in case].count("skipped") == 2
    assert {case.get("classname") for case in suite} == {"fxt.read", "fxt.write"}
    text = suite.findtext("testcase/failure") or ""
    assert text.splitlines()[0] == "reason"
    assert "<script>" in text


def test_html_reports() -> None:
    page = reports.to_html(some_run(HOSTILE))
    assert "<script" not in page
    assert "\x1b" not in page
    assert page.index(">crash<") < page.index(">pass<")  # what failed comes first
    assert page.count("<tr><td") == 10


def test_a_table_lists_more_on_request() -> None:
    run = some_run()
    assert "UNSUPPORTED" not in reports.table(run)
    assert "UNSUPPORTED  read fxt/valid/2" in reports.table(run, verbose=True)


def test_scoreboard(tmp_path: Path, capsys: Capture) -> None:
    for name in ("one", "two | three"):
        (tmp_path / name).write_text(reports.to_json(some_run(name)), "utf-8")
    assert conformance("scoreboard", tmp_path / "one", tmp_path / "two | three") == 0
    page = capsys.readouterr().out
    assert "| one 2.0 (exec) | fxt | read | 9 | 2 | 1 | 1 | 5 |" in page
    assert "| one 2.0 (exec) | fxt | write | 1 | 1 | 0 | 0 | 0 |" in page
    assert "two \\| three" in page
    assert "- reason: `fxt/valid/3`" in page
    (tmp_path / "wrong").write_text("{}")
    assert "is not a JSON report" in refused(capsys, "scoreboard", tmp_path / "wrong")
    (tmp_path / "binary").write_bytes(b"\x10\0\xcc")
    assert "is not a JSON report" in refused(capsys, "scoreboard", tmp_path / "binary")


NOTHING = {
    "exec": [
        "mine supports none of these cases, in exec mode of the protocol 1:",
        "  fxt read (3): not \\x1b yet; --verbose shows further reasons",
        "  fxt write (1): no reason is given",
        "The harness ended with the exit status 77. It should do so only for what the testee cannot do.",
    ],
    "serve": [
        "mine supports none of these cases, in serve mode of the protocol 1:",
        "  fxt read (3): the handshake does not have 'read' for the format fxt",
        "  fxt write (1): the handshake does not have 'write' for the format fxt",
        "The formats and operations in the answer to the handshake say which cases the harness is sent.",
    ],
}


@pytest.mark.parametrize("mode", NOTHING)
def test_a_run_in_which_nothing_is_supported_says_why(kit: Path, tmp_path: Path, capsys: Capture, mode: str) -> None:
    source = """
        if operation == "serve":
            sys.stdin.readline()
            answer(json.dumps({**HELLO, "version": "", "formats": {"mono": ["read"]}}))
            sys.stdin.read()
        elif operation == "read":
            print("no magic" if case.endswith("magic") else "not \x1b yet")
        sys.exit(77)
    """
    command = make_harness(tmp_path / "h.py", source)
    run = ["run", "--kit", kit, "--mode", mode, "--name", "mine", "--report", "json", "-o", tmp_path / "report"]
    assert conformance(*run, "--", *command) == 1
    assert capsys.readouterr().out.splitlines()[-4:] == NOTHING[mode]
    assert conformance("scoreboard", tmp_path / "report") == 0
    out, err = capsys.readouterr()
    assert err.splitlines() == NOTHING[mode]
    assert f"## mine, {mode} mode, is not in the table\n\n    {NOTHING[mode][0]}\n" in out
    assert "| mine" not in out


def test_a_run_with_one_supported_case_needs_no_explanation() -> None:
    unsupported = Result("fxt/valid/a", "fxt", "read", Verdict.UNSUPPORTED)
    assert reports.hint(Run("1", "mine", "", "exec", (unsupported,))) != []
    assert reports.hint(some_run()) == []
    assert reports.hint(Run("1", "mine", "", "exec", ())) == []


# ------------------------------------------------------------------------------------------------------------- the kit


def test_list(kit: Path, capsys: Capture) -> None:
    assert conformance("list", "--kit", kit, "--case", "*/two") == 0
    assert capsys.readouterr().out == "operation  case           content\nread       fxt/valid/two  A case\n"
    assert conformance("list", "--kit", kit, "--json") == 0
    content = json.loads(capsys.readouterr().out)
    assert [item["id"] for item in content][-1] == "fxt/events"
    assert content[0]["rules"] == ["fxt.framing.truncated"]


@pytest.mark.full
def test_copy(tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "copy"
    assert conformance("copy", target) == 0
    capsys.readouterr()
    ignored = {"__pycache__"}
    files = {path.relative_to(KIT) for path in KIT.rglob("*") if path.is_file() and not ignored & {*path.parts}}
    assert {path.relative_to(target) for path in target.rglob("*") if path.is_file()} == files
    assert "exists already" in refused(capsys, "copy", target)
    assert conformance("list", "--kit", target) == 0


def test_a_copy_needs_no_fxtio(tmp_path: Path) -> None:
    """The kit's own script checks a copy with nothing but the standard library."""
    assert conformance("copy", tmp_path / "copy") == 0
    command = [sys.executable, "-I", "-S", str(tmp_path / "copy" / "assemble.py"), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert "--check" in done.stdout


@pytest.mark.full
def test_lint(tmp_path: Path, kit: Path, capfd: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "copy"
    shutil.copytree(KIT, target)
    conformance("lint", target)
    before = "".join(capfd.readouterr())
    (target / "cases" / "fxt" / "valid" / "event-instant.fxt").write_bytes(b"")
    assert conformance("lint", target) == 1
    after = "".join(capfd.readouterr())
    assert "valid/event-instant.fxt" in after
    assert "the kit is not as it should be" in after
    assert "cases of the kit" not in after
    assert "valid/event-instant.fxt" not in before
    (target / "cases" / "fxt" / "valid" / "event-instant.json").write_text("{}")
    assert conformance("lint", target) == 1
    assert "event-instant.json" in capfd.readouterr().err
    assert conformance("lint", kit) == 2
    assert "assemble.py is missing" in capfd.readouterr().err


# ------------------------------------------------------------------------------------------------------- new harnesses

BUILD_AND_RUN = {
    "c": ("cc", ["make"], ["./harness"]),
    "go": ("go", ["go", "build", "-o", "harness", "."], ["./harness"]),
    "javascript": ("node", None, ["node", "harness.mjs"]),
    "ocaml": ("ocamlopt", ["make"], ["./harness"]),
    "python": (sys.executable, None, [sys.executable, "harness.py"]),
    "rust": ("cargo", ["cargo", "build", "--release", "--offline", "--quiet"], ["target/release/harness"]),
}


def test_every_language_has_a_skeleton(tmp_path: Path, capsys: Capture) -> None:
    assert sorted(path.name for path in (KIT / "skeletons").iterdir()) == sorted(BUILD_AND_RUN)
    error = refused(capsys, "new-harness", "cobol", tmp_path / "x")
    assert f"only for {', '.join(sorted(BUILD_AND_RUN))}" in error


@pytest.mark.full
@pytest.mark.once
@pytest.mark.parametrize("language", sorted(BUILD_AND_RUN))
def test_new_harness(
    language: str, tmp_path: Path, kit: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, build, run = BUILD_AND_RUN[language]
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    folder = tmp_path / "mine"
    assert conformance("new-harness", language, folder) == 0
    assert "fxtio conformance run" in capsys.readouterr().out
    assert "exists already" in refused(capsys, "new-harness", language, folder)
    monkeypatch.chdir(folder)
    if build is not None:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
        done = subprocess.run(build, capture_output=True, text=True, timeout=PATIENCE, check=False, env=environment)
        assert (done.returncode, done.stderr) == (0, "")
    for mode in ("exec", "serve") if build is None else ("exec",):
        assert conformance("run", "--kit", kit, "--mode", mode, "--verbose", "--", *run) == 0
        out = capsys.readouterr().out
        assert "PASS  read fxt/valid/magic" in out
        assert "1 pass, 3 unsupported" in out
        assert out.count("\n    reading is not implemented") == 2
        assert out.count("\n    writing is not implemented") == 1


@pytest.mark.full
@pytest.mark.once
@pytest.mark.parametrize("language", ["javascript", "python"])
def test_a_skeleton_does_not_refuse_by_an_exception(language: str, tmp_path: Path, kit: Path, capsys: Capture) -> None:
    """An uncaught exception ends these languages with status 1, which would count as a refusal."""
    program, _, (interpreter, file) = BUILD_AND_RUN[language]
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    text = (KIT / "skeletons" / language / file).read_text("utf-8")
    broken = re.sub(r"(throw new|raise) Unsupported\('?\"?reading.*", "undefined_name()", text)
    assert broken != text
    (tmp_path / file).write_text(broken, "utf-8")
    assert conformance("run", "--kit", kit, "--case", "*/invalid/*", "--", interpreter, tmp_path / file) == 1
    assert "CRASH  read fxt/invalid/cut" in capsys.readouterr().out
