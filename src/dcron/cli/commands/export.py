"""`export`: print the crontab as a file."""

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from dcron import services
from dcron.cli.asking.options import At, Db, OptionalNames, SelectorOption, flag, option
from dcron.cli.asking.which import read_selector
from dcron.cli.output import console
from dcron.cli.running.context import opened_crontab
from dcron.cli.running.past_crontab import read_past
from dcron.errors import UsageError
from dcron.model import Definition, Task
from dcron.presentation import humanize
from dcron.values.safe_text import safe_lines

SHOWN = 20
"""Names of tasks that a warning lists."""


def command(
    names: OptionalNames = None,
    form: Annotated[
        Literal["text", "json", "toml", "crontab"],
        option("--format", "text|json|toml", "Format: text is a crontab."),
    ] = "text",
    system: Annotated[bool, flag("--system", "Write an account in each line, as in /etc/cron.d.")] = False,
    selector: SelectorOption = None,
    at: At = None,
    db: Db = None,
) -> None:
    """Print the crontab as a file: a crontab, JSON or TOML.

    \b
    dcron export > crontab
    dcron export --system > /etc/cron.d/from-dcron
    dcron export --format toml > tasks.toml
    dcron export --at yesterday
    dcron export 'shop-*' > shop.cron
    dcron export -l team=shop > shop.cron

    `dcron import` reads a crontab, `dcron lint` all three. One-offs are omitted.
    """
    from dcron import sources

    format = "text" if form == "crontab" else form
    if system and format != "text":
        raise UsageError(f"--system is for crontabs: leave it out, or --format {format}")
    chooser = read_selector(selector, names)
    with opened_crontab(db) as crontab:
        if names:
            chooser = crontab.named(names, removed=at is not None)
        past = None if at is None else read_past(crontab, at)
        tasks = past.exported if past else crontab.export_tasks(chooser)
        if past and chooser:
            tasks = [task for task in tasks if chooser.chooses(task.name, task.labels)]
        stopped = _stopped(crontab, past.tasks if past else (), tasks) if system else {}
    text = sources.write(tasks, format, system=system, stopped=stopped)
    text = text.encode(errors="replace").decode()  # a row edited by hand may hold any bytes
    sys.stdout.write(safe_lines(text) if console.is_terminal() else text)
    if format == "text":
        _warn_of_comments(tasks, stopped, system=system)


def _stopped(
    crontab: "services.crontab.Crontab", past: Sequence[Task], tasks: Sequence[Definition]
) -> dict[str, str]:
    """Return why tasks may not start by themselves, by name: `paused` (now, or in the past), or `frozen`."""
    frozen = {task.name: "frozen" for task in tasks} if services.freezes.Freezes(crontab).active() else {}
    paused = [*crontab.paused_names(), *(task.name for task in past if not task.enabled)]
    return frozen | dict.fromkeys(paused, "paused")


def _warn_of_comments(tasks: Sequence[Definition], stopped: Mapping[str, str], *, system: bool) -> None:
    """Name the tasks that cron does not run: stopped ones, and those whose accounts have no place."""
    without_place = [task.name for task in tasks if (task.user is None) is system]
    if system:
        place = "no account is given for", "`dcron set NAME --user ACCOUNT` gives one"
    else:
        place = "an account is given for", "`dcron export --system` writes a line with it"
    paused, frozen = (
        [task.name for task in tasks if stopped.get(task.name) == why] for why in ("paused", "frozen")
    )
    for names, why, remedy in (
        (without_place, *place),
        (paused, "a pause stops", "`dcron resume NAME` ends it"),
        (frozen, "a freeze stops", "`dcron thaw` ends it"),
    ):
        if names:
            listed = humanize.first_few(names, SHOWN)
            console.complain(
                f"warning: {why} {listed}: written as comments, which cron does not run; {remedy}"
            )
