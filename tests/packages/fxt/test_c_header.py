"""The header of `fxtio generate c`: compiled strictly, it writes what the format takes, and reads anything.

All cases and scenarios of the conformance kit go through it in `tests/packages/conformance/test_testees.py`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from enum import IntEnum
from pathlib import Path
from typing import Annotated, ClassVar

import pytest

import judges
from fxtio import synth
from fxtio.codec.parts import Rest, Signed
from fxtio.codec.record import Record
from fxtio.codec.word import Word, bits, reserved, tag
from fxtio.fxt import FxtWriter, c_header
from fxtio.fxt import records as r
from fxtio.fxt.layout import MAX_TEXT_BYTES
from support.checkout import CHECKOUT
from support.in_process import run_fxtio
from support.limits import PATIENCE

pytestmark = [pytest.mark.full, pytest.mark.once]

STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]
SANITIZED = ["-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
REWRITE = CHECKOUT / "tests" / "support" / "c_header_rewrite.c"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the header."""
    judges.require(None if shutil.which("cc") else "there is no cc")
    folder = tmp_path_factory.mktemp("header")
    assert run_fxtio("generate", "c", "-o", str(folder / "fxt.h")).returncode == 0
    return folder


def compiled(folder: Path, source: str, *flags: str, compiler: str = "cc", ending: str = "c") -> Path:
    """Compile a program that includes the header, without a warning, and return it."""
    name = folder / f"program{abs(hash((source, flags, compiler)))}"
    name.with_suffix(f".{ending}").write_text(source)
    words = [compiler, *flags, f"-I{folder}", "-o", str(name), str(name.with_suffix(f".{ending}"))]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return name


def output(*words: object) -> str:
    """Run a program, which must succeed and print nothing to standard error, and return its output."""
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    return done.stdout


# ---- The text.


def test_standard_output_has_the_same_text(folder: Path) -> None:
    assert run_fxtio("generate", "c").stdout == (folder / "fxt.h").read_text() == c_header.header_text()


def test_every_name_has_the_prefix(folder: Path) -> None:
    text = re.sub(r"/\*.*?\*/", "", (folder / "fxt.h").read_text(), flags=re.DOTALL)
    functions, macros, types = (
        re.findall(pattern, text, re.MULTILINE)
        for pattern in (r"^static inline [\w ]+? \*?(\w+)\(", r"^#define (\w+)", r"^\} (\w+);")
    )
    members = [name for body in re.findall(r"^typedef enum .*?\{(.*?)\}", text, re.DOTALL | re.MULTILINE)
               for name in re.findall(r"^ +(\w+)", body, re.MULTILINE)]  # fmt: skip
    names = [*functions, *macros, *types, *members]
    assert min(map(len, (functions, macros, types, members))) > 50
    assert [name for name in names if not name.startswith(("fxt_", "FXT_"))] == []


def test_every_record_and_argument_is_there(folder: Path) -> None:
    text = (folder / "fxt.h").read_text()
    for cls in (*r.RECORDS.classes, *r.ARGUMENTS.classes):
        name = re.sub(r"(?<!^)([A-Z])", r"_\1", cls.__name__).lower().replace("int_", "int")
        for verb in ("write", "read"):
            assert text.count(f"static inline bool fxt_{verb}_{name}(") == 1


@pytest.mark.parametrize(
    ("compiler", "standard"),
    [(compiler, standard) for compiler in ("gcc", "clang") for standard in ("c99", "c11", "c17")]
    + [(compiler, standard) for compiler in ("g++", "clang++") for standard in ("c++11", "c++20")],
)
def test_it_compiles_strictly(compiler: str, standard: str, folder: Path) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    ending = "cc" if "++" in compiler else "c"
    source = '#include "fxt.h"\nint main(void) { return FXT_MAGIC; }\n'
    assert output(compiled(folder, source, f"-std={standard}", "-O2", *STRICT, compiler=compiler, ending=ending)) == ""


