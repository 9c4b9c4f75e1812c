"""`prune`, `hold`, `unhold`, and what other verbs say about history that is gone."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import delete, insert, select, update

from dcron.schema.tables import changes, events, summed_days
from dcron.store import maintenance
from dcron.store.retention.walk import JOB
from tests.support.cli import Dcron, on_terminal
from tests.support.retention import insert_history, job_row, left, sum_up_all
from tests.support.stage import Stage


@pytest.fixture
def stage(dcron: Dcron) -> Iterator[Stage]:
    """The database of `dcron`, with a task `a` and 50 runs of it, one a day."""
    stage = Stage(dcron.url)
    stage.now = datetime.now(UTC)
    task = stage.task("a", "0 12 * * *", timezone="UTC")
    noon = stage.now.replace(hour=12, minute=0, second=0, microsecond=0)
    rows = []
    for days in range(50, 0, -1):
        at = noon - timedelta(days=days)
        age = (stage.now - at).total_seconds() / 86400
        rows.append({"task_id": task.id, "days": age, "scheduled_for": at, "bytes": 100})
    insert_history(stage, [row | {"trigger": "schedule"} for row in rows])
    sum_up_all(stage)
    yield stage
    stage.database.close()


def test_prune_deletes_what_dry_run_shows_and_the_second_time_nothing(dcron: Dcron, stage: Stage) -> None:
    shown = dcron.done("prune", "--dry-run", "--json").json
    assert shown["dry_run"]
    assert shown["runs"] in (19, 20, 21)
    assert len(left(stage)) == 51
    text = dcron.done("prune", "--dry-run").out
    assert text.startswith(f"would prune  {shown['runs']} runs, the output of {shown['outputs']} runs")
    pruned = dcron.done("prune", "--json").json
    kinds = ("event", "node", "statistics", "change")
    others = [*(f"{kind}_count" for kind in kinds), "events", "nodes", "statistics", "changes"]
    oldest = {"oldest": None, "oldest_at": None}
    nothing = dict.fromkeys(["dismissed", *others], 0)
    assert pruned | oldest == shown | oldest | nothing | {"dry_run": False}
    assert len(left(stage)) == 51 - shown["runs"]
    assert dcron.done("prune", "--json").json["runs"] == 0
    assert dcron.done("prune").err == "there is nothing to prune\n"


def test_prune_says_since_when_runs_stay_for_statistics(dcron: Dcron, stage: Stage) -> None:
    words = ("prune", "-n", "--keep", "runs=0s", "--keep", "last=0")
    [new] = insert_history(stage, [{"task_id": stage.crontab.get("a").id, "task": "a", "days": 0}])
    said = dcron.done(*words).err
    today = f"{stage.now:%Y-%m-%d}"
    assert f"runs that ended since {today} 00:00 UTC stay until an agent has summed up their days" in said
    stage.execute(delete(summed_days))
    assert "\nall runs stay until an agent" in dcron.done(*words).err
    assert new in left(stage)


def test_views_say_what_is_on_hold(dcron: Dcron, stage: Stage) -> None:
    first = left(stage)[1]
    for which, reason in ((str(first), "incident 42"), ("a", "audit")):
        dcron.done("hold", which, "--reason", reason)
    of_task, of_run = dcron.done("view", "a").out, dcron.done("view", "--run", str(first)).out
    assert re.search(r"^on hold +audit, by .*, now: dcron unhold a$", of_task, re.MULTILINE)
    assert re.search(r"^on hold +audit, by .*\n +incident 42, by .*: dcron unhold \d+$", of_run, re.MULTILINE)


def test_prune_of_one_task_with_other_times_asks(dcron: Dcron, stage: Stage) -> None:
    other = stage.task("b", "@on never")
    [kept] = insert_history(stage, [{"task_id": other.id, "task": "b", "days": 3}])
    words = ("prune", "a", "--keep", "runs=2d", "--keep", "last=5")
    refused = dcron(*words)
    assert (refused.code, "add -y" in refused.err) == (1, True)
    assert len(left(stage)) == 52
    assert dcron.done(*words, "-f", "--json").json["runs"] == 45
    assert kept in left(stage)
    assert job_row(stage).holder is None
    assert dcron.done("prune", "--json").json["runs"] == 0


def test_prune_takes_over_from_an_agent_that_prunes(dcron: Dcron, stage: Stage) -> None:
    with stage.database.write() as connection:
        maintenance.add_missing(connection, stage.database, [JOB], stage.now)
        maintenance.seize(connection, stage.database, JOB, "web-1-00000000", stage.now)
    assert dcron.done("prune", "--json").json["runs"] > 0
    assert job_row(stage).holder is None
    assert job_row(stage).ran_at is not None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["prune", "--keep", "runs"], "write a name and a value"),
        (["prune", "--keep", "dead=5d"], "there are runs, bad, last, output, bad-output"),
        (["prune", "--keep", "last=many"], "is not a number of runs"),
        (["prune", "-n", "--compact"], "leave out --compact"),
        (["hold", "a"], "give a reason with -m"),
        (["hold", "--reason", "x"], "give the number of a run"),
        (["config", "set", "keep.runs", "long"], "is not a duration"),
        (["config", "set", "keep.last", "few"], "is not a number of runs"),
        (["set", "a", "--keep", "runs=9999999d"], "longer than a century"),
    ],
)
def test_wrong_values_are_refused(dcron: Dcron, stage: Stage, words: list[str], message: str) -> None:
    refused = dcron(*words)
    assert (refused.code, message in refused.err) == (2, True), refused.err


def test_compact_makes_a_file_smaller_and_is_refused_on_postgres(dcron: Dcron, stage: Stage) -> None:
    found = dcron("prune", "--compact", "--json")
    if stage.database.is_sqlite:
        assert found.json["compacted"] >= 0
    else:
        assert (found.code, "--compact is for SQLite files" in found.err) == (1, True)


def test_what_is_on_hold_is_not_pruned(dcron: Dcron, stage: Stage) -> None:
    first = left(stage)[1]
    assert dcron.done("hold", str(first), "--reason", "incident 42").out == (
        f"on hold  run {first} of a: incident 42\n"
    )
    again = dcron("hold", str(first), "--reason", "x")
    assert (again.code != 0, "is on hold already: incident 42" in again.err) == (True, True)
    dcron.done("prune")
    assert first in left(stage)
    shown = dcron.done("hold", "--json").json
    assert [(each["task"], each["run"], each["reason"]) for each in shown] == [("a", first, "incident 42")]
    assert "incident 42" in dcron.done("hold").out
    dcron.done("unhold", str(first))
    dcron.done("prune")
    assert first not in left(stage)
    assert dcron("unhold", str(first)).code != 0
    assert dcron("hold", "999999", "--reason", "x").code != 0


def test_a_task_on_hold_keeps_its_history_when_it_is_removed(dcron: Dcron, stage: Stage) -> None:
    dcron.done("hold", "a", "--reason", "audit")
    dcron.done("rm", "a", "-f")
    dcron.done("prune")
    assert len(left(stage)) >= 50
    assert dcron.done("unhold", "a").out == "no longer on hold  all runs of a\n"
    assert dcron.done("prune", "--json").json["runs"] > 0
    assert dcron.done("hold").err == "nothing is on hold\n"


def test_backfill_and_why_know_what_was_pruned(dcron: Dcron, stage: Stage) -> None:
    first, last = (f"{stage.now - timedelta(days=days):%Y-%m-%d}" for days in (45, 40))
    words = ("backfill", "a", "--from", first, "--to", last)
    assert dcron.done(*words, "--dry-run", "--json").json["runs"] == 0
    dcron.done("prune")
    refused = dcron(*words)
    assert (refused.code != 0, "have been pruned" in refused.err) == (True, True), refused.err
    assert dcron.done(*words, "--force", "--dry-run", "--json").json["runs"] == 5
    asked = f"{stage.now - timedelta(days=43):%Y-%m-%d} 12:00"
    [cause] = dcron.done("why", "a", asked, "--json").json["causes"]
    assert cause["code"] in ("pruned", "not-yet")


def test_why_says_pruned_for_a_time_of_a_task_that_was_there(dcron: Dcron, stage: Stage) -> None:
    stage.sql("UPDATE changes SET at = :at", at=str(stage.now - timedelta(days=100)).replace("+00:00", ""))
    dcron.done("prune")
    asked = f"{stage.now - timedelta(days=43):%Y-%m-%d} 12:00"
    [cause] = dcron.done("why", "a", asked, "--json").json["causes"]
    assert (cause["code"], cause.get("keep_runs")) == ("pruned", "30d"), cause


def test_a_shorter_setting_says_what_goes_and_asks_on_a_terminal(dcron: Dcron, stage: Stage) -> None:
    dcron.done("config", "set", "keep.last", "5", "-f")
    refused = dcron("config", "set", "keep.runs", "10d")
    assert (refused.code, "add -y" in refused.err) == (1, True)
    said = dcron.done("config", "set", "keep.runs", "10d", "-f")
    assert "with keep.runs 10d, " in said.err
    assert "will be pruned" in said.err
    dcron.done("config", "set", "keep.runs", "none")
    values = {each["name"]: each["value"] for each in dcron.done("config", "list", "--json").json}
    assert (values["keep.runs"], values["keep.last"], values["keep.bad"]) == ("none", 5, None)
    words = ("config", "set", "keep.runs", "5d")
    refused = on_terminal(*words, url=dcron.url, typed="n\n", wait_for="[y/N]")
    assert (refused.code, "set keep.runs to 5d? [y/N]" in refused.out) == (1, True)
    assert dcron.done("config", "set", "keep.runs", "400d").err == ""


def test_info_says_when_pruning_begins_and_when_it_last_did(dcron: Dcron, stage: Stage) -> None:
    with stage.database.write() as connection:
        maintenance.add_missing(connection, stage.database, [JOB], stage.now + timedelta(days=7))
    known = dcron("info", "--json")
    assert known.json["pruning_begins_at"]
    assert "history older than 30d is pruned from " in known.err
    assert known.json["oldest_run_at"]
    dcron.done("prune")
    shown = dcron.done("info").out
    assert re.search(r"history +pruned (now|\d+s ago): \d+ runs; oldest \d+d", shown), shown
    known = dcron("info", "--json")
    assert (known.json["pruning_begins_at"], known.json["prune_error"]) == (None, None)
    assert known.json["pruned_runs"] > 0
    assert known.json["pruned_at"]


def test_a_dry_run_counts_what_is_not_a_run(dcron: Dcron, stage: Stage) -> None:
    old = str(stage.now - timedelta(days=400)).replace("+00:00", "")
    event = {"name": "e"} | dict.fromkeys(("created_at", "handled_at"), stage.now - timedelta(days=40))
    stage.execute(insert(events), [event] * 3)
    first = "(SELECT min(id) FROM runs WHERE state = 'succeeded')"
    stage.sql(f"UPDATE runs SET state = 'failed', dead_at = :at WHERE id = {first}", at=old)
    stage.sql("UPDATE changes SET at = :at", at=old)
    dcron.done("config", "set", "keep.changes", "399d", "-f")
    would = dcron.done("prune", "--dry-run", "--json").json
    assert (would["dismissed"], would["events"], would["nodes"]) == (1, 3, 0)
    assert would["changes"] > 0
    assert "3 events" in dcron.done("prune", "--dry-run").out
    done = dcron.done("prune", "--json").json
    assert all(done[kind] == would[kind] for kind in ("dismissed", "events", "nodes", "changes"))


def test_the_audit_log_has_changes_of_settings(dcron: Dcron, stage: Stage) -> None:
    for words in (["set", "keep.runs", "400d"], ["set", "keep.runs", "401d"], ["unset", "keep.runs"]):
        dcron.done("config", *words, "-f" if words[0] == "set" else "--json")
    dcron.done("config", "unset", "keep.runs")
    with stage.database.read() as connection:
        rows = connection.execute(select(changes).where(changes.c.action == "config")).all()
    key, days = "keep.runs", 86_400
    assert [(row.before, row.after, row.task) for row in rows] == [
        (None, {key: 400 * days}, None),
        ({key: 400 * days}, {key: 401 * days}, None),
        ({key: 401 * days}, None, None),
    ]


def test_days_that_are_not_summed_up_are_kept_by_hand_too(dcron: Dcron, stage: Stage) -> None:
    stage.execute(summed_days.delete())
    assert dcron.done("prune", "--json").json["runs"] == 0
    stage.execute(update(summed_days).values(pruned_at=None))
