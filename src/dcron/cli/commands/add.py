"""`add`: put a new task into the crontab."""

import re
from collections.abc import Sequence
from typing import Annotated

import typer

from dcron.cli.context import opened_additions
from dcron.cli.new_task import chosen_zone, new_definition, report_added, warn_of_late_options
from dcron.cli.options import Db, Json, Words, takes
from dcron.cli.task_options import TaskOptions
from dcron.errors import ScheduleError

Schedule = Annotated[
    str,
    typer.Argument(
        metavar="SCHEDULE",
        help="Schedule: '30 2 * * *', @daily, '@every 90s'.",
        show_default=False,
        rich_help_panel="When",
    ),
]


_FIELD = re.compile(r"[\d*,/-]+")


@takes(TaskOptions)
def command(
    schedule: Schedule, command: Words, options: TaskOptions, as_json: Json = False, db: Db = None
) -> None:
    """Add a task.

    \b
    dcron add -n backup -z Europe/Berlin '30 2 * * *' /usr/local/bin/backup --full
    dcron add '*/15 * * * *' 'df -h / | mail -s disk ops'
    dcron add --timeout 5m --except holidays '0 9 * * mon-fri' ./report
    """
    with opened_additions(db) as additions:
        chosen = chosen_zone(additions, options)
        definition = new_definition(schedule, command, options, chosen)
        try:
            added = additions.add(definition, numbered=options["name"] is None)
        except ScheduleError as error:
            raise ScheduleError(f"{error}{_quotes_forgotten(schedule, command)}") from None
        report_added(added, options, chosen, as_json=as_json)
    warn_of_late_options(command)


def _quotes_forgotten(schedule: str, command: Sequence[str]) -> str:
    """Return a hint for a schedule without quotes, which the shell splits: `*/5 * * * * cmd`."""
    is_field = _FIELD.fullmatch(schedule) is not None
    return "; put the schedule in quotes" if is_field and len(command) > 4 else ""
