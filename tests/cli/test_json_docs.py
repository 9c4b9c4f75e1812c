"""docs/cli.md lists the keys of the JSON documents, and no others."""

import re
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dcron.database import Database
from dcron.store import notifications
from tests.support.alerts import insert_alert
from tests.support.cli import Dcron

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text().partition("## JSON")[2]

DOCUMENTS = {
    "task": ("list",),
    "run": ("runs",),
    "stats": ("stats",),
    "report": ("report",),
    "change": ("history",),
    "alert": ("alerts",),
    "channel": ("channel", "list"),
    "queue": ("queue", "list"),
    "node": ("nodes",),
    "freeze": ("freezes",),
    "calendar": ("calendar", "list"),
    "setting": ("config", "list"),
    "lint": ("lint",),
    "info": ("info",),
    "emit": ("emit", "push"),
    "backfill": ("backfill", "nightly", "--from", "2d", "--to", "1d", "--dry-run"),
    "preview": ("preview", "nightly"),
    "forecast": ("forecast",),
    "quiet": ("quiet", "1s"),
    "why": ("why", "nightly"),
    "db url": ("db", "url"),
    "import": ("import", "-", "--user", "root"),
    "apply": ("apply", "-F", "-", "--source", "shop/cron"),
}


@pytest.mark.slow
def test_the_keys_of_each_document_are_those_of_the_page(sqlite: Dcron) -> None:
    _fill(sqlite)
    shown = {}
    for document, words in DOCUMENTS.items():
        as_json = ("--format", "json") if document == "report" else ("--json",)
        found = sqlite(*words, *as_json, stdin=b"#dcron: name=date\n@daily date\n").json
        shown[document] = set(found[0] if isinstance(found, list) else found)
    assert shown == {document: _documented(document) for document in DOCUMENTS}


def _fill(dcron: Dcron) -> None:
    """Make a task, a run, a node, a calendar and a queue, and something that `lint` reports."""
    dcron.done("calendar", "add", "holidays", "12-25", "RRULE:FREQ=MONTHLY;BYMONTHDAY=-1")
    dcron.done("freeze", "--from", "+1d")
    dcron.done("queue", "set", "mail", "--max-running", "2")
    with closing(Database(dcron.url)) as database, database.write() as connection:
        notifications.add_test(connection, "ops", "ann@desk", database.now(connection))
    dcron.done("add", "-n", "deploy", "@on push", "true")
    dcron.done("add", "-n", "nightly", "-z", "Europe/Berlin", "*/7 2 * * *", "exit 3")
    dcron.done("run", "nightly")
    dcron.run_due()
    database = Database(dcron.url)
    insert_alert(database, datetime.now(UTC))
    database.close()


def _documented(document: str) -> set[str]:
    """Return the keys in the first code after `**document**`: words, or the top level of an object."""
    match = re.search(rf"\*\*{document}\*\*(?: \([^)]*\))?: (?:an array of )?`([^`]*)`", PAGE)
    assert match, document
    keys = match[1]
    if not keys.startswith("{"):
        return set(keys.split())
    flat = keys[1:-1]
    while (shorter := re.sub(r"[\[{][^\[\]{}]*[\]}]", "", flat)) != flat:
        flat = shorter
    return set(re.findall(r'"(\w+)"', flat))
