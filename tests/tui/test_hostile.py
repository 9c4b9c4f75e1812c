"""Texts of the database and output of commands send no control sequence to the terminal."""

import copy
import json
import re
import shutil
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import insert

from dcron.schema.tables import alerts, calendars, events, nodes, output
from tests.support.escapes import CORPUS, OUTPUT, leaks, shown
from tests.support.stage import Stage
from tests.support.terminal import Terminal, terminal

QUIT = "\x11"
FILE_NAME = f"cron{CORPUS['clipboard']}{CORPUS['eight-bit']}{CORPUS['markup'].replace('/', '')}.db"


def plain(name: str) -> str:
    """A name with letters of names only."""
    return name.partition("<")[0].replace(":", "-")


def hostile(where: str, kind: str) -> str:
    """One of the corpus between two words that say where it came from."""
    return f"{where}:{kind}<{CORPUS[kind]}>"


def on_one_line(text: str) -> str:
    """The text without the control characters that the schema itself keeps out of some columns."""
    return re.sub(r"[\x00-\x08\x0a-\x1f\x7f]", "?", text)


class Hostile:
    """A crontab in which every text that the schema lets pass is one of the corpus."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / FILE_NAME
        self.url = f"sqlite:///{self.path}"
        self.stage = Stage(self.url)
        self.stage.now = datetime.now(UTC)
        self.log_of = 0
        self.names = [hostile("task", kind) for kind in CORPUS]
        for number, kind in enumerate(CORPUS):
            self._node(kind, number)
            self._task(kind, number)
        self._others()
        self.stage.database.close()
        with self._past_all_checks() as connection:
            for name in self.names[1::2]:  # the others can be found by their names
                connection.execute("UPDATE crontab SET name = ? WHERE name = ?", (name, plain(name)))

    def _node(self, kind: str, number: int) -> None:
        now = self.stage.now
        self._insert(
            nodes,
            id=hostile("node", kind),
            name=hostile("name", kind),
            host=hostile("host", kind),
            pid=1,
            slots=4,
            version=hostile("version", kind),
            tzdata=hostile("tzdata", kind),
            started_at=now - timedelta(minutes=number + 1),
            alive_until=now + timedelta(hours=1),
            tags=[hostile("tag", kind)],
            queues=[hostile("serves", kind)],
            capacity={hostile("capacity", kind): 2},
        )

    def _task(self, kind: str, number: int) -> None:
        stage, now = self.stage, self.stage.now
        name = self.names[number]
        line = stage.insert_task(
            name=plain(name),
            schedule="*/10 * * * *",
            command=hostile("command", kind),
            env=json.dumps({hostile("env", kind): hostile("value", kind)}),
            cwd=hostile("cwd", kind),
            user=on_one_line(hostile("user", kind)),
            stdin=hostile("stdin", kind),
            describe=hostile("describe", kind),
            except_calendar=on_one_line(hostile("calendar", kind))[:100],
            changed_by=hostile("changed", kind),
        )
        ran = {"task_id": line, "task": name, "owner": hostile("node", kind), "claimed_at": now}
        ran |= {"started_at": now - timedelta(seconds=9), "payload": hostile("payload", kind)}
        over = {**ran, "finished_at": now, "dead_at": now, "reason": hostile("reason", kind)}
        self.log_of = stage.insert_run(**over, state="failed", exit_code=3)
        stage.insert_run(**over, state="lost", cancel_requested_by=hostile("cancelled", kind))
        if number % 2:
            stage.insert_run(**ran, state="running")

    def _others(self) -> None:
        stage, now = self.stage, self.stage.now
        lines = {"error": hostile("error", "clipboard"), "enabled": False}
        paused = {"paused_reason": hostile("because", "title"), "paused_by": hostile("by", "eight-bit")}
        stage.insert_task(name="a-suspended", schedule="@yearly", **lines, **paused)
        stage.insert_task(name="b-schedule", schedule=on_one_line(hostile("schedule", "clipboard")))
        stage.insert_task(name="c-zone", timezone=on_one_line(hostile("zone", "eight-bit")))
        stage.sql("DROP TRIGGER calendars_name_insert")  # calendars of an earlier version have any name
        for kind in CORPUS:
            self._insert(
                calendars,
                name=on_one_line(hostile("calendar", kind))[:100],
                content={"dates": [f"{now:%Y-%m-%d}"], hostile("key", kind): hostile("content", kind)},
                changed_at=now,
                changed_by=hostile("changed", kind),
            )
            self._insert(events, name=hostile("event", kind)[:100], payload=hostile("payload", kind))
        for number, kind in enumerate(CORPUS):
            self._alert(kind, number)
        at = 0
        for number, data in enumerate(OUTPUT):
            line = b"line %d: %b\n" % (number, data)
            stream = "err" if number % 2 else "out"
            for begin in range(0, len(line), 60_000):
                piece = line[begin : begin + 60_000]
                facts = {"run_id": self.log_of, "at": now, "lines": piece.count(b"\n"), "stream": stream}
                self._insert(output, byte_offset=at, data=piece, **facts)
                at += len(piece)

    def _alert(self, kind: str, number: int) -> None:
        now = self.stage.now
        self._insert(
            alerts,
            kind=hostile("kind", kind)[:40],
            subject=f"{number}{hostile('subject', kind)}"[:300],
            task=hostile("task", kind) if number % 2 else None,
            opened_at=now,
            last_at=now,
            closed_at=now,
            acknowledged_by=hostile("known", kind),
            acknowledged_note=hostile("note", kind),
            facts={"reason": hostile("fact", kind)},
        )

    def _insert(self, table: object, **values: object) -> None:
        with self.stage.database.write() as connection:
            connection.execute(insert(table).values(values))  # type: ignore[arg-type]

    def copied(self, directory: Path) -> "Hostile":
        """The same in another directory."""
        other = copy.copy(self)
        other.path = directory / FILE_NAME
        other.url = f"sqlite:///{other.path}"
        shutil.copy(self.path, other.path)
        return other

    def shown_names(self) -> list[str]:
        """The names of the tasks of the corpus, by whether they can be found by them."""
        return [name if number % 2 else plain(name) for number, name in enumerate(self.names)]

    def shown_name(self, kind: str) -> str:
        """What the task of this kind is called."""
        return self.shown_names()[list(CORPUS).index(kind)]

    def refuse_writes(self) -> None:
        """From now on the database answers every change of a line with a text of its own."""
        message = hostile("database", "clipboard") + CORPUS["markup"] + CORPUS["eight-bit"]
        refusal = f"CREATE TRIGGER no BEFORE UPDATE ON crontab BEGIN SELECT RAISE(ABORT, '{message}'); END"
        with self._past_all_checks() as connection:
            connection.execute(refusal)

    @contextmanager
    def _past_all_checks(self) -> Iterator[sqlite3.Connection]:
        """As from a database of before there were any."""
        connection = sqlite3.connect(self.path)
        try:
            connection.execute("PRAGMA ignore_check_constraints = ON")
            yield connection
            connection.commit()
        finally:
            connection.close()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Hostile:
    """Made once, to be copied."""
    return Hostile(tmp_path_factory.mktemp("hostile"))


@pytest.fixture
def crontab(made: Hostile, tmp_path: Path) -> Hostile:
    """A hostile crontab in a file of a hostile name."""
    return made.copied(tmp_path)


def test_the_corpus_is_found_where_it_gets_through() -> None:
    for kind, text in CORPUS.items():
        assert leaks(text) or kind in ("markup", "marks"), kind
    assert leaks("\x1b[?1049h\x1b[?25l\x1b[38;2;1;2;3mfine\x1b[0m\x1b[?25h\x1b[?1049l") == []


NAME = plain(hostile("task", "clipboard"))
DIRECTED = plain(hostile("task", "direction"))
COMMANDS = [
    (["list"], "task:markup<[red]"),
    (["list", "--names"], "task:markup"),
    (["runs"], "reason:markup"),
    (["view", NAME], "command:clipboard"),
    (["view", DIRECTED], "describe:direction"),
    (["view", "a-suspended"], "because:title"),
    (["nodes"], "version:markup"),
    (["dead"], "reason:controls"),
    (["alerts", "--all"], "fact:markup"),
    (["why", NAME], "reason:clipboard"),
    (["why", "a-suspended"], "error:clipboard"),
    (["queue", "list"], ""),
    (["calendar", "list"], "calendar:colours"),
    (["preview", NAME], "calendar:clipboard"),
    (["preview", "--all", "--until", "+1h"], "zone:eight-bit"),
    (["lint"], "error:clipboard"),
    (["info"], "[@click=app.quit]"),
    (["export"], "command:clear"),
    (["pause", "b-schedule"], "database:clipboard"),
    (["cancel", "5", "--force"], "node:clipboard-bel"),
    (["view", hostile("unknown", "clipboard")], "unknown:clipboard"),
    (["add", "@daily", "-n", hostile("new", "clear"), "true"], "new:clear"),
    (["drain", hostile("name", "title")], "node:title"),
    ([hostile("verb", "clipboard")], "verb:clipboard"),
    (["list", "--db", f"{hostile('url', 'clipboard')}://host"], "not a database URL"),
]
"""Command lines, and what has to be among what they print."""


@pytest.mark.terminal
@pytest.mark.long
def test_every_command_prints_it_inert(crontab: Hostile) -> None:
    crontab.refuse_writes()

    def printed(words: list[str]) -> Terminal:
        with terminal(*words, DCRON_DB=crontab.url) as screen:
            screen.ends()
        return screen

    commands = [*COMMANDS, (["logs", str(crontab.log_of)], "line 18")]
    with ThreadPoolExecutor(2) as pool:
        screens = list(pool.map(printed, [words for words, _ in commands]))
    for screen, (_, message) in zip(screens, commands, strict=True):
        require_inert(screen, message)


def require_inert(screen: Terminal, *texts: str) -> None:
    """All these were shown, and nothing did anything."""
    stream = screen.bytes.decode(errors="surrogateescape")
    out = shown(stream)
    assert not [text for text in texts if text not in out], out
    assert leaks(stream) == []


ENTER, ESCAPE, PALETTE, PAGE_DOWN = "\r", "\x1b", "\x10", "\x1b[6~"
FIRST = 3
"""Tasks that come before those of the corpus."""
PASTED = "".join(CORPUS[kind] for kind in ("eight-bit", "markup", "direction", "clipboard", "marks"))


def command(screen: Terminal, text: str) -> None:
    """Give a command on the screen's own command line."""
    screen.type(":")
    screen.sees(":" + " " * 100)  # the line to type it on
    screen.type(text)
    screen.sees(text)
    screen.type(ENTER)


