"""Keys act in the order in which they were typed, however close together, also on a slow screen."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from textual import events
from textual.message import Message
from textual.message_pump import MessagePump
from textual.widgets import Input

from dcron.model import Task, Trigger
from dcron.values.lists import RunFilter
from tests.support.patience import PATIENCE
from tests.support.terminal import ESC, Terminal, terminal
from tests.support.tui import Stage

ENTER, TAB, BACKSPACE, CTRL_U, CTRL_S, UP = "\r", "\t", "\x7f", "\x15", "\x13", "\x1b[A"
SEEN = 0.5
"""Seconds after which a question takes consent."""
GAPS = [0.0, 0.05, 0.3]


class Person:
    """A person at a terminal, whose keys arrive so many seconds apart."""

    def __init__(self, stage: Stage, screen: Terminal, gap: float) -> None:
        self.stage = stage
        self._screen = screen
        self._gap = gap

    def press(self, *keys: str) -> None:
        """Press these keys; a longer word is typed letter by letter."""
        letters = [letter for key in keys for letter in ([key] if key in _SEQUENCES else key)]
        self._screen.press(*letters, gap=self._gap)

    def sees(self, *texts: str) -> None:
        self._screen.sees(*texts)

    def agrees(self, *keys: str) -> None:
        """Read the question first."""
        time.sleep(SEEN)
        self.press(*keys)

    def until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, self._screen._drawn()[-3000:]
            self._screen._read(0.05)

    def saved(self, name: str) -> Task:
        """Save the form, and return the task of this name."""
        self.press(CTRL_S)
        self.sees("saves")
        self.agrees(ENTER)
        self.sees("dcron ")
        self.until(lambda: name in self.stage.crontab.names("", 9))
        return self.stage.crontab.get(name)

    def started(self) -> list[str]:
        return started(self.stage)


def started(stage: Stage) -> list[str]:
    """The tasks that were started by hand, in order."""
    found = stage.crontab.runs(RunFilter(), 50)
    return [run.task for run in reversed(found) if run.trigger is Trigger.MANUAL]


_SEQUENCES = {UP}


@pytest.fixture(params=GAPS, ids=lambda gap: f"{gap * 1000:.0f}ms")
def person(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Person]:
    stage = Stage(f"sqlite:///{tmp_path}/dcron.db")
    for name in ("alpha", "beta", "gamma"):
        stage.add(name)
    with terminal("tui", size=(40, 120), DCRON_DB=stage.url) as screen:
        screen.sees("alpha", "gamma")
        yield Person(stage, screen, request.param)
    stage.database.close()


@pytest.mark.terminal
def test_a_form(person: Person) -> None:
    person.press(
        "n", "nightly", TAB, "echo hi", TAB, " ", TAB, TAB, TAB, TAB, TAB, "0 3 7", BACKSPACE, "* * *"
    )
    person.sees("03:00")
    task = person.saved("nightly")
    assert (task.schedule, task.command, task.argv) == ("0 3 * * *", "echo hi", ("echo", "hi"))


@pytest.mark.terminal
def test_a_field_that_is_emptied_and_written_anew(person: Person) -> None:
    person.press("j", "e", CTRL_U, "15 4 * * 1", TAB, CTRL_U, "Asia/Tokyo", TAB, " ", UP, UP, BACKSPACE, "2")
    person.sees("Tokyo")
    person.press(CTRL_S)
    person.sees("saves")
    person.agrees(ENTER)
    person.until(lambda: person.stage.crontab.get("beta").version > 1)
    task = person.stage.crontab.get("beta")
    assert (task.schedule, task.timezone, task.gap) == ("15 4 * * 2", "Asia/Tokyo", "skip")
    assert person.stage.crontab.get("alpha").version == 1


@pytest.mark.terminal
def test_questions_that_are_answered_with_no(person: Person) -> None:
    person.press("D", "n", "j", "D", ENTER, "j", "D", ESC, "k", "r")
    person.until(person.started)
    assert person.started() == ["beta"]
    assert person.stage.crontab.names("", 9) == ["alpha", "beta", "gamma"]


@pytest.mark.terminal
def test_a_question_that_is_read_and_answered_with_yes(person: Person) -> None:
    person.press("j", "D")
    person.sees("delete beta?")
    person.agrees("y", "g", "r")
    person.until(person.started)
    assert person.started() == ["alpha"]
    assert person.stage.crontab.names("", 9) == ["alpha", "gamma"]


@pytest.mark.terminal
def test_a_pause_with_its_reason(person: Person) -> None:
    person.press("j", "s", "disk full", TAB, "+2x", BACKSPACE, "h", ENTER, "g", "r")
    person.until(person.started)
    assert person.started() == ["alpha"]
    assert person.stage.crontab.get("beta").paused_reason == "disk full"
    assert person.stage.crontab.get("beta").paused_until


@pytest.mark.terminal
def test_commands_and_filters(person: Person) -> None:
    person.press(":", "run be", TAB, ENTER, "/", "gam", ENTER, "r", ESC, "g", "r")
    person.until(lambda: len(person.started()) == 3)
    assert person.started() == ["beta", "gamma", "alpha"]


@pytest.mark.terminal
def test_views_and_the_keys_of_their_rows(person: Person) -> None:
    person.press("2", "1", "j", "r", "4", "1", "j", "r", "O", "g", "r")
    person.until(lambda: len(person.started()) == 3)
    assert person.started() == ["beta", "gamma", "gamma"]


@pytest.mark.terminal
def test_a_task_that_is_edited_right_after_it_was_found(person: Person) -> None:
    person.press("/", "gamma", ENTER, "e", CTRL_U, "7 7 * * *")
    person.sees("07:07")
    person.press(CTRL_S)
    person.sees("saves")
    person.agrees(ENTER)
    person.until(lambda: person.stage.crontab.get("gamma").schedule == "7 7 * * *")
    assert person.started() == []


@pytest.mark.terminal
def test_a_menu_and_the_palette(person: Person) -> None:
    person.press("o", "2", "O", "O", "o", "1", "G", "r", "\x10", "view nodes", ENTER)
    person.sees("no agents yet")
    assert person.started() == ["gamma"]


@pytest.mark.terminal
def test_the_search_in_a_log(person: Person) -> None:
    from dcron.store.runs import output
    from dcron.values.lists import Chunk

    stage = person.stage
    run = stage.crontab.run(stage.crontab.get("alpha"))
    text = "".join(f"line {number} {'needle' if number % 40 == 7 else 'hay'}\n" for number in range(200))
    with stage.database.write() as connection:
        at = stage.database.now(connection)
        output.append(connection, stage.database, [Chunk(run.id, 0, "out", at, text.encode())])
    person.press(":", "logs ", str(run.id), ENTER, "g", "/", "needlx", BACKSPACE, "e", ENTER, "n", "n", "y")
    person.sees("copied line 88")


@pytest.mark.terminal
def test_keys_before_the_first_rows(person: Person) -> None:
    with terminal("tui", size=(40, 120), DCRON_DB=person.stage.url) as screen:
        screen.sees("1 Tasks")  # from now on it reads keys
        early = Person(person.stage, screen, person._gap)
        early.press("j", "r", ":", "run gam", TAB, ENTER, "j", "r")
        early.until(lambda: len(early.started()) == 3)
        assert early.started() == ["beta", "gamma", "gamma"]


@pytest.mark.parametrize("of", [events.Key, Input.Changed, Input.Submitted])
async def test_keys_in_one_burst_on_a_screen_that_is_slow_with_some_messages(
    sqlite_stage: Stage, monkeypatch: pytest.MonkeyPatch, of: type[Message]
) -> None:
    for name in ("alpha", "beta", "gamma"):
        sqlite_stage.add(name)
    handle = MessagePump._dispatch_message

    async def handle_slowly(pump: MessagePump, message: Message) -> None:
        """Keep the machine busy."""
        if isinstance(message, of):
            time.sleep(0.03)
        await handle(pump, message)

    monkeypatch.setattr(MessagePump, "_dispatch_message", handle_slowly)
    run = ["colon", *"run", "space", *"be", "tab", "enter"]
    filtered = ["slash", *"gam", "enter", "r", "escape"]
    async with sqlite_stage.screen() as screen:
        for key in [*run, *filtered, "g", "r"]:
            screen.app.post_message(events.Key(key, key if len(key) == 1 else _CHARACTERS.get(key)))
        await screen.until(lambda: len(started(sqlite_stage)) == 3)
    assert started(sqlite_stage) == ["beta", "gamma", "alpha"]


_CHARACTERS = {"colon": ":", "space": " ", "slash": "/"}
