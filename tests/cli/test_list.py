"""`list`, `view` and `nodes`."""

import re
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Text, literal, type_coerce, update

from dcron.database import open_database
from dcron.model import Definition, Node
from dcron.schema.tables import crontab as crontab_table
from dcron.services.crontab import Crontab
from dcron.store.nodes import rows as nodes
from tests.support.cli import Dcron, on_terminal

NODE_KEYS = (
    "id name host pid state tags queues capacity slots running version tzdata started_at alive_until"
    " clock_offset"
)


def test_an_empty_crontab_says_how_to_start(dcron: Dcron) -> None:
    listed = dcron.done("list")
    assert listed.out == ""
    assert "dcron add" in listed.err
    assert dcron.done("list", "--json").json == []
    assert dcron.done("list", "--names").out == ""
    assert dcron.done("nodes", "--json").json == []
    assert "dcron agent" in dcron.done("nodes").err


@pytest.mark.slow
def test_the_list_has_the_columns_of_the_contract(dcron: Dcron) -> None:
    dcron.done("add", "-n", "one", "-z", "Europe/Berlin", "@every 2s", "echo hi")
    dcron.run_due()
    header, row = dcron.done("list").out.splitlines()
    assert header.split() == ["NAME", "SCHEDULE", "TZ", "NEXT", "LEFT", "LAST", "RESULT", "NODE"]
    assert row.startswith("one   @every 2s  Europe/Berlin")
    assert "\x1b" not in header + row


def test_left_counts_down_in_two_units_and_the_next_time_is_the_tasks_own(sqlite: Dcron) -> None:
    sqlite.done("add", "-n", "one", "-z", "Asia/Tokyo", "30 2 1 1 *", "ls")
    row = sqlite.done("list").out.splitlines()[1]
    assert re.search(r"(Jan  1 02:30|20\d\d-01-01) +\d+d( \d+h)?$", row)


@pytest.mark.slow
def test_failed_and_paused_filter(dcron: Dcron) -> None:
    dcron.done("add", "-n", "good", "@yearly", "true")
    dcron.done("add", "-n", "bad", "@yearly", "exit 7")
    dcron.done("add", "-n", "idle", "@yearly", "true")
    dcron.done("pause", "idle")
    for name in ("good", "bad"):
        dcron.done("run", name)
    dcron.run_due()
    assert dcron.done("list", "--failed", "--names").out.split() == ["bad"]
    assert dcron.done("list", "--paused", "--names").out.split() == ["idle"]
    rows = {line.split()[0]: line for line in dcron.done("list").out.splitlines()}
    assert "exit 7" in rows["bad"]
    assert "ok " in rows["good"]
    assert rows["bad"].endswith("web-1")
    task = dcron.done("view", "bad", "--json").json
    assert (task["last_run"]["exit_code"], task["last_run"]["node"], task["owner"]) == (7, "web-1", None)
    assert "exit 7" in dcron.done("view", "bad").out


@pytest.mark.slow
def test_a_long_list_is_printed_a_page_at_a_time(
    sqlite: Dcron, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        Definition(name=f"task-{number:04}", schedule="@daily", timezone="UTC", command="ls")
        for number in range(620)
    ]
    database = open_database(sqlite.url)
    Crontab(database, "tester").import_tasks(lines)
    database.close()
    listed = sqlite.done("list").out.splitlines()
    assert len(listed) == 621
    assert [line.split()[0] for line in listed[1:]] == [line.name for line in lines]
    assert [task["name"] for task in sqlite.done("list", "--json").json] == [line.name for line in lines]


@pytest.mark.terminal
def test_a_list_fits_the_terminal(sqlite: Dcron) -> None:
    long = "a-very-long-name-that-somebody-has-chosen-for-this-task-of-theirs"
    sqlite.done(
        "add", "-n", long, "-z", "America/Argentina/ComodRivadavia", "0,15,30,45 1-5 * * mon-fri", "ls"
    )
    shown = on_terminal("list", url=sqlite.url, size=(24, 80), NO_COLOR="1").out
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert "ivadavia" in shown
    wide = on_terminal("list", url=sqlite.url, size=(24, 200), NO_COLOR="1").out
    assert long in wide


