"""Show the whole log in the person's pager, inert there, too."""

import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from dcron.errors import DcronError
from dcron.services.log import RunLog
from dcron.tui.log.lines import GAP, log_line
from dcron.tui.log.opened import OpenedLog
from dcron.tui.log.search import ALL
from dcron.values.safe_text import NAME_CELLS, safe, safe_line


def pager_command() -> list[str]:
    """Return the command of $PAGER, or `less`. Raises ValueError if it cannot be parsed."""
    return shlex.split(os.environ.get("PAGER", "")) or ["less"]


def whole_log(log: RunLog, run_id: int) -> Iterator[str]:
    """Yield all kept lines of a run, inert and in full length."""
    run, now = log.find_run(run_id), log.now()
    yield f"{safe(run.task, NAME_CELLS)}, run {run.id}"
    opened = OpenedLog(run, now, ALL)
    while opened.has_more:
        opened.take(log.news(run_id, opened.text.end, with_run=False))
    for number in range(len(opened.text)):
        raw = opened.text.raw(number, sys.maxsize)
        is_gap = raw.kind == GAP
        yield log_line(raw, number, colours=False).text if is_gap else safe_line(raw.data, None)


def save_log(log: RunLog, run_id: int, path: Path) -> int:
    """Write the kept output to a new file, as the command printed it; return its size.

    Raises OSError, also if the file exists.
    """
    size, end, has_more = 0, 0, True
    with path.open("xb") as file:
        while has_more:
            news = log.news(run_id, end, with_run=False)
            size += sum(file.write(chunk.data) for chunk in news.chunks)
            end, has_more = (news.chunks[-1].end if news.chunks else end), news.has_more
    return size


def page(lines: Iterable[str], command: list[str]) -> None:
    """Run the pager on these lines until the person leaves it. Raises OSError if it cannot be started.

    A thread writes the lines: the person can leave the pager even while the database hangs.
    """
    before = signal.signal(signal.SIGINT, lambda *_: None)  # the pager handles Ctrl-C
    try:
        with subprocess.Popen(command, stdin=subprocess.PIPE) as pager:
            threading.Thread(target=_write, args=(pager, lines), name="pager", daemon=True).start()
            pager.wait()
    finally:
        signal.signal(signal.SIGINT, before)


def _write(pager: "subprocess.Popen[bytes]", lines: Iterable[str]) -> None:
    assert pager.stdin
    with suppress(OSError, ValueError):  # the person has left the pager
        try:
            for line in lines:
                pager.stdin.write(line.encode() + b"\n")
        except DcronError as error:
            pager.stdin.write(f"[the rest cannot be read: {safe(str(error))}]\n".encode())
        pager.stdin.close()
