"""Other programs that use the SQLite file of running agents: they set its journal mode, and copy it."""

import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path

from dcron.database import open_database
from dcron.services.crontab import Crontab
from tests.faults.campaign.playing import Figures, fault
from tests.faults.campaign.stage import Stage


@fault("wal-by-others", ("sqlite",))
def wal_by_others(stage: Stage) -> Figures:
    """Another tool sets the write-ahead log of the file and back, and backs it up, under running agents."""
    stage.begin()
    path = stage.cluster.database.address.path
    assert path
    set_up = backups = 0
    for _ in stage.pauses(0.5, 1.5):
        with closing(sqlite3.connect(path, timeout=2, isolation_level=None)) as tool:
            for mode in stage.chance.sample(["wal", "delete"], 2):
                with suppress(sqlite3.OperationalError):  # the file is in use
                    set_up += tool.execute(f"PRAGMA journal_mode = {mode}").fetchone() == (mode,)
                tool.execute("SELECT count(*) FROM runs").fetchone()
                _require_verbs(stage)
                time.sleep(stage.chance.uniform(0.1, 1.0))
            backups += _back_up(stage, tool, stage.directory / "copy.db")
    with closing(sqlite3.connect(path)) as left:
        found = left.execute("PRAGMA integrity_check").fetchone()
    stage.require(found == ("ok",), f"the file is damaged: {found}")
    stage.require(set_up > 1, "no mode was ever set")
    return {"modes set": set_up, "backups": backups}


def _require_verbs(stage: Stage) -> None:
    """A program that is started now must be able to use the file."""
    with closing(open_database(stage.cluster.url)) as database:
        stage.require(any(Crontab(database, "tester@here").tasks()), "a new program sees no tasks")


def _back_up(stage: Stage, tool: sqlite3.Connection, copy: Path) -> int:
    """Copy the file while it is written to, as `.backup` does; the copy must be a whole crontab."""
    with closing(sqlite3.connect(copy)) as target:
        tool.backup(target)
    with closing(open_database(f"sqlite:///{copy}")) as database:
        copied = list(Crontab(database, "tester@here").tasks())
        stage.require(len(copied) == len(stage.tasks), "a backup lacks tasks")
        with database.read() as connection:
            stage.require(database.damage(connection) is None, "a backup is damaged")
    copy.unlink()
    return 1
