"""The command `fxtio validate`: check traces against the rules of their formats, or explain and list the rules."""

from __future__ import annotations

import difflib
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from fxtio.cli import console, inputs
from fxtio.errors import FxtioError, add_file_name, described
from fxtio.report import human_size, json_document
from fxtio.rules import LEVELS, Rule
from fxtio.shared_folders import opener

if TYPE_CHECKING:
    from fxtio.validate import Selection, Validation
    from fxtio.validate.reports import Results, Unreadable

HELP = "Check traces against the rules of their formats"

_OUTPUTS = ("text", "json", "sarif", "junit")


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    files_help = "traces, or directories that have some; a trace may be compressed; - for standard input"
    parser.add_argument("files", nargs="*", metavar="FILE", help=files_help)
    parser.set_defaults(refuse=parser.error)
    rules = parser.add_argument_group("rules")
    profile_help = "the rules that count: required, recommended, all (default), or a program, such as perfetto"
    rules.add_argument("--profile", default="all", metavar="NAME", help=profile_help)
    rule_help = "only rules with an id like this, such as 'fxt.framing.*'; may be repeated"
    rules.add_argument("--rule", action="append", default=[], metavar="GLOB", help=rule_help)
    ignore_help = "no rules with an id like this; may be repeated"
    rules.add_argument("--ignore", action="append", default=[], metavar="GLOB", help=ignore_help)
    fail_help = (
        "exit with 1 only if a broken rule is of this level or above: required, recommended, interop, robustness; "
        "error: only if it is required, or something cannot be read; never (default: error, or all rules that "
        "--profile or --rule chooses)"
    )
    rules.add_argument(
        "--fail-on",
        choices=("error", *LEVELS, "never"),
        metavar="LEVEL",
        help=fail_help,
    )
    output = parser.add_argument_group("output")
    output.add_argument("--report", choices=_OUTPUTS, default="text", help="the form of the report (default: text)")
    output.add_argument("-o", "--output", default="-", metavar="FILE", help="write the report to a file")
    show_help = "show the bytes of the first N findings of each rule, in text (default: 1)"
    output.add_argument("--show", type=inputs.natural, default=1, metavar="N", help=show_help)
    inputs.add_format(parser, "all FILEs")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--explain", metavar="RULE", help="describe a rule, and read nothing")
    instead.add_argument("--list-rules", action="store_true", help="list the selected rules, and read nothing")
    inputs.add_examples(
        parser,
        "fxtio validate app.fxt",
        "fxtio validate --profile perfetto --fail-on required traces/",
        "fxtio validate --report sarif -o report.sarif *.fxt",
        "fxtio validate --explain fxt.framing.zero-size",
    )


def run(options: Namespace) -> int:
    """Check the traces, or print what was asked for instead; return the exit code."""
    from fxtio.validate import Selection

    if options.output != "-" and (options.explain is not None or options.list_rules):
        options.refuse("-o is for reports about traces; redirect standard output instead")
    if options.explain is not None:
        return _explain(options.explain)
    selection = Selection(options.profile, tuple(options.rule), tuple(options.ignore))
    if options.list_rules:
        return _list(selection, options)
    if not options.files:
        options.refuse("FILE is missing")
    options.fail_on = options.fail_on or selection.threshold
    files = _files(options)
    if options.output == "-":
        return _validate(files, options, sys.stdout.write, color=options.report == "text" and console.has_color())
    _refuse_to_overwrite(files, Path(options.output))
    with open(options.output, "w", encoding="utf-8", errors="backslashreplace", opener=opener) as file:
        return _validate(files, options, file.write, color=False)


def _refuse_to_overwrite(files: list[str], output: Path) -> None:
    """Check that the report does not go to a trace that is to be checked, or into one that is a directory.

    Raises:
        UsageError: it does.
    """
    for name in files:
        trace = Path(name)
        if (output.is_file() and trace.is_file() and output.samefile(trace)) or (
            trace.is_dir() and Path(os.path.realpath(output)).is_relative_to(os.path.realpath(trace))
        ):
            raise inputs.UsageError(f"{output}: the report cannot go to the trace that is checked ({name})")


