"""`lint`: the shared crontab, and files before they are imported."""

from pathlib import Path

import pytest
from sqlalchemy import text

from dcron.database import open_database
from tests.support.cli import Dcron

CODES = {"task", "code", "message"}


def test_a_clean_crontab_is_0(dcron: Dcron) -> None:
    assert dcron.done("lint", "--json").json == []
    dcron.done("add", "-n", "fine", "30 2 * * *", "x")
    clean = dcron.done("lint")
    assert (clean.out, clean.err) == ("", "no warnings\n")


@pytest.mark.slow
def test_what_is_doubtful_is_shown_by_task_and_for_all_of_them(dcron: Dcron) -> None:
    dcron.done(
        "import",
        "-",
        "--user",
        "root",
        stdin="".join(f"0 9 * * * echo {number}\n" for number in range(12)).encode(),
    )
    dcron.done("add", "-n", "sevens", "-z", "UTC", "*/7 * * * *", "x")
    dcron.done("add", "-n", "either", "0 9 1 * mon", "x")
    dcron.done("pause", "either")
    found = dcron("lint", "--json")
    assert found.code == 1
    assert all(set(each) == CODES for each in found.json)
    assert {(each["task"], each["code"]) for each in found.json} == {
        ("either", "day-or-weekday"),
        ("sevens", "uneven-step"),
        (None, "same-minute"),
    }
    shown = dcron("lint")
    assert shown.code == 1
    assert "sevens: minute */7 does not divide 60" in shown.out
    assert "12 tasks start at " in shown.out
    assert "H in place of the minute" in shown.out
    assert "3 warnings" in shown.err


def test_an_order_that_can_never_be_is_shown(sqlite: Dcron) -> None:
    for name, schedule in (("a", "0 0 1 1 *"), ("b", "@after a"), ("c", "@after b"), ("last", "@after c")):
        sqlite.done("add", "-n", name, schedule, "x")
    database = open_database(sqlite.url)
    with database.write() as connection:
        connection.execute(text("UPDATE crontab SET schedule = '@after b' WHERE name = 'a'"))
        connection.execute(text("UPDATE crontab SET schedule = '@after b,nix' WHERE name = 'last'"))
    database.close()
    found = {each["code"]: (each["task"], each["message"]) for each in sqlite("lint", "--json").json}
    assert found["no-upstream"] == ("last", "@after nix: there is no such task, so it never runs")
    task, message = found["circle"]
    assert (task, message) in [
        (None, f"these tasks wait for each other: {way}") for way in ("a -> b -> a", "b -> a -> b")
    ]


def test_the_rules_and_the_error_of_a_task_count(sqlite: Dcron) -> None:
    sqlite.done("calendar", "add", "soon", "01-01")
    for name in ("over", "lost", "gone"):
        sqlite.done("add", "-n", name, "-z", "UTC", "--only", "soon", "0 9 1 1 *", "x")
    sqlite.done("calendar", "add", "-f", "soon", "2020-01-01")
    database = open_database(sqlite.url)
    with database.write() as connection:
        connection.execute(
            text("UPDATE crontab SET only_calendar = NULL, error = 'no\x1b way' WHERE name = 'gone'")
        )
        connection.execute(text("UPDATE crontab SET only_calendar = 'nix' WHERE name = 'lost'"))
    database.close()
    found = {each["task"]: (each["code"], each["message"]) for each in sqlite("lint", "--json").json}
    assert found["over"][0] == "never-fires"
    assert found["lost"] == ("no-calendar", "there is no calendar 'nix', so every run is skipped")
    assert found["gone"] == ("suspended", "no\x1b way")
    shown = sqlite("lint")
    assert "\x1b" not in shown.out
    assert "gone: no" in shown.out


def test_a_one_off_that_is_past_is_no_mistake(sqlite: Dcron) -> None:
    sqlite.done("in", "1s", "exit 3")
    database = open_database(sqlite.url)
    with database.write() as connection:
        connection.execute(text("UPDATE crontab SET schedule = '@at 2020-01-01T00:00Z'"))
    database.close()
    assert sqlite.done("lint", "--json").json == []


