"""`fxtio recover`: finish the recording of a program that was killed, see `fxtio.tracer.recovery`."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from fxtio.cli.common import FINE, FOUND, add_examples
from fxtio.report import counted, human_size, printable

NAME = "recover"
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
    add_examples(
        parser, "fxtio recover app.fxt", "fxtio recover app.fxt.zst.part", "fxtio recover -o app.fxt.gz app.fxt"
    )


def run(options: Namespace) -> int:
    """Write the trace."""
    from fxtio.tracer.recovery import recover

    outcome = recover(options.file, options.output)
    children = f" with {counted(len(outcome.parts), 'child process')}" if outcome.parts else ""
    sizes = f"{human_size(outcome.size)}{children}, from {human_size(outcome.input_size)}"
    print(f"fxtio: {sizes}: {printable(str(outcome.path))}", file=sys.stderr)
    for part, fault in outcome.left_out:
        print(f"fxtio: {printable(str(part))} is left out: {fault}", file=sys.stderr)
    return FOUND if outcome.left_out else FINE
