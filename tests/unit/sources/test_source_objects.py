"""Tasks in JSON and TOML: keys, types, values and what is wrong with them."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from dcron.cli.output import json_output
from dcron.errors import CrontabFileError
from dcron.fields import BY_KEY
from dcron.model import Definition
from dcron.services.tasks.rows import TaskRow
from dcron.sources import Format, SourceText, parse
from dcron.sources.objects import STATE_KEYS
from tests.support.definitions import NOON, task

LEAST = {"name": "a", "schedule": "@daily", "command": "x"}


def read(text: str, format: Format | None = None) -> SourceText:
    return parse(text, file="f", timezone="Europe/Berlin", format=format)


def one(**values: Any) -> Definition:
    """Return the task of a JSON object with these values."""
    return read(json.dumps([{**LEAST, **values}])).tasks[0].definition


def refused(text: str, format: Format | None = None) -> str:
    with pytest.raises(CrontabFileError) as error:
        read(text, format)
    return str(error.value)


def test_values_are_written_as_in_json_or_as_people_type_them() -> None:
    assert one(timeout=90) == one(timeout="1m30s")
    assert one(max_running=None) == one(max_running="none")
    assert one(need={"mem": 1 << 30, "gpu": 1}) == one(need={"mem": "1G", "gpu": "1"})
    assert one(keep={"runs": 604800, "last": 5}) == one(keep={"runs": "7d", "last": "5"})
    assert one(tries=3.0).tries == 3
    assert one(timeout=None, describe=None) == one()
    assert (
        one(argv=["echo", "a b"], command="echo 'a b'")
        == read('[{"name": "a", "schedule": "@daily", "argv": ["echo", "a b"]}]').tasks[0].definition
    )
    assert one(**{"except": "holidays"}).except_calendar == "holidays"


def test_a_time_of_toml_is_in_utc() -> None:
    base = '[task.a]\nschedule = "@daily"\ncommand = "x"\nnot_before = '
    for text in ("2027-01-01T09:00:00", "2027-01-01T10:00:00+01:00", '"2027-01-01T09:00Z"'):
        at = read(base + text).tasks[0].definition.not_before
        assert at == datetime(2027, 1, 1, 9, tzinfo=UTC)


def test_a_file_may_name_the_zone_of_its_tasks() -> None:
    text = json.dumps({"timezone": "Asia/Tokyo", "tasks": [LEAST, {**LEAST, "name": "b", "timezone": "UTC"}]})
    assert [task.definition.timezone for task in read(text).tasks] == ["Asia/Tokyo", "UTC"]
    toml = 'timezone = "Asia/Tokyo"\n[task.a]\nschedule = "@daily"\ncommand = "x"\n'
    assert read(toml, "toml").tasks[0].definition.timezone == "Asia/Tokyo"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"timeuot": 3}, 'there is no key "timeuot"; did you mean timeout?'),
        ({"max-running": 3}, 'there is no key "max-running"; did you mean max_running?'),
        ({"tz": "UTC"}, 'there is no key "tz"; did you mean timezone?'),
        ({"x": 1}, 'there is no key "x"'),
        ({"timeout": "30"}, "timeout: '30' is not a duration; write a number with s, m, h, d or w"),
        ({"timeout": True}, "timeout: true is not valid; give a duration longer than nothing"),
        ({"timeout": [1]}, "timeout: [1] is not valid; give a duration"),
        ({"timeout": -1}, "timeout: -1s is not valid; give a duration"),
        ({"tries": None}, "tries: null is not valid; give 1 to 1000, the first included"),
        ({"tries": 1.5}, "tries: 1.5 is not a whole number"),
        ({"tries": float("inf")}, "tries: inf is not valid"),
        ({"backoff_factor": float("nan")}, "backoff_factor: nan is not valid"),
        ({"every_node": "yes"}, 'every_node: "yes" is neither true nor false'),
        ({"overlap": "wait"}, "overlap: 'wait' is none of skip, queue, replace"),
        ({"command": 3}, "command: 3 is not a text; write it in double quotes"),
        ({"command": None}, "command: null is not a text"),
        ({"require": "ssd"}, 'require: "ssd" is not a list of tags such as ["ssd", "zone=eu-1"]'),
        ({"require": [1]}, 'require: [1] is not a list of tags such as ["ssd", "zone=eu-1"]'),
        ({"notify": "ops"}, 'notify: "ops" is not a list of channels such as ["ops"'),
        ({"argv": "ls"}, 'argv: "ls" is not a list of words such as ["ls", "-l"]'),
        ({"env": ["A=1"]}, 'env: ["A=1"] is not names and values such as {"LANG": "C"}'),
        ({"env": {"A": 1}}, "env: 'A': 1 is not a text; write it in double quotes"),
        ({"env": {f"A{n}": "" for n in range(300)}}, "env: there are more than 256 variables"),
        ({"need": {"gpu": "x"}}, "need: 'gpu=x': 'x' is not a number"),
        ({"need": {"a=b": "1"}}, "need: "),
        ({"need": 1}, 'need: 1 is not names and numbers such as {"gpu": 1}, memory in bytes'),
        ({"limit": {"mem": float("nan")}}, "limit: mem: "),
        ({"limit": {"memory": 1}}, "limit: "),
        ({"not_before": 5}, 'not_before: 5 is not a time; write one such as "2027-01-01T09:00Z"'),
        ({"schedule": "61 * * * *"}, "schedule: minute: 61 is not between 0 and 59"),
        ({"schedule": "@dayly"}, "schedule: @dayly is not known; did you mean @daily?"),
        ({"schedule": "0 5 * * *" + " " * 300}, "schedule: the schedule has more than 256 characters"),
        ({"was": "a b"}, "was: 'a b' cannot be a task's name"),
    ],
    ids=str,
)
def test_a_bad_value_is_refused_with_what_would_be_right(values: dict[str, Any], said: str) -> None:
    assert refused(json.dumps([{**LEAST, **values}])).startswith(f"f:1: a: {said}")


def test_all_mistakes_of_a_task_are_reported_with_their_lines() -> None:
    text = '{"tasks": [\n {"name": "a",\n  "schedule": "61 * * * *",\n  "tries": 0},\n 3,\n {"name": 5}]\n}'
    assert refused(text).split("\n") == [
        "f:2: a: there is no command",
        "f:3: a: schedule: minute: 61 is not between 0 and 59 (column 1)",
        "f:4: a: tries: 0 is not valid; give 1 to 1000, the first included",
        "f:5: 3 is no task; write its keys and values",
        "f:6: 5 is not a text; write it in double quotes",
        "f:6: there is no schedule",
        "f:6: there is no command",
    ]


def test_lines_of_toml_are_those_of_the_keys() -> None:
    text = '''
tsak = 1
[task.a] # schedule = 1
command = """
[task.b]
schedule = 1
""" # "
schedule = "61 * * * *"
[task."b.c"]
schedule = "@daily"
env = { A = 1 }
name = "x"
command = "x"
enabled = false
[task.d.env]
A = 1
'''
    assert refused(text, "toml").split("\n") == [
        'f:2: there is no key "tsak" here; did you mean task?',
        "f:8: a: schedule: minute: 61 is not between 0 and 59 (column 1)",
        "f:11: b.c: env: 'A': 1 is not a text; write it in double quotes",
        "f:12: b.c: the name of the task is that of its table; leave out this one",
        'f:14: b.c: "enabled" is no part of a definition; leave it out',
        "f:15: d: there is no schedule",
        "f:15: d: there is no command",
        "f:15: d: env: 'A': 1 is not a text; write it in double quotes",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '[{"name": "a", "schedule": "@daily",\n"command": "x", "name": "b"}]',
            'f:2: the key "name" is there twice',
        ),
        ('[{"name": "a", "env": {"A": "", "\\u0041": ""}}]', 'f:1: the key "A" is there twice'),
        ("[" * 100_000, "f: the values are nested too deeply"),
        ('{"a":' * 100_000, "f: the values are nested too deeply"),
        ("{", "f:1:2: this is not JSON: expecting property name enclosed in double quotes"),
        ('[{"name": "a",}]', "f:1:14: this is not JSON: illegal trailing comma before end of object"),
        ("[1,\n]", "f:1:3: this is not JSON: illegal trailing comma before end of array"),
        ("{}}", "f:1:3: this is not JSON: extra data"),
        ('{"name": "a", "schedule": "@daily"}', 'f:1: there is no key "name" here'),
        ('{"tasks": {}}', 'f:1: write a list of tasks, [{"name": …}], or {"tasks": [{"name": …}]}'),
        ('{"taks": []}', 'f:1: there is no key "taks" here; did you mean tasks?'),
        (
            '[{"schedule": "@daily", "command": "/bin/dump -a"}]',
            "f:1: the task has no name",
        ),
        ("[" + "9" * 10_000 + "]", "f:1: Infinity is no task; write its keys and values"),
        ("[[]]", "f:1: [] is no task; write its keys and values"),
    ],
    ids=lambda text: text[:20],
)
def test_bad_json_is_refused(text: str, said: str) -> None:
    assert refused(text, "json").startswith(said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[task.a]\n[task.a]", "f: this is not TOML: cannot declare ('task', 'a') twice"),
        ("[task.a]\nx = 1\nx = 2", "f: this is not TOML: cannot overwrite a value"),
        ("x = " + "[" * 100_000, "f: the values are nested too deeply"),
        ("x = " + "{a=" * 100_000, "f: the values are nested too deeply"),
        ("[" + "a." * 100_000 + "b]\n" + "x = 1\n" * 100_000, "f:1: a key has more than 8 parts"),
        ("\n" + "a." * 100_000 + "b = 1", "f:2: a key has more than 8 parts"),
        ("#\nx = {" + "'a.'.b . " * 100_000 + "b = 1}", "f:2: a key has more than 8 parts"),
        ("x = " + "9" * 10_000, "f: this is not TOML: a number or date is not valid"),
        ("x = 2027-02-31", "f: this is not TOML: invalid date or datetime"),
        ("[[task]]\nname = 'a'", "f:1: write each task as a table: [task.NAME]"),
        ("[task]\na = 1", "f:2: 1 is no task; write its keys and values"),
        ("[tasks.a]\n", 'f:1: there is no key "tasks" here; did you mean task?'),
        ('x = "', "f: this is not TOML: unterminated string"),
    ],
    ids=lambda text: text[:20],
)
def test_bad_toml_is_refused(text: str, said: str) -> None:
    assert refused(text, "toml").startswith(said)


def test_there_is_a_bound_of_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dcron.sources.reading.MAX_TASKS", 3)
    tasks = [{**LEAST, "name": f"a{number}"} for number in range(4)]
    assert len(read(json.dumps(tasks[:3])).tasks) == 3
    assert refused(json.dumps(tasks)) == "f: there are more than 3 tasks"


def test_the_tasks_of_list_json_are_read_without_their_state() -> None:
    rows = [
        replace(task(name=name, enabled=name != "paused"), once=name == "once", version=1)
        for name in ("on", "paused", "once")
    ]
    shapes = [
        json_output.task_shape(TaskRow(row, None, None, (), None, None, failed=False, dead=False), NOON)
        for row in rows
    ]
    assert set(shapes[0]) == STATE_KEYS | set(BY_KEY)
    source = read(json.dumps(shapes))
    assert [each.definition.name for each in source.tasks] == ["on", "paused"]
    assert [(notice.task, notice.message) for notice in source.notices] == [
        ("paused", "that it is paused is left out: a pause is no part of a definition"),
        ("once", "left out: it is a one-off"),
    ]


def test_a_dotted_name_needs_quotes_in_toml() -> None:
    text = '[task.shop.dump]\nschedule = "@daily"\ncommand = "x"\n'
    assert 'shop: there is no key "dump"; a name with a dot is quoted: "shop.dump"' in refused(text, "toml")
