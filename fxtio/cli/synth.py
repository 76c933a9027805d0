"""The command `fxtio synth`: write a synthetic trace of a shape; `--list` prints the shapes of every format."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from fxtio.cli.common import FINE, Progress, UsageError, add_examples, count, print_table, size
from fxtio.report import human_size, printable

NAME = "synth"
HELP = "Write a synthetic trace of any size"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("shape", metavar="SHAPE", nargs="?", help="the kind of content; --list prints the shapes")
    parser.set_defaults(refuse=parser.error)
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="the new trace; .gz, .zst and .xz compress it; - for standard output",
    )
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument("--events", type=count, metavar="N", help="the number of events, as 5000 or 2M (default: 100k)")
    amount.add_argument("--size", type=size, metavar="SIZE", help="the number of bytes instead, as 500MB or 1GiB")
    threads_help = "the number of threads (default: 8; 1000 for the shape threads)"
    parser.add_argument("--threads", type=count, metavar="T", help=threads_help)
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="the seed of the random numbers (default: 0)")
    format_help = "the format of the trace (default: by the ending of FILE, else fxt)"
    parser.add_argument("--format", metavar="NAME", help=format_help)
    parser.add_argument("--list", action="store_true", help="print the shapes of all formats, and write nothing")
    add_examples(
        parser,
        "fxtio synth --list",
        "fxtio synth spans -o spans.fxt",
        "fxtio synth mixed -o big.fxt.zst --size 1GiB --threads 64 --seed 7",
        "fxtio synth flows -o - | fxtio info -",
    )


def run(options: Namespace) -> int:
    """Write the trace or list the shapes, and return the exit code."""
    from fxtio.formats import by_name, by_suffix

    if options.list:
        return _print_shapes()
    if options.shape is None or options.output is None:
        options.refuse("SHAPE is missing; --list prints the shapes" if options.shape is None else "-o FILE is missing")
    by_ending = None if options.format else by_suffix(options.output)
    chosen = by_ending or by_name(options.format or "fxt")
    room = chosen.synth
    if options.shape not in room.SHAPES:
        known = ", ".join(room.SHAPES)
        options.refuse(f"the format {chosen.name} has no shape {options.shape!r}, only {known}")
    if options.output == "-" and chosen.directory:
        raise UsageError(f"a trace in the format {chosen.name} is a directory; it cannot be written to standard output")
    if options.output == "-" and sys.stdout.isatty():
        raise UsageError("a trace is binary and is not written to a terminal; redirect standard output")
    if options.seed < 0:
        raise UsageError("the seed cannot be negative")
    show = human_size if options.size else (lambda done: f"{done:,} events")
    with Progress(show) as progress:
        events, written = room.synth(
            options.output,
            options.shape,
            events=options.events,
            size=options.size,
            threads=options.threads,
            seed=options.seed,
            progress=progress,
        )
    target = "standard output" if options.output == "-" else printable(options.output)
    print(f"fxtio: wrote {events:,} events ({human_size(written)}) to {target}", file=sys.stderr)
    return FINE


def _print_shapes() -> int:
    """Print the shapes of all formats and return the exit code."""
    from fxtio.formats import formats

    rows = [(name, *shape) for name, item in formats().items() for shape in item.synth.SHAPES.items()]
    print_table(["format", "shape", "content"], rows)
    return FINE
