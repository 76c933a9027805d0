"""The command `fxtio open`: show a trace in the Perfetto UI, which this machine serves; and `fxtio run --open`."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import webbrowser
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from fxtio.cli import console, inputs
from fxtio.errors import shown
from fxtio.io.source import COMPRESSION_SUFFIXES
from fxtio.report import human_size

if TYPE_CHECKING:
    from fxtio.timeline import Timeline
    from fxtio.view.content import Content
    from fxtio.view.server import Viewer

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
    help_ = "the trace, may be compressed; - for standard input; several are laid beside each other"
    parser.add_argument("files", nargs="+", metavar="FILE", help=help_)
    inputs.add_format(parser, "all FILEs")
    inputs.add_offsets(parser)
    select_help = "show the longest slice with this name, or with a name like this pattern, and select it"
    parser.add_argument("--select", metavar="NAME", help=select_help)
    at_help = "with --select: the slice at this time, instead of the longest one"
    parser.add_argument("--at", type=inputs.moment, metavar="TIME", help=at_help)
    port_help = "the port of 127.0.0.1 to serve on, for SSH (default: any that is free)"
    parser.add_argument("--port", type=_port, default=0, metavar="N", help=port_help)
    parser.add_argument("--no-browser", action="store_true", help="print the address, and start no browser")
    inputs.add_selection(parser)
    inputs.add_examples(
        parser,
        "fxtio open app.fxt",
        "fxtio open uftrace.data --select 'parse_*'",
        "fxtio open big.fxt.zst --from 1.2s --to 1.4s --thread main",
        "fxtio open app.mlpd --port 8000 --no-browser",
        "fxtio open app.fxt uftrace.data profile.json --offset profile.json=+1.5ms",
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
        raise inputs.UsageError("--at needs --select: the name of the slice")
    inputs.refuse_two_streams(options.files)
    if "-" in options.files and sys.stdin is None:
        raise inputs.UsageError("standard input is closed")
    # What ends a process, as when its terminal is closed, does what Ctrl-C does: it cleans up first.
    with _handling(signal.default_int_handler, *ENDING), tempfile.TemporaryDirectory(prefix="fxtio-") as folder:
        content, parameters, code = _prepared(options, Path(folder))
        try:
            with Viewer(content, parameters, port=options.port, on_error=console.say) as viewer:
                print(viewer.address, flush=True)
                _invite(viewer, Path(folder), starts_browser=not options.no_browser)
                viewer.wait()
        except KeyboardInterrupt:
            print(file=sys.stderr)  # after the ^C of the terminal
    return code


@contextmanager
def _handling(handler: Any, *numbers: int) -> Iterator[None]:
    """Handle some signals by a function within a `with` block."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, handler_before in before.items():
            signal.signal(number, handler_before)


def _prepared(options: Namespace, folder: Path) -> tuple[Content, dict[str, str], int]:
    """Return what is served, the parameters of the UI, and the exit code.

    The folder is empty, for a copy or a converted trace.
    """
    from fxtio.readers import times_of
    from fxtio.selection import time_range
    from fxtio.view import content as contents
    from fxtio.view import focus

    files = [contents.readable(file, folder) for file in options.files]
    is_single = len(files) == 1
    content = contents.of_file(files[0]) if options.format is None and is_single and not options.offset else None
    parameters, code = focus.everything(), console.FINE
    if content is None or options.select is not None or inputs.selects(options):
        with _opened(files, options) as timeline:
            selection = inputs.selection_of(options, timeline)
            if content is None or not selection.is_everything:
                content = contents.of_timeline(timeline, files[0] if is_single else None, selection, folder)
            if content.is_empty:
                raise inputs.UsageError(inputs.nothing_of(timeline, "events", selection))
            if options.select is not None:
                at = None if options.at is None else time_range(options.at, None, times_of(timeline))[0]
                parameters = focus.find(timeline, options.select, at, selection).parameters()
            for phrase, number in content.losses.most_common():
                console.say(f"not shown: {phrase} ({number:,})")
            code = console.print_findings(timeline, with_losses=False)
    if content.size is not None and content.size > contents.LARGE:
        about = human_size(content.size) if content.length is not None else f"about {human_size(content.size)}"
        console.say(
            f"the trace has {about}; the UI needs minutes and much memory for so much.  "
            "Show a part of it with --from, --to and --thread"
        )
    return content, parameters, code


