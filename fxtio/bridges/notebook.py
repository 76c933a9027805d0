"""The magics of IPython and Jupyter: `%load_ext fxtio`, then `%%fxtio` records a cell and `%fxtio` a statement.

The code runs as IPython runs it: in the user's namespace, with the value of its last expression as the result.  What
took the time is shown below the cell: the page of `fxtio report` with the ranking and the flame graph, in a frame that
may run its own scripts, but neither load anything nor look into the notebook.  Consoles show the ranking as text.
"""

from __future__ import annotations

import ast
import html
import io
import shlex
from argparse import ArgumentParser
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NoReturn

from fxtio.display import MAX_ROWS
from fxtio.errors import FxtioError
from fxtio.record_arguments import SWITCH, WHAT_TO_RECORD, declare, options_of
from fxtio.selection import Selection

if TYPE_CHECKING:
    from fxtio.timeline import Timeline

_HEIGHT = "40em"
_VALUE = "_fxtio_value"
"""The variable of the user's namespace that has the value of the last expression, until the code has run."""

_OUTPUT = declare("-o", "--output", metavar="FILE", help="keep the trace; .zst and .gz compress")
_ARGUMENTS = (_OUTPUT, *WHAT_TO_RECORD)

_MACHINERY = ("IPython", "ipykernel", "jupyter_client", "tornado", "traitlets", "zmq")
"""The packages that run a notebook; they are recorded only on request."""

_THREADS = ("IOPub", "Heartbeat", "Control", "IPythonHistorySavingThread", "Thread-* (_watch_pipe_fd)")
"""The threads of a kernel, which are left out of what is shown."""

_DESCRIPTION = """\
Record a cell, or a statement, and show what took the time.

  %%fxtio --include myapp --min-duration 10us
  %%fxtio -o cell.fxt
  %fxtio work(20)

Without --spans-only the calls of all Python functions are recorded; what the code marks itself (fxtio.span,
fxtio.trace, ...) is recorded in any case.  The functions of the notebook are those of the module __main__.
"""


class NotebookError(FxtioError):
    """An error: a magic that cannot be run, such as one with an unknown option."""


