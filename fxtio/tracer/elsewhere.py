"""Work that takes modules which the traced program should not import: another process does it, and is waited for."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

from fxtio.tracer import plain
from fxtio.tracer.functions import PACKAGE_FOLDER

_SIGKILL = 9  # everywhere; `signal` takes a while to import
_COMMAND = "import os, sys; sys.path += sys.argv[1].split(os.pathsep); from {} import main; main(*sys.argv[2:])"


def run_elsewhere(module: str, *facts: object) -> None:
    """Call the function `main` of a module in another process, which finds modules where this one does.

    It is not recorded, sees and says nothing on the terminal, and Ctrl-C is not for it.

    Args:
        module: the module.
        facts: the arguments, as texts.

    Raises:
        OSError: no process can be started, or none would be an interpreter: where it is embedded, `sys.executable` may
            be the program itself.
        RuntimeError: it has failed.
    """
    if "python" not in Path(sys.executable or "").name:
        raise OSError(errno.ENOENT, "the program is no interpreter of Python", sys.executable)
    folders = [*plain.import_folders(), str(Path(PACKAGE_FOLDER).parent)]
    command = [sys.executable, "-I", "-c", _COMMAND.format(module), os.pathsep.join(folders), *map(str, facts)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FXTIO")}
    silence = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
    process = os.posix_spawn(sys.executable, command, environment, file_actions=silence, setpgroup=0)
    try:
        status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    except ChildProcessError:  # a signal handler of the program has waited for all processes
        return
    except BaseException:  # the program is interrupted, and has no process that it did not start
        os.kill(process, _SIGKILL)
        os.waitpid(process, 0)
        raise
    if status:
        raise RuntimeError(f"exit status {status}")
