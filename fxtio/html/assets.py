"""The scripts and styles that all pages contain, those of other projects included, and the policy that allows them.

The files stand in the folder `files`; those of other projects in folders of their own, see `fxtio.html.vendoring`.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from functools import cache

from fxtio.html.vendoring import FILES, projects

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
