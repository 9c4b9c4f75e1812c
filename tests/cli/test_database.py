"""`db`, `info`, and database failures: exit code 3, one clear message, and never a password."""

import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import insert, text
from sqlalchemy.engine import make_url

from dcron import __version__
from dcron.database import open_database
from dcron.schema.tables import SCHEMA_VERSION, changes
from tests.support.cli import Dcron, real

READING: tuple[list[str], ...] = (
    ["list"],
    ["runs"],
    ["nodes"],
    ["export"],
    ["view", "x"],
    ["preview", "x"],
    ["list", "--json"],
)
READING += (["lint"], ["calendar", "list"], ["preview", "@daily", "--except", "x"])
WRITING = (["add", "@daily", "ls"], ["in", "1h", "ls"], ["import", "-"], ["calendar", "add", "x", "sat"])


def assert_fails(dcron: Dcron, message: str, *lines: list[str]) -> None:
    for words in lines:
        failed = dcron(*words)
        assert failed.code == 3, (words, failed)
        assert message in failed.err, (words, failed)
        assert failed.err.startswith("dcron: "), words
        assert len(failed.err.splitlines()) == 1, words
        assert failed.out == "", words


def test_init_prepares_an_empty_database_and_a_prepared_one_is_fine(fresh: Dcron) -> None:
    assert "is ready" in fresh.done("db", "init").out
    assert "ready already" in fresh.done("db", "init").out
    assert "already" in fresh.done("db", "upgrade").out


def test_a_sqlite_file_is_made_for_its_owner_alone(sqlite: Dcron) -> None:
    sqlite.done("list")
    assert Path(sqlite.url.removeprefix("sqlite:///")).stat().st_mode & 0o777 == 0o600


def test_the_url_is_shown_without_its_password(dcron: Dcron, monkeypatch: pytest.MonkeyPatch) -> None:
    assert dcron.done("db", "url").out.startswith(("sqlite:///", "postgresql://"))
    dcron.url = "postgresql://me:s3cret@db.example/cron?sslmode=require"
    assert dcron.done("db", "url").out == "postgresql://me:***@db.example/cron?sslmode=require\n"
    assert dcron.done("db", "url", "--json").json == {
        "url": "postgresql://me:***@db.example/cron?sslmode=require"
    }


def test_the_option_goes_before_or_after_the_verb_and_wins(sqlite: Dcron, tmp_path: Path) -> None:
    other = f"sqlite:///{tmp_path / 'other.db'}"
    assert sqlite.done("db", "url", "--db", other).out.strip() == other
    assert sqlite.done("--db", other, "db", "url").out.strip() == other
    sqlite.done("--db", other, "add", "-n", "there", "@daily", "ls")
    assert sqlite.done("list", "--names", "--db", other).out == "there\n"
    assert sqlite.done("list", "--names").out == ""


def test_the_config_file_names_the_database_where_nothing_else_does(
    sqlite: Dcron, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "config.toml").write_text(f'database = "sqlite:///{tmp_path / "configured.db"}"\n')
    monkeypatch.setenv("DCRON_CONFIG", str(tmp_path / "config.toml"))
    sqlite.url = ""
    assert "configured.db" in sqlite.done("db", "url").out
    sqlite.done("db", "init")
    assert sqlite.done("info", "--json").json["config_file"] == str(tmp_path / "config.toml")
    assert sqlite.done("info", "--json").json["database_from"] == str(tmp_path / "config.toml")
    assert (
        sqlite.done("info", "--json", "--db", f"sqlite:///{tmp_path}/configured.db").json["database_from"]
        == "--db"
    )
    monkeypatch.setenv("DCRON_CONFIG", str(tmp_path / "none.toml"))
    assert sqlite("list").code == 2


def test_info_shows_yes_no_and_times_as_people_read_them(dcron: Dcron) -> None:
    dcron.done("db", "init")
    database = open_database(dcron.url)
    with database.write() as connection:
        values = {"actor": "web-1", "action": "epoch", "kind": "database", "after": {"reason": "rollback"}}
        connection.execute(insert(changes).values(at=datetime(2027, 6, 1, tzinfo=UTC), **values))
    database.close()
    shown = dcron.done("info").out
    assert "True" not in shown
    assert "False" not in shown
    assert ("2027-06-01 00:00:00 UTC" in shown, "2027-06-01T" in shown) == (True, False)


