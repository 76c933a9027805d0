"""Every rule that a reader can report stands in the reference, and none that it cannot."""

from __future__ import annotations

import re
from pathlib import Path

import fxtio
from support.checkout import CHECKOUT

RULE = re.compile(r"""(?:\.add|\.tell|DecodeError|Fault)\(\s*"([a-z]+(?:-[a-z]+)*)",""")
PAGE = re.compile(r"^\| `([a-z-]+)` \|", re.MULTILINE)


def test_the_reference_names_every_rule() -> None:
    sources = Path(fxtio.__file__).parent.rglob("*.py")
    texts = [source.read_text() for source in sources]
    used = {rule for text in texts for rule in RULE.findall(text)}
    # Named through variables:
    used |= {"argument-size", "truncated", "size-beyond-end", "buffer-id", "buffer-too-large"}
    assert used == set(PAGE.findall((CHECKOUT / "docs/reference/findings.md").read_text()))
