"""Valid tasks, and the messages for invalid ones."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from dcron.errors import ScheduleError, UsageError, ZoneError
from dcron.fields.collection_kinds import LONGEST_TAG, MOST_TAGS
from dcron.fields.registry import MAX_COMMAND, MAX_STDIN, MOST_NEEDS
from dcron.model import LONGEST_DURATION, LONGEST_JITTER, MOST_BACKOFF_FACTOR, MOST_TRIES, Definition
from dcron.policy.starting import lanes
from dcron.policy.validation import require_command, require_name, require_runnable, require_valid
from dcron.values.unreadable import Unreadable

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
        {"timeout": float(LONGEST_DURATION)},
        {"command": "x" * MAX_COMMAND},
        {"env": {"A": "x" * (MAX_COMMAND - 2)}},
        {"stdin": "x" * MAX_STDIN},
        {"schedule": "@delay 5m"},
        {"schedule": "@on deploy"},
        {"schedule": "@after dump,copy", "every_node": True, "deadline": 60.0, "overlap": "queue"},
        {"overlap": "replace", "max_running": 3, "priority": "low", "queue": "q" * 100},
        {"tries": MOST_TRIES, "backoff": 0.0, "backoff_factor": 1.0, "backoff_max": 0.0},
        {"tries": 2, "on_lost": "retry", "backoff": float(LONGEST_DURATION), "backoff_max": LONGEST_DURATION},
        {"tries": 2, "backoff_factor": MOST_BACKOFF_FACTOR},
        {"catch_up": "all", "catch_up_window": 86_400.0, "deadline": 0.001, "jitter": LONGEST_JITTER},
        {"catch_up": "skip", "schedule": "@reboot | @daily"},
        {"require": ("ssd", "zone=eu-1", "x" * LONGEST_TAG)},
        {"require": [f"tag-{number}" for number in range(MOST_TAGS)]},
        {"need": {"gpu": 1, "cpu": 0.5, "mem": 8 << 30}},
        {"limit": {"mem": 2 << 30, "cpu-time": 60, "files": 100, "procs": 50, "file-size": 0, "core": 0}},
        {"every_node": True, "schedule": "@reboot"},
    ],
)
def test_a_task_that_agents_can_run_is_accepted(changes: dict[str, Any]) -> None:
    require_valid(replace(GOOD, **changes), NOON)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": ""}, "'' cannot be a task's name: use 1 to 100"),
        ({"name": "a b"}, "'a b' cannot be"),
        ({"name": "a\n"}, "cannot be"),
        ({"name": "ä"}, "cannot be"),
        ({"name": "n" * 101}, "cannot be"),
        ({"command": ""}, "the command is empty"),
        ({"command": " \n"}, "the command is empty"),
        ({"command": "x" * (MAX_COMMAND + 1)}, "131,072 bytes; 131,071 is the most"),
        ({"argv": ("", "x")}, "the command's first word is empty"),
        ({"env": {"A": "x" * (MAX_COMMAND - 1)}}, "env: 'A' has more than 131,071 bytes"),
        ({"user": ""}, "user: the name is empty; leave it out"),
        ({"except_calendar": ""}, "except: the name is empty"),
        ({"only_calendar": ""}, "only: the name is empty"),
        ({"command": "ü" * MAX_COMMAND}, "262,142 bytes"),
        ({"argv": ("ls", "x" * (MAX_COMMAND + 1))}, "131,072 bytes"),
        ({"command": "a\0b"}, "command: has a NUL character"),
        ({"command": "\udcff"}, "command: is not valid UTF-8"),
        ({"argv": ("ls", "a\0b")}, "argv: word 1: has a NUL character"),
        ({"argv": ("ls", 1)}, "argv: word 1: 1 is not a text"),
        ({"argv": Unreadable("oops")}, "argv: 'oops' is not JSON that can be read; write a list of words"),
        ({"env": {"": "1"}}, "env: '' cannot name a variable"),
        ({"env": {"A=B": "1"}}, "env: 'A=B' cannot name a variable"),
        ({"env": {"A\0": "1"}}, "cannot name a variable"),
        ({"env": {"\udcff": "1"}}, "env: .* is not valid UTF-8"),
        ({"env": {"A": "\0"}}, "env: 'A': has a NUL character"),
        ({"env": {"A": 1}}, "env: 'A': 1 is not a text"),
        ({"env": {"A": None}}, "env: 'A': None is not a text"),
        ({"env": Unreadable("A=1")}, "env: 'A=1' is not JSON that can be read; write names and values"),
        ({"shell": "bash"}, "shell: 'bash' is not an absolute path"),
        ({"cwd": "tmp"}, "cwd: 'tmp' is not an absolute path"),
        ({"cwd": "/a\0"}, "cwd: has a NUL character"),
        ({"user": "a\0"}, "user: has a NUL character"),
        ({"describe": "\udcff"}, "describe: is not valid UTF-8"),
        ({"stdin": "x" * (MAX_STDIN + 1)}, "stdin: has 1,048,577 bytes"),
        ({"timeout": 0.0}, "timeout: .* is not valid; give a duration"),
        ({"timeout": -1.0}, "timeout: .* is not valid; give a duration"),
        ({"timeout": float("nan")}, "timeout: .* is not valid; give a duration"),
        ({"timeout": float("inf")}, "timeout: .* is not valid; give a duration"),
        ({"max_running": 0}, "max-running: 0 is not valid; give a number from 1 on"),
        ({"overlap": "ask"}, "overlap: 'ask' is none of skip, queue, replace"),
        ({"overlap": None}, "overlap: None is none of"),
        ({"on_lost": "forget"}, "on-lost: 'forget' is none of dead, retry"),
        ({"catch_up": ["all"]}, r"catch-up: \['all'\] is none of skip, last, all"),
        ({"priority": "urgent"}, "priority: 'urgent' is none of high, normal, low"),
        ({"tries": 0}, "tries: 0 is not valid; give 1 to 1000, the first included"),
        ({"tries": MOST_TRIES + 1}, "tries: 1001 is not valid"),
        ({"tries": 1.5}, "tries: 1.5 is not a whole number"),
        ({"tries": "3"}, "tries: '3' is not valid"),
        ({"tries": None}, "tries: None is not valid"),
        ({"backoff": -1.0}, "backoff: -1s is not valid; give 0s to a century"),
        ({"backoff": float("nan")}, "backoff: nan is not valid"),
        ({"backoff_factor": 0.5}, "backoff-factor: 0.5 is not valid; give 1 to 1000, such as 2"),
        ({"backoff_factor": float("inf")}, "backoff-factor: inf is not valid"),
        ({"backoff_max": LONGEST_DURATION + 1}, "backoff-max: .* is not valid; give 0s to a century"),
        ({"deadline": 0.0}, "deadline: 0s is not valid; give a duration longer than nothing"),
        ({"deadline": LONGEST_DURATION + 1}, "deadline: .* is not valid"),
        ({"catch_up_window": 0.0}, "catch-up-window: 0s is not valid; give a duration longer than nothing"),
        ({"jitter": 0.0}, "jitter: 0s is not valid; give a duration longer than nothing and up to a day"),
        ({"jitter": LONGEST_JITTER + 1}, "jitter: 1d1s is not valid"),
        ({"on_lost": "retry"}, "on-lost retry needs tries of 2 or more: a lost attempt counts"),
        ({"queue": ""}, "queue: '' cannot be a queue's name: use 1 to 100 of"),
        ({"queue": "a b"}, "queue: 'a b' cannot be a queue's name"),
        ({"queue": "q" * 101}, "queue: .* cannot be a queue's name"),
        ({"queue": 7}, "queue: 7 cannot be a queue's name"),
        ({"require": ("a b",)}, "require: 'a b' is not a tag; write a word such as ssd, or two such as zone"),
        ({"require": ("",)}, "require: '' is not a tag"),
        ({"require": ("a=b=c",)}, "require: 'a=b=c' is not a tag"),
        ({"require": ("a=",)}, "require: 'a=' is not a tag"),
        ({"require": ("a,b",)}, "require: 'a,b' is not a tag"),
        ({"require": ("ä",)}, "require: 'ä' is not a tag"),
        ({"require": ("a", 1)}, "require: 1 is not a tag"),
        ({"require": [["a"]]}, r"require: \['a'\] is not a tag"),
        ({"require": ("a", "b", "a")}, "require: a is given twice"),
        ({"require": ("x" * (LONGEST_TAG + 1),)}, "require: .* has more than 60 characters"),
        (
            {"require": [f"t{number}" for number in range(21)]},
            "require: 21 tags are too many; at most 20 are allowed",
        ),
        ({"require": Unreadable("ssd")}, "require: 'ssd' is not JSON that can be read; write a list of tags"),
        ({"need": Unreadable("gpu")}, "need: 'gpu' is not JSON that can be read; write names and numbers"),
        ({"need": {"gpu": "1"}}, "need: gpu: '1' is not a number"),
        ({"need": {"gpu": True}}, "need: gpu: True is not a number"),
        ({"need": {"gpu": 0}}, "need: gpu: give more than 0"),
        ({"need": {"GPU": 1}}, "need: 'GPU' is not a name"),
        ({"need": {"mem": 0.5}}, "need: mem: give whole bytes"),
        ({"need": {"slots": 2}}, "need: slots are counted by themselves, one for each run; leave them out"),
        (
            {"need": {f"n{number}": 1 for number in range(11)}},
            "need: 11 names are too many; at most 10 are allowed",
        ),
        ({"limit": Unreadable("x")}, "limit: 'x' is not JSON that can be read; write names and numbers"),
        ({"limit": {"memory": 1}}, "limit: 'memory' cannot be limited; there are mem"),
        ({"limit": {"mem": "2G"}}, "limit: mem: '2G' is not a whole number"),
        ({"limit": {"files": 0}}, "limit: files: give from 1 to"),
    ],
)
def test_a_task_that_agents_cannot_run_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        require_valid(replace(GOOD, **changes), NOON)


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ("nonsense", "field"),
        ("", "empty"),
        ("61 * * * *", "minute"),
        ("@after backup", "backup cannot come after itself; name the tasks that run before it"),
        ("@after dump,backup", "backup cannot come after itself"),
        ("@after a/b", "'a/b' cannot be the name of a task"),
        ("@after dump | @daily", "@after cannot be combined"),
        ("@daily | @delay 5m", "@delay cannot be combined"),
        ("@on push | @daily", "@on cannot be combined"),
        ("@on " + "e" * 101, "@on: the name of an event has at most 100 characters"),
    ],
)
def test_a_schedule_that_agents_do_not_run_is_refused(schedule: str, message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        require_runnable(replace(GOOD, schedule=schedule))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schedule": "@on push", "catch_up": "all"}, "catch-up: @on push has no times of its own, so there"),
        (
            {"schedule": "@after a", "catch_up_window": 60.0},
            "catch-up-window: @after a has no times of its own",
        ),
        (
            {"schedule": "@delay 5m", "jitter": 5.0},
            "jitter: @delay 5m has .* no starts to spread; leave it out",
        ),
        ({"schedule": "@reboot", "jitter": 5.0}, "jitter: @reboot has no times of its own"),
        (
            {"catch_up": "skip", "catch_up_window": 60.0},
            "catch-up-window: with catch-up skip no run is caught up on",
        ),
        ({"tries": 2, "backoff": 7200.0}, "backoff: 2h is longer than backoff-max, 1h; give a longer"),
    ],
)
def test_what_leaves_another_option_without_meaning_is_refused_when_written_and_not_when_planned(
    changes: dict[str, Any], message: str
) -> None:
    line = replace(GOOD, **changes)
    with pytest.raises(UsageError, match=message):
        require_valid(line, NOON)
    require_runnable(line)


def test_the_longest_lane_fits_an_index_of_postgres() -> None:
    tags = tuple(f"{number:02}".ljust(LONGEST_TAG, "x") for number in range(MOST_TAGS))
    need = {f"{number}".ljust(40, "n"): 999_999_999.123456 for number in range(MOST_NEEDS)}
    line = replace(GOOD, queue="q" * 100, priority="normal", require=tags, need=need)
    require_runnable(line)
    assert len(str(lanes.lane_of(line).on(f"{'w' * 60}-00000000"))) < 2600


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


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ({"command": 5}, "command: 5 is not a text"),
        ({"command": None}, "command: None is not a text"),
        ({"command": "a\0b"}, "NUL"),
        ({"command": ""}, "the command is empty"),
        ({"argv": "ls"}, "argv: 'ls' is not a list of words"),
        ({"argv": [5]}, "argv: word 0: 5 is not a text"),
        ({"env": ["A"]}, "env: .* is not names and values"),
        ({"env": {"A": 1}}, "env: 'A': 1 is not a text"),
        ({"user": 5}, "user: 5 is not a text"),
        ({"stdin": ["x"]}, "stdin: .* is not a text"),
        ({"cwd": "tmp"}, "cwd: 'tmp' is not an absolute path"),
        ({"shell": 5}, "shell: 5 is not a text"),
        ({"timeout": "x"}, "timeout: .* is not valid; give a duration"),
        ({"timeout": float("nan")}, "timeout: .* is not valid; give a duration"),
        ({"timeout": float("inf")}, "timeout: .* is not valid; give a duration"),
        ({"timeout": -1}, "timeout: .* is not valid; give a duration"),
        ({"limit": {"mem": None}}, "mem: None is not a whole number"),
        ({"limit": {"nope": 1}}, "cannot be limited"),
    ],
)
def test_what_no_node_can_execute_is_refused(spec: dict[str, Any], complaint: str) -> None:
    require_command({"command": "true"})
    with pytest.raises(UsageError, match=complaint):
        require_command({"command": "true", **spec})
