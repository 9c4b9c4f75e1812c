"""An agent imports nothing and starts no program of its own once it says that it is ready."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli import Dcron
from tests.support.patience import until

# Python's own events. A command is started by the warden, which is another process.
WATCHED = """
import logging, os, sys, threading

ready = threading.Event()

class Ready(logging.Handler):
    def emit(self, record):
        if getattr(record, "event", "") == "node-registered":
            ready.set()
            late.write("ready\\n")

def note(event, arguments):
    if not ready.is_set() or os.getpid() != agent:
        return
    starts = event in ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "os.exec")
    if starts or (event == "import" and arguments[0] not in sys.modules):
        late.write(f"{threading.current_thread().name}: {event} {arguments[0]}\\n")

agent, late = os.getpid(), open(sys.argv.pop(1), "w", buffering=1)
logging.getLogger("dcron.agent").addHandler(Ready())
sys.addaudithook(note)
from dcron.__main__ import main
main()
"""
TASKS = (
    ("plain", "* * * * *", "true"),
    ("seconds", "*/2 * * * * *", "true"),
    ("hashed", "H H * * *", "true"),
    ("spread", "* * * * *", "true", "--jitter", "5s"),
    ("rule", "RRULE:FREQ=DAILY;BYHOUR=9", "true"),
    ("often", "@every 1s", "echo output", "-z", "Europe/Berlin"),
    ("failing", "@every 2s", "exit 3", "--tries", "3", "--backoff", "1s"),
    ("next", "@after plain", "true"),
    ("killed", "* * * * *", "sleep 60", "--timeout", "1s"),
)


@pytest.mark.slow
def test_a_due_time_loads_nothing(dcron: Dcron, tmp_path: Path) -> None:
    for name, *words in TASKS:
        dcron.done("add", "-n", name, *words)
    for name, *_ in TASKS:
        dcron.done("run", name)
    late = tmp_path / "late"
    words = [sys.executable, "-c", WATCHED, str(late), "agent", "--name", "web-1", "--grace", "1s"]
    environment = {**os.environ, "DCRON_DB": dcron.url}
    with subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            until(lambda: len(dcron.done("runs", "--state", "succeeded", "--json").json) > 12)
            until(lambda: dcron.done("runs", "killed", "--state", "failed", "--json").json)
            until(lambda: dcron.done("runs", "failing", "--state", "failed", "--json").json)
        finally:
            process.terminate()
            _, said = process.communicate(timeout=60)
    assert "slots, lease" in said
    before_the_end = [line for line in late.read_text().splitlines() if "MainThread" not in line]
    assert before_the_end == ["ready"]
