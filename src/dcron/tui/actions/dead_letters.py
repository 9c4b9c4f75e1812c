"""Acts on all shown dead letters of a task, or of several."""

import shlex
from collections.abc import Sequence
from datetime import datetime

from dcron.model import Run
from dcron.presentation import humanize
from dcron.presentation.humanize import plural
from dcron.services.dashboard import Dashboard
from dcron.services.runs.dead_letters import DeadLetters
from dcron.tui.actions import runs
from dcron.tui.actions.runs import ShownLetters
from dcron.tui.actions.subjects import MOST_LISTED, subject
from dcron.tui.host import Host
from dcron.tui.reads.acts import Act
from dcron.values.lists import DeadTask

MOST_RETRIED = 1000
"""Most dead letters that one key retries: each is a transaction."""


def retry(host: Host, rows: Sequence[DeadTask], shown: ShownLetters) -> None:
    """Retry the shown dead letters of these tasks, the newest MOST_RETRIED at most. Asks unless it is one."""
    if not host.may_act(rows):
        return

    def read(board: Dashboard) -> list[Run]:
        found: list[Run] = []
        for row in rows:
            page = board.more_dead_letters(
                shown.terms, row.last.id + 1, MOST_RETRIED - len(found), row.task_id
            )
            found += page.runs
            if len(found) >= MOST_RETRIED:
                break
        return found

    def ask(found: Sequence[Run]) -> None:
        if len(found) <= 1:
            runs.retry(host, found)
            return
        number = sum(row.count for row in rows)
        what = plural(len(found), "dead letter")
        if number > len(found) >= MOST_RETRIED:
            what = f"{len(found):,} of {plural(number, 'dead letter')}"
        host.confirm(
            f"retry {what} of {_of(rows)} now",
            _details(host, rows),
            lambda: host.act([runs.retry_act(run) for run in found]),
        )

    host.fetch(read, ask)


def dismiss(host: Host, rows: Sequence[DeadTask], shown: ShownLetters) -> None:
    """Dismiss the shown dead letters of these tasks. Always asks."""
    if not host.may_act(rows):
        return
    number = plural(sum(row.count for row in rows), "dead letter")
    which = f" that match {shown.filter_text}" if shown.filter_text else ""
    host.confirm(
        f"dismiss {number} of {_of(rows)}{which}",
        _details(host, rows),
        lambda: host.act([_dismiss(row, shown) for row in rows]),
    )


def _dismiss(row: DeadTask, shown: ShownLetters) -> Act:
    """Return the act that dismisses the dead letters of a task that were shown, and no newer ones."""
    command = shlex.join(["dcron", "dead", "dismiss", row.name, "--force"])
    if shown.terms:
        command = f"dcron dead dismiss {row.last.id}" + (" ..." if row.count > 1 else "")
    return Act(
        f"dismiss the dead letters of {row.name}",
        command,
        lambda crontab: DeadLetters(crontab).dismiss_found(shown.terms, row.last.id, row.task_id),
        lambda number: f"dismissed {plural(number, 'dead letter')} of {row.name}",
    )


def _of(rows: Sequence[DeadTask]) -> str:
    return subject([row.name for row in rows], "task")


def _details(host: Host, rows: Sequence[DeadTask]) -> list[str]:
    """Return how many dead letters each of the first tasks has, and how the last one ended."""
    now = host.health.now()
    more = [f"and {plural(len(rows) - MOST_LISTED, 'more task')}"] if len(rows) > MOST_LISTED else []
    return [*(_detail(row, now) for row in rows[:MOST_LISTED]), *more]


def _detail(row: DeadTask, now: datetime) -> str:
    return f"{row.name}: {row.count:,}, the last is run {row.last.id}: {humanize.result(row.last, now)}"
