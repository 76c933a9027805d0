"""`fxtio recover`: finish the recording of a program that was killed, see `fxtio.tracer.recovery`."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from fxtio.cli.common import FINE, FOUND, add_examples
from fxtio.present import human_size, printable

NAME = "recover"
HELP = "Finish the recording of a program that was killed"


def add_arguments(parser: ArgumentParser) -> None:
    """Describe the verb's arguments."""
    parser.add_argument("file", metavar="FILE", type=Path, help="what was recorded to, as app.fxt or app.fxt.zst.part")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="OUT",
        help="another name for the trace (.gz, .zst, .xz compress); then the files stay where they are",
    )
    add_examples(
        parser, "fxtio recover app.fxt", "fxtio recover app.fxt.zst.part", "fxtio recover -o app.fxt.gz app.fxt"
    )


def run(options: Namespace) -> int:
    """Write the trace."""
    from fxtio.tracer.recovery import recover

    done = recover(options.file, options.output)
    noun = "process" if len(done.parts) == 1 else "processes"
    children = f" with {len(done.parts)} child {noun}" if done.parts else ""
    told = f"{human_size(done.size)}{children}, from {human_size(done.before)}"
    print(f"fxtio: {told}: {printable(str(done.path))}", file=sys.stderr)
    for part, why in done.left:
        print(f"fxtio: {printable(str(part))} is left out: {why}", file=sys.stderr)
    return FOUND if done.left else FINE
