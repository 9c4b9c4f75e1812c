"""`add`: put a new task into the crontab."""

import re
from collections.abc import Sequence
from typing import Annotated

from dcron.cli.asking.new_task import agree_to_add, chosen_zone, new_definition, report_added
from dcron.cli.asking.options import Db, Json, Words, argument, takes
from dcron.cli.asking.task_options import TaskOptions
from dcron.cli.running.context import opened_additions
from dcron.errors import ScheduleError

Schedule = Annotated[str, argument("SCHEDULE", "Schedule: '30 2 * * *', @daily, '@every 90s'.", panel="When")]
_FIELD = re.compile(r"[\d*,/-]+")


@takes(TaskOptions)
def command(
    schedule: Schedule, command: Words, options: TaskOptions, as_json: Json = False, db: Db = None
) -> None:
    """Add a task: a schedule and a command.

    \b
    dcron add -n backup -z Europe/Berlin '30 2 * * *' /usr/local/bin/backup --full
    dcron add '*/15 * * * *' 'df -h / | mail -s disk ops'
    dcron add --timeout 5m --except holidays '0 9 * * mon-fri' ./report
    """
    with opened_additions(db) as additions:
        chosen = chosen_zone(additions, options)
        definition = new_definition(schedule, command, options, chosen)
        agree_to_add(definition)
        try:
            added = additions.add(definition, numbered=options["name"] is None)
        except ScheduleError as error:
            raise ScheduleError(_quotes_forgotten(schedule, command) or str(error)) from None
        report_added(added, options, chosen, as_json=as_json)


def _quotes_forgotten(schedule: str, command: Sequence[str]) -> str | None:
    """Return the message about a schedule without quotes, which the shell splits: `*/5 * * * * cmd`."""
    from dcron.schedule.parser import parse

    if not _FIELD.fullmatch(schedule) or len(command) < len(["*", "*", "*", "*"]):
        return None
    typed = " ".join([schedule, *command[:4]])
    try:
        parse(typed)
    except ScheduleError:
        typed = "30 2 * * *"
    return f"put the schedule in quotes: '{typed}'"
