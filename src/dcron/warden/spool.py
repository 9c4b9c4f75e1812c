"""The spool: journals in `<spool>/<node id>/`, locked as long as the agent or its warden lives.

The lock belongs to the open file that both processes share, so the kernel releases it with the last of
them. A directory whose lock is free has no owner; the next agent on the host takes what is left in it.
"""

import fcntl
import os
import re
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self

from dcron.warden.journal import JournalReader, segments

_LOCK = "dcron.lock"
"""The file that makes a directory ours: no other directory is touched."""
_NODE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,150}")
_RUN_ID = re.compile("[0-9]{1,18}")
_ASIDE = "unreadable-"
_ADOPTION = 2.0
"""Seconds after which another agent has certainly finished looking at a directory."""


class SpoolBusyError(Exception):
    """Another living agent uses the directory."""


class Spool:
    """The journals of one node. They are ours as long as this object is open."""

    def __init__(self, path: Path, lock_fd: int) -> None:
        """Take over a directory whose lock is held through `lock_fd`."""
        self.path = path
        self.lock_fd = lock_fd

    @classmethod
    def make(cls, spool: Path, node_id: str) -> Self:
        """Create, or reuse, the directory of a node. Raises SpoolBusyError or OSError."""
        if not _NODE_ID.fullmatch(node_id):
            raise ValueError(f"{node_id!r} cannot name a directory")
        path = spool.absolute() / node_id
        spool.mkdir(mode=0o700, parents=True, exist_ok=True)
        give_up = time.monotonic() + _ADOPTION
        while True:
            path.mkdir(mode=0o700, exist_ok=True)
            with suppress(FileNotFoundError):  # another agent adopted and removed it
                (path / _LOCK).touch(mode=0o600)
            lock_fd = _lock(path)
            if lock_fd is not None:
                return cls(path, lock_fd)
            if time.monotonic() > give_up:
                raise SpoolBusyError(f"{path} belongs to a living agent")
            time.sleep(0.01)

    @property
    def node_id(self) -> str:
        """The node whose runs these are."""
        return self.path.name

    def runs(self) -> list[int]:
        """Return the ids of the runs that have a journal here."""
        names = (path.name.partition(".")[0] for path in self.path.iterdir())
        return sorted({int(name) for name in names if _RUN_ID.fullmatch(name)})

    def journal_path(self, run_id: int) -> str:
        """Return the path of a run's journal, without the segment number."""
        return f"{self.path}/{run_id}"

    def journal(self, run_id: int, after: int = 0) -> JournalReader:
        """Open a run's journal, from the absolute byte `after` on."""
        return JournalReader(self.journal_path(run_id), after)

    def forget(self, run_id: int, last_segment: int | None = None) -> None:
        """Delete a run's journal. A known last segment saves reading the directory."""
        path = self.journal_path(run_id)
        if last_segment is None:
            numbers = segments(path)
        else:
            numbers = [0, *range(max(1, last_segment - 1), last_segment + 1)]
        for number in numbers:
            Path(f"{path}.{number}").unlink(missing_ok=True)

    def set_aside(self, run_id: int) -> Path:
        """Rename a journal that cannot be read, so that a person can examine it; return its first segment."""
        first = self.path / f"{_ASIDE}{run_id}.0"
        for path in self.path.glob(f"{run_id}.*"):
            path.rename(path.with_name(_ASIDE + path.name))
        return first

    def set_all_aside(self) -> Path:
        """Leave the whole directory for a person to examine; return its renamed lock."""
        aside = self.path / f"{_ASIDE}{_LOCK}"
        (self.path / _LOCK).rename(aside)
        self.close()
        return aside

    def remove(self) -> None:
        """Delete the directory with all journals, and let go of it."""
        for path in self.path.glob("[0-9]*.[0-9]*"):
            path.unlink()
        (self.path / _LOCK).unlink()  # last: the directory stays locked until it is empty
        with suppress(OSError):  # its agent came back and has made a new lock
            self.path.rmdir()
        self.close()

    def close(self) -> None:
        """Let go of the directory."""
        if self.lock_fd >= 0:
            os.close(self.lock_fd)
            self.lock_fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def abandoned(spool: Path, on_foreign: Callable[[Path], None] | None = None) -> list[Spool]:
    """Return the directories of dead agents of this host, each locked by us.

    The caller delivers the results and output of `runs()` and then calls `remove()`, or `close()` to leave
    it to another agent. A run with a journal but without a result was running when its warden was killed.

    A directory that another account owns or can write is left alone, because that account could have forged
    its content. `on_foreign` is called with each of them that looks like a spool.
    """
    if not spool.is_dir():
        return []
    found = []
    for path in sorted(spool.absolute().iterdir()):
        if not _is_ours(path):
            if on_foreign and _has_lock(path):
                on_foreign(path)
            continue
        lock_fd = _lock(path)
        if lock_fd is not None:
            found.append(Spool(path, lock_fd))
    return found


def _is_ours(path: Path) -> bool:
    """Return whether it is a directory of this account that no other account can write."""
    try:
        found = path.lstat()
    except OSError:  # it was removed
        return False
    is_closed = not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and is_closed


def _has_lock(path: Path) -> bool:
    try:
        (path / _LOCK).lstat()
    except OSError:  # we may not look into it
        return False
    return True


def _lock(path: Path) -> int | None:
    """Lock a directory; None if it is locked, is no spool, or was removed."""
    try:
        fd = os.open(path / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(fd), (path / _LOCK).stat()):
            return fd
    except OSError:
        pass
    os.close(fd)
    return None
