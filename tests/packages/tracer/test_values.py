"""Arguments and results of functions that are not decorated: `fxtio run --args WHERE --results WHERE`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import judges
from judges import perfetto
from support.tracer_check import check_trace
from support.tracer_run import fine

pytestmark = pytest.mark.recorder

PROGRAM = """
import asyncio, gc, types, weakref
shop = types.ModuleType("shop")
source = '''
class Weird:
    def __repr__(self): raise ValueError
class Item: pass
class Shop:
    def __init__(self, name): self.name = name
    def handle(self, request, /, *rest, user="ada", **more):
        def inner(): return request
        return {"status": 200, "request": inner()}
    @classmethod
    def make(cls, name): return cls(name)
async def fetch(url, size):
    await asyncio.sleep(0)
    return url * size
def numbers(count):
    for number in range(count): yield number
    return "end"
def fails(x): raise KeyError(x)
def many(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p): pass
def drops(item):
    item = None
    return gone() is None
def comprehended(items): return [item for item in items], list(item for item in items)
'''
shop.__dict__.update(asyncio=asyncio)
exec(compile(source, "/srv/shop.py", "exec"), shop.__dict__)
fxtio.start(OUT, functions=True, include=["/srv/shop.py"], **OPTIONS)
one = shop.Shop.make("x" * 2000)
one.handle("/a", 1, user="bob", k=3)
one.handle([1] * 1000, user=shop.Weird())
asyncio.run(shop.fetch("u", 2))
list(shop.numbers(2))
try: shop.fails(1)
except KeyError: pass
shop.many(*range(16))
item = [shop.Item()]
shop.gone = weakref.ref(item[0])
print(shop.drops(item.pop()))
shop.comprehended([1])
fxtio.stop()
"""


def calls(out: Path, **options: Any) -> dict[str, list[dict[str, Any]]]:
    """Return the arguments and results of each function's slices on threads."""
    assert fine(PROGRAM, out, **options) == "True\n"
    result: dict[str, list[dict[str, Any]]] = {}
    for span in check_trace(out).spans():
        if not span.on_track:
            args = {name: value for name, value in span.args.items() if name != "exception"}
            result.setdefault(span.name.removeprefix("srv.").removeprefix("shop."), []).append(args)
    return result


def test_arguments(out: Path) -> None:
    seen = calls(out, args=["/srv/shop.py"])
    assert seen["Shop.make"] == [{"name": "x" * 1000}]
    assert seen["Shop.handle"] == [
        {"request": "/a", "user": "bob", "rest": "(1,)", "more": "{'k': 3}"},
        {"request": "[1, 1, 1, 1, 1, 1, ...]", "user": "<Weird>", "rest": "()", "more": "{}"},
    ]
    assert seen["Shop.handle.<locals>.inner"] == [{}, {}]
    assert seen["fetch"] == [{"url": "u", "size": 2}, {}]
    assert seen["numbers"] == [{"count": 2}, {}, {}]
    assert seen["fails"] == [{"x": 1}]
    assert seen["many"] == [dict(zip("abcdefghijklm", range(13), strict=True))]
    assert seen["comprehended"] == [{"items": "[1]"}]
    assert all(args == {} for args in seen["comprehended.<locals>.<genexpr>"])


def test_the_whole_call_of_a_coroutine_has_the_arguments(out: Path) -> None:
    fine(PROGRAM, out, args=["/srv/shop.py"])
    (whole,) = check_trace(out).spans("await shop.fetch")
    assert whole.args == {"url": "u", "size": 2}


def test_results(out: Path) -> None:
    seen = calls(out, results=["/srv/"])
    assert seen["Shop.handle"][0] == {"result": "{'request': '/a', 'status': 200}"}
    assert seen["Shop.handle.<locals>.inner"] == [{"result": "/a"}, {"result": "[1, 1, 1, 1, 1, 1, ...]"}]
    assert seen["fetch"] == [{}, {"result": "uu"}]
    assert seen["numbers"] == [{}, {}, {"result": "end"}]
    assert seen["fails"] == [{}]
    assert seen["Shop.__init__"] == [{"result": None}]


