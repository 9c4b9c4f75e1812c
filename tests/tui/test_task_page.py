"""The page of a task: its tabs, and what its keys do."""

from datetime import timedelta

import pytest

from dcron.services.dashboard import Dashboard
from dcron.store.runs import output
from dcron.tui.pages.task import TaskPage
from dcron.tui.table.sections import Fact, Section, SectionColumn
from dcron.tui.views.task_sections import task_sections
from dcron.values.lists import Chunk, RunFilter
from tests.support.alerts import insert_alert
from tests.support.statistics import ended_run, insert_runs
from tests.support.tui import Screen, Stage

SIZES = [(80, 24), (120, 40), (200, 50)]
EVIL = "\x1b]52;c;aGk=\x1b\\[/nope][@click=app.quit]x[/]\u202e\x9b31m\x1b[2J"


def failed(stage: Stage, name: str, printed: bytes = b"") -> int:
    """Add a task with a failed run, which printed this."""
    task, now = stage.add(name, describe="copies the shop"), stage.crontab.now()
    row = ended_run(now - timedelta(minutes=1), "failed", 10, task_id=task.id, task=name, exit_code=3)
    (run_id,) = insert_runs(stage.database, [row])
    insert_alert(stage.database, now, task, run_id=run_id, last_run_id=run_id)
    if printed:
        with stage.database.write() as connection:
            output.append(connection, stage.database, [Chunk(run_id, 0, "out", now, printed)])
    return run_id


async def next_tab(screen: Screen, page: TaskPage) -> None:
    before = page.front
    await screen.press("tab")
    await screen.until(lambda: page.front is not before)


async def tab(screen: Screen, title: str) -> None:
    """Press Tab until this tab is in front, and wait for its focus."""
    page = screen.app.main.page
    assert isinstance(page, TaskPage)
    while page.front.title != title:
        await next_tab(screen, page)
    await screen.until(lambda: screen.app.main.has_keys and page.front.is_ready)


def test_the_first_section_is_what_is_wrong(stage: Stage) -> None:
    failed(stage, "backup")
    detail = Dashboard(stage.crontab).task_detail(stage.crontab.get("backup").id)
    assert detail
    found = {each.title: each for each in task_sections(detail, stage.crontab.now())}
    assert next(iter(found)) == "What is wrong"
    assert found["What is wrong"].facts[0].value.startswith("failing for ")
    assert "at 02:30 every day" in found["Schedule"].facts[0].value
    assert found["Runs"].facts[0].value.startswith("exit 3")
    assert found["Statistics"].facts[0].value.startswith("0.0% ok of 1 run")
    assert found["Command"].facts[0].value == "copies the shop"


def test_values_wrap_behind_their_names_and_are_inert() -> None:
    column = SectionColumn()
    wide = Fact("wide", "日本日本日本")
    facts = [Fact("a", "one two three"), Fact("none", ""), Fact("a long name", EVIL), wide]
    column.show([Section("Title", 0, facts)])
    lines = ["".join(text for text, _ in line) for line in column._lines(20)]
    assert lines[0].startswith("Title ─")
    assert lines[1:4] == ["a         one two", "          three", "a long name"]
    assert all(character.isprintable() for line in lines for character in line)
    assert lines[-2:] == ["wide      日本日本日", "          本"]


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
async def test_every_tab_fits_every_size_in_both_glyph_sets(stage: Stage, size: tuple[int, int]) -> None:
    failed(stage, "backup", b"disk full\n")
    stage.add("report", "@after backup")
    for unicode in (False, True):
        async with stage.screen(size=size, unicode=unicode) as screen:
            await screen.press("enter", shows="at 02:30 every day")
            await screen.shows("failing")
            await tab(screen, "Runs")
            await screen.shows("exit 3")
            await tab(screen, "Log")
            await screen.shows("disk full")
            await tab(screen, "History")
            await screen.shows("#dcron: name=backup")
            await tab(screen, "Dependencies")
            await screen.shows("after it")
            assert all(len(line) <= size[0] for line in screen.lines())
            await screen.press("enter")
            await screen.until(lambda: screen.app.main.crumbs() == ["Tasks", "backup", "report"])
            await screen.press("escape", "escape")
            await screen.until(lambda: screen.app.main.crumbs() == ["Tasks"])


@pytest.mark.slow
async def test_its_keys_act_on_the_task(stage: Stage) -> None:
    failed(stage, "backup", b"disk full\n")
    async with stage.screen(size=(120, 40)) as screen:
        await screen.press("enter", shows="at 02:30 every day")
        await screen.press("w", shows="why backup")
        await screen.press("escape", "s", shows="pause backup: why?")
        await screen.press("escape", "r", shows="dcron run backup")
        await screen.press("y", shows="copied backup")
        await screen.press("Y", shows="copied true")
        await tab(screen, "Log")
        await screen.press("enter")
        await screen.until(lambda: type(screen.app.screen).__name__ == "LogScreen")
        await screen.press("escape", "D", shows="delete backup?")
        await screen.press("y", shows="removed")


@pytest.mark.slow
async def test_readonly_shows_the_page_and_changes_nothing(stage: Stage) -> None:
    failed(stage, "backup")
    async with stage.screen(readonly=True) as screen:
        await screen.press("enter", shows="at 02:30 every day")
        for key in ("s", "r", "e", "D"):
            await screen.press(key, shows="--readonly")
    assert stage.crontab.get("backup").enabled


@pytest.mark.slow
async def test_a_click_shows_a_tab(stage: Stage) -> None:
    failed(stage, "backup", b"disk full\n")
    async with stage.screen() as screen:
        await screen.press("enter", shows="at 02:30 every day")
        line = screen.app.main.query_one("TabLine")
        await screen.pilot.click(line, offset=(18, 0))
        await screen.shows("disk full")


@pytest.mark.slow
async def test_hostile_texts_do_not_reach_the_page(stage: Stage) -> None:
    stage.add("backup", command=f"echo '{EVIL}'", describe=EVIL)
    async with stage.screen(size=(120, 40)) as screen:
        await screen.press("enter", shows="[/nope]")
        for strip in screen.strips():
            assert all(character.isprintable() for character in strip.text), ascii(strip.text)


async def test_letters_typed_for_a_filter_do_not_act_on_a_page_without_one(stage: Stage) -> None:
    async with stage.screen("backup", keys={"main.filter": "f5,slash"}) as screen:
        await screen.press("enter")
        await screen.until(lambda: isinstance(screen.app.main.page, TaskPage))
        assert "filter" not in screen.lines()[-1]
        for key in ("f5", "slash"):
            await screen.press(key, shows="there is no filter here; Esc leaves")
            await screen.press(*(["escape"] if key == "f5" else []))
        await screen.enter("srDy", shows="srDy")
        await screen.shows("there is no filter here; Esc leaves")
        assert screen.app.screen is screen.app.main
        await screen.press("escape")
        await screen.shows_not("srDy")
        assert screen.app.main.has_keys
    assert stage.crontab.get("backup").enabled
    assert len(stage.crontab.runs(RunFilter(), 9)) == 1
