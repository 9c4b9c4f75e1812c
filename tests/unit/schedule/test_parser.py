"""The schedule language: valid forms, and the messages for invalid ones."""

import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcron.errors import ScheduleError
from dcron.schedule.cron_expression import Cron
from dcron.schedule.next_run import next_run, require_fires, upcoming
from dcron.schedule.parser import parse
from dcron.schedule.zones import zone

NOW = datetime(2027, 1, 1, tzinfo=UTC)
UTC_ZONE = zone("UTC")


def expressions(text: str, name: str = "") -> tuple[str, ...]:
    (form,) = parse(text, name=name).forms
    assert isinstance(form, Cron)
    return form.expressions


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0 5-5 * * *", ("0 5 * * *",)),
        ("5-5 * * * *", ("5 * * * *",)),
        ("0 9 * * 1-1", ("0 9 * * 1",)),
        ("0 4-22/3 * * *", ("0 4,7,10,13,16,19,22 * * *",)),
        ("0-59 0-23 1-31 1-12 *", ("* * * * *",)),
        ("*/20 * * * *", ("0,20,40 * * * *",)),
        ("0 0 * jan,JUL Mon", ("0 0 * 1,7 1",)),
        ("0 0 * * 0-7", ("0 0 * * *",)),
        ("0 0 * * 7", ("0 0 * * 0",)),
        ("0 0 * * 5-7", ("0 0 * * 0,5,6",)),
        ("0 0 * * 7#1", ("0 0 * * 0#1",)),
        ("0 0 1,15 * 1", ("0 0 1,15 * *", "0 0 * * 1")),
        ("0 0 */2 * 1", ("0 0 1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31 * 1",)),
        ("0 0 1-31 * 1", ("0 0 * * *", "0 0 * * 1")),
        ("0 0 L * 5L", ("0 0 l * *", "0 0 * * l5")),
        ("0 0 L5 * *", None),
        ("0 0 15,L * *", ("0 0 15,l * *",)),
        ("0 0 1W,15W * *", ("0 0 1w * *", "0 0 15w * *")),
        ("0 0 LW * *", ("0 0 31w * *",)),
        ("0 0 * * L5,1#2,mon", ("0 0 * * 1", "0 0 * * 1#2,l5")),
        ("*/30 5 4 * * *", ("0,30 5 4 * * *",)),
        ("@weekly", ("0 0 * * 0",)),
        ("@ANNUALLY", ("0 0 1 1 *",)),
    ],
)
def test_a_schedule_becomes_expressions_of_numbers(text: str, canonical: tuple[str, ...] | None) -> None:
    if canonical is None:
        with pytest.raises(ScheduleError):
            parse(text)
    else:
        assert expressions(text) == canonical


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 25 * * *", "hour: 25 is not between 0 and 23 (column 3)"),
        ("60 * * * *", "minute: 60 is not between 0 and 59 (column 1)"),
        ("0 0 0 * *", "day of month: 0 is not between 1 and 31 (column 5)"),
        ("0 0 * 13 *", "month: 13 is not between 1 and 12 (column 7)"),
        ("0 0 * * 8", "weekday: 8 is not between 0 and 7 (column 9)"),
        ("61 0 0 * * *", "second: 61 is not between 0 and 59 (column 1)"),
        ("0 9,25 * * *", "hour: 25 is not between 0 and 23 (column 5)"),
        ("  0 25 * * *", "(column 5)"),
        ("0 0 * * * | 0 25 * * *", "hour: 25 is not between 0 and 23 (column 15)"),
        ("5/10 * * * *", "minute: 5/10 needs a range before the slash; write 5-59/10 or */10"),
        (
            "0 22-4 * * *",
            "hour: 22-4 runs backwards; write the two parts with a comma between them: 22-23,0-4",
        ),
        (
            "0 9 * * fri-mon",
            "weekday: fri-mon runs backwards; write the two parts with a comma between them: 5-6,0-1",
        ),
        ("0 9 * * sat-sun", "6,0"),
        (
            "9~1 * * * *",
            "minute: 9~1 runs backwards; what one value is picked from goes up, as from 1 to 9 (column 1)",
        ),
        ("H(5-1) * * * *", "minute: H(5-1) runs backwards; what one value is picked from goes up"),
        ("*/0 * * * *", "minute: the step '0' is not a number from 1 up"),
        ("*/x * * * *", "minute: the step 'x' is not a number"),
        ("*/ * * * *", "minute: the step '' is not a number"),
        ("0 9 ? * 1", "day of month: '?' is not understood; write *"),
        ("R * * * *", "minute: 'R' is not understood"),
        ("0 0 L-3 * *", "day of month: 'L' is not understood; L is the last day of the month"),
        ("0 0 * * L", "weekday: 'L' is not understood; L is for the day of month; the last Friday is 5L"),
        ("0 0 * * 1#6", "weekday: 6 in 1#6 is not between 1 and 5"),
        ("0 0 32W * *", "day of month: 32 is not between 1 and 31"),
        ("0 0 * foo *", "month: 'foo' is not understood; write numbers from 1 to 12 or jan"),
        ("0 0 * *,, *", "month: a value is missing"),
        ("-5 * * * *", "minute: '-5' is not understood"),
        ("H/90 * * * *", "minute: a step of 90 is more than the 60 values from 0 to 59"),
        ("H(5-70) * * * *", "minute: 70 is not between 0 and 59"),
        ("0~30/5 * * * *", "minute: 0~30 picks one value, so it takes no step"),
        ("~/5 * * * *", "minute: ~ picks one value, so it takes no step; write H/5"),
        ("30~ 20~3~ * * *", "hour: '20~3~' is not understood"),
        ("* * * *", "4 fields where cron has five"),
        ("* * * * * * *", "a year is not supported"),
        ("", "empty"),
        (" \t ", "empty"),
        ("|", "missing beside |"),
        ("0 9 * * * |", "missing beside | (column 12)"),
        ("@dayly", "@dayly is not known; did you mean @daily?"),
        ("@daily 5", "@daily takes no value; '5' follows it"),
        ("@every", "@every needs a value, as in @every 90s"),
        ("@every 0s", "@every counts whole seconds, from 1s up"),
        ("@every 1.5s", "@every counts whole seconds"),
        ("@every fast", "@every: 'fast' is not a duration; write"),
        ("@delay -5m", "@delay: '-5m' is not a duration"),
        ("@at noon", "@at: 'noon' is not a date and time; write 2027-01-01T09:00"),
        ("@at 2027-02-30T09:00", "does not exist: day is out of range for month"),
        ("@on two words", "@on: 'two words' is not a name"),
        ("@after a,,b", "@after: '' is not a name"),
        ("@after a,b,a", "@after: a task is named twice"),
        ("@daily | @after a", "@after cannot be combined"),
        ("@delay 5m | @daily", "@delay cannot be combined"),
        ("@on deploy | @daily", "@on cannot be combined"),
        ("\u0663 * * * *", "'\\u0663' is not a plain ASCII character (column 1)"),
        ("0 9 * *\u00a0*", "'\\xa0' is not a plain ASCII character (column 8)"),
        ("0 9 * * *\n", "'\\n' is not a plain ASCII character (column 10)"),
        ("* " * 50_000, "at most 256 characters; this one has 100000"),
    ],
)
def test_what_is_refused_and_in_which_words(text: str, message: str) -> None:
    began = time.process_time()
    with pytest.raises(ScheduleError) as refusal:
        parse(text)
    assert message in str(refusal.value)
    assert len(str(refusal.value)) < 400
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    ("text", "timed", "reboot", "delay", "event", "after", "once"),
    [
        ("0 9 * * *", True, False, None, None, (), False),
        ("@daily | @reboot", True, True, None, None, (), False),
        ("@reboot", False, True, None, None, (), False),
        ("@every 90s", True, False, None, None, (), False),
        ("@delay 5m", False, False, 300, None, (), False),
        ("@on deploy", False, False, None, "deploy", (), False),
        ("@after load, check", False, False, None, None, ("load", "check"), False),
        ("@at 2027-01-01T09:00", True, False, None, None, (), True),
        ("@at 2027-01-01 | @at 2028-01-01", True, False, None, None, (), True),
        ("@at 2027-01-01 | @daily", True, False, None, None, (), False),
        ("RRULE:FREQ=DAILY", True, False, None, None, (), False),
    ],
)
def test_a_schedule_says_what_starts_it(
    text: str,
    timed: bool,
    reboot: bool,
    delay: float | None,
    event: str | None,
    after: tuple[str, ...],
    once: bool,
) -> None:
    schedule = parse(text)
    assert schedule.text == text
    found = (schedule.timed, schedule.reboot, schedule.delay, schedule.event, schedule.after, schedule.once)
    assert found == (timed, reboot, delay, event, after, once)


