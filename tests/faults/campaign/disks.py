"""Disks that are full: small file systems in memory, where this machine lets us mount one."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
from sqlalchemy.engine import make_url

from dcron.database import open_database
from dcron.services.crontab import Crontab
from tests.faults.campaign import audit
from tests.faults.campaign.ledger import Load
from tests.faults.campaign.playing import Figures, NotHere, fault
from tests.faults.campaign.stage import LEASES, Stage
from tests.support.cluster import wait_for
from tests.support.databases import PostgresServer, execute, new_database

BLOCK = b"\0" * 4096


@contextmanager
def small_disk(place: Path, megabytes: int) -> Iterator[Path]:
    """A tmpfs of this size. Raises NotHere where we may not mount."""
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0755", "tmpfs", place], capture_output=True
    )
    if mounted.returncode:
        raise NotHere(f"no tmpfs may be mounted here: {mounted.stderr.decode().strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


@contextmanager
def filled(disk: Path) -> Iterator[None]:
    """The disk full to the last block, and free again afterwards."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        with suppress(OSError):
            while True:
                file.write(BLOCK)
        yield
        filler.unlink()


@fault("disk-full-database")
def disk_full_for_the_database(stage: Stage) -> Figures:
    """The disk of the database's tables full for longer than all leases (tmpfs)."""
    disk = stage.enter(small_disk(stage.directory / "small", 64))
    if stage.server:
        stage.enter(_tables_on(stage, disk))
    else:
        _use(stage, f"sqlite:///{disk / 'dcron.db'}")
    stage.begin()
    time.sleep(3)
    full = max(12.0, min(30.0, stage.seconds))
    end = time.monotonic() + full
    while time.monotonic() < end:  # SQLite gives blocks back, and takes them again
        with filled(disk):
            time.sleep(min(2.0, max(0.0, end - time.monotonic())))
    reports = sum(
        "full" in agent.log.read_text() or "53100" in agent.log.read_text() for agent in stage.living()
    )
    return {"full for": f"{full:g} s", "agents that said so": f"{reports} of {len(stage.living())}"}


@fault("disk-full-log", ("postgres",))
def disk_full_for_the_log(stage: Stage) -> Figures:
    """The disk of all of Postgres's data full (tmpfs): it cannot write its log, crashes, and is restarted."""
    # Not below the directory of the campaign: what runs there is taken for what agents have left.
    place = Path(stage.enter(tempfile.TemporaryDirectory(prefix="dcron-disk-")))
    place.chmod(0o755)
    disk = stage.enter(small_disk(place / "small", 256))
    server = PostgresServer(parent=disk)
    stage.resources.callback(server.close)
    _use(stage, stage.enter(new_database(server.url, stage.directory)))
    stage.begin()
    time.sleep(3)
    full, began = max(12.0, min(30.0, stage.seconds)), time.monotonic()
    with filled(disk):
        with suppress(psycopg.Error):
            while time.monotonic() - began < full:  # until no new file of the log can be made
                execute(server.url, "SELECT pg_logical_emit_message(false, 'x', repeat('x', 8000000))")
                execute(server.url, "SELECT pg_switch_wal()")
        crashed = time.monotonic() - began
        time.sleep(max(0.0, full - crashed))
    stage.require(all(agent.process.poll() is None for agent in stage.agents.values()), "an agent ended")
    wait_for(lambda: _starts(server), 60, "Postgres runs again")
    stage.cluster.database.close()
    return {"full for": f"{full:g} s", "refused after": f"{crashed:.1f} s"}


def _starts(server: PostgresServer) -> bool:
    """Start it again, as a service manager does, and return whether it answers."""
    try:
        server.start()
        execute(server.url, "SELECT 1")
    except (OSError, psycopg.Error, subprocess.SubprocessError):
        return False
    return True


@fault("disk-full-output")
def disk_full_for_output(stage: Stage) -> Figures:
    """The disk of the spools, where output and results wait, full while jobs print (tmpfs)."""
    disk = stage.enter(small_disk(stage.directory / "small", 32))
    for name in LEASES:
        stage.environments[name] = {"DCRON_SPOOL": str(disk / f"spool-{name}")}
    stage.begin()
    chatty = Load("chatty", "@every 1s", 0.2)
    definition = stage.definition(chatty)
    command = f"head -c 300000 /dev/urandom | base64; {definition.command}"
    stage.tasks.append(stage.cluster.add("chatty", "@every 1s", command, env=definition.env))
    time.sleep(3)
    times = 0
    for _ in stage.pauses(1.0, 2.0):
        with filled(disk):
            time.sleep(stage.chance.uniform(2.0, 6.0))
        times += 1
    reports = [run for run in stage.cluster.runs() if "space" in (run.reason or "")]
    stage.require(reports, "no run says that its output was not kept")
    return {"times full": times, "runs that say so": len(reports)}


@contextmanager
def _tables_on(stage: Stage, disk: Path) -> Iterator[None]:
    """The stage's Postgres database in a tablespace on the disk; its log stays where it was."""
    assert stage.server
    place, name = disk / "tables", make_url(stage.cluster.url).database
    place.mkdir()
    if os.geteuid() == 0:
        shutil.chown(place, "pgserver")
    for parent in (stage.directory, disk):
        parent.chmod(0o755)
    stage.cluster.database.close()

    def say(*statements: str) -> None:
        with psycopg.connect(stage.server.url, autocommit=True) as connection:  # type: ignore[union-attr]
            for statement in statements:
                connection.execute(statement.encode())

    say(f"CREATE TABLESPACE small LOCATION '{place}'", f"ALTER DATABASE {name} SET TABLESPACE small")
    try:
        yield
    finally:
        stage.cluster.database.close()
        say(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'",
            f"ALTER DATABASE {name} SET TABLESPACE pg_default",
            "DROP TABLESPACE small",
        )


def _use(stage: Stage, url: str) -> None:
    """Go on with another database, as empty as the first."""
    stage.cluster.database.close()
    stage.cluster.url = url
    stage.cluster.database = open_database(url, patience=30)
    stage.cluster.crontab = Crontab(stage.cluster.database, "tester@here")
    audit.install(stage.cluster.database)
