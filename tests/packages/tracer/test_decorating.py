"""Everything that can be decorated, and what must not change by it."""

from __future__ import annotations

import asyncio
import doctest
import functools
import inspect
import pickle
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any
from unittest import mock

import pytest

import fxtio
from support.tracer_run import fine
from support.tracer_view import View

pytestmark = pytest.mark.recorder


@fxtio.trace
def plain(first: int, /, second: int = 2, *, third: int = 3) -> int:
    """Add up.

    >>> plain(1)
    6
    """
    return first + second + third


@fxtio.trace
class Shop:
    """All sorts of methods."""

    def __init__(self, price: int) -> None:
        self.price = price

    def method(self, n: int) -> int:
        """Multiply.

        >>> Shop(2).method(3)
        6
        """
        return self.price * n

    @staticmethod
    def static(n: int) -> int:
        return n

    @classmethod
    def create(cls, n: int) -> Shop:
        return cls(n)

    @property
    def double(self) -> int:
        return 2 * self.price

    def __len__(self) -> int:
        return self.price


identity: Callable[[int], int] = lambda n: n  # noqa: E731


class Call:
    def __call__(self, n: int) -> int:
        return n + 1


async def numbers(count: int) -> AsyncIterator[int]:
    for n in range(count):
        await asyncio.sleep(0)
        yield n


async def twice(n: int) -> int:
    await asyncio.sleep(0)
    return 2 * n


def echo() -> Iterator[Any]:
    got = None
    while got != "end":
        try:
            got = yield got
        except KeyError as error:
            got = f"caught {error}"
    return


def test_decorated_callables_look_the_same() -> None:
    bare = inspect.unwrap(plain)
    assert inspect.signature(plain) == inspect.signature(bare)
    assert str(inspect.signature(plain)).startswith("(first: ")
    for attribute in ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__", "__defaults__"):
        assert getattr(plain, attribute) == getattr(bare, attribute)
    assert pickle.loads(pickle.dumps(plain)) is plain
    assert pickle.loads(pickle.dumps(Shop.static)) is Shop.static
    assert pickle.loads(pickle.dumps(Shop(3).method))(2) == 6
    assert plain.__get__(1)(1) == 5
    assert callable(plain)
    for function, tests in (
        (echo, "isgeneratorfunction"),
        (twice, "iscoroutinefunction"),
        (numbers, "isasyncgenfunction"),
    ):
        for test in ("isgeneratorfunction", "iscoroutinefunction", "isasyncgenfunction"):
            assert getattr(inspect, test)(fxtio.trace(function)) == (test == tests)
    assert not inspect.iscoroutinefunction(plain)
    assert isinstance(inspect.getattr_static(Shop, "static"), staticmethod)
    assert isinstance(inspect.getattr_static(Shop, "create"), classmethod)
    assert isinstance(inspect.getattr_static(Shop, "double"), property)
    cached = fxtio.trace(functools.lru_cache(twice_of))
    assert (cached(2), cached(2), cached.cache_info().hits) == (4, 4, 1)


def twice_of(n: int) -> int:
    return 2 * n


@pytest.mark.skipif(sys.version_info < (3, 12), reason="another object stands for the function")
def test_a_function_is_only_marked() -> None:
    """The function and its code stay the same objects; from CPython 3.13 on, calls of replaced code are slower."""
    namespace: dict[str, Any] = {}
    exec("def work(): pass", namespace)
    code = namespace["work"].__code__
    assert fxtio.trace(namespace["work"]) is namespace["work"]
    assert namespace["work"].__code__ is code


@pytest.mark.full
def test_functions_that_a_loop_makes(out: Path) -> None:
    """Outside of functions they share their code, which is replaced when it is marked a second time."""
    namespace: dict[str, Any] = {"trace": fxtio.trace, "functions": []}
    exec("for name in ('one', 'two'):\n @trace(name=name)\n def work(): pass\n functions.append(work)", namespace)
    with fxtio.tracing(out):
        for work in (*namespace["functions"], *namespace["functions"]):
            work()
    assert [item.name for item in View(out).slices] == ["one", "two", "one", "two"]


@pytest.mark.full
def test_decorating_a_running_function(out: Path) -> None:
    """Recording begins with the next call; the end of the present call would end another span."""
    namespace: dict[str, Any] = {"trace": fxtio.trace}
    exec("def work():\n return trace(work)", namespace)
    with fxtio.tracing(out), fxtio.span("before"):
        traced = namespace["work"]()
        with fxtio.span("between"):
            traced()
    assert [(item.name, item.depth) for item in View(out).slices] == [("before", 0), ("between", 1), ("work", 2)]


