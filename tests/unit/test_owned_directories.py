"""What killed sessions of tests leave is removed; what a living process owns stays."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.cluster import wait_for
from tests.support.owned_directories import OwnedDirectory, remove_abandoned

OWNER = """\
import sys, time
from pathlib import Path
from tests.support.owned_directories import OwnedDirectory
(OwnedDirectory("tests", Path(sys.argv[1])).path / "file").touch()
print("ready", flush=True)
time.sleep(600)
"""
SERVER = """\
import sys, tempfile, time
tempfile.tempdir = sys.argv[1]
from tests.support.databases import PostgresServer
print(*PostgresServer().processes(), flush=True)
time.sleep(600)
"""
ROOT = Path(__file__).parents[2]


@contextmanager
def process(code: str, directory: Path) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """Yield a process and the first line that it prints."""
    words = [sys.executable, "-c", code, str(directory)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=ROOT) as started:
        assert started.stdout
        try:
            yield started, started.stdout.readline()
        finally:
            started.kill()


def test_a_directory_goes_only_after_its_owner(tmp_path: Path) -> None:
    own = OwnedDirectory("tests", tmp_path)
    with process(OWNER, tmp_path) as (owner, line):
        assert line == "ready\n"
        assert remove_abandoned(tmp_path) == []
        (other,) = {path for path in tmp_path.glob("dcron-tests-*") if path.is_dir()} - {own.path}
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        assert remove_abandoned(tmp_path) == [other]
    assert not other.exists()
    assert own.path.is_dir()
    own.remove()
    assert not [*tmp_path.glob("dcron-*")]


@pytest.mark.slow
def test_a_server_goes_only_after_its_owner(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)  # the account of the server has to enter it
    with process(SERVER, tmp_path) as (owner, line):
        server = int(line.split()[0])
        assert remove_abandoned(tmp_path) == []
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        assert Path(f"/proc/{server}").exists()
        assert len(remove_abandoned(tmp_path)) == 1
    wait_for(lambda: not Path(f"/proc/{server}/cwd").exists(), 20, "the server has ended")
    assert not [path for path in tmp_path.glob("dcron-*") if path.is_dir()]
