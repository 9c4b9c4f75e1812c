"""No text of a task adds a line to a crontab file or removes one."""

import json

import pytest
from sqlalchemy.exc import DBAPIError

from dcron.crontabfile import BadFile, read, write
from dcron.errors import UsageError
from dcron.model import Definition
from dcron.services.bulk_edit import BulkEdit
from tests.support.stage import Stage

LINE = "* * * * * touch /tmp/injected"
MARKS = [
    "\n",
    "\r",
    "\r\n",
    "\x0b",
    "\x0c",
    "\x1c",
    "\x85",
    "\u2028",
    "\u2029",
    "#",
    "#dcron: ",
    '"',
    "'",
    "\\",
    "%",
]
ONE_LINE = {"schedule": "*/10 * * * *", "timezone": "UTC", "user": "root"}
ONE_LINE |= dict.fromkeys(("except_calendar", "only_calendar"), "days")
TEXTS = {"command": "true", "shell": "/bin/sh", "stdin": "in", "cwd": "/srv", "describe": "It works"}
JSON = {
    "argv": '["true", {0}]',
    "env": '{{"A": {0}}}',
    "require": "[{0}]",
    "need": "{{{0}: 1}}",
    "limit": "{{{0}: 1}}",
}
UNREADABLE = {"schedule", "except_calendar", "only_calendar", "need", "limit"}
"""Where a text that means nothing is refused by the reader, with its line."""
BROKEN = ["UTC\n" + LINE, "UTC\r" + LINE, "UTC\x1f", "UTC\x7f"]


def quoted(value: str) -> str:
    """As JSON."""
    return json.dumps(value)


def hostile(mark: str) -> dict[str, str]:
    """By column, a text with the mark and a line of a crontab behind it."""
    values = {column: f"{value}{mark}{LINE}" for column, value in (ONE_LINE | TEXTS).items()}
    values |= {column: form.format(quoted(f"x{mark}{LINE}")) for column, form in JSON.items()}
    return values | {"env name": f'{{{quoted(f"A{mark}{LINE}")}: "x"}}'}


@pytest.mark.slow
@pytest.mark.parametrize("mark", MARKS, ids=ascii)
def test_no_text_adds_or_loses_a_task(stage: Stage, mark: str) -> None:
    refused: list[str] = []
    for number, (column, value) in enumerate(hostile(mark).items()):
        try:
            stage.insert_task(**{"name": f"hand-{number}", column.removesuffix(" name"): value})
        except DBAPIError:
            refused.append(column)
    assert set(refused) <= set(ONE_LINE)
    stage.task("mine")
    lines = {line.name: line for line in stage.crontab.export_tasks()}
    assert len(lines) == len(hostile(mark)) + 1 - len(refused)
    for number, column in enumerate(hostile(mark)):
        if column not in refused:
            line = lines[f"hand-{number}"]
            assert read_back(line) == ([] if column in UNREADABLE else [(line.name, line.command)]), column


def read_back(line: Definition) -> list[tuple[str, str]]:
    """The names and commands in the export of a task; none where it is refused as a whole."""
    try:
        file = read(write([line]), source="export", timezone="UTC")
    except BadFile:
        return []
    return [(each.name, each.command) for each in file.definitions]


@pytest.mark.parametrize("mark", ["\x85", "\u2028", "#", '"'], ids=ascii)
def test_a_hostile_zone_is_no_part_of_an_edit_of_another_task(stage: Stage, mark: str) -> None:
    stage.task("mine", timezone="Asia/Tokyo")
    stage.insert_task(name="hand", timezone=f"UTC{mark}{LINE}")
    editing = BulkEdit(stage.crontab, "UTC")
    draft = editing.text()
    assert not [line for line in draft.text.split("\n") if line.startswith("* * * * *")]
    changes = editing.check(draft, draft.text.replace("*/10 * * * * true", "*/20 * * * * true"))
    assert [(change.kind, change.name) for change in changes.changes] == [("changed", "mine")]
    editing.apply(changes)
    assert [task.name for task in stage.crontab.tasks()] == ["hand", "mine"]


@pytest.mark.parametrize("column", sorted(ONE_LINE))
@pytest.mark.parametrize("value", BROKEN, ids=ascii)
def test_the_database_refuses_control_characters(stage: Stage, column: str, value: str) -> None:
    with pytest.raises(DBAPIError, match="crontab_one_line"):
        stage.insert_task(**{column: value})


def test_an_account_with_a_line_end_is_refused_with_a_sentence(stage: Stage) -> None:
    with pytest.raises(UsageError, match=r"user: 'ann\\nroot' has a line end"):
        stage.task("mine", user="ann\nroot")
