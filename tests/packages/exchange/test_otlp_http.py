"""Tests of spans that are sent by HTTP: a server here takes the requests, and `opentelemetry-proto` reads them."""

from __future__ import annotations

import gzip
import http.server
import io
import json
import re
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

import fxtio
from fxtio import cli, synth
from fxtio.cli import console
from fxtio.errors import FormatError
from fxtio.exchange import otlp_http
from fxtio.exchange.convert import LossError, convert
from fxtio.exchange.otlp_http import DeliveryError

LINES = 4
RESET = -1


class Answer(NamedTuple):
    status: int = 200
    body: bytes = b"{}"
    headers: Mapping[str, str] = {}


class Receiver:
    """A server that notes requests, and answers with what it is given, or else that it took them."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.requests.append((self.path, dict(self.headers), body))
                answer = receiver.answers.pop(0) if receiver.answers else Answer()
                if answer.status == RESET:
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                self.send_response(answer.status)
                for name, value in {**answer.headers, "Content-Length": str(len(answer.body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer.body)

            do_GET = do_POST  # noqa: N815  # what follows a redirection would come here

            def log_message(self, *_: Any) -> None:
                """Print nothing."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=[0.01])


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    made.thread.start()
    yield made
    made.server.shutdown()
    made.thread.join()
    made.server.server_close()


@contextmanager
def raw_receiver(answer: bytes, endless: bytes = b"") -> Iterator[str]:
    """Yield the URL of a receiver that answers with some bytes, and then with others again and again."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError), server.accept()[0] as connection:
                connection.settimeout(0.1)
                with suppress(TimeoutError):
                    while connection.recv(1 << 16):
                        pass
                connection.sendall(answer)
                while endless and not ended.wait(0.02):
                    connection.sendall(endless)

        ended = threading.Event()
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        ended.set()
        thread.join()


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the waits between requests, of which none lasts."""
    found: list[float] = []
    monkeypatch.setattr("fxtio.exchange.otlp_http.time.sleep", found.append)
    return found


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("spans") / "in.fxt"
    synth.write(path, "spans", events=2_500)  # at most a thousand in a request
    return path


def sent(trace: Path, url: str) -> None:
    with fxtio.open_timeline(trace) as timeline:
        convert(timeline, url)


@pytest.mark.parametrize("path", ["", "/", "/v1/traces", "/inner", "/inner/v1/traces/", "?key=1"])
def test_all_spans_are_taken(trace: Path, receiver: Receiver, tmp_path: Path, path: str) -> None:
    told: list[tuple[int, int]] = []
    with fxtio.open_timeline(trace) as timeline:
        assert not convert(timeline, receiver.url + path, when_sent=lambda *each: told.append(each))
        convert(timeline, tmp_path / "same.otlp.jsonl")
    lines = (tmp_path / "same.otlp.jsonl").read_bytes().splitlines()
    assert [json.loads(body) for _, _, body in receiver.requests] == [*map(json.loads, lines)]
    assert len(lines) == len(told) == LINES
    spans = 0
    for place, headers, body in receiver.requests:
        assert place == f"{'/inner' if 'inner' in path else ''}/v1/traces{path if path.startswith('?') else ''}"
        assert headers["Content-Type"] == "application/json"
        message = ParseDict(json.loads(body), ExportTraceServiceRequest())
        spans += sum(len(scope.spans) for resource in message.resource_spans for scope in resource.scope_spans)
    assert spans == 2_500
    size = (tmp_path / "same.otlp.jsonl").stat().st_size
    assert told[0] == (0, size)
    assert 0 < told[1][0] < told[2][0] < size


def test_a_busy_receiver_gets_the_same_request_again(trace: Path, receiver: Receiver, waits: list[float]) -> None:
    receiver.answers = [
        Answer(429, headers={"Retry-After": "7"}), Answer(503), Answer(200),
        Answer(502, headers={"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"}),
        Answer(504, headers={"Retry-After": "9" * 9}), Answer(RESET),
    ]  # fmt: skip
    sent(trace, receiver.url)
    bodies = [body for *_, body in receiver.requests]
    assert bodies[0] == bodies[1] == bodies[2] != bodies[3] == bodies[4] == bodies[5] == bodies[6] != bodies[7]
    assert len(bodies) == 5 + LINES
    assert waits == [7, 2, 1, 60, 4]


