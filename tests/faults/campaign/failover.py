"""Failovers of Postgres: a primary that dies, and a standby that takes over at the same address."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from sqlalchemy.engine import make_url

from tests.faults.campaign import forgetting
from tests.faults.campaign.network import behind_proxies
from tests.faults.campaign.playing import Figures, NotHere, fault
from tests.faults.campaign.stage import Stage
from tests.support.cluster import wait_for
from tests.support.databases import PostgresServer
from tests.support.proxy import Proxy

STANDBY = "dcron_standby"


class Standby(PostgresServer):
    """A copy of a server that follows it, and can take over."""

    def __init__(self, primary: PostgresServer, place: Path) -> None:
        """Copy the running primary into a directory of the account it runs as."""
        self._data = place / "data"
        self._place = place
        self._account = pwd.getpwuid(primary.data.stat().st_uid).pw_name
        self._programs = primary.programs
        self._url = primary.url
        if not (self._programs / "pg_basebackup").exists():
            raise NotHere(f"{self._programs} has no pg_basebackup")
        if os.geteuid() == 0:
            shutil.chown(place, self._account)
        source = f"host={Path(primary.socket).parent} user=postgres application_name={STANDBY}"
        self._run("pg_basebackup", "-D", str(self._data), "-R", "-X", "stream", "-c", "fast", "-d", source)
        self.start()

    @property
    def url(self) -> str:
        return make_url(self._url).set(query={"host": str(self._place)}).render_as_string(hide_password=False)

    @property
    def data(self) -> Path:
        return self._data

    @property
    def programs(self) -> Path:
        return self._programs

    def processes(self) -> list[int]:
        pid = int((self._data / "postmaster.pid").read_text().split()[0])
        return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]

    def start(self) -> None:
        options = f'-h "" -k {self._place}'
        log = str(self._place / "log")
        self._run("pg_ctl", "-w", "-o", options, "-l", log, "-D", str(self._data), "start")

    def promote(self) -> None:
        """Let it take over; returns when it does."""
        self._run("pg_ctl", "-w", "-D", str(self._data), "promote")

    def close(self) -> None:
        self._run("pg_ctl", "-w", "-m", "immediate", "-D", str(self._data), "stop")

    def _run(self, program: str, *arguments: str) -> None:
        # Its output goes to files: a server that it starts would keep a pipe open.
        account = self._account if os.geteuid() == 0 else None
        with tempfile.TemporaryFile() as said:
            done = subprocess.run(
                [self._programs / program, *arguments],
                user=account,
                cwd="/",
                stdout=said,
                stderr=said,
                timeout=60,
                check=False,
            )
            said.seek(0)
            if done.returncode:
                raise RuntimeError(f"{program}: {said.read().decode(errors='replace')}")


@fault("failover-sync", ("postgres",))
def failover_sync(stage: Stage) -> Figures:
    """The Postgres primary dies, and its synchronous standby takes over."""
    with _pair(stage, synchronous=True) as pair:
        time.sleep(stage.seconds / 2)
        return _fail_over(stage, *pair, forget=0.0)


@fault("failover-async", ("postgres",), judge=forgetting.judge)
def failover_async(stage: Stage) -> Figures:
    """The Postgres primary dies, and a standby takes over that lacks the last two seconds."""
    with _pair(stage, synchronous=False) as pair:
        time.sleep(stage.seconds / 2)
        return _fail_over(stage, *pair, forget=2.0)


@contextmanager
def _pair(stage: Stage, *, synchronous: bool) -> Iterator[tuple[Standby, list[Proxy]]]:
    """The campaign's agents behind one address, with a standby that follows the server."""
    primary = stage.server
    assert primary
    standby = stage.enter(_standby(primary, synchronous=synchronous))
    proxies = behind_proxies(stage)
    yield standby, proxies


@contextmanager
def _standby(primary: PostgresServer, *, synchronous: bool) -> Iterator[Standby]:
    """The standby; afterwards the primary is there again, as others know it."""
    with tempfile.TemporaryDirectory(prefix="dcron-standby-", ignore_cleanup_errors=True) as place:
        standby = Standby(primary, Path(place))
        wait_for(lambda: _walsenders(primary), 20, "the standby follows")
        if synchronous:
            _configure(primary, f"SET synchronous_standby_names = '{STANDBY}'")
        try:
            yield standby
        finally:
            standby.close()
            primary.start()
            _configure(primary, "RESET synchronous_standby_names")


def _fail_over(stage: Stage, standby: Standby, proxies: list[Proxy], forget: float) -> Figures:
    """Let the standby take over, without what the primary committed in the last `forget` seconds."""
    primary = stage.server
    assert primary
    if forget:
        for pid in _walsenders(primary):
            os.kill(pid, signal.SIGSTOP)
        time.sleep(forget)
    primary.crash()
    standby.promote()
    stage.server = standby
    for proxy in proxies:
        proxy.upstream = standby.socket
        proxy.cut()
    name = make_url(stage.cluster.url).database
    stage.cluster.move(make_url(standby.url).set(database=name).render_as_string(hide_password=False))
    time.sleep(stage.seconds / 2)
    return {"failovers": 1, **forgetting.epochs_of(stage)}


def _walsenders(server: PostgresServer) -> list[int]:
    with psycopg.connect(server.url, autocommit=True) as connection:
        query = "SELECT pid FROM pg_stat_replication WHERE state = 'streaming'"
        return [row[0] for row in connection.execute(query)]


def _configure(server: PostgresServer, setting: str) -> None:
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"ALTER SYSTEM {setting}".encode())
        connection.execute("SELECT pg_reload_conf()")
