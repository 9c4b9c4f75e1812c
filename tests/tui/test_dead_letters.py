"""Dead letters, and the acts on what went wrong: try again, dismiss, drain."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import insert

from dcron.model import Task
from dcron.policy.starting import lanes
from dcron.schema.tables import runs
from dcron.services.dashboard import Dashboard
from dcron.services.fleet import Fleet
from dcron.services.runs.dead_letters import DeadLetters
from dcron.values.lists import Term
from tests.support.stage import Stage as Agents
from tests.support.tui import Screen, Stage

EVIL = "\x1b]52;c;aGk=\x1b\\[/nope][@click=app.quit]x[/]\u202e\x9b31m\x1b[2J\r\n"


class Morgue:
    """A crontab in which runs have failed."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.agents = Agents(stage.url)
        self.agents.now = stage.crontab.now()

    @property
    def letters(self) -> list[int]:
        return [run.id for run in DeadLetters(self.stage.crontab).page(1000)]

    def bury(self, task: Task, count: int = 1, **facts: Any) -> list[int]:
        """Runs of the task that failed for good; their ids, the oldest first."""
        now = self.agents.now
        row = {"task_id": task.id, "task": task.name, "trigger": "manual", "state": "failed", "spec": {}}
        row |= dict.fromkeys(("scheduled_for", "due_at", "claimed_at", "started_at", "finished_at"), now)
        row |= {"dead_at": now, "owner": "web-1-00000000", "exit_code": 3, "reason": "exit 3", **facts}
        with self.stage.database.write() as connection:
            query = insert(runs).returning(runs.c.id, sort_by_parameter_order=True)
            return list(connection.scalars(query, [row] * count))


@pytest.fixture
def morgue(stage: Stage) -> Iterator[Morgue]:
    morgue = Morgue(stage)
    yield morgue
    morgue.agents.database.close()


async def open_tasks(screen: Screen) -> None:
    await screen.press("5")
    await screen.until(lambda: screen.pane.title == "Dead" and screen.table.rows and screen.table.has_focus)


async def open_letters(screen: Screen) -> None:
    await open_tasks(screen)
    await screen.press("b")
    await screen.until(
        lambda: screen.pane.title == "single runs" and screen.table.rows and screen.table.has_focus
    )


@pytest.mark.slow
async def test_dead_letters_are_listed_the_newest_first_and_lead_to_their_logs(morgue: Morgue) -> None:
    first, second = morgue.bury(morgue.stage.add("mail"), attempt=2) + morgue.bury(morgue.stage.add("etl"))
    async with morgue.stage.screen(size=(100, 24)) as screen:
        await open_letters(screen)
        assert list(screen.table.ids) == [second, first]
        line = next(line for line in screen.lines() if " mail " in line)
        assert line.split()[:4] == ["x", str(first), "mail", "exit"]
        assert line.split()[-5:] == ["2", "web-1", "exit", "3", "manual"]
        await screen.press("enter")
        await screen.until(lambda: type(screen.app.screen).__name__ == "LogScreen")


async def test_no_dead_letters_are_shown_as_good_news(morgue: Morgue) -> None:
    async with morgue.stage.screen(awaited="no tasks") as screen:
        await screen.press("5", shows="no dead letters")
        await screen.press("X", shows="there are no dead letters")


@pytest.mark.slow
async def test_one_is_tried_again_at_once_and_leaves_the_list(morgue: Morgue) -> None:
    (run_id,) = morgue.bury(morgue.stage.add("mail"))
    async with morgue.stage.screen() as screen:
        await open_letters(screen)
        await screen.press("t", shows=f"dcron retry {run_id}")
        await screen.shows("no dead letters")
        assert morgue.letters == []


@pytest.mark.slow
async def test_dismissing_asks_and_silence_is_no(morgue: Morgue) -> None:
    (run_id,) = morgue.bury(morgue.stage.add("mail"))
    async with morgue.stage.screen() as screen:
        await open_letters(screen)
        for answer in ("enter", "escape", "n"):
            await screen.press("D", shows=f"dismiss run {run_id} of mail?")
            await screen.press(answer)
            await screen.shows_not("dismiss run")
        assert morgue.letters == [run_id]
        await screen.press("D", shows=f"dismiss run {run_id} of mail?")
        await screen.press("y", shows=f"dcron dead dismiss {run_id}")
        await screen.shows("no dead letters")
        assert morgue.letters == []