def test_a_receiver_that_stays_busy_is_an_error(trace: Path, receiver: Receiver, waits: list[float]) -> None:
    receiver.answers = [Answer(), *[Answer(503, b'{"message": "too much"}')] * 9]
    with pytest.raises(DeliveryError, match="after 1 request: 503 Service Unavailable: too much"):
        sent(trace, receiver.url)
    assert waits == [*otlp_http.WAITS]


def test_a_refusal_is_an_error_at_once(trace: Path, receiver: Receiver, waits: list[float]) -> None:
    receiver.answers = [Answer(401, b'{"message": "no \\u001b[2J key"}')]
    with pytest.raises(DeliveryError, match=r"did not take the spans: 401 Unauthorized: no .x1b\[2J key"):
        sent(trace, receiver.url)
    assert len(receiver.requests) == 1
    assert not waits


def test_a_wrong_address_is_an_error_at_once(trace: Path, waits: list[float]) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://user:hidden@127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(DeliveryError, match="did not take the spans") as caught:
            sent(trace, url)
    assert "hidden" not in str(caught.value)
    assert not waits


def test_redirections_are_not_followed(trace: Path, receiver: Receiver) -> None:
    receiver.answers = [Answer(302, headers={"Location": "/elsewhere"})]
    with pytest.raises(DeliveryError, match="302 Found"):
        sent(trace, receiver.url)
    assert len(receiver.requests) == 1


def test_rejected_spans_are_an_error_after_all_are_sent(trace: Path, receiver: Receiver) -> None:
    partial = {"partialSuccess": {"rejectedSpans": "5", "errorMessage": "names are long"}}
    receiver.answers = [
        Answer(body=json.dumps(partial).encode()),
        Answer(body=b'{"partialSuccess":{"rejectedSpans":2}}'),
    ]
    with pytest.raises(DeliveryError, match="rejected 7 spans: names are long"):
        sent(trace, receiver.url)
    assert len(receiver.requests) == LINES


@pytest.mark.parametrize(
    "body",
    [b"", b"no JSON", b"[1]", b'{"partialSuccess": 5}', b'{"partialSuccess": {"rejectedSpans": -1}}', b"[" * 100_000,
     b'{"partialSuccess": {"rejectedSpans": "%s", "errorMessage": 3}}' % (b"9" * 5_000), b"x" * 1_000_000],
)  # fmt: skip
def test_odd_answers_count_as_taken(trace: Path, receiver: Receiver, body: bytes) -> None:
    receiver.answers = [Answer(body=body)]
    sent(trace, receiver.url)
    assert len(receiver.requests) == LINES


OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize("begin", [b"", OK, OK + b"Content-Length: 9000\r\n\r\n", b"HTTP/1.1 400 No\r\n\r\n"])
@pytest.mark.parametrize("rest", [b"HTTP/1.1 100 Continue\r\n\r\n", b" "])
def test_an_answer_that_does_not_end_is_given_up(
    trace: Path, monkeypatch: pytest.MonkeyPatch, begin: bytes, rest: bytes
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "200")
    with raw_receiver(begin, rest) as url, pytest.raises(DeliveryError, match=r"no answer within 0.2 s$"):
        sent(trace, url)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"HTTP/1.1 400 No\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "400 No"),
        (b"HTTP/1.1 400 No\r\nContent-Length: 9000\r\n\r\n{", "400 No"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", "IncompleteRead"),
        (OK + b"a: b\r\n" * 200, "got more than 100 headers"),
        (b"\x1b[31m\r\n\r\n", r"\\x1b\[31m"),
        (b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n", "302 Found$"),
    ],
)
def test_an_answer_that_is_no_http_is_an_error(trace: Path, answer: bytes, message: str) -> None:
    with raw_receiver(answer) as url, pytest.raises(DeliveryError, match=f"did not take the spans: .*{message}"):
        sent(trace, url)


