"""The command `fxtio pack`: compress a trace such that parts of it can be read without all before them."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from fxtio.cli import console, inputs

HELP = "Compress a trace such that any part of it can be read at once"

_SUFFIX = ".zst"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    inputs.add_input(parser)
    help_ = "the packed trace, a zstd file; - for standard output (default: FILE.zst)"
    parser.add_argument("output", metavar="OUT", nargs="?", help=help_)
    inputs.add_examples(
        parser,
        "fxtio pack big.fxt",
        "fxtio pack big.fxt.gz big.fxt.zst",
        "fxtio pack big.fxt.zst big.fxt.zst",
        "ssh server cat app.fxt | fxtio pack - app.fxt.zst",
    )


def run(options: Namespace) -> int:
    """Write the packed trace and return the exit code."""
    from fxtio.io.source import without_compression

    output: str | None = options.output
    if output is None and options.file == "-":
        raise inputs.UsageError("the trace comes from standard input: say what to write, OUT")
    if output is None:
        output = without_compression(options.file) + _SUFFIX
    if output != "-" and not output.endswith(_SUFFIX):
        raise inputs.UsageError(f"{output} does not end in {_SUFFIX}: a packed trace is a zstd file")
    inputs.refuse_terminal(output)
    with inputs.open_trace(options) as trace:
        room = inputs.format_of(trace).pack
        if room is None:
            raise inputs.UsageError(f"{trace.name} is {trace.format}; only traces of the format fxt are packed")
        written = room.pack(trace, output)
        code = console.print_findings(trace)
        console.say_written(written, output)
    return code
