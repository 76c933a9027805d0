"""Tests of the commands as processes: pipes, closed streams, signals, exit codes, input that is not a trace."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from fsspec.implementations.memory import MemoryFile, MemoryFileSystem
from fsspec.registry import get_filesystem_class, known_implementations

import fxtio
import fxtio._native
from fxtio.cli import FAULT, INTERRUPTED, PIPE_CLOSED, console, main
from fxtio.cli.console import Progress
from fxtio.fxt.frames import BATCH_WORDS
from fxtio.fxt.layout import MAGIC
from fxtio.io.source import HEAD
from fxtio.report import human_duration, human_size, printable, seconds
from fxtio.view.content import readable
from support.checkout import CORPUS, run_python
from support.limits import PATIENCE

FXT = CORPUS / "fxt"
READERS = ("info", "dump", "stats")
COMMAND = [sys.executable, "-P", "-m", "fxtio"]

ONE_BATCH = ((FXT / "magic-trace.fxt").read_bytes() * 3)[: BATCH_WORDS * 8]
"""As many bytes as a reader needs before it yields records."""

Capture = pytest.CaptureFixture[str]


def fxtio_process(*arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, timeout=PATIENCE, check=False, **options)


# ---------------------------------------------------------------------------------------------------------------- input


def small_trace(name: str) -> bytes:
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        writer.thread(1, 2).instant(name, 1)
    return out.getvalue()


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


@pytest.mark.full
@pytest.mark.parametrize("compress", [bytes, gzip.compress, zstd, lzma.compress], ids=["plain", "gzip", "zstd", "xz"])
@pytest.mark.parametrize("verb", READERS)
def test_compressed_and_piped(
    verb: str, compress: Callable[[bytes], bytes], tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Compare the output for a file, read in this process, with that for a pipe, read in a child process."""
    data = compress((FXT / "ftr-demo.fxt").read_bytes())
    path = tmp_path / "trace"
    path.write_bytes(data)
    from_pipe = fxtio_process(verb, "-", input=data)
    assert (main([verb, str(path)]), from_pipe.returncode) == (0, 0)
    stdout, stderr = capfdbinary.readouterr()
    assert stdout.replace(os.fsencode(path), b"<stdin>") == from_pipe.stdout != b""
    assert stderr == from_pipe.stderr == b""


@pytest.mark.native
@pytest.mark.skipif(sys.platform == "win32", reason="needs named pipes")
def test_a_named_pipe(tmp_path: Path) -> None:
    os.mkfifo(path := tmp_path / "pipe")
    with subprocess.Popen([*COMMAND, "info", "--json", str(path)], stdout=subprocess.PIPE) as child:
        path.write_bytes((FXT / "ftr-demo.fxt").read_bytes())
        assert child.stdout is not None
        assert json.loads(child.stdout.read())["size"] == 9792
    assert child.returncode == 0


