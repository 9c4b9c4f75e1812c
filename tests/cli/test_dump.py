"""`dump` and `restore`: one file, written whole, read carefully, and nothing changed without a yes."""

import json
import shutil
from pathlib import Path

import pytest

from tests.support.cli import Dcron, on_terminal


@pytest.fixture
def other(sqlite: Dcron, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of another empty crontab."""
    shutil.copy(sqlite.url.removeprefix("sqlite:///"), tmp_path / "other.db")
    return f"sqlite:///{tmp_path / 'other.db'}"


def fill(dcron: Dcron) -> None:
    dcron.done("add", "-n", "backup", "-e", "TOKEN=s3cret", "30 2 * * *", "backup")
    dcron.done("add", "-n", "rest", "@hourly", "true")
    dcron.done("pause", "rest", "--reason", "disk is full")
    dcron.done("in", "1h", "-n", "later", "true")
    dcron.done("calendar", "add", "holidays", "12-25")
    dcron.done("queue", "set", "mail", "--max-running", "3")
    dcron.done("config", "set", "timezone", "Europe/Berlin")


@pytest.mark.slow
def test_a_dump_is_one_file_for_its_owner_alone_and_comes_back_the_same(
    dcron: Dcron, tmp_path: Path, sqlite: Dcron
) -> None:
    fill(dcron)
    file = tmp_path / "dump.json"
    said = dcron.done("dump", str(file))
    assert (said.out, said.err) == ("", f"{file}: 3 tasks, 1 calendar\n")
    assert file.stat().st_mode & 0o777 == 0o600
    assert dcron.done("dump").out == file.read_text()
    again = sqlite.done("restore", str(file), "--db", f"sqlite:///{tmp_path / 'fresh.db'}")
    assert again.out.splitlines()[-1] == "6 added, 0 changed, 0 unchanged"
    assert sqlite.done("dump", "--db", f"sqlite:///{tmp_path / 'fresh.db'}").out == file.read_text()
    assert not [each.name for each in tmp_path.iterdir() if each.name.startswith(".dump")]


def test_a_dry_run_says_it_all_and_does_nothing(sqlite: Dcron, other: str) -> None:
    fill(sqlite)
    text = sqlite.done("dump").out.encode()
    tried = sqlite.done("--db", other, "restore", "-", "--dry-run", stdin=text).out
    assert "added      task backup" in tried
    assert tried.splitlines()[-1] == "6 would be added, 0 would be changed, 0 unchanged"
    assert sqlite.done("--db", other, "list", "--names").out == ""


def test_what_differs_is_shown_and_refused_without_a_terminal(sqlite: Dcron, other: str) -> None:
    fill(sqlite)
    before = sqlite.done("dump").out
    sqlite.done("set", "backup", "--timeout", "5m")
    sqlite.done("resume", "rest")
    now = sqlite.done("dump").out
    refused = sqlite("restore", "-", stdin=before.encode())
    assert refused.code == 1
    assert "changed    task backup\n  -timeout: 300.0\n  +timeout: null\n" in refused.out
    assert "restore <stdin>: 0 added, 2 changed: nothing was done" in refused.err
    assert sqlite.done("dump").out == now
    done = sqlite.done("restore", "-", "--force", "--json", stdin=before.encode()).json
    assert done["tasks"] == {"added": [], "changed": ["backup", "rest"], "unchanged": ["later"]}
    assert (done["dry_run"], done["not_started"], done["suspended"]) == (False, [], {})
    assert sqlite.done("dump").out == before


@pytest.mark.terminal
@pytest.mark.parametrize(("answer", "code"), [("y\r", 0), ("\r", 1)])
def test_a_person_is_asked(sqlite: Dcron, tmp_path: Path, answer: str, code: int) -> None:
    fill(sqlite)
    sqlite.done("dump", str(tmp_path / "dump.json"))
    sqlite.done("set", "backup", "--timeout", "5m")
    asked = on_terminal(
        "restore", str(tmp_path / "dump.json"), url=sqlite.url, typed=answer, wait_for="[y/N]"
    )
    assert asked.code == code
    assert (sqlite.done("view", "backup", "--json").json["timeout"] is None) is (code == 0)


def test_paused_starts_nothing(sqlite: Dcron, other: str) -> None:
    fill(sqlite)
    text = sqlite.done("dump").out.encode()
    sqlite.done("--db", other, "restore", "-", "--paused", stdin=text)
    listed = sqlite.done("--db", other, "list", "--json").json
    assert {task["next_run_at"] for task in listed} == {None}
    assert {task["paused_reason"] for task in listed} == {"disk is full", "restored with --paused"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"dcron_dump": 1', '"dcron_dump": 2', "format 2, made by a newer dcron; this one reads 1"),
        ('"dcron_dump": 1', '"dcron_dump": "1"', "not a dump of dcron"),
        ('"tries": 1', '"tries": "1"', "task 'backup': tries: \"1\" is not a whole number"),
        ('"tries": 1', '"tries": true', "tries: true is not a whole number"),
        ('"backoff": 1.0', '"backoff": 1e999', "is not a number"),
        ('"once": false', '"once": 0', "once: 0 is not true or false"),
        ('"overlap": "skip"', '"overlap": "jump"', '"jump" is not "skip" or "queue" or "replace"'),
        ('"queue": "default"', '"qeue": "default"', "there is no field 'qeue'"),
        ('"name": "backup"', '"name": "back up"', "cannot be a task's name"),
        ('"name": "backup"', '"name": "later"', "has the task 'later' twice"),
        ('"command": "backup"', '"command": "\\ud800"', "not valid Unicode"),
        ('"command": "backup"', '"command": "\\u0000"', "NUL"),
        ('"annual"', '"anual"', "calendar 'holidays'"),
        ('"mail": 3', '"mail": -1', "queue mail: -1 is not 0 to 1,000,000"),
        ('"Europe/Berlin"\n', '"Europe/Brelin"\n', "setting 'timezone': 'Europe/Brelin' is not a time zone"),
        ('"timezone": "Europe/Berlin"\n', '"tz": 1\n', "there is no setting 'tz'"),
        ('"schedule": "30 2 * * *"', '"schedule": null', "schedule: null is not a text"),
        ('  "schedule": "30 2 * * *",\n', "", "the field schedule is missing"),
        ('"queues"', '"cues"', "part 'cues'"),
    ],
)
def test_a_wrong_file_restores_nothing(sqlite: Dcron, other: str, old: str, new: str, message: str) -> None:
    fill(sqlite)
    text = sqlite.done("dump").out
    assert old in text
    refused = sqlite("--db", other, "restore", "-", "-f", stdin=text.replace(old, new, 1).encode())
    assert (refused.code, message in refused.err, "nothing was restored" in refused.err) == (2, True, True), (
        refused.err
    )
    assert json.loads(sqlite.done("--db", other, "dump").out)["tasks"] == []


def test_a_truncated_file_restores_nothing(sqlite: Dcron, other: str) -> None:
    fill(sqlite)
    text = sqlite.done("dump").out
    for length in range(0, len(text) - 3, 257):
        refused = sqlite("--db", other, "restore", "-", "-f", stdin=text[:length].encode())
        assert (refused.code, "not a whole dump" in refused.err) == (2, True), length
    assert json.loads(sqlite.done("--db", other, "dump").out)["tasks"] == []


def test_a_file_that_cannot_be_written_leaves_the_old_one(sqlite: Dcron, tmp_path: Path) -> None:
    refused = sqlite("dump", str(tmp_path / "no" / "such" / "dump.json"))
    assert (refused.code, "cannot write" in refused.err) == (1, True)
    refused = sqlite("restore", str(tmp_path / "none.json"))
    assert (refused.code, "cannot read" in refused.err) == (2, True)


def test_a_one_off_whose_time_is_past_is_not_started_and_said(sqlite: Dcron, other: str) -> None:
    sqlite.done("in", "1h", "-n", "later", "true")
    document = json.loads(sqlite.done("dump").out)
    task = document["tasks"][0]
    task |= {"schedule": "@at 2026-01-01T00:00:00Z", "next": "2026-01-01T00:00:00Z"}
    restored = sqlite.done("--db", other, "restore", "-", stdin=json.dumps(document).encode())
    assert "the last time of later has passed, so it was not started" in restored.err
    assert sqlite.done("--db", other, "list", "--json").json[0]["next_run_at"] is None
