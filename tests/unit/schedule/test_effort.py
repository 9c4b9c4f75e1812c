"""No schedule takes long to compute: what would is refused, by steps that are counted and not by a clock."""

import random
import time
from datetime import UTC, datetime, timedelta

import pytest

from dcron.errors import ScheduleError
from dcron.schedule import effort
from dcron.schedule.effort import TooMuchEffort
from dcron.schedule.kinds import Schedule
from dcron.schedule.next_run import next_run, require_fires
from dcron.schedule.parser import parse
from dcron.schedule.rrule import read_recurrence
from dcron.schedule.zones import zone

NOW = datetime(2027, 3, 1, 12, tzinfo=UTC)
LONG = "DTSTART:16000101T000000 RRULE:FREQ=DAILY;INTERVAL=60;BYHOUR=1,2,3;COUNT=9999"


def following(text: str, after: datetime = NOW) -> datetime | None:
    return next_run(parse(text), zone("UTC"), after)


@pytest.mark.parametrize(
    ("text", "following_run"),
    [
        ("DTSTART:16000101 RRULE:FREQ=DAILY;INTERVAL=60;COUNT=9999", datetime(2027, 4, 12, tzinfo=UTC)),
        ("DTSTART:20270301 RRULE:FREQ=DAILY;COUNT=1", None),
        ("DTSTART:20270301 RRULE:FREQ=DAILY;COUNT=2", datetime(2027, 3, 2, tzinfo=UTC)),
        (
            "DTSTART:20260301T090000 RRULE:FREQ=WEEKLY;INTERVAL=2;COUNT=27",
            None,
        ),
        (
            "DTSTART:20260301T090000 RRULE:FREQ=WEEKLY;INTERVAL=2;COUNT=28",
            datetime(2027, 3, 14, 9, tzinfo=UTC),
        ),
        ("DTSTART:20260228 RRULE:FREQ=MONTHLY;COUNT=14", datetime(2027, 3, 28, tzinfo=UTC)),
        ("DTSTART:20260228 RRULE:FREQ=MONTHLY;COUNT=13", None),
        ("DTSTART:20260131 RRULE:FREQ=MONTHLY;COUNT=9", datetime(2027, 3, 31, tzinfo=UTC)),
        ("DTSTART:20260131 RRULE:FREQ=MONTHLY;COUNT=8", None),
        ("DTSTART:20240301 RRULE:FREQ=YEARLY;COUNT=5", datetime(2028, 3, 1, tzinfo=UTC)),
        ("DTSTART:20240301 RRULE:FREQ=YEARLY;COUNT=4", None),
        (
            "DTSTART:20270228T120003 RRULE:FREQ=DAILY;INTERVAL=7;COUNT=9999",
            datetime(2027, 3, 7, 12, 0, 3, tzinfo=UTC),
        ),
        ("DTSTART:99900101 RRULE:FREQ=YEARLY;COUNT=9999", datetime(9990, 1, 1, tzinfo=UTC)),
    ],
)
def test_an_end_by_count_is_found_by_arithmetic(text: str, following_run: datetime | None) -> None:
    assert following(text) == following_run


def test_arithmetic_and_the_walk_agree_on_the_last_local_time() -> None:
    from dateutil.rrule import rrulestr  # type: ignore[import-untyped]

    chance = random.Random(3)
    for _ in range(300):
        start = datetime(2020, 1, 1) + timedelta(seconds=chance.randrange(10**8))  # noqa: DTZ001 a local time
        frequency = chance.choice(["YEARLY", "MONTHLY", "WEEKLY", "DAILY"])
        rule = f"FREQ={frequency};INTERVAL={chance.randint(1, 9)};COUNT={chance.randint(1, 40)}"
        local_times = list(rrulestr(f"RRULE:{rule}", dtstart=start))
        if local_times[-1].year - start.year > 200:
            continue  # `effort` may refuse to walk there
        ours = read_recurrence(f"DTSTART:{start:%Y%m%dT%H%M%S} RRULE:{rule}")
        last = local_times[-1]
        assert ours.next_local_time(last - timedelta(seconds=1)) == last, rule
        assert ours.next_local_time(last) is None, rule


