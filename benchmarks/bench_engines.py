"""Measure what one question costs by fxtio alone, and by engines over a lake and over scanned traces.

    FXTIO_ENGINES=FOLDER:FOLDER python benchmarks/bench_engines.py                # some five minutes, Linux
    FXTIO_ENGINES=FOLDER:FOLDER python benchmarks/bench_engines.py --markdown

The folders have the packages of engines, as `pip install --target FOLDER` makes them: dask and "pandas<3"; pysail and
pyspark-client; ray and pandas; daft; pyspark, which needs Java.  They do not go together, so each engine is taken from
the first folder that has it; one that is in none is left out.

The question is for each name of slices how many there are, and the sum of their own times, in 50 synthetic traces of
20,000 slices.  Each answer is a process of its own; starting it, and the engine, is part of its time, and the processor
time is that of all processes that it starts.  If two answers differ, the benchmark fails.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from harness import show

from fxtio import synth

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from judges import engines

TESTS = sys.path[0]
TRACES, EVENTS = 50, 38_000
CORES = 2
_ENDING_S = 20
_ASK = "ask"
_PR_SET_CHILD_SUBREAPER = 36


class Cost(NamedTuple):
    """Seconds."""

    processor: float
    wall: float


def one_process(*traces: str) -> Any:
    """Ask one trace after the other."""
    import fxtio
    from fxtio.timeline.answers.top import top

    calls: Counter[str] = Counter()
    own: Counter[str] = Counter()
    for path in traces:
        with fxtio.open_timeline(path) as timeline:
            rows = top(timeline, waiting=True).table
            for name, count, nanoseconds in zip(*(rows[each] for each in ("name", "calls", "self")), strict=True):
                calls[str(name)] += int(count)
                own[str(name)] += int(nanoseconds)
    return _table([*calls], [*calls.values()], [own[name] for name in calls])


def add(lake: str, *traces: str) -> Any:
    """Make a lake, which has no answer yet."""
    from fxtio.lake import Lake

    assert all(each.kind == "added" for each in Lake(lake, create=True).add(traces, jobs=CORES))
    return _table([], [], [])


def lake_top(lake: str) -> Any:
    """Ask a lake."""
    from fxtio.lake import Lake

    rows = Lake(lake).top(limit=None).rows
    return _table(*([row[each] for row in rows] for each in ("key", "calls", "self")))


def duckdb(lake: str) -> Any:
    """Ask DuckDB, which does not know that there is a lake."""
    import duckdb

    return duckdb.sql(engines.SUMS.replace("slices", f"'{lake}/slices/**/*.parquet'")).to_arrow_table()


def dask_scan(*traces: str) -> Any:
    """Ask Dask with processes: reading a trace keeps the lock of the interpreter most of the time."""
    import dask

    with dask.config.set(scheduler="processes", num_workers=CORES):
        return engines.ENGINES["dask-scan"](*traces)


def ray_scan(*traces: str) -> Any:
    """Ask Ray."""
    import pyarrow as pa
    import ray
    from ray.data.aggregate import Count, Sum

    ray.init(num_cpus=CORES, include_dashboard=False, log_to_driver=False)
    paths = ray.data.from_items([{"path": path} for path in traces])
    rows = paths.map_batches(_ray_rows, batch_format="pyarrow", batch_size=1)
    found = rows.groupby("name").aggregate(Count(), Sum("self_time")).to_pandas()
    ray.shutdown()
    return pa.Table.from_pandas(found, preserve_index=False)


def _ray_rows(batch: Any) -> Iterator[Any]:
    import pyarrow as pa

    from fxtio.lake import scan

    for each in scan(batch, "slices"):
        yield pa.Table.from_batches([each]).select(["name", "self_time"])


def daft_scan(*traces: str) -> Any:
    """Ask Daft."""
    import daft
    from daft.io.source import DataSource, DataSourceTask
    from daft.recordbatch import RecordBatch

    from fxtio.lake import scan, schema_of

    columns = daft.Schema.from_pyarrow_schema(schema_of("slices"))

    class Trace(DataSourceTask):
        schema = columns

        def __init__(self, path: str) -> None:
            self.path = path

        async def read(self) -> Any:
            for batch in scan(self.path, "slices"):
                yield RecordBatch.from_arrow_record_batches([batch], batch.schema)

    class Traces(DataSource):
        name = "traces"
        schema = columns

        async def get_tasks(self, pushdowns: Any) -> Any:
            for path in traces:
                yield Trace(path)

    own = daft.col("self_time")
    return Traces().read().groupby("name").agg(own.count().alias("calls"), own.sum().alias("total")).to_arrow()


def spark(ask: Callable[..., Any], *paths: str) -> Any:
    """Ask Spark in one process, with a thread for each core."""
    from pyspark.sql import SparkSession

    session = SparkSession.builder.master(f"local[{CORES}]").config("spark.ui.enabled", "false").getOrCreate()
    found = ask(session, *paths)
    session.stop()
    return found


def _table(*columns: list[Any]) -> Any:
    import pyarrow as pa

    return pa.table([*columns], names=["name", "calls", "total"])


class Way(NamedTuple):
    """A way to an answer.

    Attributes:
        title: its name in the table.
        ask: asks; its arguments are the lake or all traces.
        package: a file of the package that it needs.
        scans: whether it reads traces.
    """

    title: str
    ask: Callable[..., Any]
    package: str = ""
    scans: bool = False


WAYS = [
    Way("one process, `open_timeline` and `top` in a loop", one_process, scans=True),
    Way("`fxtio lake add -j 2`", add, scans=True),
    Way("`fxtio lake top`", lake_top),
    Way("DuckDB on the lake", duckdb),
    Way("Dask on the lake", engines.ENGINES["dask"], "dask"),
    Way("Sail on the lake", engines.ENGINES["sail"], "pysail"),
    Way("Spark on the lake", partial(spark, engines.spark_sums), "pyspark/jars"),
    Way("Dask, `from_map` of scans", dask_scan, "dask", scans=True),
    Way("Ray, `map_batches` of scans", ray_scan, "ray", scans=True),
    Way("Daft, a source of scans", daft_scan, "daft", scans=True),
    Way("Sail, `mapInArrow` of scans", engines.ENGINES["sail-scan"], "pysail", scans=True),
    Way("Spark, `mapInArrow` of scans", partial(spark, engines.spark_scan_sums), "pyspark/jars", scans=True),
]


def measured(number: int, paths: list[str], packages: str, log: Path) -> tuple[Cost, list[list[Any]]]:
    """Let a process ask, and return its cost and the rows of its answer."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([packages, TESTS]), "PYTHONWARNINGS": "ignore"}
    environment |= {"FXTIO_ENGINES": packages, "PYSPARK_PYTHON": sys.executable}
    begin = time.perf_counter()
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, __file__, _ASK, str(number), *paths],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
        assert process.stdout is not None
        output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{WAYS[number].title} failed:\n{log.read_text(errors='replace')[-3000:]}")
    return Cost(usage.ru_utime + usage.ru_stime + _left(), wall), json.loads(output.splitlines()[-1])


