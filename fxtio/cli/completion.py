"""The command `fxtio completion`: the script with which a shell completes the command line."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from fxtio.cli.common import FINE, add_examples

NAME = "completion"
HELP = "Print the script with which a shell completes commands, options and files"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    from fxtio.cli.completion_scripts import SCRIPTS

    parser.add_argument("shell", choices=(*SCRIPTS,), metavar="SHELL", help=f"the shell: {', '.join(SCRIPTS)}")
    add_examples(
        parser,
        "fxtio completion bash > ~/.local/share/bash-completion/completions/fxtio",
        "fxtio completion zsh > ~/.zfunc/_fxtio",
        "fxtio completion fish > ~/.config/fish/completions/fxtio.fish",
        'eval "$(fxtio completion bash)"',
    )


def run(options: Namespace) -> int:
    """Print the script and return the exit code."""
    from fxtio.cli.completion_model import fxtio_command
    from fxtio.cli.completion_scripts import SCRIPTS

    print(SCRIPTS[options.shell](fxtio_command()), end="")
    return FINE
