"""The command `fxtio open`: show a trace in the Perfetto UI, which is served on this machine."""

from __future__ import annotations

import os
import signal
import socket
import sys
import tempfile
import threading
import webbrowser
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from fxtio.cli.answers import nothing_of, selection_in
from fxtio.cli.common import (
    FINE,
    UsageError,
    add_examples,
    add_input,
    add_selection,
    moment,
    opened_timeline,
    print_findings,
    selects,
)
from fxtio.errors import shown
from fxtio.report import human_size, printable

if TYPE_CHECKING:
    from fxtio.view.content import Content
    from fxtio.view.server import Viewer

NAME = "open"
HELP = "Show a trace in the Perfetto UI, in a browser and without the internet"

_MAX_PORT = 65535

_REDIRECTION = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="refresh" content="0; url={address}">
<meta name="referrer" content="no-referrer">
<title>fxtio open</title>
</head>
<body><a href="{address}">The trace</a></body>
</html>
"""
"""The page that leads to an address, which needs no escapes."""

ENDING = [number for name in ("SIGTERM", "SIGHUP") if (number := getattr(signal, name, None)) is not None]
"""The signals besides that of Ctrl-C that end a process; Windows does not have both."""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    add_input(parser)
    select_help = "show the longest slice with this name, or with a name like this pattern, and select it"
    parser.add_argument("--select", metavar="NAME", help=select_help)
    at_help = "with --select: the slice at this time, instead of the longest one"
    parser.add_argument("--at", type=moment, metavar="TIME", help=at_help)
    port_help = "the port of 127.0.0.1 to serve on, for SSH (default: any that is free)"
    parser.add_argument("--port", type=_port, default=0, metavar="N", help=port_help)
    parser.add_argument("--no-browser", action="store_true", help="print the address, and start no browser")
    add_selection(parser)
    add_examples(
        parser,
        "fxtio open app.fxt",
        "fxtio open uftrace.data --select 'parse_*'",
        "fxtio open big.fxt.zst --from 1.2s --to 1.4s --thread main",
        "fxtio open app.mlpd --port 8000 --no-browser",
    )


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(_MAX_PORT)) and 0 < int(text) <= _MAX_PORT):
        raise ArgumentTypeError(f"{shown(text)} is not a port; write a number from 1 to {_MAX_PORT}")
    return int(text)


def run(options: Namespace) -> int:
    """Serve the trace until the page is closed, and return the exit code."""
    from fxtio.view import ui
    from fxtio.view.server import Viewer

    ui.files()  # so that a missing one is reported before a long conversion
    if options.at is not None and options.select is None:
        raise UsageError("--at needs --select: the name of the slice")
    if options.file == "-" and sys.stdin is None:
        raise UsageError("standard input is closed")
    with _ended_by_signals(), tempfile.TemporaryDirectory(prefix="fxtio-") as folder:
        content, parameters, code = _prepared(options, Path(folder))
        try:
            with Viewer(content, parameters, port=options.port, on_error=_say) as viewer:
                print(viewer.address, flush=True)
                _invite(viewer, Path(folder), starts_browser=not options.no_browser)
                viewer.wait()
        except KeyboardInterrupt:
            print(file=sys.stderr)  # behind the ^C of the terminal
    return code


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let the signals that end a process, as when its terminal is closed, do what Ctrl-C does: clean up first."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _prepared(options: Namespace, folder: Path) -> tuple[Content, dict[str, str], int]:
    """Return what is served, the parameters of the UI, and the exit code.

    Args:
        options: the parsed arguments.
        folder: an empty folder for a copy or a converted trace.
    """
    from fxtio.selection import time_range
    from fxtio.timeline.answers import summary
    from fxtio.view import content as contents
    from fxtio.view import focus

    file = contents.readable(options.file, folder)
    content = contents.of_file(file) if options.format is None else None
    parameters, code = focus.everything(), FINE
    if content is None or options.select is not None or selects(options):
        with opened_timeline(file, format=options.format) as (timeline, progress):
            selection = selection_in(options, timeline)
            if content is None or not selection.is_everything:
                content = contents.of_timeline(timeline, file, selection, folder)
            if content.is_empty:
                raise UsageError(nothing_of(timeline, "events", selection))
            if options.select is not None:
                at = None if options.at is None else time_range(options.at, None, summary(timeline))[0]
                parameters = focus.find(timeline, options.select, at, selection).parameters()
            progress.clear()
            for phrase, number in content.losses.most_common():
                _say(f"not shown: {phrase} ({number:,})")
            code = print_findings(timeline)
    if content.size is not None and content.size > contents.LARGE:
        about = human_size(content.size) if content.length is not None else f"about {human_size(content.size)}"
        _say(
            f"the trace has {about}; the UI needs minutes and much memory for so much.  "
            "Show a part of it with --from, --to and --thread"
        )
    return content, parameters, code


def _invite(viewer: Viewer, folder: Path, *, starts_browser: bool) -> None:
    """Start the browser, or say how to open the page.

    Args:
        viewer: the server.
        folder: a folder that only this user can read, and that is removed in the end.
        starts_browser: whether a browser may be started.
    """
    _say("this ends when the page is closed, or with Ctrl-C")
    is_remote = bool(os.environ.get("SSH_CONNECTION"))
    has_screen = sys.platform != "linux" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    if starts_browser and not is_remote and (os.environ.get("BROWSER") or has_screen):
        page = _redirection(viewer.address, folder)
        threading.Thread(target=webbrowser.open, args=(page.as_uri(),), daemon=True).start()
        _say("if no page appears, open the printed address in a browser")
    elif is_remote:
        host = socket.gethostname()
        _say(f"first, on the machine with the browser: ssh -L {viewer.port}:127.0.0.1:{viewer.port} {host}")
    else:
        _say("open this address in a browser")


def _redirection(address: str, folder: Path) -> Path:
    """Write a page that only this user can read and that leads to an address; return its path.

    A browser gets this page, and not the address: all users see the arguments of a program in the list of processes.

    Raises:
        OSError: the page cannot be written.
    """
    handle, name = tempfile.mkstemp(".html", dir=folder)  # a new file, of mode 0600
    with open(handle, "w", encoding="ascii") as file:
        file.write(_REDIRECTION.format(address=address))
    return Path(name)


def _say(message: str) -> None:
    print(f"fxtio: {printable(message)}", file=sys.stderr, flush=True)
