"""The files of other projects in pages: they are those of npm, they are installed, and they fit into a page."""

from __future__ import annotations

import base64
import hashlib
import io
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from fxtio.html.assets import FILES, Project, VendoringError, assets, fetch, projects, unpack
from support.checkout import CHECKOUT
from support.limits import PATIENCE


def archive(**files: str) -> bytes:
    """Return the archive of an npm package."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    return stream.getvalue()


def project(content: bytes, *files: str) -> Project:
    digest = base64.b64encode(hashlib.sha512(content).digest()).decode()
    return Project("thing", "1.0", f"sha512-{digest}", "MIT", (), {name: f"{name}.js" for name in files})


def test_files_are_taken_from_an_archive() -> None:
    content = archive(one="1", two="2", three="3")
    assert unpack(project(content, "one", "three"), content) == {"one.js": b"1", "three.js": b"3"}


def test_another_archive_is_refused() -> None:
    listed = project(archive(one="1"), "one")
    with pytest.raises(VendoringError, match=r"thing 1\.0 has the hash sha512-.*, not sha512-"):
        unpack(listed, archive(one="2"))


def test_a_missing_file_is_an_error() -> None:
    content = archive(one="1")
    with pytest.raises(VendoringError, match=r"thing 1\.0 has no file two"):
        unpack(project(content, "one", "two"), content)


def test_all_files_are_listed() -> None:
    for each in projects():
        assert {path.name for path in (FILES / each.name).iterdir()} == {*each.files.values()}
        assert {*each.notices} <= {*each.files.values()}
    assert {path.name for path in FILES.iterdir() if path.is_dir()} == {each.name for each in projects()}


@pytest.mark.full
@pytest.mark.once
@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is missing")
@pytest.mark.parametrize("listed", projects(), ids=lambda each: each.name)
def test_the_files_are_those_of_npm(listed: Project) -> None:
    assert fetch(listed) == {name: (FILES / listed.name / name).read_bytes() for name in listed.files.values()}


@pytest.mark.full
@pytest.mark.once
def test_wheel_and_sdist_have_all_files(tmp_path: Path) -> None:
    pytest.importorskip("setuptools", reason="setuptools is not installed")
    copy = tmp_path / "checkout"
    ignored = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(CHECKOUT / "fxtio", copy / "fxtio", ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(CHECKOUT / name, copy)
    setup = [sys.executable, "-c", "import setuptools; setuptools.setup()"]
    commands = [*setup, "-q", "sdist", "--dist-dir", str(tmp_path), "build_py", "--build-lib", str(tmp_path / "lib")]
    subprocess.run(commands, cwd=copy, capture_output=True, timeout=PATIENCE, check=True)
    files = {path.relative_to(FILES).as_posix() for path in FILES.rglob("*") if path.is_file()}
    assert "page.js" in files
    built = tmp_path / "lib" / "fxtio" / "html" / "files"
    assert {path.relative_to(built).as_posix() for path in built.rglob("*") if path.is_file()} == files
    (sdist,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist) as tar:
        names = {re.sub("^[^/]*/", "", name) for name in tar.getnames()}
    assert {f"fxtio/html/files/{name}" for name in files} <= names


def test_no_file_ends_its_element() -> None:
    own = assets()
    for text in (own.script, *own.frame_scripts):
        assert text.isascii()
        assert not re.search(r"<!--|</?script", text, re.IGNORECASE)
    for text in (own.style, own.frame_style):
        assert text.isascii()
        assert not re.search(r"<!--|</style|url\((?!\"data:)", text, re.IGNORECASE)
    assert own.notices.count("-->") == 1


def test_the_notices_name_all_licenses() -> None:
    notices = assets().notices
    assert all(f"{each.name} {each.version}, license: {each.license}" in notices for each in projects())
    for text in ("Jamie Wong", "Leon Sorokin", "SIL OPEN FONT LICENSE", "Permission is hereby granted"):
        assert text in notices
