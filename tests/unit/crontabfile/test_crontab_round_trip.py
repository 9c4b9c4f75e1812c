"""A written crontab reads back as the same tasks."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcron.crontabfile import read, write
from dcron.crontabfile.directive import UNPRINTABLE
from dcron.model import Definition
from dcron.values.unreadable import Unreadable
from tests.support.random_definitions import definitions
from tests.support.task_fields import EXAMPLES

SAMPLES = sorted((Path(__file__).parents[2] / "data" / "crontabs").iterdir())


def read_back(text: str) -> Sequence[Definition]:
    return read(text, source="elsewhere", timezone="Asia/Tokyo").definitions


@given(st.lists(definitions(), max_size=4, unique_by=lambda task: task.name), st.booleans())
def test_any_definitions_come_back_the_same(tasks: list[Definition], system: bool) -> None:
    text = write(tasks, system=system)
    assert not UNPRINTABLE.search(text.replace("\n", ""))
    assert read_back(text) == tuple(tasks)
    assert write(read_back(text), system=system) == text


@pytest.mark.parametrize("system", [False, True])
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_a_real_file_comes_back_the_same(sample: Path, system: bool) -> None:
    text = sample.read_bytes().decode()
    accounts = not sample.name.startswith("user-")
    tasks = read(text, source=str(sample), timezone="Europe/Berlin", system=accounts).definitions
    assert tasks
    assert read_back(write(tasks, system=system)) == tasks


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Definition)])
def test_each_field_of_a_definition_is_kept(field: str) -> None:
    """This fails for a field that the registry does not write and read."""
    required = {"name": "x", "schedule": "*/5 * * * * *", "timezone": "Asia/Tokyo", "command": "a\nb"}
    value = {**EXAMPLES, **required}[field]
    base = Definition(name="base", schedule="@daily", timezone="UTC", command="true")
    task = dataclasses.replace(base, **{field: value})
    assert read_back(write([base, task] if field == "name" else [task]))[-1] == task


def test_an_export_reads_like_a_crontab() -> None:
    tasks = [
        Definition(
            name="nightly-dump",
            schedule="30 2 * * *",
            timezone="Europe/Berlin",
            command="pg_dump shop > shop-$(date +%F).sql",
            env={"PATH": "/usr/bin:/bin"},
            timeout=1800,
            describe="Nightly dump of the shop",
        ),
        Definition(
            name="ping",
            schedule="@every 90s",
            timezone="Europe/Berlin",
            command="ping -c 1 '10 %'",
            cwd="/srv/my x",
        ),
    ]
    assert write(tasks) == (
        "# A crontab written by dcron; the comments that begin with #dcron say what cron cannot.\n"
        "\n"
        "CRON_TZ=Europe/Berlin\n"
        "PATH=/usr/bin:/bin\n"
        "\n"
        "# Nightly dump of the shop\n"
        "#dcron: name=nightly-dump timeout=30m\n"
        "30 2 * * * pg_dump shop > shop-$(date +\\%F).sql\n"
        "\n"
        "#dcron: unset=PATH\n"
        "\n"
        '#dcron: name=ping schedule="@every 90s" cwd="/srv/my x"\n'
        "#dcron$ ping -c 1 '10 %'\n"
    )


def test_a_system_export_has_a_column_for_the_account() -> None:
    base = Definition(name="a", schedule="@daily", timezone="UTC", command="true")
    text = write([dataclasses.replace(base, user="root"), base], system=True)
    assert "\n#dcron: system\n" in text
    assert "\n#dcron: name=a\n@daily root true\n" in text
    assert "\n#dcron: name=a schedule=@daily\n#dcron$ true\n" in text


@pytest.mark.parametrize(
    "change",
    [
        {"user": "ann"},
        {"cwd": "/srv"},
        {"stdin": "no newline at its end"},
        {"argv": ("other", "words")},
        {"env": {"A": "two\nlines"}},
        {"schedule": "0 0 5 * * *"},
        {"schedule": "0 5 l * *"},
        {"schedule": "@DAILY"},
        {"command": "two\nlines"},
        {"command": "\\%"},
        {"queue": "gpu-servers"},
        {"require": ("ssd",)},
        {"need": {"gpu": 1.0}},
        {"every_node": True},
    ],
    ids=str,
)
def test_a_plain_cron_never_runs_a_task_differently(change: dict[str, Any]) -> None:
    base = Definition(name="a", schedule="@daily", timezone="UTC", command="true")
    lines = write([dataclasses.replace(base, **change)]).splitlines()
    assert all(line.startswith("#") for line in lines if line and line != "CRON_TZ=UTC")


@pytest.mark.parametrize(
    "change", [{"tries": 3}, {"limit": {"mem": 2 << 30}}, {"overlap": "queue"}, {"priority": "low"}], ids=str
)
def test_a_plain_cron_runs_what_it_only_cannot_enforce(change: dict[str, Any]) -> None:
    base = Definition(name="a", schedule="@daily", timezone="UTC", command="true")
    assert write([dataclasses.replace(base, **change)]).splitlines()[-1] == "@daily true"


def test_amounts_are_written_as_people_write_them() -> None:
    task = Definition(
        name="a",
        schedule="@daily",
        timezone="UTC",
        command="train",
        require=("ssd", "zone=eu-1"),
        need={"gpu": 1.0, "mem": float(8 << 30)},
        limit={"mem": 1536 << 20, "cpu-time": 90},
    )
    words = 'require="ssd,zone=eu-1" need="gpu=1,mem=8G" limit="mem=1536M,cpu-time=90"'
    assert words in write([task])


def test_what_cannot_be_read_does_not_keep_the_others_from_being_written() -> None:
    task = Definition(
        name="a",
        schedule="@daily",
        timezone="UTC",
        command="true",
        require=Unreadable("oops"),  # type: ignore[arg-type]
        need={"gpu": "many", "mem": None},  # type: ignore[dict-item]
        limit=Unreadable("oops"),
    )
    assert 'require="" need="gpu=many,mem=None" limit=""' in write([task])
