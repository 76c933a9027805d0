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
from typing import Any

SUMS = "select program, count(*) as calls, cast(sum(duration) as bigint) as total from slices group by program"
_STARTING_S = 60


def available() -> str | None:
    """Return None if the engines can be used here, otherwise the reason why not, in one sentence."""
    if not os.environ.get("FXTIO_ENGINES"):
        return "there are no engines: FXTIO_ENGINES names no folder with dask, deltalake, pyiceberg, pysail and others"
    return None


def run(*command: str) -> str:
    """Run Python with a command, where the packages are, and return what it prints.

    Raises:
        RuntimeError: it failed.
    """
    environment = os.environ | {"PYTHONPATH": os.environ["FXTIO_ENGINES"], "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, *command], check=False, capture_output=True, text=True, env=environment, timeout=300
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    return done.stdout


def sums(engine: str, *paths: str) -> list[tuple[str, int, int]]:
    """Return program, number of slices and sum of their durations, as an engine has them.

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

    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db")
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

    groups = frame.astype({"program": "str"}).groupby("program")["duration"]
    return pa.Table.from_pandas(groups.agg(["count", "sum"]).compute().reset_index(), preserve_index=False)


def _sail(lake: str) -> Any:
    with _spark() as spark:
        spark.read.parquet(f"{lake}/slices").createOrReplaceTempView("slices")
        return spark.sql(SUMS).toArrow()


def _sail_scan(*traces: str) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    from fxtio.lake import scan, schema_of

    with _spark() as spark:
        paths = spark.createDataFrame([(path,) for path in traces], "path string")
        rows = paths.mapInArrow(partial(scan, table="slices"), from_arrow_schema(schema_of("slices")))
        rows.createOrReplaceTempView("slices")
        return spark.sql(SUMS).toArrow()


@contextmanager
def _spark() -> Iterator[Any]:
    """Start Sail, and yield a session of Spark.  It does not end when it is asked to, so it is killed."""
    from pyspark.sql import SparkSession

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code = "from pysail.cli import main; main()"
    arguments = ["spark", "server", "--ip", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        end = time.monotonic() + _STARTING_S
        while time.monotonic() < end and server.poll() is None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.1)
        yield SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def _summed(slices: Any) -> Any:
    return slices.group_by("program").aggregate([("duration", "count"), ("duration", "sum")])


ENGINES: dict[str, Callable[..., Any]] = {
    "delta": _delta,
    "iceberg": _iceberg,
    "ducklake": _ducklake,
    "dask": _dask,
    "dask-scan": _dask_scan,
    "sail": _sail,
    "sail-scan": _sail_scan,
}

if __name__ == "__main__":
    found = ENGINES[sys.argv[1]](*sys.argv[2:])
    columns = [column.to_pylist() for column in found.columns]
    print(json.dumps([*zip(*columns, strict=True)]))
    sys.stdout.flush()
    os._exit(0)  # clients of Spark would wait for a server that was killed
