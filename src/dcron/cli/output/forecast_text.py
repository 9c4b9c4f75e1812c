"""Print forecasts and quiet times for people."""

from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo
from typing import Any

from dcron.cli.output import console
from dcron.cli.output.colours import AlarmCell
from dcron.cli.output.tables import TableColumn, print_facts, print_table
from dcron.model import LATE_AFTER, SkipCode
from dcron.policy.forecast.comparison import ForecastComparison, MovedStarts
from dcron.policy.forecast.relief import Relief
from dcron.policy.forecast.summary import (
    CrowdedMinute,
    ForecastHour,
    ForecastSkips,
    LeftOut,
    Outlook,
    QuietForecast,
    QuietTime,
)
from dcron.presentation import humanize
from dcron.values.quantities import format_duration

_BAR = 24
_FEW = 3
_MANY = 10
_CAUSES = {
    SkipCode.MISSED: "before the next one",
    SkipCode.EXPIRED: "before its deadline",
}
"""Until when a slot is not free, for occurrences that are skipped because of that."""


def print_outlook(outlook: Outlook, here: Any) -> None:
    """Print the hours of a forecast, and then its conclusions; without slots, one sentence."""
    if not outlook.slots:
        end = humanize.full(outlook.until.astimezone(here))
        due = f"{humanize.plural(outlook.starts, 'start')} until {end}"
        agents = "no agent is running" if not outlook.agents else "the agents have no slots"
        console.data(f"{agents}, so none of the {due} would happen; `--slots 8` forecasts them for 8 slots")
        return
    columns = [
        TableColumn(f"HOUR ({here.key})"),
        TableColumn("STARTS", right=True),
        TableColumn("BUSIEST", right=True),
        TableColumn(f"OF {outlook.slots:,} SLOTS", spare=True),
        TableColumn("WAIT P95", right=True),
        TableColumn("WORST", right=True),
        TableColumn("", least=10),
    ]
    print_table(columns, _rows(outlook, here))
    print_facts(_facts(outlook, here))
    _print_left_out(outlook.left_out)


def _rows(outlook: Outlook, here: tzinfo) -> Iterator[list[str]]:
    day = None
    for hour in outlook.hours:
        local = hour.begin.astimezone(here)
        label = f"{local:%H}{_zone_name(local)}"
        yield [
            label if local.date() == day else f"{local:%a %m-%d} {label}",
            f"{hour.starts:,}",
            f"{hour.busiest.astimezone(here):%H:%M} ({hour.busiest_starts:,})" if hour.busiest else "",
            f"{_bar(hour.peak, outlook.slots)} {hour.peak:,}",
            _wait(hour.wait_p95),
            _wait(hour.worst.wait if hour.worst else 0.0),
            _late_tasks(hour),
        ]
        day = local.date()


def _zone_name(local: datetime) -> str:
    """Return the abbreviation of the zone in an hour that comes twice."""
    is_twice = local.replace(fold=0).utcoffset() != local.replace(fold=1).utcoffset()
    return f" {local:%Z}" if is_twice else ""


def _bar(peak: int, slots: int) -> str:
    return "█" * round(_BAR * min(1.0, peak / slots)) if slots else ""


def _wait(seconds: float) -> str:
    text = humanize.span(seconds)
    return AlarmCell(text) if seconds > LATE_AFTER.total_seconds() else text


def _late_tasks(hour: ForecastHour) -> str:
    more = len(hour.late) - _FEW
    return ", ".join(hour.late[:_FEW]) + (f", … {more:,} more" if more > 0 else "")


def _facts(outlook: Outlook, here: tzinfo) -> Iterator[tuple[str, Sequence[str]]]:
    end = humanize.full(outlook.until.astimezone(here))
    agents = humanize.plural(outlook.agents, "agent")
    starts = f"{humanize.plural(outlook.starts, 'start')} until {end}"
    yield "forecast", [f"{starts}, on {humanize.plural(outlook.slots, 'slot')} of {agents}"]
    overlaps = [each for each in outlook.skips if each.code is SkipCode.OVERLAP]
    yield from _lines("overlaps", map(_overlap, overlaps), len(overlaps))
    for code in _CAUSES:
        if found := [each for each in outlook.skips if each.code is code]:
            yield code.value, [_unstarted(code, found)]
    unserved = (f"{task}: {why}" for task, why in outlook.unserved)
    yield from _lines("unserved", unserved, len(outlook.unserved))
    if outlook.unknown:
        yield "unknown", [_unknown(outlook)]
    yield from _lines("helps", (_relief(each, here) for each in outlook.reliefs), len(outlook.reliefs))


def _unknown(outlook: Outlook) -> str:
    """Return which tasks have unknown durations, and which duration the forecast assumes."""
    number = humanize.plural(len(outlook.unknown), "task")
    names = humanize.first_few(outlook.unknown, _MANY)
    if outlook.assumed is None:
        count = "--timeout, or 0s without one: no durations are known"
    else:
        count = (
            f"{humanize.took(outlook.assumed)}, the median of the other tasks, or --timeout if it is shorter"
        )
    return f"the durations of {number} (no successful run, no --expect runtime) count as {count}: {names}"


