"""The demo: it works, and leaves nothing behind however it ends."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli import on_terminal
from tests.support.patience import PATIENCE, until
from tests.support.terminal import terminal

pytestmark = pytest.mark.slow

SHORTER = (
    "import sys; from dcron.cli import app; from dcron.cli.commands import demo; demo.SECONDS = 7; app.run()"
)


def start(directory: Path, *words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", SHORTER, "demo", *words],
        env={**os.environ, "TMPDIR": str(directory)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def processes_of(directory: Path) -> list[str]:
    """The processes that have anything to do with a directory: its name is in their environment."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and int(process.name) != os.getpid():
            try:
                if str(directory).encode() in (process / "environ").read_bytes():
                    found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
    return found


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Where the demo makes its own directory."""
    (tmp_path / "tmp").mkdir()
    return tmp_path / "tmp"


def test_without_a_terminal_it_shows_tasks_owners_and_completions(directory: Path) -> None:
    with start(directory) as process:
        out, err = process.communicate(timeout=2 * PATIENCE)
    assert process.returncode == 0, err
    assert "NAME" in out
    assert "heartbeat" in out
    assert re.search(r"mail .*failed|exit 3", out)
    assert "overlap" in out
    assert re.search(r"runs by owner: (web-[123] \d+(, )?)+", out)
    assert processes_of(directory) == []
    assert list(directory.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_nothing_behind(directory: Path, number: signal.Signals) -> None:
    with start(directory, "--agents", "2") as process:
        until(lambda: len(list(directory.glob("*/web-*.log"))) == 2)
        process.send_signal(number)
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + number
    assert "Traceback" not in err
    assert processes_of(directory) == []
    assert list(directory.iterdir()) == []


@pytest.mark.terminal
def test_on_a_terminal_it_opens_the_screen_until_a_key_ends_it(directory: Path) -> None:
    shown = on_terminal(
        "demo", "--agents", "1", url="", typed="q", wait_for="heartbeat", TMPDIR=str(directory)
    )
    assert shown.code == 0
    assert shown.out.rindex("\x1b[?1049l") > shown.out.rindex("heartbeat")
    assert processes_of(directory) == []
    assert list(directory.iterdir()) == []


@pytest.mark.terminal
def test_a_signal_ends_the_screen_too_and_gives_the_terminal_back(directory: Path) -> None:
    with terminal("demo", "--agents", "1", TMPDIR=str(directory)) as screen:
        screen.sees("heartbeat")
        screen.process.send_signal(signal.SIGTERM)
        assert screen.ends() == 128 + signal.SIGTERM
    assert b"\x1b[?1049l" in screen.bytes
    assert processes_of(directory) == []
    assert list(directory.iterdir()) == []
