"""Dumps: all but the history, the same on both databases; restores: all or nothing, and no stampede."""

import json
from collections.abc import Iterator
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dcron.errors import Conflict, Refused, UsageError
from dcron.model import SPEC_DEFAULTS, Definition, RunState, Task
from dcron.schedule.calendars import parse_calendar
from dcron.services.calendars import Calendars
from dcron.services.changes.restored import PAUSED_REASON, DumpService, Restoration, Restored
from dcron.services.fleet import Fleet
from dcron.services.settings import SharedSettings
from dcron.sources.dump import Dump, read, write
from dcron.values.lists import RunFilter
from tests.support.stage import NOON, Stage, definition
from tests.support.task_fields import EXAMPLES


def fill(stage: Stage) -> None:
    """A crontab that has everything a dump holds."""
    calendars = Calendars(stage.crontab)
    calendars.put(parse_calendar("holidays", ["2027-12-25", "12-26", "RRULE:FREQ=MONTHLY;BYMONTHDAY=-1"]))
    calendars.put(parse_calendar("work", ["mon", "tue"]))
    fleet = Fleet(stage.crontab)
    fleet.set_queue("mail", 3)
    fleet.set_queue("free", None)
    SharedSettings(stage.crontab).set("timezone", "Europe/Berlin")
    stage.task("full", "0 * * * *", timezone="Europe/Berlin", command="tar c /srv", **EXAMPLES)
    stage.task("plain")
    stage.task("every", "@every 90s")
    stage.task("delay", "@delay 5m")
    stage.task("reboot", "@reboot")
    stage.task("event", "@on deploy")
    stage.task("after", "@after plain")
    stage.crontab.pause(stage.task("paused"), "disk is full", NOON + timedelta(days=2))
    stage.crontab.pause(stage.task("paused-for-good"))
    stage.crontab.add(definition("pending", "@at 2027-06-01T13:00:00Z"), once=True)
    gone = stage.task("gone", "@at 2027-06-01T12:00:30Z")
    expired = stage.task("expired", not_after=NOON + timedelta(minutes=11))
    stage.set_task(stage.task("imported").id, source="import:web-1:root:/etc/crontab", applied="5f")
    stage.forward(minutes=2)
    stage.set_task(gone.id, schedule="@at 2027-05-01T12:00:00Z", version=gone.version + 1)
    stage.set_task(expired.id, not_after=NOON - timedelta(days=1), version=expired.version + 1)
    stage.plan()


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Stage]:
    """Another crontab, empty, in a SQLite file."""
    other = Stage(f"sqlite:///{tmp_path / 'other.db'}")
    yield other
    other.database.close()


def text_of(stage: Stage) -> str:
    return write(DumpService(stage.crontab).dump())


def restore(stage: Stage, dump: Dump, *, paused: bool = False) -> tuple[Restoration, Restored]:
    dumping = DumpService(stage.crontab)
    agreed = dumping.compare(dump, paused=paused)
    return agreed, dumping.apply(dump, agreed, paused=paused)


def test_paused_keeps_a_pause_that_is_there_and_changes_nothing_when_it_is_repeated(stage: Stage) -> None:
    stage.task("plain")
    dump = read(text_of(stage))
    stage.crontab.pause(stage.crontab.get("plain"), "mine")
    agreed, _ = restore(stage, dump, paused=True)
    assert (agreed.changed, list(agreed.unchanged["task"])) == ([], ["plain"])
    assert stage.crontab.get("plain").paused_reason == "mine"
    stage.crontab.edit(stage.crontab.get("plain"), {"command": "other"})
    agreed, _ = restore(stage, dump, paused=True)
    assert agreed.changed_names("task") == ["plain"]
    assert stage.crontab.get("plain").paused_reason == "mine"
    assert restore(stage, dump, paused=True)[0].changed == []


def waiting(stage: Stage) -> list[str]:
    return [run.task for run in stage.crontab.runs(RunFilter(states=[RunState.WAITING]), 100)]


def test_every_field_of_a_task_is_tried_with_another_value_than_its_default() -> None:
    optional = {each.name for each in fields(Definition)} - {"name", "schedule", "timezone", "command"}
    assert EXAMPLES.keys() == optional
    assert not [name for name, value in EXAMPLES.items() if value == SPEC_DEFAULTS[name]]
    beyond = set(Task.__dataclass_fields__) - {each.name for each in fields(Definition)}
    # A new column of a task is either in the dump or, for a reason, on this list.
    history = {"id", "version", "planned_version", "error", "changed_at", "changed_by"}
    derived = {"except_content", "only_content"}
    dumped = {
        "enabled",
        "paused_reason",
        "paused_by",
        "paused_at",
        "paused_until",
        "once",
        "source",
        "applied",
    }
    assert beyond == history | derived | dumped


@pytest.mark.slow
def test_a_dump_comes_back_byte_for_byte_here_and_on_the_other_database(stage: Stage, other: Stage) -> None:
    fill(stage)
    text = text_of(stage)
    other.now = stage.now
    agreed, restored = restore(other, read(text))
    assert (agreed.changed, restored.expired, restored.suspended) == ([], [], {})
    assert text_of(other) == text
    assert {name: view.next_run_at for name, view in views(other).items()} == {
        name: view.next_run_at for name, view in views(stage).items()
    }
    # And back: onto this kind of database, once it is empty.
    for table in ("runs", "crontab", "subscriptions", "calendars", "queues", "settings"):
        stage.sql(f"DELETE FROM {table}")
    restore(stage, read(text_of(other)))
    assert text_of(stage) == text
    again, _ = restore(stage, read(text))
    assert (sum(map(len, again.added.values())), again.changed) == (0, [])