def test_info_shows_the_database(dcron: Dcron) -> None:
    dcron.done("add", "@daily", "ls")
    info = dcron.done("info", "--json").json
    assert (info["version"], info["schema"], info["tasks"]) == (__version__, SCHEMA_VERSION, 1)
    assert info["nodes_alive"] == 0
    assert info["database_kind"] in ("SQLite", "PostgreSQL")
    assert info["database_version"][0].isdigit()
    assert (info["journal_mode"] is None) is (info["database_kind"] == "PostgreSQL")
    is_postgres = info["database_kind"] == "PostgreSQL"
    assert info["synchronous_replication"] == ("off" if is_postgres else None)
    assert info["synchronous_standby_names"] == ("" if is_postgres else None)
    assert info["synchronous_commit"] == ("on" if is_postgres else None)
    assert info["last_epoch_at"] is info["last_epoch_reason"] is info["clock_set_back_at"] is None
    assert info["tzdata"].startswith("20")
    assert "tasks" in dcron.done("info").out


@pytest.mark.parametrize(
    "url",
    [
        "mysql://me:s3cret@host/db",
        "postgresql://me:s3cret@host:port/db",
        "postgresql//me:s3cret@host/db",
        "nonsense",
        "sqlite://",
        "sqlite:///:memory:",
    ],
)
def test_a_url_that_is_none_is_wrong_usage(sqlite: Dcron, url: str) -> None:
    sqlite.url = url
    for words in (["list"], ["info"], ["db", "url"], ["add", "@daily", "ls"]):
        refused = sqlite(*words)
        assert refused.code == 2, words
        assert "s3cret" not in refused.err + refused.out


@pytest.mark.slow
def test_an_unreachable_postgres(sqlite: Dcron) -> None:
    sqlite.url = "postgresql://me:s3cret@127.0.0.1:1/cron"
    with ThreadPoolExecutor(1) as pool:
        starting = pool.submit(
            real, "agent", "--once", "--lease", "6s", url=sqlite.url
        )  # it waits a little, so meanwhile:
        assert_fails(sqlite, "cannot reach", *READING, *WRITING, ["db", "init"], ["db", "upgrade"])
        info = sqlite("info", "--json")
        assert (info.code, info.json["database_version"], info.json["tzdata"][:2]) == (3, None, "20")
        agent = starting.result()
    assert agent.code == 3
    for answer in (info, agent):
        assert "s3cret" not in answer.out + answer.err


def test_a_wrong_password_and_a_missing_database_of_postgres(dcron: Dcron) -> None:
    url = make_url(dcron.url)
    if url.get_backend_name() == "sqlite":
        pytest.skip("a file has neither")
    dcron.url = url.set(database="no_such_database", password="s3cret").render_as_string(hide_password=False)
    assert_fails(dcron, "no_such_database", ["list"], ["db", "init"])
    dcron.url = url.set(username="nobody_here", password="s3cret").render_as_string(hide_password=False)
    failed = dcron("list")
    assert (failed.code, "s3cret" in failed.err) == (3, False)


