"""Facts about modules, classes and files that are had without running code of the program.

The recorder asks for them in the middle of the program, which may have patched what one would use otherwise
(`mock.patch("os.getcwd")`), and may have classes whose attributes are computed, or are not there yet.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import Any

_getcwd = os.getcwd  # as it is now: programs patch it
_SEPARATOR = os.sep
_FROZEN = "<frozen "
_OF_TYPE: Any = type.__dict__
_OF_MODULE: Any = ModuleType.__dict__
_mro_of = _OF_TYPE["__mro__"].__get__
_module_name_of = _OF_TYPE["__module__"].__get__
_dict_of_class = _OF_TYPE["__dict__"].__get__
_dict_of_module = _OF_MODULE["__dict__"].__get__
class_name = _OF_TYPE["__name__"].__get__
qualified_name = _OF_TYPE["__qualname__"].__get__


def is_a(value: object, kind: type) -> bool:
    """Return whether the class of a value is `kind` or derived from it, whatever the value says about that."""
    return issubclass(type(value), kind)


def text(value: object) -> str:
    """Return a string as a plain one, an empty text for anything else."""
    return str.__str__(value) if is_a(value, str) else ""


def module_name(module: ModuleType) -> str:
    """Return the name of a module, an empty text if it has none."""
    return text(_dict_of_module(module).get("__name__"))


def module_of_class(cls: type) -> str:
    """Return the name of the module of a class, an empty text if it has none."""
    try:
        return text(_module_name_of(cls))
    except AttributeError:
        return ""


def owner_of(name: str, cls: type) -> type:
    """Return the class that defines a method of a class; the class itself if none does, or while it is created."""
    classes: tuple[type, ...] = _mro_of(cls) or (cls,)
    return next((base for base in classes if name in _dict_of_class(base)), cls)


def absolute(path: str) -> str:
    """Return a path as an absolute one without `.` and `..`; as it is if there is no working directory."""
    if not path.startswith(_SEPARATOR):
        try:
            path = f"{_getcwd()}{_SEPARATOR}{path}"
        except OSError:
            return path
    parts: list[str] = []
    for part in path.split(_SEPARATOR):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return _SEPARATOR + _SEPARATOR.join(parts)


def file_of_code(name: str) -> str:
    """Return the absolute path of the file that code comes from, by the name that its object has.

    That is `<frozen os>` for a module of the standard library that is a part of the interpreter.  Code without a file,
    such as `<string>`, keeps its name.
    """
    if not name.startswith("<"):
        return absolute(name)
    module = frozen_module(name)
    folder = vars(sys).get("_stdlib_dir")
    return f"{folder}{_SEPARATOR}{module.replace('.', _SEPARATOR)}.py" if module and type(folder) is str else name


def frozen_module(name: str) -> str:
    """Return the module whose code has the file name `<frozen MODULE>`, an empty text for any other file name."""
    return name[len(_FROZEN) : -1] if name.startswith(_FROZEN) and name.endswith(">") else ""


def import_folders() -> list[str]:
    """Return the folders of `sys.path` as absolute paths."""
    path: Any = vars(sys).get("path")
    return [absolute(entry) for entry in path if type(entry) is str] if type(path) is list else []


def thread_facts(thread: object) -> tuple[int, str]:
    """Return the id that the system gave to a thread that is a `threading.Thread` (0 for none), and its name."""
    facts = object.__getattribute__(thread, "__dict__")
    native_id = facts.get("_native_id")
    return (native_id if type(native_id) is int else 0), text(facts.get("_name"))