@pytest.mark.parametrize("where", ["shop.Shop", "*.Shop.*", "*.Shop.handle", "*handle"])
def test_by_function(where: str, out: Path) -> None:
    seen = calls(out, args=[where], results=["*.fetch"])
    assert {"request", "user"} <= seen["Shop.handle"][0].keys()
    assert "name" in seen["Shop.make"][0] or "handle" in where
    assert seen["fails"] == [{}]
    assert seen["fetch"] == [{}, {"result": "uu"}]


def test_a_slow_repr_or_a_signal_in_it_does_no_harm(out: Path) -> None:
    source = """
    class Bad:
        def __repr__(self):
            handle(1)
            raise KeyboardInterrupt
    def handle(value):
        return value
    fxtio.start(OUT, functions=True, args=["<string>"], results=["<string>"], include=["<string>"])
    print(type(handle(Bad())).__name__)
    fxtio.stop()
    """
    assert fine(source, out) == "Bad\n"
    (span,) = check_trace(out).spans("<string>.handle")
    assert span.args == {"value": "<Bad>", "result": "<Bad>"}


REQUESTS = """
import asyncio
described = 0
class Reply:
    def __init__(self, number): self.number = number
    def __repr__(self):
        global described
        described += 1
        return f"reply {self.number}"
DECORATE
async def handle(number):
    for _ in range(3):
        await asyncio.sleep(0)
    if number == 2:
        raise LookupError
    return Reply(number)
async def main():
    await asyncio.gather(*map(handle, range(3)), return_exceptions=True)
fxtio.start(OUT, **OPTIONS)
asyncio.run(main())
fxtio.stop()
print(described)
"""


@pytest.mark.parametrize("decorated", [False, True])
def test_the_whole_call_of_a_coroutine_says_which_request_returned_what(decorated: bool, out: Path) -> None:
    options: dict[str, Any] = {} if decorated else {"functions": True, "args": ["<string>"], "results": ["<string>"]}
    program = REQUESTS.replace("DECORATE", "@fxtio.trace(args=True, result=True)" if decorated else "")
    assert fine(program, out, **options) == "2\n"  # each result is described once
    seen = check_trace(out)
    name = "handle" if decorated else "<string>.handle"
    failed = {"number": 2, "exception": "LookupError"}
    if not decorated and sys.version_info < (3, 12):  # a profile function does not get the exception
        del failed["exception"]
    whole = sorted((span.args for span in seen.spans(f"await {name}")), key=lambda args: args["number"])
    assert whole == [{"number": 0, "result": "reply 0"}, {"number": 1, "result": "reply 1"}, failed]
    assert [span.args["result"] for span in seen.spans(name) if "result" in span.args] == ["reply 0", "reply 1"]


@pytest.mark.full
def test_perfetto_shows_it(out: Path) -> None:
    fine(REQUESTS.replace("DECORATE", "@fxtio.trace(args=True, result=True)"), out)
    judges.require(perfetto.available())
    with perfetto.load(out) as p:
        assert p.errors() == {}
        rows = p.query(
            "select extract_arg(arg_set_id, 'number') as number, extract_arg(arg_set_id, 'result') as result,"
            " extract_arg(arg_set_id, 'exception') as exception from slice where name = 'await handle' order by number"
        )
    assert [tuple(row.values()) for row in rows] == [
        (0, "reply 0", None),
        (1, "reply 1", None),
        (2, None, "LookupError"),
    ]


@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize("decorated", [False, True])
def test_a_result_whose_repr_begins_another_recording(decorated: bool, kind: str, out: Path) -> None:
    """The call has no begin there, so it has no end either."""
    source = f"""
    import asyncio
    class Reply:
        def __repr__(self):
            fxtio.stop()
            fxtio.start(OUT + ".2.fxt", **OPTIONS)
            return "reply"
    {"@fxtio.trace(result=True)" if decorated else ""}
    {kind} handle():
        return Reply()
    fxtio.start(OUT, **OPTIONS)
    handle() if {kind == "def"} else asyncio.run(handle())
    with fxtio.span("after"):
        pass
    fxtio.stop()
    """
    fine(source, out, **({} if decorated else {"functions": True, "results": ["<string>"], "include": ["<string>"]}))
    check_trace(out, open_spans=True)
    assert {span.name for span in check_trace(Path(f"{out}.2.fxt")).spans()} == {"after"}
