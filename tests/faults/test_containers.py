"""An agent and the command line in containers: any account number, no home directory, process 1."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import wait_for
from tests.support.patience import PATIENCE
from tests.support.processes import outcome

UID = "12345"
# The account may read the interpreter, wherever that is installed, and nothing else that is not its own.
AS_ANYONE = (
    *("setpriv", "--reuid", UID, "--regid", UID, "--clear-groups"),
    *("--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"),
)
DCRON = (sys.executable, "-m", "dcron")
needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv") or not shutil.which("unshare"),
    reason="needs root, setpriv and unshare (util-linux)",
)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A directory that the account may use; pytest's own keeps it out."""
    directory = Path("/tmp") / f"dcron-container-{os.getpid()}"
    directory.mkdir(mode=0o777)
    directory.chmod(0o777)
    yield directory
    shutil.rmtree(directory)


def environment(place: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "DCRON_DB": f"sqlite:///{place / 'dcron.db'}",
        "DCRON_SPOOL": str(place / "spool"),
    }


def as_anyone(place: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return outcome([*AS_ANYONE, *DCRON, *words], env=environment(place), cwd=place)


@pytest.mark.long
@needs_root
@pytest.mark.timeout(300)
def test_every_verb_works_without_a_name_and_a_home(place: Path) -> None:
    steps = (
        ("db", "init"),
        ("add", "-n", "one", "0 0 1 1 *", "echo home is $HOME"),
        ("run", "one"),
        ("agent", "--once", "--grace", "1s"),
        ("logs", "one"),
        *(("list",), ("runs",), ("view", "one"), ("why", "one"), ("nodes",), ("info",), ("export",)),
        *(("pause", "one"), ("resume", "one"), ("dead",), ("queue", "list"), ("calendar", "list")),
        ("in", "1h", "-n", "soon", "true"),
        ("rm", "soon", "-f"),
    )
    said = {}
    for words in steps:
        done = as_anyone(place, *words)
        assert done.returncode == 0, f"{words}: {done.stderr}"
        assert done.stderr.count("warning: other accounts can change the database") == 1
        said[words[0]] = done.stdout
    assert "home is /" in said["logs"]
    assert f"by {UID}@" in said["view"]
    for words in (("tui",), ("edit",)):  # they need a terminal, and say so
        assert as_anyone(place, *words).returncode == 1


@needs_root
def test_an_account_without_a_home_gets_a_hint(place: Path) -> None:
    for missing in ("DCRON_DB", "DCRON_SPOOL"):
        given = {name: value for name, value in environment(place).items() if name != missing}
        words = [*AS_ANYONE, *DCRON, "agent", "--once"]
        done = outcome(words, env=given, cwd=place)
        assert done.returncode == 2
        assert missing in done.stderr
        assert "mistake" not in done.stderr


@needs_root
def test_as_root_it_uses_no_volume_that_everyone_can_write(place: Path) -> None:
    words = [*DCRON, "agent", "--once"]
    refused = outcome(words, env=environment(place))
    assert refused.returncode == 1
    assert f"type: chmod go-w {place}" in refused.stderr
    assert not list(place.iterdir())
    place.chmod(0o755)
    subprocess.run(words, env=environment(place), capture_output=True, timeout=60, check=True)


@needs_root
@pytest.mark.timeout(120)
def test_as_process_1_it_reaps_orphans_and_stops_when_asked_to(place: Path) -> None:
    place.chmod(0o755)  # root uses no volume that everyone can write
    words = [
        "unshare",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        *DCRON,
        "agent",
        "--lease",
        "4s",
        "--grace",
        "1s",
    ]
    log = place / "log"
    with log.open("wb") as stream:
        outside = subprocess.Popen(words, env=environment(place), cwd=place, stderr=stream)
    try:
        wait_for(lambda: "slots" in log.read_text(), 60, "it is up")
        agent = int(Path(f"/proc/{outside.pid}/task/{outside.pid}/children").read_text().split()[0])
        enter = ["nsenter", "--target", str(agent), "--pid", "--mount", "sh", "-c"]
        for _ in range(5):
            subprocess.run([*enter, "(sleep 0.2 &) ; exit 0"], check=True, timeout=60)
        time.sleep(0.5)
        wait_for(lambda: zombies(agent) == 0, 15, "orphans are reaped")
        assert outside.poll() is None
        assert "warden died" not in log.read_text()
        os.kill(agent, signal.SIGTERM)
        assert outside.wait(PATIENCE) == 0
    finally:
        if outside.poll() is None:
            outside.kill()
            outside.wait(PATIENCE)


def zombies(parent: int) -> int:
    found = 0
    for thread in Path(f"/proc/{parent}/task").iterdir():
        for pid in (thread / "children").read_text().split():
            stat = Path(f"/proc/{pid}/stat")
            found += stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z"
    return found
