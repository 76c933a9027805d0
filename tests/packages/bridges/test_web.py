"""The flight recorder over HTTP: who knows the token gets the last moments as a trace."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

import pytest

import fxtio
from fxtio.bridges import web
from fxtio.testing.asserts import assert_valid

pytestmark = pytest.mark.recorder

TOKEN = "a token of some length"
RIGHT = f"Bearer {TOKEN}"


@pytest.fixture
def recording(tmp_path: Path) -> Iterator[None]:
    fxtio.start(tmp_path / "service.fxt", ring="1MiB", categories=["web"])  # without what pytest records
    with fxtio.span("request", "web"):
        pass
    yield
    fxtio.stop()


def hello(environ: Any, start_response: Any) -> list[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"hello"]


async def hello_async(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": b"hello " + scope["type"].encode()})


def count_descriptors() -> int:
    """Return the number of open files, 0 where that cannot be seen."""
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.exists() else 0


Response = tuple[int, dict[str, str], bytes]


def ask_wsgi(address: str, authorization: str, method: str, app: Any = hello, **options: Any) -> Response:
    environ: dict[str, Any] = {"PATH_INFO": address, "REQUEST_METHOD": method, "HTTP_AUTHORIZATION": authorization}
    environ |= {"QUERY_STRING": "", "SCRIPT_NAME": ""}
    setup_testing_defaults(environ)
    started: list[Any] = []

    def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
        started.extend((status, headers))
        return lambda data: None

    body = validator(web.wsgi(app, **{"token": TOKEN} | options))(environ, start_response)
    content = b"".join(body)
    body.close()  # type: ignore[attr-defined]
    return int(started[0][:3]), {name.lower(): value for name, value in started[1]}, content


def ask_asgi(address: str, authorization: str, method: str, app: Any = hello_async, **options: Any) -> Response:
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = [(b"host", b"here"), (b"Authorization", authorization.encode("latin-1"))]
    scope = {"type": "http", "path": address, "method": method, "headers": headers}
    asyncio.run(web.asgi(app, **{"token": TOKEN} | options)(scope, None, send))  # type: ignore[arg-type]
    assert [message["type"] for message in sent] == ["http.response.start", *["http.response.body"] * (len(sent) - 1)]
    assert not sent[-1].get("more_body")
    body = b"".join(message["body"] for message in sent[1:])
    return sent[0]["status"], {name.decode(): value.decode() for name, value in sent[0]["headers"]}, body


ASK = pytest.mark.parametrize("ask", [ask_wsgi, ask_asgi])


@ASK
@pytest.mark.usefixtures("recording")
def test_the_last_moments_are_a_trace(tmp_path: Path, ask: Any) -> None:
    status, headers, body = ask(web.PATH, RIGHT, "GET")
    assert (status, headers["content-length"], headers["cache-control"]) == (200, str(len(body)), "no-store")
    assert headers["content-disposition"] == 'attachment; filename="last.fxt"'
    trace = tmp_path / "last.fxt"
    trace.write_bytes(body)
    assert_valid(trace)
    assert [record.name for record in fxtio.open(trace) if type(record).__name__ == "DurationBegin"] == ["request"]


@ASK
@pytest.mark.usefixtures("recording")
def test_it_is_compressed_if_the_suffix_says_so(ask: Any) -> None:
    status, headers, body = ask("/x", RIGHT, "GET", path="/x", suffix=".fxt.gz")
    assert (status, body[:2]) == (200, b"\x1f\x8b")
    assert "last.fxt.gz" in headers["content-disposition"]


@ASK
@pytest.mark.usefixtures("recording")
@pytest.mark.parametrize(
    "authorization",
    ["", "Bearer", "Bearer ", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer \xff"],
)
def test_without_the_token_there_is_no_dump(monkeypatch: pytest.MonkeyPatch, ask: Any, authorization: str) -> None:
    monkeypatch.setattr(web, "dump", lambda path: pytest.fail("a dump was taken"))
    for method in ("GET", "POST"):
        status, headers, body = ask(web.PATH, authorization, method)
        assert (status, headers["www-authenticate"]) == (401, "Bearer")
        assert body == b"fxtio: the token is missing or wrong\n"


@ASK
def test_other_requests_are_those_of_the_application(ask: Any) -> None:
    assert ask("/", "", "GET")[2].startswith(b"hello")
    assert ask(f"{web.PATH}/more", RIGHT, "GET")[2].startswith(b"hello")
    assert ask("/", RIGHT, "GET", app=None)[0] == 404


@ASK
def test_what_gives_no_dump(monkeypatch: pytest.MonkeyPatch, ask: Any) -> None:
    assert ask(web.PATH, RIGHT, "GET")[0] == 409
    status, headers, _ = ask(web.PATH, RIGHT, "POST")
    assert (status, headers["allow"]) == (405, "GET")

    def full(path: Path) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(web, "dump", full)
    status, _, body = ask(web.PATH, RIGHT, "GET")
    assert (status, b"No space left on device" in body) == (500, True)


def test_one_dump_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    app = web.wsgi(token=TOKEN)
    environ = {"PATH_INFO": web.PATH, "REQUEST_METHOD": "GET", "HTTP_AUTHORIZATION": RIGHT}
    inner: list[str] = []

    def asks_again(path: Path) -> None:
        list(app(environ, lambda status, headers: inner.append(status)))

    monkeypatch.setattr(web, "dump", asks_again)
    outer: list[str] = []
    for _ in range(2):
        list(app(environ, lambda status, headers: outer.append(status)))
    assert inner == ["503 Service Unavailable"] * 2
    assert outer == ["409 Conflict"] * 2


@pytest.mark.usefixtures("recording")
def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    descriptors = count_descriptors()
    for ask in (ask_wsgi, ask_asgi):
        assert ask(web.PATH, RIGHT, "GET")[0] == 200
    assert not list((tmp_path / "temporary").iterdir())
    assert count_descriptors() == descriptors


def test_other_protocols_are_those_of_the_application() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "lifespan"}
    asyncio.run(web.asgi(hello_async, token=TOKEN)(scope, None, send))  # type: ignore[arg-type]
    assert sent[1]["body"] == b"hello lifespan"
    with pytest.raises(ValueError, match="lifespan"):
        asyncio.run(web.asgi(token=TOKEN)(scope, None, send))  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [web.wsgi, web.asgi])
def test_a_token_is_needed(monkeypatch: pytest.MonkeyPatch, make: Any) -> None:
    monkeypatch.delenv(web.TOKEN, raising=False)
    for token in (None, "", "short"):
        with pytest.raises(ValueError, match="at least 16 characters"):
            make(token=token)
    monkeypatch.setenv(web.TOKEN, TOKEN)
    assert make()
