"""The gate in a pull request: its steps run on repositories, and its comment goes to a server like that of GitHub."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

import fxtio
from support.actions import Job
from support.checkout import CHECKOUT

pytestmark = pytest.mark.once

GATE = CHECKOUT / "conformance" / "gate" / "action.yml"
AUTHOR = "github-actions[bot]"
TOKEN = "a token"

PROGRAM = """
import sys, time
print("::error::printed by the program")
def work():
    until = time.perf_counter() + 0.0002
    while time.perf_counter() < until:
        pass
for _ in range(CALLS):
    work()
sys.exit(STATUS)
"""


def program(calls: int, status: int = 0) -> str:
    """Return a program that calls a function this many times; of that alone no machine makes more or fewer."""
    return PROGRAM.replace("CALLS", str(calls)).replace("STATUS", str(status))


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
    command = ["git", *identity, *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def commit(folder: Path, content: str) -> str:
    (folder / "bench mark.py").write_text(content)
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "a change")
    return git(folder, "rev-parse", "HEAD")


def pull_request(folder: Path, before: str, after: str) -> tuple[Path, str]:
    """Return what `actions/checkout` leaves of a pull request, the merge without its parents, and the commit before."""
    origin = folder / "origin"
    origin.mkdir()
    git(origin, "init", "--quiet")
    git(origin, "config", "uploadpack.allowReachableSHA1InWant", "true")
    (origin / "README").write_text("the first")
    git(origin, "add", ".")
    git(origin, "commit", "--quiet", "-m", "the first")
    git(origin, "checkout", "--quiet", "-b", "change")
    commit(origin, after)
    git(origin, "checkout", "--quiet", "main")
    base = commit(origin, before)
    git(origin, "merge", "--quiet", "--strategy", "ours", "change")
    git(origin, "checkout", "--quiet", "change", "--", ".")
    git(origin, "commit", "--quiet", "--amend", "-m", "parent of nothing")
    git(folder, "clone", "--quiet", "--depth=1", origin.as_uri(), "workspace")
    return folder / "workspace", base


def stand_in_for_the_wheel(folder: Path) -> None:
    """Write a wheel whose fxtio is the one that runs the tests, instead of one that is built from the checkout."""
    folder.mkdir()
    info = "fxtio-0.dist-info"
    files = {
        "fxtio-tests.pth": f"{Path(fxtio.__file__).parent.parent}\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: fxtio\nVersion: 0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\nfxtio = fxtio.cli:main\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(folder / "fxtio-0-py3-none-any.whl", "w") as wheel:
        for name, content in files.items():
            wheel.writestr(name, content)


class Server:
    """A server with the comments of a pull request.

    Attributes:
        comments: the comments, from the oldest.
        is_writable: whether the token may write.
    """

    def __init__(self, url: str = "") -> None:
        self.comments: list[dict[str, Any]] = []
        self.is_writable = True
        self.variables = {"GITHUB_API_URL": url, "GITHUB_REPOSITORY": "owner/name"}

    def add(self, body: str, login: str = AUTHOR) -> None:
        self.comments.append({"id": 1000 + len(self.comments), "body": body, "user": {"login": login}})

    def answer(self, method: str, path: str, content: dict[str, str]) -> tuple[int, Any]:
        """Return the status and the content of the answer to a request."""
        url = urlsplit(path)
        if method == "GET" and url.path == "/repos/owner/name/issues/7/comments":
            page, size = (int(parse_qs(url.query)[name][0]) for name in ("page", "per_page"))
            return 200, self.comments[(page - 1) * size : page * size]
        if not self.is_writable:
            return 403, {"message": "Resource not accessible by integration"}
        if method == "POST" and url.path == "/repos/owner/name/issues/7/comments":
            self.add(content["body"])
            return 201, self.comments[-1]
        (comment,) = (each for each in self.comments if url.path == f"/repos/owner/name/issues/comments/{each['id']}")
        assert method == "PATCH"
        comment.update(content)
        return 200, comment


@contextmanager
def serving() -> Iterator[Server]:
    """Run a server."""

    class Handler(BaseHTTPRequestHandler):
        def respond(self) -> None:
            assert self.headers["Authorization"] == f"Bearer {TOKEN}"
            body = self.rfile.read(int(self.headers["Content-Length"] or 0))
            status, content = answering.answer(self.command, self.path, json.loads(body or "{}"))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(content).encode())

        do_GET = do_POST = do_PATCH = respond  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        answering = Server(f"http://127.0.0.1:{http.server_port}")
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        try:
            yield answering
        finally:
            http.shutdown()
            thread.join()


def test_the_page_has_all_inputs() -> None:
    page = (CHECKOUT / "docs" / "how-to" / "gate-pull-requests.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|", page, re.MULTILINE))
    inputs = yaml.safe_load(GATE.read_text("utf-8"))["inputs"]
    assert rows.keys() == inputs.keys()
    for name, entry in inputs.items():
        told = rows[name].strip("`")
        assert told == entry["default"] if entry.get("default") else told in ("required", "nothing") or name == "base"


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


def job(folder: Path, workspace: Path, server: Server, **inputs: str) -> Job:
    """Return a job whose first step has run: fxtio is installed."""
    installed = folder / "installed"
    (installed / "fxtio").mkdir(parents=True)
    (installed / "fxtio" / "bin").symlink_to(sysconfig.get_path("scripts"))
    stand_in_for_the_wheel(installed / "wheel")
    given = {"command": "--spans-only 'bench mark.py'", "runs": "2", **inputs}
    context = {
        "steps.install.outputs.folder": str(installed),
        "github.event_name": "pull_request",
        "github.event.pull_request.number": "7",
        "github.token": TOKEN,
    }
    variables = {**server.variables, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    return Job(GATE, folder, workspace, given, context, variables)


@pytest.mark.full
def test_a_change_for_the_worse(tmp_path: Path, server: Server) -> None:
    """It is in the summary, the artifact and the comment; the job fails only on request."""
    workspace, base = pull_request(tmp_path, program(100), program(150))
    setup = "python -c 'import sys; open(sys.prefix + \"/set-up\", \"w\")'\ntest -e 'bench mark.py'"
    gate = job(tmp_path, workspace, server, command="'bench mark.py'", setup=setup, fail="true")
    done = gate.run(after="Install fxtio")
    assert done.returncode == 1, done.stdout
    assert done.stdout.endswith("\n::error::a name is over its limit or a trace is damaged, see the summary\n")
    assert "printed by the program" not in done.stdout
    assert gate.context["steps.judge.outputs.failed"] == "true"
    summary = (tmp_path / "summary.md").read_text()
    assert summary.startswith("# Speed\n\n## 1 of 2 names failed\n")
    (row,) = (line for line in summary.splitlines() if "more" in line)
    assert "| more | 100 | 150 |" in row
    assert row.endswith("| failed +5%,1ms |")
    assert f"\n{base} (before) and {git(workspace, 'rev-parse', 'HEAD')} (after)\n" in summary
    kept = gate.used["Keep the report"]
    assert kept["name"] == "Speed"
    assert {path.name for path in Path(kept["path"]).iterdir()} == {"report.md", "report.html"}
    (comment,) = server.comments
    assert comment["body"] == f'<!-- fxtio gate: "Speed" -->\n{summary}'
    for side in ("head", "base"):
        assert (tmp_path / "installed" / f"{side}.env" / "set-up").exists()
        assert len([*(tmp_path / "installed").glob(f"{side}-*.fxt")]) == 2


@pytest.mark.full
def test_a_report_is_no_failure_by_default(tmp_path: Path, server: Server) -> None:
    workspace, _ = pull_request(tmp_path, program(100), program(150))
    gate = job(tmp_path, workspace, server, command="'bench mark.py'", limits="*work=+90%\n\n*=+5%,1h", comment="false")
    done = gate.run(after="Install fxtio")
    assert done.returncode == 0
    assert "::" not in done.stdout
    assert "\n## None of 3 names failed\n" in (tmp_path / "summary.md").read_text()
    assert server.comments == []


@pytest.mark.full
def test_a_base_that_cannot_run_the_command(tmp_path: Path, server: Server) -> None:
    """Nothing is compared, and nothing fails: the command may be new."""
    workspace, base = pull_request(tmp_path, program(1, status=3), program(1))
    gate = job(tmp_path, workspace, server, fail="true")
    done = gate.run(after="Install fxtio")
    assert done.returncode == 0
    assert "::notice::the setup or the command fails before the change" in done.stdout
    assert gate.context.get("steps.judge.outputs.failed") is None
    (comment,) = server.comments
    assert "There is no base that can run the command, so there is nothing to compare with.\n" in comment["body"]
    assert base in comment["body"]


@pytest.mark.full
def test_the_first_commit_has_no_base(tmp_path: Path, server: Server) -> None:
    """Nothing is compared, and nothing fails."""
    (workspace := tmp_path / "workspace").mkdir()
    git(workspace, "init", "--quiet")
    commit(workspace, program(1))
    done = job(tmp_path, workspace, server, fail="true", name="Speed (3.13)").run(after="Install fxtio")
    assert done.returncode == 0
    assert "::notice::HEAD has no parent, and base does not say what to compare with" in done.stdout
    assert "so there is nothing to compare with.\n" in (tmp_path / "summary.md").read_text()


@pytest.mark.full
def test_no_file_of_the_repository_is_taken_for_a_module(tmp_path: Path, server: Server) -> None:
    workspace, _ = pull_request(tmp_path, program(1), program(2))
    (workspace / "venv.py").write_text("raise SystemExit(9)")
    setup = "echo 'raise SystemExit(9)' > pip.py"
    done = job(tmp_path, workspace, server, setup=setup, runs="1").run(after="Install fxtio")
    assert done.returncode == 0, done.stdout
    assert " checked, " in (tmp_path / "summary.md").read_text(), done.stdout


def test_a_crash_is_no_verdict(tmp_path: Path, server: Server) -> None:
    """An exception that nobody catches has the exit code of a name that is over its limit."""
    gate = job(tmp_path, tmp_path, server)
    installed = tmp_path / "installed"
    (installed / "base-0001.fxt").touch()
    (installed / "fxtio" / "bin").unlink()
    (installed / "fxtio" / "bin").mkdir()
    (crashing := installed / "fxtio" / "bin" / "fxtio").write_text("#!/bin/sh\nexit 1\n")
    crashing.chmod(0o755)
    assert gate.run(after="Record in turn").returncode == 1
    assert "steps.judge.outputs.failed" not in gate.context
    assert not (tmp_path / "summary.md").exists() and server.comments == []


@pytest.mark.full
@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"setup": "false\ntrue"}, "the setup or the command fails after the change"),
        ({"command": "missing.py"}, "the setup or the command fails after the change"),
        ({"command": "'"}, "command has a quote without an end"),
        ({"runs": "a[$(touch run)]"}, "runs must be a number from 1 to 9999"),
        ({"base": "missing"}, "::error::the base cannot be fetched"),
        ({"base": "--upload-pack=touch run"}, "invalid refspec"),
        ({"name": "a/b"}, "name has a character that no artifact may have in its name"),
        ({"name": "a\nb"}, "name has a character that no artifact may have in its name"),
    ],
)
def test_what_cannot_run_fails(inputs: dict[str, str], message: str, tmp_path: Path, server: Server) -> None:
    workspace, _ = pull_request(tmp_path, program(1), program(1))
    done = job(tmp_path, workspace, server, **inputs).run(after="Install fxtio")
    assert done.returncode not in (0, 1)
    assert message in done.stdout
    assert not (tmp_path / "summary.md").exists()
    assert [*tmp_path.rglob("run")] == []


def comment(folder: Path, server: Server, name: str, report: str) -> str:
    """Write a comment as the step does, and return what it prints."""
    (path := folder / "report.md").write_text(report)
    command = [sys.executable, "-I", str(GATE.parent / "comment.py"), "7", name, str(path)]
    environment = {**server.variables, "GITHUB_TOKEN": TOKEN}
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


def test_a_comment_is_replaced(tmp_path: Path, server: Server) -> None:
    """Also where there are many; comments of others, and of other gates, are left alone."""
    for number in range(150):
        server.add(f"comment {number}")
    server.comments[0]["user"] = None  # its account was deleted
    server.add('<!-- fxtio gate: "a" -->\nnot ours', login="somebody")
    others = [dict(each) for each in server.comments]
    for name, report in (("a", "first"), ("b --> c", "second"), ("a", "third")):
        assert comment(tmp_path, server, name, report) == ""
    assert server.comments[: len(others)] == others
    added = [each["body"] for each in server.comments[len(others) :]]
    assert added == ['<!-- fxtio gate: "a" -->\nthird', '<!-- fxtio gate: "b -- c" -->\nsecond']


@pytest.mark.parametrize("between", ["\n", "\n\n"])
def test_a_long_report_is_cut_between_lines(between: str, tmp_path: Path, server: Server) -> None:
    line = f"`{'é' * 998}`"
    report = "# Speed\n\n" + f"{line}{between}" * 100
    assert comment(tmp_path, server, "a", report) == ""
    (written,) = server.comments
    assert written["body"].endswith(f"{line}\n\nThe summary of the job has the rest.\n")
    assert 64_000 < len(written["body"]) <= 65_536


def test_an_answer_of_something_else_is_a_warning(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json, "dumps", lambda content: "no JSON")
    printed = comment(tmp_path, server, "a", "report")
    assert printed.startswith("::warning::no comment was written (") and "permission" not in printed


def test_without_the_permission_there_is_a_warning(tmp_path: Path, server: Server) -> None:
    server.is_writable = False
    printed = comment(tmp_path, server, "a", "report")
    assert printed.startswith("::warning::no comment was written (HTTP Error 403: Forbidden): the job needs the")
    assert server.comments == []