@pytest.mark.slow
def test_a_locked_database(sqlite: Dcron, monkeypatch: pytest.MonkeyPatch) -> None:
    sqlite.done("add", "-n", "x", "@daily", "ls")
    monkeypatch.setenv("DCRON_PATIENCE", "0.2s")
    holder = sqlite3.connect(sqlite.url.removeprefix("sqlite:///"), isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    assert_fails(
        sqlite, "locked", *WRITING[:2], ["run", "x"], ["rm", "-f", "x"], ["set", "x", "--timeout", "5m"]
    )
    holder.execute("ROLLBACK")
    holder.close()
    sqlite.done("run", "x")
    monkeypatch.setenv("DCRON_PATIENCE", "long")
    assert sqlite("list").code == 2


def test_a_full_database(sqlite: Dcron, monkeypatch: pytest.MonkeyPatch) -> None:
    from dcron.database import files

    sqlite.done("db", "init")
    set_up = files.set_up

    def leave_no_room(connection: sqlite3.Connection, **given: bool) -> None:
        set_up(connection, **given)
        connection.execute("PRAGMA max_page_count = 1")

    monkeypatch.setattr(files, "set_up", leave_no_room)
    assert_fails(sqlite, "full", ["add", "--stdin", "x" * 100_000, "@daily", "ls"])
    assert sqlite.done("list", "--json").json == []


def test_a_damaged_database(sqlite: Dcron) -> None:
    sqlite.done("add", "-n", "x", "@daily", "ls")
    path = Path(sqlite.url.removeprefix("sqlite:///"))
    whole = path.read_bytes()
    path.write_bytes(b"this is not a database, however long it is" * 100)
    assert_fails(sqlite, "not a SQLite database", *READING, *WRITING[:2], ["db", "init"], ["db", "upgrade"])
    path.write_bytes(whole[:4096] + os.urandom(len(whole) - 4096))
    failed = sqlite("list")
    assert failed.code == 3
    assert "Traceback" not in failed.err


def test_a_read_only_database(sqlite: Dcron, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite says the same of a file without write permission, which never stops root."""
    from dcron.database import files

    sqlite.done("add", "-n", "x", "@daily", "ls")
    set_up = files.set_up

    def forbid_writing(connection: sqlite3.Connection, **given: bool) -> None:
        set_up(connection, **given)
        connection.execute("PRAGMA query_only = ON")

    monkeypatch.setattr(files, "set_up", forbid_writing)
    assert_fails(sqlite, "read-only", *WRITING[:2], ["run", "x"], ["rm", "-f", "x"], ["pause", "x"])
    assert sqlite.done("list", "--names").out == "x\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "message"), [("0000", "dcron dump FILE"), ("9999", "upgrade dcron here")]
)
def test_tables_of_another_version(dcron: Dcron, version: str, message: str) -> None:
    dcron.done("db", "init")
    database = open_database(dcron.url)
    with database.write() as connection:
        connection.execute(text(f"UPDATE dcron_version SET version_num = '{version}'"))
    database.close()
    assert_fails(dcron, message, *READING, *WRITING, ["db", "init"], ["db", "upgrade"], ["pause", "x"])
    info = dcron("info", "--json")
    assert (info.code, info.json["schema"], info.json["tasks"]) == (3, version, None)
    assert message in info.err
    assert real("agent", "--once", url=dcron.url).code == 3


def test_tables_of_an_older_version_that_is_known_ask_for_an_upgrade(
    dcron: Dcron, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dcron import migrations

    dcron.done("db", "init")
    monkeypatch.setattr(migrations, "SCHEMA_VERSION", "8888")
    assert_fails(dcron, "dcron db upgrade", *READING, *WRITING)


def test_tables_that_are_not_ours_are_left_alone(fresh: Dcron) -> None:
    database = open_database(fresh.url)
    with database.write() as connection:
        if not database.is_sqlite:
            connection.execute(text("CREATE SCHEMA dcron"))
        connection.execute(text("CREATE TABLE crontab (mine INTEGER)"))
    database.close()
    assert_fails(fresh, "not dcron's", ["list"], ["db", "init"], ["db", "upgrade"])


def test_a_missing_directory_that_was_named_is_not_made(
    sqlite: Dcron, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    for directory in ("file", "missing"):
        sqlite.url = f"sqlite:///{tmp_path / directory / 'dcron.db'}"
        assert_fails(sqlite, f"there is no directory {tmp_path / directory}", *WRITING[:2], ["db", "init"])
        assert_fails(sqlite, f"there is no crontab at {tmp_path / directory}", ["list"])
    assert not (tmp_path / "missing").exists()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    sqlite.url = ""
    sqlite.done("list")
    assert (tmp_path / "data" / "dcron" / "dcron.db").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "data" / "dcron").stat().st_mode & 0o777 == 0o700


def test_a_verb_that_only_reads_or_acts_on_a_name_creates_no_file(sqlite: Dcron, tmp_path: Path) -> None:
    path = tmp_path / "mistyped.db"
    sqlite.url = f"sqlite:///{path}"
    reading = [words for words in READING if words[0] != "lint"]
    acting = (["rm", "-f", "x"], ["pause", "x"], ["run", "x"], ["drain", "x"], ["db", "upgrade"])
    message = f"there is no crontab at {path}; `dcron db init` makes one, and so does `dcron add`"
    assert_fails(sqlite, message, *reading, *acting, ["lint"], ["emit", "x"], ["config", "list"])
    info = sqlite("info")
    assert (info.code, message in info.err) == (3, True)
    assert not path.exists()


@pytest.mark.parametrize(
    "words", [["add", "@daily", "ls"], ["in", "1h", "ls"], ["calendar", "add", "x", "sat"]]
)
def test_a_verb_that_creates_a_file_says_so(sqlite: Dcron, tmp_path: Path, words: list[str]) -> None:
    path = tmp_path / "new.db"
    sqlite.url = f"sqlite:///{path}"
    assert f"created the crontab {path}\n" in sqlite.done(*words).err
    assert "created" not in sqlite.done("add", "@daily", "again").err


@pytest.mark.slow
def test_an_agent_that_creates_a_file_says_so(sqlite: Dcron, tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    agent = real("agent", "--once", url=f"sqlite:///{path}", DCRON_SPOOL=str(tmp_path / "spool"))
    assert (agent.code, f"created the crontab {path}\n" in agent.err) == (0, True)
    assert "ended: 0 runs" in agent.err


def test_a_sqlite_url_with_something_unknown_is_refused(sqlite: Dcron) -> None:
    sqlite.url += "?foo=1"
    refused = sqlite("list")
    assert (refused.code, refused.out) == (2, "")
    assert "this one has 'foo'" in refused.err
