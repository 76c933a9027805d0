"""Arguments and results of functions that are not decorated: `fxtio run --args WHERE --results WHERE`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

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
