"""Find the files of a source, and read them as text."""

import stat
from collections.abc import Iterator
from pathlib import Path

from dcron.errors import UsageError
from dcron.sources.formats import SUFFIXES
from dcron.values.text_input import read_text

STDIN = Path("-")
PROSE = (".md", ".rst", ".txt")
"""Files of a directory that are not read, without a word."""
MAX_SOURCE_BYTES = 10_000_000
"""Bytes of all files together. A crontab has a lower bound of its own."""


def name_of(path: Path) -> str:
    """Return the name of a file in messages."""
    return "<stdin>" if path == STDIN else str(path)


def is_directory(path: Path) -> bool:
    """Return whether the path names a directory."""
    return path != STDIN and path.is_dir()


def files_in(directory: Path) -> tuple[list[Path], list[str]]:
    """Return the files of a directory to read, sorted, and the names of others that may be meant.

    Raises UsageError if there is none to read.
    """
    try:
        entries = sorted(entry for entry in directory.iterdir() if not entry.name.startswith("."))
    except OSError as error:
        raise UsageError(f"cannot read {directory}: {error.strerror}") from None
    files = [entry for entry in entries if entry.suffix in SUFFIXES]
    if not files:
        raise UsageError(f"{directory}: no file here ends in {', '.join(SUFFIXES)}")
    others = [entry.name for entry in entries if entry not in files and not _is_prose(entry)]
    return files, others


def read_in_directory(path: Path) -> str:
    """Return the text of a file in a directory.

    Raises UsageError for what is no regular file, and for a link to a file elsewhere: those who may add files
    to the directory must not learn what other files say.
    """
    try:
        mode = path.stat().st_mode
        within = path.resolve().is_relative_to(path.parent.resolve())
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    if not stat.S_ISREG(mode):
        what = "a directory within a directory" if stat.S_ISDIR(mode) else "no regular file"
        raise UsageError(f"{path}: this is {what}, and is not read; rename or remove it")
    if not within:
        raise UsageError(
            f"{path}: this is a link to a file outside of {path.parent}, and is not read; copy the file"
        )
    return read(path)


def read(path: Path) -> str:
    """Return the text of a file, or of stdin for `-`. Raises UsageError."""
    return read_text(str(path), limit=MAX_SOURCE_BYTES)


def _is_prose(path: Path) -> bool:
    return path.suffix.lower() in PROSE or path.stem.upper() in ("README", "LICENSE", "MAKEFILE")


def unread(directory: Path, names: list[str]) -> Iterator[str]:
    """Yield a notice about files of a directory that are not read."""
    if names:
        shown = ", ".join(names[:5]) + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")
        yield f"not read: {shown}; a source is the files that end in {', '.join(SUFFIXES)}"
