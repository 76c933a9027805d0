"""What the build does beside the usual: install `fxtio.pth`, which Python reads at its start.

It lets `FXTIO=out.fxt python app.py` record, and the Python processes that a recorded program starts.
"""

from __future__ import annotations

from pathlib import Path

from setuptools.command.build_py import build_py

NAME = "fxtio.pth"
LINE = 'import os; os.environ.get("FXTIO") and __import__("fxtio.tracer.environment", fromlist=["start"]).start()\n'


class BuildWithStart(build_py):
    """Builds the modules, and the file beside them.  An editable install does without it."""

    def run(self) -> None:
        """Build."""
        super().run()
        if not self.editable_mode:
            Path(self.build_lib, NAME).write_text(LINE, "ascii")

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        """The files that were built."""
        return [*super().get_outputs(include_bytecode), str(Path(self.build_lib, NAME))]
