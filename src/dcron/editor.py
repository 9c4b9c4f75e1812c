"""Open the user's editor on a text that only the user can read."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from dcron.errors import Refused, UsageError

FALLBACKS = ("editor", "vi", "nano")
"""Editors that are tried if none is set."""
PLUS_LINE = {
    *("vi", "vim", "nvim", "vimx", "gvim", "elvis", "nvi", "vis", "view", "ex", "nano", "pico", "rnano"),
    *("emacs", "emacsclient", "mg", "zile", "jed", "joe", "jmacs", "jstar", "jpico", "ne", "micro", "kak"),
    *("mcedit", "gedit", "kate", "less"),
}
"""Editors that start at line N when called with +N."""
NAME = "dcron.crontab"


class TextFile:
    """A text in a private file and directory; both are removed at the end, unless they are kept."""

    def __init__(self, text: str) -> None:
        """Take the text; the file exists within a `with` block."""
        self._text = text
        self._kept = False

    def __enter__(self) -> Self:
        """Write the file."""
        self.path = Path(tempfile.mkdtemp(prefix="dcron-")) / NAME  # mkdtemp makes it 0700
        self.path.touch(mode=0o600)
        self.write(self._text)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the directory, with files that the editor left in it."""
        if not self._kept:
            shutil.rmtree(self.path.parent, ignore_errors=True)

    def write(self, text: str) -> None:
        """Replace the text."""
        self.path.write_bytes(text.encode(errors="surrogateescape"))

    def read(self, limit: int) -> str:
        """Return the text; bytes that are not UTF-8 become lone surrogates, which `write` restores.

        Raises Refused if there is no file, or if it has more than `limit` bytes.
        """
        try:
            with self.path.open("rb") as file:
                content = file.read(limit + 1)
        except OSError as error:
            raise Refused(f"the editor has left nothing to read: {self.path}: {error.strerror}") from None
        if len(content) > limit:
            raise Refused(f"{self.path} is larger than {limit:,} bytes")
        return content.decode(errors="surrogateescape")

    def keep(self) -> None:
        """Keep the file, readable only by its owner."""
        if self.path.exists():
            self.path.chmod(0o600)
            self._kept = True


def open_editor(path: Path, line: int | None = None) -> None:
    """Open the file in the editor, at a line if the editor supports it, and wait until the editor ends.

    Call it in the main thread: meanwhile Ctrl-C reaches only the editor. Raises Refused if the editor cannot
    be started or fails, UsageError for a setting that is no command, KeyboardInterrupt if Ctrl-C ended it.
    """
    command = _command()
    try:
        with _keys_are_the_editors():
            code = subprocess.run([*command, *_at(line, command[0]), str(path)], check=False).returncode
    except OSError as error:
        raise Refused(f"the editor {command[0]!r} cannot be started: {error.strerror}") from None
    if code == -signal.SIGINT:
        raise KeyboardInterrupt
    if code:
        how = f"with exit code {code}" if code > 0 else f"by signal {-code}"
        raise Refused(f"the editor {command[0]} ended {how}, so nothing was changed")


def _command() -> list[str]:
    """Return $VISUAL, $EDITOR, or the first fallback that is installed. Raises Refused or UsageError."""
    for setting in ("VISUAL", "EDITOR"):
        if chosen := os.environ.get(setting, "").strip():
            return _words(setting, chosen)
    if not sys.stdin.isatty():
        raise Refused(
            "there is no terminal to edit on; $EDITOR may name a program that edits a file by itself"
        )
    for name in FALLBACKS:
        if shutil.which(name):
            return [name]
    raise Refused(
        f"there is no editor ({', '.join(FALLBACKS)}); set $EDITOR to one, such as EDITOR=/usr/bin/vim"
    )


def _words(setting: str, chosen: str) -> list[str]:
    try:
        return shlex.split(chosen)
    except ValueError as error:
        raise UsageError(f"${setting} is no command: {chosen!r}: {str(error).lower()}") from None


def _at(line: int | None, editor: str) -> list[str]:
    if line is None:
        return []
    found = Path(shutil.which(editor) or editor)
    # /usr/bin/editor leads to vim.basic by way of /etc/alternatives.
    names = {path.name.partition(".")[0] for path in (found, found.resolve())}
    return [f"+{line}"] if names & PLUS_LINE else []


@contextmanager
def _keys_are_the_editors() -> Iterator[None]:
    """Ctrl-C and Ctrl-\\ reach every process on the terminal. Handlers, unlike SIG_IGN, are not inherited."""
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGQUIT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
