"""Random schedules in every zone against a walk over real minutes that knows nothing of the code."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from hypothesis import assume, given
from hypothesis import strategies as st

from dcron.schedule.next_run import next_run
from dcron.schedule.parser import parse
from dcron.schedule.rules import Rules
from dcron.schedule.zones import zone, zone_names

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
ZONES = sorted(zone_names())


@dataclass(frozen=True)
class Sample:
    """A cron line with its meaning, made together: neither is derived from the other by our parser."""

    text: str
    interval: bool
    minutes: frozenset[int]
    hours: frozenset[int]
    day: Callable[[date], bool]

    def matches(self, local_time: datetime) -> bool:
        return (
            local_time.minute in self.minutes
            and local_time.hour in self.hours
            and self.day(local_time.date())
        )


def number_fields(low: int, high: int) -> st.SearchStrategy[tuple[str, frozenset[int]]]:
    """A field of numbers as text, and the numbers."""
    numbers = st.integers(low, high)
    single = numbers.map(lambda number: (str(number), frozenset({number})))
    star = st.just(("*", frozenset(range(low, high + 1))))
    star_step = st.integers(1, high).map(lambda step: (f"*/{step}", frozenset(range(low, high + 1, step))))
    span = st.tuples(numbers, numbers, st.integers(1, 9)).map(lambda three: _span(*three))
    some = st.lists(st.one_of(single, span), min_size=1, max_size=4).map(_joined)
    return st.one_of(single, star, star_step, some)


def _span(one: int, other: int, step: int) -> tuple[str, frozenset[int]]:
    low, high = sorted((one, other))
    text = f"{low}-{high}" + (f"/{step}" if step > 1 else "")
    return text, frozenset(range(low, high + 1, step))


def _joined(terms: list[tuple[str, frozenset[int]]]) -> tuple[str, frozenset[int]]:
    return ",".join(text for text, _ in terms), frozenset().union(*(numbers for _, numbers in terms))


def _last(day: date) -> bool:
    return (day + DAY).month != day.month


def _nearest_weekday(asked_for: int) -> Callable[[date], bool]:
    def is_it(day: date) -> bool:
        first = day.replace(day=1)
        days = [first + number * DAY for number in range(31)]
        working = [each for each in days if each.month == day.month and each.weekday() < 5]
        return day == min(working, key=lambda each: abs(each.day - asked_for))

    return is_it


def _nth(weekday: int, nth: int) -> Callable[[date], bool]:
    return lambda day: day.isoweekday() % 7 == weekday and (day.day - 1) // 7 + 1 == nth


def _last_weekday(weekday: int) -> Callable[[date], bool]:
    return lambda day: day.isoweekday() % 7 == weekday and (day + 7 * DAY).month != day.month


@st.composite
def day_fields(draw: st.DrawFn) -> tuple[str, Callable[[date], bool]]:
    day_text, in_month = draw(
        st.one_of(
            number_fields(1, 31).map(lambda field: (field[0], lambda day: day.day in field[1])),
            st.just(("L", _last)),
            st.just(("LW", _nearest_weekday(31))),
            st.integers(1, 31).map(lambda asked_for: (f"{asked_for}W", _nearest_weekday(asked_for))),
        )
    )
    weekday_text, in_week = draw(
        st.one_of(
            number_fields(0, 6).map(lambda field: (field[0], lambda day: day.isoweekday() % 7 in field[1])),
            st.tuples(st.integers(0, 6), st.integers(1, 5)).map(
                lambda two: (f"{two[0]}#{two[1]}", _nth(*two))
            ),
            st.integers(0, 6).map(lambda weekday: (f"{weekday}L", _last_weekday(weekday))),
        )
    )
    if day_text.startswith("*") or weekday_text.startswith("*"):
        return f"{day_text} * {weekday_text}", lambda day: in_month(day) and in_week(day)
    return f"{day_text} * {weekday_text}", lambda day: in_month(day) or in_week(day)


every_day: st.SearchStrategy[tuple[str, Callable[[date], bool]]] = st.just(("* * *", lambda day: True))


@st.composite
def samples(
    draw: st.DrawFn, days: st.SearchStrategy[tuple[str, Callable[[date], bool]]] = every_day
) -> Sample:
    minute_text, minutes = draw(number_fields(0, 59))
    hour_text, hours = draw(number_fields(0, 23))
    day_text, day = draw(days)
    interval = minute_text.startswith("*") or hour_text.startswith("*")
    return Sample(f"{minute_text} {hour_text} {day_text}", interval, minutes, hours, day)


def walk(sample: Sample, here: ZoneInfo, start: datetime, end: datetime) -> Iterator[datetime]:
    """The instants after `start` up to `end`, minute by minute: what the rules say, not how to find it.

    An interval runs whenever the clock shows one of its local times. Fixed times run once the clock reaches
    one of their local times for the first time, unless the clock leaves out the whole date.
    """
    instant = start - 2 * DAY
    highest = instant.astimezone(here).replace(tzinfo=None)
    while instant < end:
        instant += MINUTE
        local_time = instant.astimezone(here).replace(tzinfo=None)
        if sample.interval:
            runs = sample.matches(local_time)
        else:
            runs = any(sample.matches(reached) for reached in _newly_reached(highest, local_time))
            highest = max(highest, local_time)
        if runs and instant > start:
            yield instant


def _newly_reached(highest: datetime, local_time: datetime) -> Iterator[datetime]:
    reached = highest + MINUTE
    while reached <= local_time:
        midnight = reached.replace(hour=0, minute=0)
        missed = highest < midnight and midnight + DAY <= local_time
        if not missed:
            yield reached
        reached += MINUTE


def steps(text: str, here: ZoneInfo, start: datetime, end: datetime) -> Iterator[datetime]:
    schedule = parse(text)
    instant = next_run(schedule, here, start)
    while instant is not None and instant <= end:
        yield instant
        instant = next_run(schedule, here, instant)


@st.composite
def near_a_change(draw: st.DrawFn) -> tuple[ZoneInfo, datetime]:
    """A zone, and an instant a day or two before one of its clock changes if the year has any."""
    here = zone(draw(st.sampled_from(ZONES)))
    year = datetime(draw(st.integers(1985, 2060)), 1, 1, tzinfo=UTC)
    days = [year + number * DAY for number in range(366)]
    offsets = [day.astimezone(here).utcoffset() for day in days]
    transitions = [day for day, one, other in zip(days, offsets, offsets[1:], strict=False) if one != other]
    day = draw(st.sampled_from(transitions or days))
    return here, day - timedelta(minutes=draw(st.integers(0, 1440)))


@given(sample=samples(), place=near_a_change())
def test_at_clock_changes_nothing_is_skipped_and_nothing_invented(
    sample: Sample, place: tuple[ZoneInfo, datetime]
) -> None:
    here, start = place
    end = start + 2 * DAY
    assert list(steps(sample.text, here, start, end)) == list(walk(sample, here, start, end))


@given(one=samples(), other=samples(), place=near_a_change())
def test_a_union_runs_when_either_part_does_and_once_when_both_do(
    one: Sample, other: Sample, place: tuple[ZoneInfo, datetime]
) -> None:
    here, start = place
    end = start + DAY
    expected = {*walk(one, here, start, end), *walk(other, here, start, end)}
    assert list(steps(f"{one.text} | {other.text}", here, start, end)) == sorted(expected)


@given(sample=samples(), place=near_a_change(), seconds=st.floats(0, 2 * 86_400))
def test_the_answer_is_the_same_from_every_instant_before_it(
    sample: Sample, place: tuple[ZoneInfo, datetime], seconds: float
) -> None:
    here, start = place
    after = start + timedelta(seconds=seconds)
    schedule = parse(sample.text)
    following = next_run(schedule, here, after)
    assert following is not None
    assert following > after
    for part in (0.25, 0.5, 0.999):
        assert next_run(schedule, here, after + part * (following - after)) == following
    before = next_run(schedule, here, following - timedelta(microseconds=1))
    assert before == following


@given(sample=samples(day_fields()), start=st.dates(date(1990, 1, 1), date(2060, 1, 1)))
def test_days_are_those_of_the_calendar(sample: Sample, start: date) -> None:
    minute, hour = min(sample.minutes), min(sample.hours)
    text = " ".join((str(minute), str(hour), *sample.text.split()[2:]))
    begin = datetime(start.year, start.month, start.day, tzinfo=UTC)
    end = begin + 800 * DAY
    days = [start + number * DAY for number in range(800)]
    expected = [
        datetime(day.year, day.month, day.day, hour, minute, tzinfo=UTC) for day in days if sample.day(day)
    ]
    begin -= timedelta(microseconds=1)
    assert list(steps(text, zone("UTC"), begin, end - MINUTE)) == expected


@given(place=near_a_change(), hour=st.integers(0, 23), minute=st.integers(0, 59))
def test_a_daily_task_runs_exactly_once_on_every_date_that_exists(
    place: tuple[ZoneInfo, datetime], hour: int, minute: int
) -> None:
    here, start = place
    end = start + 40 * DAY
    dates = {instant.astimezone(here).date() for instant in _hours(start - DAY, end + DAY)}
    runs = [instant.astimezone(here).date() for instant in steps(f"{minute} {hour} * * *", here, start, end)]
    assert len(runs) == len(set(runs))
    whole = [day for day in sorted(dates) if runs[0] <= day <= runs[-1]]
    assert _moved_past_midnight(here, start, end, hour) or runs == whole


def _hours(start: datetime, end: datetime) -> Iterator[datetime]:
    while start <= end:
        yield start
        start += timedelta(minutes=15)


def _moved_past_midnight(here: ZoneInfo, start: datetime, end: datetime, hour: int) -> bool:
    """A gap at the end of a date moves a run of 23:xx into the next date, where another one follows."""
    local_times = [instant.astimezone(here).replace(tzinfo=None) for instant in _hours(start, end)]
    jumps = [(one, other) for one, other in pairwise(local_times) if other - one > timedelta(minutes=15)]
    return hour == 23 and any(one.hour == 23 and other.date() > one.date() for one, other in jumps)


@given(sample=samples(), place=near_a_change())
def test_with_gap_skip_and_fold_both_fixed_times_run_whenever_the_clock_shows_them(
    sample: Sample, place: tuple[ZoneInfo, datetime]
) -> None:
    here, start = place
    assume(not sample.interval)
    schedule, rules = parse(sample.text), Rules(gap="skip", fold="both")
    shown = Sample(sample.text, True, sample.minutes, sample.hours, sample.day)
    expected = list(walk(shown, here, start, start + 2 * DAY))
    found, instant = [], next_run(schedule, here, start, rules)
    while instant is not None and instant <= start + 2 * DAY:
        found.append(instant)
        instant = next_run(schedule, here, instant, rules)
    assert found == expected
