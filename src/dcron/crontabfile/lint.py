"""Warn of lines that are valid but probably not what their writer meant."""

import re

from dcron.crontabfile.lines import FIELDS, JobLine
from dcron.crontabfile.problems import shown

LIKE_A_FIELD = re.compile(r"[\d*][\d*,/-]*+")
ACCOUNTS = {"root", "www-data", "nobody", "daemon"}


def suspicions(job: JobLine) -> list[str]:
    """Return a warning for each thing about a line that a person should check."""
    found = []
    first, *others = job.command.split(maxsplit=1) or [""]
    if len(job.schedule.pieces) == FIELDS and LIKE_A_FIELD.fullmatch(first):
        found.append(f'the command begins with {shown(first)}: six fields are written #dcron: schedule="…"')
    if job.user is None and others and first in ACCOUNTS:
        found.append(f"the command begins with {shown(first)}: a file with accounts is read with --system")
    if job.stdin is not None and _cut_short(job.command):
        found.append("the command ends at the first %; a percent sign is written \\%")
    return found


def _cut_short(command: str) -> bool:
    """Return whether the % is probably meant for a program, as in `date +%F`."""
    return command.endswith("+") or command.count('"') % 2 == 1 or command.count("'") % 2 == 1
