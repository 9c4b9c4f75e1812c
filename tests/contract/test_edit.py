"""Texts of the crontab: what they change, what they refuse, and what becomes of others' changes meanwhile."""

import json
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from dcron.crontabfile.options import ORDER
from dcron.editor import TextFile
from dcron.errors import Conflict, Refused
from dcron.model import RunState
from dcron.schedule.calendars import Calendar
from dcron.services import bulk_edit as module
from dcron.services.bulk_edit import BulkEdit, keep, revise
from dcron.services.calendars import Calendars
from dcron.services.changes.text_edits import BadText, Changes, CrontabText, EditConflict
from tests.contract.test_crontab import FULL, change_log, other
from tests.support.stage import Stage, definition

SATURDAYS = Calendar("rest", weekdays=frozenset([5]))


@pytest.fixture
def own_directory(sqlite_stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts that are kept go with the test. Not for tests of both kinds: a server's files would go too."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def editing(stage: Stage) -> BulkEdit:
    return BulkEdit(stage.crontab, "UTC")


def edited(stage: Stage, *replacements: tuple[str, str], name: str | None = None) -> tuple[CrontabText, str]:
    """A draft, and its text with some of it replaced."""
    draft = editing(stage).text([name] if name else None)
    text = draft.text
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new)
    return draft, text


def kinds(changes: Changes) -> list[tuple[str, str]]:
    return [(change.kind, change.name) for change in changes.changes]


def apply(stage: Stage, draft: CrontabText, text: str) -> Changes:
    changes = editing(stage).check(draft, text)
    editing(stage).apply(changes)
    return changes


def test_a_text_left_as_it_is_changes_nothing(stage: Stage) -> None:
    stage.crontab.add(FULL)
    stage.task("plain")
    draft = editing(stage).text()
    assert editing(stage).check(draft, draft.text) == Changes()
    assert kinds(editing(stage).check(draft, draft.text + "\n# a remark\n")) == []


def test_tasks_are_changed_renamed_added_and_removed_in_one_go(stage: Stage) -> None:
    before = [stage.task(name, command=f"run {name}") for name in ("a", "b", "c", "d")]
    draft, text = edited(
        stage,
        ("*/10 * * * * run a", "*/20 * * * * run a"),
        ("name=b", "name=bee"),
        ("#dcron: name=c\n*/10 * * * * run c\n", ""),
        ("run d", "run d\n\n#dcron: name=e\n@daily run e"),
    )
    changes = apply(stage, draft, text)
    assert kinds(changes) == [("removed", "c"), ("changed", "a"), ("renamed", "bee"), ("added", "e")]
    after = {task.name: task for task in stage.crontab.tasks()}
    assert list(after) == ["a", "bee", "d", "e"]
    assert (after["a"].schedule, after["bee"].id) == ("*/20 * * * *", before[1].id)
    assert after["d"] == before[3]
    log = [(action, task) for _, action, task in change_log(stage)][4:]
    assert log == [("rm", "c"), ("set", "a"), ("set", "bee"), ("add", "e")]
    assert stage.find_next_run(after["e"]) is not None
    assert stage.runs(before[2].id, RunState.WAITING) == []


def test_checking_writes_nothing(stage: Stage) -> None:
    task = stage.task("a")
    draft, text = edited(stage, ("name=a", "name=b"), ("*/10", "*/20"))
    editing(stage).check(draft, text)
    assert stage.crontab.get("a") == task
    assert [action for _, action, _ in change_log(stage)] == ["add"]


def test_a_change_shows_the_task_as_it_will_be_with_its_calendars(stage: Stage) -> None:
    Calendars(stage.crontab).put(SATURDAYS)
    stage.task("a")
    draft, text = edited(stage, ("name=a", "name=a except=rest"))
    after = editing(stage).check(draft, text).changes[0].after
    assert after
    assert json.loads(str(after.except_content)) == SATURDAYS.to_json()


def test_a_pause_stays(stage: Stage) -> None:
    paused = stage.crontab.pause(stage.task("a"), "broken disk")
    draft, text = edited(stage, ("*/10", "*/20"))
    apply(stage, draft, text)
    task = stage.crontab.get("a")
    assert (task.enabled, task.paused_reason, task.paused_at) == (False, "broken disk", paused.paused_at)
    assert stage.find_next_run(task) is None


