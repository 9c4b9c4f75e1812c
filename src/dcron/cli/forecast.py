"""What a schedule will do, in words: shared by `add`, `set`, `view` and `preview`. Needs no database."""

from collections.abc import Iterable, Iterator
from datetime import datetime

from dcron.cli import printing, words
from dcron.errors import UsageError
from dcron.model import Definition
from dcron.policy import rules_of
from dcron.schedule import Occurrence, Schedule, advise, clock_changes, explain, parse, upcoming, zone

LOCAL_CELLS = len("Sun 2026-11-22 02:30:00 CEST +01:00")


def schedule_of(line: Definition) -> Schedule:
    """The line's schedule. Raises ScheduleError."""
    return parse(line.schedule, name=line.name)


def explanation(line: Definition) -> str:
    """The line's schedule in words, with its zone; or why it cannot be read any more."""
    try:
        return explain(schedule_of(line), zone(line.timezone))
    except UsageError as error:
        return f"cannot be read: {error}"


def coming(
    line: Definition, after: datetime, *, count: int | None = None, until: datetime | None = None
) -> Iterator[Occurrence]:
    """The line's occurrences as the agents will see them, window and calendars considered."""
    return upcoming(schedule_of(line), zone(line.timezone), after, rules_of(line), count=count, until=until)


def next_runs(line: Definition, now: datetime, count: int = 3) -> str | None:
    """The next turns, one a line; None for a line that does not follow the clock."""
    try:
        found = coming(line, now, count=count)
        return "\n".join(occurrence_lines(found, now)) or None
    except UsageError:
        return None


def occurrence_lines(found: Iterable[Occurrence], now: datetime, *, utc: bool = False) -> Iterator[str]:
    """Each turn in local time, in UTC if wanted, and how far it is off; below, what a clock change does."""
    for each in found:
        local = words.full(each.local)
        if utc and each.local.tzname() != "UTC":
            local = f"{local:<{LOCAL_CELLS}}   {each.at:%Y-%m-%d %H:%M:%S}Z"
        yield f"{local}   {_distance(each.at, now)}"
        for remark in (each.note, each.reason and f"skipped: {each.reason}"):
            if remark:
                yield f"    {remark}"


def _distance(moment: datetime, now: datetime) -> str:
    return f"in {words.left(moment, now)}" if moment >= now else words.ago(moment, now)


def command_line(line: Definition) -> str:
    """The command, and how it is executed."""
    if line.argv:
        return f"{line.command}   ({len(line.argv)} words, no shell)"
    return f"{line.command}   (shell line, {line.shell})"


def warnings(line: Definition, now: datetime) -> list[tuple[str, str]]:
    """What is valid and probably not meant: codes and messages."""
    schedule = schedule_of(line)
    return [(each.code, each.message) for each in advise(schedule, zone(line.timezone), now, rules_of(line))]


def print_warnings(line: Definition, now: datetime) -> None:
    """Say on stderr what is probably not meant."""
    for code, message in warnings(line, now):
        printing.complain(f"warning: {message} [{code}]")


def print_clock_changes(line: Definition, after: datetime) -> None:
    """Say what the clock changes that come next do to the schedule, also where they lie far off."""
    for change in clock_changes(schedule_of(line), zone(line.timezone), after, rules_of(line)):
        printing.note(f"clock change {change.local:%a %Y-%m-%d}: {change.text}")