@pytest.mark.parametrize("text", [LONG, " | ".join([LONG.replace("BYHOUR=1,2,3", "BYHOUR=1")] * 3)])
def test_what_takes_too_long_is_refused_with_the_reason(text: str) -> None:
    with pytest.raises(ScheduleError, match=r"more than 0\.1 s to compute: use a later DTSTART"):
        require_fires(parse(text), zone("UTC"), NOW)


def test_a_schedule_is_refused_again_however_often_it_is_asked() -> None:
    for _ in range(3):
        with pytest.raises(TooMuchEffort):
            following(LONG)


@pytest.mark.slow
def test_random_rules_are_within_the_bound_or_refused() -> None:
    """2,000 of them, also with parts that leave nothing; the measure is loose: the machine may be slow."""
    chance = random.Random(11)
    refused, slowest = 0, 0.0
    for _ in range(2_000):
        text = random_rule(chance)
        try:
            schedule = parse(text)
        except ScheduleError:
            continue
        took = processor_time(schedule)
        if took >= 10 * effort.MOST / 1e6:  # the machine may have paused
            took = min(took, processor_time(schedule))
        slowest = max(slowest, took)
        refused += is_refused(schedule)
    assert slowest < 10 * effort.MOST / 1e6, "a second of processor time, where a tenth is meant"
    assert refused < 200


def processor_time(schedule: Schedule) -> float:
    began = time.thread_time()
    is_refused(schedule)
    return time.thread_time() - began


def is_refused(schedule: Schedule) -> bool:
    try:
        next_run(schedule, zone("UTC"), NOW)
    except TooMuchEffort:
        return True
    return False


def random_rule(chance: random.Random) -> str:
    frequency = chance.choice(["YEARLY", "MONTHLY", "WEEKLY", "DAILY"])
    parts = [f"FREQ={frequency}"]
    if chance.random() < 0.6:
        parts.append(f"INTERVAL={chance.choice([1, 2, 7, 60, 997, 9999])}")
    if chance.random() < 0.4:
        parts.append(f"COUNT={chance.choice([1, 100, 9999])}")
    for name, low, high in (
        ("BYMONTH", 1, 12),
        ("BYMONTHDAY", -31, 31),
        ("BYYEARDAY", -366, 366),
        ("BYHOUR", 0, 23),
        ("BYMINUTE", 0, 59),
        ("BYSECOND", 0, 59),
        ("BYSETPOS", -3, 3),
    ):
        if chance.random() < 0.25:
            expected = {chance.randint(low, high) or 1 for _ in range(chance.choice([1, 1, 3, 20]))}
            parts.append(f"{name}={','.join(map(str, sorted(expected)))}")
    if chance.random() < 0.3:
        parts.append(f"BYDAY={','.join(chance.sample(['MO', 'TU', 'WE', 'TH', 'FR'], 2))}")
    year = chance.choice([1600, 1900, 2000, 2026])
    return f"DTSTART:{year}{chance.randint(1, 12):02}{chance.randint(1, 28):02} RRULE:{';'.join(parts)}"


def test_a_transaction_computes_only_what_takes_no_time() -> None:
    """What takes longer is computed between two tries of the transaction, and then known."""
    known: dict[str, int] = {}
    tries: list[list[str]] = []

    def work(name: str, steps: int) -> int:
        def compute() -> int:
            effort.spend(steps)
            return known.setdefault(name, steps)

        return known[name] if name in known else effort.affordable(compute)

    def transaction() -> int:
        tries.append([])
        total = 0
        for name, steps in (("a", 50_000), ("b", 10), ("c", 90_000), ("d", 20_000)):
            total += work(name, steps)
            tries[-1].append(name)
        return total

    assert effort.unlocked(transaction) == 160_010
    assert tries == [[], ["a", "b"], ["a", "b", "c", "d"]]


def test_a_transaction_that_needs_very_many_cheap_times_ends_too() -> None:
    def compute() -> int:
        effort.spend(500)
        return 1

    def transaction() -> int:
        return sum(effort.affordable(compute) for _ in range(2_000))

    assert effort.unlocked(transaction) == 2_000
