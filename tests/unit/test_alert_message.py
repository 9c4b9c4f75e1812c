"""Messages about alerts: short, inert, and with what a person needs at night."""

import json
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcron.model import Alert, Notification, Run, RunState, Trigger
from dcron.policy.alert_facts import AlertFacts, Origin
from dcron.policy.history import RecordedChange
from dcron.presentation.alert_message import AlertItem, compose
from dcron.values.safe_text import safe
from tests.support.stage import NOON

HOSTILE = st.text(st.characters() | st.sampled_from("\x1b\x07\x9b\u202e\r\n\t\0"), max_size=300)


def alert(number: int = 1, task: str | None = "backup", **values: Any) -> Alert:
    about: dict[str, Any] = {"subject": f"task:{number}", "task_id": number, "task": task, "kind": "failing"}
    known: dict[str, Any] = dict.fromkeys(name for name in Alert.__dataclass_fields__)
    times = {"opened_at": NOON, "last_at": NOON, "times": 1, "last_run_id": 8123, "run_id": 8123}
    return Alert(**{**known, "id": number, "facts": {}, **about, **times, **values})


def run(**values: Any) -> Run:
    known: dict[str, Any] = dict.fromkeys(name for name in Run.__dataclass_fields__)
    known |= {"id": 8123, "task_id": 1, "task": "backup", "trigger": Trigger.SCHEDULE, "attempt": 1}
    known |= {"state": RunState.FAILED, "exit_code": 3, "owner": "web-2-00000000", "spec": {}}
    known |= {"started_at": NOON, "finished_at": NOON, "scheduled_for": NOON, "due_at": NOON}
    return Run(**{**known, **values})


def item(
    found: AlertFacts | None, number: int = 1, kind: str = "opened", facts: dict[str, Any] | None = None
) -> AlertItem:
    known: dict[str, Any] = dict.fromkeys(name for name in Notification.__dataclass_fields__)
    known |= {"id": number, "kind": kind, "channel": "ops", "created_at": NOON, "due_at": NOON}
    return AlertItem(Notification(**{**known, "facts": facts or {}}), found, NOON)


def origin(**values: Any) -> Origin:
    return Origin(run(**values), None, None, None)


def change(
    actor: str, before: dict[str, Any], after: dict[str, Any], *, seconds_before: int = 0
) -> RecordedChange:
    known: dict[str, Any] = dict.fromkeys(name for name in RecordedChange.__dataclass_fields__)
    known |= {"id": 812, "at": NOON - timedelta(seconds=seconds_before), "actor": actor, "action": "set"}
    return RecordedChange(**{**known, "before": before, "after": after})


def test_one_failure_is_described_in_full() -> None:
    edit = change(
        "anna@ops", {"command": "pg_dump shop"}, {"command": "pg_dump -j8 shop"}, seconds_before=842
    )
    day_before = dict.fromkeys(("started_at", "finished_at"), NOON - timedelta(days=1))
    good = origin(id=8000, state=RunState.SUCCEEDED, owner="web-1-00000000", **day_before)
    facts = AlertFacts(
        alert(times=3),
        run(),
        "UTC",
        good,
        NOON + timedelta(hours=1),
        edit,
        [b"copying", b"\x1b[31mdisk full"],
    )
    message = compose([item(facts)])
    assert message.subject == "[dcron] backup FAILING: exit 3 (run 8123)"
    assert (
        message.text
        == """\
backup is failing.

since      2027-06-01 12:00:00 UTC, 3 times
cause      exit 3 on web-2 (run 8123)
succeeded  2027-05-31 12:00:00 UTC on web-1
next run   2027-06-01 13:00:00 UTC
changed    it began 14m 2s after a change by anna@ops:
           - pg_dump shop
           + pg_dump -j8 shop
           dcron undo --change 812

The last lines of its output:
  copying
  disk full

To see more, and to stop reminders:
  dcron logs 8123
  dcron why backup
  dcron ack backup
"""
    )
    (shape,) = message.facts["alerts"]
    assert (shape["kind"], shape["status"], shape["exit_code"], shape["run"]) == (
        "failing",
        "opened",
        3,
        8123,
    )


def test_what_the_alert_has_recorded_is_part_of_the_cause() -> None:
    recorded = {"due": NOON.isoformat(), "expected": 600, "reason": "no agent has the tag gpu", "node": 7}
    late = alert(kind="late", facts=recorded, run_id=None, last_run_id=None)
    known = "expected within 10m 0s: due since 2027-06-01 12:00 UTC: no agent has the tag gpu"
    assert f"cause      {known}\n" in compose([item(AlertFacts(late))]).text
    assert compose(
        [item(AlertFacts(replace(late, facts={"due": "0001-01-01T00:00+05:00", "expected": True})))]
    ).text


def test_the_duration_of_a_short_run_is_said_once() -> None:
    short = alert(kind="too-short", facts={"seconds": 0.001, "expected": 60})
    good = run(state=RunState.SUCCEEDED, finished_at=NOON + timedelta(seconds=2), exit_code=0)
    text = compose([item(AlertFacts(short, good))]).text
    assert text.startswith("backup is ending too soon.\n")
    assert "cause      ok 2.0s on web-2 (run 8123): expected at least 1m 0s\n" in text


