"""The command `fxtio completion`: the script with which a shell completes the command line.

The scripts ask the program itself: with `_FXTIO_COMPLETE=SHELL`, it prints what can be in the place of its last
argument, as its parsers declare it.  The first line says what completes the word: `words`, which follow, `files` or
`folders`.
"""

from __future__ import annotations

from argparse import REMAINDER, Action, ArgumentParser, Namespace, _SubParsersAction
from collections.abc import Iterator
from importlib import import_module

from fxtio.cli.console import FINE
from fxtio.cli.inputs import add_examples
from fxtio.cli.parser import ALIASES, COMMANDS, front, parser_of

HELP = "Print the script with which a shell completes commands, options and files"

SCRIPTS = {
    "bash": r"""
_fxtio() {
    local IFS=$'\n' found
    found=($(_FXTIO_COMPLETE=bash fxtio "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
    COMPREPLY=("${found[@]:1}")
    case ${found[0]} in
    files) ;;
    folders) compopt -o dirnames +o default +o bashdefault 2>/dev/null ;;
    *) compopt +o default +o bashdefault 2>/dev/null ;;
    esac
}

complete -o default -o bashdefault -F _fxtio fxtio
""",
    "zsh": r"""
_fxtio() {
    local -a found=("${(@f)$(_FXTIO_COMPLETE=zsh fxtio "${(@Q)words[2,CURRENT-1]}" "$PREFIX" 2>/dev/null)}")
    [[ $PREFIX == --*=* ]] && compset -P 1 '*='
    case $found[1] in
    files) _files ;;
    folders) _files -/ ;;
    words)
        shift found
        _describe fxtio found ;;
    esac
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _fxtio "$@"
else
    compdef _fxtio fxtio
fi
""",
    "fish": r"""
function __fxtio
    set -l current (commandline -ct)
    set -l option (string match -r -- '^--[^=]*=' $current)
    set -l value (string replace -r -- '^--[^=]*=' '' $current)
    set -l found (_FXTIO_COMPLETE=fish fxtio (commandline -opc)[2..-1] $current 2>/dev/null)
    switch "$found[1]"
        case files
            set found '' (__fish_complete_path $value)
        case folders
            set found '' (__fish_complete_directories $value '')
    end
    for each in $found[2..-1]
        echo "$option$each"
    end
end

complete -c fxtio -f -a '(__fxtio)'
""",
}
"""The scripts, by the names of the shells: bash from version 3.2 on, fish from 3.1 on."""

_SEPARATORS = {"zsh": ":", "fish": "\t"}
"""What divides a word from its description, in the shells that show one."""

Words = Iterator[tuple[str, str]]
"""Words with their descriptions."""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
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
    first = "#compdef fxtio\n" if options.shell == "zsh" else ""
    title = f"# Completion of fxtio for {options.shell}, written by `fxtio completion {options.shell}`."
    print(f"{first}{title}\n{SCRIPTS[options.shell]}", end="")
    return FINE


def complete(shell: str, arguments: list[str]) -> int:
    """Print what completes the last argument, for the script of a shell, and return the exit code."""
    kind, current, words = _found(_joined(arguments or [""]))
    print(kind)
    separator = _SEPARATORS.get(shell)
    for word, text in words:
        if word.startswith(current):
            print(word + separator + " ".join(text.split()) if separator and text else word)
    return FINE


def _joined(arguments: list[str]) -> list[str]:
    """Return arguments in which those are one that bash has divided: `--option`, `=` and the value."""
    joined: list[str] = []
    for argument in arguments:
        if joined and joined[-1].startswith("--") and (argument == "=" or joined[-1].endswith("=")):
            joined[-1] += argument
        else:
            joined.append(argument)
    return joined


def _found(arguments: list[str]) -> tuple[str, str, Words]:
    """Return what completes the last argument: files, folders or words; what is typed of it; the words."""
    *before, current = arguments
    if not before:
        return "words", current, _options(front()) if current.startswith("-") else _commands(current)
    command = ALIASES.get(before[0], before[0])
    if command not in COMMANDS:
        return _NOTHING
    parser, place, option = parser_of(command), 0, None
    for word in before[1:]:
        if option is not None:
            option = None
            continue
        option = parser._option_string_actions.get(word)
        positional = _positional(parser, place)
        if option is not None:
            if option.nargs == REMAINDER:
                return _FILES
            option = option if option.nargs != 0 else None
        elif word.startswith("-"):
            continue
        elif positional is not None and positional.nargs == REMAINDER:
            return _FILES
        elif isinstance(positional, _SubParsersAction):
            if word not in positional.choices:
                return _NOTHING
            parser, place = positional.choices[word], 0
        else:
            place += 1
    name, equals, value = current.partition("=")
    if option is None and equals and name in parser._option_string_actions:
        option, current = parser._option_string_actions[name], value
    if option is None and current.startswith("-"):
        return "words", current, _options(parser)
    return _values(option or _positional(parser, place), current)


_NOTHING: tuple[str, str, Words] = "words", "", iter(())
_FILES: tuple[str, str, Words] = "files", "", iter(())


def _positional(parser: ArgumentParser, place: int) -> Action | None:
    """Return the argument at a place among those without a name."""
    actions = [action for action in parser._actions if not action.option_strings]
    if place < len(actions):
        return actions[place]
    return actions[-1] if actions and actions[-1].nargs in ("*", "+") else None


def _values(action: Action | None, current: str) -> tuple[str, str, Words]:
    """Return what completes the value of an argument."""
    if action is None:
        return _NOTHING
    if isinstance(action, _SubParsersAction):
        return "words", current, ((name, child.description or "") for name, child in action.choices.items())
    if action.choices is not None:
        return "words", current, ((str(choice), "") for choice in action.choices)
    if action.nargs == REMAINDER:
        return _FILES
    match action.metavar:
        case "FILE" | "IN" | "OUT" | "REPORT" | "HARNESS":
            return _FILES
        case "DIR":
            return "folders", "", iter(())
        case "COMMAND":
            return "words", current, _commands(current)
        case "FORMAT":
            from fxtio.exchange import exchanges
            from fxtio.formats import formats

            return "words", current, ((name, "") for name in (*formats(), *exchanges()))
    return _NOTHING


def _commands(start: str) -> Words:
    """Yield the commands whose names begin with a text."""
    for name in COMMANDS:
        if name.startswith(start):
            yield name, import_module(f"fxtio.cli.{name}").HELP


def _options(parser: ArgumentParser) -> Words:
    """Yield the options of a parser."""
    for action in parser._actions:
        text = (action.help or "") % {**vars(action), "prog": parser.prog}
        yield from ((name, text) for name in action.option_strings)
