"""A real pseudo-terminal with a `dcron` on it, driven by keys."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from dcron.tui.questions import dialogs
from tests.support.escapes import shown
from tests.support.patience import PATIENCE

ROOT = Path(__file__).parents[2]
ESC, ESC_GAP = "\x1b", 0.25


class Terminal:
    """The output of a program, and the keys sent to it."""

    def __init__(self, handle: int, process: "subprocess.Popen[bytes]") -> None:
        self._handle = handle
        self.process = process
        self.bytes = b""
        self._since = 0

    def type(self, keys: str) -> None:
        """Press these keys; later waits only see what was drawn afterwards."""
        self._since = len(self.bytes)
        os.write(self._handle, keys.encode(errors="surrogateescape"))

    def press(self, *keys: str, gap: float) -> None:
        """Press these keys with this gap in seconds; without one they arrive together, as after a lag.

        Esc is always followed by a pause: a letter right behind it makes another key.
        """
        self._since = len(self.bytes)
        burst = ""
        for key in keys:
            burst += key
            if gap or key == ESC:
                os.write(self._handle, burst.encode())
                burst = ""
                self.read_for(max(gap, ESC_GAP if key == ESC else 0.0))
        os.write(self._handle, burst.encode())

    def read_for(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self._read(left)

    def insist(self, keys: str, text: str) -> None:
        """Press these keys until this text is seen: a dialog ignores keys at first.

        Pressed twice they may do something else: wait before the first press, and long before the next.
        Keys right behind a second Esc would make another key: wait for them, too.
        """
        self.read_for(2 * dialogs.PATIENCE)
        for patience in (5, 10, 20):
            self.type(keys)
            deadline = time.monotonic() + patience
            while self._read(0.1) and time.monotonic() < deadline:
                if text in self._drawn():
                    self.read_for(ESC_GAP)
                    return
        self.sees(text)

    def paste(self, text: str) -> None:
        """Paste this, as a terminal does."""
        self.type(f"\x1b[200~{text}\x1b[201~")

    def sees(self, *texts: str) -> None:
        """Wait until all of these texts were drawn."""
        deadline = time.monotonic() + PATIENCE
        while missing := [text for text in texts if text not in self._drawn()]:
            is_alive = self._read(0.2)
            assert is_alive, f"it has ended before it showed {missing}: {self._drawn()[-2000:]}"
            assert time.monotonic() < deadline, f"no {missing} in {self._drawn()[-3000:]}"

    def ends(self) -> int:
        """Read the rest of its output; return its exit code."""
        deadline = time.monotonic() + PATIENCE
        while self._read(0.2):
            assert time.monotonic() < deadline, f"it does not end: {self._drawn()[-2000:]}"
        return self.process.wait(PATIENCE)

    def _drawn(self) -> str:
        """The letters since the last keys; those of a line that is drawn in parts come apart."""
        return shown(self.bytes[self._since :].decode(errors="replace"))

    def _read(self, seconds: float) -> bool:
        if select.select([self._handle], [], [], seconds)[0]:
            try:
                piece = os.read(self._handle, 1 << 20)
            except OSError:  # the other end is closed
                return False
            self.bytes += piece
            return bool(piece)
        return True


@contextmanager
def terminal(*words: str, size: tuple[int, int] = (50, 200), **env: str) -> Iterator[Terminal]:
    """Run `dcron WORDS` on a terminal of this size."""
    argv = [sys.executable, "-m", "tests.support.patient", *words]
    with program_on_terminal(argv, size=size, **env) as screen:
        yield screen


@contextmanager
def program_on_terminal(argv: Sequence[str], size: tuple[int, int], **env: str) -> Iterator[Terminal]:
    """Run this command on a terminal of this size."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
    kept = {name: value for name, value in os.environ.items() if not re.match("COLUMNS|LINES|NO_COLOR", name)}
    process = subprocess.Popen(
        argv,
        cwd=ROOT,
        env={**kept, "TERM": "xterm-256color", **env},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        with process:
            try:
                yield Terminal(ours, process)
            finally:
                if process.poll() is None:
                    process.kill()
    finally:
        os.close(ours)
