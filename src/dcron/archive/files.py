"""An archive in a directory: each object is a file that only its owner can read."""

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from dcron.errors import ArchiveError


class FileStorage:
    """Objects as files below a directory."""

    def __init__(self, directory: Path) -> None:
        """Use this directory. It is made when the first object is written."""
        self._directory = directory

    def put(self, name: str, data: bytes) -> None:
        """Write the object beside its place, then move it there. Raises ArchiveError."""
        path = self._directory / name
        try:
            if path.exists():
                return
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._write(path, data)
        except OSError as error:
            raise ArchiveError(f"the archive {path} cannot be written: {error.strerror or error}") from error

    def get(self, name: str, most: int) -> bytes:
        """Return the content of a regular file below the directory, if it has at most so many bytes.

        Raises ArchiveError.
        """
        path = self._directory / name
        try:
            if not path.resolve().is_relative_to(self._directory.resolve()):
                raise ArchiveError(f"the archive {path} is a link to another directory, and is not read")
            # Opening a named pipe would wait.
            with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode):
                    raise ArchiveError(f"the archive {path} is no regular file, and is not read")
                if status.st_size > most:
                    raise ArchiveError(f"the archive {path} is larger than was recorded, and is not read")
                return file.read(most)
        except OSError as error:
            raise ArchiveError(f"the archive {path} cannot be read: {error.strerror or error}") from error

    def _write(self, path: Path, data: bytes) -> None:
        number, temporary = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)  # it has mode 0600
        try:
            with os.fdopen(number, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(path)
        except BaseException:
            with suppress(OSError):
                Path(temporary).unlink()
            raise
        for directory in (path.parent, path.parent.parent):
            _sync(directory)


def _sync(directory: Path) -> None:
    """Write the directory's entries to the disk."""
    number = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
