"""The command `fxtio conformance`: judge a reader or writer with the conformance kit, and look at the kit."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from fxtio.cli import console, inputs
from fxtio.cli.parser import add_action
from fxtio.errors import shown
from fxtio.report import counted
from fxtio.shared_folders import opener

if TYPE_CHECKING:
    from fxtio.conformance.kit import Kit

HELP = "Judge a reader or writer of traces with the conformance kit"

HARNESS_VARIABLE = "FXTIO_HARNESS"
"""The environment variable that names the harness, with its arguments as in a shell."""

_LINT_SECONDS = 300


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    inputs.add_examples(
        parser,
        "fxtio conformance new-harness c my-harness",
        "fxtio conformance run -- ./my-harness/harness",
        f"{HARNESS_VARIABLE}=./my-harness/harness fxtio conformance run --report junit -o report.xml",
        "fxtio conformance COMMAND --help",
    )
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    _add_run(add_action(actions, "run", "Give the cases of the kit to a harness, and judge what it returns", _run))
    _add_list(add_action(actions, "list", "List the cases of the kit", _list))
    _add_copy(add_action(actions, "copy", "Copy the kit, for use without Python", _copy))
    _add_lint(add_action(actions, "lint", "Check that a kit is complete and current", _lint))
    _add_new(add_action(actions, "new-harness", "Write a harness that runs and passes one case", _new_harness))
    _add_scoreboard(add_action(actions, "scoreboard", "Compare several runs on one page", _scoreboard))


def _add_kit(parser: ArgumentParser) -> None:
    parser.add_argument("--kit", metavar="DIR", help="the folder of the kit (default: the kit of this fxtio)")


def _add_selection(parser: ArgumentParser) -> None:
    parser.add_argument("--format", metavar="NAME", action="append", default=[], help="only cases of this format")
    operation_help = "only cases that a reader is given (read), or scenarios that a producer is asked to write (write)"
    parser.add_argument("--operation", choices=("read", "write"), default="", help=operation_help)
    case_help = "only cases whose id matches, as 'fxt/valid/*'; may be given several times"
    parser.add_argument("--case", metavar="GLOB", action="append", default=[], help=case_help)
    _add_kit(parser)


def _seconds(text: str) -> float:
    """Parse a positive number of seconds."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise ArgumentTypeError(f"{shown(text)} is not a positive number of seconds")
    return value


def _add_run(parser: ArgumentParser) -> None:
    parser.add_argument(
        "harness",
        metavar="HARNESS",
        nargs="*",
        help=f"the harness and its arguments, after -- (default: those in the variable {HARNESS_VARIABLE})",
    )
    mode_help = "a process for each case (exec, the default) or one for all (serve)"
    parser.add_argument("--mode", choices=("exec", "serve"), default="exec", help=mode_help)
    _add_selection(parser)
    parser.add_argument("--known", metavar="FILE", help="a TOML file with the cases that are known to fail")
    parser.add_argument(
        "--jobs", metavar="N", type=inputs.count, help="how many harnesses run at once (default: the cores)"
    )
    timeout_help = "the most time that the harness may take for a case (default: 30)"
    parser.add_argument("--timeout", metavar="SECONDS", type=_seconds, default=30.0, help=timeout_help)
    parser.add_argument("--name", metavar="TEXT", default="", help="the name of the testee in reports")
    parser.add_argument("--report", choices=("json", "junit", "html"), help="the kind of the report that -o writes")
    parser.add_argument("-o", "--output", metavar="FILE", help="the file for the report; - for standard output")
    parser.add_argument("--verbose", action="store_true", help="list the cases that do not fail, too")
    inputs.add_examples(
        parser,
        "fxtio conformance run -- ./harness",
        "fxtio conformance run --mode serve --format fxt -- node harness.js",
        "fxtio conformance run --case 'fxt/valid/*' --known known.toml --report junit -o report.xml -- ./harness",
    )


def _add_list(parser: ArgumentParser) -> None:
    _add_selection(parser)
    parser.add_argument("--json", action="store_true", help="print JSON, with the tags and rules of each case")
    inputs.add_examples(
        parser,
        "fxtio conformance list",
        "fxtio conformance list --format fxt --case '*/stories/*'",
        "fxtio conformance list --format uftrace --operation write",
    )


def _add_copy(parser: ArgumentParser) -> None:
    parser.add_argument("directory", metavar="DIR", help="the new directory")
    _add_kit(parser)
    inputs.add_examples(parser, "fxtio conformance copy fxtio-kit")


def _add_lint(parser: ArgumentParser) -> None:
    parser.add_argument("directory", metavar="DIR", nargs="?", help="the kit (default: the kit of this fxtio)")
    inputs.add_examples(parser, "fxtio conformance lint", "fxtio conformance lint my-copy-of-the-kit")


def _add_new(parser: ArgumentParser) -> None:
    parser.add_argument("language", metavar="LANGUAGE", help="c, go, javascript, ocaml, python or rust")
    parser.add_argument("directory", metavar="DIR", help="the new directory")
    _add_kit(parser)
    inputs.add_examples(parser, "fxtio conformance new-harness rust my-harness")


def _add_scoreboard(parser: ArgumentParser) -> None:
    parser.add_argument("report", metavar="REPORT", nargs="+", help="a report that run --report json has written")
    parser.add_argument("-o", "--output", metavar="FILE", default="-", help="the page (default: standard output)")
    inputs.add_examples(parser, "fxtio conformance scoreboard a.json b.json -o scoreboard.md")


