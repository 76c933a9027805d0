"""The flight recorder over HTTP: an application for WSGI, and one for ASGI, that give the last moments as a trace.

    app = fxtio.bridges.web.wsgi(app, token="...")  # GET /fxtio/dump, with the header `Authorization: Bearer ...`

Each wraps the program's own application, which gets all other requests.  A dump is taken as by `fxtio.dump`, sent, and
removed.  Only who knows the token gets one, and only one is taken at a time: each stops the recording for a moment.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from fxtio.tracer import dump
from fxtio.tracer.backend import RecorderMissingError

PATH = "/fxtio/dump"
"""The path of the requests that are answered here, unless another one is given."""

TOKEN = "FXTIO_TOKEN"
"""The environment variable that has the token, unless one is given."""

MIN_TOKEN = 16
"""Characters that a token has at least."""

_BLOCK_BYTES = 1 << 18
_SCHEME = "bearer"

Environment = Mapping[str, Any]
StartResponse = Callable[..., Any]
WsgiApplication = Callable[[Any, Any], Iterable[bytes]]
AsgiApplication = Callable[[Any, Any, Any], Awaitable[None]]


class _Answer(NamedTuple):
    """An answer to a request.

    Attributes:
        status: the HTTP status.
        headers: names and values.
        text: the body, if it is no dump.
        file: the dump, which has no name any more; None for other answers.
    """

    status: int
    headers: list[tuple[str, str]]
    text: bytes = b""
    file: BinaryIO | None = None

    def blocks(self) -> Iterator[bytes]:
        """Yield the body, and close the dump."""
        if self.file is None:
            yield self.text
            return
        with self.file:
            while block := self.file.read(_BLOCK_BYTES):
                yield block


class _Dumps:
    """Answers requests for dumps, see `wsgi`.

    Raises:
        ValueError: there is no token, or it is too short.
    """

    def __init__(self, token: str | None, path: str, suffix: str) -> None:
        chosen = os.environ.get(TOKEN, "") if token is None else token
        if len(chosen) < MIN_TOKEN:
            raise ValueError(f"a token of at least {MIN_TOKEN} characters is needed, as an argument or in {TOKEN}")
        self._token = chosen.encode()
        self.path = path
        self._suffix = suffix
        self._is_busy = threading.Lock()

    def answer(self, method: str, authorization: bytes) -> _Answer:
        """Answer a request of a method, by the value of its header `Authorization`, which is empty if there is none."""
        scheme, _, given = authorization.partition(b" ")
        is_right = hmac.compare_digest(given.strip(), self._token)  # in the same time, whatever was given
        if not is_right or scheme.lower() != _SCHEME.encode():
            return _refusal(401, "the token is missing or wrong", ("WWW-Authenticate", "Bearer"))
        if method != "GET":
            return _refusal(405, "use GET", ("Allow", "GET"))
        if not self._is_busy.acquire(blocking=False):
            return _refusal(503, "another dump is being taken", ("Retry-After", "1"))
        try:
            return self._dumped()
        except (OSError, RecorderMissingError) as error:
            return _refusal(500, f"there is no dump: {error}")
        finally:
            self._is_busy.release()

    def _dumped(self) -> _Answer:
        with tempfile.TemporaryDirectory(prefix="fxtio-dump-") as folder:
            path = dump(Path(folder, f"last{self._suffix}"))
            if path is None:
                return _refusal(409, "nothing is recorded: call fxtio.start(ring=...) first")
            file = open(path, "rb")  # it stays readable when the folder is gone  # noqa: SIM115
        headers = [
            ("Content-Type", "application/octet-stream"),
            ("Content-Disposition", f'attachment; filename="last{self._suffix}"'),
            ("Content-Length", str(os.fstat(file.fileno()).st_size)),
            ("Cache-Control", "no-store"),
        ]
        return _Answer(200, headers, file=file)


def _refusal(status: int, message: str, *headers: tuple[str, str]) -> _Answer:
    text = f"fxtio: {message}\n".encode()
    plain = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(text)))]
    return _Answer(status, [*plain, ("Cache-Control", "no-store"), *headers], text)


def wsgi(
    app: WsgiApplication | None = None, *, token: str | None = None, path: str = PATH, suffix: str = ".fxt"
) -> WsgiApplication:
    """Return a WSGI application that gives dumps.

    Args:
        app: the application that gets all other requests; they are answered with 404 unless it is given.
        token: what a request has to have in the header `Authorization: Bearer TOKEN`; by default that of the
            environment variable `FXTIO_TOKEN`.
        path: the path of the requests for dumps.
        suffix: the end of the name of the trace: `.fxt`, or `.fxt.gz`, `.fxt.zst`, `.fxt.xz` to compress it.

    Raises:
        ValueError: there is no token, or it has less than 16 characters.
    """
    dumps = _Dumps(token, path, suffix)

    def application(environ: Environment, start_response: StartResponse) -> Iterable[bytes]:
        if environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "") == dumps.path:
            authorization = environ.get("HTTP_AUTHORIZATION", "").encode("latin-1", "replace")
            answer = dumps.answer(environ["REQUEST_METHOD"], authorization)
        elif app is not None:
            return app(environ, start_response)
        else:
            answer = _refusal(404, f"only {dumps.path} is here")
        start_response(f"{answer.status} {HTTPStatus(answer.status).phrase}", answer.headers)
        return answer.blocks()

    return application


def asgi(
    app: AsgiApplication | None = None, *, token: str | None = None, path: str = PATH, suffix: str = ".fxt"
) -> AsgiApplication:
    """Return an ASGI application that gives dumps.  Its arguments are those of `wsgi`.

    A dump is taken in a thread of the event loop's executor, so that other requests are served meanwhile; they wait
    only while the recording is copied.  Without asyncio, all of it is done at once.

    Raises:
        ValueError: there is no token, or it has less than 16 characters.
    """
    dumps = _Dumps(token, path, suffix)

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"] == dumps.path:
            authorization = next((value for name, value in scope["headers"] if name.lower() == b"authorization"), b"")
            answer = await _elsewhere(lambda: dumps.answer(scope["method"], authorization))
        elif app is not None:
            await app(scope, receive, send)
            return
        elif scope["type"] == "http":
            answer = _refusal(404, f"only {dumps.path} is here")
        else:
            raise ValueError(f"only HTTP is served here, not {scope['type']}")  # servers then go on without
        headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in answer.headers]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        for block in answer.blocks():
            await send({"type": "http.response.body", "body": block, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    return application


async def _elsewhere(call: Callable[[], _Answer]) -> _Answer:
    """Call a function in a thread, if asyncio runs this."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return call()
    return await loop.run_in_executor(None, call)