def _lines(name: str, texts: Iterator[str], number: int) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the first texts as a fact, and how many there are besides."""
    shown = [text for text, _ in zip(texts, range(_MANY), strict=False)]
    if number > _MANY:
        shown.append(f"… {number - _MANY:,} more")
    if shown:
        yield name, shown


def _overlap(each: ForecastSkips) -> str:
    takes = f" takes {humanize.took(each.p95)} (p95)" if each.p95 is not None else ""
    every = f" runs every {humanize.span(each.every)}" if each.every else ""
    skipped = f"{each.count:,} of {humanize.plural(each.occurrences, 'run')} will be skipped"
    return f"{each.task}{' and'.join(filter(None, (takes, every)))}: {skipped}"


def _unstarted(code: SkipCode, found: Sequence[ForecastSkips]) -> str:
    number = humanize.plural(sum(each.count for each in found), "run")
    names = humanize.first_few([each.task for each in found], _FEW)
    tasks = humanize.plural(len(found), "task")
    return f"{number} of {tasks} will be skipped, because no slot is free {_CAUSES[code]}: {names}"


def _relief(each: Relief, here: tzinfo) -> str:
    text = humanize.plural(each.value, "slot")
    if each.kind == "minute":
        those = f"{humanize.plural(len(each.tasks), 'task')} at {each.minute.astimezone(here):%H:%M}"
        names = f"label {each.label}" if each.label else humanize.first_few(each.tasks, _FEW)
        text = f"H instead of the minute in the schedules of {those} ({names})"
    return f"{text}: longest wait {humanize.span(each.after)} instead of {humanize.span(each.before)}"


def print_comparison(found: ForecastComparison, here: tzinfo) -> None:
    """Print how a change of the crontab changes its load."""
    print_facts(_differences(found, here))


def _differences(found: ForecastComparison, here: tzinfo) -> Iterator[tuple[str, Sequence[str]]]:
    until = humanize.full(found.after.until.astimezone(here))
    starts = f"{found.after.starts:,} starts instead of {found.before.starts:,} until {until}"
    before, after = (each.worst.wait if each.worst else 0.0 for each in (found.before, found.after))
    longest = f"longest wait {humanize.span(after)} instead of {humanize.span(before)}"
    yield "forecast", [f"{starts}; {longest}"]
    yield from _lines("moved", (_moved(each, here) for each in found.moved), len(found.moved))
    yield from _lines("overlaps", map(_overlap, found.overlaps), len(found.overlaps))
    yield from _lines("crowded", (_crowded(each, here) for each in found.crowded), len(found.crowded))
    unserved = (f"{task}: {why}" for task, why in found.unserved)
    yield from _lines("unserved", unserved, len(found.unserved))


def _moved(each: MovedStarts, here: tzinfo) -> str:
    before, after = (_starts_from(starts, here) for starts in (each.before, each.after))
    return f"{each.task}: {after} instead of {before}"


def _starts_from(starts: Sequence[datetime], here: tzinfo) -> str:
    if not starts:
        return "no starts"
    first = starts[0].astimezone(here)
    return f"{humanize.plural(len(starts), 'start')} from {first:%a %H:%M:%S}"


def _crowded(each: CrowdedMinute, here: tzinfo) -> str:
    at = f"{each.at.astimezone(here):%a %H:%M}"
    return f"{at}: {humanize.plural(each.starts, 'start')}, the last waits {humanize.span(each.worst)}"


def _print_left_out(left_out: LeftOut) -> None:
    parts = [f"{humanize.plural(left_out.paused, 'paused task')}"] if left_out.paused else []
    if left_out.frozen:
        parts.append(f"{humanize.plural(left_out.frozen, 'run')} while the crontab is frozen")
    if number := len(left_out.unforeseen):
        parts.append(f"the starts of {humanize.plural(number, 'task')} by events and new agents")
    if parts:
        console.note(f"left out: {', '.join(parts)}")


def print_quiet(found: QuietForecast, seconds: float, here: tzinfo) -> None:
    """Print the quiet times, or the longest time if all are too short."""
    columns = [
        TableColumn(f"QUIET ({getattr(here, 'key', here)})"),
        TableColumn("LASTS", right=True),
        TableColumn("STILL RUNNING (P95 OF THE END)", least=10),
    ]
    if not print_table(columns, (_quiet_row(each, here) for each in found.times)):
        length = f"there is no time of {format_duration(seconds)} without a start"
        until = humanize.full(found.until.astimezone(here))
        begin = humanize.full(found.longest.begin.astimezone(here))
        longest = f"the longest begins at {begin} and lasts {humanize.span(found.longest.seconds)}"
        console.note(f"{length} until {until}; {longest}")
    _print_left_out(found.left_out)


def _quiet_row(each: QuietTime, here: tzinfo) -> list[str]:
    begin, end = each.begin.astimezone(here), each.end.astimezone(here)
    until = f"{end:%H:%M:%S}" if begin.date() == end.date() else f"{end:%a %H:%M:%S}"
    names = ", ".join(f"{run.task} {_clock(run.ends_by, here)}" for run in each.running[:_FEW])
    more = len(each.running) - _FEW
    return [
        f"{begin:%a %m-%d %H:%M:%S}{_zone_name(begin)} – {until}{_zone_name(end)}",
        humanize.span(each.seconds),
        names + (f", … {more:,} more" if more > 0 else ""),
    ]


def _clock(at: datetime | None, here: tzinfo) -> str:
    return f"{at.astimezone(here):%H:%M:%S}" if at else "(unknown)"
