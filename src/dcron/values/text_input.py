"""Read texts that options take as TEXT or @FILE, and the files that verbs read whole."""

import os
from pathlib import Path

from dcron.errors import UsageError

MOST_READ = 1024 * 1024
"""Bytes of a file whose text is a value."""


def text_or_file(value: str, what: str = "") -> str:
    """Return `TEXT`, or for `@FILE` what is in the file; `@-` is stdin, `@@TEXT` a text that begins with @.

    `what` is named in messages. Raises UsageError.
    """
    if not value.startswith("@"):
        return value
    if value.startswith("@@"):
        return value[1:]
    return read_text(value[1:], what)


def read_text(name: str, what: str = "", limit: int = MOST_READ) -> str:
    """Return the text of a file, or of stdin for `-`; `what` is named in messages. Raises UsageError."""
    import sys

    prefix = f"{what}: " if what else ""
    try:
        if name == "-":
            content = sys.stdin.buffer.read(limit + 1)
        else:
            _refuse_named_pipe(name)
            with Path(name).open("rb") as file:
                content = file.read(limit + 1)
    except OSError as error:
        raise UsageError(f"{prefix}cannot read {name}: {error.strerror}") from None
    if len(content) > limit:
        raise UsageError(f"{prefix}{name} is larger than {limit:,} bytes")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        remedy = f"`iconv -f latin1 -t utf8 {'' if name == '-' else name}`".replace(" `", "`")
        raise UsageError(
            f"{name}:{line}:{column}: this is not UTF-8; if it is Latin-1, {remedy} converts it"
        ) from None


def _refuse_named_pipe(name: str) -> None:
    """Raise UsageError for a named pipe, whose opening may never end. A shell's `<(COMMAND)` has no name."""
    path = Path(name)
    if path.is_fifo() and "/fd/pipe:[" not in os.path.realpath(path):
        raise UsageError(f"{name} is a named pipe; read it with `cat` and give - (stdin)")
