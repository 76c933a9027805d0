"""A program of Starlette that holds its event loop on purpose; asyncio says as well which steps took long.

The arguments are the number of blocks, their shortest and longest time, and what asyncio takes for long, in
milliseconds.  It prints JSON: the name and the milliseconds of each block, and the times that asyncio has reported.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

COUNT, SHORTEST, LONGEST, LIMIT = map(float, sys.argv[1:5])
planted: list[tuple[str, float]] = []
reported: list[float] = []


def plant(name: str, held: Callable[[], object]) -> None:
    begin = time.perf_counter()
    held()
    planted.append((name, (time.perf_counter() - begin) * 1000))


def spin(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def sleeps(seconds: float) -> None:
    time.sleep(seconds)


def spins(seconds: float) -> None:
    spin(seconds)


def generates(seconds: float) -> None:
    for piece in pieces(seconds):
        time.sleep(piece)


def pieces(seconds: float) -> Iterator[float]:
    for _ in range(10):
        yield seconds / 10


def calls_back(seconds: float) -> None:
    time.sleep(seconds)


KINDS = {"sleeps": sleeps, "spin": spins, "generates": generates, "calls_back": calls_back}


async def handle(request: Request) -> PlainTextResponse:
    await asyncio.sleep(0)
    kind, seconds = request.path_params["kind"], float(request.query_params["seconds"])
    if kind == "calls_back":
        asyncio.get_running_loop().call_later(0.001, lambda: plant(kind, lambda: calls_back(seconds)))
        await asyncio.sleep(0.002)
    else:
        await deeper(kind, seconds)
    return PlainTextResponse(kind)


async def deeper(kind: str, seconds: float) -> None:
    await asyncio.sleep(0)
    plant(kind, lambda: KINDS[kind](seconds))
    await asyncio.sleep(0)  # so that its step does little else


def in_a_thread(_: Request) -> PlainTextResponse:
    time.sleep(LONGEST / 1000)  # which holds no loop
    return PlainTextResponse("thread")


class Reports(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if str(record.msg).startswith("Executing"):
            arguments: Any = record.args
            reported.append(arguments[1] * 1000)


async def main() -> None:
    loop = asyncio.get_running_loop()
    logging.getLogger("asyncio").addHandler(Reports())
    loop.slow_callback_duration = LIMIT / 1000
    loop.set_debug(True)
    vars(loop)["get_debug"] = bool  # so that what is made does not note where, which takes longer than all else
    await asyncio.sleep(0)  # asyncio looks from the next step on
    app = Starlette(routes=[Route("/thread", in_a_thread), Route("/{kind}", handle)])
    values = random.Random(7)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://test") as client:
        await client.get("/thread")  # imports what later ones need
        for number in range(int(COUNT)):
            await asyncio.sleep(0)
            kind = values.choice([*KINDS])
            seconds = SHORTEST / 1000 * (LONGEST / SHORTEST) ** values.random()
            assert (await client.get(f"/{kind}?seconds={seconds}")).text == kind
            if number % 50 == 0:
                assert (await client.get("/thread")).text == "thread"


asyncio.run(main())
print(json.dumps([planted, reported]))
