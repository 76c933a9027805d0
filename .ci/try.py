"""Try the installed fxtio as whoever has just installed a wheel does: python .ci/try.py

Needs nothing of the checkout and no other package.  Fails if a command does, or if a C extension is missing that the
system can have.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = """
def work():
    return sum(range(1000))

for _ in range(3):
    work()
"""


def fxtio(folder: str, *words: str) -> str:
    """Run a command in a folder, print it, and return what it printed.

    Raises:
        CalledProcessError: it failed.
    """
    print("$ fxtio", *words, flush=True)
    command = [sys.executable, "-P", "-m", "fxtio", *words]
    return subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout


def main() -> None:
    """Try the commands that need data files or C extensions."""
    with tempfile.TemporaryDirectory() as folder:
        version = fxtio(folder, "--version")
        print(version)
        assert sys.platform == "win32" or {"C kernels: yes", "recorder: yes"} <= {*version.splitlines()}
        fxtio(folder, "synth", "spans", "--events", "1000", "-o", "spans.fxt")
        assert "1,000  DurationComplete" in fxtio(folder, "info", "spans.fxt")
        fxtio(folder, "validate", "spans.fxt")
        fxtio(folder, "convert", "spans.fxt", "spans.json")
        fxtio(folder, "report", "spans.fxt", "-o", "spans.html")
        assert "fxt/valid/magic" in fxtio(folder, "conformance", "list")
        fxtio(folder, "synth", "--break", "fxt.bits.padding", "-o", "broken.fxt")
        if sys.platform != "win32":
            Path(folder, "program.py").write_text(PROGRAM, "utf-8")
            fxtio(folder, "run", "-o", "program.fxt", "program.py")
            assert "work" in fxtio(folder, "top", "program.fxt")


if __name__ == "__main__":
    main()
