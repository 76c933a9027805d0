"""Requests and jobs: two services of Starlette, a view of Django and a worker of Celery are one timeline."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from wsgiref.util import FileWrapper, setup_testing_defaults
from wsgiref.validate import validator

import celery
import httpx
import pytest
from celery.app import trace
from celery.exceptions import Ignore, Reject, Retry
from celery.worker.consumer import consumer
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route

import fxtio
from fxtio.bridges import arrows, requests
from fxtio.testing.asserts import assert_valid
from fxtio.tracer import fallback
from fxtio.tracer.backend import recorder
from support.in_process import run_fxtio
from support.limits import PATIENCE
from support.other_users import forks
from support.tracer_check import Seen, Span, check_trace

pytestmark = pytest.mark.recorder

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def only(out: Path, name: str = "request") -> Span:
    [span] = check_trace(out).spans(name)
    return span


def get(app: Any, path: str, **headers: str) -> httpx.Response:
    """Send a request to an ASGI application."""

    async def send() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://shop") as client:
            return await client.get(path, headers=headers)

    return asyncio.run(send())


async def item(request: Request) -> Response:
    await asyncio.sleep(0)
    return PlainTextResponse("tea", 201)


async def broken(request: Request) -> Response:
    raise KeyError("item")


SHOP = requests.asgi(Starlette(routes=[
    Route("/broken", broken), Mount("/shop", routes=[Route("/items/{number:int}", item)]),
]))  # fmt: skip


def test_a_request_of_asgi_is_a_span_with_its_route_and_status(out: Path) -> None:
    assert get(SHOP, "/shop/items/7").text == "tea"
    with fxtio.tracing(out):
        assert get(SHOP, "/shop/items/7", traceparent=PARENT).text == "tea"
    span = only(out)
    assert (span.category, span.on_track) == ("web", True)
    assert span.args == {
        "method": "GET", "path": "/shop/items/7", "route": "/shop/items/{number:int}", "status": 201,
    }  # fmt: skip
    assert points(check_trace(out)) == [("flow_step", 0x00F067AA0BA902B7)]


def test_what_fails_or_is_not_found_is_recorded(out: Path) -> None:
    with fxtio.tracing(out):
        with pytest.raises(KeyError):
            get(SHOP, "/broken")
        assert get(SHOP, "/missing").status_code == 404
    failed, missing = (span.args for span in check_trace(out).spans("request"))
    assert failed == {
        "method": "GET", "path": "/broken", "route": "/broken", "status": 500, "exception": "KeyError",
    }  # fmt: skip
    assert missing == {"method": "GET", "path": "/missing", "status": 404}


def test_other_connections_of_asgi_are_left_alone(out: Path) -> None:
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append((scope, receive, send))

    with fxtio.tracing(out):
        asyncio.run(requests.asgi(app)({"type": "lifespan"}, 1, 2))  # type: ignore[arg-type]
    assert seen == [({"type": "lifespan"}, 1, 2)]


def ask_wsgi(app: Any, path: str, **more: Any) -> bytes:
    """Send a request to a WSGI application, which is checked against the rules of WSGI."""
    environ: dict[str, Any] = {"PATH_INFO": path, "REQUEST_METHOD": "GET", "QUERY_STRING": "", "SCRIPT_NAME": ""} | more
    setup_testing_defaults(environ)
    body = validator(app)(environ, lambda status, headers, exc_info=None: lambda data: None)
    content = b"".join(body)
    body.close()  # type: ignore[attr-defined]
    return content


def test_a_request_of_wsgi_lasts_until_its_body_has_been_sent(out: Path) -> None:
    def app(environ: Any, start_response: Any) -> Iterator[bytes]:
        start_response("206 Partial Content", [("Content-Type", "text/plain")])
        for part in (b"one", b"two"):
            with fxtio.span("part"):
                yield part

    wrapped = requests.wsgi(app)
    with fxtio.tracing(out):
        assert ask_wsgi(wrapped, "/caf\xc3\xa9", HTTP_TRACEPARENT=PARENT) == b"onetwo"
    request = only(out)
    assert request.args == {"method": "GET", "path": "/café", "status": 206}
    assert [span.depth for span in check_trace(out).spans("part")] == [request.depth + 1] * 2
    assert points(check_trace(out)) == [("flow_step", 0x00F067AA0BA902B7)]
    assert ask_wsgi(wrapped, "/") == b"onetwo"


def returns(body: Any, environ: Any, start_response: Any) -> Any:
    return body


def test_bodies_that_servers_look_at_stay_as_they_are(out: Path, tmp_path: Path) -> None:
    def fails(environ: Any, start_response: Any) -> list[bytes]:
        raise ValueError("no body")

    environ = {"REQUEST_METHOD": "GET", "wsgi.file_wrapper": FileWrapper}
    (tmp_path / "file").write_bytes(b"content")
    with fxtio.tracing(out), open(tmp_path / "file", "rb") as file:
        for body in ([b"list"], FileWrapper(file)):
            assert requests.wsgi(partial(returns, body))(environ, None) is body
        with pytest.raises(ValueError, match="no body"):
            requests.wsgi(fails)(environ, None)
    found = [span.args for span in check_trace(out).spans("request")]
    assert [args.get("exception") for args in found] == [None, None, "ValueError"]


def test_requests_of_flask_have_their_routes_and_end(out: Path) -> None:
    flask = pytest.importorskip("flask")
    app = flask.Flask("shop")

    @app.route("/items/<int:number>")  # type: ignore[untyped-decorator]
    def item(number: int) -> str:
        return str(number)

    @app.route("/stream")  # type: ignore[untyped-decorator]
    def stream() -> Any:
        def parts() -> Iterator[str]:
            yield "one"
            raise KeyError("two")

        return flask.Response(parts())

    app.wsgi_app = requests.wsgi(app.wsgi_app)
    client = app.test_client()  # which closes no body
    with fxtio.tracing(out):
        assert client.get("/items/7", environ_overrides={"SCRIPT_NAME": "/caf\xc3\xa9"}).data == b"7"
        assert client.get("/items/8").status_code == 200
        with pytest.raises(KeyError):
            _ = client.get("/stream").data
        assert b"Not Found" in client.get("/missing").data
    found = check_trace(out).spans("request")
    assert [(span.args.get("route"), span.args.get("exception")) for span in found] == [
        ("/café/items/<int:number>", None), ("/items/<int:number>", None), ("/stream", "KeyError"), (None, None),
    ]  # fmt: skip
    assert {span.depth for span in found} == {1}
    assert found[0].args["path"] == "/café/items/7"


def test_a_body_that_is_left_is_closed_once(out: Path) -> None:
    """A server that stops to send it closes it, and nothing else does."""
    closed = []

    class Body:
        def __iter__(self) -> Iterator[bytes]:
            return self

        def __next__(self) -> bytes:
            return b"part"

        def close(self) -> None:
            closed.append(True)

    with fxtio.tracing(out):
        body: Any = requests.wsgi(partial(returns, Body()))({"REQUEST_METHOD": "GET"}, None)
        parts = iter(body)
        assert next(parts) == b"part"
        del parts
        assert not closed
        body.close()
    assert closed == [True]
    assert only(out).end_row >= 0


def test_slow_requests_are_dumped(out: Path) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(0.06)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    with fxtio.tracing(out, ring="1MiB", dump_on=["slow:50ms"]):
        get(requests.asgi(app), "/slow")
    dump = out.with_name(f"{out.stem}-1.fxt")
    deadline = time.monotonic() + PATIENCE
    while not dump.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert check_trace(dump, open_spans=True).spans("request")[0].args["path"] == "/slow"


def run_asgi(app: Any, scope: dict[str, Any], send: Any) -> None:
    """Send a request to an ASGI application."""
    request: Any = requests.asgi(app)({"type": "http"} | scope, None, send)
    asyncio.run(request)


class Broken:
    """An object of a framework that fails when it is asked."""

    def __getattr__(self, name: str) -> Any:
        raise LookupError(name)

    def __bool__(self) -> bool:
        raise LookupError


@pytest.mark.parametrize(
    "headers",
    [
        None, 5, [5], [(b"a",)], [("a", "b"), (b"traceparent", None)], [(b"a", b"b")] * 3,
        [(b"traceparent", Broken())],
    ],
)  # fmt: skip
def test_requests_of_asgi_that_are_not_as_they_should_be_go_through(out: Path, headers: Any) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        scope["route"] = Broken()
        await send({"type": "http.response.start"})
        raise ConnectionError(scope["headers"])

    async def send(message: Any) -> None:
        pass

    with fxtio.tracing(out), pytest.raises(ConnectionError) as caught:
        run_asgi(app, {"headers": headers}, send)
    assert caught.value.args == (headers,)
    assert only(out).args["exception"] == "ConnectionError"


ITEMS = st.sampled_from([b"a", b"b", "a", 5, None]) | st.binary(max_size=1)


@given(st.lists(st.tuples(ITEMS, ITEMS) | st.lists(ITEMS, max_size=3) | ITEMS) | ITEMS)
def test_headers_are_found_by_the_recorder_as_by_its_stand_in(pairs: Any) -> None:
    found = recorder.value_of(pairs, b"a")
    assert found == fallback.value_of(pairs, b"a")
    if isinstance(pairs, list) and all(isinstance(pair, tuple) for pair in pairs):
        assert found == next((value for name, value in pairs if name == b"a"), None)


def test_headers_that_can_be_read_once_are_left_to_the_application(out: Path) -> None:
    seen = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.extend(scope["headers"])

    with fxtio.tracing(out):
        run_asgi(app, {"method": "GET", "path": "/", "headers": iter([(b"host", b"shop")])}, None)
    assert seen == [(b"host", b"shop")]


def test_a_request_that_is_cancelled_while_it_streams_ends(out: Path) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while True:
            await send({"type": "http.response.body", "body": b"part", "more_body": True})
            await asyncio.sleep(0)

    sent: list[Any] = []

    async def main() -> None:
        async def send(message: Any) -> None:
            sent.append(message)

        request: Any = requests.asgi(app)({"type": "http", "path": "/stream", "headers": []}, None, send)
        task = asyncio.ensure_future(request)
        while len(sent) < 5:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with fxtio.tracing(out):
        asyncio.run(main())
    args = only(out).args
    assert (args["status"], args["exception"]) == (200, "CancelledError")


def test_what_a_server_judges_is_not_judged_before(out: Path) -> None:
    def app(environ: Any, start_response: Any) -> list[bytes]:
        start_response(environ["status"], [], exc_info=environ.get("error"))
        return [b"body"]

    seen: list[Any] = []
    odd: list[Any] = ["OK", None, b"200 OK", 5, [], "", "418 I'm a Teapot", "299 Fine"]
    with fxtio.tracing(out):
        for status in odd:
            environ = {"status": status, "SCRIPT_NAME": None, "PATH_INFO": 7}
            assert requests.wsgi(app)(environ, lambda *args: seen.append(args)) == [b"body"]
        requests.wsgi(app)({"status": "500 X", "error": (1, 2, 3)}, lambda *args: seen.append(args))
    assert seen == [*((status, []) for status in odd), ("500 X", [], (1, 2, 3))]
    statuses = [span.args["status"] for span in check_trace(out).spans("request")]
    assert statuses == [None, None, 200, None, None, None, 418, 299, 500]


def test_bodies_of_which_servers_know_size_or_file_stay_as_they_are(out: Path, tmp_path: Path) -> None:
    class Sized:
        def __len__(self) -> int:
            return 1

        def __iter__(self) -> Iterator[bytes]:
            return iter([b"x"])

    (tmp_path / "file").write_bytes(b"content")
    with fxtio.tracing(out), open(tmp_path / "file", "rb") as file:
        for body in (Sized(), file, FileWrapper(file)):
            environ = {"wsgi.file_wrapper": lambda file: file, "werkzeug.request": Broken()}  # a function, as in uWSGI
            assert requests.wsgi(partial(returns, body))(environ, None) is body
    assert len(check_trace(out).spans("request")) == 3


def test_recordings_that_start_and_stop_within_requests(out: Path, tmp_path: Path) -> None:
    def app(environ: Any, start_response: Any) -> Iterator[bytes]:
        start_response("200 OK", [("Content-Type", "text/plain")])
        yield b"one"
        fxtio.stop()
        yield b"two"
        fxtio.start(out)
        yield b"three"

    async def asynchronous(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        fxtio.stop()
        fxtio.start(tmp_path / "third.fxt")
        await send({"type": "http.response.body", "body": b"four"})

    fxtio.start(tmp_path / "first.fxt")
    assert ask_wsgi(requests.wsgi(app), "/") == b"onetwothree"
    assert get(requests.asgi(asynchronous), "/").text == "four"
    fxtio.stop()
    for path in (tmp_path / "first.fxt", out):
        assert len(check_trace(path, open_spans=True).spans("request")) == 1
    assert not check_trace(tmp_path / "third.fxt").spans("request")


@forks
def test_a_process_that_forks_within_a_request_ends_it_once(out: Path) -> None:
    def app(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        child = os.fork()
        if child == 0:
            return [b"child"]
        os.waitpid(child, 0)
        return [b"parent"]

    with fxtio.tracing(out):
        if requests.wsgi(app)({"REQUEST_METHOD": "GET"}, lambda status, headers: None) == [b"child"]:
            os._exit(0)
    assert only(out).args["status"] == 200


def new_shop() -> Any:
    """Return an application of Celery whose tasks are recorded."""
    requests.celery()
    return celery.Celery("shop", broker="memory://", set_as_current=False)


def deliver(task: Any, *args: Any, **headers: Any) -> Any:
    """Run a task as a worker does with a message that has these headers, and return what the worker gets."""
    task.__trace__ = None
    return trace.trace_task(task, "7", args, {}, {"id": "7", **headers}, app=task.app)


def test_runs_of_celery_with_the_same_id_and_retries_are_told_apart(out: Path) -> None:
    shop = new_shop()

    @shop.task(name="inner", shared=False)  # type: ignore[untyped-decorator]
    def inner() -> None:
        pass

    @shop.task(name="outer", bind=True, max_retries=2, shared=False)  # type: ignore[untyped-decorator]
    def outer(self: Any) -> str:
        inner()  # which runs no task of its own
        inner.apply(task_id=self.request.id)
        if self.request.retries == 0:
            raise self.retry(countdown=0)
        return "done"

    with fxtio.tracing(out):
        assert outer.apply(task_id="same").get() == "done"
    seen = check_trace(out)
    assert [span.args for span in seen.spans("inner")] == [{"id": "same", "state": "SUCCESS"}] * 2
    assert sorted(span.args["state"] for span in seen.spans("outer")) == ["RETRY", "SUCCESS"]


def test_tasks_of_all_kinds_are_recorded_once_for_each_run(out: Path) -> None:
    shop = new_shop()

    class Calling(celery.Task):  # type: ignore[misc]
        def __call__(self, *args: Any) -> Any:
            return super().__call__(*args)

    class Old(celery.Task):  # type: ignore[misc]
        name = "old"

        def run(self, number: int) -> int:
            return number + 1

    @shop.task(name="calling", base=Calling, shared=False)  # type: ignore[untyped-decorator]
    def calling(number: int) -> int:
        return number + 1

    @shop.task(name="bound", bind=True, shared=False)  # type: ignore[untyped-decorator]
    def bound(self: Any, number: int) -> int:
        return int(calling(number))

    shop.finalize()

    @shop.task(name="late", autoretry_for=(KeyError,), shared=False)  # type: ignore[untyped-decorator]
    def late(number: int) -> int:
        return number + 1

    tasks = [calling, bound, late, shop.register_task(Old)]
    runs = [task.run for task in tasks]
    with fxtio.tracing(out):
        for task in tasks:
            assert deliver(task, 1).retval == task(1) == 2
        assert [vars(task).get("run") for task in tasks] == [None, None, late.run, None]
    assert [task.run for task in tasks] == runs
    found = check_trace(out)
    for task in tasks:
        assert [span.args for span in found.spans(task.name)] == [{"id": "7", "state": "SUCCESS"}]


@pytest.mark.parametrize(
    ("error", "state"),
    [(KeyError("x"), "FAILURE"), (Retry("x", ValueError()), "RETRY"), (Ignore(), "IGNORED"), (Reject(), "REJECTED")],
)
def test_what_a_task_raises_goes_on_as_without_a_recording(out: Path, error: Exception, state: str) -> None:
    @new_shop().task(name="failing", shared=False)  # type: ignore[untyped-decorator]
    def failing() -> None:
        raise error.with_traceback(None)

    def info() -> tuple[Any, ...]:
        done = deliver(failing)
        return done.info.state, done.info.retval, str(done.retval.traceback)

    with fxtio.tracing(out):
        recorded = info()
    assert recorded == info()
    assert only(out, "failing").args == {"id": "7", "state": state, "exception": type(error).__name__}


@pytest.mark.filterwarnings("ignore:Exception raised outside body")
def test_a_run_that_celery_ends_before_the_task_has_no_state(out: Path) -> None:
    @new_shop().task(name="unready", shared=False)  # type: ignore[untyped-decorator]
    def unready() -> None:
        pass

    unready.__trace__ = None
    with fxtio.tracing(out):
        result = trace.trace_task(unready, "7", (), ["no mapping"], {"id": "7"}, app=unready.app)
    assert "not a mapping" in str(result.retval.traceback)
    assert only(out, "unready").args == {"id": "7"}


def test_threads_that_call_it_at_once_have_tasks_recorded_once() -> None:
    program = """
