"""The build of the C extensions: one that cannot be built is reported, and the reason is kept for `fxtio --version`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from support.checkout import CHECKOUT
from support.limits import PATIENCE

pytestmark = pytest.mark.native

pytest.importorskip("setuptools", reason="setuptools is not installed")

BROKEN = '#include "there-is-no-such-header.h"\n'


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a copy of what the build of the extensions needs."""
    folder = tmp_path / "checkout"
    package = (f"fxtio/{name}.py" for name in ("__init__", "_build", "conformance/files", "errors", "noop"))
    for name in ("pyproject.toml", "README.md", "LICENSE", *package):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(CHECKOUT / name, target)
    ignored = shutil.ignore_patterns("*.so", "*.pyd", "*.txt", "__pycache__")
    shutil.copytree(CHECKOUT / "fxtio" / "_native", folder / "fxtio" / "_native", ignore=ignored)
    return folder


def build(checkout: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "import setuptools; setuptools.setup()", "build_ext", *arguments]
    environment = {**os.environ, "CFLAGS": "-O0", **variables}
    return subprocess.run(
        command, cwd=checkout, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=True
    )


def status(folder: Path) -> list[str]:
    """Return what `fxtio --version` says of the extensions of a package in this folder."""
    source = "from fxtio._native import extensions; print(*extensions.status(), sep='\\n')"
    command = [sys.executable, "-P", "-c", f"import sys; sys.path.insert(0, {str(folder)!r}); {source}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True).stdout.splitlines()


def test_without_a_compiler(checkout: Path) -> None:
    done = build(checkout, "--inplace", CC="/nonexistent/cc")
    assert "the extension fxtio._native._kernels (C kernels) was NOT built" in done.stderr
    assert "the extension fxtio._native._recorder (recorder) was NOT built" in done.stderr
    assert done.stderr.count("/nonexistent/cc") >= 2
    kernels, recorder = status(checkout)
    assert kernels.startswith("C kernels: no, traces are read more slowly (it was not built when fxtio was installed: ")
    assert recorder.startswith("recorder: no, programs cannot be traced (it was not built when fxtio was installed: ")
    assert "/nonexistent/cc" in kernels
    assert "/nonexistent/cc" in recorder


@pytest.mark.full
@pytest.mark.recorder  # without it there may be no compiler
def test_the_message_of_the_compiler_is_kept(checkout: Path) -> None:
    for name in ("calls.c", "recorder/c_call.c"):  # the first ones, so that no other is compiled
        (checkout / "fxtio" / "_native" / name).write_text(BROKEN)
    done = build(checkout, "--build-lib", str(checkout / "lib"))
    assert "fatal error: there-is-no-such-header.h" in done.stderr
    native = checkout / "lib" / "fxtio" / "_native"
    assert not list(native.glob("*.so"))
    report = (native / "_recorder.not-built.txt").read_text()
    assert "fatal error: there-is-no-such-header.h" in report.partition("\n")[0]
    assert report.count("there-is-no-such-header.h") >= 2  # the summary, and the compiler's message in full


@pytest.mark.full
@pytest.mark.recorder
def test_a_build_that_succeeds_removes_the_report(checkout: Path) -> None:
    source = checkout / "fxtio" / "_native" / "small.c"
    source.write_text(
        textwrap.dedent("""
            #include <Python.h>
            static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_recorder", .m_size = -1};
            PyMODINIT_FUNC PyInit__recorder(void) { return PyModule_Create(&definition); }
        """)
    )
    text = (checkout / "pyproject.toml").read_text()
    head, _, rest = text.partition("[[tool.setuptools.ext-modules]]")
    _, _, tail = rest.partition("\n[tool.pytest")
    extension = 'name = "fxtio._native._recorder"\nsources = ["fxtio/_native/small.c"]\noptional = true\n'
    (checkout / "pyproject.toml").write_text(f"{head}[[tool.setuptools.ext-modules]]\n{extension}\n[tool.pytest{tail}")
    report = checkout / "fxtio" / "_native" / "_recorder.not-built.txt"
    build(checkout, "--inplace", CC="/nonexistent/cc")
    assert report.exists()
    assert "NOT built" not in build(checkout, "--inplace", "--force").stderr
    assert not report.exists()
    assert status(checkout)[1] == "recorder: yes"
