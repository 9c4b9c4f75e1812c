"""The editor that a person has chosen, on a text that only they can read."""

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
"""What is looked for where nobody has chosen."""
PLUS_LINE = {
    *("vi", "vim", "nvim", "vimx", "gvim", "elvis", "nvi", "vis", "view", "ex", "nano", "pico", "rnano"),
    *("emacs", "emacsclient", "mg", "zile", "jed", "joe", "jmacs", "jstar", "jpico", "ne", "micro", "kak"),
    *("mcedit", "gedit", "kate", "less"),
}
"""Editors that begin at line N when they are told +N."""
NAME = "dcron.crontab"


class TextFile:
    """A text in a file and a directory of their owner's alone; both go at the end, unless they are kept."""

    def __init__(self, text: str) -> None:
        """Hold the text; the file is there within a `with` block."""
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
        """Take it away, with what the editor has left beside it."""
        if not self._kept:
            shutil.rmtree(self.path.parent, ignore_errors=True)

    def write(self, text: str) -> None:
        """Put another text there."""
        self.path.write_bytes(text.encode(errors="surrogateescape"))

    def read(self, limit: int) -> str:
        """What is there; bytes that are not UTF-8 come as lone surrogates, and go back as they were.

        Raises Refused where there is no file, or one of more than `limit` bytes.
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
        """Leave it where it is, still for its owner alone, whatever the editor has made of it."""
        if self.path.exists():
            self.path.chmod(0o600)
            self._kept = True


def open_editor(path: Path, line: int | None = None) -> None:
    """Let the person edit the file, beginning at a line if the editor takes one; returns when they have left.

    For the main thread: Ctrl-C meanwhile is the editor's. Raises Refused when it cannot be started or fails,
    UsageError for a setting that is no command, KeyboardInterrupt when Ctrl-C has ended it.
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
    """$VISUAL, $EDITOR, or the first of the usual ones that is there."""
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
