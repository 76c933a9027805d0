"""Records about the profiler, processes, threads, modules and classes, each declared once; see `records`."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar

from fxtio.coreprofiler.layout import Hexadecimal, Rest, Time, Word
from fxtio.coreprofiler.parts import Hr, Id, Iid, Ms, Name, Pid, Ptr, Record, Token, Us


class ProfilerStart(Record, frozen=True, gc=False):
    """When profiling began.

    Attributes:
        time: local time; with its distance from UTC in newer dialects.
    """

    tag: ClassVar[str] = "prf stm"
    table: ClassVar[str] = "starts"
    spec: ClassVar[str] = "Profiler Start Time: `prf stm`"
    time: Annotated[datetime, Time("systime")]


class ProfilerConfig(Record, frozen=True, gc=False):
    """A parameter of the profiler.

    Attributes:
        name: its name.
        value: its value, as it stands.
    """

    tag: ClassVar[str] = "prf cfg"
    table: ClassVar[str] = "config"
    spec: ClassVar[str] = "Profiler Configuration: `prf cfg`"
    name: Annotated[str, Word("str")]
    value: Annotated[str, Rest("str")]


class ProfilerPaused(Record, frozen=True, gc=False):
    """Profiling is paused."""

    tag: ClassVar[str] = "prf tps"
    table: ClassVar[str] = "pauses"
    spec: ClassVar[str] = "Profiler Pause/Resume: `prf tps`/`prf tps`"
    timestamp: Ms


class ProfilerResumed(Record, frozen=True, gc=False):
    """Profiling goes on."""

    tag: ClassVar[str] = "prf trs"
    table: ClassVar[str] = "resumptions"
    spec: ClassVar[str] = "Profiler Pause/Resume: `prf tps`/`prf tps`"
    timestamp: Ms


class ProcessCpu(Record, frozen=True, gc=False):
    """CPU time of the process since the last such record.

    Attributes:
        timestamp: when.
        usage: microseconds; values from 2**63 on come from an underflow and stand for negative ones.
    """

    tag: ClassVar[str] = "prc cpu"
    table: ClassVar[str] = "process_cpu"
    spec: ClassVar[str] = "Process CPU Usage: `prc cpu`"
    timestamp: Ms
    usage: Us


class ThreadCreated(Record, frozen=True, gc=False):
    """A managed thread was created."""

    tag: ClassVar[str] = "thr crt"
    table: ClassVar[str] = "threads"
    spec: ClassVar[str] = "Thread Created: `thr crt`"
    thread_id: Id
    thread: Iid


class ThreadAssigned(Record, frozen=True, gc=False):
    """A managed thread runs on a thread of the operating system; the newest assignment counts."""

    tag: ClassVar[str] = "thr aos"
    table: ClassVar[str] = "thread_assignments"
    spec: ClassVar[str] = "Thread Assigned To OS Thread: `thr aos`"
    thread: Iid
    os_thread: Pid


class ThreadDestroyed(Record, frozen=True, gc=False):
    """A managed thread was destroyed.  The specification prints it as `thr crt`; the style says which it is.

    Attributes:
        thread: its Internal ID.
        extra: another number, which a reader of 2019 wants here.
    """

    tag: ClassVar[str] = "thr dst"
    table: ClassVar[str] = "threads_destroyed"
    spec: ClassVar[str] = "Thread Destroyed: `thr crt`"
    thread: Iid
    extra: Annotated[int | None, Hexadecimal("id", form="pointer", optional=True)] = None


class ThreadCpu(Record, frozen=True, gc=False):
    """CPU time of a thread since the last such record.

    Attributes:
        thread: the thread.
        timestamp: when.
        usage: microseconds, see `ProcessCpu`.
    """

    tag: ClassVar[str] = "thr cpu"
    table: ClassVar[str] = "thread_cpu"
    spec: ClassVar[str] = "Thread CPU Usage: `thr cpu`"
    thread: Iid
    timestamp: Ms
    usage: Us


class ModuleLoaded(Record, frozen=True, gc=False):
    """A module was loaded."""

    tag: ClassVar[str] = "mod ldf"
    table: ClassVar[str] = "modules"
    spec: ClassVar[str] = "Module Load Finished: `mod ldf`"
    module_id: Id
    base_address: Ptr
    assembly_id: Id
    status: Hr
    name: Name


class ModuleAttached(Record, frozen=True, gc=False):
    """A module was attached to its assembly."""

    tag: ClassVar[str] = "mod ata"
    table: ClassVar[str] = "module_attachments"
    spec: ClassVar[str] = "Module Attached To Assembly: `mod ata`"
    module_id: Id
    assembly_id: Id


class AssemblyLoaded(Record, frozen=True, gc=False):
    """An assembly was loaded."""

    tag: ClassVar[str] = "asm ldf"
    table: ClassVar[str] = "assemblies"
    spec: ClassVar[str] = "Assembly Load Finished: `asm ldf`"
    assembly_id: Id
    app_domain_id: Id
    module_id: Id
    status: Hr
    name: Name


class AppDomainCreated(Record, frozen=True, gc=False):
    """An application domain was created."""

    tag: ClassVar[str] = "apd crf"
    table: ClassVar[str] = "app_domains"
    spec: ClassVar[str] = "Application Domain Creation Finished: `apd crf`"
    app_domain_id: Id
    process_id: Id
    status: Hr
    name: Name


class ClassLoaded(Record, frozen=True, gc=False):
    """A class was loaded."""

    tag: ClassVar[str] = "cls ldf"
    table: ClassVar[str] = "classes"
    spec: ClassVar[str] = "Class Load Finished: `cls ldf`"
    class_id: Id
    class_iid: Iid
    module_id: Id
    token: Token
    status: Hr


class ClassLoadedOld(Record, frozen=True, gc=False):
    """A class was loaded, as the oldest dialect tells it: without an Internal ID."""

    tag: ClassVar[str] = "cls ldf"
    table: ClassVar[str] = "classes_old"
    class_id: Id
    module_id: Id
    token: Token
    status: Hr


class ClassName(Record, frozen=True, gc=False):
    """The name of a class."""

    tag: ClassVar[str] = "cls nam"
    table: ClassVar[str] = "class_names"
    spec: ClassVar[str] = "Class Name: `cls nam`"
    class_iid: Iid
    name: Name
