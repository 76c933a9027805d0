"""`fxtio synth`: write a synthetic trace; every format has shapes of its own.

Help is quick because it knows those of FXT only.  The others are told by the error about a shape that a format has not.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from fxtio.cli.common import FINE, Progress, UsageError, add_examples, count, size
from fxtio.fxt.present_shapes import SHAPES
from fxtio.present import human_size, printable

NAME = "synth"
HELP = "Write a synthetic trace"


def add_arguments(parser: ArgumentParser) -> None:
    """Describe the verb's arguments."""
    told = "; ".join(f"{shape}: {what}" for shape, what in SHAPES.items())
    parser.add_argument("shape", metavar="SHAPE", help=f"{told}; another format has others: any wrong one lists them")
    parser.set_defaults(refuse=parser.error)
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="FILE",
        help="the trace; .gz, .zst, .xz compress; - for standard output",
    )
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument("--events", type=count, metavar="N", help="how many events, as 5000 or 2M (default: 100k)")
    amount.add_argument("--size", type=size, metavar="SIZE", help="how many bytes instead, as 500MB or 1GiB")
    parser.add_argument("--threads", type=count, metavar="T", help="on how many threads (default: 8; threads: 1000)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="another seed, another trace (default: 0)")
    parser.add_argument("--format", default="fxt", metavar="NAME", help="the format (default: fxt)")
    add_examples(
        parser,
        "fxtio synth spans -o spans.fxt",
        "fxtio synth mixed -o big.fxt.zst --size 1GiB --threads 64 --seed 7",
        "fxtio synth flows -o - | fxtio info -",
    )


def run(options: Namespace) -> int:
    """Write the trace."""
    from fxtio.formats import by_name, presenter_of

    chosen = by_name(options.format)
    presenter = presenter_of(chosen)
    if options.shape not in presenter.SHAPES:
        known = ", ".join(presenter.SHAPES)
        options.refuse(f"no shape {options.shape!r} in the format {chosen.name}; there are {known}")
    if options.output == "-" and chosen.directory:
        raise UsageError(f"a trace in the format {chosen.name} is a directory; it cannot go to standard output")
    if options.output == "-" and sys.stdout.isatty():
        raise UsageError("a trace is no text for a terminal; send standard output to a file or a program")
    if options.seed < 0:
        raise UsageError("the seed cannot be negative")
    show = human_size if options.size else (lambda done: f"{done:,} events")
    with Progress(show) as progress:
        events, written = presenter.synth(
            options.output,
            options.shape,
            events=options.events,
            size=options.size,
            threads=options.threads,
            seed=options.seed,
            progress=progress,
        )
    where = "standard output" if options.output == "-" else printable(options.output)
    print(f"fxtio: {events:,} events, {human_size(written)}: {where}", file=sys.stderr)
    return FINE
