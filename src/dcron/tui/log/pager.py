"""The whole log in the pager that the person is used to; inert there too."""

import os
import shlex
import signal
import subprocess
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress

from dcron.errors import DcronError
from dcron.safetext import NAME_CELLS, safe, safe_line
from dcron.tui.log.index import GAP
from dcron.tui.log.lines import log_line
from dcron.tui.log.opened import Opened
from dcron.tui.log.source import RunLog

LONGEST_LINE = 16 * 1024 * 1024
"""Bytes of a line: more than is kept of a run."""


def pager_command() -> list[str]:
    """$PAGER, or `less`. Raises ValueError when it cannot be read."""
    return shlex.split(os.environ.get("PAGER", "")) or ["less"]


def whole_log(log: RunLog, run_id: int) -> Iterator[str]:
    """All lines that are kept of a run, inert, as long as they are; read while they are taken."""
    run, now = log.find_run(run_id)
    yield f"{safe(run.task, NAME_CELLS)}, run {run.id}"
    for raw in Opened(log, run, now).everything(LONGEST_LINE):
        is_gap = raw.kind == GAP
        yield log_line(raw, raw.number, colours=False).text if is_gap else safe_line(raw.data, None)


def page(lines: Iterable[str], command: list[str]) -> None:
    """Run the pager on these lines until the person leaves it. Raises OSError when it cannot be started.

    The lines are written by a thread of their own: a database that hangs keeps nobody in the pager.
    """
    before = signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C is the pager's business
    try:
        with subprocess.Popen(command, stdin=subprocess.PIPE) as pager:
            threading.Thread(target=_write, args=(pager, lines), name="pager", daemon=True).start()
            pager.wait()
    finally:
        signal.signal(signal.SIGINT, before)


def _write(pager: "subprocess.Popen[bytes]", lines: Iterable[str]) -> None:
    assert pager.stdin
    with suppress(OSError, ValueError):  # the person has left it
        try:
            for line in lines:
                pager.stdin.write(line.encode() + b"\n")
        except DcronError as error:
            pager.stdin.write(f"[the rest cannot be read: {safe(str(error))}]\n".encode())
        pager.stdin.close()