def test_doctests_of_decorated_functions_are_collected() -> None:
    module = ModuleType(__name__)
    module.__dict__.update(plain=plain, Shop=Shop)
    tests = {
        test.name.rpartition(".")[2]: test
        for test in doctest.DocTestFinder().find(module, module=False, globs=vars(module))
    }
    assert {name for name, test in tests.items() if test.examples} == {"plain", "method"}
    for test in tests.values():
        assert doctest.DocTestRunner(verbose=False).run(test).failed == 0


def test_a_partial_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(fxtio.trace(functools.partial(twice_of, 4))))() == 8


@pytest.mark.full
def test_everything_that_can_be_called(out: Path) -> None:
    length, called, half = fxtio.trace(len), fxtio.trace(Call()), fxtio.trace(functools.partial(plain, 1, third=0))
    bound, short = fxtio.trace(Shop(2).method), fxtio.trace(identity)
    with pytest.raises(TypeError, match="cannot be called"):
        fxtio.trace(5)
    with pytest.raises(TypeError, match="cannot be called"):
        fxtio.trace(property(lambda self: 1))
    with pytest.raises(ValueError, match="no argument 'none'"):
        fxtio.trace(args=["none"])(twice_of)
    with fxtio.tracing(out):
        assert (length("abc"), called(1), half(2), bound(3), short(4)) == (3, 2, 3, 6, 4)
        shop = Shop.create(5)
        assert (shop.method(2), Shop.static(1), shop.double, len(shop)) == (10, 1, 10, 5)
        with pytest.raises(TypeError):
            plain()  # type: ignore[call-arg]
        with pytest.raises(TypeError):
            length()  # type: ignore[call-arg]
    view = View(out)
    shown = {item.name for item in view.slices}
    assert {
        "len",
        "Call",
        "Shop.method",
        "Shop.static",
        "Shop.create",
        "Shop.__init__",
        "Shop.__len__",
        "plain",
    } <= shown
    assert "Shop.double" not in shown
    (created,) = view.named("create")
    assert [view.parent(item) for item in view.named("__init__")] == [created]


@pytest.mark.full
def test_generators_and_coroutines_behave_the_same(out: Path) -> None:
    generator, coroutine, stream = fxtio.trace(echo), fxtio.trace(twice), fxtio.trace(numbers)

    async def main() -> list[int]:
        return [await coroutine(n) async for n in stream(3)]

    with fxtio.tracing(out):
        talk = generator()
        assert next(talk) is None
        assert talk.send(5) == 5  # type: ignore[attr-defined]
        assert talk.throw(KeyError(1)) == "caught 1"  # type: ignore[attr-defined]
        assert asyncio.run(main()) == [0, 2, 4]
    view = View(out, open_spans=True)
    assert len(view.named("echo")) >= 3
    assert len(view.named("twice")) >= 6
    assert len(view.named("numbers")) >= 4


@pytest.mark.full
def test_whole_programs(out: Path) -> None:
    fine(
        """
        def leaf(n): return n
        def branch(n):
            return [leaf(k) for k in range(n)]
        class Tree:
            def grow(self):
                for n in range(3): branch(n)
        def steps():
            yield 1
            yield 2
        def fails():
            raise ValueError("own")
        fxtio.start(OUT, functions=True)
        Tree().grow()
        list(steps())
        try: fails()
        except ValueError: pass
        fxtio.stop()
        """,
        out,
    )
    view = View(out, open_spans=True)
    names = [(item.name or "").rpartition(".")[2] for item in view.slices]
    counts = {name: names.count(name) for name in ("grow", "branch", "leaf", "steps", "fails")}
    assert counts == {"grow": 1, "branch": 3, "leaf": 3, "steps": 3, "fails": 1}
    for item in view.named("branch"):
        parent = view.parent(item)
        assert parent is not None
        assert (parent.name or "").endswith("Tree.grow")
    if sys.version_info >= (3, 12):
        assert view.named("fails")[0].args == {"exception": "ValueError"}


def test_tools_that_look_at_functions() -> None:
    """They see a traced function as the function that it was, also where another object stands for it."""
    added = 3

    def plain(a: int, b: int = 1) -> int:
        return a + b + added

    traced = fxtio.trace(plain)
    assert isinstance(traced, FunctionType) and inspect.isfunction(traced)
    assert inspect.getsourcefile(traced) == __file__
    assert inspect.getclosurevars(traced).nonlocals == {"added": 3}
    spec = mock.create_autospec(traced)
    with pytest.raises(TypeError):
        spec(1, 2, 3)
    assert fxtio.trace(traced)(1) == 5


def test_a_traced_local_function_is_pickled_by_value() -> None:
    cloudpickle = pytest.importorskip("cloudpickle")

    @fxtio.trace
    def local(number: int) -> int:
        return number + 1

    assert pickle.loads(cloudpickle.dumps(local))(1) == 2
