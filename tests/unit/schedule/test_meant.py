"""The schedule that was meant by a text that is none."""

import pytest

from dcron.schedule.meant import hint, meant
from dcron.schedule.parser import parse


@pytest.mark.parametrize(
    ("text", "schedule"),
    [
        ("daily", "@daily"),
        ("Hourly", "@hourly"),
        ("5m", "@every 5m"),
        ("every 5m", "@every 5m"),
        ("every 5 minutes", "@every 5m"),
        ("every hour", "@every 1h"),
        ("2 days", "@every 2d"),
        ("at 9am", "0 9 * * *"),
        ("12am", "0 0 * * *"),
        ("9:30", "30 9 * * *"),
        ("daily at 5:15 pm", "15 17 * * *"),
        ("every day at 23:59", "59 23 * * *"),
    ],
)
def test_a_text_is_answered_with_a_schedule(text: str, schedule: str) -> None:
    assert meant(text) == schedule
    parse(schedule)
    assert schedule in hint(text)


@pytest.mark.parametrize("text", ["9", "25:00", "9:75", "at noon", "* * * *", "x", "every", "13 pm 5"])
def test_another_text_is_not_guessed(text: str) -> None:
    assert meant(text) is None