def test_one_offs_are_no_part_of_the_whole_but_can_be_edited_by_name(stage: Stage) -> None:
    line = replace(FULL, name="once", schedule="@at 2027-07-01T00:00:00Z")
    stage.crontab.add(line, once=True)
    stage.task("a")
    assert list(editing(stage).text().tasks) == ["a"]
    draft, text = edited(stage, ("07-01", "08-01"), name="once")
    apply(stage, draft, text)
    task = stage.crontab.get("once")
    assert (task.schedule, task.once) == ("@at 2027-08-01T00:00:00Z", True)


def test_a_variable_above_changes_every_task_below(stage: Stage) -> None:
    for name in ("a", "b"):
        stage.task(name, env={"LEVEL": "1"})
    draft, text = edited(stage, ("LEVEL=1", "LEVEL=2"))
    assert kinds(apply(stage, draft, text)) == [("changed", "a"), ("changed", "b")]
    assert {task.env["LEVEL"] for task in stage.crontab.tasks()} == {"2"}


@pytest.mark.parametrize("remove", ["", "# only a comment\n"])
def test_a_text_without_tasks_removes_nothing(stage: Stage, remove: str) -> None:
    stage.task("a")
    changes = editing(stage).check(editing(stage).text(), remove)
    assert (changes.changes, len(changes.notices)) == ((), 1)
    with pytest.raises(Refused, match="dcron rm a"):
        editing(stage).check(editing(stage).text(["a"]), remove)


def test_one_task_is_renamed_whatever_else_changes(stage: Stage) -> None:
    task = stage.task("a")
    stage.task("b")
    draft, text = edited(stage, ("name=a", "name=z"), ("*/10 * * * * true", "@daily other"), name="a")
    assert kinds(apply(stage, draft, text)) == [("renamed", "z")]
    renamed = stage.crontab.get("z")
    assert (renamed.id, renamed.command) == (task.id, "other")


def test_two_tasks_trade_names(stage: Stage) -> None:
    for name in ("a", "b"):
        stage.task(name, command=f"run {name}")
    draft, text = edited(stage, ("name=a", "name=x"), ("name=b", "name=a"), ("name=x", "name=b"))
    apply(stage, draft, text)
    assert {task.name: task.command for task in stage.crontab.tasks()} == {"a": "run b", "b": "run a"}


def test_every_mistake_is_shown_with_its_line(stage: Stage) -> None:
    for name in ("a", "b", "c"):
        stage.task(name, command=f"run {name}")
    draft, text = edited(stage, ("*/10 * * * * run a", "99 * * * * run a"), ("name=c", "name=c limits=x"))
    with pytest.raises(BadText) as refused:
        editing(stage).check(draft, text)
    lines = text.split("\n")
    assert [lines[each.line - 1] for each in refused.value.mistakes] == [
        "99 * * * * run a",
        "#dcron: name=c limits=x",
    ]
    assert refused.value.mistakes[1].column == len("#dcron: name=c ") + 1


def test_what_only_the_database_knows_is_a_mistake_at_its_line_too(stage: Stage) -> None:
    stage.crontab.add(replace(FULL, name="taken", schedule="@at 2027-07-01T00:00:00Z"), once=True)
    for name in ("a", "b", "c"):
        stage.task(name, command=f"run {name}")
    draft, text = edited(
        stage, ("*/10 * * * * run a", "0 0 30 2 * run a"), ("name=b", "name=b only=none-such")
    )
    text += "\n#dcron: name=taken\n@daily true\n"
    with pytest.raises(BadText) as refused:
        editing(stage).check(draft, text)
    lines = text.split("\n")
    said = {lines[line - 1]: message for line, _, message in refused.value.mistakes}
    assert list(said) == ["0 0 30 2 * run a", "*/10 * * * * run b", "@daily true"]
    assert [
        word in message for word, message in zip(("never", "calendar", "already"), said.values(), strict=True)
    ]
    assert all(task.version == 1 for task in stage.crontab.tasks())


def test_text_that_is_not_utf_8_is_a_mistake_with_its_place(stage: Stage) -> None:
    stage.task("a")
    draft, text = edited(stage, ("true", b"tr\xffue".decode(errors="surrogateescape")))
    with pytest.raises(BadText) as refused:
        editing(stage).check(draft, text)
    line, column, message = refused.value.mistakes[0]
    assert (text.split("\n")[line - 1][: column - 1], message) == ("*/10 * * * * tr", "this is not UTF-8")


def test_a_task_that_was_broken_by_hand_can_be_repaired(stage: Stage) -> None:
    task = stage.task("a")
    stage.set_task(task.id, schedule="what is this")
    draft, text = edited(stage, ("what is this", "*/5 * * * *"))
    assert editing(stage).check(draft, draft.text) == Changes()
    apply(stage, draft, text)
    assert stage.crontab.get("a").schedule == "*/5 * * * *"


