"""The views on their digits: what they show, and how one goes in and comes back."""

import pytest

from dcron.model import RunState
from dcron.store.nodes import rows as nodes
from tests.support.definitions import node_row
from tests.support.tui import Stage, many

FIRST_ROW = 3


async def test_the_tasks_are_shown_with_schedule_and_next_run(stage: Stage) -> None:
    stage.add("backup", "30 2 * * *")
    stage.crontab.pause(stage.add("report"), "holiday")
    async with stage.screen() as screen:
        backup = next(line for line in screen.lines() if "backup" in line)
        assert "30 2 * * *" in backup
        assert "h" in backup.split("* * *")[1] or "m" in backup.split("* * *")[1]
        report = next(line for line in screen.lines() if "report" in line)
        assert "paused" in report
        assert report.strip().startswith("-")
        await screen.shows("2 tasks")
        assert "1/2" in screen.text()


async def test_an_empty_crontab_says_what_to_do(stage: Stage) -> None:
    async with stage.screen(awaited="no tasks yet") as screen:
        await screen.press("2", shows="nothing has run yet")
        await screen.press("4", shows="no agents yet")


async def test_what_is_held_or_what_no_agent_takes_has_no_time_beside_it(stage: Stage) -> None:
    from tests.support.stage import Stage as Agents

    agents = Agents(stage.url)
    agents.now = stage.crontab.now()
    queued = stage.add("queued", overlap="queue")
    stage.add("special", require=("gpu",))
    stage.add("usual")
    node = agents.node(lease=3600)
    for _ in range(2):
        stage.crontab.run(queued)
        agents.now = stage.crontab.now()
        agents.take(node)
    agents.database.close()
    async with stage.screen(size=(100, 24)) as screen:
        message = {line.split()[1]: line for line in screen.lines()[FIRST_ROW:] if "*" in line}
        assert "blocked" in message["queued"].split("running")[1]
        assert "no agent" in message["special"]
        assert "no agent" not in message["usual"]


async def test_that_no_agent_runs_is_said_once(stage: Stage) -> None:
    stage.add("special", require=("gpu",))
    async with stage.screen(size=(100, 24)) as screen:
        await screen.shows("no agent is running")
        assert sum("no agent" in line for line in screen.lines()) == 1


async def test_enter_goes_into_a_task_and_escape_comes_back(stage: Stage) -> None:
    task = stage.add("backup")
    stage.add("other")
    run = stage.crontab.run(task)
    async with stage.screen() as screen:
        await screen.press("enter", shows="> backup")
        await screen.shows("every day")
        await screen.press("tab")
        await screen.until(lambda: run.id in screen.table.rows)
        await screen.shows("waiting")
        await screen.press("escape", shows="other")
        assert screen.table.cursor_row.task.name == "backup"


async def test_what_others_change_is_seen_and_the_cursor_stays_on_its_task(stage: Stage) -> None:
    for name in ("b", "c", "d"):
        stage.add(f"task-{name}")
    async with stage.screen() as screen:
        await screen.press("j")
        assert screen.table.cursor_row.task.name == "task-c"
        stage.add("task-a")
        await screen.shows("task-a")
        await screen.until(lambda: screen.table.cursor == 2)
        assert screen.table.cursor_row.task.name == "task-c"
        stage.crontab.remove(stage.crontab.get("task-c"))
        await screen.until(lambda: len(screen.table.ids) == 3)
        assert screen.table.cursor_row.task.name == "task-d"


@pytest.mark.slow
async def test_rows_that_changed_out_of_sight_are_read_anew_when_they_come_into_it(stage: Stage) -> None:
    many(stage)
    async with stage.screen() as screen:
        await screen.press("pagedown", "pageup")
        await screen.until(lambda: len(screen.table.rows) > 40)
        known = screen.table.rows[screen.table.ids[0]]
        stage.crontab.pause(stage.crontab.get("task30"), "holiday")
        stage.crontab.pause(stage.crontab.get("task00"), "holiday")
        await screen.until(lambda: screen.table.rows[screen.table.ids[0]] is not known)
        screen.app.health.interval = 3600  # and no change is reported any more
        await screen.press("pagedown")
        await screen.until(lambda: "paused" in next(line for line in screen.lines() if "task30" in line))


@pytest.mark.slow
async def test_the_next_page_is_known_before_one_comes_to_it(stage: Stage) -> None:
    many(stage)
    async with stage.screen() as screen:
        table = screen.table
        for _ in range(3):
            await screen.press("pagedown")
            await screen.until(
                lambda: set(table.visible_ids(margin=table.size.height - 1)) <= table.rows.keys()
            )