def test_the_number_of_missed_occurrences_is_said_once() -> None:
    reason = "missed: no agent could start it (3 occurrences)"
    missed = run(state=RunState.SKIPPED, reason=reason, exit_code=None)
    facts = AlertFacts(alert(kind="missed", facts={"occurrences": 3}), missed)
    assert compose([item(facts)]).text.count("3 occurrences") == 1


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("too-short", "backup is no longer ending too soon."),
        ("missed", "backup is no longer missing runs."),
        ("undeliverable", "backup is no longer unable to send."),
        ("clock", "backup is no longer wrong about the time."),
        ("database", "backup is no longer in need of attention."),
    ],
)
def test_the_end_of_each_kind_is_a_sentence(kind: str, sentence: str) -> None:
    message = compose([item(AlertFacts(alert(kind=kind, closed_at=NOON)), kind="closed")])
    assert message.text.startswith(f"{sentence}\n")


def test_a_message_about_several_tasks_shows_how_to_acknowledge_all() -> None:
    ended = item(AlertFacts(alert(3, "mail", closed_at=NOON)), 3, "closed")
    news = [item(AlertFacts(alert(number, task)), number) for number, task in ((1, "backup"), (2, "etl"))]
    assert compose([ended, *news]).text.endswith("\n  dcron ack backup etl\n")
    twice = [
        item(AlertFacts(alert(number, kind=kind)), number) for number, kind in ((1, "late"), (2, "stale"))
    ]
    assert compose(twice).text.endswith("\n  dcron ack backup\n")


def test_a_recovery_says_how_long_it_lasted() -> None:
    closed = replace(alert(), closed_at=NOON + timedelta(hours=3, minutes=20))
    message = compose([item(AlertFacts(closed, run()), kind="closed")])
    assert message.subject == "[dcron] backup RECOVERED after 3h 20m"
    assert message.text.startswith("backup is no longer failing.")
    assert message.text.endswith(
        "To see more:\n  dcron logs 8123\n  dcron why backup\n  dcron alerts --all\n"
    )
    late = replace(closed, kind="late")
    assert "no longer late" in compose([item(AlertFacts(late), kind="closed")]).subject
    # Opened and closed before the message was sent: one piece of news.
    both = compose([item(AlertFacts(closed, run())), item(AlertFacts(closed, run()), 2, "closed")])
    assert both.subject == message.subject


def test_reminders_and_other_subjects() -> None:
    reminder = compose([item(AlertFacts(alert(), run()), kind="reminder")])
    assert reminder.subject == "[dcron] backup STILL FAILING: exit 3 (run 8123)"
    lost = alert(
        task=None, task_id=None, kind="node-lost", subject="node:web-2", run_id=None, last_run_id=None
    )
    message = compose([item(AlertFacts(lost))])
    assert message.subject == "[dcron] node web-2 LOST"
    assert message.text.endswith("  dcron alerts\n  dcron report --since 24h\n  dcron ack node:web-2\n")


def test_a_thousand_failures_are_one_short_message() -> None:
    lost = run(state=RunState.LOST, exit_code=None)
    items = [
        item(AlertFacts(alert(number, f"task-{number}"), lost if number > 2 else run()), number)
        for number in range(1, 1001)
    ]
    closed = [
        item(AlertFacts(replace(alert(2000 + number), closed_at=NOON), run()), number, "closed")
        for number in range(3)
    ]
    message = compose([*items, *closed])
    assert message.subject == "[dcron] 1,000 tasks FAILING, 3 tasks RECOVERED"
    lines = message.text.splitlines()
    assert lines[0] == "1,000 tasks failing since 2027-06-01 12:00:00 UTC, 998 lost with node web-2:"
    assert lines[1] == "  task-1: exit 3 on web-2 (run 8123)"
    assert lines[21] == "  and 980 more"
    assert "3 tasks no longer failing since 2027-06-01 12:00:00 UTC:" in lines
    assert size_of(message) <= 100_000
    assert message.facts["alerts_in_all"] == 1003


def test_a_test_and_alerts_that_are_gone() -> None:
    assert compose([item(None, facts={"test": "ann@desk"})]).subject == "[dcron] test of the channel ops"
    assert compose([item(None), item(None, 2)]).subject == "[dcron] 2 notifications"


def size_of(message: Any) -> int:
    return len(message.text.encode()) + len(message.subject.encode()) + len(json.dumps(dict(message.facts)))


@pytest.mark.slow
@given(
    st.lists(HOSTILE, min_size=1, max_size=5),
    HOSTILE,
    st.lists(st.binary(max_size=2000), max_size=20),
    st.sampled_from(["opened", "reminder", "closed", "later"]),
)
def test_messages_are_printable(names: Sequence[str], text: str, output: Sequence[bytes], kind: str) -> None:
    items = []
    for number, name in enumerate(names, 1):
        facts = AlertFacts(
            alert(number, name, kind=text[:40] or "late", facts={"reason": text}),
            run(reason=text, owner=f"{text}-00000000"),
            "UTC",
            origin(owner=f"{text}-00000000", state=RunState.SUCCEEDED, started_at=None),
            NOON,
            change(text, {"command": text}, {"command": text[1:]}),
            output,
        )
        items.append(item(facts, number, kind))
    message = compose(items)
    for line in (message.subject, *message.text.split("\n")):
        assert safe(line) == line, ascii(line)
        assert not {"Cc", "Cs", "Zl", "Zp"} & set(map(unicodedata.category, line)), ascii(line)
    assert size_of(message) <= 100_000