NOTHING = """
int main(void)
{
    fxt_out out = {NULL, NULL};
    fxt_in in = fxt_reader(NULL, 0);
    fxt_magic magic = {0};
    fxt_record record;
    return fxt_write_magic(&out, &magic) || fxt_read_record(&in, &record) || out.at || in.at != in.end;
}
"""


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_memory_of_no_bytes_may_be_null(compiler: str, folder: Path) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    output(compiled(folder, f'#include "fxt.h"\n{NOTHING}', "-std=c99", *STRICT, *SANITIZED, compiler=compiler))


# ---- A declaration that the format does not have.


class Color(IntEnum):
    """The colors."""

    RED = 1


class TileWord(Word):
    """A word with fields of kinds that the format does not have."""

    type: int = tag(0, 3, 12)
    size: int = bits(4, 15, least=1)
    shift: int = bits(16, 25, signed=True, doc="how far")
    color: Color = bits(26, 31, least=1)
    is_last: int = bits(32, 32)
    unused: int = reserved(33, 63)


class Tile(Record, frozen=True, tag="tile"):
    """A record that nobody else knows."""

    words: ClassVar[tuple[type[Word], ...]] = (TileWord,)
    shift: int
    color: int
    is_last: bool
    balance: Signed


TILE = """
int main(void)
{
    uint8_t memory[16];
    fxt_out out = {memory, memory + sizeof memory};
    fxt_in in = {memory, memory + sizeof memory, false};
    fxt_tile tile = {-512, 63, true, INT64_MIN}, other;
    if (!fxt_write_tile(&out, &tile) || out.at != out.end || !fxt_read_tile(in, &other)) return 1;
    if (other.shift != -512 || other.color != 63 || !other.is_last || other.balance != INT64_MIN) return 2;
    fxt_tile wrong[] = {{-513, 1, false, 0}, {512, 1, false, 0}, {0, 0, false, 0}, {0, 64, false, 0}};
    for (int i = 0; i < 4; i++) {
        out.at = memory;
        if (fxt_write_tile(&out, &wrong[i]) || out.at != memory) return 3 + i;
    }
    return 0;
}
"""


def test_a_new_record_is_written_and_read(folder: Path) -> None:
    lines = "\n".join(c_header.record_lines(Tile))
    output(compiled(folder, f'#include "fxt.h"\n{lines}\n{TILE}', "-std=c99", *STRICT, *SANITIZED))


def test_a_part_that_has_no_form_in_c_is_refused() -> None:
    class Tail(Record, frozen=True, tag="tail"):
        words: ClassVar[tuple[type[Word], ...]] = (TileWord,)
        shift: int
        color: int
        rest: Annotated[bytes | None, Rest("is_last")]

    with pytest.raises(TypeError, match="Rest has no form in C"):
        list(c_header.record_lines(Tail))


# ---- Records of every kind, and damaged ones.


def samples(folder: Path) -> list[Path]:
    """Return traces with every record and every argument."""
    paths = [folder / "every.fxt", folder / "mixed.fxt", folder / "rare.fxt"]
    synth.write(paths[0], "everything", events=400, seed=1)
    synth.write(paths[1], "mixed", events=400, seed=1)
    with FxtWriter(paths[2]) as writer:
        writer.put(r.Magic())
        writer.put(r.TraceInfo(info_type=1, data=1 << 39))
    return paths


def test_each_record_is_written_again_as_it_was(folder: Path, tmp_path: Path) -> None:
    program = compiled(folder, REWRITE.read_text(), "-std=c99", "-Wall", "-Wextra", "-Werror", *SANITIZED)
    counts = dict(line.split(" ", 1)[::-1] for line in output(program, 0, *samples(tmp_path)).splitlines())
    assert len(counts) == len(r.RECORDS.classes) + len(r.ARGUMENTS.classes)
    assert [name for name, count in counts.items() if count == "0"] == []


