"""`freeze`, `thaw` and `freezes`."""

from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import update

from dcron.database import open_database
from dcron.schema.tables import runs
from tests.support.cli import Dcron

PROTECTED = """\
[context.prod]
database = "sqlite:///{place}/prod.db"
protected = true
"""


def test_the_crontab_is_frozen_until_it_is_thawed(dcron: Dcron) -> None:
    dcron.done("add", "-n", "backup", "@every 5m", "true")
    frozen = dcron.done("freeze", "--until", "+2h", "--reason", "upgrade", "--json").json
    assert (frozen["state"], frozen["reason"], frozen["cancelled"]) == ("active", "upgrade", [])
    for words in (("list",), ("nodes",), ("view", "backup")):
        assert "upgrade; nothing starts by itself until `dcron thaw 1`" in dcron.done(*words).err
    occurrences = dcron.done("preview", "backup", "-n", "1", "--json").json["occurrences"]
    assert "upgrade" in occurrences[0]["reason"]
    assert occurrences[-1]["reason"] is None
    assert "frozen" in [cause["code"] for cause in dcron.done("why", "backup", "--json").json["causes"]]
    assert [each["id"] for each in dcron.done("freeze", "list", "--json").json] == [1]
    assert "active" in dcron.done("freezes").out
    assert dcron.done("thaw").out == "freeze 1  thawed\n"
    assert "upgrade" not in dcron.done("list").err


def test_a_list_shows_what_a_freeze_holds_back(sqlite: Dcron) -> None:
    sqlite.done("add", "-n", "backup", "@every 1h", "true")
    sqlite.done("freeze", "--until", "+2h", "--reason", "upgrade")
    due = datetime.now(UTC) - timedelta(minutes=10)
    with closing(open_database(sqlite.url)) as database, database.write() as connection:
        connection.execute(update(runs).values(due_at=due, scheduled_for=due))
    (row,) = sqlite.done("list", "--json").json
    assert (row["late"], row["frozen"]) == (False, True)
    assert row["frozen_until"]
    listed = sqlite.done("list")
    assert "frozen" in listed.out.split()
    assert "late" not in listed.out
    assert "upgrade; nothing starts by itself until `dcron thaw 1`" in listed.err
    sqlite.done("thaw")
    assert "frozen" not in sqlite.done("list").out


def test_a_thaw_names_what_it_cannot_end(sqlite: Dcron) -> None:
    assert sqlite("thaw").code == 4
    sqlite.done("freeze")
    sqlite.done("freeze", "--from", "+1h")
    assert sqlite.done("thaw", "2").out == "freeze 2  withdrawn\n"
    assert sqlite("thaw", "2").code == 1
    assert sqlite("thaw", "7").code == 4
    sqlite.done("freeze")
    assert sqlite("thaw").code == 2
    assert "freeze 1 still holds" in sqlite.done("thaw", "3").err


def test_cancel_asks(sqlite: Dcron) -> None:
    answer = sqlite("freeze", "--cancel")
    assert answer.code == 1
    assert "add -y" in answer.err
    assert sqlite("freeze", "list", "--json").json == []
    assert sqlite.done("freeze", "--cancel", "-f", "--json").json["cancelled"] == []
    assert sqlite("freeze", "--cancel", "--from", "+1h").code == 2


def test_a_protected_context_asks_for_its_name(
    sqlite: Dcron, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(PROTECTED.format(place=tmp_path))
    file.chmod(0o600)
    monkeypatch.setenv("DCRON_CONFIG", str(file))
    sqlite.url = ""
    sqlite.done("-c", "prod", "db", "init")
    assert "--confirm prod" in sqlite("-c", "prod", "freeze").err
    sqlite.done("-c", "prod", "freeze", "-f", "--confirm", "prod")


def test_frozen_runs_of_a_preview_are_counted_and_not_listed(sqlite: Dcron) -> None:
    sqlite.done("add", "-n", "tick", "* * * * *", "true")
    sqlite.done("freeze", "--from", "2h", "--until", "1h")
    shown = sqlite.done("preview", "tick", "--until", "4h").out
    assert shown.count("skipped: frozen") == 2
    assert "and 58 more, frozen until " in shown
    sqlite.done("thaw", "1")
    sqlite.done("freeze")
    shown = sqlite.done("preview", "tick", "--until", "1d").out
    assert shown.count("skipped: frozen") == 2
    assert f"      and {24 * 60 - 2:,} more, frozen until `dcron thaw`\n" in shown
    assert "      and others, frozen until `dcron thaw`\n" in sqlite.done("preview", "tick").out


def test_frozen_starts_of_all_tasks_are_counted_and_not_listed(sqlite: Dcron) -> None:
    for name in ("tick", "tock"):
        sqlite.done("add", "-n", name, "* * * * *", "true")
    sqlite.done("freeze", "--from", "2h", "--until", "1h", "--reason", "upgrade")
    shown = sqlite.done("preview", "--all", "--until", "4h").out
    assert shown.count("upgrade") == 2
    assert len([line for line in shown.splitlines() if line.startswith("and 118 more  ")]) == 1
    assert "frozen until " in shown
    listed = sqlite.done("preview", "--all", "--until", "4h", "--json").json["occurrences"]
    assert sum("upgrade" in (each["reason"] or "") for each in listed) == 120
    sqlite.done("thaw", "1")
    sqlite.done("freeze")
    shown = sqlite.done("preview", "--all").out
    assert shown.splitlines()[-1].split() == ["and", "others", "frozen", "until", "`dcron", "thaw`"]


def test_the_end_of_a_freeze_is_after_its_start(sqlite: Dcron) -> None:
    sqlite.done("db", "init")
    frozen = sqlite.done("freeze", "--from", "2099-01-01", "--until", "+2h", "--json").json
    begin, end = (datetime.fromisoformat(frozen[key]) for key in ("from_at", "until_at"))
    assert (begin.year, end - begin) == (2099, timedelta(hours=2))
    assert sqlite.done("freeze", "--until", "20s", "--json").json["state"] == "active"


def test_a_preview_ends_in_a_freeze_without_an_end(sqlite: Dcron) -> None:
    sqlite.done("add", "-n", "tick", "@every 5s", "true")
    sqlite.done("freeze")
    for words in (("tick", "-n", "3"), ("--all", "-n", "3")):
        assert len(sqlite.done("preview", *words, "--json").json["occurrences"]) == 100
