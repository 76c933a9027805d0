"""The arguments that say what is recorded, which `fxtio run` and `%%fxtio` in notebooks have in common.

This module is as light as it can be, since a program that `fxtio run` starts pays for it.
"""

from __future__ import annotations

import os
from typing import Any

from fxtio.labels import checked, of_ci

SWITCH = "store_true"
"""The action of an argument without a value, see `argparse`."""


def declare(*names: str, **settings: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return an argument as an entry of a table: its names and what `add_argument` of a parser takes besides."""
    return names, settings


WHAT_TO_RECORD = (
    declare("--spans-only", action=SWITCH, help="record only what the program marks itself"),
    declare("--c-functions", action=SWITCH, help="record the calls of C functions as well"),
    declare(
        "--include", action="append", default=[], metavar="WHERE", help="only functions of this module, file or folder"
    ),
    declare(
        "--exclude", action="append", default=[], metavar="WHERE", help="no functions of this module, file or folder"
    ),
    declare(
        "--args",
        action="append",
        default=[],
        metavar="WHERE",
        help="record the arguments of this function, or of all in this module, file or folder",
    ),
    declare(
        "--results",
        action="append",
        default=[],
        metavar="WHERE",
        help="record the results of this function, or of all in this module, file or folder",
    ),
    declare(
        "--category", action="append", default=[], metavar="NAME", help="only this category, or with -NAME all others"
    ),
    declare("--source", action="append", default=[], metavar="NAME", help="record another source, such as gc, or all"),
    declare("--label", action="append", default=[], metavar="NAME=TEXT", help="what tells this recording from others"),
    declare("--label-ci", action=SWITCH, help="label it with commit, branch, build, job and repository of the CI run"),
    declare("--min-duration", default=0, metavar="TIME", help="leave out calls shorter than this, with a unit: 10us"),
    declare("--max-depth", type=int, default=0, metavar="N", help="leave out calls that are nested deeper"),
    declare("--max-size", default=0, metavar="SIZE", help="stop recording when the file has this size, such as 1GiB"),
)
"""The arguments that say what is recorded."""


def options_of(arguments: Any) -> dict[str, Any]:
    """Return the keyword arguments of `fxtio.tracer.Options` for which the values of these arguments stand."""
    return {
        "categories": arguments.category,
        "functions": not arguments.spans_only,
        "c_functions": arguments.c_functions,
        "include": arguments.include,
        "exclude": arguments.exclude,
        "args": arguments.args,
        "results": arguments.results,
        "max_depth": arguments.max_depth,
        "min_duration": arguments.min_duration,
        "max_size": arguments.max_size,
        "sources": arguments.source,
        "labels": (of_ci(os.environ) if arguments.label_ci else {}) | checked(arguments.label),
    }