@pytest.mark.slow
async def test_runs_are_read_a_page_at_a_time_while_one_goes_down(stage: Stage) -> None:
    task = stage.add("beat")
    with stage.database.write() as connection:
        from sqlalchemy import insert

        from dcron.schema.tables import runs

        now = stage.database.now(connection)
        row = {"task_id": task.id, "task": "beat", "trigger": "manual", "spec": {}, "state": "skipped"}
        row |= {"scheduled_for": now, "due_at": now, "finished_at": now, "reason": "for a test"}
        connection.execute(insert(runs), [row] * 450)
    async with stage.screen() as screen:
        await screen.press("2")
        await screen.until(lambda: len(screen.table.ids) == 200 and screen.table.has_focus)
        await screen.press("G")
        await screen.until(lambda: len(screen.table.ids) == 400)
        await screen.press("G")
        await screen.until(lambda: len(screen.table.ids) == 450)
        assert sorted(screen.table.ids, reverse=True) == list(screen.table.ids)


@pytest.mark.slow
async def test_the_nodes_are_shown_and_lead_to_their_runs(stage: Stage) -> None:
    with stage.database.write() as connection:
        facts = {"slots": 4, "version": "9.9", "clock_offset": 5.0, "account": "root", "any_account": True}
        nodes.register(connection, node_row("web-1", stage.database.now(connection), 3600, **facts))
    async with stage.screen(awaited="no tasks", size=(140, 20)) as screen:
        await screen.press("4", shows="web-1-00000000")
        line = next(line for line in screen.lines() if "web-1" in line)
        assert "alive" in line
        assert "0/4" in line
        assert "+5.0s!" in line
        assert "root+" in line
        await screen.press("enter", shows="> web-1-00000000")


@pytest.mark.slow
async def test_no_room_takes_columns_away_and_never_the_name(stage: Stage) -> None:
    async with stage.screen("backup-of-everything", size=(40, 10)) as screen:
        assert "backup-of-eve" in screen.text()
        assert "Tasks" not in screen.text()
        await screen.pilot.resize_terminal(130, 40)
        await screen.shows("changed")
        assert "at 02:30 every day" in screen.text()
        await screen.pilot.resize_terminal(60, 24)
        await screen.shows("Tasks")
        await screen.shows("backup-of-eve")


async def test_a_wide_screen_cuts_nothing_while_there_is_room(stage: Stage) -> None:
    command = "pg_dump shop | gzip > /srv/backup.gz"
    schedule, name = "*/10 6-22 * * mon-fri", "backup-of-the-whole-shop"
    stage.add(name, schedule, command=command, describe="x")
    async with stage.screen(size=(200, 24)) as screen:
        row = f"{screen.lines()[FIRST_ROW]} "
        assert f" {name} " in row
        assert f" {command} " in row
        assert row.index("new") - row.index(name) < 40  # no desert behind the name
        await screen.press("2", shows="nothing has run yet")
        assert "reason" in screen.lines()[2]


async def test_hostile_text_does_not_reach_the_screen(stage: Stage) -> None:
    evil = "echo \x1b]52;c;aGk=\x1b\\ [/nope] [@click=app.quit]x[/] \u202e \x9b31m \x1b[2J"
    task = stage.add("backup", command=evil, describe=evil)
    stage.crontab.pause(task, evil)
    async with stage.screen(size=(130, 40)) as screen:
        await screen.shows("changed")
        await screen.press("D", shows="delete backup?")
        shown = screen.text()
        assert "[/nope]" in shown
        for strip in screen.strips():
            for character in strip.text:
                assert character.isprintable(), ascii(character)


async def test_a_task_that_failed_has_a_word_and_a_sign(stage: Stage) -> None:
    from tests.support.stage import Stage as Agents

    agents = Agents(stage.url)
    agents.now = stage.crontab.now()
    run = stage.crontab.run(stage.add("mail"))
    node = agents.node()
    agents.now = stage.crontab.now()
    agents.take(node)
    agents.finish(node, run.id, RunState.FAILED, exit_code=3)
    agents.database.close()
    async with stage.screen() as screen:
        line = next(line for line in screen.lines() if "x mail " in line)
        assert "exit 3" in line
        await screen.press("x", shows="errors only")
        assert "mail" in screen.text()
