"""All JSON is what `cli/output/documents.py` says, and so are its documentation and its old names."""

import json
import re
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from dcron import __version__, errors
from dcron.cli import app
from dcron.cli.output import documents
from dcron.cli.running.json_help import page
from dcron.cli.running.verbs import VERBS
from dcron.database import open_database
from dcron.errors import DcronError
from dcron.presentation import alert_message
from dcron.store.alerts import notifications
from dcron.store.nodes import rows as nodes
from scripts import json_table
from tests.support.alerts import insert_alert
from tests.support.cli import Dcron
from tests.support.documents import check
from tests.unit.policy.test_load import node

FORMS = """
list
view nightly
runs
view --run ENDED
logs ENDED
logs -f ENDED
stats
report
alerts
nodes
queue list
channel list
freeze list
hold
config list
calendar list
calendar view holidays
history
lint
info
db url
db init
db upgrade
why nightly
why nightly yesterday 02:00
doctor
preview nightly
preview */7_2_*_*_*
preview --all
forecast
forecast --quiet 1s
ack nightly
emit push
backfill nightly --from 2d --to 1d --dry-run
add -n new @daily date
at -n once 2050-01-01 date
at -n later +9h date
set new --timeout 5m
pause new
resume new
run nightly
run nightly new
retry ENDED
cancel WAITING -f
dead
dead dismiss --all -f
hold nightly --reason audit
unhold nightly
queue set mail --max-running 3
calendar add more 12-25
config set keep.runs 40d
config get keep.runs
config unset keep.runs
drain web-2
undrain web-2
freeze --until 4h --cancel -f
thaw FREEZE
import - --user root --dry-run
diff -F - --source shop/cron --format text --forecast
apply -F - --source shop/cron --format text
dump FILE
db scrub --env TOKEN -f
calendar rm more -f
restore FILE --dry-run
prune --dry-run
edit -f
set new --tries 4
undo new -n
rm new -f
channel test ops
policy check
policy explain nightly
"""
"""A command line for each document and each way to make it; `_` is a blank."""
CODES = {
    **{"Refused": "refused", "UsageError": "usage", "ScheduleError": "schedule", "ZoneError": "zone"},
    **{"CrontabFileError": "file", "DatabaseError": "database", "NotFound": "not-found"},
    **{"NoCalendar": "not-found", "Conflict": "conflict", "ArchiveError": "archive"},
}


@pytest.fixture
def filled(dcron: Dcron, monkeypatch: pytest.MonkeyPatch) -> Dcron:
    """Return `dcron` on a crontab that has one of everything."""
    monkeypatch.setenv("EDITOR", "sed -i s/30m/40m/")
    dcron.done("calendar", "add", "holidays", "12-25", "RRULE:FREQ=MONTHLY;BYMONTHDAY=-1")
    dcron.done("freeze", "--from", "+1d")
    dcron.done("queue", "set", "mail", "--max-running", "2")
    with closing(open_database(dcron.url)) as database, database.write() as connection:
        notifications.add_test(connection, "ops", "ann@desk", database.now(connection))
    dcron.done("add", "-n", "deploy", "@on push", "true")
    dcron.done(
        "add", "-n", "nightly", "-z", "Europe/Berlin", "--timeout", "30m", "*/7 2 * * *", "echo out; exit 3"
    )
    dcron.done("run", "nightly")
    dcron.run_due()
    with closing(open_database(dcron.url)) as database:
        insert_alert(database, datetime.now(UTC))
        with database.write() as connection:
            now = database.now(connection)
            facts: dict[str, Any] = {
                "host": "web-2",
                "pid": 1,
                "version": "1",
                "tzdata": "2027a",
                "started_at": now,
            }
            nodes.register(connection, node("web-2", alive_until=now + timedelta(days=1), **facts))
    return dcron


