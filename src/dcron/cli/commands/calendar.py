"""`calendar`: manage named sets of dates, for --except and --only of tasks."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

from dcron import services
from dcron.cli.asking.options import Db, Json, Verb, WritingVerb, argument, completer, group, option
from dcron.cli.asking.which import agreed
from dcron.cli.output import console
from dcron.cli.output.documents import make
from dcron.cli.output.tables import TableColumn, print_facts, print_table
from dcron.cli.running.context import opened_crontab, own_zone
from dcron.errors import UsageError
from dcron.model import StoredCalendar
from dcron.presentation import humanize
from dcron.schedule.zones import zone
from dcron.values.text_input import read_text

if TYPE_CHECKING:
    from dcron.schedule.calendars import Calendar

command = group("Manage calendars: named sets of dates for --except and --only.")
COLUMNS = [
    TableColumn("CALENDAR", least=10),
    TableColumn("ENTRIES", least=12),
    TableColumn("NEXT"),
    TableColumn("TASKS", least=8),
    TableColumn("CHANGED", right=True),
]
MAX_BYTES = 2_000_000
LONGEST_ENTRY = 256
BAD_SHOWN = 20
NEXT_SHOWN = 10
SEARCHED = timedelta(days=8 * 366)
"""How far `view` searches for dates: beyond the next 29 February."""
ENTRIES_SHOWN = 50
USERS_SHOWN = 20
USERS_LISTED = 3
CalendarName = Annotated[str, argument("NAME", "Name of the calendar.", autocompletion=completer("CALENDAR"))]
Entries = Annotated[
    list[str] | None,
    argument("DATES...", "2027-12-25, 12-25 (every year), sat, RRULE:FREQ=…, or @FILE with one per line."),
]


@command.command("add", cls=WritingVerb)
def add(
    name: CalendarName,
    dates: Entries = None,
    ics: Annotated[
        str | None, option("--ics", "FILE|-", "Add the dates of the events in an iCalendar file.")
    ] = None,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Add or replace a calendar.

    \b
    dcron calendar add holidays 12-25 12-26 2027-03-26
    dcron calendar add month-end 'RRULE:FREQ=MONTHLY;BYMONTHDAY=-1'
    dcron calendar add holidays --ics germany.ics

    If the calendar exists, it is replaced, and its tasks use the new dates from then on.
    """
    calendar = _read(name, dates or [], ics)
    with opened_crontab(db, creates=True) as crontab:
        calendars = services.calendars.Calendars(crontab)
        _agree_to_replace(calendars, calendar)
        replaced = calendars.put(calendar)
        stored = calendars.get(name)
        if as_json:
            console.emit(_shape(stored))
        else:
            console.data(f"{'replaced' if replaced else 'added'}  {name}: {_entries(stored)}")


@command.command("list", cls=Verb)
def list_calendars(as_json: Json = False, db: Db = None) -> None:
    """List the calendars with their next dates and the tasks that use them."""
    with opened_crontab(db) as crontab:
        calendars = services.calendars.Calendars(crontab)
        if as_json:
            console.emit_list(map(_shape, calendars.every()))
        elif not print_table(COLUMNS, _rows(calendars, crontab.now())):
            console.note("no calendars yet; `dcron calendar add holidays 12-25 12-26` adds one")


@command.command("view", cls=Verb)
def view(name: CalendarName, as_json: Json = False, db: Db = None) -> None:
    """Show the entries of a calendar, its next dates, and the tasks that use it."""
    with opened_crontab(db) as crontab:
        calendars = services.calendars.Calendars(crontab)
        name = calendars.find(name)
        stored = calendars.get(name)
        using = calendars.users(name, limit=None)
        now = crontab.now()
        coming = _coming(stored, now.astimezone(zone(own_zone())).date(), NEXT_SHOWN)
        if as_json:
            days = [day.isoformat() for day in coming]
            console.emit(_shape(stored, "calendar-view", next_dates=days, tasks=using))
        else:
            print_facts(_facts(stored, coming, using, now))


@command.command("rm", cls=WritingVerb)
def rm(name: CalendarName, as_json: Json = False, db: Db = None) -> None:
    """Remove a calendar that no task uses."""
    with opened_crontab(db) as crontab:
        calendars = services.calendars.Calendars(crontab)
        name = agreed(calendars.whole, "remove calendar", name, asks=True)
        stored = calendars.get(name)
        if not calendars.users(name):  # a used calendar is refused below
            console.agree(f"remove calendar {name} ({_entries(stored)})")
        calendars.remove(name)
        if as_json:
            console.emit(_shape(stored))
        else:
            console.data(f"removed  {name}")


def _agree_to_replace(calendars: "services.calendars.Calendars", calendar: "Calendar") -> None:
    """Ask before the dates of tasks change, and in a protected context. Raises Refused."""
    name, using = calendar.name, calendars.users(calendar.name, limit=None)
    before = calendars.content(name)
    if before is None:
        console.agree(f"add the calendar {name}", asks=False)
        return
    old, new = _all_entries(before), _all_entries(calendar.to_json())
    users = f"{humanize.first_few(using, USERS_LISTED)} {'uses' if len(using) == 1 else 'use'} it"
    entries = f"{len(new - old):,} added, {len(old - new):,} removed"
    console.agree(f"replace {name}: {entries}; {users if using else 'no task uses it'}", asks=bool(using))


def _all_entries(content: Mapping[str, Any]) -> set[str]:
    """Return every date, weekday and rule of a calendar, as texts that can be compared."""
    return {json.dumps([kind, entry]) for kind, entries in content.items() for entry in entries}