def _left() -> float:
    """Wait for processes whose parent has ended, kill those that do not end, and return their processor time."""
    seconds, end = 0.0, time.monotonic() + _ENDING_S
    with suppress(ChildProcessError):
        while True:
            pid, _, usage = os.wait4(-1, os.WNOHANG)
            seconds += usage.ru_utime + usage.ru_stime if pid else 0
            if not pid:
                time.sleep(0.05)
                if time.monotonic() > end:
                    for child in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
                        os.kill(int(child), signal.SIGKILL)
    return seconds


def by_name(rows: list[list[Any]]) -> Counter[tuple[str, str]]:
    """Return the sums of an answer for all programs."""
    sums: Counter[tuple[str, str]] = Counter()
    for *_, name, calls, own in rows:
        sums[name, "calls"] += calls
        sums[name, "self"] += own
    return sums


def run(folder: Path) -> list[tuple[str, str, str]]:
    """Measure everything and return the rows of the table."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    traces = [str(folder / f"{seed}.fxt") for seed in range(TRACES)]
    for seed, path in enumerate(traces):
        synth.write(path, "program", events=EVENTS, seed=seed)
    lake = str(folder / "lake")
    expected: Counter[tuple[str, str]] | None = None
    first: Cost | None = None
    rows = []
    for number, way in enumerate(WAYS):
        places = [place for place in os.environ.get("FXTIO_ENGINES", "").split(os.pathsep) if place]
        places = [place for place in places if (Path(place) / way.package).exists()] if way.package else [TESTS]
        if not places:
            rows.append((way.title, "not installed", ""))
            continue
        paths = [lake] * (not way.scans or way.ask is add) + traces * way.scans
        cost, answer = measured(number, paths, places[0], folder / "log")
        found = by_name(answer)
        expected, first = expected or found, first or cost
        if way.ask is not add and found != expected:
            raise SystemExit(f"{way.title} has another answer: {sorted((found - expected).items())[:5]}")
        print(f"{way.title}: {cost.processor:.1f} s of processor time, {cost.wall:.1f} s", file=sys.stderr)
        rows.append((way.title, f"{cost.processor / first.processor:.2f}", f"{cost.wall / first.wall:.2f}"))
    return rows


if __name__ == "__main__":
    if sys.argv[1:2] == [_ASK]:
        engines.answer(WAYS[int(sys.argv[2])].ask, *sys.argv[3:])
    show("traces by engines; ratios of processor time", run, "wall time")
