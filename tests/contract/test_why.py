"""Why a task did, did not, or will not run: a cause for everything that dcron does, or leaves out.

Every answer of these tests is in `tests/data/why.json`, with codes, facts and sentences.
`DCRON_ANSWERS=write pytest -n 0 -m "slow or not slow" -k "not postgres"` on this file writes it anew.
"""

import json
import os
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import insert

from dcron.errors import NotFound
from dcron.model import Run, RunState
from dcron.schedule.calendars import parse_calendar
from dcron.schema.tables import events, runs, summed_days
from dcron.services.calendars import Calendars
from dcron.services.changes.restored import DumpService
from dcron.services.fleet import Fleet
from dcron.services.freezes import Freezes
from dcron.services.runs.dead_letters import DeadLetters
from dcron.services.runs.triggers import Triggers
from dcron.services.why import Cause, Span, Why
from dcron.store.nodes import clock_steps, epochs
from tests.support.alerts import insert_alert
from tests.support.stage import NOON, Stage, at

HOUR = 3600.0
ROOT = Path(__file__).parents[2]
ANSWERS = ROOT / "tests" / "data" / "why.json"
MOST_ANSWERS = 50
"""Of a test with more answers none is on file."""
WRITES = os.environ.get("DCRON_ANSWERS") == "write"


@pytest.fixture(autouse=True)
def answers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Compare all answers of a test with those on file; they are the same on both databases."""
    given: list[list[dict[str, Any]]] = []
    explain = Why.explain

    def recording(asked: Why, *about: Any) -> list[Cause]:
        found = explain(asked, *about)
        given.append([_on_file(cause) for cause in found])
        return found

    monkeypatch.setattr(Why, "explain", recording)
    yield
    if not given or len(given) > MOST_ANSWERS:
        return
    test = re.sub(r"sqlite-?|postgres-?", "", request.node.name).removesuffix("[]")
    on_file = json.loads(ANSWERS.read_text()) if ANSWERS.exists() else {}
    if WRITES:
        on_file[test] = given
        ANSWERS.write_text(json.dumps(dict(sorted(on_file.items())), indent=1, ensure_ascii=False) + "\n")
    assert given == on_file[test]


def _on_file(cause: Cause) -> dict[str, Any]:
    """Return the cause as the file has it, without the name of the account that runs the tests."""
    facts = {key: "LOGIN" if key == "login" and value else value for key, value in cause.facts.items()}
    written = {"code": cause.code, "sentence": cause.sentence, "facts": dict(sorted(facts.items()))}
    text = re.sub(r"\(as \w+\)", "(as LOGIN)", json.dumps(written, default=str))
    return json.loads(text)  # type: ignore[no-any-return]


def test_every_code_is_on_file_and_documented() -> None:
    table = (ROOT / "docs" / "cli.md").read_text().partition("each cause has a stable `code`:")[2]
    rows = [line for line in table.partition("\n### ")[0].splitlines() if line.startswith("| `")]
    documented = {code for row in rows for code in re.findall(r"`([a-z-]+)`", row) if code != "keep_runs"}
    written = json.loads(ANSWERS.read_text())
    assert {cause["code"] for each in written.values() for answer in each for cause in answer} == documented


def why(stage: Stage, name: str, when: datetime | Span | None = None) -> list[Cause]:
    return Why(stage.crontab).explain(name, when)


def codes(causes: Sequence[Cause]) -> list[str]:
    return [cause.code for cause in causes]


def only(stage: Stage, name: str, when: datetime | None, code: str) -> Cause:
    """The one cause of this time, which is of this kind."""
    causes = why(stage, name, when)
    assert codes(causes) == [code], causes
    return causes[0]


def one_of(stage: Stage, name: str, when: datetime | None, code: str) -> Cause:
    """The one cause of this kind, among others."""
    (cause,) = [cause for cause in why(stage, name, when) if cause.code == code]
    return cause


def run_one(stage: Stage, node: str, state: RunState = RunState.SUCCEEDED, **facts: Any) -> int:
    """Take what is due, and end it five seconds later; the run's id."""
    (claimed,) = stage.take(node, limit=1)
    stage.forward(seconds=5)
    stage.finish(node, claimed.id, state, **facts)
    return claimed.id


# What is on record ----------------------------------------------------------------------------------


def test_a_finished_run_says_where_when_and_how_it_ended(stage: Stage) -> None:
    stage.task("backup", tries=2, backoff=60, backoff_factor=1)
    node = stage.node(lease=HOUR)
    stage.now = at("12:10")
    first = run_one(stage, node, RunState.FAILED, reason="exit 3", exit_code=3)
    ran, retry = why(stage, "backup", at("12:10"))
    assert (ran.code, ran.facts["run"], ran.facts["node"], ran.facts["state"]) == (
        "ran",
        first,
        node,
        "failed",
    )
    assert ran.sentence == (
        f"2027-06-01 12:10 UTC: run {first} ran on {node}, from 2027-06-01 12:10 UTC:"
        " it failed after 5.0s (exit 3)"
    )
    assert (retry.code, retry.facts["retry_of"], retry.facts["attempt"]) == ("retry", first, 2)
    assert retry.sentence.startswith("attempt 2 of 2 of backup waits until 2027-06-01 12:11")
    assert retry.sentence.endswith(f"for run {first} failed: exit 3")

    stage.now = at("12:12")
    second = run_one(stage, node, RunState.FAILED, reason="exit 3", exit_code=3)
    ran, dead = why(stage, "backup", at("12:10"))
    assert (ran.facts["dead"], dead.facts["dead"]) == (False, True)
    assert dead.sentence.startswith(f"2027-06-01 12:10 UTC: run {second}, attempt 2, ran on {node}")
    assert dead.sentence.endswith(f"it is a dead letter, `dcron retry {second}` tries it again")
    DeadLetters(stage.crontab).dismiss(second)
    assert "dead letter" not in why(stage, "backup", at("12:10"))[1].sentence


