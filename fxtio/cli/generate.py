"""The command `fxtio generate`: print code in another language that writes and reads a format."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from fxtio.cli import console, inputs
from fxtio.shared_folders import opener

HELP = "Print code for authors of tracers: one C header that writes and reads FXT"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("language", choices=("c",), help="the language: c, a header in C99 that is C++ as well")
    parser.add_argument("-o", "--output", metavar="FILE", help="the file, such as fxt.h (default: standard output)")
    inputs.add_examples(parser, "fxtio generate c > fxt.h", "fxtio generate c -o fxt.h")


def run(options: Namespace) -> int:
    """Write the code, and return the exit code."""
    from fxtio.fxt.c_header import header_text

    if options.output in (None, "-"):
        sys.stdout.write(header_text())
    else:
        with open(options.output, "w", encoding="utf-8", opener=opener) as file:
            file.write(header_text())
    return console.FINE
