"""A small package `torch`, whose profiler behaves as that of PyTorch, and writes JSON as its library Kineto does.

PyTorch itself is too large for the tests.  An operator here is `torch.mm`, which calls one more and starts a kernel.
"""

from __future__ import annotations

from pathlib import Path

_FILES = {
    "__init__.py": """
import threading, time
import torch.autograd, torch.profiler
from torch.autograd import profiler as _state

def mm(seconds=0.002):
    begin = time.time_ns()
    time.sleep(seconds)
    end = time.time_ns()
    if _state._is_seen():
        _state._running["ops"].append((threading.get_native_id(), begin, end))
""",
    "autograd/__init__.py": """
def _profiler_enabled():
    from torch.autograd import profiler
    return profiler._is_seen()
""",
    "autograd/profiler.py": """
import os, threading
_running = None

def _is_seen():
    return (_running is not None and _running["pid"] == os.getpid()
            and _running["thread"] in (None, threading.get_ident()))

def _prepare_profiler(config):
    if _running is not None:
        raise RuntimeError("Profiler is already enabled on this thread")

def _enable_profiler(config):
    global _running
    _prepare_profiler(config)
    thread = None if config else threading.get_ident()
    _running = {"ops": [], "pid": os.getpid(), "thread": thread}

def _disable_profiler():
    global _running
    if not _is_seen():
        raise RuntimeError("Can't disable Kineto profiler when it's not running")
    result, _running = _running, None
    return result
""",
    "_C/__init__.py": "import torch._C._profiler\n",
    "_C/_profiler.py": """
class _ExperimentalConfig:
    def __init__(self{all_threads}):
        self.of_all = {of_all}
""",
    "profiler.py": """
import json, os
from torch._C import _profiler as _c
from torch.autograd import profiler as prof

BASE = 1743521598000000000
BROKEN = {broken!r}

def _fail(where):
    if where == BROKEN:
        raise RuntimeError(f"broken {{where}}")

def _times(begin, end):
    begin -= BASE
    return {{"ts": begin / 1000, "dur": (end - begin - BASE) / 1000}}

class profile:
    def __init__(self, *, activities=None, experimental_config=None{acc_events}):
        self._config = experimental_config
    def start(self):
        _fail("start")
        config = self._config is not None and self._config.of_all
        prof._prepare_profiler(config)
        prof._enable_profiler(config)
    def stop(self):
        _fail("stop")
        self._result = prof._disable_profiler()
    def __enter__(self):
        self.start()
        return self
    def __exit__(self, *_):
        self.stop()
    def export_chrome_trace(self, path):
        _fail("export")
        pid, events = self._result["pid"], []
        for n, (tid, begin, end) in enumerate(self._result["ops"], 1):
            where, length = {{"pid": pid, "tid": tid}}, end - begin
            args = {{"External id": n, "Record function id": 0, "Ev Idx": n - 1}}
            op = {{"ph": "X", "cat": "cpu_op", **where, "args": args}}
            events.append({{**op, "name": "aten::addmm", **_times(begin + length // 4, end - length // 4)}})
            events.append({{**op, "name": "aten::mm", **_times(begin, end)}})
            launch = _times(begin + length // 3, begin + length // 2)
            events.append({{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", **where, **launch}})
            arrow = {{"id": n, "cat": "ac2g", "name": "ac2g"}}
            events.append({{"ph": "s", **arrow, **where, "ts": launch["ts"]}})
            stream = {{"pid": 0, "tid": 7}}
            kernel = _times(begin + length // 2, begin + length)
            of_kernel = {{"External id": n, "device": 0, "stream": 7}}
            name = "void gemm<float>(float*)"
            events.append({{"ph": "X", "cat": "kernel", "name": name, **stream, **kernel, "args": of_kernel}})
            events.append({{"ph": "f", **arrow, **stream, "ts": kernel["ts"], "bp": "e"}})
        common = {{"ph": "M", "ts": 0.0}}
        for device, label in ((pid, "CPU"), (0, "GPU 0")):
            of_device = {{**common, "pid": device, "tid": 0}}
            events.append({{**of_device, "name": "process_name", "args": {{"name": "python"}}}})
            events.append({{**of_device, "name": "process_labels", "args": {{"labels": label}}}})
        for place, text in (((pid, pid), f"thread {{pid}} (python)"), ((0, 7), "stream 7 ")):
            of_thread = {{**common, "pid": place[0], "tid": place[1]}}
            events.append({{**of_thread, "name": "thread_name", "args": {{"name": text}}}})
        whole = _times(min((op[1] for op in self._result["ops"]), default=BASE), BASE)
        whole["dur"] = 1.0
        events.append({{"ph": "X", "cat": "Trace", "pid": "Spans", "tid": "PyTorch Profiler",
                        "name": "PyTorch Profiler (0)", "args": {{"Op count": 0}}, **whole}})
        document = {{"schemaVersion": 1, "deviceProperties": [], "displayTimeUnit": "ms",
                     "baseTimeNanoseconds": BASE, "traceEvents": events, "traceName": path}}
        with open(path + ".tmp", "w") as file:
            json.dump(document, file, indent=2)
        if BROKEN == "file":  # Kineto says so in its log only
            os.remove(path + ".tmp")
        else:
            os.replace(path + ".tmp", path)
""",
}


def write_torch(folder: Path, *, is_old: bool = False, broken: str = "") -> str:
    """Write the package, and return code with which a program finds it.

    Args:
        folder: where to write it.
        is_old: torch cannot profile all threads, and does not know the newer arguments.
        broken: what of its profiler fails: `start`, `stop`, `export`, or that of the `file`.
    """
    values = {
        "all_threads": "" if is_old else ", profile_all_threads=False",
        "of_all": "False" if is_old else "profile_all_threads",
        "acc_events": "" if is_old else ", acc_events=False",
        "broken": broken,
    }
    for name, text in _FILES.items():
        path = folder / "torch" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        has_values = name in ("_C/_profiler.py", "profiler.py")
        path.write_text(text.format(**values) if has_values else text)
    return f"sys.path.insert(0, {str(folder)!r}); sys.dont_write_bytecode = True\n"
