"""Databases for benchmarks: a new one for each measurement, named by its kind."""

import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import psycopg
from sqlalchemy.engine import make_url

# The support of tests loads pytest, which would count as memory of the measured processes.


def postgres_server() -> AbstractContextManager[str]:
    """The URL of a Postgres server with its default settings: $DCRON_TEST_POSTGRES, else one from a wheel."""
    from tests.support import databases

    return databases.postgres_server(durable=True)


@contextmanager
def new_database(kind: str, server: str) -> Iterator[str]:
    """The URL of an empty database; `kind` is sqlite or postgres."""
    from tests.support import databases

    with (
        tempfile.TemporaryDirectory() as directory,
        databases.new_database(server if kind == "postgres" else None, Path(directory)) as url,
    ):
        yield url


def server_process(server: str) -> list[int]:
    """Return the main process of a Postgres server, or nothing if it runs on another machine."""
    with psycopg.connect(server) as connection:
        backend = Path(f"/proc/{connection.info.backend_pid}/stat")
        try:
            name, _, fields = backend.read_text().rpartition(") ")
        except OSError:
            return []
    return [int(fields.split()[1])] if name.endswith("(postgres") else []


def server_socket(server: str) -> str | None:
    """Return the path of the Unix socket in a server's URL, if it names one."""
    directory = make_url(server).query.get("host")
    return f"{directory}/.s.PGSQL.5432" if directory else None