@pytest.mark.native
def test_lines_are_printed_while_the_trace_is_read() -> None:
    with subprocess.Popen([*COMMAND, "dump", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(ONE_BATCH)
        child.stdin.flush()
        assert child.stdout.readline().split() == [b"0", b"Magic"]
        child.kill()


@pytest.mark.native
def test_output_that_the_terminal_cannot_show(tmp_path: Path) -> None:
    path = tmp_path / "name.fxt"
    path.write_bytes(small_trace("größer"))
    child = fxtio_process("dump", str(path), env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert child.returncode == 0
    assert rb"gr\xf6\xdfer" in child.stdout


# --------------------------------------------------------------------------------------------------------------- errors


UNREADABLE: dict[str, tuple[bytes | None, str]] = {
    "missing": (None, "No such file or directory"),
    "empty": (b"", "the file is empty"),
    "empty.fxt": (b"", "the file is empty"),
    "empty.gz": (gzip.compress(b""), "the file is empty"),
    "damaged.gz": (b"\x1f\x8b\x08", "the gzip stream is cut or damaged"),
    "text.txt": (b"hello\n", "is a text file"),
    "text.fxt": ("grüße".encode() * 20, "is a text file"),
    "other": (bz2.compress(b"hello"), "not a trace of a known format"),
}


@pytest.mark.native
@pytest.mark.parametrize("verb", READERS)
@pytest.mark.parametrize("name", UNREADABLE)
def test_unreadable_input(verb: str, name: str, capsys: Capture, tmp_path: Path) -> None:
    content, message = UNREADABLE[name]
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    assert main([verb, str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(rf"fxtio: {re.escape(str(path))}.*{message}.*\n", err)


@pytest.mark.native
def test_a_directory(capsys: Capture, tmp_path: Path) -> None:
    assert main(["info", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"fxtio: {tmp_path} is a directory, not a trace of a known format\n"


@pytest.mark.native
@pytest.mark.parametrize(
    "arguments",
    [
        ["nope"], ["info"], ["info", "a", "b"], ["info", "--wrong", "x"], ["dump", "--limit", "0", "x"],
        ["dump", "--limit", "many", "x"], ["stats", "--top", "-1", "x"], ["dump", "--js", "x"],
    ],
)  # fmt: skip
def test_wrong_usage(arguments: list[str], capsys: Capture) -> None:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert "error:" in capsys.readouterr().err


@pytest.mark.native
@pytest.mark.parametrize("verb", READERS)
def test_findings_make_the_exit_code_1(verb: str, capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "cut.fxt"
    path.write_bytes((FXT / "magic-trace.fxt").read_bytes()[:-5])
    assert main([verb, str(path)]) == 1
    out, err = capsys.readouterr()
    assert out
    assert re.fullmatch(r"fxtio: 1 finding\n  error at byte 992,368: .* \[fxt\.framing\.truncated\]\n", err)


@pytest.mark.native
def test_only_the_first_findings_are_printed(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "bad.fxt"
    magic = (FXT / "magic-trace.fxt").read_bytes()[:8]
    good = small_trace("x")[8:]
    path.write_bytes(magic + (bytes(8) + good) * 5)
    assert main(["info", "--json", str(path)]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["findings"]["counts"] == {"fxt.framing.zero-words": 5}
    assert len(json.loads(out)["findings"]["first"]) == 5
    assert err.count("a zero word between records") == 3
    assert "5 in total [fxt.framing.zero-words]" in err


# ---------------------------------------------------------------------------------------------------------- the process


@pytest.mark.native
@pytest.mark.full
def test_output_to_a_closed_pipe() -> None:
    for arguments in (["dump"], ["dump", "--json"]):
        command = [*COMMAND, *arguments, str(FXT / "magic-trace.fxt")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            assert child.stdout is not None
            assert child.stderr is not None
            child.stdout.readline()
            child.stdout.close()
            assert child.stderr.read() == b""
        assert child.returncode == PIPE_CLOSED


def test_out_of_memory(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    def no_memory(path: str, *_: object, **__: object) -> None:
        raise MemoryError(path)

    monkeypatch.setattr("fxtio.cli.inputs.opened_timeline", no_memory)
    assert main(["top", "large.fxt"]) == 2
    assert capsys.readouterr().err == "fxtio: out of memory\n"


def test_a_fault_of_fxtio_is_no_finding(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr("fxtio.cli.inputs.opened_timeline", lambda *_, **__: 1 // 0)
    assert main(["top", "trace.fxt"]) == FAULT
    assert "\nZeroDivisionError: " in capsys.readouterr().err


@pytest.mark.native
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for a single process")
def test_interrupted() -> None:
    with subprocess.Popen([*COMMAND, "dump", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as child:  # fmt: skip
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdin.write(ONE_BATCH)
        child.stdin.flush()
        child.stdout.readline()  # the command is now reading
        child.send_signal(signal.SIGINT)
        child.stdout.read()
        assert child.stderr.read() == b"fxtio: interrupted\n"
    assert child.returncode == INTERRUPTED


@pytest.mark.native
@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
def test_closed_standard_streams() -> None:
    path = str(FXT / "ftr-demo.fxt")
    for redirection, stream in (("<&-", "input"), (">&-", "output")):
        file = "-" if stream == "input" else path
        command = ["sh", "-c", f'exec "$@" {redirection}', "sh", *COMMAND, "info", file]
        child = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False)
        assert (child.returncode, child.stderr) == (2, f"fxtio: standard {stream} is closed\n".encode())


@pytest.mark.native
@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
@pytest.mark.parametrize("arguments", [["convert", "--to", "chrome"], ["run"]], ids=["convert", "run"])
def test_closed_standard_error(arguments: list[str], tmp_path: Path) -> None:
    """What would be printed there does not get into the data on standard output."""
    verb, *options = arguments
    words = [verb, str(FXT / "magic-trace.fxt"), "-", *options] if options else [verb, str(tmp_path / "missing.py")]
    command = ["sh", "-c", 'exec "$@" 2>&-', "sh", *COMMAND, *words]
    child = subprocess.run(command, stdout=subprocess.PIPE, timeout=PATIENCE, check=False)
    if options:
        assert json.loads(child.stdout)["traceEvents"]
    else:
        assert (child.returncode, child.stdout) == (2, b"")


@pytest.mark.native
def test_an_empty_path_is_no_directory(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell makes it of a variable that is not set."""
    monkeypatch.chdir(tmp_path)
    trace = str(FXT / "ftr-demo.fxt")
    for arguments in ["info", ""], ["top", ""], ["validate", ""], ["cut", trace, "--from", "1%", "-o", ""]:
        assert main(arguments) == 2
        assert capsys.readouterr().err == "fxtio: '': No such file or directory\n"
    with pytest.raises(FileNotFoundError) as caught:  # what `fxtio open` reads
        readable("", tmp_path)
    assert caught.value.filename == ""


@pytest.mark.native
@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs /proc")
def test_a_file_that_cannot_be_read_has_a_name(capsys: Capture) -> None:
    for verb in READERS:
        assert main([verb, "/proc/self/mem"]) == 2
        assert capsys.readouterr().err == "fxtio: /proc/self/mem: Input/output error\n"


@pytest.mark.native
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".zst"])
def test_a_file_that_cannot_be_written_has_a_name(suffix: str, capsys: Capture, tmp_path: Path) -> None:
    link = tmp_path / f"full.fxt{suffix}"
    link.symlink_to("/dev/full")
    assert main(["synth", "spans", "--events", "10k", "-o", str(link)]) == 2
    assert capsys.readouterr().err == f"fxtio: {link}: No space left on device\n"


@pytest.mark.native
@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of processes")
@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".zst"])
def test_the_end_of_a_file_that_does_not_fit_is_an_error(suffix: str, capsys: Capture, tmp_path: Path) -> None:
    """The system writes the bytes for which there is room, and reports only the next write."""
    import resource

    path = tmp_path / f"cut.fxt{suffix}"
    command = ["synth", "spans", "--events", "1k", "-o", str(path)]
    assert main(command) == 0
    capsys.readouterr()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size - 3, limits[1]))
    try:
        status = main(command)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (status, capsys.readouterr().err) == (2, f"fxtio: {path}: File too large\n")


@pytest.mark.native
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("buffering", [{}, {"PYTHONUNBUFFERED": "1"}], ids=["buffered", "unbuffered"])
def test_a_full_disk(buffering: dict[str, str]) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"} | buffering
    command = [*COMMAND, "info", str(FXT / "ftr-demo.fxt")]
    with open("/dev/full", "wb") as full:
        child = subprocess.run(command, stdout=full, stderr=-1, check=False, env=environment)
    assert child.returncode == 2
    name = b"" if buffering else b"standard output: "
    assert child.stderr == b"fxtio: " + name + b"No space left on device\n"


@pytest.mark.native
def test_version() -> None:
    version, kernels, recorder = run_python("-m", "fxtio", "--version").stdout.splitlines()
    assert version == f"fxtio {fxtio.__version__}"
    has_kernels = fxtio._native.IMPLEMENTATION == "c"
    assert kernels.startswith("C kernels: yes" if has_kernels else "C kernels: no, traces are read more slowly (")
    assert recorder.startswith(("recorder: yes", "recorder: no, programs cannot be traced ("))


@pytest.mark.native
@pytest.mark.parametrize("arguments", [["--help"], ["--version"], *([verb, "--help"] for verb in (*READERS, "synth"))])
def test_help_is_quick(arguments: list[str]) -> None:
    code = (
        "import sys, fxtio.cli\n"
        f"try: fxtio.cli.main({arguments})\n"
        "except SystemExit as stop: assert not stop.code\n"
        "assert not {'numpy', 'msgspec', 'zstandard', 'construct'} & sys.modules.keys()"
    )
    assert "fxtio" in run_python("-c", code).stdout


# -------------------------------------------------------------------------------------------------------------- helpers


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.native
def test_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    with Progress(human_size) as progress:
        progress(10, 4096)
        assert terminal.getvalue() == ""  # too early
        now += 2
        progress(2048, 4096)
        progress(3000, 4096)  # too soon again
        now += 1
        progress(3072, None)
    erase = "\r\x1b[K"
    lines = ["2.0 KiB of 4.0 KiB (50%), 1.0 KiB/s", "3.0 KiB, 1.0 KiB/s", ""]
    assert terminal.getvalue() == "".join(f"{erase}{line}" for line in lines)


@pytest.mark.native
def test_progress_of_a_task_that_waits_for_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    with Progress(human_size) as progress:
        now += 60
        progress(0, 4096)
        assert terminal.getvalue() == ""
        now += 2
        progress(2048, 4096)
    erase = "\r\x1b[K"
    assert terminal.getvalue() == f"{erase}2.0 KiB of 4.0 KiB (50%), 1.0 KiB/s{erase}"


@pytest.mark.native
def test_progress_is_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    for hidden, stream in ((False, io.StringIO()), (True, Terminal())):
        monkeypatch.setattr("sys.stderr", stream)
        with Progress(human_size, hidden=hidden) as progress:
            progress._next = 0.0
            progress(1, 2)
        assert stream.getvalue() == ""


@pytest.mark.native
def test_sizes_and_times_as_text() -> None:
    assert [human_size(n) for n in (0, 1023, 1024, 3 << 30, 5 << 40)] == [
        "0 bytes", "1,023 bytes", "1.0 KiB", "3.0 GiB", "5.0 TiB",
    ]  # fmt: skip
    assert [human_duration(n) for n in (0, 999, 1_500, 2_000_000, 75_000_000_000)] == [
        "0 ns", "999 ns", "1.500 us", "2.000 ms", "75.000 s",
    ]  # fmt: skip
    assert [seconds(n) for n in (0, 1, -5_000_000)] == ["0.000000000", "0.000000001", "-0.005000000"]
    assert printable("a\tb\udc80\x7f\u2028ü") == r"a\tb\x80\x7f\u2028ü"


@pytest.mark.native
@pytest.mark.parametrize(
    ("arguments", "usage"),
    [
        (["run", "--bogus", "app.py"], "usage: fxtio run "),
        (["info", "--bogus", "file"], "usage: fxtio info "),
        (["--bogus", "info", "file"], "usage: fxtio COMMAND "),
        (["--bogus", "run", "app.py"], "usage: fxtio COMMAND "),
    ],
)
def test_an_unknown_option_shows_the_usage_of_its_place(arguments: list[str], usage: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as raised:
        main(arguments)
    assert raised.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith(usage)
    assert error.endswith("error: unrecognized arguments: --bogus\n")


@pytest.mark.native
def test_an_unknown_option_shows_the_usage_of_its_command(capsys: Capture) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["info", "--nope", "app.fxt"])
    assert raised.value.code == 2
    assert capsys.readouterr().err.startswith("usage: fxtio info ")


# ----------------------------------------------------------------------------------------------------------------- URLs

URL_READERS = (
    "info",
    "dump",
    "stats",
    "top",
    "tree",
    "find",
    "timeline",
    "validate",
    "explain",
    "open",
    "report",
    "diff",
)


def refusal_of(capsys: Capture, *arguments: str) -> str:
    """Run a command that must refuse; return the one line that it prints."""
    assert main(arguments) == console.REFUSED, arguments
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("fxtio: ")
    return line


def protocols_without_package() -> list[str]:
    """Return the protocols of fsspec for which a package is missing here."""

    def lacks(protocol: str) -> bool:
        try:
            get_filesystem_class(protocol)
        except ImportError:
            return True
        return False

    return [protocol for protocol in known_implementations if lacks(protocol)]


def test_a_url_whose_package_is_missing(capsys: Capture) -> None:
    """fsspec says which one."""
    protocols = protocols_without_package()
    assert protocols
    for protocol in protocols:
        line = refusal_of(capsys, "info", f"{protocol}://a/b.fxt")
        assert line.startswith(f"fxtio: {protocol}://a/b.fxt: a package is not installed that fsspec needs for it: ")
    for command in URL_READERS:
        url = f"{protocols[0]}://a/b.fxt"
        assert "a package is not installed" in refusal_of(capsys, command, url, *([url] if command == "diff" else []))


@pytest.mark.parametrize(
    "url", ["nosuch://x", "data://x", "github://x", "memory://none.fxt", "://x", "a\x1b[2J\u202e\n://x"]
)
def test_a_url_that_fsspec_refuses(url: str, capsys: Capture, tmp_path: Path) -> None:
    for command in ("info", "top", "validate"):
        assert printable(url) in refusal_of(capsys, command, url)
    for arguments in (["convert", str(FXT / "ftr-demo.fxt"), f"{url}.fxt"], ["synth", "spans", "-o", f"{url}.fxt"]):
        assert "cannot be written to a URL" in refusal_of(capsys, *arguments)
    with pytest.raises(fxtio.FormatError, match="cannot be written to a URL"):
        fxtio.create(url, format="uftrace")


def test_a_url_that_fails_while_it_is_read(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("the line is dead")

    MemoryFileSystem().pipe_file("/broken.fxt", MAGIC * HEAD)
    monkeypatch.setattr(MemoryFile, "readinto", fail)
    line = refusal_of(capsys, "info", "memory://broken.fxt")
    assert line == "fxtio: memory://broken.fxt: fsspec refuses it: the line is dead"


def test_a_url_is_read(capsys: Capture) -> None:
    data = (FXT / "ftr-demo.fxt").read_bytes()
    MemoryFileSystem().pipe_file("/app.fxt", data)
    assert main(["info", "--json", "memory://app.fxt"]) == 0
    assert json.loads(capsys.readouterr().out)["size"] == len(data)
