"""What the keys do to tasks and runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from dcron.model import RunState, Trigger
from dcron.services.history import History
from dcron.tui.dialogs.suspend import suspended
from dcron.tui.frame import refresher
from dcron.tui.questions import dialogs
from dcron.values.lists import RunFilter
from tests.support.tui import Stage, many


def states(stage: Stage, trigger: str = "manual") -> list[RunState]:
    return [run.state for run in stage.crontab.runs(RunFilter(), 50) if run.trigger == trigger]


async def test_run_now_shows_the_command_line_that_does_the_same(stage: Stage) -> None:
    async with stage.screen("backup") as screen:
        await screen.press("r", shows="dcron run backup")
        assert states(stage) == [RunState.WAITING]
        (change, *_) = History(stage.crontab).changes(9, "backup")
        assert (change.action, change.via, change.actor) == ("run", "tui", "bob@desk")


@pytest.mark.slow
async def test_a_task_is_paused_with_a_reason_and_resumed(stage: Stage) -> None:
    async with stage.screen("backup") as screen:
        await screen.press("s", shows="why?")
        await screen.enter("full disk", shows="dcron pause backup --reason 'full disk'")
        assert stage.crontab.get("backup").paused_reason == "full disk"
        assert stage.crontab.get("backup").paused_by == "bob@desk"
        await screen.until(lambda: not screen.table.cursor_row.task.enabled)
        await screen.press("s", shows="dcron resume backup")
        assert stage.crontab.get("backup").enabled


@pytest.mark.slow
async def test_deleting_asks_and_silence_is_no(stage: Stage) -> None:
    async with stage.screen("backup") as screen:
        for answer in ("enter", "n", "escape"):
            await screen.press("D", shows="delete backup?")
            await screen.press(answer)
            await screen.shows_not("delete backup?")
        assert stage.crontab.get("backup")
        await screen.press("D", shows="delete backup?")
        await screen.press("y", shows="no tasks yet")
        assert list(stage.crontab.names("", 9)) == []


@pytest.mark.slow
async def test_tasks_are_deleted_together_with_those_that_wait_for_them(stage: Stage) -> None:
    stage.add("a")
    stage.add("b", "@after a")
    stage.add("c", "@after b")
    async with stage.screen("z") as screen:
        await screen.press("space", "space", "space", "D", shows="delete 3 tasks?")
        await screen.press("y")
        await screen.until(lambda: stage.crontab.names("", 9) == ["z"])


async def test_keys_typed_ahead_answer_no_question(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.add("backup")
    monkeypatch.setattr(dialogs, "PATIENCE", 30.0)
    async with stage.screen() as screen:
        await screen.press("D", "y")
        await screen.press("y", "tab", shows="delete backup?")
        await screen.press("enter")  # the marked answer is No still
        await screen.shows_not("delete backup?")
        assert stage.crontab.get("backup")


async def test_marks_survive_a_filter_and_acts_are_on_the_shown_ones(stage: Stage) -> None:
    async with stage.screen("mail", "shop", "warm", size=(100, 24)) as screen:
        await screen.press("space", "space", shows="2 marked 3/3")
        screen.app.filter_rows("shop")
        await screen.shows("1 marked, 1 hidden 1/1")
        await screen.press("r", shows="dcron run shop")
        await screen.press("escape", shows="2 marked 2/3")
        await screen.press("r", shows="run 2 tasks now?")
        screen.app.pop_screen()
        stage.crontab.remove(stage.crontab.get("mail"))
        await screen.shows("1 marked 1/2")
    assert len(states(stage)) == 1


@pytest.mark.slow
async def test_acts_on_marked_rows_are_done_to_all_of_them(stage: Stage) -> None:
    for number in range(7):
        stage.add(f"task-{number}")
    async with stage.screen() as screen:
        await screen.press("space", "space", shows="2 marked")
        await screen.press("s", shows="pause 2 tasks")
        await screen.press("enter")
        await screen.until(lambda: [stage.crontab.get(f"task-{n}").enabled for n in (0, 1, 2)] == [0, 0, 1])
        await screen.press("a", shows="7 marked")
        await screen.press("D", shows="type 7")
        await screen.press("enter", shows="type 7")
        await screen.enter("7", shows="no tasks yet")


@pytest.mark.slow
async def test_a_waiting_run_is_cancelled(stage: Stage) -> None:
    stage.crontab.run(stage.add("backup"))
    async with stage.screen() as screen:
        await screen.press("enter", "tab", shows="waiting")
        await screen.until(lambda: len(screen.table.ids) == 2 and screen.table.has_focus)
        await screen.press("K", shows="cancel run 2 of backup?")
        await screen.press("y", shows="dcron cancel 2 --force")
        assert states(stage) == [RunState.CANCELLED]


@pytest.mark.slow
async def test_a_conflict_shows_both_and_loses_nothing(stage: Stage) -> None:
    task = stage.add("backup")
    async with stage.screen() as screen:
        screen.app.health.paused = True  # it does not see what comes now
        await screen.press("s", shows="why?")
        stage.crontab.edit(task, {"command": "false"})
        await screen.enter("disk", shows="another person changed it first")
        assert "ann@desk" in screen.text()
        assert "command: true -> false" in screen.text()
        assert "dcron pause backup --reason disk" in screen.text()
        assert stage.crontab.get("backup").enabled
        await screen.press("r", shows="paused backup")
        now = stage.crontab.get("backup")
        assert (now.command, now.paused_reason) == ("false", "disk")


async def test_what_others_paused_meanwhile_is_not_deleted(stage: Stage) -> None:
    task = stage.add("backup")
    async with stage.screen() as screen:
        screen.app.health.paused = True
        await screen.press("D", shows="delete backup?")
        stage.crontab.pause(task, "holiday")
        await screen.press("y", shows="paused by ann@desk: holiday")
        await screen.press("escape")
        await screen.shows_not("another person")
        assert not stage.crontab.get("backup").enabled


@pytest.mark.slow
async def test_the_commands_of_all_that_was_done_are_shown_as_far_as_they_fit(stage: Stage) -> None:
    tasks = [stage.add(f"task-{number}") for number in range(9)]
    async with stage.screen() as screen:
        screen.app.health.paused = True
        stage.crontab.edit(tasks[8], {"command": "false"})
        await screen.press("a", "s", shows="pause 9 tasks")
        await screen.press("enter", shows="another person changed it first")
        await screen.shows("paused task-0, and 7 more")  # the dialog does not take it away
        shown = screen.text()
        assert [number for number in range(9) if f"dcron pause task-{number}" in shown] == [*range(6), 8]
        assert "... and 2 more" in shown


async def test_readonly_does_nothing_and_says_so(stage: Stage) -> None:
    async with stage.screen("backup", readonly=True) as screen:
        assert "read-only" in screen.text()
        for key in ("r", "s", "D"):
            screen.app.clear_notifications()
            await screen.press(key, shows="--readonly")
        assert states(stage) == []
        assert stage.crontab.get("backup").enabled


async def test_what_cannot_be_done_is_said(stage: Stage) -> None:
    task = stage.add("backup")
    async with stage.screen() as screen:
        screen.app.health.paused = True
        await screen.press("D", shows="delete backup?")
        stage.crontab.remove(task)
        await screen.press("y", shows="was removed meanwhile")


@pytest.mark.slow
async def test_pause_and_resume_by_their_words_do_what_they_say(stage: Stage) -> None:
    stage.crontab.pause(stage.add("backup"), "holiday")
    async with stage.screen() as screen:
        for line, message in (
            ("pause backup", "paused already"),
            ("resume backup", "dcron resume backup"),
        ):
            await screen.press("colon")
            await screen.enter(line)
            await screen.shows(message)
            assert stage.crontab.get("backup").enabled is line.startswith("resume")


@pytest.mark.slow
async def test_a_word_that_starts_something_asks_about_a_name_that_was_only_begun(stage: Stage) -> None:
    async with stage.screen("deploy-prod") as screen:
        for key, made in (("n", []), ("y", [RunState.WAITING])):
            assert states(stage) == []
            await screen.press("colon")
            await screen.enter("run deploy", shows="run deploy-prod?")
            await screen.press(key)
            await screen.until(partial(lambda made: states(stage) == made, made))
        stage.add("deploy-test")
        await screen.press("colon")
        await screen.enter("run deploy", shows="deploy-prod, deploy-test")
        assert len(states(stage)) == 1


@pytest.mark.slow
async def test_an_act_is_done_to_marked_rows_out_of_sight_too(stage: Stage) -> None:
    many(stage)
    async with stage.screen() as screen:
        await screen.press("space", "space", "space", "G")
        last = screen.table.ids[-1]
        await screen.until(lambda: last in screen.table.rows)
        await screen.press("s", shows="pause 3 tasks")


async def test_nothing_is_done_to_rows_that_a_filter_takes_away(stage: Stage) -> None:
    async with stage.screen("backup", "vacuum") as screen:
        assert screen.table.cursor_row.task.name == "backup"
        screen.pane.set_filter("vacuum")
        assert screen.table.chosen_rows() == []
        await screen.until(lambda: not screen.table.awaits_ids and screen.table.cursor_row)
        assert [row.task.name for row in screen.table.chosen_rows()] == ["vacuum"]


def test_a_program_that_fails_gives_the_terminal_back() -> None:
    message = []

    class Lender:
        @contextmanager
        def suspend(self) -> Iterator[None]:  # as Textual's, which no error comes back from
            message.append("lent")
            yield
            message.append("back")

    with pytest.raises(KeyboardInterrupt), suspended(Lender()):
        raise KeyboardInterrupt
    assert message == ["lent", "back"]


@pytest.mark.slow
async def test_in_a_protected_context_its_name_is_typed(stage: Stage) -> None:
    for number in range(7):
        stage.add(f"task-{number}")
    async with stage.screen(context="prod", is_protected=True) as screen:
        await screen.shows(" prod ")
        await screen.press("D", shows="delete task-0 in prod?")
        await screen.press("y", "enter", shows="type prod and Enter to do it")
        await screen.press("backspace")
        await screen.enter("prod")
        await screen.until(lambda: len(list(stage.crontab.tasks())) == 6)
        await screen.until(lambda: len(screen.table.ids) == 6)
        await screen.press("a", "D", shows="type 6 and Enter")
        await screen.enter("6", shows="delete 6 tasks in prod?")
        await screen.enter("prod")
        await screen.until(lambda: not list(stage.crontab.tasks()))


@pytest.mark.slow
async def test_every_act_asks_for_the_name_of_a_protected_context(stage: Stage) -> None:
    stage.add("backup")

    def has_run() -> bool:
        return any(run.trigger is Trigger.MANUAL for run in stage.crontab.runs(RunFilter(), 9))

    async with stage.screen(context="prod", is_protected=True) as screen:
        await screen.press("r", shows="run backup in prod?")
        await screen.press("escape")
        await screen.shows_not("run backup in prod?")
        assert not has_run()
        await screen.press("r", shows="run backup in prod?")
        await screen.enter("prod")
        await screen.until(has_run)
        await screen.press("s", shows="pause backup: why?")
        await screen.press("enter", "enter", shows="pause backup in prod?")
        await screen.enter("prod")
        await screen.until(lambda: not stage.crontab.get("backup").enabled)
        await screen.press("s", shows="resume backup in prod?")
        await screen.press("escape")
        await screen.shows_not("resume backup in prod?")
        assert not stage.crontab.get("backup").enabled


@pytest.mark.slow
async def test_a_wrong_name_of_a_protected_context_is_answered(stage: Stage) -> None:
    async with stage.screen("backup", context="prod", is_protected=True) as screen:
        await screen.press("D", shows="delete backup in prod?")
        await screen.enter("prd", shows="prd is not prod; nothing was done")
        await screen.type("o")
        await screen.shows_not("nothing was done")
    assert stage.crontab.get("backup")


async def test_the_header_goes_on_behind_a_dialog(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.add("backup")
    monkeypatch.setattr(refresher, "COUNTS_EVERY", 0.0)
    monkeypatch.setattr(refresher, "COUNTS_SHARE", 0)
    async with stage.screen() as screen:
        await screen.until(lambda: " 1 task " in screen.lines()[0])
        await screen.press("D", shows="delete backup?")
        clock = screen.lines()[0][-14:]
        stage.add("report")
        await screen.until(lambda: " 2 tasks " in screen.lines()[0])
        await screen.until(lambda: screen.lines()[0][-14:] != clock)
        assert "delete backup?" in screen.text()


@pytest.mark.slow
async def test_a_text_above_the_views_is_searched(stage: Stage) -> None:
    async with stage.screen("backup") as screen:
        await screen.press("question_mark", shows="10 runs: the height")
        await screen.press("slash", shows="search for")
        await screen.type("queues")  # q would leave
        await screen.press("enter")
        await screen.shows_not("10 runs: the height")
        await screen.shows("queues")
        await screen.press("slash", shows="search for")
        await screen.enter("xyz", shows="nothing matches xyz")
        await screen.press("n", "N", "escape")
        assert screen.app.screen is screen.app.main