@contextmanager
def _opened(files: Sequence[str], options: Namespace) -> Iterator[Timeline]:
    """Open a trace, or several together, as a timeline, for a `with` block."""
    with ExitStack() as stack:
        timelines = [stack.enter_context(inputs.opened_timeline(file, options.format)) for file in files]
        if len(files) == 1 and not options.offset:
            yield timelines[0]
            return
        from fxtio.timeline.together import Together

        traces = inputs.placed(timelines, options)
        for each in traces:
            console.say(str(each))
        yield Together(traces)


def _invite(viewer: Viewer, folder: Path, *, starts_browser: bool) -> None:
    """Start the browser, or say how to open the page; only this user can read the folder."""
    console.say("this ends when the page is closed, or with Ctrl-C")
    is_remote = bool(os.environ.get("SSH_CONNECTION"))
    has_screen = sys.platform != "linux" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    if starts_browser and not is_remote and (os.environ.get("BROWSER") or has_screen):
        page = _redirection(viewer.address, folder)
        threading.Thread(target=webbrowser.open, args=(page.as_uri(),), daemon=True).start()
        console.say("if no page appears, open the printed address in a browser")
    elif is_remote:
        host = socket.gethostname()
        console.say(f"first, on the machine with the browser: ssh -L {viewer.port}:127.0.0.1:{viewer.port} {host}")
    else:
        console.say("open this address in a browser")


def _redirection(address: str, folder: Path) -> Path:
    """Write a page that only this user can read and that leads to an address; return its path.

    A browser gets this page, and not the address: all users see the arguments of a program in the list of processes.
    """
    handle, name = tempfile.mkstemp(".html", dir=folder)  # a new file, of mode 0600
    with open(handle, "w", encoding="ascii") as file:
        file.write(_REDIRECTION.format(address=address))
    return Path(name)


# ---- `fxtio run --open`: record a program in a child process, and show the trace when it has ended.

_SWITCH = "--open"
_KILLED = 128
"""The exit code of a shell for a program that a signal ended, without the number of the signal."""


def run_and_open(arguments: Sequence[str], options: Any) -> int:
    """Record a program and show its trace, if it has written one; return the exit code of the program.

    The arguments are those of the command line, `run` and the following; the options are the same, parsed.

    Raises:
        FxtioError, OSError: the files of the UI are missing, or the trace cannot be read.
    """
    from fxtio.cli.parser import parse_command
    from fxtio.view import ui

    ui.files()  # so that a missing one is reported before a long run
    words = len(options.module or options.code or options.program)
    own, program = arguments[: len(arguments) - words], arguments[len(arguments) - words :]
    before = _written(options.output)
    child = subprocess.Popen([*_interpreter(arguments), *(word for word in own if word != _SWITCH), *program])

    def pass_on(number: int, _: FrameType | None) -> None:
        if number in ENDING:  # a terminal sends that of Ctrl-C to the child as well, which alone decides what it means
            child.send_signal(number)

    with _handling(pass_on, signal.SIGINT, *ENDING):
        code = child.wait()
    if _written(options.output) not in (None, before):
        run(parse_command(["open", options.output]))
    return code if code >= 0 else _KILLED - code


def _interpreter(arguments: Sequence[str]) -> list[str]:
    """Return the words of a command line that are before the arguments: the interpreter, its options, and fxtio."""
    words = len(sys.orig_argv) - len(arguments)
    if words > 0 and sys.orig_argv[words:] == list(arguments):
        return [sys.executable, *sys.orig_argv[1:words]]
    return [sys.executable, "-m", "fxtio"]


def _written(output: str) -> tuple[int, int] | None:
    """Return what tells a trace from one that replaces it; None if there is none."""
    compressed = output.endswith(COMPRESSION_SUFFIXES)
    for path in (Path(output), *([Path(f"{output}.part")] if compressed else [])):
        if path.is_file():
            return path.stat().st_ino, path.stat().st_mtime_ns
    return None
