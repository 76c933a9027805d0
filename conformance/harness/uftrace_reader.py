"""A harness for `uftrace`, the reader of uftrace directories that comes with the recorder, in exec mode.

    fxtio conformance run --format uftrace --known conformance/known/uftrace.toml -- \
        python conformance/harness/uftrace_reader.py

`uftrace dump` prints a line for each record of the data files, and one for each argument.  The harness returns them as
a timeline.  The program prints what events mean and not their data, and it prints no time of lost records.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))  # not there by itself if PYTHONSAFEPATH is set

from timelines import Refused, run, text

SECONDS = 20
MAX_LINES = 1_000_000
FIRST_USER_EVENT = 1_000_000
PERF_TYPES = {0x200001: 14, 0x200002: 14, 0x200004: 7, 0x200005: 4, 0x200006: 3, 0x200007: 14}
"""Types of records of perf_event_open(2), by the number that uftrace gives to their events."""

RECORD = re.compile(r"(\d+)\.(\d{9}) +(\d+): \[(\w+) *\] (.*)")
PLACE = re.compile(r"(.*)\(([0-9a-f]+)\)(?: depth: (\d+))?.*")
FILE = re.compile(r"reading (kernel|perf)-cpu(\d+)\.dat")
VALUE = re.compile(r"  (?:args\[\d+\]|retval) (.*)")
NUMBER = re.compile(r"([ideucxo])(\d+): 0x([0-9a-f]+)")
FLOAT = re.compile(r"(f32|f64): 0x([0-9a-f]+)")
POINTER = re.compile(r"p: (?:0x)?([0-9a-f]+).*")
ENUMERATION = re.compile(r"enum \w*: .*?(?:\((-?\d+)\)|(-?\d+))")
STRUCTURE = re.compile(r"\t(?:[0-9a-f]{2} +)+")


def read(path: Path) -> dict[str, Any]:
    """Run the program, and return its lines as a timeline.

    It would read the symbols of programs in its working directory, so this is the trace, which has none.
    """
    command = ["uftrace", "dump", "--no-pager", "--color=no", "-d", str(path)]
    environment = {"PATH": os.environ["PATH"], "TERM": "dumb", "HOME": str(path), "LC_ALL": "C.UTF-8"}
    try:
        done = subprocess.run(command, cwd=path, env=environment, capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise RuntimeError("uftrace does not end") from None
    if done.returncode < 0:
        raise RuntimeError(f"uftrace was ended by signal {-done.returncode}")
    if done.returncode:
        raise Refused(done.stderr.decode("utf-8", "replace")[-200:])
    return timeline(done.stdout.decode("utf-8", "surrogateescape").split("\n")[:MAX_LINES])


def timeline(lines: list[str]) -> dict[str, Any]:
    """Return the timeline of printed lines."""
    result: dict[str, Any] = {name: [] for name in ("calls", "lost", "event", "kernel-event", "perf-event")}
    file, cpu = "", ""
    call: dict[str, Any] = {}
    for line in lines:
        if opened := FILE.fullmatch(line):
            file, cpu = opened[1], opened[2]
        elif line.startswith("reading "):
            file = ""
        elif record := RECORD.fullmatch(line):
            time = str(int(record[1]) * 10**9 + int(record[2]))
            place = PLACE.fullmatch(record[5])
            if place is None:
                continue
            if file:
                result[f"{file}-event"].append({"cpu": cpu, "timestamp": time, **of_cpu(file, record[4], place[2])})
            elif record[4] in ("entry", "exit"):
                call = {"type": record[4], "tid": record[3], "timestamp": time, "depth": place[3], **function(place)}
                result["calls"].append(call | {"values": []})
            elif record[4] == "lost":
                result["lost"].append({"tid": record[3], "count": str(int(place[2], 16))})
            elif record[4] == "event":
                result["event"].append(event(record[3], time, int(place[2], 16), place[1]))
        elif (value := VALUE.fullmatch(line)) and result["calls"]:
            result["calls"][-1]["values"].append(canonical(value[1]))
        elif STRUCTURE.fullmatch(line) and result["calls"] and result["calls"][-1]["values"]:
            result["calls"][-1]["values"][-1] += bytes.fromhex(line).hex()
    return result


def function(place: re.Match[str]) -> dict[str, Any]:
    """Return the address and the function of a call; without a symbol, the program prints the address twice."""
    name = None if place[1] == f"<{place[2]}>" else text(place[1])
    return {"address": str(int(place[2], 16)), "function": name}


def of_cpu(file: str, kind: str, number: str) -> dict[str, Any]:
    """Return the type of an event of the kernel or the scheduler; calls of kernel functions are printed without it."""
    if kind != "event":
        return {}
    if file == "kernel":
        return {"id": number}
    return {"perf_type": str(PERF_TYPES[int(number, 16)])}


def event(tid: str, time: str, number: int, name: str) -> dict[str, Any]:
    """Return an event.  Only names of events of the user come from the directory; the program makes up missing ones."""
    shown = {"tid": tid, "timestamp": time, "id": str(number)}
    if number < FIRST_USER_EVENT:
        return shown
    return shown | {"name": None if name == f"user_event:{number}" else text(name)}


def canonical(shown: str) -> Any:
    """Return the canonical form of the value of an argument."""
    if match := NUMBER.fullmatch(shown):
        number, bits = int(match[3], 16), int(match[2])
        return str(number - (1 << bits) if match[1] in "idc" and number >> bits - 1 else number)
    if match := FLOAT.fullmatch(shown):
        return f"{match[1]}:{match[2]}"
    if match := POINTER.fullmatch(shown):
        return str(int(match[1], 16))
    if match := ENUMERATION.fullmatch(shown):
        return match[1] or match[2]
    if shown.startswith("struct "):
        return ""
    return None if shown == "str: NULL" else text(shown.removeprefix("str: "))


if __name__ == "__main__":
    sys.exit(run("uftrace", "", read, "uftrace"))
