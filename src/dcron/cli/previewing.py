"""`preview`: when a schedule will run, and what the clocks do to it. An expression needs no database."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from dcron.cli import printing
from dcron.cli.opening import opened_crontab, own_zone
from dcron.cli.parameters import Db, Json
from dcron.errors import NotFound, ScheduleError, UsageError
from dcron.model import Definition

DEFAULT_COUNT = 10
MOST = 100_000
"""Occurrences of one preview; `* * * * * *` until next year would have 31 million."""


def preview(
    what: Annotated[
        str | None,
        typer.Argument(metavar="SCHEDULE|NAME", help="A schedule in quotes, or a task.", show_default=False),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="The whole crontab in one list.")] = False,
    tz: Annotated[
        str | None,
        typer.Option("-z", "--tz", metavar="ZONE", help="The zone, else the task's, else your own."),
    ] = None,
    begin: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Begin there: '2027-03-27', tomorrow, +2d…")
    ] = None,
    count: Annotated[
        int | None,
        typer.Option("-n", "--count", metavar="N", help="How many; 10 without --until.", min=1, max=MOST),
    ] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="End there.")] = None,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Show when a schedule runs, computed just as the agents do.

    \b
    dcron preview '30 2 * * *' -z Europe/Berlin --from 2027-03-27 -n 3
    dcron preview backup
    dcron preview --all --until tomorrow
    """
    if every == (what is not None):
        raise UsageError("give a schedule, the name of a task, or --all")
    window = Window(begin, until, count)
    if what is None:
        _preview_all(tz, window, db, as_json=as_json)
    elif as_json:
        _print_json(_line(what, tz, db), window)
    else:
        _print(_line(what, tz, db), window)


class Window:
    """From when, until when, and how many."""

    def __init__(self, begin: str | None, until: str | None, count: int | None) -> None:
        self._begin, self._until, self._count = begin, until, count
        self.now = datetime.now(UTC)

    def bounds(self, timezone: str) -> tuple[datetime, datetime | None, int]:
        """The instant after which to begin, the last one, the most occurrences. Raises UsageError."""
        from dcron.schedule import parse_time, zone

        here = zone(timezone)
        begin = parse_time(self._begin, here, self.now) if self._begin else None
        until = parse_time(self._until, here, begin or self.now) if self._until else None
        if until and until <= (begin or self.now):
            raise UsageError(f"--until {self._until!r} is not after the beginning")
        # An occurrence exactly at --from counts; one right now is past.
        after = begin - timedelta(microseconds=1) if begin else self.now
        return after, until, self._count or (MOST if until else DEFAULT_COUNT)


def _line(what: str, tz: str | None, db: str | None) -> Definition:
    """The schedule as a line without a name, or the task of this name."""
    from dcron.schedule import parse, zone

    try:
        parse(what)
    except ScheduleError as error:
        return _task(what, tz, db, error)
    timezone = zone(tz).key if tz else own_zone()
    return Definition(name="", schedule=what, timezone=timezone, command="")


def _task(name: str, tz: str | None, db: str | None, error: ScheduleError) -> Definition:
    from dataclasses import replace

    from dcron.schedule import zone

    if not name or not all(letter.isascii() and (letter.isalnum() or letter in "._-") for letter in name):
        raise error
    try:
        with opened_crontab(db) as crontab:
            task = crontab.get(name)
    except NotFound:
        raise NotFound(f"{name!r} is neither a task nor a schedule ({error})") from None
    return replace(task, timezone=zone(tz).key) if tz else task


def _print_json(line: Definition, window: Window) -> None:
    from dcron.cli import forecast, shapes

    after, until, count = window.bounds(line.timezone)
    found = forecast.coming(line, after, count=count, until=until)
    told, warnings = forecast.explanation(line), forecast.warnings(line, window.now)
    printing.emit(shapes.preview_shape(line.schedule, line.timezone, told, found, warnings))


def _print(line: Definition, window: Window) -> None:
    from dcron.cli import forecast
    from dcron.cli.tables import print_facts

    after, until, count = window.bounds(line.timezone)
    found = forecast.coming(line, after, count=count, until=until)
    print_facts([("schedule", line.schedule), ("when", forecast.explanation(line)), ("zone", line.timezone)])
    last, shown = None, 0
    for shown, last in enumerate(found, 1):  # noqa: B007 - also told how many there were
        for text in forecast.occurrence_lines([last], window.now, utc=True):
            printing.data(f"  {text}")
    if last is None:
        printing.note("no runs" + (" in this window" if until else "") + _why_none(line))
    if until and shown == count:
        printing.note(f"there are more than {count:,} until then; the rest is left out")
    forecast.print_clock_changes(line, last.at if last else after)
    forecast.print_warnings(line, window.now)


def _why_none(line: Definition) -> str:
    from dcron.cli import forecast

    return "" if forecast.schedule_of(line).timed else f": it runs {forecast.explanation(line)}"


def _preview_all(tz: str | None, window: Window, db: str | None, *, as_json: bool) -> None:
    from dcron.cli import agenda
    from dcron.schedule import zone

    timezone = zone(tz).key if tz else own_zone()
    after, until, count = window.bounds(timezone)
    with opened_crontab(db) as crontab:
        lines = [view.task for view in crontab.views() if view.task.enabled]
    starts = agenda.starts(lines, after, until, count)
    show = agenda.print_json if as_json else agenda.print_agenda
    show(starts, lines, zone(timezone), window.now)