@pytest.mark.slow
@pytest.mark.terminal
@pytest.mark.parametrize("width", [12, 40, 60, 80])
def test_no_line_of_a_table_is_wider_than_the_terminal(sqlite: Dcron, width: int) -> None:
    sqlite.done("calendar", "add", "holidays-of-the-whole-year", "12-25", "2055-01-01", "sat")
    sqlite.done(
        "add", "-n", "a-long-name-of-a-task", "--only", "holidays-of-the-whole-year", "@daily", "ls /x"
    )
    sqlite.done("add", "-n", "other", "--queue", "a-queue-with-a-long-name", "*/30 1-5 * * mon-fri", "false")
    sqlite.done("queue", "set", "a-queue-with-a-long-name", "--max-running", "7")
    sqlite.done("run", "other")
    sqlite.run_due()
    tables = {"list": "NAME", "runs": "RUN", "dead": "RUN", "nodes": "NODE", "queue list": "QUEUE"}
    tables |= {"calendar list": "CALENDAR", "preview --all": "STARTS"}
    for words, title in tables.items():
        shown = on_terminal(*words.split(), url=sqlite.url, size=(24, width), NO_COLOR="1").out.splitlines()
        table = [line for line in shown if not re.match("every agent|no agent|busiest", line)]
        assert table[0].startswith(title), words
        assert max(map(len, table)) <= width, words


@pytest.mark.terminal
def test_what_matters_least_is_left_out_first(sqlite: Dcron) -> None:
    sqlite.done("add", "-n", "one", "30 1-5 * * mon-fri", "ls")
    wide = on_terminal("list", url=sqlite.url, size=(24, 100), NO_COLOR="1").out.splitlines()[0].split()
    assert wide == ["NAME", "SCHEDULE", "TZ", "NEXT", "LEFT", "LAST", "RESULT", "NODE"]
    narrow = on_terminal("list", url=sqlite.url, size=(24, 30), NO_COLOR="1").out.splitlines()[0].split()
    assert narrow[:3] == ["NAME", "NEXT", "LEFT"]


@pytest.mark.terminal
def test_colour_is_for_terminals_that_want_it(sqlite: Dcron) -> None:
    sqlite.done("add", "@daily", "ls")
    assert "\x1b[1m" in on_terminal("list", url=sqlite.url).out
    assert "\x1b" not in on_terminal("list", url=sqlite.url, NO_COLOR="1").out
    assert "\x1b" not in on_terminal("list", url=sqlite.url, TERM="dumb").out


@pytest.mark.terminal
def test_hostile_text_reaches_neither_terminal_nor_table_raw(sqlite: Dcron) -> None:
    hostile = "echo \x1b]52;c;cm0gLXJmIC8=\x07 \x1b[2J\x9b31m \u202e txt.exe\nrow two"
    sqlite.done("add", "-n", "one", "--describe", hostile, "-e", f"A={hostile}", "@daily", hostile)
    for words in (["view", "one"], ["add", "@daily", hostile]):
        shown = on_terminal(*words, url=sqlite.url, NO_COLOR="1").out
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", shown), words
        assert "row two" in shown
    assert sqlite.done("view", "one", "--json").json["command"] == hostile
    assert sqlite.done("view", "one", "--json").out.isascii()


SLIPS = [
    ("require", "ssd", "require: 'ssd' is not JSON that can be read"),
    ("require", '[1, null, ["a"]]', "require: 1 is not a tag"),
    ("need", "[]", "need: '[]' is not JSON that can be read"),
    ("need", '{"gpu": "many", "mem": null}', "need: gpu: 'many' is not a number"),
    ("need", '{"gpu": NaN}', "need: '{\"gpu\": NaN}' is not JSON that can be read"),
    ("limit", '{"mem": "2G"}', "limit: mem: '2G' is not a whole number"),
    ("limit", '{"ram": 1e999}', "limit: 'ram' cannot be limited"),
]


