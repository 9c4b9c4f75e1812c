"""SQLite files: who can change them, their journal, and file systems that cannot keep their promises."""

import os
import re
import sqlite3
from pathlib import Path

from dcron import trust
from dcron.errors import DatabaseError, Refused

NETWORK_FILE_SYSTEMS = frozenset(
    [
        *("9p", "afs", "beegfs", "ceph", "cifs", "fuse.glusterfs", "fuse.s3fs", "fuse.sshfs", "glusterfs"),
        *("gpfs", "lustre", "nfs", "nfs4", "smb3", "smbfs"),
    ]
)
# Write-ahead logging with many processes can damage the file before these versions (sqlite.org/wal.html).
_WAL_FIXED = (3, 51, 3)
_WAL_BACKPORTS = ((3, 44, 6), (3, 50, 7))


def wal_is_safe(version: tuple[int, ...] = sqlite3.sqlite_version_info) -> bool:
    """Whether this SQLite library has the fix for the write-ahead log's corruption bug."""
    backported = any(version[:2] == fixed[:2] and version >= fixed for fixed in _WAL_BACKPORTS)
    return backported or version >= _WAL_FIXED


_BESIDE = ("-wal", "-shm", "-journal")
"""What SQLite keeps beside a file and plays back into it: others must not be able to make it."""


def problem_with(path: Path) -> str | None:
    """Return how other accounts can change the database, and what to type against it; None if they cannot."""
    real = Path(os.path.realpath(path))
    beside = (real.with_name(real.name + suffix) for suffix in _BESIDE)
    return next(filter(None, map(trust.problem_with, (path, *beside))), None)


def require_trust(path: Path) -> None:
    """Raise Refused for a database that other accounts can change: what it says runs with our rights."""
    if problem := problem_with(path):
        raise Refused(trust.refusal(f"the database {path}", problem))


def prepare(path: Path, *, forced: bool) -> None:
    """Make the file, readable for its owner alone, where there is none. Raises DatabaseError."""
    if not forced and (kind := file_system(path)) in NETWORK_FILE_SYSTEMS:
        raise DatabaseError(
            f"{path} is on a network file system ({kind}), where SQLite's locks cannot be trusted;"
            " use Postgres, or add ?force=true to the URL"
        )
    if path.exists():
        return
    if not path.parent.is_dir():  # made here, it might lie beneath a mount point that is still empty
        raise DatabaseError(f"cannot create the database {path}: there is no directory {path.parent}")
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise DatabaseError(f"cannot create the database {path}: {error.strerror}") from None


def identity(path: Path) -> tuple[int, int]:
    """What tells the file from any other that may stand at its path later. Raises DatabaseError."""
    try:
        found = path.stat()
    except OSError as error:
        gone = isinstance(error, FileNotFoundError | NotADirectoryError)
        why = "the file is no longer there" if gone else error.strerror
        raise DatabaseError(f"cannot reach the database {path}: {why}") from error
    return found.st_dev, found.st_ino


def set_up(connection: sqlite3.Connection) -> None:
    """Settings of one connection: we begin transactions ourselves, and a commit survives a power cut."""
    connection.isolation_level = None
    # What is not UTF-8 must not fail the rows around it; validation refuses what comes of it.
    connection.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = FULL")
    wanted = "wal" if wal_is_safe() else "truncate"
    if connection.execute("PRAGMA journal_mode").fetchone()[0] != wanted:
        connection.execute(f"PRAGMA journal_mode = {wanted}")


def file_system(path: Path) -> str:
    """The kind of file system that `path` is, or will be, on; empty where the machine does not tell."""
    try:
        mounts = Path("/proc/self/mounts").read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    here = path.resolve()  # the file itself may be a link
    while not here.exists():
        here = here.parent
    best, kind = "", ""
    for line in mounts:
        _, mount, mount_kind, *_ = line.split(" ")
        mount = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), mount)  # a space is \040
        if here.is_relative_to(mount) and len(mount) >= len(best):
            best, kind = mount, mount_kind
    return kind
