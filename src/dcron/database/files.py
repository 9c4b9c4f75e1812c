"""SQLite files: who can change them, how they are journaled, and file systems with unreliable locks."""

import os
import re
import sqlite3
import time
from pathlib import Path

from dcron.config import trust
from dcron.errors import DatabaseError, Refused

NETWORK_FILE_SYSTEMS = frozenset(
    [
        *("9p", "afs", "beegfs", "ceph", "cifs", "fuse.glusterfs", "fuse.s3fs", "fuse.sshfs", "glusterfs"),
        *("gpfs", "lustre", "nfs", "nfs4", "smb3", "smbfs"),
    ]
)
# In versions before these, write-ahead logging with many processes can damage the file (sqlite.org/wal.html).
_WAL_FIXED = (3, 51, 3)
_WAL_BACKPORTS = ((3, 44, 6), (3, 50, 7))


def wal_is_safe(version: tuple[int, ...] = sqlite3.sqlite_version_info) -> bool:
    """Return whether this SQLite library has the fix for the corruption bug of the write-ahead log."""
    backported = any(version[:2] == fixed[:2] and version >= fixed for fixed in _WAL_BACKPORTS)
    return backported or version >= _WAL_FIXED


_BESIDE = ("-wal", "-shm", "-journal")
"""Suffixes of the files that SQLite keeps beside a file and replays into it. Others must not create them."""


def problem_with(path: Path) -> str | None:
    """Return how other accounts can change the database, and what prevents it; None if they cannot."""
    real = Path(os.path.realpath(path))
    beside = (real.with_name(real.name + suffix) for suffix in _BESIDE)
    return next(filter(None, map(trust.problem_with, (path, *beside))), None)


def require_trust(path: Path) -> None:
    """Raise Refused if other accounts can change the database: its content runs with our rights."""
    if problem := problem_with(path):
        raise Refused(trust.refusal(f"the database {path}", problem))


def prepare(path: Path, *, forced: bool) -> bool:
    """Create the file, readable for its owner only, if it does not exist; return whether it did not.

    Raises DatabaseError.
    """
    if not forced and (kind := file_system(path)) in NETWORK_FILE_SYSTEMS:
        raise DatabaseError(
            f"{path} is on a network file system ({kind}), where SQLite's locks cannot be trusted;"
            " use Postgres, or add ?force=true to the URL"
        )
    if path.exists():
        return False
    if not path.parent.is_dir():  # do not create it: it may be under a mount point that is not mounted yet
        raise DatabaseError(f"cannot create the database {path}: there is no directory {path.parent}")
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise DatabaseError(f"cannot create the database {path}: {error.strerror}") from None
    return True


def identity(path: Path) -> tuple[int, int]:
    """Return what identifies the file among others that are later put at its path. Raises DatabaseError."""
    try:
        found = path.stat()
    except OSError as error:
        gone = isinstance(error, FileNotFoundError | NotADirectoryError)
        why = "the file is no longer there" if gone else error.strerror
        raise DatabaseError(f"cannot reach the database {path}: {why}") from error
    return found.st_dev, found.st_ino


_INCREMENTAL = 2
"""The value of `PRAGMA auto_vacuum` with which a file can shrink step by step."""
_MOST_FREE = 64 * 1024 * 1024
"""Bytes of free pages that a file keeps for new rows, or a quarter of the file if that is more."""


def has_many_free_pages(connection: sqlite3.Connection) -> bool:
    """Return whether the file can shrink, and has more free pages than new rows need soon."""
    if _pragma(connection, "auto_vacuum") != _INCREMENTAL:
        return False
    free, total = _pragma(connection, "freelist_count"), _pragma(connection, "page_count")
    return free * 4 > total and free * _pragma(connection, "page_size") > _MOST_FREE


def give_back_pages(connection: sqlite3.Connection, most: int) -> int:
    """Remove up to `most` free pages from the file, outside a transaction; return how many."""
    before = _pragma(connection, "page_count")
    try:
        # Not execute(): it fetches one row at a time, and so frees a single page.
        connection.executescript(f"PRAGMA incremental_vacuum({most:d})")
    except sqlite3.OperationalError:  # others have locked the file, or the disk is full
        return 0
    return before - _pragma(connection, "page_count")


_SAMPLE = 50 * 1024 * 1024
"""Bytes whose reading is timed."""


def estimate_compaction(path: Path) -> float:
    """Return about how many seconds it takes to rewrite the file, by the time to read a part of it.

    Call it outside transactions: closing the file ends this process's locks on it.
    """
    began, read = time.monotonic(), 0
    with path.open("rb") as file:
        while read < _SAMPLE and (data := file.read(1024 * 1024)):
            read += len(data)
    seconds_a_byte = max((time.monotonic() - began) / max(read, 1), 1 / 200e6)
    return 4 * seconds_a_byte * path.stat().st_size  # it reads, sorts and writes, and writes once more


def compact(connection: sqlite3.Connection) -> None:
    """Rewrite the file without free pages. From then on it can shrink step by step. Raises DatabaseError."""
    try:
        connection.execute(f"PRAGMA auto_vacuum = {_INCREMENTAL}")
        connection.execute("VACUUM")
    except sqlite3.OperationalError as error:
        raise DatabaseError(f"the database cannot be compacted: {error}") from error


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def set_up(connection: sqlite3.Connection, *, is_new: bool = False) -> None:
    """Configure a connection: we begin transactions ourselves, and a commit survives a power cut.

    A file that this program has made can shrink (`is_new`). This writes to the file, so an empty file that
    another program has made stays as it is: it may be a copy that is not complete.
    """
    connection.isolation_level = None
    if is_new and _pragma(connection, "page_count") == 0:  # later this setting has no effect
        connection.execute(f"PRAGMA auto_vacuum = {_INCREMENTAL}")
    # Text that is not UTF-8 must not fail the rows around it. Validation refuses the result.
    connection.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
    connection.execute("PRAGMA synchronous = FULL")
    # Some libraries overwrite what is deleted: they read, journal and write each page of an old output.
    connection.execute("PRAGMA secure_delete = FAST")
    _set_journal(connection, "wal" if wal_is_safe() else "truncate")


def _set_journal(connection: sqlite3.Connection, wanted: str) -> None:
    """Use this journal mode if the file can change to it now.

    Another tool may have set the other one, and a file leaves the write-ahead log only for a connection that
    is alone with it. dcron works with either, so it does not wait.
    """
    found = str(connection.execute("PRAGMA journal_mode").fetchone()[0])
    if found == wanted:
        return
    if "wal" not in (found, wanted):
        connection.execute(f"PRAGMA journal_mode = {wanted}")
        return
    patience = _pragma(connection, "busy_timeout")
    try:
        connection.execute("PRAGMA busy_timeout = 0")
        connection.execute(f"PRAGMA journal_mode = {wanted}")
    except sqlite3.OperationalError:  # others have the file open
        pass
    finally:
        connection.execute(f"PRAGMA busy_timeout = {patience}")


def file_system(path: Path) -> str:
    """Return the type of the file system that `path` is, or will be, on; empty if unknown."""
    try:
        mounts = Path("/proc/self/mounts").read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    here = path.resolve()  # the file may be a link
    while not here.exists():
        here = here.parent
    best, kind = "", ""
    for line in mounts:
        _, mount, mount_kind, *_ = line.split(" ")
        mount = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), mount)  # a space is \040
        if here.is_relative_to(mount) and len(mount) >= len(best):
            best, kind = mount, mount_kind
    return kind
