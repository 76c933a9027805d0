"""Small programs, and recordings of them by `fxtio run`."""

from __future__ import annotations

import textwrap
from pathlib import Path

from support.checkout import run_python

PROGRAMS = {
    "recursion": """
        def fib(n):
            return n if n < 2 else fib(n - 1) + fib(n - 2)

        def even(n):
            return n == 0 or odd(n - 1)

        def odd(n):
            return n > 0 and even(n - 1)

        for n in range(8):
            fib(n), even(n)
    """,
    "threads": """
        import threading

        def work(n):
            return sum(square(i) for i in range(n))

        def square(i):
            return i * i

        threads = [threading.Thread(target=work, args=(n * 10,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    """,
    "exceptions": """
        def fails(n):
            if not n:
                raise ValueError
            fails(n - 1)

        for n in range(10):
            try:
                fails(n)
            except ValueError:
                pass
    """,
    "marks": """
        import fxtio
        import threading

        def handle(number):
            with fxtio.span("request", number=number, path=f"/{number % 3}", share=number / 4):
                fxtio.counter("size", number * 10)
                with fxtio.span("query", category="db", rows=number):
                    fxtio.instant("hit", key=f"k{number}")

        threads = [threading.Thread(target=handle, args=(number,), name=f"worker {number}") for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    """,
}


def recorded(program: str, folder: Path) -> Path:
    """Record one of the programs; return the path of the trace."""
    script, path = folder / "program.py", folder / f"{program}.fxt"
    script.write_text(textwrap.dedent(PROGRAMS[program]), encoding="utf-8")
    run_python("-m", "fxtio", "run", "-o", str(path), str(script))
    return path
