"""Warn of lines that are valid but probably not what their writer meant."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from dcron.crontabfile.guards import failing_guard
from dcron.crontabfile.lines import FIELDS, JobLine
from dcron.crontabfile.problems import shown

LIKE_A_FIELD = re.compile(r"[\d*][\d*,/-]*+")
CRONTAB_LINE, GUARD_FAILS = "crontab-line", "guard-fails"
OTHER_CRONS = {
    "RANDOM_DELAY": "cronie and anacron delay starts by it; write #dcron: jitter=45m above a task",
    "START_HOURS_RANGE": "anacron starts jobs within it; name the hours in the schedules",
}
"""Variables that other crons obey and dcron does not, and what to write instead."""
ACCOUNTS = {"root", "www-data", "nobody", "daemon"}


class Suspicion(NamedTuple):
    """A valid line that is probably not what its writer meant."""

    message: str
    code: str = CRONTAB_LINE


def suspicions(job: JobLine) -> Iterator[Suspicion]:
    """Yield a warning for each thing about a line that a person should check."""
    first, *others = job.command.split(maxsplit=1) or [""]
    if len(job.schedule.pieces) == FIELDS and LIKE_A_FIELD.fullmatch(first):
        yield Suspicion(
            f'the command begins with {shown(first)}: six fields are written #dcron: schedule="…"'
        )
    if job.user is None and others and first in ACCOUNTS:
        yield Suspicion(f"the command begins with {shown(first)}: a file with accounts is read with --system")
    if job.stdin is not None and _cut_short(job.command):
        yield Suspicion("the command ends at the first %; a percent sign is written \\%")
    if better := failing_guard(job.command):
        message = "where the check is false, this run fails: cron ignores that, dcron alerts; write"
        yield Suspicion(message + " " + better.replace("%", r"\%"), GUARD_FAILS)


def _cut_short(command: str) -> bool:
    """Return whether the % is probably meant for a program, as in `date +%F`."""
    return command.endswith("+") or command.count('"') % 2 == 1 or command.count("'") % 2 == 1
