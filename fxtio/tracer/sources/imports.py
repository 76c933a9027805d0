"""Imports: a span for each module that is searched and loaded, with the imports that it causes inside.

While the interpreter loads a module it holds the module's lock, by a context manager; ours records when it is entered
and left.  So none of our functions is on the stack while a module is loaded, tracebacks and warnings look the same, and
finders, loaders and `sys.meta_path` stay as they are.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from fxtio.tracer.backend import recorder
from fxtio.tracer.sources.patch import Patch


class Source:
    """Replaces the context manager of the import system."""

    def start(self) -> None:
        """Begin to record imports."""
        self._patch = Patch(sys.modules["importlib._bootstrap"], "_ModuleLockManager", _recording_manager)

    def stop(self) -> None:
        """Record no more imports."""
        self._patch.remove()


def _recording_manager(patch: Patch, manager: Any) -> type:
    class RecordingManager(manager):  # type: ignore[misc]
        """Holds the lock of a module.  The time that it waits for the lock is a part of the import."""

        def __enter__(self) -> None:
            self._site = recorder.Site("imports", self._name)
            self._has_begun = recorder.begin(self._site) if patch.is_on else False
            try:
                super().__enter__()
            except BaseException as error:  # a deadlock of two threads
                self._end("exception", type(error).__name__)
                raise

        def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
            super().__exit__(kind, *error)
            if kind is None:
                self._end("origin", _origin(sys.modules.get(self._name)))
            else:
                self._end("exception", kind.__name__)

        def _end(self, key: str, value: str) -> None:
            if self._has_begun and patch.is_on:
                recorder.end(self._site, key, value)

    return RecordingManager


def _origin(module: object) -> str:
    """Return where a module comes from, without a call of its own code: a lazy module would load itself."""
    if issubclass(type(module), ModuleType):
        spec = object.__getattribute__(module, "__dict__").get("__spec__")
        if type(spec) is ModuleSpec and type(spec.origin) is str:
            return spec.origin
    return ""