import threading
from fxtio.bridges import requests

threads = [threading.Thread(target=requests.celery) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
from celery.app import trace

assert not hasattr(trace.build_tracer.__wrapped__, "__wrapped__")
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=PATIENCE)


def test_an_error_that_leaves_a_run_of_a_task_ends_its_span(out: Path) -> None:
    @new_shop().task(name="leaving", shared=False)  # type: ignore[untyped-decorator]
    def leaving(error: BaseException) -> None:
        raise error

    with fxtio.tracing(out):
        with pytest.raises(SystemExit):
            deliver(leaving, SystemExit())
        with pytest.raises(KeyError):
            leaving.apply([KeyError()], throw=True)
    assert [span.args["exception"] for span in check_trace(out).spans("leaving")] == ["SystemExit", "KeyError"]


@pytest.mark.parametrize("header", [None, 5, b"6", "", "x", "-", "0", "-7", str(2**64), "9" * 9000, [], Broken])
def test_headers_of_tasks_that_are_wrong_are_no_arrows(out: Path, header: Any) -> None:
    @new_shop().task(name="given", shared=False)  # type: ignore[untyped-decorator]
    def given() -> int:
        return 1

    with fxtio.tracing(out):
        assert deliver(given, fxtio_flow=header).info is None
    assert points(check_trace(out)) == [("flow_end", 6)] * (header == b"6")


