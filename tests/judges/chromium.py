"""Chromium as a judge: opens pages, with no network but the machine itself, and says what happened.

Debian's Chromium runs without a window, in a network namespace of its own (`unshare`), with the commands that serve the
pages.  So whatever a page asks of the internet fails, and is reported.  ::

    from judges import chromium

    job = chromium.Job([sys.executable, "-m", "fxtio", "open", "app.fxt"], ["select count(*) from slice"])
    (view,) = chromium.look([job])
    assert view.rows == [[[42]]]

Without an address, the page is that of the Perfetto UI, and a job begins when the UI has loaded its trace.  This module
is a script as well, which runs in the namespace.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import itertools
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

REQUIRED = bool(os.environ.get("FXTIO_REQUIRE_CHROMIUM"))
"""Tests fail without Chromium, as they do in the CI; else they are skipped."""

TIMEOUT = 300.0
"""The seconds after which a page that is not loaded, or a command that does not end, is an error."""

_WIDTH, _HEIGHT = 1280, 800
_UNSHARE = ("unshare", "--map-root-user", "--net")
_FLAGS = (
    "--headless=new",
    "--no-sandbox",  # which needs privileges that containers do not have
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--no-first-run",
    "--remote-debugging-pipe",
    f"--window-size={_WIDTH},{_HEIGHT}",
)
_LOADED = "Boolean(window.app && app.trace && !app.isLoadingTrace)"
_COMPLETE = 'location.href === %s && document.readyState === "complete"'
_QUERY = """(async () => {
  const result = await app.trace.engine.query(%s);
  const rows = [];
  for (const it = result.iter({}); it.valid(); it.next()) {
    rows.push(result.columns().map((name) => {
      const value = it.get(name);
      return typeof value === "bigint" ? Number(value) : value;
    }));
  }
  return rows;
})()"""
_UP = 0x1
_GET_FLAGS, _SET_FLAGS = 0x8913, 0x8914
_FROM_BROWSER, _TO_BROWSER = 4, 3


@dataclass
class Job:
    """A page to look at.

    Attributes:
        command: a command that prints the address of the page as its first line, and ends when the page is closed;
            empty if the page needs none.
        queries: SQL for the trace that the page shows.
        scripts: expressions of JavaScript in the page; each is evaluated until its value is true.
        screenshot: the path of a picture of the page, in PNG; empty for none.
        input: a file that is the command's standard input; empty for none.
        address: the address of the page if no command prints it, such as `file:///tmp/page.html`.
        width: the width of the page in pixels.
        height: its height.
        is_dark: whether the user prefers dark colors.
    """

    command: list[str] = field(default_factory=list)
    queries: list[str] = field(default_factory=list)
    scripts: list[str] = field(default_factory=list)
    screenshot: str = ""
    input: str = ""
    address: str = ""
    width: int = _WIDTH
    height: int = _HEIGHT
    is_dark: bool = False


@dataclass
class View:
    """What a job has seen.

    Attributes:
        rows: the rows of each query.
        values: the values of the scripts.
        refused: the addresses that the page asked for, and that its content security policy refused.
        outside: the other addresses that are not of its server.
        errors: exceptions in the page, and answers that are errors.
        logged: what the browser logged as errors, such as violations of the content security policy, and the page.
        code: the exit status of the command.
        printed: what the command printed on standard error.
    """

    rows: list[list[list[Any]]] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    logged: list[str] = field(default_factory=list)
    code: int = -1
    printed: str = ""


def available() -> str | None:
    """Return None if Chromium can be used, otherwise the reason."""
    if shutil.which("chromium") is None:
        return "Chromium is missing (Debian: apt-get install --no-install-recommends chromium)"
    if (
        shutil.which("unshare") is None
        or subprocess.run([*_UNSHARE, "true"], capture_output=True, check=False).returncode
    ):
        return "no network namespace can be made (unshare --map-root-user --net)"
    return None


def look(jobs: Sequence[Job]) -> list[View]:
    """Look at pages, one after the other, in one browser.

    Raises:
        AssertionError: a page was not loaded, or a command did not print an address or did not end.
    """
    command = [*_UNSHARE, sys.executable, "-P", str(Path(__file__).resolve())]
    child = subprocess.run(
        command, input=json.dumps([asdict(job) for job in jobs]), capture_output=True, text=True, check=False
    )
    assert child.returncode == 0, child.stderr
    return [View(**view) for view in json.loads(child.stdout)]


class _Browser:
    """A browser with one page, which is driven by Chromium's DevTools protocol over a pair of pipes."""

    def __init__(self, profile: str) -> None:
        commands, to_browser = os.pipe()
        from_browser, answers = os.pipe()
        self._numbers = itertools.count(1)
        self._write, self._read, self._pending = to_browser, from_browser, b""
        self._session = ""
        self.events: list[dict[str, Any]] = []

        flags = [*_FLAGS, f"--user-data-dir={profile}", "about:blank"]
        self._log = open(f"{profile}.log", "wb")  # noqa: SIM115
        script = f'exec "$@" {_TO_BROWSER}<&{commands} {_FROM_BROWSER}>&{answers}'
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", "chromium", *flags],
            pass_fds=(commands, answers),
            stdout=self._log,
            stderr=self._log,
        )
        for descriptor in (commands, answers):
            os.close(descriptor)
        (page,) = [each for each in self.call("Target.getTargets")["targetInfos"] if each["type"] == "page"]
        self._session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        self._observe(self._session)

    def _observe(self, session: str) -> None:
        """Have what happens in a page or a worker reported, and of the workers that it starts."""
        self._send("Network.enable", session)
        self._send("Runtime.enable", session)
        self._send("Log.enable", session)
        self._send("Target.setAutoAttach", session, autoAttach=True, waitForDebuggerOnStart=True, flatten=True)
        self._send("Runtime.runIfWaitingForDebugger", session)

    def _send(self, method: str, session: str, **parameters: Any) -> int:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._write, data) :]
        return number

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._pending:
            data = os.read(self._read, 1 << 20)
            if not data:
                raise AssertionError(f"Chromium ended: {Path(self._log.name).read_text(errors='replace')[-2000:]}")
            self._pending += data
        message, _, self._pending = self._pending.partition(b"\0")
        received: dict[str, Any] = json.loads(message)
        if received.get("method") == "Target.attachedToTarget":
            self._observe(received["params"]["sessionId"])
        elif "method" in received:
            self.events.append(received)
        return received

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the page, and return its result."""
        number = self._send(method, self._session, **parameters)
        while (received := self._receive()).get("id") != number:
            pass
        assert "error" not in received, (method, received)
        result: dict[str, Any] = received["result"]
        return result

    def value(self, script: str) -> Any:
        """Return the value of an expression of JavaScript in the page, for which it may wait."""
        result = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, (script, result)
        return result["result"].get("value")

    def close(self) -> None:
        """End the browser."""
        self._send("Browser.close", "")
        self._process.wait(TIMEOUT)
        self._log.close()
        for descriptor in (self._write, self._read):
            os.close(descriptor)


def _wait_for(get: Callable[[], Any], what: str) -> Any:
    """Return the first value of a function that is true."""
    end = time.monotonic() + TIMEOUT
    while not (value := get()):
        assert time.monotonic() < end, f"{what}: not in {TIMEOUT:g} s"
        time.sleep(0.1)
    return value


def _look(browser: _Browser, job: Job, address: str) -> View:
    """Open a page, and close it."""
    browser.events.clear()
    browser.call(
        "Emulation.setDeviceMetricsOverride", width=job.width, height=job.height, deviceScaleFactor=1, mobile=False
    )
    scheme = {"name": "prefers-color-scheme", "value": "dark" if job.is_dark else "light"}
    browser.call("Emulation.setEmulatedMedia", features=[scheme])
    browser.call("Emulation.setFocusEmulationEnabled", enabled=True)
    browser.call("Page.navigate", url=address)
    loaded = _COMPLETE % json.dumps(address) if job.address else _LOADED
    _wait_for(lambda: browser.value(loaded), f"the page {address}")
    view = View()
    for script in job.scripts:
        view.values.append(_wait_for(lambda: browser.value(script), script))  # noqa: B023
    view.rows = [browser.value(_QUERY % json.dumps(query)) for query in job.queries]
    if job.screenshot:
        if not job.address:
            browser.value("waitForPerfettoIdle(1000)")
        Path(job.screenshot).write_bytes(base64.b64decode(browser.call("Page.captureScreenshot")["data"]))
    browser.call("Page.navigate", url="about:blank")
    _report(view, browser.events, address)
    return view


def _report(view: View, events: Sequence[dict[str, Any]], address: str) -> None:
    """Enter in a view what the page asked for, and what failed."""
    host = address.split("/")[2]
    own = tuple(f"{scheme}://{host}/" for scheme in ("http", "ws")) if host else (address,)
    asked: dict[str, str] = {}
    for event in events:
        parameters = event["params"]
        if event["method"] == "Network.requestWillBeSent":
            url = parameters["request"]["url"]
            if not url.startswith((*own, "data:", "about:", f"blob:{own[0]}")):
                asked[parameters["requestId"]] = url
        elif event["method"] == "Network.webSocketCreated":
            asked[parameters["requestId"]] = parameters["url"]
        elif event["method"] == "Network.loadingFailed" and parameters.get("blockedReason") == "csp":
            view.refused += filter(None, [asked.pop(parameters["requestId"], None)])
        elif event["method"] == "Network.responseReceived" and parameters["response"]["status"] >= 400:
            view.errors.append(f"{parameters['response']['status']} {parameters['response']['url']}")
        elif event["method"] == "Runtime.exceptionThrown":
            view.errors.append(json.dumps(parameters["exceptionDetails"]))
        elif event["method"] == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            view.logged.append(parameters["entry"]["text"])
        elif event["method"] == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "assert"):
            view.logged.append(json.dumps(parameters["args"]))
    view.outside += asked.values()


def _has_loopback() -> None:
    """Bring up the loopback interface of the namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh14x", b"lo", 0)
        (flags,) = struct.unpack_from("16xh", fcntl.ioctl(control, _GET_FLAGS, request))
        fcntl.ioctl(control, _SET_FLAGS, struct.pack("16sh14x", b"lo", flags | _UP))


