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
from contextlib import suppress
from functools import cache, wraps
from http import HTTPStatus
from operator import attrgetter
from threading import Lock
from typing import Any

from fxtio.bridges import arrows
from fxtio.bridges.web import AsgiApplication, WsgiApplication
from fxtio.tracer import Flow, span
from fxtio.tracer.backend import recorder

_active, _value_of = recorder.active, recorder.value_of  # global names are found faster than attributes
_NAME, _CATEGORY = "request", "web"
_STATUSES = {f"{status} {status.phrase}": int(status) for status in HTTPStatus}
_FLOW_HEADER = "fxtio_flow"
"""The header of a message of Celery that has the id of an arrow."""


def asgi(app: AsgiApplication) -> AsgiApplication:
    """Return an ASGI application whose requests over HTTP are recorded.  Other connections are left alone.

    The route is that of Starlette or FastAPI.
    """

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or not _active():
            await app(scope, receive, send)
            return

        def noting(message: Any) -> Any:
            if "status" in message:  # only the start of the response has one
                request.set(status=message["status"])
            return send(message)

        with span(_NAME, _CATEGORY, method=scope.get("method"), path=scope.get("path")) as request:
            if (traceparent := _value_of(scope.get("headers"), b"traceparent")) is not None:
                _receive(traceparent)
            try:
                await app(scope, receive, noting)
            finally:
                if "route" in scope:
                    _set_route(request, scope["route"], "path", prefix=scope.get("root_path", ""))

    return application


def wsgi(app: WsgiApplication) -> WsgiApplication:
    """Return a WSGI application whose requests are recorded, until the body has been sent.

    The route is that of Flask.
    """

    def application(environ: Any, start_response: Any) -> Iterable[bytes]:
        if not _active():
            return app(environ, start_response)

        def noting(status: str, response_headers: Any, exc_info: Any = None) -> Any:
            request.set(status=_number(status))
            if "werkzeug.request" in environ:  # which Flask removes before it returns
                _set_route(request, environ["werkzeug.request"], "root_path", "url_rule.rule")
            if exc_info is None:
                return start_response(status, response_headers)
            return start_response(status, response_headers, exc_info)

        request = span(_NAME, _CATEGORY, method=environ.get("REQUEST_METHOD"), path=_path(environ)).__enter__()
        try:
            if "HTTP_TRACEPARENT" in environ:
                _receive(environ["HTTP_TRACEPARENT"])
            body = app(environ, noting)
        except BaseException:
            request.__exit__(*sys.exc_info())
            raise
        if type(body) is list or _is_looked_at(body, environ):
            request.__exit__(None, None, None)
            return body
        return _Body(body, request)

    return application


def _number(status: str) -> int | None:
    """Return the number of an HTTP status, None if it has none."""
    try:
        return _STATUSES.get(status) or int(status[:3])
    except (TypeError, ValueError):  # the server judges it
        return None


def _is_looked_at(body: Any, environ: Any) -> bool:
    """Return whether servers do something else with a body than to send its parts: they know its size, or its file."""
    wrapper = environ.get("wsgi.file_wrapper")  # a class of some servers, a function of others
    is_wrapper = isinstance(wrapper, type) and isinstance(body, wrapper)
    return is_wrapper or any(hasattr(body, name) for name in ("__len__", "read", "filelike"))


class _Body:
    """A body of WSGI with whose end a span ends.

    Servers close it when they have sent it.  Clients of tests may do no more than to read it, or not even that.
    """

    def __init__(self, body: Iterable[bytes], request: Any) -> None:
        self._body = body
        self._request = request

    def __iter__(self) -> Iterator[bytes]:
        try:
            for part in self._body:  # `yield from` would close it as well  # noqa: UP028
                yield part
        except Exception:
            self._request.__exit__(*sys.exc_info())
            raise
        self._request.__exit__(None, None, None)

    def close(self) -> None:
        """Close the body, as servers do when they have sent it."""
        try:
            if hasattr(self._body, "close"):
                self._body.close()
        finally:
            self._request.__exit__(None, None, None)

    def __del__(self) -> None:
        self._request.__exit__(None, None, None)


