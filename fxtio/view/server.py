"""The HTTP server for one trace and the files of the Perfetto UI, on this machine only.

Every address begins with a random token, which other programs and pages cannot guess.  A request must also name the
host 127.0.0.1: a page of the internet that has its own name point there (DNS rebinding) is refused.  What is served is
listed before; a path is looked up and never leads into the file system.  A content security policy keeps the UI from
loading anything from elsewhere, or sending anything there.
"""

from __future__ import annotations

import hmac
import secrets
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path, PurePosixPath
from typing import Any

from fxtio.errors import FxtioError
from fxtio.view import ui
from fxtio.view.content import Content

HOST = "127.0.0.1"
"""The only address on which the server listens, and the only host that requests may name."""

_SOURCES = {
    "default-src": "'self'",
    "script-src": "'self' 'unsafe-eval' 'unsafe-inline'",
    "style-src": "'self' 'unsafe-inline'",
    "img-src": "'self' data: blob:",
    "font-src": "'self'",
    "connect-src": "'self' blob: data:",
    "worker-src": "'self' blob:",
    "object-src": "'none'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
}
POLICY = "; ".join(f"{directive} {sources}" for directive, sources in _SOURCES.items())
"""The content security policy of the UI: it loads and sends nothing from or to anywhere else."""

HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""The headers of every answer."""

GRACE = 5.0
"""The seconds after which the server ends when no page is open any more: time for a page to be loaded again."""

_ALIVE = "alive"
_ALIVE_EVERY = 15.0
_ALIVE_START = b"retry: 1000\n\n"
_ALIVE_AGAIN = b":\n\n"
_BINARY = "application/octet-stream"
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".wasm": "application/wasm",
    ".woff2": "font/woff2",
}


class PortError(FxtioError):
    """An error: a port cannot be used."""


@dataclass(frozen=True, slots=True)
class Resource:
    """Something that is served.

    Attributes:
        type: the media type.
        length: the number of bytes, None if it is not known before they are read.
        blocks: returns the bytes.
    """

    type: str
    length: int | None
    blocks: Callable[[], Iterable[bytes]]


class Pages:
    """The number of pages that are open in browsers, which the server waits for."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._open = 0
        self._openings = 0

    def enter(self) -> None:
        """Note that a page was opened."""
        with self._changed:
            self._open += 1
            self._openings += 1
            self._changed.notify_all()

    def leave(self) -> None:
        """Note that a page was closed."""
        with self._changed:
            self._open -= 1
            self._changed.notify_all()

    def wait(self, grace: float) -> None:
        """Wait until a page was opened, and then all were closed, and none is opened for some seconds after that."""
        with self._changed:
            self._changed.wait_for(lambda: self._openings > 0)
            while True:
                self._changed.wait_for(lambda: self._open == 0)
                seen = self._openings
                if not self._changed.wait_for(lambda: self._openings != seen, grace):  # noqa: B023
                    return


class Viewer:
    """A server for one trace, to be used in a `with` block.

    Args:
        content: the trace.
        parameters: what the UI shows first, see `fxtio.view.focus`.
        port: the port, 0 for any that is free.
        on_error: called with a sentence if the trace cannot be read to its end.

    Attributes:
        port: the port.
        address: the address of the page.

    Raises:
        MissingUiError: the files of the UI are not installed.
        PortError: the port is not free.
        OSError: a file of the UI cannot be read.
    """

    def __init__(
        self, content: Content, parameters: Mapping[str, str], *, port: int = 0, on_error: Callable[[str], None]
    ) -> None:
        self._token = secrets.token_urlsafe(16)
        self._pages = Pages()
        resources = _resources(content, parameters)
        try:
            self._server = _Server(self._token, resources, self._pages, port, on_error)
        except OSError as error:
            raise PortError(f"port {port} of {HOST} cannot be used: {error.strerror}") from None
        self.port: int = self._server.server_address[1]
        self.address = f"http://{HOST}:{self.port}/{self._token}/"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)

    def __enter__(self) -> Viewer:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def wait(self, grace: float = GRACE) -> None:
        """Wait until the page was opened and closed again.

        Args:
            grace: the seconds in which it may be opened again.
        """
        self._pages.wait(grace)


def _resources(content: Content, parameters: Mapping[str, str]) -> dict[str, Resource]:
    """Return all that is served, by the path after the token."""
    files = ui.files()
    index = files.pop(ui.INDEX).read_text("utf-8")
    trace = f"trace/{content.name}"
    page = ui.page(index, trace=trace, alive=_ALIVE, parameters=parameters)
    resources = {name: _of_file(path) for name, path in files.items()}
    resources[""] = Resource(_TYPES[".html"], len(page), lambda: [page])
    resources[trace] = Resource(_BINARY, content.length, content.blocks)
    return resources


