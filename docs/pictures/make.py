"""Make the pictures of the documents from the real programs: `python docs/pictures/make.py [NAME...]`.

Terminals become SVG, by rich; pages become PNG, by Debian's Chromium, which is cut off from the network.  Everything is
run in a temporary folder with the recording of `examples/count_words.py`.  Needs `pip install -e '.[docs,plot,ui]'
ipykernel nbconvert`, and Debian's packages `chromium` and `fonts-noto-color-emoji`.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shlex
import shutil
import struct
import subprocess
import sys
import sysconfig
import tempfile
import termios
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
CHECKOUT = FOLDER.parents[1]
MAGIC_TRACE = CHECKOUT / "tests" / "corpus" / "fxt" / "magic-trace.fxt"
RECORD = "fxtio run --include count_words -o words.fxt examples/count_words.py docs"
CELL_WIDTH, CELL_HEIGHT, BASE = 12.2, 24.65, 18.5
"""The size of a character in a picture, and how far its base line is below its top."""

_EIGHTHS = "▏▎▍▌▋▊▉█"
_LEVELS = "▁▂▃▄"
_BLOCKS = re.compile(rf'<text class="([\w-]+)" x="([\d.]+)" y="([\d.]+)"[^>]*>([{_EIGHTHS}{_LEVELS}]+)</text>')


@dataclass(frozen=True)
class Terminal:
    """A picture of a terminal in which a command has run."""

    command: str
    columns: int = 100
    lines: int = 90

    def make(self, target: Path) -> None:
        """Run the command in a terminal, and draw what it has printed."""
        from rich.console import CONSOLE_SVG_FORMAT, Console
        from rich.text import Text

        text = in_terminal(self.command, self.columns, self.lines)
        console = Console(record=True, width=self.columns, file=open(os.devnull, "w"), color_system="truecolor")  # noqa: SIM115
        console.print(Text.assemble(("$ ", "dim"), (self.command, "bold")))
        console.print(Text.from_ansi(text.rstrip()), soft_wrap=False)
        console.print()  # or the last line would be cut at its foot
        without_fonts = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
        form = without_fonts.replace(
            "Fira Code, monospace", "ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace"
        )
        svg = console.export_svg(title="fxtio", code_format=form, unique_id=f"fxtio-{target.stem}")
        svg = _BLOCKS.sub(_shapes, svg)
        target.write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n", encoding="utf-8")


@dataclass(frozen=True)
class Page:
    """A picture of a page in a browser after some scripts: what a command serves, or the file that it writes."""

    command: str
    file: str = ""
    width: int = 1280
    height: int = 657
    scripts: tuple[str, ...] = ()

    def make(self, target: Path) -> None:
        """Look at the page with Chromium."""
        sys.path.append(str(CHECKOUT / "tests"))
        from judges import chromium

        words = shlex.split(self.command)
        program = [sys.executable, "-P", "-m", *words]
        job = chromium.Job(screenshot=str(target), width=self.width, height=self.height, scripts=[*self.scripts])
        if self.file:
            subprocess.run(program, check=True)
            job.address = Path(self.file).resolve().as_uri()
        else:
            job.command = [*program, "--no-browser"]
        chromium.look([job])


SEARCH = """(() => {
  const input = document.querySelector(".tools input");
  input.value = "symbol";
  return input.dispatchEvent(new Event("input"));
})()"""
DRAWN = """(async () => {
  const title = document.querySelector(".flame iframe")?.contentDocument?.title ?? "";
  await new Promise((resolve) => setTimeout(resolve, 1000));
  return title.endsWith(" - speedscope");
})()"""
FRAMES_DRAWN = "new Promise((resolve) => setTimeout(resolve, 4000, true))"
"""The frame of a cell may not be looked into, so its graph is waited for."""

PICTURES: dict[str, Terminal | Page] = {
    "top.svg": Terminal("fxtio top words.fxt", columns=124),
    "tree.svg": Terminal("fxtio tree words.fxt --share 2%"),
    "timeline.svg": Terminal("fxtio timeline words.fxt --depth 4"),
    "help.svg": Terminal("fxtio"),
    "open.png": Page("fxtio open magic-trace.fxt --select _dl_relocate_object"),
    "report.png": Page(
        "fxtio report magic-trace.fxt -o report.html",
        file="report.html",
        width=1200,
        height=1100,
        scripts=(SEARCH, DRAWN),
    ),
    "notebook.png": Page(
        "jupyter nbconvert --execute --to html notebook.ipynb",
        file="notebook.html",
        width=1000,
        height=930,
        scripts=(FRAMES_DRAWN,),
    ),
}
"""The pictures by their names in this folder."""


def in_terminal(command: str, columns: int, lines: int) -> str:
    """Return what a command prints in a terminal, on both streams."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8"}
    for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"):
        environment.pop(name, None)
    data = b""
    with subprocess.Popen(shlex.split(command), stdout=follower, stderr=follower, env=environment):
        os.close(follower)
        while part := _read(leader):
            data += part
    os.close(leader)
    return data.decode().replace("\r\n", "\n")


def _shapes(match: re.Match[str]) -> str:
    """Return blocks of a bar as rectangles, which fit together in every font."""
    style, left, base, blocks = match[1], float(match[2]), float(match[3]), match[4]
    shapes = []
    for number, block in enumerate(blocks):
        width = CELL_WIDTH * (_EIGHTHS.find(block) + 1) / 8 or CELL_WIDTH
        height = CELL_HEIGHT * (_LEVELS.find(block) + 1) / 8 or CELL_HEIGHT
        x, y = left + number * CELL_WIDTH, base - BASE + CELL_HEIGHT - height
        shapes.append(
            f'<rect class="{style}" x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}" '
            'shape-rendering="crispEdges"/>'
        )
    return "".join(shapes)


def _read(leader: int) -> bytes:
    try:
        return os.read(leader, 1 << 16)
    except OSError:  # the other end is closed
        return b""


def main(names: list[str]) -> None:
    """Make the pictures with these names, or all of them."""
    makers: dict[str, Callable[[Path], None]] = {name: picture.make for name, picture in PICTURES.items()}
    os.environ["PATH"] = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name in ("examples", "docs"):
            Path(name).symlink_to(CHECKOUT / name)
        Path("magic-trace.fxt").symlink_to(MAGIC_TRACE)
        shutil.copy(CHECKOUT / "examples" / "notebook.ipynb", ".")
        subprocess.run(shlex.split(RECORD), check=True)
        for name in names or makers:
            makers[name](FOLDER / name)
            print(f"{name}: {(FOLDER / name).stat().st_size:,} bytes")
        os.chdir(FOLDER)


if __name__ == "__main__":
    main(sys.argv[1:])