def test_tasks_for_which_a_worker_is_ready_are_recorded_as_well(out: Path) -> None:
    shop = new_shop()

    @shop.task(name="ready", shared=False)  # type: ignore[untyped-decorator]
    def ready() -> None:
        pass

    shop.finalize()
    before = trace.build_tracer, consumer.build_tracer
    plain = trace.build_tracer.__wrapped__
    try:
        trace.build_tracer = consumer.build_tracer = plain
        ready.__trace__ = plain("ready", ready, app=shop)
        requests._prepare_celery.__wrapped__()
        assert consumer.build_tracer is trace.build_tracer is not plain
        with fxtio.tracing(out):
            trace.trace_task(ready, "7", (), {})
    finally:
        trace.build_tracer, consumer.build_tracer = before
    assert only(out, "ready").args["state"] == "SUCCESS"


@pytest.mark.parametrize(
    "text",
    [
        b"",
        "",
        "x" * 60,
        "-" * 60,
        "00-" + "g" * 50,
        "00-" + "0" * 32 + "--" + "1" * 15,
        "00-" + "0" * 32 + "-" + "0" * 16,
        "é" * 60,
        None,
        5,
    ],
)
def test_headers_that_are_wrong_are_no_arrows(text: object) -> None:
    assert arrows.of_header(text) is None


