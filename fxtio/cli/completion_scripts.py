"""Scripts with which bash, zsh and fish complete the command line of fxtio, without starting Python."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator

from fxtio.cli.completion_model import Argument, Command, Kind

_TITLE = "# Completion of fxtio for {shell}, written by `fxtio completion {shell}`."


# ---- bash

_BASH = """\
{title}

_fxtio() {{
    local IFS=$' \\t\\n' command=fxtio word skip= rest= words= index
    local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}}
    COMPREPLY=()
    # Bash divides --option=value into three words.
    if [[ $current == = ]]; then
        current=
    elif [[ $previous == = ]]; then
        previous=${{COMP_WORDS[COMP_CWORD - 2]}}
    fi
    for ((index = 1; index < COMP_CWORD; index++)); do
        word=${{COMP_WORDS[index]}}
        if [[ $word == = ]]; then
            skip=1
        elif [[ $skip ]]; then
            skip=
        else
            case "$command $word" in
{paths}
{programs}
            esac
        fi
    done
    if [[ $rest ]]; then
        return # to the completion of file names
    fi
    case "$command $previous" in
{values}
    esac
    case "$command" in
{arguments}
    esac
    if [[ $current == -* ]]; then
        case "$command" in
{options}
        esac
    elif [[ ! $words ]]; then
        return
    fi
    compopt +o default +o bashdefault 2>/dev/null
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}

complete -o default -o bashdefault -F _fxtio fxtio
"""


def bash(root: Command) -> str:
    """Return the script for bash, from version 3.2 on."""
    commands = [*root.all()]
    return _BASH.format(
        title=_TITLE.format(shell="bash"),
        paths=_lines(_bash_paths(commands), 12),
        programs=_lines(_bash_programs(commands), 12),
        values=_lines(_bash_values(commands), 8),
        arguments=_lines(_bash_arguments(commands), 8),
        options=_lines(_bash_options(commands), 12),
    )


def _key(command: Command, *words: str) -> str:
    return '"' + " ".join(["fxtio", *command.path, *words]) + '"'


def _bash_paths(commands: Iterable[Command]) -> Iterator[str]:
    """Yield the cases that find the command."""
    keys = [_key(command) for command in commands if command.path]
    yield f'{" | ".join(keys)}) command="$command $word" ;;'


def _bash_programs(commands: Iterable[Command]) -> Iterator[str]:
    """Yield the cases that find the program whose own arguments follow, where a command takes one."""
    for command in commands:
        if command.takes_program:
            of_kind = {
                is_rest: [_key(command, name) for each in command.options if (each.kind is Kind.REST) == is_rest
                          and each.kind is not Kind.NOTHING for name in each.names]
                for is_rest in (True, False)
            }  # fmt: skip
            yield f"{' | '.join(of_kind[True])}) rest=1 ;;"
            yield f"{' | '.join(of_kind[False])}) skip=1 ;;"
            yield f'{_key(command, "-")[:-1]}"*) ;;'
            yield f'{_key(command, "")[:-1]}"*) rest=1 ;;'


def _bash_values(commands: Iterable[Command]) -> Iterator[str]:
    """Yield the cases of options that have a value."""
    for command in commands:
        for option in command.options:
            keys = " | ".join(_key(command, name) for name in option.names)
            if option.kind is Kind.WORDS:
                yield (
                    f"{keys})\n    compopt +o default +o bashdefault 2>/dev/null\n"
                    f'    COMPREPLY=($(compgen -W {shlex.quote(" ".join(option.words))} -- "$current"))\n    return ;;'
                )
            elif option.kind in (Kind.FILE, Kind.REST):
                yield f"{keys}) return ;;"
            elif option.kind is Kind.FOLDER:
                yield f"{keys})\n    compopt -o dirnames +o default +o bashdefault 2>/dev/null\n    return ;;"
            elif option.kind is Kind.TEXT:
                yield f"{keys})\n    compopt +o default +o bashdefault 2>/dev/null\n    return ;;"


def _bash_arguments(commands: Iterable[Command]) -> Iterator[str]:
    """Yield the cases of commands in whose arguments a word can stand."""
    for command in commands:
        if command.words:
            yield f"{_key(command)}) words={shlex.quote(' '.join(command.words))} ;;"


def _bash_options(commands: Iterable[Command]) -> Iterator[str]:
    """Yield the cases of the options of commands."""
    for command in commands:
        names = [name for option in command.options for name in option.names]
        yield f"{_key(command)}) words={shlex.quote(' '.join(names))} ;;"


def _lines(parts: Iterable[str], indent: int) -> str:
    return "\n".join(" " * indent + line for part in parts for line in part.splitlines())


# ---- zsh

_ZSH = """\
#compdef fxtio
{title}

{functions}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _fxtio "$@"
else
    compdef _fxtio fxtio