def leave(screen: Terminal) -> None:
    """Quit, and see that nothing had an effect of its own all the time."""
    screen.type(QUIT)
    assert screen.ends() == 0
    require_inert(screen)


@pytest.mark.terminal
@pytest.mark.long
def test_no_view_of_the_screen_lets_it_through(crontab: Hostile) -> None:
    with terminal("tui", DCRON_DB=crontab.url) as screen:
        screen.sees("a-suspended", "task:markup<[red]", "error:clipboard", "because:", "title<", "7331m")
        for number, kind in enumerate(sorted(CORPUS, key=crontab.shown_name)):
            screen.type("g" + "j" * (FIRST + number))
            screen.sees(f"command:{kind}<", f"describe:{kind}<")  # in the pane beside the tasks
        screen.type("2")
        screen.sees("task:queries<", "reason:mark", "node:cont")
        screen.type("3")
        screen.sees("busiest", "task:queries<")
        screen.type("4")
        screen.sees("tag:markup", "host:clear")
        screen.type(ENTER)
        screen.sees("host:", "> node:")
        screen.type("\t")
        screen.sees("reason:", "> node:")
        screen.type("5")
        screen.sees("last node", "task:marks")
        screen.type("b")
        screen.sees("reason:marks", "reason:queries<", f"1/{2 * len(CORPUS)}")
        screen.type(ENTER)
        screen.sees("task:marks", "node:marks", "err 0")
        leave(screen)


