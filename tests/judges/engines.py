"""Engines that read a lake, tables of other systems over its files, or traces by `fxtio.lake.scan`.

They are packages of Python that need versions of their own of what fxtio uses, too: Dask, Sail (which runs programs of
Spark without Java), deltalake, pyiceberg, and DuckDB with its extension ducklake.  The variable FXTIO_ENGINES names a
folder with all of them; `.ci/run` makes one.  Each question is a child process, this module as a program.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

SUMS = """select program, name, count(*) as calls, cast(sum(self_time) as bigint) as total
    from slices group by program, name"""
_STARTING_S = 60


def available() -> str | None:
    """Return None if the engines can be used here, otherwise the reason why not, in one sentence."""
    if not os.environ.get("FXTIO_ENGINES"):
        return "there are no engines: FXTIO_ENGINES names no folder with dask, deltalake, pyiceberg, pysail and others"
    return None


def run(*command: str, **variables: str) -> str:
    """Run Python with a command, where the packages are, and return what it prints.

    Raises:
        RuntimeError: it failed.
    """
    done = subprocess.run(
        [sys.executable, *command],
        check=False,
        capture_output=True,
        text=True,
        env=_environment() | variables,
        timeout=300,
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    return done.stdout


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.environ["FXTIO_ENGINES"], "PYTHONWARNINGS": "ignore"}


def sums(engine: str, *paths: str) -> list[tuple[str, str, int, int]]:
    """Return programs, names of slices, the number of these and the sum of their own times, as an engine has them.

    Args:
        engine: a key of `ENGINES`.
        paths: the lake, tables or traces.
    """
    return sorted(map(tuple, json.loads(run(__file__, engine, *paths).splitlines()[-1])))


def _delta(lake: str) -> Any:
    from deltalake import DeltaTable, QueryBuilder

    traces = DeltaTable(f"{lake}/traces")
    assert len(traces.file_uris()) == traces.to_pyarrow_table().num_rows
    return QueryBuilder().register("slices", DeltaTable(f"{lake}/slices")).execute(SUMS).read_all()


def _iceberg(folder: str) -> Any:
    from pyiceberg.catalog.sql import SqlCatalog

    store = {"s3.endpoint": os.environ.get("AWS_ENDPOINT_URL", "")}
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", **store)
    return _summed(catalog.load_table("lake.slices").scan().to_arrow())


def _ducklake(database: str) -> Any:
    import duckdb
    import duckdb_extension_ducklake as package

    connection = duckdb.connect()
    folder = Path(package.__file__).parent / "extensions" / f"v{duckdb.__version__}"
    connection.execute(f"load '{folder / 'ducklake.duckdb_extension'}'")
    connection.execute(f"attach 'ducklake:{database}' as tables; use tables")
    return connection.sql(SUMS).to_arrow_table()


def _dask(lake: str) -> Any:
    import dask.dataframe as dd

    return _grouped(dd.read_parquet(f"{lake}/slices"))


def _dask_scan(*traces: str) -> Any:
    import dask.dataframe as dd

    from fxtio.lake import schema_of

    return _grouped(dd.from_map(_frame, traces, meta=schema_of("slices").empty_table().to_pandas()))


def _frame(path: str) -> Any:
    import pyarrow as pa

    from fxtio.lake import scan, schema_of

    return pa.Table.from_batches(scan(path, "slices"), schema_of("slices")).to_pandas()


def _grouped(frame: Any) -> Any:
    import pyarrow as pa

    groups = frame.astype({"program": "str"}).groupby(["program", "name"])["self_time"]
    return pa.Table.from_pandas(groups.agg(["count", "sum"]).compute().reset_index(), preserve_index=False)


def spark_sums(spark: Any, lake: str) -> Any:
    """Return the sums over a lake, in a session of Spark."""
    spark.read.parquet(f"{lake}/slices").createOrReplaceTempView("slices")
    return spark.sql(SUMS).toArrow()


def spark_scan_sums(spark: Any, *traces: str) -> Any:
    """Return the sums over traces, in a session of Spark."""
    from pyspark.sql.pandas.types import from_arrow_schema

    from fxtio.lake import scan, schema_of

    paths = spark.createDataFrame([(path,) for path in traces], "path string")
    rows = paths.mapInArrow(partial(scan, table="slices"), from_arrow_schema(schema_of("slices")))
    rows.createOrReplaceTempView("slices")
    return spark.sql(SUMS).toArrow()


def _in_sail(ask: Callable[..., Any], *paths: str) -> Any:
    from pyspark.sql import SparkSession

    with sail() as url:
        return ask(SparkSession.builder.remote(url).getOrCreate(), *paths)


@contextmanager
def sail() -> Iterator[str]:
    """Start Sail, and yield its URL for sessions of Spark.  It does not end when it is asked to, so it is killed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code = "from pysail.cli import main; main()"
    arguments = ["spark", "server", "--ip", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stderr=subprocess.DEVNULL, start_new_session=True, env=_environment()
    )
    try:
        end = time.monotonic() + _STARTING_S
        while time.monotonic() < end and server.poll() is None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.1)
        yield f"sc://127.0.0.1:{port}"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def _summed(slices: Any) -> Any:
    return slices.group_by(["program", "name"]).aggregate([("self_time", "count"), ("self_time", "sum")])


ENGINES: dict[str, Callable[..., Any]] = {
    "delta": _delta,
    "iceberg": _iceberg,
    "ducklake": _ducklake,
    "dask": _dask,
    "dask-scan": _dask_scan,
    "sail": partial(_in_sail, spark_sums),
    "sail-scan": partial(_in_sail, spark_scan_sums),
}


def answer(ask: Callable[..., Any], *paths: str) -> NoReturn:
    """Print as JSON what an engine finds, and end the process."""
    found = ask(*paths)
    columns = [column.to_pylist() for column in found.columns]
    print(json.dumps([*zip(*columns, strict=True)]))
    sys.stdout.flush()
    os._exit(0)  # clients of Spark would wait for a server that was killed


if __name__ == "__main__":
    answer(ENGINES[sys.argv[1]], *sys.argv[2:])
