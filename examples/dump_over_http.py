"""Serve the last moments of a program over HTTP, and fetch them as a trace.

    python examples/dump_over_http.py last.fxt

One line puts the flight recorder into a WSGI application: `wsgi(app, token=...)`.
"""

from __future__ import annotations

import secrets
import sys
import threading
import urllib.request
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import fxtio
from fxtio.bridges.web import PATH, wsgi


def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    """Answer a request."""
    with fxtio.span("request", path=environ["PATH_INFO"]):
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"hello"]


class QuietHandler(WSGIRequestHandler):
    """A handler that logs nothing."""

    def log_message(self, *args: object) -> None:
        """Log nothing."""


fxtio.start("service.fxt", ring="16MiB")
token = secrets.token_urlsafe()
server = make_server("127.0.0.1", 0, wsgi(app, token=token), handler_class=QuietHandler)
threading.Thread(target=server.serve_forever, name="server").start()

address = f"http://127.0.0.1:{server.server_port}"
for number in range(3):
    urllib.request.urlopen(f"{address}/page/{number}").read()
request = urllib.request.Request(address + PATH, headers={"Authorization": f"Bearer {token}"})
Path(sys.argv[1]).write_bytes(urllib.request.urlopen(request).read())

server.shutdown()
server.server_close()
fxtio.stop()
arguments = fxtio.open(sys.argv[1]).table("args")
print(*(text for name, text in zip(arguments["name"], arguments["text"], strict=True) if name == "path"))
