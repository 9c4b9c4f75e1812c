"""A crontab as a shop might have it, with a history: for snapshots and for the pictures in the README."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import insert

from dcron.model import RunState, Task
from dcron.policy.starting import occurrences
from dcron.schema.tables import runs
from dcron.store.runs import output
from dcron.values.lists import Chunk
from tests.support.stage import Stage

NODES = ("web-1", "web-2", "db-1")
_TAGS: Sequence[list[str]] = (["ssd"], [], ["ssd", "zone=eu-1"])
_CLOCKS = (0.0, 0.1, -2.6)
"""Seconds the nodes' clocks are ahead."""
_STATES = {
    "+": RunState.SUCCEEDED,
    "x": RunState.FAILED,
    "?": RunState.LOST,
    ",": RunState.SKIPPED,
    ":": RunState.CANCELLED,
}


@dataclass(frozen=True)
class Line:
    """A task, its duration, and the results of its last runs, the latest at the end."""

    name: str
    schedule: str
    zone: str
    command: str
    seconds: float
    went: str
    describe: str | None = None
    queue: str = "default"


LINES: Sequence[Line] = (
    Line(
        *("backup-db", "30 2 * * *", "Europe/Berlin", "pg_dump shop | gzip > /srv/backup/shop.gz", 412),
        *("++++++++++", "The shop's database, every night."),
    ),
    Line("billing-close", "0 0 1 * *", "Europe/Berlin", "close-month", 1840, "++++++++++"),
    Line("cert-renew", "17 4 * * mon", "UTC", "certbot renew --quiet", 9, "+++++x++++"),
    Line("digest-mail", "0 9 * * mon-fri", "America/New_York", "digest --weekday", 31, "++++++++++"),
    Line("disk-usage", "*/15 * * * *", "UTC", "df -h / | mail -s disk ops", 2, "++++++++++"),
    Line(
        *("import-orders", "*/5 * * * *", "UTC", "import-orders --markets all", 74, "+++,++++++"),
        *("The orders of the market places.", "imports"),
    ),
    Line("log-rotate", "10 0 * * *", "UTC", "logrotate /etc/logrotate.d/shop", 6, "++++++++++"),
    Line("morning-tokyo", "0 9 * * mon-fri", "Asia/Tokyo", "open-shop tokyo", 4, "++++++++++"),
    Line(
        "price-feed", "*/10 6-22 * * *", "Europe/London", "curl -fsS https://prices.example", 12, "++x+++++x+"
    ),
    Line("reindex-search", "@daily", "UTC", "reindex products", 655, "+++++++++:"),
    Line("report-weekly", "0 7 * * mon", "Europe/Berlin", "report --week", 188, "++++++++++"),
    Line(
        "sync-mirror", "0 * * * *", "UTC", "rsync -a --delete mirror.example::pub /srv/pub", 240, "+++++++++x"
    ),
    Line("thumbnails", "@every 20m", "UTC", "thumbnails --missing", 45, "++++++?+++"),
    Line("vacuum", "45 3 * * sun", "UTC", "vacuumdb --analyze shop", 300, "++++++++++"),
)
PAUSED = "reindex-search"


def seed(stage: Stage, **fields: Any) -> dict[str, Task]:
    """Add the tasks with their past runs; return them by name."""
    found = {}
    for number, line in enumerate(LINES):
        found[line.name] = task = stage.task(
            line.name,
            line.schedule,
            timezone=line.zone,
            command=line.command,
            describe=line.describe,
            queue=line.queue,
            **fields,
        )
        _history(stage, line, task, number)
    paused = stage.crontab.get(PAUSED)
    stage.crontab.pause(paused, "until the new index is in", stage.now + timedelta(days=3))
    return found


def open_shop(stage: Stage) -> dict[str, Task]:
    """Seed; three nodes live, an import runs and has just printed something, and a change was undone."""
    tasks = seed(stage)
    for name, tags, ahead in zip(NODES, _TAGS, _CLOCKS, strict=True):
        stage.node(name, tags=tags)
        stage.sql("UPDATE nodes SET clock_offset = :ahead WHERE name = :name", ahead=ahead, name=name)
    _running(stage, tasks["import-orders"], stage.now - timedelta(seconds=41))
    _change_and_back(stage, tasks["log-rotate"])
    return tasks


def _change_and_back(stage: Stage, task: Task) -> None:
    """Change a task and take the change back: its history has both."""
    changes = {"schedule": "10 4 * * *", "timeout": 7200.0}
    changed = stage.crontab.acting("cli set", "the load is at 0:00").edit(task, changes)
    before = {name: getattr(task, name) for name in changes}
    stage.crontab.acting("edit", "it is not").edit(changed, before)
    stage.sql("UPDATE changes SET login = 'ann', batch = 'b7k3m9x2p4'")


def _running(stage: Stage, task: Task, since: datetime) -> None:
    begun = {"claimed_at": since, "started_at": since, "scheduled_for": since, "due_at": since}
    run = stage.insert_run(
        task_id=task.id,
        task=task.name,
        state="running",
        trigger="schedule",
        owner=f"{NODES[0]}-00000000",
        **begun,
    )
    lines = b"".join(b"imported %d of 5000 orders\n" % (number * 100) for number in range(1, 22))
    with stage.database.write() as connection:
        chunks = [
            Chunk(run, 0, "out", since, lines),
            Chunk(run, len(lines), "err", stage.now, b"warning: order 2044 has no address\n"),
        ]
        output.append(connection, stage.database, chunks)


def _history(stage: Stage, sample: Line, task: Task, number: int) -> None:
    """Add the past runs, each a little longer or shorter than the one before."""
    rows = []
    for position, (sign, begun) in enumerate(
        zip(sample.went, _past_occurrences(task, stage.now, len(sample.went)), strict=True)
    ):
        state = _STATES[sign]
        took = sample.seconds * (1 + 0.4 * ((position * 7 + number * 3) % 5 - 2) / 2)
        ran = state is not RunState.SKIPPED
        rows.append(
            {
                "task_id": task.id,
                "task": sample.name,
                "trigger": "schedule",
                "state": state,
                "scheduled_for": begun,
                "due_at": begun,
                "spec": {},
                "owner": f"{NODES[(position + number) % 3]}-00000000" if ran else None,
                "claimed_at": begun if ran else None,
                "started_at": begun if ran else None,
                "finished_at": min(begun + timedelta(seconds=took if ran else 0), stage.now),
                "exit_code": {RunState.SUCCEEDED: 0, RunState.FAILED: 2}.get(state),
                "dead_at": stage.now if state in (RunState.FAILED, RunState.LOST) and position > 7 else None,
                "reason": _REASONS.get(state),
                "queue": sample.queue,
            }
        )
    with stage.database.write() as connection:
        connection.execute(insert(runs), rows)


_REASONS = {
    RunState.SKIPPED: "overlap: the run before it still ran",
    RunState.LOST: "its node was lost",
    RunState.CANCELLED: "cancelled by ann@desk",
}


def _past_occurrences(task: Task, now: datetime, count: int) -> list[datetime]:
    """Return the last occurrences before now, the latest at the end."""
    for days in (1, 8, 60, 400):
        found: list[datetime] = []
        occurrence = occurrences.next_not_excluded(task, now - timedelta(days=days))
        while occurrence and occurrence < now:
            found.append(occurrence)
            occurrence = occurrences.next_not_excluded(task, occurrence)
        if len(found) >= count:
            break
    return found[-count:]
