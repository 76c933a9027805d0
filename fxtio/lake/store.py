"""Where the files of a lake are: in a folder, or in the bucket of an object store.

A file is written once, as a whole, and never changed.  Several writers of one name do no harm: the first one counts.
In a folder it is on the disk before it has its name, so a loss of power leaves no part of it.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from fxtio.errors import FxtioError
from fxtio.shared_folders import open_regular

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

UNFINISHED = "_unfinished"
"""The folder of files that are not complete; engines that read a lake leave out names that begin with `_`."""

_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
"""What file systems without hard links say."""


_SECOND = 1_000_000_000
"""In nanoseconds."""


class StoreError(FxtioError):
    """An error: a lake cannot be read or written there."""


class Entry(NamedTuple):
    """A file of a store.

    Attributes:
        name: its name, relative to the lake.
        size: its size in bytes.
        changed: when it was written, in nanoseconds since the Unix epoch.  Of an object store the seconds are the time,
            and what is below tells files that were written in one second apart.
    """

    name: str
    size: int
    changed: int


class Store(ABC):
    """The files of a lake, by names such as `traces/ID.parquet`.

    Attributes:
        url: the folder or URL.
    """

    url: str

    @abstractmethod
    def put(self, name: str, path: Path) -> bool:
        """Store a file, whole; return False if there is one of this name, which stays.

        Raises:
            OSError, StoreError: it cannot be written.
        """

    def put_all(self, files: Mapping[str, Path]) -> set[str]:
        """Store some files, and return the names of those that were there, which stay.

        Args:
            files: the paths of the files by the names that they get.

        Raises:
            OSError, StoreError: one cannot be written.
        """
        return {name for name, path in files.items() if not self.put(name, path)}

    @abstractmethod
    def read(self, name: str) -> bytes | None:
        """Return the content of a file, None if there is none.

        Raises:
            OSError, StoreError: it cannot be read.
        """

    @abstractmethod
    def replace(self, name: str, path: Path) -> None:
        """Store a file instead of the one of this name, if there is one.

        Raises:
            OSError, StoreError: it cannot be written.
        """

    @abstractmethod
    def entry(self, name: str) -> Entry | None:
        """Return what is known of a file, None if there is none.

        Raises:
            OSError, StoreError: it cannot be read.
        """

    @abstractmethod
    def entries(self, folder: str) -> Iterator[Entry]:
        """Yield all files in a folder and the folders in it, in no order, without inner folders that are hidden."""

    def names(self, folder: str) -> Iterator[str]:
        """Yield the names of all files in a folder and the folders in it, in no order."""
        yield from (entry.name for entry in self.entries(folder))

    @abstractmethod
    def delete(self, name: str) -> None:
        """Delete a file, if it is there."""

    def clear(self, before: int) -> None:  # noqa: B027  # where files are not made in the store, none are left
        """Remove files that a writer left unfinished before a time in nanoseconds since the Unix epoch."""

    @contextmanager
    def workspace(self) -> Iterator[Path]:
        """Make a folder for files that are to be stored."""
        with tempfile.TemporaryDirectory(prefix="fxtio-") as folder:
            yield Path(folder)

    @abstractmethod
    def make_view(
        self, connection: DuckDBPyConnection, table: str, names: Sequence[str], columns: Sequence[str] = ("*",)
    ) -> None:
        """Let a database see files, which are Parquet, as a table; the names of their folders have `day` and `program`.

        It replaces the table that the database had by this name, if any.

        Args:
            connection: the database.
            table: the name of the table.
            names: the names of the files, at least one.
            columns: the columns that the table has; later versions may have written further ones to some files.
        """


def open_store(url: str, *, create: bool = False) -> Store:
    """Return the store of a folder, which is made if that is asked for, or of a URL such as `s3://bucket/lake`.

    Raises:
        StoreError: there is a file of this name.
        OSError: the folder cannot be made.
    """
    if "://" in url:
        return ObjectStore(url)
    folder = Path(url)
    if folder.exists() and not folder.is_dir():
        raise StoreError(f"{url} is a file; a lake is a folder, or the URL of an object store")
    if create:
        folder.mkdir(parents=True, exist_ok=True)
    return FolderStore(folder)


class FolderStore(Store):
    """A folder.  No link in it is followed: where several users write, one could lead files elsewhere."""

    def __init__(self, folder: Path) -> None:
        self.url = str(folder)
        self._folder = folder

    def put(self, name: str, path: Path) -> bool:
        """Store a file by giving it a second name, so it must be on the same disk, as in `workspace`."""
        return not self.put_all({name: path})

    def put_all(self, files: Mapping[str, Path]) -> set[str]:
        """Store some files, see `put`, and return the names of those that were there."""
        _sync(files.values())
        known: set[str] = set()
        with ExitStack() as stack:
            folders = {name: stack.enter_context(self._open(PurePosixPath(name).parent, make=True)) for name in files}
            for name, fd in folders.items():
                try:
                    _name(files[name], PurePosixPath(name).name, fd)
                except FileExistsError:
                    known.add(name)
            for fd in folders.values():
                os.fsync(fd)
        return known

    def replace(self, name: str, path: Path) -> None:
        """Store a file instead of the one of this name; it must be on the same disk."""
        _sync([path])
        place = PurePosixPath(name)
        with self._open(place.parent, make=True) as fd:
            os.rename(path, place.name, dst_dir_fd=fd)
            os.fsync(fd)

    @contextmanager
    def _open(self, folder: PurePosixPath, *, make: bool = False) -> Iterator[int]:
        """Open a folder of the lake."""
        fd = os.open(self._folder, _FOLDER & ~getattr(os, "O_NOFOLLOW", 0))  # the lake itself may be a link
        try:
            for part in folder.parts:
                try:
                    inner = os.open(part, _FOLDER, dir_fd=fd)
                except FileNotFoundError:
                    if not make:
                        raise
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=fd)
                        os.fsync(fd)
                    inner = os.open(part, _FOLDER, dir_fd=fd)
                os.close(fd)
                fd = inner
            yield fd
        finally:
            os.close(fd)

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, None if there is none."""
        path = PurePosixPath(name)
        try:
            with self._open(path.parent) as fd, open(open_regular(path.name, dir_fd=fd), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def entry(self, name: str) -> Entry | None:
        """Return what is known of a file, None if there is none."""
        path = PurePosixPath(name)
        try:
            with self._open(path.parent) as fd:
                status = os.stat(path.name, dir_fd=fd, follow_symlinks=False)
        except FileNotFoundError:
            return None
        return Entry(name, status.st_size, status.st_mtime_ns)

    def entries(self, folder: str) -> Iterator[Entry]:
        """Yield all files in a folder and the folders in it."""
        folders = [folder]
        while folders:
            place = folders.pop()
            try:
                found = os.scandir(self._folder / place)
            except OSError as error:
                if place == folder and not isinstance(error, FileNotFoundError | NotADirectoryError):
                    raise  # or else all its traces would be taken for removed ones
                continue
            with found:
                for each in found:
                    name = f"{place}/{each.name}" if place else each.name
                    if each.is_dir(follow_symlinks=False):
                        folders += [] if _is_hidden(each.name) else [name]
                        continue
                    with suppress(FileNotFoundError):  # it was removed meanwhile
                        status = each.stat(follow_symlinks=False)
                        yield Entry(name, status.st_size, status.st_mtime_ns)

    def delete(self, name: str) -> None:
        """Delete a file, if it is there."""
        path = PurePosixPath(name)
        with suppress(FileNotFoundError), self._open(path.parent) as fd:
            os.unlink(path.name, dir_fd=fd)

    def clear(self, before: int) -> None:
        """Remove files that a writer left unfinished before a time in nanoseconds since the Unix epoch."""
        with suppress(FileNotFoundError), self._open(PurePosixPath(UNFINISHED)):
            for folder in (self._folder / UNFINISHED).iterdir():
                if folder.is_symlink():
                    continue
                if max(each.lstat().st_mtime_ns for each in (folder, *folder.rglob("*"))) < before:
                    shutil.rmtree(folder, ignore_errors=True)

    def make_view(
        self, connection: DuckDBPyConnection, table: str, names: Sequence[str], columns: Sequence[str] = ("*",)
    ) -> None:
        """Let a database see files as a table, which it reads itself."""
        files = [_without_patterns(f"{self.url}/{name}") for name in names]
        has_folders = "day=" in names[0]  # otherwise the database refuses their types
        kinds = ", hive_partitioning = true, hive_types = {day: date, program: varchar}" if has_folders else ""
        source = f"read_parquet(getvariable('files_of_{table}'){kinds})"  # each query would parse a list anew
        connection.execute(f"set variable files_of_{table} = ?", [files])
        connection.execute(f"create or replace view {table} as select {', '.join(columns)} from {source}")

    @contextmanager
    def workspace(self) -> Iterator[Path]:
        """Make a folder for files that are to be stored."""
        with self._open(PurePosixPath(UNFINISHED), make=True):
            folder = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=self._folder / UNFINISHED))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _sync(paths: Iterable[Path]) -> None:
    """Wait until files are on the disk.

    All are written before the first wait, which is then the longest: a file system with a journal writes it once, not
    for each file.
    """
    with ExitStack() as stack:
        files = [stack.enter_context(open(path, "rb")).fileno() for path in paths]
        for fd in files if hasattr(os, "posix_fadvise") else ():
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        for fd in files:
            os.fsync(fd)