def test_a_schedule_that_only_a_node_or_another_task_starts_has_no_instants() -> None:
    for text in ("@reboot", "@delay 5m", "@on deploy", "@after load"):
        assert next_run(parse(text), UTC_ZONE, NOW) is None
        require_fires(parse(text), UTC_ZONE, NOW)


def test_every_counts_from_the_epoch_in_real_time() -> None:
    assert next_run(parse("@every 5m"), UTC_ZONE, NOW) == NOW + timedelta(minutes=5)
    assert next_run(parse("@every 5m"), UTC_ZONE, NOW - timedelta(seconds=1)) == NOW
    week = next_run(parse("@every 1w"), UTC_ZONE, NOW)
    assert week == datetime(2027, 1, 7, tzinfo=UTC)  # a Thursday, as 1970-01-01 was
    berlin = zone("Europe/Berlin")
    before_gap = datetime(2027, 3, 27, 22, tzinfo=UTC)
    times = [occurrence.at for occurrence in upcoming(parse("@every 6h"), berlin, before_gap, count=3)]
    assert times == [datetime(2027, 3, 28, hour, tzinfo=UTC) for hour in (0, 6, 12)]


def test_hashes_depend_on_the_name_alone() -> None:
    # Written out: another value would move every such task at an upgrade.
    assert expressions("H H * * *", "backup") == expressions("H H * * *", "backup")
    assert expressions("H H H H H", "backup") == ("54 1 6 11 *", "54 1 * 11 2")
    assert expressions("H(0-29) 0~5 * * *", "backup") == ("24 1 * * *",)
    assert expressions("~ ~5 ~ 3~ *", "backup") == ("54 1 6 5 *",)
    assert expressions("~ ~ ~ ~ ~", "backup") == expressions("H H H H H", "backup")
    assert expressions("H/20 * * * *", "backup") == ("14,34,54 * * * *",)


