"""Additions to the build: `fxtio.pth`, the conformance kit, reports of C extensions that fail, an sdist with tests.

Python reads `fxtio.pth` when it starts.  It lets `FXTIO=out.fxt python app.py` record, and the Python processes that a
recorded program starts.
"""

from __future__ import annotations

import contextlib
import os
import runpy
import shutil
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

_PACKAGE = Path(__file__).parent
_EXTENSIONS = runpy.run_path(str(_PACKAGE / "_native" / "extensions.py"))  # fxtio is not installed yet
_KIT_FILES = runpy.run_path(str(_PACKAGE / "conformance" / "files.py"))
PACKAGE: str = _EXTENSIONS["PACKAGE"]
TITLES: dict[str, str] = _EXTENSIONS["TITLES"]

NAME = "fxtio.pth"
LINE = (
    'import os; os.environ.get("FXTIO") and '
    '__import__("fxtio._native.interpreters", fromlist=["is_main"]).is_main() and '
    '__import__("fxtio.tracer.startup", fromlist=["start_from_environment"]).start_from_environment()\n'
)


KIT = "conformance"
"""The folder of the conformance kit, which is beside the package; the rules and an archive are installed within it."""

_GENERATED = {"__pycache__", "_build", "_generated", ".pyc", ".so"}
"""Folders and suffixes of files that do not belong into an sdist."""


def _files_of(folder: str) -> list[Path]:
    """Return the files below a folder that are not generated."""
    files = (path for path in Path(folder).rglob("*") if path.is_file())
    return sorted(path for path in files if not _GENERATED & {*path.parts, path.suffix})


def _matching(patterns: list[str]) -> list[str]:
    """Return the files that match any of the patterns."""
    return sorted(path.as_posix() for pattern in patterns for path in Path().glob(pattern))


class BuildModules(build_py):
    """Builds the modules, `fxtio.pth`, and the archive of the kit.  An editable install has only the modules."""

    def run(self) -> None:
        """Build."""
        super().run()
        if not self.editable_mode:
            Path(self.build_lib, NAME).write_text(LINE, "ascii")
            self._installed_kit("rules").mkdir(parents=True, exist_ok=True)
            for path, copied in self._rules().items():
                shutil.copyfile(path, copied)
            kit = {path.relative_to(KIT).as_posix(): path for path in _files_of(KIT)}
            self._installed_kit(_KIT_FILES["ARCHIVE"]).write_bytes(_KIT_FILES["pack"](kit))

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        """Return the files that were built."""
        added = [Path(self.build_lib, NAME), *self._rules().values(), self._installed_kit(_KIT_FILES["ARCHIVE"])]
        return [*super().get_outputs(include_bytecode), *map(str, added)]

    def _installed_kit(self, name: str) -> Path:
        """Return the path of a file in the folder in which `fxtio.rules.folder` looks."""
        return Path(self.build_lib, PACKAGE.partition(".")[0], "_kit", name)

    def _rules(self) -> dict[Path, Path]:
        """Return the files of the rules and where their copies belong."""
        return {path: self._installed_kit(str(path.relative_to(KIT))) for path in _files_of(f"{KIT}/rules")}


class SourceWithTests(sdist):
    """Makes an sdist that can run its tests: it has the tests, and the documents and examples that they run."""

    def make_distribution(self) -> None:
        """Add the files that are in no package, and write the archive."""
        for folder in (".ci", ".github", "benchmarks", KIT, "docs", "examples", "tests"):
            self.filelist.extend(map(str, _files_of(folder)))
        self.filelist.extend(sorted(str(path) for path in Path().glob("*.md")))
        self.filelist.extend([".pre-commit-hooks.yaml", ".readthedocs.yaml"])
        super().make_distribution()


class BuildExtensions(build_ext):
    """Builds the C extensions.  In place of one that cannot be built it leaves a file that says why."""

    def finalize_options(self) -> None:
        """Replace the patterns in the lists of files by the files."""
        super().finalize_options()
        for extension in self.extensions:
            extension.sources, extension.depends = _matching(extension.sources), _matching(extension.depends)

    def build_extensions(self) -> None:
        """Build all extensions, with as many compilers at once as there are cores."""
        compile_in_order = self.compiler.compile

        def compile_at_once(sources: list[str], **options: Any) -> list[str]:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                objects = pool.map(lambda source: compile_in_order([source], **options), sources)
                return [name for names in objects for name in names]

        self.compiler.compile = compile_at_once
        if self.compiler.compiler_type == "unix" and "-g" not in os.environ.get("CFLAGS", "").split():
            for extension in self.extensions:
                extension.extra_compile_args.append("-g0")  # what tells a debugger the lines is four times the code
        super().build_extensions()

    def build_extension(self, ext: Any) -> None:
        """Build an extension; if that fails, report it, and let setuptools decide whether to go on."""
        name = ext.name.removeprefix(f"{PACKAGE}.")
        path = self._report_path(name)
        path.unlink(missing_ok=True)
        with tempfile.TemporaryFile() as messages:
            try:
                with _stderr_redirected(messages):
                    super().build_extension(ext)
            except Exception as error:
                output = _text_of(messages)
                summary = next((line for line in output.splitlines() if "error:" in line), str(error)).strip()
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(f"{summary}\n\n{output}{error}\n", "utf-8")
                rule = "*" * 78
                lines = [f"fxtio: the extension {ext.name} ({TITLES[name]}) was NOT built: {summary}"]
                lines.append(f"fxtio: without it, {_EXTENSIONS['CONSEQUENCES'][name]}; {_EXTENSIONS['REMEDY']}")
                sys.stderr.write("\n".join([output, rule, *lines, rule, ""]))
                raise
            sys.stderr.write(_text_of(messages))

    def copy_extensions_to_source(self) -> None:
        """Copy what was built, and the reports, for an editable install."""
        super().copy_extensions_to_source()
        folder = Path(self.get_finalized_command("build_py").get_package_dir(PACKAGE))
        for name in TITLES:
            report = self._report_path(name)
            folder.joinpath(report.name).unlink(missing_ok=True)
            if report.exists():
                shutil.copy(report, folder)

    def _report_path(self, name: str) -> Path:
        return Path(self.build_lib, *PACKAGE.split("."), _EXTENSIONS["report_name"](name))


@contextlib.contextmanager
def _stderr_redirected(file: IO[bytes]) -> Iterator[None]:
    """Write to a file what this process and the compiler write to standard error."""
    sys.stderr.flush()
    original = os.dup(2)
    try:
        os.dup2(file.fileno(), 2)
        yield
        sys.stderr.flush()
    finally:
        os.dup2(original, 2)
        os.close(original)


def _text_of(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")