def _validate(files: list[str], options: Namespace, write: Callable[[str], object], *, color: bool) -> int:
    """Check the traces and write the report; the text of each trace is written as soon as it was checked."""
    from fxtio.validate import reports
    from fxtio.validate.listing import text_of

    results: list[Validation | Unreadable] = []
    separator = ""
    for file in files:
        result = _check(file, options)
        results.append(result)
        if isinstance(result, reports.Unreadable):
            console.say(result.reason)
        elif options.report == "text":
            lines = text_of(result, file, shown=options.show, color=color)
            write(separator + "".join(f"{line}\n" for line in lines))
            separator = "\n"
    if options.report == "json":
        write(reports.json_of(results, options.fail_on))
    elif options.report == "sarif":
        write(reports.sarif_of(results))
    elif options.report == "junit":
        write(reports.junit_of(results, options.fail_on))
    return _code(results, options.fail_on)


def _code(results: Results, threshold: str) -> int:
    """Return the exit code."""
    from fxtio.validate.reports import Unreadable

    validations = [result for result in results if not isinstance(result, Unreadable)]
    if len(validations) < len(results):
        return console.REFUSED
    return console.FINE if all(result.is_valid(threshold) for result in validations) else console.FOUND


def _files(options: Namespace) -> list[str]:
    """Return the traces that the arguments name, with those in directories.

    Raises:
        UsageError: there are none in a directory, or it is a lake that keeps none.
    """
    from fxtio.formats import by_name
    from fxtio.io.source import is_directory
    from fxtio.validate import traces_in

    is_trace = options.format is not None and by_name(options.format).directory  # whatever is in the directory
    files = []
    for name in options.files:
        if name == "-" or is_trace or not is_directory(name):
            files.append(name)
            continue
        traces = [str(path) for path in traces_in(name)]
        if not traces:
            inputs.refuse_lake(name)
            raise inputs.UsageError(f"{name}: there is no trace in this directory")
        files += traces
    return files


def _check(file: str, options: Namespace) -> Validation | Unreadable:
    """Check a trace; an input that cannot be read, or is not a trace, is a result, too."""
    from fxtio.validate import validate
    from fxtio.validate.reports import Unreadable

    if file == "-" and sys.stdin is None:
        return Unreadable("-", "standard input is closed")
    try:
        with console.Progress(human_size) as progress:
            return validate(
                file,
                format=options.format,
                profile=options.profile,
                rules=options.rule,
                ignore=options.ignore,
                progress=progress,
            )
    except OSError as error:
        add_file_name(error, file)
        return Unreadable(file, described(error))
    except FxtioError as error:
        return Unreadable(file, str(error))


def _explain(rule_id: str) -> int:
    """Describe a rule.

    Raises:
        UsageError: there is no such rule; the message has those with a similar id.
    """
    from fxtio.conformance.kit import broken_traces
    from fxtio.validate import all_rules

    rules = {rule.id: rule for rule in all_rules()}
    if rule_id not in rules:
        similar = difflib.get_close_matches(rule_id, rules, cutoff=0.5)
        hint = f"; similar ones are {', '.join(similar)}" if similar else ""
        raise inputs.UsageError(f"there is no rule {rule_id!r}{hint}")
    rule = rules[rule_id]
    print(f"{rule.id}, level {rule.level}")
    print(f"  {rule.summary[:1].upper()}{rule.summary[1:]}.")
    facts = [("Section", rule.section)] if rule.section else []
    facts += [*rule.facts, ("Since", f"version {rule.since} of the kit")]
    if rule.id in broken_traces(rule.format):
        facts.append(("Example", f"fxtio synth --break {rule.id} -o broken"))
    width = max(len(title) for title, _ in facts)
    for title, text in facts:
        print(f"  {title:{width}}  {text}")
    return console.FINE


def _list(selection: Selection, options: Namespace) -> int:
    """List the rules that are selected."""
    from fxtio.formats import by_name
    from fxtio.validate import all_rules
    from fxtio.validate.reports import rule_json

    only = by_name(options.format).name if options.format else None
    rules: list[Rule] = [rule for rule in all_rules() if selection.has(rule) and only in (None, rule.format)]
    if options.report == "json":
        print(json_document({rule.id: rule_json(rule) for rule in rules}), end="")
    elif options.report == "text":
        console.print_table(["rule", "level", "what is wrong"], [(rule.id, rule.level, rule.summary) for rule in rules])
    else:
        options.refuse("--list-rules has no such report; --report is text or json")
    return console.FINE