@pytest.mark.slow
def test_hashes_spread_and_stay_within_bounds() -> None:
    minutes = [int(expressions("H 0 * * *", f"task-{number}")[0].split()[0]) for number in range(6000)]
    assert set(minutes) == set(range(60))
    assert max(map(minutes.count, range(60))) < 150
    both = {expressions("H H * * *", f"task-{number}")[0] for number in range(3000)}
    assert len(both) > 1000  # of 1440: minute and hour do not move together
    for number in range(300):
        minute, hour, day, *_ = expressions("H(10-19)/5 20~23 H * *", f"task-{number}")[0].split()
        first, second = map(int, minute.split(","))
        assert 10 <= first < 15
        assert second == first + 5
        assert 20 <= int(hour) <= 23
        assert 1 <= int(day) <= 28


@pytest.mark.parametrize(
    ("text", "interval"),
    [
        ("* 3 * * *", True),
        ("0 * * * *", True),
        ("H/15 3 * * *", True),
        ("H 3 * * *", False),
        ("H(0-29)/5 3 * * *", False),
        ("0-59 0-23 * * *", False),
        ("5,* 3 * * *", False),
        ("*/10 0 3 * * *", True),
        ("0 0 3 * * *", False),
        ("@hourly", True),
        ("@daily", False),
    ],
)
def test_the_kind_is_lexical(text: str, interval: bool) -> None:
    (form,) = parse(text).forms
    assert isinstance(form, Cron)
    assert form.is_interval is interval


def test_a_union_has_a_kind_for_each_part() -> None:
    berlin, evening = zone("Europe/Berlin"), datetime(2027, 3, 27, 22, tzinfo=UTC)
    schedule = parse("*/30 2 * * * | 45 2 * * *")
    times = [f"{each.local:%d %H:%M}" for each in upcoming(schedule, berlin, evening, count=3)]
    assert times == ["28 03:00", "29 02:00", "29 02:30"]  # only 02:45 is moved


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("0 0 30 2 *", "nothing matches within 50 years"),
        ("0 0 31 4,6,9,11 *", "nothing matches within 50 years"),
        ("* * * * * | 0 0 31 2 *", None),
        ("0 0 29 2 1", None),
        ("@at 2020-01-01", "it is past"),
        ("@at 2011-12-30T12:00", "nothing matches"),
        ("RRULE:FREQ=DAILY;UNTIL=20200101", "it is past"),
        ("RRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "nothing matches within 50 years"),
        ("RRULE:FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30", "nothing matches within 50 years"),
    ],
)
def test_a_schedule_that_never_fires_is_refused(text: str, cause: str | None) -> None:
    began = time.process_time()
    apia = zone("Pacific/Apia")
    if cause is None:
        require_fires(parse(text), apia, NOW)
    else:
        with pytest.raises(ScheduleError, match=f"never fires: .*{cause}"):
            require_fires(parse(text), apia, NOW)
    assert time.process_time() - began < 2


@given(st.text(alphabet="0123456789*/-,LWH#~()@|?RAT:=;. ", max_size=40) | st.text(max_size=300))
def test_whatever_is_typed_is_read_or_refused_plainly(text: str) -> None:
    with suppress(ScheduleError):  # any other error is a fault
        schedule = parse(text, name="x")
        following = next_run(schedule, zone("America/New_York"), NOW)
        assert following is None or following > NOW


@pytest.mark.parametrize(
    "text", ["* * * * *", "0 9 * * *", "0 0 29 2 *", "@every 1w", "RRULE:FREQ=DAILY", "* * * * * *"]
)
@pytest.mark.parametrize("name", ["Pacific/Kiritimati", "Pacific/Niue", "UTC", "Europe/Berlin"])
def test_at_the_ends_of_the_calendar_there_is_an_answer(text: str, name: str) -> None:
    schedule, here = parse(text), zone(name)
    for year in (9950, 9997, 9998, 9999):
        after = datetime(year, 12, 31, 23, 59, tzinfo=UTC)
        following = next_run(schedule, here, after)
        assert following is None or following > after
    assert next_run(schedule, here, datetime.max.replace(tzinfo=UTC)) is None
    assert next_run(schedule, here, datetime.min.replace(tzinfo=UTC)) is not None


def test_a_naive_instant_is_refused() -> None:
    with pytest.raises(ValueError, match="must be aware"):
        next_run(parse("0 9 * * *"), UTC_ZONE, NOW.replace(tzinfo=None))
    with pytest.raises(ValueError, match="must be aware"):
        next(upcoming(parse("0 9 * * *"), UTC_ZONE, NOW.replace(tzinfo=None)))
