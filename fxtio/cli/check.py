"""The command `fxtio check`: fail if a run is slower than a baseline, for continuous integration."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple
from xml.etree import ElementTree as ET

from fxtio.cli import console, inputs
from fxtio.cli.diff import (
    DEFAULT_FLOOR,
    Side,
    add_column,
    add_in_turn,
    column_of,
    difference_json,
    differences_table,
    floor,
    print_differences,
    side_of,
)
from fxtio.display import as_markdown
from fxtio.errors import shown
from fxtio.report import Report, ReportTable, counted, json_document, printable, short_duration

if TYPE_CHECKING:
    from fxtio.timeline.comparison import Comparison, Difference, Floor

HELP = "Fail if a run is slower than a baseline, or lacks a slice: for continuous integration"


_LAST = 20
"""How many runs of a lake are compared with."""


class Limit(NamedTuple):
    """A limit for names.

    Attributes:
        pattern: the names, a glob.
        floor: what is worse than that fails.
        text: the limit as it was written.
    """

    pattern: str
    floor: Floor
    text: str


class Verdict(NamedTuple):
    """The result of a limit for a name.

    Attributes:
        name: the name, or the pattern of a limit that no name matches.
        limit: the limit.
        difference: how the name differs, None where no name matches.
        failure: the reason why the check fails, None if it does not.
    """

    name: str
    limit: Limit
    difference: Difference | None
    failure: str | None

    @property
    def is_unclear(self) -> bool:
        """Whether the runs show a difference that may be by chance."""
        return self.difference is not None and self.difference.change == "unclear"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="the run that is checked, or several runs")
    baseline_help = (
        "the run, or runs, to compare with; or a lake, of which the latest runs of the same program are taken"
    )
    parser.add_argument("--baseline", nargs="+", required=True, metavar="FILE", help=baseline_help)
    last_help = f"compare with the latest N runs in the lake, `all` compares with all (default: {_LAST})"
    parser.add_argument("--last", type=inputs.limit, default=_LAST, metavar="N", help=last_help)
    where_help = (
        "only with runs of the lake where label:branch=main, host=web1 and so on; may be repeated, all must hold"
    )
    parser.add_argument("--where", metavar="CONDITION", action="append", default=[], help=where_help)
    inputs.add_format(parser, "all FILEs")
    limit_help = (
        "how much slower, or how many more calls, the slices with this name (a glob) may have, in percent and in time "
        f"per run; may be repeated; a name without any slice fails (default: '*={DEFAULT_FLOOR.replace('%', '%%')}')"
    )
    parser.add_argument("--limit", type=limit, action="append", metavar="NAME=LIMIT", help=limit_help)
    add_in_turn(parser)
    add_column(parser)
    parser.add_argument(
        "--report", choices=("text", *_REPORTS), default="text", help="the form of the report (default: text)"
    )
    parser.add_argument("-o", "--output", metavar="OUT", help="write a report that is no text to a file")
    inputs.add_examples(
        parser,
        "fxtio check new.fxt --baseline main.fxt",
        "fxtio check new*.fxt --baseline main*.fxt --limit request=+5%,1ms --limit 'db.*=+20%'",
        "fxtio check new.fxt --baseline main.fxt --report junit -o speed.xml",
        "fxtio check new*.fxt --baseline runs.lake --last 20 --where label:branch=main",
    )


def limit(text: str) -> Limit:
    """Parse a limit, for a parser: `request=+5%,1ms`."""
    pattern, equals, amount = text.rpartition("=")
    if not equals or not pattern:
        raise ArgumentTypeError(f"{shown(text)} is not a limit; write NAME=+5%,1ms")
    return Limit(pattern, floor(amount), amount)


def run(options: Namespace) -> int:
    """Print the report and return the exit code."""
    from fxtio.io.sink import whole_file

    if options.report == "text" and options.output is not None:
        raise inputs.UsageError("-o writes the report of --report json, junit or markdown")
    before, after = _sides(options)
    limits = options.limit or [limit(f"*={DEFAULT_FLOOR}")]
    pairs = [(each, _comparison(each, before, after, in_turn=options.in_turn)) for each in limits]
    verdicts = [verdict for each, comparison in pairs for verdict in _verdicts(each, comparison)]
    advice = max((comparison for _, comparison in pairs), key=lambda each: each.needed).advice
    failed = [verdict for verdict in verdicts if verdict.failure is not None]
    if options.report != "text":
        text = _REPORTS[options.report](verdicts, advice, before, after)
        if options.output is None:
            sys.stdout.write(text)
        else:
            with whole_file(options.output) as sink:
                sink.write(text.encode())
    if options.report == "text" or options.output is not None:
        _print(verdicts, failed, advice)
    return max(before.code, after.code, console.FOUND if failed else console.FINE)


def _sides(options: Namespace) -> tuple[Side, Side]:
    """Read the runs of both sides."""
    from fxtio.lake.layout import is_lake

    if not any(map(is_lake, options.baseline)):
        if options.where:
            raise inputs.UsageError("--where chooses runs of a lake, and the baseline is none")
        inputs.refuse_two_streams([*options.baseline, *options.files])
        return side_of(options.baseline, options), side_of(options.files, options)
    if len(options.baseline) > 1:
        raise inputs.UsageError("a lake is the whole baseline")
    if options.in_turn:
        raise inputs.UsageError("--in-turn is for two sides that were recorded together, and a lake has old runs")
    inputs.refuse_two_streams(options.files)
    after = side_of(options.files, options)
    return _of_lake(options, after), after


def _of_lake(options: Namespace, after: Side) -> Side:
    """Return the latest runs of the same program in a lake; findings of old runs do not fail a check."""
    from fxtio.lake import Lake
    from fxtio.lake.questions import Part

    files = [file for file in options.files if file != "-"]
    part, column = Part(options.where), column_of(options)
    found = Lake(options.baseline[0]).baseline(files, after.programs, part=part, last=options.last, column=column)
    traces = [
        {
            "name": row["url"],
            "losses": row["losses"],
            "findings": {"counts": {"all": row["findings"]} if row["findings"] else {}, "first": []},
        }
        for row in found.traces
    ]
    return Side([*found.runs], traces=traces)


def _comparison(limit: Limit, before: Side, after: Side, *, in_turn: bool) -> Comparison:
    """Compare the names of a limit."""
    from fxtio.timeline.comparison import compare

    own_before, own_after = (
        [{name: times for name, times in run.items() if fnmatchcase(name, limit.pattern)} for run in side.runs]
        for side in (before, after)
    )
    return compare(own_before, own_after, limit.floor, in_turn=in_turn)


def _verdicts(limit: Limit, comparison: Comparison) -> list[Verdict]:
    """Return the verdicts of a limit; it fails closed where no slice has such a name."""
    differences = comparison.differences
    if not any(min(each.calls) for each in differences):
        return [Verdict(limit.pattern, limit, None, f"no slice on both sides has the name {limit.pattern!r}")]
    return [Verdict(each.name, limit, each, _failure(each)) for each in differences]


def _failure(difference: Difference) -> str | None:
    from fxtio.timeline.comparison import Change

    cost = short_duration(round(abs(difference.cost)))
    match difference.change:
        case Change.SLOWER:
            chance = "" if difference.p is None else f" (p = {difference.p:.2g})"
            return f"{difference.ratio:+,.1%} for the {difference.by} call, {cost} for a run{chance}"
        case Change.MORE:
            return f"{difference.calls[1]:,.0f} calls, not {difference.calls[0]:,.0f}, {cost} for a run"
        case Change.GONE:
            return "the slice is missing"
        case _:
            return None


def _print(verdicts: list[Verdict], failed: list[Verdict], advice: str) -> None:
    unclear = [verdict for verdict in verdicts if verdict.is_unclear]
    differences = [verdict.difference for verdict in (*failed, *unclear) if verdict.difference is not None]
    if differences:
        print_differences(differences)
        print()
    for verdict in failed:
        print(f"FAILED {printable(verdict.name)} ({verdict.limit.text}): {printable(verdict.failure or '')}")
    print(_summary(verdicts))
    if advice:
        print(f"{advice} (fxtio check new*.fxt --baseline main*.fxt)")


def _summary(verdicts: list[Verdict]) -> str:
    """Return how many names were checked, and with which result."""
    failed, unclear = sum(each.failure is not None for each in verdicts), sum(each.is_unclear for each in verdicts)
    short = sum(each.difference is not None and each.difference.is_too_short(each.limit.floor) for each in verdicts)
    of_short = f"; {short:,} too short to fail: less than the time of their limit per run (--limit)" if short else ""
    of_unclear = f", {unclear:,} unclear" if unclear else ""
    return f"{len(verdicts):,} checked, {failed:,} failed{of_unclear}{of_short}"


def _properties(noun: str, side: Side) -> Iterator[tuple[str, str]]:
    """Yield names and values of properties: the traces of a side, what is not shown, and the numbers of findings."""
    for trace in side.traces:
        yield noun, trace["name"]
        for phrase, count in trace["losses"].items():
            yield f"{noun}.not-shown", f"{trace['name']}: {count:,} {phrase}"
        for rule, count in trace["findings"]["counts"].items():
            yield f"{noun}.findings", f"{trace['name']}: {count:,} {rule}"


def _json(verdicts: list[Verdict], advice: str, before: Side, after: Side) -> str:
    def row(verdict: Verdict) -> dict[str, Any]:
        known = {} if verdict.difference is None else difference_json(verdict.difference)
        return {"name": verdict.name, "limit": verdict.limit.text, "failure": verdict.failure} | known

    failed = sum(verdict.failure is not None for verdict in verdicts)
    traces = {"baseline": before.traces, "traces": after.traces}
    checked = [row(verdict) for verdict in verdicts]
    return json_document({"failed": failed, "advice": advice, "checked": checked, **traces})


def _junit(verdicts: list[Verdict], advice: str, before: Side, after: Side) -> str:
    """Return the report as JUnit XML: each name is a case; losses and findings of the traces are properties."""
    failures = sum(verdict.failure is not None for verdict in verdicts)
    counts = {"tests": str(len(verdicts)), "failures": str(failures), "errors": "0"}
    suites = ET.Element("testsuites", {"name": "fxtio check", **counts})
    suite = ET.SubElement(suites, "testsuite", {"name": "fxtio check", **counts})
    properties = ET.SubElement(suite, "properties")
    of_advice = [("advice", advice)] if advice else []
    for name, value in (*of_advice, *_properties("baseline", before), *_properties("trace", after)):
        ET.SubElement(properties, "property", name=name, value=printable(value))
    for verdict in verdicts:
        attributes = {"name": printable(verdict.name), "classname": f"limit {verdict.limit.text}"}
        case = ET.SubElement(suite, "testcase", attributes)
        if verdict.failure is not None:
            ET.SubElement(case, "failure", message=printable(verdict.failure))
    ET.indent(suites)
    return ET.tostring(suites, encoding="unicode") + "\n"


def _markdown(verdicts: list[Verdict], advice: str, before: Side, after: Side) -> str:
    """Return the report as Markdown: what failed comes first, then other changes, then what is unclear."""
    failed = [each for each in verdicts if each.failure is not None]
    pairs = [(each.difference, each) for each in verdicts if each.difference is not None]
    shown = [pair for pair in pairs if pair[1].failure or pair[0].change != "same"]
    shown.sort(key=lambda pair: (pair[1].failure is None, pair[1].is_unclear))
    table = differences_table([difference for difference, _ in shown])
    results = [f"failed {verdict.limit.text}" if verdict.failure else "" for _, verdict in shown]
    rows = [(*row, result) for row, result in zip(table.rows, results, strict=True)]
    title = f"{f'{len(failed):,}' if failed else 'None'} of {counted(len(verdicts), 'name')} failed"
    notes = [f"FAILED {each.name} ({each.limit.text}): {each.failure}" for each in failed if each.difference is None]
    notes += [_summary(verdicts), *([advice] if advice else [])]
    for noun, side in (("the baseline", before), ("the runs", after)):
        number = sum(bool(trace["findings"]["counts"]) for trace in side.traces)
        if number:
            notes.append(f"{number:,} of {counted(len(side.traces), 'trace')} of {noun} have findings")
    tables = [ReportTable([*table.headers, "result"], rows)] if rows else []
    return as_markdown(Report(title, tables=tables, notes=notes)) + "\n"


_REPORTS = {"json": _json, "junit": _junit, "markdown": _markdown}
"""The functions that make reports, by their form."""