fi
"""

_ZSH_COMMANDS = """\
{name}() {{
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -s -S -C \\
{specs}
        '1: :->command' '*:: :->arguments' && ret=0
    case $state in
    command)
        local -a commands=(
{commands}
        )
        _describe -t commands command commands && ret=0 ;;
    arguments)
        if (( $+functions[{name}_$words[1]] )); then
            {name}_$words[1] && ret=0
        fi ;;
    esac
    return ret
}}"""

_ZSH_COMMAND = """\
{name}() {{
    _arguments -s -S{flags} \\
{specs}
}}"""


def zsh(root: Command) -> str:
    """Return the script for zsh, as a file `_fxtio` in `$fpath` or to be evaluated."""
    functions = "\n\n".join(_zsh_function(command) for command in root.all())
    return _ZSH.format(title=_TITLE.format(shell="zsh"), functions=functions)


def _zsh_function(command: Command) -> str:
    name = "_".join(["_fxtio", *command.path])
    specs = [_zsh_option(option, name) for option in command.options for name in option.names]
    if command.commands:
        pairs = [shlex.quote(f"{each.path[-1]}:{each.help}") for each in command.commands]
        listed = _lines((f"{spec} \\" for spec in specs), 8)
        return _ZSH_COMMANDS.format(name=name, specs=listed, commands=_lines(pairs, 12))
    specs += [_zsh_argument(argument) for argument in command.arguments]
    flags = " -A '-*'" if command.takes_program else ""
    return _ZSH_COMMAND.format(name=name, flags=flags, specs=" \\\n".join(_lines([spec], 8) for spec in specs))


def _zsh_option(option: Argument, name: str) -> str:
    """Return how `_arguments` of zsh has an option."""
    others = " ".join(other for other in option.names if other != name)
    before = "*" if option.repeats else f"({others})" if others else ""
    if option.kind is Kind.NOTHING:
        return shlex.quote(f"{before}{name}[{_zsh_text(option.help)}]")
    joint = "=" if name.startswith("--") else "+"
    if option.kind is Kind.REST:
        return shlex.quote(f"{before}{name}[{_zsh_text(option.help)}]:*::{_zsh_text(option.value)}:_files")
    action = _zsh_action(option)
    return shlex.quote(f"{before}{name}{joint}[{_zsh_text(option.help)}]:{_zsh_text(option.value)}:{action}")


def _zsh_argument(argument: Argument) -> str:
    if argument.kind is Kind.REST:
        return shlex.quote(f"*::{_zsh_text(argument.value)}:_files")
    return shlex.quote(f"{'*' if argument.repeats else ''}:{_zsh_text(argument.value)}:{_zsh_action(argument)}")


def _zsh_action(argument: Argument) -> str:
    if argument.kind is Kind.WORDS:
        return f"({' '.join(argument.words)})"
    return {Kind.FILE: "_files", Kind.FOLDER: "_files -/"}.get(argument.kind, " ")


def _zsh_text(text: str) -> str:
    for character in "\\[]:":
        text = text.replace(character, f"\\{character}")
    return text


# ---- fish

_FISH = """\
{title}

# Whether these words of a command stand behind fxtio.
function __fxtio_is
    set -l words (commandline -opc)
    for number in (seq (count $argv))
        test (count $words) -gt $number; and test $words[(math $number + 1)] = $argv[$number]; or return 1
    end
end

# Whether the cursor is directly behind these words of a command.
function __fxtio_ends
    test (count (commandline -opc)) -eq (math (count $argv) + 1); and __fxtio_is $argv
end
{programs}
complete -c fxtio -f
{lines}
"""

_FISH_PROGRAM = """
# Whether the program whose own arguments follow is not on the command line yet.
function {name}
    __fxtio_is {path}; or return 1
    set -l skip 0
    for word in (commandline -opc)[{first}..-1]
        if test $skip = 1
            set skip 0
        else if contains -- $word {valued}
            set skip 1
        else if contains -- $word {rest}; or not string match -q -- '-*' $word
            return 1
        end
    end
end
"""


def fish(root: Command) -> str:
    """Return the script for fish, from version 3.0 on."""
    commands = [*root.all()]
    return _FISH.format(
        title=_TITLE.format(shell="fish"),
        programs="".join(_fish_program(command) for command in commands if command.takes_program),
        lines="\n".join(line for command in commands for line in _fish_lines(command)),
    )


def _fish_condition(command: Command) -> str:
    if command.takes_program:
        return "__fxtio_in_" + "_".join(command.path)
    return " ".join(["__fxtio_is" if command.path else "__fxtio_ends", *command.path])


def _fish_program(command: Command) -> str:
    """Return the function that is the condition of the options of a command that takes a program."""
    names = {
        is_rest: [name for each in command.options if each.kind is not Kind.NOTHING
                  and (each.kind is Kind.REST) == is_rest for name in each.names]
        for is_rest in (True, False)
    }  # fmt: skip
    return _FISH_PROGRAM.format(
        name=_fish_condition(command),
        path=" ".join(command.path),
        first=len(command.path) + 2,
        valued=" ".join(names[False]),
        rest=" ".join(names[True]),
    )


def _fish_lines(command: Command) -> Iterator[str]:
    """Yield the lines of a command: the commands that can follow, its arguments and its options."""
    condition = f"complete -c fxtio -n {_fish_text(_fish_condition(command))}"
    ends = f"complete -c fxtio -n {_fish_text(' '.join(['__fxtio_ends', *command.path]))}"
    for child in command.commands:
        yield f"{ends} -a {child.path[-1]} -d {_fish_text(child.help)}"
    if command.takes_program:
        yield f"complete -c fxtio -n {_fish_text(' '.join(['__fxtio_is', *command.path]))} -F"
    elif command.takes_files:
        yield f"{condition} -F"
    for argument in command.arguments:
        if argument.words:
            yield f"{condition} -a {_fish_text(' '.join(argument.words))}"
    for option in command.options:
        names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
        yield f"{condition} {names}{_fish_value(option)} -d {_fish_text(option.help)}"


def _fish_value(option: Argument) -> str:
    """Return the words for the value of an option."""
    if option.kind is Kind.WORDS:
        return f" -x -a {_fish_text(' '.join(option.words))}"
    return {
        Kind.NOTHING: "", Kind.TEXT: " -x", Kind.FILE: " -r -F", Kind.REST: " -r -F",
        Kind.FOLDER: " -x -a '(__fish_complete_directories)'",
    }[option.kind]  # fmt: skip


def _fish_text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


SCRIPTS: dict[str, Callable[[Command], str]] = {"bash": bash, "zsh": zsh, "fish": fish}
"""The functions that return the scripts, by the names of the shells."""
