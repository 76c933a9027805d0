"""Sub-interpreters: they run as if nothing was recorded, and only the main interpreter is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fxtio._build import LINE
from support.limits import PATIENCE
from support.tracer_check import check_trace
from support.tracer_run import fine, search_path

pytestmark = pytest.mark.recorder

RUN = """
import sys
def run(source):
    if sys.version_info >= (3, 13):
        import _interpreters as interpreters
        for config in ("legacy", "isolated"):
            interpreter = interpreters.create(config)
            assert interpreters.exec(interpreter, source) is None
            interpreters.destroy(interpreter)
    else:
        import _xxsubinterpreters as interpreters
        for isolated in (False, True):
            interpreter = interpreters.create(isolated=isolated)
            interpreters.run_string(interpreter, source)
            interpreters.destroy(interpreter)
"""

MARKS = '''
source = """
import os
import fxtio
@fxtio.trace(args=True)
def sub(value): return value
with fxtio.span("sub", "", a=1): fxtio.instant("sub")
try:
    fxtio.start("other.fxt")
except Exception as error:
    os.write(1, f"{sub(2)} {type(error).__name__}: {error}".encode())
os.write(1, b"\\\\n")
"""
'''


@pytest.mark.parametrize("functions", [False, True])
def test_marks_in_sub_interpreters(functions: bool, out: Path) -> None:
    source = f"""{RUN}{MARKS}
fxtio.start(OUT, functions={functions})
@fxtio.trace
def main(): return 1
main()
run(source)
main()
"""
    lines = fine(source, out).splitlines()
    assert len(lines) == 2 and all(line.startswith("2 RecorderMissingError: nothing can be rec") for line in lines)
    seen = check_trace(out, open_spans=True)
    assert len(seen.spans("main")) + len(seen.spans("<string>.main")) == 2
    assert not seen.spans("sub")
    assert [path.name for path in out.parent.iterdir()] == [out.name]


def test_fxtio_pth_in_sub_interpreters(tmp_path: Path) -> None:
    """Each interpreter reads it; only that of the main one begins a recording."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "fxtio.pth").write_text(LINE, encoding="ascii")
    (folder / "sitecustomize.py").write_text(f"import site; site.addsitedir({str(folder)!r})\n", encoding="utf-8")
    program = f"{RUN}\nrun('pass')\nprint('done')\n"
    environment = os.environ | {"FXTIO": str(tmp_path / "out.fxt"), "PYTHONPATH": search_path(folder)}
    command = [sys.executable, "-P", "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.fxt", "site"]
    check_trace(tmp_path / "out.fxt", open_spans=True)
