"""A written crontab reads back as the same tasks."""

import dataclasses
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcron.crontabfile import read, write
from dcron.crontabfile.directive import UNPRINTABLE
from dcron.model import Definition
from dcron.quantities import LEAST_AMOUNT, MOST_AMOUNT
from dcron.unreadable import Unreadable
from tests.support.task_fields import EXAMPLES

SAMPLES = sorted((Path(__file__).parents[2] / "data" / "crontabs").iterdir())
SCHEDULES = [
    "0 5 * * *",
    "*/5 8-18 * * mon-fri",
    "0  5 * * *",
    "0\t5 * * *",
    "0 0 l * *",
    "*/10 * * * * *",
    "@daily",
    "@DAILY",
    "@reboot",
    "@every 90s",
    "@delay 5m",
    "@at 2030-01-01T09:00",
    "@on deploy",
    "@after a,b",
    "H 3 * * *",
    "0 9 * * mon | 30 17 * * fri",
    "RRULE:FREQ=DAILY;BYHOUR=9",
]
ANY = st.text(st.characters(exclude_characters="\0", exclude_categories=()))
NASTY = st.text(st.sampled_from("\\%\"'=#\n\r\t $-_aB1:@*\x1b\x85\u2028\u202e\ud800é{}\ufeff"))
TEXT = ANY | NASTY
COMMANDS = TEXT | st.sampled_from(["cmd", "a b", "date +%F", "x\\", "root x", "0 5 * * * x"])
DESCRIPTIONS = TEXT | st.sampled_from(["ok", "a\nb", "0 5 * * * x", "dcron: x", "PATH=/bin", "----"])
VARIABLES = TEXT | st.sampled_from(["PATH", "HOME", "SHELL", "CRON_TZ", "MAILTO", "A=B", "TZ"])
SECONDS = st.integers(1, 10**9).map(lambda milliseconds: milliseconds / 1000)
TAGS = st.from_regex(r"[A-Za-z0-9._-]{1,9}(=[A-Za-z0-9._-]{1,9})?", fullmatch=True)
AMOUNTS = st.floats(LEAST_AMOUNT, MOST_AMOUNT)
SIZES = st.integers(1, 1 << 53) | st.integers(1, 999).map(lambda gigabytes: gigabytes << 30)
POLICIES: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "overlap": st.sampled_from(["skip", "queue", "replace"]),
        "tries": st.integers(1, 1000),
        "backoff": st.just(0.0) | SECONDS,
        "backoff_factor": st.floats(1, 1000),
        "backoff_max": st.just(0.0) | SECONDS,
        "on_lost": st.sampled_from(["dead", "retry"]),
        "deadline": st.none() | SECONDS,
        "catch_up": st.sampled_from(["skip", "last", "all"]),
        "catch_up_window": st.none() | SECONDS,
        "jitter": st.none() | st.integers(1, 86_400_000).map(lambda milliseconds: milliseconds / 1000),
        "priority": st.sampled_from(["high", "normal", "low"]),
        "queue": st.from_regex(r"[A-Za-z0-9._-]{1,100}", fullmatch=True),
        "require": st.lists(TAGS, max_size=3, unique=True).map(tuple),
        "every_node": st.booleans(),
        "need": st.fixed_dictionaries({}, optional={"gpu": AMOUNTS, "mem": SIZES.map(float)}),
        "limit": st.fixed_dictionaries(
            {}, optional={"mem": SIZES, "cpu-time": SIZES.map(lambda s: s % 99 + 1)}
        ),
    },
)


@st.composite
def definitions(draw: st.DrawFn) -> Definition:
    argv = draw(st.none() | st.lists(TEXT, max_size=3).map(tuple))
    honest = argv is not None and draw(st.booleans())
    return Definition(
        name=draw(st.from_regex(r"[A-Za-z0-9._-]{1,100}", fullmatch=True)),
        schedule=draw(st.sampled_from(SCHEDULES)),
        timezone=draw(st.sampled_from(["UTC", "Europe/Berlin", "America/New_York"]) | TEXT),
        command=shlex.join(argv) if honest and argv is not None else draw(COMMANDS),
        argv=argv,
        shell=draw(st.sampled_from(["/bin/sh", "/bin/bash"]) | TEXT),
        stdin=draw(st.none() | TEXT | TEXT.map(lambda text: f"{text}\n")),
        env=draw(st.dictionaries(VARIABLES, TEXT, max_size=4)),
        cwd=draw(st.none() | TEXT),
        user=draw(st.none() | st.sampled_from(["root", "www-data"]) | TEXT),
        timeout=draw(st.none() | st.integers(1, 10**9).map(lambda milliseconds: milliseconds / 1000)),
        max_running=draw(st.none() | st.integers(1, 99)),
        describe=draw(st.none() | DESCRIPTIONS),
        **draw(POLICIES),
    )


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


def test_what_nobody_can_read_does_not_keep_the_others_from_being_written() -> None:
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
