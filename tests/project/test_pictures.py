"""The pictures of the documents: each one is there, small, named by a page, and made by the script."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from fxtio.cli.parser import COMMANDS
from support.checkout import CHECKOUT

pytestmark = pytest.mark.once

PICTURES = CHECKOUT / "docs" / "pictures"
RAW = "https://raw.githubusercontent.com/fxtio/fxtio/main/"
MAX_SIZE = 150_000
"""Pictures are downloaded by everyone who looks at a page, and cloned with every version of them."""


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    """Return the pictures that the script makes, by name."""
    pictures: dict[str, Any] = runpy.run_path(str(PICTURES / "make.py"))["PICTURES"]
    return pictures


def named() -> dict[str, list[Path]]:
    """Return the pictures that pages show, and the pages."""
    names: dict[str, list[Path]] = {}
    for page in [CHECKOUT / "README.md", *(CHECKOUT / "docs").rglob("*.md")]:
        for name in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
            path = (page.parent / name.removeprefix(RAW)).resolve()  # the README is also read far from the repository
            assert path.parent == PICTURES.resolve(), f"{page}: {name}"
            names.setdefault(path.name, []).append(page)
    return names


def test_pages_show_the_pictures_that_the_script_makes(made: dict[str, Any]) -> None:
    files = {path.name for path in PICTURES.iterdir() if path.suffix in (".svg", ".png")}
    assert named().keys() == made.keys() == files


def test_pictures_are_small_and_of_commands(made: dict[str, Any]) -> None:
    for name, picture in made.items():
        data = (PICTURES / name).read_bytes()
        assert 1_000 < len(data) < MAX_SIZE
        program, *words = picture.command.split()
        if name == "notebook.png":
            assert (program, words[-1]) == ("jupyter", "notebook.ipynb")
        else:
            assert (program, not words or words[0] in COMMANDS) == ("fxtio", True)
        assert data.startswith(b"\x89PNG" if name.endswith(".png") else b"<svg ")


def test_pictures_of_terminals_load_nothing(made: dict[str, Any]) -> None:
    for name in made:
        if name.endswith(".svg"):
            text = (PICTURES / name).read_text(encoding="utf-8")
            links = re.findall(r"(?:href|src)=|url\((?!#)|@import|@font-face|<script", text)
            assert links == []
            assert "textLength" in text  # so that columns are aligned in every font
