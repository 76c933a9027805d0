"""The command `fxtio merge`: combine several traces into one.

Traces of one format are combined record by record, see `fxtio.formats.MergeRoom`; others by way of their timelines.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from fxtio.cli import console, inputs
from fxtio.report import counted

if TYPE_CHECKING:
    from fxtio.exchange.convert import Losses
    from fxtio.exchange.opening import Imported
    from fxtio.formats import Trace
    from fxtio.timeline.together import Placed

HELP = "Combine several traces into one"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    help_ = "the traces, of any formats; may be compressed; - for standard input"
    parser.add_argument("files", nargs="+", metavar="FILE", help=help_)
    inputs.add_format(parser, "all FILEs")
    inputs.add_output(parser)
    parser.add_argument(
        "--to",
        metavar="FORMAT",
        help="the format of OUT (default: by its ending, where .tar is an archive for Perfetto, or that of all FILEs)",
    )
    inputs.add_offsets(parser)
    inputs.add_examples(
        parser,
        "fxtio merge -o all.fxt client.fxt server.fxt",
        "fxtio merge -o app.fxt app.fxt app.fxt.*.part",
        "ssh server cat app.fxt.zst | fxtio merge -o both.fxt.zst app.fxt -",
        "fxtio merge -o both.data client.data server.data",
        "fxtio merge -o all.pftrace app.fxt uftrace.data profile.json",
        "fxtio merge -o all.tar client.fxt server.fxt",
        "fxtio merge -o all.fxt app.fxt old.json --offset old.json=+1.5ms",
    )


def run(options: Namespace) -> int:
    """Write the new trace and return the exit code."""
    from fxtio.exchange.convert import convert
    from fxtio.exchange.perfetto.archive import is_archive, write_archive
    from fxtio.timeline import Timeline
    from fxtio.timeline.together import Together

    inputs.refuse_two_streams(options.files)
    inputs.refuse_terminal(options.output)
    with ExitStack() as stack:
        files = [Namespace(file=file, format=options.format) for file in options.files]
        opened = [stack.enter_context(inputs.open_any(file)) for file in files]
        if options.to is None and is_archive(options.output):
            return _lay_together(opened, "an archive for Perfetto", options, write_archive)
        to = options.to or _format_of(options.output, opened)
        traces = [each for each in opened if not isinstance(each, Timeline) and each.format == to]
        if len(traces) == len(opened) and not options.offset:
            return _merge(traces, options.output)
        return _lay_together(opened, to, options, lambda placed, output: convert(Together(placed), output, to=to))


def _format_of(output: str, opened: Sequence[Trace | Imported]) -> str:
    """Return the format to write: that of the ending, or else that of all traces.

    Raises:
        UsageError: they have several.
    """
    from fxtio import exchange, formats

    named = exchange.by_suffix(output) or formats.by_suffix(output)
    used = sorted({each.format for each in opened})
    if named is None and len(used) > 1:
        raise inputs.UsageError(f"{output}: say the format (--to), as the traces have several: {', '.join(used)}")
    return used[0] if named is None else named.name


def _merge(traces: Sequence[Trace], output: str) -> int:
    """Combine traces of one format record by record."""
    written = inputs.format_of(traces[0]).merge.merge(traces, output)
    codes = [console.print_findings(trace, trace.name) for trace in traces]
    console.say_written(written, output)
    return max(codes)


def _lay_together(
    opened: Sequence[Trace | Imported], what: str, options: Namespace, write: Callable[[Sequence[Placed], str], Losses]
) -> int:
    """Combine traces by way of their timelines.

    Args:
        opened: the traces.
        what: what they become, for the message.
        options: those of the command.
        write: writes the traces with their places to a path, and returns what was lost.
    """
    from fxtio.timeline import Timeline

    timelines = [each if isinstance(each, Timeline) else each.timeline() for each in opened]
    traces = inputs.placed(timelines, options)
    losses = write(traces, options.output)
    console.Progress.clear()
    for each in traces:
        console.say(str(each))
    for phrase, number in losses.most_common():
        console.say(f"not written: {phrase} ({number:,})")
    codes = [console.print_findings(each, each.name, with_losses=False) for each in timelines]
    console.say_written(f"{counted(len(timelines), 'trace')} as {what}", options.output)
    return max(codes)
