"""A `dcron` that runs in this process, and a real one where it matters."""

import fcntl
import io
import json
import os
import pty
import select
import struct
import sys
import termios
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dcron.cli.app import main
from tests.support.patience import PATIENCE
from tests.support.processes import outcome

DCRON = Path(sys.executable).with_name("dcron")


@dataclass(frozen=True)
class Answer:
    """The result of a command line."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The document on stdout."""
        return json.loads(self.out)


class Dcron:
    """Runs command lines in this process, through the real entry."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], url: str) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        self.url = url
        self.environment: dict[str, str] = {}

    def __call__(self, *words: str, stdin: bytes = b"") -> Answer:
        """Run `dcron WORDS` on the test's database."""
        self._monkeypatch.setenv("DCRON_DB", self.url)
        self._monkeypatch.delenv("DCRON_CONTEXT", raising=False)
        for name, value in self.environment.items():
            self._monkeypatch.setenv(name, value)
        self._monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        self._capsys.readouterr()
        code = main(words)
        out, err = self._capsys.readouterr()
        return Answer(code, out, err)

    def done(self, *words: str, stdin: bytes = b"") -> Answer:
        """Run it, and require that it succeeds."""
        answer = self(*words, stdin=stdin)
        assert answer.code == 0, answer
        return answer

    def run_due(self) -> None:
        """Let an agent run what is due now."""
        done = real("agent", "--once", "--grace", "1s", "--name", "web-1", url=self.url)
        assert done.code == 0, done.err


def real(*words: str, url: str, **env: str) -> Answer:
    """Run the installed `dcron`, as a shell would."""
    done = outcome([DCRON, *words], env={**os.environ, "DCRON_DB": url, **env}, timeout=120)
    return Answer(done.returncode, done.stdout, done.stderr)


CTRL_C = "\x03"


def on_terminal(
    *words: str,
    url: str,
    typed: str = "",
    wait_for: str = "",
    size: tuple[int, int] = (24, 80),
    **env: str,
) -> Answer:
    """Run the installed `dcron` on a terminal of its own; `out` of the answer is all that it showed.

    `typed` is typed as soon as `wait_for` is shown.
    """
    child, terminal = pty.fork()
    if child == 0:  # the child, which becomes dcron
        os.environ.update({"DCRON_DB": url, "TERM": "xterm-256color", **env})
        for name in ("COLUMNS", "LINES"):
            os.unsetenv(name)  # the readline that pytest loads sets them behind Python's back
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        os.execv(DCRON, [str(DCRON), *words])
    shown, type_at = b"", 0.0
    for piece in _read(terminal):
        shown += piece
        if typed and wait_for.encode() in shown and time.monotonic() >= type_at:
            os.write(terminal, typed.encode())
            # Python does not hear a Ctrl-C that comes just before it begins to wait for input.
            typed, type_at = (typed, time.monotonic() + 10) if typed == CTRL_C else ("", 0.0)
    os.close(terminal)
    _, status = os.waitpid(child, 0)
    return Answer(os.waitstatus_to_exitcode(status), shown.decode(errors="replace").replace("\r\n", "\n"), "")


def _read(terminal: int, seconds: float = 2 * PATIENCE) -> Iterator[bytes]:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not select.select([terminal], [], [], 0.5)[0]:
            yield b""
            continue
        try:
            yield os.read(terminal, 65536)
        except OSError:  # the other end is closed
            return


def is_past(time_shown: str) -> bool:
    """Return whether this time, as `--json` shows it, has come."""
    return datetime.fromisoformat(time_shown) <= datetime.now(UTC)