@pytest.mark.terminal
@pytest.mark.long
def test_no_page_of_a_task_lets_it_through(crontab: Hostile) -> None:
    with terminal("tui", DCRON_DB=crontab.url) as screen:
        for number, kind in enumerate(sorted(CORPUS, key=crontab.shown_name)):
            screen.sees("a-suspended")
            screen.type("g" + "j" * (FIRST + number))
            screen.sees(f"command:{kind}<")
            screen.insist(ENTER, "Overview")
            for tab in ("Runs", "Log", "History", "Dependencies"):
                screen.type("\t")
                screen.sees(tab)
            screen.insist(ESCAPE, "a-suspended")
        command(screen, "history")
        screen.sees("no changes yet")
        leave(screen)


@pytest.mark.terminal
def test_no_log_lets_it_through(crontab: Hostile) -> None:
    with terminal("tui", DCRON_DB=crontab.url) as screen:
        screen.sees("a-suspended")
        command(screen, f"logs {crontab.log_of}")
        screen.sees("line 18", "line 12")
        for keys in ("t", "w", "c", "g", "w", "G"):
            screen.type(keys)
            screen.sees("line 1")
        screen.type("/")
        screen.paste(PASTED)
        screen.type(ENTER)
        screen.sees("[@click=app.quit]")
        leave(screen)


