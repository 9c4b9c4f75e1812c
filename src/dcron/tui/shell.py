"""Run a verb of the command line from the prompt, and show what it prints."""

import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from dcron.errors import UsageError
from dcron.safetext import safe_lines
from dcron.tui.hints import hints
from dcron.tui.host import Host
from dcron.tui.modals import Dialog, heading, key_line

MOST_BYTES = 256 * 1024
"""Most bytes of output that are shown."""
SECONDS = 120.0
"""Seconds after which the command is stopped."""
MARGIN = 8
"""Columns of the screen that the frame takes."""


def run_verb(host: Host, verb: str, text: str, *, writes: bool) -> None:
    """Run a verb with these arguments and show its output; if it `writes`, ask first. Raises UsageError."""
    environment = host.settings.environment
    if environment is None:
        raise UsageError(f"{verb} is not run from here with both --db and a context; run it in a shell")
    try:
        words = [verb, *shlex.split(text)]
    except ValueError as error:
        raise UsageError(f"{error}: {text}") from error

    def go(yes: bool | None = True) -> None:
        if yes:
            host.push_screen(OutputDialog(words, environment), lambda _: host.action_refresh_now())

    if not writes or words[1:2] in (["list"], ["view"]):
        go()
    elif host.may_act([verb]):
        host.confirm(f"run {shlex.join(['dcron', *words])}", [], go)


class OutputDialog(Dialog[None]):
    """Runs a command and shows what it prints. Leaving it stops the command."""

    DEFAULT_CSS = "OutputDialog VerticalScroll { height: 1fr; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,enter", "leave", "leave", id="output.leave", show=False),
        Binding("j", "scroll(1)", "down", id="output.down", show=False),
        Binding("k", "scroll(-1)", "up", id="output.up", show=False),
        Binding("y", "copy('output')", "copy the output", id="output.copy"),
        Binding("Y", "copy('command')", "copy the command", id="output.copy_command"),
    ]
    AT_ONCE = None

    def __init__(self, words: Sequence[str], environment: Mapping[str, str]) -> None:
        """Run dcron with these words and with this addition to the environment."""
        super().__init__()
        self._command = shlex.join(["dcron", *words])
        self._words = words
        self._environment = environment
        self._output = ""
        self._started: subprocess.Popen[bytes] | None = None

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield heading(self._command)
            with VerticalScroll():
                yield Static("...", classes="read", markup=False)
            keys = "{output.copy} copy", "{output.copy_command} copy the command", "{dialog.leave} leave"
            yield key_line(hints(self, *keys))

    def on_mount(self) -> None:
        """Start the command in a thread of its own."""
        self.query_one(VerticalScroll).focus()
        width = str(max(40, self.app.size.width - MARGIN))
        environment = {**os.environ, **self._environment, "COLUMNS": width, "NO_COLOR": "1"}
        threading.Thread(target=self._run, args=(environment,), name="verb", daemon=True).start()

    def on_unmount(self) -> None:
        """Stop the command."""
        if self._started and self._started.poll() is None:
            self._started.kill()

    def _run(self, environment: Mapping[str, str]) -> None:
        """Run the command and hand on its output. Called in the thread."""
        try:
            self._started = started = subprocess.Popen(
                [sys.executable, "-m", "dcron", *self._words],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            self._post(f"it cannot be started: {error}")
            return
        timer = threading.Timer(SECONDS, started.kill)
        timer.start()
        with started:
            assert started.stdout
            text = _read(started, started.stdout)
        timer.cancel()
        code = started.returncode
        self._post(text + ("" if code == 0 else f"\n\nexit code {code}"))

    def _post(self, text: str) -> None:
        with suppress(RuntimeError):  # the app has ended
            self.app.call_later(self._show, text)

    def _show(self, text: str) -> None:
        if self.is_attached:
            self._output = safe_lines(text.rstrip("\n")) or "it has printed nothing"
            self.query_one(".read", Static).update(Content(self._output))

    def action_scroll(self, by: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=by, animate=False)

    def action_copy(self, what: str) -> None:
        text = self._output if what == "output" else self._command
        self.app.copy_to_clipboard(text)
        self.notify(f"copied {'the output' if what == 'output' else self._command}", markup=False)


def _read(started: "subprocess.Popen[bytes]", stream: IO[bytes]) -> str:
    """Return the output, at most MOST_BYTES; a command that prints more is stopped."""
    data = stream.read(MOST_BYTES + 1)
    text = data[:MOST_BYTES].decode(errors="replace")
    if len(data) <= MOST_BYTES:
        return text
    started.kill()
    return f"{text}\n\nonly the first {MOST_BYTES // 1024} KiB are shown; run it in a shell for the rest"
