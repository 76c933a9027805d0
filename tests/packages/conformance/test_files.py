"""The files of a kit, as a folder and as the archive that is installed: both are the same to whoever reads them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fxtio.conformance.files import ARCHIVE, Place, as_folder, copy, pack, unpacked
from fxtio.conformance.kit import Kit, read_kit
from support.small_kit import make_kit


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    folder = make_kit(tmp_path / "kit")
    (folder / "cases" / "fxt" / "stories").mkdir()
    (folder / "cases" / "fxt" / "valid" / "folder").mkdir()  # a trace that is a directory
    (folder / "cases" / "fxt" / "valid" / "folder" / "part").write_bytes(b"\x00")
    description = (folder / "cases" / "fxt" / "valid" / "two.json").read_text().replace("valid/two", "valid/folder")
    (folder / "cases" / "fxt" / "valid" / "folder.json").write_text(description)
    return folder


def files_of(folder: Path) -> dict[str, Path]:
    return {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}


def packed(kit: Path, folder: Path) -> Place:
    folder.mkdir()
    (folder / ARCHIVE).write_bytes(pack(files_of(kit)))
    return unpacked(folder)


def contents(folder: Path) -> dict[str, bytes]:
    return {name: path.read_bytes() for name, path in files_of(folder).items()}


def test_an_archive_has_the_files_of_the_folder(kit: Path, tmp_path: Path) -> None:
    archive = packed(kit, tmp_path / "installed")
    copy(archive, tmp_path / "copy")
    assert contents(tmp_path / "copy") == contents(kit) != {}
    copy(archive / "cases/fxt" / "valid/two.fxt", tmp_path / "two.fxt")
    assert (tmp_path / "two.fxt").read_bytes() == (kit / "cases/fxt/valid/two.fxt").read_bytes()
    assert unpacked(kit) is kit
    assert pack(files_of(kit)) == pack(dict(reversed(files_of(kit).items())))


def test_copies_leave_out_what_python_generates(kit: Path, tmp_path: Path) -> None:
    (kit / "__pycache__").mkdir()
    (kit / "__pycache__" / "x.pyc").touch()
    copy(kit, tmp_path / "copy")
    assert "__pycache__" not in {path.name for path in (tmp_path / "copy").iterdir()}


def test_what_an_archive_does_not_have(kit: Path, tmp_path: Path) -> None:
    archive = packed(kit, tmp_path / "installed")
    for path in ("nothing", "kit.toml/nothing", "../kit/kit.toml", str(kit / "kit.toml")):
        missing = archive / path
        assert not missing.is_dir()
        assert not missing.is_file()
        with pytest.raises(FileNotFoundError, match="the kit has no file"):
            missing.read_bytes()
    with pytest.raises(FileNotFoundError, match="the kit has no file cases"):
        (archive / "cases").read_text("utf-8")
    with pytest.raises(NotADirectoryError, match=r"the kit has no folder kit\.toml"):
        list((archive / "kit.toml").iterdir())


def test_a_kit_is_read_the_same_from_an_archive(kit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def facts(kit: Kit) -> list[object]:
        places = [(case.path.name, case.path.is_dir()) for case in kit.cases]
        return [kit.version, kit.suffixes, places, [vars(case) | {"path": None} for case in kit.cases]]

    packed(kit, tmp_path / "installed")
    monkeypatch.setattr("fxtio.conformance.kit.kit_folder", lambda: tmp_path / "installed")
    assert facts(read_kit()) == facts(read_kit(kit))
    assert ("folder", True) in [(case.path.name, case.path.is_dir()) for case in read_kit().cases]


def test_a_program_gets_a_folder(kit: Path, tmp_path: Path) -> None:
    with as_folder(kit) as folder:
        assert folder is kit
    with as_folder(packed(kit, tmp_path / "installed")) as folder:
        assert contents(folder) == contents(kit)
        shutil.rmtree(folder / "cases")
    assert not folder.exists()
