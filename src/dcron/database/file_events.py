"""Wait until a file of a directory is written, with Linux's inotify: a process that waits costs nothing."""

import ctypes
import os
import select
import time
from pathlib import Path

_IN_MODIFY, _IN_MOVED_TO, _IN_CREATE = 0x2, 0x80, 0x100
_BUFFER = 65_536


class FileEvents:
    """Reports writes to some files of one directory, whether or not they exist yet."""

    def __init__(self, directory: Path, names: tuple[str, ...]) -> None:
        """Begin to watch. Raises OSError if the kernel allows this account no further watch."""
        libc = ctypes.CDLL(None, use_errno=True)
        # An event ends with the file's name and a NUL.
        self._names = tuple(os.fsencode(name) + b"\0" for name in names)
        self._fd = _checked(libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        self._arrival = select.poll()
        self._arrival.register(self._fd, select.POLLIN)
        try:
            events = _IN_MODIFY | _IN_MOVED_TO | _IN_CREATE
            _checked(libc.inotify_add_watch(self._fd, os.fsencode(directory), events))
        except OSError:
            self.close()
            raise

    def wait(self, seconds: float, settle: float) -> bool:
        """Wait for an event in the directory, and `settle` seconds for those that follow it at once.

        Return False if there were some, but none of these files was written.
        """
        if not self._arrival.poll(seconds * 1000):
            return True
        time.sleep(settle)
        arrived = os.read(self._fd, _BUFFER)
        return any(name in arrived for name in self._names)

    def close(self) -> None:
        """Stop watching."""
        os.close(self._fd)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