def test_a_run_under_way_says_where_and_since_when(stage: Stage) -> None:
    stage.task("backup")
    node = stage.node(lease=30)
    stage.now = at("12:10")
    stage.renew(node)
    claimed = stage.claim(node)
    assert only(stage, "backup", at("12:10"), "starting").facts["node"] == node
    stage.start(node, claimed)
    stage.forward(seconds=41)
    running = only(stage, "backup", at("12:10"), "running")
    assert running.sentence.endswith(f"has been running on {node} since 2027-06-01 12:10 UTC (41s)")
    stage.crontab.cancel(claimed[0].id)
    stage.forward(minutes=5)
    running, late = why(stage, "backup", at("12:10"))
    assert "ann@desk has asked for its end" in running.sentence
    assert (late.code, late.facts["node"]) == ("node-late", node)
    stage.reap()
    lost = only(stage, "backup", at("12:10"), "ran")
    assert (lost.facts["state"], lost.facts["run"]) == ("lost", claimed[0].id)
    assert (
        f"it was lost after 5m 41s (node {node} died while it ran; its end was asked for by ann@desk)"
        in lost.sentence
    )


def test_an_overlap_names_the_runs_in_the_way(stage: Stage) -> None:
    stage.task("backup")
    node = stage.node(lease=HOUR)
    stage.now = at("12:10")
    (running,) = stage.take(node)
    stage.now = at("12:20")
    stage.claim(node)
    stage.now = at("12:25")
    stage.finish(node, running.id)
    cause = only(stage, "backup", at("12:20"), "overlap")
    assert cause.facts["runs"] == [running.id]
    assert cause.sentence.endswith(f"overlap: the previous run is still alive (run {running.id} on {node})")


def test_each_occurrence_of_a_missed_range_is_explained(stage: Stage) -> None:
    stage.task("backup")
    node = stage.node()
    stage.now = at("12:05")
    stage.sign_off(node)
    stage.now = at("12:55")
    other = stage.node("web-2", lease=HOUR)
    run_one(stage, other)
    for clock_time in ("12:10", "12:20", "12:40"):
        cause = only(stage, "backup", at(clock_time), "missed")
        assert "(4 occurrences, 2027-06-01T12:10:00Z to 2027-06-01T12:40:00Z)" in cause.sentence
        assert f"the last one, {node}, ended 2027-06-01 12:05 UTC" in cause.sentence
    assert only(stage, "backup", at("12:50"), "ran").facts["node"] == other
    assert only(stage, "backup", at("12:15"), "no-such-time").facts["before"] == at("12:10")


def test_a_pause_says_by_whom_since_when_and_what_for_now_and_afterwards(stage: Stage) -> None:
    task = stage.task("backup")
    stage.node(lease=2 * HOUR)
    stage.now = at("12:15")
    task = stage.crontab.pause(stage.saved(task.id), "maintenance", until=at("13:30"))
    stage.now = at("12:45")
    for moment in (at("12:20"), at("12:50")):
        cause = only(stage, "backup", moment, "paused")
        assert cause.sentence.endswith(
            "backup is paused by ann@desk since 2027-06-01 12:15 UTC, until 2027-06-01 13:30 UTC: maintenance"
        )
        assert cause.facts["by"] == "ann@desk"
    assert codes(why(stage, "backup", at("13:40"))) == ["paused", "future"]
    assert "paused" in codes(why(stage, "backup"))
    stage.crontab.resume(task)
    cause = only(stage, "backup", at("12:20"), "paused")
    assert cause.facts["since"] == at("12:15")
    assert "paused by ann@desk: maintenance (3 occurrences" in cause.sentence


def test_what_expired_or_was_called_off_says_so(stage: Stage) -> None:
    stage.task("backup", deadline=120)
    stage.now = at("12:13")
    stage.expire()
    assert "not started within 2m" in only(stage, "backup", at("12:10"), "expired").sentence
    (waiting,) = stage.runs(None, RunState.WAITING)
    stage.crontab.cancel(waiting.id)
    cause = only(stage, "backup", at("12:20"), "cancelled")
    assert cause.sentence.endswith("was cancelled before it started: cancelled by ann@desk")


def test_a_run_that_came_too_late_holds_up_those_behind_it(stage: Stage) -> None:
    stage.task("backup")
    stage.now = at("12:35")
    (planned,) = stage.runs(None, RunState.WAITING)
    assert "not run yet, because the occurrence of 2027-06-01 12:10 UTC has not begun" in (
        only(stage, "backup", at("12:20"), "no-agent").sentence
    )
    stage.crontab.cancel(planned.id)
    assert "cancelled by ann@desk (3 occurrences" in only(stage, "backup", at("12:20"), "cancelled").sentence

    times = {"claimed_at": at("12:55"), "started_at": at("12:55"), "finished_at": at("12:56")}
    stage.sql("DELETE FROM runs")
    stage.now = at("13:00")
    by_hand = stage.insert_run(
        state="succeeded", trigger="schedule", scheduled_for=at("12:40"), owner="web-1-00000000", **times
    )
    held = only(stage, "backup", at("12:50"), "held-up")
    assert held.facts["held_by"] == by_hand
    assert "not begun until 2027-06-01 12:55 UTC" in held.sentence


