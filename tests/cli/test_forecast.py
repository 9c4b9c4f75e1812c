"""`forecast` and `quiet`."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dcron.cli.output import forecast_text
from dcron.database import Database, open_database
from dcron.policy.forecast.load import Load
from dcron.policy.forecast.summary import LeftOut, Outlook, by_hour
from dcron.schedule.zones import zone
from dcron.services.crontab import Crontab
from dcron.store.nodes import rows as nodes
from tests.support.cli import Dcron
from tests.support.definitions import definition
from tests.support.statistics import ended_run, insert_runs
from tests.unit.policy.test_load import node


@contextmanager
def opened(dcron: Dcron) -> Iterator[Database]:
    database = open_database(dcron.url)
    yield database
    database.close()


def add_agent(dcron: Dcron, name: str, slots: int) -> None:
    now = datetime.now(UTC)
    values: dict[str, Any] = {"host": name, "pid": 1, "version": "1", "tzdata": "x", "started_at": now}
    with opened(dcron) as database, database.write() as connection:
        nodes.register(connection, node(name, slots, alive_until=now + timedelta(days=1), **values))


@pytest.fixture
def crowd(sqlite: Dcron) -> Dcron:
    """Twelve tasks of one minute, each a minute long, one that overlaps, and an agent with three slots."""
    sqlite.environment["TZ"] = "Europe/Berlin"
    minute = (datetime.now(UTC) + timedelta(minutes=90)).minute // 5 * 5 + 2  # not with `etl`
    dumps = [definition(f"{minute} */6 * * *", f"dump-{number:02}") for number in range(12)]
    with opened(sqlite) as database:
        crontab = Crontab(database, "ann@desk")
        crontab.import_tasks([*dumps, definition("*/5 * * * *", "etl")])
        rows = [
            ended_run(datetime.now(UTC), seconds=400 if each.name == "etl" else 60, task_id=each.id)
            for each in crontab.tasks()
        ]
        insert_runs(database, rows * 10)
    add_agent(sqlite, "web-1", 3)
    return sqlite


def test_the_table_has_hours_and_what_follows_from_them(crowd: Dcron) -> None:
    lines = crowd.done("forecast").out.splitlines()
    assert lines[0].startswith("HOUR (Europe/Berlin)  STARTS")
    assert "OF 3 SLOTS" in lines[0]
    assert any("dump-" in line and " more" in line for line in lines)
    text = "\n".join(lines)
    assert "on 3 slots of 1 agent" in text
    assert "overlaps  etl takes 6m 40s (p95) and runs every 5m 0s: " in text
    assert "helps" in text
    assert "H instead of the minute in the schedules of 12 tasks at " in text


def test_json_has_the_same(crowd: Dcron) -> None:
    found = crowd.done("forecast", "--json").json
    assert (found["slots"], found["agents"], found["timezone"]) == (3, 1, "Europe/Berlin")
    assert sum(hour["starts"] for hour in found["hours"]) == found["starts"]
    assert found["worst"]["task"].startswith("dump-")
    (overlap,) = (each for each in found["skipped"] if each["code"] == "overlap")
    assert (overlap["task"], overlap["every"], overlap["p95"]) == ("etl", 300, 400)
    assert {each["kind"] for each in found["reliefs"]} == {"minute", "slots"}
    assert all(each["longest_wait_after"] * 2 <= each["longest_wait_before"] for each in found["reliefs"])
    (minute, *_) = found["crowded_minutes"]
    assert minute["longest_wait"] == found["worst"]["wait"]


def test_more_slots_or_fewer_agents_change_the_forecast(crowd: Dcron) -> None:
    add_agent(crowd, "web-2", 40)
    assert crowd.done("forecast", "--json").json["crowded_minutes"] == []
    assert crowd.done("forecast", "--without", "web-2", "--json").json["crowded_minutes"]
    assert crowd.done("forecast", "--without", "web-2", "--slots", "40", "--json").json["slots"] == 40


def test_bad_options_are_errors(crowd: Dcron) -> None:
    assert crowd("forecast", "--without", "web-9").code == 4
    assert crowd("forecast", "--until", "2020-01-01").code == 2
    assert crowd("forecast", "--slots", "0").code == 2
    assert crowd("forecast", "--quiet", "soon").code == 2


def test_what_is_left_out_is_said(crowd: Dcron) -> None:
    crowd.done("add", "-n", "event", "@on push", "true")
    crowd.done("pause", "dump-00")
    answer = crowd.done("forecast")
    assert "left out: 1 paused task, the starts of 1 task by events and new agents" in answer.err
    assert crowd.done("forecast", "--json").json["left_out"]["unforeseen"] == ["event"]


def test_quiet_times_come_with_what_still_runs(crowd: Dcron) -> None:
    answer = crowd.done("forecast", "--quiet", "2m", "--until", "+1h")
    header, *rows = answer.out.splitlines()
    assert header.startswith("QUIET (Europe/Berlin)")
    assert 3 <= len(rows) <= 13
    assert any("etl " in row for row in rows)
    found = crowd.done("forecast", "--quiet", "2m", "--until", "+1h", "--json").json
    assert all(each["seconds"] >= 120 for each in found["times"])


def test_without_a_quiet_time_the_longest_is_said(crowd: Dcron) -> None:
    answer = crowd("forecast", "--quiet", "20m", "--until", "+1h")
    assert (answer.code, answer.out) == (1, "")
    assert "there is no time of 20m without a start until" in answer.err
    assert "the longest begins at" in answer.err
    assert crowd("forecast", "--quiet", "20m", "--until", "+1h", "--json").json["times"] == []


def test_a_source_can_be_forecast_before_it_is_applied(crowd: Dcron, tmp_path: Path) -> None:
    file = tmp_path / "shop.cron"
    minute = (datetime.now(UTC) + timedelta(minutes=30)).minute
    tasks = "".join(
        f'#dcron: name=new-{number} expect="runtime=2m.."\n{minute} * * * * true\n' for number in range(9)
    )
    file.write_text(f"CRON_TZ=UTC\n{tasks}")
    of_source = ("-F", str(file), "--source", "shop/cron")
    starts = crowd.done("forecast", "--json").json["starts"]
    assert crowd.done("forecast", *of_source, "--json").json["starts"] > starts
    answer = crowd("diff", *of_source, "--forecast")
    assert answer.code == 1
    assert "new-0: 24 starts from " in answer.out
    assert "crowded" in answer.out
    shown = crowd("diff", *of_source, "--forecast", "--json").json["forecast"]
    assert shown["starts"] > shown["starts_before"]
    assert {each["task"] for each in shown["moved"]} == {f"new-{number}" for number in range(9)}
    assert crowd("diff", *of_source, "--json").json["forecast"] is None
    applied = crowd.done("apply", *of_source, "--forecast").out
    assert "new-0: 24 starts from " in applied
    assert crowd("forecast", "-F", str(file)).code == 2


def test_a_freeze_is_in_the_forecast(crowd: Dcron) -> None:
    before = crowd.done("forecast", "--json").json
    crowd.done("freeze", "--until", "+12h")
    frozen = crowd.done("forecast", "--json").json
    assert frozen["left_out"]["frozen"] > 100
    assert frozen["starts"] < before["starts"]
    assert "while the crontab is frozen" in crowd.done("forecast").err
    assert crowd.done("forecast", "--quiet", "11h").out


def test_an_hour_that_comes_twice_has_two_rows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    berlin = zone("Europe/Berlin")
    begin, until = (datetime(2027, 10, 30, hour, tzinfo=UTC) for hour in (22, 23))
    until += timedelta(hours=3)
    hours = by_hour(Load(), begin, until, berlin)
    outlook = Outlook(begin, until, 2, 1, hours, [], [], [], [], None, [], LeftOut())
    forecast_text.print_outlook(outlook, berlin)
    rows = capsys.readouterr().out.splitlines()[1 : len(hours) + 1]
    assert [row.split("  ")[0] for row in rows] == ["Sun 10-31 00", "01", "02 CEST", "02 CET"]


def test_without_agents_a_forecast_is_one_sentence(sqlite: Dcron) -> None:
    sqlite.done("add", "-n", "df", "*/5 * * * *", "df")
    said = sqlite.done("forecast").out
    assert len(said.splitlines()) == 1
    assert said.startswith("no agent is running, so none of the 28")
    assert "HOUR" in sqlite.done("forecast", "--slots", "8").out