def test_damaged_traces_are_read(folder: Path, tmp_path: Path) -> None:
    """The sanitizers see each byte that is read."""
    program = compiled(folder, REWRITE.read_text(), "-std=c99", "-Wall", "-Wextra", "-Werror", *SANITIZED)
    big = tmp_path / "big.fxt"
    synth.write(big, "everything", events=400, seed=2, order="big")
    cases = [path for path in (CHECKOUT / "conformance" / "cases" / "fxt").rglob("*.fxt") if path.stat().st_size]
    assert len(cases) > 300
    output(program, 20, big, *samples(tmp_path))
    output(program, 200, *cases)


# ---- What is refused.

REFUSED = """
#include <stdio.h>
#include <stdlib.h>
#include "fxt.h"
static uint8_t memory[1 << 16], before[1 << 16];
static fxt_out out = {memory, memory + sizeof memory};
static int number;
static void expect(bool is_taken, bool is_written)
{
    number++;
    if (is_taken != is_written || (out.at == memory) == is_taken) printf("%d\\n", number), exit(1);
    if (!is_taken && memcmp(memory, before, sizeof memory)) printf("%d: written\\n", number), exit(1);
    out.at = memory;
    memset(memory, 0, sizeof memory);
}
#define TRY(is_taken, name, ...) expect(is_taken, fxt_write_##name(&out, &(fxt_##name){__VA_ARGS__}))
int main(void)
{
    static char text[MOST + 1];
    fxt_argument list[16];
    fxt_string_ref longest = {{text, MOST}, 0}, longer = {{text, MOST + 1}, 0};
    for (int i = 0; i < 16; i++) list[i] = fxt_make_null_argument(fxt_string_slot(1));
    TRY(true, instant, .name = longest);
    TRY(false, instant, .name = longer);
    TRY(false, instant, .name = longest, .category = {{text, 800}, 0});
    TRY(true, instant, .name = fxt_string_slot(FXT_MAX_STRING_SLOT), .thread = fxt_thread_slot(FXT_MAX_THREAD_SLOT));
    TRY(false, instant, .name = fxt_string_slot(FXT_MAX_STRING_SLOT + 1));
    TRY(true, instant, .args = fxt_arguments_of(list, FXT_MAX_ARGUMENTS));
    TRY(false, instant, .args = fxt_arguments_of(list, FXT_MAX_ARGUMENTS + 1));
    TRY(false, instant, .thread = {.process = 1, .process_only = true});
    TRY(true, profiler_mmap, .thread = {.process = 1, .process_only = true}, .flags = 7);
    TRY(false, profiler_mmap, .flags = 8);
    TRY(true, string, .index = 1, .text = {text, MOST});
    TRY(false, string, .index = 0);
    TRY(false, string, .index = FXT_MAX_STRING_SLOT + 1);
    TRY(false, string, .index = 1, .text = {text, MOST + 1});
    TRY(false, thread_record, .index = 0);
    TRY(true, provider_info, .name = {text, 255});
    TRY(false, provider_info, .name = {text, 256});
    TRY(false, provider_event, .event = 16);
    TRY(true, initialization, .base_ticks = {true, 1});
    TRY(false, initialization, .wall_clock = {true, 1});
    TRY(false, blob, .payload = {text, SIZE_MAX});
    TRY(false, large_blob, .payload = {text, SIZE_MAX});
    TRY(false, profiler_backtrace, .frames = {text, 256, false});
    list[0] = fxt_make_string_argument(fxt_string_slot(1), longer);
    TRY(false, instant, .args = fxt_arguments_of(list, 1));
    list[0].kind = FXT_UNKNOWN_ARGUMENT;
    TRY(false, instant, .args = fxt_arguments_of(list, 1));
    return 0;
}
"""


def test_what_does_not_fit_is_refused_and_not_written(folder: Path) -> None:
    source = REFUSED.replace("MOST", str(MAX_TEXT_BYTES))
    assert output(compiled(folder, source, "-std=c99", "-Wall", "-Wextra", *SANITIZED)) == ""