@pytest.mark.terminal
@pytest.mark.long
def test_no_form_dialog_prompt_or_toast_lets_it_through(crontab: Hostile) -> None:
    crontab.refuse_writes()
    with terminal("tui", DCRON_DB=crontab.url) as screen:
        screen.sees("a-suspended")
        screen.type("g" + "j" * (FIRST - 1) + "s")
        screen.sees("pause")
        screen.insist(ENTER, "database:clipboard<")  # a toast with what the database said
        screen.type("j")
        screen.sees("describe:clipboard")  # a key typed ahead of the row may be ignored
        screen.insist("D", "delete task-clipboard")
        screen.sees("command:clipboard", "[@click=app.quit]")
        screen.insist("ne", "edit task-clipboard")
        screen.sees("command:clipboard", "calendar:clipboard")
        for group in ("describe:clipboard", "env:clipboard"):
            screen.insist(PAGE_DOWN, group)
        screen.insist(ESCAPE, "a-suspended")
        screen.insist("n", "new task")  # alone: right behind an escape it is another key
        screen.paste(PASTED)
        screen.sees("[@click=app.quit]", "cannot be a task's name")
        screen.type(ESCAPE)
        screen.sees("lose the changes")
        screen.insist("y", "a-suspended")
        screen.type("/")
        screen.sees("/" + " " * 100)
        screen.paste(PASTED)
        screen.sees("filter: ", "nothing matches")
        screen.insist(ESCAPE, "a-suspended")
        command(screen, "run " + CORPUS["markup"])
        screen.sees("[@click=app.quit]quit[/]")
        screen.type(PALETTE)
        screen.sees("Show the view Tasks")
        screen.paste("sought" + PASTED)
        screen.sees("sought\ufffd7331m")
        leave(screen)


@pytest.mark.terminal
def test_the_error_of_a_database_that_goes_away_is_inert(crontab: Hostile) -> None:
    with terminal("tui", DCRON_DB=crontab.url) as screen:
        screen.sees("a-suspended")
        crontab.path.write_bytes(b"no database any more" * 1000)
        screen.sees(" lost ", "as of")
        screen.type("!")
        screen.sees("the database", "[@click=app.quit]")
        leave(screen)
