"""An agent of root beside files that another account made: the database, a config file, and the spool."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dcron.model import RunState
from tests.support.cluster import Cluster, wait_for
from tests.support.processes import outcome

ACCOUNT = f"dcron-{os.getpid()}"
NEVER = "0 0 1 1 *"
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make an account")


@pytest.fixture
def account() -> Iterator[str]:
    """An account of this machine."""
    subprocess.run(["useradd", "--no-create-home", "--home-dir", "/nonexistent", ACCOUNT], check=True)
    yield ACCOUNT
    subprocess.run(["userdel", "--force", ACCOUNT], check=False)


@pytest.fixture
def place(account: str, tmp_path: Path) -> Iterator[Path]:
    """A folder that the account may enter, and one of its own in it."""
    place = Path(f"/tmp/dcron-foreign-{os.getpid()}")
    place.mkdir(mode=0o755)
    (place / "theirs").mkdir()
    subprocess.run(["chown", account, place / "theirs"], check=True)
    yield place
    subprocess.run(["rm", "-rf", place], check=True)


def dcron(*words: str, by: str | None = None, **env: str) -> "subprocess.CompletedProcess[str]":
    """Run dcron, as root or as the account; that one still reads the interpreter, wherever it is."""
    become: tuple[str, ...] = ("setpriv", f"--reuid={by}", f"--regid={by}", "--clear-groups")
    become += ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
    return outcome(
        [*(become if by else ()), sys.executable, "-m", "dcron", *words],
        env={"PATH": os.environ["PATH"], "DCRON_SPOOL": "/nonexistent", **env},
        cwd="/",
    )


def plant(url: str, mark: Path) -> None:
    """Let the account put a task there that is due at once for any agent."""
    add = dcron("--db", url, "add", "-n", "evil", NEVER, f"id -u > {mark}", by=ACCOUNT)
    assert add.returncode == 0, add.stderr
    run = dcron("--db", url, "run", "evil", by=ACCOUNT)
    assert run.returncode == 0, run.stderr


def test_a_database_that_another_account_made_in_a_shared_folder_is_refused(place: Path) -> None:
    drop, mark = place / "drop", place / "theirs" / "mark"
    drop.mkdir()
    drop.chmod(0o1777)
    url = f"sqlite:///{drop / 'x.db'}"
    plant(url, mark)
    refused = dcron("agent", "--once", "--db", url, DCRON_SPOOL=str(place / "spool"))
    assert refused.returncode == 1
    assert f"{drop / 'x.db'} belongs to {ACCOUNT}" in refused.stderr
    assert "type: chown root" in refused.stderr
    assert not mark.exists()
    seen = dcron("list", "--names", "--db", url)
    assert (seen.returncode, seen.stdout) == (0, "evil\n")
    assert seen.stderr.count("warning: other accounts can change the database") == 1
    # Its own account goes on working, in a folder where others can make files: with a warning.
    own = dcron("agent", "--once", "--db", url, by=ACCOUNT, DCRON_SPOOL=str(place / "theirs" / "spool"))
    assert own.returncode == 0, own.stderr
    assert own.stderr.count("warning: other accounts can change the database") == 1
    assert mark.read_text() != "0\n"


@pytest.mark.parametrize("kept", [True, False])
def test_the_config_file_of_a_kept_home_does_not_choose_what_root_runs(place: Path, *, kept: bool) -> None:
    """Where sudo keeps $HOME, and where $DCRON_CONFIG names the file."""
    home, mark = place / "theirs", place / "theirs" / "mark"
    url = f"sqlite:///{home / 'x.db'}"
    plant(url, mark)
    config = home / ".config" / "dcron" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'database = "{url}"\n')
    subprocess.run(["chown", "-R", ACCOUNT, home / ".config"], check=True)
    given = {"HOME": str(home)} if kept else {"DCRON_CONFIG": str(config)}
    refused = dcron("agent", "--once", DCRON_SPOOL=str(place / "spool"), **given)
    assert refused.returncode == 1
    assert f"root does not read the config file {config}" in refused.stderr
    assert ("sudo -H" in refused.stderr) is kept
    assert not mark.exists()
    listed = dcron("list", **given)
    assert listed.returncode == 2
    assert "it may name the database: name it with --db or $DCRON_DB" in listed.stderr
    elsewhere = dcron("db", "init", "--db", f"sqlite:///{place / 'own.db'}", **given)
    assert elsewhere.returncode == 0
    assert "warning: root does not read the config file" in elsewhere.stderr


def test_a_spool_of_another_account_is_refused(place: Path) -> None:
    url = f"sqlite:///{place / 'own.db'}"
    refused = dcron("agent", "--once", "--db", url, DCRON_SPOOL=str(place / "theirs"))
    assert refused.returncode == 1
    assert (
        f"does not use the spool {place / 'theirs'}: the folder {place / 'theirs'} belongs" in refused.stderr
    )
    assert not list((place / "theirs").iterdir())


@pytest.mark.parametrize("how", ["owner", "mode", "link"])
@pytest.mark.usefixtures("account")
@pytest.mark.long
def test_another_account_s_node_directory_kills_nothing(
    team: Cluster, tmp_path: Path, place: Path, how: str
) -> None:
    """It has the name of a living node; as a spool left behind, that node's commands would be killed."""
    team.start_agent("one", "--grace", "1s", lease=5)
    team.wait_until_alive(1)
    team.crontab.run(team.add("job", NEVER, "sleep 300"))
    wait_for(lambda: team.runs(RunState.RUNNING), 15, "it runs")
    (node,) = team.alive()
    (run,) = team.runs(RunState.RUNNING)
    (tmp_path / "spool-two").mkdir()
    forged = tmp_path / "spool-two" / node.id
    real = place / "theirs" / "forged" if how == "link" else forged
    real.mkdir()
    (real / "dcron.lock").touch()
    (real / f"{run.id}.0").write_bytes(b"backup completed OK")
    if how == "link":
        forged.symlink_to(real)
    if how == "mode":
        real.chmod(0o777)
    else:
        subprocess.run(["chown", "-R", ACCOUNT, real], check=True)
    second = team.start_agent("two", lease=5)
    team.wait_until_alive(2)
    refusal = f"what is in {forged} is not recorded"
    wait_for(lambda: refusal in second.log.read_text(), 15, "it has looked")
    time.sleep(3)  # heartbeats, at each of which it looks again
    assert [each.id for each in team.runs(RunState.RUNNING, task="job")] == [run.id]
    assert second.log.read_text().count(refusal) == 1
    assert (real / f"{run.id}.0").read_bytes() == b"backup completed OK"
    os.kill(second.process.pid, signal.SIGTERM)
    assert second.wait(20) == 0