# The schedule ---------------------------------------------------------------------------------------


def test_calendars_exclude_before_and_after_the_time(stage: Stage) -> None:
    Calendars(stage.crontab).put(parse_calendar("holidays", ["2027-06-01"]))
    stage.task("backup", except_calendar="holidays")
    ahead = only(stage, "backup", at("12:10"), "calendar")
    assert ahead.sentence.endswith("will be skipped: on calendar holidays")
    assert "will be skipped" in only(stage, "backup", at("12:20"), "calendar").sentence
    stage.now = at("12:10")
    stage.claim(stage.node())
    assert "did not run: on calendar holidays" in only(stage, "backup", at("12:10"), "calendar").sentence
    assert one_of(stage, "backup", None, "future").facts["at"] == datetime(2027, 6, 2, tzinfo=UTC)


def test_a_time_that_the_schedule_does_not_have_names_its_nearest(stage: Stage) -> None:
    stage.task("daily", "30 9 * * *", jitter=3600)
    stage.node()
    cause = only(stage, "daily", at("12:00") + timedelta(hours=1), "no-such-time")
    assert (cause.facts["before"], cause.facts["after"]) == (at("09:30"), at("09:30") + timedelta(days=1))
    assert "(at 09:30 every day) has no such time" in cause.sentence
    assert "with its jitter 2027-06-02" in cause.sentence
    ahead = only(stage, "daily", at("09:30") + timedelta(days=1), "future")
    assert ahead.facts["due_at"] != ahead.facts["at"]
    assert "by its jitter" in ahead.sentence


@pytest.mark.slow
def test_a_time_outside_the_window_is_explained(stage: Stage) -> None:
    stage.task("backup", not_before=at("13:00"), not_after=at("14:00"))
    assert only(stage, "backup", at("12:50"), "window").facts["not_before"] == at("13:00")
    assert only(stage, "backup", at("14:10"), "window").facts["not_after"] == at("14:00")
    stage.now = at("15:00")
    node = stage.node(lease=HOUR)
    run_one(stage, node)
    assert "no-more-times" in codes(why(stage, "backup"))


@pytest.mark.parametrize(
    ("zone", "moment", "rules", "expected"),
    [
        ("gap", "2027-03-28T01:00+00:00", {}, "02:30 does not exist on 2027-03-28: runs at 03:00, CEST"),
        ("gap", "2027-03-28T01:00+00:00", {"gap": "skip"}, "02:30 does not exist on 2027-03-28: no run"),
        ("fold", "2027-10-31T00:30+00:00", {}, "runs the first time only, CEST"),
        ("fold", "2027-10-31T01:30+00:00", {}, "only the first time runs"),
        ("fold", "2027-10-31T01:30+00:00", {"fold": "both"}, "this is the second, CET"),
    ],
)
def test_daylight_saving_is_explained(
    sqlite_stage: Stage, zone: str, moment: str, rules: dict[str, Any], expected: str
) -> None:
    stage = sqlite_stage
    when = datetime.fromisoformat(moment)
    stage.now = when - timedelta(days=2)
    stage.task("backup", "30 2 * * *", timezone="Europe/Berlin", **rules)
    assert expected in one_of(stage, "backup", when, "daylight-saving").sentence, zone
    day = Span(when - timedelta(hours=6), when + timedelta(hours=6))
    found = [each.code for each in why(stage, "backup", day)]
    assert found.count("daylight-saving") == (2 if rules.get("fold") else 1)


# The task -------------------------------------------------------------------------------------------


def test_a_task_that_was_not_there_yet_or_is_gone_says_so(stage: Stage) -> None:
    task = stage.task("backup")
    cause = only(stage, "backup", at("11:50"), "not-yet")
    message = f"not there yet: it was added by ann@desk (as {cause.facts['login']}), 2027-06-01 12:00 UTC"
    assert cause.sentence.endswith(message)
    assert "not-yet" not in codes(why(stage, "backup"))
    node = stage.node(lease=2 * HOUR)
    stage.now = at("12:10")
    run_one(stage, node)
    stage.now = at("12:15")
    stage.crontab.remove(stage.saved(task.id))
    assert codes(why(stage, "backup", at("12:10"))) == ["ran", "removed"]
    assert only(stage, "backup", at("12:20"), "removed").facts["since"] == at("12:15")
    assert codes(why(stage, "backup")) == ["ran", "removed"]
    stage.now = at("12:25")
    stage.task("backup", "*/5 * * * *")
    assert codes(why(stage, "backup", at("12:10"))) == ["ran", "removed"], "the line of this name then"
    assert only(stage, "backup", at("12:20"), "removed").facts["by"] == "ann@desk"
    assert "future" in codes(why(stage, "backup", at("12:30")))
    with pytest.raises(NotFound):
        why(stage, "never-heard-of")


def test_an_edit_is_named_where_it_changed_the_times(stage: Stage) -> None:
    task = stage.task("backup")
    node = stage.node(lease=2 * HOUR)
    stage.now = at("12:10")
    run_one(stage, node)
    stage.now = at("12:12")
    stage.crontab.edit(stage.saved(task.id), {"schedule": "*/15 * * * *"})
    ran, since = why(stage, "backup", at("12:10"))
    assert (ran.code, since.code, since.facts["fields"]) == ("ran", "changed-since", ["schedule"])
    nothing, edited = why(stage, "backup", at("12:20"))
    assert (nothing.code, edited.code, edited.facts["since"]) == ("no-such-time", "edited", at("12:12"))
    assert "until then its schedule was */10 * * * *" in edited.sentence
    assert only(stage, "backup", at("12:15"), "future")


