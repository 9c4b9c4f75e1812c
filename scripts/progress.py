"""Run a quiet command, and print every few seconds what it does: `python progress.py pip install ...`.

The Makefile runs it before anything is installed, so it needs only the standard library. What the command prints
on stdout is not shown, except the names of the packages that pip fetches; stderr is.
"""

import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from queue import Empty, Queue
from threading import Thread

EVERY = 2.5
"""Seconds between two lines."""
_FETCHED = re.compile(r"Collecting ([\w.-]+)|Processing \S*/([^/\s-]+)-\S+\.whl")
_INSTALLED = "Installing collected packages: "


def main(words: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    begun = time.monotonic()
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, errors="replace") as process:
        output: Queue[str | None] = Queue()
        Thread(target=_read, args=(process, output), daemon=True).start()
        try:
            for text in _lines(output):
                print(f"  {time.monotonic() - begun:3.0f} s  {text}", flush=True)
        except KeyboardInterrupt:  # the command got it, too
            process.wait()
            return 130
    return process.returncode


def _read(process: "subprocess.Popen[str]", output: "Queue[str | None]") -> None:
    for line in process.stdout or ():
        output.put(line.strip())
    output.put(None)


def _lines(output: "Queue[str | None]") -> Iterator[str]:
    """Yield what is going on, every few seconds, until the command ends."""
    names: list[str] = []
    doing = "..."
    due = time.monotonic() + EVERY
    while True:
        try:
            line = output.get(timeout=max(0.0, due - time.monotonic()))
        except Empty:
            yield ", ".join(names) or doing
            names.clear()
            due = time.monotonic() + EVERY
            continue
        if line is None:
            break
        if found := _FETCHED.match(line):
            names.append((found[1] or found[2]).rstrip("."))
        elif line.startswith(_INSTALLED):
            packages = line.removeprefix(_INSTALLED).split(", ")
            doing = f"writing {len(packages)} packages to the disk ..."
    if names:
        yield ", ".join(names)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