@pytest.mark.slow
def test_every_verb_prints_its_document(
    filled: Dcron, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dcron.cli.commands.channel._send_by_node", lambda name, db: "web-1")
    verbs, seen = documents.printed(), set()
    for form in FORMS.strip().splitlines():
        words = [_meant(filled, word, tmp_path) for word in form.split()]
        verb = " ".join(words[:2]) if " ".join(words[:2]) in verbs else words[0]
        words.insert(len(verb.partition(" --")[0].split()), "--json")
        answer = filled(*words, stdin=b"#dcron: name=date\n@daily date\n")
        assert answer.out[:1] in ("{", "["), (form, answer)
        kind, is_list = verbs[verb]
        found = json.loads(answer.out) if form != "logs -f ENDED" else _typed(answer.out)
        many = form in ("hold", "unhold nightly", "run nightly new")
        if form != "unhold nightly":
            assert isinstance(found, list) == (is_list or many), form
        for each in found if isinstance(found, list) else [found]:
            check(kind, each)
        seen.add(verb)
    assert seen == verbs.keys()


def _meant(dcron: Dcron, word: str, folder: Path) -> str:
    """Return a word of a form: a file, or the number of a row."""
    ids = {
        "ENDED": ("runs", "--state", "failed"),
        "WAITING": ("runs", "--state", "waiting"),
        "FREEZE": ("freeze", "list"),
    }
    if word in ids:
        return dcron.done(*ids[word], "-o", "name").out.split()[0]
    return str(folder / "dump.json") if word == "FILE" else word.replace("_", " ")


def _typed(text: str) -> list[dict[str, Any]]:
    """Return the objects of a verb that follows, without their types."""
    found = [json.loads(line) for line in text.splitlines()]
    assert {each.pop("type") for each in found} == {"output"}
    return found


def test_every_verb_with_json_has_a_document() -> None:
    with_json = set()
    for name in VERBS:
        verb = app._load(name)
        parts = {name: verb} | {f"{name} {each}": sub for each, sub in getattr(verb, "commands", {}).items()}
        with_json |= {
            words for words, each in parts.items() if any(param.name == "as_json" for param in each.params)
        }
    assert with_json == {words.partition(" --")[0] for words in documents.printed()}


def test_a_name_has_one_type_in_all_documents() -> None:
    types = defaultdict(set)
    for kind in documents.shapes():
        names = [key.name for key in documents.keys(kind)]
        assert len(names) == len(set(names)), kind
        assert not {key.old for key in documents.keys(kind) if key.old} & set(names), kind
        for key in documents.keys(kind):
            types[key.name].add(key.shown_type)
    assert {name for name, found in types.items() if len(found) > 1} == {"id", "failed", "previous"}


def test_old_names_end_with_release_0_3() -> None:
    release = tuple(map(int, re.findall(r"\d+", __version__)[:2]))
    has_old_names = "<" in documents.DOCUMENTS or bool(alert_message.OLD_KEYS)
    assert release < (0, 3) or not has_old_names


def test_the_environment_leaves_old_names_out(sqlite: Dcron) -> None:
    sqlite.done("freeze", "--until", "2h")
    (both,) = sqlite.done("freeze", "list", "--json").json
    assert both["until"] == both["until_at"]
    sqlite.environment["DCRON_JSON"] = "2"
    (found,) = sqlite.done("freeze", "list", "--json").json
    assert {"from", "until"} <= found.keys()
    assert not {"from_at", "until_at"} & found.keys()


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (datetime(2027, 6, 1, 12, 0, 0, 999_999, UTC), "2027-06-01T12:00:00Z"),
        (datetime(2027, 6, 1, 12, tzinfo=timezone(timedelta(hours=2))), "2027-06-01T10:00:00Z"),
        ("2027-06-01T12:00:00.123456Z", "2027-06-01T12:00:00Z"),
    ],
)
def test_times_are_in_whole_seconds(at: datetime | str, text: str) -> None:
    assert documents.time(at) == text


def test_output_has_many_formats(sqlite: Dcron) -> None:
    sqlite.done("add", "-n", "b", "--describe", "x,\x1b[1m", "@daily", "date")
    sqlite.done("add", "-n", "a", "@daily", "date")
    assert sqlite.done("list", "-o", "json").json == sqlite.done("list", "--json").json
    lines = sqlite.done("list", "-o", "jsonl").out.splitlines()
    assert [json.loads(line)["name"] for line in lines] == ["a", "b"]
    assert sqlite.done("list", "-o", "name").out == "a\nb\n" == sqlite.done("list", "--names").out
    title, first, second = sqlite.done("list", "-o", "csv").out.split("\r\n")[:3]
    assert (title.split(",")[:2], first.split(",")[:2]) == (["name", "schedule"], ["a", "@daily"])
    assert '"x,' in second
    assert "\x1b" not in second
    assert "COMMAND" in sqlite.done("list", "-o", "wide").out
    assert sqlite.done("list", "-o", "table").out == sqlite.done("list").out
    run = sqlite.done("run", "a", "-o", "name").out
    assert run in sqlite.done("runs", "-o", "name").out.splitlines(keepends=True)
    assert json.loads(sqlite.done("preview", "a", "-o", "jsonl").out)["occurrences"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("list -o xml", "-o xml: give table, wide, json, jsonl, csv or name"),
        ("list --json -o csv", "give --json or -o csv, not both"),
        ("info -o name", "-o name: info prints no rows with names; -o json prints all it has"),
        ("report -o csv", "-o csv: report prints no rows with names; -o json prints all it has"),
    ],
)
def test_a_wrong_format_is_a_usage_error(sqlite: Dcron, words: str, message: str) -> None:
    answer = sqlite(*words.split())
    assert (answer.code, answer.out) == (2, "")
    assert message in answer.err


def test_the_table_of_the_documentation_is_up_to_date() -> None:
    """`python -m scripts.json_table` writes it."""
    text = json_table.PAGE.read_text()
    assert json_table.written(text) == text


@pytest.mark.parametrize("read", [page, lambda: page("freeze")])
def test_help_fits_a_terminal(read: Callable[[], str]) -> None:
    lines = read().splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80


def test_help_knows_the_documents() -> None:
    assert "until           time, or null (until 0.3 also: until_at)" in page("freeze")
    with pytest.raises(errors.NotFound, match="did you mean freeze"):
        page("freez")


def test_errors_have_codes() -> None:
    found = {name: getattr(errors, name) for name in dir(errors)}
    classes = {
        name: each for name, each in found.items() if isinstance(each, type) and issubclass(each, DcronError)
    }
    assert {name: each.code for name, each in classes.items() if name in CODES} == CODES
    assert {each.code for each in classes.values()} == set(CODES.values())
