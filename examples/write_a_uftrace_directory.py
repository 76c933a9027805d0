"""Write a uftrace data directory, and show it with `uftrace replay` if uftrace is installed.

usage: python write_a_uftrace_directory.py [OUTPUT]
"""

from __future__ import annotations

import shutil
import subprocess
import sys

import fxtio


def main(output: str) -> None:
    """Write the calls of a server with several threads."""
    with fxtio.create(output, format="uftrace", program="/usr/bin/server") as writer:
        # Declare the arguments of a function once; each call then has only the values.
        handle = writer.function("handle", arguments="arg1/s,arg2/i32", returns="retval/i32")
        read = writer.function("read", arguments="arg1/i32", returns="retval/i64", library=True)

        start = 1_000_000_000  # nanoseconds
        listener = writer.task(tid=100)
        listener.enter("main", start)
        listener.event("server:ready", start + 500)  # uftrace shows the name as a comment
        for number, path in enumerate(("/", "/about", "/missing")):
            now = start + 10_000 * (number + 1)
            worker = writer.task(tid=101 + number, pid=100)
            worker.enter(handle, now, path, number)
            worker.enter(read, now + 1_000, 7)
            worker.leave(now + 4_000, 512 * number)
            worker.leave(now + 9_000, 404 if path == "/missing" else 200)
        listener.leave(start + 60_000)
    print(f"wrote {writer.position:,} bytes of records to {output}")

    with fxtio.open(output) as trace:
        slices = trace.timeline().table("slices")
        print(f"{slices.num_rows} calls of {len(set(slices['name']))} functions")
    if shutil.which("uftrace"):
        subprocess.run(["uftrace", "replay", "--no-pager", "-d", output], check=True)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "example.data")
