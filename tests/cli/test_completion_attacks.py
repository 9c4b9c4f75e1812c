"""What foreign text does when the Tab key is pressed: interactive shells on a terminal, hostile rows."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import pytest

from dcron.cli.asking import completion
from tests.support.cli import DCRON, Dcron
from tests.support.stage import Stage
from tests.support.terminal import Terminal, program_on_terminal

pytestmark = [pytest.mark.slow, pytest.mark.terminal]

PAYLOADS = (
    r"\"<(touch {0})\"",
    "$(touch${{IFS}}{0})",
    "`touch {0}`",
    r"\\$(touch {0})",
    "'$(touch {0})'",
    "a]:b:(($(touch {0})))' '$(touch {0})",
    "a\n$(touch {0})\n",
    "a\tb;touch {0};#",
    "\x1b[201~\ntouch {0}\n",
    "\N{FULLWIDTH DOLLAR SIGN}(touch {0})\u2028$(touch {0})",
)
"""Each runs `touch` where a shell evaluates it in one of the ways that completion functions do."""
STARTS = {
    "bash": ("bash", "--rcfile", "{home}/rc", "-i"),
    "zsh": ("zsh", "-d", "-i"),
    "fish": ("fish", "-i"),
}
READY = {
    "bash": 'PS1="> "; bind "set show-all-if-ambiguous on"; eval "$(_DCRON_COMPLETE=source_bash dcron)"',
    "zsh": 'PS1="> "; autoload -U compinit; compinit -u -D; eval "$(_DCRON_COMPLETE=source_zsh dcron)"',
    "fish": "function fish_prompt; echo '> '; end; _DCRON_COMPLETE=source_fish dcron | source",
}
FILES = {"bash": "rc", "zsh": ".zshrc", "fish": "fish/config.fish"}
LINES = ("thaw ", "logs ", "ack ", "calendar view ", "drain ", "emit ", "list -l ", "diff --source ")
"""One for each kind of name that others can write."""
ON_A_TERMINAL_OF_ITS_OWN = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
    "os.execvp(sys.argv[1], sys.argv[1:])"
)
CLEAR = "\x15"


@contextmanager
def interactive(shell: str, home: Path, url: str) -> Iterator[Terminal]:
    """An interactive shell that has read dcron's completion, and nothing of its user's."""
    if not shutil.which(shell):
        pytest.skip(f"not played: {shell} is not installed")
    file = home / FILES[shell]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(READY[shell] + "\n")
    env = {
        **{"HOME": str(home), "ZDOTDIR": str(home), "XDG_CONFIG_HOME": str(home), "XDG_DATA_HOME": str(home)},
        **{"PATH": f"{DCRON.parent}:{os.environ['PATH']}", "DCRON_DB": url, "DCRON_PATIENCE": "20s"},
    }
    words = [word.format(home=home) for word in STARTS[shell]]
    with program_on_terminal(
        [sys.executable, "-c", ON_A_TERMINAL_OF_ITS_OWN, *words], size=(50, 200), **env
    ) as terminal:
        terminal.type("echo REA''DY\r")
        terminal.sees("READY")
        yield terminal


def pressed(terminal: Terminal, line: str) -> str:
    """Type the line and Tab; return what the shell showed until it read the next line."""
    since = len(terminal.bytes)
    terminal.type(f"{line}\t{CLEAR}echo DO''NE\r")
    terminal.sees("DONE")
    return terminal.bytes[since:].decode(errors="replace")


def offers(terminal: Terminal, line: str, text: str) -> None:
    """Type the line and Tab, and wait until the shell shows this text of what is offered."""
    terminal.type(f"{line}\t")
    terminal.sees(text)
    terminal.type(f"{CLEAR}echo DO''NE\r")
    terminal.sees("DONE")


@pytest.fixture
def hostile(sqlite: Dcron, tmp_path: Path) -> Iterator[Path]:
    """A crontab of an earlier version in which each text that Tab offers is a payload; the file they make."""
    mark = tmp_path / "executed"
    texts = [payload.format(mark) for payload in PAYLOADS]
    sqlite.done("add", "-n", "good", "@yearly", "true")
    stage = Stage(sqlite.url)
    stage.node("web-1", tags=("good",), channels=("good",), queues=("good",))
    for number, text in enumerate(texts):
        stage.node(text, suffix=f"{number:08}", tags=(text,), channels=(text,), queues=(text,))
    stage.database.close()
    path = sqlite.url.removeprefix("sqlite:///")
    with sqlite3.connect(path) as rows:
        for (name,) in rows.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            rows.execute(f'DROP TRIGGER "{name}"')
        rows.execute("PRAGMA ignore_check_constraints = on")
        for text in ["good", *texts]:
            write(rows, text)
    rows.close()
    yield mark
    assert not mark.exists()


def write(rows: sqlite3.Connection, text: str) -> None:
    """Write the text wherever a name or a reason can be."""
    now = "strftime('%Y-%m-%d %H:%M:%S', 'now')"
    rows.execute(f"INSERT INTO freezes (from_at, reason) VALUES ({now}, ?)", (text,))
    rows.execute(
        "INSERT INTO runs (task_id, task, trigger, state, scheduled_for, due_at, spec, queue)"
        f" VALUES (1, ?, 'manual', 'waiting', {now}, {now}, '{{}}', ?)",
        (text, text),
    )
    rows.execute(
        "INSERT INTO runs (task_id, task, trigger, state, scheduled_for, due_at, spec, finished_at, dead_at)"
        f" VALUES (1, ?, 'manual', 'failed', {now}, {now}, '{{}}', {now}, {now})",
        (text,),
    )
    rows.execute(
        "INSERT INTO alerts (kind, subject, task_id, task, opened_at, last_at)"
        f" VALUES ('failing', ?, 1, ?, {now}, {now})",
        (f"task:{text}", text),
    )
    rows.execute(
        f"INSERT INTO calendars (name, content, changed_at, changed_by) VALUES (?, '{{}}', {now}, 'x')",
        (text,),
    )
    rows.execute("INSERT INTO queues (name) VALUES (?)", (text,))
    rows.execute("INSERT INTO events (name) VALUES (?)", (text,))
    rows.execute(
        "INSERT OR REPLACE INTO crontab (name, schedule, command, source, queue)"
        " VALUES (?, '@on ' || ?, 'true', ?, ?)",
        (text if text != "good" else "better", text, text, text),
    )
    rows.execute("INSERT INTO task_labels (task_id, key, value) VALUES (1, ?, ?)", (text, text))


@pytest.mark.parametrize("shell", STARTS)
def test_tab_executes_nothing(shell: str, sqlite: Dcron, hostile: Path, tmp_path: Path) -> None:
    with interactive(shell, tmp_path / "home", sqlite.url) as terminal:
        for line in LINES:
            shown = pressed(terminal, f"dcron {line}")
            assert not hostile.exists(), (line, shown)
        offers(terminal, "dcron calendar view ", "good")
        if shell != "bash":  # it shows no descriptions
            offers(terminal, "dcron thaw ", "touch")
        assert not hostile.exists()


@pytest.mark.parametrize("shell", STARTS)
def test_what_tab_writes_can_be_entered(shell: str, sqlite: Dcron, hostile: Path, tmp_path: Path) -> None:
    sqlite.done("calendar", "list")
    with sqlite3.connect(sqlite.url.removeprefix("sqlite:///")) as rows:
        rows.execute("DELETE FROM calendars WHERE name = 'good' OR name NOT LIKE '$(%'")
    rows.close()
    with interactive(shell, tmp_path / "home", sqlite.url) as terminal:
        terminal.type("dcron calendar view \t\r")
        terminal.type("echo DO''NE\r")
        terminal.sees("DONE")


def test_everything_offered_is_inert(sqlite: Dcron, hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DCRON_DB", sqlite.url)
    kinds = {*completion._LOCAL, *completion._IN_CRONTAB}
    offered = [offer for kind in kinds for offer in completion.offers(kind, _Context(), "")]
    assert len(offered) > 50
    assert {"good", "better"} <= {word for word, _ in offered}
    for word, description in offered:
        assert not set(word + description) & set("\\\"'`$<>()[]{};&|*?!#~^%\n\r\t\x1b\x9b\u2028"), (
            word,
            description,
        )


class _Context:
    """As much of a context of a command line as the completions read."""

    info_name = "view"
    params: ClassVar[dict[str, str]] = {}
    parent = None
    obj = None

    def find_root(self) -> "_Context":
        return self


def test_a_description_stays_readable() -> None:
    assert completion.inert("Umzug: web-1 → web-2 (bis 18:00, 50%)") == "Umzug: web-1 web-2 bis 18:00, 50"


@pytest.mark.parametrize("encoding", ["utf-8", "shift_jis", "big5", "gbk", "ascii", "utf-16"])
def test_no_encoding_makes_a_letter_evaluated(sqlite: Dcron, encoding: str) -> None:
    """In Shift-JIS the last byte of チ is a backquote, and that of 表 a backslash."""
    sqlite.done("freeze", "--reason", "a チtouch xチ 表 許功蓋 中文", "-f")
    asked = {"_DCRON_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "dcron thaw "}
    env = {**os.environ, **asked, "DCRON_DB": sqlite.url, "PYTHONIOENCODING": f"{encoding}:replace"}
    done = subprocess.run([DCRON], env=env, capture_output=True, timeout=60, check=True)
    assert b"touch" in done.stdout.replace(b"\0", b"")
    assert not set(done.stdout.replace(b"\\\\:", b"").replace(b"\\\0\\\0:", b"")) & set(b"`\\$<>;|&{}~^")


def test_shells_are_there_where_they_are_asked_for() -> None:
    asked = os.environ.get("DCRON_TEST_SHELLS", "bash").split()
    assert not [shell for shell in asked if not shutil.which(shell)]