@pytest.mark.slow
async def test_marked_ones_are_tried_again_or_dismissed_together(morgue: Morgue) -> None:
    ids = morgue.bury(morgue.stage.add("mail"), 5)
    async with morgue.stage.screen() as screen:
        await open_letters(screen)
        await screen.press("space", "space", "D", shows="dismiss 2 dead letters?")
        await screen.press("y")
        await screen.until(lambda: list(screen.table.ids) == ids[2::-1])
        await screen.press("a", "t", shows="retry 3 runs now?")
        await screen.press("y", shows="no dead letters")
        retried = [run.retry_of for run in morgue.agents.runs() if run.retry_of]
        assert sorted(retried) == ids[:3]


@pytest.mark.slow
async def test_all_are_dismissed_only_after_a_second_question(morgue: Morgue) -> None:
    ids = morgue.bury(morgue.stage.add("mail"), 5)
    async with morgue.stage.screen() as screen:
        await open_letters(screen)
        await screen.press("X", shows="dismiss all 5 dead letters?")
        await screen.press("y", shows="type all")
        await screen.press("enter", "y", "enter", "escape")
        await screen.shows_not("type all")
        assert morgue.letters == ids[::-1]
        await screen.press("X", shows="dismiss all 5 dead letters?")
        await screen.press("y", shows="type all")
        await screen.enter("all", shows="dismissed 5 dead letters")
        assert morgue.letters == []


@pytest.mark.slow
async def test_only_what_the_filter_shows_and_was_seen_is_dismissed(morgue: Morgue) -> None:
    mail = morgue.bury(morgue.stage.add("mail"), 3)
    web = morgue.bury(morgue.stage.add("web"), 2)
    async with morgue.stage.screen() as screen:
        await open_letters(screen)
        await screen.press("slash")
        await screen.type("task:mail")
        await screen.press("enter", "X", shows="dismiss all 3 dead letters of the filter task:mail?")
        later = morgue.bury(morgue.stage.crontab.get("mail"))
        await screen.press("y", shows="type all")
        await screen.enter("all", shows="dismissed 3 dead letters")
        await screen.shows(f"dcron dead dismiss {mail[2]} {mail[1]} {mail[0]}")
        assert morgue.letters == [*later, *reversed(web)]


@pytest.mark.slow
async def test_older_ones_are_read_by_the_page_and_others_dismissals_are_seen(morgue: Morgue) -> None:
    ids = morgue.bury(morgue.stage.add("mail"), 450)[::-1]
    async with morgue.stage.screen() as screen:
        await open_letters(screen)
        assert list(screen.table.ids) == ids[:200]
        await screen.press("G")
        await screen.until(lambda: len(screen.table.ids) == 400)
        await screen.press("G")
        await screen.until(lambda: list(screen.table.ids) == ids)
        letters = DeadLetters(morgue.stage.crontab)
        letters.dismiss(ids[300])
        letters.dismiss(ids[3])
        await screen.until(lambda: len(screen.table.ids) == 448)
        assert not {ids[300], ids[3]} & set(screen.table.ids)
        (newest,) = morgue.bury(morgue.stage.crontab.get("mail"), reason="disk full")
        await screen.until(lambda: screen.table.ids[0] == newest)
        await screen.press("slash")
        await screen.enter("disk")
        await screen.until(lambda: list(screen.table.ids) == [newest])


@pytest.mark.slow
async def test_readonly_forbids_what_changes_something(morgue: Morgue) -> None:
    ids = morgue.bury(morgue.stage.add("mail"), 2)
    morgue.agents.node()
    async with morgue.stage.screen(readonly=True) as screen:
        for view, keys in (("5", "tDX"), ("2", "tD"), ("4", "d")):
            await screen.press(view)
            await screen.until(lambda: screen.table.rows and screen.table.has_focus)
            for key in keys:
                screen.app.clear_notifications()
                await screen.press(key, shows="--readonly")
        assert morgue.letters == ids[::-1]
        assert not any(node.draining for node in morgue.stage.crontab.nodes())