def test_a_restore_is_a_change_like_others(stage: Stage) -> None:
    stage.task("backup")
    dump = DumpService(stage.crontab).dump()
    stage.now = at("12:31")
    stage.crontab.edit(stage.crontab.get("backup"), {"schedule": "0 * * * *"})
    stage.now = at("13:15")
    dumping = DumpService(stage.crontab)
    dumping.apply(dump, dumping.compare(dump))
    stage.now = at("13:18")
    hourly, edited, since = why(stage, "backup", at("12:40"))
    assert (hourly.code, hourly.facts["schedule"]) == ("no-such-time", "0 * * * *")
    assert (edited.code, edited.facts["since"]) == ("edited", at("12:31"))
    assert "until then its schedule was */10 * * * *" in edited.sentence
    assert (since.code, since.facts["since"], since.facts["fields"]) == (
        "changed-since",
        at("13:15"),
        ["schedule"],
    )
    hourly, restored, _ = why(stage, "backup", at("13:10"))
    assert (hourly.code, restored.code) == ("no-such-time", "edited")
    assert restored.facts["since"] == at("12:31")
    assert codes(why(stage, "backup", at("13:20"))) == ["future", "no-agent"]


def test_what_was_changed_with_sql_counts_from_the_change_before(stage: Stage) -> None:
    # The time of such a change is that of the agent that noticed it.
    task = stage.task("backup")
    stage.sql("UPDATE crontab SET schedule = '5 * * * *', version = version + 1 WHERE id = :id", id=task.id)
    stage.now = at("12:20")
    stage.plan()
    stage.now = at("12:40")
    stage.crontab.edit(stage.crontab.get("backup"), {"timeout": 60.0})
    asked = {"12:05": "5 * * * *", "12:25": "5 * * * *", "12:45": "5 * * * *"}
    stage.now = at("13:00")
    for clock_time, schedule in asked.items():
        causes = why(stage, "backup", at(clock_time))
        if clock_time == "12:05":
            assert causes[0].code != "no-such-time"
        else:
            assert (causes[0].code, causes[0].facts["schedule"]) == ("no-such-time", schedule)


def test_an_edit_before_the_jitter_is_over_replaces_the_run(stage: Stage) -> None:
    task = stage.task("backup", jitter=300)
    planned = stage.next_run(task)
    assert planned.due_at > at("12:10")
    stage.now = at("12:10")
    stage.crontab.edit(stage.saved(task.id), {"schedule": "*/15 * * * *"})
    cause = one_of(stage, "backup", at("12:10"), "edited")
    assert "replaced by an edit" in cause.sentence


def test_a_task_that_agents_cannot_run_says_what_is_wrong(stage: Stage) -> None:
    stage.insert_task(name="by-hand", schedule="*/10 * * * *")
    assert "not planned yet" in one_of(stage, "by-hand", None, "unplanned").sentence
    stage.plan()
    stage.sql("UPDATE crontab SET schedule = 'nonsense', version = version + 1")
    stage.now = at("12:15")
    stage.plan()
    assert "1 field where cron has five" in only(stage, "by-hand", at("12:20"), "suspended").sentence
    assert only(stage, "by-hand", at("12:10"), "suspended").facts["run"]
    assert "suspended" in codes(why(stage, "by-hand"))


def test_a_task_that_was_planned_late_says_so(stage: Stage) -> None:
    stage.insert_task(name="by-hand", schedule="*/10 * * * *")
    stage.now = at("12:15")
    stage.plan()
    cause = only(stage, "by-hand", at("12:10"), "unplanned")
    assert cause.facts["after"] == at("12:20")


def test_a_one_off_says_that_it_has_left(stage: Stage) -> None:
    from dcron.store.tasks import rows as tasks
    from tests.support.stage import definition

    stage.crontab.add(definition("once", "@at 2027-06-01T12:10Z"), once=True)
    node = stage.node(lease=HOUR)
    stage.now = at("12:10")
    run_one(stage, node)
    with stage.database.write() as connection:
        assert tasks.retire_once(connection, stage.now, 10) == ["once"]
    assert codes(why(stage, "once")) == ["ran", "removed"]
    assert "one-off" in why(stage, "once")[1].sentence


# Waiting --------------------------------------------------------------------------------------------


def test_without_any_agent_the_last_one_is_named(stage: Stage) -> None:
    stage.task("backup")
    stage.now = at("12:10")
    assert "none ever was" in only(stage, "backup", at("12:10"), "no-agent").sentence
    node = stage.node()
    stage.now = at("12:15")
    late = only(stage, "backup", at("12:10"), "no-agent")
    assert (late.facts["since"], node in late.sentence) == (at("12:11"), True)
    stage.reap()
    assert (
        f"since {node} died 2027-06-01 12:15 UTC" in only(stage, "backup", at("12:10"), "no-agent").sentence
    )
    other = stage.node("web-2")
    Fleet(stage.crontab).drain(other)
    assert "drains" in only(stage, "backup", at("12:10"), "no-agent").sentence


