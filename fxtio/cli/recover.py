"""`fxtio recover`: finish the recording of a program that was killed, see `fxtio.tracer.recovery`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from fxtio.cli import console, inputs
from fxtio.report import counted, human_size

HELP = "Finish the recording of a program that was killed"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "file", metavar="FILE", type=Path, help="the file that was recorded to, such as app.fxt or app.fxt.zst.part"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="OUT",
        help="another name for the trace (.gz, .zst, .xz compress); then no file is removed",
    )
    inputs.add_examples(
        parser, "fxtio recover app.fxt", "fxtio recover app.fxt.zst.part", "fxtio recover -o app.fxt.gz app.fxt"
    )


def run(options: Namespace) -> int:
    """Write the trace."""
    from fxtio.tracer.recovery import recover

    outcome = recover(options.file, options.output)
    children = f" with {counted(len(outcome.parts), 'child process')}" if outcome.parts else ""
    sizes = f"{human_size(outcome.size)}{children}, from {human_size(outcome.input_size)}"
    console.say(f"{sizes}: {outcome.path}")
    for part, fault in outcome.left_out:
        console.say(f"{part} is left out: {fault}")
    return console.FOUND if outcome.left_out else console.FINE