@contextlib.contextmanager
def _served(job: Job) -> Iterator[tuple[str, Callable[[], tuple[int, str]]]]:
    """Start the command of a job for a `with` block.

    Yields:
        The address that it prints, and a function that waits for its end, and returns the exit status and what it
        printed on standard error.
    """
    with open(job.input or os.devnull, "rb") as stdin, tempfile.TemporaryFile("w+") as errors:
        server = subprocess.Popen(job.command, stdin=stdin, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert server.stdout is not None

        def printed() -> str:
            errors.seek(0)
            return errors.read()

        try:
            address = server.stdout.readline().strip()
            assert address.startswith("http://"), f"{job.command}: {printed()}"
            yield address, lambda: (server.wait(TIMEOUT), printed())
        finally:
            server.kill()
            server.wait()
            server.stdout.close()


def _nothing() -> tuple[int, str]:
    """Return the exit status of no command, and what it printed."""
    return 0, ""


def _main() -> None:
    """Do the jobs on standard input, in this namespace."""
    jobs = [Job(**job) for job in json.load(sys.stdin)]
    _has_loopback()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, contextlib.ExitStack() as stack:
        served = [stack.enter_context(_served(job)) if job.command else (job.address, _nothing) for job in jobs]
        browser = _Browser(str(Path(folder, "profile")))
        stack.callback(browser.close)
        views = [_look(browser, job, address) for job, (address, _) in zip(jobs, served, strict=True)]
        for view, (_, end) in zip(views, served, strict=True):
            view.code, view.printed = end()
        print(json.dumps([asdict(view) for view in views]))


if __name__ == "__main__":
    _main()