def points(seen: Seen) -> list[tuple[str, int]]:
    """Return the points of arrows in the order of time."""
    events = seen.tables["events"]
    rows = sorted((int(events["time"][row]), row) for row in range(len(seen.kinds)) if seen.kinds[row][:4] == "flow")
    return [(seen.kinds[row], int(events["id"][row])) for _, row in rows]


# ---------------------------------------------------------------------------------------------- all of it together

TASKS = """
import os, sys
from pathlib import Path
import celery
from fxtio.bridges import requests

folder = str(Path(sys.argv[1], "broker"))
os.makedirs(folder, exist_ok=True)
queue = dict(data_folder_in=folder, data_folder_out=folder, control_folder=folder + "-control")
app = celery.Celery("shop", broker="filesystem://", broker_transport_options=queue)
requests.celery()
requests.celery()

@app.task(name="shop.pack")
def pack(number):
    if number == 0:
        raise LookupError("nothing to pack")
    return number
"""

WORKER = (
    TASKS
    + """
import fxtio
from celery import signals

@signals.task_postrun.connect
def ended(**_):
    count[0] += 1
    if count[0] == 2:
        from celery.worker import state
        state.should_stop = 0

count = [0]
with fxtio.tracing(sys.argv[1] + "/worker.fxt"):
    try:
        app.worker_main(["worker", "--pool=solo", "--without-mingle", "--without-gossip", "--without-heartbeat"])
    except SystemExit:
        pass
"""
)

