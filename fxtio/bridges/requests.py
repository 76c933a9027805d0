"""Requests and jobs as spans: middleware for WSGI, ASGI, Django and Celery.

    app = fxtio.bridges.requests.wsgi(app)  # of Flask and others
    app = fxtio.bridges.requests.asgi(app)  # of Starlette, FastAPI, Django and others
    MIDDLEWARE = ["fxtio.bridges.requests.django", ...]
    fxtio.bridges.requests.celery()

Each request is a span `request` of the category `web`, with its method and path, and at its end its status and route.
Each run of a task of Celery is a span with the name of the task, to which an arrow leads from where it was sent.  Since
these are spans, `dump_on="slow:..."` takes a dump when one takes long.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fxtio.bridges import arrows
from fxtio.bridges.web import AsgiApplication, WsgiApplication
from fxtio.tracer import Flow, span
from fxtio.tracer.backend import recorder

_NAME, _CATEGORY = "request", "web"
_FLOW_HEADER = "fxtio_flow"
"""The header of a message of Celery that has the id of an arrow."""


def asgi(app: AsgiApplication) -> AsgiApplication:
    """Return an ASGI application whose requests over HTTP are recorded.  Other connections are left alone.

    The route is that of Starlette or FastAPI.
    """

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or not recorder.active():
            await app(scope, receive, send)
            return

        async def noting(message: Any) -> None:
            if message["type"] == "http.response.start":
                request.set(status=message["status"])
            await send(message)

        with span(_NAME, _CATEGORY, method=scope["method"], path=scope["path"]) as request:
            for name, value in scope["headers"]:
                if name == b"traceparent":
                    _receive(value)
            try:
                await app(scope, receive, noting)
            finally:
                route = getattr(scope.get("route"), "path", None)
                if route is not None:
                    request.set(route=scope.get("root_path", "") + route)

    return application


def wsgi(app: WsgiApplication) -> WsgiApplication:
    """Return a WSGI application whose requests are recorded, until the body has been sent.

    The route is that of Flask.
    """

    def application(environ: Any, start_response: Any) -> Iterable[bytes]:
        if not recorder.active():
            return app(environ, start_response)

        def noting(status: str, *rest: Any) -> Any:
            request.set(status=int(status[:3]))
            return start_response(status, *rest)

        request = span(_NAME, _CATEGORY, method=environ["REQUEST_METHOD"], path=_path(environ)).__enter__()
        if "HTTP_TRACEPARENT" in environ:
            _receive(environ["HTTP_TRACEPARENT"])
        try:
            body = app(environ, noting)
        except BaseException:
            request.__exit__(*sys.exc_info())
            raise
        rule = getattr(environ.get("werkzeug.request"), "url_rule", None)
        if rule is not None:
            request.set(route=rule.rule)
        if isinstance(body, (list, tuple, environ.get("wsgi.file_wrapper", list))):  # servers look at these types
            request.__exit__(None, None, None)
            return body
        return _Body(body, request)

    return application


class _Body:
    """A body of WSGI with whose end a span ends."""

    def __init__(self, body: Iterable[bytes], request: Any) -> None:
        self._body = body
        self._request = request

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._body)

    def close(self) -> None:
        """Close the body, as servers do when they have sent it."""
        try:
            if hasattr(self._body, "close"):
                self._body.close()
        finally:
            self._request.__exit__(None, None, None)


def django(get_response: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a middleware of Django, for its setting `MIDDLEWARE`; under ASGI use `asgi` in its place."""

    def middleware(request: Any) -> Any:
        with span(_NAME, _CATEGORY, method=request.method, path=request.path) as recorded:
            if "HTTP_TRACEPARENT" in request.META:
                _receive(request.META["HTTP_TRACEPARENT"])
            response = get_response(request)
            recorded.set(status=response.status_code)
            if request.resolver_match:
                recorded.set(route=request.resolver_match.route)
            return response

    return middleware


def celery() -> None:
    """Have the tasks of Celery recorded: that they are sent, and in the workers that they run.

    Call it in the module of the application, so that workers call it as well.  A second call changes nothing.
    """
    from celery import signals

    for function in (before_task_publish, task_prerun, task_postrun):
        getattr(signals, function.__name__).connect(function, dispatch_uid=f"{__name__}.{function.__name__}")


_running: dict[str, Any] = {}
"""The spans of tasks that run here, by the ids of the tasks."""


def before_task_publish(headers: Any = None, **_: Any) -> None:
    """Begin an arrow where a task is sent."""
    if recorder.active() and isinstance(headers, dict):
        number = Flow("").id
        headers[_FLOW_HEADER] = str(number)
        arrows.draw(arrows.BEGIN, number)


def task_prerun(task_id: str = "", task: Any = None, **_: Any) -> None:
    """Begin the span of a task, in which the arrow ends."""
    if recorder.active():
        _running[task_id] = entered = span(task.name, "celery", id=task_id)
        entered.__enter__()
        number = arrows.number_of(task.request.get(_FLOW_HEADER))
        if number:
            arrows.draw(arrows.END, number)


def task_postrun(task_id: str = "", state: str | None = None, retval: object = None, **_: Any) -> None:
    """End the span of a task."""
    entered = _running.pop(task_id, None)
    if entered:
        entered.set(state=state)
        kind = type(retval) if isinstance(retval, BaseException) else None
        entered.__exit__(kind, None, None)


def _receive(traceparent: str | bytes) -> None:
    """Lead the arrow through the span of a request that comes with this header."""
    number = arrows.of_header(traceparent)
    if number:
        arrows.draw(arrows.STEP, number)


def _path(environ: Any) -> str:
    """Return the path of a request of WSGI, which has bytes as Latin-1."""
    path: str = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
    return path if path.isascii() else path.encode("latin-1", "replace").decode("utf-8", "replace")
