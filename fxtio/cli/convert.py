"""The command `fxtio convert`: write a trace in another format, see `fxtio.exchange.convert`."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from fxtio.cli import console, inputs
from fxtio.report import human_size, json_document, printable

if TYPE_CHECKING:
    from fxtio.exchange.filter import Simplification
    from fxtio.timeline import Timeline

HELP = "Convert a trace to another format"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", metavar="IN", nargs="?", help="the trace, may be compressed; - for standard input")
    output_help = (
        "the new file or directory; .gz, .zst and .xz compress a file; - for standard output; "
        "the http:// or https:// URL of a receiver of OTLP is sent the spans"
    )
    parser.add_argument("output", metavar="OUT", nargs="?", help=output_help)
    parser.add_argument("--to", metavar="FORMAT", help="the format of OUT (default: by its ending)")
    inputs.add_format(parser, "IN")
    parser.add_argument("--table", metavar="NAME", help="write only this table, to a file (parquet, arrow and csv)")
    parser.add_argument("--strict", action="store_true", help="write nothing if something would be lost")
    parser.add_argument("--list", action="store_true", help="print the formats, and convert nothing")
    parser.add_argument("--json", action="store_true", help="print the losses, or the formats, as JSON")
    inputs.add_selection(parser, "--until")
    group = inputs.add_simplification(parser, "What is left out is counted, and is no loss for --strict.")
    group.add_argument("--drop-args", action="store_true", help="leave out all arguments")
    parser.set_defaults(refuse=parser.error)
    inputs.add_examples(
        parser,
        "fxtio convert uftrace.data trace.fxt",
        "fxtio convert result.json trace.fxt.zst",
        "fxtio convert --strict trace.fxt trace.json.gz",
        "fxtio convert big.fxt part.json --from 1.2s --until 1.4s --thread main",
        "fxtio convert --min-duration 10us --max-depth 20 --drop-args uftrace.data small.fxt",
        "fxtio convert app.mlpd - --to chrome | gzip > app.json.gz",
        "fxtio convert trace.fxt tables.parquet",
        "fxtio convert --table slices trace.fxt slices.csv",
        "fxtio convert app.fxt http://127.0.0.1:4318",
        "fxtio convert --list",
    )


def run(options: Namespace) -> int:
    """Convert the trace or list the formats, and return the exit code."""
    from fxtio.exchange.convert import format_of
    from fxtio.exchange.filter import Simplification

    if options.list:
        return _print_formats(as_json=options.json)
    if options.file is None or options.output is None:
        options.refuse("IN and OUT are needed; --list prints the formats")
    if options.to is not None and options.to[:1] in "+-0123456789":
        raise inputs.UsageError(f"--to {options.to}: --to is the format of OUT; the end of a range of times is --until")
    if options.output == "-" and options.to is None:
        raise inputs.UsageError("--to is needed for standard output")
    inputs.refuse_terminal(options.output)
    if options.output == "-" and options.json:
        raise inputs.UsageError("--json and the trace cannot both go to standard output")
    to = options.to or format_of(options.output)
    simplification = Simplification(options.min_duration, options.max_depth, options.drop_args)
    with inputs.opened_timeline(options.file, options.format) as timeline:
        return convert_selected(
            timeline, options, to, simplification=simplification, as_json=options.json,
            strict=options.strict, table=options.table,
        )  # fmt: skip


def convert_selected(
    timeline: Timeline,
    options: Namespace,
    to: str,
    *,
    simplification: Simplification | None = None,
    as_json: bool = False,
    **others: Any,
) -> int:
    """Write what the options of `add_selection` select to the argument OUT, print what was lost, return the exit code.

    `to` is the format to write; `others` are further arguments of `fxtio.exchange.convert.convert`.
    """
    from fxtio.exchange.convert import convert

    selection = inputs.selection_of(options, timeline)
    empty: list[str] = []
    with console.Progress(human_size) as progress:
        losses = convert(
            timeline, options.output, to=to, selection=selection, simplification=simplification,
            when_empty=lambda: empty.append(inputs.nothing_of(timeline, "events", selection)),
            when_sent=progress, **others,
        )  # fmt: skip
    if as_json:
        result: dict[str, Any] = {"from": timeline.format, "to": to, "losses": dict(losses)}
        print(json_document(result), end="")
    elif losses:
        is_whole = simplification is None or simplification.is_nothing
        reason = f"{to} cannot express everything in" if is_whole else "not written of"
        console.say(f"{reason} {timeline.name}:")
        for phrase, number in losses.most_common():
            print(f"  {number:,}: {printable(phrase)}", file=sys.stderr)
    return console.print_end(timeline, *empty[:1] or [""], with_losses=False)


def _print_formats(*, as_json: bool) -> int:
    """Print which formats can be read and written, and return the exit code."""
    from fxtio.exchange import exchanges
    from fxtio.exchange.convert import exporters
    from fxtio.formats import formats

    writable = exporters()
    rows = [(name, each.title, each.suffixes, each.has_timeline, name in writable) for name, each in formats().items()]
    rows += [(name, each.title, each.suffixes, each.imports, each.exports) for name, each in exchanges().items()]
    if as_json:
        keys = ("name", "title", "suffixes", "read", "written")
        print(json_document([dict(zip(keys, row, strict=True)) for row in rows]), end="")
        return console.FINE
    yes = ("", "yes")
    table = [(name, title, " ".join(suffixes), yes[read], yes[write]) for name, title, suffixes, read, write in rows]
    console.print_table(["format", "title", "endings", "read", "written"], table)
    return console.FINE
