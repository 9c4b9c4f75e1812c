"""The history on the screen, and undo from it."""

import pytest
from sqlalchemy import update
from textual.widgets import Static

from dcron.database import open_database
from dcron.policy.history import RecordedChange
from dcron.policy.ownership import digest
from dcron.schema import tables
from dcron.services.crontab import Crontab
from dcron.services.history import History
from dcron.tui.dialogs.modals import NoticeDialog
from dcron.tui.forms.dialogs import Decide
from dcron.tui.history.pane import HistoryPane
from dcron.tui.questions.dialogs import Ask
from tests.support import forms
from tests.support.stage import definition
from tests.support.tui import Screen, Stage

pytestmark = pytest.mark.slow


def changes(stage: Stage, name: str | None = None) -> list[RecordedChange]:
    return list(History(stage.crontab).changes(100, name))


async def open_history(screen: Screen) -> None:
    await screen.press("h")
    await screen.until(lambda: isinstance(screen.pane, HistoryPane) and screen.table.rows)
    await screen.until(lambda: screen.table.has_focus)


async def agree(screen: Screen, why: str = "") -> None:
    """Agree to the undo, and give the reason."""
    await screen.until(lambda: isinstance(screen.app.screen, Decide))
    await screen.press("y")
    await screen.until(lambda: isinstance(screen.app.screen, Ask))
    await screen.enter(why)


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)])
async def test_a_task_has_its_history_with_what_each_change_did(stage: Stage, size: tuple[int, int]) -> None:
    task = stage.add("backup", command="pg_dump shop")
    edited = stage.crontab.acting("cli set", "dumps are slow").edit(task, {"command": "pg_dump -j8 shop"})
    stage.crontab.acting("tui").pause(edited, "disk is full")
    async with stage.screen("other", size=size, unicode=size[0] == 200) as screen:
        await open_history(screen)
        assert screen.app.main.crumbs() == ["Tasks", "backup history"]
        assert list(screen.table.ids) == [3, 2, 1]
        await screen.shows("+# paused: disk is full")
        await screen.press("j", shows="-30 2 * * * pg_dump shop")
        await screen.shows("+30 2 * * * pg_dump -j8 shop")
        await screen.shows("why: dumps are slow")
        assert all(len(line) <= size[0] for line in screen.lines())
        await screen.press("enter")
        await screen.until(lambda: isinstance(screen.app.screen, NoticeDialog))
        await screen.press("escape", "p")
        await screen.shows_not("why: dumps are slow")
        await screen.press("escape")
        await screen.until(lambda: screen.app.main.crumbs() == ["Tasks"])


async def test_the_dialog_of_a_change_has_one_heading(stage: Stage) -> None:
    async with stage.screen("backup") as screen:
        await open_history(screen)
        await screen.press("enter")
        await screen.until(lambda: isinstance(screen.app.screen, NoticeDialog))
        shown = [str(each.render()) for each in screen.app.screen.query(Static)]
        assert "change 1  backup: add" in shown[0]
        assert "change 1" not in shown[1]


async def test_a_change_is_undone_with_a_reason_and_its_command_is_shown(stage: Stage) -> None:
    task = stage.add("backup", "30 2 * * *")
    stage.crontab.edit(task, {"schedule": "30 4 * * *"})
    stage.crontab.edit(stage.crontab.get("backup"), {"timeout": 60.0})
    async with stage.screen(size=(100, 30)) as screen:
        await open_history(screen)
        await screen.press("u", shows="undo change 3?")
        await screen.shows("dcron undo --change 3")
        await agree(screen, "too-short")
        await screen.until(lambda: len(changes(stage)) == 4)
        await screen.until(lambda: len(screen.table.ids) == 4)
        await screen.shows("dcron undo --change 3 -m too-short")
    last = changes(stage, "backup")[0]
    assert (last.undoes, last.note, last.via, last.actor) == (3, "too-short", "tui", "bob@desk")
    assert stage.crontab.get("backup").timeout is None
    assert stage.crontab.get("backup").schedule == "30 4 * * *"


