"""Run all programs of `testees.toml` through the kit, and make the scoreboard of the documents:

python conformance/harness/run_testees.py -o docs/reference/scoreboard.md
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

KIT = Path(__file__).resolve().parents[1]


def testees() -> list[dict[str, Any]]:
    """Return the programs of `testees.toml`."""
    content: list[dict[str, Any]] = tomllib.loads((KIT / "testees.toml").read_text("utf-8"))["testee"]
    return content


def arguments(testee: dict[str, Any], work: Path) -> list[str]:
    """Build a testee if necessary, and return the arguments of `fxtio conformance` that run it.

    Args:
        testee: an entry of `testees.toml`.
        work: a directory for what is built.

    Raises:
        CalledProcessError: it cannot be built.
        FileNotFoundError: there is no compiler.
    """
    names = {"python": sys.executable, "harness": str(KIT / "harness"), "work": str(work)}

    def filled(words: list[str]) -> list[str]:
        return [word.format(**names) for word in words]

    for command in testee.get("build", ()):
        subprocess.run(filled(command), check=True)
    options = ["run", "--kit", str(KIT), "--mode", testee["mode"], "--name", testee["name"]]
    for name in testee.get("formats", ()):
        options += ["--format", name]
    if "known" in testee:
        options += ["--known", str(KIT / "known" / testee["known"])]
    return [*options, "--", *filled(testee["command"])]


def main() -> int:
    """Run all testees, write the scoreboard, and return the exit status: 1 if a testee fails."""
    parser = argparse.ArgumentParser(description="Run all testees, and write the scoreboard.")
    parser.add_argument("-o", "--output", required=True, help="the page, in Markdown")
    output = parser.parse_args().output
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        reports = []
        for number, testee in enumerate(testees()):
            report = Path(folder, f"{number}.json")
            command, *harness = _split(arguments(testee, Path(folder)))
            done = _fxtio([*command, "--report", "json", "-o", str(report), "--", *harness])
            failed |= done != 0
            reports.append(str(report))
        return _fxtio(["scoreboard", "-o", output, *reports]) or int(failed)


def _split(words: list[str]) -> list[Any]:
    """Return the options before `--` as a list, then the words after it."""
    at = words.index("--")
    return [words[:at], *words[at + 1 :]]


def _fxtio(words: list[str]) -> int:
    """Run `fxtio conformance`, and return its exit status; 2 raises an error."""
    done = subprocess.run([sys.executable, "-P", "-m", "fxtio", "conformance", *words], check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(done.returncode)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
