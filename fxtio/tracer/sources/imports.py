"""Imports: a span for each module that is looked for and loaded, or loaded anew, with those that it imports within.

While the interpreter does that it holds the module's lock, by a context manager; ours is one that tells.  So no call of
ours is under way while a module is loaded, tracebacks and warnings look as ever, and finders, loaders and
`sys.meta_path` stay as they are.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from fxtio.tracer.backend import recorder
from fxtio.tracer.sources.patch import Patch


class Source:
    """Stands in for the context manager."""

    def start(self) -> None:
        """Begin to see imports."""
        self._patch = Patch(sys.modules["importlib._bootstrap"], "_ModuleLockManager", _telling)

    def stop(self) -> None:
        """See no more."""
        self._patch.remove()


def _telling(patch: Patch, manager: Any) -> type:
    class Telling(manager):  # type: ignore[misc]
        """Holds the lock of a module; what it waits for that is a part of the import."""

        def __enter__(self) -> None:
            self._site = recorder.Site("imports", self._name)
            self._begun = recorder.begin(self._site) if patch.on else False
            try:
                super().__enter__()
            except BaseException as error:  # two threads would wait for each other
                self._end("exception", type(error).__name__)
                raise

        def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
            super().__exit__(kind, *error)
            if kind is None:
                self._end("origin", _origin(sys.modules.get(self._name)))
            else:
                self._end("exception", kind.__name__)

        def _end(self, how: str, what: str) -> None:
            if self._begun and patch.on:
                recorder.end(self._site, how, what)

    return Telling


def _origin(module: object) -> str:
    """Where a module comes from, told without a call of its own code: a lazy one would load itself."""
    if issubclass(type(module), ModuleType):
        spec = object.__getattribute__(module, "__dict__").get("__spec__")
        if type(spec) is ModuleSpec and type(spec.origin) is str:
            return spec.origin
    return ""