class _Parser(ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise NotebookError(f"{message}; `%fxtio?` shows the options")


def _parser() -> _Parser:
    from argparse import RawDescriptionHelpFormatter

    parser = _Parser("%%fxtio", description=_DESCRIPTION, formatter_class=RawDescriptionHelpFormatter, add_help=False)
    for names, settings in _ARGUMENTS:
        parser.add_argument(*names, **settings)
    return parser


def load(shell: Any) -> None:
    """Add the magics to an IPython shell; `%load_ext fxtio` does this."""
    from IPython.core.error import UsageError

    def fxtio(line: str, cell: str | None = None) -> Any:
        __tracebackhide__ = True
        try:
            if cell is None:
                line, cell = split_line(line)
            return record(shell, line, cell)
        except NotebookError as error:
            raise UsageError(str(error)) from None

    fxtio.__doc__ = _parser().format_help()
    shell.register_magic_function(fxtio, "line_cell")


def unload(shell: Any) -> None:
    """Remove the magics from an IPython shell; `%unload_ext fxtio` does this."""
    for magics in shell.magics_manager.magics.values():
        magics.pop("fxtio", None)


def split_line(line: str) -> tuple[str, str]:
    """Divide the line of `%fxtio` into its options and the statement, which begins at the first other word.

    Raises:
        NotebookError: an option has a quotation mark without another one.
    """
    switches = {name for names, settings in _ARGUMENTS if settings.get("action") == SWITCH for name in names}
    rest = line.lstrip()
    while rest.startswith("-"):
        word, rest = _first_word(rest)
        if word == "--":
            break
        if word not in switches and "=" not in word:
            _, rest = _first_word(rest)
    return line[: len(line) - len(rest)], rest


def _first_word(text: str) -> tuple[str, str]:
    """Return the first word of a text, as a shell would divide it, and the rest."""
    stream = io.StringIO(text)
    words = shlex.shlex(stream, posix=True)
    words.whitespace_split, words.commenters = True, ""
    try:
        word = words.get_token() or ""
    except ValueError as error:
        raise NotebookError(str(error)) from None
    return word, text[stream.tell() :].lstrip()


def record(shell: Any, line: str, code: str) -> Any:
    """Run code in a shell, record it, and show what took the time.

    Args:
        shell: the IPython shell.
        line: the options.
        code: the code, which may use the syntax of IPython.

    Returns:
        The value of the last statement, if it is an expression.

    Raises:
        NotebookError: an option is wrong, or nothing can be recorded now.
        BaseException: the code raised it; what was recorded is shown before.
    """
    __tracebackhide__ = True
    try:
        options = _parser().parse_args([word for word in shlex.split(line) if word != "--"])
    except ValueError as error:
        raise NotebookError(str(error)) from None
    if not code:
        raise NotebookError("there is nothing to record: write a statement after %fxtio, or use %%fxtio")
    run = _compiled(shell, code)
    with TemporaryDirectory(prefix="fxtio-") as folder:
        path = Path(options.output or folder, "" if options.output else "cell.fxt").absolute()
        _begin(path, options)
        try:
            return run()
        finally:
            _end(shell, path, is_kept=bool(options.output))


def _begin(path: Path, arguments: Any) -> None:
    """Begin to record.

    Raises:
        NotebookError: it is not possible.
    """
    from fxtio.tracer import session
    from fxtio.tracer.backend import RecorderMissingError
    from fxtio.tracer.options import Options

    options = Options(path, **options_of(arguments))
    left_out = [name for name in _MACHINERY if not any(f"{each}.".startswith(f"{name}.") for each in options.include)]
    try:
        session.begin(options._replace(exclude=[*options.exclude, *left_out]))
    except (RecorderMissingError, RuntimeError, ValueError, OSError) as error:
        raise NotebookError(f"nothing was recorded: {error}") from None


def _end(shell: Any, path: Path, *, is_kept: bool) -> None:
    """End the recording and show it; what goes wrong is reported, since the code has run."""
    from fxtio.tracer import session
    from fxtio.tracer.backend import report

    try:
        summary = session.stop()
        if summary is not None:  # the code has not ended the recording itself
            session.report_summary(summary, quiet=not is_kept)
        show(shell, path)
    except (FxtioError, OSError) as error:
        report(f"the recording cannot be shown: {error}")


def show(shell: Any, path: Path) -> None:
    """Show what took the time in a trace: as a page in a notebook, as text in a console.

    Raises:
        FxtioError: the trace cannot be read.
        OSError: likewise.
    """
    from fxtio.exchange.opening import open_timeline
    from fxtio.timeline.answers import top

    with open_timeline(path) as timeline:
        selection = Selection(threads=tuple(f"!{name}" for name in _THREADS))
        answer = top(timeline, limit=MAX_ROWS, selection=selection)
        if answer.table.num_rows:
            content = {"text/plain": str(answer), "text/html": _frame(timeline, selection)}
        else:
            content = {"text/plain": "nothing was recorded: no function was called, and nothing was marked"}
    shell.display_pub.publish(content)


def _frame(timeline: Timeline, selection: Selection) -> str:
    """Return the HTML of a frame with the page of a trace."""
    from fxtio.exchange.filter import Plan
    from fxtio.html.page import render
    from fxtio.html.sections import short_page

    page = html.escape(render(short_page(timeline, Plan(selection))).decode("ascii"))
    style = f"width: 100%; height: {_HEIGHT}; border: 0"
    return f'<iframe sandbox="allow-scripts" style="{style}" title="fxtio" allow="fullscreen" srcdoc="{page}"></iframe>'


def _compiled(shell: Any, code: str) -> Any:
    """Return a function that runs code in the user's namespace and returns the value of its last expression."""
    text = shell.transform_cell(code)
    name = shell.compile.cache(text, shell.execution_count, raw_code=code)
    tree = shell.transform_ast(ast.parse(text, name))
    if tree.body and isinstance(last := tree.body[-1], ast.Expr):
        target = ast.copy_location(ast.Name(_VALUE, ast.Store()), last)
        tree.body[-1] = ast.copy_location(ast.Assign([target], last.value), last)
    body = shell.compile(tree, name, "exec")

    def run() -> Any:
        __tracebackhide__ = True
        try:
            exec(body, shell.user_ns)
        finally:
            value = shell.user_ns.pop(_VALUE, None)
        return value

    return run
