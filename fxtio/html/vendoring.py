"""The files of other projects that a page contains: which they are, and the command that gets them from npm.

They stand in the folder `files`, in a folder for each project, and are part of the repository and of the package.
`projects.toml` says where they come from.  ::

    python -m fxtio.html.vendoring

writes them again.  It needs npm, the network, and a checkout.
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
from pathlib import Path

from fxtio.errors import FxtioError

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
