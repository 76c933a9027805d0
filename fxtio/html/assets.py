"""The scripts and styles that all pages contain, those of other projects included, and the policy that allows them.

The files are in the folder `files`; those of other projects in folders of their own, and in the repository:
`projects.toml` says where they come from, and `python -m fxtio.html.assets` gets them from npm again.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fxtio.errors import FxtioError

_FONT = "speedscope/SourceCodePro-Regular.woff2"
_FONT_IN_STYLE = "./SourceCodePro-Regular.ttf-ILST5JV6.woff2"


@dataclass(frozen=True, slots=True)
class Assets:
    """The content of all pages.

    Attributes:
        style: the style of the page.
        script: the script of the page.
        frame_style: the style of the frame of a flame graph.
        frame_scripts: the scripts of this frame, in their order.
        notices: a comment with the licenses of the other projects.
    """

    style: str
    script: str
    frame_style: str
    frame_scripts: tuple[str, ...]
    notices: str

    @property
    def policy(self) -> str:
        """The content security policy of the page, which its frames inherit.

        Only these scripts and styles are allowed.  The empty style is that of speedscope, which fills it by script.
        WebAssembly is allowed because speedscope demangles names of C++ with it.
        """
        scripts = " ".join(_hash(text) for text in (self.script, *self.frame_scripts))
        styles = " ".join(_hash(text) for text in (self.style, self.frame_style, ""))
        return (
            f"default-src 'none'; script-src {scripts} 'wasm-unsafe-eval'; style-src {styles}; "
            "font-src data:; base-uri 'none'; form-action 'none'"
        )

    @property
    def frame(self) -> str:
        """The HTML of the frame of a flame graph."""
        scripts = "".join(f"<script>{script}</script>" for script in self.frame_scripts)
        return (
            '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Flame graph</title>'
            f"<style>{self.frame_style}</style></head><body>{scripts}</body></html>"
        )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def assets() -> Assets:
    """Return the content of all pages."""
    font = base64.b64encode((FILES / _FONT).read_bytes()).decode()
    return Assets(
        style=_text("uplot/uPlot.css") + _text("page.css"),
        script=_text("uplot/uPlot.js") + _text("page.js"),
        frame_style=_text("speedscope/speedscope.css").replace(_FONT_IN_STYLE, f"data:font/woff2;base64,{font}"),
        frame_scripts=(_text("flame.js"), _text("speedscope/speedscope.js")),
        notices=f"<!--\n{_notices()}-->",
    )


def _notices() -> str:
    """Return the licenses of the other projects."""
    return "\n".join(
        "\n\n".join(
            [
                f"This page contains {project.name} {project.version}, license: {project.license}",
                *(_text(f"{project.name}/{notice}") for notice in project.notices),
            ]
        )
        for project in projects()
    )


def _text(name: str) -> str:
    return (FILES / name).read_text("utf-8")


FILES = Path(__file__).with_name("files")
"""The folder of everything that a page contains."""

_LIST = "projects.toml"
_INSIDE = "package/"  # the folder that npm puts all files into


class VendoringError(FxtioError):
    """An error: a package is not the one that is listed."""


@dataclass(frozen=True, slots=True)
class Project:
    """A package of npm.

    Attributes:
        name: its name, which is also that of its folder in `files`.
        version: its version.
        integrity: the hash of its archive as the registry of npm gives it, `sha512-` and base64.
        license: its license, in words.
        notices: those of the names in `files` that are the texts of its licenses.
        files: the files that are taken from it: the path in the package, and the name here.
    """

    name: str
    version: str
    integrity: str
    license: str
    notices: tuple[str, ...]
    files: Mapping[str, str]


def projects() -> list[Project]:
    """Return the projects that `projects.toml` lists."""
    listed = tomllib.loads((FILES / _LIST).read_text("utf-8"))
    return [Project(name, **{**entry, "notices": tuple(entry["notices"])}) for name, entry in listed.items()]


def fetch(project: Project) -> dict[str, bytes]:
    """Get a package from npm, and return the files that are taken from it by their names here.

    Raises:
        VendoringError: the archive has another hash, or not all of the files.
        OSError: npm cannot be run.
        CalledProcessError: npm cannot get the package.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [shutil.which("npm") or "npm", "pack", "--json", f"{project.name}@{project.version}"]
        answer = subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout
        archive = Path(folder, json.loads(answer)[0]["filename"]).read_bytes()
    return unpack(project, archive)


def unpack(project: Project, archive: bytes) -> dict[str, bytes]:
    """Return the files that are taken from the archive of a package by their names here.

    Raises:
        VendoringError: the archive has another hash, or not all of the files.
    """
    integrity = f"sha512-{base64.b64encode(hashlib.sha512(archive).digest()).decode()}"
    if integrity != project.integrity:
        raise VendoringError(f"{project.name} {project.version} has the hash {integrity}, not {project.integrity}")
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        members = {member.name: member for member in tar if member.isfile()}
        missing = [path for path in project.files if _INSIDE + path not in members]
        if missing:
            raise VendoringError(f"{project.name} {project.version} has no file {missing[0]}")
        streams = {name: tar.extractfile(members[_INSIDE + path]) for path, name in project.files.items()}
        return {name: stream.read() for name, stream in streams.items() if stream is not None}


def main() -> None:
    """Write the files of all projects."""
    for project in projects():
        files = fetch(project)
        folder = FILES / project.name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name, content in files.items():
            (folder / name).write_bytes(content)
        sys.stdout.write(f"{project.name} {project.version}: {len(files)} files\n")


if __name__ == "__main__":
    main()
