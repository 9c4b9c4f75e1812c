"""Faults of the database itself: crashed, frozen, locked, damaged."""

import os
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from sqlalchemy.engine import make_url

from tests.faults.campaign import checks
from tests.faults.campaign.playing import Figures, fault
from tests.faults.campaign.stage import Stage

PAGE = 4096


@fault("postgres-crash", ("postgres",))
def postgres_crash(stage: Stage) -> Figures:
    """Postgres crashed (immediate) and restarted, again and again."""
    assert stage.server
    stage.begin()
    crashes = 0
    for _ in stage.pauses(2.0, 6.0):
        stage.server.crash()
        time.sleep(stage.chance.choice([0.0, 1.0, 3.0, 8.0]))
        stage.server.start()
        crashes += 1
    return {"crashes": crashes}


@fault("postgres-frozen", ("postgres",))
def postgres_frozen(stage: Stage) -> Figures:
    """Postgres frozen (SIGSTOP of server and backends) for 30 s, much longer than all leases."""
    assert stage.server
    stage.begin()
    time.sleep(3)
    frozen = max(12.0, min(30.0, stage.seconds))
    stage.server.freeze()
    try:
        time.sleep(frozen)
    finally:
        stage.server.thaw()
    return {"frozen for": f"{frozen:g} s"}


@fault("sqlite-locked", ("sqlite",))
def sqlite_locked(stage: Stage) -> Figures:
    """The write lock of the SQLite file held by another process for 30 s."""
    stage.begin()
    time.sleep(3)
    held = max(12.0, min(30.0, stage.seconds))
    with closing(sqlite3.connect(file_of(stage), timeout=30)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        time.sleep(held)
        connection.rollback()
    return {"held for": f"{held:g} s"}


@fault("damaged-page", ("sqlite",), judge=checks.judge_damaged, comes_to_rest=False)
def damaged_page(stage: Stage) -> Figures:
    """The pages of SQLite's tables overwritten with noise: the agents say so, and start nothing more."""
    stage.begin()
    time.sleep(4)
    agents = stage.living()
    for agent in agents:  # no process holds the file while it is damaged
        agent.freeze()
    path = file_of(stage)
    with path.open("r+b") as file:
        for page in range(1, path.stat().st_size // PAGE):
            file.seek(page * PAGE)
            file.write(stage.chance.randbytes(PAGE))
    for agent in agents:
        agent.thaw()
    time.sleep(12)
    reports = sum("is damaged" in agent.log.read_text() for agent in agents)
    stage.expected_exits |= set(range(1, 128)) | {-signal.SIGTERM}
    return {"agents that said so": f"{reports} of {len(agents)}"}


def file_of(stage: Stage) -> Path:
    """The SQLite file."""
    return Path(os.fspath(make_url(stage.cluster.url).database or ""))
