"""A backup of the database that is put back while the agents run."""

import os
import shutil
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from sqlalchemy.engine import make_url

from tests.faults.campaign import forgetting
from tests.faults.campaign.playing import Figures, NotHere, fault
from tests.faults.campaign.stage import Stage


@fault("restore", judge=forgetting.judge)
def restore(stage: Stage) -> Figures:
    """A backup put back under running agents: mv, cp and SQLite's own restore, or psql of a dump."""
    stage.begin()
    ways = _postgres_ways(stage) if stage.server else _sqlite_ways(stage)
    for put_back in ways:
        time.sleep(2.0)
        backup = _dump(stage) if stage.server else _copy(stage)
        time.sleep(max(4.0, stage.seconds / len(ways)))
        put_back(backup)
        stage.cluster.database.close()
        time.sleep(4.0)
    return {"restores": len(ways), **forgetting.epochs_of(stage)}


def _path(stage: Stage) -> Path:
    path = stage.cluster.database.address.path
    assert path
    return path


def _copy(stage: Stage) -> Path:
    backup = stage.directory / "backup.db"
    backup.unlink(missing_ok=True)
    with closing(sqlite3.connect(_path(stage), timeout=30)) as connection:
        connection.execute("VACUUM INTO ?", [str(backup)])
    return backup


def _sqlite_ways(stage: Stage) -> list[Callable[[Path], None]]:
    def move(backup: Path) -> None:
        backup.replace(_path(stage))

    def write_over(backup: Path) -> None:
        shutil.copyfile(backup, _path(stage))

    def by_sqlite(backup: Path) -> None:
        with (
            closing(sqlite3.connect(backup)) as source,
            closing(sqlite3.connect(_path(stage), timeout=30)) as target,
        ):
            source.backup(target)

    return [move, by_sqlite, write_over]


def _dump(stage: Stage) -> Path:
    dump = stage.directory / "dump.sql"
    _run(stage, "pg_dump", "--clean", "--if-exists", "--no-owner", "-f", str(dump))
    return dump


def _postgres_ways(stage: Stage) -> list[Callable[[Path], None]]:
    def replay(dump: Path) -> None:
        for _ in range(10):
            try:  # the agents' locks and the restore's may meet, and one of them gives way
                return _run(stage, "psql", "-q", "-1", "-v", "ON_ERROR_STOP=1", "-f", str(dump))
            except RuntimeError as error:
                if "deadlock" not in str(error):
                    raise
        raise AssertionError("the dump was not restored in ten attempts")

    return [replay, replay]


def _run(stage: Stage, program: str, *arguments: str) -> None:
    assert stage.server
    path = stage.server.programs / program
    if not path.exists():
        raise NotHere(f"{path.parent} has no {program}")
    url = make_url(stage.cluster.url)
    where = ["-h", str(url.query["host"]), "-U", "postgres", "-d", str(url.database)]
    with tempfile.TemporaryFile() as said:
        done = subprocess.run(
            [path, *where, *arguments],
            stdout=said,
            stderr=said,
            timeout=60,
            check=False,
            env=dict(os.environ),
        )
        said.seek(0)
        if done.returncode:
            raise RuntimeError(f"{program}: {said.read().decode(errors='replace')}")