def _read(name: str, dates: Sequence[str], ics: str | None) -> "Calendar":
    """Return the calendar of these entries and files. Raises UsageError that names every bad entry."""
    from dataclasses import replace

    from dcron.schedule.calendars import calendar_from_ics

    if [*dates, ics].count("-") > 1:
        raise UsageError("- (stdin) can be given only once")
    calendar = _parsed(name, _placed(dates))
    if ics is not None:
        events = calendar_from_ics(name, read_text(ics, "--ics", MAX_BYTES))
        calendar = replace(
            calendar,
            dates=calendar.dates | events.dates,
            recurring=tuple(dict.fromkeys((*calendar.recurring, *events.recurring))),
        )
    if calendar == replace(
        calendar, dates=frozenset(), annual=frozenset(), weekdays=frozenset(), recurring=()
    ):
        raise UsageError(f"calendar {name} would be empty; give dates such as 2027-12-25, 12-25 or sat")
    return calendar


def _placed(dates: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each entry, after its place as the beginning of a message."""
    for word in dates:
        if word == "-" or word.startswith("@"):
            file = word.removeprefix("@")
            source = "<stdin>" if file == "-" else file
            text = read_text(file, "calendar", MAX_BYTES)
            for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
                yield f"{source}:{number}: ", line
        else:
            yield "", word


def _parsed(name: str, placed: Iterable[tuple[str, str]]) -> "Calendar":
    from dcron.schedule.calendars import Calendar

    read, problems = [], []
    for place, text in placed:
        try:
            read.append(_entry(name, text))
        except UsageError as error:
            problems.append(place + str(error).removeprefix(f"calendar {name}, line 1: "))
        if len(problems) == BAD_SHOWN:
            problems.append("…")
            break
    if problems:
        raise UsageError("\n".join([*problems, "nothing was written"]))
    return Calendar(
        name,
        frozenset().union(*(each.dates for each in read)),
        frozenset().union(*(each.annual for each in read)),
        frozenset().union(*(each.weekdays for each in read)),
        tuple(dict.fromkeys(rule for each in read for rule in each.recurring)),
    )


def _entry(name: str, text: str) -> "Calendar":
    from dcron.schedule.calendars import parse_calendar

    if len(text) > LONGEST_ENTRY and not text.lstrip().startswith("#"):
        raise UsageError(f"{text[:40]!a}… is longer than {LONGEST_ENTRY} characters")
    return parse_calendar(name, [text])


def _shape(stored: StoredCalendar, document: str = "calendar", **more: Any) -> dict[str, Any]:
    parts = {part: stored.content.get(part, []) for part in ("dates", "annual", "weekdays", "recurring")}
    return make(document, stored, **parts, **more)


def _rows(calendars: "services.calendars.Calendars", now: datetime) -> Iterator[list[str]]:
    today = now.astimezone(zone(own_zone())).date()
    for stored in calendars.every():
        coming = _coming(stored, today, count=1)
        yield [
            stored.name,
            _entries(stored),
            _day(coming[0]) if coming else "",
            humanize.first_few(calendars.users(stored.name), USERS_LISTED),
            humanize.ago(stored.changed_at, now),
        ]


def _entries(stored: StoredCalendar) -> str:
    """Return a summary such as `3 dates, 2 yearly, sat sun, 1 rule`."""
    content = stored.content
    dates, annual, rules = (len(content.get(kind, ())) for kind in ("dates", "annual", "recurring"))
    parts = [
        humanize.plural(dates, "date") if dates else "",
        f"{annual:,} yearly" if annual else "",
        " ".join(content.get("weekdays", ())),
        humanize.plural(rules, "rule") if rules else "",
    ]
    return ", ".join(filter(None, parts))


def _coming(stored: StoredCalendar, today: date, count: int) -> list[date]:
    """Return the first dates of the calendar from today on. Print why if it cannot be read."""
    from dcron.schedule.calendars import calendar_from_json

    try:
        calendar = calendar_from_json(stored.name, stored.content)
    except UsageError as error:
        console.note(f"{error}; replace it with `dcron calendar add {stored.name}`")
        return []
    days = (today + timedelta(days=number) for number in range(SEARCHED.days))
    return list(islice(filter(calendar.contains, days), count))


def _facts(
    stored: StoredCalendar, coming: Sequence[date], using: Sequence[str], now: datetime
) -> Iterator[tuple[str, str | Sequence[str] | None]]:
    content = stored.content
    rules = list(map(_rule, content.get("recurring", ())))
    yield "name", stored.name
    yield "dates", humanize.first_lines(content.get("dates", ()), ENTRIES_SHOWN) or None
    yield "yearly", humanize.first_lines(content.get("annual", ()), ENTRIES_SHOWN) or None
    yield "weekdays", " ".join(content.get("weekdays", ())) or None
    yield "rules", humanize.first_lines(rules, ENTRIES_SHOWN) or None
    yield "next", [_day(day) for day in coming] or "no future dates"
    yield "tasks", humanize.first_lines(using, USERS_SHOWN) or "none"
    yield "changed", f"{humanize.ago(stored.changed_at, now)}, by {stored.changed_by}"


def _rule(recurring: dict[str, Any]) -> str:
    """Return a rule with its start, length and exceptions, which come from an iCalendar file."""
    text = f"RRULE:{recurring['rule']}"
    if recurring["start"] != "1970-01-01":
        text += f" from {recurring['start']}"
    if recurring["days"] > 1:
        text += f", {recurring['days']} days each"
    if recurring["exceptions"]:
        text += f", except {humanize.plural(len(recurring['exceptions']), 'date')}"
    return text


def _day(day: date) -> str:
    return f"{day:%a %Y-%m-%d}"
