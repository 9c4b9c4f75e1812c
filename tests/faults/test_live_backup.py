"""Backups of the SQLite file while an agent writes to it, by the tools that people use, and restored."""

import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from shutil import which

import pytest

from dcron.model import RunState
from tests.support.cluster import Cluster, cluster, wait_for

BACKUPS = 5
MEGABYTES = 32
QUICK = 12
"""Tasks that start each second: some 50 commits a second."""


def by_program(source: Path, copy: Path) -> None:
    program = which("sqlite3")
    if program is None:
        pytest.skip("there is no program sqlite3 here")
    subprocess.run([program, source, ".timeout 20000", f".backup {copy}"], check=True, timeout=120)


def by_vacuum(source: Path, copy: Path) -> None:
    with closing(sqlite3.connect(source, timeout=20)) as tool:
        tool.execute("VACUUM INTO ?", [str(copy)])


def by_python(source: Path, copy: Path) -> None:
    with closing(sqlite3.connect(source, timeout=20)) as tool, closing(sqlite3.connect(copy)) as target:
        tool.backup(target, pages=100)


@pytest.fixture
def team(sqlite_url: str, tmp_path: Path) -> Iterator[Cluster]:
    with cluster(sqlite_url, tmp_path) as made:
        yield made


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("back_up", [by_program, by_vacuum, by_python])
@pytest.mark.long
def test_a_backup_under_load_is_whole_and_works(
    team: Cluster, tmp_path: Path, back_up: Callable[[Path, Path], None]
) -> None:
    for number in range(QUICK):
        team.add(f"tick-{number}", "@every 1s", team.entry("start"))
    team.start_agent("web-1", lease=20, slots=16)
    wait_for(lambda: len(team.ledger()) > 2 * QUICK, 30, "the agent starts what is due")
    source = team.database.address.path
    assert source
    copies = [tmp_path / f"copy-{number}.db" for number in range(BACKUPS)]
    fill(source)
    for copy in copies:
        go_on(team)
        ended = {run.id for run in team.runs(RunState.SUCCEEDED)}
        back_up(source, copy)
        assert ended <= ended_in(copy), "a run is missing that had ended before the backup began"
    assert ended_in(copies[-1]) > ended_in(copies[0]), "the agent went on"
    team.agents[0].terminate()
    assert team.agents[0].wait(30) == 0
    twice = [each for each, number in team.starts_of_occurrences().items() if number > 1]
    assert twice == []
    restored = tmp_path / "restored"
    restored.mkdir()
    with cluster(f"sqlite:///{copies[-1]}", restored) as after:
        known = len(after.runs(RunState.SUCCEEDED))
        after.start_agent("web-2", lease=4, slots=16)
        wait_for(lambda: len(after.runs(RunState.SUCCEEDED)) > known + 2 * QUICK, 60, "it goes on from there")
        wait_for(lambda: not running_of(after, "web-1"), 30, "what ran on the old node is settled")


def go_on(team: Cluster) -> None:
    """Wait until each task has started again."""
    begun = len(team.ledger())
    wait_for(lambda: len(team.ledger()) > begun + QUICK, 30, "the agent goes on")


def fill(source: Path) -> None:
    """Make the file so large that the agent commits while it is copied."""
    with closing(sqlite3.connect(source, timeout=20)) as other, other:
        other.execute("CREATE TABLE of_another_program (content BLOB)")
        other.executemany("INSERT INTO of_another_program VALUES (randomblob(?))", [(1024**2,)] * MEGABYTES)


def ended_in(copy: Path) -> set[int]:
    """Return the ids of the succeeded runs in a whole copy."""
    with closing(sqlite3.connect(copy)) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert database.execute("PRAGMA foreign_key_check").fetchall() == []
        return {row[0] for row in database.execute("SELECT id FROM runs WHERE state = 'succeeded'")}


def running_of(team: Cluster, name: str) -> list[int]:
    return [run.id for run in team.runs(RunState.CLAIMED, RunState.RUNNING) if run.node == name]