async def test_later_changes_are_shown_before_they_are_lost(stage: Stage) -> None:
    task = stage.add("backup", "30 2 * * *")
    edited = stage.crontab.edit(task, {"schedule": "30 4 * * *"})
    stage.crontab.acting("cli set", "hung in May").edit(edited, {"timeout": 60.0})
    async with stage.screen(size=(100, 30)) as screen:
        await open_history(screen)
        await screen.press("j", "u", shows="later changes would be lost")
        await screen.shows("hung in May")
        await screen.press("escape")
        assert len(changes(stage)) == 3
        await screen.press("u", shows="later changes would be lost")
        await screen.press("f", shows="undo change 2?")
        await screen.shows("before ")  # the runs that move
        await agree(screen)
        await screen.until(lambda: len(changes(stage)) == 4)
    task = stage.crontab.get("backup")
    assert (task.schedule, task.timeout) == ("30 2 * * *", None)


async def test_the_last_acts_of_the_session_are_undone_and_an_undo_is_redone(
    stage: Stage,
) -> None:
    async with stage.screen("backup", "other") as screen:
        await screen.press("u", shows="nothing to undo")
        await screen.press("D", shows="delete backup?")
        await screen.press("y")
        await screen.until(lambda: not stage.crontab.names("backup", 1))
        stage.crontab.pause(stage.crontab.get("other"))  # another person's
        await screen.press("u", shows="undo your last act?")
        await agree(screen)
        await screen.until(lambda: stage.crontab.names("backup", 1))
        await screen.press("u", shows="all of your acts here are undone")
        assert stage.crontab.names("backup", 1)
        await screen.enter(":history")
        await screen.until(lambda: len(screen.table.ids) == 5)
        await screen.until(lambda: screen.table.has_focus)
        await screen.press("u", shows="removed backup")
        await screen.press("escape")
    assert not stage.crontab.get("other").enabled


async def test_a_protected_context_asks_for_its_name_before_an_undo(stage: Stage) -> None:
    stage.crontab.edit(stage.add("backup"), {"timeout": 60.0})
    async with stage.screen(context="prod", is_protected=True) as screen:
        await open_history(screen)
        await screen.press("u")
        await agree(screen, "why")
        await screen.shows("undo change 2 in prod?")
        await screen.press("enter")
        assert len(changes(stage)) == 2
        await screen.enter("prod")
        await screen.until(lambda: len(changes(stage)) == 3)


async def test_all_changes_are_read_page_by_page(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dcron.tui.history.pane.PAGE", 10)
    for number in range(35):
        stage.add(f"task{number:02}")
    async with stage.screen(size=(80, 16)) as screen:
        await screen.enter(":history")
        await screen.until(lambda: isinstance(screen.pane, HistoryPane) and screen.table.rows)
        await screen.until(lambda: screen.table.has_focus)
        while screen.table.cursor_id != 1:
            await screen.press("G")
        assert list(screen.table.ids) == list(range(35, 0, -1))
        stage.add("later")
        await screen.until(lambda: screen.table.ids[0] == 36)
        assert len(screen.table.ids) == 36


async def test_foreign_text_in_the_history_is_harmless(stage: Stage) -> None:
    crontab = Crontab(open_database(stage.url), "ev\x1b[2Jil@\u202ehost")
    task = crontab.add(definition("evil", "@yearly"))
    with crontab.database.write() as connection:
        values = {"note": "x\x1b[2J", "via": "[/b]"}
        connection.execute(update(tables.changes).values(values))
    crontab.edit(task, {"describe": "[@click=app.quit]x[/]"})
    crontab.database.close()
    async with stage.screen(size=(120, 30)) as screen:
        await screen.enter(":history")
        await screen.until(lambda: isinstance(screen.pane, HistoryPane) and screen.table.rows)
        await screen.shows("[@click=app.quit]x[/]")
        assert "\x1b" not in screen.text()
        assert "\u202e" not in screen.text()


async def test_what_a_source_owns_is_to_be_changed_there_too(stage: Stage) -> None:
    task = stage.add("backup", "30 2 * * *")
    with stage.database.write() as connection:
        owned = {"source": "shop/cron", "applied": digest(task)}
        connection.execute(update(tables.crontab).values(owned))
    stage.crontab.edit(stage.crontab.get("backup"), {"timeout": 60.0})
    async with stage.screen(size=(150, 40)) as screen:
        await screen.shows("shop/cron, changed by hand")
        await screen.press("D", shows="backup belongs to shop/cron: remove it there, too")
        await screen.press("escape")
        await forms.opened(screen, "e")
        await forms.fill(screen, schedule="30 4 * * *")
        await forms.save(screen, sees="backup belongs to shop/cron: change it there, too")
        await screen.until(lambda: stage.crontab.get("backup").schedule == "30 4 * * *")
        await screen.press("u", shows="undo your last act?")
        await screen.shows("backup belongs to shop/cron: change it there, too")
