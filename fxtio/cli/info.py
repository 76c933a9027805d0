"""The command `fxtio info`: summarize a trace."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from fxtio.cli import console, inputs
from fxtio.report import ReportTable, human_value, printable, seconds, short_duration

if TYPE_CHECKING:
    from fxtio.exchange.opening import Imported
    from fxtio.formats import Trace
    from fxtio.report import Report
    from fxtio.timeline.answers import Answer, Overview

HELP = "Summarize a trace: format, size, time range, records by type, what took longest"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    inputs.add_input(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    inputs.add_examples(parser, "fxtio info app.fxt", "curl -s https://example.org/app.fxt.zst | fxtio info -")


def run(options: Namespace) -> int:
    """Print the summary and return the exit code."""
    with inputs.open_any(options) as trace:
        # The findings that are printed are those of the last reading, which the summary needs.
        overview = _overview(trace)
        report = inputs.report_of(trace).info(trace)
        if overview is not None:
            _add(report, overview, report.json.get("start") or 0)
    return console.print_report(report, trace, as_json=options.json)


def _overview(trace: Trace | Imported) -> Overview | None:
    """Return the longest and busiest of a trace; None if its format has no timeline."""
    from fxtio.timeline import Timeline
    from fxtio.timeline.answers import overview

    if not isinstance(trace, Timeline) and not inputs.format_of(trace).has_timeline:
        return None
    return overview(trace if isinstance(trace, Timeline) else trace.timeline())


def _add(report: Report, overview: Overview, origin: int) -> None:
    """Add the overview to the report."""
    report.json["labels"] = overview.labels
    if overview.labels:
        texts = (f"{printable(name)}={printable(text)}" for name, text in overview.labels.items())
        report.facts.append(("labels", ", ".join(texts)))
    if not overview.slices and overview.functions is None:
        return
    report.json |= _json(overview)
    if overview.functions is not None:
        _add_functions(report, overview.functions)
        return
    longest = [
        (short_duration(each.duration), f"{seconds(each.time - origin)} s", each.place, each.name)
        for each in overview.longest
    ]
    report.tables.append(ReportTable([">longest", ">at", "thread", "slice"], longest))
    busiest = [(short_duration(each.busy), each.slices, each.place) for each in overview.busiest]
    report.tables.append(ReportTable([">busy", ">slices", "busiest thread"], busiest))
    if overview.gaps:
        gaps = [(short_duration(duration), f"{seconds(begin - origin)} s") for begin, duration in overview.gaps]
        report.tables.append(ReportTable([">nothing ran for", ">at"], gaps))


def _add_functions(report: Report, functions: Answer) -> None:
    rows = [
        (human_value(row["self"], functions.unit), human_value(row["total"], functions.unit), row["name"])
        for row in functions.table.rows()
    ]
    unit = "" if functions.unit in ("samples", "bytes", "ns") else f", in {functions.unit}"
    headers = [">self", ">total", f"function by {functions.what}{unit}"]
    report.tables.append(ReportTable(headers, rows, functions.more))


def _json(overview: Overview) -> dict[str, Any]:
    return {
        "slices": overview.slices,
        "longest": [
            {"name": each.name, "time": each.time, "duration": each.duration, "thread": each.place}
            for each in overview.longest
        ],
        "busiest": [{"thread": each.place, "busy": each.busy, "slices": each.slices} for each in overview.busiest],
        "gaps": [{"time": begin, "duration": duration} for begin, duration in overview.gaps],
        "functions": None if overview.functions is None else console.answer_json(overview.functions),
    }
