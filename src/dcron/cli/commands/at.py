"""`at`: run a command once, at a time."""

from typing import Annotated

from dcron.cli.asking.new_task import add_one_off, chosen_zone
from dcron.cli.asking.options import Db, Json, Words, argument, takes
from dcron.cli.asking.task_options import TaskOptions
from dcron.cli.running.context import opened_additions
from dcron.errors import UsageError
from dcron.schedule.time_parser import parse_local_time, resolve
from dcron.schedule.zones import zone

When = Annotated[
    str,
    argument(
        "WHEN", "Time in the task's zone: '2027-01-01 09:00', 09:00, 'tomorrow 09:00', +1h.", panel="When"
    ),
]


@takes(TaskOptions)
def command(when: When, command: Words, options: TaskOptions, as_json: Json = False, db: Db = None) -> None:
    """Run a command once, at a time or after a delay.

    \b
    dcron at 'tomorrow 03:00' /usr/local/bin/reindex --all
    dcron at +1h 'systemctl restart worker'
    dcron at -z America/New_York '2027-01-01 09:00' 'echo happy new year'

    The task is removed from the crontab after its run has succeeded.
    """
    with opened_additions(db) as additions:
        chosen = chosen_zone(additions, options)
        here = zone(chosen.name)
        now = additions.now()
        local_time = parse_local_time(when, here, now)
        instant = resolve(local_time, here)
        if instant <= now:
            raise UsageError(f"{when!r} has passed: it was {instant:%Y-%m-%dT%H:%M:%SZ}; give a time to come")
        add_one_off(additions, local_time, command, options, chosen, now=now, as_json=as_json)
