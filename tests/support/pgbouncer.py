"""A real pgbouncer before a server of our own."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlalchemy.engine import make_url

from tests.support.cluster import wait_for
from tests.support.databases import PostgresServer

_SETTINGS = """
[databases]
* = host={host} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = {size}
max_client_conn = 200
logfile = {log}
"""


def program() -> str | None:
    """Return the path of pgbouncer; None where it is not installed."""
    return shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")


class PgBouncer:
    """One process of it, which can be killed and started again at the same port."""

    def __init__(self, server: PostgresServer, mode: str, size: int, place: Path) -> None:
        self._server = server
        self.port = free_port()
        self._settings = place / "pgbouncer.ini"
        host = make_url(server.url).query["host"]
        facts = {"host": host, "port": self.port, "mode": mode, "size": size, "log": place / "log"}
        self._settings.write_text(_SETTINGS.format(**facts))
        self.start()

    def start(self) -> None:
        # The server's account: pgbouncer refuses to run as root.
        user = Path(self._server.socket).owner() if os.geteuid() == 0 else None
        silent = subprocess.DEVNULL
        words = [program() or "pgbouncer", "-q", str(self._settings)]
        self._process = subprocess.Popen(words, user=user, stdout=silent, stderr=silent)
        wait_for(self._answers, 10, "pgbouncer listens")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(10)

    def url(self, database: str, **query: str) -> str:
        """Return the URL of a database of the server, through the pooler."""
        url = make_url(database).set(host="127.0.0.1", port=self.port, username="postgres", query=query)
        return url.render_as_string(hide_password=False)

    def _answers(self) -> bool:
        with socket.socket() as tried, suppress(OSError):
            return tried.connect_ex(("127.0.0.1", self.port)) == 0
        return False


@contextmanager
def pgbouncer(server: PostgresServer, mode: str, size: int) -> Iterator[PgBouncer]:
    """Start one in this mode, with so many connections to the server for all clients."""
    with tempfile.TemporaryDirectory(prefix="dcron-pgbouncer-") as directory:
        Path(directory).chmod(0o777)  # for the server's account
        pooler = PgBouncer(server, mode, size, Path(directory))
        try:
            yield pooler
        finally:
            pooler.kill()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
