"""What a line of the crontab may be, and what people are told when it may not."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from dcron.errors import ScheduleError, UsageError, ZoneError
from dcron.model import Definition
from dcron.validation import (
    LONGEST_TIMEOUT,
    MAX_COMMAND,
    MAX_STDIN,
    Unreadable,
    require_name,
    require_runnable,
    require_valid,
)

NOON = datetime(2027, 6, 1, 12, tzinfo=UTC)
GOOD = Definition(name="backup", schedule="*/10 * * * *", timezone="UTC", command="true")


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"name": "A-Za-z0-9._-"},
        {"name": "n" * 100},
        {"schedule": "@reboot"},
        {"schedule": "@at 2027-06-01T12:00:01Z"},
        {"command": "'ünï\n'", "stdin": "a\nb"},
        {"argv": ("ls", ""), "command": "ls ''"},
        {"env": {"A": "", "with space": "1", "Ü": "=\n"}},
        {"timeout": 0.001, "max_running": None, "cwd": "/", "shell": "/bin/bash"},
        {"timeout": float(LONGEST_TIMEOUT)},
        {"command": "x" * MAX_COMMAND},
        {"stdin": "x" * MAX_STDIN},
    ],
)
def test_a_line_that_agents_can_run_is_accepted(changes: dict[str, Any]) -> None:
    require_valid(replace(GOOD, **changes), NOON)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"name": ""}, "'' cannot be a task's name: use 1 to 100"),
        ({"name": "a b"}, "'a b' cannot be"),
        ({"name": "a\n"}, "cannot be"),
        ({"name": "ä"}, "cannot be"),
        ({"name": "n" * 101}, "cannot be"),
        ({"command": ""}, "the command is empty"),
        ({"command": " \n"}, "the command is empty"),
        ({"command": "x" * (MAX_COMMAND + 1)}, "131,073 bytes; 131,072 is the most"),
        ({"command": "ü" * MAX_COMMAND}, "262,144 bytes"),
        ({"argv": ("ls", "x" * (MAX_COMMAND + 1))}, "131,073 bytes"),
        ({"command": "a\0b"}, "command: has a NUL character"),
        ({"command": "\udcff"}, "command: is not valid UTF-8"),
        ({"argv": ("ls", "a\0b")}, "argv word 1: has a NUL character"),
        ({"argv": ("ls", 1)}, "argv word 1: 1 is not a text"),
        ({"argv": Unreadable("oops")}, "argv: 'oops' is not JSON that can be read; write a list of words"),
        ({"env": {"": "1"}}, "env: '' cannot name a variable"),
        ({"env": {"A=B": "1"}}, "env: 'A=B' cannot name a variable"),
        ({"env": {"A\0": "1"}}, "cannot name a variable"),
        ({"env": {"\udcff": "1"}}, "env name .* is not valid UTF-8"),
        ({"env": {"A": "\0"}}, "env 'A': has a NUL character"),
        ({"env": {"A": 1}}, "env 'A': 1 is not a text"),
        ({"env": {"A": None}}, "env 'A': None is not a text"),
        ({"env": Unreadable("A=1")}, "env: 'A=1' is not JSON that can be read; write names and values"),
        ({"shell": "bash"}, "shell: 'bash' is not an absolute path"),
        ({"cwd": "tmp"}, "cwd: 'tmp' is not an absolute path"),
        ({"cwd": "/a\0"}, "cwd: has a NUL character"),
        ({"user": "a\0"}, "user: has a NUL character"),
        ({"describe": "\udcff"}, "describe: is not valid UTF-8"),
        ({"stdin": "x" * (MAX_STDIN + 1)}, "stdin: 1,048,577 bytes"),
        ({"timeout": 0.0}, "timeout: give a duration"),
        ({"timeout": -1.0}, "timeout: give a duration"),
        ({"timeout": float("nan")}, "timeout: give a duration"),
        ({"timeout": float("inf")}, "timeout: give a duration"),
        ({"max_running": 0}, "max-running: give 1 or more"),
    ],
)
def test_a_line_that_agents_cannot_run_is_refused_with_what_is_wrong(
    changes: dict[str, Any], told: str
) -> None:
    with pytest.raises(UsageError, match=told):
        require_valid(replace(GOOD, **changes), NOON)


@pytest.mark.parametrize("schedule", ["nonsense", "", "61 * * * *", "@delay 5m", "@on push", "@after other"])
def test_a_schedule_that_agents_do_not_run_is_refused(schedule: str) -> None:
    with pytest.raises(ScheduleError):
        require_runnable(replace(GOOD, schedule=schedule))


@pytest.mark.parametrize("timezone", ["Mars/Olympus", "", "../../etc/passwd", "a\0b"])
def test_a_zone_that_is_not_there_is_refused(timezone: str) -> None:
    with pytest.raises(ZoneError):
        require_runnable(replace(GOOD, timezone=timezone))


@pytest.mark.parametrize("schedule", ["0 0 30 2 *", "@at 2027-06-01T12:00:00Z"])
def test_a_schedule_that_never_fires_is_refused_when_written_and_not_when_planned(schedule: str) -> None:
    line = replace(GOOD, schedule=schedule)
    with pytest.raises(ScheduleError):
        require_valid(line, NOON)
    if schedule.startswith("@at"):
        require_runnable(line)


def test_a_name_is_checked_alone_too() -> None:
    require_name("backup")
    with pytest.raises(UsageError):
        require_name("*")


def test_what_cannot_be_read_looks_empty_and_is_not_the_same_as_empty() -> None:
    unreadable = Unreadable("oops")
    assert not unreadable
    assert list(unreadable.items()) == []
    assert unreadable != {}
    assert unreadable != {}
    assert unreadable == unreadable