@pytest.mark.slow
async def test_the_runs_have_the_same_keys(morgue: Morgue) -> None:
    dismissed, retried = morgue.bury(morgue.stage.add("mail"), 2)
    async with morgue.stage.screen() as screen:
        await screen.press("2")
        await screen.until(lambda: list(screen.table.ids) == [retried, dismissed])
        await screen.press("t", shows=f"dcron retry {retried}")
        await screen.until(lambda: screen.table.has_focus)
        await screen.press("G", "D", shows=f"dismiss run {dismissed} of mail?")
        await screen.press("y", shows=f"dcron dead dismiss {dismissed}")
        await screen.until(lambda: not screen.table.cursor_row.dead_at)
        screen.app.clear_notifications()
        await screen.press("D", shows="is not a dead letter")
        await screen.press("colon")
        await screen.enter("filter dead", shows="nothing matches dead")


@pytest.mark.slow
async def test_a_node_is_drained_after_a_question(morgue: Morgue) -> None:
    morgue.stage.add("mail")
    node = morgue.agents.node(lease=3600)
    async with morgue.stage.screen() as screen:
        await screen.press("4")
        await screen.until(lambda: screen.table.rows and screen.table.has_focus)
        await screen.press("d", shows=f"drain {node}?")
        await screen.press("enter", "d", shows=f"drain {node}?")
        assert not morgue.stage.crontab.nodes()[0].draining
        await screen.press("y", shows=f"dcron drain {node}")
        await screen.until(lambda: "draining" in next(x for x in screen.lines() if node in x))
        screen.app.clear_notifications()
        await screen.press("d", shows="is draining already")


@pytest.mark.slow
async def test_a_drained_node_is_undrained(morgue: Morgue) -> None:
    morgue.stage.add("mail")
    node = morgue.agents.node(lease=3600)
    Fleet(morgue.stage.crontab).drain(node)
    async with morgue.stage.screen() as screen:
        await screen.press("4")
        await screen.until(lambda: screen.table.rows and screen.table.has_focus)
        await screen.press("u", shows=f"dcron undrain {node}")
        await screen.until(lambda: "alive" in next(x for x in screen.lines() if node in x))
        assert not morgue.stage.crontab.nodes()[0].draining
        screen.app.clear_notifications()
        await screen.press("u", shows="is not draining: it is alive")


@pytest.mark.slow
async def test_words_do_what_the_keys_do(morgue: Morgue) -> None:
    first, second = morgue.bury(morgue.stage.add("mail"), 2)
    node = morgue.agents.node(lease=3600)
    async with morgue.stage.screen() as screen:
        for command, answer in (
            (f"retry {first}", f"dcron retry {first}"),
            (f"dismiss {second}", f"dismiss run {second} of mail?"),
            ("drain web-1", f"drain {node}?"),
            ("drain nobody", "there is no node 'nobody'"),
            ("retry x", "'x' is not the number of a run"),
        ):
            await screen.press("colon")
            await screen.enter(command)
            await screen.shows(answer)
            if answer.endswith("?"):
                await screen.press("escape")
        assert morgue.letters == [second]


async def test_hostile_reasons_and_nodes_do_not_reach_the_screen(morgue: Morgue) -> None:
    morgue.bury(morgue.stage.add("mail"), reason=EVIL, owner=f"{EVIL}-00000000")
    async with morgue.stage.screen(size=(130, 24)) as screen:
        await open_letters(screen)
        assert "[/nope]" in screen.text()
        await screen.press("D", shows="dismiss run")
        for strip in screen.strips():
            for character in strip.text:
                assert character.isprintable(), ascii(character)


# The detail pane ---------------------------------------------------------------------------------------