def test_settings_of_opentelemetry(trace: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "key=wrong")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "key=a%20b, other=c=d")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "2500")
    sent(trace, receiver.url.replace("//", "//me:p%40ss@"))
    _, headers, body = receiver.requests[0]
    assert {headers["Key"], headers["Other"], headers["Content-Encoding"]} == {"a b", "c=d", "gzip"}
    assert headers["Authorization"] == "Basic bWU6cEBzcw=="
    assert ParseDict(json.loads(gzip.decompress(body)), ExportTraceServiceRequest())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("TIMEOUT", text) for text in ("soon", "0", "-1", "9" * 20, "9" * 400, "9" * 5_000)),
        *(("HEADERS", text) for text in ("a=%0Ab", "ä=b", "=b", "a:b=c", "a b=c", "a=€")),
    ],
)
def test_settings_that_make_no_sense(
    trace: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(f"OTEL_EXPORTER_OTLP_{name}", value)
    with pytest.raises(FormatError, match=f"OTEL_EXPORTER_OTLP_{name}"):
        sent(trace, receiver.url)
    assert not receiver.requests


@pytest.mark.parametrize(
    "url", ["http://", "https:///x", "http://host:port", "http://a b/", "http://[::1", "HTTP://ä/"]
)
def test_what_is_no_url(trace: Path, url: str) -> None:
    with pytest.raises(FormatError, match="URL"):
        sent(trace, url)


@pytest.mark.parametrize(
    "end",
    [
        "127.0.0.1:99999/", "127.0.0.1:port", "[::1", "ho st", "", "127.0.0.1:1?key=secret", "127.0.0.1:x?key=secret",
        "\n",
    ],
)  # fmt: skip
@pytest.mark.parametrize("password", ["secret", "sec/secret", "a b@secret", "?secret", "#secret", "[secret"])
def test_no_message_has_a_password_or_a_key(trace: Path, password: str, end: str) -> None:
    with pytest.raises((FormatError, DeliveryError)) as caught:
        sent(trace, f"http://me:{password}@{end}")
    assert "sec" not in str(caught.value)
    assert "http://" in str(caught.value)


@pytest.mark.parametrize("url", ["http:/me:secret@host/x", "http:me:secret@host", "http://host /x#key=secret"])
def test_nor_has_one_about_what_is_no_url(url: str) -> None:
    with pytest.raises(FormatError) as caught:
        otlp_http.Receiver(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("header", ["content-length=5", "Transfer-Encoding=chunked", "Content-Type=text/plain"])
def test_headers_that_say_what_is_sent_stay(
    trace: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, header: str
) -> None:
    sent(trace, receiver.url)
    before = receiver.requests.copy()
    receiver.requests.clear()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", header)
    sent(trace, receiver.url)
    assert receiver.requests == before


def test_nothing_is_sent_before_the_whole_trace_is_read(tmp_path: Path, receiver: Receiver) -> None:
    synth.write(tmp_path / "in.fxt", "program", events=100)
    with fxtio.open_timeline(tmp_path / "in.fxt") as timeline:
        with pytest.raises(LossError):
            convert(timeline, receiver.url, strict=True)
        with pytest.raises(FormatError, match="a receiver takes otlp, not chrome"):
            convert(timeline, receiver.url, to="chrome")
    assert not receiver.requests


@pytest.mark.parametrize("host", ["a..b", "a" * 70])
def test_a_host_that_cannot_be(trace: Path, host: str) -> None:
    with pytest.raises(DeliveryError, match=f"{host}/v1/traces did not take the spans: .*label"):
        sent(trace, f"http://{host}")


def test_a_wrong_url_is_an_error_before_the_trace_is_read(tmp_path: Path) -> None:
    synth.write(tmp_path / "in.fxt", "program", events=100)
    with fxtio.open_timeline(tmp_path / "in.fxt") as timeline, pytest.raises(FormatError, match="URL"):
        convert(timeline, "http://host:port", strict=True)  # which would be a LossError once it is read


def test_the_command(trace: Path, receiver: Receiver, capsys: pytest.CaptureFixture[str]) -> None:
    receiver.answers = [Answer(400)]
    assert cli.main(["convert", str(trace), receiver.url]) == 2
    assert capsys.readouterr().err == f"fxtio: {receiver.url}/v1/traces did not take the spans: 400 Bad Request\n"
    assert cli.main(["convert", str(trace), receiver.url, "--from", "0", "--until", "1us"]) in (0, 1)
    assert len(receiver.requests) == 2


def test_a_terminal_shows_how_much_is_sent_until_an_error(
    trace: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    monkeypatch.setattr(console, "_PROGRESS_AFTER", 1e-6)
    receiver.answers = [Answer(), Answer(400)]
    assert cli.main(["convert", str(trace), receiver.url]) == 2
    *_, shown, error = terminal.getvalue().split("\r\x1b[K")
    assert re.fullmatch(r"[\d.]+ KiB of [\d.]+ [KM]iB \(\d+%\), .*/s", shown)
    assert error.startswith("fxtio: http://")