def django(get_response: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a middleware of Django, for its setting `MIDDLEWARE`; under ASGI use `asgi` instead."""

    def middleware(request: Any) -> Any:
        if not _active():
            return get_response(request)
        with span(_NAME, _CATEGORY, method=request.method, path=request.path) as recorded:
            _receive(request.META.get("HTTP_TRACEPARENT"))
            response = get_response(request)
            recorded.set(status=getattr(response, "status_code", None))
            _set_route(recorded, request, "resolver_match.route")
            return response

    return middleware


def celery() -> None:
    """Have the tasks of Celery recorded: that they are sent, and in the workers that they run.

    Call it in the module of the application, so that workers call it as well.  A second call changes nothing.
    """
    with _preparing:
        _prepare_celery()


_preparing = Lock()


@cache
def _prepare_celery() -> None:
    from celery import _state, signals
    from celery.app import trace

    build = trace.build_tracer

    @wraps(build)
    def build_tracer(name: str, task: Any, *args: Any, **kwargs: Any) -> Any:
        return _recorded(build(name, task, *args, **kwargs), name)

    trace.build_tracer = build_tracer
    consumer: Any = sys.modules.get("celery.worker.consumer.consumer")
    if consumer:  # it has imported the function by name
        consumer.build_tracer = build_tracer
    for app in list(_state._get_active_apps()):
        for task in list(app._tasks.values()):
            if task.__trace__:  # a worker has built it already
                task.__trace__ = _recorded(task.__trace__, task.name)
    signals.before_task_publish.connect(before_task_publish, dispatch_uid=f"{__name__}.before_task_publish")


def before_task_publish(headers: Any = None, **_: Any) -> None:
    """Begin an arrow where a task is sent."""
    if _active() and isinstance(headers, dict):
        number = Flow("").id
        headers[_FLOW_HEADER] = str(number)
        arrows.draw(arrows.BEGIN, number)


def _recorded(trace: Any, name: str) -> Any:
    """Return a function that does the same as one by which workers of Celery run a task, and records it.

    Signals around a task would take several times as long.  The task and tracebacks of its errors stay as they are.
    """

    def recorded(uuid: Any, args: Any, kwargs: Any, request: Any = None) -> Any:
        if not _active():
            return trace(uuid, args, kwargs, request)
        with span(name, "celery", id=uuid) as run:
            if isinstance(request, dict) and (number := arrows.number_of(request.get(_FLOW_HEADER))):
                arrows.draw(arrows.END, number)
            result = trace(uuid, args, kwargs, request)
            failure = getattr(result, "info", None)
            if failure is not None:
                run.set(state=failure.state, exception=type(failure.retval).__name__)
            elif getattr(result, "runtime", None) is not None:  # the task has run
                run.set(state="SUCCESS")
        return result

    return recorded


def _receive(traceparent: object) -> None:
    """Lead the arrow through the span of a request that comes with this header."""
    number = arrows.of_header(traceparent)
    if number:
        arrows.draw(arrows.STEP, number)


def _set_route(request: Any, owner: object, *names: str, prefix: str = "") -> None:
    """Set the route of a request: a prefix, and attributes of an object of the framework; nothing if one is missing."""
    with suppress(Exception):
        request.set(route=prefix + "".join(attrgetter(name)(owner) for name in names))


def _path(environ: Any) -> object:
    """Return the path of a request of WSGI, which has bytes as Latin-1."""
    path = environ.get("PATH_INFO", "")
    try:
        path = environ.get("SCRIPT_NAME", "") + path
        return path if path.isascii() else path.encode("latin-1", "replace").decode("utf-8", "replace")
    except (TypeError, AttributeError):  # other middleware may have put anything there
        return path
