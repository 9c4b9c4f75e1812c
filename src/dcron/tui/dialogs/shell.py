"""Run a verb of the command line from the prompt, and show what it prints."""

import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from dcron.errors import UsageError
from dcron.tui.dialogs.modals import ReadDialog
from dcron.tui.host import Host
from dcron.tui.keys.hints import fitting_hints
from dcron.tui.questions.dialogs import heading, key_line
from dcron.values.safe_text import safe_lines

MOST_BYTES = 256 * 1024
"""Most bytes of output that are shown."""
SECONDS = 120.0
"""Seconds after which the command is stopped."""
MARGIN = 8
"""Columns of the screen that the frame takes."""
_GROUPS = ("calendar", "config", "queue")
"""Verbs with verbs of their own, behind which the name of a protected context comes."""
_HINTS = (
    "{output.search} search",
    "{output.copy} copy",
    "{output.save} save",
    "{output.copy_command} copy the command",
    "{dialog.leave} leave",
)


def run_verb(host: Host, verb: str, text: str, *, writes: bool) -> None:
    """Run a verb with these arguments and show its output; if it `writes`, ask first. Raises UsageError."""
    environment = host.settings.environment
    if environment is None:
        raise UsageError(f"{verb} is not run from here with both --db and a context; run it in a shell")
    try:
        words = [verb, *shlex.split(text)]
    except ValueError as error:
        raise UsageError(f"{error}: {text}") from error

    def go() -> None:
        if writes and host.settings.is_protected and words[0] != "channel":
            place = 2 if words[0] in _GROUPS else 1
            words[place:place] = ["--confirm", host.settings.context]
        host.push_screen(OutputDialog(words, environment), lambda _: host.action_refresh_now())

    if not writes or words[1:2] in (["list"], ["view"]) or words[1:] == ["--help"]:
        go()
    elif host.may_act([verb]):
        host.confirm(f"run {shlex.join(['dcron', *words])}", [], go)


class OutputDialog(ReadDialog):
    """Runs a command and shows what it prints. Leaving it stops the command."""

    DEFAULT_CSS = """
    OutputDialog VerticalScroll { height: 1fr; overflow-x: auto; scrollbar-gutter: stable; }
    OutputDialog .read.-table { width: auto; text-wrap: nowrap; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,enter", "leave", "leave", id="output.leave", show=False),
        Binding("j", "scroll(1)", "down", id="output.down", show=False),
        Binding("k", "scroll(-1)", "up", id="output.up", show=False),
        Binding(
            "colon", "app.leave_for_command", "command", id="output.command", show=False, key_display=":"
        ),
        Binding("h", "sideways(-8)", "to the left", id="output.left", show=False),
        Binding("l", "sideways(8)", "to the right", id="output.right", show=False),
        Binding("w", "wrap", "wrap long lines, or not", id="output.wrap", show=False),
        Binding("g", "end(False)", "to the begin", id="output.begin", show=False),
        Binding("G", "end(True)", "to the end", id="output.end", show=False),
        Binding("slash", "search", "search", id="output.search"),
        Binding("n", "hit(1)", "next hit", id="output.next_hit", show=False),
        Binding("N", "hit(-1)", "previous hit", id="output.previous_hit", show=False),
        Binding("s", "save", "save the output to a file", id="output.save"),
        Binding("y", "copy('output')", "copy the output", id="output.copy"),
        Binding("Y", "copy('command')", "copy the command", id="output.copy_command"),
    ]
    SCROLLS = "VerticalScroll"
    NEXT_HIT = "output.next_hit"

    def __init__(self, words: Sequence[str], environment: Mapping[str, str]) -> None:
        """Run dcron with these words and with this addition to the environment."""
        super().__init__(Content(""))
        self._command = shlex.join(["dcron", *words])
        self._words = words
        self._environment = environment
        self._started: subprocess.Popen[bytes] | None = None

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield heading(self._command)
            with VerticalScroll():
                yield Static("...", classes="read", markup=False)
            room = int(self.app.size.width * 0.96) - MARGIN
            yield key_line(fitting_hints(self, _HINTS, room))

    def on_mount(self) -> None:
        """Start the command as soon as the room for its tables is known."""
        self.query_one(VerticalScroll).focus()
        self.call_after_refresh(self._start)

    def _start(self) -> None:
        """Start the command in a thread of its own."""
        width = str(max(40, self.query_one(VerticalScroll).scrollable_content_region.width))
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
            output = safe_lines(text.rstrip("\n")) or "it has printed nothing"
            self.read.set_class(_is_table(output), "-table")
            self.show(Content(output))

    def action_sideways(self, by: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(x=by, animate=False)

    def action_wrap(self) -> None:
        self.read.toggle_class("-table")

    def action_end(self, is_last: bool) -> None:
        scroll = self.query_one(VerticalScroll)
        (scroll.scroll_end if is_last else scroll.scroll_home)(animate=False)

    def action_save(self) -> None:
        """Write the output to a new file."""
        self._ask_for_file()

    def _ask_for_file(self, typed: str = "", error: str = "") -> None:
        """Ask for the name of the file; after an error, with what was typed before."""

        def save(name: str) -> None:
            if not name.strip():
                return
            path = Path(name.strip()).expanduser()
            try:
                with path.open("x", encoding="utf-8") as file:
                    file.write(self._content.plain + "\n")
            except OSError as refused:
                self._ask_for_file(name, f"\nnot saved: {path}: {refused.strerror}")
            else:
                self.host.report(f"saved the output in {path.absolute()}")

        self.host.ask_for(f"save the output in a new file{error}", save, hint="Enter saves it", text=typed)

    def action_copy(self, what: str) -> None:
        text = self._content.plain if what == "output" else self._command
        self.app.copy_to_clipboard(text)
        self.notify(f"copied {'the output' if what == 'output' else self._command}", markup=False)


def _is_table(output: str) -> bool:
    """Return whether the output begins with the titles of columns: then a wrapped line is hard to read."""
    first, _, rest = output.partition("\n")
    return bool(rest) and first == first.upper() and len(first.split()) > 1


def _read(started: "subprocess.Popen[bytes]", stream: IO[bytes]) -> str:
    """Return the output, at most MOST_BYTES; a command that prints more is stopped."""
    data = stream.read(MOST_BYTES + 1)
    text = data[:MOST_BYTES].decode(errors="replace")
    if len(data) <= MOST_BYTES:
        return text
    started.kill()
    return f"{text}\n\nonly the first {MOST_BYTES // 1024} KiB are shown; run it in a shell for the rest"
