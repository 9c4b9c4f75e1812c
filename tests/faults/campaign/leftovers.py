"""What a campaign must not leave behind: processes, files, connections."""

import time
from pathlib import Path

import psycopg
from sqlalchemy.engine import make_url

from tests.faults.campaign.stage import Stage

MEMORY = ("seen.json", "policy-grace")
"""The files that a spool keeps: what its agents have seen of the database, and since when a policy holds."""
_PATIENCE = 3.0
"""Seconds that the last of what was killed has to vanish from the lists."""


def found(stage: Stage) -> list[str]:
    """All that is left, when every agent has ended."""
    deadline = time.monotonic() + _PATIENCE
    while (left := _left(stage)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


def _left(stage: Stage) -> list[str]:
    return [*processes(stage), *_files(stage), *_connections(stage)]


def processes(stage: Stage) -> list[str]:
    """Processes of the campaign that still live."""
    return [f"process {pid} is left: {found}" for pid, found in marked_processes(str(stage.directory))]


def marked_processes(marker: str) -> list[tuple[int, str]]:
    """Living processes with the text in their command line, or as $CAMPAIGN, each with its command."""
    marked = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            command, environment = _read(entry / "cmdline"), _read(entry / "environ")
            if marker.encode() in command or f"CAMPAIGN={marker}".encode() in environment:
                marked.append((int(entry.name), command.replace(b"\0", b" ").decode(errors="replace")[:200]))
    return marked


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _files(stage: Stage) -> list[str]:
    temporary = [*(stage.directory / "temporary").glob("*")]
    spools = [entry for spool in stage.directory.glob("**/spool-*") for entry in spool.rglob("*")]
    left = temporary + [path for path in spools if path.name not in MEMORY]
    return [f"file {path.relative_to(stage.directory)} is left" for path in left]


def _connections(stage: Stage) -> list[str]:
    if stage.server is None:
        return []
    name = make_url(stage.cluster.url).database
    stage.cluster.database.close()  # our own
    query = b"SELECT application_name FROM pg_stat_activity WHERE datname = %s"
    with psycopg.connect(stage.server.url, autocommit=True) as connection:
        rows = connection.execute(query, (name,)).fetchall()
    return [f"a database connection of {row[0]!r} is left" for row in rows]


def lasting_zombies(pids: list[int]) -> int:
    """How many dead children these processes, agents or wardens, do not wait for."""
    deadline = time.monotonic() + _PATIENCE
    while (count := _zombies_of(pids)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return count


def _zombies_of(pids: list[int]) -> int:
    count = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (stat := _read(entry / "stat")):
            state, parent, *_ = stat.rpartition(b")")[2].split()
            count += state == b"Z" and int(parent) in pids
    return count
