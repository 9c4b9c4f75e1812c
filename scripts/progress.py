"""Run a quiet command, and print every few seconds what it does: `python progress.py pip install ...`.

The Makefile runs it before anything is installed, so it needs only the standard library. Of the command's
stdout it shows pip's steps and the names of the packages that pip fetches; stderr passes through.
"""

import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from queue import Empty, Queue
from textwrap import TextWrapper
from threading import Thread

EVERY = 2.5
"""Seconds between two lines."""
_FETCHED = re.compile(r"Collecting ([\w.-]+)|Processing \S*/([^/\s-]+)-\S+\.whl")
_WRAPPER = TextWrapper(100, subsequent_indent=" " * len("    0 s  "), break_on_hyphens=False)
_STEP = re.compile(r"(.*): started")
_WRITTEN = "Installing collected packages: "


def main(words: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    begun = time.monotonic()
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, errors="replace") as process:
        output: Queue[str | None] = Queue()
        Thread(target=_read, args=(process, output), daemon=True).start()
        try:
            for text in steps(output):
                seconds = f"{time.monotonic() - begun:5.0f} s  "
                print(_WRAPPER.fill(seconds + text), flush=True)
        except KeyboardInterrupt:  # the command got it, too
            process.wait()
            return 130
    return process.returncode


def _read(process: "subprocess.Popen[str]", output: "Queue[str | None]") -> None:
    for line in process.stdout or ():
        output.put(line.strip())
    output.put(None)


def steps(output: "Queue[str | None]") -> Iterator[str]:
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
        elif found := _STEP.match(line):
            doing = f"{found[1].lower()} ..."
        elif line.startswith(_WRITTEN):
            doing = f"writing packages to the disk: {line.count(',') + 1} ..."
    if names:
        yield ", ".join(names)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
