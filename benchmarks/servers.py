"""Databases for benchmarks: a new one for each measurement, named by its kind."""

import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests.support import databases


def postgres_server() -> AbstractContextManager[str]:
    """The URL of a Postgres server with its default settings: $DCRON_TEST_POSTGRES, else one from a wheel."""
    return databases.postgres_server(durable=True)


@contextmanager
def new_database(kind: str, server: str) -> Iterator[str]:
    """The URL of an empty database; `kind` is sqlite or postgres."""
    with (
        tempfile.TemporaryDirectory() as directory,
        databases.new_database(server if kind == "postgres" else None, Path(directory)) as url,
    ):
        yield url
