"""Sphinx configuration. Pages are made at build time from declarations, into reference/_generated: one for each public
module, for each format one of its layouts, one of its tables and one of its rules, one for each program that is known
to fail cases of the conformance kit, and parts of the pages about timelines and conversions.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import pkgutil
import shutil
import sys
import tomllib
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

import fxtio
from fxtio.conformance.judge import KnownFailures
from fxtio.conformance.kit import read_kit
from fxtio.conformance.reports import known_page
from fxtio.exchange import exchanges
from fxtio.exchange.convert import exporters
from fxtio.formats import by_name, formats
from fxtio.lake.layout import TABLES as LAKE
from fxtio.lake.layout import TRACE_COLUMNS
from fxtio.rules import Rule, rules_of
from fxtio.schema import TableSpec, tables_markdown
from fxtio.timeline.schema import TABLES

project = "fxtio"
author = "The fxtio authors"
copyright = author
release = version = importlib.metadata.version("fxtio")

sys.path.insert(0, str(Path(__file__).parent))  # for the directive of the pages about commands
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton", "command_options"]
default_role = "code"
exclude_patterns = [
    "_build",
    "reference/_generated/*-toctree.md",
    "reference/_generated/conversion.md",
    "reference/_generated/timeline/*",
    "reference/_generated/lake/*",
]
html_theme = "furo"
html_title = f"fxtio {release}"

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True

# ignore-module-all: an object is described where it is defined, not where it is imported as well.
autodoc_default_options = {
    "members": True,
    "show-inheritance": True,
    "member-order": "bysource",
    "ignore-module-all": True,
}
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True

# Every format has the same rooms, and classes of the same names in them.
suppress_warnings = ["ref.python"]

# Names of other projects have no targets here, since the build needs no network; names of our own must resolve.
nitpick_ignore_regex = [
    ("py:.*", r"(?!fxtio\.).*"),
    ("py:.*", r"fxtio\.(\w+\.)*(F|[A-Z]\w*T)"),
]  # the last are type variables

GENERATED = Path(__file__).parent / "reference" / "_generated"
API = "reference/_generated/api/"
MODULES = "reference/api/index"
PRIVATE = {"cli", "sources"}


def public_modules() -> list[str]:
    found = pkgutil.walk_packages(fxtio.__path__, "fxtio.")
    names = [module.name for module in found]
    return ["fxtio", *(name for name in names if not any(p.startswith("_") or p in PRIVATE for p in name.split(".")))]


def modules_in(package: str, modules: list[str]) -> str:
    """Return the modules right within a package, each with its first sentence; nothing if there are none."""
    lines = []
    for name in modules:
        if name.rpartition(".")[0] == package:
            sentence = " ".join((importlib.import_module(name).__doc__ or "").partition("\n\n")[0].split())
            lines += [f":mod:`{name}`", f"    {sentence}", ""]
    return "\n".join(["", "Modules", "-------", "", *lines]) if lines else ""


def toctree(pages: list[str], folder: str = "../_generated") -> str:
    """Return a table of contents; `folder` is that of the generated pages, seen from the page that includes it."""
    return "\n".join(["```{toctree}", ":maxdepth: 1", "", *(f"{folder}/{page}" for page in pages), "```", ""])


def rule_markdown(rule: Rule) -> str:
    """Return the section of a rule, below that of its group."""
    source = f', from the section "{rule.section}"' if rule.section else ""
    lines = [f"### {rule.id}", "", f"**{rule.summary[0].upper()}{rule.summary[1:]}** ({rule.level}{source})", ""]
    return "\n".join([*lines, *(f"- {title}: {text}" for title, text in rule.facts), ""])


def not_carried(format: str) -> str:
    """Return a list of the content that a timeline of a format does not have."""
    return "\n".join(["Not on the timeline:", "", *(f"- {text}" for text in by_name(format).timeline.NOT_CARRIED), ""])


def conversion_markdown() -> str:
    """Return the formats that can be converted, and what gets lost in each of them."""
    own, writable = formats(), exporters()
    rows = [(each.name, each.title, each.suffixes, each.has_timeline) for each in own.values()]
    rows += [(each.name, each.title, each.suffixes, each.imports) for each in exchanges().values()]
    lines = ["| Format | Content | Endings | Read | Written |", "|---|---|---|---|---|"]
    for name, title, suffixes, reads in rows:
        marks = ["yes" if mark else "" for mark in (reads, name in writable)]
        lines.append(f"| `{name}` | {title} | {' '.join(f'`{suffix}`' for suffix in suffixes)} | {' | '.join(marks)} |")
    lines += ["", "## What a timeline does not show of a trace", ""]
    for name, each in own.items():
        if each.has_timeline:
            lines += [f"### From {name}", "", *(f"- {phrase}" for phrase in each.timeline.NOT_CARRIED), ""]
    lines += ["## What a format does not have of a timeline", ""]
    for name, exporter in writable.items():
        phrases = importlib.import_module(exporter.__module__).NOT_CARRIED + ("labels",) * (not exporter.WRITES_LABELS)
        lines += [f"### To {name}", "", *(f"- {phrase}" for phrase in phrases), ""]
    return "\n".join(lines)


def traces_markdown() -> str:
    """Return the columns of the table about the traces of a lake."""
    maps = {"labels": "map of text to text", "numbers": "map of text to int64"}
    types = {"string": "text", "texts": "list of text", **maps}
    rows = [f"| `{name}` | {types.get(kind, kind)} | {meaning} |" for name, (kind, meaning) in TRACE_COLUMNS.items()]
    return "\n".join(["| Column | Type | Meaning |", "|---|---|---|", *rows, ""])


def known_pages() -> dict[str, str]:
    """Return a page for each program of the conformance kit that is known to fail cases, by name."""
    kit, pages = read_kit(), {}
    for testee in tomllib.loads((kit.folder / "testees.toml").read_text("utf-8"))["testee"]:
        if "known" in testee:
            known = KnownFailures.read(kit.folder / "known" / testee["known"])
            cases = kit.select(testee["formats"], (), "read")
            pages[testee["known"].removesuffix(".toml")] = known_page(testee["name"], known, cases)
    return pages


def generate(_app: Sphinx) -> None:
    """Write the pages. A format without `describe_markdown` has no layouts to show."""
    shutil.rmtree(GENERATED, ignore_errors=True)
    (GENERATED / "api").mkdir(parents=True)
    (GENERATED / "layouts").mkdir()
    (GENERATED / "rules").mkdir()
    (GENERATED / "timeline").mkdir()
    timeline = {name: TableSpec("", columns) for name, columns in TABLES.items()}
    (GENERATED / "timeline" / "tables.md").write_text(tables_markdown(timeline, 3), encoding="utf-8")
    (GENERATED / "lake").mkdir()
    lake = {name: TableSpec("", columns) for name, columns in LAKE.items()}
    (GENERATED / "lake" / "tables.md").write_text(tables_markdown(lake, 3), encoding="utf-8")
    (GENERATED / "lake" / "traces.md").write_text(traces_markdown(), encoding="utf-8")
    (GENERATED / "tables").mkdir()
    modules = public_modules()
    for name in modules:
        # Not Markdown: within that, a directive of reStructuredText stores the whole environment with each page.
        page = f"{name}\n{'=' * len(name)}\n\n.. automodule:: {name}\n{modules_in(name, modules)}"
        (GENERATED / "api" / f"{name}.rst").write_text(page, encoding="utf-8")
    (GENERATED / "api-toctree.md").write_text(toctree([f"api/{name}" for name in modules]), encoding="utf-8")

    (GENERATED / "conversion.md").write_text(conversion_markdown(), encoding="utf-8")

    (GENERATED / "known").mkdir()
    for name, page in known_pages().items():
        (GENERATED / "known" / f"{name}.md").write_text(page, encoding="utf-8")
    (GENERATED / "known-toctree.md").write_text(
        toctree([f"known/{name}" for name in known_pages()], "_generated"), encoding="utf-8"
    )

    formats_with_layouts, formats_with_rules = [], []
    for point in sorted(importlib.metadata.entry_points(group="fxtio.formats")):
        describe = getattr(importlib.import_module(point.module), "describe_markdown", None)
        if describe is not None:
            (GENERATED / "layouts" / f"{point.name}.md").write_text(describe(), encoding="utf-8")
            formats_with_layouts.append(point.name)
        page = f"# Tables: {point.name}\n\n{tables_markdown(by_name(point.name).room('tables').specs())}"
        (GENERATED / "tables" / f"{point.name}.md").write_text(page, encoding="utf-8")
        (GENERATED / "timeline" / f"{point.name}.md").write_text(not_carried(point.name), encoding="utf-8")
        lines = [f"# Rules: {point.name}", ""]
        for group, rules in groupby(rules_of(point.name).values(), lambda rule: rule.group):
            lines += [f"## {point.name}.{group}", "", *map(rule_markdown, rules)]
        page = "\n".join(lines)
        (GENERATED / "rules" / f"{point.name}.md").write_text(page, encoding="utf-8")
        formats_with_rules.append(point.name)
    (GENERATED / "rules-toctree.md").write_text(
        toctree([f"rules/{name}" for name in formats_with_rules], "_generated"), encoding="utf-8"
    )
    (GENERATED / "tables-toctree.md").write_text(
        toctree([f"tables/{name}" for name in formats_with_rules], "_generated"), encoding="utf-8"
    )
    layouts = [f"layouts/{name}" for name in formats_with_layouts]
    (GENERATED / "layouts-toctree.md").write_text(toctree(layouts), encoding="utf-8")


def title_only(contents: nodes.Node) -> nodes.Node:
    """Return the table of contents of a page without what is below its title, unless other pages are listed there."""
    short = contents.deepcopy()
    if not any(short.findall(addnodes.toctree)):
        for item in short.children:
            item[:] = item[:1]
    return short


def is_near(page: str, module: str) -> bool:
    """Return whether the navigation of a page shows a module: those of the first level, and those below its own."""
    path = module.removeprefix(API).split(".")
    return len(path) <= 2 or (page.startswith(API) and path[:2] == page.removeprefix(API).split(".")[:2])


@cache
def shortened_contents(env: BuildEnvironment) -> dict[str, nodes.Node]:
    """Return the table of contents of each page, as far as the navigation shows it."""
    return {page: title_only(toc) for page, toc in env.tocs.items()}


def modules_near(env: BuildEnvironment, page: str) -> nodes.Node:
    """Return the table of contents of the page that lists all modules, with those that are near a page."""
    contents = env.tocs[MODULES].deepcopy()
    for tree in contents.findall(addnodes.toctree):
        tree["entries"] = [(title, module) for title, module in tree["entries"] if is_near(page, module)]
    return contents


def shorten_navigation(app: Sphinx, name: str, _template: str, context: dict[str, Any], _doctree: object) -> None:
    """Make the navigation of a page with the modules near it, and of other pages only with their titles.

    All modules and all headings would be copied for each page, which would take more than half of the build.
    """
    env, whole = app.env, context["toctree"]

    def toctree(**options: Any) -> str:
        tocs, env.tocs = env.tocs, shortened_contents(env) | {MODULES: modules_near(env, name)}
        try:
            return whole(**options)
        finally:
            env.tocs = tocs

    context["toctree"] = toctree


def setup(app: Sphinx) -> None:
    app.connect("builder-inited", generate)
    app.connect("html-page-context", shorten_navigation, priority=400)  # before the theme's, which asks for the tree
