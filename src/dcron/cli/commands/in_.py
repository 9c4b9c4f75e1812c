"""`in`: run a command once, after a delay."""

from datetime import timedelta
from typing import Annotated

import typer

from dcron.cli.context import opened_additions
from dcron.cli.new_task import add_one_off, chosen_zone
from dcron.cli.options import Db, Json, Words, takes
from dcron.cli.task_options import TaskOptions
from dcron.errors import UsageError

Duration = Annotated[
    str,
    typer.Argument(
        metavar="DURATION",
        help="Delay before the run: 90s, 5m, 1h30m, 2d.",
        show_default=False,
        rich_help_panel="When",
    ),
]


@takes(TaskOptions)
def command(
    duration: Duration, command: Words, options: TaskOptions, as_json: Json = False, db: Db = None
) -> None:
    """Run a command once, after a delay.

    \b
    dcron in 1h 'systemctl restart worker'

    The task is removed from the crontab after its run has succeeded.
    """
    from dcron.quantities import parse_duration

    seconds = parse_duration(duration)
    if seconds <= 0:
        raise UsageError(f"{duration!r}: give a delay longer than 0s")
    with opened_additions(db) as additions:
        now = additions.now()
        at = now + timedelta(seconds=seconds)
        zone = chosen_zone(additions, options)
        add_one_off(additions, at, command, options, zone, now=now, as_json=as_json)