WEB = (
    TASKS
    + """
import asyncio, django, fxtio, httpx
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import path
from opentelemetry.propagate import inject
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import SpanKind
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from fxtio.bridges.opentelemetry import SpanProcessor

def order(request, number):
    pack.delay(number)
    return HttpResponse("ordered")

urlpatterns = [path("orders/<int:number>", order)]
settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], MIDDLEWARE=["fxtio.bridges.requests.django"])
stock = get_wsgi_application()
provider = TracerProvider(shutdown_on_exit=False)
provider.add_span_processor(SpanProcessor())
tracer = provider.get_tracer("shop")

async def front_page(request):
    with tracer.start_as_current_span("ask", kind=SpanKind.CLIENT):
        headers = {}
        inject(headers)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(back), base_url="http://back") as client:
            return PlainTextResponse((await client.get(f"/{request.path_params['number']}", headers=headers)).text)

async def back_page(request):
    def ask():
        with httpx.Client(transport=httpx.WSGITransport(stock), base_url="http://stock") as client:
            return client.get(f"/orders/{request.path_params['number']}").text
    return PlainTextResponse(await asyncio.to_thread(ask))

front = requests.asgi(Starlette(routes=[Route("/front/{number:int}", front_page)]))
back = requests.asgi(Starlette(routes=[Route("/{number:int}", back_page)]))

async def main():
    async with httpx.AsyncClient(transport=httpx.ASGITransport(front), base_url="http://front") as client:
        for number in range(2):
            assert (await client.get(f"/front/{number}")).text == "ordered"

with fxtio.tracing(sys.argv[1] + "/web.fxt"):
    asyncio.run(main())
"""
)


@pytest.mark.full
def test_all_services_are_one_timeline(out: Path, tmp_path: Path) -> None:
    for source in (WEB, WORKER):
        subprocess.run([sys.executable, "-P", "-c", source, str(tmp_path)], check=True, timeout=120)
    done = run_fxtio("merge", "-o", str(out), str(tmp_path / "web.fxt"), str(tmp_path / "worker.fxt"))
    assert done.returncode == 0, done.stderr
    seen = check_trace(out)
    assert [span.args["route"] for span in seen.spans("request")] == [
        "/front/{number:int}", "/{number:int}", "orders/<int:number>"] * 2  # fmt: skip
    failed, fine = (span.args for span in seen.spans("shop.pack"))
    assert (failed["state"], failed["exception"]) == ("FAILURE", "LookupError")
    assert (fine["state"], "exception" in fine) == ("SUCCESS", False)
    kinds: dict[int, list[str]] = {}
    for kind, number in points(seen):
        kinds.setdefault(number, []).append(kind)
    assert sorted(kinds.values()) == [["flow_begin", "flow_end"]] * 2 + [["flow_begin", "flow_step", "flow_end"]] * 2
    assert_valid(out)
