"""The C extensions of this package: whether they can be imported, and if not, why.

All of them are optional.  `fxtio._build` leaves a file with the compiler's messages in place of an extension that it
could not build, so that the reason can be shown later.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

PACKAGE = "fxtio._native"
KERNELS, RECORDER = "_kernels", "_recorder"

TITLES = {KERNELS: "C kernels", RECORDER: "recorder"}
"""What the extensions are called in messages."""

CONSEQUENCES = {KERNELS: "traces are read more slowly", RECORDER: "programs cannot be traced"}
"""What a missing extension means for the user."""

REMEDY = (
    "install a C compiler and the Python headers, then run "
    "`pip install --no-cache-dir --force-reinstall --no-deps --no-binary fxtio fxtio` "
    "(in a checkout: `rm -rf build && pip install --force-reinstall --no-deps .`)"
)
"""How to get the extensions."""

_TOP = Path(__file__).parents[2]

HIDDEN = f"it was not built in {_TOP}, whose sources Python uses; elsewhere it uses an installed fxtio"
"""The reason in a checkout, whose sources hide an installed fxtio: there, another installation changes nothing."""

REMEDY_IF_HIDDEN = "run Python in another directory, or build the extensions in this one: `pip install -e .`"
"""How to get the extensions if the reason is `HIDDEN`."""


def report_name(name: str) -> str:
    """Return the name of the file that says why the extension `name` was not built."""
    return f"{name}.not-built.txt"


def load(name: str) -> tuple[ModuleType | None, str]:
    """Import an extension.

    Args:
        name: `KERNELS` or `RECORDER`.

    Returns:
        The module and an empty text, or None and the reason why there is none.
    """
    try:
        return import_module(f"{PACKAGE}.{name}"), ""
    except ModuleNotFoundError as error:
        return None, _build_failure(name) if error.name == f"{PACKAGE}.{name}" else str(error)
    except (ImportError, RuntimeWarning) as error:  # a warning that the interpreter lock is turned on may be an error
        return None, str(error)


def _build_failure(name: str) -> str:
    """Return the reason that the build left, or one sentence for a build that left none."""
    report = Path(__file__).with_name(report_name(name))
    try:
        summary = report.read_text("utf-8").partition("\n")[0]
    except OSError:
        return HIDDEN if (_TOP / "pyproject.toml").exists() else "it was not built when fxtio was installed"
    return f"it was not built when fxtio was installed: {summary}; see {report}"


def remedy(reason: str) -> str:
    """Return how to get an extension that is missing for this reason."""
    return REMEDY_IF_HIDDEN if reason == HIDDEN else REMEDY


def status() -> list[str]:
    """Return a line for each extension: whether it is there, or why not and what that means."""
    lines = []
    for name, title in TITLES.items():
        module, reason = load(name)
        lines.append(f"{title}: yes" if module else f"{title}: no, {CONSEQUENCES[name]} ({reason})")
    return lines