def run(options: Namespace) -> int:
    """Do what the arguments say, and return the exit code."""
    code: int = options.action(options)
    return code


def _run(options: Namespace) -> int:
    from fxtio.conformance import reports
    from fxtio.conformance.harness import Limits
    from fxtio.conformance.judge import KnownFailures, standard_judges
    from fxtio.conformance.kit import read_kit
    from fxtio.conformance.runner import Runner

    command = _command(options)
    if (options.report is None) != (options.output is None):
        options.refuse("--report and -o belong together")
    if options.output is not None and not Path(options.output).parent.is_dir():  # known only after a long run otherwise
        raise inputs.UsageError(f"{options.output}: there is no such directory")
    kit = read_kit(options.kit)
    cases = kit.select(options.format, options.case, options.operation)
    known = KnownFailures() if options.known is None else KnownFailures.read(options.known)
    runner = Runner(
        kit,
        command,
        standard_judges(),
        mode=options.mode,
        limits=Limits(seconds=options.timeout),
        known=known,
        name=options.name,
    )
    with console.Progress(lambda number: counted(number, "case")) as progress:
        result = runner.run(cases, jobs=options.jobs or inputs.processors(), progress=progress)
    if options.output is not None:
        _write(reports.REPORTS[options.report](result), options.output)
    if options.output != "-":
        print(reports.table(result, verbose=options.verbose))
    return console.FINE if result.successful else console.FOUND


def _command(options: Namespace) -> list[str]:
    """Return the harness and its arguments.

    Raises:
        UsageError: the variable cannot be parsed.
    """
    if options.harness:
        return list(options.harness)
    try:
        command = shlex.split(os.environ.get(HARNESS_VARIABLE, ""))
    except ValueError as error:
        raise inputs.UsageError(f"the variable {HARNESS_VARIABLE} cannot be parsed: {error}") from error
    if not command:
        options.refuse(f"HARNESS is missing: give it after --, or in the variable {HARNESS_VARIABLE}")
    return command


def _write(text: str, target: str) -> None:
    """Write text to a file or to standard output."""
    if target == "-":
        print(text, end="")
    else:
        with open(target, "w", encoding="utf-8", opener=opener) as file:
            file.write(text)


def _list(options: Namespace) -> int:
    from fxtio.conformance.kit import read_kit
    from fxtio.conformance.reports import cases_as_json

    cases = read_kit(options.kit).select(options.format, options.case, options.operation)
    if options.json:
        print(cases_as_json(cases), end="")
    else:
        console.print_table(["operation", "case", "content"], [(case.operation, case.id, case.title) for case in cases])
    return console.FINE


def _new_directory(name: str) -> Path:
    """Return the path of a directory that does not exist, or is empty.

    Raises:
        UsageError: it exists.
    """
    path = Path(name)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise inputs.UsageError(f"{name} exists already")
    return path


def _copy(options: Namespace) -> int:
    from fxtio.conformance.files import copy
    from fxtio.conformance.kit import find_folder

    folder, target = find_folder(options.kit), _new_directory(options.directory)
    copy(folder, target)
    console.say(f"copied the kit to {options.directory}; begin with its README.md")
    return console.FINE


def _lint(options: Namespace) -> int:
    from fxtio.conformance.files import as_folder
    from fxtio.conformance.kit import KitError, read_kit

    try:
        kit = read_kit(options.directory)
    except KitError as error:
        print(f"fxtio: {error}", file=sys.stderr)
        return console.FOUND
    with as_folder(kit.folder) as folder:
        script = folder / "assemble.py"
        if not script.is_file():
            raise inputs.UsageError(f"{script} is missing, so the kit cannot be checked")
        child = subprocess.run(
            [sys.executable, "-I", str(script), "--check"], check=False, timeout=_LINT_SECONDS, stdin=subprocess.DEVNULL
        )
    if child.returncode != 0:
        console.say("the kit is not as it should be; the lines above say where")
        return console.FOUND
    print(f"{counted(len(kit.cases), 'case')} of the kit {kit.version}: {_case_counts(kit)}")
    return console.FINE


def _case_counts(kit: Kit) -> str:
    """Return the number of cases of each format and operation as text."""
    groups = [(case.format, case.operation) for case in kit.cases]
    return ", ".join(f"{groups.count(group)} to {group[1]} in {group[0]}" for group in dict.fromkeys(groups))


def _new_harness(options: Namespace) -> int:
    from fxtio.conformance.files import copy
    from fxtio.conformance.kit import find_folder

    skeletons = find_folder(options.kit) / "skeletons"
    languages = sorted(path.name for path in skeletons.iterdir() if path.is_dir())
    if options.language not in languages:
        options.refuse(f"there is no skeleton for {options.language!r}, only for {', '.join(languages)}")
    target = _new_directory(options.directory)
    copy(skeletons / options.language, target)
    print((target / "README.md").read_text("utf-8").rstrip())
    return console.FINE


def _scoreboard(options: Namespace) -> int:
    from fxtio.conformance.reports import hint, read_runs, scoreboard

    runs = read_runs(options.report)
    _write(scoreboard(runs), options.output)
    for run in runs:
        for line in hint(run):
            print(line, file=sys.stderr)
    return console.FINE
