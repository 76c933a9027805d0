"""`fxtio synth`: write a synthetic trace, see `fxtio.testing.synth`."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from fxtio.cli.common import FINE, Progress, UsageError, add_examples, count, human_size, printable, size

NAME = "synth"
HELP = "Write a synthetic trace"

SHAPES = {
    "spans": "spans that nest, with two arguments each",
    "counters": "samples of counters",
    "flows": "spans on several threads with arrows between them",
    "async": "operations that overlap and move between threads",
    "threads": "spans on very many threads",
    "mixed": "all of it, and instants",
}


def add_arguments(parser: ArgumentParser) -> None:
    """Describe the verb's arguments."""
    told = "; ".join(f"{shape}: {what}" for shape, what in SHAPES.items())
    parser.add_argument("shape", choices=list(SHAPES), help=told)
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
    import fxtio
    from fxtio.testing import synth

    if options.output == "-" and sys.stdout.isatty():
        raise UsageError("a trace is no text for a terminal; send standard output to a file or a program")
    if options.seed < 0:
        raise UsageError("the seed cannot be negative")
    amount: synth.Amount = {"events": options.events, "size": options.size, "seed": options.seed}
    if options.threads is not None:
        amount["threads"] = options.threads
    show = human_size if options.size else (lambda done: f"{done:,} events")
    with (
        Progress(show) as progress,
        fxtio.create(options.output, format=options.format, provider="fxtio synth") as writer,
    ):
        amount["progress"] = progress
        events = synth.SHAPES[options.shape](writer, **amount)
    where = "standard output" if options.output == "-" else printable(options.output)
    print(f"fxtio: {events:,} events, {human_size(writer.position)}: {where}", file=sys.stderr)
    return FINE
