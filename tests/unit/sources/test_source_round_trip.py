"""Definitions come back the same from text, JSON and TOML."""

import dataclasses
import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcron.crontabfile.directive import UNPRINTABLE
from dcron.model import Definition
from dcron.sources import FORMATS, Format, parse, read, write
from dcron.sources.formats import SUFFIXES, format_of
from tests.support.random_definitions import definitions
from tests.support.task_fields import EXAMPLES

BASE = Definition(name="base", schedule="@daily", timezone="UTC", command="true")


def through(format: Format, tasks: Sequence[Definition]) -> list[Definition]:
    """Write the tasks, and read them again."""
    text = write(tasks, format)
    assert not UNPRINTABLE.search(text.replace("\n", ""))
    source = parse(text, file="elsewhere", timezone="Asia/Tokyo", format=format)
    assert [task.was for task in source.tasks] == [None] * len(tasks)
    return [task.definition for task in source.tasks]


def is_text(tasks: Sequence[Definition]) -> bool:
    """Return whether all texts are valid Unicode. TOML, and the database, know no others."""
    text = json.dumps(list(map(vars, tasks)), ensure_ascii=False, default=str)
    return not re.search("[\ud800-\udfff]", text)


@given(st.lists(definitions(), max_size=3, unique_by=lambda task: task.name))
def test_text_to_json_to_toml_to_text_is_the_identity(tasks: list[Definition]) -> None:
    assert through("json", through("text", tasks)) == tasks
    if is_text(tasks):
        assert through("text", through("toml", through("json", tasks))) == tasks


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Definition)])
def test_each_field_is_kept(format: Format, field: str) -> None:
    """This fails for a field whose kind does not write and read the value."""
    required = {"name": "x", "schedule": "*/5 * * * * *", "timezone": "Asia/Tokyo", "command": "a\nb"}
    task = dataclasses.replace(BASE, **{field: {**EXAMPLES, **required}[field]})
    assert through(format, [task]) == [task]


SHOP = Definition(
    name="nightly-dump",
    schedule="30 2 * * *",
    timezone="Europe/Berlin",
    command='set -e\npg_dump "shop" > /backup/ünï.sql',
    env={"PGHOST": "db-1"},
    timeout=1800,
    max_running=None,
    require=("ssd",),
    need={"gpu": 1.0, "mem": float(8 << 30)},
)


def test_toml_is_written_as_people_write_it() -> None:
    assert (
        write([SHOP, dataclasses.replace(BASE, name="a.b", every_node=True)], "toml")
        == '''\
# A crontab written by dcron.

[task.nightly-dump]
command = """
set -e
pg_dump \\"shop\\" > /backup/ünï.sql"""
schedule = "30 2 * * *"
timezone = "Europe/Berlin"
timeout = "30m"
max_running = "none"
require = ["ssd"]
need = { gpu = 1, mem = "8G" }
env = { PGHOST = "db-1" }

[task."a.b"]
command = "true"
schedule = "@daily"
timezone = "UTC"
every_node = true
'''
    )


def test_json_has_the_documented_task_objects_without_defaults() -> None:
    assert json.loads(write([SHOP], "json")) == {
        "tasks": [
            {
                "name": "nightly-dump",
                "command": SHOP.command,
                "schedule": "30 2 * * *",
                "timezone": "Europe/Berlin",
                "timeout": 1800,
                "max_running": None,
                "require": ["ssd"],
                "need": {"gpu": 1, "mem": 8 << 30},
                "env": {"PGHOST": "db-1"},
            }
        ]
    }


def test_half_a_character_does_not_keep_the_others_from_being_written() -> None:
    task = dataclasses.replace(BASE, describe="a\ud800b")
    assert through("toml", [task])[0].describe == "a\N{REPLACEMENT CHARACTER}b"


def test_a_file_says_its_format(tmp_path: Path) -> None:
    for format in FORMATS:
        for suffix in ("", *(suffix for suffix, known in SUFFIXES.items() if known == format)):
            file = tmp_path / f"tasks-{format}{suffix}"
            file.write_text(write([SHOP], format))
            assert [task.definition for task in read([file], timezone="UTC").tasks] == [SHOP]


@pytest.mark.parametrize(
    ("text", "format"),
    [
        ('{"tasks": []}', "json"),
        ("\n [\n\n {}]", "json"),
        ("[]", "json"),
        ("# x\n\n[task.a]\n", "toml"),
        ('timezone = "UTC"\r\n [task."a.b"]\r\n', "toml"),
        ("# [task.a]\nA=1\n@daily [ -f x ]\n", "text"),
        ("", "text"),
    ],
)
def test_contents_say_their_format(text: str, format: Format) -> None:
    assert format_of(Path("-"), text) == format
