"""Temporary directories of a process. What a killed process has left, the next one removes."""

import fcntl
import os
import shutil
import signal
import tempfile
import time
import uuid
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

# ext4 reuses an inode only after some seconds: making and dropping a thousand databases there takes longer
# than the tests themselves.
MEMORY = Path("/dev/shm")
_PREFIX, _OWNER = "dcron-", ".owner"
_STOPS_WITHIN = 30.0


class OwnedDirectory:
    """A new directory, and beside it a file that this process locks as long as it lives.

    The kernel releases the lock however the process ends, so the lock shows whether the owner lives.
    """

    def __init__(self, kind: str, parent: Path | None = None) -> None:
        """Create it in `parent`, by default in the directory for temporary files."""
        self.path = (parent or Path(tempfile.gettempdir())) / f"{_PREFIX}{kind}-{uuid.uuid4().hex[:12]}"
        self._lock = _locked(_owner_file(self.path))
        self.path.mkdir(mode=0o700)

    def remove(self) -> None:
        """Remove it with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        _owner_file(self.path).unlink(missing_ok=True)
        os.close(self._lock)


def _owner_file(directory: Path) -> Path:
    return directory.with_name(directory.name + _OWNER)


def _locked(path: Path) -> int:
    # No other program inherits the descriptor, and with it the lock.
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def remove_abandoned(*parents: Path) -> list[Path]:
    """Remove directories whose owner is dead, and stop the Postgres servers in them; return the directories.

    Look in these parents, by default where an OwnedDirectory may be.
    """
    removed: list[Path] = []
    for parent in parents or (MEMORY, Path(tempfile.gettempdir())):
        removed += _remove_in(parent.glob(f"{_PREFIX}*{_OWNER}"))
    return removed


def _remove_in(owner_files: Iterable[Path]) -> Iterable[Path]:
    for file in owner_files:
        try:
            lock = os.open(file, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:  # of another user, or just removed
            continue
        try:
            directory = file.with_name(file.name.removesuffix(_OWNER))
            if _is_abandoned(lock) and _stop_server(directory):
                shutil.rmtree(directory, ignore_errors=True)
                file.unlink(missing_ok=True)
                yield directory
        finally:
            os.close(lock)


def _is_abandoned(lock: int) -> bool:
    if os.fstat(lock).st_uid != os.getuid():
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _stop_server(directory: Path) -> bool:
    """Stop the Postgres server of this data directory, if one runs; return whether none runs any more."""
    pid = _server_of(directory)
    if pid is None:
        return True
    for number in (signal.SIGQUIT, signal.SIGCONT):  # a test may have stopped it
        with suppress(ProcessLookupError):
            os.kill(pid, number)
    until = time.monotonic() + _STOPS_WITHIN
    while _server_of(directory) == pid and time.monotonic() < until:
        time.sleep(0.05)
    return _server_of(directory) != pid


def _server_of(directory: Path) -> int | None:
    """Return the id of the server's process, which works in its data directory; None without one."""
    try:
        pid = int((directory / "postmaster.pid").read_text().split()[0])
        return pid if Path(f"/proc/{pid}/cwd").readlink() == directory.resolve() else None
    except (OSError, ValueError, IndexError):
        return None