def test_a_run_that_no_living_node_can_take_says_what_it_asks_for(stage: Stage) -> None:
    stage.task("tagged", require=("gpu",))
    stage.task("queued", queue="mail")
    stage.task("hungry", need={"gpu": 2})
    node = stage.node(lease=HOUR, queues=("default",), capacity={"gpu": 1})
    planned, later = why(stage, "tagged", at("12:10")), why(stage, "tagged", at("12:20"))
    assert codes(planned) == codes(later) == ["future", "unserved"]
    assert "run 1 is due then, in 10m" in planned[0].sentence
    assert "tagged is due then, in 20m" in later[0].sentence
    stage.now = at("12:10")
    assert only(stage, "tagged", at("12:10"), "unserved").sentence.endswith("no agent has the tag gpu")
    assert only(stage, "queued", at("12:10"), "unserved").facts["queue"] == "mail"
    assert only(stage, "hungry", at("12:10"), "unserved").facts["need"] == {"gpu": 2}
    stage.insert_run(
        task_id=1, task="tagged", trigger="reboot", for_node="gone-1", lane="default node=gone-1"
    )
    assert "its node gone-1 is gone" in one_of(stage, "tagged", None, "node-gone").sentence
    assert node


def test_busy_slots_are_counted_and_more_urgent_runs_named(stage: Stage) -> None:
    stage.task("long")
    for name in ("urgent", "pressing"):
        stage.task(name, priority="high")
    stage.task("backup")
    node = stage.node(lease=HOUR)
    stage.sql("UPDATE nodes SET slots = 1")
    stage.now = at("12:10")
    busy = stage.crontab.run(stage.saved(1))
    stage.take(node, limit=1)
    causes = why(stage, "backup", at("12:10"))
    assert codes(causes) == ["slots", "priority"]
    assert f"all slots are taken on {node} (1/1)" in causes[0].sentence
    assert "due runs go first" in causes[1].sentence
    assert causes[1].facts["ahead"] >= 1
    assert busy


def test_a_run_is_not_promised_behind_one_that_waits(stage: Stage) -> None:
    stage.task("backup", overlap="queue")
    node = stage.node(lease=HOUR)
    stage.now = at("12:10")
    (running,) = stage.take(node)
    assert "will run then, in 10m" in why(stage, "backup", at("12:20"))[0].sentence
    stage.now = at("12:25")
    assert stage.take(node) == []
    planned = stage.next_run(running.task)
    for when in (at("12:30"), None):
        future, limit = why(stage, "backup", when)[-2:]
        assert (future.code, future.sentence) == (
            "future",
            "2027-06-01 12:30 UTC: backup is due then, in 5m 0s",
        )
        assert (limit.code, limit.facts["held_by"]) == ("limit", planned.id)
        assert f"the occurrence of 2027-06-01 12:20 UTC has not begun (run {planned.id})" in limit.sentence
    later = why(stage, "backup", Span(at("12:30"), at("13:00")))
    assert codes(later) == ["future", "limit"]
    assert later[0].facts["more"] == 2
    stage.finish(node, running.id)
    stage.sql("UPDATE runs SET blocked = NULL WHERE state = 'waiting'")
    assert codes(why(stage, "backup", at("12:30"))) == ["future", "due"]


def test_a_run_that_is_about_to_be_claimed_is_not_in_the_way(stage: Stage) -> None:
    stage.task("backup")
    stage.node(lease=HOUR)
    stage.now = at("12:10")
    assert "will run then" in only(stage, "backup", at("12:20"), "future").sentence


def test_a_due_run_that_a_node_can_take_is_about_to_be_taken(stage: Stage) -> None:
    stage.task("backup")
    node = stage.node(lease=HOUR)
    stage.now = at("12:10")
    assert f"one of {node} takes it" in only(stage, "backup", at("12:10"), "due").sentence


def test_what_is_taken_of_a_node_s_capacity_is_named(stage: Stage) -> None:
    stage.task("train", need={"gpu": 1}, max_running=None)
    node = stage.node(lease=HOUR, capacity={"gpu": 1})
    stage.now = at("12:10")
    stage.start(node, stage.claim(node, limit=1, capacity={"gpu": 1}))
    stage.now = at("12:20")
    cause = only(stage, "train", at("12:20"), "capacity")
    assert f"it needs gpu=1, and {node} has 0 gpu of 1 left" in cause.sentence


def test_room_that_is_kept_for_a_larger_run_is_named(stage: Stage) -> None:
    never = "0 0 1 1 *"
    small = stage.task("small", never, need={"gpu": 1}, max_running=None)
    big = stage.task("big", never, need={"gpu": 2})
    node = stage.node(lease=HOUR, capacity={"gpu": 2})
    stage.crontab.run(small)
    stage.take(node, capacity={"gpu": 2})
    stage.crontab.run(big)
    stage.crontab.run(small)
    stage.forward(minutes=9)
    assert "takes it" in one_of(stage, "small", None, "due").sentence
    stage.forward(minutes=2)
    cause = one_of(stage, "small", None, "capacity")
    assert f"{node} has 0 gpu of 2 left, keeping room for a run that needs gpu=2" in cause.sentence
    assert "keeping" not in one_of(stage, "big", None, "capacity").sentence


def test_a_full_queue_names_the_runs_in_it(stage: Stage) -> None:
    stage.task("first", queue="mail")
    stage.task("second", "*/15 * * * *", queue="mail")
    Fleet(stage.crontab).set_queue("mail", 1)
    node = stage.node(lease=HOUR)
    stage.now = at("12:10")
    (running,) = stage.take(node)
    stage.now = at("12:15")
    cause = only(stage, "second", at("12:15"), "queue")
    assert (cause.facts["max_running"], cause.facts["runs"]) == (1, [running.id])
    assert f"queue mail has reached its limit of 1: run {running.id} of first on {node}" in cause.sentence
    Fleet(stage.crontab).set_queue("mail", 0)
    assert "is stopped" in only(stage, "second", at("12:15"), "queue").sentence