def _name(path: Path, name: str, folder: int) -> None:
    """Give a file a second name in a folder, or where there are no links another one.

    Raises:
        FileExistsError: another file has it.
    """
    try:
        os.link(path, name, dst_dir_fd=folder)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        os.rename(path, name, dst_dir_fd=folder)  # what another writer has put there meanwhile is the same


class ObjectStore(Store):
    """A bucket of an object store, or a part of it, by `obstore`; keys and endpoints come from the environment."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._store: Any = None

    @property
    def _opened(self) -> Any:
        if self._store is None:
            try:
                from obstore.exceptions import BaseError
                from obstore.store import from_url
            except ImportError:
                raise StoreError(f"{self.url} needs obstore; install fxtio[lake]") from None
            try:
                self._store = from_url(self.url)
            except (BaseError, ValueError) as error:
                raise StoreError(f"{self.url}: {_first_line(error)}") from None
        return self._store

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn errors of the store into those of a lake."""
        store = self._opened
        from obstore.exceptions import BaseError

        assert store is not None
        try:
            yield
        except (BaseError, OSError) as error:
            if isinstance(error, FileNotFoundError | FileExistsError):
                raise
            raise StoreError(f"{self.url}: {_first_line(error)}") from None

    def put(self, name: str, path: Path) -> bool:
        """Store a file by one conditional request (`If-None-Match: *`)."""
        from obstore.exceptions import AlreadyExistsError

        with self._errors():
            try:
                self._opened.put(name, path, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return False
        return True

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, None if there is none."""
        with self._errors():
            try:
                return bytes(self._opened.get(name).bytes())
            except FileNotFoundError:
                return None

    def replace(self, name: str, path: Path) -> None:
        """Store a file instead of the one of this name, if there is one."""
        with self._errors():
            self._opened.put(name, path, use_multipart=False)

    def entry(self, name: str) -> Entry | None:
        """Return what is known of a file, None if there is none."""
        with self._errors():
            try:
                return _entry_of(self._opened.head(name))
            except FileNotFoundError:
                return None

    def entries(self, folder: str) -> Iterator[Entry]:
        """Yield all files in a folder and the folders in it."""
        depth = len(PurePosixPath(folder).parts)
        with self._errors():
            for batch in self._opened.list(prefix=folder):
                for entry in map(_entry_of, batch):
                    if not any(map(_is_hidden, PurePosixPath(entry.name).parts[depth:-1])):
                        yield entry

    def delete(self, name: str) -> None:
        """Delete a file, if it is there."""
        with self._errors(), suppress(FileNotFoundError):
            self._opened.delete(name)

    def make_view(
        self, connection: DuckDBPyConnection, table: str, names: Sequence[str], columns: Sequence[str] = ("*",)
    ) -> None:
        """Let a database see files as a table, by pyarrow: DuckDB would need an extension of its own for each store."""
        import pyarrow as pa
        from pyarrow import dataset, fs

        folders = dataset.partitioning(pa.schema({"day": pa.date32(), "program": pa.string()}), flavor="hive")
        try:
            system, place = fs.FileSystem.from_uri(self.url)
            files = [f"{place}/{name}" for name in names]
            source = dataset.dataset(files, filesystem=system, format="parquet", partitioning=folders)
        except (OSError, pa.ArrowException) as error:
            raise StoreError(f"{self.url}: {_first_line(error)}") from None
        connection.register(f"files_of_{table}", source)
        connection.execute(f"create or replace view {table} as select {', '.join(columns)} from files_of_{table}")


def _entry_of(facts: Mapping[str, Any]) -> Entry:
    """Return what an object store knows of a file."""
    version = crc32((facts["e_tag"] or "").strip('"').encode()) % _SECOND  # some stores quote it in one answer only
    return Entry(facts["path"], facts["size"], int(facts["last_modified"].timestamp()) * _SECOND + version)


def _is_hidden(folder: str) -> bool:
    """Return whether a folder has no part of the tables, as with engines: the logs of Delta Lake are in such ones."""
    return folder.startswith(("_", "."))


def _first_line(error: Exception) -> str:
    """Return what an error says; further lines have only what developers of the store need."""
    return str(error).partition("\n")[0]


def _without_patterns(path: str) -> str:
    """Return a path as a pattern that only this path matches."""
    return re.sub(r"[*?\[]", r"[\g<0>]", path)
