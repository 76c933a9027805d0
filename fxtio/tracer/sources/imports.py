"""Imports: a span for each module that is searched and loaded, with the imports that it causes inside.

While the interpreter loads a module it holds the module's lock, by a context manager; ours records when it is entered
and left.  From CPython 3.15 on, an import takes the lock without the context manager, which only reloading uses, so the
lock is replaced, too.  So none of our functions is on the stack while a module is loaded, tracebacks and warnings look
the same, and finders, loaders and `sys.meta_path` stay as they are.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial, update_wrapper
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, ClassVar

from fxtio.tracer import plain
from fxtio.tracer.backend import recorder
from fxtio.tracer.sources.hooks import Patch, PatchingSource, Replacements, call_unnoticed

_bootstrap: Any = sys.modules["importlib._bootstrap"]
_TAKES_LOCKS = "_get_module_lock" in _bootstrap._find_and_load.__code__.co_names


class Import:
    """The span of one import, from before it waits for the lock of the module until it releases the lock."""

    def __init__(self, patch: Patch, name: str) -> None:
        self._patch, self._name = patch, name
        self._site = recorder.Site("imports", name)
        self._has_begun = recorder.begin(self._site) if patch.is_on else False

    def fail(self, kind: type[BaseException]) -> None:
        """Record the end of an import that raises an exception of this class."""
        self._end("exception", kind.__name__)

    def finish(self) -> None:
        """Record the end of an import that succeeds."""
        self._end("origin", _origin(sys.modules.get(self._name)))

    def _end(self, key: str, value: str) -> None:
        if self._has_begun and self._patch.is_on:
            recorder.end(self._site, key, value)


class Imports(PatchingSource):
    """Replaces the context manager of the import system, and its locks where imports take them directly.

    Attributes:
        observer: returns what follows an import from its begin to its end, as an `Import` does.
    """

    observer: Callable[[Patch, str], Import] = Import

    def replacements(self) -> Replacements:
        """Return the context manager, and the function that gives locks."""
        manager = partial(_recording_manager, self.observer)
        locks = [(_bootstrap, "_get_module_lock", partial(_with_recording_locks, self.observer))]
        return [(_bootstrap, "_ModuleLockManager", manager), *(locks if _TAKES_LOCKS else [])]


class Awaiting(Imports, ABC):
    """The base of sources that begin when a module is ready: at once, or at the end of its import.

    Attributes:
        module: its name.
    """

    module: ClassVar[str]

    @abstractmethod
    def begin(self) -> None:
        """Do what can be done now that the module is ready; may be called several times."""

    def start(self) -> None:
        """Begin to record."""
        self.observer = partial(_Awaited, self)
        super().start()
        module = sys.modules.get(self.module)
        if plain.is_a(module, ModuleType) and not getattr(vars(module).get("__spec__"), "_initializing", False):
            self.begin()


class _Awaited(Import):
    """An import that may be the one for which a source waits."""

    def __init__(self, source: Awaiting, patch: Patch, name: str) -> None:
        self._source, self._patch, self._name = source, patch, name

    def fail(self, kind: type[BaseException]) -> None:
        """Do nothing."""

    def finish(self) -> None:
        """Let the source begin."""
        if self._name == self._source.module and self._patch.is_on:
            call_unnoticed(self._source.begin)


def _is_recorded_by_lock(name: str) -> bool:
    """Return whether the lock of a module records while it is held, since the module will be loaded."""
    return _TAKES_LOCKS and name not in sys.modules


def _recording_manager(observer: Callable[[Patch, str], Import], patch: Patch, manager: Any) -> type:
    class RecordingManager:
        """Holds the lock of a module.  The time that it waits for the lock is a part of the import."""

        def __init__(self, name: str) -> None:
            self._name, self._manager = name, manager(name)

        def __enter__(self) -> None:
            self._import = None if _is_recorded_by_lock(self._name) else observer(patch, self._name)
            try:
                self._manager.__enter__()
            except BaseException as error:  # a deadlock of two threads
                if self._import is not None:
                    self._import.fail(type(error))
                raise

        def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
            self._manager.__exit__(kind, *error)
            if self._import is None:
                return
            if kind is None:
                self._import.finish()
            else:
                self._import.fail(kind)

    return RecordingManager


def _with_recording_locks(observer: Callable[[Patch, str], Import], patch: Patch, get_lock: Any) -> Any:
    def get_module_lock(name: str) -> Any:
        lock = get_lock(name)
        is_recorded = patch.is_on and _is_recorded_by_lock(name)
        return _RecordingLock(partial(observer, patch, name), lock) if is_recorded else lock

    return update_wrapper(get_module_lock, get_lock)


class _RecordingLock:
    """The lock of a module that will be loaded.  It is released once, also when an exception leaves the import."""

    def __init__(self, begin: Callable[[], Import], lock: Any) -> None:
        self._begin, self._lock = begin, lock

    def acquire(self) -> Any:
        """Wait for the lock, as a part of the import."""
        self._handled = sys.exception()  # the program may import while it handles one
        self._import = self._begin()
        try:
            return self._lock.acquire()
        except BaseException as error:  # a deadlock of two threads
            self._import.fail(type(error))
            raise

    def release(self) -> None:
        """Release the lock, and record the end of the import."""
        error = sys.exception()
        self._lock.release()
        if error is None or error is self._handled:
            self._import.finish()
        else:
            self._import.fail(type(error))


def _origin(module: object) -> str:
    """Return where a module comes from, without a call of its own code: a lazy module would load itself."""
    if issubclass(type(module), ModuleType):
        spec = object.__getattribute__(module, "__dict__").get("__spec__")
        if type(spec) is ModuleSpec and type(spec.origin) is str:
            return spec.origin
    return ""