def test_a_run_that_is_kept_waiting_names_the_limit_and_the_runs(stage: Stage) -> None:
    stage.task("backup", overlap="queue")
    node = stage.node(lease=HOUR)
    stage.now = at("12:10")
    (running,) = stage.take(node)
    stage.now = at("12:20")
    stage.claim(node)
    cause = only(stage, "backup", at("12:20"), "limit")
    assert cause.facts["runs"] == [running.id]
    assert f"backup may have 1 alive at once, and has run {running.id} on {node}" in cause.sentence


def test_a_run_that_waits_behind_others_that_wait_names_those(stage: Stage) -> None:
    task = stage.task("backup", overlap="queue")
    row = {"task_id": task.id, "task": "backup", "trigger": "backfill", "state": "waiting", "spec": {}}
    times = [{**row, "scheduled_for": due, "due_at": due} for due in (at("11:01"), at("11:02"))]
    with stage.database.write() as connection:
        ahead = connection.execute(insert(runs).returning(runs.c.id), times[:1]).scalar_one()
        connection.execute(insert(runs), [times[1] | {"blocked": "limit"}])
    cause = only(stage, "backup", at("11:02"), "limit")
    assert ahead in cause.facts["runs"]
    assert f"run {ahead}" in cause.sentence
    assert "comes first" in cause.sentence


def test_a_retry_of_a_paused_task_waits_for_the_end_of_the_pause(stage: Stage) -> None:
    task = stage.task("backup", tries=2)
    node = stage.node(lease=HOUR)
    stage.now = at("12:10")
    run_one(stage, node, RunState.FAILED, reason="exit 1")
    stage.crontab.pause(stage.saved(task.id), "maintenance")
    stage.now = at("12:12")
    assert codes(why(stage, "backup", at("12:10"))) == ["ran", "paused"], "due, and not yet looked at"
    stage.claim(node)
    ran, paused = why(stage, "backup", at("12:10"))
    assert (ran.code, paused.code, paused.facts["by"]) == ("ran", "paused", "ann@desk")
    assert "attempt 2, waits: backup is paused by ann@desk since" in paused.sentence


def test_an_every_node_occurrence_explains_each_node(stage: Stage) -> None:
    stage.task("rotate", every_node=True)
    first, second = stage.node("web-1", lease=HOUR), stage.node("web-2", lease=HOUR)
    stage.now = at("12:10")
    run_one(stage, first)
    ran, due = why(stage, "rotate", at("12:10"))
    assert (ran.code, ran.facts["node"]) == ("ran", first)
    assert (due.code, due.facts["node"]) == ("due", second)
    stage.sign_off(second)
    ran, gone = why(stage, "rotate", at("12:10"))
    assert (gone.code, gone.facts["node"]) == ("node-gone", second)
    assert f"the share of {second}, did not run: its node is gone" in gone.sentence


def test_a_delay_waits_for_the_end_of_the_run_before(stage: Stage) -> None:
    task = stage.task("poll", "@delay 5m")
    node = stage.node(lease=HOUR)
    assert one_of(stage, "poll", None, "future").facts["due_at"] == at("12:05")
    stage.now = at("12:05")
    (running,) = stage.take(node)
    cause = one_of(stage, "poll", None, "delay")
    assert cause.facts["runs"] == [running.id]
    assert "and then 300s" in cause.sentence
    assert task


# What follows no clock ------------------------------------------------------------------------------


def test_a_task_that_waits_for_a_node_or_an_event_says_so(stage: Stage) -> None:
    stage.task("boot", "@reboot")
    stage.task("release", "@on deploy")
    assert "runs when a node starts" in one_of(stage, "boot", None, "reboot").sentence
    assert "none has come yet" in one_of(stage, "release", None, "event").sentence
    assert only(stage, "release", at("13:00"), "no-such-time")
    stage.execute(insert(events).values(name="deploy", created_at=NOON))
    assert "an agent has yet to start" in one_of(stage, "release", None, "event").sentence
    stage.sql("DELETE FROM events")
    emitted = Triggers(stage.crontab).emit("deploy")
    node = stage.node(lease=HOUR)
    run_one(stage, node)
    cause = only(stage, "release", NOON, "ran")
    assert cause.facts["run"] == emitted.runs[0].id
    assert "the last came 2027-06-01 12:00 UTC" in one_of(stage, "release", None, "event").sentence
    stage.now = at("12:30")
    cause = only(stage, "release", at("12:20"), "no-such-time")
    assert f"run {emitted.runs[0].id} was the one before" in cause.sentence