def test_what_no_text_says_of_a_task_stays(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    written = tuple(name for name in ORDER if name != "timeout")
    monkeypatch.setattr("dcron.crontabfile.writing.ORDER", written)
    stage.crontab.add(FULL)
    draft, text = edited(stage, ("*/10 8-18", "*/20 8-18"))
    apply(stage, draft, text)
    assert stage.crontab.get("full").definition() == replace(FULL, schedule="*/20 8-18 * * 1-5")


def test_tasks_may_need_each_other_in_any_order(stage: Stage) -> None:
    stage.task("z", command="keep")
    draft = editing(stage).text()
    both = '\n#dcron: name=a schedule="@after b"\n#dcron$ true\n\n#dcron: name=b\n@daily true\n'
    apply(stage, draft, draft.text + both)
    assert [task.name for task in stage.crontab.tasks()] == ["a", "b", "z"]
    apply(stage, editing(stage).text(), draft.text)
    assert [task.name for task in stage.crontab.tasks()] == ["z"]


def test_a_task_is_renamed_together_with_the_name_that_another_waits_for(stage: Stage) -> None:
    first = stage.task("first")
    stage.task("second", "@after first")
    draft, text = edited(stage, ("name=first", "name=begin"), ("@after first", "@after begin"))
    apply(stage, draft, text)
    assert (stage.crontab.get("begin").id, stage.crontab.get("second").schedule) == (first.id, "@after begin")
    draft, text = edited(stage, ("name=begin", "name=other"))
    with pytest.raises(BadText, match="second comes after begin") as refused:
        editing(stage).check(draft, text)
    assert text.split("\n")[refused.value.mistakes[0].line - 1].startswith("*/10 * * * *")


def test_a_task_that_others_changed_or_removed_is_a_conflict_and_nothing_is_done(stage: Stage) -> None:
    tasks = {name: stage.task(name, command=f"run {name}") for name in ("a", "b", "c")}
    draft, text = edited(stage, ("*/10", "*/20"))
    changes = editing(stage).check(draft, text)
    other(stage).edit(tasks["a"], {"timeout": 5.0})
    other(stage).remove(tasks["b"])
    with pytest.raises(EditConflict) as refused:
        editing(stage).apply(changes)
    first, second = refused.value.overtaken
    assert ("bob@laptop" in str(first.error), "set" in str(first.error)) == (True, True)
    assert ("removed" in str(second.error), second.theirs) == (True, None)
    difference = "\n".join(first.difference())
    assert "-#dcron: name=a timeout=5s" in difference
    assert "+*/20 * * * * run a" in difference
    assert {task.name: task.schedule for task in stage.crontab.tasks()} == dict.fromkeys("ac", "*/10 * * * *")
    with pytest.raises(EditConflict):  # said as soon as the text is checked
        editing(stage).check(draft, text)


def test_a_pause_meanwhile_is_a_conflict_too(stage: Stage) -> None:
    task = stage.task("a")
    draft, text = edited(stage, ("*/10", "*/20"))
    other(stage).pause(task)
    with pytest.raises(EditConflict, match="pause"):
        editing(stage).check(draft, text)


def test_a_name_that_others_took_meanwhile_is_a_conflict(stage: Stage) -> None:
    stage.task("a")
    draft, text = edited(stage, ("name=a", "name=b"))
    changes = editing(stage).check(draft, text + "\n#dcron: name=c\n@daily true\n")
    other(stage).add(replace(FULL, name="b"))
    other(stage).add(replace(FULL, name="c"))
    with pytest.raises(EditConflict, match="bob@laptop") as refused:
        editing(stage).apply(changes)
    assert [each.theirs and each.theirs.name for each in refused.value.overtaken] == ["b", "c"]
    assert [task.name for task in stage.crontab.tasks()] == ["a", "b", "c"]


def test_what_a_text_leaves_alone_others_may_change(stage: Stage) -> None:
    stage.task("a", command="run a")
    theirs = stage.task("b", command="run b")
    draft, text = edited(stage, ("*/10 * * * * run a", "*/20 * * * * run a"))
    other(stage).edit(theirs, {"timeout": 5.0})
    other(stage).add(replace(FULL, name="c"))
    apply(stage, draft, text)
    found = {task.name: (task.schedule, task.timeout) for task in stage.crontab.tasks()}
    assert found == {
        "a": ("*/20 * * * *", None),
        "b": ("*/10 * * * *", 5.0),
        "c": (FULL.schedule, FULL.timeout),
    }


def test_what_was_right_and_no_longer_is_is_a_conflict(stage: Stage) -> None:
    Calendars(stage.crontab).put(SATURDAYS)
    stage.task("a", command="run a")
    stage.task("b", command="run b")
    draft, text = edited(stage, ("name=b", "name=b except=rest"), ("*/10 * * * * run a", "@daily run a"))
    changes = editing(stage).check(draft, text)
    Calendars(other(stage)).remove("rest")
    with pytest.raises(Conflict, match="b: there is no calendar"):
        editing(stage).apply(changes)
    assert stage.crontab.get("a").schedule == "*/10 * * * *"


def test_more_than_a_file_may_hold_is_edited_by_name(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_TASKS", 2)
    for name in ("a", "b"):
        stage.task(name)
    assert len(editing(stage).text().tasks) == 2
    stage.task("c")
    with pytest.raises(Refused, match="dcron edit NAME"):
        editing(stage).text()


def test_too_many_changes_at_once_are_refused(sqlite_stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_CHANGES", 2)
    for name in ("a", "b", "c"):
        sqlite_stage.task(name, command=f"run {name}")
    draft, text = edited(sqlite_stage, ("*/10", "*/20"))
    with pytest.raises(Refused, match="3 tasks, and 2 is the most"):
        editing(sqlite_stage).check(draft, text)
    assert (
        len(
            editing(sqlite_stage)
            .check(draft, text.replace("*/20 * * * * run a", "*/10 * * * * run a"))
            .changes
        )
        == 2
    )


class Hand:
    """A person at an editor: saves one text after the other, and remembers what was shown."""

    def __init__(self, file: TextFile, *texts: str) -> None:
        self._file, self._texts = file, iter(texts)
        self.shown: list[tuple[str, int | None]] = []

    def __call__(self, path: object, line: int | None) -> None:
        self.shown.append((self._file.read(10_000), line))
        if (text := next(self._texts, None)) is not None:
            self._file.write(text)


def test_a_bad_text_is_opened_again_at_the_mistake(sqlite_stage: Stage) -> None:
    stage = sqlite_stage
    stage.task("a")
    draft, good = edited(stage, ("*/10", "*/20"))
    bad = good.replace("*/20", "77")
    with TextFile(draft.text) as file:
        hand = Hand(file, bad, good)
        changes = revise(editing(stage), draft, file, hand, again=True)
    (first, no_line), (second, line) = hand.shown
    assert (first, no_line) == (draft.text, None)
    assert line is not None
    assert second.split("\n")[line - 1].startswith("77 ")
    assert f"line {line}: " in second.split("\n")[1]
    assert kinds(changes) == [("changed", "a")]


@pytest.mark.usefixtures("own_directory")
def test_a_bad_text_that_comes_back_as_it_was_is_given_up_and_kept_without_marks(sqlite_stage: Stage) -> None:
    stage = sqlite_stage
    stage.task("a")
    draft, bad = edited(stage, ("*/10", "77"))
    with TextFile(draft.text) as file:
        hand = Hand(file, bad)
        with pytest.raises(BadText):
            revise(editing(stage), draft, file, hand, again=True)
        kept = keep(file, draft)
    assert len(hand.shown) == 2
    assert kept
    assert kept.read_text() == bad


def test_a_text_that_never_gets_right_is_not_opened_for_ever(sqlite_stage: Stage) -> None:
    stage = sqlite_stage
    stage.task("a")
    draft, bad = edited(stage, ("*/10", "77"))
    with TextFile(draft.text) as file:
        hand = Hand(file, *(f"{bad}# {number}\n" for number in range(1000)))
        with pytest.raises(BadText):
            revise(editing(stage), draft, file, hand, again=True)
    assert len(hand.shown) == module.ROUNDS


def test_nothing_of_a_text_is_left_unless_it_is_kept(sqlite_stage: Stage) -> None:
    sqlite_stage.task("a")
    draft = editing(sqlite_stage).text()
    with TextFile(draft.text) as file:
        assert (file.path.parent.stat().st_mode & 0o777, file.path.stat().st_mode & 0o777) == (0o700, 0o600)
        assert keep(file, draft) is None
    assert not file.path.parent.exists()


def test_a_one_off_whose_time_is_past_can_be_corrected_as_text(stage: Stage) -> None:
    stage.crontab.add(definition("once", "@at 2027-06-01T12:10:00Z", command="exit 3"), once=True)
    stage.forward(hours=1)
    draft, text = edited(stage, ("exit 3", "true"), name="once")
    editing(stage).apply(editing(stage).check(draft, text))
    assert stage.crontab.get("once").command == "true"
