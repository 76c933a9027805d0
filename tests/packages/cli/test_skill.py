"""The skill for agents: what is printed and installed.  `tests/project/test_docs.py` runs its commands."""

from __future__ import annotations

import re
from pathlib import Path

from support.in_process import run_fxtio


def test_it_is_printed_as_skills_have_to_be() -> None:
    """See https://agentskills.io/specification."""
    done = run_fxtio("skill")
    assert done.returncode == 0
    matter = re.match(r"---\n(.*?)\n---\n\n", done.stdout, re.DOTALL)
    assert matter is not None
    fields = dict(line.split(": ", 1) for line in matter[1].splitlines())
    assert fields["name"] == "fxtio"
    assert 0 < len(fields["description"]) <= 1024
    assert len(done.stdout.splitlines()) < 500
    for recipe in ("slow program", "slow test", "event loop", "regression", "PyTorch", "lake"):
        assert re.search(f"^## .*{recipe}", done.stdout, re.MULTILINE), recipe


def test_it_is_installed_and_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "skills" / "fxtio" / "SKILL.md"
    done = run_fxtio("skill", "--install", str(tmp_path / "skills"))
    assert (done.returncode, done.stderr) == (0, f"fxtio: wrote the skill to {path}\n")
    assert path.read_text("utf-8") == run_fxtio("skill").stdout
    assert [each.name for each in path.parent.iterdir()] == ["SKILL.md"]
    path.write_text("---\nname: fxtio\ndescription: an older one\n---\n")
    assert run_fxtio("skill", "--install", str(tmp_path / "skills")).returncode == 0
    assert path.read_text("utf-8") == run_fxtio("skill").stdout


def test_what_is_of_others_stays(tmp_path: Path) -> None:
    path = tmp_path / "fxtio" / "SKILL.md"
    path.parent.mkdir()
    path.write_text("---\nname: mine\n---\n")
    done = run_fxtio("skill", "--install", str(tmp_path))
    assert (done.returncode, done.stderr) == (2, f"fxtio: {path} is not the skill of fxtio; it is left as it is\n")
    assert path.read_text() == "---\nname: mine\n---\n"
    assert run_fxtio("skill", "--install", str(path)).returncode == 2