@pytest.mark.slow
def test_a_mistake_in_sql_suspends_its_task_and_hides_no_other(dcron: Dcron) -> None:
    database = open_database(dcron.url)
    dcron.done("add", "-n", "good", "@yearly", "true")
    for number, (column, value, _) in enumerate(SLIPS):
        dcron.done("add", "-n", f"bad-{number}", "@yearly", "true")
        values = {crontab_table.c[column]: type_coerce(literal(value), Text()), "version": 2}
        with database.write() as connection:
            connection.execute(
                update(crontab_table).where(crontab_table.c.name == f"bad-{number}").values(values)
            )
    database.close()
    dcron.run_due()
    tasks = {each["name"]: each for each in dcron.done("list", "--json").json}
    assert (tasks.pop("good")["error"], len(tasks)) == (None, len(SLIPS))
    for number, (_, _, message) in enumerate(SLIPS):
        assert message in tasks[f"bad-{number}"]["error"]
        assert tasks[f"bad-{number}"]["next_run_at"] is None
        assert message in dcron.done("view", f"bad-{number}").out
    assert dcron.done("list").out.count("suspended") == len(SLIPS)
    assert "name=good\n" in dcron.done("export").out


def test_nodes_have_the_keys_of_the_contract_and_say_when_they_are_late(dcron: Dcron) -> None:
    database = open_database(dcron.url)
    crontab = Crontab(database, "tester")
    now = crontab.now()

    def node(name: str, alive_until: datetime, died: str | None = None) -> Node:
        values: dict[str, Any] = dict.fromkeys(each.name for each in fields(Node))
        values |= {"id": f"{name}-00000000", "name": name, "host": "host\x1b[31m", "pid": 1, "slots": 4}
        values |= {"version": "0.1.0", "tzdata": "2026f", "draining": False, "running": 0}
        values |= {"tags": ("ssd", "zone=eu-1"), "queues": ("mail",), "channels": ()}
        values |= {"capacity": {"gpu": 1.0, "cpu": 0.5}}
        values |= {"started_at": now - timedelta(hours=1), "alive_until": alive_until}
        values |= {"died_at": now, "died_how": died} if died else {"clock_offset": 3.25}
        return Node(**values)

    with database.write() as connection:
        nodes.register(connection, node("up", now + timedelta(minutes=1)))
        nodes.register(connection, node("late", now - timedelta(minutes=1)))
        nodes.register(connection, node("gone", now, died="dead"))
    database.close()
    found = {each["name"]: each for each in dcron.done("nodes", "--json").json}
    assert {name: each["state"] for name, each in found.items()} == {
        "up": "alive",
        "late": "late",
        "gone": "dead",
    }
    assert set(NODE_KEYS.split()) <= set(found["up"])
    assert (found["up"]["tags"], found["up"]["queues"]) == (["ssd", "zone=eu-1"], ["mail"])
    assert (found["up"]["capacity"], found["up"]["clock_offset"]) == ({"gpu": 1, "cpu": 0.5}, 3.25)
    assert datetime.fromisoformat(found["up"]["alive_until"]).tzinfo == UTC
    table = dcron.done("nodes").out
    assert "late 1m" in table
    assert "+3.2s" in table
    assert "\x1b" not in table


def test_living_nodes_with_other_time_zones_are_named(dcron: Dcron) -> None:
    database = open_database(dcron.url)
    now = Crontab(database, "tester").now()

    def register(name: str, tzdata: str, digits: str | None, died: str | None = None) -> None:
        values: dict[str, Any] = dict.fromkeys(each.name for each in fields(Node))
        values |= {"id": f"{name}-00000000", "name": name, "host": "host", "pid": 1, "slots": 4}
        values |= {"version": "0.1.0", "tzdata": tzdata, "tzdata_fingerprint": digits, "draining": False}
        values |= {"started_at": now, "alive_until": now + timedelta(minutes=1), "running": 0}
        values |= {"tags": (), "queues": (), "channels": (), "capacity": {}}
        values |= {"died_at": now, "died_how": died} if died else {}
        with database.write() as connection:
            nodes.register(connection, Node(**values))

    register("web-1", "2026f", "aaa")
    register("web-2", "2026f", "aaa")
    register("old", "2025b", "bbb", died="dead")
    assert dcron.done("nodes").err == ""
    register("web-3", "2025b", "ccc")
    register("web-4", "2026f", "ddd")
    database.close()
    shown = dcron.done("nodes", "--json")
    assert {each["name"]: each["tzdata"] for each in shown.json}["web-3"] == "2025b"
    assert "2025b (ccc) on web-3; 2026f (aaa) on web-1, web-2; 2026f (ddd) on web-4" in shown.err
    assert "the node that plans it" in shown.err
    assert "old" not in dcron.done("nodes").err
