"""The line for commands and filters: what completes it, and that its keys never reach the rows."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from dcron.model import Trigger
from dcron.tui.dialogs.prompt import Prompt
from dcron.tui.keys.completion import Completion, completed
from dcron.values.lists import RunFilter
from tests.support.tui import Screen, Stage

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def prompt(screen: Screen) -> Prompt:
    found = screen.app.main.prompt
    assert found
    return found


@asynccontextmanager
async def shown(stage: Stage) -> AsyncIterator[Screen]:
    """Yield a screen with three tasks; none of its keys has started a run."""
    async with stage.screen("backup-db", "backup-web", "report") as screen:
        yield screen
    assert not [run for run in stage.crontab.runs(RunFilter(), 50) if run.trigger is not Trigger.SCHEDULE]


@pytest.mark.slow
async def test_tab_completes_and_the_keys_stay_with_the_prompt(stage: Stage) -> None:
    async with shown(stage) as screen:
        await screen.press("colon")
        await screen.type("vi")
        await screen.press("tab")
        assert prompt(screen).entry.value == "view "
        await screen.type("bac")
        await screen.press("tab", shows="backup-db  backup-web")
        assert prompt(screen).entry.value == "view backup-"
        await screen.press("r", "tab")  # r is text here
        await screen.shows("no completion")
        assert prompt(screen).entry.value == "view backup-r"
        await screen.press("backspace", "w", "tab", "enter", shows="> backup-web")
        assert not prompt(screen).is_open


@pytest.mark.slow
async def test_a_toast_does_not_cover_the_prompt(stage: Stage) -> None:
    async with shown(stage) as screen:
        await screen.press("colon")
        screen.app.report("a long message " * 20)
        await screen.shows("a long message")
        await screen.type("view backup and more words up to the other end of the line")
        await screen.until(lambda: screen.lines()[-2].rstrip().endswith("end of the line"))
        await screen.press("escape")


@pytest.mark.slow
async def test_a_filter_is_completed_by_its_fields_and_their_words(stage: Stage) -> None:
    async with shown(stage) as screen:
        await screen.press("slash")
        await screen.type("!st")
        await screen.press("tab")
        assert prompt(screen).entry.value == "!st:"
        await screen.type("fa")
        await screen.press("tab")
        assert prompt(screen).entry.value == "!st:failed "
        await screen.press("enter")
        await screen.until(lambda: screen.pane.filter_text == "!st:failed " and not screen.table.awaits_ids)
        assert len(screen.table.ids) == 3


@pytest.mark.slow
async def test_a_click_elsewhere_closes_it_and_runs_nothing(stage: Stage) -> None:
    async with shown(stage) as screen:
        await screen.press("colon")
        await screen.type("run report")
        await screen.pilot.click(type(screen.table), offset=(4, 2))
        await screen.until(lambda: not prompt(screen).is_open)
        assert not prompt(screen).display
        await screen.press("slash")
        await screen.type("report")
        await screen.pilot.click(type(screen.table), offset=(4, 1))
        await screen.until(lambda: not prompt(screen).is_open and len(screen.table.ids) == 1)
        assert screen.pane.filter_text == "report"  # what was typed is kept


@pytest.mark.slow
async def test_a_terminal_that_loses_the_focus_takes_no_keys_from_it(stage: Stage) -> None:
    from textual import events

    async with shown(stage) as screen:
        await screen.press("colon")
        await screen.type("view bac")
        screen.app.post_message(events.AppBlur())
        await screen.press("r")
        assert prompt(screen).entry.value == "view bacr"
        screen.app.post_message(events.AppFocus())
        await screen.press("escape")
        assert not prompt(screen).is_open
        assert screen.table.has_focus


@pytest.mark.slow
async def test_a_wrong_filter_leaves_the_kept_one_in_force(stage: Stage) -> None:
    async with shown(stage) as screen:
        await screen.press("slash")
        await screen.type("backup")
        await screen.press("enter", "slash", "ctrl+u")
        await screen.enter("foo:bar", shows="no field foo:")
        assert prompt(screen).is_open
        await screen.until(lambda: len(screen.table.ids) == 2)
        assert screen.pane.filter_text == "backup"
        await screen.press("ctrl+u")
        await screen.enter("st:bogus", shows="st: is one of ok, failed, lost")
        await screen.press("escape")
        assert screen.pane.filter_text == "backup"
        assert not prompt(screen).is_open


@pytest.mark.parametrize(
    ("text", "found", "becomes"),
    [
        ("vi", Completion("vi", ["view"]), "view "),
        ("view ba", Completion("ba", ["backup", "bake"]), "view ba"),
        ("view ba", Completion("ba", []), "view ba"),
        ("late no", Completion("no", ["node:"], ""), "late node:"),
    ],
)
def test_the_last_word_grows_while_all_agree(
    text: str, found: Completion, becomes: str, database_url: str
) -> None:
    assert completed(text, found) == becomes
