"""A harness for the package `fxt` of PyPI, a reader of FXT traces in Python, in both modes.

    fxtio conformance run --mode serve --format fxt --known conformance/known/pypi-fxt.toml -- \
        python conformance/harness/pypi_fxt_reader.py

The package does not keep the types of arguments and the order of records of different providers, so what it reads is
returned as a timeline.  It takes the end of a complete event for its duration; the value is used as the end.
"""

from __future__ import annotations

import importlib.metadata
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from fxt import reader

sys.path.insert(0, str(Path(__file__).resolve().parent))  # not there by itself if PYTHONSAFEPATH is set

from timelines import Refused, arguments, double, run, text, thread


def read(path: Path) -> dict[str, Any]:
    """Read a trace, and return its timeline."""
    try:
        with path.open("rb") as stream:
            result = reader.parse_records(stream)
    except ValueError as error:  # its own errors, and UnicodeDecodeError
        raise Refused(str(error)) from error
    records = [record for state in result.records_by_provider.values() for record in state.records]
    builder = Builder()
    for record in sorted(records, key=lambda record: getattr(record, "timestamp_ns", 0)):  # stable
        builder.add(record)
    timeline = builder.timeline()
    if len(result.records_by_provider) > 1:  # their order is not known, and blobs have no times
        del timeline["blobs"]
    return timeline


class Builder:
    """A timeline that records are added to in the order of time."""

    def __init__(self) -> None:
        self.members: defaultdict[str, list[Any]] = defaultdict(list)
        self.open: defaultdict[Any, list[dict[str, Any]]] = defaultdict(list)
        self.objects: dict[tuple[str, int], dict[str, Any]] = {}

    def timeline(self) -> dict[str, Any]:
        """Return the timeline."""
        names = ("slices", "instants", "counters", "async", "flows", "logs", "switches", "blobs")
        result = {name: self.members[name] for name in names}
        objects = [self.objects[key] for key in sorted(self.objects)]
        result["processes"] = [{"koid": o["koid"], "name": o["name"]} for o in objects if "process" not in o]
        result["threads"] = [item for item in objects if "process" in item]
        return result

    def add(self, record: Any) -> None:
        """Add a record."""
        method = getattr(self, type(record).__name__.removesuffix("Record").removesuffix("Event"), None)
        if method is not None:
            method(record)

    def element(self, record: Any) -> dict[str, Any]:
        """Return what slices and instants have in common."""
        return {
            "thread": thread(record.thread.process_id, record.thread.thread_id),
            "name": text(record.name),
            "category": text(record.category),
            "arguments": arguments(record.args),
        }

    def Instant(self, record: Any) -> None:
        self.members["instants"].append({**self.element(record), "time": str(record.timestamp_ns)})

    def DurationComplete(self, record: Any) -> None:
        times = {"begin": str(record.timestamp_ns), "end": str(record.duration_ns)}
        self.members["slices"].append({**self.element(record), **times})

    def DurationBegin(self, record: Any) -> None:
        span = {**self.element(record), "begin": str(record.timestamp_ns), "end": None}
        self.members["slices"].append(span)
        self.open[record.thread.process_id, record.thread.thread_id].append(span)

    def DurationEnd(self, record: Any) -> None:
        waiting = self.open[record.thread.process_id, record.thread.thread_id]
        if waiting:
            span = waiting.pop()
            span["end"] = str(record.timestamp_ns)
            merged = [*span["arguments"], *arguments(record.args)]
            span["arguments"] = sorted(merged, key=lambda item: item["name"]["text"])

    def AsyncBegin(self, record: Any) -> None:
        times = {"begin": str(record.timestamp_ns), "end": None}
        self.members["async"].append({"id": str(record.correlation_id), "name": text(record.name), **times})
        self.open[record.correlation_id].append(self.members["async"][-1])

    def AsyncEnd(self, record: Any) -> None:
        if self.open[record.correlation_id]:
            self.open[record.correlation_id].pop()["end"] = str(record.timestamp_ns)

    def FlowBegin(self, record: Any) -> None:
        identity = str(record.correlation_id)
        flow = next((flow for flow in self.members["flows"] if flow["id"] == identity), None)
        if flow is None:
            flow = {"id": identity, "times": []}
            self.members["flows"].append(flow)
        flow["times"].append(str(record.timestamp_ns))

    FlowStep = FlowEnd = FlowBegin

    def Counter(self, record: Any) -> None:
        sample = {"process": str(record.thread.process_id), "name": text(record.name), "id": str(record.counter_id)}
        self.members["counters"] += [
            {**sample, "series": text(name), "time": str(record.timestamp_ns), "value": double(float(number))}
            for name, number in record.args.items()
            if isinstance(number, int | float) and not isinstance(number, bool)
        ]

    def Log(self, record: Any) -> None:
        place = thread(record.thread.process_id, record.thread.thread_id)
        self.members["logs"].append(
            {"thread": place, "time": str(record.timestamp_ns), "message": text(record.message)}
        )

    def ContextSwitch(self, record: Any) -> None:
        threads = {"outgoing": str(record.outgoing_thread_id), "incoming": str(record.incoming_thread_id)}
        self.members["switches"].append({"cpu": str(record.cpu_id), "time": str(record.timestamp_ns), **threads})

    def Blob(self, record: Any) -> None:
        self.members["blobs"].append({"name": text(record.name), "payload": record.payload.hex()})

    LargeBlobWithMetadata = LargeBlobNoMetadata = Blob

    def KernelObject(self, record: Any) -> None:
        item = {"koid": str(record.id), "name": text(record.name)}
        if int(record.type) == 2:
            process = record.args.get("process")
            item["process"] = None if process is None else str(process)
        if int(record.type) in (1, 2):
            self.objects[str(int(record.type)), record.id] = item


if __name__ == "__main__":
    sys.exit(run("PyPI fxt", importlib.metadata.version("fxt"), read))