@pytest.mark.slow
def test_a_step_of_a_flow_names_the_upstream_it_waits_for(stage: Stage) -> None:
    stage.task("extract")
    for name in ("left", "right"):
        stage.task(name, "@after extract")
    load = stage.task("load", "@after left,right")
    node = stage.node(lease=2 * HOUR)
    cause = one_of(stage, "load", None, "after")
    assert "no flow has begun; the next begins with extract (2027-06-01 12:10 UTC)" in cause.sentence
    stage.now = at("12:10")
    flow = run_one(stage, node)
    taken = {run.task.name: run.id for run in stage.take(node)}
    stage.finish(node, taken["left"])
    cause = one_of(stage, "load", None, "after")
    assert (cause.facts["flow"], cause.facts["waits_for"]) == (flow, ["right"])
    assert f"right is running on {node} (run {taken['right']})" in cause.sentence
    assert "left is succeeded" in one_of_upstream(stage, "load", at("12:10"), "left").sentence
    stage.finish(node, taken["right"], RunState.FAILED, reason="exit 1")
    cause = only(stage, "load", at("12:10"), "upstream")
    assert (cause.facts["upstream"], cause.facts["upstream_run"]) == ("right", taken["right"])
    assert cause.sentence.endswith(f"did not run: right failed (run {taken['right']})")
    assert f"flow {flow} is over for load" in one_of(stage, "load", None, "after").sentence
    assert stage.runs(load.id)


def test_a_step_that_is_new_waits_for_the_next_flow(stage: Stage) -> None:
    stage.task("extract")
    stage.task("left", "@after extract")
    node = stage.node(lease=2 * HOUR)
    stage.now = at("12:10")
    flow = run_one(stage, node)
    stage.task("load", "@after extract")
    cause = one_of(stage, "load", None, "after")
    assert cause.sentence == (
        f"flow {flow} went on before load came after extract;"
        " the next begins with extract (2027-06-01 12:20 UTC)"
    )
    assert cause.facts["waits_for"] == ["extract"]


def one_of_upstream(stage: Stage, name: str, when: datetime, upstream: str) -> Cause:
    (cause,) = [each for each in why(stage, name, when) if each.facts.get("upstream") == upstream]
    return cause


def test_a_flow_that_was_closed_says_so(stage: Stage) -> None:
    stage.task("left")
    stage.task("right", "@daily")
    stage.task("load", "@after left,right")
    node = stage.node(lease=2 * HOUR)
    for clock_time in ("12:10", "12:20"):
        stage.now = at(clock_time)
        run_one(stage, node)
    cause = one_of(stage, "load", at("12:20"), "flow-closed")
    assert "right did not run before left ran again" in cause.sentence


# Whatever dcron did ---------------------------------------------------------------------------------

FALLBACKS = ("no-record", "skipped", "unplanned")


@pytest.mark.slow
def test_nothing_that_dcron_did_or_left_out_is_without_a_cause(stage: Stage) -> None:
    """A day of all kinds of things; every minute of it, and every time of the task, has a cause."""
    Calendars(stage.crontab).put(parse_calendar("holidays", ["2027-06-02"]))
    task = stage.task("backup", tries=2, jitter=30, deadline=900, except_calendar="holidays")
    node = stage.node(lease=24 * HOUR)

    def change(**fields: Any) -> None:
        stage.crontab.edit(stage.saved(task.id), fields)

    def run_at(clock_time: str, state: RunState = RunState.SUCCEEDED) -> None:
        stage.now = at(clock_time)
        run_one(stage, node, state, reason=None if state is RunState.SUCCEEDED else "exit 1")

    run_at("12:11")
    run_at("12:21", RunState.FAILED)
    run_at("12:22", RunState.FAILED)
    stage.now = at("12:31")
    (running,) = stage.take(node)
    stage.now = at("12:41")
    stage.claim(node)
    stage.finish(node, running.id)
    stage.now = at("12:45")
    stage.crontab.pause(stage.saved(task.id), "maintenance")
    stage.now = at("13:25")
    change(schedule="*/15 * * * *")
    stage.now = at("14:00")
    stage.crontab.resume(stage.saved(task.id))
    stage.now = at("14:15") + timedelta(seconds=1)
    change(schedule="*/10 * * * *")
    stage.now = at("15:00") + timedelta(minutes=1)
    stage.expire()
    stage.now = at("15:45")
    stage.crontab.run(stage.saved(task.id))
    stage.take(node)
    stage.sign_off(node)
    stage.now = at("17:25")
    node = stage.node("web-2", lease=24 * HOUR)
    run_at("17:25")
    stage.now = at("17:52")
    waiting = stage.next_run(stage.saved(task.id))
    stage.crontab.cancel(waiting.id)
    stage.now = at("18:31")
    stage.sql("UPDATE crontab SET timezone = 'Nowhere', version = version + 1")
    stage.plan()
    stage.now = at("19:05")
    change(timezone="UTC", require=("gpu",))
    stage.now = at("20:00")
    stage.crontab.remove(stage.saved(task.id))
    stage.now = at("20:30")

    moment, message = at("11:30"), set()
    while moment < at("21:00"):
        causes = why(stage, "backup", moment)
        assert causes, moment
        assert not set(codes(causes)) & set(FALLBACKS), causes
        message.update(codes(causes))
        moment += timedelta(minutes=5)
    assert message >= {"not-yet", "ran", "overlap", "paused", "edited", "expired", "missed", "cancelled"}
    assert message >= {"suspended", "removed", "no-such-time", "changed-since"}
    assert codes(why(stage, "backup"))[-1] == "removed"


# The crontab, the database and its alerts -----------------------------------------------------------


def test_a_freeze_is_named_for_what_waits_now_and_then(stage: Stage) -> None:
    task = stage.task("backup", "0 * * * *")
    stage.node(lease=HOUR)
    freezes = Freezes(stage.crontab)
    freezes.freeze(until_at=at("12:30"), reason="upgrade")
    freezes.freeze(from_at=at("12:50"), until_at=at("13:20"))
    frozen, waits = (cause for cause in why(stage, "backup") if cause.code == "frozen")
    assert (frozen.facts["freeze"], waits.facts["freeze"]) == (1, 2)
    assert "will wait then" in waits.sentence
    stage.insert_run(task_id=task.id, task="backup", trigger="event")
    assert "has been due since" in one_of(stage, "backup", NOON, "frozen").sentence
    only(stage, "backup", at("13:00"), "frozen")
    only(stage, "backup", at("14:00"), "future")


