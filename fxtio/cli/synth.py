"""The command `fxtio synth`: write a synthetic trace of a shape, or one that breaks a rule of its format."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from fxtio.cli import console, inputs
from fxtio.report import counted, human_size, printable
from fxtio.shared_folders import opener

if TYPE_CHECKING:
    from fxtio.conformance.files import Place

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
    amount.add_argument(
        "--events", type=inputs.count, metavar="N", help="the number of events, such as 2M (default: 100k)"
    )
    amount.add_argument(
        "--size", type=inputs.size, metavar="SIZE", help="the number of bytes instead, as 500MB or 1GiB"
    )
    threads_help = "the number of threads (default: 8; 1000 for the shape threads)"
    parser.add_argument("--threads", type=inputs.count, metavar="T", help=threads_help)
    seed_help = "the seed of the random numbers (default: 0)"
    parser.add_argument("--seed", type=inputs.natural, default=0, metavar="S", help=seed_help)
    format_help = "the format of the trace (default: by the ending of FILE, else fxt)"
    parser.add_argument("--format", metavar="NAME", help=format_help)
    parser.add_argument("--list", action="store_true", help="print the shapes of all formats, and write nothing")
    break_help = "write a small trace that breaks this rule instead; list prints the rules"
    parser.add_argument("--break", dest="broken", metavar="RULE", help=break_help)
    inputs.add_examples(
        parser,
        "fxtio synth --list",
        "fxtio synth spans -o spans.fxt",
        "fxtio synth mixed -o big.fxt.zst --size 1GiB --threads 64 --seed 7",
        "fxtio synth flows -o - | fxtio info -",
        "fxtio synth --break fxt.framing.zero-size -o broken.fxt",
    )


def run(options: Namespace) -> int:
    """Write the trace or list the shapes, and return the exit code."""
    from fxtio import synth
    from fxtio.formats import by_name, by_suffix
    from fxtio.io.sink import whole_directory, whole_file

    if options.list:
        return _print_shapes()
    if options.broken is not None:
        return _break(options)
    if options.shape is None or options.output is None:
        options.refuse("SHAPE is missing; --list prints the shapes" if options.shape is None else "-o FILE is missing")
    by_ending = None if options.format else by_suffix(options.output)
    chosen = by_ending or by_name(options.format or "fxt")
    if options.shape not in (shapes := synth.shapes_of(chosen)):
        known = ", ".join(shapes) or "none at all"
        options.refuse(f"the format {chosen.name} has no shape {options.shape!r}, only {known}")
    inputs.refuse_terminal(options.output)
    show = human_size if options.size else (lambda done: counted(done, "event"))
    whole = whole_directory if chosen.directory else whole_file
    with console.Progress(show) as progress, whole(options.output) as target:
        events, written = synth.write(
            target,
            options.shape,
            format=chosen.name,
            events=options.events,
            size=options.size,
            threads=options.threads,
            seed=options.seed,
            progress=progress,
        )
    console.say_written(f"{counted(events, 'event')} ({human_size(written)})", options.output)
    return console.FINE


def _break(options: Namespace) -> int:
    """Write the kit's trace that breaks a rule, or list the rules for which there is one; return the exit code.

    Raises:
        UsageError: there is no such trace, or it does not fit the name of the target.
    """
    from fxtio.conformance.kit import broken_traces
    from fxtio.formats import by_name, by_suffix, formats
    from fxtio.rules import rule

    if options.broken == "list":
        ids = [rule_id for name in formats() for rule_id in broken_traces(name)]
        rules = map(rule, ids)
        console.print_table(["rule", "level", "what is wrong"], [(each.id, each.level, each.summary) for each in rules])
        return console.FINE
    excess = [name for name in ("shape", "events", "size", "threads", "format") if getattr(options, name) is not None]
    if excess or options.output is None:
        name = "SHAPE" if "shape" in excess else f"--{excess[0]}" if excess else ""
        options.refuse(f"--break writes a trace of its own, without {name}" if excess else "-o FILE is missing")
    name = options.broken.partition(".")[0]
    trace = broken_traces(name).get(options.broken) if name in formats() else None
    if trace is None:
        raise inputs.UsageError(f"there is no trace that breaks {options.broken!r}; `--break list` prints the rules")
    by_ending = by_suffix(options.output)
    if by_ending is not None and by_ending.name != name:
        endings = " or ".join(by_name(name).suffixes)
        raise inputs.UsageError(
            f"{printable(options.output)}: the ending is that of the format {by_ending.name}, but a trace that breaks "
            f"{options.broken} is of the format {name}; end the name with {endings}"
        )
    _copy(trace, options.output)
    console.say_written(f"a trace that breaks {options.broken}", options.output)
    return console.FINE


def _copy(trace: Place, output: str) -> None:
    """Write a trace where the option `-o` says.  Its bytes are as they are; no suffix compresses them.

    Raises:
        UsageError: a directory would be written over another one, or to standard output.
    """
    from fxtio.conformance.files import copy
    from fxtio.io.sink import whole_directory

    if trace.is_dir():
        if output == "-" or Path(output).exists():
            raise inputs.UsageError(f"{output}: the trace is a directory, whose name must not exist yet")
        with whole_directory(output) as target:
            copy(trace, target)
    elif output != "-":
        with open(output, "wb", opener=opener) as file:
            file.write(trace.read_bytes())
    else:
        inputs.refuse_terminal(output)
        sys.stdout.buffer.write(trace.read_bytes())


def _print_shapes() -> int:
    """Print the shapes of all formats and return the exit code."""
    from fxtio.formats import formats
    from fxtio.synth import shapes_of

    rows = [(name, *shape) for name, item in formats().items() for shape in shapes_of(item).items()]
    console.print_table(["format", "shape", "content"], rows)
    return console.FINE