async def test_the_panel_of_a_task_shows_its_cause_its_needs_and_its_flow(
    morgue: Morgue,
) -> None:
    fields: dict[str, Any] = {"require": ("gpu",), "queue": "ml", "need": {"gpu": 1.0}, "tries": 3}
    task = morgue.stage.add("extract", **fields)
    morgue.stage.add("load", "@after extract")
    morgue.agents.node(lease=3600)
    (failed,) = morgue.bury(task)
    soon = morgue.agents.now + timedelta(minutes=5)
    retry = {"task_id": task.id, "task": "extract", "trigger": "retry", "attempt": 2, "retry_of": failed}
    morgue.agents.insert_run(**retry, due_at=soon, lane=str(lanes.lane_of(task)))
    async with morgue.stage.screen(size=(130, 50)) as screen:
        await screen.shows("has the tag gpu")
        shown = screen.text()
        assert "retry 2/3: in 4m" in shown
        assert "queue     ml" in shown
        assert "needs     gpu=1" in shown
        assert "[extract]" in shown
        assert "-> load" in shown


def test_dead_letters_are_counted_by_task(morgue: Morgue) -> None:
    mail, etl = morgue.stage.add("mail"), morgue.stage.add("etl")
    letters = [*morgue.bury(mail, 3), *morgue.bury(etl)]
    found = Dashboard(morgue.stage.crontab).dead_tasks()
    assert [(row.name, row.count, row.first.id, row.last.id) for row in found] == [
        ("etl", 1, letters[3], letters[3]),
        ("mail", 3, letters[0], letters[2]),
    ]


def test_a_filter_counts_those_that_match(morgue: Morgue) -> None:
    mail = morgue.stage.add("mail")
    morgue.bury(mail, 2)
    found = morgue.bury(mail, 3, reason="disk full")
    morgue.bury(mail)
    (row,) = Dashboard(morgue.stage.crontab).dead_tasks([Term("reason", "disk")])
    assert (row.count, row.first.id, row.last.id) == (3, found[0], found[-1])


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
async def test_the_tasks_with_dead_letters_lead_to_their_letters(
    morgue: Morgue, size: tuple[int, int]
) -> None:
    letters = morgue.bury(morgue.stage.add("mail"), 3)
    morgue.bury(morgue.stage.add("etl"))
    async with morgue.stage.screen(size=size, unicode=size[0] > 80) as screen:
        await open_tasks(screen)
        line = next(line for line in screen.lines() if " mail " in line)
        assert line.split()[1:3] == ["mail", "3"]
        await screen.press("j", "enter")
        await screen.until(lambda: list(screen.table.ids) == letters[::-1])
        await screen.press("X")  # there is no such key in the list of one task
        await screen.press("b", "t", shows="retry 3 dead letters of mail now?")
        await screen.press("n", "D", shows="dismiss 3 dead letters of mail?")
        (newer,) = morgue.bury(morgue.stage.crontab.get("mail"))
        await screen.press("y", shows="dismissed 3 dead letters of mail")
        assert newer in morgue.letters
        assert len(morgue.letters) == 2
        await screen.until(lambda: [row.count for row in screen.table.rows.values()] == [1, 1])
        await screen.press("a", "t", shows="retry 2 dead letters of 2 tasks now?")
        await screen.press("y", shows="no dead letters")


@pytest.mark.slow
async def test_a_filter_and_a_word_apply_to_tasks_and_runs(morgue: Morgue) -> None:
    mail = morgue.bury(morgue.stage.add("mail"), 3)
    morgue.bury(morgue.stage.crontab.get("mail"), reason="disk full")
    web = morgue.bury(morgue.stage.add("web"), 2)
    async with morgue.stage.screen() as screen:
        await open_tasks(screen)
        await screen.press("slash")
        await screen.enter("exit:3 reason:exit task:mail")
        await screen.until(lambda: [row.count for row in screen.table.rows.values()] == [3])
        await screen.press("enter")
        await screen.until(lambda: list(screen.table.ids) == mail[::-1])
        await screen.press("b", "D", shows="dismiss 3 dead letters of mail that match exit:3")
        await screen.press("y")
        await screen.until(lambda: len(morgue.letters) == 3)
        await screen.press("colon")
        await screen.enter("dead runs")
        await screen.until(lambda: list(screen.table.ids)[:2] == web[::-1])
        assert len(screen.table.ids) == 3
        await screen.press("colon")
        await screen.enter("dead")
        await screen.until(lambda: screen.app.main.crumbs() == ["Dead"])