def test_an_alert_names_what_changed_before_it(stage: Stage) -> None:
    task = stage.task("backup")
    stage.forward(minutes=5)
    stage.crontab.acting("cli set", "smaller").edit(task, {"command": "backup --new"})
    stage.forward(minutes=10)
    known = {"acknowledged_by": "bob", "acknowledged_at": stage.now, "acknowledged_note": "looking"}
    insert_alert(stage.database, stage.now, task, kind="late", **known)
    alert = one_of(stage, "backup", None, "alert")
    assert "it began 10m 0s after a change by ann@desk" in alert.sentence
    assert alert.sentence.endswith("(acknowledged by bob: looking)")
    assert alert.facts["difference"]


def test_incidents_of_the_database_are_named(stage: Stage) -> None:
    stage.task("backup", "0 * * * *")
    node = stage.node(lease=10 * 86400)
    stage.sql("UPDATE nodes SET lease = 60")
    with stage.database.write() as connection:
        epochs.declare(
            connection, stage.database, "web-1", stage.now, seen=40, timeline=None, reason="run 40 was there"
        )
    stage.forward(hours=1)
    (run,) = stage.take(node)
    stage.finish(node, run.id)
    stage.forward(hours=-1)
    with stage.database.write() as connection:
        assert clock_steps.repair(connection, stage.database, node, stage.now)
    found = codes(why(stage, "backup"))
    assert {"epoch", "clock-set-back", "clock-lease"} <= set(found)


def test_what_was_skipped_for_other_reasons_has_its_own(stage: Stage) -> None:
    task = stage.task("backup", "@yearly")
    for hour, code in enumerate(("ran-early", None, "called-off"), 1):
        then = NOON + timedelta(hours=hour)
        row: dict[str, Any] = {
            "state": "skipped",
            "trigger": "manual",
            "skip_code": code,
            "reason": "because",
        }
        stage.insert_run(
            task_id=task.id, task="backup", scheduled_for=then, due_at=then, finished_at=then, **row
        )
    stage.now = at("15:30")
    only(stage, "backup", at("13:00"), "ran-early")
    only(stage, "backup", at("14:00"), "skipped")
    only(stage, "backup", at("15:00"), "called-off")


def test_what_is_gone_from_the_record_says_how(stage: Stage) -> None:
    stage.task("backup", "0 * * * *")
    node = stage.node(lease=86400)
    for clock_time in ("13:00", "14:00", "15:00"):
        stage.now = at(clock_time)
        run_one(stage, node)
    stage.sql("DELETE FROM runs WHERE id = (SELECT min(id) + 1 FROM runs)")
    nearest = only(stage, "backup", at("14:00"), "no-record").sentence
    assert nearest.endswith("the nearest are run 1, 2027-06-01 13:00 UTC and run 3, 2027-06-01 15:00 UTC")
    with stage.database.write() as connection:
        day = {"day": NOON.date(), "summed_at": NOON, "pruned_at": NOON}
        connection.execute(insert(summed_days).values(day))
    only(stage, "backup", at("14:00"), "pruned")


def test_a_schedule_that_is_over_says_so(stage: Stage) -> None:
    stage.task("launch", "@at 2027-06-01T12:10Z")
    stage.now = at("12:30")
    over = one_of(stage, "launch", None, "no-more-times")
    assert over.sentence == "launch has no further times: its schedule is @at 2027-06-01T12:10Z"


# A whole day, and lately ----------------------------------------------------------------------------


def test_a_day_says_what_is_alike_once(stage: Stage) -> None:
    stage.task("backup")
    node = stage.node(lease=HOUR)
    stage.now = at("12:10")
    run_one(stage, node)
    day = Span(at("00:00"), at("00:00") + timedelta(days=1))
    ran, ahead = why(stage, "backup", day)
    assert (ran.code, ahead.code, ahead.facts["more"]) == ("ran", "future", 69)
    assert ahead.sentence.endswith("the same holds for 69 more, up to 2027-06-01 23:50 UTC")


def test_a_day_with_too_many_times_says_where_to_go_on(sqlite_stage: Stage) -> None:
    sqlite_stage.task("often", "* * * * *")
    more = why(sqlite_stage, "often", Span(at("00:00"), at("23:59")))[-1]
    assert (more.code, more.facts["after"]) == ("more", at("15:21"))


def test_a_minute_means_all_seconds_in_it(stage: Stage) -> None:
    task = stage.task("backup", "@daily")
    node = stage.node(lease=HOUR)
    stage.now = at("12:30") + timedelta(seconds=17)
    run: Run = stage.crontab.run(task)
    run_one(stage, node)
    cause = only(stage, "backup", at("12:30"), "ran")
    assert (cause.facts["run"], cause.facts["trigger"]) == (run.id, "manual")
    assert "asked for by hand" in cause.sentence


def test_times_are_in_the_zone_of_the_reader(stage: Stage) -> None:
    stage.task("backup", "30 2 * * *")
    cause, *_ = Why(stage.crontab, ZoneInfo("Asia/Tokyo")).explain("backup", NOON + timedelta(hours=14.5))
    assert cause.time == "2027-06-02 11:30 JST"
