"""The demo's live view: plain text redrawn in place, for a terminal of 80 by 24."""

import os
import select
import shutil
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dcron import words
from dcron.cli.listing import TASKS, row
from dcron.cli.running import run_columns, run_row
from dcron.cli.tables import table_lines
from dcron.model import NodeState, RunState
from dcron.safetext import safe, shorten

if TYPE_CHECKING:
    from dcron.crontab import Crontab

EVERY = 0.5
"""Seconds between two looks."""
_ENTER = "\x1b[?1049h\x1b[?25l"  # the alternate screen, no cursor
_LEAVE = "\x1b[?25h\x1b[?1049l"
_HOME, _TO_LINE_END, _TO_SCREEN_END = "\x1b[H", "\x1b[K", "\x1b[J"


def watch(crontab: "Crontab", agents: int, last_words: Callable[[], Iterable[str]]) -> None:
    """Show the crontab until q is pressed or a signal comes; `last_words` are of agents that are no more."""
    with _own_screen():
        while True:
            size = shutil.get_terminal_size()
            lines = list(_lines(crontab, agents, list(last_words()), size.lines - 1))[: size.lines - 1]
            drawn = "".join(f"{line}{_TO_LINE_END}\r\n" for line in lines)
            sys.stdout.write(f"{_HOME}{drawn}{_TO_SCREEN_END}")
            sys.stdout.flush()
            if _asked_to_quit(EVERY):
                return


@contextmanager
def _own_screen() -> Iterator[None]:
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    try:
        tty.setcbreak(keyboard)
        sys.stdout.write(_ENTER)
        yield
    finally:
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


def _asked_to_quit(seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        if select.select([sys.stdin], [], [], left)[0]:
            typed = os.read(sys.stdin.fileno(), 100)
            if not typed or b"q" in typed.lower():
                return True
    return False


def _lines(crontab: "Crontab", agents: int, last_words: Sequence[str], height: int) -> Iterator[str]:
    from dcron.schedule import zone
    from dcron.store.runs import Wanted

    now = crontab.now()
    width = shutil.get_terminal_size().columns
    title = f"dcron demo   {agents} agents share one crontab   {now:%H:%M:%S} UTC"
    yield shorten(f"{title}   q ends", width)
    yield ""
    tasks = list(table_lines(TASKS, (row(view, now) for view in crontab.views())))
    yield from tasks
    yield ""
    yield from (shorten(line, width) for line in _node_lines(crontab))
    yield from (safe(f"gone: {words}", width) for words in last_words)
    yield ""
    left = max(3, height - len(tasks) - agents - len(last_words) - 5)
    done = crontab.runs(Wanted(states=[state for state in RunState if state.is_final]), limit=left)
    here = zone("UTC")
    yield from table_lines(run_columns(here), (run_row(run, here, now) for run in done))


def _node_lines(crontab: "Crontab") -> Iterator[str]:
    now = crontab.now()
    for node in crontab.nodes():
        state = node.state(now)
        told = f"{node.id}  {state.value:<8}"
        if state is NodeState.ALIVE:
            lease = words.left(node.alive_until, now)
            told += f" runs {node.running}  lease {lease:<5}   try: kill -9 {node.pid}"
        yield told
