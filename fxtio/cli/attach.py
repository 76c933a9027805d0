"""`fxtio attach`: record a program that runs already, see `fxtio.tracer.attach_target`."""

from __future__ import annotations

import signal
import time
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path
from typing import Any

from fxtio.cli import console, inputs
from fxtio.cli import run as run_command
from fxtio.errors import FxtioError

HELP = "Record a Python program that runs already"

_DESCRIPTION = """\
Record a Python program that runs already, for a time or until Ctrl-C; then it runs on as before.  A program
listens for this if it was started with FXTIO=wait in its environment, or has used fxtio.span or the like.  From
Python 3.14 on, other programs can be recorded as well, if they can import fxtio.
"""

_NOT_HERE = frozenset({"--dump-on", "--no-children", "--open", "--quiet", "-m", "-c", "program"})
"""Arguments of `fxtio run` that make no sense for a program that runs already."""

_INTERVAL = 0.05
NS_PER_SECOND = 1_000_000_000


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments: those of `fxtio run` that say what is recorded, and its own."""
    for names, settings in run_command.ARGUMENTS:
        if _NOT_HERE.isdisjoint(names):
            parser.add_argument(*names, **settings)
    parser.set_defaults(dump_on=[], no_children=True)
    duration_help = "how long, such as 500ms or 5s (default: until Ctrl-C, or the end of the program)"
    parser.add_argument("--for", dest="duration", type=inputs.duration, metavar="TIME", help=duration_help)
    stop_help = "end the recording that a killed `fxtio attach` has left in the process"
    parser.add_argument("--stop", action="store_true", help=stop_help)
    parser.add_argument("pid", metavar="PID", type=_process_id, help="the process id of the program")
    inputs.add_examples(parser, "fxtio attach --for 5s 4711", "fxtio attach -o slow.fxt.zst --include myapp 4711")
    parser.description = _DESCRIPTION


def _process_id(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise ArgumentTypeError(f"{text!r} is not a process id")
    return int(text)


def run(options: Namespace) -> int:
    """Record, and finish the trace."""
    from fxtio.tracer.attach_target import Attachment, interrupt_on
    from fxtio.tracer.options import refuse_other_outputs

    if options.output == "-":
        raise FxtioError("a recording is a file, not a stream: give it a name, or /dev/shm/... to keep it in memory")
    try:
        refuse_other_outputs(options.output)
    except ValueError as error:
        raise FxtioError(str(error)) from None
    interrupt_on(signal.SIGTERM, signal.SIGHUP)
    with Attachment(options.pid) as attachment:
        if options.stop:
            _stop(attachment, options.pid)
        else:
            _record(attachment, options)
    return console.FINE


def _record(attachment: Any, options: Namespace) -> None:
    live: Path | None = None
    begin = time.monotonic_ns()
    try:
        live = attachment.start(run_command.recording_options(options), _say_waiting)
        begin = time.monotonic_ns()
        until = "" if options.duration else "; Ctrl-C ends the recording"
        console.say(f"recording process {options.pid} to {options.output}{until}")
        _wait(attachment.process, begin + options.duration if options.duration else None)
    except ValueError as error:
        raise FxtioError(str(error)) from None
    except KeyboardInterrupt:
        if live is None:
            raise
    _finish(attachment, live, _end(attachment), time.monotonic_ns() - begin)


def _wait(process: Any, end: int | None) -> None:
    """Wait until a process ends, or until a time of the monotonic clock in nanoseconds."""
    while process.is_alive and (end is None or time.monotonic_ns() < end):
        left = _INTERVAL if end is None else (end - time.monotonic_ns()) / NS_PER_SECOND
        time.sleep(min(max(left, 0), _INTERVAL))


def _stop(attachment: Any, pid: int) -> None:
    """End a recording whose `fxtio attach` was killed."""
    recordings = attachment.process.recordings()
    if not recordings:
        raise FxtioError(f"process {pid} records nothing")
    _finish(attachment, recordings[0].path, attachment.stop(_say_waiting), 0)


def _end(attachment: Any) -> dict[str, Any]:
    """End the recording; return nothing if the program has ended, or has ended the recording itself."""
    from fxtio.tracer.startup import AttachError

    try:
        counts: dict[str, Any] = attachment.stop(_say_waiting)
    except KeyboardInterrupt:
        pid = attachment.process.pid
        raise FxtioError(f"process {pid} is still recorded; `fxtio attach --stop {pid}` ends that") from None
    except AttachError as error:
        console.say(str(error))
        return {}
    return counts


def _finish(attachment: Any, live: Path, counts: dict[str, Any], duration_ns: int) -> None:
    """Finish the trace, and say what it has."""
    from fxtio.tracer.file import opener
    from fxtio.tracer.recording import Summary
    from fxtio.tracer.recovery import recover
    from fxtio.tracer.session import report_summary

    opener(live.with_suffix("") if live.suffix == ".part" else live)  # imports what that user may not be able to read
    with attachment.process.acting_as_user():  # the file is its
        recovered = recover(live)
    values: dict[str, Any] = {"duration_ns": duration_ns, "unmatched": ()}
    values |= dict.fromkeys(("unrecorded_ns", "lost", "cut", "dropped", "inlined"), 0) | counts
    report_summary(Summary(path=recovered.path, events=recovered.events, is_estimate=False, parts=0, left=(), **values))


def _say_waiting() -> None:
    console.say("the program has not reacted yet: its main thread waits, or runs code in C; Ctrl-C gives up")
