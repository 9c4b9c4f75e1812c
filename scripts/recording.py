"""Record the real program with three real agents as an animated picture (`make recording`)."""

import shlex
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scripts import screenshots
from scripts.film import COLUMNS, ROWS, Film, check, picture
from tests.support.patience import PATIENCE
from tests.support.terminal import Terminal, terminal

FILE = screenshots.PICTURES / "recording.svg"
KEY_SECONDS = 0.05
"""Between two letters that are typed."""


def main() -> None:
    """Record the shop's crontab: a task is added and listed, then watched on the screen."""
    film = Film()
    with screenshots.running_shop() as url:
        own = {"DCRON_DB": url, "TZ": str(screenshots.HERE), "COLORTERM": "truecolor", "LANG": "C.UTF-8"}
        _commands(film, own)
        _screen(film, own)
    check(film.frames, socket.gethostname(), str(Path.home()))
    FILE.write_text(picture(film.frames))
    print(f"{FILE.name}: {FILE.stat().st_size:,} bytes, {sum(frame.seconds for frame in film.frames):.0f} s")


def _commands(film: Film, own: dict[str, str]) -> None:
    film.feed(b"\x1b[1m$\x1b[0m ")
    film.title = "add a task: 02:30 does not exist on one day, and exists twice on another"
    _run(film, own, 4.0, "add", "-n", "warehouse", "-z", "Europe/Berlin", "30 2 * * *", "sync-warehouse")
    film.title = "three agents share the tasks"
    _run(film, own, 3.0, "list")


def _run(film: Film, own: dict[str, str], seconds: float, *words: str) -> None:
    """Type a command, run it, and show what it prints for this long."""
    for letter in f"dcron {shlex.join(words)}":
        film.feed(letter.encode())
        film.hold(KEY_SECONDS)
    film.hold(0.3)
    with terminal(*words, size=(ROWS, COLUMNS), **own) as session:
        session.ends()
    film.feed(b"\r\n" + session.bytes + b"\x1b[1m$\x1b[0m ")
    film.hold(seconds)


def _screen(film: Film, own: dict[str, str]) -> None:
    with _watched(film, own) as watch:
        watch("all tasks, live", "", "sync-mirror", 4)
        watch("/  find a task", "/sync-mirror\r", "filter: sync-mirror", 2)
        watch("Enter  the page of the task", "\r", "Overview", 3)
        watch("w  why did it fail?", "w", "dead letter", 3)
        watch("Esc  back", "\x1b", "Overview", 1)
        watch("Esc  back", "\x1b", "filter: sync-mirror", 0.5)
        watch("3  the next 24 hours", "3", "busiest minute", 3)
        watch("4  the fleet", "4", "in the next hour", 3)


@contextmanager
def _watched(film: Film, own: dict[str, str]) -> Iterator["Watch"]:
    film.feed(b"\x1b[2J\x1b[H\x1b[1m$\x1b[0m dcron")
    film.hold(0.6)
    with terminal(size=(ROWS, COLUMNS), **own) as session:
        yield Watch(film, session)


class Watch:
    """Presses keys in the running program and records what it draws."""

    def __init__(self, film: Film, session: Terminal) -> None:
        self._film, self._session, self._fed = film, session, 0

    def __call__(self, title: str, keys: str, text: str, seconds: int | float) -> None:
        """Press these keys, wait for this text, and record for this long."""
        self._film.title = title
        if keys:
            self._film.hold(0.5)
        for key in keys:
            self._session.type(key)
            self._session.read_for(0.3)
        deadline = time.monotonic() + PATIENCE
        while text not in self._draw():
            assert time.monotonic() < deadline, self._film.text()
        self._session.read_for(0.7)  # what comes after the text
        for _ in range(max(1, int(seconds))):
            self._draw()
            self._film.hold(min(seconds, 1))

    def _draw(self) -> str:
        """Draw what the program has written since the last call; return the letters on the terminal."""
        self._session.read_for(0.3)
        self._film.feed(self._session.bytes[self._fed :])
        self._fed = len(self._session.bytes)
        return self._film.text()


if __name__ == "__main__":
    main()
