"""Agents of the previous release, out of git's history, while the tables become those of this release."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from sqlalchemy import text

from dcron import migrations
from tests.faults.campaign import audit, ledger
from tests.faults.campaign.ledger import USUAL
from tests.faults.campaign.playing import Figures, NotHere, fault
from tests.faults.campaign.stage import LEASES, Stage
from tests.support.cluster import wait_for

PREVIOUS_RELEASE = os.environ.get("DCRON_PREVIOUS_RELEASE", "a66ca14b")
"""A commit, tag or branch; that one is the last with the oldest tables that can be upgraded."""
NEWER_TABLES = 3
"""The exit code of an agent that meets tables of a newer release, when its runs have ended."""
_ROOT = Path(__file__).parents[3]
_MAKE = """
import json, sys
from dcron.database import Database
from dcron.model import Definition
from dcron.services.crontab import Crontab
database = Database(sys.argv[1])
Crontab(database, "tester@here").import_tasks([Definition(**line) for line in json.load(open(sys.argv[2]))])
database.close()
"""


@fault("rolling-upgrade")
def rolling_upgrade(stage: Stage) -> Figures:
    """The tables are upgraded under agents of the previous release: they end, and new ones take over."""
    older = {"PYTHONPATH": str(previous_release(stage.directory / "previous") / "src")}
    _make_tables(stage, older)
    for name in LEASES:
        stage.environments[name] = older
        stage.start(name)
    wait_for(lambda: _count(stage, "nodes WHERE died_at IS NULL") == len(LEASES), 60, "the old ones live")
    wait_for(lambda: _count(stage, "runs WHERE state = 'running'"), 30, "they run tasks")
    time.sleep(stage.seconds / 2)
    before = migrations.upgrade(stage.cluster.database)
    stage.tasks += stage.cluster.crontab.tasks()
    time.sleep(3)  # a claim that was under way is started
    newest = _count(stage, "runs WHERE started_at IS NOT NULL")
    time.sleep(max(LEASES.values()))
    taken = _count(stage, "runs WHERE started_at IS NOT NULL") - newest
    draining = _count(stage, "nodes WHERE draining")
    stage.require(
        draining == len(LEASES), f"{draining} agents of the previous release are marked as draining"
    )
    stage.require(taken == 0, f"agents of the previous release took {taken} runs from newer tables")
    for name, agent in list(stage.agents.items()):
        said = agent.log.read_text()
        stage.require("Traceback" not in said, f"{name} of the previous release broke: {said[-300:]}")
        ended = agent.wait(60)
        stage.require(ended == NEWER_TABLES, f"{name} of the previous release ended with {ended}")
        del stage.agents[name], stage.environments[name]
        stage.start(f"new-{name}")
    wait_for(lambda: len(stage.cluster.alive()) == len(LEASES), 60, "the new ones live")
    time.sleep(stage.seconds / 2)
    stage.expected_exits.add(NEWER_TABLES)
    lost = _count(stage, "runs WHERE state = 'lost'")
    return {"from version": before, "lost": lost}


def previous_release(directory: Path) -> Path:
    """Write the previous release's files below the directory. Raises NotHere where git does not have it."""
    directory.mkdir()
    archive = directory / "release.tar"
    words = ["git", "-C", str(_ROOT), "archive", "--output", str(archive), PREVIOUS_RELEASE, "src"]
    try:
        subprocess.run(words, check=True, capture_output=True, text=True, timeout=60)
        subprocess.run(["tar", "-xf", str(archive), "-C", str(directory)], check=True, timeout=60)
    except FileNotFoundError as error:
        raise NotHere(f"{error.filename} is not installed") from None
    except subprocess.CalledProcessError as error:
        said = (error.stderr or "").strip().splitlines()
        raise NotHere(f"git has no {PREVIOUS_RELEASE} here: {said[0] if said else error}") from None
    return directory


def _make_tables(stage: Stage, older: dict[str, str]) -> None:
    """Let the previous release make the tables and write the tasks, in place of those that are there."""
    database = stage.cluster.database
    if database.address.path:
        database.close()
        database.address.path.unlink()
    else:
        with database.write() as connection:
            connection.execute(text("DROP SCHEMA IF EXISTS dcron CASCADE"))
            connection.execute(text("DROP SCHEMA public CASCADE"))
            connection.execute(text("CREATE SCHEMA public"))
        database.close()  # a new connection looks for the tables where the previous release puts them
    ledger.write_script(stage.directory)
    lines = stage.directory / "lines.json"
    facts = [
        {"name": line.name, "schedule": line.schedule, "timezone": "UTC", **line.fields}
        | {"command": line.command(stage.directory), "env": {"CAMPAIGN": str(stage.directory)}}
        for line in USUAL
    ]
    lines.write_text(json.dumps(facts))
    words = [sys.executable, "-c", _MAKE, stage.cluster.url, str(lines)]
    subprocess.run(words, check=True, env={**os.environ, **older}, timeout=60)
    audit.install(database)


def _count(stage: Stage, what: str) -> int:
    with stage.cluster.database.read() as connection:
        return int(connection.scalar(text(f"SELECT count(*) FROM {what}")) or 0)
