"""The jobs of a campaign, and the ledger that they write themselves.

Each job appends a line when it starts and one when it ends: kind, run id, task, occurrence, attempt, trigger,
node, exit code (of an end), and the seconds since the machine started, which no fault moves. A job that finds
another attempt of its own turn alive, or another run of a task that allows one, writes a line `overlap`: it
asks the kernel, by a lock that is held as long as any process of the job lives.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FAILS_WITH = 3

_SCRIPT = r"""
ledger=$1; seconds=$2; lock=$3; fails_every=$4
say() {
    read -r up rest < /proc/uptime
    facts="$DCRON_RUN_ID $DCRON_TASK $DCRON_SCHEDULED_FOR $DCRON_ATTEMPT $DCRON_TRIGGER $DCRON_NODE"
    echo "$1 $facts $2 $up" >> "$ledger"
}
turn=$DCRON_SCHEDULED_FOR; [ "$DCRON_TRIGGER" = manual ] && turn=$DCRON_RUN_ID
exec 9>> "$lock$([ "$5" = turn ] && echo "-$turn")"
flock -n 9 || say overlap -
say start -
sleep "$seconds"
code=0
[ "$fails_every" -gt 0 ] && [ $((DCRON_RUN_ID % fails_every)) -eq 0 ] && code=3
say end $code
exit $code
"""


@dataclass(frozen=True)
class Load:
    """A line of the crontab whose jobs keep the ledger."""

    name: str
    schedule: str
    seconds: float | str
    """How long each job sleeps; a text may be any words of the shell."""
    fails_every: int = 0
    """Runs whose id is a multiple of this fail; 0 is none."""
    fields: dict[str, Any] = field(default_factory=dict)

    def command(self, directory: Path) -> str:
        """The shell command of the line."""
        alone = "task" if self.fields.get("max_running", 1) == 1 else "turn"
        words = (directory / "ledger", self.seconds, directory / f"lock-{self.name}", self.fails_every, alone)
        return f"/bin/sh {directory / 'job.sh'} {' '.join(map(str, words))}"


USUAL = (
    Load("tick", "@every 1s", 0.1),
    Load("tock", "@every 1s", 0.3),
    Load("slow", "@every 3s", 2.0, fields={"overlap": "queue"}),
    Load("many", "@every 2s", 7.0, fields={"max_running": None}),
    Load("long", "@every 5s", 4.0),
    Load("held", "@every 6s", 9.0, fields={"tries": 3, "backoff": 0.2, "on_lost": "retry"}),
    Load("minute", "* * * * *", 0.1),
    Load(
        "retry",
        "@every 2s",
        1.0,
        fails_every=4,
        fields={"tries": 3, "backoff": 0.2, "on_lost": "retry", "overlap": "queue"},
    ),
)
"""Some four starts a second: quick and long ones, some that wait for each other, some tried again."""


@dataclass(frozen=True)
class Entry:
    """One line of the ledger."""

    kind: str
    run_id: int
    task: str
    occurrence: str
    attempt: int
    trigger: str
    node: str
    exit_code: int | None
    at: float
    """Seconds since the machine started, with two decimals."""


def write_script(directory: Path) -> None:
    """Put the jobs' program where `Load.command` expects it."""
    (directory / "job.sh").write_text(_SCRIPT)


def read(path: Path) -> list[Entry]:
    """All entries, in the order they were written."""
    return [_entry(line.split()) for line in path.read_text().splitlines()]


def _entry(words: list[str]) -> Entry:
    kind, run_id, task, occurrence, attempt, trigger, node, code, at = words
    exit_code = None if code == "-" else int(code)
    return Entry(kind, int(run_id), task, occurrence, int(attempt), trigger, node, exit_code, float(at))


def twice(entries: Iterable[Entry], tried_again: set[str]) -> list[str]:
    """What was started more than once: runs, and occurrences of tasks that are not tried again."""
    starts = [entry for entry in entries if entry.kind == "start"]
    runs = Counter(f"run {entry.run_id} of {entry.task}" for entry in starts)
    turns = Counter(
        f"{entry.task} of {entry.occurrence}"
        for entry in starts
        if entry.trigger == "schedule" and entry.task not in tried_again
    )
    return [f"{what} was started {count} times" for what, count in (runs + turns).items() if count > 1]
