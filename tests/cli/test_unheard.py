"""Runs that no node has heard of, on the command line."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import insert, update

from dcron.database import open_database
from dcron.schema.tables import nodes, runs
from dcron.services.crontab import Crontab
from dcron.values.lists import RunFilter
from tests.support.cli import Dcron


def unheard_run(dcron: Dcron) -> int:
    """Return the number of a running run whose node was declared dead ten minutes ago."""
    dcron.done("add", "-n", "backup", "--on-disconnect", "keep", "--timeout", "1h", "@daily", "true")
    dcron.done("run", "backup")
    database = open_database(dcron.url)
    now = datetime.now(UTC)
    since = now - timedelta(minutes=10)
    node: dict[str, Any] = {"id": "web-3-0badcafe", "name": "web-3", "host": "web-3", "pid": 1, "slots": 1}
    node |= {"version": "1", "tzdata": "2026f", "started_at": since, "alive_until": since}
    values: dict[str, Any] = {
        "state": "running",
        "owner": node["id"],
        "claimed_at": since,
        "started_at": since,
    }
    values |= {"on_disconnect": "keep", "unheard_since": since, "lost_after": now + timedelta(hours=1)}
    with database.write() as connection:
        connection.execute(insert(nodes).values(node | {"died_at": now, "died_how": "dead"}))
        connection.execute(update(runs).where(runs.c.trigger == "manual").values(values))
    (run,) = [each for each in Crontab(database, "x@y").runs(RunFilter(), 10) if each.is_unheard]
    database.close()
    return run.id


def test_an_unheard_run_is_shown_as_that(dcron: Dcron) -> None:
    number = unheard_run(dcron)
    since = f"not heard of since {datetime.now(UTC) - timedelta(minutes=10):%H:}"
    assert since in dcron.done("runs", "backup").out
    assert f"run {number}, {since}" in dcron.done("view", "backup").out
    assert "unheard 10m" in dcron.done("list").out
    shown = dcron.done("view", str(number)).out
    assert re.search(r"unheard +its command may still run; it ends when its node is back, when", shown)
    assert re.search(r"unheard since +\w+ \d{4}-", shown)
    assert re.search(r"lost after +\w+ \d{4}-", shown)
    found = dcron.done("runs", "backup", "--json").json
    (run,) = [each for each in found if each["id"] == number]
    assert (run["unheard_since"] is None, run["lost_after"] is None) == (False, False)


def test_a_request_to_cancel_waits_for_the_node(dcron: Dcron) -> None:
    number = unheard_run(dcron)
    asked = dcron.done("cancel", "-y", str(number)).out
    assert "web-3 has not been heard of since" in asked
    assert f"dcron cancel {number} --lost" in asked


def test_a_person_gives_it_up_after_a_question(dcron: Dcron) -> None:
    number = unheard_run(dcron)
    refused = dcron("cancel", str(number), "--lost")
    assert refused.code != 0
    assert "another one may run beside it" in refused.err
    assert dcron.done("cancel", "-y", str(number), "--lost").out == f"given up  run {number} of backup\n"
    (run,) = [each for each in dcron.done("runs", "backup", "--json").json if each["id"] == number]
    assert (run["state"], run["dead"]) == ("lost", False)
    again = dcron("cancel", "-y", str(number), "--lost")
    assert (again.code, "has already ended (lost)" in again.err) == (1, True)


def test_a_run_that_is_heard_of_is_not_given_up(dcron: Dcron) -> None:
    dcron.done("add", "-n", "backup", "@daily", "true")
    number = dcron.done("run", "backup", "--json").json["id"]
    refused = dcron("cancel", "-y", str(number), "--lost")
    assert (refused.code, "is heard of (waiting)" in refused.err) == (1, True)
    assert dcron("cancel", "-y", "-l", "team=shop", "--lost").code == 2


def test_the_nodes_show_how_many_and_since_when(dcron: Dcron) -> None:
    assert "NOT HEARD OF" not in dcron.done("nodes").out
    unheard_run(dcron)
    shown = dcron.done("nodes").out
    assert "NOT HEARD OF" in shown
    assert re.search(r"web-3-0badcafe .* dead .* 1 run since \d\d:\d\d", shown)
    (node,) = dcron.done("nodes", "--json").json
    assert (node["unheard_count"], node["unheard_since"] is None) == (1, False)


def test_why_has_the_code_and_the_times(dcron: Dcron) -> None:
    number = unheard_run(dcron)
    (cause,) = [
        each for each in dcron.done("why", "backup", "--json").json["causes"] if each["code"] == "unheard"
    ]
    (run,) = [each for each in dcron.done("runs", "backup", "--json").json if each["id"] == number]
    assert cause["run_id"] == number
    assert (cause["unheard_since"], cause["lost_after"]) == (run["unheard_since"], run["lost_after"])
    assert "has not been heard of since" in dcron.done("why", "backup").out


def test_rm_names_the_run_that_it_leaves(dcron: Dcron) -> None:
    number = unheard_run(dcron)
    asked = dcron("rm", "backup")
    assert "1 active run of it goes on, 1 run not heard of" in asked.err
    removed = dcron.done("rm", "-y", "backup")
    assert f"run {number} of backup on web-3-0badcafe is left, not heard of since" in removed.err
    assert f"dcron cancel {number} --lost" in removed.err
    assert dcron.done("cancel", "-y", str(number), "--lost").out == f"given up  run {number} of backup\n"


def test_rm_by_a_pattern_names_it_too(dcron: Dcron) -> None:
    number = unheard_run(dcron)
    assert f"run {number} of backup" in dcron.done("rm", "-y", "back*").err


def test_a_kept_task_without_a_timeout_is_warned_of(sqlite: Dcron, tmp_path: Path) -> None:
    code = "[keep-without-timeout]"
    assert code in sqlite.done("add", "-n", "dump", "--on-disconnect", "keep", "@daily", "true").err
    assert code not in sqlite.done("set", "dump", "--timeout", "1h").err
    assert code in sqlite.done("set", "dump", "--clear", "timeout").err
    assert code not in sqlite.done("set", "dump", "--describe", "a dump").err
    assert "dump: its command goes on" in sqlite("lint").out
    assert code not in sqlite.done("set", "dump", "--on-disconnect", "stop").err
    assert code not in sqlite("lint").out
    sqlite.done("config", "set", "on-disconnect", "keep")
    sqlite.done("set", "dump", "--on-disconnect", "none")
    assert code in sqlite("lint").out, "by the settings"
    file = tmp_path / "crontab"
    file.write_text("#dcron: name=kept on_disconnect=keep\n5 2 * * * /usr/bin/true\n")
    assert code in sqlite("lint", str(file)).out
    imported = sqlite.done("import", "--user", "root", str(file)).err
    assert "kept: its command goes on while its node is cut off" in imported
