"""Fixtures of the tests of lakes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import judges
from fxtio.lake import Lake
from judges import object_store


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake", create=True)


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return the URL of a bucket of an object store that runs here."""
    judges.require(object_store.available())
    folder = tmp_path / "store"
    folder.mkdir()
    with object_store.running(folder) as variables:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        yield f"s3://{object_store.BUCKET}"