def _of_file(path: Path) -> Resource:
    media_type = _TYPES.get(PurePosixPath(path).suffix, _BINARY)
    return Resource(media_type, path.stat().st_size, lambda: [path.read_bytes()])


def _bounded(resource: Resource) -> Iterator[bytes]:
    """Yield the bytes of a resource, and not more than the length that was declared: its file may have grown.

    Raises:
        OSError: they cannot be read, or the file has become shorter.
    """
    if resource.length is None:
        yield from resource.blocks()
        return
    missing = resource.length
    for block in resource.blocks():
        yield block[:missing]
        missing -= len(block)
        if missing <= 0:
            return
    if missing:
        of_all = f"{missing:,} of {resource.length:,} bytes are gone"
        raise OSError(f"a file has become shorter while it was shown: {of_all}")


class _Server(ThreadingHTTPServer):
    """The server, with what its handlers need."""

    daemon_threads = True

    def __init__(
        self,
        token: str,
        resources: Mapping[str, Resource],
        pages: Pages,
        port: int,
        on_error: Callable[[str], None],
    ) -> None:
        self.token = token.encode()
        self.resources = resources
        self.pages = pages
        self.on_error = on_error
        super().__init__((HOST, port), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Do nothing: a browser may close a connection at any time."""

    def server_bind(self) -> None:
        """Bind the socket, without a look at the name service, which may take long."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        host, port = self.socket.getsockname()
        self.server_address = self.server_name, self.server_port = host, port


class _Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    server: _Server
    protocol_version = "HTTP/1.1"
    server_version = "fxtio"
    sys_version = ""
    timeout = 120

    def do_GET(self) -> None:
        """Answer a GET request."""
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        """Answer a HEAD request."""
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        path = self._path()
        if path is None:
            self._refuse(HTTPStatus.FORBIDDEN)
        elif path == _ALIVE and with_body:
            self._stay_alive()
        elif path not in self.server.resources:
            self._refuse(HTTPStatus.NOT_FOUND)
        else:
            self._send(self.server.resources[path], with_body=with_body)

    def _path(self) -> str | None:
        """Return the path after the token, None if the request names another host or has another token."""
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1 or hosts[0].partition(":")[0] != HOST:
            return None
        path = self.path.partition("?")[0].encode("latin-1")
        root, slash, rest = path.removeprefix(b"/").partition(b"/")
        is_right = hmac.compare_digest(root, self.server.token)
        return rest.decode("latin-1") if is_right and slash else None

    def _refuse(self, status: HTTPStatus) -> None:
        body = f"{status.phrase}\n".encode()
        self._begin(status, "text/plain; charset=utf-8", len(body))
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse a request that is not one of HTTP, or of another method."""
        self.close_connection = True
        self._refuse(HTTPStatus(code))

    def _begin(self, status: HTTPStatus, media_type: str, length: int | None) -> None:
        """Send the status and the headers.

        Args:
            status: the status.
            media_type: the media type of the body.
            length: the bytes of the body; None for a body in chunks, or one that ends with the connection.
        """
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", media_type)
        if length is not None:
            self.send_header("Content-Length", str(length))
        elif self._has_chunks():
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Connection", "close")
        self.end_headers()

    def _has_chunks(self) -> bool:
        return self.request_version >= "HTTP/1.1"

    def _send(self, resource: Resource, *, with_body: bool) -> None:
        self._begin(HTTPStatus.OK, resource.type, resource.length)
        if not with_body:
            return
        frames = resource.length is None and self._has_chunks()
        try:
            for block in _bounded(resource):
                self.wfile.write(b"%x\r\n%b\r\n" % (len(block), block) if frames else block)
        except ConnectionError:
            self.close_connection = True
        except OSError as error:  # the browser has to notice: there is no last chunk, or less than the length
            self.close_connection = True
            self.server.on_error(str(error))
        else:
            if frames:
                self.wfile.write(b"0\r\n\r\n")

    def _stay_alive(self) -> None:
        """Send a stream of events without content until the page is closed."""
        self.close_connection = True
        self.server.pages.enter()
        try:
            self._begin(HTTPStatus.OK, "text/event-stream", None)
            self._send_event(_ALIVE_START)
            self.connection.settimeout(_ALIVE_EVERY)
            while self._is_silent():
                self._send_event(_ALIVE_AGAIN)
        except OSError:
            pass
        finally:
            self.server.pages.leave()

    def _is_silent(self) -> bool:
        """Return whether the browser has sent nothing for some time, and has not closed the connection."""
        try:
            self.connection.recv(1)
        except TimeoutError:
            return True
        return False

    def _send_event(self, event: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event) if self._has_chunks() else event)

    def log_message(self, format: str, *args: Any) -> None:
        """Do nothing: the terminal belongs to the user."""