def test_a_file_is_checked_line_by_line_without_a_database(sqlite: Dcron, tmp_path: Path) -> None:
    file = tmp_path / "crontab"
    file.write_text("30 2 * * * fine\nMAILTO=ops\n* 3 * * * thrice\n0 0 30 2 * never\n@after warm warm\n")
    sqlite.url = "postgresql://nobody@127.0.0.1:1/none"
    found = sqlite("lint", str(file), "--json")
    assert found.code == 1
    assert [(each["line"], each["task"], each["code"]) for each in found.json] == [
        (2, None, "crontab-line"),
        (3, "thrice", "every-minute-of-hour"),
        (4, "never", "never-fires"),
        (5, "warm", "not-runnable"),
    ]
    assert f"{file}:3: thrice: runs every minute from 03:00" in sqlite("lint", str(file)).out
    assert sqlite("lint", "-", stdin=b"0 9 * * * ls\n").code == 0
    many = b"".join(b"0 9 * * * echo %d\n" % number for number in range(11))
    assert [each["line"] for each in sqlite("lint", "-", "--json", stdin=many).json] == [None]


def test_accounts_and_files_that_cannot_be_read(sqlite: Dcron, tmp_path: Path) -> None:
    file = tmp_path / "bad"
    file.write_text("0 9 * * * root ls\n")
    assert sqlite("lint", "--system", str(file)).code == 0
    assert sqlite("lint", str(file)).code == 1  # an account in a file without accounts
    file.write_text("0 9 * * * ls\n99 * * * * x\n")
    refused = sqlite("lint", str(file))
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith(f"{file}:2:1: ")
    assert "imported" not in refused.err
    assert sqlite("lint", str(tmp_path / "none")).code == 2
    assert sqlite("lint", "--system").code == 2
    labelled = sqlite("lint", "-l", "team=shop", str(file))
    assert (labelled.code, "a file takes no -l" in labelled.err) == (2, True)


def test_a_directory_is_checked_as_a_whole(sqlite: Dcron, tmp_path: Path) -> None:
    (tmp_path / "a.cron").write_text("#dcron: name=fine\n0 9 * * * x\n#dcron: name=thrice\n* 3 * * * x\n")
    (tmp_path / "b.json").write_text('[{"name": "never", "schedule": "0 0 30 2 *", "command": "x"}]')
    (tmp_path / "c.toml").write_text('[task.bad]\nschedule = "@daily"\ncommand = "x"\nshell = "sh"\n')
    found = sqlite("lint", str(tmp_path), "--json")
    assert found.code == 1
    assert [(each["file"], each["line"], each["task"], each["code"]) for each in found.json[1:]] == [
        (f"{tmp_path}/a.cron", 4, "thrice", "every-minute-of-hour"),
        (f"{tmp_path}/b.json", 1, "never", "never-fires"),
        (f"{tmp_path}/c.toml", 1, "bad", "not-runnable"),
    ]
    assert f"{tmp_path}/b.json:1: never: " in sqlite("lint", str(tmp_path)).out
    assert found.json[0]["file"] == str(tmp_path)
    assert found.json[0]["line"] is None
    (tmp_path / "a.cron").write_text("0 9 * * * x\n")
    (tmp_path / "c.toml").write_text("[task.bad]\n")
    refused = sqlite("lint", str(tmp_path))
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == (
        f"{tmp_path}/a.cron:1: the task has no name; write this line above it: #dcron: name=x\n"
        f"{tmp_path}/c.toml:1: bad: there is no schedule\n"
        f"{tmp_path}/c.toml:1: bad: there is no command\n"
    )


def test_stdin_is_of_the_format_that_is_named_or_seen(sqlite: Dcron) -> None:
    toml = b'task.a = {schedule = "@daily", command = "x"}'
    assert sqlite("lint", "-", stdin=toml).code == 0  # an assignment of a crontab
    bad = b'task.a = {schedule = "@daily"}'
    refused = sqlite("lint", "-", "--format", "toml", stdin=bad)
    assert (refused.code, refused.err) == (2, "<stdin>:1: a: there is no command\n")
    assert sqlite("lint", "-", stdin=b'[{"name": "a"}]').code == 2
    assert sqlite("lint", "--format", "json").code == 2


def test_tasks_of_a_file_that_wait_for_each_other_are_reported(sqlite: Dcron) -> None:
    tasks = b"#dcron: name=a\n@after b,elsewhere x\n#dcron: name=b\n@after a x\n"
    found = sqlite("lint", "-", "--json", stdin=tasks)
    assert [(each["task"], each["code"], each["line"]) for each in found.json] == [(None, "circle", None)]