def views(stage: Stage) -> dict[str, Any]:
    return {view.task.name: view for view in stage.crontab.list_tasks()}


def test_what_a_restored_task_follows_still_starts_it(stage: Stage, other: Stage) -> None:
    fill(stage)
    other.now = stage.now
    restore(other, read(text_of(stage)))
    with other.database.read() as connection:
        from dcron.store.planning import dependencies

        assert dependencies.directly_downstream(connection, "plain") == ["after"]


def test_a_run_that_was_missed_meanwhile_follows_the_catch_up_rule(stage: Stage, other: Stage) -> None:
    for rule in ("skip", "last", "all"):
        stage.task(f"{rule}-rule", "0 * * * *", catch_up=rule)
    dump = read(text_of(stage))
    other.now = NOON + timedelta(hours=5, minutes=30)
    restore(other, dump)
    assert sorted(waiting(other)) == ["all-rule", "last-rule", "skip-rule"]
    node = other.node()
    started = [claimed.task.name for claimed in other.claim(node)]
    assert sorted(started) == ["all-rule", "last-rule"]
    due = [each for each in waiting(other) if each == "skip-rule"]
    assert len(due) <= 1


def test_a_task_whose_only_time_has_passed_is_not_started(stage: Stage, other: Stage) -> None:
    stage.crontab.add(definition("once", "@at 2027-06-01T13:00:00Z"), once=True)
    stage.task("windowed", "0 * * * *", not_after=NOON + timedelta(hours=1))
    dump = read(text_of(stage))
    other.now = NOON + timedelta(days=2)
    _, restored = restore(other, dump)
    assert list(restored.expired) == ["once", "windowed"]
    assert waiting(other) == []
    assert [task.name for task in other.crontab.tasks()] == ["once", "windowed"]


def test_paused_starts_nothing_and_skips_what_comes_until_it_is_resumed(stage: Stage, other: Stage) -> None:
    fill(stage)
    other.now = stage.now
    other.task("plain", "0 1 * * *")
    restore(other, read(text_of(stage)), paused=True)
    assert waiting(other) == []
    assert {task.enabled for task in other.crontab.tasks()} == {False}
    assert other.crontab.get("plain").paused_reason == PAUSED_REASON
    assert other.crontab.get("paused").paused_reason == "disk is full"
    other.forward(minutes=35)
    other.crontab.resume(other.crontab.get("imported"))
    assert waiting(other) == ["imported"]
    skipped = other.crontab.runs(RunFilter(states=[RunState.SKIPPED]), 10)
    assert [run.task for run in skipped] == ["imported"]


def test_what_differs_is_changed_and_what_is_not_in_the_dump_stays(stage: Stage) -> None:
    fill(stage)
    dump = read(text_of(stage))
    stage.crontab.edit(stage.crontab.get("plain"), {"command": "false", "timeout": 5.0})
    stage.crontab.resume(stage.crontab.get("paused"))
    Fleet(stage.crontab).set_queue("mail", 5)
    SharedSettings(stage.crontab).set("timezone", "Asia/Tokyo")
    Calendars(stage.crontab).put(parse_calendar("work", ["sun"]))
    stage.task("new")
    agreed, _ = restore(stage, dump)
    assert [(each.kind, each.name) for each in agreed.changed] == [
        ("setting", "timezone"),
        ("calendar", "work"),
        ("queue", "mail"),
        ("task", "paused"),
        ("task", "plain"),
    ]
    assert list(agreed.changed[2].lines()) == ["-max_running: 5", "+max_running: 3"]
    plain = list(agreed.changed[4].lines())
    assert plain == ['-command: "false"', '+command: "true"', "-timeout: 5.0", "+timeout: null"]
    stage.crontab.remove(stage.crontab.get("new"))
    assert read(text_of(stage)) == dump
    assert (stage.crontab.get("paused").enabled, stage.crontab.get("paused").paused_by) == (False, "ann@desk")


def test_a_change_between_question_and_answer_is_a_conflict(stage: Stage) -> None:
    task = stage.task("one")
    dump = read(text_of(stage))
    task = stage.crontab.edit(task, {"command": "false"})
    dumping = DumpService(stage.crontab)
    agreed = dumping.compare(dump)
    stage.crontab.edit(task, {"describe": "mine"})
    with pytest.raises(Conflict, match="changed meanwhile"):
        dumping.apply(dump, agreed)
    assert stage.crontab.get("one").command == "false"


@pytest.mark.slow
def test_what_the_database_refuses_leaves_nothing_behind(stage: Stage, other: Stage) -> None:
    fill(stage)
    document = json.loads(text_of(stage))
    document["tasks"][-1]["schedule"] = "x" * 300
    with pytest.raises(UsageError, match="has values that no crontab takes"):
        restore(other, read(json.dumps(document)))
    assert (list(other.crontab.tasks()), list(Calendars(other.crontab).every())) == ([], [])


def test_a_task_that_agents_cannot_run_is_restored_suspended(stage: Stage, other: Stage) -> None:
    stage.insert_task(name="broken", schedule="61 * * * *")
    stage.insert_task(name="nowhere", timezone="Mars/Olympus")
    stage.plan()
    _, restored = restore(other, read(text_of(stage)))
    assert sorted(restored.suspended) == ["broken", "nowhere"]
    assert text_of(other) == text_of(stage)


def test_json_that_cannot_be_read_is_named(stage: Stage) -> None:
    stage.insert_task(name="by-hand", env="{oops")
    with pytest.raises(Refused, match=r"task by-hand: env: .\{oops. is not JSON"):
        DumpService(stage.crontab).dump()
