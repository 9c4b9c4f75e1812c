"""What the verbs that change tasks print as JSON where nothing differs, and where another user was first."""

import json
from pathlib import Path

import pytest

from tests.support.cli import Dcron


@pytest.fixture
def file(sqlite: Dcron, tmp_path: Path) -> str:
    """A file whose task is in the crontab, imported and applied."""
    path = tmp_path / "shop.cron"
    path.write_text("#dcron: name=backup user=ann\n*/10 * * * * backup\n")
    return str(path)


def test_an_import_that_changes_nothing(sqlite: Dcron, file: str) -> None:
    sqlite.done("import", file)
    again = sqlite.done("import", file, "--json", "-y").json
    assert {key: again[key] for key in ("added", "changed", "unchanged", "accounts", "renamed")} == {
        "added": [],
        "changed": [],
        "unchanged": ["backup"],
        "accounts": {},
        "renamed": {},
    }


def test_an_apply_that_changes_nothing(sqlite: Dcron, file: str) -> None:
    sqlite.done("apply", "-F", file, "--source", "shop")
    again = sqlite.done("apply", "-F", file, "--source", "shop", "--json").json
    lists = ("added", "changed", "removed", "adopted", "extra", "conflicts", "refused", "warnings")
    assert [again[key] for key in lists] == [[]] * len(lists)
    assert (again["unchanged"], again["renamed"], again["batch"]) == (["backup"], {}, None)
    assert (again["obstacle"], again["forecast"], again["dry_run"]) == (None, None, False)


def test_a_restore_that_changes_nothing(sqlite: Dcron, file: str) -> None:
    sqlite.done("import", file)
    text = sqlite.done("dump").out.encode()
    again = sqlite.done("restore", "-", "--json", stdin=text).json
    none: dict[str, list[str]] = {"added": [], "changed": [], "unchanged": []}
    assert again["tasks"] == none | {"unchanged": ["backup"]}
    assert [again[kind] for kind in ("settings", "calendars", "queues")] == [none] * 3
    assert (again["not_started"], again["suspended"], again["dry_run"]) == ([], {}, False)


def test_an_undo_that_changes_nothing_is_refused(sqlite: Dcron) -> None:
    sqlite.done("add", "-n", "a", "@daily", "true")
    sqlite.done("set", "a", "--timeout", "5m")
    change = json.loads(sqlite.done("history", "a", "--json").out)[0]["id"]
    sqlite.done("set", "a", "--clear", "timeout")
    refused = sqlite("undo", "--change", str(change), "--json", "-y")
    assert (refused.code, refused.out) == (1, "")
    assert "there is nothing to undo: all is as it was before" in refused.err


def test_additions_need_no_consent(sqlite: Dcron, file: str, tmp_path: Path) -> None:
    """There is no terminal here: what asks is refused."""
    assert sqlite("import", file).code == 0
    text = sqlite.done("dump").out.encode()
    elsewhere = f"sqlite:///{tmp_path / 'fresh.db'}"
    assert sqlite("--db", elsewhere, "restore", "-", stdin=text).code == 0
    Path(file).write_text("#dcron: name=backup user=ann\n*/20 * * * * backup\n")
    assert sqlite("import", file).code == 1
    sqlite.done("set", "backup", "--timeout", "5m")
    assert sqlite("restore", "-", stdin=text).code == 1
